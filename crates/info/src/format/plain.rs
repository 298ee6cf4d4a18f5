//! Tables for people: columns as wide as they need be, numbers to the right, sizes in units that one reads.

use std::sync::Arc;

use crate::query::{Answer, Answered};
use crate::value::{Kind, Value};

/// Longer texts are cut.
const WIDTH_MAX: usize = 40;

/// The columns of an answer: those asked for, or all that some row has.
pub(super) fn columns(answer: &Answer) -> Vec<(Arc<str>, Kind)> {
    if let Some(columns) = &answer.columns {
        return columns.clone();
    }
    let mut all: Vec<(Arc<str>, Kind)> = Vec::new();
    for value in answer.rows.iter().flat_map(|row| &row.values) {
        let kind = value.value.kind().unwrap_or(Kind::Text);
        match all.binary_search_by(|(name, _)| name.cmp(&value.name)) {
            Ok(at) if kind == Kind::Number => all[at].1 = kind,
            Ok(_) => {}
            Err(at) => all.insert(at, (Arc::clone(&value.name), kind)),
        }
    }
    all
}

/// The answer, with names above the columns.
pub fn write(answer: &Answer) -> String {
    let columns = columns(answer);
    let lead: &[&str] = if answer.is_grouped { &[] } else { &["node", "state"] };
    let mut lines: Vec<Vec<(String, bool)>> = Vec::new();
    let heading = |name: &str, is_number| (printable(name), is_number);
    let names = columns.iter().map(|(name, kind)| heading(name, *kind == Kind::Number));
    lines.push(lead.iter().map(|name| heading(name, false)).chain(names).collect());
    for row in &answer.rows {
        let lead = row
            .node
            .iter()
            .flat_map(|(name, state)| [(printable(name), false), (state.word().to_owned(), false)]);
        let values = columns.iter().map(|(name, kind)| {
            let found = row.values.iter().find(|value| value.name == *name);
            (found.map_or_else(|| "-".to_owned(), shown), *kind == Kind::Number)
        });
        lines.push(lead.chain(values).collect());
    }
    let count = lines[0].len();
    let width = |column: usize| {
        lines.iter().map(|line| line[column].0.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|((text, to_the_right), width)| {
            if *to_the_right { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A value for people.
pub fn shown(value: &Answered) -> String {
    match &value.value {
        Value::Number(number) => with_unit(*number, &value.unit),
        Value::Text(text) => printable(text),
        Value::Undefined(_) => "-".to_owned(),
    }
}

pub(super) fn with_unit(number: f64, unit: &str) -> String {
    match unit {
        "B" => bytes(number),
        "B/s" => format!("{}/s", bytes(number)),
        "%" => format!("{number:.1}%"),
        "s" if number >= 86_400.0 => format!("{:.1}d", number / 86_400.0),
        "s" if number >= 3600.0 => format!("{:.1}h", number / 3600.0),
        "s" if number >= 60.0 => format!("{:.1}min", number / 60.0),
        "s" => format!("{}s", short(number)),
        "" => short(number),
        unit => format!("{} {unit}", short(number)),
    }
}

fn short(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}

fn bytes(number: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = number;
    let mut index = 0;
    while scaled.abs() >= 1024.0 && index + 1 < units.len() {
        scaled /= 1024.0;
        index += 1;
    }
    if index == 0 {
        format!("{scaled:.0}{}", units[0])
    } else {
        format!("{scaled:.1}{}", units[index])
    }
}

/// Without control characters, and not too long.
fn printable(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { '?' } else { c });
    let mut out: String = chars.by_ref().take(WIDTH_MAX).collect();
    if chars.next().is_some() {
        out.pop();
        out.push('…');
    }
    out
}
