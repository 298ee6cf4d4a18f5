//! Nodes on which actions fail one after the other: they are drained, as Pwrake does (`HOST_FAILURE`).
//!
//! Only a node is drained that fails while another one does well; if all fail, it is the tasks.
//! Never one without which something could not run. Knows nothing of why an action failed.

pub(crate) mod state;

use crate::event::Output;
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::scheduler::Scheduler;
use crate::time::Time;
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn on_node_did_well(&mut self, id: NodeId) {
        if self.config.drain_after == 0 {
            return;
        }
        self.health.streaks.remove(&id);
        if self.fleet.nodes[id].is_in_use() {
            self.health.doing_well.insert(id);
        }
    }

    /// An action failed on a node, which may be too much.
    pub(crate) fn on_node_did_badly(&mut self, id: NodeId, task: TaskId, out: &mut Vec<Output>) {
        let limit = self.config.drain_after;
        if limit == 0 {
            return;
        }
        self.health.doing_well.remove(&id);
        let streak = self.health.streaks.entry(id).or_default();
        streak.failures = streak.failures.saturating_add(1);
        if streak.tasks.len() == limit as usize {
            streak.tasks.remove(0);
        }
        streak.tasks.push(task);
        let failures = streak.failures;
        let is_suspect = failures >= limit && !self.health.doing_well.is_empty();
        if is_suspect && self.fleet.nodes[id].is_in_use() && !self.fleet.is_only_choice(id) {
            self.drain_node(id, failures, out);
        }
    }

    /// The tasks that failed there last have not used up a retry by that.
    fn drain_node(&mut self, id: NodeId, failures: u32, out: &mut Vec<Output>) {
        out.push(Output::NodeDrained { id, failures });
        let streak = self.health.streaks.remove(&id).unwrap_or_default();
        for task in streak.tasks {
            if !self.graph.tasks[task].is_settled() {
                self.uncharge(task);
            }
        }
        self.health.drained.insert(id);
        self.plan_gangs_anew();
        let changed = self.fleet.drain_node(id);
        self.pending.with_capacity.remove(id);
        self.queue_anew(&changed);
        self.leave_queues_of(id);
        self.check_all_schedulable();
    }

    /// A node is gone: without it, one that was drained may be the last for something.
    pub(crate) fn on_node_out_of_use(&mut self, id: NodeId, out: &mut Vec<Output>) {
        self.health.streaks.remove(&id);
        self.health.doing_well.remove(&id);
        self.health.drained.remove(&id);
        self.take_back_needed(out);
        self.check_all_schedulable();
    }

    /// Fewer nodes can take something, or a drained one could do so again: nothing is to wait for a drained node.
    pub(crate) fn take_back_needed(&mut self, out: &mut Vec<Output>) {
        if self.health.drained.is_empty() {
            return;
        }
        for requirement in self.fleet.requirements.ids() {
            if !self.fleet.is_possible(requirement) {
                self.take_back_for(requirement, out);
            }
        }
    }

    fn take_back_for(&mut self, requirement: RequirementId, out: &mut Vec<Output>) {
        for id in self.health.drained.clone() {
            let class = &self.fleet.requirements[requirement];
            if class.admits(id) && self.fleet.nodes[id].has_devices(&class.requirement) {
                self.health.drained.remove(&id);
                out.push(Output::NodeTakenBack { id });
                let changed = self.fleet.take_back(id);
                self.plan_gangs_anew();
                self.pending.with_capacity.insert(id);
                self.queue_anew(&changed);
            }
        }
    }

    /// Fewer nodes are in use: perhaps something can run nowhere.
    fn check_all_schedulable(&mut self) {
        self.pending.unschedulable.extend(self.fleet.requirements.ids());
    }

    /// Lets nothing more start where it would not end in time.
    pub(crate) fn close_nodes(&mut self, now: Time, out: &mut Vec<Output>) {
        let mut any_closed = false;
        while let Some((id, requirement, changed)) = self.fleet.close_next(now) {
            self.plan_gangs_anew();
            if changed {
                self.queue_anew(&[requirement]);
            }
            for task in self.ready.tasks_at(id, &self.graph) {
                if self.graph.tasks[task].requirement == requirement {
                    self.ready.remove(task, &self.graph, &self.learned);
                    self.make_ready(task);
                }
            }
            self.pending.with_capacity.insert(id);
            self.pending.unschedulable.insert(requirement);
            any_closed = true;
        }
        if any_closed {
            self.take_back_needed(out);
        }
    }

    pub(crate) fn tell_where_nothing_runs(&mut self, out: &mut Vec<Output>) {
        while let Some(requirement) = self.pending.unschedulable.pop_first() {
            let is_queued = self.ready.count(requirement) > 0;
            if !is_queued || self.fleet.requirements[requirement].told {
                continue;
            }
            let any_in_use = self.fleet.nodes.iter().any(|(_, node)| node.is_in_use());
            if any_in_use && !self.fleet.is_possible(requirement) {
                self.fleet.requirements[requirement].told = true;
                out.push(Output::NowhereToRun { requirement });
            }
        }
    }
}
