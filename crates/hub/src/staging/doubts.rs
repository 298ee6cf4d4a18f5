//! Files that could not be brought, while it is not known yet whether the nodes that were to hand
//! them out, or to take them, are still there.
//!
//! A node that has just died is noticed late, a transfer from it may fail at once. If it is lost,
//! what waited for the file lacked its input, and that uses up no retry. So each of these nodes is
//! asked something, and what waits is told when all have answered or are lost.

use std::collections::BTreeSet;

use rakuda_core::{Event, NodeId, TaskId, files_behind};

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

/// Takes a doubt that is over. Those about a file that is on its way there again are dropped: what
/// that comes to holds for all that wait.
fn take_settled(
    doubts: &mut Vec<Doubt>,
    is_on_its_way: impl Fn(TaskId, NodeId) -> bool,
) -> Option<Doubt> {
    let is_over = |doubt: &Doubt| doubt.waits_for.is_empty();
    doubts.retain(|doubt| !is_over(doubt) || !is_on_its_way(doubt.file, doubt.to));
    let first = doubts.iter().position(is_over)?;
    Some(doubts.remove(first))
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
        let is_asked = |node: &NodeId| *node != LOCAL_NODE && self.run.nodes().is_there(*node);
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
        // One by one: what a failure makes room for may need the file of the next one, and have it brought.
        while let Some(Doubt { file, to, why, .. }) = self.next_settled() {
            self.on_input_not_brought(file, to, &why);
            if to == LOCAL_NODE {
                self.on_not_come_home(file, &why);
            }
        }
    }

    fn next_settled(&mut self) -> Option<Doubt> {
        let staging = self.staging.as_mut()?;
        let transfers = &staging.transfers;
        take_settled(&mut staging.doubts, |file, to| transfers.contains_key(&(file, to)))
    }

    /// What a task needed, and did not get. Where it is nowhere any more and lies behind plain
    /// tasks, the core is told that it is an input.
    pub(super) fn tell_lacked_behind(&mut self, id: TaskId, file: TaskId) {
        let Some(staging) = &self.staging else { return };
        let is_there = |node: NodeId| node == LOCAL_NODE || self.run.nodes().is_there(node);
        let is_somewhere = staging.ledger.nodes_with(file).into_iter().any(is_there);
        if !is_somewhere && files_behind(self.run.scheduler(), id).contains(&file) {
            self.event(Event::InputLacked { id, input: file });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(file: u32, to: u32, waits_for: &[u32]) -> Doubt {
        let waits_for = waits_for.iter().map(|node| NodeId(*node)).collect();
        Doubt { file: TaskId(file), to: NodeId(to), why: String::new(), waits_for }
    }

    #[test]
    fn doubt_ends_nothing_where_its_file_is_on_its_way_again() {
        let mut doubts = vec![doubt(1, 2, &[]), doubt(1, 3, &[]), doubt(4, 2, &[1])];
        let is_on_its_way = |file, to| (file, to) == (TaskId(1), NodeId(2));
        let settled = take_settled(&mut doubts, is_on_its_way).unwrap();
        assert_eq!((settled.file, settled.to), (TaskId(1), NodeId(3)));
        assert!(take_settled(&mut doubts, is_on_its_way).is_none());
        let left: Vec<_> = doubts.iter().map(|doubt| (doubt.file, doubt.to)).collect();
        assert_eq!(left, [(TaskId(4), NodeId(2))]);
    }
}
