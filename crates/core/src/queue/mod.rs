//! A queue of ready tasks with the same requirement, in the order of one policy.
//!
//! Removal is lazy: a task that was taken elsewhere leaves its entry behind, and the counts of live entries are told at once. An
//! entry is dropped when it comes to the head, or when more entries are dead than live, so each costs O(1) once.
//! Does not know nodes or requirements: see `ready.rs`.

mod plain;
mod rank_hrf;
mod ranked;

use crate::config::Policy;
use crate::graph::Graph;
use crate::ids::TaskId;
use crate::random::Random;
use crate::rank::RankTimes;
use crate::task::TaskState;
use alloc::vec::Vec;
use plain::{Line, Stack};
use rank_hrf::RankHrf;
use ranked::LifoHrf;

/// A stay of a task in the state `Ready`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) id: TaskId,
    /// The task's `mark` when it was queued.
    pub(crate) mark: u64,
}

impl Entry {
    /// Whether the task still stands in its queues by this entry.
    fn is_live(self, graph: &Graph) -> bool {
        let task = &graph.tasks[self.id];
        task.state == TaskState::Ready && task.mark == self.mark
    }
}

/// What a choice may depend on.
pub(crate) struct Chooser<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) rank_times: &'a RankTimes,
    pub(crate) random: &'a mut Random,
    /// Of the node that asks.
    pub(crate) cores: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Fifo(Line),
    Lifo(Stack),
    LifoHrf(LifoHrf),
    RankHrf(RankHrf),
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        match policy {
            // With `Serial` hardly more than one task is ready: `turns.rs` has the order.
            Policy::Fifo | Policy::Serial => Self::Fifo(Line::default()),
            Policy::Lifo => Self::Lifo(Stack::default()),
            Policy::LifoHrf => Self::LifoHrf(LifoHrf::default()),
            Policy::RankHrf => Self::RankHrf(RankHrf::default()),
        }
    }

    /// Live entries.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Fifo(line) => line.live,
            Self::Lifo(stack) => stack.live,
            Self::LifoHrf(queue) => queue.len(),
            Self::RankHrf(queue) => queue.len(),
        }
    }

    pub(crate) fn push(&mut self, entry: Entry, graph: &Graph, rank_times: &RankTimes) {
        let rank = graph.tasks[entry.id].rank;
        match self {
            Self::Fifo(line) => line.push(entry, graph),
            Self::Lifo(stack) => stack.push(entry, graph),
            Self::LifoHrf(queue) => queue.push(entry, rank, graph),
            Self::RankHrf(queue) => queue.push(entry, rank, graph, rank_times),
        }
    }

    /// Counts one live entry of `rank` less; its task must leave `Ready` before the next choice.
    pub(crate) fn forget(&mut self, rank: u32) {
        match self {
            Self::Fifo(line) => line.forget(),
            Self::Lifo(stack) => stack.forget(),
            Self::LifoHrf(queue) => queue.forget(rank),
            Self::RankHrf(queue) => queue.forget(rank),
        }
    }

    /// The task that comes next, which stays.
    pub(crate) fn choose(&mut self, chooser: &mut Chooser<'_>) -> Option<TaskId> {
        match self {
            Self::Fifo(line) => line.head(chooser.graph),
            Self::Lifo(stack) => stack.head(chooser.graph),
            Self::LifoHrf(queue) => queue.choose(chooser),
            Self::RankHrf(queue) => queue.choose(chooser),
        }
    }

    /// All live tasks, in no order that matters.
    pub(crate) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        match self {
            Self::Fifo(line) => line.tasks(graph, tasks),
            Self::Lifo(stack) => stack.tasks(graph, tasks),
            Self::LifoHrf(queue) => queue.tasks(graph, tasks),
            Self::RankHrf(queue) => queue.tasks(graph, tasks),
        }
    }
}

#[cfg(test)]
mod tests;
