//! What WfFormat says of sample runs. That the documents are valid is tested with the format's own
//! tools in test/exports_test.rb.

use serde_json::{Value, json};

use super::super::samples::{
    Builder, everything, group, source, task, with_environments, with_streams,
};
use super::*;
use rakuda_proto::journal::RunOutcome;

fn exported(run: &Run) -> Value {
    let mut bytes = Vec::new();
    write(run, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn groups_are_contracted_and_sources_are_files() {
    let document = exported(&everything());
    let specification = &document["workflow"]["specification"];
    let tasks = specification["tasks"].as_array().unwrap();
    let ids: Vec<_> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["ID0000001", "ID0000002", "ID0000004", "ID0000005", "ID0000006"]);
    assert_eq!(tasks[2]["parents"], json!(["ID0000001", "ID0000002"]));
    assert_eq!(tasks[2]["inputFiles"], json!(["out/a:20x", "out/b"]));
    assert_eq!(tasks[2]["outputFiles"], json!([]), "it failed and left no file");
    assert_eq!(tasks[0]["inputFiles"], json!(["src"]));
    assert_eq!(tasks[1]["children"], json!(["ID0000004", "ID0000006"]));
    assert_eq!(
        specification["files"],
        json!([
            { "id": "src", "sizeInBytes": 100 },
            { "id": "out/a:20x", "sizeInBytes": 100 },
            { "id": "out/b", "sizeInBytes": 120 },
        ])
    );
    assert_eq!(
        specification["metrics"],
        json!({
            "numberOfTasks": 5, "numberOfLevels": 3, "minimumWidth": 1, "maximumWidth": 2,
            "numberOfFiles": 3, "sumOfFileSizesInBytes": 320,
        })
    );
}

#[test]
fn execution_has_the_last_attempt_of_what_was_begun() {
    let document = exported(&everything());
    let execution = &document["workflow"]["execution"];
    assert_eq!(execution["makespanInSeconds"], json!(0.11));
    assert_eq!(execution["executedAt"], "2026-11-21T23:32:00.000+00:00");
    let tasks = execution["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 4, "the abandoned task was given back, so it did not run");
    let retried = &tasks[0];
    assert_eq!(retried["runtimeInSeconds"], json!(0.04));
    assert_eq!(retried["executedAt"], "2026-11-21T23:32:00.051+00:00");
    let line = "cp src 'out/a x' && touch 'it'\\''s' ''";
    assert_eq!(retried["command"], json!({ "program": "sh", "arguments": ["-c", line] }));
    assert_eq!(retried["readBytes"], 8192);
    assert_eq!(retried["writtenBytes"], 1024);
    assert_eq!(retried["memoryInBytes"], 2 * 1024 * 1024);
    assert_eq!(retried["avgCPU"], json!(200.0));
    assert_eq!(tasks[1]["coreCount"], 2);
    assert_eq!(tasks[1]["command"], json!({ "program": "cp", "arguments": ["src", "out/b"] }));
    assert_eq!(tasks[2].get("command"), None, "its action called no command");
    assert_eq!(tasks[3]["runtimeInSeconds"], json!(0.012), "cut off: until the journal's end");
    assert_eq!(
        document["description"],
        "Run 20261121-233200.000-7 of a Rakefile: 2 tasks done, 2 failed or were cut off, 1 did not run"
    );
}

#[test]
fn a_run_in_which_nothing_was_begun_is_refused_or_has_no_execution() {
    let mut builder = Builder::new();
    builder.define([source(0, "src", 1), group(1, "all", &[0])]);
    let error = write(&builder.run, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("20261121-233200.000-7"), "{error}");
    let mut run = everything();
    for task in run.tasks.iter_mut().flatten() {
        task.attempts.clear();
    }
    let document = exported(&run);
    assert_eq!(document["workflow"]["specification"]["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(document["workflow"].get("execution"), None);
}

#[test]
fn a_group_between_very_many_tasks_stays_a_task() {
    let mut builder = Builder::new();
    let (below, above) = (400u32, 400u32);
    builder.define((0..below).map(|number| task(number, &format!("a{number}"), 0, &[])));
    builder.define([group(below, "mid", &(0..below).collect::<Vec<_>>())]);
    builder.define((1..=above).map(|n| task(below + n, &format!("b{n}"), 1, &[below])));
    for number in (0..below).chain(below + 1..=below + above) {
        builder.begin(number, 1, 1, i64::from(number));
        builder.end(number, Outcome::Done, i64::from(number) + 1, Some(1));
    }
    builder.finish(RunOutcome::Done, 1000);
    let document = exported(&builder.run);
    let tasks = document["workflow"]["specification"]["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 801);
    let edges: usize = tasks.iter().map(|task| task["parents"].as_array().unwrap().len()).sum();
    assert_eq!(edges, 800);
}

#[test]
fn a_damaged_journal_with_a_cycle_gives_a_graph_without() {
    let mut builder = Builder::new();
    builder.define([task(0, "a", 0, &[1, 99]), task(1, "b", 0, &[0])]);
    for number in 0..2 {
        builder.begin(number, 1, 1, 1);
    }
    let document = exported(&builder.run);
    let tasks = document["workflow"]["specification"]["tasks"].as_array().unwrap();
    assert_eq!(tasks[0]["parents"], json!([]));
    assert_eq!(tasks[1]["parents"], json!(["ID0000000"]));
}

#[test]
fn secondary_files_are_outputs_and_stand_among_the_files_once() {
    let mut run = everything();
    let attempt = run.tasks[1].as_mut().unwrap().attempts.last_mut().unwrap();
    let ended = attempt.ended.as_mut().unwrap();
    ended.secondary = vec![("out/a.idx".into(), 7), ("out/b".into(), 120)];
    let document = exported(&run);
    let specification = &document["workflow"]["specification"];
    assert_eq!(
        specification["tasks"][0]["outputFiles"],
        json!(["out/a:20x", "out/a.idx", "out/b"])
    );
    let files = specification["files"].as_array().unwrap();
    let named = |name| files.iter().filter(|file| file["id"] == name).count();
    assert_eq!((named("out/a.idx"), named("out/b"), files.len()), (1, 1, 4));
    assert_eq!(specification["metrics"]["sumOfFileSizesInBytes"], 327);
}

#[test]
fn a_stream_is_a_file_of_each_writer_and_one_that_closes_a_circle_is_left_out() {
    let document = exported(&with_streams());
    let specification = &document["workflow"]["specification"];
    let of = |number: usize, key: &str| specification["tasks"][number][key].clone();
    let (stats, sim, plot, sum) = ("ID0000000", "ID0000001", "ID0000002", "ID0000003");
    let file = format!("streams/lines/{sim}");
    // `back` comes first by name: it is an order, and `lines` would close a circle.
    assert_eq!((of(0, "children"), of(1, "parents")), (json!([sim]), json!([stats])));
    let back = format!("streams/back/{stats}");
    assert_eq!((of(0, "outputFiles"), of(1, "inputFiles")), (json!([back]), json!([back])));
    assert_eq!(of(2, "parents"), json!([]));
    let words = document["description"].as_str().unwrap();
    assert!(words.contains("read while it was written: back; streams that would"), "{words}");
    assert!(words.ends_with("left out: lines"), "{words}");

    let mut run = with_streams();
    run.streams[0].opened.streams.truncate(1);
    run.streams[0].ended.as_mut().unwrap().streams.truncate(1);
    let document = exported(&run);
    let specification = &document["workflow"]["specification"];
    let of = |number: usize, key: &str| specification["tasks"][number][key].clone();
    assert_eq!((of(1, "children"), of(1, "outputFiles")), (json!([stats, plot]), json!([file])));
    assert_eq!((of(0, "parents"), of(0, "inputFiles")), (json!([sim]), json!([file])));
    assert_eq!((of(2, "parents"), of(2, "children")), (json!([sim]), json!([sum])));
    assert_eq!(specification["files"][2], json!({ "id": file, "sizeInBytes": 4_096 }));
    let metrics = &specification["metrics"];
    assert_eq!((&metrics["numberOfLevels"], &metrics["maximumWidth"]), (&json!(3), &json!(2)));
}

#[test]
fn a_command_is_the_users_own_also_in_an_environment() {
    let document = exported(&with_environments());
    let tasks = &document["workflow"]["execution"]["tasks"];
    assert_eq!(tasks[1]["command"]["program"], "fit");
    assert_eq!(tasks[1]["command"]["arguments"][2], "two words");
    assert_eq!(tasks[0]["command"]["arguments"], json!(["-c", "fit 'a b' && cc c"]));
}
