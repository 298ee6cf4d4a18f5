//! Why a task has not started: what it waits for in the end, and what is short where it would run. Read only.
//!
//! Walks over edges and tasks, with bounds where the graph might be large; for questions that
//! people ask, not for decisions.

use crate::config::Policy;
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::requirement::Requirement;
use crate::scheduler::Scheduler;
use crate::scheduler::node::Node;
use crate::scheduler::task::TaskState;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// What a node would have to give, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Cores that such a task takes there.
    pub cores: u32,
    /// Free cores. Below 0 while callers that took theirs back share them.
    pub cores_free: i64,
    /// It wants the node for itself.
    pub exclusive: bool,
    /// Memory that such a task takes there.
    pub memory_bytes: u64,
    /// Memory that nothing has.
    pub memory_bytes_free: i128,
    /// The node is kept free for tasks with other properties.
    pub reserved: bool,
    /// It may run there at all.
    pub allowed: bool,
    /// It suits at the moment, as the shell has said.
    pub suits: bool,
    /// It could if nothing else ran there and the node did not end.
    pub possible: bool,
    /// How long such tasks are expected to run, where that counts.
    pub expected_ns: Option<u64>,
}

impl Scheduler {
    /// What a node has for tasks with these properties; `None` if there is no such node.
    pub fn room(&self, requirement: RequirementId, node: NodeId) -> Option<Room> {
        let class = self.fleet.requirements.get(requirement)?;
        let found = self.fleet.nodes.get(node).filter(|found| found.joined)?;
        let need = class.need(found);
        Some(Room {
            cores: need.cores,
            cores_free: found.cores_free,
            exclusive: class.requirement.exclusive,
            memory_bytes: need.memory_bytes,
            memory_bytes_free: found.memory_bytes_free,
            reserved: found.reservation().is_some_and(|other| other != requirement),
            allowed: class.requirement.allows(node),
            suits: self.fleet.suits(node, requirement),
            possible: class.requirement.allows(node) && found.could_fit(&class.requirement, need),
            expected_ns: class.expected_ns,
        })
    }

    /// The properties themselves.
    pub fn requirement(&self, id: RequirementId) -> Option<&Requirement> {
        self.fleet.requirements.get(id).map(|class| &class.requirement)
    }

    /// Free devices of a node, by resource.
    pub fn devices_free(&self, node: NodeId) -> Vec<usize> {
        self.fleet.nodes.get(node).map_or_else(Vec::new, Node::devices_free_counts)
    }

    /// What a waiting task waits for in the end: unsettled prerequisites that wait for no other. At
    /// most `count_max` of them, after a look at no more than `steps` tasks.
    pub fn roots(&self, id: TaskId, count_max: usize, steps: usize) -> Vec<TaskId> {
        let mut seen = BTreeSet::from([id]);
        let mut work = VecDeque::from([id]);
        let mut roots = Vec::new();
        while let Some(task) = work.pop_front() {
            let mut waits = false;
            for prerequisite in self.missing_prerequisites(task) {
                waits = true;
                if seen.len() < steps && seen.insert(prerequisite) {
                    work.push_back(prerequisite);
                }
            }
            if !waits && task != id {
                roots.push(task);
                if roots.len() == count_max {
                    break;
                }
            }
        }
        roots
    }

    /// How many ready tasks come before this one, which is ready too, as the policy has it now.
    /// (With ranks at random: by their height; with shares in memory: by that on the best of its
    /// nodes; with levels: by these.)
    pub fn ready_before(&self, id: TaskId) -> usize {
        let key = |id: TaskId| {
            let task = &self.graph.tasks[id];
            match self.config.policy {
                Policy::Fifo => (0, u64::MAX - task.mark),
                Policy::Lifo => (0, task.mark),
                Policy::LifoHrf | Policy::RankHrf => (u64::from(task.rank), task.mark),
                Policy::LifoHlfet => (self.learned.levels.of(id), task.mark),
                Policy::Cached => {
                    let nodes = task.queued_at.as_slice().iter();
                    let residency = &self.learned.residency;
                    let share = nodes.map(|node| residency.share(*node, id, &self.graph)).max();
                    (u64::from(share.unwrap_or(0)), task.mark)
                }
                Policy::Serial => (u64::from(task.batch), u64::from(u32::MAX - id.0)),
            }
        };
        let own = key(id);
        let ready = |id: &TaskId| self.graph.tasks[*id].state == TaskState::Ready;
        self.task_ids().filter(ready).filter(|other| key(*other) > own).count()
    }
}
