//! What Prometheus scrapes: OpenMetrics 1.0, or the text format 0.0.4 from before.
//!
//! Numbers are gauges under `rakuda_NAME_UNIT` in base units, with the labels `node` and, of a family,
//! `instance`. A name that is taken already has the provider in it: `rakuda_up_of_user`. Texts of the
//! catalogue are labels of `rakuda_node_info`; others, which may be long, are not there. The age of each
//! value is a sample of its own, and not a time behind it (docs/design/information.md says why).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{digits, json};
use crate::catalogue;
use crate::registry::{AttributeId, split_instance};
use crate::table::{State, Table};
use crate::value::Kind;
use rakuda_core::Time;

/// The text format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`.
    Text,
}

impl Format {
    /// The format that an `Accept` header asks for; without one, OpenMetrics.
    pub fn of(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or("*/*");
        let weight = |kind: &str| {
            let mut weights = accept.split(',').filter_map(|part| {
                let mut fields = part.split(';').map(str::trim);
                let is_it = fields.next()?.eq_ignore_ascii_case(kind);
                let weight = fields.find_map(|field| field.strip_prefix("q=")?.parse().ok());
                is_it.then(|| weight.unwrap_or(1.0))
            });
            weights.next().unwrap_or(0.0)
        };
        let open: f64 = weight("application/openmetrics-text");
        if weight("text/plain") > open { Self::Text } else { Self::OpenMetrics }
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Names that no attribute may have here: they describe each node.
const RESERVED: [&str; 4] = ["rakuda_node", "rakuda_node_info", "rakuda_up", "rakuda_age_seconds"];

/// Writes all numbers of a table.
pub fn write(table: &Table, now: Time, format: Format) -> String {
    let mut out = String::new();
    put_nodes(&mut out, table, now, format);
    for (name, family) in &families(table) {
        let mut lines = String::new();
        for (node, described) in table.nodes() {
            for (id, instance) in &family.members {
                let number = table.number(node, *id);
                if !number.is_nan() {
                    let mut labels = vec![("node", &*described.name)];
                    labels.extend(instance.as_deref().map(|it| ("instance", it)));
                    put_sample(&mut lines, name, &labels, &digits(number));
                }
            }
        }
        if !lines.is_empty() {
            put_head(&mut out, name, "gauge", family.unit, &family.help, format);
            out.push_str(&lines);
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// All attributes that are numbers, by the names that they have here; no two families have one name.
fn families(table: &Table) -> BTreeMap<String, Family> {
    let mut known: BTreeMap<(bool, &str, &str), (&str, Family)> = BTreeMap::new();
    for (id, attribute) in table.registry().iter().filter(|(_, it)| it.kind == Kind::Number) {
        let split = split_instance(&attribute.name);
        let (name, instance) =
            split.map_or((attribute.name.as_str(), None), |(name, it)| (name, Some(it)));
        let suffix = suffix(&attribute.unit);
        let built_in = catalogue::find(name);
        // What is built in keeps its name.
        let key = (built_in.is_none(), name, suffix);
        let (_, family) = known.entry(key).or_insert_with(|| {
            let help = match built_in {
                Some(built_in) => Cow::from(built_in.help),
                None => format!("of the provider {}", attribute.provider).into(),
            };
            let family = Family { unit: suffix.trim_start_matches('_'), help, members: Vec::new() };
            (&attribute.provider, family)
        });
        family.members.push((id, instance));
    }
    let mut families = BTreeMap::new();
    for ((_, name, suffix), (provider, family)) in known {
        let is_taken = |families: &BTreeMap<String, Family>, it: &str| {
            RESERVED.contains(&it) || families.contains_key(it)
        };
        let mut exposed = format!("rakuda_{name}{suffix}");
        let mut middle = format!("_of_{}", word(provider));
        while is_taken(&families, &exposed) {
            exposed = format!("rakuda_{name}{middle}{suffix}");
            middle.push('_');
        }
        families.insert(exposed, family);
    }
    families
}

/// A name as it may be within another one.
fn word(name: &str) -> String {
    name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect()
}

struct Family {
    unit: &'static str,
    help: Cow<'static, str>,
    members: Vec<(AttributeId, Option<String>)>,
}

fn suffix(unit: &str) -> &'static str {
    match unit {
        "B" => "_bytes",
        "B/s" => "_bytes_per_second",
        "s" => "_seconds",
        "%" => "_percent",
        "Mbit/s" => "_megabits_per_second",
        "1/s" => "_per_second",
        _ => "",
    }
}

/// Writes which nodes there are, what they are, and the age of each value of them that is written here.
fn put_nodes(out: &mut String, table: &Table, now: Time, format: Format) {
    let (name, kind) = match format {
        Format::OpenMetrics => ("rakuda_node", "info"),
        Format::Text => ("rakuda_node_info", "gauge"),
    };
    put_head(out, name, kind, "", "What a node is", format);
    let texts: Vec<_> = catalogue::BUILT_IN
        .iter()
        .filter(|built_in| built_in.kind == Kind::Text && !built_in.is_family)
        .filter_map(|built_in| Some((built_in.name, table.registry().find(built_in.name)?)))
        .collect();
    for (node, described) in table.nodes() {
        let mut labels = vec![("node", &*described.name)];
        let known = texts.iter().filter_map(|(name, id)| Some((*name, &**table.text(node, *id)?)));
        labels.extend(known);
        put_sample(out, "rakuda_node_info", &labels, "1");
    }
    put_head(out, "rakuda_up", "gauge", "", "Whether a node is heard of", format);
    for (_, described) in table.nodes() {
        let up = if described.state == State::Up { "1" } else { "0" };
        put_sample(out, "rakuda_up", &[("node", &*described.name)], up);
    }
    put_ages(out, table, now, format, &texts);
}

/// Writes ages by the attributes' own names; unknown values have none.
fn put_ages(
    out: &mut String,
    table: &Table,
    now: Time,
    format: Format,
    texts: &[(&str, AttributeId)],
) {
    let numbers = table.registry().iter().filter(|(_, it)| it.kind == Kind::Number);
    let numbers: Vec<(AttributeId, &str, Option<String>)> = numbers
        .map(|(id, attribute)| {
            let split = split_instance(&attribute.name);
            let (name, instance) =
                split.map_or((attribute.name.as_str(), None), |(name, it)| (name, Some(it)));
            (id, name, instance)
        })
        .collect();
    let (name, help) = ("rakuda_age_seconds", "Time since a value was sampled");
    put_head(out, name, "gauge", "seconds", help, format);
    for (node, described) in table.nodes() {
        let mut put = |id, labels: &[(&str, &str)]| {
            if let Some(sampled) = table.sampled(node, id) {
                let mut age = String::new();
                json::put_age(&mut age, sampled, now);
                put_sample(out, name, labels, &age);
            }
        };
        let node_label = ("node", &*described.name);
        for (attribute, id) in texts.iter().filter(|(_, id)| table.text(node, *id).is_some()) {
            put(*id, &[node_label, ("attribute", attribute)]);
        }
        for (id, attribute, instance) in &numbers {
            if table.number(node, *id).is_nan() {
                continue;
            }
            let own = [node_label, ("attribute", *attribute)];
            match instance {
                None => put(*id, &own),
                Some(instance) => put(*id, &[own[0], own[1], ("instance", instance)]),
            }
        }
    }
}

/// Writes what a family of samples is.
pub fn put_head(out: &mut String, name: &str, kind: &str, unit: &str, help: &str, format: Format) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    let ends_in_unit = name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
    if format == Format::OpenMetrics && !unit.is_empty() && ends_in_unit {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    if !help.is_empty() {
        let _ = writeln!(out, "# HELP {name} {}", escaped(help));
    }
}

/// Writes one sample.
pub fn put_sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: &str) {
    out.push_str(name);
    out.push('{');
    for (index, (label, text)) in labels.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let _ = write!(out, "{label}=\"{}\"", escaped(text));
    }
    let _ = writeln!(out, "}} {value}");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn table() -> Table {
        let mut table = Table::new();
        let node = table.node(None, "a\"b\\");
        let set = |table: &mut Table, name: &str, value| {
            let built_in = catalogue::of(name).unwrap();
            let id = table.define(built_in.attribute(name.to_owned())).unwrap();
            table.set(node, id, value, Time(1_000_000_000));
        };
        set(&mut table, "load1", Value::Number(0.5));
        set(&mut table, "mem_total", Value::Number(17_179_869_184.0));
        set(&mut table, "fs_free('/')", Value::Number(5.0));
        set(&mut table, "fs_free('/my\\'d')", Value::Number(6.0));
        set(&mut table, "arch", Value::text("x86_64"));
        set(&mut table, "swap_free", Value::undefined("no"));
        table
    }

    #[test]
    fn numbers_are_gauges_in_base_units() {
        let text = write(&table(), Time(2_500_000_000), Format::OpenMetrics);
        for line in [
            "rakuda_node_info{node=\"a\\\"b\\\\\",arch=\"x86_64\"} 1",
            "# UNIT rakuda_mem_total_bytes bytes",
            "rakuda_mem_total_bytes{node=\"a\\\"b\\\\\"} 17179869184",
            "rakuda_fs_free_bytes{node=\"a\\\"b\\\\\",instance=\"/\"} 5",
            "rakuda_age_seconds{node=\"a\\\"b\\\\\",attribute=\"load1\"} 1.500",
            "rakuda_age_seconds{node=\"a\\\"b\\\\\",attribute=\"arch\"} 1.500",
            "rakuda_age_seconds{node=\"a\\\"b\\\\\",attribute=\"fs_free\",instance=\"/\"} 1.500",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("swap_free"), "nor has that an age");
        let told = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
        // Of numbers that are known, and of texts that are labels.
        assert_eq!(told("rakuda_age_seconds{"), 5);
        let old = write(&table(), Time(2_500_000_000), Format::Text);
        assert!(!old.contains("# EOF") && !old.contains("# UNIT") && !old.contains(" info\n"));
    }

    #[test]
    fn no_two_families_have_one_name() {
        let mut table = table();
        let node = table.find_node("a\"b\\").unwrap();
        let now = Time(2_500_000_000);
        for line in
            ["up 1", "age_seconds 3", "node_info 5", "x2 6 B", "x2_bytes 7", "load1_of_user 8"]
        {
            let (name, value) = line.split_once(' ').unwrap();
            crate::external::set_by_user(&mut table, node, name, value, now).unwrap();
        }
        crate::external::note(
            &mut table,
            node,
            "a-b",
            &crate::external::parse(b"mem_total_bytes 9\n"),
            false,
            now,
        );
        let text = write(&table, now, Format::OpenMetrics);
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{text}");
        for (name, value) in [
            ("up", "1"),
            ("up_of_user", "1"),
            ("age_seconds_of_user", "3"),
            ("node_info_of_user", "5"),
            ("x2_bytes", "6"),
            ("x2_bytes_of_user", "7"),
            ("load1_of_user", "8"),
            ("mem_total_bytes", "17179869184"),
            ("mem_total_bytes_of_a_b", "9"),
        ] {
            let line = format!("rakuda_{name}{{node=\"a\\\"b\\\\\"}} {value}");
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn who_scrapes_says_which_format_is_liked() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::of(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::of(Some("text/plain")), Format::Text);
        assert_eq!(Format::of(Some("*/*")), Format::OpenMetrics);
        assert_eq!(Format::of(None), Format::OpenMetrics);
    }
}
