//! Files that could not be brought, while it is not known whether the nodes that were to hand them
//! out, or to take them, are still there.
//!
//! A node that has just died is noticed late, a transfer from it may fail at once. If it is lost,
//! what waited for the file lacked its input, and that uses up no retry.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::ledger::FileState;
use super::transfers::GaveUp;
use super::{Stager, StagerEffect};
use crate::ids::{NodeId, TaskId};

/// A file that was not brought to a node.
#[derive(Debug)]
pub(super) struct Suspicion {
    pub file: TaskId,
    pub to: NodeId,
    /// From where it could not be brought.
    pub from: Vec<NodeId>,
    /// Which sources failed, and why.
    pub gave_up: GaveUp,
    /// Another source may do better: nothing was wrong where it was to go.
    pub at_source: bool,
    /// Nodes that have not been heard of since.
    pub waits_for: BTreeSet<NodeId>,
}

/// See the file's head.
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

impl<S: FileState> Stager<S> {
    /// A file cannot be brought: those concerned are asked for life first. `at_source`: another source might do
    /// better.
    pub(super) fn suspect(
        &mut self,
        file: TaskId,
        to: NodeId,
        at_source: bool,
        is_there: impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let Some(gave_up) = self.transfers.give_up(file, to) else { return };
        self.ledger.not_arriving(file, to);
        let holders = self.ledger.nodes_with(file);
        let mut from: Vec<NodeId> = gave_up.tried.iter().copied().chain(holders).collect();
        from.retain(|node| *node != to);
        from.sort_unstable();
        from.dedup();
        let asked = from.iter().chain([&to]).copied();
        let asked = asked.filter(|node| *node != self.home && is_there(*node)).collect();
        let suspicion = Suspicion { file, to, from, gave_up, at_source, waits_for: asked };
        for node in &suspicion.waits_for {
            out.push(StagerEffect::AskForLife { node: *node });
        }
        self.suspicions.add(suspicion);
    }

    /// Those are told who wait for files that cannot be brought.
    pub(super) fn settle_suspicions(
        &mut self,
        is_there: &impl Fn(NodeId) -> bool,
        out: &mut Vec<StagerEffect<S>>,
    ) {
        let transfers = &self.transfers;
        let settled = self.suspicions.take_settled(|file, to| transfers.is_wanted(file, to));
        for Suspicion { file, to, from, gave_up, at_source, .. } in settled {
            let is_new = |node: &NodeId| {
                let is_within_reach = *node == self.home || is_there(*node);
                *node != to && is_within_reach && !gave_up.tried.contains(node)
            };
            let is_wanted = to == self.home || self.readers.is_awaited(file, to);
            if at_source && is_wanted && self.ledger.nodes_with(file).iter().any(is_new) {
                // It has come to another node meanwhile, or one that has it has.
                self.transfers.want_again(file, to, gave_up, &self.ledger);
                continue;
            }
            let reason = gave_up.reason;
            let readers = self.readers.take_waiting_for(file, to);
            for reader in &readers {
                self.release(reader.id, to);
            }
            let readers = readers.iter().map(|reader| (reader.id, reader.attempt)).collect();
            out.push(StagerEffect::NotBrought { file, to, from, reason, readers });
        }
    }
}
