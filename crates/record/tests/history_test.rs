//! Summaries, durations and last records, from folders of runs on disk.

use std::fs;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::journal::RunOutcome;
use rakuda_record::folder::{FolderError, Records, RunState, find_run};
use rakuda_record::history::{Basis, DurationTable, Durations, KnownRule, LastRecords, RunSummary};

/// A folder of its own for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join(".rakuda/runs")).unwrap();
        Self(path)
    }

    fn run(&self, name: &str, lines: &str) -> PathBuf {
        let folder = self.0.join(".rakuda/runs").join(name);
        fs::create_dir_all(&folder).unwrap();
        let first = format!(
            r#"{{"event":"run_started","version":2,"time_ns":1,"run":"{name}","environment":{{"LANG":"e{name}"}}}}"#
        );
        fs::write(folder.join("journal.jsonl"), format!("{first}\n{lines}")).unwrap();
        folder
    }

    fn records(&self) -> Records {
        Records::find(&self.0).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `a.o` made from `a.c` by an action with this digest, then `outcome`.
fn attempt(source: &str, outcome: &str, end_ns: i64) -> String {
    [
        r#"{"event":"rule_defined","rule":0,"location":"Rakefile:3","source":"SOURCE"}"#
            .replace("SOURCE", source),
        r#"{"event":"task_defined","task":0,"name":"a.c","kind":"file","action":false}"#.to_owned(),
        r#"{"event":"task_defined","task":1,"name":"a.o","kind":"file","rule":0,"prerequisites":[0],"action":true,"params":[["level","2"]]}"#
            .to_owned(),
        r#"{"event":"attempt_started","time_ns":5,"task":1,"attempt":1,"node":0,"cores":1}"#
            .to_owned(),
        format!(
            r#"{{"event":"attempt_ended","time_ns":{end_ns},"task":1,"outcome":"{outcome}","contents":[["a.c","c0"]]}}"#
        ),
        String::new(),
    ]
    .join("\n")
}

fn name(name: &str) -> Text {
    name.into()
}

#[test]
fn last_record_is_of_the_newest_attempt_that_ended_well() {
    let folder = Folder::new("last-record");
    folder.run("1", &attempt("01", "done", 9));
    folder.run("2", &attempt("02", "done", 9));
    folder.run("3", &attempt("03", "failed", 9));
    let last = LastRecords::read(&folder.records(), [name("a.o"), name("a.c")]).unwrap();
    let record = last.get(&name("a.o")).unwrap();
    assert_eq!(&*record.run, "2");
    assert_eq!(record.environment["LANG"], "e2");
    assert_eq!(
        record.prerequisites.iter().map(|name| name.to_display()).collect::<Vec<_>>(),
        ["a.c"]
    );
    assert_eq!(record.contents, [(name("a.c"), "c0".to_owned())]);
    assert_eq!(record.location, Some(name("Rakefile:3")));
    assert_eq!(record.source.as_deref(), Some("02"));
    assert_eq!(record.params, [(name("level"), name("2"))]);
    assert!(last.get(&name("a.c")).is_none(), "nothing was ever done for it");
}

#[test]
fn a_record_of_an_earlier_version_tells_no_source_and_no_parameters() {
    let folder = Folder::new("last-earlier");
    let lines = attempt("01", "done", 9);
    let lines = lines.replace(r#""source":"01""#, r#""text":"00ff""#);
    folder.run("1", &lines.replace(r#","params":[["level","2"]]"#, ""));
    let last = LastRecords::read(&folder.records(), [name("a.o")]).unwrap();
    let record = last.get(&name("a.o")).unwrap();
    assert_eq!((record.source.as_deref(), &record.params[..]), (None, &[][..]));
}

#[test]
fn history_of_runs_that_are_gone_is_read_last() {
    let folder = Folder::new("last-history");
    let first = |run: &str| format!(r#"{{"event":"run_started","version":2,"run":"{run}"}}"#);
    let history = format!(
        "{}\n{}{}\n{}{}\n{}",
        first("a"),
        attempt("01", "done", 1),
        first("b"),
        attempt("02", "done", 2),
        first("c"),
        attempt("03", "done", 3).replace("a.o", "x.o").replace("a.c", "x.c")
    );
    fs::write(folder.0.join(".rakuda/history.jsonl"), history).unwrap();
    folder.run("1", &attempt("04", "done", 9).replace("a.o", "b.o"));
    let wanted = ["a.o", "b.o", "x.o"].map(name);
    let last = LastRecords::read(&folder.records(), wanted).unwrap();
    let source = |target| last.get(&name(target)).unwrap().source.clone().unwrap();
    assert_eq!(source("a.o"), "02");
    assert_eq!(source("b.o"), "04");
    assert_eq!(last.get(&name("x.o")).unwrap().prerequisites[0].to_display(), "x.c");
    assert_eq!(last.get(&name("a.o")).unwrap().prerequisites[0].to_display(), "a.c");
}

#[test]
fn journals_of_an_older_version_tell_nothing_of_targets() {
    let folder = Folder::new("last-version");
    let run = folder.run("1", "");
    fs::write(run.join("journal.jsonl"), "{\"event\":\"run_started\",\"version\":1}\n").unwrap();
    assert!(LastRecords::read(&folder.records(), [name("a.o")]).unwrap().is_empty());
    let error = find_run(&folder.0, "1").unwrap().read().unwrap_err();
    assert!(error.to_string().contains("version 1"), "{error}");
}

#[test]
fn estimates_come_from_the_target_then_the_rule_then_the_pattern() {
    let folder = Folder::new("durations");
    for (run, mean_ns) in [("1", 100), ("2", 300)] {
        let path = folder.run(run, "");
        let mut table = DurationTable::default();
        for step in [mean_ns - 10, mean_ns, mean_ns + 10] {
            let rule = KnownRule { location: &name("Rakefile:3"), source: Some("0a") };
            table.add(Some(rule), &format!("a{step}.o").into(), step);
        }
        table.add(None, &name("plot_7.png"), 5);
        let summary = RunSummary {
            version: 1,
            run: run.into(),
            how: RunOutcome::Done,
            started_ns: 0,
            ended_ns: 1,
            policy: "fifo".into(),
            cores: 2,
            nodes: 1,
            executed: 4,
            done: Some(3),
            not_needed: 0,
            failed: 0,
            abandoned: 0,
            rules: table.rules(),
        };
        summary.write(&path).unwrap();
        assert_eq!(RunSummary::read(&path), Some(summary));
    }
    folder.run("3", &attempt("01", "done", 47));
    let records = folder.records();
    let mut durations = Durations::of_summaries(&records).unwrap();
    let location = name("Rakefile:3");
    let rule_of = |source| Some(KnownRule { location: &location, source });
    let rule = durations.estimate(&name("a.o"), rule_of(Some("0a"))).unwrap();
    assert_eq!((rule.mean_ns, rule.count, rule.from), (200, 6, Basis::Rule));
    assert_eq!(rule.deviation_ns, 109, "of 90, 100, 110, 290, 300, 310");
    for source in [Some("0b"), None] {
        assert_eq!(durations.estimate(&name("a.o"), rule_of(source)), None, "another action");
    }
    let pattern = durations.estimate(&name("plot_12.png"), None).unwrap();
    assert_eq!((pattern.mean_ns, pattern.count, pattern.from), (5, 2, Basis::Pattern));
    assert_eq!(durations.estimate(&name("plot.png"), None), None);
    let run = find_run(&folder.0, "3").unwrap();
    durations.add_targets(&run, |wanted| *wanted == name("a.o")).unwrap();
    let exact = durations.estimate(&name("a.o"), rule_of(Some("0b"))).unwrap();
    assert_eq!((exact.mean_ns, exact.count, exact.from), (42, 1, Basis::Target));
}

#[test]
fn runs_are_found_by_beginnings_last_and_paths() {
    let folder = Folder::new("resolve");
    for run in ["20260101-1", "20260101-2", "20260102-1"] {
        folder.run(run, "");
    }
    fs::create_dir_all(folder.0.join(".rakuda/runs/20270101-empty")).unwrap();
    let find = |name: &str| find_run(&folder.0, name).map(|folder| folder.run);
    assert_eq!(find("last").unwrap(), "20260102-1");
    assert_eq!(find("20260102").unwrap(), "20260102-1");
    assert_eq!(find("20260101-1").unwrap(), "20260101-1");
    assert!(matches!(find("20260101"), Err(FolderError::Ambiguous { .. })));
    assert!(matches!(find("2025"), Err(FolderError::NoSuchRun { .. })));
    assert_eq!(find(".rakuda/runs/20260101-2").unwrap(), "20260101-2");
    let journal: &Path = Path::new(".rakuda/runs/20260101-2/journal.jsonl");
    assert_eq!(find(journal.to_str().unwrap()).unwrap(), "20260101-2");
    let nested = folder.0.join("deep/er");
    fs::create_dir_all(&nested).unwrap();
    assert_eq!(find_run(&nested, "last").unwrap().run, "20260102-1");
}

#[test]
fn state_is_running_while_the_marker_is_locked() {
    use rustix::fs::{FlockOperation, flock};
    let folder = Folder::new("state");
    folder.run("1", "");
    let run = find_run(&folder.0, "1").unwrap();
    assert_eq!(run.state().unwrap().0, RunState::CutOff);
    let running = folder.0.join(".rakuda/running");
    fs::create_dir_all(&running).unwrap();
    fs::write(running.join("1"), "journal").unwrap();
    assert_eq!(run.state().unwrap().0, RunState::CutOff);
    let marker = fs::File::open(running.join("1")).unwrap();
    flock(&marker, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(run.state().unwrap().0, RunState::Running);
    let ended = r#"{"event":"run_ended","time_ns":9,"how":"failed","failed":2}"#;
    folder.run("1", &format!("{ended}\n"));
    let (state, ended) = run.state().unwrap();
    assert_eq!(state, RunState::Ended(RunOutcome::Failed));
    assert_eq!(ended.unwrap().failed, 2);
}

#[test]
fn run_whose_folder_was_moved_is_listed_as_such_and_not_read() {
    let folder = Folder::new("moved");
    folder.run("1", "");
    folder.run("2", "");
    let runs = folder.0.join(".rakuda/runs");
    fs::rename(runs.join("2"), folder.0.join("chosen")).unwrap();
    std::os::unix::fs::symlink(folder.0.join("chosen"), runs.join("2")).unwrap();
    assert_eq!(find_run(&folder.0, "last").unwrap().run, "2");
    fs::rename(folder.0.join("chosen"), folder.0.join("elsewhere")).unwrap();
    assert_eq!(find_run(&folder.0, "last").unwrap().run, "1");
    let listed = Records::find(&folder.0).unwrap().folders_and_links().unwrap();
    let states: Vec<_> = listed.iter().map(|run| run.state().unwrap().0.word()).collect();
    assert_eq!(states, ["moved", "cut off"]);
}
