//! Marks of runs, `.rakuda/running/ID`: whether a run lives, and what its mark says. The owner of a mark holds it locked for
//! itself as long as it lives; whoever looks asks for a shared lock, which others who look do not notice.
//!
//! It does not know who sets marks, nor what is done about runs whose owners are gone.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rustix::fs::{FlockOperation, flock};

/// Name of the folder of marks in `.rakuda`.
pub const RUNNING: &str = "running";

/// What a mark says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMark {
    /// The run's name.
    pub run: String,
    /// The mark itself.
    pub path: PathBuf,
    /// Where the run's journal is.
    pub journal: PathBuf,
    /// What processes of the run carry; empty: not known.
    pub mark: String,
    /// Its owner lives.
    pub alive: bool,
}

/// All marks in `root`, oldest run first. Cheap when there is none: one directory that is not there, or empty.
pub fn marks(root: &Path) -> Vec<RunMark> {
    let entries = fs::read_dir(root.join(RUNNING)).into_iter().flatten().flatten();
    let mut marks: Vec<_> = entries.filter_map(|entry| mark(entry.path())).collect();
    marks.sort_by(|a, b| a.path.cmp(&b.path));
    marks
}

fn mark(path: PathBuf) -> Option<RunMark> {
    let run = path.file_name()?.to_str()?.to_owned();
    if run.starts_with('.') || path.extension().is_some_and(|extension| extension == "sock") {
        return None;
    }
    let alive = lives(&path)?;
    let content = fs::read(&path).ok()?;
    // The folder's name may have line feeds, the mark has none.
    let end = content.iter().rposition(|byte| *byte == b'\n').unwrap_or(content.len());
    let journal = PathBuf::from(Text(content[..end].to_vec()).as_os_str());
    let mark = content.get(end + 1..).and_then(|mark| str::from_utf8(mark).ok());
    Some(RunMark { run, journal, mark: mark.unwrap_or_default().to_owned(), alive, path })
}

/// Whether the owner of a mark lives; none: there is no mark (any more).
pub fn lives(path: &Path) -> Option<bool> {
    let file = File::open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return Some(true);
    }
    // It may have been removed between the opening and the lock.
    (file.metadata().ok()?.nlink() > 0).then_some(false)
}
