//! What a run was like: how long, on how many cores how well used, what took long, what failed. Figures only.
//!
//! Every figure is defined in docs/reference/report.md. It does not know how they are shown; it
//! reads no file and no clock.
#![allow(
    clippy::cast_precision_loss,
    reason = "figures are shown with a few digits; counts are far below 2^53"
)]
#![allow(clippy::cast_sign_loss, reason = "floats are clamped to the range of an index before")]

pub mod alike;
pub mod attempt_times;
pub mod critical;
pub mod curve;
pub mod graph;
pub mod groups;
pub mod io;
pub mod outcomes;
pub mod patterns;
pub mod placements;
pub mod programs;
pub mod rule_counts;
pub mod rule_graph;
pub mod spans;
pub mod stats;
pub mod streams;
pub mod tables;
pub mod task_rows;

use crate::folder::RunState;
use crate::run::Run;
use critical::CriticalPath;
use curve::Curve;
use graph::Times;
use groups::Groups;
use io::Cache;
use outcomes::{Counts, Fate, fate};
use placements::{Placement, placements};
use spans::{Ending, Piece, Span, Use};
use stats::{Distribution, LogBins};
use tables::{GroupSummary, NodeSummary, Tables, Usage, available_s, share_of_cores};

/// ns to s.
pub fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// µs to s.
pub fn seconds_us(us: u64) -> f64 {
    us as f64 / 1e6
}

/// All figures of a run. Names and commands stay in the [`Run`].
#[derive(Debug)]
pub struct Summary {
    /// Whether it came to an end, and which.
    pub state: RunState,
    /// The first invocation's or attempt's start, ns since 1970.
    pub start_ns: i64,
    /// The end of the last attempt or invocation; of a run without an end its last event, or when it was seen alive.
    pub end_ns: i64,
    /// Whether that is the end. If not, it was cut off at some time after, and no share of the whole is known.
    pub end_known: bool,
    /// Tasks by what became of them.
    pub counts: Counts,
    /// Attempts that count, by start.
    pub spans: Vec<Span>,
    /// When each of them had which core slots, by start.
    pub pieces: Vec<Piece>,
    /// By group.
    pub groups: Vec<GroupSummary>,
    /// Numbers of the groups, the one that took most time first.
    pub ranked: Vec<u32>,
    /// Axis of the groups' histograms.
    pub bins: Option<LogBins>,
    /// Running processes over time.
    pub curve: Curve,
    /// Time of processes weighed with their cores, s: t_accum.
    pub core_s: f64,
    /// Time of attempts weighed with their cores, s: includes what the Rakefile's own code took.
    pub held_core_s: f64,
    /// What all cores could do from start to end, s: t_elapsed n_cores.
    pub available_core_s: f64,
    /// The longest chain.
    pub critical: CriticalPath,
    /// From being ready to the first attempt, s.
    pub wait: Option<Distribution>,
    /// Indices into `spans`, the slowest first.
    pub slowest: Vec<u32>,
    /// Tasks that failed, by number.
    pub failed: Vec<u32>,
    /// Tasks of which an attempt was made anew, by number.
    pub retried: Vec<u32>,
    /// Nodes.
    pub nodes: Vec<NodeSummary>,
    /// What all commands used.
    pub usage: Usage,
    /// Input in memory.
    pub cache: Cache,
    /// Files that were staged from node to node, if any were.
    pub staged: Option<Staged>,
    /// Tasks whose nodes were chosen by what is known of them; those of most tasks first.
    pub placements: Vec<Placement>,
}

/// What was staged from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// With those that came beside others.
    pub files: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl Staged {
    fn of(run: &Run) -> Option<Self> {
        let files = run.staged.iter().map(|staged| 1 + u64::from(staged.companions)).sum();
        let bytes = run.staged.iter().map(|staged| staged.bytes).sum();
        (files > 0).then_some(Self { files, bytes })
    }
}

/// Maximum number of attempts among the slowest.
pub const SLOWEST: usize = 20;

impl Summary {
    /// Nodes that took part, by number; those without cores for tasks that ran none are left out.
    pub fn nodes_used(&self) -> impl Iterator<Item = &NodeSummary> {
        self.nodes.iter().filter(|node| !node.is_spare())
    }

    /// Of a run.
    pub fn of(run: &Run) -> Self {
        let (start_ns, end_ns) = limits(run);
        let groups = Groups::of(run);
        let (spans, pieces) = spans::spans(run, &groups);
        let (processes, uses) = spans::processes(run, &spans);
        let mut tables = Tables::of(run, groups, &spans);
        let ranked = ranked(&tables.groups);
        let curve = Curve::of(&processes, &ranked, start_ns, end_ns);
        let order = graph::in_order(run);
        let (failed, retried) = failures(run, &spans, &mut tables.groups);
        let held = |span: &Span| seconds(span.duration_ns()) * f64::from(span.cores);
        Self {
            state: RunState::of_journal(run),
            start_ns,
            end_ns,
            end_known: run.end_is_known(),
            counts: Counts::of(run),
            nodes: tables.nodes(run, &uses, &curve, end_ns),
            core_s: uses.iter().map(Use::core_s).sum(),
            held_core_s: spans.iter().map(held).sum(),
            available_core_s: available_core_s(run, start_ns, end_ns),
            critical: CriticalPath::of(run, &order, &spans, start_ns, end_ns),
            wait: waits(&spans, &Times::of(run, &order, start_ns)),
            slowest: slowest(&spans),
            failed,
            retried,
            bins: tables.bins,
            usage: tables.usage,
            cache: tables.cache,
            staged: Staged::of(run),
            placements: placements(run, &spans),
            groups: tables.groups,
            ranked,
            curve,
            spans,
            pieces,
        }
    }

    /// From start to end, s.
    pub fn makespan_s(&self) -> f64 {
        seconds(self.end_ns - self.start_ns)
    }

    /// t_accum / (t_elapsed n_cores).
    pub fn utilisation(&self) -> Option<f64> {
        self.share(self.core_s)
    }

    /// The same for the time in which attempts had cores.
    pub fn held(&self) -> Option<f64> {
        self.share(self.held_core_s)
    }

    fn share(&self, core_s: f64) -> Option<f64> {
        share_of_cores(core_s, self.available_core_s).filter(|_| self.end_known)
    }

    /// The critical path's share of the makespan.
    pub fn critical_share(&self) -> Option<f64> {
        let makespan_s = self.makespan_s();
        (self.end_known && makespan_s > 0.0).then(|| seconds(self.critical.work_ns) / makespan_s)
    }

    /// Metadata calls of hub and agents on the file system of the run's folder, for each task of
    /// which an attempt was made.
    pub fn run_file_system_ops_per_task(&self, run: &Run) -> Option<f64> {
        self.per_task(run.ended.as_ref()?.run_file_system_operations?)
    }

    /// The same on all file systems.
    pub fn metadata_ops_per_task(&self, run: &Run) -> Option<f64> {
        self.per_task(run.ended.as_ref()?.metadata_operations?)
    }

    fn per_task(&self, operations: u64) -> Option<f64> {
        (self.counts.run > 0).then(|| operations as f64 / self.counts.run as f64)
    }

    /// Tasks whose nodes were chosen by what is known of them.
    pub fn placed(&self) -> usize {
        self.placements.iter().map(|placement| placement.tasks).sum()
    }

    /// Attempts that count and were followed by another.
    pub fn retries(&self) -> usize {
        self.groups.iter().map(|group| group.retries).sum()
    }

    /// Time since the start, s.
    pub fn since_start_s(&self, ns: i64) -> f64 {
        seconds(ns - self.start_ns)
    }
}

fn limits(run: &Run) -> (i64, i64) {
    let attempts = || run.tasks.iter().flatten().flat_map(|task| &task.attempts);
    let starts = run.invocations.iter().map(|invocation| invocation.started_ns);
    let start_ns = starts
        .chain(attempts().map(|attempt| attempt.started.time_ns))
        .min()
        .unwrap_or(run.started.time_ns);
    if run.ended.is_none() || !run.end_is_known() {
        return (start_ns, run.last_ns.max(start_ns));
    }
    let ends = run.invocations.iter().filter_map(|invocation| invocation.ended_ns);
    let end_ns = ends.chain(attempts().map(|attempt| match &attempt.ended {
        Some(ended) => ended.time_ns,
        None => attempt.started.time_ns,
    }));
    (start_ns, end_ns.max().unwrap_or(start_ns).max(start_ns))
}

fn available_core_s(run: &Run, start_ns: i64, end_ns: i64) -> f64 {
    if run.nodes.is_empty() {
        return seconds(end_ns - start_ns) * f64::from(run.started.cores);
    }
    run.nodes.iter().map(|node| available_s(node, start_ns, end_ns)).sum()
}

fn ranked(groups: &[GroupSummary]) -> Vec<u32> {
    let total_s =
        |&group: &u32| groups[group as usize].durations.map_or(0.0, |durations| durations.total);
    let mut ranked: Vec<u32> = (0..groups.len() as u32).collect();
    ranked.sort_by(|left, right| total_s(right).total_cmp(&total_s(left)).then(left.cmp(right)));
    ranked
}

/// From ready to started, s, of the first attempt of each task that counts.
fn waits(spans: &[Span], times: &Times) -> Option<Distribution> {
    let mut seen = vec![false; times.ready_ns.len()];
    let mut waits = Vec::new();
    for span in spans {
        let index = span.task as usize;
        if !std::mem::replace(&mut seen[index], true) {
            waits.push(seconds((span.start_ns - times.ready_ns[index]).max(0)));
        }
    }
    Distribution::of(&mut waits)
}

fn slowest(spans: &[Span]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    let key = |&index: &u32| {
        let span = &spans[index as usize];
        (std::cmp::Reverse(span.duration_ns()), span.task)
    };
    if order.len() > SLOWEST {
        order.select_nth_unstable_by_key(SLOWEST - 1, key);
        order.truncate(SLOWEST);
    }
    order.sort_by_key(key);
    order
}

/// Tasks that failed, and tasks that were retried; the former are also counted in their groups.
fn failures(run: &Run, spans: &[Span], groups: &mut [GroupSummary]) -> (Vec<u32>, Vec<u32>) {
    let tasks = run.tasks.iter().flatten();
    let failed: Vec<u32> =
        tasks.filter(|task| fate(task) == Fate::Failed).map(|task| task.defined.task).collect();
    let mut retried = Vec::new();
    let mut group_of = std::collections::BTreeMap::new();
    for span in spans {
        if span.ending == Ending::Retried {
            retried.push(span.task);
        }
        group_of.insert(span.task, span.group);
    }
    for task in &failed {
        if let Some(&group) = group_of.get(task) {
            groups[group as usize].failed += 1;
        }
    }
    retried.sort_unstable();
    retried.dedup();
    (failed, retried)
}
