//! The leases of all nodes, and which of them have changed, so that no step looks at all of thousands of nodes.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::leases::Leases;
use crate::ids::NodeId;

/// The leases of each node. A node whose leases are handed out for change is looked at again.
#[derive(Debug, Default)]
pub(super) struct LeasesByNode {
    all: Vec<Leases>,
    /// Nodes, by place, that may have a lease to grant.
    to_grant: BTreeSet<usize>,
    /// Nodes that may have a command to prepare.
    to_prepare: BTreeSet<usize>,
    /// Nodes whose lookahead may have changed.
    to_tell: BTreeSet<usize>,
}

impl LeasesByNode {
    /// Sets the leases of a node, which may be the next number.
    pub fn set(&mut self, node: NodeId, leases: Leases) {
        let place = node.0 as usize;
        while self.all.len() <= place {
            self.all.push(Leases::new(0));
        }
        self[node] = leases;
    }

    /// The leases of a node; `None` if it never had any.
    pub fn get(&self, node: NodeId) -> Option<&Leases> {
        self.all.get(node.0 as usize)
    }

    /// All leases, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Leases> {
        for set in [&mut self.to_grant, &mut self.to_prepare, &mut self.to_tell] {
            set.extend(0..self.all.len());
        }
        self.all.iter_mut()
    }

    /// Takes a node that may have a lease to grant; it is looked at again once its leases have changed.
    pub fn next_to_grant(&mut self) -> Option<NodeId> {
        self.to_grant.pop_first().map(node_of)
    }

    /// Takes a node that may have a command to prepare; it, too, is looked at again once its leases have changed.
    pub fn next_to_prepare(&mut self) -> Option<NodeId> {
        self.to_prepare.pop_first().map(node_of)
    }

    /// Looks at these nodes again later, though their leases have not changed.
    pub fn prepare_later(&mut self, nodes: &[NodeId]) {
        self.to_prepare.extend(nodes.iter().map(|node| node.0 as usize));
    }

    /// Takes the nodes whose lookahead has changed, each with the new number.
    pub fn take_lookahead(&mut self) -> Vec<(NodeId, u32)> {
        let mut told = Vec::new();
        for place in core::mem::take(&mut self.to_tell) {
            if let Some(actions) = self.all[place].new_lookahead() {
                told.push((node_of(place), actions));
                // The new number may change the next one.
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
