//! Candidate nodes of a task: those that hold its input (Tanaka, Tatebe 2014, section 3).
//!
//! Knows where files were when their facts were gathered; whether they are in memory counts only
//! for those that lie nowhere.

use crate::fact::Places;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::fleet::Fleet;
use crate::scheduler::graph::Graph;
use crate::scheduler::residency::Residency;
use crate::scheduler::task::KnownFact;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Every node with at least half as many bytes of the input as the node with the most, that one
/// first. Of a file that lies nowhere in particular (on a server), the nodes that have it in memory
/// count, if `residency` is given.
pub(crate) fn candidate_nodes(
    graph: &Graph,
    fleet: &Fleet,
    residency: Option<&Residency>,
    id: TaskId,
) -> Places {
    let mut held: Vec<(NodeId, u64)> = Vec::new();
    if !fleet.requirements[graph.tasks[id].requirement].requirement.locality {
        return Places::Unknown;
    }
    for prerequisite in graph.prerequisites(id).filter(|p| !p.order_only) {
        if let KnownFact::Present { bytes, places, .. } = &graph.tasks[prerequisite.id].fact
            && let all = bytes.saturating_add(graph.secondary_bytes(prerequisite.id))
            && all > 0
        {
            held.extend(places.as_slice().iter().map(|node| (*node, all)));
            if let (Places::Unknown, Some(residency)) = (places, residency) {
                let file = prerequisite.id;
                held.extend(
                    residency.holders(file).map(|node| (node, residency.bytes(node, file))),
                );
            }
        }
    }
    if held.is_empty() {
        return Places::Unknown;
    }
    sum_up(&mut held);
    // A node that could never take it must not keep it from the remote queue.
    held.retain(|(node, _)| fleet.could_take(*node, graph.tasks[id].requirement));
    let most = held.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    held.retain(|(_, bytes)| *bytes >= most.div_ceil(2));
    match held.as_mut_slice() {
        [] => Places::Unknown,
        [(node, _)] => Places::One(*node),
        held => {
            held.sort_unstable_by_key(|(node, bytes)| (Reverse(*bytes), *node));
            Places::Many(held.iter().map(|(node, _)| *node).collect())
        }
    }
}

/// Leaves each node once, with the sum of its bytes.
fn sum_up(held: &mut Vec<(NodeId, u64)>) {
    held.sort_unstable_by_key(|(node, _)| *node);
    held.dedup_by(|(node, bytes), (before, sum)| {
        let same = node == before;
        if same {
            *sum = sum.saturating_add(*bytes);
        }
        same
    });
}
