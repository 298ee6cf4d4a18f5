//! Files that could not be brought, while it is not known yet whether the nodes that were to hand them out, or to take them, are still there.
//!
//! A node that has just died is noticed late, a transfer from it may fail at once. If it is lost, what waited for the file lacked its input, and
//! that uses up no retry. So each of these nodes is asked something, and what waits is told when all have answered or are lost.

use std::collections::BTreeSet;

use rakuda_core::{Event, NodeId, TaskId};

use crate::hub::{Hub, LOCAL_NODE};

/// A file that was not brought to a node.
#[derive(Debug)]
pub(super) struct Doubt {
    file: TaskId,
    to: NodeId,
    why: String,
    /// Those that have not been heard of since.
    waits_for: BTreeSet<NodeId>,
}

impl Hub {
    /// What waits for a file that cannot be brought fails, as soon as these nodes have been heard of.
    pub(super) fn doubt(
        &mut self,
        file: TaskId,
        to: NodeId,
        why: String,
        nodes: &BTreeSet<NodeId>,
    ) {
        let is_asked = |node: &NodeId| *node != LOCAL_NODE && self.agents.is_there(*node);
        let waits_for: BTreeSet<NodeId> = nodes.iter().copied().filter(is_asked).collect();
        for node in &waits_for {
            self.ask_for_life(*node);
        }
        let Some(staging) = &mut self.staging else { return };
        staging.doubts.push(Doubt { file, to, why, waits_for });
        self.settle_doubts();
    }

    /// A node has answered what it was asked after that, or is lost.
    pub(crate) fn on_heard_of(&mut self, node: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        for doubt in &mut staging.doubts {
            doubt.waits_for.remove(&node);
        }
        self.settle_doubts();
    }

    fn settle_doubts(&mut self) {
        let Some(staging) = &mut self.staging else { return };
        let is_over = |doubt: &mut Doubt| doubt.waits_for.is_empty();
        let over: Vec<Doubt> = staging.doubts.extract_if(.., is_over).collect();
        for Doubt { file, to, why, .. } in over {
            self.on_input_not_brought(file, to, &why);
            if to == LOCAL_NODE {
                self.on_not_come_home(file, &why);
            }
        }
    }

    /// What a task needed, and did not get. Where it is nowhere any more and lies behind plain tasks, the core is told that it is an input.
    pub(super) fn tell_lacked_behind(&mut self, id: TaskId, file: TaskId) {
        let Some(staging) = &self.staging else { return };
        let is_there = |node: NodeId| node == LOCAL_NODE || self.agents.is_there(node);
        let is_somewhere = staging.ledger.nodes_with(file).into_iter().any(is_there);
        if !is_somewhere && self.files_behind(id).contains(&file) {
            self.event(Event::InputLacked { id, input: file });
        }
    }
}
