//! Targets on their way to where they belong, and ends of invocations that wait for them.
//!
//! A target that is wanted elsewhere than where it was made is settled when it is there. One that
//! was settled before comes all the same, and the end of what asked for it waits.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use crate::event::Output;
use crate::ids::{NodeId, TaskId};

/// A target on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coming<D> {
    /// Its action has ended well, there: its task is settled when it has come.
    Made {
        /// Where.
        node: NodeId,
        /// What the shell keeps of it.
        details: D,
    },
    /// Its task was settled before.
    Settled,
}

/// See the file's head.
#[derive(Debug)]
pub struct Homeward<D> {
    comings: BTreeMap<TaskId, Coming<D>>,
    /// Ends that wait.
    endings: Vec<Output>,
    /// Targets of settled tasks that could not be brought.
    missed: BTreeSet<TaskId>,
}

impl<D> Default for Homeward<D> {
    fn default() -> Self {
        Self { comings: BTreeMap::new(), endings: Vec::new(), missed: BTreeSet::new() }
    }
}

impl<D> Homeward<D> {
    /// An action has ended well: its target is on its way from there.
    pub fn made(&mut self, id: TaskId, node: NodeId, details: D) {
        self.comings.insert(id, Coming::Made { node, details });
    }

    /// The target of a settled task is on its way, unless it is already.
    pub fn settled(&mut self, id: TaskId) {
        self.comings.entry(id).or_insert(Coming::Settled);
    }

    /// A target has come: what waited for it, if `is_it`.
    pub fn take(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<Coming<D>> {
        if matches!(self.comings.get(&id), Some(Coming::Settled)) {
            return self.comings.remove(&id);
        }
        self.take_made(id, is_it).map(|(node, details)| Coming::Made { node, details })
    }

    /// The same of one whose task is not settled yet.
    pub fn take_made(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<(NodeId, D)> {
        let Coming::Made { details, .. } = self.comings.get(&id)? else { return None };
        if !is_it(details) {
            return None;
        }
        match self.comings.remove(&id)? {
            Coming::Made { node, details } => Some((node, details)),
            Coming::Settled => None,
        }
    }

    /// A target cannot be brought: what waited for it, if `is_it`.
    pub fn miss(&mut self, id: TaskId, is_it: impl Fn(&D) -> bool) -> Option<Coming<D>> {
        let coming = self.take(id, is_it)?;
        if matches!(coming, Coming::Settled) {
            self.missed.insert(id);
        }
        Some(coming)
    }

    /// A node is gone: what was made there does not come. Whose that is.
    pub fn lose(&mut self, lost: NodeId) -> Vec<TaskId> {
        let is_from_it = |coming: &Coming<D>| match coming {
            Coming::Made { node, .. } => *node == lost,
            Coming::Settled => false,
        };
        let its = self.comings.iter().filter(|(_, coming)| is_from_it(coming));
        let its: Vec<TaskId> = its.map(|(id, _)| *id).collect();
        for id in &its {
            self.comings.remove(id);
        }
        its
    }

    /// An invocation must not end while a target is on its way; given back when none is.
    pub fn hold(&mut self, ending: Output) -> Option<Output> {
        if self.comings.is_empty() {
            return Some(ending);
        }
        self.endings.push(ending);
        None
    }

    /// The ends that have waited, when nothing is on its way any more.
    pub fn take_endings(&mut self) -> Vec<Output> {
        if self.comings.is_empty() { mem::take(&mut self.endings) } else { Vec::new() }
    }

    /// The targets of settled tasks that could not be brought since this was asked last.
    pub fn take_missed(&mut self) -> BTreeSet<TaskId> {
        mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ids::InvocationId;

    const NODE: NodeId = NodeId(1);

    fn ending() -> Output {
        Output::InvocationEnded { id: InvocationId(0), failed: vec![], abandoned: vec![] }
    }

    #[test]
    fn an_invocation_ends_when_the_last_target_has_come_or_cannot() {
        let mut homeward: Homeward<u8> = Homeward::default();
        assert_eq!(homeward.hold(ending()), Some(ending()), "nothing is on its way");
        homeward.made(TaskId(1), NODE, 7);
        homeward.settled(TaskId(1));
        homeward.settled(TaskId(2));
        assert_eq!(homeward.hold(ending()), None);
        assert_eq!(homeward.take(TaskId(1), |details| *details == 8), None, "another way");
        let made = Coming::Made { node: NODE, details: 7 };
        assert_eq!(homeward.miss(TaskId(1), |details| *details == 7), Some(made));
        assert_eq!(homeward.take_endings(), []);
        assert_eq!(homeward.miss(TaskId(2), |_| false), Some(Coming::Settled));
        assert_eq!(homeward.take_endings(), [ending()]);
        assert_eq!(homeward.take_endings(), [], "once");
        let missed: Vec<TaskId> = homeward.take_missed().into_iter().collect();
        assert_eq!(missed, [TaskId(2)], "who fails otherwise is told as its attempt ends");
        assert!(homeward.take_missed().is_empty());
    }

    #[test]
    fn what_was_made_on_a_lost_node_does_not_come() {
        let mut homeward: Homeward<()> = Homeward::default();
        homeward.made(TaskId(1), NODE, ());
        homeward.made(TaskId(2), NodeId(2), ());
        homeward.settled(TaskId(3));
        assert_eq!(homeward.lose(NODE), [TaskId(1)]);
        assert_eq!(homeward.lose(NODE), []);
        assert_eq!(homeward.take(TaskId(1), |()| true), None);
        assert!(homeward.take(TaskId(2), |()| true).is_some());
        assert_eq!(homeward.take_made(TaskId(3), |()| true), None, "it was settled before");
        assert!(homeward.take(TaskId(3), |()| true).is_some());
    }
}
