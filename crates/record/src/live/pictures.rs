//! The two pictures of the live page: those of the report, made of the run as far as it is known.

use serde_json::{Value, json};

use crate::report::plot::{Rows, colour_class, running};
use crate::report::text::series_label;
use crate::report::{Report, data};

/// Maximum rows of the chart of attempts. A page draws rows and columns in a few milliseconds, however many attempts
/// there are.
const ROWS_MAX: u32 = 96;
/// Columns of that chart.
const COLUMNS: usize = 480;

/// Running processes over time as SVG, its legend, and the chart of attempts as cells.
pub fn pictures(report: &Report) -> Value {
    let summary = report.summary;
    let curve = &summary.curve;
    let legend: Vec<Value> = (0..curve.series.len())
        .map(|index| {
            let colour = colour_class(index, curve.groups.len());
            json!({"label": series_label(report, curve, index), "colour": colour})
        })
        .collect();
    let rows = Rows::of(summary, ROWS_MAX);
    let nodes: Vec<Value> = rows
        .lanes
        .iter()
        .zip(&rows.first_lane)
        .enumerate()
        .filter(|(_, (lanes, _))| **lanes > 0)
        .map(|(index, (lanes, first))| {
            json!({"name": report.node(index as u32), "first": first, "lanes": lanes})
        })
        .collect();
    let is_empty = summary.spans.is_empty();
    json!({
        "seconds": summary.makespan_s(),
        "running": (!curve.series.is_empty()).then(|| running(report, false)),
        "legend": legend,
        "nodes": nodes,
        "chart": (!is_empty).then(|| data::cells_of(report, ROWS_MAX, COLUMNS)),
    })
}
