//! The graph of rules: tasks whose action stands in the same place are one node, with their number
//! and times; what was done for them is an edge with the number of pairs.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the
//! Rakefile. Tasks without an action are contracted. Streams stand between rules in the same way,
//! one for each statement that made some. How it is drawn is not known here.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::journal::Outcome;

use crate::Run;
use crate::export::workflow::{Workflow, attempts, outcome};
use crate::summary::groups::{DIRECTORY, Groups, is_rakes_own};
use crate::summary::outcomes::{Fate, fate};
use crate::summary::patterns::Pattern;
use crate::summary::streams::streams;

/// What is known of a rule's tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleNode {
    /// Its number in the run; none: tasks without a recorded place.
    pub rule: Option<u32>,
    /// Where it stands; none: not recorded, or rake's own.
    pub location: Option<String>,
    /// What its commands execute, as far as that is known.
    pub program: Option<String>,
    /// The tasks' name, or what their names have in common.
    pub pattern: Option<String>,
    /// The group of its tasks that were attempted.
    pub group: Option<u32>,
    /// Name of the first of them.
    pub example: Text,
    /// Tasks that ran or were to run.
    pub tasks: usize,
    /// Of these with an attempt that counts.
    pub ran: usize,
    /// Run times of the last of these attempts.
    pub total_ns: i64,
    /// Tasks whose last attempt did not end well.
    pub failed: usize,
    /// Tasks that were not tried because others failed.
    pub abandoned: usize,
}

impl RuleNode {
    /// Mean run time of those that ran.
    pub fn mean_ns(&self) -> Option<i64> {
        let ran = i64::try_from(self.ran).unwrap_or(i64::MAX);
        (ran > 0).then(|| self.total_ns / ran)
    }

    /// Tasks whose turn did not come.
    pub fn not_reached(&self) -> usize {
        (self.tasks - self.ran).saturating_sub(self.abandoned)
    }
}

/// Streams that one statement of the Rakefile has made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamNode {
    /// Their name, or what their names have in common.
    pub name: String,
    /// `FILE:LINE` of the statement.
    pub place: String,
    /// Streams.
    pub streams: usize,
    /// Of these which did not end well, or are not ended.
    pub broken: usize,
    /// Bytes that readers were to get.
    pub bytes: u64,
    /// Records likewise.
    pub records: u64,
    /// Indices of the nodes whose tasks write into them, and how many tasks; in order.
    pub from: Vec<(usize, usize)>,
    /// And of those whose tasks read from them.
    pub to: Vec<(usize, usize)>,
}

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleGraph {
    /// In order of their numbers.
    pub nodes: Vec<RuleNode>,
    /// Indices of two nodes, what was done before and what after, and how many pairs of tasks; in order.
    pub edges: Vec<(usize, usize, usize)>,
    /// Streams between them, in the order of their statements.
    pub streams: Vec<StreamNode>,
}

impl RuleGraph {
    /// Of a run.
    pub fn of(run: &Run) -> Self {
        let workflow = Workflow::of(run);
        let groups = Groups::of(run);
        let rule_of =
            |task: u32| run.tasks[task as usize].as_ref().and_then(|task| task.defined.rule);
        let mut nodes: BTreeMap<Option<u32>, (RuleNode, Pattern)> = BTreeMap::new();
        let mut edges: BTreeMap<(Option<u32>, Option<u32>), usize> = BTreeMap::new();
        for step in &workflow.steps {
            let rule = rule_of(step.task);
            let (node, pattern) = nodes.entry(rule).or_default();
            node.rule = rule;
            node.tasks += 1;
            if let Some(task) = &run.tasks[step.task as usize] {
                if node.tasks == 1 {
                    node.example = task.defined.name.clone();
                    node.name_after(run, task);
                }
                pattern.add(&task.defined.name.to_display());
                if node.group.is_none() && !task.attempts.is_empty() {
                    let group = groups.of_task(step.task);
                    node.group = Some(group);
                    node.program.clone_from(&groups.list[group as usize].program);
                }
                if let Some(attempt) = attempts(task).next_back() {
                    node.ran += 1;
                    node.total_ns += i64::try_from(attempt.run_ns(run)).unwrap_or(i64::MAX);
                    node.failed += usize::from(outcome(attempt) != Some(Outcome::Done));
                }
                node.abandoned += usize::from(fate(task) == Fate::Abandoned);
            }
            for parent in &step.parents {
                let edge = (rule_of(workflow.steps[*parent].task), rule);
                *edges.entry(edge).or_default() += 1;
            }
        }
        let place: BTreeMap<Option<u32>, usize> = nodes.keys().copied().zip(0..).collect();
        let edges =
            edges.iter().map(|((from, to), count)| (place[from], place[to], *count)).collect();
        let node_of = |task: u32| {
            run.tasks.get(task as usize)?.as_ref()?;
            place.get(&rule_of(task)).copied()
        };
        let streams = stream_nodes(run, node_of);
        let named = |(mut node, pattern): (RuleNode, Pattern)| {
            node.pattern = node.pattern.or_else(|| pattern.text());
            node
        };
        Self { nodes: nodes.into_values().map(named).collect(), edges, streams }
    }
}

/// The streams of a run by statement; `node_of`: the node of a task, where it has one.
fn stream_nodes(run: &Run, node_of: impl Fn(u32) -> Option<usize>) -> Vec<StreamNode> {
    type Ends = BTreeMap<usize, usize>;
    let mut found: BTreeMap<String, (StreamNode, Pattern, Ends, Ends)> = BTreeMap::new();
    for stream in streams(run) {
        // One of an older journal may have no place: then it stands for itself.
        let key = if stream.place.is_empty() { stream.name.clone() } else { stream.place.clone() };
        let (node, pattern, from, to) = found.entry(key).or_default();
        node.place.clone_from(&stream.place);
        node.streams += 1;
        node.broken += usize::from(!stream.is_balanced());
        node.bytes = node.bytes.saturating_add(stream.bytes());
        node.records = node.records.saturating_add(stream.records());
        pattern.add(&stream.name);
        for (ends, sides) in [(from, &stream.writers), (to, &stream.readers)] {
            for node in sides.iter().filter_map(|side| node_of(side.task)) {
                *ends.entry(node).or_default() += 1;
            }
        }
        node.name = pattern.text().unwrap_or(stream.name);
    }
    let whole = |(node, _, from, to): (StreamNode, Pattern, Ends, Ends)| StreamNode {
        from: from.into_iter().collect(),
        to: to.into_iter().collect(),
        ..node
    };
    found.into_values().map(whole).collect()
}

impl RuleNode {
    /// What the place of its first task says.
    fn name_after(&mut self, run: &Run, task: &crate::Task) {
        let Some(place) = self.rule.and_then(|rule| run.rules.get(rule as usize)?.as_ref()) else {
            return;
        };
        if is_rakes_own(task, &place.location.0) {
            self.pattern = Some(DIRECTORY.to_owned());
        } else {
            self.location = Some(place.location.to_display());
        }
    }
}
