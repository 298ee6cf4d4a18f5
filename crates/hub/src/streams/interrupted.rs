//! What had gone through streams that were closed before their end: each node reports it once, when it learns of the
//! first failure, and the hub notes it when all have.

use rakuda_core::{NodeId, TaskId, Time};
use rakuda_proto::Text;
use rakuda_proto::journal::StreamsEnded;
use rakuda_proto::streams::{EndAccount, OpeningId, StdoutHolder, StreamAccount, StreamEnd};

use super::over::unchecked;
use super::state::{Closing, Opening, Streams};
use crate::hub::Hub;

/// Timeout for the reports of nodes about closed streams, ns, after which the rest is noted; a run ends no sooner.
const WAIT_NS: u64 = 2_000_000_000;

impl Opening {
    /// Whether each node with a place of a stream has reported what went through there.
    fn is_told(&self) -> bool {
        let has_told = |node: &NodeId| self.interrupted.contains_key(node);
        self.nodes.iter().all(|(node, told)| told.is_some() || has_told(node))
    }
}

impl Streams {
    /// Until when the run is not to end, as something is to be noted.
    pub fn closing_due_ns(&self) -> Option<u64> {
        self.closing.values().map(|closing| closing.until.0).max()
    }

    /// All readers of a stream have left, as a node says of its writers there.
    pub(super) fn on_unread(&mut self, id: OpeningId, node: NodeId, name: &Text) {
        let Some(opening) = self.open.get(&id) else { return };
        let component = &mut self.components[opening.component];
        let stream = component.streams.iter().find(|stream| stream.name == *name);
        let writers = stream.into_iter().flat_map(|stream| &stream.writers);
        let here = |writer: &TaskId| opening.node_of.get(writer) == Some(&node);
        component.unread.extend(writers.map(|writer| TaskId(*writer)).filter(here));
    }

    /// What may be the cause when a command of a task fails that writes into a stream: nothing was left to read it.
    pub fn hint_for(&self, id: TaskId) -> Option<String> {
        let component = self.component_of(id).filter(|one| one.unread.contains(&id))?;
        let stream = component.streams.iter().find(|stream| stream.writers.contains(&id.0))?;
        Some(format!(
            "all readers of stream {} had left before its end, so its pipe was closed: a program that ignores SIGPIPE \
             fails with EPIPE then; let it end well, or say `on_close: :drain` of the stream",
            stream.name.to_display()
        ))
    }

    /// A node reports which processes hold the stdout of a task that has ended.
    pub(super) fn on_stdout_held(
        &mut self,
        id: OpeningId,
        task: TaskId,
        holders: Option<Vec<StdoutHolder>>,
    ) {
        let Some(opening) = self.open.get_mut(&id) else { return };
        match holders {
            Some(holders) => drop(opening.held_by.insert(task, holders)),
            None => drop(opening.held_by.remove(&task)),
        }
    }
}

impl Hub {
    /// A node reports what had gone through there when a member had failed, or all was closed.
    pub(super) fn on_interrupted(
        &mut self,
        id: OpeningId,
        node: NodeId,
        accounts: Vec<StreamAccount>,
    ) {
        let closing = self.streams.closing.get_mut(&id).map(|closing| &mut closing.opening);
        let Some(opening) = closing.or(self.streams.open.get_mut(&id)) else { return };
        if opening.nodes.get(&node).is_some_and(Option::is_none) {
            opening.interrupted.entry(node).or_insert(accounts);
        }
        self.note_interrupted_if_told(id);
    }

    /// Nothing of an opening is left: notes what had gone through when it is known, unless that is done.
    pub(super) fn await_accounts(&mut self, id: OpeningId, opening: Opening) {
        if opening.ending.is_interrupted() {
            let until = Time(self.now.time.0.saturating_add(WAIT_NS));
            self.streams.closing.insert(id, Closing { opening, until });
            self.note_interrupted_if_told(id);
        }
    }

    /// A node that is gone reports nothing more.
    pub(super) fn await_no_account_of(&mut self, node: NodeId) {
        let closing = self.streams.closing.keys();
        let ids: Vec<OpeningId> = closing.chain(self.streams.open.keys()).copied().collect();
        for id in ids {
            self.on_interrupted(id, node, Vec::new());
        }
    }

    /// Notes what nodes have been asked about for long; at the end of a run, all.
    pub(crate) fn note_interrupted(&mut self, is_end: bool) {
        let now = self.now.time;
        let closing = self.streams.closing.iter();
        let due = closing.filter(|(_, closing)| is_end || closing.until <= now);
        let due: Vec<OpeningId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.note_interrupted_one(id);
        }
    }

    fn note_interrupted_if_told(&mut self, id: OpeningId) {
        if self.streams.closing.get(&id).is_some_and(|closing| closing.opening.is_told()) {
            self.note_interrupted_one(id);
        }
    }

    fn note_interrupted_one(&mut self, id: OpeningId) {
        let Some(Closing { opening, .. }) = self.streams.closing.remove(&id) else { return };
        let component = &mut self.streams.components[opening.component];
        let streams: Vec<StreamAccount> = if opening.edges.all.is_empty() {
            opening.told().cloned().collect()
        } else {
            let all = component.streams.iter().enumerate();
            all.map(|(number, stream)| unchecked(&opening, number, &stream.name)).collect()
        };
        if streams.is_empty() {
            return;
        }
        component.interrupted.clone_from(&streams);
        self.note_streams_ended(StreamsEnded {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            streams,
            fault: None,
            at_fault: None,
            retried: false,
            interrupted: true,
        });
    }
}

/// What went in or out at a task's end of a stream.
pub(super) fn of_task(ends: &[EndAccount], task: TaskId) -> Option<&EndAccount> {
    ends.iter().find(|account| account.end == StreamEnd::Task(task.0))
}
