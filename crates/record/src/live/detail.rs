//! All that a page shows of one task when it is asked: what it needs and what needs it, its attempts, its output.

use serde_json::{Value, json};

use super::rows::start_ns;
use crate::Run;
use crate::report::failures::line_with_env;
use crate::report::{name, node_name};
use crate::run::{Attempt, Task};
use crate::summary::outcomes::fate;
use crate::summary::task_rows::exit_of;
use crate::words::reason_in_words;

/// Maximum number of neighbours that are named.
const NEIGHBOURS_MAX: usize = 100;

/// `None`: the journal does not know it. `tail` is what it printed last.
pub fn detail(run: &Run, number: u32, tail: Option<&str>) -> Option<Value> {
    let task = run.tasks.get(number as usize)?.as_ref()?;
    let needs = |other: &&Task| {
        other.defined.prerequisites.contains(&number) || other.defined.order_only.contains(&number)
    };
    let above = task.defined.prerequisites.iter().chain(&task.defined.order_only).copied();
    let others = run.tasks.iter().flatten().map(|other| &**other);
    let below = others.filter(needs).map(|other| other.defined.task);
    Some(json!({
        "task": number,
        "name": task.defined.name.to_display(),
        "status": fate(task).word(),
        "needs": neighbours(run, above),
        "needed_by": neighbours(run, below),
        "attempts": task.attempts.iter().map(|attempt| of_attempt(run, attempt)).collect::<Vec<_>>(),
        "tail": tail,
    }))
}

fn neighbours(run: &Run, numbers: impl Iterator<Item = u32>) -> Value {
    let status = |number: u32| {
        let task = run.tasks.get(number as usize).and_then(Option::as_ref);
        task.map_or("not reached yet", |task| fate(task).word())
    };
    let mut list: Vec<Value> = Vec::new();
    let mut count = 0_usize;
    for number in numbers {
        count += 1;
        if list.len() < NEIGHBOURS_MAX {
            list.push(json!([number, name(run, number), status(number)]));
        }
    }
    json!({"count": count, "list": list})
}

fn of_attempt(run: &Run, attempt: &Attempt) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let ended = attempt.ended.as_ref();
    let commands =
        attempt.commands.iter().filter_map(|number| run.commands.get(*number as usize)?.as_ref());
    let commands: Vec<Value> = commands
        .map(|command| {
            let ended = command.ended.as_ref();
            json!({
                "command": line_with_env(command),
                "exit": exit_of(command),
                "wall_s": ended.map(|ended| seconds(ended.wall_ns)),
                "rss_bytes": ended.and_then(rakuda_proto::journal::CommandEnded::rss_bytes),
            })
        })
        .collect();
    json!({
        "attempt": attempt.started.attempt,
        "node": node_name(run, attempt.started.node),
        "cores": attempt.started.cores_in_all(),
        "memory_bytes": attempt.started.memory_bytes,
        "start_s": (attempt.started.time_ns - start_ns(run)) as f64 / 1e9,
        "wall_s": ended.map(|_| seconds(attempt.run_ns(run))),
        "message": ended.and_then(|ended| ended.message.as_ref()).map(rakuda_proto::Text::to_display),
        "reasons": attempt.started.reasons.iter().map(reason_in_words).collect::<Vec<_>>(),
        "commands": commands,
    })
}
