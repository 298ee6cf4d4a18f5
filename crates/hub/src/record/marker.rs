//! `.rakuda/running/ID`: the mark of a live run. It is locked as long as its hub lives, and says where the run's journal is and which
//! mark the processes of the run carry.
//!
//! It does not know what a journal holds. How marks are read is told in `rakuda_record::marks`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rakuda_record::folder::JOURNAL;
use rakuda_record::marks::RUNNING;
use rustix::fs::{FlockOperation, flock};

/// The mark of a run of this process.
#[derive(Debug)]
pub(super) struct Marker {
    path: PathBuf,
    /// Locked as long as this process lives.
    file: File,
}

impl Marker {
    /// Begins to mark `run`, under a name that nobody looks at. When that is where this process ends, the next run removes it, and the
    /// journal, in which nothing is yet.
    pub fn prepare(root: &Path, run: &str) -> io::Result<Self> {
        let running = root.join(RUNNING);
        fs::create_dir_all(&running)?;
        let path = running.join(format!(".{run}"));
        loop {
            let file = File::create(&path)?;
            rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
            // Before it was locked, it may have looked like one that is left over.
            if file.metadata()?.nlink() > 0 {
                return Ok(Self { path, file });
            }
        }
    }

    /// Marks the run as alive. Whoever sees the mark sees it locked and whole.
    pub fn set(mut self, run: &str, journal: &Path, mark: &str) -> io::Result<Self> {
        self.file.write_all(journal.as_os_str().as_encoded_bytes())?;
        self.file.write_all(b"\n")?;
        self.file.write_all(mark.as_bytes())?;
        let path = self.path.with_file_name(run);
        fs::rename(&self.path, &path)?;
        self.path = path;
        Ok(self)
    }

    /// The run is over.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Removes what runs have left that ended before their marks were set, and so before anything was started.
pub(super) fn remove_unset(root: &Path) {
    for path in unset(root) {
        let Some(run) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let folder = root.join("runs").join(&run[1..]);
        let journal = folder.join(JOURNAL);
        if journal.metadata().is_ok_and(|journal| journal.len() == 0) {
            let _ = fs::remove_file(journal);
            // A link, or a folder that is empty now; whatever else is there is not ours.
            let _ = fs::remove_file(&folder).or_else(|_| fs::remove_dir(&folder));
        }
        // Left in place it would only be looked at again.
        let _ = fs::remove_file(&path);
    }
}

/// Marks that were never set, and that nobody is about to set.
pub(super) fn unset(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(RUNNING)).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
    let free = |path: &PathBuf| {
        let file = File::open(path);
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    names.map(|entry| entry.path()).filter(free).collect()
}
