//! Lines of a journal to events, one at a time, in bounded memory.
//!
//! It knows what damage to expect: a torn last line, a line that is no JSON, a line without end,
//! numbers beyond their bounds, events that it does not know. It does not know what events mean
//! together.
//!
//! An event's name is looked at before its line is parsed, so that what is not wanted costs a
//! search for a line feed, and what is wanted goes straight into its struct (serde's tagged enums
//! take a copy of the whole line on the way).

use std::io::{self, BufRead};

use rakuda_proto::journal::{JOURNAL_VERSION, JournalEvent};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::bounds;

/// Maximum bytes of a line. A longer one is damage, and is skipped without being kept in memory.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes do not come.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its events are others.
    #[error("the journal is of version {found}, and this program reads version {JOURNAL_VERSION}")]
    Version {
        /// What it says it is.
        found: u32,
    },
}

/// What was skipped while reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The last line had no end: it was being written.
    pub torn: bool,
    /// Whole lines that are no event: no JSON, fields missing, numbers beyond their [`bounds`], or
    /// longer than [`LINE_BYTES_MAX`].
    pub damaged: u64,
    /// Events of a later version.
    pub unknown: u64,
}

/// Which events are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted(u32);

macro_rules! events {
    ($($name:literal $variant:ident $constant:ident),* $(,)?) => {
        #[derive(Clone, Copy)]
        enum Name { $($variant),* }

        impl Name {
            fn of(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() { return Some(Self::$variant); })*
                None
            }

            fn parse(self, line: &[u8]) -> serde_json::Result<JournalEvent> {
                Ok(match self { $(Self::$variant => JournalEvent::$variant(serde_json::from_slice(line)?)),* })
            }
        }

        #[allow(missing_docs, reason = "named like the events, which the journal's page explains")]
        impl Wanted {
            $(pub const $constant: Self = Self(1 << Name::$variant as u32);)*
            pub const ALL: Self = Self(u32::MAX);
        }
    };
}

events! {
    "run_started" RunStarted RUN_STARTED,
    "node_joined" NodeJoined NODE_JOINED,
    "node_lost" NodeLost NODE_LOST,
    "node_gone" NodeGone NODE_GONE,
    "invocation_started" InvocationStarted INVOCATION_STARTED,
    "invocation_ended" InvocationEnded INVOCATION_ENDED,
    "rule_defined" RuleDefined RULE_DEFINED,
    "task_defined" TaskDefined TASK_DEFINED,
    "attempt_started" AttemptStarted ATTEMPT_STARTED,
    "gang_started" GangStarted GANG_STARTED,
    "streams_opened" StreamsOpened STREAMS_OPENED,
    "streams_rerouted" StreamsRerouted STREAMS_REROUTED,
    "streams_stalled" StreamsStalled STREAMS_STALLED,
    "streams_ended" StreamsEnded STREAMS_ENDED,
    "command_started" CommandStarted COMMAND_STARTED,
    "command_prepared" CommandPrepared COMMAND_PREPARED,
    "command_ended" CommandEnded COMMAND_ENDED,
    "attempt_ended" AttemptEnded ATTEMPT_ENDED,
    "task_settled" TaskSettled TASK_SETTLED,
    "task_blamed" TaskBlamed TASK_BLAMED,
    "node_chosen" NodeChosen NODE_CHOSEN,
    "task_reopened" TaskReopened TASK_REOPENED,
    "input_lost" InputLost INPUT_LOST,
    "file_staged" FileStaged FILE_STAGED,
    "clock_stepped" ClockStepped CLOCK_STEPPED,
    "round_ended" RoundEnded ROUND_ENDED,
    "round_values" RoundValues ROUND_VALUES,
    "stop_requested" StopRequested STOP_REQUESTED,
    "run_ended" RunEnded RUN_ENDED,
}

impl Wanted {
    /// Both these and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without those.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn has(self, name: Name) -> bool {
        self.0 & (1 << name as u32) != 0
    }
}

/// Calls `each` with every event of a journal, in order.
///
/// # Errors
/// When reading fails, or the journal is of another version.
pub fn read_events(
    journal: impl BufRead,
    mut each: impl FnMut(JournalEvent),
) -> Result<Skipped, ReadError> {
    read_wanted(journal, Wanted::ALL, |event, _| each(event))
}

/// Calls `each` with every event that is `wanted` and the offset of its line, in order. Lines of
/// others are not checked beyond their name.
///
/// # Errors
/// When reading fails, or the journal is of another version (known only when `run_started` is wanted).
pub fn read_wanted(
    journal: impl BufRead,
    wanted: Wanted,
    mut each: impl FnMut(JournalEvent, u64),
) -> Result<Skipped, ReadError> {
    read_lines(journal, wanted, false, |found, offset| match found {
        Found::Event(event) => each(event, offset),
        Found::Damage | Found::Other => {}
    })
}

/// What a whole line is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub enum Found {
    /// An event that is wanted.
    Event(JournalEvent),
    /// No event.
    Damage,
    /// Something else than what is wanted.
    Other,
}

/// As [`read_wanted`], but checks every line, and calls `each` for each: for callers that must know what damage may
/// have hidden.
///
/// # Errors
/// When reading fails, or the journal is of another version.
pub fn read_strictly(
    journal: impl BufRead,
    wanted: Wanted,
    each: impl FnMut(Found, u64),
) -> Result<Skipped, ReadError> {
    read_lines(journal, wanted, true, each)
}

fn read_lines(
    mut journal: impl BufRead,
    wanted: Wanted,
    strict: bool,
    mut each: impl FnMut(Found, u64),
) -> Result<Skipped, ReadError> {
    let mut skipped = Skipped::default();
    let mut lines = Lines { journal: &mut journal, begun: Vec::new(), too_long: false };
    let mut offset = 0;
    loop {
        let start = offset;
        let (end, bytes) = lines.next(|line| {
            each(
                match parse(line, wanted, strict) {
                    ParsedLine::Event(event) => {
                        if let JournalEvent::RunStarted(started) = &event {
                            check_version(started.version)?;
                        }
                        Found::Event(event)
                    }
                    ParsedLine::Unwanted => Found::Other,
                    ParsedLine::Unknown => {
                        skipped.unknown += 1;
                        Found::Other
                    }
                    ParsedLine::Damaged => {
                        skipped.damaged += 1;
                        Found::Damage
                    }
                },
                start,
            );
            Ok(())
        })?;
        offset += bytes;
        match end {
            LineEnd::Whole => {}
            LineEnd::TooLong => {
                skipped.damaged += 1;
                each(Found::Damage, start);
            }
            LineEnd::Torn => skipped.torn = true,
            LineEnd::Nothing => return Ok(skipped),
        }
    }
}

fn check_version(found: u32) -> Result<(), ReadError> {
    // Zero is a first line that does not say; version 1 had other fields.
    if found == 0 || found == JOURNAL_VERSION { Ok(()) } else { Err(ReadError::Version { found }) }
}

enum LineEnd {
    Nothing,
    Torn,
    TooLong,
    Whole,
}

/// Cuts a journal into lines. A line that lies in the reader's buffer as a whole is used there.
struct Lines<'a, R> {
    journal: &'a mut R,
    /// The beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// That line is longer than [`LINE_BYTES_MAX`], and is not kept.
    too_long: bool,
}

impl<R: BufRead> Lines<'_, R> {
    /// Gives the next whole line, without its line feed, to `each`. How it ended, and how many bytes were read.
    fn next(
        &mut self,
        each: impl FnOnce(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(LineEnd, u64), ReadError> {
        self.begun.clear();
        self.too_long = false;
        let mut read = 0;
        loop {
            let bytes = match self.journal.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if bytes.is_empty() {
                return Ok((if read == 0 { LineEnd::Nothing } else { LineEnd::Torn }, read));
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                let all = bytes.len();
                Self::keep(&mut self.begun, &mut self.too_long, bytes);
                self.journal.consume(all);
                read += all as u64;
                continue;
            };
            let end_of_line = if self.begun.is_empty() && !self.too_long {
                each(&bytes[..end])?;
                LineEnd::Whole
            } else {
                Self::keep(&mut self.begun, &mut self.too_long, &bytes[..end]);
                if self.too_long {
                    LineEnd::TooLong
                } else {
                    each(&self.begun)?;
                    LineEnd::Whole
                }
            };
            self.journal.consume(end + 1);
            return Ok((end_of_line, read + end as u64 + 1));
        }
    }

    fn keep(begun: &mut Vec<u8>, too_long: &mut bool, part: &[u8]) {
        if *too_long || begun.len() + part.len() > LINE_BYTES_MAX {
            *too_long = true;
            *begun = Vec::new();
        } else {
            begun.extend_from_slice(part);
        }
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack, and nearly always an event"
)]
enum ParsedLine {
    Event(JournalEvent),
    Unwanted,
    Unknown,
    Damaged,
}

/// Only the name, wherever in the line it stands.
#[derive(Deserialize)]
struct Peek {
    event: String,
}

fn parse(line: &[u8], wanted: Wanted, strict: bool) -> ParsedLine {
    if line.is_empty() {
        return ParsedLine::Unwanted;
    }
    let name = match first_name(line) {
        Some(name) => Name::of(name),
        None => match serde_json::from_slice::<Peek>(line) {
            Ok(peek) => Name::of(peek.event.as_bytes()),
            Err(_) => return ParsedLine::Damaged,
        },
    };
    match name {
        Some(name) if !wanted.has(name) => {
            // Two lines whose bytes in between were lost begin like the first one.
            let sound = !strict || serde_json::from_slice::<IgnoredAny>(line).is_ok();
            if sound { ParsedLine::Unwanted } else { ParsedLine::Damaged }
        }
        Some(name) => match name.parse(line) {
            Ok(event) if bounds::hold(&event) => ParsedLine::Event(event),
            Ok(_) | Err(_) => ParsedLine::Damaged,
        },
        None if serde_json::from_slice::<IgnoredAny>(line).is_ok() => ParsedLine::Unknown,
        None => ParsedLine::Damaged,
    }
}

/// The name, when it is the first field, as the hub writes it.
fn first_name(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"event\":\"")?;
    let end = rest.iter().take(32).position(|byte| *byte == b'"')?;
    Some(&rest[..end])
}
