//! The attempts of a run as the page's script reads them: numbers in base64, names front-coded. About 10 bytes for each attempt.
//!
//! The script that reads this is `assets/report.js`; both change together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::report::Report;
use crate::report::plot::{Cells, places};
use crate::summary::spans::{Ending, Span};

/// Attempts beyond which the chart shows cells instead of attempts, and no names.
pub const SPANS_MAX: usize = 200_000;
/// Cells of the aggregated chart.
const ROWS_MAX: u32 = 256;
const COLUMNS: usize = 2000;

/// All that the chart needs.
pub fn chart(report: &Report) -> Value {
    let summary = report.summary;
    let rows = crate::report::plot::Rows::of(summary, u32::MAX);
    let nodes: Vec<Value> = rows
        .lanes
        .iter()
        .enumerate()
        .map(|(index, &lanes)| json!({"name": report.node(index as u32), "lanes": lanes}))
        .collect();
    let labels: Vec<String> =
        (0..summary.groups.len() as u32).map(|group| report.label(group)).collect();
    let mut chart = json!({
        "seconds": summary.makespan_s(),
        "nodes": nodes,
        "rules": labels,
        "colours": places(report),
        "attempts": summary.spans.len(),
        "pieces": summary.pieces.len(),
    });
    let exact = summary.pieces.len() <= SPANS_MAX;
    let details = if exact { spans(report) } else { cells(report) };
    if let (Some(chart), Value::Object(details)) = (chart.as_object_mut(), details) {
        chart.extend(details);
    }
    chart
}

/// JSON that may stand in a script element: no `<`.
pub fn embedded(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn spans(report: &Report) -> Value {
    let summary = report.summary;
    let critical: BTreeSet<u32> = summary.critical.tasks.iter().copied().collect();
    let mut bytes = Vec::with_capacity(summary.pieces.len() * 12);
    let (mut before_us, mut before_task) = (0, 0_i64);
    for piece in &summary.pieces {
        let span = &summary.spans[piece.span as usize];
        let start_us = micros(piece.start_ns - summary.start_ns);
        varint(&mut bytes, start_us - before_us);
        varint(&mut bytes, micros(piece.end_ns - piece.start_ns));
        varint(&mut bytes, u64::from(span.node));
        varint(&mut bytes, u64::from(piece.lane));
        varint(&mut bytes, u64::from(piece.cores));
        varint(&mut bytes, u64::from(span.group));
        varint(&mut bytes, flags(span, critical.contains(&span.task)));
        zigzag(&mut bytes, i64::from(span.task) - before_task);
        (before_us, before_task) = (start_us, i64::from(span.task));
    }
    json!({"spans": base64(&bytes), "names": base64(&names(report))})
}

fn flags(span: &Span, critical: bool) -> u64 {
    let ending = match span.ending {
        Ending::Done => 0,
        Ending::Failed => 1,
        Ending::Retried => 2,
        Ending::Aborted => 3,
        Ending::Open => 4,
    };
    ending | u64::from(critical) << 3 | u64::from(span.attempt) << 4
}

/// Of each task with an attempt: its number less the one before, bytes in common with the name before, further bytes, these.
fn names(report: &Report) -> Vec<u8> {
    let mut attempted = vec![false; report.run.tasks.len()];
    for span in &report.summary.spans {
        attempted[span.task as usize] = true;
    }
    let mut bytes = Vec::new();
    let (mut before, mut before_task) = (String::new(), 0);
    for task in (0..attempted.len() as u32).filter(|task| attempted[*task as usize]) {
        let name = report.name(task);
        let common =
            name.bytes().zip(before.bytes()).take_while(|(left, right)| left == right).count();
        varint(&mut bytes, u64::from(task - before_task));
        varint(&mut bytes, common as u64);
        varint(&mut bytes, (name.len() - common) as u64);
        bytes.extend_from_slice(&name.as_bytes()[common..]);
        (before, before_task) = (name, task);
    }
    bytes
}

fn cells(report: &Report) -> Value {
    let cells = Cells::of(report, ROWS_MAX, COLUMNS);
    let places = places(report);
    let colour = |group: Option<u32>| group.map_or(0, |group| places[group as usize] as u8 + 1);
    let colours: Vec<u8> = cells.cells.iter().map(|cell| colour(cell.0)).collect();
    let busy: Vec<u8> = cells.cells.iter().map(|cell| (cell.1 * 255.0).round() as u8).collect();
    json!({
        "columns": cells.columns,
        "rows": cells.rows.count,
        "in_row": cells.rows.in_row,
        "cell_colours": base64(&colours),
        "cell_busy": base64(&busy),
    })
}

fn micros(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    varint(bytes, (value << 1 ^ value >> 63) as u64);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three =
            [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn embedded_json_cannot_end_its_element() {
        assert_eq!(embedded(&json!("</script>")), "\"\\u003c/script>\"");
    }
}
