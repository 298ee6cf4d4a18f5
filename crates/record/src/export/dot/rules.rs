//! The graph of rules: tasks whose action stands in the same place are one node, with their number and mean time.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the Rakefile.

use std::collections::BTreeMap;

use rakuda_proto::journal::Outcome;

use super::{FAILED, Graph, NOT_RUN, fill};
use crate::Run;
use crate::export::names::seconds;
use crate::export::workflow::{Workflow, attempts, outcome};

/// What is known of a rule's tasks.
#[derive(Default)]
struct Rule {
    tasks: usize,
    ran: i64,
    total_ns: i64,
    failed: usize,
}

pub(super) fn draw(run: &Run, graph: &mut Graph) -> usize {
    let workflow = Workflow::of(run);
    let rule_of = |task: u32| run.tasks[task as usize].as_ref().and_then(|task| task.defined.rule);
    let mut rules: BTreeMap<Option<u32>, Rule> = BTreeMap::new();
    let mut edges: BTreeMap<(Option<u32>, Option<u32>), usize> = BTreeMap::new();
    for step in &workflow.steps {
        let rule = rules.entry(rule_of(step.task)).or_default();
        rule.tasks += 1;
        let task = run.tasks[step.task as usize].as_ref();
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
    let place = place.map_or_else(|| "no rule known".into(), |rule| rule.location.to_display());
    let mut label = format!("{place}\n{} tasks", rule.tasks);
    if rule.ran > 0 {
        label = format!("{label}, mean {:.2} s", seconds(rule.total_ns / rule.ran));
    }
    if rule.failed > 0 {
        label = format!("{label}\n{} failed", rule.failed);
    }
    label
}
