//! What runs on one node: a few tasks, found by their number.
//!
//! Numbers and shares lie in two vectors, in no order, and a search goes through all numbers: the numbers of 64 actions
//! are four lines of cache, where a tree has a dozen nodes all over the memory. It costs O(cores of the node), 1 us
//! with 10^4.

use crate::ids::TaskId;
use crate::scheduler::node::Share;
use alloc::vec::Vec;

/// Numbers compared in one step, so that the compiler can compare them all at once.
const CHUNK: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    ids: Vec<TaskId>,
    /// In the order of `ids`.
    shares: Vec<Share>,
}

impl Running {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn position(&self, id: TaskId) -> Option<usize> {
        // Counted to the end, which the compiler does for several at a time.
        let has = |chunk: &[TaskId]| chunk.iter().filter(|other| **other == id).count() > 0;
        let chunk = self.ids.chunks(CHUNK).position(has)?;
        let rest = &self.ids[chunk * CHUNK..];
        rest.iter().position(|other| *other == id).map(|position| chunk * CHUNK + position)
    }

    /// Adds a task that is not there.
    pub(crate) fn insert(&mut self, id: TaskId, share: Share) {
        self.ids.push(id);
        self.shares.push(share);
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Share> {
        let position = self.position(id)?;
        self.ids.swap_remove(position);
        Some(self.shares.swap_remove(position))
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.position(id).is_some()
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Share> {
        self.shares.get(self.position(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Share> {
        let position = self.position(id)?;
        self.shares.get_mut(position)
    }

    /// All tasks, by number.
    pub(crate) fn ids(&self) -> Vec<TaskId> {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids
    }

    /// All shares, in no order that matters.
    pub(crate) fn shares(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter()
    }

    /// All tasks with their shares, in no order that matters.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &Share)> {
        self.ids.iter().copied().zip(&self.shares)
    }
}
