//! Which nodes suit a requirement at the moment, and which of them rather, as the shell says.
//!
//! The scheduler knows no attribute of a node: what a node's load or memory is, and what a task wants
//! of these, is the shell's. It says for each node whether it suits now, with which rank, and how many tasks of a
//! gang at once.

use crate::ids::NodeId;
use crate::requirement::Choice;
use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

/// How gladly a node is used: the higher the rather. All that have no preference have the same.
pub type NodeRank = u64;

/// How a node suits tasks of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suits {
    /// Of the nodes with room, the one with the highest rank is taken.
    pub rank: NodeRank,
    /// Maximum number of tasks of one gang that may start on it at once.
    pub at_once: u32,
}

impl Suits {
    /// A node that suits, however many tasks start there at once.
    pub fn ranked(rank: NodeRank) -> Self {
        Self { rank, at_once: u32::MAX }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Suitability {
    /// As the requirement has it; `None`: every node suits, none rather than another.
    choice: Option<Choice>,
    /// The nodes that suit.
    suiting: BTreeMap<NodeId, Suits>,
    /// Those of them that have room for such a task; of the same rank the lowest number last.
    fitting: BTreeSet<(NodeRank, Reverse<NodeId>)>,
}

impl Suitability {
    pub(crate) fn new(choice: Option<Choice>) -> Self {
        Self { choice, ..Self::default() }
    }

    pub(crate) fn suits(&self, node: NodeId) -> bool {
        self.choice.is_none() || self.suiting.contains_key(&node)
    }

    /// Maximum number of tasks of a gang that may start on a node at once; 0: it does not suit.
    pub(crate) fn at_once(&self, node: NodeId) -> u32 {
        let of_node = self.suiting.get(&node).map_or(0, |suits| suits.at_once);
        if self.choice.is_none() { u32::MAX } else { of_node }
    }

    /// Whether some nodes are chosen rather than others.
    pub(crate) fn is_choosy(&self) -> bool {
        self.choice.is_some()
    }

    /// Notes whether a node that suits has room for one.
    pub(crate) fn set_fitting(&mut self, node: NodeId, fits: bool) {
        let Some(Suits { rank, .. }) = self.suiting.get(&node) else { return };
        if fits {
            self.fitting.insert((*rank, Reverse(node)));
        } else {
            self.fitting.remove(&(*rank, Reverse(node)));
        }
    }

    /// The node to take of those with room.
    pub(crate) fn best(&self) -> Option<NodeId> {
        self.fitting.last().map(|(_, Reverse(node))| *node)
    }

    /// Whether no node with room has a higher rank.
    pub(crate) fn is_best(&self, node: NodeId) -> bool {
        let rank = self.suiting.get(&node).map_or(0, |suits| suits.rank);
        self.fitting.last().is_none_or(|(best, _)| *best <= rank)
    }

    /// Notes what the shell says of a node; `None`: it does not suit. Whether it has room must be noted anew.
    pub(crate) fn set(&mut self, node: NodeId, suits: Option<Suits>) {
        self.set_fitting(node, false);
        match suits {
            Some(suits) => drop(self.suiting.insert(node, suits)),
            None => drop(self.suiting.remove(&node)),
        }
    }

    /// Something was started on a node.
    pub(crate) fn on_started(&mut self, node: NodeId) {
        if self.choice.is_some_and(|choice| choice.used_up) {
            self.set(node, None);
        }
    }

    /// Nodes with room, counted anew.
    pub(crate) fn rebuild(&mut self, fitting: impl Iterator<Item = NodeId>) {
        self.fitting.clear();
        for node in fitting {
            self.set_fitting(node, true);
        }
    }

    pub(crate) fn check_invariants(&self, fitting: impl Iterator<Item = NodeId>) {
        let mut anew = self.clone();
        anew.rebuild(fitting);
        assert_eq!(anew.fitting, self.fitting, "nodes by rank");
    }
}
