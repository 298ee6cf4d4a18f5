//! A run that is read while it goes on, and what `rakudactl top` and the live page get of it.
//!
//! All figures are those of [`crate::summary`]; this part adds which tasks have changed, and the form of what a page
//! gets. It asks no hub, reads no file and no clock.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures are shown with a few digits; counts are far below 2^53"
)]

mod detail;
mod pictures;
mod rows;
pub mod told;

use std::collections::BTreeSet;

use rakuda_proto::journal::JournalEvent;
use serde_json::{Value, json};

use crate::Run;
use crate::summary::groups::Groups;
use crate::summary::rule_counts::RuleCounts;
use crate::summary::streams::StreamState;
use crate::sync::{Round, SyncFigures};

pub use detail::detail;
pub use pictures::pictures;
pub use rows::{row, rule_key, start_ns};

/// Maximum number of rounds that a page gets.
const ROUNDS_MAX: usize = 100;

/// A run, and the tasks to which something has happened since it was last asked.
#[derive(Debug, Default)]
pub struct LiveRun {
    /// As far as its journal was read.
    pub run: Run,
    changed: BTreeSet<u32>,
}

impl LiveRun {
    /// Takes one more event.
    pub fn add(&mut self, event: JournalEvent) {
        let task = match &event {
            JournalEvent::TaskDefined(event) => Some(event.task),
            JournalEvent::AttemptStarted(event) => Some(event.task),
            JournalEvent::AttemptEnded(event) => Some(event.task),
            JournalEvent::TaskSettled(event) => Some(event.task),
            JournalEvent::TaskReopened(event) => Some(event.task),
            JournalEvent::CommandStarted(event) => event.task,
            JournalEvent::CommandEnded(event) => {
                let command = self.run.commands.get(event.command as usize);
                command.and_then(|command| command.as_ref()?.started.task)
            }
            _ => None,
        };
        self.changed.extend(task);
        self.run.add(event);
    }

    /// The tasks to which something has happened, by number.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }
}

/// Processors that commands keep busy now: those of attempts of which a command goes on, as the curve of running
/// processes counts them.
pub fn cores_busy(run: &Run) -> u64 {
    let goes_on = |number: &u32| {
        let command = run.commands.get(*number as usize).and_then(Option::as_ref);
        command.is_some_and(|command| command.ended.is_none())
    };
    let open = run.tasks.iter().flatten().filter_map(|task| task.attempts.last());
    open.filter(|attempt| attempt.ended.is_none() && attempt.commands.iter().any(goes_on))
        .map(|attempt| u64::from(attempt.started.cores_in_all()))
        .sum()
}

/// What a page gets of the rules of a run, and of its streams and synchronised rounds where there are any. `status` is
/// what its hub says.
pub fn tables(run: &Run, groups: &Groups, status: Option<&Value>) -> Value {
    json!({
        "rules": told::rules(run, groups, status).iter().map(rule).collect::<Vec<_>>(),
        "streams": told::streams(run, status).iter().map(stream).collect::<Vec<_>>(),
        "rounds": rounds(run),
        "cores_busy": cores_busy(run),
    })
}

fn rule((key, rule): &(String, RuleCounts)) -> Value {
    json!({
        "key": key,
        "label": rule.label,
        "running": rule.running,
        "done": rule.done,
        "total": rule.total,
        "failed": rule.failed,
        "mean_s": rule.times.mean_s(),
        "total_s": rule.times.total_ns as f64 / 1e9,
    })
}

/// An open one has no figures until its hub, or the end of an earlier opening, has said what went through.
fn stream(stream: &StreamState) -> Value {
    let known = !stream.is_open || stream.bytes > 0;
    json!({
        "name": stream.name,
        "state": stream.word(),
        "writers": stream.writers,
        "readers": stream.readers,
        "bytes": known.then_some(stream.bytes),
        "records": known.then_some(stream.records),
    })
}

/// The rounds that came last, the last first.
fn rounds(run: &Run) -> Vec<Value> {
    let mut figures = SyncFigures::default();
    figures.add_run(run);
    let newest = figures.rounds().iter().rev().take(ROUNDS_MAX);
    newest
        .map(|Round { ended: round, overhead_ns, .. }| {
            json!({
                "sync": round.sync.to_display(),
                "number": round.number,
                "kind": round.kind,
                "workers": round.workers,
                "lag_ns": round.lag_ns,
                "span_ns": round.span_ns,
                "overhead_ns": overhead_ns,
                "late": round.late,
                "failed": round.failed,
                "fault": round.fault.as_ref().map(rakuda_proto::Text::to_display),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::read_events;

    const BEGUN: &str = r#"{"event":"run_started","version":2,"time_ns":1000000000,"run":"r"}
{"event":"node_joined","time_ns":1000000000,"node":0,"name":"n1","cores":4,"memory_bytes":0}
{"event":"task_defined","task":0,"name":"a.out","kind":"file","action":true}
{"event":"task_defined","task":1,"name":"all","kind":"plain","action":false,"prerequisites":[0]}
{"event":"attempt_started","time_ns":2000000000,"task":0,"attempt":1,"node":0,"cores":2}
{"event":"command_started","time_ns":2000000000,"command":0,"task":0,"line":"fit a"}
"#;
    const ENDED: &str = r#"{"event":"command_ended","time_ns":5000000000,"command":0,"status":768,"wall_ns":3000000000,"user_us":0,"system_us":0,"rss_kib_max":0,"read_bytes":0,"write_bytes":0}
{"event":"attempt_ended","time_ns":5000000000,"task":0,"outcome":"failed","message":"no"}
"#;

    fn rows(live: &mut LiveRun, lines: &str) -> Vec<String> {
        read_events(lines.as_bytes(), |event| live.add(event)).unwrap();
        let groups = Groups::of(&live.run);
        let changed = live.take_changed().into_iter();
        changed
            .filter_map(|task| row(&live.run, &groups, task))
            .map(|row| row.to_string())
            .collect()
    }

    #[test]
    fn only_what_has_changed_is_told() {
        let mut live = LiveRun::default();
        let begun = r#"[0,"a.out","fit","n1","running",1,1.0,null,null,"fit a",null]"#;
        assert_eq!(rows(&mut live, BEGUN), [begun]);
        assert_eq!(cores_busy(&live.run), 2);
        assert!(live.take_changed().is_empty());
        let ended = r#"[0,"a.out","fit","n1","failed",1,1.0,3.0,"status 3","fit a",4.0]"#;
        assert_eq!(rows(&mut live, ENDED), [ended]);
        assert_eq!(cores_busy(&live.run), 0);
        let told = tables(&live.run, &Groups::of(&live.run), None);
        assert_eq!(
            (&told["rules"][0]["failed"], &told["rules"][0]["key"]),
            (&json!(1), &json!("fit"))
        );
    }

    /// Of a rule: a task that was tried twice, one that failed, one that was ended because of others.
    const TRIED: &str = r#"{"event":"run_started","version":2,"time_ns":1000000000,"run":"r"}
{"event":"node_joined","time_ns":1000000000,"node":0,"name":"n1","cores":4,"memory_bytes":0}
{"event":"rule_defined","rule":1,"location":"Rakefile:3"}
{"event":"task_defined","task":0,"name":"map/a","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":1,"name":"map/b","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":2,"name":"map/c","kind":"plain","action":true,"rule":1}
{"event":"attempt_started","time_ns":2000000000,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_started","time_ns":2000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"attempt_started","time_ns":2000000000,"task":2,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":0,"outcome":"failed","retried":true}
{"event":"attempt_started","time_ns":3000000000,"task":0,"attempt":2,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":5000000000,"task":0,"outcome":"done"}
{"event":"attempt_ended","time_ns":6000000000,"task":1,"outcome":"failed"}
{"event":"task_settled","time_ns":6000000000,"task":1,"how":"failed"}
{"event":"attempt_ended","time_ns":7000000000,"task":2,"outcome":"aborted"}
"#;

    #[test]
    fn times_of_rules_are_those_of_the_report() {
        let mut live = LiveRun::default();
        rows(&mut live, TRIED);
        let told = tables(&live.run, &Groups::of(&live.run), None);
        let times = crate::summary::Summary::of(&live.run).groups[0].durations.unwrap();
        assert_eq!((times.mean, times.total), (3.0, 12.0), "(1 + 2 + 4 + 5) / 4");
        assert_eq!(told["rules"][0]["mean_s"], times.mean);
        assert_eq!(told["rules"][0]["total_s"], times.total);
    }

    #[test]
    fn a_task_is_told_with_its_neighbours() {
        let mut live = LiveRun::default();
        rows(&mut live, BEGUN);
        let told = detail(&live.run, 0, Some("no such star\n")).unwrap();
        assert_eq!(told["needed_by"]["list"], json!([[1, "all", "not started"]]));
        assert_eq!(told["attempts"][0]["commands"][0]["command"], "fit a");
        assert_eq!(told["tail"], "no such star\n");
        assert!(detail(&live.run, 7, None).is_none());
    }
}
