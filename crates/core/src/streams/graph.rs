//! Which tasks streams join, and what follows: components, and cycles in them.
//!
//! Knows tasks by number only, and not what runs when.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::TaskId;

/// The two ends of a stream; the tasks of each in the order that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEnds {
    /// The tasks whose stdout goes in.
    pub writers: Vec<TaskId>,
    /// The tasks whose stdin comes from it.
    pub readers: Vec<TaskId>,
}

/// Why some streams cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// A stream has no task at one of its ends.
    Empty {
        /// Its place.
        stream: usize,
    },
    /// A task has one stdout, and is to write into two streams, or twice into one.
    WritesTwice {
        /// The task.
        task: TaskId,
        /// The first of these streams.
        first: usize,
        /// The second.
        second: usize,
    },
    /// A task has one stdin, and is to read from two streams, or twice from one.
    ReadsTwice {
        /// The task.
        task: TaskId,
        /// The first of these streams.
        first: usize,
        /// The second.
        second: usize,
    },
    /// A task is to read what it writes itself.
    Itself {
        /// The stream.
        stream: usize,
        /// The task.
        task: TaskId,
    },
}

/// Tasks that streams join, directly or over others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// In the order of their numbers.
    pub members: Vec<TaskId>,
    /// Places of its streams, in order.
    pub streams: Vec<usize>,
    /// Streams from each of which one comes back to itself over tasks: each set once, in order.
    pub cycles: Vec<Vec<usize>>,
}

/// Streams between tasks.
#[derive(Clone, Debug, Default)]
pub struct StreamGraph {
    streams: Vec<StreamEnds>,
    /// By task: the stream that it writes into.
    written: BTreeMap<TaskId, usize>,
    /// By task: the stream that it reads.
    read: BTreeMap<TaskId, usize>,
}

impl StreamGraph {
    /// Takes streams, or says what is wrong with them.
    pub fn new(streams: Vec<StreamEnds>) -> Result<Self, GraphError> {
        let (mut written, mut read) = (BTreeMap::new(), BTreeMap::new());
        for (number, ends) in streams.iter().enumerate() {
            if ends.writers.is_empty() || ends.readers.is_empty() {
                return Err(GraphError::Empty { stream: number });
            }
            for &task in &ends.writers {
                if let Some(first) = written.insert(task, number) {
                    return Err(GraphError::WritesTwice { task, first, second: number });
                }
            }
            for &task in &ends.readers {
                if let Some(first) = read.insert(task, number) {
                    return Err(GraphError::ReadsTwice { task, first, second: number });
                }
                if written.get(&task) == Some(&number) {
                    return Err(GraphError::Itself { stream: number, task });
                }
            }
        }
        Ok(Self { streams, written, read })
    }

    /// The stream into which a task writes.
    pub fn written_by(&self, task: TaskId) -> Option<usize> {
        self.written.get(&task).copied()
    }

    /// The stream that a task reads.
    pub fn read_by(&self, task: TaskId) -> Option<usize> {
        self.read.get(&task).copied()
    }

    /// The components, in the order of their first streams.
    pub fn components(&self) -> Vec<Component> {
        let owners = self.owners();
        let mut places = BTreeMap::new();
        let mut components: Vec<Component> = Vec::new();
        for (stream, owner) in owners.iter().enumerate() {
            let place = *places.entry(*owner).or_insert_with(|| {
                let (members, streams, cycles) = (Vec::new(), Vec::new(), Vec::new());
                components.push(Component { members, streams, cycles });
                components.len() - 1
            });
            let ends = &self.streams[stream];
            components[place].streams.push(stream);
            components[place].members.extend(ends.writers.iter().chain(&ends.readers));
        }
        for component in &mut components {
            component.members.sort_unstable();
            component.members.dedup();
        }
        for cycle in self.cycles() {
            components[places[&owners[cycle[0]]]].cycles.push(cycle);
        }
        components
    }

    /// What is left of the graph with only some tasks and streams. Streams keep their places; one may have no task at
    /// an end.
    #[must_use]
    pub fn left(&self, tasks: &BTreeSet<TaskId>, streams: impl Fn(usize) -> bool) -> Self {
        let of = |ends: &[TaskId], stream| {
            let is_left = |task: &TaskId| streams(stream) && tasks.contains(task);
            ends.iter().copied().filter(is_left).collect()
        };
        let ends = self.streams.iter().enumerate().map(|(stream, ends)| StreamEnds {
            writers: of(&ends.writers, stream),
            readers: of(&ends.readers, stream),
        });
        let of_tasks = |all: &BTreeMap<TaskId, usize>| {
            let is_left =
                |(task, stream): &(TaskId, usize)| streams(*stream) && tasks.contains(task);
            all.iter().map(|(task, stream)| (*task, *stream)).filter(is_left).collect()
        };
        let (written, read) = (of_tasks(&self.written), of_tasks(&self.read));
        Self { streams: ends.collect(), written, read }
    }

    /// The tasks over which the streams of a cycle lead to one another, in the order of their numbers.
    pub fn tasks_of_cycle(&self, cycle: &[usize]) -> Vec<TaskId> {
        let within = |stream: Option<usize>| stream.is_some_and(|stream| cycle.contains(&stream));
        let tasks = self.written.iter().filter(|(_, into)| within(Some(**into)));
        tasks.map(|(task, _)| *task).filter(|task| within(self.read_by(*task))).collect()
    }

    /// By stream: the first stream of its component.
    fn owners(&self) -> Vec<usize> {
        let mut owners: Vec<usize> = (0..self.streams.len()).collect();
        for (task, &into) in &self.written {
            if let Some(&from) = self.read.get(task) {
                let (one, other) = (find(&mut owners, into), find(&mut owners, from));
                owners[one.max(other)] = one.min(other);
            }
        }
        for stream in 0..owners.len() {
            owners[stream] = find(&mut owners, stream);
        }
        owners
    }

    /// Where what comes out of a stream can go on to.
    fn next(&self, stream: usize) -> impl Iterator<Item = usize> {
        self.streams[stream].readers.iter().filter_map(|task| self.written_by(*task))
    }

    /// Where what goes into a stream may have come from.
    fn before(&self, stream: usize) -> impl Iterator<Item = usize> {
        self.streams[stream].writers.iter().filter_map(|task| self.read_by(*task))
    }

    /// In order: strongly connected sets of streams with more than one member (no stream leads to itself
    /// directly): Kosaraju's two walks, with stacks of their own.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut order = Vec::with_capacity(self.streams.len());
        let mut seen = vec![false; self.streams.len()];
        for root in 0..self.streams.len() {
            let mut stack = vec![(root, false)];
            while let Some((stream, is_left)) = stack.pop() {
                if is_left {
                    order.push(stream);
                } else if !core::mem::replace(&mut seen[stream], true) {
                    stack.push((stream, true));
                    stack.extend(self.next(stream).map(|next| (next, false)));
                }
            }
        }
        let mut taken = vec![false; self.streams.len()];
        let mut cycles = Vec::new();
        for &root in order.iter().rev() {
            let (mut stack, mut set) = (vec![root], Vec::new());
            while let Some(stream) = stack.pop() {
                if !core::mem::replace(&mut taken[stream], true) {
                    set.push(stream);
                    stack.extend(self.before(stream));
                }
            }
            set.sort_unstable();
            if set.len() > 1 {
                cycles.push(set);
            }
        }
        cycles.sort_unstable();
        cycles
    }
}

/// The first of a set, with the way to it made shorter.
fn find(owners: &mut [usize], mut stream: usize) -> usize {
    while owners[stream] != stream {
        owners[stream] = owners[owners[stream]];
        stream = owners[stream];
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(writers: &[u32], readers: &[u32]) -> StreamEnds {
        let ids = |numbers: &[u32]| numbers.iter().map(|number| TaskId(*number)).collect();
        StreamEnds { writers: ids(writers), readers: ids(readers) }
    }

    #[test]
    fn tasks_that_are_joined_over_others_are_one_component() {
        let streams = vec![ends(&[0, 1], &[2]), ends(&[7], &[8, 9]), ends(&[2], &[3, 4])];
        let components = StreamGraph::new(streams).unwrap().components();
        assert_eq!(components.len(), 2);
        assert_eq!(components[0].members, [0, 1, 2, 3, 4].map(TaskId));
        assert_eq!(components[0].streams, [0, 2]);
        assert_eq!(components[1].members, [7, 8, 9].map(TaskId));
        assert!(components.iter().all(|component| component.cycles.is_empty()));
    }

    #[test]
    fn the_cycle_of_the_papers_experiment_is_found() {
        // a writes to 40 tasks; each of them answers (section 6, figure 10).
        let b: Vec<u32> = (1..=40).collect();
        let streams = vec![ends(&[0], &b), ends(&b, &[0])];
        let components = StreamGraph::new(streams).unwrap().components();
        assert_eq!(components.len(), 1);
        assert_eq!(components[0].cycles, [vec![0, 1]]);
        let chain = vec![ends(&[0], &[1]), ends(&[1], &[2]), ends(&[2], &[1, 3])];
        assert_eq!(
            StreamGraph::new(chain).unwrap_err(),
            GraphError::ReadsTwice { task: TaskId(1), first: 0, second: 2 }
        );
        let chain = vec![ends(&[0], &[5]), ends(&[1, 5], &[2]), ends(&[2], &[3, 1])];
        let components = StreamGraph::new(chain).unwrap().components();
        assert_eq!(components[0].cycles, [vec![1, 2]]);
    }

    #[test]
    fn the_tasks_of_a_cycle_are_those_over_which_it_goes_on_and_it_ends_with_them() {
        // 0 writes from outside, 5 reads outside; 1 and 2 answer each other over 3 as well as 4.
        let streams = vec![ends(&[0, 3, 4], &[1, 5]), ends(&[1], &[2]), ends(&[2], &[3, 4, 6])];
        let graph = StreamGraph::new(streams).unwrap();
        assert_eq!(graph.cycles(), [[0, 1, 2]]);
        assert_eq!(graph.tasks_of_cycle(&[0, 1, 2]), [1, 2, 3, 4].map(TaskId));
        let without = |ended: &[u32]| {
            let tasks = (0..7).filter(|task| !ended.contains(task)).map(TaskId).collect();
            let left = graph.left(&tasks, |_| true);
            let cycles = left.cycles();
            cycles.first().map(|cycle| left.tasks_of_cycle(cycle))
        };
        assert_eq!(without(&[0, 4]), Some([1, 2, 3].map(TaskId).to_vec()));
        assert_eq!(without(&[3, 4]), None);
        let all: BTreeSet<TaskId> = (0..7).map(TaskId).collect();
        assert!(graph.left(&all, |stream| stream != 1).cycles().is_empty());
    }

    #[test]
    fn a_task_has_one_stdin_and_one_stdout() {
        let twice = StreamGraph::new(vec![ends(&[0], &[1]), ends(&[0], &[2])]);
        let (task, first, second) = (TaskId(0), 0, 1);
        assert_eq!(twice.unwrap_err(), GraphError::WritesTwice { task, first, second });
        let itself = StreamGraph::new(vec![ends(&[0, 1], &[1])]);
        assert_eq!(itself.unwrap_err(), GraphError::Itself { stream: 0, task: TaskId(1) });
        let empty = StreamGraph::new(vec![ends(&[0], &[])]);
        assert_eq!(empty.unwrap_err(), GraphError::Empty { stream: 0 });
    }
}
