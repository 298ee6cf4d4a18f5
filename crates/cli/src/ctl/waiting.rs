//! Tasks that have not begun: the journal does not know them, so the hub is asked, in pieces.

use std::time::Duration;

use rakuda_agent::clock;
use serde_json::{Value, json};

use super::base_folder::BaseFolder;
use super::live;

/// How far one search goes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of tasks in an answer.
    pub found: usize,
    /// Timeout for the search. The answer says when something was not looked at.
    pub time: Duration,
}

fn ask(base: &BaseFolder, run: &str, question: &Value) -> Option<Value> {
    live::ask(base, Some(run), question).ok()?.into_iter().next_back()
}

/// `{"tasks": [[number, name, place, state], ...], "more": true}`, of those whose names hold all words.
/// `more`: there may be others.
pub fn find(base: &BaseFolder, run: &str, words: &str, bounds: Bounds) -> Value {
    let words: Vec<&str> = words.split_whitespace().collect();
    let until_ns =
        clock::monotonic_ns() + u64::try_from(bounds.time.as_nanos()).unwrap_or(u64::MAX);
    let mut tasks = Vec::new();
    let mut next = Value::from(0);
    while !next.is_null() && tasks.len() < bounds.found && clock::monotonic_ns() < until_ns {
        let question = json!({"ask": "find", "words": words, "from": next});
        // A run that has ended has no waiting tasks.
        let Some(answer) = ask(base, run, &question) else {
            return json!({"tasks": tasks, "more": false});
        };
        let found = answer["tasks"].as_array().into_iter().flatten();
        tasks.extend(found.map(|it| json!([it["number"], it["task"], it["place"], it["state"]])));
        next = answer["next"].clone();
    }
    let more = !next.is_null() || tasks.len() > bounds.found;
    tasks.truncate(bounds.found);
    json!({"tasks": tasks, "more": more})
}

/// One of them, in the form of [`rakuda_record::live::detail`]. `None`: there is no such task.
pub fn waiting(base: &BaseFolder, run: &str, number: u32) -> Option<Value> {
    let told = ask(base, run, &json!({"ask": "explain", "number": number}))?;
    let name = told["task"].as_str()?;
    let list = |name: &str| -> Vec<Value> {
        let entries = told[name].as_array().into_iter().flatten();
        entries.map(|it| json!([null, it["task"], in_words(&it["state"])])).collect()
    };
    let waits_for = list("waits_for");
    let count = told["waits_for_count"].as_u64().unwrap_or(waits_for.len() as u64);
    let roots = list("roots");
    Some(json!({
        "task": number,
        "name": name,
        "status": in_words(&told["state"]),
        "waits_for": {"count": count, "list": waits_for},
        "roots": {"count": roots.len(), "list": roots},
        "attempts": [],
        "tail": null,
    }))
}

/// The state of a task as people read it.
pub fn in_words(state: &Value) -> String {
    state.as_str().unwrap_or("unknown").replace('_', " ")
}
