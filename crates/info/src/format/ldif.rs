//! LDIF (RFC 2849): an entry for each node with attributes under the names that MDS had, and all
//! others in `rakuda-...`; what slapd is fed with. Ages of values are values themselves: `rakuda-age: load1 0.125`.

use std::collections::BTreeSet;

use super::digits;
use super::json::put_age;
use crate::catalogue::ALIASES;
use crate::expression::{Expression, Row};
use crate::registry::{AttributeId, split_instance};
use crate::table::{NodeId, Table};
use crate::value::Value;
use rakuda_core::Time;

/// The suffix under which MDS had the entries of one index.
pub const SUFFIX: &str = "Mds-Vo-name=local, o=grid";

/// The entries above those of nodes, without which no server takes the others.
const ABOVE: &str = "dn: o=grid
objectClass: RakudaGrid
o: grid

dn: Mds-Vo-name=local, o=grid
objectClass: RakudaGrid
Mds-Vo-name: local
";

const CLASSES: [&str; 9] = [
    "Mds",
    "MdsHost",
    "MdsComputer",
    "MdsCpu",
    "MdsMemory",
    "MdsOs",
    "MdsFs",
    "MdsNet",
    "RakudaNode",
];

/// Writes the nodes of a table that are wanted, with the values of these providers (`only`; empty: of all). Names of
/// nodes of runs have the run in them, too: several runs may have a node.
pub fn write(table: &Table, wanted: &[NodeId], only: &[String], now: Time) -> String {
    let mds = ALIASES.iter().filter(|(alias, _)| alias.starts_with("Mds-"));
    let aliases: Vec<(&str, Expression)> = mds
        .filter_map(|(alias, _)| Some((*alias, Expression::new(alias, table.registry()).ok()?)))
        .collect();
    let is_asked =
        |id: AttributeId| only.is_empty() || only.contains(&table.registry().get(id).provider);
    // Without a line with its version, which slapadd does not know.
    let mut out = String::from(ABOVE);
    for &node in wanted {
        let (name, run) = (&table.get_node(node).name, &table.get_node(node).run);
        let row = Row { table, node, now };
        out.push('\n');
        let of_run = run.as_ref().map(|run| format!("+rakuda-run={}", escaped(run)));
        let of_run = of_run.unwrap_or_default();
        put_line(&mut out, "dn", &format!("Mds-Host-hn={}{of_run}, {SUFFIX}", escaped(name)));
        for class in CLASSES {
            put_line(&mut out, "objectClass", class);
        }
        put_line(&mut out, "Mds-Host-hn", name);
        let others = aliases.iter().filter(|(alias, it)| {
            *alias != "Mds-Host-hn" && it.attributes().iter().all(|id| is_asked(*id))
        });
        for (alias, expression) in others {
            put_value(&mut out, alias, expression.value(&row));
        }
        put_families(&mut out, table, node, &is_asked);
        for (id, attribute) in table.registry().iter().filter(|(id, _)| is_asked(*id)) {
            if let Some(cell) = table.cell(node, id) {
                let name = attribute.name.replace('_', "-");
                let mut age = format!("{} ", attribute.name);
                put_age(&mut age, cell.sampled, now);
                let is_defined = !matches!(cell.value, Value::Undefined(_));
                match split_instance(&attribute.name) {
                    Some((family, instance)) => {
                        let value = match cell.value {
                            Value::Number(number) => {
                                Value::text(format!("{instance} {}", digits(number)))
                            }
                            Value::Text(text) => Value::text(format!("{instance} {text}")),
                            undefined @ Value::Undefined(_) => undefined,
                        };
                        put_value(&mut out, &format!("rakuda-{}", family.replace('_', "-")), value);
                    }
                    None => put_value(&mut out, &format!("rakuda-{name}"), cell.value),
                }
                if is_defined {
                    put_line(&mut out, "rakuda-age", &age);
                }
            }
        }
        if let Some(run) = run {
            put_line(&mut out, "rakuda-run", run);
        }
        put_line(&mut out, "rakuda-state", table.get_node(node).state.word());
    }
    out
}

/// File systems and interfaces under the names of MDS: of each all values, each once, as an attribute of LDAP has them.
/// Which belongs to which is in `rakuda-fs-size` and the like. There are no sums: two folders may have one file
/// system.
fn put_families(
    out: &mut String,
    table: &Table,
    node: NodeId,
    is_asked: &dyn Fn(AttributeId) -> bool,
) {
    let asked = table.registry().iter().filter(|(id, _)| is_asked(*id));
    let of_families = asked.filter_map(|(id, attribute)| {
        let (family, instance) = split_instance(&attribute.name)?;
        Some((family, instance, table.cell(node, id)?.value))
    });
    let (mut mounts, mut interfaces) = (BTreeSet::new(), BTreeSet::new());
    let (mut sizes, mut free) = (BTreeSet::new(), BTreeSet::new());
    for (family, instance, value) in of_families {
        match (family, value) {
            ("fs_type", Value::Text(_)) => drop(mounts.insert(instance)),
            ("fs_size", Value::Number(bytes)) => drop(sizes.insert(megabytes(bytes))),
            ("fs_free", Value::Number(bytes)) => drop(free.insert(megabytes(bytes))),
            ("net_receive" | "net_send" | "net_speed", _) => drop(interfaces.insert(instance)),
            _ => {}
        }
    }
    for mount in &mounts {
        put_line(out, "Mds-Fs-mount", mount);
    }
    for (name, all) in [("Mds-Fs-sizeMB", sizes), ("Mds-Fs-freeMB", free)] {
        for number in all {
            put_line(out, name, &number.to_string());
        }
    }
    for interface in &interfaces {
        put_line(out, "Mds-Net-name", interface);
    }
    if !interfaces.is_empty() {
        put_line(out, "Mds-Net-Total-count", &interfaces.len().to_string());
    }
}

/// As MDS has them: of 2^20 bytes, whole ones.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes fit")]
fn megabytes(bytes: f64) -> u64 {
    (bytes / 1_048_576.0).floor() as u64
}

fn put_value(out: &mut String, name: &str, value: Value) {
    match value {
        Value::Number(number) => put_line(out, name, &digits(number)),
        Value::Text(text) => put_line(out, name, &text),
        Value::Undefined(_) => {}
    }
}

/// A line, folded at 76 characters; base64 where the value could be taken for something else.
fn put_line(out: &mut String, name: &str, value: &str) {
    let is_safe = value.bytes().all(|byte| (b' '..0x7f).contains(&byte))
        && !value.starts_with([' ', ':', '<'])
        && !value.ends_with(' ');
    let line = if is_safe {
        format!("{name}: {value}")
    } else {
        format!("{name}:: {}", base64(value.as_bytes()))
    };
    // All of it is ASCII.
    let mut rest = line.as_str();
    let mut room = 76;
    while rest.len() > room {
        let (first, more) = rest.split_at(room);
        out.push_str(first);
        out.push_str("\n ");
        (rest, room) = (more, 75);
    }
    out.push_str(rest);
    out.push('\n');
}

/// A value within a distinguished name (RFC 4514).
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' | '#' | ' ') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Kind;

    /// What `write` may print of a node is in the schema that is installed.
    #[test]
    fn the_schema_has_all_names() {
        let schema = include_str!("../../../../share/rakuda/ldap/rakuda.schema");
        let mut table = Table::new();
        crate::of_run::define(&mut table);
        for attribute in crate::of_run::told() {
            table.define(attribute).unwrap();
        }
        let node = table.node(Some("20261126-080352.123-7"), "a");
        for built_in in crate::catalogue::BUILT_IN {
            let instance = if built_in.is_family { "('x')" } else { "" };
            let name = format!("{}{instance}", built_in.name);
            table.define(built_in.attribute(name)).unwrap();
        }
        let ids: Vec<_> = table.registry().iter().map(|(id, it)| (id, it.kind)).collect();
        for (id, kind) in ids {
            let value = match kind {
                Kind::Number => Value::Number(1.0),
                Kind::Text => Value::text("x"),
            };
            table.set(node, id, value, Time(1));
        }
        let text = write(&table, &[node], &[], Time(2)).replace("\n ", "");
        let lines =
            text.lines().filter_map(|line| line.split_once(": ").or(line.split_once(":: ")));
        let mut names = 0;
        for (name, value) in lines.filter(|(name, _)| !matches!(*name, "dn" | "o")) {
            let wanted = if name == "objectClass" { value } else { name };
            names += 1;
            assert!(schema.contains(&format!(" NAME '{wanted}'")), "{wanted} is not in it");
            if name.starts_with("rakuda-") {
                let class = schema.split("NAME 'RakudaNode'").nth(1).unwrap();
                assert!(class.split_whitespace().any(|it| it == name), "RakudaNode has no {name}");
            }
        }
        assert!(names > 60, "{text}");
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn lines_are_folded_and_unsafe_values_encoded() {
        let mut out = String::new();
        put_line(&mut out, "a", &"x".repeat(200));
        assert!(out.lines().all(|line| line.len() <= 76));
        assert_eq!(out.replace("\n ", ""), format!("a: {}\n", "x".repeat(200)));
        for value in [" x", ":x", "x ", "é", "a\nb"] {
            let mut out = String::new();
            put_line(&mut out, "a", value);
            assert!(out.starts_with("a:: "), "{out}");
        }
    }

    #[test]
    fn a_node_of_two_runs_has_two_entries() {
        let mut table = Table::new();
        let load = table.registry().find("load1").unwrap();
        let nodes = [("r1", 1.0), ("r2", 2.0)].map(|(run, number)| {
            let node = table.node(Some(run), "vm");
            table.set(node, load, Value::Number(number), Time(1));
            node
        });
        let text = write(&table, &nodes, &[], Time(1));
        for (run, number) in [("r1", 1), ("r2", 2)] {
            let entry = text.split("\n\n").find(|it| it.contains(&format!("rakuda-run: {run}\n")));
            let entry = entry.expect(&text);
            assert!(entry.contains(&format!("\nrakuda-load1: {number}\n")), "{entry}");
            let dn = format!("dn: Mds-Host-hn=vm+rakuda-run={run}, {SUFFIX}\n");
            assert!(entry.starts_with(&dn), "{entry}");
        }
    }

    #[test]
    fn a_node_has_the_names_of_mds() {
        let mut table = Table::new();
        let node = table.node(None, "n1");
        for (name, value) in [("load1", 1.5), ("threads", 4.0), ("mem_total", 1_073_741_824.0)] {
            let id = table.registry().find(name).unwrap();
            table.set(node, id, Value::Number(value), Time(1_000_000));
        }
        let of_families = [
            ("fs_type('/')", Value::text("ext4")),
            ("fs_type('/home')", Value::text("ext4")),
            ("fs_type('/nosuch')", Value::undefined("no such folder")),
            ("fs_size('/')", Value::Number(3_145_728.0)),
            ("fs_free('/')", Value::Number(2_097_159.0)),
            ("fs_free('/home')", Value::Number(2_097_152.0)),
            ("net_send('eth0')", Value::Number(1.0)),
            ("net_receive('eth0')", Value::Number(1.0)),
        ];
        for (name, value) in of_families {
            let attribute = crate::catalogue::of(name).unwrap().attribute(name.to_owned());
            let id = table.define(attribute).unwrap();
            table.set(node, id, value, Time(2_000_000));
        }
        let load5 = table.registry().find("load5").unwrap();
        table.set(node, load5, Value::undefined("nobody knows"), Time(1_000_000));
        let text = write(&table, &[node], &[], Time(1_502_000_000));
        for line in [
            "dn: Mds-Host-hn=n1, Mds-Vo-name=local, o=grid",
            "Mds-Cpu-Total-Free-1minX100: 250",
            "Mds-Memory-Ram-Total-sizeMB: 1024",
            "rakuda-load1: 1.5",
            "rakuda-age: load1 1.501",
            "objectClass: MdsFs",
            "Mds-Fs-mount: /",
            "Mds-Fs-mount: /home",
            "Mds-Fs-sizeMB: 3",
            "Mds-Fs-freeMB: 2",
            "Mds-Net-name: eth0",
            "Mds-Net-Total-count: 1",
            "rakuda-fs-free: / 2097159",
            "rakuda-fs-free: /home 2097152",
            "rakuda-age: fs_free('/') 1.500",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        for (name, count) in [("Mds-Fs-mount", 2), ("Mds-Fs-freeMB", 1), ("Mds-Net-name", 1)] {
            let all = text.lines().filter(|line| line.starts_with(name));
            assert_eq!(all.count(), count, "slapd refuses a value that is there twice: {text}");
        }
        assert!(!text.contains("load5"), "of what is not known there is no age: {text}");
    }
}
