//! The graph of rules as a picture: what comes first stands above, and streams between the rules that
//! they join. Boxes of the same distance from the beginning share a row, and stand where most of
//! what precedes them does.

use std::fmt::Write as _;

use crate::export::workflow::reach_any;
use crate::report::Report;
use crate::report::format::{bytes, counted, counted_u64, seconds};
use crate::report::plot::drawing::{colour_class, escape};
use crate::report::plot::fitting::{self, fitted, fitted_name};
use crate::summary::rule_graph::{RuleGraph, RuleNode, StreamNode};

/// Maximum number of rules that are drawn. A graph of more is not read as a picture.
pub const NODES_MAX: usize = 80;
/// Minimum width of boxes, px. The longest text decides it between this and the maximum.
const WIDE_MIN: f64 = 150.0;
/// Maximum width of boxes, px.
const WIDE_MAX: f64 = 300.0;
/// Height of boxes, px.
const HIGH: f64 = 44.0;
/// Gap between two boxes of a row, px.
const GAP: f64 = 20.0;
/// Left of the text of a rule, which has its colour there, px.
const RULE_LEFT: f64 = 18.0;
/// Left of the text of a stream, px.
const STREAM_LEFT: f64 = 22.0;
/// Right of the text, px; of a stream it is as on its left.
const RIGHT: f64 = 8.0;
/// Distance from the top of a row to the top of the next, px.
const DOWN: f64 = 86.0;
/// Margin beside the boxes, for lines that go back, px.
const MARGIN: f64 = 24.0;
/// Number of times that the boxes of all rows are put in order.
const SWEEPS: usize = 4;

/// What is drawn: rules, and after them streams; what comes before what.
struct Shape {
    count: usize,
    edges: Vec<(usize, usize)>,
}

impl Shape {
    fn of(graph: &RuleGraph) -> Self {
        let rules = graph.nodes.len();
        let mut edges: Vec<(usize, usize)> =
            graph.edges.iter().map(|&(from, to, _)| (from, to)).collect();
        for (number, stream) in (rules..).zip(&graph.streams) {
            edges.extend(stream.from.iter().map(|&(from, _)| (from, number)));
            edges.extend(stream.to.iter().map(|&(to, _)| (number, to)));
        }
        Self { count: rules + graph.streams.len(), edges }
    }
}

/// Where each box stands: its row, and its place in that.
#[derive(Debug, PartialEq)]
struct Layout {
    row: Vec<usize>,
    /// Middle of the box, px.
    middle: Vec<f64>,
    rows: usize,
    width: f64,
    /// Width of a box, px.
    wide: f64,
}

impl Layout {
    fn of(graph: &Shape, wide: f64) -> Self {
        let step = wide + GAP;
        let row = rows(graph);
        let count = row.iter().max().map_or(0, |last| last + 1);
        let mut order: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (node, &row) in row.iter().enumerate() {
            order[row].push(node);
        }
        let widest = order.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let width = widest as f64 * step + MARGIN;
        let mut middle = vec![0.0; row.len()];
        place(&order, (width, step), &mut middle);
        for sweep in 0..SWEEPS {
            for nodes in &mut order {
                let wanted = |node: usize| wanted(graph, &middle, node, sweep % 2 == 0);
                let mut keyed: Vec<(f64, usize)> =
                    nodes.iter().map(|&node| (wanted(node), node)).collect();
                keyed.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
                *nodes = keyed.into_iter().map(|(_, node)| node).collect();
            }
            place(&order, (width, step), &mut middle);
        }
        Self { row, middle, rows: count, width, wide }
    }
}

/// The longest way to each box, in edges. Rules may need one another's files, or read what the other
/// writes; an edge that would close a circle does not count.
fn rows(graph: &Shape) -> Vec<usize> {
    let count = graph.count;
    let mut row = vec![0; count];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &(from, to) in &graph.edges {
        if from != to && !reach_any(&after, &[to], std::iter::once(from)) {
            after[from].push(to);
        }
    }
    for _ in 0..count {
        for from in 0..count {
            for &to in &after[from] {
                row[to] = row[to].max(row[from] + 1);
            }
        }
    }
    row
}

fn place(order: &[Vec<usize>], (width, step): (f64, f64), middle: &mut [f64]) {
    for nodes in order {
        let left = (width - nodes.len() as f64 * step) / 2.0 + step / 2.0;
        for (place, &node) in nodes.iter().enumerate() {
            middle[node] = left + place as f64 * step;
        }
    }
}

/// The mean place of what precedes a rule, or of what comes after it; its own where there is nothing.
fn wanted(graph: &Shape, middle: &[f64], node: usize, down: bool) -> f64 {
    let others = graph.edges.iter().filter_map(|&(from, to)| {
        let (own, other) = if down { (to, from) } else { (from, to) };
        (own == node && other != node).then(|| middle[other])
    });
    let others: Vec<f64> = others.collect();
    if others.is_empty() {
        return middle[node];
    }
    others.iter().sum::<f64>() / others.len() as f64
}

/// The picture. A run without rules, or with more boxes than [`NODES_MAX`], has none.
pub fn rule_graph(report: &Report) -> Option<String> {
    let graph = RuleGraph::of(report.run);
    let rules = graph.nodes.len();
    if rules == 0 || rules + graph.streams.len() > NODES_MAX {
        return None;
    }
    let of_rules = graph.nodes.iter().map(|node| RuleBox::of(report, node));
    let of_rules: Vec<RuleBox> = of_rules.collect();
    let wanted = |[label, facts]: [&str; 2], beside: f64| {
        fitting::width(label, true).max(fitting::width(facts, false)) + beside
    };
    let of_streams = graph.streams.iter().map(|node| (&node.name, stream_facts(node)));
    let wide = of_rules
        .iter()
        .map(|rule| wanted([&rule.label, &rule.facts], RULE_LEFT + RIGHT))
        .chain(of_streams.map(|(name, facts)| wanted([name, &facts], 2.0 * STREAM_LEFT)))
        .fold(WIDE_MIN, f64::max);
    let layout = Layout::of(&Shape::of(&graph), wide.min(WIDE_MAX).ceil());
    let mut body = String::new();
    for &(from, to, count) in &graph.edges {
        let words = format!("{} of tasks", counted(count, "pair"));
        edge(&mut body, &layout, (from, to), count, "edge", &words);
    }
    for (number, stream) in (rules..).zip(&graph.streams) {
        for &(from, count) in &stream.from {
            let words = format!("into stream {}: {}", stream.name, counted(count, "writer"));
            edge(&mut body, &layout, (from, number), count, "edge stream-edge", &words);
        }
        for &(to, count) in &stream.to {
            let words = format!("from stream {}: {}", stream.name, counted(count, "reader"));
            edge(&mut body, &layout, (number, to), count, "edge stream-edge", &words);
        }
    }
    for (number, drawn) in of_rules.iter().enumerate() {
        rule(&mut body, &layout, number, drawn);
    }
    for (number, node) in (rules..).zip(&graph.streams) {
        stream(&mut body, &layout, number, node);
    }
    let high = layout.rows as f64 * DOWN - (DOWN - HIGH) + 4.0;
    let width = layout.width;
    Some(format!(
        "<svg viewBox=\"0 0 {width} {high}\" style=\"width:{width}px\" role=\"img\" aria-label=\"graph of rules\">{body}</svg>"
    ))
}

fn edge(
    body: &mut String,
    layout: &Layout,
    (from, to): (usize, usize),
    count: usize,
    class: &str,
    words: &str,
) {
    let (x1, x2) = (layout.middle[from], layout.middle[to]);
    let top = |node: usize| 2.0 + layout.row[node] as f64 * DOWN;
    let (y1, y2) = (top(from) + HIGH, top(to));
    let thick = 1.0 + (count as f64).log10();
    let line = if y2 > y1 {
        let bend = (y2 - y1) / 2.0;
        format!(
            "M{x1:.1} {y1:.1}C{x1:.1} {:.1} {x2:.1} {:.1} {x2:.1} {y2:.1}",
            y1 + bend,
            y2 - bend
        )
    } else {
        // Within a rule, or back: around the right side of the boxes.
        let (x1, x2) = (x1 + layout.wide / 2.0, x2 + layout.wide / 2.0);
        let (y1, y2) = (y1 - HIGH / 3.0, y2 + HIGH / 3.0);
        let far = x1.max(x2) + 16.0;
        format!("M{x1:.1} {y1:.1}C{far:.1} {y1:.1} {far:.1} {y2:.1} {x2:.1} {y2:.1}")
    };
    let _ = write!(
        body,
        "<path class=\"{class}\" stroke-width=\"{thick:.1}\" d=\"{line}\"><title>{}</title></path>",
        escape(words)
    );
}

/// What is said of streams below their name.
fn stream_facts(node: &StreamNode) -> String {
    let troubles = node.troubles().map(|(count, what)| match node.streams {
        1 => format!("{what}, "),
        _ => format!("{count} {what}, "),
    });
    let streams = (node.streams > 1).then(|| format!("{}, ", counted(node.streams, "stream")));
    let all: String = streams.into_iter().chain(troubles).collect();
    format!("{all}{}, {}", bytes(node.bytes), counted_u64(node.records, "record"))
}

/// A stream has round ends.
fn stream(body: &mut String, layout: &Layout, number: usize, node: &StreamNode) {
    let (wide, x) = (layout.wide, layout.middle[number] - layout.wide / 2.0);
    let y = 2.0 + layout.row[number] as f64 * DOWN;
    let facts = stream_facts(node);
    let place = if node.place.is_empty() { String::new() } else { format!(" ({})", node.place) };
    let class = if node.broken > 0 { "stream rule-failed" } else { "stream" };
    let room = wide - 2.0 * STREAM_LEFT;
    let _ = write!(
        body,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide}\" height=\"{HIGH}\" \
         rx=\"{:.1}\"/><text class=\"strong\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        escape(&format!("stream {}{place}: {facts}", node.name)),
        HIGH / 2.0,
        x + STREAM_LEFT,
        y + 18.0,
        escape(&fitted_name(&node.name, true, room)),
        x + STREAM_LEFT,
        y + 35.0,
        escape(&fitted(&facts, false, room))
    );
}

/// What is said of a rule.
struct RuleBox {
    /// What it is called.
    label: String,
    /// Below that.
    facts: String,
    /// With its place, and with all figures.
    whole: String,
    /// Class of its colour.
    colour: String,
    is_failed: bool,
}

impl RuleBox {
    fn of(report: &Report, node: &RuleNode) -> Self {
        let summary = report.summary;
        let colour = node.group.map(|group| {
            let place = summary.ranked.iter().position(|&ranked| ranked == group).unwrap_or(0);
            colour_class(place, summary.curve.groups.len())
        });
        let label = label(report, node);
        let tasks = counted(node.tasks, "task");
        let mut facts = tasks.clone();
        if let Some(mean_s) = node.times.mean_s() {
            let _ = write!(facts, ", mean {}", seconds(mean_s));
        }
        let mut bad = String::new();
        for (count, what) in node.not_done(report.run.alive) {
            let _ = write!(bad, ", {count} {what}");
        }
        let place = node.location.as_deref().filter(|place| !label.contains(place));
        let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
        let is_failed = node.failed > 0;
        Self {
            whole: format!("{label}{place}: {facts}{bad}"),
            facts: if is_failed { format!("{tasks}{bad}") } else { facts },
            label,
            colour: colour.map_or_else(|| "none".to_owned(), |class| format!("c{class}")),
            is_failed,
        }
    }
}

fn rule(body: &mut String, layout: &Layout, number: usize, drawn: &RuleBox) {
    let (wide, x) = (layout.wide, layout.middle[number] - layout.wide / 2.0);
    let y = 2.0 + layout.row[number] as f64 * DOWN;
    let class = if drawn.is_failed { "rule rule-failed" } else { "rule" };
    let room = wide - RULE_LEFT - RIGHT;
    let _ = write!(
        body,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide}\" height=\"{HIGH}\" \
         rx=\"6\"/><rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"{:.1}\" rx=\"2\"/>\
         <text class=\"strong\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        escape(&drawn.whole),
        drawn.colour,
        x + 6.0,
        y + 7.0,
        HIGH - 14.0,
        x + RULE_LEFT,
        y + 18.0,
        escape(&fitted_name(&drawn.label, true, room)),
        x + RULE_LEFT,
        y + 35.0,
        escape(&fitted(&drawn.facts, false, room))
    );
}

fn label(report: &Report, node: &RuleNode) -> String {
    match (node.group, &node.pattern) {
        (_, Some(pattern)) if node.is_sync => pattern.clone(),
        (Some(group), _) => report.label(group),
        (None, Some(pattern)) => pattern.clone(),
        (None, None) => node.program.clone().unwrap_or_else(|| node.example.to_display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(count: usize, edges: &[(usize, usize)]) -> Shape {
        Shape { count, edges: edges.to_vec() }
    }

    #[test]
    fn a_stream_stands_between_the_rules_that_it_joins_and_one_that_goes_back_closes_no_circle() {
        let stream = |from, to| StreamNode {
            from: vec![(from, 2)],
            to: vec![(to, 1)],
            ..StreamNode::default()
        };
        let graph = RuleGraph {
            nodes: vec![RuleNode::default(); 2],
            edges: Vec::new(),
            streams: vec![stream(1, 0), stream(0, 1)],
        };
        let shape = Shape::of(&graph);
        assert_eq!(shape.edges, [(1, 2), (2, 0), (0, 3), (3, 1)]);
        assert_eq!(rows(&shape), [2, 0, 1, 3]);
    }

    #[test]
    fn rules_stand_below_all_that_precedes_them() {
        assert_eq!(rows(&graph(4, &[(0, 1), (1, 2), (0, 2), (3, 2)])), [0, 1, 2, 0]);
    }

    #[test]
    fn circles_and_rules_that_feed_themselves_have_rows_too() {
        assert_eq!(rows(&graph(3, &[(0, 1), (1, 0), (1, 1), (1, 2)])), [0, 1, 2]);
    }

    #[test]
    fn boxes_of_a_row_do_not_overlap() {
        let layout = Layout::of(&graph(6, &[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]), 190.0);
        let mut middles = layout.middle[1..].to_vec();
        middles.sort_by(f64::total_cmp);
        assert!(middles.windows(2).all(|pair| pair[1] - pair[0] >= 190.0), "{middles:?}");
        assert!(middles[0] >= 95.0 && middles[4] <= layout.width - 95.0);
    }
}
