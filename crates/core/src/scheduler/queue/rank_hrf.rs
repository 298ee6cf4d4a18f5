//! `rank_hrf`: a rank at random, weighted by the inverse of its mean run time so far, last in,
//! first out within it; highest rank first once the highest rank has no more tasks than the node
//! cores (Tanaka, Tatebe 2014, section 4).
//!
//! Mean times change with every action and are common to all queues, so weights are not stored.
//! Ranks are filed by the power of two below their mean; a draw picks a class by its share, a rank
//! within it, and keeps it with the chance that its exact mean calls for (at least one in two). A
//! rank found in a class that its mean has left is filed anew and the draw repeated. A sum over all
//! queued ranks was rejected: there can be as many ranks as tasks.

use super::entry::{Chooser, Entry};
use super::ranked::RankStacks;
use crate::ids::TaskId;
use crate::random::Random;
use crate::scheduler::graph::Graph;
use crate::scheduler::rank::RankTimes;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Where a rank is filed.
#[derive(Clone, Copy, Debug)]
struct Filed {
    /// `class_of` its mean when it was filed.
    class: u32,
    /// In the class's list.
    position: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RankHrf {
    ranks: RankStacks<Filed>,
    /// Queued ranks by class; no empty lists.
    classes: BTreeMap<u32, Vec<u32>>,
}

fn class_of(mean_ns: u64) -> u32 {
    mean_ns.ilog2()
}

impl RankHrf {
    pub(super) fn len(&self) -> u32 {
        self.ranks.len()
    }

    pub(super) fn push(&mut self, entry: Entry, rank: u32, graph: &Graph, times: &RankTimes) {
        let classes = &mut self.classes;
        self.ranks.push(entry, rank, graph, || file(classes, rank, times));
    }

    pub(super) fn forget(&mut self, rank: u32) {
        if let Some(filed) = self.ranks.forget(rank) {
            self.unfile(filed);
        }
    }

    pub(super) fn choose(&mut self, chooser: &mut Chooser<'_>) -> Option<TaskId> {
        let (highest, count) = self.ranks.highest()?;
        let rank = if count > chooser.cores {
            self.draw(&chooser.learned.rank_times, chooser.random)
        } else {
            highest
        };
        self.ranks.head(rank, chooser.graph)
    }

    pub(super) fn tasks(&self, graph: &Graph, tasks: &mut Vec<TaskId>) {
        self.ranks.tasks(graph, tasks);
    }

    fn draw(&mut self, times: &RankTimes, random: &mut Random) -> u32 {
        loop {
            let (class, rank) = self.candidate(random);
            let mean_ns = times.mean_ns(rank);
            if class_of(mean_ns) != class {
                let filed = *self.ranks.note_mut(rank);
                self.unfile(filed);
                *self.ranks.note_mut(rank) = file(&mut self.classes, rank, times);
            } else if random.below(u128::from(mean_ns)) < 1 << class {
                return rank;
            }
        }
    }

    /// A class by the share of its ranks, and one of its ranks.
    fn candidate(&self, random: &mut Random) -> (u32, u32) {
        let share = |class: u32, ranks: &Vec<u32>| (ranks.len() as u128) << (63 - class);
        let total = self.classes.iter().map(|(class, ranks)| share(*class, ranks)).sum();
        let mut drawn = random.below(total);
        for (&class, ranks) in &self.classes {
            let share = share(class, ranks);
            if drawn < share {
                let position = usize::try_from(drawn >> (63 - class)).expect("below its length");
                return (class, ranks[position]);
            }
            drawn -= share;
        }
        unreachable!("the shares add up to the total");
    }

    fn unfile(&mut self, filed: Filed) {
        let ranks = self.classes.get_mut(&filed.class).expect("a filed rank has its class");
        ranks.swap_remove(filed.position);
        if let Some(&moved) = ranks.get(filed.position) {
            self.ranks.note_mut(moved).position = filed.position;
        } else if ranks.is_empty() {
            self.classes.remove(&filed.class);
        }
    }
}

fn file(classes: &mut BTreeMap<u32, Vec<u32>>, rank: u32, times: &RankTimes) -> Filed {
    let class = class_of(times.mean_ns(rank));
    let ranks = classes.entry(class).or_default();
    ranks.push(rank);
    Filed { class, position: ranks.len() - 1 }
}
