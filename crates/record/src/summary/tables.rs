//! The rows of a summary's tables: groups of tasks, nodes, failures.
//!
//! It does not know how they are shown.

use std::collections::BTreeMap;

use crate::run::{Attempt, Command, Run};
use crate::summary::curve::Curve;
use crate::summary::groups::{Group, Groups};
use crate::summary::io::{Bytes, Cache};
use crate::summary::spans::{Ending, Span, Use};
use crate::summary::stats::{Distribution, LogBins};
use crate::summary::{seconds, seconds_us};

/// What the commands of some attempts used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Commands that were started.
    pub commands: usize,
    /// CPU time in user mode, s.
    pub user_s: f64,
    /// CPU time in the kernel, s.
    pub system_s: f64,
    /// Largest known resident set of any one process. `None`: it is known of no process.
    pub rss_bytes_max: Option<u64>,
    /// Bytes read and written.
    pub bytes: Bytes,
}

impl Usage {
    /// Of these commands. `None`: there are none.
    pub fn of<'a>(commands: impl Iterator<Item = &'a Command>) -> Option<Self> {
        let mut usage = Self::default();
        commands.for_each(|command| usage.add(command));
        (usage.commands > 0).then_some(usage)
    }

    fn add(&mut self, command: &Command) {
        self.commands += 1;
        if let Some(ended) = &command.ended {
            self.user_s += seconds_us(ended.user_us);
            self.system_s += seconds_us(ended.system_us);
            self.rss_bytes_max = self.rss_bytes_max.max(ended.rss_bytes());
            self.bytes.read += ended.read_bytes;
            self.bytes.written += ended.write_bytes;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.commands += other.commands;
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.rss_bytes_max = self.rss_bytes_max.max(other.rss_bytes_max);
        self.bytes.read += other.bytes.read;
        self.bytes.written += other.bytes.written;
    }
}

/// The commands of an attempt.
pub fn commands<'a>(run: &'a Run, attempt: &'a Attempt) -> impl Iterator<Item = &'a Command> {
    attempt.commands.iter().filter_map(|&number| run.commands.get(number as usize)?.as_ref())
}

/// The tasks of one place of the Rakefile.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSummary {
    /// Place and program.
    pub group: Group,
    /// Tasks with an attempt.
    pub tasks: usize,
    /// Tasks among them that failed.
    pub failed: usize,
    /// Attempts after which another one was to follow.
    pub retries: usize,
    /// Time of the attempts, s; without those that had not ended.
    pub durations: Option<Distribution>,
    /// How many took how long, on [`Summary::bins`](crate::summary::Summary::bins).
    pub histogram: Vec<u32>,
    /// What its commands used.
    pub usage: Usage,
    /// Input in memory.
    pub cache: Cache,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// Cores that tasks may use.
    pub cores: u32,
    /// When it was lost, s after the start.
    pub lost_s: Option<f64>,
    /// Attempts.
    pub attempts: usize,
    /// Of these failed, aborted, retried.
    pub failed: usize,
    /// Time of processes weighed with their cores, s.
    pub core_s: f64,
    /// Share of what its cores could do.
    pub utilisation: Option<f64>,
    /// What its commands used.
    pub usage: Usage,
}

impl NodeSummary {
    /// It had no cores for tasks, and ran none: the hub's machine when there are others.
    pub fn is_spare(&self) -> bool {
        self.cores == 0 && self.attempts == 0
    }
}

/// Groups and the whole, in one pass over the attempts.
#[derive(Debug, Default)]
pub struct Tables {
    /// By number of the group.
    pub groups: Vec<GroupSummary>,
    /// Axis of their histograms.
    pub bins: Option<LogBins>,
    /// Of all nodes, by number.
    pub nodes: Vec<Usage>,
    /// Attempts of each node: all, and those that did not end well.
    pub attempts: Vec<(usize, usize)>,
    /// Of the whole run.
    pub usage: Usage,
    /// Of the whole run.
    pub cache: Cache,
}

impl Tables {
    /// Of these attempts. `failed` of the groups is left 0.
    pub fn of(run: &Run, groups: Groups, spans: &[Span]) -> Self {
        let mut tables = Self::default();
        let mut durations = vec![Vec::new(); groups.list.len()];
        let mut usages = vec![(Usage::default(), Cache::default()); groups.list.len()];
        for span in spans {
            let (usage, cache) = &mut usages[span.group as usize];
            tables.add(run, span, usage, cache);
            if span.ending != Ending::Open {
                durations[span.group as usize].push(seconds(span.duration_ns()));
            }
        }
        let of_all: Vec<f64> = durations.iter().flatten().copied().collect();
        let min = of_all.iter().copied().min_by(f64::total_cmp);
        let max = of_all.iter().copied().max_by(f64::total_cmp);
        tables.bins = min.zip(max).map(|(min, max)| LogBins::around(min, max));
        let counts = counts(run, spans, groups.list.len());
        for ((group, durations), ((usage, cache), (tasks, retries))) in
            groups.list.into_iter().zip(&mut durations).zip(usages.into_iter().zip(counts))
        {
            tables.usage.merge(&usage);
            tables.cache.merge(&cache);
            let histogram = tables.bins.map(|bins| bins.histogram(durations)).unwrap_or_default();
            let durations = Distribution::of(durations);
            tables.groups.push(GroupSummary {
                group,
                tasks,
                failed: 0,
                retries,
                durations,
                histogram,
                usage,
                cache,
            });
        }
        tables
    }

    fn add(&mut self, run: &Run, span: &Span, usage: &mut Usage, cache: &mut Cache) {
        let Some(task) = &run.tasks[span.task as usize] else { return };
        let mut own = Usage::default();
        for command in commands(run, &task.attempts[span.attempt as usize]) {
            own.add(command);
        }
        usage.merge(&own);
        if own.commands > 0 && span.ending != Ending::Open {
            cache.add(run, span, own.bytes.read);
        }
        let node = (span.node as usize).min(run.nodes.len());
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Usage::default);
            self.attempts.resize(node + 1, (0, 0));
        }
        self.nodes[node].merge(&own);
        self.attempts[node].0 += 1;
        self.attempts[node].1 += usize::from(!matches!(span.ending, Ending::Done | Ending::Open));
    }

    /// Rows for the nodes; with the time in which processes used cores there.
    pub fn nodes(&self, run: &Run, uses: &[Use], curve: &Curve, end_ns: i64) -> Vec<NodeSummary> {
        let mut core_s: BTreeMap<u32, f64> = BTreeMap::new();
        for part in uses {
            *core_s.entry(part.node).or_default() += part.core_s();
        }
        let row = |(node, index): (&crate::run::Node, usize)| {
            let core_s = core_s.get(&(index as u32)).copied().unwrap_or_default();
            let (attempts, failed) = self.attempts.get(index).copied().unwrap_or_default();
            let available_s = available_s(node, curve.start_ns, end_ns);
            NodeSummary {
                name: node.joined.name.to_display(),
                cores: node.joined.cores,
                lost_s: node.lost_ns.map(|lost_ns| seconds(lost_ns - curve.start_ns)),
                attempts,
                failed,
                core_s,
                utilisation: share_of_cores(core_s, available_s).filter(|_| run.end_is_known()),
                usage: self.nodes.get(index).copied().unwrap_or_default(),
            }
        };
        run.nodes.iter().zip(0..).map(row).collect()
    }
}

/// What the cores of a node could do between these times, s.
pub fn available_s(node: &crate::run::Node, start_ns: i64, end_ns: i64) -> f64 {
    let from_ns = node.joined.time_ns.max(start_ns);
    let to_ns = [node.lost_ns, node.released_ns].into_iter().flatten().fold(end_ns, i64::min);
    seconds((to_ns - from_ns - node.absent_ns).max(0)) * f64::from(node.joined.cores)
}

/// What was used of what cores could do; at most 1, as cores that do not exist are not used. `None` if there was none.
pub fn share_of_cores(core_s: f64, available_s: f64) -> Option<f64> {
    (available_s > 0.0).then(|| (core_s / available_s).min(1.0))
}

/// Tasks and retries of each group.
fn counts(run: &Run, spans: &[Span], groups: usize) -> Vec<(usize, usize)> {
    let mut counts = vec![(0, 0); groups];
    let mut seen = vec![false; run.tasks.len()];
    for span in spans {
        let (tasks, retries) = &mut counts[span.group as usize];
        let again = std::mem::replace(&mut seen[span.task as usize], true);
        *tasks += usize::from(!again);
        *retries += usize::from(span.ending == Ending::Retried);
    }
    counts
}
