//! The folder that a run began in, wherever it has been moved to since: held open, so that a new
//! name of it, or of a folder above it, loses nothing.
//!
//! It knows nothing of what is in it.

use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The folder of a run.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its name when the run began.
    began_at: PathBuf,
    /// The open folder; `None`: it could not be opened, and is taken to be where it was.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    folder: OwnedFd,
    /// What the kernel called it when the run began, which need not be what the user calls it.
    name: PathBuf,
    identity: (u64, u64),
}

impl Open {
    fn new(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let found = folder.metadata().ok()?;
        let folder = OwnedFd::from(folder);
        let name = name_of(&folder)?;
        Some(Self { folder, name, identity: (found.dev(), found.ino()) })
    }
}

impl Project {
    /// The folder at `path`, as it is now.
    pub fn new(path: &Path) -> Self {
        Self { began_at: path.to_path_buf(), open: Open::new(path) }
    }

    /// Device and inode; zeros: not known.
    pub fn identity(&self) -> (u64, u64) {
        self.open.as_ref().map_or((0, 0), |open| open.identity)
    }

    /// Its name now. Costs one look into this process's own descriptors, and nothing on any disk.
    pub fn path(&self) -> PathBuf {
        self.moved_to().unwrap_or_else(|| self.began_at.clone())
    }

    /// What was called `path` when the run began.
    pub fn find(&self, path: &Path) -> PathBuf {
        match (self.moved_to(), path.strip_prefix(&self.began_at)) {
            (Some(now), Ok(rest)) => now.join(rest),
            _ => path.to_path_buf(),
        }
    }

    /// Its new name; `None`: it is where it was, or is gone.
    fn moved_to(&self) -> Option<PathBuf> {
        let open = self.open.as_ref()?;
        let name = name_of(&open.folder)?;
        let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == open.identity;
        // The kernel adds a word to the name of a folder that was removed.
        (name != open.name && fs::metadata(&name).is_ok_and(is_it)).then_some(name)
    }
}

fn name_of(folder: &OwnedFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_renamed_is_found_and_what_was_removed_is_where_it_was() {
        let base = std::env::temp_dir().join(format!("rakuda-project-{}", std::process::id()));
        let [old, new] = ["old", "new"].map(|name| base.join(name));
        fs::create_dir_all(&old).unwrap();
        let project = Project::new(&old);
        assert_eq!(project.path(), old);
        fs::rename(&old, &new).unwrap();
        assert_eq!((project.path(), project.find(&old.join("a"))), (new.clone(), new.join("a")));
        assert_eq!(project.find(Path::new("/else/where")), Path::new("/else/where"));
        fs::remove_dir_all(&base).unwrap();
        assert_eq!((project.path(), project.find(&old.join("a"))), (old.clone(), old.join("a")));
    }
}
