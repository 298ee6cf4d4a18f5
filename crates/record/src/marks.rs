//! Marks of runs, `.rakuda/running/ID`: whether a run lives, and what its mark says. The owner of a mark holds it
//! locked for itself as long as it lives; a process that looks asks for a shared lock, which others that look do not
//! notice.
//!
//! The first line of a mark is a JSON object and stays as it is; the second one has its fixed length and is written
//! over in place, which needs no room on a disk that is full. It does not know what sets marks, nor what is done about
//! runs whose owners are gone.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::folder::JOURNAL;
use crate::regular::open_regular;

/// Name of the folder of marks in `.rakuda`.
pub const RUNNING: &str = "running";
/// Maximum bytes of a mark.
const MARK_BYTES_MAX: u64 = 1 << 20;

/// What a mark says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMark {
    /// The run's name.
    pub run: String,
    /// The mark itself.
    pub path: PathBuf,
    /// Where the run's journal is, as seen from here.
    pub journal: PathBuf,
    /// What processes of the run carry. Empty: not known.
    pub mark: String,
    /// Device and inode of the folder that the run began in. `None`: not known.
    pub folder: Option<(u64, u64)>,
    /// Where it shows that the processes above the run live. `None`: nowhere, or that is not known.
    pub life_space: Option<String>,
    /// How far the journal is to be trusted.
    pub kept: Kept,
    /// Its owner lives.
    pub alive: bool,
}

/// The first line of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkLine {
    /// Where the journal is: relative to the folder that holds `.rakuda`, or absolute.
    pub journal: Text,
    /// What processes of the run carry.
    pub mark: String,
    /// Device of the folder that holds `.rakuda`.
    pub device: u64,
    /// Inode of it.
    pub inode: u64,
    /// Where it shows that the processes above the run live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life_space: Option<String>,
}

/// How much of its journal a run has written: the second line of its mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Minimum bytes of whole lines. `None`: not known.
    pub bytes: Option<u64>,
    /// When a write failed, ns since 1970: what happened from then on need not be in the journal. `None`: no write
    /// failed.
    pub failed_ns: Option<i64>,
}

impl Kept {
    /// The line; always of the same length.
    pub fn line(self) -> String {
        let word = if self.failed_ns.is_some() { "failed" } else { "whole " };
        let (bytes, failed_ns) = (self.bytes.unwrap_or(0), self.failed_ns.unwrap_or(0));
        format!("journal {bytes:020} {word} {failed_ns:020}\n")
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let words: Vec<&str> = str::from_utf8(line).ok()?.split_whitespace().collect();
        let ["journal", bytes, word, failed_ns] = words[..] else { return None };
        let failed_ns = match word {
            "whole" => None,
            "failed" => Some(failed_ns.parse().ok()?),
            _ => return None,
        };
        Some(Self { bytes: Some(bytes.parse().ok()?), failed_ns })
    }
}

/// All marks in `root`, oldest run first. Cheap when there is none: one directory that is not there, or empty.
pub fn marks(root: &Path) -> Vec<RunMark> {
    let entries = fs::read_dir(root.join(RUNNING)).into_iter().flatten().flatten();
    let mut marks: Vec<_> = entries.filter_map(|entry| mark(root, entry.path())).collect();
    marks.sort_by(|a, b| a.path.cmp(&b.path));
    marks
}

fn mark(root: &Path, path: PathBuf) -> Option<RunMark> {
    let run = path.file_name()?.to_str()?.to_owned();
    if run.starts_with('.') || path.extension().is_some_and(|extension| extension == "sock") {
        return None;
    }
    let alive = lives(&path)?;
    let mut content = Vec::new();
    open_regular(&path).ok()?.take(MARK_BYTES_MAX).read_to_end(&mut content).ok()?;
    let project = root.parent().unwrap_or(Path::new("."));
    let mut lines = content.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    if let Ok(line) = serde_json::from_slice::<MarkLine>(first) {
        let journal = project.join(line.journal.as_path());
        // What is no such line was lost with the machine's power: then nothing is known to be whole.
        let kept = lines.next().and_then(Kept::parse);
        let kept = kept.unwrap_or(Kept { bytes: None, failed_ns: Some(0) });
        let folder = Some((line.device, line.inode));
        let (mark, life_space) = (line.mark, line.life_space);
        return Some(RunMark { run, path, journal, mark, folder, life_space, kept, alive });
    }
    let (journal, mark, kept) = if let Some((journal, mark)) = as_once_written(&content) {
        (journal, mark, Kept::default())
    } else {
        let journal = root.join("runs").join(&run).join(JOURNAL);
        (journal, String::new(), Kept { bytes: None, failed_ns: Some(0) })
    };
    Some(RunMark { run, path, journal, mark, folder: None, life_space: None, kept, alive })
}

/// The journal's absolute name and the mark, as an earlier version wrote them.
fn as_once_written(content: &[u8]) -> Option<(PathBuf, String)> {
    // The folder's name may have line feeds, the mark has none.
    let end = content.iter().rposition(|byte| *byte == b'\n')?;
    let mark = str::from_utf8(&content[end + 1..]).ok()?;
    let journal = PathBuf::from(Text(content[..end].to_vec()).as_os_str());
    journal.is_absolute().then(|| (journal, mark.to_owned()))
}

/// Whether the owner of a mark lives. `None`: there is no mark (any more).
pub fn lives(path: &Path) -> Option<bool> {
    let file = open_regular(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return Some(true);
    }
    // It may have been removed between the opening and the lock.
    (file.metadata().ok()?.nlink() > 0).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_was_written_into_it_and_no_more_when_that_is_damaged() {
        let root = std::env::temp_dir().join(format!("rakuda-marks-{}", std::process::id()));
        let running = root.join(RUNNING);
        fs::create_dir_all(&running).unwrap();
        let line = MarkLine {
            journal: ".rakuda/runs/a/journal.jsonl".into(),
            mark: "1-x".into(),
            device: 1,
            inode: 2,
            life_space: Some("here".into()),
        };
        let line = serde_json::to_string(&line).unwrap();
        let whole = Kept { bytes: Some(7), failed_ns: None };
        let failed = Kept { bytes: Some(u64::MAX), failed_ns: Some(i64::MAX) };
        assert_eq!(whole.line().len(), failed.line().len());
        let written = [
            format!("{line}\n{}", whole.line()),
            format!("{line}\n{}", failed.line()),
            line.clone(),
            "/else/where\nis it/journal.jsonl\n1-x".into(),
            String::new(),
        ];
        for (number, text) in written.iter().enumerate() {
            fs::write(running.join(number.to_string()), text).unwrap();
        }
        fs::create_dir(running.join("folder")).unwrap();
        let found = marks(&root);
        fs::remove_dir_all(&root).unwrap();
        let lost = Kept { bytes: None, failed_ns: Some(0) };
        let kept: Vec<Kept> = found.iter().map(|mark| mark.kept).collect();
        assert_eq!(kept, [whole, failed, lost, Kept::default(), lost]);
        let journal = std::env::temp_dir().join(".rakuda/runs/a/journal.jsonl");
        assert_eq!(found[0].journal, journal);
        assert_eq!((found[0].folder, found[0].mark.as_str()), (Some((1, 2)), "1-x"));
        let spaces: Vec<_> = found.iter().map(|mark| mark.life_space.as_deref()).collect();
        assert_eq!(spaces, [Some("here"), Some("here"), Some("here"), None, None]);
        assert_eq!(found[3].journal, Path::new("/else/where\nis it/journal.jsonl"));
        assert_eq!(found[4].journal, root.join("runs/4/journal.jsonl"));
    }
}
