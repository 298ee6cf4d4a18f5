//! Comma-separated values (RFC 4180): a line of names, then one for each row. Undefined values are empty.

use super::digits;
use crate::query::Answer;
use crate::value::Value;

/// The answer, which has columns.
pub fn write(answer: &Answer) -> String {
    let columns = super::plain::columns(answer);
    let mut out = String::new();
    let has_runs = super::has_runs(answer);
    let lead: &[&str] = match (answer.is_grouped, has_runs) {
        (true, _) => &[],
        (false, true) => &["run", "node", "state"],
        (false, false) => &["node", "state"],
    };
    let names = lead.iter().copied().chain(columns.iter().map(|(name, _)| &**name));
    put_line(&mut out, names.map(quoted));
    for row in &answer.rows {
        let lead = row.node.iter().flat_map(|(name, state)| [quoted(name), quoted(state.word())]);
        let run = has_runs.then(|| quoted(row.run.as_deref().unwrap_or_default()));
        let lead = run.into_iter().chain(lead);
        let values = columns.iter().map(|(name, _)| {
            let found = row.values.iter().find(|value| value.name == *name);
            match found.map(|value| &value.value) {
                Some(Value::Number(number)) => digits(*number),
                Some(Value::Text(text)) => quoted(text),
                Some(Value::Undefined(_)) | None => String::new(),
            }
        });
        put_line(&mut out, lead.chain(values));
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
