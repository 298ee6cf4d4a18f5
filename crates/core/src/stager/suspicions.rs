//! Files that could not be moved, while it is not known whether the nodes that were to hand them
//! out, or to take them, are still there.
//!
//! A node that has just died is noticed late, a transfer from it may fail at once. If it is lost,
//! what waited for the file lacked its input, and that uses up no retry.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{NodeId, TaskId};

/// A file that no source could hand out.
#[derive(Debug)]
pub(super) struct GaveUp {
    /// Sources that have failed.
    pub tried: BTreeSet<NodeId>,
    /// The last reason, after "failed to".
    pub reason: String,
}

/// A file that did not arrive on a node.
#[derive(Debug)]
pub(super) struct Suspicion {
    pub file: TaskId,
    pub to: NodeId,
    /// The nodes that it could not be had from.
    pub from: Vec<NodeId>,
    /// Which sources failed, and why.
    pub gave_up: GaveUp,
    /// Another source may do better: nothing was wrong where it was to go.
    pub at_source: bool,
    /// Nodes that have not been heard of since.
    pub waits_for: BTreeSet<NodeId>,
}

/// Files that could not be moved, and the nodes that have not answered yet.
#[derive(Debug, Default)]
pub(super) struct Suspicions(Vec<Suspicion>);

impl Suspicions {
    pub fn add(&mut self, suspicion: Suspicion) {
        self.0.push(suspicion);
    }

    /// A file is not wanted there any more.
    pub fn forget(&mut self, file: TaskId, to: NodeId) {
        self.0.retain(|suspicion| (suspicion.file, suspicion.to) != (file, to));
    }

    /// A node has answered, or is lost.
    pub fn heard_of(&mut self, node: NodeId) {
        for suspicion in &mut self.0 {
            suspicion.waits_for.remove(&node);
        }
    }

    /// Takes those that are over. One about a file that is wanted there again is dropped: what that
    /// comes to holds for all that wait.
    pub fn take_settled(&mut self, is_wanted: impl Fn(TaskId, NodeId) -> bool) -> Vec<Suspicion> {
        let mut settled: Vec<_> =
            self.0.extract_if(.., |suspicion| suspicion.waits_for.is_empty()).collect();
        settled.retain(|suspicion| !is_wanted(suspicion.file, suspicion.to));
        settled
    }
}
