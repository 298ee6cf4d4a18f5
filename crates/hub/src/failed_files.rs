//! `.rakuda/failed_files`: which `NAME._fail_` runs have left here, and which state of a file each is. The list keeps
//! what may be removed apart from files that a user calls so, or has put in the place of one.
//!
//! A line is `{"path":PATH,"file":IDENTITY}`, without `file` when it is gone; the last one about a
//! path holds. Paths are relative to the folder of `.rakuda` where they are below it. Runs only add
//! lines, so that none undoes what another one notes at the same time. What is not noted, because
//! the list could not be written, is only not removed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::journal::FileIdentity;
use rakuda_record::regular::{open_regular, open_to_append};
use serde::{Deserialize, Serialize};

use crate::facts::identity_of;

const NAME: &str = "failed_files";
/// What the name of a target that was left half-written gets.
pub(crate) const ENDING: &str = "._fail_";

#[derive(Serialize, Deserialize)]
struct FailedFileLine {
    path: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FileIdentity>,
}

/// The files that runs have left, by path.
#[derive(Debug, Default)]
pub(crate) struct FailedFiles {
    files: BTreeMap<Vec<u8>, FileIdentity>,
}

/// What became of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was removed, or would be.
    Removed,
    /// It is another file now.
    NotOurs,
    /// It cannot be removed.
    Stuck(io::ErrorKind),
}

/// The name that a target is given when it was left half-written.
pub(crate) fn failed_name(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}

impl FailedFiles {
    /// What runs have left.
    pub fn read(root: &Path) -> Self {
        let mut found = Self::default();
        let Ok(file) = open_regular(&root.join(NAME)) else { return found };
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            // A line that cannot be read was torn when the machine failed.
            let Ok(FailedFileLine { path, file }) = serde_json::from_slice(&line) else { continue };
            match file {
                Some(file) => found.files.insert(path.0, file),
                None => found.files.remove(&path.0),
            };
        }
        found
    }

    /// Renames a target, an absolute path, and notes it, where there is a list.
    pub fn rename(&mut self, root: Option<&Path>, target: &Path) -> io::Result<()> {
        // Noted before the file has that name: a run that is killed in between leaves no file that no run knows as its
        // own.
        self.note(root, target, identity_of(target));
        let renamed = failed_name(target);
        fs::rename(target, &renamed)?;
        // What the attempt left behind may have written to it meanwhile.
        self.note(root, target, identity_of(&renamed));
        Ok(())
    }

    /// Notes what a target has the other name with.
    fn note(&mut self, root: Option<&Path>, target: &Path, file: Option<FileIdentity>) {
        let (Some(root), Some(file)) = (root, file) else { return };
        let key = key_of(root, &failed_name(target));
        if self.files.get(&key).is_some_and(|noted| is_same(*noted, file)) || !root.is_dir() {
            return;
        }
        add(root, &key, Some(file));
        self.files.insert(key, file);
    }

    /// Whether a run has renamed what was left of this target, an absolute path.
    pub fn has(&self, root: &Path, target: &Path) -> bool {
        !self.files.is_empty() && self.files.contains_key(&key_of(root, &failed_name(target)))
    }

    /// A target was made: deals with what an earlier attempt left of it, which is of no use any more.
    pub fn on_made(&mut self, root: &Path, target: &Path) {
        if !self.files.is_empty() {
            let key = key_of(root, &failed_name(target));
            self.remove(root, &key, true);
        }
    }

    /// Removes one, if it is still what was noted. `None`: nothing of that name is there.
    fn remove(&mut self, root: &Path, key: &[u8], really: bool) -> Option<Fate> {
        let noted = *self.files.get(key)?;
        let path = path_of(root, key);
        let fate = match identity_of(&path) {
            None => None,
            Some(now) if !is_same(now, noted) => Some(Fate::NotOurs),
            Some(_) if !really => return Some(Fate::Removed),
            Some(_) => {
                let is_folder = path.symlink_metadata().is_ok_and(|data| data.is_dir());
                let removed =
                    if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                match removed {
                    Ok(()) => Some(Fate::Removed),
                    Err(error) => return Some(Fate::Stuck(error.kind())),
                }
            }
        };
        if really {
            self.files.remove(key);
            add(root, key, None);
            if self.files.is_empty() {
                // Where it stays, it is only longer than it need be.
                let _ = fs::remove_file(root.join(NAME));
            }
        }
        fate
    }
}

/// Removes all that runs below `root`, a folder `.rakuda`, have left, or (not `really`) says what that would be.
pub fn remove_failed_files(root: &Path, really: bool) -> Vec<(PathBuf, Fate)> {
    let mut all = FailedFiles::read(root);
    let keys: Vec<Vec<u8>> = all.files.keys().cloned().collect();
    let fates = keys.into_iter().filter_map(|key| {
        let fate = all.remove(root, &key, really)?;
        Some((path_of(root, &key), fate))
    });
    fates.collect()
}

/// Whether a file is the one that was noted, and as it was: not by the time of its last change, which a mode or a link
/// changes as well.
pub(crate) fn is_same(now: FileIdentity, noted: FileIdentity) -> bool {
    let what = |file: FileIdentity| (file.inode, file.bytes, file.modified_ns);
    what(now) == what(noted)
}

fn key_of(root: &Path, path: &Path) -> Vec<u8> {
    let below = root.parent().and_then(|folder| path.strip_prefix(folder).ok());
    below.unwrap_or(path).as_os_str().as_encoded_bytes().to_vec()
}

fn path_of(root: &Path, key: &[u8]) -> PathBuf {
    let path = Text(key.to_vec());
    root.parent().unwrap_or(root).join(path.as_path())
}

/// Adds a line, in one write.
fn add(root: &Path, key: &[u8], file: Option<FileIdentity>) {
    let Ok(mut line) = serde_json::to_vec(&FailedFileLine { path: Text(key.to_vec()), file })
    else {
        return;
    };
    line.push(b'\n');
    let opened = open_to_append(&root.join(NAME), 0o666);
    let _ = opened.and_then(|mut list| list.write_all(&line));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `.rakuda` and targets that were renamed.
    fn folder(name: &str, targets: &[&str]) -> (PathBuf, PathBuf) {
        let folder =
            std::env::temp_dir().join(format!("rakuda-failed-files-{name}-{}", std::process::id()));
        let root = folder.join(".rakuda");
        fs::create_dir_all(&root).unwrap();
        for target in targets {
            let target = folder.join(target);
            fs::write(&target, "half").unwrap();
            FailedFiles::default().rename(Some(&root), &target).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn what_a_failure_has_left_goes_when_its_target_is_made() {
        let (folder, root) = folder("made", &["a", "b"]);
        FailedFiles::read(&root).on_made(&root, &folder.join("a"));
        assert!(!folder.join("a._fail_").exists() && folder.join("b._fail_").exists());
        FailedFiles::read(&root).on_made(&root, &folder.join("b"));
        assert!(!root.join(NAME).exists(), "nothing is left to be told");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_target_is_noted_before_it_has_its_other_name() {
        let (folder, root) = folder("ahead", &[]);
        let target = folder.join("a");
        fs::write(&target, "half").unwrap();
        // It cannot be renamed, and a user who renames it after all needs no note.
        fs::create_dir(failed_name(&target)).unwrap();
        FailedFiles::default().rename(Some(&root), &target).unwrap_err();
        fs::remove_dir(failed_name(&target)).unwrap();
        fs::rename(&target, failed_name(&target)).unwrap();
        assert_eq!(remove_failed_files(&root, true), [(failed_name(&target), Fate::Removed)]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_someone_else_has_put_there_stays() {
        let (folder, root) = folder("other", &["a", "b", "c"]);
        fs::write(folder.join("a._fail_"), "my own words").unwrap();
        fs::remove_file(folder.join("b._fail_")).unwrap();
        fs::write(folder.join("never._fail_"), "mine").unwrap();
        let expected = [("a._fail_", Fate::NotOurs), ("c._fail_", Fate::Removed)];
        let expected = expected.map(|(name, fate)| (folder.join(name), fate));
        assert_eq!(remove_failed_files(&root, false), expected);
        assert!(folder.join("c._fail_").exists());
        assert_eq!(remove_failed_files(&root, true), expected);
        assert!(folder.join("a._fail_").exists() && folder.join("never._fail_").exists());
        assert!(!folder.join("c._fail_").exists() && remove_failed_files(&root, true).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn folders_go_with_what_is_in_them_and_the_whole_may_move() {
        let (folder, root) = folder("moves", &["a"]);
        let target = folder.join("out");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("part"), "").unwrap();
        FailedFiles::default().rename(Some(&root), &target).unwrap();
        let elsewhere = folder.with_extension("moved");
        fs::rename(&folder, &elsewhere).unwrap();
        let gone = remove_failed_files(&elsewhere.join(".rakuda"), true);
        assert_eq!(gone.len(), 2);
        assert!(!elsewhere.join("out._fail_").exists());
        fs::remove_dir_all(elsewhere).unwrap();
    }
}
