//! All queues against a vector that is searched from end to end.

use super::{Chooser, Entry, Queue};
use crate::config::Policy;
use crate::event::TaskKind;
use crate::graph::Graph;
use crate::ids::{RequirementId, TaskId};
use crate::random::Random;
use crate::rank::RankTimes;
use crate::task::{Task, TaskState};
use alloc::vec::Vec;
use proptest::prelude::*;

const CORES: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A task of this rank becomes ready.
    Push(u32),
    /// The next task starts; it may become ready again.
    Take { again: bool },
    /// Another node took one.
    Remove(usize),
    /// An action of this rank ran so long.
    Ran(u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..5_u32).prop_map(Step::Push),
        3 => any::<bool>().prop_map(|again| Step::Take { again }),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..5_u32, 1..1_000_u64).prop_map(|(rank, run_ns)| Step::Ran(rank, run_ns)),
    ]
}

struct Bench {
    queue: Queue,
    graph: Graph,
    times: RankTimes,
    random: Random,
    marks: u64,
    /// Ready tasks, the oldest first.
    model: Vec<(TaskId, u32)>,
}

impl Bench {
    fn new(policy: Policy) -> Self {
        Self {
            queue: Queue::new(policy),
            graph: Graph::default(),
            times: RankTimes::default(),
            random: Random::new(1),
            marks: 0,
            model: Vec::new(),
        }
    }

    fn define(&mut self, rank: u32) -> TaskId {
        let id = self.graph.end();
        let mut task = Task::new(TaskKind::Plain, true, false, RequirementId(0));
        task.rank = rank;
        self.graph.tasks.push(id, task);
        id
    }

    fn push(&mut self, id: TaskId) {
        self.marks += 1;
        let task = &mut self.graph.tasks[id];
        task.state = TaskState::Ready;
        task.mark = self.marks;
        self.model.push((id, task.rank));
        let entry = Entry { id, mark: self.marks };
        self.queue.push(entry, &self.graph, &self.times);
    }

    fn remove(&mut self, id: TaskId) {
        let task = &mut self.graph.tasks[id];
        task.state = TaskState::Defined;
        self.queue.forget(task.rank);
        self.model.retain(|(other, _)| *other != id);
    }

    fn choose(&mut self) -> Option<TaskId> {
        let (graph, rank_times, random) = (&self.graph, &self.times, &mut self.random);
        self.queue.choose(&mut Chooser { graph, rank_times, random, cores: CORES })
    }

    /// The youngest of a rank.
    fn youngest(&self, rank: u32) -> Option<TaskId> {
        self.model.iter().rev().find(|(_, other)| *other == rank).map(|(id, _)| *id)
    }

    /// The tasks that the policy may choose.
    fn allowed(&self, policy: Policy) -> Vec<TaskId> {
        let highest = self.model.iter().map(|(_, rank)| *rank).max();
        let count = self.model.iter().filter(|(_, rank)| Some(*rank) == highest).count();
        let at_the_end = count <= CORES as usize;
        let oldest = self.model.first().map(|(id, _)| *id);
        let last = self.model.last().map(|(id, _)| *id);
        let of_highest = highest.and_then(|rank| self.youngest(rank));
        let one = match policy {
            Policy::Fifo | Policy::Serial => oldest,
            Policy::LifoHrf | Policy::RankHrf if at_the_end => of_highest,
            Policy::Lifo | Policy::LifoHrf => last,
            Policy::RankHrf => return (0..5).filter_map(|rank| self.youngest(rank)).collect(),
        };
        one.into_iter().collect()
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    let policies = [Policy::Fifo, Policy::Lifo, Policy::LifoHrf, Policy::RankHrf];
    prop::sample::select(policies.to_vec())
}

proptest! {
    #[test]
    fn every_queue_chooses_what_its_policy_allows(
        policy in policy(),
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut bench = Bench::new(policy);
        for step in steps {
            match step {
                Step::Push(rank) => {
                    let id = bench.define(rank);
                    bench.push(id);
                }
                Step::Take { again } => {
                    let allowed = bench.allowed(policy);
                    let chosen = bench.choose();
                    prop_assert_eq!(chosen.is_some(), !allowed.is_empty());
                    if let Some(id) = chosen {
                        prop_assert!(allowed.contains(&id), "{:?} of {:?}", id, allowed);
                        bench.remove(id);
                        if again {
                            bench.push(id);
                        }
                    }
                }
                Step::Remove(_) if bench.model.is_empty() => {}
                Step::Remove(index) => bench.remove(bench.model[index % bench.model.len()].0),
                Step::Ran(rank, run_ns) => bench.times.add(rank, run_ns),
            }
            prop_assert_eq!(bench.queue.len() as usize, bench.model.len());
            let mut live = Vec::new();
            bench.queue.tasks(&bench.graph, &mut live);
            live.sort_unstable();
            let mut model: Vec<TaskId> = bench.model.iter().map(|(id, _)| *id).collect();
            model.sort_unstable();
            prop_assert_eq!(live, model);
        }
    }
}

#[test]
fn rank_hrf_draws_ranks_by_the_inverse_of_their_mean_run_times() {
    let mut bench = Bench::new(Policy::RankHrf);
    for rank in [0, 1, 2, 2, 2, 2] {
        let id = bench.define(rank);
        bench.push(id);
    }
    // Filed while nothing was known; the weights are 1/10, 1/30 and 1/60, in all 9/60.
    bench.times.add(0, 10);
    bench.times.add(1, 30);
    bench.times.add(2, 60);
    let mut drawn = [0_u32; 3];
    for _ in 0..9_000 {
        let id = bench.choose().expect("six are ready");
        drawn[bench.graph.tasks[id].rank as usize] += 1;
    }
    for (drawn, expected) in drawn.into_iter().zip([6_000, 2_000, 1_000]) {
        assert!(drawn.abs_diff(expected) < 200, "{drawn} instead of about {expected}");
    }
}
