//! The journal of a run, read while it is written, and what must be in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rakuda_proto::journal::{JournalEvent, Outcome};
use rakuda_record::reader::{Skipped, read_events};

use crate::agents::Words;
use crate::plan::Plan;

/// What a line of the journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    AttemptStarted(u32, u32),
    CommandStarted(u32),
    CommandEnded(u32),
    InvocationEnded(u32),
    StopRequested,
    RunEnded,
}

/// The journal of a run, as far as somebody has read it.
pub struct Journal {
    runs: PathBuf,
    bytes_read: usize,
    pub notes: BTreeSet<Note>,
    /// How many attempts of each task have ended.
    pub attempts_ended: BTreeMap<u32, u32>,
    /// How often each node has joined, and was lost.
    pub joined: BTreeMap<u32, u32>,
    pub lost: BTreeMap<u32, u32>,
    /// Where the last attempt of each task was begun.
    nodes: BTreeMap<u32, u32>,
    /// Attempts that have ended well: task and node.
    made: BTreeSet<(u32, u32)>,
    /// Files that were staged in or out, by their tasks.
    pub staged: BTreeSet<(u32, u32)>,
    /// What is wrong. Nobody fails before the run is over: the hub would wait for the rest of it.
    pub faults: Vec<String>,
}

impl Journal {
    pub fn of(directory: &Path) -> Self {
        Self {
            runs: directory.join(".rakuda/runs"),
            bytes_read: 0,
            notes: BTreeSet::new(),
            attempts_ended: BTreeMap::new(),
            joined: BTreeMap::new(),
            lost: BTreeMap::new(),
            nodes: BTreeMap::new(),
            made: BTreeSet::new(),
            staged: BTreeSet::new(),
            faults: Vec::new(),
        }
    }

    pub fn read(&mut self) {
        let Some(run) = std::fs::read_dir(&self.runs).ok().and_then(|mut runs| runs.next()) else {
            return;
        };
        let path = run.expect("list the runs").path().join("journal.jsonl");
        let text = std::fs::read(path).unwrap_or_default();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let skipped = read_events(&text[self.bytes_read..whole], |event| self.take(&event));
        assert_eq!(skipped.expect("a journal"), Skipped::default());
        self.bytes_read = whole;
    }

    fn take(&mut self, event: &JournalEvent) {
        let note = match event {
            JournalEvent::AttemptStarted(one) => {
                self.nodes.insert(one.task, one.node);
                Note::AttemptStarted(one.task, one.attempt)
            }
            JournalEvent::AttemptEnded(one) => {
                *self.attempts_ended.entry(one.task).or_default() += 1;
                if one.outcome == Outcome::Done {
                    self.made.insert((one.task, self.nodes[&one.task]));
                }
                return;
            }
            JournalEvent::FileStaged(one) => {
                self.staged.insert((one.task, one.to));
                return;
            }
            JournalEvent::NodeJoined(one) => {
                return *self.joined.entry(one.node).or_default() += 1;
            }
            JournalEvent::NodeLost(one) => return *self.lost.entry(one.node).or_default() += 1,
            JournalEvent::CommandStarted(one) => Note::CommandStarted(one.command),
            JournalEvent::CommandEnded(one) => Note::CommandEnded(one.command),
            JournalEvent::InvocationEnded(one) => Note::InvocationEnded(one.invocation),
            JournalEvent::StopRequested(_) => Note::StopRequested,
            JournalEvent::RunEnded(_) => Note::RunEnded,
            _ => return,
        };
        let is_new = self.notes.insert(note);
        if !is_new && note != Note::StopRequested {
            self.faults.push(format!("{note:?} is noted twice"));
        }
    }

    /// Something has come that stands for this note.
    pub fn expect(&mut self, note: Note) {
        self.expect_that(|it| it.notes.contains(&note), || format!("{note:?}"));
    }

    /// Something has come before which this must be so.
    pub fn expect_that(&mut self, is_so: impl Fn(&Self) -> bool, what: impl Fn() -> String) {
        self.read();
        if !is_so(self) {
            self.faults.push(format!("it came before {}; there are {:?}", what(), self.notes));
        }
    }

    /// So many attempts of a task must have ended by now.
    pub fn expect_ended(&mut self, task: u32, attempts: u32) {
        let ended = |it: &Self| it.attempts_ended.get(&task).copied().unwrap_or(0);
        self.expect_that(
            |it| ended(it) >= attempts,
            || format!("attempt {attempts} of {task} ended"),
        );
    }

    /// A command was handed to an agent: its attempt has begun, and the files that it reads are on its node.
    pub fn expect_for(&mut self, words: Words, node: u32, plan: &Plan) {
        let Words { task, attempt, .. } = words;
        self.expect(Note::AttemptStarted(task, attempt));
        if plan.stages() {
            for file in plan.files_of(task) {
                self.expect_that(
                    |it| it.has(file, node, plan),
                    || format!("file {file} was staged in to node {node} for {task}"),
                );
            }
        }
    }

    /// Whether a node has a file: it was made or staged in there. What the code of an action makes is here.
    pub fn has(&self, file: u32, node: u32, plan: &Plan) -> bool {
        let is_made_there = match plan.tasks[file as usize].commands {
            0 => node == 0,
            _ => self.made.contains(&(file, node)),
        };
        is_made_there || self.staged.contains(&(file, node))
    }
}
