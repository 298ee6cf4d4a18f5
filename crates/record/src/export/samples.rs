//! A small run with all that can happen, for the tests of the formats: a group, a source, a retry,
//! a failure, an abandoned task, a cut-off one, a name that is no UTF-8, overlapping commands and a
//! task of two cores.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptEnded, AttemptStarted, CommandEnded, CommandEnvironment, CommandStarted, FileIdentity,
    JournalEvent, NodeJoined, Outcome, Reason, ReasonKind, RuleDefined, RunEnded, RunOutcome,
    RunStarted, StreamNote, StreamsEnded, StreamsOpened, TaskDefined, TaskKind, TaskOutcome,
    TaskSettled,
};
use rakuda_proto::streams::{EndAccount, RecordForm, StreamAccount, StreamEnd};

use crate::Run;

/// 2026-11-21 23:32:00 UTC.
pub(super) const START_NS: i64 = 1_795_303_920_000_000_000;
const MS: i64 = 1_000_000;

/// A file of this size.
pub(super) fn file(bytes: u64) -> FileIdentity {
    let time = START_NS + 500 * MS;
    FileIdentity { modified_ns: time.into(), changed_ns: time.into(), bytes, inode: 1 }
}

pub(super) fn task(task: u32, name: &str, rule: u32, prerequisites: &[u32]) -> TaskDefined {
    TaskDefined {
        task,
        name: name.into(),
        kind: TaskKind::File,
        rule: Some(rule),
        prerequisites: prerequisites.to_vec(),
        action: true,
        ..TaskDefined::default()
    }
}

/// A task without action that groups others.
pub(super) fn group(task: u32, name: &str, prerequisites: &[u32]) -> TaskDefined {
    let prerequisites = prerequisites.to_vec();
    TaskDefined { task, name: name.into(), prerequisites, ..TaskDefined::default() }
}

/// A file that was there before.
pub(super) fn source(task: u32, name: &str, bytes: u64) -> TaskDefined {
    let kind = TaskKind::File;
    let bytes = Some(bytes);
    TaskDefined { task, name: name.into(), kind, up_to_date: true, bytes, ..TaskDefined::default() }
}

/// Builds a run event by event.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) run: Run,
    commands: u32,
}

impl Builder {
    pub(super) fn new() -> Self {
        let mut builder = Self::default();
        builder.add(JournalEvent::RunStarted(RunStarted {
            version: 2,
            time_ns: START_NS,
            run: "20261121-233200.000-7".into(),
            rakuda: "0.1.0".into(),
            directory: "/data/flow".into(),
            rakefile: "Rakefile".into(),
            command_line: vec!["-j".into(), "2".into(), "all".into()],
            cores: 2,
            ..RunStarted::default()
        }));
        builder.add(JournalEvent::NodeJoined(NodeJoined {
            time_ns: START_NS,
            node: 0,
            name: "n1".into(),
            cores: 2,
            memory_bytes: 1 << 30,
            group: None,
        }));
        for (rule, line) in [(0, 3), (1, 7)] {
            let location = format!("Rakefile:{line}").into();
            builder.add(JournalEvent::RuleDefined(RuleDefined {
                rule,
                location,
                source: None,
                text: None,
            }));
        }
        builder
    }

    pub(super) fn add(&mut self, event: JournalEvent) {
        self.run.add(event);
    }

    pub(super) fn define(&mut self, tasks: impl IntoIterator<Item = TaskDefined>) {
        for task in tasks {
            self.add(JournalEvent::TaskDefined(task));
        }
    }

    /// Times are ms after the start.
    pub(super) fn begin(&mut self, task: u32, attempt: u32, cores: u32, at_ms: i64) {
        let reasons = vec![Reason { kind: ReasonKind::Missing, path: None, by_ns: None }];
        self.add(JournalEvent::AttemptStarted(AttemptStarted {
            time_ns: START_NS + at_ms * MS,
            task,
            attempt,
            node: 0,
            cores,
            elsewhere: Vec::new(),
            memory_bytes: None,
            early: false,
            reasons,
            before: None,
            target: None,
        }));
    }

    pub(super) fn command(
        &mut self,
        task: u32,
        words: &[&str],
        from_ms: i64,
        to_ms: i64,
        status: i32,
    ) {
        self.command_in(None, task, words, (from_ms, to_ms), status, None);
    }

    /// In an environment; `error`: why it could not be started.
    pub(super) fn command_in(
        &mut self,
        env: Option<CommandEnvironment>,
        task: u32,
        words: &[&str],
        (from_ms, to_ms): (i64, i64),
        status: i32,
        error: Option<&str>,
    ) {
        let command = self.commands;
        self.commands += 1;
        self.add(JournalEvent::CommandStarted(CommandStarted {
            time_ns: START_NS + from_ms * MS,
            command,
            task: Some(task),
            words: Some(words.iter().map(|word| Text::from(*word)).collect()),
            line: None,
            directory: None,
            env: env.map(Box::new),
        }));
        self.add(JournalEvent::CommandEnded(CommandEnded {
            time_ns: START_NS + to_ms * MS,
            command,
            status,
            error: error.map(Text::from),
            wall_ns: ((to_ms - from_ms) * MS).unsigned_abs(),
            user_us: 30_000,
            system_us: 10_000,
            rss_kib_max: 2048,
            read_bytes: 4096,
            write_bytes: 512,
        }));
    }

    pub(super) fn end(&mut self, task: u32, outcome: Outcome, at_ms: i64, bytes: Option<u64>) {
        self.end_as(task, outcome, at_ms, bytes, "Command failed with status (3)");
    }

    /// `message`: what is said of a failure.
    pub(super) fn end_as(
        &mut self,
        task: u32,
        outcome: Outcome,
        at_ms: i64,
        bytes: Option<u64>,
        message: &str,
    ) {
        let message = (outcome == Outcome::Failed).then(|| message.into());
        self.add(JournalEvent::AttemptEnded(AttemptEnded {
            time_ns: START_NS + at_ms * MS,
            task,
            outcome,
            message,
            retried: false,
            after: bytes.map(file),
            target: None,
            secondary: Vec::new(),
            contents: Vec::new(),
            inputs: None,
            held_ns: None,
        }));
    }

    pub(super) fn finish(&mut self, how: RunOutcome, at_ms: i64) {
        let time_ns = START_NS + at_ms * MS;
        let (executed, failed, abandoned) = (3, 1, 1);
        self.add(JournalEvent::RunEnded(RunEnded {
            time_ns,
            how,
            executed,
            done: None,
            not_needed: 2,
            failed,
            abandoned,
            metadata_operations: None,
            run_file_system_operations: None,
        }));
    }
}

/// `src` (there before) gives `a x` and `b`, grouped in `mid`; `c` takes the group and fails; `d`
/// is not run because of it; `e` is cut off.
pub(super) fn everything() -> Run {
    let mut builder = Builder::new();
    builder.define([
        source(0, "src", 100),
        task(1, "out/a x", 0, &[0]),
        task(2, "out/b", 0, &[0]),
        group(3, "mid", &[1, 2]),
        task(4, "c", 1, &[3]),
        task(5, "d", 1, &[4]),
        TaskDefined { name: Text(b"e\xff\"\\\n".to_vec()), ..task(6, "", 1, &[2]) },
    ]);
    builder.begin(1, 1, 1, 10);
    builder.begin(2, 1, 2, 10);
    builder.command(1, &["cp", "src", "out/a x"], 11, 50, 3 << 8);
    builder.end(1, Outcome::Failed, 50, None);
    builder.begin(1, 2, 1, 51);
    builder.command(1, &["cp", "src", "out/a x"], 52, 90, 0);
    builder.command(1, &["touch", "it's", ""], 60, 80, 0);
    builder.end(1, Outcome::Done, 91, Some(100));
    builder.command(2, &["cp", "src", "out/b"], 12, 92, 0);
    builder.end(2, Outcome::Done, 93, Some(120));
    builder.begin(4, 1, 1, 95);
    builder.end(4, Outcome::Failed, 100, None);
    builder.begin(5, 1, 1, 96);
    builder.end(5, Outcome::GivenBack, 97, None);
    builder.begin(6, 1, 1, 98);
    builder.add(JournalEvent::TaskSettled(TaskSettled {
        time_ns: START_NS + 101 * MS,
        task: 5,
        how: TaskOutcome::Abandoned,
        because: vec![4],
    }));
    builder.finish(RunOutcome::Failed, 110);
    builder.run
}

/// `out/a` is made in an environment of a file that is not a task's; that of `bad` cannot be made.
pub(super) fn with_environments() -> Run {
    let env = |kind: &str, names: &[&str]| {
        Some(CommandEnvironment {
            kind: kind.into(),
            names: names.iter().map(|name| Text::from(*name)).collect(),
            script: ".rakuda/env/x-0.sh".into(),
        })
    };
    let mut builder = Builder::new();
    builder.define([source(0, "env.yml", 9), task(1, "out/a", 0, &[]), task(2, "bad", 1, &[0])]);
    builder.begin(1, 1, 1, 10);
    builder.command_in(env("venv", &["my reqs.txt"]), 1, &["fit", "a b"], (11, 20), 0, None);
    builder.command_in(env("module", &["gcc/12", "mpi"]), 1, &["cc", "c"], (20, 30), 0, None);
    builder.end(1, Outcome::Done, 30, Some(1));
    builder.begin(2, 1, 1, 31);
    let words = ["fit", "--long-option-of-a-program-with-many-words", "out/a", "two words"];
    let why = Some("needs env: conda env.yml: cannot be made (/c/x.log), on n1");
    builder.command_in(env("conda", &["env.yml"]), 2, &words, (32, 40), 125 << 8, why);
    builder.end_as(
        2,
        Outcome::Failed,
        41,
        None,
        "Command failed with status (125): [fit --long-option-of-a-program-wit...]",
    );
    builder.finish(RunOutcome::Failed, 50);
    builder.run
}

/// `sim` writes into `lines`, which `stats` and `plot` read; `stats` answers over `back`; `sum` takes the file of
/// `plot`.
pub(super) fn with_streams() -> Run {
    let mut builder = Builder::new();
    let plain = |number, name, rule| {
        let kind = TaskKind::Plain;
        TaskDefined { kind, ..task(number, name, rule, &[]) }
    };
    builder.define([
        plain(0, "stats", 1),
        plain(1, "sim", 0),
        task(2, "plot", 1, &[]),
        task(3, "sum", 1, &[2]),
    ]);
    for number in 0..3 {
        builder.begin(number, 1, 1, 10);
    }
    let note = |name: &str, writers: &[u32], readers: &[u32]| StreamNote {
        name: name.into(),
        record: RecordForm::Line,
        writers: writers.to_vec(),
        readers: readers.to_vec(),
        place: format!("Rakefile:{}", name.len()).into(),
        meta: BTreeMap::new(),
        route: None,
    };
    builder.add(JournalEvent::StreamsOpened(StreamsOpened {
        time_ns: START_NS + 11 * MS,
        opening: 0,
        node: 0,
        nodes: Vec::new(),
        members: vec![0, 1, 2],
        spooled: false,
        streams: vec![note("lines", &[1], &[0, 2]), note("back", &[0], &[1])],
    }));
    let account = |name: &str, writer: u32, readers: &[u32], bytes: u64| {
        let end = |task: u32| EndAccount {
            end: StreamEnd::Task(task),
            bytes,
            records: bytes / 8,
            is_special: false,
            dropped: 0,
        };
        StreamAccount {
            name: name.into(),
            writers: vec![end(writer)],
            readers: readers.iter().copied().map(end).collect(),
            memory_bytes_max: 1 << 20,
            spilled_bytes: 0,
            spilled_bytes_max: 0,
            hops: Vec::new(),
        }
    };
    builder.add(JournalEvent::StreamsEnded(StreamsEnded {
        time_ns: START_NS + 40 * MS,
        opening: 0,
        streams: vec![account("lines", 1, &[0, 2], 4_096), account("back", 0, &[1], 16)],
        fault: None,
        at_fault: None,
        retried: false,
        interrupted: false,
    }));
    for (number, bytes) in [(0, None), (1, None), (2, Some(30))] {
        builder.end(number, Outcome::Done, 41, bytes);
    }
    builder.begin(3, 1, 1, 42);
    builder.end(3, Outcome::Done, 43, Some(1));
    builder.finish(RunOutcome::Done, 50);
    builder.run
}

#[test]
fn the_sample_has_what_it_says() {
    let run = everything();
    assert_eq!(run.tasks.iter().flatten().count(), 7);
    assert_eq!(run.tasks[1].as_ref().map(|task| task.attempts.len()), Some(2));
}
