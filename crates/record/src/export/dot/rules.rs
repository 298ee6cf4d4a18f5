//! The graph of rules: tasks whose action stands in the same place are one node, with their number and mean time.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the Rakefile.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::journal::Outcome;

use super::{FAILED, Graph, NOT_RUN, fill};
use crate::Run;
use crate::export::names::seconds;
use crate::export::workflow::{Workflow, attempts, outcome};
use crate::history::pattern_of;
use crate::summary::groups::Groups;

/// What is known of a rule's tasks.
#[derive(Default)]
struct Rule {
    /// What its commands execute, as far as that is known.
    program: Option<String>,
    /// Name of one of them.
    example: Text,
    tasks: usize,
    ran: usize,
    total_ns: i64,
    failed: usize,
}

pub(super) fn draw(run: &Run, graph: &mut Graph) -> usize {
    let workflow = Workflow::of(run);
    let groups = Groups::of(run);
    let rule_of = |task: u32| run.tasks[task as usize].as_ref().and_then(|task| task.defined.rule);
    let mut rules: BTreeMap<Option<u32>, Rule> = BTreeMap::new();
    let mut edges: BTreeMap<(Option<u32>, Option<u32>), usize> = BTreeMap::new();
    for step in &workflow.steps {
        let rule = rules.entry(rule_of(step.task)).or_default();
        rule.tasks += 1;
        let task = run.tasks[step.task as usize].as_ref();
        if let Some(task) = task.filter(|_| rule.tasks == 1) {
            rule.example = task.defined.name.clone();
        }
        if rule.program.is_none() && task.is_some_and(|task| !task.attempts.is_empty()) {
            rule.program.clone_from(&groups.list[groups.of_task(step.task) as usize].program);
        }
        if let Some(attempt) = task.and_then(|task| attempts(task).next_back()) {
            rule.ran += 1;
            rule.total_ns += i64::try_from(attempt.run_ns(run)).unwrap_or(i64::MAX);
            rule.failed += usize::from(outcome(attempt) != Some(Outcome::Done));
        }
        for parent in &step.parents {
            let edge = (rule_of(workflow.steps[*parent].task), rule_of(step.task));
            *edges.entry(edge).or_default() += 1;
        }
    }
    for (number, rule) in &rules {
        let mut more = format!("shape=box, {}", fill(*number));
        if rule.failed > 0 {
            more.push_str(", ");
            more.push_str(FAILED);
        } else if rule.ran == 0 {
            more.push_str(", ");
            more.push_str(NOT_RUN);
        }
        graph.node(&id(*number), &label(run, *number, rule), &more);
    }
    for ((from, to), count) in &edges {
        graph.edge(&id(*from), &id(*to), &format!("×{count}"));
    }
    rules.len()
}

fn id(rule: Option<u32>) -> String {
    rule.map_or_else(|| "r_none".into(), |rule| format!("r{rule}"))
}

fn label(run: &Run, number: Option<u32>, rule: &Rule) -> String {
    let place = number.and_then(|rule| run.rules.get(rule as usize)?.as_ref());
    let name = rule.program.clone().unwrap_or_else(|| {
        let name = &rule.example;
        if rule.tasks == 1 { name.to_display() } else { pattern_of(name).to_display() }
    });
    let name =
        place.map_or(name.clone(), |rule| format!("{name} ({})", rule.location.to_display()));
    let tasks = if rule.tasks == 1 { "1 task".into() } else { format!("{} tasks", rule.tasks) };
    let mut label = format!("{name}\n{tasks}");
    if rule.ran > 0 {
        let ran = i64::try_from(rule.ran).unwrap_or(i64::MAX);
        label = format!("{label}, mean {:.2} s", seconds(rule.total_ns / ran));
    }
    if rule.failed > 0 {
        label = format!("{label}\n{} failed", rule.failed);
    }
    let not_run = rule.tasks - rule.ran;
    if not_run > 0 {
        label = format!("{label}\n{not_run} not run");
    }
    label
}
