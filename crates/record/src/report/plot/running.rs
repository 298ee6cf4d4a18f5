//! Running processes over time by rule, stacked (Tanaka and Tatebe 2014, figures 11 to 14).

use std::fmt::Write as _;

use crate::report::Report;
use crate::report::plot::drawing::{
    LEFT, RIGHT, WIDTH, colour_class, document, escape, inline, number, step, time_axis,
};
use crate::report::text::series_label;
use crate::summary::curve::BINS;

/// Top of the plot, px.
const TOP: f64 = 14.0;
/// Height of the plot, px.
const HIGH: f64 = 250.0;
/// Bottom of the plot, px.
const BOTTOM: f64 = TOP + HIGH;
/// Height of a row of the legend, px.
const LEGEND_ROW: f64 = 18.0;

/// The plot; as a part of a page it has no legend.
pub fn running(report: &Report, own: bool) -> String {
    let range_s = report.summary.makespan_s();
    let body = body(report, range_s, top_of(report));
    let title = format!("Running processes over time by rule, run {}", report.run.started.run);
    if !own {
        return inline(WIDTH, BOTTOM + 42.0, &title, &body);
    }
    let legend = legend(report);
    let rows = report.summary.curve.series.len() as f64;
    document(WIDTH, BOTTOM + 50.0 + rows * LEGEND_ROW, &title, &(body + &legend))
}

/// The same on axes that two plots share: seconds, and processes.
pub fn running_scaled(report: &Report, range_s: f64, top: f64) -> String {
    let title = format!("Running processes over time by rule, run {}", report.run.started.run);
    inline(WIDTH, BOTTOM + 42.0, &title, &body(report, range_s, top))
}

/// The largest value of the axis of processes.
pub fn top_of(report: &Report) -> f64 {
    let most = report.summary.curve.total().into_iter().fold(0.0, f64::max);
    most.max(cores(report)).max(1.0) * 1.05
}

/// Mean number of cores.
fn cores(report: &Report) -> f64 {
    let makespan_s = report.summary.makespan_s();
    if makespan_s > 0.0 { report.summary.available_core_s / makespan_s } else { 0.0 }
}

fn body(report: &Report, range_s: f64, top: f64) -> String {
    let mut body = String::new();
    process_axis(&mut body, top);
    time_axis(&mut body, range_s, TOP, BOTTOM);
    let share = if range_s > 0.0 { report.summary.makespan_s() / range_s } else { 1.0 };
    areas(&mut body, report, (WIDTH - LEFT - RIGHT) * share, top);
    let cores = cores(report);
    if cores > 0.0 {
        let y = BOTTOM - HIGH * cores / top;
        let _ = write!(
            body,
            "<path class=\"cores\" d=\"M{LEFT} {y:.1}H{:.1}\"><title>{} cores</title></path>",
            WIDTH - RIGHT,
            number((cores * 100.0).round() / 100.0)
        );
    }
    body
}

fn process_axis(body: &mut String, top: f64) {
    let step = step(top, 6.0).max(1.0);
    let mut value = 0.0;
    while value <= top {
        let y = BOTTOM - HIGH * value / top;
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            number(value)
        );
        value += step;
    }
    let middle = TOP + HIGH / 2.0;
    let _ = write!(
        body,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}\"/>\
         <text class=\"upright\" transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">running processes</text>"
    );
}

/// From the whole stack down, so that each area only needs its upper edge.
fn areas(body: &mut String, report: &Report, wide: f64, top: f64) {
    let curve = &report.summary.curve;
    let shown = curve.groups.len();
    let mut stack = curve.total();
    for (index, series) in curve.series.iter().enumerate().rev() {
        let label = escape(&series_label(report, curve, index));
        let _ = write!(
            body,
            "<path class=\"area c{}\" d=\"{}\"><title>{label}</title></path>",
            colour_class(index, shown),
            edge(&stack, wide, top)
        );
        for (sum, value) in stack.iter_mut().zip(series) {
            *sum -= value;
        }
    }
}

fn edge(values: &[f64], wide: f64, top: f64) -> String {
    let x = |bin: usize| LEFT + wide * bin as f64 / BINS as f64;
    let mut path = format!("M{LEFT} {BOTTOM}");
    let mut drawn = String::new();
    for (bin, value) in values.iter().enumerate() {
        let y = format!("{:.1}", BOTTOM - HIGH * value.max(0.0) / top);
        if y != drawn {
            let _ = write!(path, "H{:.1}V{y}", x(bin));
            drawn = y;
        }
    }
    let _ = write!(path, "H{:.1}V{BOTTOM}Z", x(BINS));
    path
}

fn legend(report: &Report) -> String {
    let curve = &report.summary.curve;
    let mut legend = String::new();
    for index in 0..curve.series.len() {
        let y = BOTTOM + 50.0 + LEGEND_ROW * index as f64;
        let _ = write!(
            legend,
            "<rect class=\"c{}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"12\" height=\"12\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            colour_class(index, curve.groups.len()),
            LEFT + 20.0,
            y + 10.5,
            escape(&series_label(report, curve, index))
        );
    }
    legend
}
