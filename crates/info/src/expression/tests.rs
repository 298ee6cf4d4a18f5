//! Generated expressions against an evaluator that knows nothing but arithmetic, and what is said
//! of those that are wrong.

use proptest::prelude::*;

use super::*;
use crate::catalogue;
use crate::registry::{Attribute, Threshold};
use crate::table::{NodeId, Table};

/// An expression as it is generated: written out for the parser, and evaluated at once.
#[derive(Debug, Clone)]
enum Number {
    Constant(u32),
    Attribute(usize),
    Negative(Box<Number>),
    Two(char, Box<Number>, Box<Number>),
    Least(Vec<Number>),
    Absolute(Box<Number>),
}

#[derive(Debug, Clone)]
enum Truth {
    Constant(bool),
    Has(usize),
    Compare(&'static str, Number, Number),
    Text(bool, &'static str),
    Not(Box<Truth>),
    And(Box<Truth>, Box<Truth>),
    Or(Box<Truth>, Box<Truth>),
}

/// All without a unit, so that each may stand beside each.
const NAMES: [&str; 5] = ["load1", "threads", "load15", "runnable", "queue('/scratch')"];

impl Number {
    fn text(&self) -> String {
        match self {
            Self::Constant(number) => number.to_string(),
            Self::Attribute(index) => NAMES[*index].to_owned(),
            Self::Negative(inner) => format!("-({})", inner.text()),
            Self::Two(sign, left, right) => format!("({} {sign} {})", left.text(), right.text()),
            Self::Least(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(Self::text).collect();
                format!("min({})", numbers.join(", "))
            }
            Self::Absolute(inner) => format!("abs({})", inner.text()),
        }
    }

    fn value(&self, values: &[Option<f64>]) -> Option<f64> {
        let number = match self {
            Self::Constant(number) => f64::from(*number),
            Self::Attribute(index) => values[*index]?,
            Self::Negative(inner) => -inner.value(values)?,
            Self::Two(sign, left, right) => {
                let (left, right) = (left.value(values)?, right.value(values)?);
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' if right == 0.0 => return None,
                    '/' => left / right,
                    _ if right == 0.0 => return None,
                    _ => left % right,
                }
            }
            Self::Least(numbers) => {
                let numbers: Option<Vec<f64>> = numbers.iter().map(|it| it.value(values)).collect();
                numbers?.into_iter().reduce(f64::min)?
            }
            Self::Absolute(inner) => inner.value(values)?.abs(),
        };
        number.is_finite().then_some(number)
    }
}

impl Truth {
    fn text(&self) -> String {
        match self {
            Self::Constant(truth) => truth.to_string(),
            Self::Has(index) => format!("has({})", NAMES[*index]),
            Self::Compare(sign, left, right) => format!("{} {sign} {}", left.text(), right.text()),
            Self::Text(true, text) => format!("arch == '{text}'"),
            Self::Text(false, text) => format!("\"{text}\" != arch"),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(left, right) => format!("({}) && ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) || ({})", left.text(), right.text()),
        }
    }

    fn value(&self, values: &[Option<f64>], arch: Option<&str>) -> Option<bool> {
        match self {
            Self::Constant(truth) => Some(*truth),
            Self::Has(index) => Some(values[*index].is_some()),
            Self::Compare(sign, left, right) => {
                let (left, right) = (left.value(values)?, right.value(values)?);
                Some(match *sign {
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    ">=" => left >= right,
                    #[expect(clippy::float_cmp, reason = "both sides reckon alike")]
                    "==" => left == right,
                    #[expect(clippy::float_cmp, reason = "both sides reckon alike")]
                    _ => left != right,
                })
            }
            Self::Text(equal, text) => Some((arch? == *text) == *equal),
            Self::Not(inner) => inner.value(values, arch).map(|truth| !truth),
            Self::And(left, right) => match (left.value(values, arch), right.value(values, arch)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.value(values, arch), right.value(values, arch)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

fn numbers() -> impl Strategy<Value = Number> {
    let leaf = prop_oneof![
        (0u32..5).prop_map(Number::Constant),
        (0..NAMES.len()).prop_map(Number::Attribute)
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let signs = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            inner.clone().prop_map(|it| Number::Negative(Box::new(it))),
            inner.clone().prop_map(|it| Number::Absolute(Box::new(it))),
            (signs, inner.clone(), inner.clone()).prop_map(|(sign, left, right)| Number::Two(
                sign,
                Box::new(left),
                Box::new(right)
            )),
            prop::collection::vec(inner, 1..4).prop_map(Number::Least),
        ]
    })
}

fn truths() -> impl Strategy<Value = Truth> {
    let signs = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Truth::Constant),
        (0..NAMES.len()).prop_map(Truth::Has),
        (any::<bool>(), prop::sample::select(vec!["x86_64", "arm"]))
            .prop_map(|(equal, text)| Truth::Text(equal, text)),
        (signs, numbers(), numbers())
            .prop_map(|(sign, left, right)| Truth::Compare(sign, left, right)),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|it| Truth::Not(Box::new(it))),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| Truth::And(Box::new(left), Box::new(right))),
            (inner.clone(), inner)
                .prop_map(|(left, right)| Truth::Or(Box::new(left), Box::new(right))),
        ]
    })
}

fn table(values: &[Option<f64>], arch: Option<&str>) -> (Table, NodeId) {
    let mut table = Table::new();
    let (name, provider) = (NAMES[4].to_owned(), "probe".to_owned());
    let threshold = Threshold::default();
    let queue = Attribute { name, unit: String::new(), kind: Kind::Number, threshold, provider };
    table.define(queue).unwrap();
    let node = table.node(None, "a");
    for (name, value) in NAMES.iter().zip(values) {
        let id = table.registry().find(name).unwrap();
        let value = value.map_or_else(|| Value::undefined("not there"), Value::Number);
        table.set(node, id, value, Time(1));
    }
    if let Some(arch) = arch {
        let id = table.registry().find("arch").unwrap();
        table.set(node, id, Value::text(arch), Time(1));
    }
    (table, node)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn conditions_are_what_a_naive_evaluator_says(
        truth in truths(),
        values in prop::collection::vec(prop::option::of((-3i32..4).prop_map(f64::from)), NAMES.len()),
        arch in prop::option::of(prop::sample::select(vec!["x86_64", "arm"])),
    ) {
        let (table, node) = table(&values, arch);
        let row = Row { table: &table, node, now: Time(1) };
        let condition = Expression::condition(&truth.text(), table.registry()).unwrap();
        let expected = truth.value(&values, arch);
        let found = match condition.value(&row) {
            Value::Text(text) => Some(&*text == "true"),
            _ => None,
        };
        prop_assert_eq!(found, expected, "{}", truth.text());
        prop_assert_eq!(condition.is_true(&row), expected == Some(true));
    }

    #[test]
    fn numbers_are_what_a_naive_evaluator_says(
        number in numbers(),
        values in prop::collection::vec(prop::option::of((-3i32..4).prop_map(f64::from)), NAMES.len()),
    ) {
        let (table, node) = table(&values, None);
        let row = Row { table: &table, node, now: Time(1) };
        let expression = Expression::new(&number.text(), table.registry()).unwrap();
        let found = match expression.value(&row) {
            Value::Number(number) => Some(number),
            _ => None,
        };
        prop_assert_eq!(found, number.value(&values), "{}", number.text());
    }

    #[test]
    fn any_text_is_an_expression_or_an_error_within_it(source in "\\PC{0,60}") {
        if let Err(error) = Expression::new(&source, &Registry::new()) {
            prop_assert!(error.position <= source.chars().count(), "{error}: {source}");
        }
    }

    #[test]
    fn words_of_the_language_in_any_order_never_break_it(
        words in prop::collection::vec(prop::sample::select(vec![
            "load1", "arch", "(", ")", "&&", "||", "!", "-", "+", "/", "<", "==", "=~", ",", "has",
            "min", "age", "fs_free", "'x'", "8GiB", "1e3", "true", "count", "Mds-Cpu-Free-1minX100", "sum",
        ]), 0..20),
    ) {
        let source = words.join(" ");
        let _ = Expression::new(&source, &Registry::new());
        let _ = Expression::of_group(&source, &Registry::new());
        let _ = split_list(&source);
    }
}

fn said(source: &str) -> String {
    Expression::condition(source, &Registry::new()).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_to_do() {
    for (source, expected) in [
        ("laod1 < 2", "at character 1: nothing is called laod1 (did you mean load1?)"),
        ("load1 < ", "at character 9: expected a value, found the end"),
        ("load1 = 2", "at character 7: '=' means nothing here (equality is ==)"),
        (
            "load1",
            "at character 1: it is a number, and is neither true nor false (compare it with something: load1 < 2)",
        ),
        (
            "arch < 'x'",
            "at character 6: texts have no order (texts are compared with ==, != and =~)",
        ),
        (
            "arch == 2",
            "at character 6: a text is compared with a number (a number has no quotes, a text has)",
        ),
        (
            "load1 && true",
            "at character 1: expected something true or false, found a number (compare it, or ask whether it is there: has(gpu))",
        ),
        (
            "1 < load1 < 3",
            "at character 11: a second \"<\" of one comparison (write a < b && b < c)",
        ),
        (
            "load1 < 2 and true",
            "at character 11: expected an operator or the end, found the name and (and is &&)",
        ),
        (
            "(load1 < 2",
            "at character 11: expected \")\", found the end (the parenthesis at character 1 is not closed)",
        ),
        ("arch == 'x", "at character 9: the text has no end (it ends with ')"),
        (
            "mem_total > 8 Gib",
            "at character 15: expected an operator or the end, found the name Gib",
        ),
        (
            "mem_total > 8Gib",
            "at character 14: no unit is called \"Gib\" (KiB MiB GiB TiB PiB, or K M G T P, are of 1024, kB MB GB TB PB of 1000; ms s min h d are times)",
        ),
        (
            "fs_free > 1",
            "at character 1: fs_free is of several things of a node (say which: fs_free('NAME'))",
        ),
        ("fs_free() > 1", "at character 1: fs_free() takes one argument, 0 are given"),
        ("fs_free(1) > 1", "at character 9: expected a text in quotes (fs_free('NAME'))"),
        ("load1('x') > 1", "at character 1: load1 is no function (it is an attribute: load1)"),
        (
            "sum(load1) > 1",
            "at character 1: sum() is of a group of nodes (it is a whole column, and there is a --group-by)",
        ),
        (
            "has(1)",
            "at character 5: expected the name of an attribute (has(gpu), age(fs_free('/')))",
        ),
        ("", "at character 1: expected a value, found the end"),
    ] {
        assert_eq!(said(source), expected, "{source}");
    }
}

#[test]
fn limits_are_kept() {
    assert!(said(&"(".repeat(65)).contains("more than 64 levels"));
    assert!(said(&format!("1{}", "+1".repeat(201))).contains("more than 200 operators"));
    assert!(said(&" ".repeat(4097)).contains("4097 bytes"));
    assert!(said("9e999 > 1").contains("too large"));
    let deep = format!("{}1{} > 1", "(".repeat(64), "+1)".repeat(64));
    assert!(Expression::condition(&deep, &Registry::new()).is_ok());
    let long = format!("1{} > 1", "+1".repeat(199));
    assert!(Expression::condition(&long, &Registry::new()).is_ok());
}

#[test]
fn units_operators_and_aliases_mean_what_they_say() {
    let values = [Some(1.0), Some(8.0), None, None, None];
    let (mut table, node) = table(&values, Some("x86_64"));
    let free = catalogue::find("fs_free").unwrap().attribute("fs_free('/scratch')".to_owned());
    let free = table.define(free).unwrap();
    table.set(node, free, Value::Number(5e9), Time(1));
    let available = table.registry().find("mem_available").unwrap();
    table.set(node, available, Value::Number(2.0 * 1_073_741_824.0), Time(1));
    let row = Row { table: &table, node, now: Time(2_000_000_001) };
    for truth in [
        "mem_available == 2GiB && mem_available == 2G && mem_available > 2GB",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 - 2 - 1 == 4 && 8 / 2 / 2 == 2 && -2 + 3 == 1",
        "true || false && false",
        "!(load1 > 1) && ! load1 > 1",
        "5min == 300 && 1h == 60min && 1500ms == 1.5s && 1d == 24h && 1e3 == 1000 && 2.5e-1 == 0.25",
        "has(fs_free('/scratch')) && !has(fs_free('/')) && !has(gpu) && !has(gpu('x')) && !has(runnable)",
        "!(runnable > 0) || true",
        "Mds-Cpu-Free-1minX100 == 87 && Mds-Cpu-Total-Free-1minX100 == 700",
        "node_filesystem_avail_bytes('/scratch') == 5GB && Mds-Memory-Ram-freeMB == 2048",
        "age(load1) == 2 && node == 'a' && state == \"up\" && arch =~ 'x86*'",
        "mem_available - 1GiB > fs_free('/scratch') / 5 && 0.25 * mem_available > 500MB && load1 + 1 > 1",
        "age(load1) < 5min && age(load1) + 1s == 3 && max(mem_available, 1) > 1K && mem_available / threads > 1",
        "load1-1 == 0 && max(1, 2, 3) == 3 && floor(2.5) == 2 && ceil(2.5) == 3",
        "'it\\'s' == \"it's\"",
    ] {
        let condition = Expression::condition(truth, table.registry()).expect(truth);
        assert!(condition.is_true(&row), "{truth}");
    }
    for undefined in ["runnable > 0", "!(runnable > 0)", "1/0 == 1", "5 % 0 == 1"] {
        let condition = Expression::condition(undefined, table.registry()).expect(undefined);
        assert_eq!(condition.value(&row), Value::undefined(PARTS), "{undefined}");
    }
    let condition = Expression::condition("fs_free('/') > 1", table.registry()).unwrap();
    let why = "no node has said anything of fs_free('/'); --file-system has a folder watched";
    assert_eq!(condition.value(&row), Value::undefined(why));
}

#[test]
fn what_has_different_units_is_not_compared_or_added() {
    for (source, why) in [
        ("mem_available > 1h", "bytes and a time cannot be compared"),
        ("load1 < 2s", "a number without a unit and a time cannot be compared"),
        ("cpu_idle + 1GiB > 1", "per cent and bytes cannot be added"),
        ("uptime - mem_total > 0", "a time and bytes cannot be subtracted"),
        ("fs_free('/nowhere') > 5min", "bytes and a time cannot be compared"),
        ("age(load1) > mem_free", "a time and bytes cannot be compared"),
        ("min(5s, mem_free) > 1", "a time and bytes cannot be compared"),
    ] {
        let told = said(source);
        assert!(told.contains(why) && told.contains("8GiB and 5MB are bytes"), "{source}: {told}");
    }
    let registry = Registry::new();
    for (source, unit) in [
        ("mem_total - mem_free", "B"),
        ("age(load1)", "s"),
        ("0.5 * mem_total", "B"),
        ("mem_available / threads", ""),
        ("disk_read('sda') + 1MB", "B/s"),
        ("load1 / 2", ""),
        ("max(0, cpu_idle)", "%"),
        ("-2 * mem_free", "B"),
        ("1MiB * load1 + 5s", ""),
        ("min(mem_free, load1 * load5)", ""),
    ] {
        assert_eq!(Expression::new(source, &registry).unwrap().unit(), unit, "{source}");
    }
    assert_eq!(Expression::of_group("sum(mem_total - mem_free)", &registry).unwrap().unit(), "B");
    assert_eq!(Expression::of_group("count()", &registry).unwrap().unit(), "");
}

#[test]
fn every_alias_means_something() {
    for (alias, meaning) in catalogue::ALIASES {
        let first = meaning.split(' ').next().unwrap_or_default();
        let is_family = catalogue::find(first).is_some_and(|built_in| built_in.is_family);
        let source = if is_family { format!("{alias}('/')") } else { (*alias).to_owned() };
        assert!(Expression::new(&source, &Registry::new()).is_ok(), "{alias}");
    }
}

#[test]
fn an_alias_that_is_reckoned_with_a_family_takes_the_instance() {
    let mut table = Table::new();
    let node = table.node(None, "a");
    let speed = catalogue::find("net_speed").unwrap().attribute("net_speed('eth0')".to_owned());
    let speed = table.define(speed).unwrap();
    table.set(node, speed, Value::Number(1000.0), Time(0));
    let row = Row { table: &table, node, now: Time(0) };
    let of = |source: &str| Expression::new(source, table.registry());
    let bytes = of("node_network_speed_bytes('eth0')").unwrap();
    assert_eq!((bytes.value(&row), bytes.attributes()), (Value::Number(125e6), &[speed][..]));
    let other = of("node_network_speed_bytes('eth1')").unwrap();
    assert_eq!(other.value(&row).kind(), None);
    for wrong in ["node_network_speed_bytes", "node_network_speed_bytes(1)", "node_load1('eth0')"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_condition_is_cut_where_all_parts_must_be_true() {
    let registry = Registry::new();
    let cut = |source: &str| -> Vec<String> {
        let clauses = Expression::clauses(source, &registry).expect(source);
        clauses.iter().map(|clause| clause.source().to_owned()).collect()
    };
    assert_eq!(cut("load1 < 2"), ["load1 < 2"]);
    assert_eq!(
        cut("load1 < 2 && (threads > 1 || cores > 1 && has(gpu)) && arch == 'a && b'"),
        ["load1 < 2", "(threads > 1 || cores > 1 && has(gpu))", "arch == 'a && b'"]
    );
    assert_eq!(cut(" load1 < 2 && cores > 1 || has(gpu) "), ["load1 < 2 && cores > 1 || has(gpu)"]);
    let error = Expression::clauses("load1 < 2 && lod1 < 3", &registry).unwrap_err();
    assert_eq!(error.position, 13, "positions are those of the whole");
}

#[test]
fn what_ranks_nodes_is_a_number() {
    let (table, node) = table(&[Some(1.5), None], Some("x86_64"));
    let row = Row { table: &table, node, now: Time(1) };
    let weight = |source: &str| Expression::weight(source, table.registry());
    assert_eq!(weight("-load1").unwrap().number(&row), Some(-1.5));
    assert_eq!(weight("arch == 'x86_64'").unwrap().number(&row), Some(1.0));
    assert_eq!(weight("runnable").unwrap().number(&row), None);
    assert!(weight("arch").unwrap_err().to_string().contains("cannot be ranked"));
}
