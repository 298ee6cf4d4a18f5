//! From which node tasks of one requirement are stolen: the one with the most of them in its queue.
//!
//! Nodes stand in a list for each length, linked through vectors that their numbers index. Lengths
//! change by one at a time, so that every change is O(1), whatever the number of nodes; an ordered
//! set of nodes took a sixth of a dispatch with 10^4 of them.

use crate::ids::{IdVec, NodeId};
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct QueueLink {
    /// Tasks in the node's queue; 0: it stands in no list.
    len: u32,
    next: u32,
    previous: u32,
}

impl Default for QueueLink {
    fn default() -> Self {
        Self { len: 0, next: NONE, previous: NONE }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Victims {
    places: IdVec<NodeId, QueueLink>,
    /// By length less one, the node that came to that length last.
    heads: Vec<u32>,
    /// The greatest length; 0: no node has any.
    longest: u32,
}

impl Victims {
    /// The queue of `node` has one more.
    pub(crate) fn grow(&mut self, node: NodeId) {
        let len = self.places.entry(node).len + 1;
        self.unlink(node);
        self.link(node, len);
        self.longest = self.longest.max(len);
    }

    /// The queue of `node` has one less.
    pub(crate) fn shrink(&mut self, node: NodeId) {
        let len = self.places[node].len;
        assert!(len > 0, "an empty queue shrinks");
        self.unlink(node);
        self.link(node, len - 1);
        if self.heads[self.longest as usize - 1] == NONE {
            // The last one of that length has one less now.
            self.longest -= 1;
        }
    }

    /// The node with the most, but not `thief`, and how many; among equals the one that came to that number last.
    pub(crate) fn longest(&self, thief: NodeId) -> Option<(u32, NodeId)> {
        // More than one length is looked at only if the thief itself has the most, which then takes its own.
        for len in (1..=self.longest).rev() {
            let mut node = self.heads[len as usize - 1];
            if node == thief.0 {
                node = self.places[thief].next;
            }
            if node != NONE {
                return Some((len, NodeId(node)));
            }
        }
        None
    }

    /// All nodes with any, and how many.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, NodeId)> {
        let with_any = self.places.iter().filter(|(_, place)| place.len > 0);
        with_any.map(|(node, place)| (place.len, node))
    }

    fn unlink(&mut self, node: NodeId) {
        let QueueLink { len, next, previous } = self.places[node];
        if len == 0 {
            return;
        }
        if previous == NONE {
            self.heads[len as usize - 1] = next;
        } else {
            self.places[NodeId(previous)].next = next;
        }
        if next != NONE {
            self.places[NodeId(next)].previous = previous;
        }
    }

    fn link(&mut self, node: NodeId, len: u32) {
        let mut next = NONE;
        if let Some(list) = (len as usize).checked_sub(1) {
            if list >= self.heads.len() {
                self.heads.resize(list + 1, NONE);
            }
            next = core::mem::replace(&mut self.heads[list], node.0);
            if next != NONE {
                self.places[NodeId(next)].previous = node.0;
            }
        }
        self.places[node] = QueueLink { len, next, previous: NONE };
    }

    /// That every list has the nodes of its length, and no others.
    pub(crate) fn check_invariants(&self) {
        let longest = self.iter().map(|(len, _)| len).max().unwrap_or(0);
        assert_eq!(self.longest, longest, "longest queue");
        let mut listed = 0;
        for (index, head) in self.heads.iter().enumerate() {
            let (mut node, mut previous) = (*head, NONE);
            while node != NONE {
                let place = self.places[NodeId(node)];
                assert_eq!((place.len as usize, place.previous), (index + 1, previous), "{node}");
                (previous, node) = (node, place.next);
                listed += 1;
            }
        }
        assert_eq!(listed, self.iter().count(), "listed nodes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_is_one_of_the_longest(steps in prop::collection::vec((any::<bool>(), 0..6_u32), 0..200)) {
            let (mut victims, mut lens) = (Victims::default(), [0_u32; 6]);
            for (grows, number) in steps {
                let (node, index) = (NodeId(number), number as usize);
                if grows {
                    victims.grow(node);
                    lens[index] += 1;
                } else if lens[index] > 0 {
                    victims.shrink(node);
                    lens[index] -= 1;
                }
                victims.check_invariants();
                let others = (0..6).filter(|other| *other != index).map(|other| lens[other]);
                let most = others.max().filter(|most| *most > 0);
                let found = victims.longest(node);
                prop_assert_eq!(found.map(|(len, _)| len), most);
                if let Some((len, found)) = found {
                    prop_assert!(found != node && lens[found.0 as usize] == len);
                }
            }
        }
    }
}
