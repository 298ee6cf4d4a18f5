//! What is told of a task that failed: which command, how it ended, where, what it said.

use crate::report::Report;
use crate::run::{Attempt, Command};
use crate::summary::outcomes::status_text;
use crate::summary::tables::commands;
use crate::words::command_line;

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
    /// `status 1`, `signal 9`, or why it could not be started.
    pub status: Option<String>,
    /// Where the last attempt ran.
    pub node: Option<String>,
    /// First line of what went wrong.
    pub message: Option<String>,
    /// The last lines that it printed.
    pub tail: Option<String>,
}

/// All of a run, by number.
pub fn failures(report: &Report) -> Vec<Failure> {
    report.summary.failed.iter().filter_map(|&task| failure(report, task)).collect()
}

fn failure(report: &Report, number: u32) -> Option<Failure> {
    let task = report.run.tasks.get(number as usize)?.as_ref()?;
    let last = task.attempts.last();
    let command = last.and_then(|attempt| telling(report, attempt));
    let ended = last.and_then(|attempt| attempt.ended.as_ref());
    Some(Failure {
        task: number,
        name: task.defined.name.to_display(),
        attempts: task.attempts.len(),
        command: command.map(line),
        status: command.and_then(status),
        node: last.map(|attempt| report.node(attempt.started.node)),
        message: ended.and_then(|ended| ended.message.as_ref()).map(rakuda_proto::Text::to_display),
        tail: report.tails.get(&number).cloned(),
    })
}

/// The last command that went wrong; else the last one.
fn telling<'a>(report: &Report<'a>, attempt: &'a Attempt) -> Option<&'a Command> {
    let wrong = |command: &&Command| {
        command.ended.as_ref().is_some_and(|ended| ended.status != 0 || ended.error.is_some())
    };
    let all = || commands(report.run, attempt);
    all().filter(wrong).last().or_else(|| all().last())
}

/// A command as one would type it.
pub fn line(command: &Command) -> String {
    match (&command.started.line, &command.started.words) {
        (Some(line), _) => line.to_display(),
        (None, Some(words)) => command_line(words),
        (None, None) => String::new(),
    }
}

fn status(command: &Command) -> Option<String> {
    let ended = command.ended.as_ref()?;
    match &ended.error {
        Some(error) => Some(error.to_display()),
        None => Some(status_text(ended.status)),
    }
}
