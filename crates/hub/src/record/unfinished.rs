//! `.rakuda/unfinished`: targets that are there but that no attempt finished. They count as missing until an attempt
//! finishes them, in whatever run.
//!
//! A line is `+"NAME"` or `-"NAME"`; the last one about a name holds. Runs only add lines, so that
//! none undoes what another one notes at the same time; lines that no longer tell anything are
//! removed when a run starts or ends.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_record::regular::{open_regular, open_to_append};

use super::lock::{self, Lock};

/// The unfinished targets of all runs, as far as they are known here.
#[derive(Debug, Default)]
pub(super) struct UnfinishedTargets {
    names: BTreeSet<Vec<u8>>,
    /// Lines that are not in the file.
    pending: Vec<u8>,
    /// Lines were added.
    changed: bool,
}

impl UnfinishedTargets {
    /// What earlier runs have left.
    pub fn read(root: &Path) -> Self {
        let (names, _) = read_names(&path_in(root)).unwrap_or_default();
        Self { names, ..Self::default() }
    }

    pub fn contains(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && self.names.contains(name)
    }

    pub fn insert(&mut self, name: &[u8]) {
        if self.names.insert(name.to_vec()) {
            push_line(&mut self.pending, b'+', name);
        }
    }

    pub fn remove(&mut self, name: &[u8]) {
        if !self.names.is_empty() && self.names.remove(name) {
            push_line(&mut self.pending, b'-', name);
        }
    }

    /// Something was noted that is not written.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what was noted.
    pub fn write(&mut self, root: &Path) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        fs::create_dir_all(root)?;
        let _lock = lock(root)?;
        let mut file = open_to_append(&path_in(root), 0o666)?;
        if is_torn(&mut file)? {
            file.write_all(b"\n")?;
        }
        file.write_all(&self.pending)?;
        self.pending.clear();
        self.changed = true;
        Ok(())
    }

    /// Removes lines without effect, when this run has added lines.
    pub fn tidy(&mut self, root: &Path) -> io::Result<()> {
        if std::mem::take(&mut self.changed) { tidy(root) } else { Ok(()) }
    }
}

/// Removes lines without effect. A reader sees the file before it or after it.
pub(super) fn tidy(root: &Path) -> io::Result<()> {
    let path = path_in(root);
    if !path.exists() {
        return Ok(());
    }
    let _lock = lock(root)?;
    let (names, lines) = read_names(&path)?;
    if names.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    if lines == names.len() {
        return Ok(());
    }
    let mut text = Vec::new();
    for name in &names {
        push_line(&mut text, b'+', name);
    }
    let new = root.join("unfinished.new");
    fs::write(&new, text)?;
    fs::rename(&new, &path)
}

fn path_in(root: &Path) -> PathBuf {
    root.join("unfinished")
}

fn lock(root: &Path) -> io::Result<Lock> {
    lock::wait_for(&root.join("unfinished.lock"))
}

fn push_line(lines: &mut Vec<u8>, sign: u8, name: &[u8]) {
    lines.push(sign);
    serde_json::to_writer(&mut *lines, &Text(name.to_vec())).expect("memory always takes more");
    lines.push(b'\n');
}

/// What holds after all lines, and how many lines there are.
fn read_names(path: &Path) -> io::Result<(BTreeSet<Vec<u8>>, usize)> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        result => result?,
    };
    let (mut names, mut lines) = (BTreeSet::new(), 0);
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        lines += 1;
        // Without a sign: as an earlier version wrote it.
        let (there, name) = match line.split_first() {
            Some((b'+', name)) => (true, name),
            Some((b'-', name)) => (false, name),
            _ => (true, line.as_slice()),
        };
        // A line that cannot be read was torn when the machine failed.
        let Ok(Text(name)) = serde_json::from_slice(name) else { continue };
        if there {
            names.insert(name);
        } else {
            names.remove(&name);
        }
    }
    Ok((names, lines))
}

/// Whether the last line has no end.
pub(super) fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id())))
        }

        fn text(&self) -> String {
            fs::read_to_string(path_in(&self.0)).unwrap()
        }

        fn names(&self) -> Vec<Vec<u8>> {
            UnfinishedTargets::read(&self.0).names.into_iter().collect()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn two_runs_at_once_keep_what_the_other_notes() {
        let root = Root::new("unfinished-two");
        let mut earlier = UnfinishedTargets::default();
        earlier.insert(b"old");
        earlier.write(&root.0).unwrap();
        let (mut one, mut two) =
            (UnfinishedTargets::read(&root.0), UnfinishedTargets::read(&root.0));
        one.insert(b"x");
        one.write(&root.0).unwrap();
        two.insert(b"y");
        two.remove(b"old");
        two.write(&root.0).unwrap();
        one.insert(b"z");
        one.write(&root.0).unwrap();
        one.tidy(&root.0).unwrap();
        assert_eq!(root.names(), [b"x", b"y", b"z"]);
        assert_eq!(root.text(), "+\"x\"\n+\"y\"\n+\"z\"\n");
    }

    #[test]
    fn a_change_adds_one_line_however_many_there_are() {
        let root = Root::new("unfinished-lines");
        let mut targets = UnfinishedTargets::default();
        for number in 0..1000_u32 {
            targets.insert(format!("{number:04}").as_bytes());
        }
        targets.write(&root.0).unwrap();
        let before = root.text();
        targets.remove(b"0500");
        targets.write(&root.0).unwrap();
        assert_eq!(root.text(), format!("{before}-\"0500\"\n"));
        assert_eq!(root.names().len(), 999);
    }

    #[test]
    fn the_file_goes_when_nothing_is_unfinished() {
        let root = Root::new("unfinished-none");
        fs::create_dir_all(&root.0).unwrap();
        fs::write(path_in(&root.0), "\"as once written\"\n").unwrap();
        let mut targets = UnfinishedTargets::read(&root.0);
        assert!(targets.contains(b"as once written"));
        targets.remove(b"as once written");
        targets.write(&root.0).unwrap();
        targets.tidy(&root.0).unwrap();
        assert!(!path_in(&root.0).exists());
    }

    #[test]
    fn a_line_that_was_torn_does_not_hide_the_next_one() {
        let root = Root::new("unfinished-torn");
        fs::create_dir_all(&root.0).unwrap();
        fs::write(path_in(&root.0), "+\"a\"\n+\"b").unwrap();
        let mut targets = UnfinishedTargets::read(&root.0);
        targets.insert(b"c");
        targets.write(&root.0).unwrap();
        assert_eq!(root.names(), [b"a", b"c"]);
    }
}
