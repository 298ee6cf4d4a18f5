//! Ranks of tasks, and how long the tasks of each rank ran (Tanaka, Tatebe 2014, sections 3 and 4).
//!
//! A wanted task has rank 0, a prerequisite 1 + the highest rank of its dependents. Ranks are given
//! once, at activation; a dependent that comes later does not raise them.

use crate::ids::{Id, TaskId};
use crate::scheduler::graph::Graph;
use alloc::vec::Vec;

/// Gives ranks to `activated`, whose tasks all have the number `batch`. `activated` is sorted.
///
/// # Panics
/// When they form a cycle: the shell refuses those.
pub(crate) fn give_ranks(graph: &mut Graph, activated: &[TaskId], batch: u32) {
    let mut unranked_dependents = Vec::with_capacity(activated.len());
    let mut ranked = Vec::with_capacity(activated.len());
    for &id in activated {
        let (mut inside, mut rank) = (0_u32, 0);
        for dependent in graph.dependents(id) {
            let dependent = &graph.tasks[dependent];
            if dependent.invocation.is_none() {
                continue;
            }
            if dependent.batch == batch {
                inside += 1;
            } else {
                rank = rank.max(dependent.rank + 1);
            }
        }
        unranked_dependents.push(inside);
        graph.tasks[id].rank = rank;
        if inside == 0 {
            ranked.push(id);
        }
    }
    let mut next = 0;
    while let Some(&id) = ranked.get(next) {
        next += 1;
        let rank = graph.tasks[id].rank + 1;
        let mut cursor = graph.first_prerequisite(id);
        while let Some(prerequisite) = graph.prerequisite_at(&mut cursor) {
            let task = &mut graph.tasks[prerequisite.id];
            if task.invocation.is_none() || task.batch != batch {
                continue;
            }
            task.rank = task.rank.max(rank);
            let position = position(activated, prerequisite.id);
            unranked_dependents[position] -= 1;
            if unranked_dependents[position] == 0 {
                ranked.push(prerequisite.id);
            }
        }
    }
    assert!(next == activated.len(), "prerequisites form a cycle");
}

fn position(activated: &[TaskId], id: TaskId) -> usize {
    // Nearly always the numbers follow each other.
    let guess = id.index() - activated[0].index();
    if activated.get(guess) == Some(&id) {
        return guess;
    }
    activated.binary_search(&id).expect("a batch knows its own tasks")
}

/// How long actions ran so far, per rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankTimes {
    ranks: Vec<RunTimes>,
    all: RunTimes,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunTimes {
    total_ns: u128,
    count: u64,
}

impl RunTimes {
    pub(crate) fn add(&mut self, run_ns: u64) {
        self.total_ns += u128::from(run_ns);
        self.count += 1;
    }

    /// The mean, at least 1; `None` when nothing ran yet.
    pub(crate) fn mean_ns(self) -> Option<u64> {
        let mean = self.total_ns.checked_div(u128::from(self.count))?;
        Some(u64::try_from(mean).expect("a mean of 64-bit numbers").max(1))
    }
}

impl RankTimes {
    pub(crate) fn add(&mut self, rank: u32, run_ns: u64) {
        let index = rank as usize;
        if index >= self.ranks.len() {
            self.ranks.resize(index + 1, RunTimes::default());
        }
        self.ranks[index].add(run_ns);
        self.all.add(run_ns);
    }

    /// The mean so far, at least 1; the mean of all ranks for a rank of which nothing ran yet.
    pub(crate) fn mean_ns(&self, rank: u32) -> u64 {
        let own = self.ranks.get(rank as usize).and_then(|times| times.mean_ns());
        own.or_else(|| self.all.mean_ns()).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_nothing_ran_of_has_the_mean_of_all() {
        let mut times = RankTimes::default();
        assert_eq!(times.mean_ns(3), 1);
        times.add(0, 10);
        times.add(2, 20);
        times.add(2, 40);
        assert_eq!(times.mean_ns(2), 30);
        assert_eq!(times.mean_ns(1), 23);
        assert_eq!(times.mean_ns(9), 23);
    }
}
