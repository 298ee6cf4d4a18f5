//! Gangs whose tasks run by turns, such as tasks that streams join over files. All of them begin at once, as far as the
//! life of the gang goes, but each has its share of its nodes only from its turn on: a task that waits holds nothing.
//!
//! The shell says whose turn it is. Room for a turn comes before room for a gang that has not begun: the gang of the
//! turn keeps all that its tasks have made so far.

use super::{GangPhase, Slot};
use crate::event::{Output, Settled};
use crate::ids::{GangId, NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::node::Need;
use crate::scheduler::task::TaskState;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A task whose turn has come, and that has no room yet.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    member: TaskId,
    /// The attempt whose turn it is.
    attempt: u32,
    /// Nodes on which it awaits room; empty: none was looked for yet.
    pub(super) awaited: Vec<NodeId>,
}

/// What tasks of a gang take when their turn comes: of their home first, then of other nodes.
pub(super) fn shares_of(slots: &[Slot]) -> BTreeMap<TaskId, Vec<(NodeId, Need)>> {
    let mut shares: BTreeMap<TaskId, Vec<(NodeId, Need)>> = BTreeMap::new();
    for slot in slots {
        shares.entry(slot.member).or_default().push((slot.node, slot.need));
    }
    shares
}

impl Scheduler {
    pub(super) fn runs_by_turns(&self, id: TaskId) -> bool {
        self.gangs.of(id).is_some_and(|gang| self.gangs.all[gang].by_turns)
    }

    /// Tasks that run and do nothing: callers that wait for an invocation, and with them those whose turn has not come.
    pub(crate) fn waiting_actions(&self) -> usize {
        let callers = self.invocations.callers.len();
        if callers == 0 || !self.gangs.any_by_turns {
            return callers;
        }
        let runs = |id: &&TaskId| matches!(self.graph.tasks[**id].state, TaskState::Running { .. });
        let waits = self.gangs.all.iter().flat_map(|(_, gang)| gang.shares.keys().filter(runs));
        callers + waits.count()
    }

    /// The turn of a task has come.
    pub(crate) fn on_turn_came(&mut self, id: TaskId) {
        let attempt = self.graph.tasks[id].attempt;
        self.gangs.turns.push(Turn { member: id, attempt, awaited: Vec::new() });
    }

    /// A task was to end before its turn came. The shell has said nothing of its attempt.
    pub(crate) fn on_not_begun(&mut self, id: TaskId, node: NodeId, out: &mut Vec<Output>) {
        assert!(self.runs_by_turns(id), "{id:?} has no turn");
        self.graph.tasks[id].aborted = false;
        let phase = self.gangs.of(id).map(|gang| self.gangs.all[gang].phase);
        if phase == Some(GangPhase::Breaking) {
            self.set_state(id, TaskState::AwaitingPeers { node });
        } else {
            self.settle(id, Settled::Abandoned, out);
        }
    }

    /// Gives shares to those whose turn has come, in the order in which it came; where one has to wait for room, no
    /// other takes it.
    pub(crate) fn take_turns(&mut self, now: Time, out: &mut Vec<Output>) {
        let has_more_room = !self.pending.with_capacity.is_empty();
        let is_new = |turn: &Turn| turn.awaited.is_empty();
        let first = if has_more_room { Some(0) } else { self.gangs.turns.iter().position(is_new) };
        let Some(first) = first.filter(|first| *first < self.gangs.turns.len()) else { return };
        if let Some(holder) = self.gangs.holder {
            self.release_slots(holder);
        }
        // Where one that came earlier waits.
        let mut full: BTreeSet<NodeId> = BTreeSet::new();
        for turn in self.gangs.turns.split_off(first) {
            if !is_new(&turn) && full.len() >= self.fleet.joined as usize {
                self.gangs.turns.push(turn);
                continue;
            }
            let Some((gang, shares)) = self.shares_due(&turn) else {
                self.cease_turn(turn);
                continue;
            };
            let requirement = self.graph.tasks[turn.member].requirement;
            let has_room = |(node, need): &(NodeId, Need)| {
                !full.contains(node)
                    && (has_more_room || self.fleet.nodes[*node].awaited == 0)
                    && self.fleet.has_free(*node, requirement, *need)
            };
            if shares.iter().all(has_room) {
                let turn = self.cease_turn(turn);
                self.give_shares(gang, &turn, &shares, now, out);
            } else {
                full.extend(shares.iter().map(|(node, _)| *node));
                self.await_turn(turn, &shares);
            }
        }
    }

    fn give_shares(
        &mut self,
        gang: GangId,
        turn: &Turn,
        shares: &[(NodeId, Need)],
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let (id, attempt) = (turn.member, turn.attempt);
        let requirement = self.graph.tasks[id].requirement;
        let mut at_home = None;
        for (node, need) in shares {
            let devices = self.fleet.fill(*node, id, requirement, *need, now);
            at_home.get_or_insert(devices);
        }
        self.gangs.all[gang].shares.remove(&id);
        out.push(Output::TurnTaken { id, attempt, devices: at_home.expect("it has a home") });
    }

    fn await_turn(&mut self, mut turn: Turn, shares: &[(NodeId, Need)]) {
        if turn.awaited.is_empty() {
            turn.awaited = shares.iter().map(|(node, _)| *node).collect();
            for node in &turn.awaited {
                self.fleet.set_awaited(*node, true);
            }
        }
        self.gangs.turns.push(turn);
    }

    /// Room is not awaited for a turn any more.
    fn cease_turn(&mut self, mut turn: Turn) -> Turn {
        for node in core::mem::take(&mut turn.awaited) {
            self.fleet.set_awaited(node, false);
            self.pending.with_capacity.insert(node);
        }
        turn
    }

    /// Room is awaited for no turn: it is looked for anew.
    pub(super) fn cease_turns(&mut self) {
        for turn in core::mem::take(&mut self.gangs.turns) {
            let turn = self.cease_turn(turn);
            self.gangs.turns.push(turn);
        }
    }

    /// The shares to take for a turn; `None`: its attempt is over, is being ended, or has them.
    fn shares_due(&self, turn: &Turn) -> Option<(GangId, Vec<(NodeId, Need)>)> {
        let task = &self.graph.tasks[turn.member];
        let is_due = matches!(task.state, TaskState::Running { .. })
            && !task.aborted
            && task.attempt == turn.attempt;
        let gang = self.gangs.of(turn.member).filter(|_| is_due)?;
        Some((gang, self.gangs.all[gang].shares.get(&turn.member)?.clone()))
    }
}
