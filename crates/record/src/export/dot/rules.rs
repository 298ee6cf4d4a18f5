//! The graph of rules: tasks whose action stands in the same place are one node, with their number and mean time.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the Rakefile.

use super::{FAILED, Graph, NOT_RUN, fill};
use crate::Run;
use crate::export::names::seconds;
use crate::history::pattern_of;
use crate::summary::rule_graph::{RuleGraph, RuleNode};

pub(super) fn draw(run: &Run, graph: &mut Graph) -> usize {
    let rules = RuleGraph::of(run);
    for rule in &rules.nodes {
        let mut more = format!("shape=box, {}", fill(rule.rule));
        if rule.failed > 0 {
            more.push_str(", ");
            more.push_str(FAILED);
        } else if rule.ran == 0 {
            more.push_str(", ");
            more.push_str(NOT_RUN);
        }
        graph.node(&id(rule.rule), &label(rule), &more);
    }
    for &(from, to, count) in &rules.edges {
        let (from, to) = (rules.nodes[from].rule, rules.nodes[to].rule);
        graph.edge(&id(from), &id(to), &format!("×{count}"));
    }
    rules.nodes.len()
}

fn id(rule: Option<u32>) -> String {
    rule.map_or_else(|| "r_none".into(), |rule| format!("r{rule}"))
}

fn label(rule: &RuleNode) -> String {
    let name = rule.program.clone().unwrap_or_else(|| {
        let name = &rule.example;
        if rule.tasks == 1 { name.to_display() } else { pattern_of(name).to_display() }
    });
    let name =
        rule.location.as_ref().map_or_else(|| name.clone(), |place| format!("{name} ({place})"));
    let tasks = if rule.tasks == 1 { "1 task".into() } else { format!("{} tasks", rule.tasks) };
    let mut label = format!("{name}\n{tasks}");
    if let Some(mean_ns) = rule.mean_ns() {
        label = format!("{label}, mean {:.2} s", seconds(mean_ns));
    }
    if rule.failed > 0 {
        label = format!("{label}\n{} failed", rule.failed);
    }
    for (count, what) in [(rule.abandoned, "not run"), (rule.not_reached(), "not reached")] {
        if count > 0 {
            label = format!("{label}\n{count} {what}");
        }
    }
    label
}
