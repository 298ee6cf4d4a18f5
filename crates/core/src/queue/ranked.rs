//! A stack per rank, and `lifo_hrf` over them (Tanaka, Tatebe 2014, section 4).
//!
//! N_r is the number of queued tasks of the highest rank r, N_c the cores of the node: while N_r > N_c the order is last in, first
//! out over all ranks; then the highest rank goes first, so that the longest chains are not left for the end.

use super::plain::Stack;
use super::{Chooser, Entry};
use crate::graph::Graph;
use crate::ids::TaskId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Stacks by rank; only ranks with live entries have one.
#[derive(Clone, Debug)]
pub(super) struct RankStacks<E> {
    stacks: BTreeMap<u32, RankStack<E>>,
    live: u32,
}

#[derive(Clone, Debug)]
pub(super) struct RankStack<E> {
    stack: Stack,
    /// What the owner of the stacks notes about a rank.
    pub(super) note: E,
}

impl<E> Default for RankStacks<E> {
    fn default() -> Self {
        Self { stacks: BTreeMap::new(), live: 0 }
    }
}

impl<E> RankStacks<E> {
    pub(super) fn len(&self) -> u32 {
        self.live
    }

    /// Queues `entry`; `note` is made for a rank that had nothing queued.
    pub(super) fn push(
        &mut self,
        entry: Entry,
        rank: u32,
        graph: &Graph,
        note: impl FnOnce() -> E,
    ) {
        let new = || RankStack { stack: Stack::default(), note: note() };
        self.stacks.entry(rank).or_insert_with(new).stack.push(entry, graph);
        self.live += 1;
    }

    /// Counts one less of `rank`; its note when that was the last.
    pub(super) fn forget(&mut self, rank: u32) -> Option<E> {
        self.live -= 1;
        let stack =
            &mut self.stacks.get_mut(&rank).expect("a queued task's rank has a stack").stack;
        stack.forget();
        if stack.live > 0 {
            return None;
        }
        self.stacks.remove(&rank).map(|stack| stack.note)
    }

    /// The highest rank and how many it has.
    pub(super) fn highest(&self) -> Option<(u32, u32)> {
        self.stacks.last_key_value().map(|(rank, stack)| (*rank, stack.stack.live))
    }

    pub(super) fn note_mut(&mut self, rank: u32) -> &mut E {
        &mut self.stacks.get_mut(&rank).expect("a rank with a note has a stack").note
    }

    pub(super) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        for stack in self.stacks.values() {
            stack.stack.tasks(graph, tasks);
        }
    }

    /// The one of `rank` that was queued last.
    pub(super) fn head(&mut self, rank: u32, graph: &Graph) -> Option<TaskId> {
        self.stacks.get_mut(&rank)?.stack.head(graph)
    }
}

/// Last in, first out, then highest rank first.
#[derive(Clone, Debug, Default)]
pub(crate) struct LifoHrf {
    all: Stack,
    ranks: RankStacks<()>,
}

impl LifoHrf {
    pub(super) fn len(&self) -> u32 {
        self.ranks.len()
    }

    pub(super) fn push(&mut self, entry: Entry, rank: u32, graph: &Graph) {
        self.all.push(entry, graph);
        self.ranks.push(entry, rank, graph, || ());
    }

    pub(super) fn forget(&mut self, rank: u32) {
        self.all.forget();
        self.ranks.forget(rank);
    }

    pub(super) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        self.all.tasks(graph, tasks);
    }

    pub(super) fn choose(&mut self, chooser: &Chooser<'_>) -> Option<TaskId> {
        let (rank, count) = self.ranks.highest()?;
        if count > chooser.cores {
            self.all.head(chooser.graph)
        } else {
            self.ranks.head(rank, chooser.graph)
        }
    }
}
