//! What a run that was cut off was doing: attempts that began and did not end. Made for recovery, which has to decide
//! quickly after a long run: it looks at the task's number of an attempt's lines and at nothing else, keeps only what
//! is open, and reads whole lines only of those.
//!
//! It does not know what is done about them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptStarted, FileIdentity, JournalEvent, Outcome, RunEnded, RunStarted, TargetFate,
    TaskDefined, TaskKind,
};

use crate::reader::{ReadError, Skipped, Wanted, read_wanted};

/// What a journal leaves open.
#[derive(Debug, Default)]
pub struct Unfinished {
    /// The first line; none: it is damaged.
    pub started: Option<RunStarted>,
    /// None: the run was cut off, or lives.
    pub ended: Option<RunEnded>,
    /// Attempts that began and did not end, or were the last of their task and did not end well, by the task's number.
    pub attempts: Vec<OpenAttempt>,
    /// What could not be read.
    pub skipped: Skipped,
}

/// An attempt that has made nothing good.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAttempt {
    /// Its task; none: that line is damaged.
    pub task: Option<TaskDefined>,
    /// How it began.
    pub started: AttemptStarted,
    /// It has ended, and its target was settled then. What it has left behind may have made it again.
    pub is_settled: bool,
    /// What became of the target.
    pub fate: Option<TargetFate>,
}

/// The file or directory that such an attempt was to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTarget {
    /// The task's name.
    pub name: Text,
    /// Where it is: relative to the run's directory, or absolute.
    pub path: Text,
    /// What it was when the attempt began.
    pub before: Option<FileIdentity>,
    /// It is still there, as the user was told when the attempt ended.
    pub is_known: bool,
}

impl Unfinished {
    /// Targets which may be half-written.
    pub fn targets(&self) -> impl Iterator<Item = OpenTarget> {
        // Of a run that ended, nothing is open whose end was not noted.
        let attempts =
            self.attempts.iter().filter(|attempt| self.ended.is_none() || attempt.is_settled);
        attempts.filter_map(|attempt| {
            let task = attempt.task.as_ref()?;
            let made = matches!(task.kind, TaskKind::File | TaskKind::Directory);
            made.then(|| OpenTarget {
                name: task.name.clone(),
                path: attempt.started.target.clone().unwrap_or_else(|| task.name.clone()),
                before: attempt.started.before,
                is_known: matches!(attempt.fate, Some(TargetFate::Left | TargetFate::Stuck)),
            })
        })
    }

    /// Reads a journal, and the definitions of what is open in a second pass when there is any.
    ///
    /// # Errors
    /// When reading fails, or the journal is of another version.
    pub fn read(mut journal: impl Read + Seek) -> Result<Self, ReadError> {
        journal.seek(SeekFrom::Start(0))?;
        let mut found = Self::default();
        let mut open = BTreeMap::new();
        let wanted = Wanted::RUN_STARTED
            .and(Wanted::RUN_ENDED)
            .and(Wanted::ATTEMPT_STARTED)
            .and(Wanted::ATTEMPT_ENDED);
        found.skipped = read_wanted(buffered(&mut journal), wanted, |event, _| match event {
            JournalEvent::RunStarted(started) => found.started = Some(started),
            JournalEvent::RunEnded(ended) => found.ended = Some(ended),
            JournalEvent::AttemptStarted(started) => {
                let attempt = OpenAttempt { task: None, started, is_settled: false, fate: None };
                open.insert(attempt.started.task, attempt);
            }
            JournalEvent::AttemptEnded(ended) if ended.outcome == Outcome::Done => {
                open.remove(&ended.task);
            }
            JournalEvent::AttemptEnded(ended) => {
                if let Some(attempt) = open.get_mut(&ended.task) {
                    (attempt.is_settled, attempt.fate) = (true, ended.target);
                }
            }
            _ => {}
        })?;
        if !open.is_empty() {
            journal.seek(SeekFrom::Start(0))?;
            read_wanted(buffered(&mut journal), Wanted::TASK_DEFINED, |event, _| {
                if let JournalEvent::TaskDefined(defined) = event
                    && let Some(place) = open.get_mut(&defined.task)
                {
                    place.task = Some(defined);
                }
            })?;
        }
        found.attempts = open.into_values().collect();
        Ok(found)
    }
}

fn buffered<R: Read>(journal: R) -> impl BufRead {
    BufReader::with_capacity(1 << 18, journal)
}

/// The last line of a journal that is a whole event of `wanted`, looked for in the last 64 KiB: the state of a run
/// without reading all of it.
///
/// # Errors
/// When reading fails.
pub fn last_event(
    mut journal: impl Read + Seek,
    wanted: Wanted,
) -> Result<Option<JournalEvent>, ReadError> {
    const TAIL: u64 = 1 << 16;
    let bytes = journal.seek(SeekFrom::End(0))?;
    journal.seek(SeekFrom::Start(bytes.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    journal.take(TAIL).read_to_end(&mut tail)?;
    let mut last = None;
    // The first piece is the end of some line, which counts as damage and is skipped.
    read_wanted(io::Cursor::new(tail), wanted, |event, _| last = Some(event))?;
    Ok(last)
}
