//! Two runs beside each other: which rules became slower or faster, and whether that is more than their scatter.
//!
//! Rules are matched by place, then by program. It does not know how the comparison is shown, but as text and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::report::format::{count, percent, seconds};
use crate::report::text::{fitted, makespan, shown};
use crate::report::{Report, json};
use crate::summary::seconds as of_ns;
use crate::summary::spans::Ending;
use crate::summary::tables::GroupSummary;

/// Maximum number of names in a list of tasks that ran in one run only.
pub const LISTED_MAX: usize = 20;

/// Minimum number of attempts, in either run. Fewer do not enclose the median with 95 % even from the smallest to the
/// largest: 1 − 2 · 2⁻⁶ is 97 %, 1 − 2 · 2⁻⁵ is 94 %.
pub const ATTEMPTS_MIN: usize = 6;

/// A ratio and where it lies with about 95 %, judged from the scatter of both runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Second run over first.
    pub value: f64,
    /// Its interval. `None`: there are fewer than [`ATTEMPTS_MIN`] attempts in one of them.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Of the medians of two rules: the interval is that of the quotient of the medians' intervals,
    /// so it is on the wide side.
    fn of(first: &GroupSummary, second: &GroupSummary) -> Option<Self> {
        let (first, second) = (first.durations?, second.durations?);
        let ((low, high), (other_low, other_high)) =
            (first.median_interval, second.median_interval);
        let enough = first.count.min(second.count) >= ATTEMPTS_MIN;
        (low > 0.0 && first.median > 0.0).then(|| Self {
            value: second.median / first.median,
            interval: enough.then_some((other_low / high, other_high / low)),
        })
    }

    /// One word on it.
    pub fn verdict(&self) -> &'static str {
        match self.interval {
            None => "too few to tell",
            Some((low, _)) if low > 1.0 => "slower",
            Some((_, high)) if high < 1.0 => "faster",
            Some(_) => "within scatter",
        }
    }
}

/// A rule of either run, or of both.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// In the first run.
    pub first: Option<&'a GroupSummary>,
    /// In the second.
    pub second: Option<&'a GroupSummary>,
}

impl Pair<'_> {
    /// The label, of the second run when it is in both.
    pub fn label(&self) -> String {
        self.second.or(self.first).map(|row| row.group.label()).unwrap_or_default()
    }

    /// Of the medians.
    pub fn ratio(&self) -> Option<Ratio> {
        Ratio::of(self.first?, self.second?)
    }
}

/// Two runs.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The run that is compared with.
    pub first: Report<'a>,
    /// The run that is looked at.
    pub second: Report<'a>,
    /// Their rules, by total time in either.
    pub pairs: Vec<Pair<'a>>,
    /// How many tasks succeeded in the first only, and names of some.
    pub only_first: (usize, Vec<String>),
    /// The same for the second.
    pub only_second: (usize, Vec<String>),
}

impl<'a> Comparison<'a> {
    /// Of these.
    pub fn of(first: Report<'a>, second: Report<'a>) -> Self {
        let (left, right) = (ran(&first), ran(&second));
        Self {
            pairs: pairs(&first.summary.groups, &second.summary.groups),
            only_first: only(&left, &right),
            only_second: only(&right, &left),
            first,
            second,
        }
    }
}

fn ran(report: &Report) -> BTreeSet<String> {
    let done = report.summary.spans.iter().filter(|span| span.ending == Ending::Done);
    done.map(|span| report.name(span.task)).collect()
}

fn only(of: &BTreeSet<String>, other: &BTreeSet<String>) -> (usize, Vec<String>) {
    let names = || of.difference(other);
    (names().count(), names().take(LISTED_MAX).cloned().collect())
}

fn pairs<'a>(first: &'a [GroupSummary], second: &'a [GroupSummary]) -> Vec<Pair<'a>> {
    let mut matched = vec![None; first.len()];
    let mut pairs = Vec::new();
    let mut left_over = Vec::new();
    let by_place: BTreeMap<&str, usize> = first
        .iter()
        .zip(0..)
        .filter_map(|(row, index)| Some((row.group.known_by()?, index)))
        .collect();
    for row in second {
        let index = row.group.known_by().and_then(|place| by_place.get(place).copied());
        // Whatever most of several places run, they are one rule.
        let is_same = |index: &usize| {
            row.group.places.is_some() || first[*index].group.program == row.group.program
        };
        match index.filter(is_same) {
            Some(index) => {
                matched[index] = Some(());
                pairs.push(Pair { first: Some(&first[index]), second: Some(row) });
            }
            None => left_over.push(row),
        }
    }
    for row in left_over {
        let same = |index: &usize| {
            matched[*index].is_none() && first[*index].group.program == row.group.program
        };
        let index = (0..first.len()).find(same);
        if let Some(index) = index {
            matched[index] = Some(());
        }
        pairs.push(Pair { first: index.map(|index| &first[index]), second: Some(row) });
    }
    let unmatched = first.iter().zip(&matched).filter(|(_, matched)| matched.is_none());
    pairs.extend(unmatched.map(|(row, _)| Pair { first: Some(row), second: None }));
    let total_s = |row: Option<&GroupSummary>| {
        row.and_then(|row| row.durations).map_or(0.0, |durations| durations.total)
    };
    let weight = |pair: &Pair| total_s(pair.first).max(total_s(pair.second));
    pairs.sort_by(|left, right| weight(right).total_cmp(&weight(left)));
    pairs
}

/// What is compared beside rules: name, and how each run has it.
pub fn facts(comparison: &Comparison) -> Vec<(&'static str, [String; 2])> {
    let both = |of: &dyn Fn(&Report) -> String| [of(&comparison.first), of(&comparison.second)];
    vec![
        ("state", both(&|report| report.summary.state.word().to_owned())),
        ("command", both(&|report| report.command_line())),
        ("policy", both(&|report| report.run.started.policy.clone())),
        ("makespan", both(&makespan)),
        (
            "utilisation",
            both(&|report| report.summary.utilisation().map_or("–".to_owned(), percent)),
        ),
        ("cores", both(&|report| json::cores(report).to_string())),
        ("core time", both(&|report| seconds(report.summary.core_s))),
        ("critical path", both(&|report| seconds(of_ns(report.summary.critical.work_ns)))),
        ("tasks run", both(&|report| count(report.summary.counts.run))),
        ("failed", both(&|report| count(report.summary.counts.failed))),
    ]
}

/// Second makespan over first, when both are known.
pub fn makespan_ratio(comparison: &Comparison) -> Option<f64> {
    let (first, second) =
        (comparison.first.summary.makespan_s(), comparison.second.summary.makespan_s());
    let known = comparison.first.summary.end_known && comparison.second.summary.end_known;
    (known && first > 0.0).then(|| second / first)
}

/// For a terminal.
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let names =
        [&comparison.first, &comparison.second].map(|report| shown(&report.run.started.run));
    let _ = writeln!(out, "{:<16} {:<36} {}", "run", names[0], names[1]);
    for (name, [first, second]) in facts(comparison) {
        let _ = writeln!(out, "{name:<16} {:<36} {}", fitted(&first, 36), shown(&second));
    }
    if let Some(ratio) = makespan_ratio(comparison) {
        let _ = writeln!(out, "{:<16} {ratio:.3} times the first", "makespan");
    }
    let _ = writeln!(
        out,
        "\n{:<32} {:>15} {:>21} {:>6} {:>15}  verdict",
        "rule", "tasks", "median", "ratio", "interval"
    );
    for pair in comparison.pairs.iter().take(40) {
        row(&mut out, pair);
    }
    if comparison.pairs.len() > 40 {
        let _ = writeln!(out, "… and {} more rules", comparison.pairs.len() - 40);
    }
    for (which, (number, listed)) in
        [("first", &comparison.only_first), ("second", &comparison.only_second)]
    {
        if *number > 0 {
            let _ = writeln!(out, "\nran in the {which} run only: {}", count(*number));
            for name in listed {
                let _ = writeln!(out, "  {}", shown(name));
            }
        }
    }
    out
}

fn row(out: &mut String, pair: &Pair) {
    let both = |of: &dyn Fn(&GroupSummary) -> String| {
        let one = |row: Option<&GroupSummary>| row.map_or("–".to_owned(), of);
        format!("{} → {}", one(pair.first), one(pair.second))
    };
    let median =
        |row: &GroupSummary| row.durations.map_or("–".to_owned(), |times| seconds(times.median));
    let (ratio, interval, verdict) = match pair.ratio() {
        Some(ratio) => (
            format!("{:.2}", ratio.value),
            ratio.interval.map_or_else(String::new, |(low, high)| format!("{low:.2} to {high:.2}")),
            ratio.verdict(),
        ),
        None => (String::new(), String::new(), only_in(pair)),
    };
    let _ = writeln!(
        out,
        "{} {:>15} {:>21} {ratio:>6} {interval:>15}  {verdict}",
        fitted(&pair.label(), 32),
        both(&|row| count(row.tasks)),
        both(&median),
    );
}

/// For a rule without a ratio.
pub fn only_in(pair: &Pair) -> &'static str {
    match (pair.first, pair.second) {
        (None, _) => "second run only",
        (_, None) => "first run only",
        _ => "not comparable",
    }
}

/// As JSON: both summaries, and the rules side by side.
pub fn json(comparison: &Comparison) -> Value {
    let rules: Vec<Value> = comparison.pairs.iter().map(rule).collect();
    let only = |(number, names): &(usize, Vec<String>)| json!({"tasks": number, "some": names});
    let mut object = json!({
        "version": json::VERSION,
        "first": json::summary(&comparison.first),
        "second": json::summary(&comparison.second),
        "rules": rules,
        "only_first": only(&comparison.only_first),
        "only_second": only(&comparison.only_second),
    });
    if let Some(ratio) = makespan_ratio(comparison) {
        object["makespan_ratio"] = ratio.into();
    }
    object
}

fn rule(pair: &Pair) -> Value {
    let mut object = json!({"label": pair.label()});
    for (name, row) in [("first", pair.first), ("second", pair.second)] {
        if let Some(times) = row.and_then(|row| row.durations) {
            object[name] = json::distribution(&times);
        }
    }
    if let Some(ratio) = pair.ratio() {
        object["median_ratio"] = ratio.value.into();
        if let Some((low, high)) = ratio.interval {
            object["median_ratio_interval"] = json!([low, high]);
        }
        object["verdict"] = ratio.verdict().into();
    }
    object
}
