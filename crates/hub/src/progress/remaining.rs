//! Which tasks are still to come, and of which kinds they are: counted once, then kept up as tasks are settled.
//!
//! A kind is a rule and a pattern of names (runs of digits alike). How long tasks of a kind take is
//! learnt from this run, and at first from earlier ones. The forecast itself is the core's.

use std::collections::BTreeMap;

use rakuda_core::{Now, Scheduler, TaskId};
use rakuda_proto::Text;
use rakuda_record::history::{Durations, KnownRule, pattern_of};

use crate::names::Names;
use crate::progress::by_rule::ByRule;
use crate::progress::estimate::{KindLeft, Known};
use crate::record::Record;

/// Maximum number of names that are looked at in one go.
const NAMES_MAX: usize = 50_000;
/// Maximum number of tasks up to which the forecast is made anew whenever tasks were added. With more tasks it is made
/// when their number has grown by a sixteenth.
const SMALL: usize = 20_000;
/// Minimum number of measurements of this run at which they replace those of earlier ones.
const OWN_MIN: u64 = 5;
const NO_KIND: u32 = u32::MAX;

/// Tasks of one rule and pattern.
#[derive(Debug, Default)]
struct Kind {
    /// One of them, to ask earlier runs about.
    example: Text,
    /// Their rule: where it stands, and the digest of its source.
    rule: Option<(Text, Option<String>)>,
    remaining: u64,
    count: u64,
    mean_ns: f64,
    /// Sum of squared distances from the mean (Welford).
    squares: f64,
    /// Of earlier runs.
    earlier: Option<Known>,
}

impl Kind {
    fn ask(&mut self, earlier: &Durations) {
        let rule = self.rule.as_ref();
        let rule = rule.map(|(location, source)| KnownRule { location, source: source.as_deref() });
        let estimate = earlier.estimate(&self.example, rule);
        self.earlier = estimate.map(|estimate| Known {
            mean_ns: estimate.mean_ns as f64,
            deviation_ns: estimate.deviation_ns as f64,
            count: estimate.count,
        });
    }

    fn known(&self) -> Option<Known> {
        let own = (self.count > 0).then(|| Known {
            mean_ns: self.mean_ns,
            deviation_ns: (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt(),
            count: self.count,
        });
        if self.count >= OWN_MIN { own } else { self.earlier.or(own) }
    }
}

/// What is still to come.
#[derive(Debug, Default)]
pub(crate) struct Remaining {
    /// By task: an action of it runs or is thought to run yet.
    expected: Vec<bool>,
    /// How many of them are.
    count: usize,
    kinds: Vec<Kind>,
    /// By rule and pattern.
    kind_numbers: BTreeMap<(u32, Text), u32>,
    /// By task, as far as names have been looked at.
    kind_of: Vec<u32>,
    by_rule: ByRule,
    earlier: Option<Durations>,
}

impl Remaining {
    /// How many tasks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What earlier runs tell.
    pub fn set_earlier(&mut self, durations: Durations) {
        for kind in &mut self.kinds {
            kind.ask(&durations);
        }
        self.earlier = Some(durations);
    }

    /// How many tasks each rule has.
    pub fn by_rule(&self) -> &ByRule {
        &self.by_rule
    }

    /// A task of this rule that was done is to be made again.
    pub fn on_reopened(&mut self, rule: u32) {
        self.by_rule.on_reopened(rule);
    }

    /// A task of this rule is settled; `is_over`: it counts as one of the run's.
    pub fn on_settled(&mut self, id: TaskId, rule: u32, is_over: bool) {
        if is_over {
            self.by_rule.on_over(rule);
        }
        let index = id.0 as usize;
        if self.expected.get(index) != Some(&true) {
            return;
        }
        self.expected[index] = false;
        self.count -= 1;
        self.by_rule.on_settled(rule);
        if let Some(kind) = self.kind_of.get(index).filter(|kind| **kind != NO_KIND) {
            self.kinds[*kind as usize].remaining -= 1;
        }
    }

    /// An attempt ended well after this time.
    pub fn on_duration(&mut self, id: TaskId, names: &Names, record: &Record, took_ns: u64) {
        let index = match self.kind_of.get(id.0 as usize) {
            Some(kind) if *kind != NO_KIND => *kind,
            _ => self.kind_number(id, names, record),
        };
        let (kind, took_ns) = (&mut self.kinds[index as usize], took_ns as f64);
        kind.count += 1;
        let distance = took_ns - kind.mean_ns;
        kind.mean_ns += distance / kind.count as f64;
        kind.squares += distance * (took_ns - kind.mean_ns);
    }

    /// Takes tasks in that were defined since, and looks at some more names. `false`: there are names left to look at.
    pub fn refresh(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        record: &Record,
        now: Now,
    ) -> bool {
        let (len, before) = (scheduler.tasks_len(), self.expected.len());
        if len > before {
            if len <= SMALL || len > before + before / 16 {
                self.expected = scheduler.forecast(now);
                self.count = self.expected.iter().filter(|expected| **expected).count();
                self.by_rule.forget_left();
                for id in (0..).zip(&self.expected).filter_map(|(id, is)| is.then_some(id)) {
                    self.by_rule.on_expected(record.rule_of(TaskId(id)));
                }
                self.kind_of.clear();
                self.kinds.iter_mut().for_each(|kind| kind.remaining = 0);
            } else {
                for index in before..len {
                    let id = TaskId(index as u32);
                    let acts = scheduler.has_action(id);
                    self.expected.push(acts);
                    self.count += usize::from(acts);
                    if acts {
                        self.by_rule.on_expected(record.rule_of(id));
                    }
                }
            }
        }
        let end = len.min(self.kind_of.len() + NAMES_MAX);
        for index in self.kind_of.len()..end {
            let kind = if self.expected[index] {
                let id = TaskId(index as u32);
                let kind = self.kind_number(id, names, record);
                self.kinds[kind as usize].remaining += 1;
                self.by_rule.on_name(record.rule_of(id), names.name(id));
                kind
            } else {
                NO_KIND
            };
            self.kind_of.push(kind);
        }
        end == len
    }

    fn kind_number(&mut self, id: TaskId, names: &Names, record: &Record) -> u32 {
        let name = Text(names.name(id).to_vec());
        let key = (record.rule_of(id), pattern_of(&name));
        if let Some(number) = self.kind_numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.kinds.len()).expect("fewer kinds than tasks");
        let rule = record.known_rule(id);
        let rule = rule.map(|rule| (rule.location.clone(), rule.source.map(str::to_owned)));
        let mut kind = Kind { example: name, rule, ..Kind::default() };
        if let Some(earlier) = &self.earlier {
            kind.ask(earlier);
        }
        self.kinds.push(kind);
        self.kind_numbers.insert(key, number);
        number
    }

    /// What is known of how long a task takes.
    pub fn known(&self, id: TaskId) -> Option<Known> {
        let kind = self.kind_of.get(id.0 as usize).filter(|kind| **kind != NO_KIND)?;
        self.kinds[*kind as usize].known()
    }

    /// All kinds of which tasks are to come.
    pub fn kinds(&self) -> Vec<KindLeft> {
        let left = self.kinds.iter().filter(|kind| kind.remaining > 0);
        left.map(|kind| KindLeft { remaining: kind.remaining, known: kind.known() }).collect()
    }
}
