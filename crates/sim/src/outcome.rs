//! What came out of a run: times, shares, bytes.
//!
//! Counts what the run reports, and computes ratios of it; knows no model.

#![allow(clippy::cast_precision_loss, reason = "ratios for people")]

use crate::cluster::Cluster;
use crate::units::SECOND_NS;
use crate::workload::Workload;

/// Bytes and files that were read, by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All bytes.
    pub bytes: u64,
    /// Bytes from the node itself.
    pub local_bytes: u64,
    /// Bytes from the memory of any node.
    pub cached_bytes: u64,
    /// All files.
    pub files: u64,
    /// Files from the node itself.
    pub local_files: u64,
}

impl Share {
    pub(crate) fn add(&mut self, bytes: u64, local: bool, cached: bool) {
        self.bytes += bytes;
        self.files += 1;
        if local {
            self.local_bytes += bytes;
            self.local_files += 1;
        }
        if cached {
            self.cached_bytes += bytes;
        }
    }

    fn include(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.local_bytes += other.local_bytes;
        self.cached_bytes += other.cached_bytes;
        self.files += other.files;
        self.local_files += other.local_files;
    }

    /// Share of the bytes that came from the node itself; `None` when nothing was read.
    pub fn local(&self) -> Option<f64> {
        ratio(self.local_bytes, self.bytes)
    }

    /// Share of the files that came from the node itself.
    pub fn local_by_files(&self) -> Option<f64> {
        ratio(self.local_files, self.files)
    }

    /// Share of the bytes that came from memory.
    pub fn cached(&self) -> Option<f64> {
        ratio(self.cached_bytes, self.bytes)
    }
}

fn ratio(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// What a task did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// The node on which it ran.
    pub node: u32,
    /// When it began on the node, ns since the invocation.
    pub started_ns: u64,
    /// When it ended on the node, ns since the invocation.
    pub ended_ns: u64,
    /// What it read.
    pub reads: Share,
    /// What it wrote.
    pub written_bytes: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the invocation to its end.
    pub makespan_ns: u64,
    /// Time on nodes, of all attempts.
    pub accumulated_ns: u128,
    /// Core time of all attempts.
    pub core_ns: u128,
    /// Cores of the cluster.
    pub cores: u64,
    /// Bytes that went from one machine to another.
    pub network_bytes: u64,
    /// Attempts that failed.
    pub attempts_failed: u64,
    /// Tasks that failed.
    pub tasks_failed: u64,
    /// Tasks that were not run because of those.
    pub tasks_abandoned: u64,
    /// Real time that the scheduler took, if it was measured.
    pub scheduler_ns: u64,
    /// By the workload's number; `None` if the task did not succeed.
    pub tasks: Vec<Option<TaskRecord>>,
}

impl Outcome {
    pub(crate) fn new(tasks: usize, cluster: &Cluster) -> Self {
        Self {
            makespan_ns: 0,
            accumulated_ns: 0,
            core_ns: 0,
            cores: cluster.cores_all(),
            network_bytes: 0,
            attempts_failed: 0,
            tasks_failed: 0,
            tasks_abandoned: 0,
            scheduler_ns: 0,
            tasks: vec![None; tasks],
        }
    }

    pub(crate) fn account(&mut self, cores: u32, record: &TaskRecord) {
        let ns = u128::from(record.ended_ns - record.started_ns);
        self.accumulated_ns += ns;
        self.core_ns += ns * u128::from(cores);
    }

    /// Whether all tasks are well.
    pub fn is_well(&self) -> bool {
        self.tasks_failed == 0 && self.tasks_abandoned == 0
    }

    /// The makespan in seconds.
    pub fn makespan_s(&self) -> f64 {
        self.makespan_ns as f64 / SECOND_NS as f64
    }

    /// The accumulated time in seconds.
    pub fn accumulated_s(&self) -> f64 {
        self.accumulated_ns as f64 / SECOND_NS as f64
    }

    /// Part of the cores' time that attempts had.
    pub fn utilisation(&self) -> f64 {
        let all = u128::from(self.makespan_ns) * u128::from(self.cores);
        if all == 0 { 0.0 } else { self.core_ns as f64 / all as f64 }
    }

    /// What all tasks read.
    pub fn reads(&self) -> Share {
        let mut sum = Share::default();
        self.tasks.iter().flatten().for_each(|task| sum.include(&task.reads));
        sum
    }

    /// What the tasks of each rule read.
    pub fn reads_by_rule(&self, workload: &Workload) -> Vec<Share> {
        let mut sums = vec![Share::default(); workload.rules.len()];
        for (spec, record) in workload.tasks.iter().zip(&self.tasks) {
            if let Some(record) = record {
                sums[spec.rule.index()].include(&record.reads);
            }
        }
        sums
    }
}
