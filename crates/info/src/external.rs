//! The values in what external providers print, and when one that fails is tried again. It starts nothing.

use std::collections::BTreeMap;

use rakuda_core::Time;
use serde_json::Value as Json;

use crate::catalogue::FAULTS;
use crate::registry::{Attribute, AttributeId, Refusal, Threshold, instance_name};
use crate::table::{ELSEWHERE, NodeId, Table};
use crate::value::{Kind, Value};

/// Maximum bytes of the output of one run, or of one line of a long-lived provider.
pub const OUTPUT_BYTES_MAX: usize = 128 << 10;
/// Maximum number of attributes of one provider.
pub const VALUES_MAX: usize = 256;
/// Maximum time before a provider that fails is tried again, in its periods, or [`WAIT_NS_MAX`] if that is more.
const PERIODS_MAX: u64 = 64;
/// The same time in ns.
const WAIT_NS_MAX: u64 = 600_000_000_000;

/// A value as it was printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// The name of an attribute.
    pub name: String,
    /// The unit; may be empty.
    pub unit: String,
    /// A number or a text.
    pub value: Value,
}

/// What was printed: values, and what is wrong with lines that have none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// The values, in the order of the lines.
    pub values: Vec<Printed>,
    /// What is wrong with lines, each with its number.
    pub complaints: Vec<String>,
}

/// Understands all that one run has printed.
pub fn parse(bytes: &[u8]) -> Output {
    let mut output = Output::default();
    let Ok(text) = std::str::from_utf8(bytes) else {
        output.complaints.push("what it printed is not UTF-8".to_owned());
        return output;
    };
    if text.trim_start().starts_with('{') {
        match of_json(text) {
            Ok(values) => output.values = values,
            Err(complaint) => output.complaints.push(complaint),
        }
    } else {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_empty(line)) {
            match of_line(line) {
                Ok(value) => output.values.push(value),
                Err(complaint) => {
                    output.complaints.push(format!("line {}: {complaint}", index + 1));
                }
            }
        }
    }
    if output.values.len() > VALUES_MAX {
        output.values.truncate(VALUES_MAX);
        output.complaints.push(format!("more than {VALUES_MAX} values"));
    }
    output
}

fn is_empty(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// `name value [unit]`; a text in double quotes, as JSON has it, may have blanks.
fn of_line(line: &str) -> Result<Printed, String> {
    const EXPECTED: &str = "expected `name value [unit]`";
    let line = line.trim();
    let (name, rest) = line.split_once(char::is_whitespace).ok_or(EXPECTED)?;
    let (value, unit) = of_value(rest.trim_start())?;
    let is_quoted = rest.trim_start().starts_with('"');
    let value = match value {
        // The words of C and Rust for numbers that are not finite.
        Value::Text(word) if !is_quoted => word.parse().map_or(Value::Text(word), Value::number),
        value => value,
    };
    if unit.contains(char::is_whitespace) {
        return Err(format!("{EXPECTED}, with a text of several words in double quotes"));
    }
    checked(name, value, unit)
}

/// A value, and what stands behind it.
fn of_value(text: &str) -> Result<(Value, &str), &'static str> {
    if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let value = values.next().and_then(Result::ok).ok_or("the text in quotes has no end")?;
        return Ok((Value::text(value), text[values.byte_offset()..].trim()));
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match of_word(word) {
        // `5GB`, as expressions have it.
        Value::Text(_) if rest.trim().is_empty() => {
            let (number, unit) = number_with_unit(word).unwrap_or((word, ""));
            Ok((of_word(number), unit))
        }
        value => Ok((value, rest.trim())),
    }
}

/// A number with a unit that is known right behind it, in its parts.
fn number_with_unit(word: &str) -> Option<(&str, &str)> {
    let end = word.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (number, unit) = word.split_at(end);
    crate::expression::base_unit(unit)?;
    Some((number, unit))
}

/// What Rust and C call numbers, but not their words for what is not finite.
fn of_word(word: &str) -> Value {
    let begins =
        word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match word.parse::<f64>() {
        Ok(number) if begins => Value::number(number),
        _ => Value::text(word),
    }
}

fn checked(name: &str, value: Value, unit: &str) -> Result<Printed, String> {
    if !crate::registry::is_name(name) {
        return Err(Refusal::Name(name.chars().take(40).collect()).to_string());
    }
    if !crate::registry::is_unit(unit) {
        return Err(Refusal::Unit(unit.chars().take(40).collect()).to_string());
    }
    // A literal `4GB` of an expression is 4e9, so 5 in `GB` could be compared with nothing.
    let (value, unit) = match (value, crate::expression::base_unit(unit)) {
        (Value::Number(number), Some((factor, base))) => (Value::number(number * factor), base),
        (value, _) => (value, unit),
    };
    Ok(Printed { name: name.to_owned(), unit: unit.to_owned(), value })
}

fn of_json(text: &str) -> Result<Vec<Printed>, String> {
    let object: BTreeMap<String, Json> = serde_json::from_str(text)
        .map_err(|error| format!("what it printed is no JSON object: {error}"))?;
    object.into_iter().map(|(name, value)| of_member(&name, &value)).collect()
}

fn of_member(name: &str, member: &Json) -> Result<Printed, String> {
    let (value, unit) = match member {
        Json::Object(fields) => {
            let unit = fields.get("unit").map_or(Some(""), Json::as_str);
            (fields.get("value"), unit.ok_or_else(|| format!("{name}: its unit is no text"))?)
        }
        value => (Some(value), ""),
    };
    let value = match value {
        Some(Json::Number(number)) => Value::number(number.as_f64().unwrap_or(f64::NAN)),
        Some(Json::String(text)) => Value::text(text.as_str()),
        Some(Json::Bool(truth)) => Value::Number(f64::from(u8::from(*truth))),
        Some(Json::Null) => Value::undefined("its provider does not know"),
        Some(Json::Array(_) | Json::Object(_)) | None => {
            return Err(format!(
                "{name}: expected a number, a text, or {{\"value\": ..., \"unit\": ...}}"
            ));
        }
    };
    checked(name, value, unit)
}

/// Notes what a provider printed. Returns what cannot be noted. Attributes of the provider that it did not print stay
/// as they are if it is long-lived (`is_line`), and become undefined otherwise.
pub fn note(
    table: &mut Table,
    node: NodeId,
    provider: &str,
    output: &Output,
    is_line: bool,
    now: Time,
) -> Vec<String> {
    let mut complaints = output.complaints.clone();
    let mut seen = Vec::new();
    let mut left = VALUES_MAX.saturating_sub(values_of(table, provider));
    let mut are_too_many = false;
    for printed in &output.values {
        // A new name each time would take all places of the table.
        let is_new = table.registry().find(&printed.name).is_none();
        if is_new && left == 0 {
            are_too_many = true;
            continue;
        }
        left -= usize::from(is_new);
        let attribute = Attribute {
            name: printed.name.clone(),
            unit: printed.unit.clone(),
            kind: printed.value.kind().unwrap_or(Kind::Number),
            // A counter may be compared with a number that it passes by 1.
            threshold: Threshold::default(),
            provider: provider.to_owned(),
        };
        let known = table.registry().find(&printed.name);
        let own = known.filter(|id| table.registry().get(*id).provider == provider);
        let is_undefined = printed.value.kind().is_none();
        match (table.define(attribute), own) {
            (Ok(id), _) => {
                table.set(node, id, printed.value.clone(), now);
                seen.push(id);
            }
            (Err(_), Some(id)) if is_undefined => {
                table.set(node, id, printed.value.clone(), now);
                seen.push(id);
            }
            (Err(refusal), own) => {
                if let Some(id) = own {
                    table.set(node, id, Value::undefined(refusal.to_string()), now);
                    seen.push(id);
                }
                // It is said once that there are too many, not for each.
                let complaint = refusal.to_string();
                if !complaints.contains(&complaint) {
                    complaints.push(complaint);
                }
            }
        }
    }
    if are_too_many {
        complaints.push(format!("more than {VALUES_MAX} values"));
    }
    let fault = complaints.join("; ");
    let has_failed = table.registry().find(&fault_name(provider)).is_some();
    if !fault.is_empty() || has_failed {
        let value = if fault.is_empty() { Value::undefined(NO_FAULT) } else { Value::text(fault) };
        seen.extend(set_fault(table, node, provider, value, now));
    }
    if !is_line {
        for id in of_provider(table, provider).into_iter().filter(|id| !seen.contains(id)) {
            table.set(node, id, Value::free("its provider no longer says it"), now);
        }
    }
    complaints
}

/// Makes all values of a provider undefined.
pub fn fail(table: &mut Table, node: NodeId, provider: &str, why: &str, now: Time) {
    for id in of_provider(table, provider) {
        table.set(node, id, Value::undefined(why), now);
    }
    set_fault(table, node, provider, Value::text(why), now);
}

/// Makes all values of a provider undefined that has gone; that is no fault of it.
pub fn forget(table: &mut Table, node: NodeId, provider: &str, now: Time) {
    for id in of_provider(table, provider) {
        if table.has(node, id) {
            table.set(node, id, Value::free("its provider was removed"), now);
        }
    }
}

/// Whether a provider's last run on a node was a failure, so that asking for another is of no use.
pub fn has_failed(table: &Table, node: NodeId, provider: &str) -> bool {
    let id = table.registry().find(&fault_name(provider));
    id.and_then(|id| table.cell(node, id)).is_some_and(|cell| matches!(cell.value, Value::Text(_)))
}

/// Whether a provider has given a value of a node, or failed to.
pub fn has_told(table: &Table, node: NodeId, provider: &str) -> bool {
    of_provider(table, provider).into_iter().any(|id| table.sampled(node, id).is_some())
}

/// The name of the attribute for what is wrong with a provider.
fn fault_name(provider: &str) -> String {
    instance_name(FAULTS, provider)
}

/// Notes what is wrong with a value of a provider, unless its own faults are noted; `None`: that is over.
pub(crate) fn set_refusal(
    table: &mut Table,
    node: NodeId,
    provider: &str,
    refusal: Option<&str>,
    now: Time,
) {
    let known = table.registry().find(&fault_name(provider));
    let text = known.and_then(|id| table.text(node, id)).cloned();
    let now = known.and_then(|id| table.sampled(node, id)).map_or(now, |at| at.max(now));
    let is_refusal = |text: &str| text.ends_with(ELSEWHERE);
    match refusal {
        Some(refusal) if text.as_deref().is_none_or(is_refusal) => {
            set_fault(table, node, provider, Value::text(refusal), now);
        }
        None if text.as_deref().is_some_and(is_refusal) => {
            set_fault(table, node, provider, Value::undefined(NO_FAULT), now);
        }
        Some(_) | None => {}
    }
}

fn set_fault(
    table: &mut Table,
    node: NodeId,
    provider: &str,
    value: Value,
    now: Time,
) -> Option<AttributeId> {
    let attribute = Attribute {
        name: fault_name(provider),
        unit: String::new(),
        kind: Kind::Text,
        threshold: Threshold::default(),
        provider: provider.to_owned(),
    };
    let id = table.define(attribute).ok()?;
    table.set(node, id, value, now);
    Some(id)
}

/// Number of the provider's attributes, but for its fault.
fn values_of(table: &Table, provider: &str) -> usize {
    let fault = usize::from(table.registry().find(&fault_name(provider)).is_some());
    of_provider(table, provider).len() - fault
}

fn of_provider(table: &Table, provider: &str) -> Vec<AttributeId> {
    let own = table.registry().iter().filter(|(_, it)| it.provider == provider);
    own.map(|(id, _)| id).collect()
}

/// Time to wait before the next run of a provider, after this many faults in a row.
pub fn wait_ns(period_ns: u64, faults: u32) -> u64 {
    let most = period_ns.saturating_mul(PERIODS_MAX).max(WAIT_NS_MAX).max(period_ns);
    period_ns.saturating_mul(1u64.checked_shl(faults).unwrap_or(u64::MAX)).min(most)
}

/// Why nothing is wrong with a provider.
const NO_FAULT: &str = "it has no fault";

/// Maximum number of values that users may set, of all nodes.
const USER_VALUES_MAX: usize = 256;
/// The provider of values that users set.
pub(crate) const USER: &str = "user";

/// Notes a value that a user sets: a number and perhaps its unit, or a text, which needs quotes only where it could be
/// taken for a number. An empty value takes one back. The error says why not.
pub fn set_by_user(
    table: &mut Table,
    node: NodeId,
    name: &str,
    line: &str,
    now: Time,
) -> Result<(), String> {
    if line.trim().is_empty() {
        let known = table.registry().find(name);
        let own = known.filter(|id| table.registry().get(*id).provider == USER);
        let id = own.filter(|id| table.has(node, *id));
        let id = id.ok_or_else(|| format!("no user has set {name} of this node"))?;
        table.set(node, id, Value::free("a user has removed it"), now);
        return Ok(());
    }
    let line = line.trim();
    let printed = match of_value(line)? {
        // The shell has taken its quotes away.
        (Value::Text(_), _) if !line.starts_with('"') => checked(name, Value::text(line), "")?,
        (Value::Undefined(why), _) => return Err(format!("{name}: {why}")),
        (_, rest) if rest.contains(char::is_whitespace) => {
            return Err(format!(
                "{name}: expected a number and its unit, or a text; in double quotes where that begins with a number"
            ));
        }
        (value, unit) => checked(name, value, unit)?,
    };
    if let Value::Text(text) = &printed.value
        && !table.has_room(node, name, text.len())
    {
        return Err(format!("{name}: the texts of the node would have more than 64 KiB"));
    }
    if let Value::Undefined(why) = printed.value {
        return Err(format!("{name}: {why}"));
    }
    let own = table.registry().iter().filter(|(_, it)| it.provider == USER).count();
    if table.registry().find(name).is_none() && own == USER_VALUES_MAX {
        return Err(format!("there are {USER_VALUES_MAX} values of users already"));
    }
    let attribute = Attribute {
        name: printed.name.clone(),
        unit: printed.unit.clone(),
        kind: printed.value.kind().unwrap_or(Kind::Number),
        threshold: Threshold::default(),
        provider: USER.to_owned(),
    };
    let id = table.define(attribute).map_err(|refusal| refusal.to_string())?;
    table.set(node, id, printed.value, now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(output: &Output) -> Vec<String> {
        let values = output.values.iter().map(|it| match &it.value {
            Value::Number(number) => format!("{}={number}{}", it.name, it.unit),
            Value::Text(text) => format!("{}={text:?}{}", it.name, it.unit),
            Value::Undefined(why) => format!("{}: {why}", it.name),
        });
        values.chain(output.complaints.iter().map(|it| format!("! {it}"))).collect()
    }

    #[test]
    fn new_names_of_a_provider_leave_places_for_others() {
        let mut table = Table::new();
        let node = table.node(None, "here");
        let mut print = |provider: &str, line: String| {
            note(&mut table, node, provider, &parse(line.as_bytes()), true, Time(1))
        };
        for number in 0..VALUES_MAX {
            assert_eq!(print("many", format!("many{number} 1")), Vec::<String>::new());
        }
        assert_eq!(print("many", "more 1".to_owned()), ["more than 256 values"]);
        assert_eq!(print("many", "many7 2".to_owned()), Vec::<String>::new(), "it is known");
        assert_eq!(print("other", "own 1".to_owned()), Vec::<String>::new());
    }

    #[test]
    fn lines_have_a_name_a_value_and_perhaps_a_unit() {
        let output = parse(b"# probe\nqueue 12\nfree 1.5e9 B\n\nmode busy\nlabel \"two words\" x\nrate('eth0') -3 1/s\n");
        let expected = [
            "queue=12",
            "free=1500000000B",
            "mode=\"busy\"",
            "label=\"two words\"x",
            "rate('eth0')=-31/s",
        ];
        assert_eq!(shown(&output), expected);
    }

    #[test]
    fn values_are_in_the_units_of_expressions() {
        let output = parse(b"a 5 GB\nb 2 KiB\nc 1.5 min\nd 3 MB/s\ne 300 K\nf 4 kg\ng x GB");
        let expected =
            ["a=5000000000B", "b=2048B", "c=90s", "d=3000000B/s", "e=300K", "f=4kg", "g=\"x\"GB"];
        assert_eq!(shown(&output), expected);
        let output =
            parse(b"a 5GB\nb -2KiB\nc 1.5min\nd 5K\ne 4kg\nf 1e3B/s\ng \"5GB\"\nh xGB\ni 7.GB");
        let expected = [
            "a=5000000000B",
            "b=-2048B",
            "c=90s",
            "d=\"5K\"",
            "e=\"4kg\"",
            "f=\"1e3B/s\"",
            "g=\"5GB\"",
            "h=\"xGB\"",
            "i=7000000000B",
        ];
        assert_eq!(shown(&output), expected);
        let output =
            parse(br#"{"a": {"value": 5, "unit": "GB"}, "b": {"value": 1e300, "unit": "PB"}}"#);
        assert_eq!(shown(&output), ["a=5000000000B", "b: it is not finite"]);
    }

    #[test]
    fn a_user_gives_numbers_with_units_and_texts_with_blanks() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let set = |table: &mut Table, name: &str, line: &str| {
            set_by_user(table, node, name, line, Time(1)).map(|()| cell(table, name))
        };
        let table = &mut table;
        let os = table.registry().find("os").unwrap();
        table.set(node, os, Value::text("Debian"), Time(1));
        assert_eq!(set(table, "quota", "5 GB"), Ok(Value::Number(5e9)));
        assert_eq!(set(table, "quota", "5GB"), Ok(Value::Number(5e9)));
        assert_eq!(
            set(table, "note", " two words, or \"three\" "),
            Ok(Value::text("two words, or \"three\""))
        );
        assert_eq!(set(table, "note", "\"7 of 9\""), Ok(Value::text("7 of 9")));
        assert_eq!(set(table, "room('/a')", "3"), Ok(Value::Number(3.0)));
        let refused = [
            ("quota", "1e400", "quota: it is not finite"),
            ("quota", "1e300 PB", "quota: it is not finite"),
            (
                "big",
                "7 of 9",
                "big: expected a number and its unit, or a text; in double quotes where that begins with a number",
            ),
            ("os", "mine", "os is set by the provider host"),
            ("note", "\"open", "the text in quotes has no end"),
            (
                "a b",
                "1",
                "\"a b\" is no name of an attribute; expected a-z, then a-z, 0-9 and _, at most 255 bytes",
            ),
        ];
        for (name, line, why) in refused {
            assert_eq!(set(table, name, line), Err(why.to_owned()));
        }
        let long = "x".repeat(70_000);
        let why = "note: the texts of the node would have more than 64 KiB";
        assert_eq!(set(table, "note", &long), Err(why.to_owned()));
        assert_eq!(cell(table, "note"), Value::text("7 of 9"), "it stays");
        assert_eq!(cell(table, "quota"), Value::Number(5e9));
        assert!(set(table, "note", &long[..65_536]).is_ok(), "in the place of the one before");
    }

    #[test]
    fn rubbish_is_told_with_its_line() {
        let output = parse(b"ok 1\nBAD 1\nalone\na b c d\nx \"open\ny nan\nz inf\nn 1e999\n");
        let lines = shown(&output);
        assert_eq!(
            lines[..4],
            ["ok=1", "y: it is not finite", "z: it is not finite", "n: it is not finite"]
        );
        assert!(lines[4].starts_with("! line 2: \"BAD\" is no name of an attribute"), "{lines:?}");
        assert_eq!(lines[5], "! line 3: expected `name value [unit]`");
        assert!(lines[6].starts_with("! line 4: expected `name value [unit]`, with"), "{lines:?}");
        assert_eq!(lines[7], "! line 5: the text in quotes has no end");
        assert_eq!(shown(&parse(b"\xff\xfe")), ["! what it printed is not UTF-8"]);
    }

    #[test]
    fn json_is_an_object_of_values() {
        let output = parse(br#" {"queue": 12, "mode": "busy", "up": true, "free": {"value": 5, "unit": "B"}, "gone": null}"#);
        let expected =
            ["free=5B", "gone: its provider does not know", "mode=\"busy\"", "queue=12", "up=1"];
        assert_eq!(shown(&output), expected);
        assert!(shown(&parse(b"{\"a\": [1]}"))[0].starts_with("! a: expected a number"));
        assert!(shown(&parse(b"{\"a\": "))[0].starts_with("! what it printed is no JSON object"));
    }

    #[test]
    fn what_changes_its_kind_or_belongs_to_others_is_refused() {
        let mut table = Table::new();
        let node = table.node(None, "a");
        let first = note(&mut table, node, "probe", &parse(b"queue 12 B\nmode x"), false, Time(1));
        assert!(first.is_empty(), "{first:?}");
        let second =
            note(&mut table, node, "probe", &parse(b"queue busy\nload1 0"), false, Time(2));
        assert_eq!(
            second,
            ["queue was a number in B, is a text", "load1 is set by the provider load"]
        );
        let value = |name: &str| {
            let id = table.registry().find(name).unwrap();
            table.cell(node, id).map(|cell| cell.value)
        };
        assert_eq!(value("queue"), Some(Value::undefined("queue was a number in B, is a text")));
        assert_eq!(value("mode"), Some(Value::free("its provider no longer says it")));
        assert_eq!(value("load1"), None);
        assert_eq!(value("provider_error('probe')"), Some(Value::text(second.join("; "))));
        fail(&mut table, node, "probe", "it hangs", Time(3));
        assert_eq!(cell(&table, "provider_error('probe')"), Value::text("it hangs"));
        assert_eq!(cell(&table, "queue"), Value::undefined("it hangs"));
        note(&mut table, node, "probe", &parse(b"queue 1 B"), false, Time(4));
        assert_eq!(cell(&table, "provider_error('probe')"), Value::undefined("it has no fault"));
        assert_eq!(cell(&table, "queue"), Value::Number(1.0));
    }

    fn cell(table: &Table, name: &str) -> Value {
        let (id, node) = (table.registry().find(name).unwrap(), table.find_node("a").unwrap());
        table.cell(node, id).unwrap().value
    }

    #[test]
    fn a_provider_that_fails_is_tried_ever_less_often() {
        let second = 1_000_000_000;
        let waits: Vec<u64> = (0..12).map(|faults| wait_ns(second, faults) / second).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert_eq!(wait_ns(3600 * second, 3) / second, 8 * 3600);
        assert_eq!(wait_ns(u64::MAX, 70), u64::MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_are_values_or_complaints(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut table = Table::new();
            let node = table.node(None, "a");
            note(&mut table, node, "probe", &parse(&bytes), false, Time(1));
        }

        #[test]
        fn any_lines_are_values_or_complaints(text in "[a-z{}\":,.0-9 \n]{0,80}") {
            let output = parse(text.as_bytes());
            for value in &output.values {
                prop_assert!(crate::registry::is_name(&value.name));
            }
        }
    }
}
