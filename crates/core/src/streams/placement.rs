//! On which node each task of a component goes, where they go to several: computing is balanced, and tasks that
//! send one another much are kept together as far as that allows.
//!
//! One task after the other, each where it costs least beside those that have a place: greedy, as
//! all placing here is. It does not know what a node has room for; candidates come in.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use super::graph::StreamEnds;
use super::said::{Said, Traffic};
use crate::ids::{NodeId, TaskId};

/// Cost of a task, thousandths, where the Rakefile gives none for any.
const WEIGHT: u64 = 1_000;
/// Maximum load of a node, in quarters of its even share, up to which a task may go there for what it sends.
const SHARE_QUARTERS_MAX: u128 = 5;

/// What is said of the tasks of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// By task: how much it computes, thousandths; of those that say it.
    cost_milli: BTreeMap<TaskId, u64>,
    /// Each stream of which anything is said.
    links: Vec<Link>,
}

/// What a stream carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    /// The tasks that write, with the bytes that each prints in a second; 0: not known.
    writers: Vec<(TaskId, u64)>,
    readers: Vec<TaskId>,
}

impl Weights {
    /// Of streams and what is said of their tasks.
    pub fn of(streams: &[StreamEnds], said: &BTreeMap<TaskId, Said>) -> Self {
        let link = |(ends, traffic): (&StreamEnds, Traffic)| {
            let rates = traffic.of_writers.iter().map(|rate| rate.unwrap_or(0));
            let writers = ends.writers.iter().copied().zip(rates).collect();
            traffic.bytes_per_s.map(|_| Link { writers, readers: ends.readers.clone() })
        };
        let cost = |(task, said): (&TaskId, &Said)| Some((*task, said.cost_milli?.max(1)));
        Self {
            cost_milli: said.iter().filter_map(cost).collect(),
            links: streams.iter().zip(Traffic::of_all(streams, said)).filter_map(link).collect(),
        }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.cost_milli.is_empty() && self.links.is_empty()
    }

    /// How much a task that says nothing computes on each of its nodes: as those that do, on average.
    fn usual(&self) -> u64 {
        let sum: u128 = self.cost_milli.values().map(|cost| u128::from(*cost)).sum();
        let mean = sum.checked_div(self.cost_milli.len() as u128);
        mean.map_or(WEIGHT, |mean| u64::try_from(mean).unwrap_or(u64::MAX).max(1))
    }
}

/// What passes through a stream between tasks that have a place.
#[derive(Clone, Debug, Default)]
struct Passing {
    /// Of all writers, bytes in a second.
    bytes: u64,
    /// By node: what its writers print.
    written_on: BTreeMap<NodeId, u64>,
    /// Nodes of readers.
    read_on: BTreeSet<NodeId>,
}

/// Tasks while they get their places.
#[derive(Clone, Debug)]
pub struct Placer<'a> {
    weights: &'a Weights,
    /// By task that is to be placed: what it computes on each of its nodes.
    weight: BTreeMap<TaskId, u64>,
    /// Of all of them.
    all: u128,
    /// Of all nodes.
    cores: u128,
    /// By node: what its tasks compute.
    load: BTreeMap<NodeId, u64>,
    passing: Vec<Passing>,
    /// By task: the link that it writes into, with what it prints in a second.
    writes: BTreeMap<TaskId, (usize, u64)>,
    /// By task: the link that it reads from.
    reads: BTreeMap<TaskId, usize>,
    placed: BTreeSet<TaskId>,
}

impl<'a> Placer<'a> {
    /// `wanted`: each task as often as it has nodes; `cores`: of all nodes together.
    pub fn new(weights: &'a Weights, wanted: impl Iterator<Item = TaskId>, cores: u64) -> Self {
        let mut nodes: BTreeMap<TaskId, u64> = BTreeMap::new();
        for task in wanted {
            *nodes.entry(task).or_default() += 1;
        }
        let usual = weights.usual();
        let on_each = |(task, count): (&TaskId, &u64)| {
            let cost = weights.cost_milli.get(task);
            (*task, cost.map_or(usual, |cost| (cost / (*count).max(1)).max(1)))
        };
        let weight: BTreeMap<TaskId, u64> = nodes.iter().map(on_each).collect();
        let all =
            nodes.iter().map(|(task, count)| u128::from(weight[task]) * u128::from(*count)).sum();
        let (mut writes, mut reads) = (BTreeMap::new(), BTreeMap::new());
        let mut passing = Vec::with_capacity(weights.links.len());
        for (place, link) in weights.links.iter().enumerate() {
            let sum = |sum: u64, (_, rate): &(TaskId, u64)| sum.saturating_add(*rate);
            let bytes = link.writers.iter().fold(0, sum);
            passing.push(Passing { bytes, ..Passing::default() });
            writes.extend(link.writers.iter().map(|(task, rate)| (*task, (place, *rate))));
            reads.extend(link.readers.iter().map(|task| (*task, place)));
        }
        let (load, placed) = (BTreeMap::new(), BTreeSet::new());
        Self {
            weights,
            weight,
            all,
            cores: u128::from(cores.max(1)),
            load,
            passing,
            writes,
            reads,
            placed,
        }
    }

    /// Puts those that compute most first, then those that print and read most, among tasks that are as hard to place
    /// as one another.
    pub fn order<T>(&self, wanted: &mut [T], task: impl Fn(&T) -> TaskId) {
        let key = |task: TaskId| {
            let (writes, reads) = self.links_of(task);
            let read = reads.map_or(0, |link| self.passing[link].bytes);
            Reverse((self.weight[&task], writes.map_or(0, |(_, rate)| rate).saturating_add(read)))
        };
        if !self.weights.is_empty() {
            wanted.sort_by_key(|one| key(task(one)));
        }
    }

    /// Which of two nodes is better for a task; each with its cores.
    pub fn compare(&self, task: TaskId, one: (NodeId, u32), other: (NodeId, u32)) -> Ordering {
        let saved = |node| Reverse(self.saved(task, node));
        let by_load = || self.less_loaded(task, one, other).then(one.0.cmp(&other.0));
        saved(one).cmp(&saved(other)).then_with(by_load)
    }

    /// Bytes in a second that need not leave a node if the task goes there; 0 if the node has its share already.
    fn saved(&self, task: TaskId, (node, cores): (NodeId, u32)) -> u64 {
        let (writes, reads) = self.links_of(task);
        if (writes, reads) == (None, None) || self.is_over(task, node, cores) {
            return 0;
        }
        let kept =
            writes.map_or(
                0,
                |(link, rate)| {
                    if self.passing[link].read_on.contains(&node) { rate } else { 0 }
                },
            );
        let got = reads.map_or(0, |link| {
            let passing = &self.passing[link];
            // If a task there reads it already, all of it comes there anyway.
            let written = passing.written_on.get(&node).copied().unwrap_or(0);
            if passing.read_on.contains(&node) { passing.bytes } else { written }
        });
        kept.saturating_add(got)
    }

    fn links_of(&self, task: TaskId) -> (Option<(usize, u64)>, Option<usize>) {
        (self.writes.get(&task).copied(), self.reads.get(&task).copied())
    }

    /// Whether a node would have more than its even share of all computing, and a quarter.
    fn is_over(&self, task: TaskId, node: NodeId, cores: u32) -> bool {
        let load = u128::from(self.load_with(task, node));
        let share = self.all * u128::from(cores.max(1)) * SHARE_QUARTERS_MAX;
        load * 4 * self.cores > share
    }

    /// Which of two nodes would compute less for each core with the task, compared as fractions.
    fn less_loaded(&self, task: TaskId, one: (NodeId, u32), other: (NodeId, u32)) -> Ordering {
        let load = |(node, _)| u128::from(self.load_with(task, node));
        let cores = |(_, cores): (NodeId, u32)| u128::from(cores.max(1));
        (load(one) * cores(other)).cmp(&(load(other) * cores(one)))
    }

    fn load_with(&self, task: TaskId, node: NodeId) -> u64 {
        self.load.get(&node).copied().unwrap_or(0).saturating_add(self.weight[&task])
    }

    /// The task goes there. Of one that goes to several nodes the first has its streams.
    pub fn put(&mut self, task: TaskId, node: NodeId) {
        let load = self.load_with(task, node);
        self.load.insert(node, load);
        if !self.placed.insert(task) {
            return;
        }
        let (writes, reads) = self.links_of(task);
        if let Some((link, rate)) = writes {
            let written = self.passing[link].written_on.entry(node).or_default();
            *written = written.saturating_add(rate);
        }
        if let Some(link) = reads {
            self.passing[link].read_on.insert(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::said::Volume;

    fn ends(writers: &[u32], readers: &[u32]) -> StreamEnds {
        let ids = |numbers: &[u32]| numbers.iter().map(|number| TaskId(*number)).collect();
        StreamEnds { writers: ids(writers), readers: ids(readers) }
    }

    fn output(bytes: u64) -> Said {
        Said { output: Some(Volume::PerSecond(bytes)), ..Said::default() }
    }

    fn cost(cost: u64) -> Said {
        Said { cost_milli: Some(cost * 1_000), ..Said::default() }
    }

    /// Where tasks go that fit `room` times on each of some nodes, which have these cores.
    fn places(
        tasks: u32,
        streams: &[StreamEnds],
        said: &[(u32, Said)],
        nodes: &[u32],
        room: usize,
    ) -> Vec<u32> {
        let said = said.iter().map(|(task, said)| (TaskId(*task), *said)).collect();
        let weights = Weights::of(streams, &said);
        assert_eq!(weights.is_empty(), said.is_empty());
        let mut wanted: Vec<TaskId> = (0..tasks).map(TaskId).collect();
        let cores = nodes.iter().map(|cores| u64::from(*cores)).sum();
        let mut placer = Placer::new(&weights, wanted.iter().copied(), cores);
        placer.order(&mut wanted, |task| *task);
        let mut at: BTreeMap<TaskId, NodeId> = BTreeMap::new();
        for task in wanted {
            let there = |node: NodeId| at.values().filter(|other| **other == node).count();
            let candidates = (0..).map(NodeId).zip(nodes.iter().copied());
            let free = candidates.filter(|(node, _)| there(*node) < room);
            let best = free.min_by(|one, other| placer.compare(task, *one, *other)).unwrap().0;
            placer.put(task, best);
            at.insert(task, best);
        }
        (0..tasks).map(|task| at[&TaskId(task)].0).collect()
    }

    #[test]
    fn tasks_of_which_nothing_is_said_are_spread_by_number() {
        let chain = [ends(&[0], &[1]), ends(&[1], &[2])];
        assert_eq!(places(5, &chain, &[], &[2, 4, 4], 4), [1, 2, 0, 1, 2]);
    }

    #[test]
    fn what_computes_most_has_a_node_for_itself() {
        let one = [ends(&[0, 1, 2], &[3])];
        // The others are taken as the mean of those that say it where they say nothing.
        let said = [(0, cost(1)), (1, cost(1)), (2, cost(10)), (3, cost(1))];
        assert_eq!(places(4, &one, &said, &[4, 4], 4), [1, 1, 0, 1]);
        let silent = [(2, cost(10))];
        assert_eq!(places(4, &one, &silent, &[4, 4], 4), [0, 1, 0, 1]);
    }

    #[test]
    fn tasks_that_send_one_another_much_stay_together() {
        // 0 -> 2 and 1 -> 3 carry much, and 4 reads what 2 and 3 print.
        let streams = [ends(&[0], &[2]), ends(&[1], &[3]), ends(&[2, 3], &[4])];
        let said = [(0, output(9_000)), (1, output(9_000)), (2, output(5)), (3, output(1))];
        let at = places(5, &streams, &said, &[3, 3], 3);
        assert_eq!((at[0], at[1]), (at[2], at[3]), "{at:?}");
        assert_ne!(at[0], at[1], "{at:?}");
        assert_eq!(at[4], at[2], "where most of what it reads comes from: {at:?}");
    }

    #[test]
    fn readers_of_one_stream_share_a_node_as_far_as_that_has_room() {
        let multicast = [ends(&[0], &[1, 2, 3, 4, 5])];
        let at = places(6, &multicast, &[(0, output(1_000))], &[2, 2, 2], 2);
        assert_eq!(at, [0, 0, 1, 1, 2, 2]);
        // Computing is balanced before that: two nodes of three would have been enough.
        let at = places(6, &multicast, &[(0, output(1_000))], &[2, 2, 2], 6);
        assert_eq!(at, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_task_of_several_nodes_computes_on_all_of_them_and_streams_from_its_first() {
        let said = BTreeMap::from([(TaskId(0), Said { cost_milli: Some(8_000), ..output(100) })]);
        let weights = Weights::of(&[ends(&[0], &[1])], &said);
        let wanted = [0, 0, 1].map(TaskId);
        let mut placer = Placer::new(&weights, wanted.into_iter(), 8);
        placer.put(TaskId(0), NodeId(2));
        placer.put(TaskId(0), NodeId(1));
        assert_eq!(placer.load, BTreeMap::from([(NodeId(1), 4_000), (NodeId(2), 4_000)]));
        let saved = [1, 2].map(|node| placer.saved(TaskId(1), (NodeId(node), 8)));
        assert_eq!(saved, [0, 100]);
    }
}
