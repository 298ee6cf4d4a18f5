//! What starts where: every node with room takes from the queues until nothing fits.
//!
//! Between events no node could take anything that is queued for it, so only nodes with more room
//! than before and tasks that are newly ready have to be looked at. Each look costs O(requirements)
//! and O(log n), whatever the number of tasks and nodes.

use crate::event::Output;
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::fleet::Fleet;
use crate::scheduler::queue::Chooser;
use crate::scheduler::task::TaskState;
use crate::time::Time;
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn dispatch(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.is_serial() {
            self.dispatch_one(now, out);
            return;
        }
        self.take_turns(now, out);
        self.place_gangs(now, out);
        let fresh = core::mem::take(&mut self.pending.fresh);
        for requirement in self.fleet.requirements.ids() {
            // Tasks may have left the queues without a start.
            self.drop_idle_reservations(requirement);
        }
        // A node with the input comes before others, even ones that were freed just now.
        for &id in &fresh {
            if let Some(node) = self.fitting_candidate(id) {
                self.take_next(now, node, out);
            }
        }
        self.fill_free_nodes(now, out);
        for id in fresh {
            while let Some(node) = self.some_fitting_node(id) {
                let requirement = self.graph.tasks[id].requirement;
                let taken = self.take_next(now, node, out);
                assert!(taken || !self.fleet.fits(node, requirement), "{id:?} hides from {node:?}");
            }
            self.fill_free_nodes(now, out);
        }
        self.backfill(now, out);
    }

    /// With the policy `Serial`: starts one task if no other runs. What stays ready stays in
    /// `fresh` (seldom more than one task).
    fn dispatch_one(&mut self, now: Time, out: &mut Vec<Output>) {
        self.take_turns(now, out);
        let tasks = &self.graph.tasks;
        self.pending.fresh.retain(|id| tasks[*id].state == TaskState::Ready);
        if self.counts.running == self.waiting_actions() {
            self.place_gangs(now, out);
        }
        let is_free = self.counts.running == self.waiting_actions();
        for index in 0..self.pending.fresh.len() {
            if is_free && let Some(node) = self.some_fitting_node(self.pending.fresh[index]) {
                self.take_next(now, node, out);
                break;
            }
        }
        self.pending.with_capacity.clear();
    }

    fn fill_free_nodes(&mut self, now: Time, out: &mut Vec<Output>) {
        while let Some(node) = self.pending.with_capacity.pop_first() {
            while self.take_next(now, node, out) {}
        }
    }

    /// A candidate node of a ready task that has room for it; `None` for a task of the remote queue.
    fn fitting_candidate(&self, id: TaskId) -> Option<NodeId> {
        let task = &self.graph.tasks[id];
        if task.state != TaskState::Ready {
            return None;
        }
        let fits = |node: &NodeId| self.fleet.fits(*node, task.requirement);
        task.queued_at.as_slice().iter().copied().find(fits)
    }

    fn some_fitting_node(&mut self, id: TaskId) -> Option<NodeId> {
        let task = &self.graph.tasks[id];
        if task.state != TaskState::Ready {
            return None;
        }
        let requirement = task.requirement;
        let is_remote = task.queued_at.as_slice().is_empty();
        let candidate = self.fitting_candidate(id);
        if candidate.is_some() || !(is_remote || self.ready.is_stealable(requirement)) {
            return candidate;
        }
        self.fleet.any_fitting(requirement)
    }

    /// The task that a node takes next, of those with a requirement that it may take; it stays in its queue.
    pub(crate) fn choose(
        &mut self,
        node: NodeId,
        may_take: impl Fn(&Fleet, RequirementId, u32, bool) -> bool,
    ) -> Option<TaskId> {
        let mut chooser = Chooser {
            graph: &self.graph,
            learned: &self.learned,
            random: &mut self.random,
            cores: self.fleet.nodes[node].capacity.cores,
            cores_all: self.fleet.cores,
        };
        let fleet = &self.fleet;
        let may_take =
            |id: RequirementId, queued: u32, is_own: bool| may_take(fleet, id, queued, is_own);
        self.ready.choose(node, may_take, &mut chooser)
    }

    /// Starts the task that is next for a node; whether there was one. The next one may not fit and want to reserve:
    /// then nothing starts, and the node is kept for it.
    fn take_next(&mut self, now: Time, node: NodeId, out: &mut Vec<Output>) -> bool {
        let may_take = |fleet: &Fleet, id: RequirementId, queued: u32, is_own: bool| {
            let takes = fleet.fits(node, id) && (is_own || fleet.is_best(node, id));
            takes || fleet.may_reserve(node, id, queued, true)
        };
        let Some(id) = self.choose(node, may_take) else {
            return false;
        };
        let requirement = self.graph.tasks[id].requirement;
        let fits = self.fleet.fits(node, requirement);
        if fits {
            self.start(now, id, node, out);
        } else {
            self.fleet.reserve(node, requirement);
        }
        fits
    }

    pub(crate) fn start(&mut self, now: Time, id: TaskId, node: NodeId, out: &mut Vec<Output>) {
        self.ready.remove(id, &self.graph, &self.learned);
        let requirement = self.graph.tasks[id].requirement;
        if self.fleet.nodes[node].reserved_for == Some(requirement) {
            self.fleet.cancel_reservation(node);
            self.pending.with_capacity.insert(node);
        }
        let devices = self.fleet.take(node, id, requirement, now);
        self.set_state(id, TaskState::Running { node });
        let task = &mut self.graph.tasks[id];
        task.attempt += 1;
        out.push(Output::StartAction { id, attempt: task.attempt, node, devices });
        self.drop_idle_reservations(requirement);
        self.pass_over(node, requirement);
        // Where another node was the best, this one was passed over.
        for (id, best) in self.fleet.best_nodes() {
            if self.ready.count(id) > 0 {
                self.pending.with_capacity.insert(best);
            }
        }
    }

    /// Reservations beyond the number of tasks that could use them are given up.
    fn drop_idle_reservations(&mut self, requirement: RequirementId) {
        while self.fleet.requirements[requirement].reserved.len()
            > self.ready.count(requirement) as usize
        {
            let reserved = &self.fleet.requirements[requirement].reserved;
            let node = reserved.first().expect("more than none");
            self.fleet.cancel_reservation(node);
            self.pending.with_capacity.insert(node);
        }
    }

    /// Notes for every head that does not fit `node` that something else started there.
    fn pass_over(&mut self, node: NodeId, started: RequirementId) {
        if self.ready.len == 0 || self.fleet.requirements.len() == 1 {
            return;
        }
        let queued: Vec<RequirementId> = self.ready.requirements_at(node).collect();
        for id in queued {
            let hidden = !self.fleet.fits(node, id)
                && self.fleet.suits(node, id)
                && self.fleet.could_take(node, id);
            if id != started
                && hidden
                && self.fleet.nodes[node].pass_over(id)
                && self.fleet.may_reserve(node, id, self.ready.count(id), false)
            {
                self.fleet.reserve(node, id);
            }
        }
    }
}
