//! The plan as text for people and as JSON for programs (docs/reference/json.md).
//!
//! It knows nothing of the scheduler: the caller hands in what is to be shown.

use std::fmt::Write as _;

use rakuda_proto::Text;
use rakuda_proto::journal::ReasonKind;
use rakuda_record::forecast::{Forecast, PlannedWork, Sharing, forecast, sharing};
use rakuda_record::printable::{printable, shown};
use rakuda_record::words::{duration_in_words, reason_in_words};
use serde::Serialize;

use super::by_rule;
use super::task::{PlannedStream, PlannedTask};
use crate::rerun::state::Change;

/// Version of the JSON form.
const VERSION: u32 = 1;

/// The whole plan.
#[derive(Debug)]
pub struct Document {
    /// Tasks in the order of a serial run. The nameless ones only stand for others.
    tasks: Vec<PlannedTask>,
    cores: u32,
    forecast: Option<Forecast>,
    /// Tasks that would share cores.
    sharing: Vec<Sharing>,
    streams: Vec<PlannedStream>,
}

#[derive(Serialize)]
struct JsonDocument<'a> {
    version: u32,
    tasks: Vec<JsonTask<'a>>,
    would_run: usize,
    tasks_total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<JsonEstimate>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    streams: &'a [PlannedStream],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sharing: Vec<JsonSharing>,
}

#[derive(Serialize)]
struct JsonSharing {
    tasks: Vec<Text>,
    cores_asked: u64,
    cores: u32,
}

#[derive(Serialize)]
struct JsonTask<'a> {
    target: &'a Text,
    would_run: bool,
    action: bool,
    reasons: Vec<JsonReason<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_s: Option<f64>,
}

#[derive(Serialize)]
struct JsonReason<'a> {
    kind: ReasonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonEstimate {
    work_s: f64,
    wall_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_s: Option<f64>,
    critical_path_s: f64,
    cores: u32,
    unknown_tasks: usize,
}

/// The first names of a list.
fn few(names: &[Text]) -> String {
    /// Maximum number of names that are shown of a list.
    const FEW: usize = 4;
    let mut words: Vec<String> = names.iter().take(FEW).map(shown).collect();
    if names.len() > FEW {
        words.push(format!("and {} more", names.len() - FEW));
    }
    words.join(", ")
}

impl Document {
    /// `barriers`: where in the tasks something begins that waits for all before it.
    pub fn new(tasks: Vec<PlannedTask>, barriers: &[u32], cores: u32) -> Self {
        let work: Vec<PlannedWork> = tasks.iter().map(|task| task.work.clone()).collect();
        let (forecast, sharing) = (forecast(&work, barriers, cores), sharing(&work, cores));
        Self { forecast, sharing, tasks, cores, streams: Vec::new() }
    }

    /// With streams whose tasks would run.
    pub fn with_streams(self, streams: Vec<PlannedStream>) -> Self {
        Self { streams, ..self }
    }

    fn named(&self) -> impl Iterator<Item = &PlannedTask> {
        self.tasks.iter().filter(|task| !task.target.0.is_empty())
    }

    /// How many would run, and how many have an action at all.
    fn counts(&self) -> (usize, usize) {
        let would_run = self.named().filter(|task| task.work.runs).count();
        (would_run, self.named().filter(|task| task.action).count())
    }

    fn would_run(&self) -> impl Iterator<Item = &PlannedTask> {
        self.named().filter(|task| task.work.runs)
    }

    /// One line for each task that would run, then the counts and the estimate.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for task in self.would_run() {
            let reasons: Vec<String> = task.reasons.iter().map(change_in_words).collect();
            let _ = writeln!(text, "{}: {}", shown(&task.target), reasons.join("; "));
        }
        text + &self.closing()
    }

    /// The same if it is short; else one line for each rule, and how to see the tasks.
    pub fn short_text(&self) -> String {
        if self.would_run().count() <= by_rule::TASKS_MAX {
            return self.text();
        }
        by_rule::lines(self.would_run()) + &self.closing() + "each task and why: --plan=text\n"
    }

    fn closing(&self) -> String {
        let mut text = String::new();
        let (would_run, total) = self.counts();
        for PlannedStream { name, from, to, live } in &self.streams {
            let how = if *live { "live" } else { "one after the other, over files" };
            let _ = writeln!(text, "stream {}, {how}: {} -> {}", shown(name), few(from), few(to));
        }
        for Sharing { tasks, cores } in &self.sharing {
            let names: Vec<Text> = tasks.iter().map(|task| self.name_of(*task)).collect();
            let _ = writeln!(
                text,
                "{} would share cores: {cores} asked for, {} there",
                few(&names),
                self.cores
            );
        }
        let _ = writeln!(text, "{would_run} of {total} tasks would run");
        if would_run > 0 {
            let _ = writeln!(text, "estimate: {}", self.estimate_in_words());
        }
        text
    }

    fn name_of(&self, task: u32) -> Text {
        self.tasks.get(task as usize).map(|task| task.target.clone()).unwrap_or_default()
    }

    fn estimate_in_words(&self) -> String {
        let Some(forecast) = self.forecast else {
            return "none, as no task of these kinds has been run before".to_owned();
        };
        let words = |ns: u64| duration_in_words(i64::try_from(ns).unwrap_or(i64::MAX));
        let cores =
            if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        let mut text = format!(
            "{} of work, about {} on {cores}",
            words(forecast.work_ns),
            words(forecast.wall_ns)
        );
        if let Some((low_ns, high_ns)) = forecast.range_ns {
            let _ = write!(text, " (probably {} to {})", words(low_ns), words(high_ns));
        }
        let _ = match forecast.unknown_tasks {
            0 => Ok(()),
            1 => write!(text, "; 1 task of a kind never run before is not counted"),
            count => write!(text, "; {count} tasks of kinds never run before are not counted"),
        };
        text
    }

    fn json_sharing(&self, Sharing { tasks, cores }: &Sharing) -> JsonSharing {
        let tasks = tasks.iter().map(|task| self.name_of(*task)).collect();
        JsonSharing { tasks, cores_asked: *cores, cores: self.cores }
    }

    /// One JSON document, and a line feed.
    pub fn json(&self) -> Vec<u8> {
        let (would_run, tasks_total) = self.counts();
        let document = JsonDocument {
            version: VERSION,
            tasks: self.named().map(json_task).collect(),
            would_run,
            tasks_total,
            estimate: self.forecast.map(|forecast| json_estimate(&forecast, self.cores)),
            streams: &self.streams,
            sharing: self.sharing.iter().map(|one| self.json_sharing(one)).collect(),
        };
        let mut bytes =
            serde_json::to_vec(&document).expect("plain data into memory always encodes");
        bytes.push(b'\n');
        bytes
    }
}

fn json_task(task: &PlannedTask) -> JsonTask<'_> {
    let duration = task.work.duration.filter(|_| task.work.runs);
    JsonTask {
        target: &task.target,
        would_run: task.work.runs,
        action: task.action,
        reasons: task.reasons.iter().map(json_reason).collect(),
        rule: task.rule.as_ref(),
        estimate_s: duration.map(|duration| seconds(duration.mean_ns)),
    }
}

fn change_in_words(change: &Change) -> String {
    let text = reason_in_words(&change.reason);
    match &change.detail {
        Some(detail) => format!("{text} ({})", printable(detail.as_bytes())),
        None => text,
    }
}

fn json_reason(change: &Change) -> JsonReason<'_> {
    let reason = &change.reason;
    #[expect(clippy::cast_precision_loss, reason = "a difference of times, in seconds")]
    let by_s = reason.by_ns.map(|ns| ns as f64 / 1e9);
    JsonReason {
        kind: reason.kind,
        path: reason.path.as_ref(),
        by_s,
        detail: change.detail.as_deref(),
    }
}

fn json_estimate(forecast: &Forecast, cores: u32) -> JsonEstimate {
    JsonEstimate {
        work_s: seconds(forecast.work_ns),
        wall_s: seconds(forecast.wall_ns),
        low_s: forecast.range_ns.map(|(low_ns, _)| seconds(low_ns)),
        high_s: forecast.range_ns.map(|(_, high_ns)| seconds(high_ns)),
        critical_path_s: seconds(forecast.critical_ns),
        cores,
        unknown_tasks: forecast.unknown_tasks,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate, in seconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
