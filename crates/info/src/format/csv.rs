//! Comma-separated values (RFC 4180): a line of names, then one for each row. Undefined values are empty. The age of a
//! value, where that is wanted, is in a column of its own behind it.

use super::{Ages, digits, json};
use crate::query::{Answer, Answered};
use crate::value::Value;

/// Writes the answer, which has columns.
pub fn write(answer: &Answer, ages: Ages) -> String {
    let columns = super::plain::columns(answer);
    let mut out = String::new();
    let has_runs = super::has_runs(answer);
    let lead: &[&str] = match (answer.is_grouped, has_runs) {
        (true, _) => &[],
        (false, true) => &["run", "node", "state"],
        (false, false) => &["node", "state"],
    };
    let names = columns.iter().flat_map(|(name, _)| {
        let age = (ages == Ages::All).then(|| quoted(&format!("{name}.age_s")));
        std::iter::once(quoted(name)).chain(age)
    });
    put_line(&mut out, lead.iter().map(|name| quoted(name)).chain(names));
    for row in &answer.rows {
        let lead = row.node.iter().flat_map(|(name, state)| [quoted(name), quoted(state.word())]);
        let run = has_runs.then(|| quoted(row.run.as_deref().unwrap_or_default()));
        let lead = run.into_iter().chain(lead);
        let values = columns.iter().flat_map(|(name, _)| {
            let found = row.values.iter().find(|value| value.name == *name);
            let age = (ages == Ages::All)
                .then(|| found.map_or_else(String::new, |it| age_of(it, answer)));
            let value = match found.map(|value| &value.value) {
                Some(Value::Number(number)) => digits(*number),
                Some(Value::Text(text)) => quoted(text),
                Some(Value::Undefined(_)) | None => String::new(),
            };
            std::iter::once(value).chain(age)
        });
        put_line(&mut out, lead.chain(values));
    }
    out
}

/// The age in seconds, as JSON has them; empty if the value rests on no sample.
fn age_of(value: &Answered, answer: &Answer) -> String {
    let mut out = String::new();
    if let Some(sampled) = value.sampled {
        json::put_age(&mut out, sampled, answer.now);
    }
    out
}

fn put_line(out: &mut String, fields: impl Iterator<Item = String>) {
    out.push_str(&fields.collect::<Vec<_>>().join(","));
    out.push_str("\r\n");
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}
