//! Cycles of streams in which no byte moves: in one place of a stream (`StallWatch`), and in all places of a cycle
//! (`Stalls`).
//!
//! It cannot know whether members wait or compute, so it only serves to warn the user.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::graph::StreamGraph;
use crate::ids::{NodeId, TaskId};
use crate::time::Time;

/// How a stream is in one place in which nothing moves. Of several places the greatest counts for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Still {
    /// Nothing will move any more.
    Over,
    /// Its writers have written nothing that was not read.
    Empty,
    /// Its readers have bytes to read.
    Unread,
    /// Its writers wait because its readers do not read.
    Full,
}

/// Watches one stream in one place.
#[derive(Clone, Copy, Debug)]
pub struct StallWatch {
    silence_ns: u64,
    /// When the last byte moved.
    moved: Time,
    /// At the last look nothing had moved for `silence_ns`.
    is_still: bool,
}

impl StallWatch {
    /// Watches from now on.
    pub fn new(now: Time, silence_ns: u64) -> Self {
        Self { silence_ns, moved: now, is_still: false }
    }

    /// A byte has moved.
    pub fn on_moved(&mut self, now: Time) {
        self.moved = now;
        self.is_still = false;
    }

    /// Looks whether nothing has moved for `silence_ns`.
    pub fn look(&mut self, now: Time) {
        self.is_still = now.0.saturating_sub(self.moved.0) >= self.silence_ns;
    }

    /// Whether nothing had moved at the last look.
    pub fn is_still(&self) -> bool {
        self.is_still
    }

    /// When to look again; `None`: when something moves.
    pub fn due(&self) -> Option<Time> {
        (!self.is_still).then(|| Time(self.moved.0.saturating_add(self.silence_ns)))
    }
}

/// A cycle in which nothing moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The tasks over which it goes, in the order of their numbers.
    pub tasks: Vec<TaskId>,
    /// Its streams.
    pub streams: Vec<(usize, Still)>,
}

/// What is known of the places of the streams of one opening.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    /// Places: streams and nodes.
    places: BTreeSet<(usize, NodeId)>,
    /// By node: how those of its streams are in which nothing moves. It may say so before it is known here that they
    /// have places there.
    still: BTreeMap<NodeId, BTreeMap<usize, Still>>,
    /// Streams whose stall was reported, and in which nothing has moved since.
    told: BTreeSet<usize>,
}

impl Stalls {
    /// A stream has a place on a node from now on.
    pub fn on_opened(&mut self, stream: usize, node: NodeId) {
        self.places.insert((stream, node));
        if let Some(still) = self.still.get_mut(&node) {
            // The stream was over there, and has come back.
            still.retain(|one, how| *one != stream || *how != Still::Over);
        }
    }

    /// A node reports all its streams in which nothing moves.
    pub fn on_told(&mut self, node: NodeId, still: BTreeMap<usize, Still>) {
        let before = self.still.insert(node, still).unwrap_or_default();
        let still = &self.still[&node];
        for stream in before.keys().filter(|stream| !still.contains_key(stream)) {
            self.told.remove(stream);
        }
    }

    /// All that went over a node has gone.
    pub fn on_node_over(&mut self, node: NodeId) {
        let here = self.places.iter().filter(|(_, one)| *one == node);
        self.still.insert(node, here.map(|(stream, _)| (*stream, Still::Over)).collect());
    }

    /// Takes the cycles in which nothing moves in any place, and that were not reported since something did; `tasks`:
    /// those that have not ended.
    pub fn take(&mut self, graph: &StreamGraph, tasks: &BTreeSet<TaskId>) -> Vec<Stall> {
        if self.still.values().all(BTreeMap::is_empty) {
            return Vec::new();
        }
        let streams = self.of_streams();
        let is_open = |stream| streams.get(&stream).is_some_and(|one| *one != Some(Still::Over));
        let left = graph.left(tasks, is_open);
        let mut found = Vec::new();
        for cycle in left.cycles() {
            let still = cycle.iter().map(|stream| Some((*stream, streams[stream]?)));
            let Some(still) = still.collect::<Option<Vec<_>>>() else { continue };
            if !cycle.iter().all(|stream| self.told.contains(stream)) {
                self.told.extend(&cycle);
                found.push(Stall { tasks: left.tasks_of_cycle(&cycle), streams: still });
            }
        }
        found
    }

    /// Whether a stall of a stream was reported, and nothing has moved in it since.
    pub fn is_told(&self, stream: usize) -> bool {
        self.told.contains(&stream)
    }

    /// How each stream is in all its places; `None`: something moves, or may.
    fn of_streams(&self) -> BTreeMap<usize, Option<Still>> {
        let mut streams = BTreeMap::new();
        for (stream, node) in &self.places {
            let place = self.still.get(node).and_then(|still| still.get(stream));
            let whole = streams.entry(*stream).or_insert(Some(Still::Over));
            *whole = whole.zip(place.copied()).map(|(one, other)| one.max(other));
        }
        streams
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::graph::StreamEnds;
    use super::*;

    const SILENCE_NS: u64 = 30_000_000_000;
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    /// Has no task.
    const BETWEEN: NodeId = NodeId(3);

    #[test]
    fn a_stream_is_still_when_nothing_has_moved_for_so_long() {
        let mut watch = StallWatch::new(Time(0), SILENCE_NS);
        let is_still = |watch: &mut StallWatch, now| {
            watch.look(Time(now));
            watch.is_still()
        };
        assert!(!is_still(&mut watch, SILENCE_NS - 1));
        assert_eq!(watch.due(), Some(Time(SILENCE_NS)));
        assert!(is_still(&mut watch, SILENCE_NS));
        assert_eq!(watch.due(), None);
        watch.on_moved(Time(3 * SILENCE_NS));
        assert_eq!((watch.is_still(), watch.due()), (false, Some(Time(4 * SILENCE_NS))));
        assert!(!is_still(&mut watch, 4 * SILENCE_NS - 1));
        assert!(is_still(&mut watch, 4 * SILENCE_NS));
    }

    /// 0 asks 1 and 2 with stream 0, which answer with stream 1; 3 reads what 2 does, and writes stream 2 to 4.
    fn graph() -> StreamGraph {
        let ends = |writers: &[u32], readers: &[u32]| {
            let ids = |numbers: &[u32]| numbers.iter().map(|number| TaskId(*number)).collect();
            StreamEnds { writers: ids(writers), readers: ids(readers) }
        };
        let streams = vec![ends(&[0], &[1, 2, 3]), ends(&[1, 2], &[0]), ends(&[3], &[4])];
        StreamGraph::new(streams).unwrap()
    }

    fn tasks(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<TaskId> {
        numbers.into_iter().map(TaskId).collect()
    }

    /// All streams have places on all three nodes.
    fn stalls() -> Stalls {
        let mut stalls = Stalls::default();
        for node in [A, B, BETWEEN] {
            (0..3).for_each(|stream| stalls.on_opened(stream, node));
        }
        stalls
    }

    fn on_told_by_all(stalls: &mut Stalls, still: &BTreeMap<usize, Still>) {
        for node in [A, B, BETWEEN] {
            stalls.on_told(node, still.clone());
        }
    }

    fn both(one: Still, other: Still) -> BTreeMap<usize, Still> {
        BTreeMap::from([(0, one), (1, other)])
    }

    fn stall(numbers: impl IntoIterator<Item = u32>, one: Still, other: Still) -> Vec<Stall> {
        let tasks = tasks(numbers).into_iter().collect();
        vec![Stall { tasks, streams: vec![(0, one), (1, other)] }]
    }

    #[test]
    fn a_cycle_over_several_nodes_is_told_once_when_nothing_moves_on_any_of_them() {
        let (graph, all, mut stalls) = (graph(), tasks(0..5), stalls());
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(A, both(Still::Empty, Still::Full));
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(BETWEEN, both(Still::Unread, Still::Empty));
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(B, both(Still::Empty, Still::Empty));
        // What else goes out of the cycle is none of it, and may move.
        assert_eq!(stalls.take(&graph, &all), stall(0..3, Still::Unread, Still::Full));
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(B, both(Still::Empty, Still::Empty));
        assert!(stalls.take(&graph, &all).is_empty());
    }

    #[test]
    fn a_stall_that_has_ended_and_came_back_is_told_again() {
        let (graph, all, mut stalls) = (graph(), tasks(0..5), stalls());
        let still = both(Still::Empty, Still::Empty);
        on_told_by_all(&mut stalls, &still);
        assert_eq!(stalls.take(&graph, &all).len(), 1);
        // What passes one place only ends it for all.
        stalls.on_told(BETWEEN, BTreeMap::from([(1, Still::Empty)]));
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(BETWEEN, still);
        assert_eq!(stalls.take(&graph, &all), stall(0..3, Still::Empty, Still::Empty));
        assert!(stalls.take(&graph, &all).is_empty());
    }

    #[test]
    fn nodes_and_tasks_that_have_ended_are_not_waited_for_and_not_named() {
        let (graph, mut stalls) = (graph(), stalls());
        stalls.on_told(A, both(Still::Empty, Still::Empty));
        stalls.on_told(B, both(Still::Empty, Still::Over));
        assert!(stalls.take(&graph, &tasks([0, 1, 3, 4])).is_empty());
        stalls.on_node_over(BETWEEN);
        let told = stalls.take(&graph, &tasks([0, 1, 3, 4]));
        assert_eq!(told, stall([0, 1], Still::Empty, Still::Empty));
        // With one member less it is the same stall.
        assert!(stalls.take(&graph, &tasks([0, 1])).is_empty());
    }

    #[test]
    fn what_is_left_of_a_cycle_that_has_ended_is_none() {
        let (graph, mut stalls) = (graph(), stalls());
        let still = both(Still::Empty, Still::Over);
        on_told_by_all(&mut stalls, &still);
        assert!(stalls.take(&graph, &tasks(0..5)).is_empty(), "nobody reads the answers");
        let still = both(Still::Empty, Still::Empty);
        on_told_by_all(&mut stalls, &still);
        assert!(stalls.take(&graph, &tasks(1..5)).is_empty(), "nobody asks");
        assert_eq!(stalls.take(&graph, &tasks(0..5)).len(), 1);
    }

    #[test]
    fn a_node_that_gets_a_place_later_is_waited_for() {
        let (graph, all, mut stalls) = (graph(), tasks(0..5), stalls());
        let still = both(Still::Empty, Still::Empty);
        stalls.on_told(A, still.clone());
        stalls.on_told(B, still);
        stalls.on_node_over(BETWEEN);
        stalls.on_opened(0, BETWEEN);
        stalls.on_opened(0, A);
        assert!(stalls.take(&graph, &all).is_empty());
        stalls.on_told(BETWEEN, BTreeMap::from([(0, Still::Full), (1, Still::Over)]));
        assert_eq!(stalls.take(&graph, &all), stall(0..3, Still::Full, Still::Empty));
    }

    #[test]
    fn what_a_node_says_before_its_place_is_known_counts_from_then_on() {
        let (graph, all, mut stalls) = (graph(), tasks(0..5), Stalls::default());
        for stream in 0..2 {
            stalls.on_opened(stream, A);
        }
        stalls.on_told(B, BTreeMap::from([(0, Still::Full)]));
        stalls.on_opened(0, B);
        stalls.on_told(A, both(Still::Empty, Still::Empty));
        assert_eq!(stalls.take(&graph, &all), stall(0..3, Still::Full, Still::Empty));
    }
}
