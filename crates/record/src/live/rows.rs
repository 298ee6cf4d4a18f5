//! One row for each task that was begun or settled, for the live page, which gets only the rows that have changed.

use serde_json::{Value, json};

use crate::Run;
use crate::report::failures::{failed_ns, line};
use crate::report::node_name;
use crate::run::Attempt;
use crate::summary::groups::{Group, Groups};
use crate::summary::outcomes::{Fate, fate};
use crate::summary::task_rows::{exit_of, telling_command};

/// Maximum characters of a command in a row; the detail of one task has the whole.
const COMMAND_MAX: usize = 160;

/// What a rule is known by as long as the run goes on: its label may change while more of its tasks begin, and its
/// number when one with a smaller number does.
pub fn rule_key(group: &Group) -> String {
    if let Some((_, together)) = &group.places {
        return together.clone();
    }
    match (&group.location, &group.pattern) {
        (Some(location), _) => location.clone(),
        (None, Some(pattern)) if group.program.is_none() => pattern.clone(),
        _ => group.program.clone().unwrap_or_default(),
    }
}

/// Where a run began for its pages, ns since 1970.
pub fn start_ns(run: &Run) -> i64 {
    run.invocations.first().map_or(run.started.time_ns, |first| first.started_ns)
}

/// `[number, name, rule, node, status, attempts, start_s, wall_s, exit, command, failed_s]`, with the rule's key; null
/// is what is not known, `failed_s` of all but those that failed. Times are from the run's start. `None`: nothing has
/// happened to the task that a row could tell.
pub fn row(run: &Run, groups: &Groups, number: u32) -> Option<Value> {
    let task = run.tasks.get(number as usize)?.as_ref()?;
    let fate = fate(task);
    if task.attempts.is_empty() && (!task.defined.action || fate == Fate::NotStarted) {
        return None;
    }
    let counting = || task.attempts.iter().filter(|attempt| attempt.counts());
    let last: Option<&Attempt> = counting().next_back();
    let since_start = |ns: i64| (ns - start_ns(run)) as f64 / 1e9;
    let failed = (fate == Fate::Failed).then(|| failed_ns(run, number)).flatten();
    let command = last.and_then(|attempt| telling_command(run, attempt));
    let rule = (!task.attempts.is_empty())
        .then(|| groups.list.get(groups.of_task(number) as usize).map(rule_key))
        .flatten();
    let ended = last.filter(|attempt| attempt.ended.is_some());
    let text = command.map(|command| line(command).chars().take(COMMAND_MAX).collect::<String>());
    Some(json!([
        number,
        task.defined.name.to_display(),
        rule,
        last.map(|attempt| node_name(run, attempt.started.node)),
        fate.word(),
        counting().count(),
        last.map(|attempt| since_start(attempt.started.time_ns)),
        ended.map(|attempt| attempt.run_ns(run) as f64 / 1e9),
        command.and_then(exit_of),
        text,
        failed.map(since_start),
    ]))
}
