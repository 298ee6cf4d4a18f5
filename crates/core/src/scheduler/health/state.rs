//! How actions have fared on each node.

use crate::ids::{NodeId, TaskId};
use crate::scheduler::fleet::Fleet;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Nodes on which the last action failed.
    pub(super) streaks: BTreeMap<NodeId, Streak>,
    /// Nodes in use on which the last action ended well.
    pub(super) doing_well: BTreeSet<NodeId>,
    /// Nodes that are there and drained.
    pub(super) drained: BTreeSet<NodeId>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Streak {
    pub(super) failures: u32,
    /// The last of the tasks that failed, no more than the setting's number.
    pub(super) tasks: Vec<TaskId>,
}

impl Health {
    pub(crate) fn check_invariants(&self, fleet: &Fleet) {
        for &id in &self.doing_well {
            assert!(fleet.nodes[id].is_in_use(), "{id:?} does well and is not in use");
            assert!(!self.streaks.contains_key(&id), "{id:?} does well and badly");
        }
        let drained = fleet.nodes.iter().filter(|(_, node)| node.joined && node.drained);
        let drained: BTreeSet<NodeId> = drained.map(|(id, _)| id).collect();
        assert_eq!(drained, self.drained, "nodes drained");
    }
}
