//! Candidate nodes of a task: those that hold its input (Tanaka, Tatebe 2014, section 3).
//!
//! Knows where files were when their facts were gathered, not whether they are in memory there.

use crate::fact::Places;
use crate::fleet::Fleet;
use crate::graph::Graph;
use crate::ids::{NodeId, TaskId};
use crate::task::KnownFact;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Every node with at least half as many bytes of the input as the node with the most, that one first.
pub(crate) fn candidate_nodes(graph: &Graph, fleet: &Fleet, id: TaskId) -> Places {
    let mut held: BTreeMap<NodeId, u64> = BTreeMap::new();
    for prerequisite in graph.prerequisites(id).filter(|p| !p.order_only) {
        if let KnownFact::Present { bytes, places, .. } = &graph.tasks[prerequisite.id].fact
            && *bytes > 0
        {
            for &node in places.as_slice() {
                let sum = held.entry(node).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
    }
    if held.is_empty() {
        return Places::Unknown;
    }
    // A node that could never take it must not keep it from the remote queue.
    held.retain(|node, _| fleet.could_take(*node, graph.tasks[id].requirement));
    let most = held.values().copied().max().unwrap_or(0);
    let mut candidates: Vec<(Reverse<u64>, NodeId)> = held
        .into_iter()
        .filter(|(_, bytes)| *bytes >= most.div_ceil(2))
        .map(|(node, bytes)| (Reverse(bytes), node))
        .collect();
    candidates.sort_unstable();
    let nodes: Vec<NodeId> = candidates.into_iter().map(|(_, node)| node).collect();
    Places::from_slice(&nodes)
}
