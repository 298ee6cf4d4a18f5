//! Finds a program in PATH, as execvp would, and remembers where it was, as a shell does.
//!
//! What was found counts until it cannot be executed there any more, until a task of the run has
//! made a file of that name, or until commands start in another folder. So what appears earlier in
//! PATH by other ways is not seen while the program that was found is still there; bash and dash
//! behave so, too. What was not found is not remembered: each command of that name looks again. It
//! executes nothing, and knows no tasks.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::operations;

/// Maximum number of programs that are remembered. With more of them, as when PATH has relative parts and each command
/// a folder of its own, all are forgotten and looked for again.
const REMEMBERED_MAX: usize = 1000;

/// What a command's first word is looked up by.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The word.
    pub name: &'a [u8],
    /// The value of PATH.
    pub search_path: &'a [u8],
    /// Where the command runs. `None`: where this process is.
    pub directory: Option<&'a Path>,
}

/// Where a program is executed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file; relative where its folder stands so in PATH.
    pub path: PathBuf,
    /// It was found for an earlier command, and not looked at for this one.
    pub remembered: bool,
}

/// Where programs were found.
#[derive(Debug, Default)]
pub struct Programs {
    /// By name. Nearly always one place.
    found: BTreeMap<Vec<u8>, Vec<FoundProgram>>,
    /// Places in all.
    count: usize,
}

#[derive(Debug)]
struct FoundProgram {
    search_path: Vec<u8>,
    /// PATH has a relative part, so that it matters where the command runs.
    is_relative: bool,
    directory: Option<PathBuf>,
    path: PathBuf,
}

impl FoundProgram {
    fn is_for(&self, wanted: &Wanted<'_>) -> bool {
        self.search_path == wanted.search_path
            && (!self.is_relative || self.directory.as_deref() == wanted.directory)
    }
}

impl Programs {
    /// Where the program is executed from, looked for unless it is remembered. `None`: command not found.
    pub fn find(&mut self, wanted: &Wanted<'_>) -> Option<Found> {
        let known = self.found.get(wanted.name);
        let place = known.into_iter().flatten().find(|place| place.is_for(wanted));
        if let Some(place) = place {
            return Some(Found { path: place.path.clone(), remembered: true });
        }
        let path = find_program(wanted)?;
        if !wanted.name.contains(&b'/') {
            self.remember(wanted, &path);
        }
        Some(Found { path, remembered: false })
    }

    /// The same, looked for in any case: what was remembered could not be executed.
    pub fn look_up(&mut self, wanted: &Wanted<'_>) -> Option<Found> {
        self.drop_place(wanted);
        self.find(wanted)
    }

    fn drop_place(&mut self, wanted: &Wanted<'_>) {
        if let Some(places) = self.found.get_mut(wanted.name) {
            let before = places.len();
            places.retain(|place| !place.is_for(wanted));
            self.count -= before - places.len();
        }
    }

    /// A program of that name is looked for again.
    pub fn forget(&mut self, name: &[u8]) {
        self.count -= self.found.remove(name).map_or(0, |places| places.len());
    }

    /// All are looked for again.
    pub fn forget_all(&mut self) {
        *self = Self::default();
    }

    fn remember(&mut self, wanted: &Wanted<'_>, path: &Path) {
        if self.count >= REMEMBERED_MAX {
            self.forget_all();
        }
        let place = FoundProgram {
            search_path: wanted.search_path.to_vec(),
            is_relative: has_relative_part(wanted.search_path),
            directory: wanted.directory.map(Path::to_path_buf),
            path: path.to_path_buf(),
        };
        self.found.entry(wanted.name.to_vec()).or_default().push(place);
        self.count += 1;
    }
}

/// An empty part means the folder where the command runs.
fn has_relative_part(search_path: &[u8]) -> bool {
    search_path.split(|byte| *byte == b':').any(|folder| !folder.starts_with(b"/"))
}

/// Where a program is executed from. A name with a slash is taken as it is; otherwise the first
/// executable file of that name in PATH. `None`: command not found.
pub fn find_program(wanted: &Wanted<'_>) -> Option<PathBuf> {
    let name = wanted.name;
    if name.is_empty() {
        return None;
    }
    if name.contains(&b'/') {
        return Some(PathBuf::from(OsString::from_vec(name.to_vec())));
    }
    for folder in wanted.search_path.split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        let mut candidate = Vec::with_capacity(folder.len() + name.len() + 1);
        candidate.extend_from_slice(folder);
        candidate.push(b'/');
        candidate.extend_from_slice(name);
        let candidate = Path::new(OsStr::from_bytes(&candidate));
        let seen_from_here = match wanted.directory {
            Some(directory) if !candidate.is_absolute() => directory.join(candidate),
            _ => candidate.to_path_buf(),
        };
        operations::count(&seen_from_here, 1);
        if accessat(CWD, &seen_from_here, Access::EXEC_OK, AtFlags::empty()).is_ok()
            && is_file(&seen_from_here)
        {
            return Some(candidate.to_path_buf());
        }
    }
    None
}

fn is_file(path: &Path) -> bool {
    operations::count(path, 1);
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// Two folders of a PATH, removed at the end.
    struct Folders(PathBuf);

    impl Folders {
        fn new(name: &str) -> Self {
            let base =
                std::env::temp_dir().join(format!("rakuda-lookup-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&base);
            for folder in ["first", "second"] {
                fs::create_dir_all(base.join(folder)).unwrap();
            }
            Self(base)
        }

        fn path(&self) -> Vec<u8> {
            let [first, second] = ["first", "second"].map(|folder| self.0.join(folder));
            format!("{}:{}", first.display(), second.display()).into_bytes()
        }

        fn make(&self, file: &str, mode: u32) -> PathBuf {
            let path = self.0.join(file);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Folders {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn wanted<'a>(name: &'a [u8], search_path: &'a [u8]) -> Wanted<'a> {
        Wanted { name, search_path, directory: None }
    }

    fn looked_up(path: PathBuf) -> Found {
        Found { path, remembered: false }
    }

    fn remembered(path: PathBuf) -> Found {
        Found { path, remembered: true }
    }

    #[test]
    fn a_program_is_found_in_the_first_folder_that_has_it_and_remembered() {
        let mut programs = Programs::default();
        let sh = wanted(b"sh", b"/nonexistent:/bin:/usr/bin");
        assert_eq!(programs.find(&sh), Some(looked_up("/bin/sh".into())));
        assert_eq!(programs.find(&sh), Some(remembered("/bin/sh".into())));
    }

    #[test]
    fn a_folder_is_no_program_and_what_is_not_found_is_looked_for_again() {
        let folders = Folders::new("none");
        let (path, mut programs) = (folders.path(), Programs::default());
        assert_eq!(programs.find(&wanted(b"bin", b"/usr")), None);
        assert_eq!(programs.find(&wanted(b"", &path)), None);
        assert_eq!(programs.find(&wanted(b"tool", &path)), None);
        let made = folders.make("second/tool", 0o755);
        assert_eq!(programs.find(&wanted(b"tool", &path)), Some(looked_up(made)));
    }

    #[test]
    fn a_name_with_a_slash_is_neither_looked_up_nor_remembered() {
        let mut programs = Programs::default();
        for _ in 0..2 {
            assert_eq!(programs.find(&wanted(b"./x", b"/bin")), Some(looked_up("./x".into())));
        }
    }

    #[test]
    fn what_appears_earlier_is_seen_when_it_is_said_to_be_made() {
        let folders = Folders::new("made");
        let (path, mut programs) = (folders.path(), Programs::default());
        let tool = wanted(b"tool", &path);
        let second = folders.make("second/tool", 0o755);
        assert_eq!(programs.find(&tool), Some(looked_up(second.clone())));
        let first = folders.make("first/tool", 0o755);
        assert_eq!(programs.find(&tool), Some(remembered(second)), "as in a shell");
        programs.forget(b"other");
        assert!(programs.find(&tool).unwrap().remembered);
        programs.forget(b"tool");
        assert_eq!(programs.find(&tool), Some(looked_up(first)));
    }

    #[test]
    fn what_was_removed_or_may_not_be_executed_any_more_is_found_elsewhere_or_nowhere() {
        let folders = Folders::new("gone");
        let (path, mut programs) = (folders.path(), Programs::default());
        let tool = wanted(b"tool", &path);
        let [first, second] = ["first/tool", "second/tool"].map(|file| folders.make(file, 0o755));
        assert_eq!(programs.find(&tool), Some(looked_up(first.clone())));
        // Replaced by what is no program.
        folders.make("first/tool", 0o644);
        assert_eq!(programs.look_up(&tool), Some(looked_up(second.clone())));
        assert_eq!(programs.find(&tool), Some(remembered(second.clone())));
        fs::remove_file(&second).unwrap();
        assert_eq!(programs.look_up(&tool), None);
        assert_eq!(programs.find(&tool), None);
        folders.make("first/tool", 0o755);
        assert_eq!(programs.find(&tool), Some(looked_up(first)));
    }

    #[test]
    fn another_path_has_places_of_its_own() {
        let folders = Folders::new("path");
        let mut programs = Programs::default();
        let [first, second] = ["first/tool", "second/tool"].map(|file| folders.make(file, 0o755));
        let path = folders.path();
        let alone = folders.0.join("second").into_os_string().into_vec();
        assert_eq!(programs.find(&wanted(b"tool", &path)), Some(looked_up(first.clone())));
        assert_eq!(programs.find(&wanted(b"tool", &alone)), Some(looked_up(second.clone())));
        assert_eq!(programs.find(&wanted(b"tool", &path)), Some(remembered(first)));
        assert_eq!(programs.find(&wanted(b"tool", &alone)), Some(remembered(second)));
    }

    #[test]
    fn a_relative_part_of_the_path_counts_for_each_folder_and_an_absolute_one_for_all() {
        let folders = Folders::new("relative");
        folders.make("first/tool", 0o755);
        let mut programs = Programs::default();
        for (search_path, place) in
            [(&b".:/nonexistent"[..], "./tool"), (b"/nonexistent:", "./tool")]
        {
            let [first, second] = ["first", "second"].map(|folder| folders.0.join(folder));
            let here = Wanted { name: b"tool", search_path, directory: Some(&first) };
            let there = Wanted { directory: Some(&second), ..here };
            assert_eq!(programs.find(&here), Some(looked_up(place.into())));
            assert_eq!(programs.find(&there), None);
            assert_eq!(programs.find(&here), Some(remembered(place.into())));
        }
        let sh = wanted(b"sh", b"/bin");
        programs.find(&sh);
        let elsewhere = Wanted { directory: Some(&folders.0), ..sh };
        assert_eq!(programs.find(&elsewhere), Some(remembered("/bin/sh".into())));
        programs.forget_all();
        assert_eq!(programs.find(&elsewhere), Some(looked_up("/bin/sh".into())));
    }

    #[test]
    fn no_more_places_are_remembered_than_stated() {
        let mut programs = Programs::default();
        for number in 0..=REMEMBERED_MAX {
            let path = format!("/bin:/nonexistent/{number}");
            assert!(!programs.find(&wanted(b"sh", path.as_bytes())).unwrap().remembered);
        }
        assert_eq!((programs.count, programs.found[&b"sh"[..]].len()), (1, 1));
        programs.forget(b"sh");
        assert_eq!(programs.count, 0);
    }
}
