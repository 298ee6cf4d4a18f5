//! What the answer of a hub (`status`) adds to the journal of its run: how many tasks each rule has, with those that
//! have not begun, and what has gone through streams that are open.
//!
//! It ignores what it does not understand.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rows::rule_key;
use crate::Run;
use crate::summary::alike::Awaited;
use crate::summary::groups::{DIRECTORY, Groups, is_place_of_directories};
use crate::summary::patterns::Pattern;
use crate::summary::rule_counts::{RuleCounts, rule_counts_of};
use crate::summary::streams::{StreamState, stream_states};

fn list<'a>(status: Option<&'a Value>, name: &str) -> &'a [Value] {
    status.and_then(|status| status[name].as_array()).map_or(&[], Vec::as_slice)
}

fn count(value: &Value) -> usize {
    value.as_u64().map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// The groups of a run that goes on: places are one rule also where most of them have not begun.
pub fn groups(run: &Run, status: Option<&Value>) -> Groups {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let awaited = list(status, "rules").iter().filter_map(|rule| {
        let (total, pattern) = (count(&rule["total"]), text(&rule["pattern"]));
        Some(Awaited { place: text(&rule["place"])?, total, pattern })
    });
    Groups::of_live(run, &awaited.collect::<Vec<_>>())
}

/// A row for each rule with its key, as [`rule_counts_of`] has them, then those of which no task has begun.
/// A rule whose place is not known has no total.
pub fn rules(run: &Run, groups: &Groups, status: Option<&Value>) -> Vec<(String, RuleCounts)> {
    // By the key of a rule: all its tasks, and what those that have not begun have in common.
    let mut told: BTreeMap<&str, (usize, Option<Pattern>)> = BTreeMap::new();
    let mut order = Vec::new();
    for rule in list(status, "rules") {
        let Some(place) = rule["place"].as_str() else { continue };
        let own = if is_place_of_directories(place.as_bytes()) { DIRECTORY } else { place };
        let key = groups.alike.rule_of(place).unwrap_or(own);
        let (total, pattern) = told.entry(key).or_insert_with(|| {
            order.push(key);
            (0, None)
        });
        *total += count(&rule["total"]);
        if let Some(name) = rule["pattern"].as_str().filter(|_| key != DIRECTORY) {
            pattern.get_or_insert_default().add(name);
        }
    }
    let mut rows: Vec<(String, RuleCounts)> = rule_counts_of(run, groups)
        .into_iter()
        .map(|(group, counts)| {
            let key = rule_key(&groups.list[group as usize]);
            // What the journal tells may be younger than the answer.
            let least = counts.done + counts.failed + counts.running;
            let total = told.remove(key.as_str()).map(|(total, _)| total.max(least));
            (key, RuleCounts { total, ..counts })
        })
        .collect();
    for key in order {
        let Some((total, pattern)) = told.remove(key) else { continue };
        let label = pattern.and_then(|pattern| pattern.text()).unwrap_or_else(|| key.to_owned());
        rows.push((
            key.to_owned(),
            RuleCounts { label, total: Some(total), ..RuleCounts::default() },
        ));
    }
    rows
}

/// All streams that were opened so far. Those that are open have what has gone through up to now.
pub fn streams(run: &Run, status: Option<&Value>) -> Vec<StreamState> {
    let mut states = stream_states(run);
    for told in list(status, "streams") {
        let name = told["stream"].as_str().unwrap_or_default();
        let Some(state) = states.iter_mut().find(|state| state.name == name && state.is_open)
        else {
            continue;
        };
        let number = |name: &str| told[name].as_u64().unwrap_or(0);
        // Of writers that run one after the other the accounts of those that have ended are in the journal.
        let before = if told["live"] == true { (0, 0) } else { (state.bytes, state.records) };
        state.bytes = before.0.saturating_add(number("bytes"));
        state.records = before.1.saturating_add(number("records"));
    }
    states
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::reader::read_events;
    use serde_json::json;

    const LINES: &str = r#"{"event":"run_started","version":2,"time_ns":1000000000,"run":"r"}
{"event":"node_joined","time_ns":1000000000,"node":0,"name":"n1","cores":4,"memory_bytes":0}
{"event":"rule_defined","rule":1,"location":"Rakefile:3"}
{"event":"rule_defined","rule":2,"location":"rake/dsl_definition.rb:97"}
{"event":"task_defined","task":0,"name":"map/a.bam","kind":"file","action":true,"rule":1}
{"event":"task_defined","task":1,"name":"map","kind":"directory","action":true,"rule":2}
{"event":"attempt_started","time_ns":2000000000,"task":1,"attempt":1,"node":0,"cores":1}
{"event":"attempt_ended","time_ns":3000000000,"task":1,"outcome":"done"}
{"event":"attempt_started","time_ns":3000000000,"task":0,"attempt":1,"node":0,"cores":1}
"#;

    fn run(lines: &str) -> Run {
        let mut run = Run::default();
        read_events(lines.as_bytes(), |event| run.add(event)).unwrap();
        run
    }

    #[test]
    fn rules_have_all_their_tasks_and_those_that_have_not_begun_are_told() {
        let run = run(LINES);
        let status = json!({"rules": [
            {"place": "Rakefile:3", "pattern": "map/*.bam", "total": 40},
            {"place": "Rakefile:9", "pattern": "call/*.vcf", "total": 40},
            {"place": "rake/dsl_definition.rb:97", "pattern": "map", "total": 1},
            {"place": null, "pattern": null, "total": 5},
        ]});
        let rows = rules(&run, &Groups::of(&run), Some(&status));
        let row = |(key, rule): &(String, RuleCounts)| {
            (key.clone(), rule.label.clone(), rule.done, rule.running, rule.total)
        };
        let row_of = |key: &str, label: &str, done, running, total| {
            (key.to_owned(), label.to_owned(), done, running, Some(total))
        };
        assert_eq!(
            rows.iter().map(row).collect::<Vec<_>>(),
            [
                row_of("Rakefile:3", "map/a.bam", 0, 1, 40),
                row_of("directory", "directory", 1, 0, 1),
                row_of("Rakefile:9", "call/*.vcf", 0, 0, 40),
            ]
        );
        assert!(
            rules(&run, &Groups::of(&run), None).iter().all(|(_, rule)| rule.total.is_none()),
            "without a hub nobody knows"
        );
    }

    #[test]
    fn places_of_one_task_each_are_one_rule_before_and_after_they_begin() {
        let place = |number: usize| json!({"place": format!("Rakefile:{number}"), "pattern": format!("o/{number}"), "total": 1});
        let status = json!({"rules": (0..40).map(place).collect::<Vec<_>>()});
        let mut lines = LINES.split_inclusive('\n').take(2).collect::<String>();
        for begun in 0..3 {
            let run = run(&lines);
            let rows = rules(&run, &groups(&run, Some(&status)), Some(&status));
            let [(key, rule)] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((key.as_str(), rule.running, rule.total), ("o/*", begun, Some(40)));
            write!(lines,
                r#"{{"event":"rule_defined","rule":{begun},"location":"Rakefile:{begun}"}}
{{"event":"task_defined","task":{begun},"name":"o/{begun}","kind":"file","action":true,"rule":{begun}}}
{{"event":"attempt_started","time_ns":2000000000,"task":{begun},"attempt":1,"node":0,"cores":1}}
"#
            ).unwrap();
        }
    }

    #[test]
    fn what_goes_through_an_open_stream_is_what_its_hub_says() {
        const OPENED: &str = r#"{"event":"streams_opened","time_ns":2000000000,"opening":1,"node":0,"members":[0,1],"streams":[{"name":"lines","record":"line","writers":[0],"readers":[1],"place":"Rakefile:5"}]}
"#;
        let run = run(&format!("{LINES}{OPENED}"));
        let told = |live: bool| {
            let status = json!({"streams": [
                {"stream": "lines", "bytes": 700, "records": 7, "live": live},
                {"stream": "others", "bytes": 1, "records": 1, "live": true},
            ]});
            streams(&run, Some(&status))
        };
        assert_eq!((told(true).len(), told(true)[0].bytes, told(true)[0].records), (1, 700, 7));
        assert_eq!(told(false)[0].bytes, 700);
        assert_eq!(streams(&run, None)[0].bytes, 0);
    }
}
