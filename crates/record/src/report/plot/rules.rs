//! How long the attempts of each rule took: histograms on one logarithmic axis.

use std::fmt::Write as _;

use crate::report::Report;
use crate::report::format::seconds;
use crate::report::plot::drawing::{colour_class, document, escape, first_of, inline};
use crate::summary::stats::LogBins;
use crate::summary::tables::GroupSummary;

/// Width of a histogram in a table, px.
const SMALL: f64 = 200.0;
/// Height of such a histogram, px.
const HIGH: f64 = 30.0;
/// Maximum number of rules in the picture of their own.
const ROWS_MAX: usize = 60;
/// Left of the histograms there, px.
const LABELS: f64 = 380.0;
/// Width of the histograms there, px.
const WIDE: f64 = 540.0;

/// The histogram of a rule for its row.
pub fn rule_plot(row: &GroupSummary, bins: &LogBins, class: usize) -> String {
    let label = match &row.durations {
        Some(times) => format!(
            "{} to {}, median {}",
            seconds(times.min),
            seconds(times.max),
            seconds(times.median)
        ),
        None => "no attempt ended".to_owned(),
    };
    inline(SMALL, HIGH, &label, &bars(row, bins, class, 0.0, 0.0, SMALL))
}

fn bars(
    row: &GroupSummary,
    bins: &LogBins,
    class: usize,
    left: f64,
    top: f64,
    wide: f64,
) -> String {
    let bottom = top + HIGH - 3.0;
    let mut body = format!("<path class=\"axis\" d=\"M{left:.1} {bottom:.1}h{wide:.1}\"/>");
    let most = row.histogram.iter().copied().max().unwrap_or(0).max(1);
    let bar = wide / bins.count as f64;
    for (bin, &count) in row.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        let high = (HIGH - 6.0) * (f64::from(count) / f64::from(most)).max(0.06);
        let _ = write!(
            body,
            "<rect class=\"c{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\"/>",
            left + bar * bin as f64,
            bottom - high,
            (bar - 0.6).max(0.8)
        );
    }
    if let Some(times) = &row.durations {
        let x = left + wide * bins.position(times.median);
        let _ = write!(
            body,
            "<path class=\"median\" d=\"M{x:.1} {:.1}v{:.1}\"/>",
            top + 1.0,
            HIGH - 1.0
        );
    }
    body
}

/// The ends of the axis, for the head of the table.
pub fn rule_axis(bins: &LogBins) -> (String, String) {
    let high = bins.low_log10 + bins.decades() as f64;
    (seconds(10_f64.powf(bins.low_log10)), seconds(10_f64.powf(high)))
}

/// All rules as a picture of its own.
pub fn rules(report: &Report) -> String {
    let summary = report.summary;
    let mut body = String::new();
    let all = summary.ranked.len();
    let high = 30.0 + (HIGH + 8.0) * all.min(ROWS_MAX) as f64 + 46.0;
    let left_out = first_of(ROWS_MAX, all);
    let title = format!("Time of attempts by rule{left_out}, run {}", report.run.started.run);
    let _ = write!(body, "<text x=\"12\" y=\"20\">{}</text>", escape(&title));
    if let Some(bins) = &summary.bins {
        for (index, &group) in summary.ranked.iter().take(ROWS_MAX).enumerate() {
            let top = 30.0 + (HIGH + 8.0) * index as f64;
            let row = &summary.groups[group as usize];
            let label: String = row.group.label().chars().take(52).collect();
            let _ =
                write!(body, "<text x=\"12\" y=\"{:.1}\">{}</text>", top + 19.0, escape(&label));
            body += &bars(
                row,
                bins,
                colour_class(index, summary.curve.groups.len()),
                LABELS,
                top,
                WIDE,
            );
        }
        decades(&mut body, bins, high - 44.0);
    }
    document(LABELS + WIDE + 24.0, high, &title, &body)
}

fn decades(body: &mut String, bins: &LogBins, y: f64) {
    for decade in 0..=bins.decades() {
        let x = LABELS + WIDE * decade as f64 / bins.decades() as f64;
        let value = seconds(10_f64.powf(bins.low_log10 + decade as f64));
        let _ = write!(
            body,
            "<path class=\"axis\" d=\"M{x:.1} {y:.1}v5\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>",
            y + 18.0
        );
    }
    let _ = write!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time of an attempt (logarithmic; bars: how many, line: median)</text>",
        LABELS + WIDE / 2.0,
        y + 36.0
    );
}
