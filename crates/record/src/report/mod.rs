//! A run shown: as text for a terminal, as JSON, as tables for other programs, as pictures and as a
//! page. What the figures are is found out in [`crate::summary`]; here is only how they look.
//!
//! Nothing here opens a file: callers hand in what was read, and get text.
#![allow(
    clippy::cast_precision_loss,
    reason = "figures are shown with a few digits; counts are far below 2^53"
)]
#![allow(clippy::cast_sign_loss, reason = "floats are clamped to the range of an index before")]

pub mod compare;
pub mod csv;
pub(crate) mod data;
pub(crate) mod failures;
pub mod format;
pub mod html;
pub mod json;
pub mod plot;
pub mod sync;
pub mod tails;
pub mod text;

use std::collections::BTreeMap;

use crate::run::Run;
use crate::summary::Summary;
use crate::words::command_line;

pub use failures::{Failure, failure, failures};

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its figures.
    pub summary: &'a Summary,
    /// The last lines that failed tasks printed, by task.
    pub tails: &'a BTreeMap<u32, String>,
}

impl Report<'_> {
    /// A task's name.
    pub fn name(&self, task: u32) -> String {
        name(self.run, task)
    }

    /// The label of a group.
    pub fn label(&self, group: u32) -> String {
        self.summary.groups[group as usize].group.label()
    }

    /// The name of a node.
    pub fn node(&self, node: u32) -> String {
        node_name(self.run, node)
    }

    /// What the user typed.
    pub fn command_line(&self) -> String {
        let words = command_line(&self.run.started.command_line);
        if words.is_empty() { "rakuda".to_owned() } else { format!("rakuda {words}") }
    }

    /// Settings of the run: name and value.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let started = &self.run.started;
        let environment: Vec<&str> = started.environment.keys().map(String::as_str).collect();
        [
            ("version", started.rakuda.clone()),
            ("cores", started.cores.to_string()),
            ("policy", started.policy.clone()),
            ("after a failure", started.failure.clone()),
            ("failed targets", started.failed_target.clone()),
            ("retries", started.retry.to_string()),
            ("seed", started.seed.to_string()),
            ("build all", if started.build_all { "yes" } else { "no" }.to_owned()),
            ("enforced", started.enforce.join(", ")),
            ("rerun on", started.rerun_on.join(", ")),
            ("environment compared", environment.join(", ")),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
    }
}

/// A node's name for people.
pub fn node_name(run: &Run, node: u32) -> String {
    match run.nodes.get(node as usize) {
        Some(node) => node.joined.name.to_display(),
        None => format!("node {node}"),
    }
}

/// A task's name for people.
pub fn name(run: &Run, task: u32) -> String {
    match run.tasks.get(task as usize) {
        Some(Some(task)) => task.defined.name.to_display(),
        _ => format!("task {task}"),
    }
}
