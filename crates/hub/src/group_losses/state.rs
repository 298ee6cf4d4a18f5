//! Nodes that were lost, and that the user does not know of yet.

use rakuda_core::NodeId;

/// A node that was lost.
#[derive(Debug)]
pub(crate) struct Loss {
    pub node: NodeId,
    pub why: String,
    /// Tasks that run again elsewhere.
    pub reruns: usize,
}

/// Losses that have not been reported yet, in the order in which they were noticed.
#[derive(Debug, Default)]
pub(crate) struct GroupLosses {
    pub(super) losses: Vec<Loss>,
    /// When they are reported, by the monotonic clock; `None` if none waits.
    pub(super) due_ns: Option<u64>,
}

impl GroupLosses {
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }
}
