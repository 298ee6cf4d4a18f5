//! First in, first out; last in, first out.
//!
//! Ranks play no part.

use super::entry::Entry;
use crate::ids::TaskId;
use crate::scheduler::graph::Graph;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Minimum number of entries at which dead ones are dropped.
const FEW: usize = 32;

fn mostly_dead(entries: usize, live: u32) -> bool {
    entries >= FEW && entries / 2 > live as usize
}

/// Tasks in the order in which they came; the next one is the newest, or the oldest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain<const NEWEST_FIRST: bool> {
    entries: VecDeque<Entry>,
    pub(super) live: u32,
}

/// First in, first out.
pub(crate) type Fifo = Plain<false>;
/// Last in, first out.
pub(crate) type Lifo = Plain<true>;

impl<const NEWEST_FIRST: bool> Plain<NEWEST_FIRST> {
    pub(super) fn push(&mut self, entry: Entry, graph: &Graph) {
        if mostly_dead(self.entries.len(), self.live) {
            self.entries.retain(|entry| entry.is_live(graph));
        }
        self.entries.push_back(entry);
        self.live += 1;
    }

    pub(super) fn forget(&mut self) {
        self.live -= 1;
        if self.live == 0 {
            self.entries.clear();
        }
    }

    pub(super) fn head(&mut self, graph: &Graph) -> Option<TaskId> {
        let entries = &mut self.entries;
        while let Some(entry) = if NEWEST_FIRST { entries.back() } else { entries.front() } {
            if entry.is_live(graph) {
                return Some(entry.id);
            }
            if NEWEST_FIRST {
                entries.pop_back()
            } else {
                entries.pop_front()
            };
        }
        None
    }

    pub(super) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        let live = self.entries.iter().filter(|entry| entry.is_live(graph));
        tasks.extend(live.map(|entry| entry.id));
    }
}
