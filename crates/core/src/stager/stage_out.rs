//! Which targets are staged out, those on their way, and ends of invocations that wait for them.
//!
//! A task whose target is wanted elsewhere than where it was made is settled when that is there. A target that was
//! settled before is staged out all the same, and the end of what asked for it waits. The shell moves targets and
//! settles tasks; for each target that sets out it gives the stager a `StageOutWanted`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use super::ledger::{FileState, Ledger};
use super::requested::{MadeTarget, Requested, StageOutRules};
use crate::event::Output;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::Scheduler;

/// A target on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing<D> {
    /// Its action has ended well, there: its task is settled when the target has arrived.
    Made {
        /// Where.
        node: NodeId,
        /// What the shell keeps of it.
        details: D,
    },
    /// Its task was settled before.
    Settled,
}

/// Targets on their way, and ends of invocations that wait for them.
#[derive(Debug)]
pub struct StageOut<D> {
    /// The machine of the hub.
    home: NodeId,
    requested: Requested,
    outgoing: BTreeMap<TaskId, Outgoing<D>>,
    /// Ends that wait.
    endings: Vec<Output>,
    /// Targets of settled tasks that could not be staged out.
    missed: BTreeSet<TaskId>,
}

impl<D> StageOut<D> {
    /// `home`: the machine of the hub. `rules`: what is staged out beside what is asked for.
    pub fn new(home: NodeId, rules: StageOutRules) -> Self {
        Self {
            home,
            requested: Requested::new(rules),
            outgoing: BTreeMap::new(),
            endings: Vec::new(),
            missed: BTreeSet::new(),
        }
    }

    /// Tasks are asked for, by an action or by a user: also what plain ones among them stand for. Returns the files
    /// that set out now.
    pub fn request<S: FileState>(
        &mut self,
        tasks: &[TaskId],
        by_action: bool,
        scheduler: &Scheduler,
        ledger: &Ledger<S>,
    ) -> Vec<TaskId> {
        let mut settled = self.requested.add(tasks, by_action, scheduler);
        settled.retain(|id| self.settled(*id, ledger));
        settled
    }

    /// More prerequisites of a task are known: the same of these, where the task is a plain one that was asked for.
    pub fn request_added<S: FileState>(
        &mut self,
        id: TaskId,
        added: &[TaskId],
        scheduler: &Scheduler,
        ledger: &Ledger<S>,
    ) -> Vec<TaskId> {
        let mut settled = self.requested.add_prerequisites(id, added, scheduler);
        settled.retain(|id| self.settled(*id, ledger));
        settled
    }

    /// A task was settled well: whether its file sets out now.
    pub fn settled<S: FileState>(&mut self, id: TaskId, ledger: &Ledger<S>) -> bool {
        let comes = ledger.is_elsewhere(id, self.home) && self.requested.includes(id, ledger);
        if comes {
            self.outgoing.entry(id).or_insert(Outgoing::Settled);
        }
        comes
    }

    /// An action has ended well, and the ledger knows where its target was made: whether that sets out. Else it
    /// stays, and its task can be settled.
    pub fn made<S: FileState>(
        &mut self,
        made: &MadeTarget<'_>,
        ledger: &Ledger<S>,
        details: D,
    ) -> bool {
        let is_away = made.node != self.home;
        let comes = is_away && self.requested.is_staged_out(made, ledger);
        if comes {
            self.follows(made.id, made.node, details);
        }
        comes
    }

    /// The target of an action that has ended well is on its way, for a reason of the shell. `node`: without that node
    /// it does not arrive.
    pub fn follows(&mut self, id: TaskId, node: NodeId, details: D) {
        self.outgoing.insert(id, Outgoing::Made { node, details });
    }

    /// A target has arrived: what waited for it, if `is_it`.
    pub fn take(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<Outgoing<D>> {
        if matches!(self.outgoing.get(&id), Some(Outgoing::Settled)) {
            return self.outgoing.remove(&id);
        }
        self.take_made(id, is_it).map(|(node, details)| Outgoing::Made { node, details })
    }

    /// The same of one whose task is not settled yet.
    pub fn take_made(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<(NodeId, D)> {
        let Outgoing::Made { details, .. } = self.outgoing.get(&id)? else { return None };
        if !is_it(details) {
            return None;
        }
        match self.outgoing.remove(&id)? {
            Outgoing::Made { node, details } => Some((node, details)),
            Outgoing::Settled => None,
        }
    }

    /// A target cannot be staged out: what waited for it, if `is_it`.
    pub fn miss(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<Outgoing<D>> {
        let outgoing = self.take(id, is_it)?;
        if matches!(outgoing, Outgoing::Settled) {
            self.missed.insert(id);
        }
        Some(outgoing)
    }

    /// Tasks whose action has ended well on a node, and whose targets are on their way from it.
    pub fn made_on(&self, node: NodeId) -> Vec<TaskId> {
        let is_from_it = |outgoing: &Outgoing<D>| match outgoing {
            Outgoing::Made { node: from, .. } => *from == node,
            Outgoing::Settled => false,
        };
        let its = self.outgoing.iter().filter(|(_, outgoing)| is_from_it(outgoing));
        its.map(|(id, _)| *id).collect()
    }

    /// A node is gone: what was made there does not arrive. Returns whose that is.
    pub fn lose(&mut self, lost: NodeId) -> Vec<TaskId> {
        let its = self.made_on(lost);
        for id in &its {
            self.outgoing.remove(id);
        }
        its
    }

    /// An invocation must not end while a target is on its way; given back when none is.
    pub fn hold(&mut self, ending: Output) -> Option<Output> {
        if self.outgoing.is_empty() {
            return Some(ending);
        }
        self.endings.push(ending);
        None
    }

    /// The ends that have waited, once nothing is on its way.
    pub fn take_endings(&mut self) -> Vec<Output> {
        if self.outgoing.is_empty() { mem::take(&mut self.endings) } else { Vec::new() }
    }

    /// The targets of settled tasks that could not be staged out since this was asked last.
    pub fn take_missed(&mut self) -> BTreeSet<TaskId> {
        mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::sample::{State, scheduler};
    use super::*;
    use crate::ids::InvocationId;

    const HOME: NodeId = NodeId(0);
    const NODE: NodeId = NodeId(1);

    /// Knows where these files are.
    fn ledger(files: &[(u32, NodeId)]) -> Ledger<State> {
        let mut ledger = Ledger::default();
        for (file, node) in files {
            ledger.settle(TaskId(*file), *node, State(1, 10));
        }
        ledger
    }

    fn fresh<D>() -> StageOut<D> {
        StageOut::new(HOME, StageOutRules::default())
    }

    fn made(id: u32, node: NodeId) -> MadeTarget<'static> {
        MadeTarget { id: TaskId(id), node, name: b"x", is_staged: true, was_at_home: false }
    }

    fn ending() -> Output {
        Output::InvocationEnded { id: InvocationId(0), failed: vec![], abandoned: vec![] }
    }

    #[test]
    fn an_invocation_ends_when_the_last_target_has_arrived_or_cannot() {
        let mut stage_out = fresh::<u8>();
        assert_eq!(stage_out.hold(ending()), Some(ending()), "nothing is on its way");
        let there = ledger(&[(1, NODE), (4, NODE)]);
        stage_out.request(&[TaskId(1), TaskId(4)], false, &scheduler(), &there);
        assert!(stage_out.made(&made(1, NODE), &there, 7));
        assert!(stage_out.settled(TaskId(1), &there));
        assert!(stage_out.settled(TaskId(4), &there));
        assert_eq!(stage_out.hold(ending()), None);
        assert_eq!(stage_out.take(TaskId(1), |details| *details == 8), None, "another way");
        let made = Outgoing::Made { node: NODE, details: 7 };
        assert_eq!(stage_out.miss(TaskId(1), |details| *details == 7), Some(made));
        assert_eq!(stage_out.take_endings(), []);
        assert_eq!(stage_out.miss(TaskId(4), |_| false), Some(Outgoing::Settled));
        assert_eq!(stage_out.take_endings(), [ending()]);
        assert_eq!(stage_out.take_endings(), [], "once");
        let missed: Vec<TaskId> = stage_out.take_missed().into_iter().collect();
        assert_eq!(missed, [TaskId(4)], "the front learns of other failures as the attempt ends");
        assert!(stage_out.take_missed().is_empty());
    }

    #[test]
    fn what_was_made_on_a_lost_node_does_not_arrive() {
        let mut stage_out = fresh::<()>();
        stage_out.follows(TaskId(1), NODE, ());
        stage_out.follows(TaskId(2), NodeId(2), ());
        let there = ledger(&[(4, NODE)]);
        stage_out.request(&[TaskId(4)], false, &scheduler(), &there);
        assert!(stage_out.settled(TaskId(4), &there));
        assert_eq!(stage_out.lose(NODE), [TaskId(1)]);
        assert_eq!(stage_out.lose(NODE), []);
        assert_eq!(stage_out.take(TaskId(1), |()| true), None);
        assert!(stage_out.take(TaskId(2), |()| true).is_some());
        assert_eq!(stage_out.take_made(TaskId(4), |()| true), None, "it was settled before");
        assert!(stage_out.take(TaskId(4), |()| true).is_some());
    }

    #[test]
    fn what_is_asked_for_sets_out_when_it_is_made_or_at_once_where_it_is_settled() {
        let mut stage_out = fresh::<()>();
        let nowhere = ledger(&[]);
        assert!(!stage_out.made(&made(1, NODE), &nowhere, ()), "nobody has asked for it");
        assert_eq!(stage_out.request(&[TaskId(3)], false, &scheduler(), &nowhere), []);
        assert!(stage_out.made(&made(1, NODE), &nowhere, ()));
        assert!(!stage_out.made(&made(1, HOME), &nowhere, ()), "it is there");
        assert!(!stage_out.made(&made(4, NODE), &nowhere, ()), "another one");
        let mut stage_out = fresh::<()>();
        let there = ledger(&[(0, NODE)]);
        assert_eq!(stage_out.request(&[TaskId(3)], true, &scheduler(), &there), [TaskId(0)]);
        assert_eq!(stage_out.take(TaskId(0), |()| true), Some(Outgoing::Settled));
    }

    #[test]
    fn a_settled_target_sets_out_if_it_is_asked_for_and_not_at_home() {
        let mut stage_out = fresh::<()>();
        let there = ledger(&[(1, NODE)]);
        assert!(!stage_out.settled(TaskId(1), &there), "nobody has asked for it");
        let added = [TaskId(0), TaskId(1)];
        assert_eq!(stage_out.request_added(TaskId(2), &added, &scheduler(), &there), []);
        stage_out.request(&[TaskId(2)], false, &scheduler(), &there);
        assert!(stage_out.settled(TaskId(1), &there));
        assert!(!stage_out.settled(TaskId(1), &ledger(&[(1, NODE), (1, HOME)])));
        assert!(!stage_out.settled(TaskId(1), &ledger(&[])), "it is nowhere");
        let both = ledger(&[(0, NODE), (4, NODE)]);
        let added = [TaskId(4), TaskId(0)];
        let out = stage_out.request_added(TaskId(2), &added, &scheduler(), &both);
        assert_eq!(out, [], "one was asked for before, and the other one is not settled");
        assert!(stage_out.settled(TaskId(4), &both));
    }
}
