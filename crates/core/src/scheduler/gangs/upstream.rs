//! Files that are made of what comes through streams: out of date as rake would have it if what the tasks upstream of
//! them depend on were their own prerequisites.
//!
//! Decides nothing about tasks outside of the gang, and knows no bytes. What a task upstream makes itself does not
//! count: it is made in the same run as what is read from it.

use crate::event::TaskKind;
use crate::ids::{GangId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::KnownFact;
use crate::streams::StreamEnds;
use crate::time::{Newest, Now};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

impl Scheduler {
    /// Whether what a task depends on may count for files of others, as it prints into a stream.
    pub(crate) fn feeds_others(&self, id: TaskId) -> bool {
        let writes = |stream: &StreamEnds| stream.writers.contains(&id);
        self.gangs.of(id).is_some_and(|gang| self.gangs.all[gang].streams.iter().any(writes))
    }

    /// Files of a gang that are up to date but for what is upstream of them, by number. All its tasks are decided.
    pub(super) fn outdated_by_streams(&self, now: Now, id: GangId) -> Vec<TaskId> {
        let gang = &self.gangs.all[id];
        let sums = self.sums_of_streams(id);
        let mut outdated = Vec::new();
        for (stream, newest) in gang.streams.iter().zip(sums) {
            outdated.extend(stream.readers.iter().copied().filter(|reader| {
                let task = &self.graph.tasks[*reader];
                let is_file = task.kind == TaskKind::File && !task.reason.is_needed();
                match task.fact {
                    KnownFact::Present { modified, .. } if is_file => {
                        newest.is_after(modified, now)
                    }
                    _ => false,
                }
            }));
        }
        outdated.sort_unstable();
        outdated
    }

    /// For each stream of a gang the greatest timestamp of all inputs of its writers, and of all tasks that these read
    /// from.
    fn sums_of_streams(&self, id: GangId) -> Vec<Newest> {
        let streams = &self.gangs.all[id].streams;
        let read = (0..)
            .zip(streams)
            .flat_map(|(place, stream)| stream.readers.iter().map(move |reader| (*reader, place)));
        let read: BTreeMap<TaskId, usize> = read.collect();
        let mut sums = Vec::with_capacity(streams.len());
        let mut flows: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (place, stream) in streams.iter().enumerate() {
            let mut newest = Newest::NONE;
            for writer in &stream.writers {
                newest.include_all_of(self.graph.tasks[*writer].newest);
                flows.extend(read.get(writer).map(|from| (*from, place)));
            }
            sums.push(newest);
        }
        // In a cycle, or where streams are not given in the order in which they flow, once is not enough.
        let mut goes_on = true;
        while core::mem::take(&mut goes_on) {
            for &(from, to) in &flows {
                let before = sums[to];
                let added = sums[from];
                sums[to].include_all_of(added);
                goes_on |= sums[to] != before;
            }
        }
        sums
    }

    /// What counts for whether a file is out of date, each once: its own inputs, then those of tasks upstream.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn inputs_through_streams(&self, id: TaskId) -> Vec<TaskId> {
        let upstream = self.upstream(id);
        let mut inputs: Vec<TaskId> = self.inputs(id).collect();
        if !upstream.is_empty() {
            inputs.extend(upstream.into_iter().flat_map(|task| self.inputs(task)));
            let mut seen = BTreeSet::new();
            inputs.retain(|input| seen.insert(*input));
        }
        inputs
    }

    /// The tasks of a gang from which streams lead to a task of it, directly or over others; empty if it is in none.
    pub fn upstream(&self, id: TaskId) -> Vec<TaskId> {
        let Some(gang) = self.gangs.of(id) else { return Vec::new() };
        let streams = &self.gangs.all[gang].streams;
        let mut left: Vec<_> = streams.iter().collect();
        let (mut found, mut next) = (BTreeSet::new(), BTreeSet::from([id]));
        while !next.is_empty() {
            let reads = |stream: &&StreamEnds| is_read_by(stream, &next);
            let (into, others): (Vec<_>, Vec<_>) = left.into_iter().partition(reads);
            left = others;
            next = into.iter().flat_map(|stream| stream.writers.iter().copied()).collect();
            found.extend(&next);
        }
        found.into_iter().collect()
    }
}

fn is_read_by(stream: &StreamEnds, tasks: &BTreeSet<TaskId>) -> bool {
    stream.readers.iter().any(|reader| tasks.contains(reader))
}
