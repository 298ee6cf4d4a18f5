//! Version 2 of the object of nodes (docs/reference/json.md), written by hand: through a tree of
//! values the whole table of 500 nodes takes several times as long.

use std::fmt::Write as _;
use std::sync::Arc;

use rakuda_core::Time;

use crate::expression::ExpressionError;
use crate::query::{Answer, AnswerRow, Answered};
use crate::value::Value;

/// Writes the answer as one object.
pub fn write(answer: &Answer) -> String {
    let values: usize = answer.rows.iter().map(|row| row.values.len() + 2).sum();
    let mut out = String::with_capacity(64 + values * 64);
    put_head(&mut out, answer.change, answer.is_grouped);
    for (index, row) in answer.rows.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_row(&mut out, row, answer.now);
    }
    out.push(']');
    put_names(&mut out, "left", &answer.left);
    put_names(&mut out, "gone", &answer.gone);
    if answer.is_anew {
        out.push_str(",\"anew\":true");
    }
    out.push('}');
    out
}

/// Writes an answer that only says which nodes were removed.
pub fn write_gone(change: u64, gone: &[Arc<str>]) -> String {
    let mut out = String::new();
    put_head(&mut out, change, false);
    out.push(']');
    put_names(&mut out, "gone", gone);
    out.push('}');
    out
}

/// A field behind others, where there is something to say.
fn put_names(out: &mut String, field: &str, names: &[Arc<str>]) {
    for (index, name) in names.iter().enumerate() {
        if index == 0 {
            out.push(',');
            put_text(out, field);
            out.push_str(":[");
        } else {
            out.push(',');
        }
        put_text(out, name);
    }
    if !names.is_empty() {
        out.push(']');
    }
}

/// Writes what is wrong with a question.
pub fn write_error(message: &str, error: Option<&ExpressionError>) -> String {
    let mut out = String::from("{\"version\":2,\"error\":{\"message\":");
    put_text(&mut out, message);
    if let Some(error) = error {
        let _ = write!(out, ",\"position\":{}", error.position);
        if let Some(hint) = &error.hint {
            out.push_str(",\"hint\":");
            put_text(&mut out, hint);
        }
    }
    out.push_str("}}");
    out
}

/// A text as JSON.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    put_text(&mut out, text);
    out
}

/// The message that [`write_error`] has written.
pub fn error_message(bytes: &[u8]) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    object["error"]["message"].as_str().map(str::to_owned)
}

/// All in front of the first row.
pub(super) fn put_head(out: &mut String, change: u64, is_grouped: bool) {
    out.push_str("{\"version\":2,\"change\":");
    put_count(out, change);
    out.push_str(if is_grouped { ",\"groups\":[" } else { ",\"nodes\":[" });
}

/// A field and the comma behind it.
pub(super) fn put_text_field(out: &mut String, name: &str, value: &str) {
    put_text(out, name);
    out.push(':');
    put_text(out, value);
    out.push(',');
}

fn put_row(out: &mut String, row: &AnswerRow, now: Time) {
    out.push('{');
    if let Some((name, state)) = &row.node {
        if let Some(run) = &row.run {
            put_text_field(out, "run", run);
        }
        put_text_field(out, "node", name);
        put_text_field(out, "state", state.word());
    }
    out.push_str("\"values\":{");
    for (index, value) in row.values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_value(out, value, now);
    }
    out.push_str("}}");
}

fn put_value(out: &mut String, value: &Answered, now: Time) {
    put_text(out, &value.name);
    out.push_str(":{\"value\":");
    match &value.value {
        Value::Number(number) => put_number(out, *number),
        Value::Text(text) => put_text(out, text),
        Value::Undefined(_) => out.push_str("null"),
    }
    out.push_str(",\"unit\":");
    put_text(out, &value.unit);
    if let Some(sampled) = value.sampled {
        out.push_str(",\"age_s\":");
        put_age(out, sampled, now);
    }
    if let Value::Undefined(why) = &value.value
        && !why.is_empty()
    {
        out.push_str(",\"why\":");
        put_text(out, why);
    }
    out.push('}');
}

/// 2^64 has 20 digits; and a point, with one digit before it.
pub(super) type Digits = [u8; 22];

/// Seconds with three digits, in whole ms; where they begin in `digits`.
pub(super) fn age_digits(sampled: Time, now: Time, digits: &mut Digits) -> usize {
    let mut ms = now.0.saturating_sub(sampled.0) / 1_000_000;
    let mut at = digits.len();
    for place in 0.. {
        if place > 3 && ms == 0 {
            break;
        }
        at -= 1;
        if place == 3 {
            digits[at] = b'.';
            at -= 1;
        }
        digits[at] = b'0' + (ms % 10) as u8;
        ms /= 10;
    }
    at
}

/// Appends an age.
pub(super) fn put_age(out: &mut String, sampled: Time, now: Time) {
    let mut digits = Digits::default();
    let at = age_digits(sampled, now, &mut digits);
    put_ascii(out, &digits[at..]);
}

/// Digits and the like: one piece, not letter by letter.
fn put_ascii(out: &mut String, bytes: &[u8]) {
    out.push_str(std::str::from_utf8(bytes).expect("ASCII is UTF-8"));
}

/// A number as it is read back: the shortest digits that give the same double, without an
/// exponent, which not all readers know.
///
/// Whole numbers and hundredths, which nearly all are, are written by hand, several times as fast. Of
/// at most 15 digits each decimal has a double of its own, so no shorter one gives the same.
pub(super) fn put_number(out: &mut String, number: f64) {
    /// Maximum of numbers that are written by hand: each has at most 15 digits.
    const DIGITS_MAX: f64 = 1e15;
    let absolute = number.abs();
    let hundredths = (absolute * 100.0).round();
    let is_whole = absolute < DIGITS_MAX && absolute.fract() == 0.0;
    #[expect(clippy::float_cmp, reason = "the same double is wanted, no near one")]
    let is_hundredths = hundredths < DIGITS_MAX && hundredths / 100.0 == absolute;
    if !is_whole && !is_hundredths {
        let _ = write!(out, "{number}");
        return;
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative, and below 10^15"
    )]
    if is_whole {
        put_count(out, absolute as u64);
    } else {
        let hundredths = hundredths as u64;
        put_count(out, hundredths / 100);
        out.push('.');
        out.push(char::from(b'0' + (hundredths / 10 % 10) as u8));
        if !hundredths.is_multiple_of(10) {
            out.push(char::from(b'0' + (hundredths % 10) as u8));
        }
    }
}

/// A whole number.
fn put_count(out: &mut String, mut count: u64) {
    let mut digits = Digits::default();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (count % 10) as u8;
        count /= 10;
        if count == 0 {
            break;
        }
    }
    put_ascii(out, &digits[at..]);
}

pub(super) fn put_text(out: &mut String, text: &str) {
    out.push('"');
    // All that is a control character begins with one of these bytes, those of Latin-1 with 0xc2.
    let is_odd = |byte: u8| matches!(byte, b'"' | b'\\' | 0x7f | 0xc2) || byte < 0x20;
    if text.bytes().any(is_odd) {
        put_escaped(out, text);
    } else {
        out.push_str(text);
    }
    out.push('"');
}

fn put_escaped(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c.is_control()) {
        out.push_str(&rest[..at]);
        let c = rest[at..].chars().next().unwrap_or_default();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Query, Question};
    use crate::table::Table;

    #[test]
    fn what_is_written_is_json_with_all_that_is_known() {
        let mut table = Table::new();
        let node = table.node(Some("20261122-003300.952-13108"), "a\"\u{1}\u{85}b");
        let set = |table: &mut Table, name: &str, value| {
            let id = table.registry().find(name).unwrap();
            table.set(node, id, value, Time(1_000_000_000));
        };
        set(&mut table, "load1", Value::Number(0.52));
        set(&mut table, "mem_total", Value::Number(17_179_869_184.0));
        set(&mut table, "os", Value::text("Say \"hi\"\n\tto C:\\"));
        set(&mut table, "kernel", Value::undefined("nobody knows"));
        let query = Query::new(&Question::default(), table.registry()).unwrap();
        let text = write(&query.answer(&table, Time(2_234_900_000)));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let node = &read["nodes"][0];
        assert_eq!(read["version"], 2);
        assert_eq!(node["node"], "a\"\u{1}\u{85}b");
        assert_eq!(node["run"], "20261122-003300.952-13108");
        assert_eq!(node["state"], "up");
        let expected = serde_json::json!({"value": 0.52, "unit": "", "age_s": 1.234});
        assert_eq!(node["values"]["load1"], expected);
        assert_eq!(node["values"]["mem_total"]["value"], 17_179_869_184_u64);
        assert_eq!(node["values"]["os"]["value"], "Say \"hi\"\n\tto C:\\");
        let unknown =
            serde_json::json!({"value": null, "unit": "", "age_s": 1.234, "why": "nobody knows"});
        assert_eq!(node["values"]["kernel"], unknown);
    }
}
