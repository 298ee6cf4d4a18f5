//! What a run has taught the scheduler so far, and policies go by: how long things took, and what is in whose memory.
//!
//! Only holds its parts together; each is kept up only under the policy that asks for it, but for the times of ranks.

pub(crate) mod state;

use crate::config::Policy;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::residency::Residency;
use crate::scheduler::task::TaskState;

/// Maximum number of tasks that are looked at because a file came into memory. A file that more tasks read is mostly
/// small beside the rest.
const REVIEWED_MAX: usize = 64;

impl Scheduler {
    pub(crate) fn learns_levels(&self) -> bool {
        self.config.policy == Policy::LifoHlfet
    }

    /// The files in memory, if the policy goes by them.
    pub(crate) fn residency(&self) -> Option<&Residency> {
        (self.config.policy == Policy::Cached).then_some(&self.learned.residency)
    }

    /// An action succeeded.
    pub(crate) fn learn(&mut self, id: TaskId, node: NodeId, run_ns: u64) {
        self.learned.rank_times.add(self.graph.tasks[id].rank, run_ns);
        if self.learns_levels() {
            self.learned.levels.add(id, run_ns);
        }
        if self.residency().is_none() {
            return;
        }
        self.graph.tasks[id].ran_on = Some(node);
        let mut cursor = self.graph.first_prerequisite(id);
        while let Some(prerequisite) = self.graph.prerequisite_at(&mut cursor) {
            if !prerequisite.order_only {
                let at = self.learned.residency.read(node, prerequisite.id, &self.graph);
                self.review(prerequisite.id, at);
            }
        }
    }

    /// The file of a task whose action succeeded has been looked at: it was written where it ran,
    /// or went where it lies.
    pub(crate) fn note_written(&mut self, id: TaskId) {
        let (Some(_), Some(node)) = (self.residency(), self.graph.tasks[id].ran_on) else { return };
        self.learned.residency.read(node, id, &self.graph);
    }

    pub(crate) fn on_cache_measured(&mut self, id: TaskId, node: NodeId, bytes: u64) {
        if self.residency().is_some() {
            self.learned.residency.set(node, id, bytes);
            self.review(id, node);
        }
    }

    /// Files the tasks that wait to read a file anew, which may be in the memory of `node` now; no more than the first
    /// `REVIEWED_MAX` dependents are looked at.
    fn review(&mut self, file: TaskId, node: NodeId) {
        let mut cursor = self.graph.first_dependent(file);
        for _ in 0..REVIEWED_MAX {
            let Some(dependent) = self.graph.dependent_at(&mut cursor) else { break };
            let task = &self.graph.tasks[dependent];
            if task.state == TaskState::Ready && task.queued_at.as_slice().contains(&node) {
                self.ready.review(node, dependent, &self.graph, &self.learned.residency);
            }
        }
    }

    /// Makes levels anew when that is due, and files what is queued by them.
    pub(crate) fn renew_levels(&mut self) {
        if !self.learns_levels() || !self.learned.levels.is_due() {
            return;
        }
        let mut queued = self.ready.all_tasks(&self.graph);
        queued.sort_unstable_by_key(|id| self.graph.tasks[*id].mark);
        for &id in &queued {
            self.ready.remove(id, &self.graph, &self.learned);
        }
        self.learned.levels.walk(&self.graph);
        for &id in &queued {
            self.ready.push(id, &self.graph, &self.learned);
        }
    }
}
