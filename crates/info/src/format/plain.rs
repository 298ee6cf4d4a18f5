//! Tables for people: columns as wide as they need be, numbers to the right, sizes in units that one reads. The age of
//! a value, where that is wanted, is in parentheses behind it.

use std::sync::Arc;

use super::Ages;
use crate::query::{Answer, Answered};
use crate::value::{Kind, Value};
use rakuda_core::Time;

/// Attributes that are dates, in seconds since 1970.
const IS_DATE: [&str; 2] = ["boot_time", "node_boot_time_seconds"];
/// Maximum columns of a text; longer ones are cut.
const WIDTH_MAX: usize = 40;

/// The columns of an answer: those asked for, or all that some row has. Each line of nodes begins with the node and its
/// state anyway.
pub(super) fn columns(answer: &Answer) -> Vec<(Arc<str>, Kind)> {
    if let Some(columns) = &answer.columns {
        let is_lead = |name: &str| !answer.is_grouped && ["node", "state"].contains(&name);
        return columns.iter().filter(|(name, _)| !is_lead(name)).cloned().collect();
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

/// Writes the answer, with names above the columns.
pub fn write(answer: &Answer, ages: Ages) -> String {
    let columns = columns(answer);
    let has_runs = super::has_runs(answer);
    let lead: &[&str] = match (answer.is_grouped, has_runs) {
        (true, _) => &[],
        (false, true) => &["run", "node", "state"],
        (false, false) => &["node", "state"],
    };
    let mut lines: Vec<Vec<(String, bool)>> = Vec::new();
    let heading = |name: &str, is_number| (printable(name), is_number);
    let names = columns.iter().map(|(name, kind)| heading(name, *kind == Kind::Number));
    lines.push(lead.iter().map(|name| heading(name, false)).chain(names).collect());
    let age_width = |name: &Arc<str>| {
        let of_column =
            answer.rows.iter().filter_map(|row| row.values.iter().find(|it| it.name == *name));
        let shown = of_column.filter_map(|value| Some(age_of(value.sampled?, answer.now)));
        shown.map(|age| age.chars().count()).max().filter(|_| ages == Ages::All).unwrap_or(0)
    };
    let age_widths: Vec<usize> = columns.iter().map(|(name, _)| age_width(name)).collect();
    for row in &answer.rows {
        let run = has_runs.then(|| (printable(row.run.as_deref().unwrap_or_default()), false));
        let lead = row
            .node
            .iter()
            .flat_map(|(name, state)| [(printable(name), false), (state.word().to_owned(), false)]);
        let lead = run.into_iter().chain(lead);
        let values = columns.iter().zip(&age_widths).map(|((name, kind), width)| {
            let found = row.values.iter().find(|value| value.name == *name);
            let value = found.map_or_else(|| "-".to_owned(), shown);
            let age = found.and_then(|value| Some(age_of(value.sampled?, answer.now)));
            let is_number = *kind == Kind::Number;
            // So numbers stand below one another.
            let width = if is_number { *width } else { 0 };
            let age = age.filter(|_| ages == Ages::All).unwrap_or_default();
            let is_alone = age.is_empty() && width == 0;
            (if is_alone { value } else { format!("{value} {age:>width$}") }, is_number)
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

/// The age of a sample, for people.
fn age_of(sampled: Time, now: Time) -> String {
    let seconds = crate::expression::age_s(sampled, now);
    match seconds {
        ..1.0 => format!("({:.0}ms)", seconds * 1e3),
        1.0..60.0 => format!("({seconds:.1}s)"),
        _ => format!("({})", with_unit(seconds, "s")),
    }
}

/// A value for people.
pub fn shown(value: &Answered) -> String {
    match &value.value {
        // A date is shown as such.
        Value::Number(number) if IS_DATE.contains(&&*value.name) => date(*number),
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
        "s" if number != 0.0 && number.abs() < 0.001 => format!("{}µs", short(number * 1e6)),
        "s" if number != 0.0 && number.abs() < 0.1 => format!("{}ms", short(number * 1e3)),
        "s" => format!("{}s", short(number)),
        "" => short(number),
        unit => format!("{} {unit}", short(number)),
    }
}

/// A time of the calendar, UTC, without its seconds.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is out of the range of years is shown as it is"
)]
fn date(seconds: f64) -> String {
    // 0001-01-01 to 9999-12-31.
    if !(-62_135_596_800.0..253_402_300_800.0).contains(&seconds) {
        return with_unit(seconds, "s");
    }
    let minutes = (seconds / 60.0).floor() as i64;
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // Days since 0000-03-01, in eras of 400 years, as Hinnant's `civil_from_days` has it.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}Z", minute / 60, minute % 60)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::csv;
    use crate::query::AnswerRow;
    use crate::table::State;
    use rakuda_core::Time;

    #[test]
    fn short_times_have_short_units() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.000_012_3, "12.30µs"),
            (-0.000_000_8, "-0.80µs"),
            (0.0225, "22.50ms"),
            (0.25, "0.25s"),
            (90.0, "1.5min"),
        ] {
            assert_eq!(with_unit(seconds, "s"), text);
        }
    }

    #[test]
    fn nodes_of_several_runs_are_told_apart() {
        let row = |run: &str| AnswerRow {
            node: Some(("vm".into(), State::Up)),
            run: Some(run.into()),
            values: Vec::new(),
        };
        let mut answer = Answer {
            change: 1,
            now: Time(0),
            columns: Some(Vec::new()),
            is_grouped: false,
            rows: vec![row("r1"), row("r2")],
            left: Vec::new(),
            gone: Vec::new(),
            is_anew: false,
            is_old: false,
        };
        let asked = Ages::Asked;
        assert_eq!(write(&answer, asked), "run  node  state\nr1   vm    up\nr2   vm    up\n");
        assert_eq!(csv::write(&answer, asked), "run,node,state\r\nr1,vm,up\r\nr2,vm,up\r\n");
        answer.rows.pop();
        assert_eq!(write(&answer, asked), "node  state\nvm    up\n");
        assert_eq!(csv::write(&answer, asked), "node,state\r\nvm,up\r\n");
        let names = ["state", "node"].map(|name| (Arc::from(name), Kind::Text));
        answer.columns = Some(names.to_vec());
        assert_eq!(csv::write(&answer, asked), "node,state\r\nvm,up\r\n", "once");
    }

    #[test]
    fn each_value_has_its_age_behind_it_where_that_is_wanted() {
        let number = |name: &str, value, sampled| Answered {
            name: name.into(),
            unit: "".into(),
            value,
            sampled: Some(Time(sampled)),
        };
        let row = |node: &str, values| AnswerRow {
            node: Some((node.into(), State::Up)),
            run: None,
            values,
        };
        let load = |number_of, age_ms: u64| {
            number("load1", Value::Number(number_of), 100_000_000_000 - age_ms * 1_000_000)
        };
        let text = |sampled| number("os, short", Value::text("Debian"), sampled);
        let count = Answered { sampled: None, ..number("count()", Value::Number(2.0), 0) };
        let answer = Answer {
            change: 1,
            now: Time(100_000_000_000),
            columns: Some(vec![
                ("load1".into(), Kind::Number),
                ("os, short".into(), Kind::Text),
                ("count()".into(), Kind::Number),
            ]),
            is_grouped: false,
            rows: vec![
                row("a", vec![load(0.5, 12), text(38_000_000_000), count.clone()]),
                row("b", vec![load(10.0, 340), text(10_000_000_000), count]),
                row("c", vec![number("load1", Value::undefined("why"), 99_000_000_000)]),
                row("d", vec![]),
            ],
            left: Vec::new(),
            gone: Vec::new(),
            is_anew: false,
            is_old: false,
        };
        let table = [
            "node  state         load1  os, short        count()",
            "a     up     0.50  (12ms)  Debian (1.0min)        2",
            "b     up       10 (340ms)  Debian (1.5min)        2",
            "c     up        -  (1.0s)  -                      -",
            "d     up        -          -                      -",
        ];
        assert_eq!(write(&answer, Ages::All), format!("{}\n", table.join("\n")));
        let lines = [
            "node,state,load1,load1.age_s,\"os, short\",\"os, short.age_s\",count(),count().age_s",
            "a,up,0.5,0.012,Debian,62.000,2,",
            "b,up,10,0.340,Debian,90.000,2,",
            "c,up,,1.000,,,,",
            "d,up,,,,,,",
        ];
        assert_eq!(csv::write(&answer, Ages::All), format!("{}\r\n", lines.join("\r\n")));
    }

    #[test]
    fn when_a_machine_was_started_is_a_date() {
        let shown = |name: &str, number: f64| {
            let (name, unit, value) = (name.into(), "s".into(), Value::Number(number));
            shown(&Answered { name, unit, value, sampled: None })
        };
        for (seconds, date) in [
            (0.0, "1970-01-01 00:00Z"),
            (951_782_399.0, "2000-02-28 23:59Z"),
            (951_782_400.0, "2000-02-29 00:00Z"),
            (1_795_680_232.0, "2026-11-26 08:03Z"),
            (-1.0, "1969-12-31 23:59Z"),
        ] {
            assert_eq!(shown("boot_time", seconds), date);
        }
        assert_eq!(
            (shown("boot_time", 1e300).len(), shown("uptime", 172_800.0)),
            (299, "2.0d".to_owned())
        );
    }
}
