//! Many runs: every policy on every size of cluster, with several seeds; medians and spread of what came out.
//!
//! Does not know how results are shown.

use std::collections::BTreeMap;

use rakuda_core::Policy;
use serde::Serialize;

use crate::bound::lower_bound;
use crate::cluster::{Cluster, FileSystem};
use crate::log::Log;
use crate::outcome::{Outcome, Share};
use crate::simulation::{Settings, Simulation};
use crate::units::SECOND_NS;
use crate::workload::{Workload, WorkloadError};

/// The combinations to try.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What all runs have in common; the seed is that of the first.
    pub base: Settings,
    /// Numbers of nodes.
    pub nodes: Vec<u32>,
    /// Orders in queues.
    pub policies: Vec<Policy>,
    /// Whether with locality, without, or both.
    pub locality: Vec<bool>,
    /// Whether with stealing, without, or both.
    pub stealing: Vec<bool>,
    /// Number of runs of each combination, each with a seed of its own.
    pub repeat: u32,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number of nodes.
    pub nodes: u32,
    /// The order in queues.
    pub policy: Policy,
    /// Whether tasks are queued where their input is.
    pub locality: bool,
    /// Whether idle nodes take from others.
    pub stealing: bool,
}

/// Median, least and greatest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (low, high) = ((values.len().max(1) - 1) / 2, values.len() / 2);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        Self {
            median: f64::midpoint(at(low), at(high)),
            min: at(0),
            max: at(values.len().max(1) - 1),
        }
    }
}

/// Shares of what was read that lay on the node itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalShare {
    /// Share of all bytes.
    pub bytes: f64,
    /// Share of all files.
    pub files: f64,
    /// Share of the bytes that each program read.
    pub by_rule: BTreeMap<String, f64>,
    /// Share of the files that each program read.
    pub files_by_rule: BTreeMap<String, f64>,
}

/// The result of one combination; figures without a spread are medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellResult {
    /// The name of the workload.
    pub workload: String,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of nodes.
    pub nodes: u32,
    /// Cores of each node.
    pub cores: u32,
    /// `gfarm`, `nfs`, `local`.
    pub file_system: &'static str,
    /// `fifo`, ...
    pub policy: &'static str,
    /// Whether tasks are queued where their input is.
    pub locality: bool,
    /// Whether idle nodes take from others.
    pub steal: bool,
    /// Whether the scheduler knew times beforehand.
    pub known_times: bool,
    /// The first seed.
    pub seed: u64,
    /// Number of runs.
    pub repeat: u32,
    /// From the invocation to its end.
    pub makespan_s: f64,
    /// The fastest run's.
    pub makespan_s_min: f64,
    /// The slowest run's.
    pub makespan_s_max: f64,
    /// Time on nodes.
    pub accumulated_s: f64,
    /// Part of the cores' time that tasks had.
    pub utilisation: f64,
    /// What lay where it was read.
    pub local_share: LocalShare,
    /// Part of the bytes read that came from memory.
    pub cache_hit: f64,
    /// Bytes between machines.
    pub network_bytes: f64,
    /// The lower bound of the makespan.
    pub lower_bound_s: f64,
    /// The outcome of the run with the first seed.
    #[serde(skip)]
    pub outcome: Outcome,
}

impl Experiment {
    /// All combinations, in order.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &nodes in &self.nodes {
            for &policy in &self.policies {
                for &locality in &self.locality {
                    for &stealing in &self.stealing {
                        cells.push(Cell { nodes, policy, locality, stealing });
                    }
                }
            }
        }
        cells
    }

    /// Settings of the first run of a combination.
    pub fn settings(&self, cell: Cell) -> Settings {
        let cluster = Cluster { nodes: cell.nodes, ..self.base.cluster.clone() };
        let Cell { policy, locality, stealing, .. } = cell;
        Settings { cluster, policy, locality, stealing, ..self.base.clone() }
    }

    /// Runs one combination with every seed.
    ///
    /// # Errors
    /// When the workload makes no sense.
    pub fn run(&self, workload: &Workload, cell: Cell) -> Result<CellResult, WorkloadError> {
        let settings = self.settings(cell);
        let mut outcomes = Vec::new();
        let mut bounds = Vec::new();
        for number in 0..u64::from(self.repeat.max(1)) {
            let seed = self.base.seed.wrapping_add(number);
            let bound = lower_bound(workload, &settings.cluster, seed)?;
            bounds.push(seconds(bound.ns()));
            let settings = Settings { seed, ..settings.clone() };
            let (outcome, _) = Simulation::new(workload, settings, Log::off())?.run();
            outcomes.push(outcome);
        }
        Ok(self.sum_up(workload, cell, &outcomes, bounds))
    }

    fn sum_up(
        &self,
        workload: &Workload,
        cell: Cell,
        outcomes: &[Outcome],
        bounds: Vec<f64>,
    ) -> CellResult {
        let spread = |of: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(of).collect());
        let median = |of: &dyn Fn(&Outcome) -> f64| spread(of).median;
        let makespan = spread(&Outcome::makespan_s);
        let by_rule = |of: &dyn Fn(&Share) -> Option<f64>| {
            let medians = workload.rules.iter().enumerate().filter_map(|(index, rule)| {
                let shares = outcomes.iter().map(|outcome| outcome.reads_by_rule(workload)[index]);
                let local: Vec<f64> = shares.filter_map(|share| of(&share)).collect();
                (!local.is_empty()).then(|| (rule.clone(), Spread::of(local).median))
            });
            medians.collect()
        };
        CellResult {
            workload: workload.name.clone(),
            tasks: workload.tasks.len(),
            nodes: cell.nodes,
            cores: self.base.cluster.cores,
            file_system: file_system_name(self.base.cluster.file_system),
            policy: cell.policy.name(),
            locality: cell.locality,
            steal: cell.stealing,
            known_times: self.base.known_times,
            seed: self.base.seed,
            repeat: self.repeat.max(1),
            makespan_s: makespan.median,
            makespan_s_min: makespan.min,
            makespan_s_max: makespan.max,
            accumulated_s: median(&Outcome::accumulated_s),
            utilisation: median(&Outcome::utilisation),
            local_share: LocalShare {
                bytes: median(&|outcome| outcome.reads().local().unwrap_or(1.0)),
                files: median(&|outcome| outcome.reads().local_by_files().unwrap_or(1.0)),
                by_rule: by_rule(&Share::local),
                files_by_rule: by_rule(&Share::local_by_files),
            },
            cache_hit: median(&|outcome| outcome.reads().cached().unwrap_or(0.0)),
            network_bytes: median(&network_bytes),
            lower_bound_s: Spread::of(bounds).median,
            outcome: outcomes[0].clone(),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn network_bytes(outcome: &Outcome) -> f64 {
    outcome.network_bytes as f64
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// The name on the command line.
pub fn file_system_name(file_system: FileSystem) -> &'static str {
    match file_system {
        FileSystem::Gfarm => "gfarm",
        FileSystem::Nfs => "nfs",
        FileSystem::Local => "local",
    }
}
