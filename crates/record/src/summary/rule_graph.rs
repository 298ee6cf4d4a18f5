//! The graph of rules: tasks whose action stands in the same place are one node, with their number
//! and times; what was done for them is an edge with the number of pairs.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the
//! Rakefile. Tasks without an action are contracted. Streams stand between rules in the same way,
//! one for each statement that made some. How it is drawn is not known here.

use std::collections::BTreeMap;

use rakuda_proto::Text;

use crate::Run;
use crate::export::workflow::{Workflow, attempts};
use crate::summary::attempt_times::AttemptTimes;
use crate::summary::groups::{DIRECTORY, Groups, is_rakes_own, several};
use crate::summary::outcomes::{Fate, fate};
use crate::summary::patterns::Pattern;
use crate::summary::streams::{StreamFate, streams};

/// What is known of a rule's tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleNode {
    /// Its number in the run. `None`: tasks without a recorded place.
    pub rule: Option<u32>,
    /// Where it stands. `None`: not recorded, or rake's own.
    pub location: Option<String>,
    /// What its commands execute, as far as that is known.
    pub program: Option<String>,
    /// The tasks' name, or what their names have in common.
    pub pattern: Option<String>,
    /// They are workers of synchronised rounds: then others in the same place do nothing, or these do.
    pub is_sync: bool,
    /// The group of its tasks that were attempted.
    pub group: Option<u32>,
    /// Name of the first of them.
    pub example: Text,
    /// Tasks that ran or were to run.
    pub tasks: usize,
    /// Of these with an attempt that counts.
    pub ran: usize,
    /// Of its attempts, as in the report's table of rules.
    pub times: AttemptTimes,
    /// Tasks that failed.
    pub failed: usize,
    /// Tasks that were not tried because others failed.
    pub abandoned: usize,
    /// Tasks that were ended because of others.
    pub stopped: usize,
    /// Tasks whose attempt goes on, or was cut off with the run.
    pub running: usize,
    /// Tasks whose turn did not come.
    pub not_reached: usize,
}

impl RuleNode {
    /// What became of tasks that are not done: how many, and a word for it. `alive`: the run goes on.
    pub fn not_done(&self, alive: bool) -> impl Iterator<Item = (usize, &'static str)> {
        let (running, not_reached) =
            if alive { ("running", "to come") } else { ("not ended", "not reached") };
        let told = [
            (self.failed, "failed"),
            (self.abandoned, "not run"),
            (self.stopped, "stopped"),
            (self.running, running),
            (self.not_reached, not_reached),
        ];
        told.into_iter().filter(|(count, _)| *count > 0)
    }

    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Failed => self.failed += 1,
            Fate::Abandoned => self.abandoned += 1,
            Fate::Stopped => self.stopped += 1,
            Fate::Running => self.running += 1,
            Fate::NotReached | Fate::NotStarted => self.not_reached += 1,
            Fate::Ran | Fate::Passed | Fate::NotNeeded => {}
        }
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
    /// Of these which did not end well, or of which not all was read.
    pub broken: usize,
    /// Of these which go on.
    pub running: usize,
    /// Bytes that readers were to get.
    pub bytes: u64,
    /// Records likewise.
    pub records: u64,
    /// Indices of the nodes whose tasks write into them, and how many tasks; in order.
    pub from: Vec<(usize, usize)>,
    /// And of those whose tasks read from them.
    pub to: Vec<(usize, usize)>,
}

impl StreamNode {
    /// What is to be said of streams that have not come to a good end: how many, and a word for it.
    pub fn troubles(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let told = [(self.broken, "not whole"), (self.running, "running")];
        told.into_iter().filter(|(count, _)| *count > 0)
    }
}

/// Rules as nodes, with streams between them, and how many pairs of tasks each edge stands for.
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
        let first_of = first_rules(run, &groups);
        let rule_of = |task: u32| {
            let rule = run.tasks[task as usize].as_ref()?.defined.rule?;
            Some(first_of.get(&rule).map_or(rule, |(first, _)| *first))
        };
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
                    if let (Some((_, places)), Some(first)) =
                        (rule.and_then(|rule| first_of.get(&rule)), &mut node.location)
                    {
                        *first = several(first, *places);
                    }
                }
                pattern.add(&task.defined.name.to_display());
                if node.group.is_none() && !task.attempts.is_empty() {
                    let group = groups.of_task(step.task);
                    node.group = Some(group);
                    node.program.clone_from(&groups.list[group as usize].program);
                }
                node.ran += usize::from(attempts(task).next().is_some());
                node.times.add(run, task);
                node.count(fate(task));
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
            node.is_sync = pattern.is_sync();
            node.pattern = node.pattern.or_else(|| pattern.text());
            node
        };
        Self { nodes: nodes.into_values().map(named).collect(), edges, streams }
    }
}

/// Of rules that are one because their places are alike: the first of them, and how many they are.
fn first_rules(run: &Run, groups: &Groups) -> BTreeMap<u32, (u32, usize)> {
    let rules = run.rules.iter().zip(0..).filter_map(|(rule, number)| {
        let together = groups.alike.rule_of(&rule.as_ref()?.location.to_display())?;
        Some((number, (groups.alike.first(together)?, groups.alike.places(together))))
    });
    rules.collect()
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
        let is_running = stream.fate == StreamFate::Open;
        node.running += usize::from(is_running);
        node.broken += usize::from(!is_running && !stream.is_balanced());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    const LINES: &str = r#"{"event":"run_started","version":2,"time_ns":1000000000,"run":"r"}
{"event":"node_joined","time_ns":1000000000,"node":0,"name":"n1","cores":4,"memory_bytes":0}
{"event":"rule_defined","rule":1,"location":"Rakefile:3"}
{"event":"task_defined","task":0,"name":"a","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":1,"name":"b","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":2,"name":"c","kind":"plain","action":true,"rule":1}
{"event":"task_defined","task":3,"name":"d","kind":"plain","action":true,"rule":1}
{"event":"attempt_started","time_ns":2000000000,"task":0,"attempt":1,"node":0,"cores":1}
{"event":"attempt_started","time_ns":2000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"attempt_started","time_ns":2000000000,"task":2,"attempt":1,"node":0,"cores":1}
{"event":"attempt_started","time_ns":2000000000,"task":3,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":0,"outcome":"done"}
{"event":"attempt_ended","time_ns":4000000000,"task":1,"outcome":"failed"}
{"event":"task_settled","time_ns":4000000000,"task":1,"how":"failed"}
{"event":"attempt_ended","time_ns":8000000000,"task":2,"outcome":"aborted"}
"#;

    #[test]
    fn a_box_counts_and_measures_as_the_tables_do() {
        let mut run = Run::read(LINES.as_bytes()).unwrap();
        run.seen_alive(60_000_000_000);
        let node = RuleGraph::of(&run).nodes.remove(0);
        let told: Vec<(usize, &str)> = node.not_done(true).collect();
        assert_eq!(told, [(1, "failed"), (1, "stopped"), (1, "running")]);
        assert_eq!(node.not_done(false).last(), Some((1, "not ended")));
        let row = &Summary::of(&run).groups[0];
        assert_eq!(row.failed, node.failed);
        let mean_s = row.durations.unwrap().mean;
        assert_eq!(
            node.times.mean_ns(),
            Some(3_000_000_000),
            "(1 + 2 + 6) / 3; what runs is in no mean"
        );
        assert!((mean_s - 3.0).abs() < 1e-9, "{mean_s}");
    }
}
