//! What went with lost nodes: which nodes are away, which files they hold, and how often each task
//! lost an attempt. Books only.
//!
//! Decides nothing: `lineage.rs` and `attempt.rs` do. Empty, and without cost, as long as no file
//! lies on a node and no node is lost.

use crate::fact::Places;
use crate::ids::{IdVec, NodeId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::task::{KnownFact, Task};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct LostFiles {
    /// Nodes that were lost and have not joined again.
    pub(crate) away: BTreeSet<NodeId>,
    /// Nodes of `away` that the run no longer waits for: no fact names them any more.
    pub(crate) given_up: BTreeSet<NodeId>,
    /// For each node the files whose facts name it, if files lie on nodes. A file that has moved
    /// away may still stand there.
    holdings: IdVec<NodeId, Vec<TaskId>>,
    /// No node takes files with it (`Config::files_apart`).
    apart: bool,
    /// Some file was out of reach for good, or is on no node that can be reached.
    any_gone: bool,
    /// Tasks that lost attempts, or failed where that was not their fault, or are made again.
    uncounted: BTreeMap<TaskId, Uncounted>,
    /// Where the actions of the tasks in `Inspecting` ran, if files lie on nodes; `None`: that node
    /// has been lost since.
    pub(crate) ran_on: BTreeMap<TaskId, Option<NodeId>>,
    /// Running tasks that had an input on lost nodes only at some time since they were started, or
    /// are uncharged for another reason.
    pub(crate) lacked: BTreeSet<TaskId>,
    /// Tasks that were settled and are open again.
    pub(crate) reopened: BTreeSet<TaskId>,
    /// There was such a task.
    pub(crate) any_reopened: bool,
}

/// The attempts of a task that do not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncounted {
    /// Attempts that used up no retry.
    pub(crate) attempts: u32,
    /// Different nodes with which attempts were lost since one of its attempts last succeeded.
    pub(crate) lost_with: Vec<NodeId>,
    /// Attempts that were lost since then.
    pub(crate) losses: u32,
}

impl LostFiles {
    pub(crate) fn new(apart: bool) -> Self {
        Self { apart, ..Self::default() }
    }

    /// Whether any file may be lost at all.
    pub(crate) fn may_lack_files(&self) -> bool {
        self.any_gone || !self.away.is_empty()
    }

    /// Whether there is such a file, but only on nodes that are away, or were given up.
    pub(crate) fn is_lost(&self, fact: &KnownFact) -> bool {
        match fact {
            KnownFact::Gone { .. } => true,
            KnownFact::Present { places, .. } => self.is_away(places),
            KnownFact::Unknown | KnownFact::Missing | KnownFact::WouldBeMade { .. } => false,
        }
    }

    fn is_away(&self, places: &Places) -> bool {
        let nodes = places.as_slice();
        if *places == Places::Nowhere || self.apart {
            return *places == Places::Nowhere;
        }
        !nodes.is_empty() && nodes.iter().all(|node| self.away.contains(node))
    }

    /// Notes where a file lies, by its new fact. Nodes that were given up are taken out of it first.
    pub(crate) fn hold(&mut self, id: TaskId, before: &KnownFact, fact: &mut KnownFact) {
        let KnownFact::Present { places, .. } = fact else {
            return;
        };
        self.any_gone |= *places == Places::Nowhere;
        if self.apart {
            return;
        }
        if !self.given_up.is_empty() && places.as_slice().iter().any(|n| self.given_up.contains(n))
        {
            let left = places.as_slice().iter().copied().filter(|n| !self.given_up.contains(n));
            let left: Vec<NodeId> = left.collect();
            if left.is_empty() {
                self.forget_file(fact);
                return;
            }
            *places = Places::from_slice(&left);
        }
        let known: &[NodeId] = match before {
            KnownFact::Present { places, .. } => places.as_slice(),
            _ => &[],
        };
        for node in places.as_slice() {
            if !known.contains(node) {
                self.holdings.entry(*node).push(id);
            }
        }
    }

    /// Files that the facts place on `node`, each once.
    pub(crate) fn files_on(&mut self, node: NodeId, graph: &Graph) -> Vec<TaskId> {
        let files = self.holdings.entry(node);
        files.sort_unstable();
        files.dedup();
        files.retain(|id| is_on(&graph.tasks[*id], node));
        files.clone()
    }

    /// Forgets the files of a node that is away for good. Returns those for which it was the last place.
    pub(crate) fn forget_files(&mut self, node: NodeId, graph: &mut Graph) -> Vec<TaskId> {
        let mut gone = Vec::new();
        for id in self.files_on(node, graph) {
            let fact = &mut graph.tasks[id].fact;
            let KnownFact::Present { places, .. } = fact else {
                unreachable!("it is on a node");
            };
            let others = places.as_slice().iter().copied().filter(|other| *other != node);
            let others: Vec<NodeId> = others.collect();
            if others.is_empty() {
                self.forget_file(fact);
                gone.push(id);
            } else {
                *places = Places::from_slice(&others);
            }
        }
        self.holdings.entry(node).clear();
        gone
    }

    /// A file that is out of reach is gone; whether it was there.
    pub(crate) fn forget_file(&mut self, fact: &mut KnownFact) -> bool {
        let KnownFact::Present { modified, bytes, .. } = fact else { return false };
        *fact = KnownFact::Gone { modified: *modified, bytes: *bytes };
        self.any_gone = true;
        true
    }

    /// Notes that one more attempt of a task used up no retry.
    pub(crate) fn uncharged(&mut self, id: TaskId) -> &mut Uncounted {
        let uncounted = self.uncounted.entry(id).or_default();
        uncounted.attempts += 1;
        uncounted
    }

    /// What of a task's attempts does not count.
    pub(crate) fn uncounted_mut(&mut self, id: TaskId) -> &mut Uncounted {
        self.uncounted.entry(id).or_default()
    }

    /// A task is made again: it has all its retries once more.
    pub(crate) fn start_over(&mut self, id: TaskId, attempts: u32) {
        self.uncounted.insert(id, Uncounted { attempts, ..Uncounted::default() });
    }

    /// An attempt of a task succeeded: it is not to blame for lost nodes.
    pub(crate) fn clear_uncharged(&mut self, id: TaskId) {
        if !self.uncounted.is_empty()
            && let Some(uncounted) = self.uncounted.get_mut(&id)
        {
            uncounted.lost_with.clear();
            uncounted.losses = 0;
        }
    }

    /// How many of a task's attempts used up no retry.
    pub(crate) fn uncounted(&self, id: TaskId) -> u32 {
        self.uncounted.get(&id).map_or(0, |uncounted| uncounted.attempts)
    }

    /// Compares the books with the facts.
    pub(crate) fn check_invariants(&self, graph: &Graph, files_on_nodes: bool) {
        assert!(self.given_up.is_subset(&self.away), "a node that is there was given up");
        let held: BTreeSet<(NodeId, TaskId)> = self
            .holdings
            .iter()
            .flat_map(|(node, held)| held.iter().map(move |id| (node, *id)))
            .collect();
        for (id, task) in graph.tasks.iter() {
            let KnownFact::Present { places, .. } = &task.fact else { continue };
            for node in places.as_slice().iter().filter(|_| files_on_nodes && !self.apart) {
                assert!(!self.given_up.contains(node), "{id:?} is on {node:?}, given up");
                assert!(held.contains(&(*node, id)), "{id:?} is on {node:?}");
            }
        }
    }
}

fn is_on(task: &Task, node: NodeId) -> bool {
    match &task.fact {
        KnownFact::Present { places, .. } => places.as_slice().contains(&node),
        KnownFact::Unknown
        | KnownFact::Missing
        | KnownFact::Gone { .. }
        | KnownFact::WouldBeMade { .. } => false,
    }
}
