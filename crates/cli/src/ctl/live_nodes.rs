//! What the hubs of live runs say of their nodes, as a table that can be asked.

use rakuda_info::Time;
use rakuda_info::of_run;
use rakuda_info::registry::{Attribute, Threshold};
use rakuda_info::table::{NodeId, State, Table};
use rakuda_info::value::{Kind, Value as Known};
use serde_json::Value;

/// Default columns for people.
pub const COLUMNS: &str = "run_cores, run_running, run_done";

/// Fields of the hub's answer that are two of its own attributes, and then those of [`of_run::told`], in its order.
const OWN: [(&str, &str); 2] = [("cores", of_run::CORES), ("running", of_run::RUNNING)];
const TOLD: [&str; 5] = ["done", "ends_in_s", "group", "leader", "why"];

/// The nodes of these runs.
pub fn table(runs: &[Value], now: Time) -> Table {
    let mut table = Table::new();
    of_run::define(&mut table);
    let own = OWN.map(|(field, name)| (field, table.registry().find(name)));
    let told = TOLD.into_iter().zip(of_run::told().map(|attribute| table.define(attribute).ok()));
    let ids: Vec<_> = own
        .into_iter()
        .chain(told)
        .map(|(field, id)| (field, id.expect("nobody else has these names")))
        .collect();
    for run in runs {
        for described in run["nodes"].as_array().map_or(&[][..], Vec::as_slice) {
            let node = table.node(run["run"].as_str(), described["node"].as_str().unwrap_or("?"));
            table.set_state(node, State::of(described["state"].as_str().unwrap_or("?")));
            for (field, id) in &ids {
                let value = match &described[*field] {
                    Value::Number(number) => number.as_f64().map(Known::number),
                    Value::String(text) => Some(Known::text(text.as_str())),
                    _ => None,
                };
                if let Some(value) = value {
                    table.set(node, *id, value, now);
                }
            }
            for (name, told) in described["values"].as_object().into_iter().flatten() {
                note(&mut table, node, name, told, now);
            }
        }
    }
    table
}

/// A value that the hub knows of a node.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an age in ns, not negative"
)]
fn note(table: &mut Table, node: NodeId, name: &str, told: &Value, now: Time) {
    let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
    let (kind, value) = match &told["value"] {
        Value::Number(number) => (Kind::Number, Known::number(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(value) => (Kind::Text, Known::text(value.as_str())),
        _ if told["kind"] == "text" => (Kind::Text, Known::undefined(text("why"))),
        _ => (Kind::Number, Known::undefined(text("why"))),
    };
    let (unit, provider) = (text("unit"), text("provider"));
    let threshold = Threshold::default();
    let attribute = Attribute { name: name.to_owned(), unit, kind, threshold, provider };
    // What two runs disagree about is left out.
    if let Ok(id) = table.define(attribute) {
        let age_ns = (told["age_s"].as_f64().unwrap_or(0.0) * 1e9) as u64;
        table.set(node, id, value, Time(now.0.saturating_sub(age_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_info::query::{Query, Question};
    use serde_json::json;

    #[test]
    fn nodes_of_runs_can_be_asked() {
        let runs = [json!({"run": "r1", "nodes": [
            {"node": "a", "state": "up", "cores": 4, "running": 2, "done": 7},
            {"node": "b", "state": "set_aside", "cores": 8, "running": 0, "done": 1, "why": "it fails",
             "values": {
                "load1": {"value": 0.5, "unit": "", "kind": "number", "provider": "load", "age_s": 2.0},
                "os": {"value": null, "why": "gone", "unit": "", "kind": "text", "provider": "host", "age_s": 1.0},
             }},
        ]})];
        let table = table(&runs, Time(5_000_000_000));
        let node = table.find_node("b").unwrap();
        let known = |name: &str| table.cell(node, table.registry().find(name).unwrap()).unwrap();
        assert_eq!(
            (known("load1").value, known("load1").sampled),
            (Known::Number(0.5), Time(3_000_000_000))
        );
        assert_eq!(known("os").value, Known::undefined("gone"));
        let condition = Some("run_cores > 4 && state == 'set_aside' && has(run_why)".to_owned());
        let question = Question { condition, ..Question::default() };
        let answer = Query::new(&question, table.registry()).unwrap().answer(&table, Time(5));
        let nodes: Vec<_> = answer.rows.iter().map(|row| row.node.clone().unwrap().0).collect();
        assert_eq!((nodes.len(), &*nodes[0], answer.rows[0].run.as_deref()), (1, "b", Some("r1")));
    }
}
