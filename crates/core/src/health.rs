//! Nodes on which actions fail one after the other: they are set aside, as Pwrake does (`HOST_FAILURE`).
//!
//! Only a node is set aside that fails while another one does well; if all fail, it is the tasks. Never one without which something could not
//! run. Knows nothing of why an action failed.

use crate::event::Output;
use crate::fleet::Fleet;
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::scheduler::Scheduler;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Nodes on which the last action failed.
    streaks: BTreeMap<NodeId, Streak>,
    /// Nodes in use on which the last action ended well.
    doing_well: BTreeSet<NodeId>,
    /// Nodes that are there and set aside.
    aside: BTreeSet<NodeId>,
}

#[derive(Clone, Debug, Default)]
struct Streak {
    failures: u32,
    /// The last of the tasks that failed, no more than the setting's number.
    tasks: Vec<TaskId>,
}

impl Health {
    pub(crate) fn check_invariants(&self, fleet: &Fleet) {
        for &id in &self.doing_well {
            assert!(fleet.nodes[id].is_in_use(), "{id:?} does well and is not in use");
            assert!(!self.streaks.contains_key(&id), "{id:?} does well and badly");
        }
        let aside = fleet.nodes.iter().filter(|(_, node)| node.joined && node.aside);
        let aside: BTreeSet<NodeId> = aside.map(|(id, _)| id).collect();
        assert_eq!(aside, self.aside, "nodes set aside");
    }
}

impl Scheduler {
    pub(crate) fn on_node_did_well(&mut self, id: NodeId) {
        if self.config.set_aside_after == 0 {
            return;
        }
        self.health.streaks.remove(&id);
        if self.fleet.nodes[id].is_in_use() {
            self.health.doing_well.insert(id);
        }
    }

    /// An action failed on a node, which may be too much.
    pub(crate) fn on_node_did_badly(&mut self, id: NodeId, task: TaskId, out: &mut Vec<Output>) {
        let limit = self.config.set_aside_after;
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
            self.set_aside(id, failures, out);
        }
    }

    /// The tasks that failed there last have not used up a retry by that.
    fn set_aside(&mut self, id: NodeId, failures: u32, out: &mut Vec<Output>) {
        out.push(Output::NodeSetAside { id, failures });
        let streak = self.health.streaks.remove(&id).unwrap_or_default();
        for task in streak.tasks {
            if !self.graph.tasks[task].is_settled() {
                self.losses.excuse(task);
            }
        }
        self.health.aside.insert(id);
        let changed = self.fleet.set_aside(id);
        self.pending.roomy.remove(id);
        self.queue_anew(&changed);
        self.leave_queues_of(id);
        self.doubt_all();
    }

    /// A node is gone: without it, one that was set aside may be the last for something.
    pub(crate) fn on_node_out_of_use(&mut self, id: NodeId, out: &mut Vec<Output>) {
        self.health.streaks.remove(&id);
        self.health.doing_well.remove(&id);
        self.health.aside.remove(&id);
        for requirement in self.fleet.requirements.ids() {
            if !self.health.aside.is_empty() && !self.fleet.is_possible(requirement) {
                self.take_back_for(requirement, out);
            }
        }
        self.doubt_all();
    }

    fn take_back_for(&mut self, requirement: RequirementId, out: &mut Vec<Output>) {
        for id in self.health.aside.clone() {
            let wanted = &self.fleet.requirements[requirement].requirement;
            if wanted.allows(id) && self.fleet.nodes[id].has_devices(wanted) {
                self.health.aside.remove(&id);
                out.push(Output::NodeTakenBack { id });
                let changed = self.fleet.take_back(id);
                self.pending.roomy.insert(id);
                self.queue_anew(&changed);
            }
        }
    }

    /// Fewer nodes are in use: perhaps something can run nowhere.
    fn doubt_all(&mut self) {
        self.pending.doubtful.extend(self.fleet.requirements.ids());
    }

    /// Lets nothing more start where it would not end in time.
    pub(crate) fn close_nodes(&mut self, now: Time) {
        while let Some((id, requirement, changed)) = self.fleet.close_next(now) {
            if changed {
                self.queue_anew(&[requirement]);
            }
            for task in self.ready.tasks_at(id, &self.graph) {
                if self.graph.tasks[task].requirement == requirement {
                    self.ready.remove(task, &self.graph, &self.learned);
                    self.make_ready(task);
                }
            }
            self.pending.roomy.insert(id);
            self.pending.doubtful.insert(requirement);
        }
    }

    pub(crate) fn tell_where_nothing_runs(&mut self, out: &mut Vec<Output>) {
        while let Some(requirement) = self.pending.doubtful.pop_first() {
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
