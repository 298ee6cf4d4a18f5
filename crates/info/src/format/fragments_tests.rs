//! Kept rows say what rows say that are written anew.

use proptest::prelude::*;
use rakuda_core::Time;

use super::Fragments;
use crate::format::json;
use crate::query::{Query, Question};
use crate::registry::{Attribute, Threshold};
use crate::table::{State, Table};
use crate::value::{Kind, Value};

/// Something that happens to a table.
#[derive(Debug, Clone)]
enum Step {
    Set(u8, u8, Told, u64),
    State(u8, bool),
    Node(u8, bool),
    Remove(u8),
    Ask(u64, Option<u8>),
}

#[derive(Debug, Clone)]
enum Told {
    Number(f64),
    Text(String),
    Undefined(String),
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(Told::Number),
        (-100_000_i32..100_000).prop_map(|it| Told::Number(f64::from(it) / 100.0)),
        any::<u32>().prop_map(|it| Told::Number(f64::from(it))),
        ".{0,12}".prop_map(Told::Text),
        ".{0,6}".prop_map(Told::Undefined),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let time = 0_u64..200_000_000_000_000;
    prop_oneof![
        6 => (0_u8..5, 0_u8..8, told(), time.clone())
            .prop_map(|(node, attribute, told, time)| Step::Set(node, attribute, told, time)),
        1 => (0_u8..5, any::<bool>()).prop_map(|(node, is_up)| Step::State(node, is_up)),
        1 => (0_u8..5, any::<bool>()).prop_map(|(node, of_run)| Step::Node(node, of_run)),
        1 => (0_u8..5).prop_map(Step::Remove),
        3 => (time, proptest::option::of(0_u8..4)).prop_map(|(now, limit)| Step::Ask(now, limit)),
    ]
}

proptest! {
    #[test]
    fn kept_rows_are_those_that_are_written_anew(steps in proptest::collection::vec(step(), 1..60)) {
        let mut table = Table::new();
        let mut fragments = Fragments::new();
        for step in steps {
            let count = table.len();
            let some = |node: u8| table.nodes().nth(usize::from(node) % count.max(1)).map(|it| it.0);
            match step {
                Step::Node(node, of_run) => {
                    table.node(of_run.then_some("run \"1\""), &format!("node\n{node}"));
                }
                Step::Remove(node) => {
                    if let Some(node) = some(node) {
                        table.remove(node);
                    }
                }
                Step::State(node, is_up) => {
                    let state = if is_up { State::Up } else { State::Suspected };
                    if let Some(node) = some(node) {
                        table.set_state(node, state);
                    }
                }
                Step::Set(node, attribute, told, time) => {
                    let Some(node) = some(node) else { continue };
                    let (kind, value) = match told {
                        Told::Number(number) => (Kind::Number, Value::Number(number)),
                        Told::Text(text) => (Kind::Text, Value::text(text)),
                        Told::Undefined(why) => (Kind::Text, Value::undefined(why)),
                    };
                    let is_number = kind == Kind::Number;
                    let id = table.define(Attribute {
                        name: format!("{}_{attribute}", if is_number { "n" } else { "t" }),
                        unit: if attribute % 2 == 0 { "B\"s" } else { "" }.to_owned(),
                        kind,
                        threshold: Threshold::default(),
                        provider: "test".to_owned(),
                    }).unwrap();
                    table.set(node, id, value, Time(time));
                }
                Step::Ask(now, limit) => {
                    let sort = Some("-n_1, t_2".to_owned())
                        .filter(|_| ["n_1", "t_2"].iter().all(|it| table.registry().find(it).is_some()));
                    let limit = limit.map(usize::from);
                    let question = Question { sort, limit, ..Question::default() };
                    let query = Query::new(&question, table.registry()).unwrap();
                    let nodes = query.whole_rows(&table, Time(now)).unwrap();
                    let anew = json::write(&query.answer(&table, Time(now)));
                    let kept = fragments.write(&table, &nodes, Time(now));
                    prop_assert_eq!(String::from_utf8(kept).unwrap(), anew);
                }
            }
        }
    }

    #[test]
    fn numbers_are_written_as_rust_writes_them(number in prop_oneof![
        any::<f64>().prop_filter("finite", |it| it.is_finite()),
        any::<u32>().prop_map(|it| -f64::from(it) / 100.0),
        (-10_000_000_i32..10_000_000).prop_map(|it| f64::from(it) / 100.0),
        (-10_000_000_i32..10_000_000).prop_map(|it| f64::from(it) / 1000.0),
    ]) {
        let mut out = String::new();
        json::put_number(&mut out, number);
        prop_assert_eq!(out, format!("{number}"));
    }
}

#[test]
fn ages_are_those_of_the_answer() {
    let mut table = Table::new();
    let node = table.node(None, "a");
    let load = table.registry().find("load1").unwrap();
    table.set(node, load, Value::Number(1.0), Time(1_000_000_000));
    let mut fragments = Fragments::new();
    let mut ask = |table: &Table, now_ms: u64| {
        let text = fragments.write(table, &[node], Time(now_ms * 1_000_000));
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
        read["nodes"][0]["values"]["load1"]["age_s"].clone()
    };
    assert_eq!(ask(&table, 1_250), 0.25);
    assert_eq!(ask(&table, 101_250), 100.25);
    // The same value again: nothing has changed but its age.
    table.set(node, load, Value::Number(1.0), Time(101_000_000_000));
    assert_eq!(ask(&table, 101_250), 0.25);
}
