//! One row for each task that has an action: what became of it, where, for how long, with what.
//!
//! Figures are those of the task's last attempt that counts, and of all commands of that. It does not know how a
//! table is shown.

use rakuda_proto::journal::Reason;

use crate::run::{Attempt, Command, Run, Task};
use crate::summary::Summary;
use crate::summary::outcomes::{Fate, fate, status_text};
use crate::summary::spans::Span;
use crate::summary::tables::{Usage, commands};

/// One task. What the journal does not say is `None`, never 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskRow<'a> {
    /// As it was defined, with its attempts.
    pub task: &'a Task,
    /// What became of it.
    pub fate: Fate,
    /// Its last attempt that counts, and when that had its cores.
    pub last: Option<(&'a Attempt, Span)>,
    /// Attempts that count.
    pub attempts: usize,
    /// What the commands of the last attempt used. `None`: it started none.
    pub usage: Option<Usage>,
    /// The command to look at: the last that went wrong, else the last.
    pub command: Option<&'a Command>,
}

impl<'a> TaskRow<'a> {
    /// How the command ended: `status 0`, `signal 9`, or why it was not started.
    pub fn exit(&self) -> Option<String> {
        exit_of(self.command?)
    }

    /// CPU time of its commands over its run time, above 1 when they used several cores; none of commands that go on.
    pub fn cpu_share(&self) -> Option<f64> {
        let (_, span) = self.last?;
        let (usage, run_ns) = (self.usage?, span.duration_ns());
        let ended = self.command?.ended.is_some();
        (ended && run_ns > 0).then(|| (usage.user_s + usage.system_s) * 1e9 / run_ns as f64)
    }

    /// The memory that it had asked for.
    pub fn memory_bytes_wanted(&self) -> Option<u64> {
        self.last?.0.started.memory_bytes
    }

    /// Why it ran, most telling first.
    pub fn reasons(&self) -> &'a [Reason] {
        self.last.map_or(&[], |(attempt, _)| &attempt.started.reasons)
    }
}

/// All tasks that have an action or an attempt, by number.
pub fn task_rows<'a>(run: &'a Run, summary: &Summary) -> Vec<TaskRow<'a>> {
    let mut last: Vec<Option<Span>> = vec![None; run.tasks.len()];
    let mut counts = vec![0_usize; run.tasks.len()];
    for span in &summary.spans {
        let index = span.task as usize;
        counts[index] += 1;
        if last[index].is_none_or(|before| before.attempt < span.attempt) {
            last[index] = Some(*span);
        }
    }
    let tasks = run.tasks.iter().flatten();
    tasks
        .filter(|task| task.defined.action || !task.attempts.is_empty())
        .map(|task| {
            let index = task.defined.task as usize;
            let last = last[index]
                .and_then(|span| Some((task.attempts.get(span.attempt as usize)?, span)));
            let attempt = last.map(|(attempt, _)| attempt);
            TaskRow {
                task,
                fate: fate(task),
                last,
                attempts: counts[index],
                usage: attempt.and_then(|attempt| Usage::of(commands(run, attempt))),
                command: attempt.and_then(|attempt| telling_command(run, attempt)),
            }
        })
        .collect()
}

/// The last command of an attempt that went wrong; else the last one.
pub fn telling_command<'a>(run: &'a Run, attempt: &'a Attempt) -> Option<&'a Command> {
    let wrong = |command: &&Command| {
        command.ended.as_ref().is_some_and(|ended| ended.status != 0 || ended.error.is_some())
    };
    let all = || commands(run, attempt);
    all().filter(wrong).last().or_else(|| all().last())
}

/// How a command ended, for people. `None`: it had not.
pub fn exit_of(command: &Command) -> Option<String> {
    let ended = command.ended.as_ref()?;
    match &ended.error {
        Some(error) => Some(error.to_display()),
        None => Some(status_text(ended.status)),
    }
}
