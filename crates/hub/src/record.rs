//! The record of a run: which attempts began and which ended, so that a target that an attempt
//! left behind unfinished is never taken as good, whoever was killed when.
//!
//! A run's folder is `.rakuda/runs/ID` (or a folder of the user's choice); its journal is JSON Lines, one event a line,
//! written before the effect that it stands for leaves the hub. `.rakuda/running/ID` names the
//! runs that have not ended; the next hub in this directory settles those whose owner is gone.
//! Nothing is made before the first attempt: a run that does nothing leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use rakuda_agent::{clock, processes};
use rakuda_proto::Text;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::HubError;
use crate::facts::FileIdentity;
use crate::targets::{FailedTarget, settle_target};

/// Version of the journal's events.
pub const JOURNAL_VERSION: u32 = 1;
/// Finished runs that are kept; older ones are removed when a run ends.
const RUNS_KEPT: usize = 100;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JournalEvent {
    /// First line.
    RunStarted {
        /// [`JOURNAL_VERSION`].
        version: u32,
        /// ns since 1970.
        time_ns: i64,
        /// The Rakefile's folder.
        directory: Text,
        /// What the user typed.
        command_line: Vec<Text>,
        /// What happens to the targets of failed attempts.
        failed_target: FailedTarget,
    },
    /// An action is about to run.
    AttemptStarted {
        /// ns since 1970.
        time_ns: i64,
        /// Its number in this run.
        task: u32,
        /// From 1.
        attempt: u32,
        /// Its name.
        name: Text,
        /// It makes the file of that name.
        is_path: bool,
        /// The file before the attempt.
        before: Option<FileIdentity>,
    },
    /// An action is over and its target was settled.
    AttemptEnded {
        /// ns since 1970.
        time_ns: i64,
        /// Its number in this run.
        task: u32,
        /// It ended well.
        ok: bool,
    },
    /// Last line. Without it the run was cut off.
    RunEnded {
        /// ns since 1970.
        time_ns: i64,
        /// "done", "failed", "stopped", "recovered".
        how: String,
    },
}

/// Writes the journal of this run, and knows the targets that earlier runs left unfinished.
#[derive(Debug)]
pub struct Record {
    /// `.rakuda`, absolute.
    root: PathBuf,
    run: String,
    folder: PathBuf,
    header: JournalEvent,
    /// Nothing: not begun yet.
    open: Option<OpenRecord>,
    /// Off: nothing is written.
    enabled: bool,
    /// Lines not written yet.
    pending: Vec<u8>,
    /// Targets that exist but that nobody finished; kept in `.rakuda/unfinished`.
    unfinished: BTreeSet<Vec<u8>>,
    unfinished_changed: bool,
}

#[derive(Debug)]
struct OpenRecord {
    journal: File,
    /// Locked as long as this process lives.
    _marker: File,
    marker_path: PathBuf,
}

impl Record {
    /// A record for a run in `directory`; nothing is written yet. `log_dir` may name another
    /// folder for the run's own files.
    pub fn new(
        directory: &Path,
        log_dir: Option<&Path>,
        enabled: bool,
        command_line: Vec<Text>,
        failed_target: FailedTarget,
    ) -> Self {
        let time_ns = clock::wall_ns();
        let run = format!("{}-{}", timestamp_name(time_ns), std::process::id());
        let root = directory.join(".rakuda");
        let folder = match log_dir {
            Some(folder) => directory.join(folder),
            None => root.join("runs").join(&run),
        };
        let directory = Text::from(directory.to_string_lossy().into_owned());
        let unfinished = read_unfinished(&root);
        let header = JournalEvent::RunStarted {
            version: JOURNAL_VERSION,
            time_ns,
            directory,
            command_line,
            failed_target,
        };
        Self {
            root,
            run,
            folder,
            header,
            open: None,
            enabled,
            pending: Vec::new(),
            unfinished,
            unfinished_changed: false,
        }
    }

    /// The run's name.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Reads again which targets are unfinished, after `recover` may have found some.
    pub fn reload_unfinished(&mut self) {
        self.unfinished = read_unfinished(&self.root);
    }

    /// Whether an earlier attempt left this target behind unfinished.
    pub fn is_unfinished(&self, name: &[u8]) -> bool {
        !self.unfinished.is_empty() && self.unfinished.contains(name)
    }

    /// Remembers beyond this run that `name` exists but is not finished.
    pub fn mark_unfinished(&mut self, name: &[u8]) {
        self.unfinished_changed |= self.unfinished.insert(name.to_vec());
    }

    /// An attempt finished `name`.
    pub fn mark_finished(&mut self, name: &[u8]) {
        self.unfinished_changed |= self.unfinished.remove(name);
    }

    /// Adds an event; it is on its way to the file after [`Record::flush`].
    pub fn push(&mut self, event: &JournalEvent) {
        if self.enabled {
            push_line(&mut self.pending, event);
        }
    }

    /// Writes what was added. Makes the run's folder at the first time.
    pub fn flush(&mut self) -> Result<(), HubError> {
        if self.unfinished_changed && self.enabled {
            self.write_unfinished()?;
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            self.open = Some(self.begin()?);
        }
        let open = self.open.as_mut().expect("opened above");
        let path = self.folder.join("journal.jsonl");
        open.journal.write_all(&self.pending).map_err(at(&path))?;
        self.pending.clear();
        Ok(())
    }

    /// Stops recording, after a write failed and the user was told.
    pub fn disable(&mut self) {
        self.enabled = false;
        self.pending.clear();
    }

    /// Ends the record.
    pub fn finish(&mut self, how: &str) -> Result<(), HubError> {
        if self.open.is_some() {
            self.push(&JournalEvent::RunEnded { time_ns: clock::wall_ns(), how: how.into() });
        }
        self.flush()?;
        if let Some(open) = self.open.take() {
            fs::remove_file(&open.marker_path).map_err(at(&open.marker_path))?;
            prune(&self.root.join("runs"));
        }
        Ok(())
    }

    fn begin(&self) -> Result<OpenRecord, HubError> {
        let running = self.root.join("running");
        fs::create_dir_all(&running).map_err(at(&running))?;
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        // Nothing in here is part of the project.
        let ignore = self.root.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(at(&ignore))?;
        }
        let path = self.folder.join("journal.jsonl");
        let mut journal = File::create(&path).map_err(at(&path))?;
        let mut first = Vec::new();
        push_line(&mut first, &self.header);
        journal.write_all(&first).map_err(at(&path))?;
        let marker_path = running.join(&self.run);
        let mut marker = File::create(&marker_path).map_err(at(&marker_path))?;
        // The lock tells others that the owner lives; the content where its journal is.
        flock(&marker, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| at(&marker_path)(errno.into()))?;
        let mark = processes::own_mark().unwrap_or_default();
        let content = [path.as_os_str().as_encoded_bytes(), b"\n", mark.as_bytes()].concat();
        marker.write_all(&content).map_err(at(&marker_path))?;
        Ok(OpenRecord { journal, _marker: marker, marker_path })
    }

    fn write_unfinished(&mut self) -> Result<(), HubError> {
        self.unfinished_changed = false;
        write_unfinished(&self.root, &self.unfinished)
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> HubError {
    let path = path.to_path_buf();
    move |source| HubError::Record { path: path.clone(), source }
}

fn push_line(lines: &mut Vec<u8>, event: &JournalEvent) {
    serde_json::to_writer(&mut *lines, event).expect("plain data into memory always encodes");
    lines.push(b'\n');
}

fn read_unfinished(root: &Path) -> BTreeSet<Vec<u8>> {
    let Ok(file) = File::open(root.join("unfinished")) else {
        return BTreeSet::new();
    };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_slice::<Text>(&line).ok()).map(|name| name.0).collect()
}

fn write_unfinished(root: &Path, names: &BTreeSet<Vec<u8>>) -> Result<(), HubError> {
    let path = root.join("unfinished");
    if names.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => Ok(()),
        };
    }
    let mut lines = Vec::new();
    for name in names {
        serde_json::to_writer(&mut lines, &Text(name.clone()))
            .expect("plain data into memory always encodes");
        lines.push(b'\n');
    }
    fs::create_dir_all(root).map_err(at(root))?;
    let new = root.join("unfinished.new");
    fs::write(&new, lines).and_then(|()| fs::rename(&new, &path)).map_err(at(&path))
}

/// Settles what runs left behind whose hub is gone; returns a line for the user for each target.
/// Cheap when there is nothing: one directory that is not there.
pub fn recover(directory: &Path) -> Vec<String> {
    let root = directory.join(".rakuda");
    let mut lines = Vec::new();
    for entry in fs::read_dir(root.join("running")).into_iter().flatten().flatten() {
        let Ok(marker) = File::open(entry.path()) else {
            continue;
        };
        if flock(&marker, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let content = fs::read(entry.path()).unwrap_or_default();
        let end = content.iter().rposition(|byte| *byte == b'\n').unwrap_or(content.len());
        let journal = PathBuf::from(Text(content[..end].to_vec()).as_os_str());
        if let Some(mark) = content.get(end + 1..).and_then(|mark| str::from_utf8(mark).ok())
            && !mark.is_empty()
            && !processes::carries(mark)
        {
            // Front, hub and guard were all killed: what they had started may still run.
            processes::kill_marked(mark, &[]);
        }
        recover_run(&root, directory, &journal, &mut lines);
        // Left in place it would only be looked at again.
        let _ = fs::remove_file(entry.path());
    }
    lines
}

fn recover_run(root: &Path, directory: &Path, journal: &Path, lines: &mut Vec<String>) {
    let Ok(file) = File::open(journal) else {
        return;
    };
    let mut open = BTreeMap::new();
    let mut policy = FailedTarget::default();
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        // A torn last line is an event whose effect never left the hub.
        match serde_json::from_slice(&line) {
            Ok(JournalEvent::RunStarted { failed_target, .. }) => policy = failed_target,
            Ok(JournalEvent::AttemptStarted { task, name, is_path: true, before, .. }) => {
                open.insert(task, (name, before));
            }
            Ok(JournalEvent::AttemptEnded { task, .. }) => drop(open.remove(&task)),
            Ok(JournalEvent::AttemptStarted { .. } | JournalEvent::RunEnded { .. }) | Err(_) => {}
        }
    }
    let mut unfinished = read_unfinished(root);
    for (name, before) in open.into_values() {
        let settled = settle_target(&directory.join(name.as_path()), before, policy);
        if settled.still_there() {
            unfinished.insert(name.0.clone());
        }
        lines.extend(
            settled
                .describe(&name.to_display())
                .map(|text| format!("{text} (left by a run that was cut off)")),
        );
    }
    let _ = write_unfinished(root, &unfinished);
    let mut last = vec![b'\n'];
    let how = "recovered".to_owned();
    push_line(&mut last, &JournalEvent::RunEnded { time_ns: clock::wall_ns(), how });
    if let Ok(mut journal) = OpenOptions::new().append(true).open(journal) {
        let _ = journal.write_all(&last);
    }
}

/// Keeps the newest [`RUNS_KEPT`] runs; their names sort by time.
fn prune(runs: &Path) {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names.iter().take(names.len().saturating_sub(RUNS_KEPT)) {
        let _ = fs::remove_dir_all(runs.join(name));
    }
}

/// `20261121-204312.123`, UTC.
fn timestamp_name(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}.{:03}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        time_ns.rem_euclid(1_000_000_000) / 1_000_000
    )
}

/// Days since 1970 to year, month, day of the Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Count from 1 March of year 0, so that the leap day is the last of a year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_named_by_its_utc_date() {
        assert_eq!(timestamp_name(0), "19700101-000000.000");
        assert_eq!(timestamp_name(1_709_210_096_789_000_000), "20240229-123456.789");
        assert_eq!(timestamp_name(-1), "19691231-235959.999");
    }

    #[test]
    fn the_target_of_an_attempt_that_was_cut_off_is_renamed_by_the_next_hub() {
        let directory = std::env::temp_dir().join(format!("rakuda-record-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut record = Record::new(&directory, None, true, Vec::new(), FailedTarget::Rename);
        for (task, name) in [(0, "done"), (1, "half"), (2, "untouched")] {
            let before = crate::facts::identity_of(&directory.join("untouched"))
                .filter(|_| name == "untouched");
            record.push(&JournalEvent::AttemptStarted {
                time_ns: 0,
                task,
                attempt: 1,
                name: Text::from(name),
                is_path: true,
                before,
            });
            if task < 2 {
                fs::write(directory.join(name), name).unwrap();
                fs::write(directory.join("untouched"), "old").unwrap();
            }
        }
        record.push(&JournalEvent::AttemptEnded { time_ns: 0, task: 0, ok: true });
        record.flush().unwrap();
        assert_eq!(recover(&directory), Vec::<String>::new(), "its owner lives");
        record.open = None;
        let lines = recover(&directory);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(directory.join("done").exists());
        assert!(directory.join("untouched").exists());
        assert!(!directory.join("half").exists());
        assert!(directory.join("half._fail_").exists());
        assert_eq!(recover(&directory), Vec::<String>::new(), "settled once");
        fs::remove_dir_all(&directory).unwrap();
    }
}
