//! The queues of ready tasks: one per node and requirement, and the remote queue, one per requirement.
//!
//! Tasks are queued per requirement, so that a head that does not fit hides no other. A task stands
//! in the queue of each of its candidate nodes, or in the remote queue, and leaves all at once.
//! Knows no capacity: callers say which requirements fit.

use crate::config::Policy;
use crate::ids::{IdVec, NodeId, RequirementId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::learned::state::Learned;
use crate::scheduler::queue::{Chooser, Entry, Queue};
use crate::scheduler::residency::Residency;
use crate::scheduler::victims::Victims;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(crate) struct Ready {
    policy: Policy,
    remote: Queues,
    nodes: IdVec<NodeId, Queues>,
    /// Per requirement the nodes with such tasks in their queue, by their number; empty when it is never stolen.
    longest: IdVec<RequirementId, Victims>,
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
            remote: Queues::default(),
            nodes: IdVec::default(),
            longest: IdVec::default(),
            stealable: IdVec::default(),
            counts: IdVec::default(),
            len: 0,
        }
    }

    pub(crate) fn define_requirement(&mut self, id: RequirementId, stealable: bool) {
        self.longest.push(id, Victims::default());
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
        self.nodes.get(node).map_or(0, Queues::len)
    }

    /// Ready tasks in the remote queue.
    pub(crate) fn remote_len(&self) -> u32 {
        self.remote.len()
    }

    /// Puts a task in the queues that its `queued_at` names; it must be `Ready` with a fresh `mark`.
    pub(crate) fn push(&mut self, id: TaskId, graph: &Graph, learned: &Learned) {
        let task = &graph.tasks[id];
        let entry = Entry { id, mark: task.mark };
        let nodes = task.queued_at.as_slice();
        let policy = self.policy;
        for &node in nodes {
            let queues = self.nodes.entry(node);
            queues.entry(task.requirement, policy).push(entry, Some(node), graph, learned);
            if self.stealable[task.requirement] {
                self.longest[task.requirement].grow(node);
            }
        }
        if nodes.is_empty() {
            self.remote.entry(task.requirement, policy).push(entry, None, graph, learned);
        }
        self.counts[task.requirement] += 1;
        self.len += 1;
    }

    /// Takes a task out of all queues; it must leave `Ready` before the next choice.
    pub(crate) fn remove(&mut self, id: TaskId, graph: &Graph, learned: &Learned) {
        let task = &graph.tasks[id];
        let nodes = task.queued_at.as_slice();
        for &node in nodes {
            self.nodes[node].of(task.requirement).forget(id, graph, learned);
            if self.stealable[task.requirement] {
                self.longest[task.requirement].shrink(node);
            }
        }
        if nodes.is_empty() {
            self.remote.of(task.requirement).forget(id, graph, learned);
        }
        self.counts[task.requirement] -= 1;
        self.len -= 1;
    }

    /// The task that `thief` takes next, which stays: from its own queue, the remote queue, then
    /// the longest queue of another node. `may_take` is asked with a requirement, the number of
    /// ready tasks with it, and whether it is about the thief's own queue.
    pub(crate) fn choose(
        &mut self,
        thief: NodeId,
        may_take: impl Fn(RequirementId, u32, bool) -> bool,
        chooser: &mut Chooser<'_>,
    ) -> Option<TaskId> {
        if self.len == 0 {
            return None;
        }
        let counts = &self.counts;
        let fits_own =
            |requirement: RequirementId| may_take(requirement, counts[requirement], true);
        let fits = |requirement: RequirementId| may_take(requirement, counts[requirement], false);
        let policy = self.policy;
        if thief.0 as usize >= self.nodes.len() {
            self.nodes.entry(thief);
        }
        if let Some(id) = best(policy, &mut self.nodes[thief], Some(thief), fits_own, chooser) {
            return Some(id);
        }
        if let Some(id) = best(policy, &mut self.remote, None, fits, chooser) {
            return Some(id);
        }
        let (victim, requirement) = longest_queue(&self.longest, thief, fits)?;
        self.nodes[victim].of(requirement).choose_to_give(chooser)
    }

    /// Requirements with tasks in the queue of `node` or the remote queue.
    pub(crate) fn requirements_at(&self, node: NodeId) -> impl Iterator<Item = RequirementId> {
        let own = self.nodes.get(node).into_iter().flat_map(Queues::iter);
        own.chain(self.remote.iter()).filter(|(_, queue)| queue.len() > 0).map(|(id, _)| id)
    }

    /// All tasks in the queue of `node`, by number.
    pub(crate) fn tasks_at(&self, node: NodeId, graph: &Graph) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for (_, queue) in self.nodes.get(node).into_iter().flat_map(Queues::iter) {
            queue.tasks(graph, &mut tasks);
        }
        tasks.sort_unstable();
        tasks
    }

    /// All ready tasks, by number.
    pub(crate) fn all_tasks(&self, graph: &Graph) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        let own = self.nodes.iter().flat_map(|(_, queues)| queues.iter());
        for (_, queue) in own.chain(self.remote.iter()) {
            queue.tasks(graph, &mut tasks);
        }
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// A file that a task in the queue of `node` reads is in that node's memory now.
    pub(crate) fn review(
        &mut self,
        node: NodeId,
        id: TaskId,
        graph: &Graph,
        residency: &Residency,
    ) {
        let requirement = graph.tasks[id].requirement;
        self.nodes[node].of(requirement).review(node, id, graph, residency);
    }

    /// All tasks with this requirement in queues of nodes, by number.
    pub(crate) fn tasks_with(&self, requirement: RequirementId, graph: &Graph) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for queue in self.nodes.iter().filter_map(|(_, queues)| queues.get(requirement)) {
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
            queues.iter().map(move |(id, queue)| ((Some(node), id), queue.len()))
        });
        let remote = self.remote.iter().map(|(id, queue)| ((None, id), queue.len()));
        let found: BTreeMap<_, _> = own.chain(remote).filter(|(_, len)| *len > 0).collect();
        assert_eq!(found, counts, "lengths of the queues");
        for (requirement, count) in self.counts.iter() {
            let counted = per_requirement.get(&requirement).copied().unwrap_or(0);
            assert_eq!(*count, counted, "ready tasks of {requirement:?}");
            let queues = counts.iter().filter(|((_, id), _)| *id == requirement);
            let stealable = queues.filter(|_| self.stealable[requirement]);
            let longest = stealable.filter_map(|((node, _), len)| node.map(|node| (*len, node)));
            let victims = &self.longest[requirement];
            victims.check_invariants();
            let mut found: Vec<_> = victims.iter().collect();
            let mut longest: Vec<_> = longest.collect();
            found.sort_unstable();
            longest.sort_unstable();
            assert_eq!(found, longest, "victims of {requirement:?}");
        }
    }
}

/// The queues of one place, by requirement: one, mostly.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// Sorted by requirement; queues stay when they are empty.
    queues: Vec<(RequirementId, Queue)>,
}

impl Queues {
    fn position(&self, id: RequirementId) -> Result<usize, usize> {
        self.queues.binary_search_by_key(&id, |(id, _)| *id)
    }

    fn entry(&mut self, id: RequirementId, policy: Policy) -> &mut Queue {
        let position = self.position(id).unwrap_or_else(|position| {
            self.queues.insert(position, (id, Queue::new(policy)));
            position
        });
        &mut self.queues[position].1
    }

    fn get(&self, id: RequirementId) -> Option<&Queue> {
        self.position(id).ok().map(|position| &self.queues[position].1)
    }

    /// The queue of a task that is queued here.
    fn of(&mut self, id: RequirementId) -> &mut Queue {
        let position = self.position(id).expect("a queued task has its queue");
        &mut self.queues[position].1
    }

    fn len(&self) -> u32 {
        self.iter().map(|(_, queue)| queue.len()).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (RequirementId, &Queue)> {
        self.queues.iter().map(|(id, queue)| (*id, queue))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (RequirementId, &mut Queue)> {
        self.queues.iter_mut().map(|(id, queue)| (*id, queue))
    }
}

/// The node with the most tasks that fit the thief, and their requirement.
fn longest_queue(
    longest: &IdVec<RequirementId, Victims>,
    thief: NodeId,
    fits: impl Fn(RequirementId) -> bool,
) -> Option<(NodeId, RequirementId)> {
    let mut best = None;
    for (requirement, nodes) in longest.iter() {
        if let Some((len, node)) = nodes.longest(thief)
            && fits(requirement)
        {
            best = best.max(Some((len, node, requirement)));
        }
    }
    best.map(|(_, node, requirement)| (node, requirement))
}

/// The task that comes next in queues of several requirements, of which only those that fit count.
/// Each queue names its own; among these `Fifo` takes the oldest, `Lifo` the youngest, `LifoHlfet`
/// the highest level, `Cached` the greatest share, the others the highest rank, and the youngest of
/// these.
fn best(
    policy: Policy,
    queues: &mut Queues,
    owner: Option<NodeId>,
    fits: impl Fn(RequirementId) -> bool,
    chooser: &mut Chooser<'_>,
) -> Option<TaskId> {
    let mut best = None;
    for (id, queue) in queues.iter_mut() {
        if queue.len() == 0 || !fits(id) {
            continue;
        }
        let id = queue.choose(owner, chooser).expect("a queue with live entries has a head");
        let task = &chooser.graph.tasks[id];
        let key = match policy {
            Policy::Fifo | Policy::Serial => (0, u64::MAX - task.mark),
            Policy::Lifo => (0, task.mark),
            Policy::LifoHrf | Policy::RankHrf => (u64::from(task.rank), task.mark),
            Policy::LifoHlfet => (chooser.learned.levels.of(id), task.mark),
            Policy::Cached => {
                let residency = &chooser.learned.residency;
                let share = owner.map_or(0, |node| residency.share(node, id, chooser.graph));
                (u64::from(share), task.mark)
            }
        };
        best = best.max(Some((key, id)));
    }
    best.map(|(_, id)| id)
}
