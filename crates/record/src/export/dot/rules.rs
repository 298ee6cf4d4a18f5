//! The graph of rules: tasks whose action stands in the same place are one node, with their number and mean time.
//!
//! Plain tasks of different names have different places, so the graph stays as small as the Rakefile.

use super::{FAILED, Graph, NOT_RUN, fill, stream_shape};
use crate::Run;
use crate::history::pattern_of;
use crate::report::format::bytes;
use crate::summary::rule_graph::{RuleGraph, RuleNode, StreamNode};

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
        graph.node(&id(rule.rule), &label(rule, run.alive), &more);
    }
    for &(from, to, count) in &rules.edges {
        let (from, to) = (rules.nodes[from].rule, rules.nodes[to].rule);
        graph.edge(&id(from), &id(to), &format!("×{count}"));
    }
    for (number, stream) in rules.streams.iter().enumerate() {
        let node = format!("s{number}");
        graph.node(&node, &stream_label(stream), &stream_shape(stream.broken > 0));
        for &(from, count) in &stream.from {
            graph.edge(&id(rules.nodes[from].rule), &node, &format!("×{count}"));
        }
        for &(to, count) in &stream.to {
            graph.edge(&node, &id(rules.nodes[to].rule), &format!("×{count}"));
        }
    }
    rules.nodes.len() + rules.streams.len()
}

fn stream_label(stream: &StreamNode) -> String {
    let place = &stream.place;
    let name =
        if place.is_empty() { stream.name.clone() } else { format!("{} ({place})", stream.name) };
    let many =
        if stream.streams == 1 { String::new() } else { format!("{} streams, ", stream.streams) };
    let through = bytes(stream.bytes);
    let told: Vec<String> =
        stream.troubles().map(|(count, what)| format!("\n{count} {what}")).collect();
    format!("{name}\n{many}{through}{}", told.concat())
}

fn id(rule: Option<u32>) -> String {
    rule.map_or_else(|| "r_none".into(), |rule| format!("r{rule}"))
}

fn label(rule: &RuleNode, alive: bool) -> String {
    let name = rule.program.clone().unwrap_or_else(|| {
        let name = &rule.example;
        if rule.tasks == 1 { name.to_display() } else { pattern_of(name).to_display() }
    });
    let name =
        rule.location.as_ref().map_or_else(|| name.clone(), |place| format!("{name} ({place})"));
    let tasks = if rule.tasks == 1 { "1 task".into() } else { format!("{} tasks", rule.tasks) };
    let mut label = format!("{name}\n{tasks}");
    if let Some(mean_s) = rule.times.mean_s() {
        label = format!("{label}, mean {mean_s:.2} s");
    }
    for (count, what) in rule.not_done(alive) {
        label = format!("{label}\n{count} {what}");
    }
    label
}
