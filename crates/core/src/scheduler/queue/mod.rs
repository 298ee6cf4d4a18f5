//! A queue of ready tasks with the same requirement, in the order of one policy.
//!
//! Removal is lazy: a task that was taken elsewhere leaves its entry behind, and the owner takes it off the counts of
//! live entries at once. An entry is dropped when it comes to the head, or when more entries are dead than live, so
//! each costs O(1) once. Does not know nodes or requirements: see `ready.rs`.

mod cached;
mod entry;
mod leveled;
mod plain;
mod rank_hrf;
mod ranked;

use crate::config::Policy;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::learned::state::Learned;
use crate::scheduler::residency::Residency;
use alloc::vec::Vec;
use cached::CachedQueue;
pub(crate) use entry::{Chooser, Entry};
use leveled::LifoHlfet;
use plain::{Fifo, Lifo};
use rank_hrf::RankHrf;
use ranked::LifoHrf;

#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Fifo(Fifo),
    Lifo(Lifo),
    LifoHrf(LifoHrf),
    RankHrf(RankHrf),
    Cached(CachedQueue),
    LifoHlfet(LifoHlfet),
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        match policy {
            // With `Serial` hardly more than one task is ready: `serial_order.rs` has the order.
            Policy::Fifo | Policy::Serial => Self::Fifo(Fifo::default()),
            Policy::Lifo => Self::Lifo(Lifo::default()),
            Policy::LifoHrf => Self::LifoHrf(LifoHrf::default()),
            Policy::RankHrf => Self::RankHrf(RankHrf::default()),
            Policy::Cached => Self::Cached(CachedQueue::default()),
            Policy::LifoHlfet => Self::LifoHlfet(LifoHlfet::default()),
        }
    }

    /// Live entries.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Fifo(line) => line.live,
            Self::Lifo(stack) => stack.live,
            Self::LifoHrf(queue) => queue.len(),
            Self::RankHrf(queue) => queue.len(),
            Self::Cached(queue) => queue.len(),
            Self::LifoHlfet(queue) => queue.len(),
        }
    }

    /// Queues a task; `owner` is the node whose queue this is, `None` for the remote queue.
    pub(crate) fn push(
        &mut self,
        entry: Entry,
        owner: Option<NodeId>,
        graph: &Graph,
        learned: &Learned,
    ) {
        let rank = graph.tasks[entry.id].rank;
        match self {
            Self::Fifo(line) => line.push(entry, graph),
            Self::Lifo(stack) => stack.push(entry, graph),
            Self::LifoHrf(queue) => queue.push(entry, rank, graph),
            Self::RankHrf(queue) => queue.push(entry, rank, graph, &learned.rank_times),
            Self::Cached(queue) => {
                let share = owner.map_or(0, |node| learned.residency.share(node, entry.id, graph));
                queue.push(entry, share);
            }
            Self::LifoHlfet(queue) => queue.push(entry, learned.levels.of(entry.id)),
        }
    }

    /// Counts a live entry less; its task must leave `Ready` before the next choice.
    pub(crate) fn forget(&mut self, id: TaskId, graph: &Graph, learned: &Learned) {
        let task = &graph.tasks[id];
        let entry = Entry { id, mark: task.mark };
        match self {
            Self::Fifo(line) => line.forget(),
            Self::Lifo(stack) => stack.forget(),
            Self::LifoHrf(queue) => queue.forget(task.rank),
            Self::RankHrf(queue) => queue.forget(task.rank),
            Self::Cached(queue) => queue.forget(id),
            Self::LifoHlfet(queue) => queue.forget(entry, learned.levels.of(id)),
        }
    }

    /// The task that comes next, which stays; for `owner`, or any node from the remote queue.
    pub(crate) fn choose(
        &mut self,
        owner: Option<NodeId>,
        chooser: &mut Chooser<'_>,
    ) -> Option<TaskId> {
        match self {
            Self::Fifo(line) => line.head(chooser.graph),
            Self::Lifo(stack) => stack.head(chooser.graph),
            Self::LifoHrf(queue) => queue.choose(chooser),
            Self::RankHrf(queue) => queue.choose(chooser),
            Self::Cached(queue) => queue.choose(owner, chooser),
            Self::LifoHlfet(queue) => queue.choose(&chooser.learned.levels, chooser.cores_all),
        }
    }

    /// The task that another node takes, which stays.
    pub(crate) fn choose_to_give(&mut self, chooser: &mut Chooser<'_>) -> Option<TaskId> {
        match self {
            Self::Cached(queue) => queue.choose_to_give(),
            Self::Fifo(_)
            | Self::Lifo(_)
            | Self::LifoHrf(_)
            | Self::RankHrf(_)
            | Self::LifoHlfet(_) => self.choose(None, chooser),
        }
    }

    /// A file that `id` reads is in the memory of `node` now, whose queue this is.
    pub(crate) fn review(
        &mut self,
        node: NodeId,
        id: TaskId,
        graph: &Graph,
        residency: &Residency,
    ) {
        if let Self::Cached(queue) = self {
            queue.review(node, id, residency, graph);
        }
    }

    /// All live tasks, in no order that matters.
    pub(crate) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        match self {
            Self::Fifo(line) => line.tasks(graph, tasks),
            Self::Lifo(stack) => stack.tasks(graph, tasks),
            Self::LifoHrf(queue) => queue.tasks(graph, tasks),
            Self::RankHrf(queue) => queue.tasks(graph, tasks),
            Self::Cached(queue) => queue.tasks(tasks),
            Self::LifoHlfet(queue) => queue.tasks(tasks),
        }
    }
}

#[cfg(test)]
mod tests;
