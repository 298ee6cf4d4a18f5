//! A stack per rank, and `lifo_hrf` over them (Tanaka, Tatebe 2014, section 4).
//!
//! N_r is the number of queued tasks of the highest rank r, N_c the cores of the node: while N_r >
//! N_c the order is last in, first out over all ranks; then the highest rank goes first, so that
//! the longest chains are not left for the end.

use super::entry::{Chooser, Entry as Stay};
use super::plain::Lifo;
use crate::ids::TaskId;
use crate::scheduler::graph::Graph;
use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::vec::Vec;

/// Maximum number of empty stacks that are kept for ranks that come and go.
const SPARE: usize = 8;

/// Stacks by rank.
#[derive(Clone, Debug)]
pub(super) struct RankStacks<E> {
    stacks: BTreeMap<u32, RankStack<E>>,
    /// Live entries.
    live: u32,
    /// Stacks without live entries, at most `SPARE`.
    empty: usize,
}

#[derive(Clone, Debug)]
struct RankStack<E> {
    stack: Lifo,
    /// What the owner of the stacks notes about a rank; `None` while it has no live entries.
    note: Option<E>,
}

impl<E> Default for RankStack<E> {
    fn default() -> Self {
        Self { stack: Lifo::default(), note: None }
    }
}

impl<E> Default for RankStacks<E> {
    fn default() -> Self {
        Self { stacks: BTreeMap::new(), live: 0, empty: 0 }
    }
}

impl<E> RankStacks<E> {
    pub(super) fn len(&self) -> u32 {
        self.live
    }

    /// Queues `entry`; `note` is called for a rank that had nothing queued.
    pub(super) fn push(&mut self, entry: Stay, rank: u32, graph: &Graph, note: impl FnOnce() -> E) {
        let stack = match self.stacks.entry(rank) {
            Entry::Vacant(place) => place.insert(RankStack::default()),
            Entry::Occupied(place) => {
                let stack = place.into_mut();
                self.empty -= usize::from(stack.note.is_none());
                stack
            }
        };
        stack.note.get_or_insert_with(note);
        stack.stack.push(entry, graph);
        self.live += 1;
    }

    /// Counts one entry less of `rank`. Returns its note when that was the last.
    pub(super) fn forget(&mut self, rank: u32) -> Option<E> {
        self.live -= 1;
        let stack = self.stacks.get_mut(&rank).expect("a queued task's rank has a stack");
        stack.stack.forget();
        if stack.stack.live > 0 {
            return None;
        }
        let note = stack.note.take();
        self.empty += 1;
        if self.empty > SPARE {
            self.stacks.retain(|_, stack| stack.note.is_some());
            self.empty = 0;
        }
        note
    }

    /// The highest rank and how many it has.
    pub(super) fn highest(&self) -> Option<(u32, u32)> {
        let mut stacks = self.stacks.iter().rev().map(|(rank, stack)| (*rank, stack.stack.live));
        stacks.find(|(_, live)| *live > 0)
    }

    pub(super) fn note_mut(&mut self, rank: u32) -> &mut E {
        let note = self.stacks.get_mut(&rank).and_then(|stack| stack.note.as_mut());
        note.expect("a rank with live entries has a note")
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
    all: Lifo,
    ranks: RankStacks<()>,
}

impl LifoHrf {
    pub(super) fn len(&self) -> u32 {
        self.ranks.len()
    }

    pub(super) fn push(&mut self, entry: Stay, rank: u32, graph: &Graph) {
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
