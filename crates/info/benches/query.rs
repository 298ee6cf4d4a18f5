//! What an answer of the information service costs, without HTTP: the question understood, answered
//! from the table, and written as JSON. Nodes with 40 attributes, values drawn from a seed.
//!
//! No socket, no clock inside. `bench/information`; medians of 21 rounds, with minimum and maximum.
#![allow(clippy::print_stdout, reason = "a table is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "small numbers")]

use rakuda_core::Time;
use rakuda_info::catalogue::{self, BuiltIn};
use rakuda_info::format::fragments::Fragments;
use rakuda_info::format::{Ages, Format};
use rakuda_info::query::{Query, Question};
use rakuda_info::registry::{AttributeId, instance_name};
use rakuda_info::table::Table;
use rakuda_info::value::{Kind, Value};
use std::time::Instant;

const ATTRIBUTES: usize = 40;
const ROUNDS: usize = 21;
const NOW: Time = Time(10_000_000_000);

/// A small generator (`xorshift64*`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        u32::try_from(mixed).expect("32 bits") % bound
    }
}

#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn clock() -> Instant {
    Instant::now()
}

/// The first built-in attributes, those of families with one instance or more until there are enough.
fn attributes(table: &mut Table) -> Vec<(AttributeId, &'static BuiltIn)> {
    let (families, single): (Vec<&BuiltIn>, Vec<&BuiltIn>) =
        catalogue::BUILT_IN.iter().partition(|it| it.is_family);
    let single = single.into_iter().map(|it| (it, it.name.to_owned()));
    let of_families = (0..).flat_map(|number| {
        families.iter().map(move |it| (*it, instance_name(it.name, &format!("part{number}"))))
    });
    let all = single.chain(of_families).take(ATTRIBUTES);
    all.map(|(it, name)| (table.define(it.attribute(name)).expect("they are new"), it)).collect()
}

fn value(built_in: &BuiltIn, node: u32, random: &mut Random) -> Value {
    let drawn = random.below(10_000);
    match (built_in.kind, built_in.unit) {
        (Kind::Text, _) => Value::Text(format!("{} of node {node}", built_in.name).into()),
        (Kind::Number, "B") => Value::Number(f64::from(drawn) * 4_194_304.0),
        (Kind::Number, "") if !built_in.name.starts_with("load") => {
            Value::Number(f64::from(drawn % 64 + 1))
        }
        (Kind::Number, _) => Value::Number(f64::from(drawn) / 100.0),
    }
}

fn filled(nodes: u32) -> Table {
    let mut table = Table::new();
    let mut random = Random(7);
    let attributes = attributes(&mut table);
    for number in 0..nodes {
        let node = table.node(None, &format!("node{number:05}"));
        for (id, built_in) in &attributes {
            let sampled = Time(NOW.0 - u64::from(random.below(1_000_000_000)));
            table.set(node, *id, value(built_in, number, &mut random), sampled);
        }
    }
    table
}

/// What happens to the table before each question.
#[derive(Clone, Copy)]
enum Before {
    /// Nothing, and no row is kept.
    Anew,
    /// Nothing: rows are kept.
    Kept,
    /// So many values of each node have changed.
    Changed(usize),
}

/// From the question to the bytes of its answer, as the service does it; rows, bytes.
fn answer(question: &Question, table: &Table, fragments: Option<&mut Fragments>) -> (usize, usize) {
    let query = Query::new(question, table.registry()).expect("a question that makes sense");
    if let (Some(fragments), Some(nodes)) = (fragments, query.whole_rows(table, NOW)) {
        return (nodes.len(), fragments.write(table, &nodes, NOW).len());
    }
    let answer = query.answer(table, NOW);
    (answer.rows.len(), Format::Json.write(&answer, table, Ages::Asked, &[]).len())
}

/// A round of work: how long each was, ms, in order; rows, bytes.
fn measured(question: &Question, table: &mut Table, before: Before) -> (Vec<f64>, usize, usize) {
    let mut fragments = Fragments::new();
    let all = table.registry().iter().filter(|(_, it)| it.kind == Kind::Number);
    let numbers: Vec<AttributeId> = all.map(|(id, _)| id).collect();
    let mut size = answer(question, table, Some(&mut fragments));
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        if let Before::Changed(count) = before {
            let nodes: Vec<_> = table.nodes().map(|(node, _)| node).collect();
            for node in nodes {
                for id in &numbers[..count] {
                    let value = Value::Number((round + 1) as f64 / 100.0 + f64::from(node.0));
                    table.set(node, *id, value, NOW);
                }
            }
        }
        let begun = clock();
        let kept = Some(&mut fragments).filter(|_| !matches!(before, Before::Anew));
        size = answer(question, table, kept);
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times, size.0, size.1)
}

fn main() {
    let few = Question {
        condition: Some("load1 < 0.5*threads && mem_available > 8GiB".to_owned()),
        fields: Some("load1, threads, mem_available, mem_total, cpu_idle".to_owned()),
        ..Question::default()
    };
    println!("{ATTRIBUTES} attributes a node, JSON; median of {ROUNDS} rounds [min-max]");
    for nodes in [500, 10_000] {
        let mut table = filled(nodes);
        for (name, question, before) in [
            ("filter, 5 columns", &few, Before::Kept),
            ("whole table", &Question::default(), Before::Kept),
            ("  1 value changed", &Question::default(), Before::Changed(1)),
            ("  10 values changed", &Question::default(), Before::Changed(10)),
            ("  no row is kept", &Question::default(), Before::Anew),
        ] {
            let (times, rows, bytes) = measured(question, &mut table, before);
            println!(
                "{nodes:>6} nodes  {name:<18}  {:>8.2} ms [{:.2}-{:.2}]  {rows:>6} rows  {bytes:>9} bytes",
                times[ROUNDS / 2],
                times[0],
                times[ROUNDS - 1]
            );
        }
    }
}
