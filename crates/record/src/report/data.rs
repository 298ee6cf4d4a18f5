//! The attempts and the tasks of a run as the page's script reads them: numbers in base64, texts
//! front-coded. About 10 bytes for each attempt, and 20 and what is new in its texts for each task.
//!
//! The script that reads this is `assets/report.js`; both change together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::report::Report;
use crate::report::failures::line_with_env;
use crate::report::plot::{Cells, places};
use crate::summary::outcomes::Fate;
use crate::summary::spans::{Ending, Span};
use crate::summary::task_rows::{TaskRow, task_rows};
use crate::words::reason_in_words;

/// Maximum number of attempts that the chart shows one by one, with their names. With more it shows cells.
pub const SPANS_MAX: usize = 200_000;
/// Maximum rows of the table of tasks.
pub const ROWS_OF_TABLE_MAX: usize = 200_000;
/// Maximum characters of a command in it.
const COMMAND_MAX: usize = 400;
/// Maximum rows of the aggregated chart.
const ROWS_MAX: u32 = 256;
/// Maximum columns of the aggregated chart.
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
        "start_ms": summary.start_ns / 1_000_000,
        "table": table(report),
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
        varint(&mut bytes, u64::from(piece.node));
        varint(&mut bytes, u64::from(piece.lane));
        varint(&mut bytes, u64::from(piece.cores));
        varint(&mut bytes, u64::from(span.group));
        varint(&mut bytes, flags(span, critical.contains(&span.task)));
        zigzag(&mut bytes, i64::from(span.task) - before_task);
        (before_us, before_task) = (start_us, i64::from(span.task));
    }
    json!({"spans": base64(&bytes), "names": base64(&names_of_attempted(report))})
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

/// Of each task with an attempt: its number less the one before, and its name.
fn names_of_attempted(report: &Report) -> Vec<u8> {
    let mut attempted = vec![false; report.run.tasks.len()];
    for span in &report.summary.spans {
        attempted[span.task as usize] = true;
    }
    let mut texts = FrontCoded::default();
    let mut before_task = 0;
    for task in (0..attempted.len() as u32).filter(|task| attempted[*task as usize]) {
        varint(&mut texts.bytes, u64::from(task - before_task));
        texts.add(report.name(task));
        before_task = task;
    }
    texts.bytes
}

/// Texts one after another, each as the number of bytes in common with the one before, the number of
/// further bytes, and these.
#[derive(Default)]
struct FrontCoded {
    bytes: Vec<u8>,
    before: String,
}

impl FrontCoded {
    fn add(&mut self, text: String) {
        let pairs = text.bytes().zip(self.before.bytes());
        let common = pairs.take_while(|(left, right)| left == right).count();
        varint(&mut self.bytes, common as u64);
        varint(&mut self.bytes, (text.len() - common) as u64);
        self.bytes.extend_from_slice(&text.as_bytes()[common..]);
        self.before = text;
    }
}

/// What became of a task, for its row. The first are those that a user looks for after a failed run.
const FATES: [Fate; 9] = [
    Fate::Failed,
    Fate::Stopped,
    Fate::Running,
    Fate::Abandoned,
    Fate::NotReached,
    Fate::NotStarted,
    Fate::Ran,
    Fate::Passed,
    Fate::NotNeeded,
];

fn rank(fate: Fate) -> usize {
    FATES.iter().position(|other| *other == fate).unwrap_or(FATES.len() - 1)
}

/// The rows of the table of all tasks: those that failed first, then by start.
fn table(report: &Report) -> Value {
    let mut rows = task_rows(report.run, report.summary);
    let all = rows.len();
    let start = |row: &TaskRow| row.last.map_or(i64::MAX, |(_, span)| span.start_ns);
    rows.sort_by_key(|row| (row.fate != Fate::Failed, start(row), row.task.defined.task));
    rows.truncate(ROWS_OF_TABLE_MAX);
    let mut exits: Vec<String> = Vec::new();
    let (mut numbers, mut before_task) = (Vec::new(), 0_i64);
    let mut texts: [FrontCoded; 3] = Default::default();
    for row in &rows {
        let task = i64::from(row.task.defined.task);
        zigzag(&mut numbers, task - before_task);
        before_task = task;
        numbers_of(&mut numbers, row, report, &mut exits);
        let command: String = row.command.map(line_with_env).unwrap_or_default();
        texts[0].add(row.task.defined.name.to_display());
        texts[1].add(command.chars().take(COMMAND_MAX).collect());
        texts[2].add(reasons(row));
    }
    let [names, commands, reasons] = texts.map(|texts| base64(&texts.bytes));
    json!({
        "rows": rows.len(),
        "tasks": all,
        "fates": FATES.map(Fate::word),
        "exits": exits,
        "numbers": base64(&numbers),
        "names": names,
        "commands": commands,
        "reasons": reasons,
    })
}

/// Numbers of a row; of what is not known 0, else one more than it is.
fn numbers_of(numbers: &mut Vec<u8>, row: &TaskRow, report: &Report, exits: &mut Vec<String>) {
    let known = |value: Option<u64>| value.map_or(0, |value| value.saturating_add(1));
    let exit = row.exit().map(|exit| {
        let place = exits.iter().position(|known| *known == exit);
        place.unwrap_or_else(|| {
            exits.push(exit);
            exits.len() - 1
        }) as u64
    });
    let span = row.last.map(|(_, span)| span);
    let cpu = row.cpu_share().map(|share| (share * 1000.0).round() as u64);
    let start = span.map(|span| micros(span.start_ns - report.summary.start_ns));
    for value in [
        rank(row.fate) as u64,
        row.attempts as u64,
        known(span.map(|span| u64::from(span.group))),
        known(span.map(|span| u64::from(span.node))),
        known(exit),
        known(start),
        known(span.map(|span| micros(span.duration_ns()))),
        known(cpu),
        known(row.usage.and_then(|usage| usage.rss_bytes_max)),
        known(row.memory_bytes_wanted()),
        known(row.usage.map(|usage| usage.bytes.read)),
        known(row.usage.map(|usage| usage.bytes.written)),
    ] {
        varint(numbers, value);
    }
}

fn reasons(row: &TaskRow) -> String {
    let reasons = row.reasons();
    let words = reasons.first().map(reason_in_words).unwrap_or_default();
    if reasons.len() > 1 { format!("{words}; and {} more", reasons.len() - 1) } else { words }
}

fn cells(report: &Report) -> Value {
    cells_of(report, ROWS_MAX, COLUMNS)
}

/// The chart as cells, with at most `rows_max` rows and `columns` columns.
pub(crate) fn cells_of(report: &Report, rows_max: u32, columns: usize) -> Value {
    let cells = Cells::of(report, rows_max, columns);
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

pub(crate) fn base64(bytes: &[u8]) -> String {
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
