//! All nodes, and which of them can take a task of each requirement right now.
//!
//! The sets of fitting nodes are kept up when a node's free capacity changes: O(requirements · log nodes) an event, so that no
//! event walks over the nodes. Requirements are meant to be few: the shell gives equal ones one number. Knows no queue.

use crate::ids::{IdVec, NodeId, RequirementId, TaskId};
use crate::node::{Need, Node};
use crate::requirement::{Capacity, Devices, Requirement};
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) nodes: IdVec<NodeId, Node>,
    pub(crate) requirements: IdVec<RequirementId, Class>,
    /// Where the search for a fitting node goes on, so that equal nodes take turns.
    next: u32,
}

/// A requirement, and how the nodes stand to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) requirement: Requirement,
    /// The most cores and the most memory of the joined nodes that it allows.
    largest: Largest,
    /// The nodes for which `Node::fits` holds and which it allows.
    pub(crate) fitting: BTreeSet<NodeId>,
    /// The nodes whose `reserved_for` it is.
    pub(crate) reserved: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Largest {
    cores: u32,
    memory_bytes: u64,
}

impl Largest {
    fn include(&mut self, capacity: &Capacity) {
        self.cores = self.cores.max(capacity.cores);
        self.memory_bytes = self.memory_bytes.max(capacity.memory_bytes);
    }
}

impl Class {
    fn need(&self, node: &Node) -> Need {
        let cores = if self.requirement.exclusive {
            node.capacity.cores.max(1)
        } else {
            self.requirement.cores.min(self.largest.cores).max(1)
        };
        // An exclusive task still wants a node that is large enough.
        let wanted = self.requirement.cores.min(self.largest.cores);
        let cores = cores.max(wanted);
        let memory_bytes = self.requirement.memory_bytes.min(self.largest.memory_bytes);
        Need { cores, memory_bytes }
    }

    fn fits(&self, id: RequirementId, node_id: NodeId, node: &Node) -> bool {
        self.requirement.allows(node_id) && node.fits(id, &self.requirement, self.need(node))
    }

    fn could_fit(&self, node_id: NodeId, node: &Node) -> bool {
        self.requirement.allows(node_id) && node.could_fit(&self.requirement, self.need(node))
    }

    /// Computes `largest` and `fitting` anew.
    fn rebuild(&mut self, id: RequirementId, nodes: &IdVec<NodeId, Node>) {
        self.largest = Largest::default();
        for (node_id, node) in nodes.iter() {
            if node.joined && self.requirement.allows(node_id) {
                self.largest.include(&node.capacity);
            }
        }
        let fits = |(node_id, node): &(NodeId, &Node)| self.fits(id, *node_id, node);
        self.fitting = nodes.iter().filter(fits).map(|(node_id, _)| node_id).collect();
    }
}

impl Fleet {
    pub(crate) fn define_requirement(&mut self, id: RequirementId, mut requirement: Requirement) {
        requirement.normalize();
        let mut class = Class { requirement, ..Class::default() };
        class.rebuild(id, &self.nodes);
        self.requirements.push(id, class);
    }

    /// Adds a node; the requirements for which what they need of a node is another now.
    pub(crate) fn join(&mut self, id: NodeId, capacity: Capacity) -> Vec<RequirementId> {
        let mut changed = Vec::new();
        let node = self.nodes.entry(id);
        assert!(!node.joined, "a node joins twice");
        node.join(capacity);
        for requirement in self.requirements.ids() {
            let class = &mut self.requirements[requirement];
            let node = &self.nodes[id];
            if !class.requirement.allows(id) {
                continue;
            }
            let mut largest = class.largest;
            largest.include(&node.capacity);
            if largest == class.largest {
                continue;
            }
            // Where nothing is cut, larger nodes change nothing for the others.
            let was_cut = class.requirement.cores > class.largest.cores
                || class.requirement.memory_bytes > class.largest.memory_bytes;
            class.largest = largest;
            if was_cut {
                class.rebuild(requirement, &self.nodes);
                changed.push(requirement);
            }
        }
        self.refresh(id);
        changed
    }

    /// Takes a node away, whose shares must have been released; the requirements for which what they need of a node is another now.
    pub(crate) fn lose(&mut self, id: NodeId) -> Vec<RequirementId> {
        let mut changed = Vec::new();
        self.cancel_reservation(id);
        let node = &mut self.nodes[id];
        assert!(node.joined, "a node that is not there is lost");
        assert!(node.running.is_empty(), "a node is lost with tasks on it");
        node.joined = false;
        let lost = node.capacity.clone();
        for requirement in self.requirements.ids() {
            let class = &mut self.requirements[requirement];
            class.fitting.remove(&id);
            let was_largest = lost.cores == class.largest.cores
                || lost.memory_bytes == class.largest.memory_bytes;
            if class.requirement.allows(id) && was_largest {
                let before = class.largest;
                class.rebuild(requirement, &self.nodes);
                if class.largest != before {
                    changed.push(requirement);
                }
            }
        }
        changed
    }

    /// Brings the sets of fitting nodes up to date with what is free on `id`.
    fn refresh(&mut self, id: NodeId) {
        for requirement in self.requirements.ids() {
            let class = &mut self.requirements[requirement];
            if class.fits(requirement, id, &self.nodes[id]) {
                class.fitting.insert(id);
            } else {
                class.fitting.remove(&id);
            }
        }
    }

    pub(crate) fn fits(&self, id: NodeId, requirement: RequirementId) -> bool {
        self.requirements[requirement].fitting.contains(&id)
    }

    /// Whether `id` could take such a task if nothing else ran there.
    pub(crate) fn could_take(&self, id: NodeId, requirement: RequirementId) -> bool {
        self.nodes.get(id).is_some_and(|node| self.requirements[requirement].could_fit(id, node))
    }

    /// Some node that can take such a task now; equal ones take turns.
    pub(crate) fn any_fitting(&mut self, requirement: RequirementId) -> Option<NodeId> {
        let fitting = &self.requirements[requirement].fitting;
        let next = fitting.range(NodeId(self.next)..).next().or_else(|| fitting.first())?;
        self.next = next.0.wrapping_add(1);
        Some(*next)
    }

    pub(crate) fn take(
        &mut self,
        id: NodeId,
        task: TaskId,
        requirement: RequirementId,
        now: Time,
    ) -> Devices {
        let class = &self.requirements[requirement];
        let need = class.need(&self.nodes[id]);
        let devices = self.nodes[id].take(task, &class.requirement, need, now);
        self.nodes[id].forget_passed(requirement);
        self.refresh(id);
        devices
    }

    pub(crate) fn release(&mut self, id: NodeId, task: TaskId) -> Time {
        let started = self.nodes[id].release(task);
        self.refresh(id);
        started
    }

    pub(crate) fn set_lookahead(&mut self, id: NodeId, actions: u32) {
        self.nodes[id].lookahead = actions;
        self.refresh(id);
    }

    pub(crate) fn set_suspended(&mut self, id: NodeId, task: TaskId, suspended: bool) {
        self.nodes[id].set_suspended(task, suspended);
        self.refresh(id);
    }

    /// Whether `id` can be kept free for the `queued` tasks of a requirement: it has no reservation and no caller that waits, could take one, and not every
    /// one of them has a node of its own. `on_demand`: only if the requirement says so.
    pub(crate) fn may_reserve(
        &self,
        id: NodeId,
        requirement: RequirementId,
        queued: u32,
        on_demand: bool,
    ) -> bool {
        let class = &self.requirements[requirement];
        (class.requirement.reserve || !on_demand)
            && class.reserved.len() < queued as usize
            && self.nodes[id].reserved_for.is_none()
            && self.nodes[id].suspended == 0
            && self.could_take(id, requirement)
    }

    pub(crate) fn reserve(&mut self, id: NodeId, requirement: RequirementId) {
        self.nodes[id].reserved_for = Some(requirement);
        self.requirements[requirement].reserved.insert(id);
        self.refresh(id);
    }

    pub(crate) fn cancel_reservation(&mut self, id: NodeId) {
        if let Some(requirement) = self.nodes[id].reserved_for.take() {
            self.requirements[requirement].reserved.remove(&id);
            self.refresh(id);
        }
    }

    pub(crate) fn check_invariants(&self) {
        for (id, node) in self.nodes.iter() {
            node.check_invariants(id);
            if let Some(requirement) = node.reserved_for {
                assert!(self.requirements[requirement].reserved.contains(&id), "{id:?}");
            }
        }
        for (id, class) in self.requirements.iter() {
            let mut anew = class.clone();
            anew.rebuild(id, &self.nodes);
            assert_eq!(anew.largest, class.largest, "largest node for {id:?}");
            assert_eq!(anew.fitting, class.fitting, "fitting nodes for {id:?}");
            for node in &class.reserved {
                assert_eq!(self.nodes[*node].reserved_for, Some(id), "reservation of {node:?}");
            }
        }
    }
}
