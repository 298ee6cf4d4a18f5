//! What a run that was cut off was doing: attempts that began and did not end, and from where on
//! its journal cannot be trusted to tell. Made for recovery, which has to decide quickly after a
//! long run: it reads the lines of attempts, checks that the others are lines, keeps only what is
//! open, and reads definitions only of that.
//!
//! It does not know what is done about them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptStarted, FileIdentity, JournalEvent, Outcome, RunEnded, RunStarted, TargetFate,
    TaskDefined, TaskKind,
};

use crate::reader::{Found, ReadError, Skipped, Wanted, read_strictly, read_wanted};

/// What a journal leaves open.
#[derive(Debug, Default)]
pub struct Unfinished {
    /// The first line. `None`: it is damaged.
    pub started: Option<RunStarted>,
    /// `None`: the run was cut off, or lives.
    pub ended: Option<RunEnded>,
    /// Attempts that began and did not end, or were the last of their task and did not end well, or whose gang did not,
    /// by the task's number.
    pub attempts: Vec<OpenAttempt>,
    /// `None`: all lines are there that were written, as far as that can be told.
    pub damage: Option<Damage>,
    /// The newest time in a line, by the journal's clock. `None`: there is none.
    pub newest_ns: Option<i64>,
    /// How far the machine's clock, which stamps files, was ahead of that at the least and at the
    /// most; a clock that was never set: 0.
    pub clock_ahead_ns: (i64, i64),
    /// What could not be read.
    pub skipped: Skipped,
}

/// An attempt that has made nothing good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// `None`: that line is damaged.
    pub task: Option<TaskDefined>,
    /// As it began.
    pub started: AttemptStarted,
    /// Its end may have been in what is damaged since it began.
    pub is_suspected: bool,
    /// It has ended well, and other tasks of its gang have not: what it has made is no result.
    pub awaits_gang: bool,
    /// It has ended, and its target was settled then. What it has left behind may have made it again.
    pub is_settled: bool,
    /// What became of the target then.
    pub fate: Option<TargetFate>,
}

/// Lines that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where the last one is or was, bytes from the start of the journal.
    pub last_offset: u64,
    /// The newest time in a line before the first of them, ns since 1970. `None`: there is none.
    pub after_ns: Option<i64>,
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
    /// The attempt may have ended well: the line that says so may be lost.
    pub is_suspected: bool,
    /// It is still there, as the run said when the attempt ended.
    pub is_known: bool,
}

impl Unfinished {
    /// Targets which may be half-written.
    pub fn targets(&self) -> impl Iterator<Item = OpenTarget> {
        // Of a run that ended, nothing is open whose end was not noted.
        let attempts =
            self.attempts.iter().filter(|attempt| self.ended.is_none() || attempt.is_settled);
        attempts.filter_map(|OpenAttempt { task, started, is_suspected, fate, .. }| {
            let task = task.as_ref()?;
            let made = matches!(task.kind, TaskKind::File | TaskKind::Directory);
            made.then(|| OpenTarget {
                name: task.name.clone(),
                path: started.target.clone().unwrap_or_else(|| task.name.clone()),
                before: started.before,
                is_suspected: *is_suspected,
                is_known: matches!(fate, Some(TargetFate::Left | TargetFate::Stuck)),
            })
        })
    }

    /// Reads a journal, and the definitions of what is open in a second pass when there is any. `bytes`: minimum bytes
    /// of whole lines that were written. `None`: not known.
    ///
    /// # Errors
    /// When reading fails, or the journal is of another version.
    pub fn read(mut journal: impl Read + Seek, bytes: Option<u64>) -> Result<Self, ReadError> {
        let all = journal.seek(SeekFrom::End(0))?;
        journal.seek(SeekFrom::Start(0))?;
        let mut pass = Pass::default();
        let wanted = Wanted::RUN_STARTED
            .and(Wanted::RUN_ENDED)
            .and(Wanted::ATTEMPT_STARTED)
            .and(Wanted::ATTEMPT_ENDED)
            .and(Wanted::GANG_STARTED)
            .and(Wanted::TASK_SETTLED)
            .and(Wanted::CLOCK_STEPPED);
        let skipped =
            read_strictly(buffered(&mut journal), wanted, |found, at| pass.see(found, at))?;
        let mut open = std::mem::take(&mut pass.open);
        if !open.is_empty() {
            journal.seek(SeekFrom::Start(0))?;
            read_wanted(buffered(&mut journal), Wanted::TASK_DEFINED, |event, _| {
                if let JournalEvent::TaskDefined(defined) = event
                    && let Some((_, attempt)) = open.get_mut(&defined.task)
                {
                    attempt.task = Some(defined);
                }
            })?;
        }
        let whole = if skipped.torn { whole_lines(&mut journal, all)? } else { all };
        if bytes.is_some_and(|bytes| bytes > whole) {
            pass.damage_at(whole);
        }
        // A task is defined before it begins.
        for (start, attempt) in open.values().filter(|(_, attempt)| attempt.task.is_none()) {
            let mut damage =
                pass.damage.unwrap_or(Damage { last_offset: *start, after_ns: pass.newest_ns });
            damage.after_ns = damage.after_ns.min(Some(attempt.started.time_ns));
            pass.damage = Some(damage);
        }
        let Pass { started, ended, damage, newest_ns, clock_ahead_ns, .. } = pass;
        let attempts = open.into_values().map(|(start, mut attempt)| {
            attempt.is_suspected = damage.is_some_and(|damage| damage.last_offset > start);
            attempt
        });
        let attempts = attempts.collect();
        Ok(Self { started, ended, attempts, damage, newest_ns, clock_ahead_ns, skipped })
    }
}

/// What is known after some lines.
#[derive(Default)]
struct Pass {
    started: Option<RunStarted>,
    ended: Option<RunEnded>,
    /// By the task's number: where the line is, and what it says.
    open: BTreeMap<u32, (u64, OpenAttempt)>,
    /// Tasks of gangs that have begun, and the gangs that tasks are in.
    gangs: BTreeMap<u32, Vec<u32>>,
    gang_of: BTreeMap<u32, u32>,
    /// The newest time so far.
    newest_ns: Option<i64>,
    damage: Option<Damage>,
    /// As in [`Unfinished`].
    clock_ahead_ns: (i64, i64),
}

impl Pass {
    fn damage_at(&mut self, offset: u64) {
        let after_ns = self.damage.map_or(self.newest_ns, |damage| damage.after_ns);
        self.damage = Some(Damage { last_offset: offset, after_ns });
    }

    fn begin(&mut self, offset: u64, mut attempt: OpenAttempt) {
        let task = attempt.started.task;
        if let Some((_, earlier)) = self.open.get(&task)
            && earlier.awaits_gang
        {
            // What the earlier one has made was there when this one began.
            attempt.started.before = earlier.started.before;
        }
        self.open.insert(task, (offset, attempt));
    }

    /// The last task of a gang that ends well makes results of what all have made.
    fn end_well(&mut self, task: u32) {
        let Some(tasks) = self.gang_of.get(&task).and_then(|gang| self.gangs.get(gang)) else {
            self.open.remove(&task);
            return;
        };
        if let Some((_, attempt)) = self.open.get_mut(&task) {
            attempt.awaits_gang = true;
        }
        let awaits = |task| self.open.get(task).is_none_or(|(_, attempt)| attempt.awaits_gang);
        if tasks.iter().all(awaits) {
            for task in tasks {
                self.open.remove(task);
            }
        }
    }

    fn see_time(&mut self, time_ns: i64) {
        self.newest_ns = self.newest_ns.max(Some(time_ns));
    }

    fn see(&mut self, found: Found, offset: u64) {
        let event = match found {
            Found::Event(event) => event,
            Found::Damage => return self.damage_at(offset),
            Found::Other => return,
        };
        if offset > 0 && self.started.is_none() && self.damage.is_none() {
            // It is the first line, always.
            self.damage_at(0);
        }
        match event {
            JournalEvent::RunStarted(started) => {
                self.see_time(started.time_ns);
                self.started = Some(started);
            }
            JournalEvent::RunEnded(ended) => self.ended = Some(ended),
            JournalEvent::ClockStepped(stepped) => {
                self.see_time(stepped.time_ns);
                let (least, most) = &mut self.clock_ahead_ns;
                *least = stepped.ahead_ns().min(*least);
                *most = stepped.ahead_ns().max(*most);
            }
            JournalEvent::AttemptStarted(started) => {
                self.see_time(started.time_ns);
                let attempt = OpenAttempt {
                    task: None,
                    started,
                    is_suspected: false,
                    awaits_gang: false,
                    is_settled: false,
                    fate: None,
                };
                self.begin(offset, attempt);
            }
            JournalEvent::GangStarted(gang) => {
                self.see_time(gang.time_ns);
                self.gang_of.extend(gang.tasks.iter().map(|task| (*task, gang.gang)));
                self.gangs.insert(gang.gang, gang.tasks);
            }
            JournalEvent::TaskSettled(settled) => {
                if let Some((_, attempt)) = self.open.get_mut(&settled.task) {
                    attempt.is_settled |= attempt.awaits_gang;
                }
            }
            JournalEvent::AttemptEnded(ended) => {
                self.see_time(ended.time_ns);
                if ended.outcome == Outcome::Done {
                    self.end_well(ended.task);
                } else if let Some((_, attempt)) = self.open.get_mut(&ended.task) {
                    (attempt.is_settled, attempt.fate) = (true, ended.target);
                }
            }
            _ => {}
        }
    }
}

fn buffered<R: Read>(journal: R) -> impl BufRead {
    BufReader::with_capacity(1 << 18, journal)
}

/// Where the last whole line ends of a journal of `end` bytes whose last line is torn.
fn whole_lines(journal: &mut (impl Read + Seek), mut end: u64) -> io::Result<u64> {
    /// Bytes that are read at a time.
    const STEP: u64 = 1 << 16;
    let mut part = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        journal.seek(SeekFrom::Start(start))?;
        part.clear();
        journal.by_ref().take(end - start).read_to_end(&mut part)?;
        if let Some(place) = memchr::memrchr(b'\n', &part) {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(0)
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
    /// Maximum bytes at the end of the journal that are read.
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
