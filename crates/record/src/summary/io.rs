//! Bytes that commands read and wrote, and which share of their input was in memory already.
//!
//! What is known: how much the kernel fetched from storage for a command, and how big the files are
//! that its task has as prerequisites. A task that reads something else than its prerequisites, or
//! not all of them, is not seen through.

use rakuda_proto::journal::{InputBytes, TaskKind};

use crate::run::{Run, Task};
use crate::summary::spans::Span;

/// Bytes of a run, or of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// From storage.
    pub read: u64,
    /// Of pages made dirty.
    pub written: u64,
}

/// What is known of the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cache {
    /// Bytes of the inputs of the tasks whose inputs' sizes are all known.
    pub input_bytes: u64,
    /// Bytes of these that did not come from storage, at least.
    pub cached_bytes: u64,
    /// Those tasks.
    pub tasks_known: usize,
    /// Tasks that ran commands and have files as prerequisites.
    pub tasks_with_input: usize,
    /// Where inputs were when the attempts began. Without a note of that, the place of a file is
    /// the node that made it in this run.
    pub inputs: InputBytes,
}

impl Cache {
    /// Share of input bytes that were in memory.
    pub fn share(&self) -> Option<f64> {
        (self.input_bytes > 0).then(|| self.cached_bytes as f64 / self.input_bytes as f64)
    }

    /// Share of the tasks with input for which that is known.
    pub fn known_share(&self) -> Option<f64> {
        (self.tasks_with_input > 0).then(|| self.tasks_known as f64 / self.tasks_with_input as f64)
    }

    /// Share of the input bytes whose place is known that were read where they were. `None` with one node.
    pub fn local_share(&self, run: &Run) -> Option<f64> {
        let several = run.nodes_used() > 1 && self.inputs.placed_bytes > 0;
        several.then(|| self.inputs.local_bytes as f64 / self.inputs.placed_bytes as f64)
    }

    /// Share of the input bytes that were in the memory of the node that read them, as it has
    /// measured when the attempt began.
    pub fn hit(&self) -> Option<f64> {
        let measured = self.inputs.measured_bytes;
        (measured > 0).then(|| self.inputs.resident_bytes as f64 / measured as f64)
    }

    /// Adds what is known of other attempts.
    pub fn merge(&mut self, other: &Self) {
        self.input_bytes += other.input_bytes;
        self.cached_bytes += other.cached_bytes;
        self.tasks_known += other.tasks_known;
        self.tasks_with_input += other.tasks_with_input;
        self.inputs.add(&other.inputs);
    }

    /// Takes one attempt that ran commands.
    pub fn add(&mut self, run: &Run, span: &Span, read_bytes: u64) {
        let Some(task) = &run.tasks[span.task as usize] else { return };
        let mut input_bytes = 0;
        let mut files = 0;
        let mut known = true;
        let noted = task.attempts[span.attempt as usize].ended.as_ref();
        let noted = noted.and_then(|ended| ended.inputs).unwrap_or_default();
        self.inputs.add(&noted);
        for &number in &task.defined.prerequisites {
            let Some(Some(input)) = run.tasks.get(number as usize) else { continue };
            if input.defined.kind != TaskKind::File {
                continue;
            }
            files += 1;
            match size_of(input) {
                Some(bytes) => input_bytes += bytes,
                None => known = false,
            }
            if noted.placed_bytes == 0 {
                self.add_place(span, input);
            }
        }
        if files == 0 {
            return;
        }
        self.tasks_with_input += 1;
        if known {
            self.tasks_known += 1;
            self.input_bytes += input_bytes;
            self.cached_bytes += input_bytes.saturating_sub(read_bytes);
        }
    }

    fn add_place(&mut self, span: &Span, input: &Task) {
        if let Some(made) = input.attempts.last()
            && let Some(bytes) = size_of(input)
        {
            self.inputs.placed_bytes += bytes;
            if made.started.node == span.node {
                self.inputs.local_bytes += bytes;
            }
        }
    }
}

/// Size of a task's file: after its last attempt, or as it was found.
pub fn size_of(task: &Task) -> Option<u64> {
    match task.attempts.last() {
        Some(attempt) => Some(attempt.ended.as_ref()?.after?.bytes),
        None => task.defined.bytes,
    }
}
