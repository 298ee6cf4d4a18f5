//! The queues of ready tasks: one per node and requirement, and the remote queue, one per requirement.
//!
//! Tasks are queued per requirement, so that a head that does not fit hides no other. A task stands in the queue of each of its
//! candidate nodes, or in the remote queue, and leaves all at once. Knows no capacity: callers say which requirements fit.

use crate::config::Policy;
use crate::graph::Graph;
use crate::ids::{IdVec, NodeId, RequirementId, TaskId};
use crate::queue::{Chooser, Entry, Queue};
use crate::rank::RankTimes;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(crate) struct Ready {
    policy: Policy,
    remote: BTreeMap<RequirementId, Queue>,
    nodes: IdVec<NodeId, BTreeMap<RequirementId, Queue>>,
    /// Per requirement the nodes with such tasks in their queue, by their number; empty when it is never stolen.
    longest: IdVec<RequirementId, BTreeSet<(u32, NodeId)>>,
    /// Whether tasks of the requirement may be stolen.
    stealable: IdVec<RequirementId, bool>,
    /// Ready tasks per requirement, each counted once.
    counts: IdVec<RequirementId, u32>,
    /// Ready tasks.
    pub(crate) len: u32,
}

impl Ready {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            remote: BTreeMap::new(),
            nodes: IdVec::default(),
            longest: IdVec::default(),
            stealable: IdVec::default(),
            counts: IdVec::default(),
            len: 0,
        }
    }

    pub(crate) fn define_requirement(&mut self, id: RequirementId, stealable: bool) {
        self.longest.push(id, BTreeSet::new());
        self.stealable.push(id, stealable);
        self.counts.push(id, 0);
    }

    /// Ready tasks per requirement, each counted once.
    pub(crate) fn count(&self, requirement: RequirementId) -> u32 {
        self.counts[requirement]
    }

    pub(crate) fn is_stealable(&self, requirement: RequirementId) -> bool {
        self.stealable[requirement]
    }

    /// Ready tasks in the queue of `node`.
    pub(crate) fn node_len(&self, node: NodeId) -> u32 {
        self.nodes.get(node).map_or(0, |queues| queues.values().map(Queue::len).sum())
    }

    /// Ready tasks in the remote queue.
    pub(crate) fn remote_len(&self) -> u32 {
        self.remote.values().map(Queue::len).sum()
    }

    /// Puts a task in the queues that its `queued_at` names; it must be `Ready` with a fresh `mark`.
    pub(crate) fn push(&mut self, id: TaskId, graph: &Graph, times: &RankTimes) {
        let task = &graph.tasks[id];
        let entry = Entry { id, mark: task.mark };
        let nodes = task.queued_at.as_slice();
        let policy = self.policy;
        for &node in nodes {
            let queues = self.nodes.entry(node);
            let queue = queues.entry(task.requirement).or_insert_with(|| Queue::new(policy));
            queue.push(entry, graph, times);
            let len = queue.len();
            self.rank_victim(task.requirement, node, len - 1, len);
        }
        if nodes.is_empty() {
            let queue = self.remote.entry(task.requirement).or_insert_with(|| Queue::new(policy));
            queue.push(entry, graph, times);
        }
        self.counts[task.requirement] += 1;
        self.len += 1;
    }

    /// Takes a task out of all queues; it must leave `Ready` before the next choice.
    pub(crate) fn remove(&mut self, id: TaskId, graph: &Graph) {
        let task = &graph.tasks[id];
        let nodes = task.queued_at.as_slice();
        for &node in nodes {
            let queues = &mut self.nodes[node];
            let queue = queues.get_mut(&task.requirement).expect("a queued task has its queue");
            queue.forget(task.rank);
            let len = queue.len();
            self.rank_victim(task.requirement, node, len + 1, len);
        }
        if nodes.is_empty() {
            let queue = self.remote.get_mut(&task.requirement);
            queue.expect("a queued task has its queue").forget(task.rank);
        }
        self.counts[task.requirement] -= 1;
        self.len -= 1;
    }

    fn rank_victim(&mut self, requirement: RequirementId, node: NodeId, before: u32, after: u32) {
        if !self.stealable[requirement] {
            return;
        }
        let longest = &mut self.longest[requirement];
        if before > 0 {
            longest.remove(&(before, node));
        }
        if after > 0 {
            longest.insert((after, node));
        }
    }

    /// The task that `thief` takes next, which stays: from its own queue, the remote queue, then the longest queue of another node.
    /// `may_take` is asked with a requirement and the number of ready tasks with it.
    pub(crate) fn choose(
        &mut self,
        thief: NodeId,
        may_take: impl Fn(RequirementId, u32) -> bool,
        chooser: &mut Chooser<'_>,
    ) -> Option<TaskId> {
        if self.len == 0 {
            return None;
        }
        let counts = &self.counts;
        let fits = |requirement: RequirementId| may_take(requirement, counts[requirement]);
        let policy = self.policy;
        if thief.0 as usize >= self.nodes.len() {
            self.nodes.entry(thief);
        }
        if let Some(id) = best(policy, &mut self.nodes[thief], fits, chooser) {
            return Some(id);
        }
        if let Some(id) = best(policy, &mut self.remote, fits, chooser) {
            return Some(id);
        }
        let (victim, requirement) = longest_queue(&self.longest, thief, fits)?;
        let queue = self.nodes[victim].get_mut(&requirement);
        queue.expect("the longest queue is there").choose(chooser)
    }

    /// Requirements with tasks in the queue of `node` or the remote queue.
    pub(crate) fn requirements_at(&self, node: NodeId) -> impl Iterator<Item = RequirementId> {
        let own = self.nodes.get(node).into_iter().flatten();
        own.chain(&self.remote).filter(|(_, queue)| queue.len() > 0).map(|(id, _)| *id)
    }

    /// All tasks in the queue of `node`, by number.
    pub(crate) fn tasks_at(&self, node: NodeId, graph: &Graph) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for queue in self.nodes.get(node).into_iter().flat_map(BTreeMap::values) {
            queue.tasks(graph, &mut tasks);
        }
        tasks.sort_unstable();
        tasks
    }

    /// All tasks with this requirement in queues of nodes, by number.
    pub(crate) fn tasks_with(&self, requirement: RequirementId, graph: &Graph) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for queue in self.nodes.iter().filter_map(|(_, queues)| queues.get(&requirement)) {
            queue.tasks(graph, &mut tasks);
        }
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// Compares all counts with those of `tasks`, which are the ready ones.
    pub(crate) fn check_invariants(&self, graph: &Graph, tasks: &[TaskId]) {
        assert_eq!(self.len as usize, tasks.len(), "ready tasks");
        let mut counts: BTreeMap<(Option<NodeId>, RequirementId), u32> = BTreeMap::new();
        let mut per_requirement: BTreeMap<RequirementId, u32> = BTreeMap::new();
        for id in tasks {
            let task = &graph.tasks[*id];
            *per_requirement.entry(task.requirement).or_default() += 1;
            let nodes = task.queued_at.as_slice();
            for node in nodes {
                *counts.entry((Some(*node), task.requirement)).or_default() += 1;
            }
            if nodes.is_empty() {
                *counts.entry((None, task.requirement)).or_default() += 1;
            }
        }
        let own = self.nodes.iter().flat_map(|(node, queues)| {
            queues.iter().map(move |(id, queue)| ((Some(node), *id), queue.len()))
        });
        let remote = self.remote.iter().map(|(id, queue)| ((None, *id), queue.len()));
        let found: BTreeMap<_, _> = own.chain(remote).filter(|(_, len)| *len > 0).collect();
        assert_eq!(found, counts, "lengths of the queues");
        for (requirement, count) in self.counts.iter() {
            let counted = per_requirement.get(&requirement).copied().unwrap_or(0);
            assert_eq!(*count, counted, "ready tasks of {requirement:?}");
            let queues = counts.iter().filter(|((_, id), _)| *id == requirement);
            let stealable = queues.filter(|_| self.stealable[requirement]);
            let longest = stealable.filter_map(|((node, _), len)| node.map(|node| (*len, node)));
            assert_eq!(self.longest[requirement], longest.collect(), "victims of {requirement:?}");
        }
    }
}

/// The node with the most tasks that fit the thief, the last among equals, and their requirement.
fn longest_queue(
    longest: &IdVec<RequirementId, BTreeSet<(u32, NodeId)>>,
    thief: NodeId,
    fits: impl Fn(RequirementId) -> bool,
) -> Option<(NodeId, RequirementId)> {
    let mut best = None;
    for (requirement, nodes) in longest.iter() {
        let other = nodes.iter().rev().find(|(_, node)| *node != thief);
        if let Some(&(len, node)) = other
            && fits(requirement)
        {
            best = best.max(Some((len, node, requirement)));
        }
    }
    best.map(|(_, node, requirement)| (node, requirement))
}

/// The task that comes next in queues of several requirements, of which only those that fit count. Each queue names its own;
/// among these `Fifo` takes the oldest, `Lifo` the youngest, the others the highest rank, and the youngest of it.
fn best(
    policy: Policy,
    queues: &mut BTreeMap<RequirementId, Queue>,
    fits: impl Fn(RequirementId) -> bool,
    chooser: &mut Chooser<'_>,
) -> Option<TaskId> {
    let mut best = None;
    for (id, queue) in queues.iter_mut() {
        if queue.len() == 0 || !fits(*id) {
            continue;
        }
        let id = queue.choose(chooser).expect("a queue with live entries has a head");
        let task = &chooser.graph.tasks[id];
        let key = match policy {
            Policy::Fifo | Policy::Serial => (0, u64::MAX - task.mark),
            Policy::Lifo => (0, task.mark),
            Policy::LifoHrf | Policy::RankHrf => (task.rank, task.mark),
        };
        best = best.max(Some((key, id)));
    }
    best.map(|(_, id)| id)
}
