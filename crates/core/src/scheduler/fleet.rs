//! All nodes, and which of them can take a task of each requirement right now.
//!
//! The sets of fitting nodes are kept up when a node's free capacity changes: O(requirements) an
//! event, so that no event walks over the nodes. Requirements are meant to be few: the shell gives
//! equal ones one number. Knows no queue.

use crate::ids::{IdVec, NodeId, RequirementId, TaskId};
use crate::requirement::{Capacity, Devices, LargestNodes, Requirement};
use crate::scheduler::id_set::IdSet;
use crate::scheduler::node::{Need, Node};
use crate::suitability::{Suitability, Suits};
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// When nodes end that have not joined yet.
    pub(crate) announced: BTreeMap<NodeId, Time>,
    pub(crate) nodes: IdVec<NodeId, Node>,
    pub(crate) requirements: IdVec<RequirementId, Class>,
    /// Cores of all joined nodes.
    pub(crate) cores: u64,
    /// Number of joined nodes.
    pub(crate) joined: u32,
    /// Where the search for a fitting node continues, so that equal nodes take turns.
    next: u32,
    /// Nodes that will be taken away at a known time.
    ending: BTreeSet<NodeId>,
    /// The last moments at which tasks may start on nodes that end; stale unless it is still `Fleet::last_start`.
    closings: BTreeSet<(Time, NodeId, RequirementId)>,
}

/// A requirement, and how the nodes stand to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) requirement: Requirement,
    /// The most cores and the most memory of the joined nodes that it allows.
    largest: LargestNodes,
    /// The nodes for which `Node::fits` holds and which it allows.
    pub(crate) fitting: IdSet<NodeId>,
    /// The nodes whose `reserved_for` it is.
    pub(crate) reserved: IdSet<NodeId>,
    /// How long such tasks are expected to run.
    pub(crate) expected_ns: Option<u64>,
    /// Nodes that end too soon for one more.
    closed: BTreeSet<NodeId>,
    /// Which nodes suit now.
    suitability: Suitability,
    /// `NowhereToRun` went out, and no node has come since that could take it.
    pub(crate) told: bool,
}

impl Class {
    pub(crate) fn need(&self, node: &Node) -> Need {
        let Requirement { cores, memory_bytes, waits_for_size, .. } = self.requirement;
        let wanted = if waits_for_size.cores { cores } else { cores.min(self.largest.cores) };
        // An exclusive task still wants a node that is large enough.
        let least = if self.requirement.exclusive { node.capacity.cores } else { 0 };
        let largest_bytes = self.largest.memory_bytes;
        let memory_bytes =
            if waits_for_size.memory { memory_bytes } else { memory_bytes.min(largest_bytes) };
        Need { cores: wanted.max(least).max(1), memory_bytes }
    }

    fn fits(&self, id: RequirementId, node_id: NodeId, node: &Node) -> bool {
        self.admits(node_id)
            && self.suitability.suits(node_id)
            && node.fits(id, &self.requirement, self.need(node))
    }

    fn could_fit(&self, node_id: NodeId, node: &Node) -> bool {
        self.admits(node_id) && node.could_fit(&self.requirement, self.need(node))
    }

    /// Whether it allows a node, and the node does not end too soon.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.requirement.allows(node) && !self.closed.contains(&node)
    }

    /// Computes `largest` and `fitting` anew.
    fn rebuild(&mut self, id: RequirementId, nodes: &IdVec<NodeId, Node>) {
        self.largest = LargestNodes::default();
        for (node_id, node) in nodes.iter() {
            if node.is_in_use() && self.admits(node_id) {
                self.largest.include(&node.capacity);
            }
        }
        let fits = |(node_id, node): &(NodeId, &Node)| self.fits(id, *node_id, node);
        self.fitting = nodes.iter().filter(fits).map(|(node_id, _)| node_id).collect();
        self.suitability.rebuild(self.fitting.iter());
    }

    fn set_fitting(&mut self, node: NodeId, fits: bool) {
        if fits {
            self.fitting.insert(node);
        } else {
            self.fitting.remove(node);
        }
        self.suitability.set_fitting(node, fits);
    }
}

impl Fleet {
    pub(crate) fn define_requirement(&mut self, id: RequirementId, mut requirement: Requirement) {
        requirement.normalize();
        let suitability = Suitability::new(requirement.choice);
        let mut class = Class { requirement, suitability, ..Class::default() };
        class.rebuild(id, &self.nodes);
        self.requirements.push(id, class);
    }

    /// Lets tasks of a requirement run on a node that is to join.
    pub(crate) fn allow(&mut self, requirement: RequirementId, id: NodeId) {
        let joined = self.nodes.get(id).is_some_and(|node| node.joined);
        assert!(!joined, "a node is allowed after it has joined");
        self.requirements[requirement].requirement.allow(id);
    }

    /// Notes which nodes suit tasks of a requirement. Returns those that have room for one now.
    pub(crate) fn set_suiting(
        &mut self,
        requirement: RequirementId,
        nodes: &[(NodeId, Option<Suits>)],
    ) -> Vec<NodeId> {
        let mut ready = Vec::new();
        for (id, suits) in nodes {
            self.requirements[requirement].suitability.set(*id, *suits);
            if self.nodes.get(*id).is_none() {
                continue;
            }
            if suits.is_none() && self.nodes[*id].reserved_for == Some(requirement) {
                self.cancel_reservation(*id);
                ready.push(*id);
            }
            self.refresh(*id);
            if self.fits(*id, requirement) {
                ready.push(*id);
            }
        }
        ready
    }

    /// Whether a node suits tasks of a requirement at the moment.
    pub(crate) fn suits(&self, id: NodeId, requirement: RequirementId) -> bool {
        self.requirements[requirement].suitability.suits(id)
    }

    /// Maximum number of tasks of a gang that may start at once on a node that suits such a task.
    pub(crate) fn suits_at_once(&self, id: NodeId, requirement: RequirementId) -> u32 {
        self.requirements[requirement].suitability.at_once(id)
    }

    /// Whether no other node that can take such a task now has a higher rank.
    pub(crate) fn is_best(&self, id: NodeId, requirement: RequirementId) -> bool {
        let suitability = &self.requirements[requirement].suitability;
        !suitability.is_choosy() || suitability.is_best(id)
    }

    /// Requirements with ranked nodes, and of each the best node that has room.
    pub(crate) fn best_nodes(&self) -> impl Iterator<Item = (RequirementId, NodeId)> {
        let best = |class: &Class| class.suitability.best();
        self.requirements.iter().filter_map(move |(id, class)| Some((id, best(class)?)))
    }

    /// Adds a node. Returns the requirements whose need of a node has changed.
    pub(crate) fn join(&mut self, id: NodeId, capacity: Capacity) -> Vec<RequirementId> {
        let node = self.nodes.entry(id);
        assert!(!node.joined, "a node joins twice");
        self.cores += u64::from(capacity.cores);
        self.joined += 1;
        node.join(capacity);
        self.put_in_use(id)
    }

    /// Uses a node again that was drained; as `join`.
    pub(crate) fn take_back(&mut self, id: NodeId) -> Vec<RequirementId> {
        self.nodes[id].drained = false;
        self.put_in_use(id)
    }

    fn put_in_use(&mut self, id: NodeId) -> Vec<RequirementId> {
        let mut changed = Vec::new();
        for requirement in self.requirements.ids() {
            let class = &mut self.requirements[requirement];
            let node = &self.nodes[id];
            if !class.admits(id) {
                continue;
            }
            class.told = false;
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

    /// Takes a node away, whose shares must have been released. Returns the requirements whose need of a node has
    /// changed.
    pub(crate) fn lose(&mut self, id: NodeId) -> Vec<RequirementId> {
        self.cancel_reservation(id);
        let node = &mut self.nodes[id];
        assert!(node.joined, "a node that is not there is lost");
        assert!(node.is_empty(), "a node is lost with tasks on it");
        node.joined = false;
        node.ends = None;
        self.cores -= u64::from(node.capacity.cores);
        self.joined -= 1;
        let changed = self.put_out_of_use(id);
        if self.ending.remove(&id) {
            for requirement in self.requirements.ids() {
                self.requirements[requirement].closed.remove(&id);
            }
        }
        changed
    }

    /// Lets nothing more start on a node; what runs there goes on. As `lose`.
    pub(crate) fn drain_node(&mut self, id: NodeId) -> Vec<RequirementId> {
        self.cancel_reservation(id);
        self.nodes[id].drained = true;
        self.put_out_of_use(id)
    }

    fn put_out_of_use(&mut self, id: NodeId) -> Vec<RequirementId> {
        let ids = self.requirements.ids();
        ids.filter(|requirement| self.take_out(id, *requirement)).collect()
    }

    /// Brings a class up to date with a node that no longer counts for it; whether the class's need of a node has
    /// changed.
    fn take_out(&mut self, id: NodeId, requirement: RequirementId) -> bool {
        let lost = &self.nodes[id].capacity;
        let class = &mut self.requirements[requirement];
        class.set_fitting(id, false);
        let was_largest =
            lost.cores == class.largest.cores || lost.memory_bytes == class.largest.memory_bytes;
        if !class.requirement.allows(id) || !was_largest {
            return false;
        }
        let before = class.largest;
        class.rebuild(requirement, &self.nodes);
        class.largest != before
    }

    /// Notes when a node will be taken away. Returns the requirements for which it is open again.
    pub(crate) fn set_end(&mut self, id: NodeId, at: Time) -> Vec<RequirementId> {
        if !self.nodes.get(id).is_some_and(|node| node.joined) {
            self.announced.insert(id, at);
            return Vec::new();
        }
        self.nodes[id].ends = Some(at);
        self.ending.insert(id);
        let ids = self.requirements.ids();
        ids.filter(|requirement| self.reopen(id, *requirement)).collect()
    }

    /// Notes how long tasks are expected to run; whether some node is open for them again.
    pub(crate) fn set_expected(&mut self, requirement: RequirementId, run_ns: u64) -> bool {
        self.requirements[requirement].expected_ns = Some(run_ns);
        let mut any = false;
        for id in self.ending.clone() {
            any |= self.reopen(id, requirement);
        }
        any
    }

    /// The last moment at which such a task may start on a node, if there is one.
    fn last_start(&self, id: NodeId, requirement: RequirementId) -> Option<Time> {
        let ends = self.nodes[id].ends?;
        let expected_ns = self.requirements[requirement].expected_ns?;
        Some(Time(ends.0.saturating_sub(expected_ns)))
    }

    /// Lets such tasks start on a node until it closes for them; whether they could not before.
    fn reopen(&mut self, id: NodeId, requirement: RequirementId) -> bool {
        let was_closed = self.requirements[requirement].closed.remove(&id);
        if was_closed {
            self.requirements[requirement].told = false;
            self.requirements[requirement].rebuild(requirement, &self.nodes);
        }
        if let Some(last) = self.last_start(id, requirement) {
            self.closings.insert((last, id, requirement));
        }
        was_closed
    }

    /// Closes a node for a class of tasks whose last moment there has passed. Returns both, and whether the class's
    /// need of a node has changed; `None` if there is no more to close.
    pub(crate) fn close_next(&mut self, now: Time) -> Option<(NodeId, RequirementId, bool)> {
        loop {
            let &(last, id, requirement) =
                self.closings.first().filter(|(last, ..)| *last < now)?;
            self.closings.pop_first();
            if self.last_start(id, requirement) == Some(last) {
                if self.nodes[id].reserved_for == Some(requirement) {
                    self.cancel_reservation(id);
                }
                self.requirements[requirement].closed.insert(id);
                return Some((id, requirement, self.take_out(id, requirement)));
            }
        }
    }

    /// Whether some node could take such a task if nothing else ran there.
    pub(crate) fn is_possible(&self, requirement: RequirementId) -> bool {
        let class = &self.requirements[requirement];
        !class.fitting.is_empty() || self.nodes.iter().any(|(id, node)| class.could_fit(id, node))
    }

    /// Whether there is a kind of task that only this node can take.
    pub(crate) fn is_only_choice(&self, id: NodeId) -> bool {
        let needs_it = |class: &Class| {
            let mut others = self.nodes.iter().filter(|(other, _)| *other != id);
            class.could_fit(id, &self.nodes[id])
                && !others.any(|(other, node)| class.could_fit(other, node))
        };
        self.requirements.iter().any(|(_, class)| needs_it(class))
    }

    /// Brings the sets of fitting nodes up to date with what is free on `id`.
    fn refresh(&mut self, id: NodeId) {
        for requirement in self.requirements.ids() {
            let class = &mut self.requirements[requirement];
            let fits = class.fits(requirement, id, &self.nodes[id]);
            class.set_fitting(id, fits);
        }
    }

    pub(crate) fn fits(&self, id: NodeId, requirement: RequirementId) -> bool {
        self.requirements[requirement].fitting.contains(id)
    }

    /// Whether `id` could take such a task if nothing else ran there.
    pub(crate) fn could_take(&self, id: NodeId, requirement: RequirementId) -> bool {
        self.nodes.get(id).is_some_and(|node| self.requirements[requirement].could_fit(id, node))
    }

    /// Whether some node can take such a task now.
    pub(crate) fn some_fits(&self, requirement: RequirementId) -> bool {
        self.requirements[requirement].fitting.first().is_some()
    }

    /// The best node that can take such a task now; of nodes that are not ranked equal ones take turns.
    pub(crate) fn any_fitting(&mut self, requirement: RequirementId) -> Option<NodeId> {
        let class = &self.requirements[requirement];
        if class.suitability.is_choosy() {
            return class.suitability.best();
        }
        let fitting = &class.fitting;
        let next = fitting.next_from(self.next as usize).or_else(|| fitting.first())?;
        self.next = next.0.wrapping_add(1);
        Some(next)
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
        self.note_start(id);
        devices
    }

    /// A task has started on a node: it may not suit others any more.
    pub(crate) fn note_start(&mut self, id: NodeId) {
        for other in self.requirements.ids() {
            self.requirements[other].suitability.on_started(id);
        }
        self.refresh(id);
    }

    /// The task of a share that was held begins. `note_start` follows, once for all of a gang.
    pub(crate) fn begin_held(&mut self, id: NodeId, task: TaskId, now: Time) -> Devices {
        self.nodes[id].begin_held(task, now)
    }

    pub(crate) fn release(&mut self, id: NodeId, task: TaskId) -> Time {
        let started = self.nodes[id].release(task);
        self.refresh(id);
        started
    }

    /// Frees the share of a task that has ended; nothing became free when it was put by.
    pub(crate) fn release_kept(&mut self, id: NodeId, task: TaskId) {
        self.nodes[id].release_kept(task);
        self.refresh(id);
    }

    /// Whether a task of a gang has room on a node now, and the node suits.
    pub(crate) fn has_room(&self, id: NodeId, requirement: RequirementId, need: Need) -> bool {
        let class = &self.requirements[requirement];
        class.admits(id)
            && class.suitability.suits(id)
            && self.nodes[id].has_room(&class.requirement, need)
    }

    /// As `has_room`, for a task that has begun on the node, also where none may begin any more, or room is awaited.
    pub(crate) fn has_free(&self, id: NodeId, requirement: RequirementId, need: Need) -> bool {
        self.nodes[id].has_free(&self.requirements[requirement].requirement, need)
    }

    pub(crate) fn hold_nothing(&mut self, id: NodeId, task: TaskId, now: Time) {
        self.nodes[id].hold_nothing(task, now);
    }

    /// A task that had nothing of a node has its share from now on.
    pub(crate) fn fill(
        &mut self,
        id: NodeId,
        task: TaskId,
        requirement: RequirementId,
        need: Need,
        now: Time,
    ) -> Devices {
        let requirement = &self.requirements[requirement].requirement;
        let devices = self.nodes[id].fill(task, requirement, need, now);
        self.note_start(id);
        devices
    }

    pub(crate) fn hold(
        &mut self,
        id: NodeId,
        task: TaskId,
        requirement: RequirementId,
        need: Need,
        now: Time,
    ) {
        let requirement = &self.requirements[requirement].requirement;
        self.nodes[id].hold(task, requirement, need, now);
        self.refresh(id);
    }

    pub(crate) fn release_held(&mut self, id: NodeId, task: TaskId) {
        self.nodes[id].release_held(task);
        self.refresh(id);
    }

    /// One task more, or less, of the gang that is next waits for room on a node.
    pub(crate) fn set_awaited(&mut self, id: NodeId, more: bool) {
        let awaited = &mut self.nodes[id].awaited;
        *awaited = if more { *awaited + 1 } else { *awaited - 1 };
        self.refresh(id);
    }

    pub(crate) fn set_lookahead(&mut self, id: NodeId, actions: u32) {
        self.nodes[id].lookahead = actions;
        self.refresh(id);
    }

    /// No node takes more than it has cores for.
    pub(crate) fn end_lookahead(&mut self) {
        let ahead = self.nodes.iter().filter(|(_, node)| node.lookahead > 0).map(|(id, _)| id);
        for id in ahead.collect::<Vec<_>>() {
            self.set_lookahead(id, 0);
        }
    }

    pub(crate) fn set_suspended(&mut self, id: NodeId, task: TaskId, suspended: bool) {
        self.nodes[id].set_suspended(task, suspended);
        self.refresh(id);
    }

    /// Whether `id` can be kept free for the `queued` tasks of a requirement: it has no reservation
    /// and no caller that waits, could take one, and not every one of them has a node of its own.
    /// `on_demand`: only if the requirement says so.
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
            && self.nodes[id].awaited == 0
            && self.suits(id, requirement)
            && self.could_take(id, requirement)
    }

    pub(crate) fn reserve(&mut self, id: NodeId, requirement: RequirementId) {
        self.nodes[id].reserved_for = Some(requirement);
        self.requirements[requirement].reserved.insert(id);
        self.refresh(id);
    }

    pub(crate) fn cancel_reservation(&mut self, id: NodeId) {
        if let Some(requirement) = self.nodes[id].reserved_for.take() {
            self.requirements[requirement].reserved.remove(id);
            self.refresh(id);
        }
    }

    pub(crate) fn check_invariants(&self) {
        let joined = || self.nodes.iter().filter(|(_, node)| node.joined);
        assert_eq!(self.joined as usize, joined().count(), "joined nodes");
        let cores: u64 = joined().map(|(_, node)| u64::from(node.capacity.cores)).sum();
        assert_eq!(self.cores, cores, "cores of joined nodes");
        for (id, node) in self.nodes.iter() {
            node.check_invariants(id);
            if let Some(requirement) = node.reserved_for {
                assert!(self.requirements[requirement].reserved.contains(id), "{id:?}");
            }
        }
        for (id, class) in self.requirements.iter() {
            let mut anew = class.clone();
            anew.rebuild(id, &self.nodes);
            assert_eq!(anew.largest, class.largest, "largest node for {id:?}");
            assert_eq!(anew.fitting, class.fitting, "fitting nodes for {id:?}");
            class.suitability.check_invariants(class.fitting.iter());
            for node in class.reserved.iter() {
                assert_eq!(self.nodes[node].reserved_for, Some(id), "reservation of {node:?}");
            }
        }
    }
}
