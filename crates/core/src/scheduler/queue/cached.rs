//! `cached`: the task with the greatest part of its input in the node's memory, the youngest among equals.
//!
//! A share may have fallen since a task was filed under it, for files leave memory without a word:
//! so the head is looked at again, and filed anew if it has less. That costs O(log n) for each step
//! that a share falls. When a share rises the owner says so. A thief takes what has least in this
//! node's memory, the oldest of it.

use super::entry::{Chooser, Entry};
use crate::ids::{NodeId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::residency::Residency;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct CachedQueue {
    order: BTreeSet<(u8, u64, TaskId)>,
    /// Where each task is filed.
    filed: BTreeMap<TaskId, (u8, u64)>,
}

impl CachedQueue {
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.filed.len()).expect("32-bit numbers")
    }

    pub(super) fn push(&mut self, entry: Entry, share: u8) {
        self.order.insert((share, entry.mark, entry.id));
        self.filed.insert(entry.id, (share, entry.mark));
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        let (share, mark) = self.filed.remove(&id).expect("a queued task is filed");
        self.order.remove(&(share, mark, id));
    }

    fn file(&mut self, id: TaskId, share: u8) {
        let (_, mark) = self.filed[&id];
        self.forget(id);
        self.push(Entry { id, mark }, share);
    }

    /// A file that `id` reads has come into the memory of the queue's node.
    pub(super) fn review(
        &mut self,
        node: NodeId,
        id: TaskId,
        residency: &Residency,
        graph: &Graph,
    ) {
        if self.filed.contains_key(&id) {
            self.file(id, residency.share(node, id, graph));
        }
    }

    pub(super) fn choose(
        &mut self,
        owner: Option<NodeId>,
        chooser: &Chooser<'_>,
    ) -> Option<TaskId> {
        loop {
            let &(filed, _, id) = self.order.last()?;
            let share = owner
                .map_or(filed, |node| chooser.learned.residency.share(node, id, chooser.graph));
            if share >= filed {
                return Some(id);
            }
            self.file(id, share);
        }
    }

    /// What another node takes.
    pub(super) fn choose_to_give(&self) -> Option<TaskId> {
        self.order.first().map(|(_, _, id)| *id)
    }

    pub(super) fn tasks(&self, tasks: &mut Vec<TaskId>) {
        tasks.extend(self.filed.keys());
    }
}
