//! `.rakuda/running/ID`: the mark of a live run. It is locked as long as its hub lives, and says
//! where the run's journal is, which mark the processes of the run carry, which folder it began in,
//! and how far the journal is to be trusted.
//! It does not know what a journal holds. `rakuda_record::marks` reads marks.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rakuda_record::folder::JOURNAL;
use rakuda_record::marks::{Kept, MarkLine, RUNNING};
use rakuda_record::regular::open_regular;
use rustix::fs::{FlockOperation, flock};

/// The mark of a run of this process.
#[derive(Debug)]
pub(super) struct Marker {
    /// Its name in the folder of marks.
    name: String,
    /// Locked as long as this process lives.
    file: File,
    /// Where its second line is.
    kept_at: u64,
    kept: Kept,
}

impl Marker {
    /// Begins to mark `run`, under a name that no run looks at. If this process ends there, the next run removes the
    /// file, and the journal, which is still empty.
    pub fn prepare(root: &Path, run: &str) -> io::Result<Self> {
        let running = root.join(RUNNING);
        fs::create_dir_all(&running)?;
        let name = format!(".{run}");
        loop {
            // A process with the same number left the file of this name, if there is one.
            let file = File::create(running.join(&name))?;
            rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
            // Before it was locked, it may have looked like one that is left over.
            if file.metadata()?.nlink() > 0 {
                return Ok(Self { name, file, kept_at: 0, kept: Kept::default() });
            }
        }
    }

    /// Marks the run as alive. Another run that sees the mark sees it locked and whole.
    pub fn set(mut self, root: &Path, run: &str, line: &MarkLine) -> io::Result<Self> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.kept_at = text.len() as u64;
        self.kept.bytes = Some(0);
        text.extend_from_slice(self.kept.line().as_bytes());
        self.file.write_all(&text)?;
        let running = root.join(RUNNING);
        fs::rename(running.join(&self.name), running.join(run))?;
        run.clone_into(&mut self.name);
        Ok(self)
    }

    /// Notes how many bytes of whole lines are in the journal.
    pub fn note_bytes(&mut self, bytes: u64) -> io::Result<()> {
        self.kept.bytes = Some(bytes);
        self.write()
    }

    /// A write failed: what happens from now on need not be in the journal. Written over what is
    /// there, so that a full disk does not matter. Said once more when the clock was set back:
    /// files of then seem older.
    pub fn note_failed(&mut self, time_ns: i64) {
        let failed_ns = self.kept.failed_ns.get_or_insert(time_ns);
        *failed_ns = time_ns.min(*failed_ns);
        // Where even that fails, nothing more can be done.
        let _ = self.write();
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(self.kept.line().as_bytes(), self.kept_at)
    }

    /// The run is over.
    pub fn remove(self, root: &Path) -> io::Result<()> {
        fs::remove_file(root.join(RUNNING).join(&self.name))
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // At once, also where a process that is just being started still has the descriptor.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Removes what runs have left that ended before their marks were set, and so before anything was started.
pub(super) fn remove_unset(root: &Path) {
    for path in unset(root) {
        let Some(run) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let folder = root.join("runs").join(&run[1..]);
        let journal = folder.join(JOURNAL);
        if journal.metadata().is_ok_and(|journal| journal.is_file() && journal.len() == 0) {
            let _ = fs::remove_file(journal);
            // A link, or a folder that is empty now; whatever else is there is not ours.
            let _ = fs::remove_file(&folder).or_else(|_| fs::remove_dir(&folder));
        }
        // Left in place it would only be looked at again.
        let _ = fs::remove_file(&path);
    }
}

/// Sockets of runs that have no mark any more: they were killed between the end of the mark and that of the socket. A
/// live run has its mark first.
pub(super) fn sockets_without_mark(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(RUNNING)).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path());
    let sockets = sockets.filter(|path| path.extension().is_some_and(|kind| kind == "sock"));
    sockets.filter(|path| !path.with_extension("").exists()).collect()
}

/// Marks that were never set, and that no process is about to set.
pub(super) fn unset(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(RUNNING)).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
    let free = |path: &PathBuf| {
        let file = open_regular(path);
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    names.map(|entry| entry.path()).filter(free).collect()
}
