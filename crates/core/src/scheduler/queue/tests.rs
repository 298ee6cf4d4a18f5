//! All queues against a vector that is searched from end to end.

use super::{Chooser, Entry, Queue};
use crate::config::Policy;
use crate::event::TaskKind;
use crate::fact::Places;
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::random::Random;
use crate::scheduler::graph::Graph;
use crate::scheduler::learned::state::Learned;
use crate::scheduler::task::{KnownFact, Task, TaskState};
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
    /// Counts the run time of an action of this rank.
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
    learned: Learned,
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
            learned: Learned::default(),
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
        self.push_for(id, None);
    }

    fn push_for(&mut self, id: TaskId, owner: Option<NodeId>) {
        self.marks += 1;
        let task = &mut self.graph.tasks[id];
        task.state = TaskState::Ready;
        task.mark = self.marks;
        self.model.push((id, task.rank));
        let entry = Entry { id, mark: self.marks };
        self.queue.push(entry, owner, &self.graph, &self.learned);
    }

    fn remove(&mut self, id: TaskId) {
        self.queue.forget(id, &self.graph, &self.learned);
        self.graph.tasks[id].state = TaskState::Defined;
        self.model.retain(|(other, _)| *other != id);
    }

    fn choose(&mut self) -> Option<TaskId> {
        self.choose_for(None)
    }

    fn choose_for(&mut self, owner: Option<NodeId>) -> Option<TaskId> {
        let (graph, learned, random) = (&self.graph, &self.learned, &mut self.random);
        let mut chooser = Chooser { graph, learned, random, cores: CORES, cores_all: 4 };
        self.queue.choose(owner, &mut chooser)
    }

    fn give(&mut self) -> Option<TaskId> {
        let (graph, learned, random) = (&self.graph, &self.learned, &mut self.random);
        let mut chooser = Chooser { graph, learned, random, cores: CORES, cores_all: 4 };
        self.queue.choose_to_give(&mut chooser)
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
            // Nothing is in memory, and no time is known.
            Policy::Lifo | Policy::LifoHrf | Policy::Cached | Policy::LifoHlfet => last,
            Policy::RankHrf => return (0..5).filter_map(|rank| self.youngest(rank)).collect(),
        };
        one.into_iter().collect()
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    let ranked = [Policy::LifoHrf, Policy::RankHrf, Policy::Cached, Policy::LifoHlfet];
    prop::sample::select([&[Policy::Fifo, Policy::Lifo], &ranked[..]].concat())
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
                Step::Ran(rank, run_ns) => bench.learned.rank_times.add(rank, run_ns),
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
    bench.learned.rank_times.add(0, 10);
    bench.learned.rank_times.add(1, 30);
    bench.learned.rank_times.add(2, 60);
    let mut drawn = [0_u32; 3];
    for _ in 0..9_000 {
        let id = bench.choose().expect("six are ready");
        drawn[bench.graph.tasks[id].rank as usize] += 1;
    }
    for (drawn, expected) in drawn.into_iter().zip([6_000, 2_000, 1_000]) {
        assert!(drawn.abs_diff(expected) < 200, "{drawn} instead of about {expected}");
    }
}

#[test]
fn cached_takes_what_has_most_in_memory_and_gives_away_what_has_least() {
    let mut bench = Bench::new(Policy::Cached);
    let node = Some(NodeId(0));
    bench.learned.residency.set_capacity(NodeId(0), 100);
    let files: Vec<TaskId> = (0..3).map(|_| bench.define(1)).collect();
    let mut readers = Vec::new();
    for &file in &files {
        let fact = KnownFact::Present { modified: 1.into(), bytes: 10, places: Places::Unknown };
        bench.graph.tasks[file].fact = fact;
        let reader = bench.define(0);
        bench.graph.connect(file, reader, false);
        readers.push(reader);
    }
    bench.learned.residency.set(NodeId(0), files[0], 10);
    bench.learned.residency.set(NodeId(0), files[1], 5);
    for &reader in &readers {
        bench.push_for(reader, node);
    }
    assert_eq!(bench.choose_for(node), Some(readers[0]));
    assert_eq!(bench.give(), Some(readers[2]));
    // Out of memory, without a word to the queue.
    bench.learned.residency.set(NodeId(0), files[0], 0);
    assert_eq!(bench.choose_for(node), Some(readers[1]));
    // Into memory; the queue learns of it.
    bench.learned.residency.set(NodeId(0), files[2], 10);
    bench.queue.review(NodeId(0), readers[2], &bench.graph, &bench.learned.residency);
    assert_eq!(bench.choose_for(node), Some(readers[2]));
    bench.remove(readers[2]);
    assert_eq!(bench.choose_for(node), Some(readers[1]));
    assert_eq!(bench.give(), Some(readers[0]));
}
