//! Attempts that wait for their inputs: those that have room, until all of them are there, and
//! those that have none yet, in line.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::input::StagerEffect;
use super::sets::Sets;
use crate::ids::{GangId, NodeId, TaskId};

/// An attempt and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    pub id: TaskId,
    pub attempt: u32,
    pub node: NodeId,
    /// Another command of it runs.
    pub reads: bool,
    /// Streams join it to others of this gang.
    pub gang: Option<GangId>,
}

#[derive(Debug)]
struct Waiting {
    reader: Reader,
    /// All that it reads.
    files: Vec<TaskId>,
    /// What is not there yet.
    left: BTreeSet<TaskId>,
    /// Number of files that it has written itself and that are not there yet; `None` until the shell says so.
    own_left: Option<u32>,
}

/// The attempts that wait for files, and those that wait for room.
#[derive(Debug, Default)]
pub(super) struct Readers {
    waiting: BTreeMap<TaskId, Waiting>,
    lines: BTreeMap<NodeId, RoomQueue>,
}

/// Those that wait for room on a node.
#[derive(Debug, Default)]
struct RoomQueue {
    readers: VecDeque<Reader>,
    /// Who has been asked last, and has not answered.
    asked: Option<TaskId>,
}

impl Readers {
    pub fn is_waiting(&self, id: TaskId, attempt: u32) -> bool {
        self.waiting.get(&id).is_some_and(|waiting| waiting.reader.attempt == attempt)
    }

    /// Whether some attempt waits for a file on a node.
    pub fn is_awaited(&self, file: TaskId, node: NodeId) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|waiting| waiting.reader.node == node && waiting.left.contains(&file))
    }

    /// An attempt has room.
    pub fn admit(&mut self, reader: Reader, files: Vec<TaskId>, missing: Vec<TaskId>) {
        self.leave_line(reader.id, reader.node);
        let left = missing.into_iter().collect();
        let waiting = Waiting { reader, files, left, own_left: None };
        self.waiting.insert(reader.id, waiting);
    }

    pub fn own_files(&mut self, id: TaskId, count: u32) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.own_left = Some(count);
        }
    }

    pub fn own_file_there(&mut self, id: TaskId, attempt: u32) {
        let waiting = self.waiting.get_mut(&id);
        if let Some(waiting) = waiting.filter(|waiting| waiting.reader.attempt == attempt) {
            waiting.own_left = waiting.own_left.map(|count| count.saturating_sub(1));
        }
    }

    pub fn file_there(&mut self, file: TaskId, node: NodeId) {
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.reader.node == node) {
            waiting.left.remove(&file);
        }
    }

    /// Those that have all they need wait no more.
    pub fn take_ready<S>(&mut self, out: &mut Vec<StagerEffect<S>>) {
        let is_over = |waiting: &Waiting| waiting.left.is_empty() && waiting.own_left == Some(0);
        self.waiting.retain(|id, waiting| {
            let ready = is_over(waiting);
            if ready {
                out.push(StagerEffect::InputsThere { id: *id, attempt: waiting.reader.attempt });
            }
            !ready
        });
    }

    /// Those that wait for a file on a node do so no more.
    pub fn take_waiting_for(&mut self, file: TaskId, node: NodeId) -> Vec<Reader> {
        self.take_those(|waiting| waiting.reader.node == node && waiting.left.contains(&file))
    }

    /// Takes those that wait and for which, with what they read, `is_it` is true.
    pub fn take(&mut self, is_it: impl Fn(&Reader, &[TaskId]) -> bool) -> Vec<Reader> {
        self.take_those(|waiting| is_it(&waiting.reader, &waiting.files))
    }

    fn take_those(&mut self, is_it: impl Fn(&Waiting) -> bool) -> Vec<Reader> {
        let mut taken = Vec::new();
        self.waiting.retain(|_, waiting| {
            let is_taken = is_it(waiting);
            taken.extend(is_taken.then_some(waiting.reader));
            !is_taken
        });
        taken
    }

    /// There is no room for an attempt: it keeps its place, or takes the last one.
    pub fn stand_in_line(&mut self, reader: Reader) {
        self.waiting.remove(&reader.id);
        let line = self.lines.entry(reader.node).or_default();
        match line.readers.iter_mut().find(|other| other.id == reader.id) {
            Some(same) => *same = reader,
            None => line.readers.push_back(reader),
        }
        line.asked = line.asked.filter(|asked| *asked != reader.id);
    }

    /// An attempt stands before all others.
    pub fn stand_first(&mut self, reader: Reader) {
        self.leave_line(reader.id, reader.node);
        let line = self.lines.entry(reader.node).or_default();
        line.readers.push_front(reader);
    }

    /// Nodes on which attempts wait for room.
    pub fn nodes_in_line(&self) -> Vec<NodeId> {
        self.lines.keys().copied().collect()
    }

    /// Whether attempts wait for room on a node.
    pub fn has_line(&self, node: NodeId) -> bool {
        self.lines.contains_key(&node)
    }

    /// Whether an attempt stands in line for room on a node.
    pub fn is_in_line(&self, id: TaskId, node: NodeId) -> bool {
        let line = self.lines.get(&node);
        line.is_some_and(|line| line.readers.iter().any(|reader| reader.id == id))
    }

    /// No other command of an attempt runs.
    pub fn reads_no_more(&mut self, id: TaskId, node: NodeId) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.reader.reads = false;
        }
        let line = self.lines.get_mut(&node);
        for reader in line.into_iter().flat_map(|line| &mut line.readers) {
            reader.reads &= reader.id != id;
        }
    }

    /// An attempt no longer wants anything.
    pub fn forget(&mut self, id: TaskId, node: NodeId) {
        self.waiting.remove(&id);
        self.leave_line(id, node);
    }

    fn leave_line(&mut self, id: TaskId, node: NodeId) {
        let Some(line) = self.lines.get_mut(&node) else { return };
        line.asked = line.asked.filter(|asked| *asked != id);
        line.readers.retain(|reader| reader.id != id);
        if line.readers.is_empty() {
            self.lines.remove(&node);
        }
    }

    /// Whether one stands in line on a node that comes before this one, wherever that stands.
    pub fn is_preceded(&self, id: TaskId, node: NodeId, sets: &Sets) -> bool {
        let line = self.lines.get(&node).filter(|_| sets.is_any_awaited() && !sets.is_awaited(id));
        line.is_some_and(|line| line.readers.iter().any(|reader| sets.is_awaited(reader.id)))
    }

    /// Something may have changed for the next one: the first in line of a set that has begun to be let in, else the
    /// first that is not held back.
    pub fn ask_next<S>(&mut self, node: NodeId, sets: &Sets, out: &mut Vec<StagerEffect<S>>) {
        let Some(line) = self.lines.get_mut(&node) else { return };
        let mut readers = line.readers.iter();
        let awaited = || line.readers.iter().find(|reader| sets.is_awaited(reader.id));
        let first = sets.is_any_awaited().then(awaited).flatten();
        let next = first.or_else(|| readers.find(|reader| !sets.holds_back(reader)));
        if let Some(Reader { id, attempt, node, .. }) = next.copied()
            && line.asked != Some(id)
        {
            line.asked = Some(id);
            out.push(StagerEffect::AskAgain { id, attempt, node });
        }
    }

    /// A node is gone, and with it all that ran there.
    pub fn lose(&mut self, node: NodeId) {
        self.lines.remove(&node);
        self.waiting.retain(|_, waiting| waiting.reader.node != node);
    }
}
