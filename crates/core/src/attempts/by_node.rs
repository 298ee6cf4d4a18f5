//! The leases of all nodes, and which of them have changed: with thousands of nodes nobody looks at all of them again
//! and again.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::leases::Leases;
use crate::ids::NodeId;

/// By node. Whoever is given one to change it has it looked at again.
#[derive(Debug, Default)]
pub(super) struct LeasesByNode {
    all: Vec<Leases>,
    /// Places of those that may have a lease to grant.
    to_grant: BTreeSet<usize>,
    /// Those that may have a command to prepare.
    to_prepare: BTreeSet<usize>,
    /// Those whose lookahead may be another one.
    to_tell: BTreeSet<usize>,
}

impl LeasesByNode {
    /// A node has these from now on; it may be the next number.
    pub fn set(&mut self, node: NodeId, leases: Leases) {
        let place = node.0 as usize;
        while self.all.len() <= place {
            self.all.push(Leases::new(0));
        }
        self[node] = leases;
    }

    /// Those of a node that has had some.
    pub fn get(&self, node: NodeId) -> Option<&Leases> {
        self.all.get(node.0 as usize)
    }

    /// All, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Leases> {
        for set in [&mut self.to_grant, &mut self.to_prepare, &mut self.to_tell] {
            set.extend(0..self.all.len());
        }
        self.all.iter_mut()
    }

    /// A node that may have a lease to grant; it is looked at again once it has changed.
    pub fn next_to_grant(&mut self) -> Option<NodeId> {
        self.to_grant.pop_first().map(node_of)
    }

    /// A node that may have a command to prepare; likewise.
    pub fn next_to_prepare(&mut self) -> Option<NodeId> {
        self.to_prepare.pop_first().map(node_of)
    }

    /// These may have one later, for another reason than a change of theirs.
    pub fn prepare_later(&mut self, nodes: &[NodeId]) {
        self.to_prepare.extend(nodes.iter().map(|node| node.0 as usize));
    }

    /// Nodes on which another number of actions may be begun early than before, and how many.
    pub fn take_lookahead(&mut self) -> Vec<(NodeId, u32)> {
        let mut told = Vec::new();
        for place in core::mem::take(&mut self.to_tell) {
            if let Some(actions) = self.all[place].new_lookahead() {
                told.push((node_of(place), actions));
                // What follows from the new number may be still another one.
                self.to_tell.insert(place);
                self.to_prepare.insert(place);
            }
        }
        told
    }
}

impl Index<NodeId> for LeasesByNode {
    type Output = Leases;

    fn index(&self, node: NodeId) -> &Leases {
        &self.all[node.0 as usize]
    }
}

impl IndexMut<NodeId> for LeasesByNode {
    fn index_mut(&mut self, node: NodeId) -> &mut Leases {
        let place = node.0 as usize;
        for set in [&mut self.to_grant, &mut self.to_prepare, &mut self.to_tell] {
            set.insert(place);
        }
        &mut self.all[place]
    }
}

fn node_of(place: usize) -> NodeId {
    NodeId(u32::try_from(place).expect("few nodes"))
}
