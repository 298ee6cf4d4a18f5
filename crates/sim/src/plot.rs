//! Pictures of results, as SVG: how many tasks of each program ran at a time, and how the time
//! falls with the number of nodes.
//!
//! Text only; touches no file.

#![allow(clippy::cast_precision_loss, reason = "positions in a picture")]

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiment::CellResult;
use crate::outcome::Outcome;
use crate::units::SECOND_NS;
use crate::workload::Workload;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 180.0;
const BOTTOM: f64 = 40.0;
/// Maximum number of points of a curve.
const STEPS: u64 = 600;
/// Distinguishable also without all colours (Okabe, Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"];

/// The label of a combination.
pub fn label(result: &CellResult) -> String {
    let locality = if result.locality { "locality" } else { "no locality" };
    let steal = if result.steal { "" } else { ", no stealing" };
    format!("{}, {locality}{steal}", result.policy)
}

/// Running tasks by program over time, one panel for each result.
pub fn curves_svg(workload: &Workload, results: &[CellResult]) -> String {
    let end_ns = results.iter().map(|result| result.outcome.makespan_ns).max().unwrap_or(1).max(1);
    let mut svg = begin(results.len());
    for (row, result) in results.iter().enumerate() {
        let top = TOP + row as f64 * (HEIGHT + TOP + BOTTOM);
        let cores = result.outcome.cores as f64;
        let title = format!("{} on {} nodes: {}", result.workload, result.nodes, label(result));
        axes(&mut svg, top, &title, cores);
        let end_s = format!("{} s", short(end_ns as f64 / SECOND_NS as f64));
        let (x, y) = (LEFT + WIDTH, top + HEIGHT + 18.0);
        writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{end_s}</text>")
            .expect("text takes text");
        let at = |step: u64| (u128::from(end_ns) * u128::from(step) / u128::from(STEPS)) as u64;
        let times: Vec<u64> = (0..=STEPS).map(at).collect();
        let curves = curves(workload, &result.outcome, &times);
        for (index, (rule, curve)) in workload.rules.iter().zip(&curves).enumerate() {
            let points = curve.iter().map(|&(time_ns, running)| {
                (time_ns as f64 / end_ns as f64, f64::from(running) / cores)
            });
            line(&mut svg, top, index, rule, points);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// How many tasks of each program ran in a run, every `step_ns` (not 0) from its start on.
pub fn running_tasks(
    workload: &Workload,
    outcome: &Outcome,
    step_ns: u64,
) -> BTreeMap<String, Vec<u32>> {
    let steps = outcome.makespan_ns / step_ns.max(1);
    let times: Vec<u64> = (0..=steps).map(|step| step * step_ns).collect();
    let curves = curves(workload, outcome, &times).into_iter();
    let counts = curves.map(|curve| curve.into_iter().map(|(_, running)| running).collect());
    workload.rules.iter().cloned().zip(counts).collect()
}

/// For each rule how many of its tasks ran, at these times.
fn curves(workload: &Workload, outcome: &Outcome, times: &[u64]) -> Vec<Vec<(u64, u32)>> {
    let mut changes: Vec<(u64, usize, i32)> = Vec::new();
    for (spec, record) in workload.tasks.iter().zip(&outcome.tasks) {
        if let Some(record) = record {
            changes.push((record.started_ns, spec.rule.index(), 1));
            changes.push((record.ended_ns, spec.rule.index(), -1));
        }
    }
    changes.sort_unstable();
    let mut running = vec![0_i32; workload.rules.len()];
    let mut curves = vec![Vec::with_capacity(times.len()); workload.rules.len()];
    let mut next = 0;
    for &time_ns in times {
        while let Some(&(change_ns, rule, by)) = changes.get(next)
            && change_ns <= time_ns
        {
            running[rule] += by;
            next += 1;
        }
        for (curve, running) in curves.iter_mut().zip(&running) {
            curve.push((time_ns, running.unsigned_abs()));
        }
    }
    curves
}

/// Times over numbers of nodes, both logarithmic, one line for each way to schedule; dashed: the lower bound.
pub fn scaling_svg(results: &[CellResult]) -> String {
    let nodes = |result: &CellResult| f64::from(result.nodes.max(1)).ln();
    let time = |seconds: f64| seconds.max(1e-3).ln();
    let lows = results.iter().map(|result| time(result.lower_bound_s.min(result.makespan_s)));
    let low = lows.fold(f64::INFINITY, f64::min);
    let high = results.iter().map(|r| time(r.makespan_s)).fold(low + 1e-6, f64::max);
    let first = results.iter().map(nodes).fold(f64::INFINITY, f64::min);
    let last = results.iter().map(nodes).fold(first + 1e-6, f64::max);
    let mut svg = begin(1);
    let name = results.first().map_or("", |result| result.workload.as_str());
    let title = format!("{name}: time (s) over nodes, both logarithmic; dashed: lower bound");
    axes(&mut svg, TOP, &title, high.exp());
    let mut sizes: Vec<u32> = results.iter().map(|result| result.nodes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        tick(&mut svg, TOP, (f64::from(size.max(1)).ln() - first) / (last - first), size);
    }
    let mut labels: Vec<String> = results.iter().map(label).collect();
    labels.dedup();
    labels.sort();
    labels.dedup();
    let place = |result: &CellResult, seconds: f64| {
        ((nodes(result) - first) / (last - first), (time(seconds) - low) / (high - low))
    };
    for (index, label_of_line) in labels.iter().enumerate() {
        let own = results.iter().filter(|result| label(result) == *label_of_line);
        line(
            &mut svg,
            TOP,
            index,
            label_of_line,
            own.map(|result| place(result, result.makespan_s)),
        );
    }
    let bounds = results.iter().filter(|result| Some(&label(result)) == labels.first());
    let points = points(TOP, bounds.map(|result| place(result, result.lower_bound_s)));
    let dashed = "fill=\"none\" stroke=\"#777\" stroke-dasharray=\"4 3\"";
    writeln!(svg, "<polyline points=\"{points}\" {dashed}/>").expect("text takes text");
    svg.push_str("</svg>\n");
    svg
}

fn begin(panels: usize) -> String {
    let height = (HEIGHT + TOP + BOTTOM) * panels.max(1) as f64;
    let width = LEFT + WIDTH + RIGHT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    )
}

fn axes(svg: &mut String, top: f64, title: &str, high: f64) {
    let bottom = top + HEIGHT;
    let end = LEFT + WIDTH;
    let title = escaped(title);
    let text = format!(
        "<text x=\"{LEFT}\" y=\"{:.1}\">{title}</text>\n\
         <path d=\"M{LEFT} {top:.1}V{bottom:.1}H{end}\" fill=\"none\" stroke=\"#000\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
        top - 10.0,
        LEFT - 6.0,
        top + 10.0,
        short(high),
    );
    svg.push_str(&text);
}

/// Three digits are enough for an axis.
fn short(value: f64) -> String {
    if value >= 100.0 || value.fract().abs() < 1e-9 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn points(top: f64, points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in points {
        let (x, y) = (LEFT + x * WIDTH, top + HEIGHT * (1.0 - y));
        write!(text, "{x:.1},{y:.1} ").expect("text takes text");
    }
    text
}

/// A line within the unit square, and its name at the right.
fn line(
    svg: &mut String,
    top: f64,
    index: usize,
    name: &str,
    at: impl Iterator<Item = (f64, f64)>,
) {
    let colour = COLOURS[index % COLOURS.len()];
    let points = points(top, at);
    let (x, y) = (LEFT + WIDTH + 10.0, top + 12.0 + 16.0 * index as f64);
    let name = escaped(name);
    // A second round of the colours is dashed.
    let dash = if index < COLOURS.len() { "" } else { " stroke-dasharray=\"6 3\"" };
    let mark = if index < COLOURS.len() { "" } else { " (dashed)" };
    let text = format!(
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"{dash}/>\n\
         <text x=\"{x}\" y=\"{y:.1}\" fill=\"{colour}\">{name}{mark}</text>\n"
    );
    svg.push_str(&text);
}

/// A mark and a number below the axis.
fn tick(svg: &mut String, top: f64, x: f64, number: u32) {
    let (x, bottom) = (LEFT + x * WIDTH, top + HEIGHT);
    let text = format!(
        "<path d=\"M{x:.1} {bottom:.1}v5\" stroke=\"#000\"/>\n\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{number}</text>\n",
        bottom + 18.0
    );
    svg.push_str(&text);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
