//! The order of the policy `serial`: rake's own.
//!
//! A task waits for its turn *before* it is decided, because in rake it is looked at only after
//! everything before it has run. Its turn comes when nothing else is in flight: the newest
//! activation first, within it the smallest number.

use crate::ids::TaskId;
use crate::scheduler::Scheduler;
use crate::scheduler::task::TaskState;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Tasks in `Waiting { missing: 0 }`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SerialOrder {
    waiting: BTreeSet<(Reverse<u32>, TaskId)>,
}

impl SerialOrder {
    pub(crate) fn insert(&mut self, batch: u32, id: TaskId) {
        self.waiting.insert((Reverse(batch), id));
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, batch: u32, id: TaskId) -> bool {
        self.waiting.remove(&(Reverse(batch), id))
    }

    pub(crate) fn contains(&self, batch: u32, id: TaskId) -> bool {
        self.waiting.contains(&(Reverse(batch), id))
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl Scheduler {
    /// Takes the task whose turn it is; callers that wait for an invocation hold up no task.
    pub(crate) fn next_in_order(&mut self) -> Option<TaskId> {
        if self.serial_order.len() == 0
            || self.counts.in_flight() > self.waiting_actions()
            || self.ready.len > 0
            || self.gangs.any_next()
        {
            return None;
        }
        self.serial_order.waiting.pop_first().map(|(_, id)| id)
    }

    /// With the policy `Serial`: gives `wanted` and the older tasks that they still miss the rights
    /// of the newest activation, because rake runs them at once.
    pub(crate) fn promote(&mut self, wanted: &[TaskId]) {
        if !self.is_serial() {
            return;
        }
        let mut walk: Vec<TaskId> = wanted.to_vec();
        let mut seen: BTreeSet<TaskId> = walk.iter().copied().collect();
        while let Some(id) = walk.pop() {
            let task = &mut self.graph.tasks[id];
            let TaskState::Waiting { missing } = task.state else {
                continue;
            };
            let batch = core::mem::replace(&mut task.batch, self.batch);
            if missing == 0 && self.serial_order.remove(batch, id) {
                self.serial_order.insert(self.batch, id);
            }
            let prerequisites = self.graph.prerequisites(id).map(|prerequisite| prerequisite.id);
            walk.extend(prerequisites.filter(|id| seen.insert(*id)));
        }
    }
}
