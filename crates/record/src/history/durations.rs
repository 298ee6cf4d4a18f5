//! How long tasks took, to say how long they will take. From the same target when that is at hand, else from tasks of
//! the same rule, else from names of the same pattern; else nothing is said.
//!
//! A rule is the same when it stands at the same place and its actions have the same source: the same line of a
//! Rakefile that was changed, or of another one, may do something else.

use std::collections::HashMap;
use std::io;

use rakuda_proto::Text;
use rakuda_proto::journal::{JournalEvent, Outcome};

use super::summary::{RuleSummary, RunSummary};
use crate::folder::{Records, RunFolder};
use crate::reader::{ReadError, Wanted, read_wanted};
use crate::run::held::{of_ended, total_ns};

/// Maximum number of rules and patterns that are kept, in a summary or in memory.
const GROUPS_MAX: usize = 4096;
/// Maximum number of summaries that are read: newer runs are more like the next one.
const SUMMARIES: usize = 20;

/// What an estimate rests on; the better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The same target in an earlier run.
    Target,
    /// Tasks of the same rule.
    Rule,
    /// Tasks with a name of the same pattern.
    Pattern,
}

/// How long a task will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Mean.
    pub mean_ns: u64,
    /// Standard deviation; 0 when there is one measurement only.
    pub deviation_ns: u64,
    /// Measurements.
    pub count: u64,
    /// What it rests on.
    pub from: Basis,
}

/// Durations as they come in, in constant memory: Welford's method, in floating point, since nothing is decided by it.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
    max: u64,
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "estimates: a mean of durations is positive, and its 16th digit does not count"
)]
impl Moments {
    fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        let delta = duration_ns as f64 - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (duration_ns as f64 - self.mean);
        self.max = self.max.max(duration_ns);
    }

    /// Chan, Golub, LeVeque (1979): the moments of two samples together.
    fn join(&mut self, other: Self) {
        let count = self.count + other.count;
        if other.count == 0 {
            return;
        }
        let delta = other.mean - self.mean;
        self.squares +=
            other.squares + delta * delta * (self.count as f64 * other.count as f64 / count as f64);
        self.mean += delta * (other.count as f64 / count as f64);
        self.count = count;
        self.max = self.max.max(other.max);
    }

    fn deviation_ns(self) -> u64 {
        if self.count < 2 { 0 } else { (self.squares / (self.count - 1) as f64).sqrt() as u64 }
    }

    fn of(rule: &RuleSummary) -> Self {
        let deviation = rule.deviation_ns as f64;
        let squares = deviation * deviation * rule.count.saturating_sub(1) as f64;
        Self { count: rule.count, mean: rule.mean_ns as f64, squares, max: rule.max_ns }
    }

    fn estimate(self, from: Basis) -> Option<Estimate> {
        (self.count > 0).then(|| Estimate {
            mean_ns: self.mean as u64,
            deviation_ns: self.deviation_ns(),
            count: self.count,
            from,
        })
    }
}

/// A rule, as one run knows it from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRule<'a> {
    /// Where its actions stand, `Rakefile:12`.
    pub location: &'a Text,
    /// Digest of their source. `None`: it is not known. Such a rule is the same only as another one whose digest is not
    /// known either.
    pub source: Option<&'a str>,
}

/// Place and digest of a rule.
type RuleKey = (Text, Option<Box<str>>);

impl KnownRule<'_> {
    fn key(&self) -> RuleKey {
        (self.location.clone(), self.source.map(Box::from))
    }
}

/// Collects a run's durations for its summary.
#[derive(Debug, Clone, Default)]
pub struct DurationTable {
    groups: HashMap<(Option<RuleKey>, Text), Moments>,
}

impl DurationTable {
    /// An attempt of the task `name` of a rule ended well after `duration_ns`.
    pub fn add(&mut self, rule: Option<KnownRule<'_>>, name: &Text, duration_ns: u64) {
        let key = (rule.map(|rule| rule.key()), pattern_of(name));
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&key) {
            self.groups.entry(key).or_default().add(duration_ns);
        }
    }

    /// For the summary, in order of location and pattern.
    #[allow(clippy::cast_sign_loss, reason = "a mean of durations is positive")]
    pub fn rules(&self) -> Vec<RuleSummary> {
        let mut keys: Vec<_> = self.groups.keys().collect();
        keys.sort();
        let summary = |key: &(Option<RuleKey>, Text)| {
            let moments = self.groups[key];
            let (location, source) = key.0.clone().unzip();
            RuleSummary {
                location,
                source: source.flatten().map(Into::into),
                pattern: key.1.clone(),
                count: moments.count,
                mean_ns: moments.mean as u64,
                deviation_ns: moments.deviation_ns(),
                max_ns: moments.max,
            }
        };
        keys.into_iter().map(summary).collect()
    }
}

/// Durations of earlier runs.
#[derive(Debug, Clone, Default)]
pub struct Durations {
    /// By name, of the newest run that was asked for exact targets.
    targets: HashMap<Text, u64>,
    /// Likewise of those that ran with others of a gang: cores that these asked for, for each that there was,
    /// thousandths.
    shared_milli: HashMap<Text, u64>,
    rules: HashMap<RuleKey, Moments>,
    patterns: HashMap<Text, Moments>,
}

impl Durations {
    /// What the summaries of the newest runs say: a few milliseconds, whatever the size of the runs.
    ///
    /// # Errors
    /// When the folder of runs cannot be listed.
    pub fn of_summaries(records: &Records) -> io::Result<Self> {
        let mut durations = Self::default();
        let folders = records.folders()?;
        let summaries = folders.iter().filter_map(|folder| RunSummary::read(&folder.path));
        for summary in summaries.take(SUMMARIES) {
            durations.add_summary(&summary);
        }
        Ok(durations)
    }

    /// One more run's.
    pub fn add_summary(&mut self, summary: &RunSummary) {
        for rule in &summary.rules {
            let moments = Moments::of(rule);
            let known = self.patterns.len() + self.rules.len() < 2 * GROUPS_MAX;
            let key = rule
                .location
                .as_ref()
                .map(|location| KnownRule { location, source: rule.source.as_deref() }.key());
            if let Some(key) = key.filter(|key| known || self.rules.contains_key(key)) {
                self.rules.entry(key).or_default().join(moments);
            }
            if known || self.patterns.contains_key(&rule.pattern) {
                self.patterns.entry(rule.pattern.clone()).or_default().join(moments);
            }
        }
    }

    /// Adds the exact durations of targets from a run's journal, of the names that are `wanted`.
    /// Takes seconds for a run of a million tasks.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn add_targets(
        &mut self,
        run: &RunFolder,
        wanted: impl Fn(&Text) -> bool,
    ) -> Result<(), ReadError> {
        let events = Wanted::TASK_DEFINED
            .and(Wanted::GANG_STARTED)
            .and(Wanted::ATTEMPT_STARTED)
            .and(Wanted::ATTEMPT_ENDED);
        let mut names = HashMap::new();
        let mut started = HashMap::new();
        read_wanted(run.open_journal()?, events, |event, _| match event {
            JournalEvent::TaskDefined(defined) if wanted(&defined.name) => {
                names.insert(defined.task, defined.name);
            }
            JournalEvent::GangStarted(gang) => {
                let milli = match gang.cores {
                    Some(cores) => cores.asked.saturating_mul(1_000) / cores.there.max(1),
                    None if gang.oversubscribed => 0,
                    None => 1_000,
                };
                for name in gang.tasks.iter().filter_map(|task| names.get(task)) {
                    self.shared_milli.insert(Text::clone(name), milli);
                }
            }
            JournalEvent::AttemptStarted(attempt) if names.contains_key(&attempt.task) => {
                started.insert(attempt.task, attempt.time_ns);
            }
            JournalEvent::AttemptEnded(ended) => {
                if let Some(start_ns) = started.remove(&ended.task)
                    && ended.outcome == Outcome::Done
                    && let Some(name) = names.get(&ended.task)
                {
                    let duration_ns = total_ns(&of_ended(start_ns, &ended));
                    self.targets.insert(name.clone(), duration_ns);
                }
            }
            _ => {}
        })?;
        Ok(())
    }

    /// How many cores were asked for, for each that there was, thousandths, where the task `name` ran with others of a
    /// gang and its estimate rests on that; 0: not known.
    pub fn shared_milli(&self, name: &Text) -> u64 {
        let known = self.shared_milli.get(name).filter(|_| self.targets.contains_key(name));
        known.copied().unwrap_or(0)
    }

    /// How long the task `name` of a rule will take. `None`: nothing like it has ever ended well.
    pub fn estimate(&self, name: &Text, rule: Option<KnownRule<'_>>) -> Option<Estimate> {
        if let Some(duration_ns) = self.targets.get(name) {
            return Some(Estimate {
                mean_ns: *duration_ns,
                deviation_ns: 0,
                count: 1,
                from: Basis::Target,
            });
        }
        if let Some(moments) = rule.and_then(|rule| self.rules.get(&rule.key())) {
            return moments.estimate(Basis::Rule);
        }
        self.patterns.get(&pattern_of(name))?.estimate(Basis::Pattern)
    }
}

/// The common form of names like this one: every run of digits as `#`.
pub fn pattern_of(name: &Text) -> Text {
    let mut pattern = Vec::with_capacity(name.0.len());
    for byte in &name.0 {
        if !byte.is_ascii_digit() {
            pattern.push(*byte);
        } else if pattern.last() != Some(&b'#') {
            pattern.push(b'#');
        }
    }
    Text(pattern)
}
