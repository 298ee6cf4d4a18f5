//! What this node has seen of files, so that it need not look again to measure what of them is in
//! memory: inode, kind and file system.
//!
//! An entry counts only while the hub knows the file in the same state (size and time of
//! modification). What changes a file between two looks and leaves both alike is not noticed; then
//! what is measured may be of the file that was there before. It looks at nothing itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rakuda_proto::files::FileVersion;

use crate::visibility::Seen;

/// Maximum number of files that are remembered, and of folders. With more, all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// A device number as statx(2) tells it.
pub(crate) type Device = (u32, u32);

/// What was seen of files, by path.
#[derive(Debug, Default)]
pub(crate) struct SeenFiles {
    files: BTreeMap<PathBuf, Seen>,
    /// On which file system the last file was that was seen in a folder and was no symbolic link
    /// out of it, as far as that is known.
    folders: BTreeMap<PathBuf, Device>,
    /// Whether a file system is FUSE's.
    is_fuse: BTreeMap<Device, bool>,
}

impl SeenFiles {
    /// A file was looked at.
    pub fn note(&mut self, path: &Path, seen: Seen) {
        if self.files.len() >= REMEMBERED_MAX || self.folders.len() >= REMEMBERED_MAX {
            self.files.clear();
            self.folders.clear();
        }
        if let Some(folder) = path.parent() {
            self.folders.insert(folder.to_path_buf(), seen.device);
        }
        self.files.insert(path.to_path_buf(), seen);
    }

    /// What was seen of a file that is in this state now.
    pub fn of(&self, path: &Path, version: FileVersion) -> Option<Seen> {
        let seen = self.files.get(path)?;
        let FileVersion { bytes, modified_ns } = version;
        let is_same = (seen.identity.bytes, seen.identity.modified_ns) == (bytes, modified_ns);
        is_same.then_some(*seen)
    }

    /// Whether files in a folder are on FUSE, by one that was seen there.
    pub fn is_fuse_in(&self, folder: &Path) -> Option<bool> {
        self.is_fuse.get(self.folders.get(folder)?).copied()
    }

    /// Whether a file system is FUSE's; asked once for each.
    pub fn is_fuse(&mut self, device: Device, ask: impl FnOnce() -> Option<bool>) -> Option<bool> {
        if let Some(known) = self.is_fuse.get(&device) {
            return Some(*known);
        }
        let found = ask()?;
        self.is_fuse.insert(device, found);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::journal::FileIdentity;

    fn seen(bytes: u64, inode: u64) -> Seen {
        let identity = FileIdentity { modified_ns: 5, changed_ns: 5, bytes, inode };
        Seen { identity, device: (0, 7), is_regular: true }
    }

    #[test]
    fn a_file_is_known_only_in_the_state_that_was_seen() {
        let mut files = SeenFiles::default();
        let path = Path::new("/data/a");
        files.note(path, seen(3, 8));
        let version = FileVersion { bytes: 3, modified_ns: 5 };
        assert_eq!(files.of(path, version), Some(seen(3, 8)));
        assert_eq!(files.of(path, FileVersion { bytes: 4, ..version }), None);
        assert_eq!(files.of(path, FileVersion { modified_ns: 6, ..version }), None);
        assert_eq!(files.of(Path::new("/data/b"), version), None);
    }

    #[test]
    fn a_file_system_is_asked_about_once() {
        let mut files = SeenFiles::default();
        assert_eq!(files.is_fuse((0, 7), || None), None, "it could not be asked");
        assert_eq!(files.is_fuse((0, 7), || Some(true)), Some(true));
        assert_eq!(files.is_fuse((0, 7), || unreachable!("it is known")), Some(true));
        assert_eq!(files.is_fuse_in(Path::new("/data")), None, "nothing was seen there");
        files.note(Path::new("/data/a"), seen(3, 8));
        assert_eq!(files.is_fuse_in(Path::new("/data")), Some(true));
    }

    #[test]
    fn no_more_files_are_remembered_than_stated() {
        let mut files = SeenFiles::default();
        for number in 0..=REMEMBERED_MAX {
            files.note(&PathBuf::from(format!("/data/{number}")), seen(1, 1));
        }
        assert_eq!(files.files.len(), 1);
    }
}
