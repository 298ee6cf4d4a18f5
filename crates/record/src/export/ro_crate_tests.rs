//! What a crate of a sample run says. That it keeps its profiles is tested with their validator in
//! test/exports_test.rb.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::samples::{everything, with_environments, with_streams};
use super::*;

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rakuda-crate-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn made(name: &str, license: Option<&str>) -> (Folder, Vec<Value>) {
    made_of(everything(), name, license)
}

fn made_of(mut run: Run, name: &str, license: Option<&str>) -> (Folder, Vec<Value>) {
    let folder = Folder::new(name);
    fs::write(folder.0.join("Rakefile"), "task :all\n").unwrap();
    fs::write(folder.0.join("j"), "{}\n").unwrap();
    run.started.directory = Text::from(folder.0.to_str().unwrap());
    let journal = &folder.0.join("j");
    let sources = Sources { journal, directory: &folder.0, license, made_ns: 0 };
    write(&run, &sources, &folder.0.join("crate")).unwrap();
    let text = fs::read(folder.0.join("crate").join(METADATA)).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    let graph = document["@graph"].as_array().unwrap().clone();
    (folder, graph)
}

fn entity<'a>(graph: &'a [Value], id: &str) -> &'a Value {
    graph.iter().find(|entity| entity["@id"] == id).unwrap_or_else(|| panic!("no {id}"))
}

/// Calls `each` with the value of every reference.
fn references_in(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| references_in(value, each)),
        Value::Object(object) if object.len() == 1 => {
            if let Some(Value::String(id)) = object.get("@id") {
                each(id);
            }
        }
        Value::Object(object) => object.values().for_each(|value| references_in(value, each)),
        _ => {}
    }
}

#[test]
fn every_reference_inside_the_crate_has_its_entity_and_every_entity_is_there_once() {
    let (_folder, graph) = made("references", None);
    let mut ids = BTreeSet::new();
    for entity in &graph {
        assert!(ids.insert(entity["@id"].as_str().unwrap()), "{} twice", entity["@id"]);
    }
    let mut count = 0;
    for entity in &graph {
        references_in(entity, &mut |id| {
            count += 1;
            assert!(ids.contains(id) || id.starts_with("https://"), "{id} is nowhere");
        });
    }
    assert!(count > 40, "only {count} references were looked at");
}

#[test]
fn attempts_are_actions_with_their_outcome() {
    let (_folder, graph) = made("actions", None);
    let first = entity(&graph, "#task/1/1");
    assert_eq!(first["actionStatus"], "http://schema.org/FailedActionStatus");
    assert_eq!(first["error"], "Command failed with status (3)");
    assert_eq!(first.get("result"), None);
    let second = entity(&graph, "#task/1/2");
    assert_eq!(second["actionStatus"], "http://schema.org/CompletedActionStatus");
    assert_eq!(second["result"], json!({ "@id": "#file/out/a%20x" }));
    assert_eq!(second["object"], json!({ "@id": "#file/src" }));
    assert_eq!(second["startTime"], "2026-11-21T23:32:00.051+00:00");
    let cut = entity(&graph, "#task/6/1");
    assert_eq!(cut.get("endTime"), None);
    assert!(cut["error"].as_str().unwrap().starts_with("cut off"));
    assert!(graph.iter().all(|entity| entity["@id"] != "#task/5/1"), "it was given back");
    assert_eq!(entity(&graph, "#run")["error"], "1 tasks failed, 1 were not run because of them");
    assert!(graph.iter().all(|entity| entity["@type"] != "Person"), "nobody is invented");
}

#[test]
fn the_workflow_and_the_journal_are_contained_and_said_to_be_newer_when_they_are() {
    let (folder, graph) = made("contained", Some("https://spdx.org/licenses/CC-BY-4.0"));
    let copied = fs::read_to_string(folder.0.join("crate/Rakefile")).unwrap();
    assert_eq!(copied, "task :all\n");
    assert_eq!(fs::read_to_string(folder.0.join("crate").join(JOURNAL)).unwrap(), "{}\n");
    let license = &entity(&graph, "./")["license"];
    assert_eq!(license["@id"], "https://spdx.org/licenses/CC-BY-4.0");
    let main = entity(&graph, "Rakefile");
    let early = fs::metadata(folder.0.join("Rakefile")).unwrap().modified().unwrap()
        < std::time::UNIX_EPOCH
            + std::time::Duration::from_nanos(super::super::samples::START_NS.unsigned_abs());
    assert_eq!(main.get("description").is_none(), early);
}

#[test]
fn a_crate_that_cannot_be_made_leaves_nothing() {
    let folder = Folder::new("nothing");
    let mut run = everything();
    run.started.directory = Text::from(folder.0.to_str().unwrap());
    let (journal, directory) = (Path::new("/dev/null"), &folder.0);
    let sources = Sources { journal, directory, license: None, made_ns: 0 };
    let error = write(&run, &sources, &folder.0.join("crate")).unwrap_err();
    assert!(error.to_string().contains("Rakefile"), "{error}");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    fs::create_dir(folder.0.join("crate")).unwrap();
    let error = write(&run, &sources, &folder.0.join("crate")).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
}

#[test]
fn only_ordinary_files_below_the_folder_get_into_a_crate() {
    let folder = Folder::new("outside");
    let inner = folder.0.join("inner");
    fs::create_dir_all(inner.join("deep")).unwrap();
    fs::write(folder.0.join("secret"), "secret\n").unwrap();
    fs::write(inner.join("deep/Rakefile"), "task :all\n").unwrap();
    fs::write(inner.join("j"), "{}\n").unwrap();
    std::os::unix::fs::symlink("../secret", inner.join("link")).unwrap();
    let (pipe, mode) = (inner.join("pipe"), rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let outside = folder.0.join("secret");
    let absolute = inner.join("deep/Rakefile");
    let names = ["../secret", "link", "pipe", "deep", outside.to_str().unwrap()];
    let mut run = everything();
    run.started.directory = Text::from(inner.to_str().unwrap());
    let (journal, to) = (&inner.join("j"), inner.join("crate"));
    let sources = Sources { journal, directory: &inner, license: None, made_ns: 0 };
    for name in names {
        run.started.rakefile = Text::from(name);
        let error = write(&run, &sources, &to).unwrap_err();
        assert!(matches!(error, ExportError::Unreadable { .. }), "{name}: {error}");
    }
    for name in ["deep/Rakefile", absolute.to_str().unwrap()] {
        run.started.rakefile = Text::from(name);
        write(&run, &sources, &to).unwrap();
        fs::remove_dir_all(&to).unwrap();
    }
    // The folder that the journal names is not asked: this is a journal from elsewhere.
    let mut run = everything();
    run.started.directory = Text::from("/etc");
    run.started.rakefile = Text::from("passwd");
    write(&run, &sources, &to).unwrap_err();
    run.started.rakefile = Text::from("/etc/passwd");
    write(&run, &sources, &to).unwrap_err();
    let sources = Sources { journal: &pipe, ..sources };
    run.started.rakefile = Text::from("deep/Rakefile");
    write(&run, &sources, &to).unwrap_err();
}

#[test]
fn what_killed_exports_have_left_goes() {
    let folder = Folder::new("abandoned");
    let path = folder.0.join("out.json");
    // No process has such a number: it is beyond what the kernel gives.
    let dead = ["out.json.unfinished-4194303999", "out.json.unfinished-4194304"];
    let kept = ["out.json.unfinished-1", "other.json.unfinished-4194304", "out.json.unfinished-x"];
    for name in dead.iter().chain(&kept) {
        fs::write(folder.0.join(name), "").unwrap();
    }
    fs::create_dir(folder.0.join("out.json.unfinished-4194305")).unwrap();
    remove_abandoned(&path);
    let left = kept.map(|name| folder.0.join(name).exists());
    assert_eq!((left, fs::read_dir(&folder.0).unwrap().count()), ([true; 3], 3));
}

#[test]
fn a_stream_is_the_result_of_its_writers_and_the_object_of_its_readers() {
    let (_folder, graph) = made_of(with_streams(), "streams", None);
    let lines = entity(&graph, "#stream/lines");
    let told = [&lines["@type"], &lines["name"], &lines["value"], &lines["unitText"]];
    assert_eq!(told, ["PropertyValue", "stream lines", "4096", "bytes"]);
    let action = |task: u32| entity(&graph, &format!("#task/{task}/1"));
    assert_eq!(action(1)["result"], reference("#stream/lines"));
    assert_eq!(action(1)["object"], reference("#stream/back"));
    assert_eq!(action(0)["object"], reference("#stream/lines"));
    assert_eq!(action(2)["result"], reference("#file/plot"));
    let known: BTreeSet<&str> = graph.iter().filter_map(|entity| entity["@id"].as_str()).collect();
    references_in(&Value::Array(graph.clone()), &mut |id| {
        assert!(known.contains(id) || id.starts_with("http"), "{id}");
    });
}

fn reference(id: &str) -> Value {
    json!({ "@id": id })
}

#[test]
fn what_commands_ran_in_is_required_by_tools_that_have_their_own_names() {
    let (_folder, graph) = made_of(with_environments(), "environments", None);
    let tool = entity(&graph, "#tool/0");
    assert_eq!(tool["name"], "fit (Rakefile:3)");
    let required =
        json!([{ "@id": "#env/module%20gcc/12%20mpi" }, { "@id": "#file/my%20reqs.txt" }]);
    assert_eq!(tool["softwareRequirements"], required);
    let file = entity(&graph, "#file/my%20reqs.txt");
    assert_eq!((&file["@type"], &file["name"]), (&json!("File"), &json!("my reqs.txt")));
    let parts = entity(&graph, "./")["hasPart"].as_array().unwrap();
    assert!(parts.contains(&json!({ "@id": "#file/my%20reqs.txt" })), "{parts:?}");
    assert_eq!(entity(&graph, "#env/module%20gcc/12%20mpi")["name"], "module gcc/12 mpi");
    // A file that a task needs is there once.
    assert_eq!(entity(&graph, "#tool/1")["softwareRequirements"]["@id"], "#file/env.yml");
    let same = graph.iter().filter(|entity| entity["@id"] == "#file/env.yml");
    assert_eq!(same.count(), 1);
    assert_eq!(entity(&graph, "#task/1/1")["description"], "fit 'a b'\ncc c");
}
