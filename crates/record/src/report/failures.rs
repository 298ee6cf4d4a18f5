//! What is said of a task that failed: which command, how it ended, where, and what it printed.

use crate::report::{Report, node_name};
use crate::run::{Command, Run};
use crate::summary::task_rows::{exit_of, telling_command};
use crate::words::{command_line, env_remark};

/// A failed task for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its number.
    pub task: u32,
    /// Its name.
    pub name: String,
    /// Attempts made.
    pub attempts: usize,
    /// Its last command that did not end well, or its last.
    pub command: Option<String>,
    /// What that ran in, as `venv requirements.txt`.
    pub env: Option<String>,
    /// `status 1`, `signal 9`, or why it could not be started.
    pub status: Option<String>,
    /// Where the last attempt ran.
    pub node: Option<String>,
    /// First line of what went wrong.
    pub message: Option<String>,
    /// The last lines that it printed.
    pub tail: Option<String>,
}

/// All of a run, in the order in which they failed: the first is the likeliest to tell why.
pub fn failures(report: &Report) -> Vec<Failure> {
    let told = |&task: &u32| failure(report.run, task, report.tails.get(&task).cloned());
    let mut failed = report.summary.failed.clone();
    failed.sort_by_key(|&task| (failed_ns(report.run, task).unwrap_or(i64::MAX), task));
    failed.iter().filter_map(told).collect()
}

/// When the last attempt of a task ended, if it did: what failures are in the order of, here and on the live page.
pub fn failed_ns(run: &Run, task: u32) -> Option<i64> {
    let task = run.tasks.get(task as usize)?.as_ref()?;
    Some(task.attempts.last()?.ended.as_ref()?.time_ns)
}

/// One of them; `tail` is what it printed last.
pub fn failure(run: &Run, number: u32, tail: Option<String>) -> Option<Failure> {
    let task = run.tasks.get(number as usize)?.as_ref()?;
    let last = task.attempts.last();
    let command = last.and_then(|attempt| telling_command(run, attempt));
    let ended = last.and_then(|attempt| attempt.ended.as_ref());
    Some(Failure {
        task: number,
        name: task.defined.name.to_display(),
        attempts: task.attempts.len(),
        command: command.map(line),
        env: command.and_then(|command| command.started.env.as_ref()).map(|env| env.words()),
        status: command.and_then(exit_of),
        node: last.map(|attempt| node_name(run, attempt.started.node)),
        message: ended.and_then(|ended| ended.message.as_ref()).map(rakuda_proto::Text::to_display),
        tail,
    })
}

/// A command as one would type it, with a remark on what it runs in.
pub fn line_with_env(command: &Command) -> String {
    line(command) + &env_remark(command.started.env.as_deref())
}

/// A command as one would type it.
pub fn line(command: &Command) -> String {
    match (&command.started.line, &command.started.words) {
        (Some(line), _) => line.to_display(),
        (None, Some(words)) => command_line(words),
        (None, None) => String::new(),
    }
}
