//! A workflow as the simulator takes it: tasks, the files that they read and write, how long they compute.
//!
//! Knows no node and no policy. Where workflows come from is in `workloads`.

use std::sync::Arc;

use crate::ids::{FileId, RuleId};
use crate::random::{Purpose, Random};

/// How long a task computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compute {
    /// Always this long, ns.
    Fixed(u64),
    /// Drawn with this mean and deviation; never under a tenth of the mean.
    Spread {
        /// Mean, ns.
        mean_ns: u64,
        /// Standard deviation, ns.
        deviation_ns: u64,
    },
    /// One of these, ns: what was measured.
    Samples(Arc<[u64]>),
}

impl Compute {
    /// The time for a task by its number.
    pub(crate) fn draw_ns(&self, seed: u64, task: u32) -> u64 {
        let mut random = Random::new(seed, Purpose::Compute(task));
        match self {
            Self::Fixed(ns) => *ns,
            Self::Samples(samples) if samples.is_empty() => 0,
            Self::Samples(samples) => samples[random.below(samples.len() as u64) as usize],
            Self::Spread { mean_ns, deviation_ns } => {
                // Twelve uniform numbers have the variance 1 in all.
                let sum: i128 = (0..12).map(|_| i128::from(random.below(1 << 32))).sum();
                let offset = sum - 6 * ((1 << 32) - 1);
                let drawn = i128::from(*mean_ns) + ((i128::from(*deviation_ns) * offset) >> 32);
                u64::try_from(drawn.max(i128::from(mean_ns / 10))).unwrap_or(u64::MAX)
            }
        }
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its program.
    pub rule: RuleId,
    /// Cores; 0 counts as 1.
    pub cores: u32,
    /// What it uses of the node's memory while it runs.
    pub memory_bytes: u64,
    /// How long it computes.
    pub compute: Compute,
    /// What it reads, in order.
    pub inputs: Vec<FileId>,
    /// Files that it writes, in order; only empty files may be written by several tasks.
    pub outputs: Vec<FileId>,
    /// Tasks that come before it, besides those that write its inputs.
    pub after: Vec<u32>,
    /// Reads, computes and writes at the same time.
    pub overlapped: bool,
}

impl TaskSpec {
    /// A task of one core that reads, computes, writes.
    pub fn new(rule: RuleId, compute: Compute) -> Self {
        Self {
            rule,
            cores: 1,
            memory_bytes: 0,
            compute,
            inputs: Vec::new(),
            outputs: Vec::new(),
            after: Vec::new(),
            overlapped: false,
        }
    }
}

/// What is wrong with a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Two tasks write one file.
    #[error("file {file} is written by task {first} and by task {second}")]
    TwoWriters {
        /// The file.
        file: u32,
        /// A task.
        first: u32,
        /// Another.
        second: u32,
    },
    /// Tasks wait for each other.
    #[error("tasks wait for each other in a circle; task {0} is one of them")]
    Cycle(u32),
    /// There is nothing to do.
    #[error("it has no tasks")]
    Empty,
    /// A description that cannot be understood.
    #[error("{0}")]
    Description(String),
}

/// A workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its name for people.
    pub name: String,
    /// Names of programs.
    pub rules: Vec<String>,
    /// Sizes of files, bytes.
    pub files: Vec<u64>,
    /// The tasks, in any order.
    pub tasks: Vec<TaskSpec>,
}

impl Workload {
    /// Makes an empty workflow.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The rule of this name, which is added if it is new.
    pub fn rule(&mut self, name: &str) -> RuleId {
        let known = self.rules.iter().position(|rule| rule == name);
        RuleId::at(known.unwrap_or_else(|| {
            self.rules.push(name.to_owned());
            self.rules.len() - 1
        }))
    }

    /// Adds a file.
    pub fn file(&mut self, bytes: u64) -> FileId {
        self.files.push(bytes);
        FileId::at(self.files.len() - 1)
    }

    /// Adds a task. Returns its number.
    ///
    /// # Panics
    /// Beyond 2^32 tasks.
    pub fn task(&mut self, task: TaskSpec) -> u32 {
        self.tasks.push(task);
        u32::try_from(self.tasks.len() - 1).expect("fewer than 2^32 tasks")
    }

    pub(crate) fn bytes(&self, file: FileId) -> u64 {
        self.files[file.index()]
    }

    /// For each file the task that writes it.
    pub(crate) fn writers(&self) -> Result<Vec<Option<u32>>, WorkloadError> {
        let mut writers = vec![None; self.files.len()];
        for (number, task) in (0_u32..).zip(&self.tasks) {
            for output in &task.outputs {
                let writer: &mut Option<u32> = &mut writers[output.index()];
                match *writer {
                    Some(first) if first != number => {
                        return Err(WorkloadError::TwoWriters {
                            file: output.0,
                            first,
                            second: number,
                        });
                    }
                    Some(_) | None => *writer = Some(number),
                }
            }
        }
        Ok(writers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_times_have_the_mean_and_deviation_that_were_asked_for() {
        let compute = Compute::Spread { mean_ns: 1_000_000, deviation_ns: 100_000 };
        let drawn: Vec<u64> = (0..4_000).map(|task| compute.draw_ns(1, task)).collect();
        let mean = drawn.iter().sum::<u64>() / 4_000;
        let square = |ns: &u64| u128::from(ns.abs_diff(mean)).pow(2);
        let deviation = (drawn.iter().map(square).sum::<u128>() / 4_000).isqrt();
        assert!(mean.abs_diff(1_000_000) < 8_000, "{mean}");
        assert!(deviation.abs_diff(100_000) < 8_000, "{deviation}");
        assert_eq!(drawn[7], compute.draw_ns(1, 7));
    }

    #[test]
    fn a_file_with_two_writers_is_refused() {
        let mut workload = Workload::new("two");
        let rule = workload.rule("a");
        let file = workload.file(1);
        for _ in 0..2 {
            let outputs = vec![file];
            workload.task(TaskSpec { outputs, ..TaskSpec::new(rule, Compute::Fixed(1)) });
        }
        assert!(matches!(workload.writers(), Err(WorkloadError::TwoWriters { .. })));
    }
}
