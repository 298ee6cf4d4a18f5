//! What stands in a queue, and what a choice from one may depend on.

use crate::ids::TaskId;
use crate::random::Random;
use crate::scheduler::graph::Graph;
use crate::scheduler::learned::state::Learned;
use crate::scheduler::task::TaskState;

/// A stay of a task in the state `Ready`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) id: TaskId,
    /// The task's `mark` when it was queued.
    pub(crate) mark: u64,
}

impl Entry {
    /// Whether the task still stands in its queues by this entry.
    pub(super) fn is_live(self, graph: &Graph) -> bool {
        let task = &graph.tasks[self.id];
        task.state == TaskState::Ready && task.mark == self.mark
    }
}

/// What a choice may depend on.
pub(crate) struct Chooser<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) learned: &'a Learned,
    pub(crate) random: &'a mut Random,
    /// Of the node that asks.
    pub(crate) cores: u32,
    /// Of all nodes.
    pub(crate) cores_all: u64,
}
