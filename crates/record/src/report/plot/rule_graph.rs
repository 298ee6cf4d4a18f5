//! The graph of rules as a picture: what comes first stands above, and streams between the rules that
//! they join. Boxes of the same distance from the beginning share a row, and stand where most of
//! what precedes them does.

use std::fmt::Write as _;

use crate::export::workflow::reach_any;
use crate::report::Report;
use crate::report::format::{bytes, counted, counted_u64, seconds};
use crate::report::plot::{colour_class, escape};
use crate::summary::rule_graph::{RuleGraph, RuleNode, StreamNode};
use crate::summary::seconds as of_ns;

/// Rules that are drawn; a graph of more is not read as a picture.
pub const NODES_MAX: usize = 80;
/// A box, px.
const WIDE: f64 = 190.0;
const HIGH: f64 = 44.0;
/// From the left of a box to the left of the next, and from top to top.
const STEP: f64 = 210.0;
const DOWN: f64 = 86.0;
/// Beside the boxes, for lines that go back, px.
const MARGIN: f64 = 24.0;
/// Characters of a label in a box.
const LABEL: usize = 24;
/// Times that the boxes of all rows are put in order.
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
}

impl Layout {
    fn of(graph: &Shape) -> Self {
        let row = rows(graph);
        let count = row.iter().max().map_or(0, |last| last + 1);
        let mut order: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (node, &row) in row.iter().enumerate() {
            order[row].push(node);
        }
        let widest = order.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let width = widest as f64 * STEP + MARGIN;
        let mut middle = vec![0.0; row.len()];
        place(&order, width, &mut middle);
        for sweep in 0..SWEEPS {
            for nodes in &mut order {
                let wanted = |node: usize| wanted(graph, &middle, node, sweep % 2 == 0);
                let mut keyed: Vec<(f64, usize)> =
                    nodes.iter().map(|&node| (wanted(node), node)).collect();
                keyed.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
                *nodes = keyed.into_iter().map(|(_, node)| node).collect();
            }
            place(&order, width, &mut middle);
        }
        Self { row, middle, rows: count, width }
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

fn place(order: &[Vec<usize>], width: f64, middle: &mut [f64]) {
    for nodes in order {
        let left = (width - nodes.len() as f64 * STEP) / 2.0 + STEP / 2.0;
        for (place, &node) in nodes.iter().enumerate() {
            middle[node] = left + place as f64 * STEP;
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

/// The picture; none of a run without rules, or with more boxes than [`NODES_MAX`].
pub fn rule_graph(report: &Report) -> Option<String> {
    let graph = RuleGraph::of(report.run);
    let rules = graph.nodes.len();
    if rules == 0 || rules + graph.streams.len() > NODES_MAX {
        return None;
    }
    let layout = Layout::of(&Shape::of(&graph));
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
    for (number, node) in graph.nodes.iter().enumerate() {
        rule(&mut body, report, &layout, number, node);
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
        let (x1, x2) = (x1 + WIDE / 2.0, x2 + WIDE / 2.0);
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

/// A stream has round ends.
fn stream(body: &mut String, layout: &Layout, number: usize, node: &StreamNode) {
    let x = layout.middle[number] - WIDE / 2.0;
    let y = 2.0 + layout.row[number] as f64 * DOWN;
    let mut facts = format!("{}, {}", bytes(node.bytes), counted_u64(node.records, "record"));
    if node.streams > 1 {
        facts = format!("{}, {facts}", counted(node.streams, "stream"));
    }
    let place = if node.place.is_empty() { String::new() } else { format!(" ({})", node.place) };
    let class = if node.broken > 0 { "stream rule-failed" } else { "stream" };
    let bad = match node.broken {
        0 => String::new(),
        broken => format!("{} not whole, ", counted(broken, "stream")),
    };
    let _ = write!(
        body,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDE}\" height=\"{HIGH}\" \
         rx=\"{:.1}\"/><text class=\"strong\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        escape(&format!("stream {}{place}: {bad}{facts}", node.name)),
        HIGH / 2.0,
        x + 22.0,
        y + 18.0,
        escape(&short(&node.name)),
        x + 22.0,
        y + 35.0,
        escape(&format!("{bad}{facts}"))
    );
}

fn short(label: &str) -> String {
    if label.chars().count() > LABEL {
        label.chars().take(LABEL - 1).chain(['…']).collect()
    } else {
        label.to_owned()
    }
}

fn rule(body: &mut String, report: &Report, layout: &Layout, number: usize, node: &RuleNode) {
    let x = layout.middle[number] - WIDE / 2.0;
    let y = 2.0 + layout.row[number] as f64 * DOWN;
    let summary = report.summary;
    let colour = node.group.map(|group| {
        let place = summary.ranked.iter().position(|&ranked| ranked == group).unwrap_or(0);
        colour_class(place, summary.curve.groups.len())
    });
    let label = label(report, node);
    let mut facts = counted(node.tasks, "task");
    if let Some(mean_ns) = node.mean_ns() {
        let _ = write!(facts, ", mean {}", seconds(of_ns(mean_ns)));
    }
    let mut bad = String::new();
    for (count, what) in node.not_done(report.run.alive) {
        let _ = write!(bad, ", {count} {what}");
    }
    let place = node.location.as_deref().filter(|place| !label.contains(place));
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    let whole = escape(&format!("{label}{place}: {facts}{bad}"));
    let class = if node.failed > 0 { "rule rule-failed" } else { "rule" };
    let colour = colour.map_or_else(|| "none".to_owned(), |class| format!("c{class}"));
    if node.failed > 0 {
        facts = format!("{}{bad}", counted(node.tasks, "task"));
    }
    let _ = write!(
        body,
        "<g><title>{whole}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDE}\" height=\"{HIGH}\" \
         rx=\"6\"/><rect class=\"{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"{:.1}\" rx=\"2\"/>\
         <text class=\"strong\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        x + 6.0,
        y + 7.0,
        HIGH - 14.0,
        x + 18.0,
        y + 18.0,
        escape(&short(&label)),
        x + 18.0,
        y + 35.0,
        escape(&facts)
    );
}

fn label(report: &Report, node: &RuleNode) -> String {
    match (node.group, &node.pattern) {
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
        let layout = Layout::of(&graph(6, &[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]));
        let mut middles = layout.middle[1..].to_vec();
        middles.sort_by(f64::total_cmp);
        assert!(middles.windows(2).all(|pair| pair[1] - pair[0] >= STEP - 0.01), "{middles:?}");
        assert!(middles[0] >= WIDE / 2.0 && middles[4] <= layout.width - WIDE / 2.0);
    }
}
