//! Which files are in the memory of which node, as far as is known: least recently used, by bytes, whole files.
//!
//! Used by the policy `cached` alone. A model: it is fed with what tasks read and wrote, and put
//! right by what is measured (`CacheMeasured`). Knows no pages, and nothing of what other programs
//! do with the memory.

use crate::ids::{IdVec, NodeId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::task::KnownFact;
use alloc::collections::{BTreeMap, BTreeSet};

/// Maximum share of a task's input, which is all of it: shares are whole numbers from 0 up.
pub(crate) const SHARE_MAX: u8 = 8;

#[derive(Clone, Debug, Default)]
struct Memory {
    /// Bytes for files; 0: not known, and nothing is thought to be here.
    capacity: u64,
    used: u64,
    files: BTreeMap<TaskId, Resident>,
    /// By the number of the use.
    order: BTreeMap<u64, TaskId>,
}

#[derive(Clone, Copy, Debug)]
struct Resident {
    bytes: u64,
    /// The number of its last use.
    used_at: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Residency {
    nodes: IdVec<NodeId, Memory>,
    /// The same from the files' side.
    holders: BTreeSet<(TaskId, NodeId)>,
    /// Uses so far.
    uses: u64,
}

impl Residency {
    /// Bytes of memory that a node has for files; what was there before is forgotten.
    pub(crate) fn set_capacity(&mut self, node: NodeId, capacity: u64) {
        let memory = core::mem::take(self.nodes.entry(node));
        for file in memory.files.keys() {
            self.holders.remove(&(*file, node));
        }
        self.nodes.entry(node).capacity = capacity;
    }

    /// Notes that `bytes` of a file are in memory now, and were used last; 0: the file is no longer there.
    pub(crate) fn set(&mut self, node: NodeId, file: TaskId, bytes: u64) {
        self.uses += 1;
        let memory = self.nodes.entry(node);
        if let Some(before) = memory.files.remove(&file) {
            memory.order.remove(&before.used_at);
            memory.used -= before.bytes;
            self.holders.remove(&(file, node));
        }
        let bytes = bytes.min(memory.capacity);
        if bytes == 0 {
            return;
        }
        memory.files.insert(file, Resident { bytes, used_at: self.uses });
        memory.order.insert(self.uses, file);
        memory.used += bytes;
        self.holders.insert((file, node));
        while memory.used > memory.capacity {
            let (_, oldest) = memory.order.pop_first().expect("used bytes belong to a file");
            let gone = memory.files.remove(&oldest).expect("the order knows no other files");
            memory.used -= gone.bytes;
            self.holders.remove(&(oldest, node));
        }
    }

    /// A task read all of a file on a node. If the file lies on other nodes only, it is in the memory of the first of
    /// them now; else in the reader's. Returns that node.
    pub(crate) fn read(&mut self, reader: NodeId, file: TaskId, graph: &Graph) -> NodeId {
        let KnownFact::Present { bytes, places, .. } = &graph.tasks[file].fact else {
            return reader;
        };
        let places = places.as_slice();
        let node = match places.first() {
            Some(first) if !places.contains(&reader) => *first,
            Some(_) | None => reader,
        };
        self.set(node, file, *bytes);
        node
    }

    /// How much of a file is in the memory of a node.
    pub(crate) fn bytes(&self, node: NodeId, file: TaskId) -> u64 {
        let memory = self.nodes.get(node);
        memory.and_then(|memory| memory.files.get(&file)).map_or(0, |resident| resident.bytes)
    }

    /// The nodes that have some of a file in memory.
    pub(crate) fn holders(&self, file: TaskId) -> impl Iterator<Item = NodeId> {
        let from_here = self.holders.range((file, NodeId(0))..=(file, NodeId(u32::MAX)));
        from_here.map(|(_, node)| *node)
    }

    /// The part of a task's input that is in the memory of a node: 0 for nothing, `SHARE_MAX` for all (rounded down).
    pub(crate) fn share(&self, node: NodeId, id: TaskId, graph: &Graph) -> u8 {
        let (mut all, mut resident) = (0_u128, 0_u128);
        for prerequisite in graph.prerequisites(id).filter(|p| !p.order_only) {
            if let KnownFact::Present { bytes, .. } = &graph.tasks[prerequisite.id].fact {
                all += u128::from(*bytes);
                resident += u128::from(self.bytes(node, prerequisite.id).min(*bytes));
            }
        }
        let share = (resident * u128::from(SHARE_MAX)).checked_div(all).unwrap_or(0);
        u8::try_from(share).expect("not more than all")
    }

    /// That both sides agree, and no node is thought to hold more than it can.
    pub(crate) fn check_invariants(&self) {
        let mut count = 0;
        for (node, memory) in self.nodes.iter() {
            let used: u64 = memory.files.values().map(|file| file.bytes).sum();
            assert_eq!(memory.used, used, "bytes in the memory of {node:?}");
            assert!(used <= memory.capacity, "too much in the memory of {node:?}");
            assert_eq!(memory.files.len(), memory.order.len(), "uses on {node:?}");
            let known = |file: &TaskId| self.holders.contains(&(*file, node));
            assert!(memory.files.keys().all(known), "files on {node:?}");
            count += memory.files.len();
        }
        assert_eq!(count, self.holders.len(), "files in memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const NODE: NodeId = NodeId(1);

    fn resident(residency: &Residency) -> Vec<(u32, u64)> {
        let all = (0..9).map(|file| (file, residency.bytes(NODE, TaskId(file))));
        all.filter(|(_, bytes)| *bytes > 0).collect()
    }

    #[test]
    fn the_file_that_was_used_longest_ago_leaves_first_and_what_is_measured_counts() {
        let mut residency = Residency::default();
        residency.set(NODE, TaskId(0), 3);
        assert!(resident(&residency).is_empty(), "its memory is not known");
        residency.set_capacity(NODE, 10);
        for file in 0..3 {
            residency.set(NODE, TaskId(file), 3);
        }
        residency.set(NODE, TaskId(0), 3);
        residency.set(NODE, TaskId(3), 4);
        residency.check_invariants();
        assert_eq!(resident(&residency), [(0, 3), (2, 3), (3, 4)]);
        residency.set(NODE, TaskId(2), 1);
        residency.set(NODE, TaskId(3), 0);
        residency.check_invariants();
        assert_eq!(resident(&residency), [(0, 3), (2, 1)]);
        assert_eq!(residency.holders(TaskId(2)).collect::<Vec<_>>(), [NODE]);
        residency.set_capacity(NODE, 5);
        residency.check_invariants();
        assert!(resident(&residency).is_empty());
    }
}
