//! The front: asks for what the plan has, and holds each message of the hub against the journal.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{
    ActionOutcome, ClusterSettings, Filesystem, FrontMessage, HubMessage, Settings, StopHow,
    TaskDefinition, TaskFlag, TaskFlags, TaskKind,
};

use crate::agents::{CORES, Counts, FAR, Words};
use crate::journal::{Journal, Note};
use crate::plan::{Plan, Task};

/// An action that runs.
#[derive(Clone, Copy)]
struct Action {
    attempt: u32,
    /// Commands that are still to come.
    left: u32,
}

/// What a front has to do, and where it stands.
pub struct Front {
    plan: Plan,
    directory: PathBuf,
    journal: Journal,
    writer: FrameWriter,
    /// By task.
    open: BTreeMap<u32, Action>,
    /// Whose they are.
    commands: Vec<u32>,
    heard: u32,
    is_over: bool,
    seen: Seen,
}

/// What has come of it.
#[derive(Default)]
pub struct Seen {
    /// How many actions were begun.
    pub begun: u32,
    pub counts: Counts,
    /// What is wrong.
    pub faults: Vec<String>,
}

impl Front {
    pub fn new(plan: Plan, directory: &Path) -> Self {
        Self {
            plan,
            directory: directory.to_path_buf(),
            journal: Journal::of(directory),
            writer: FrameWriter::default(),
            open: BTreeMap::new(),
            commands: Vec::new(),
            heard: 0,
            is_over: false,
            seen: Seen::default(),
        }
    }

    pub fn run(mut self, mut stream: UnixStream) -> Seen {
        // The hub takes a front that has left for one that goes on as another program, since its process lives.
        let _aborts = AbortsOnPanic;
        let limit = std::time::Duration::from_secs(60);
        stream.set_read_timeout(Some(limit)).expect("limit the wait for the hub");
        self.begin();
        let (mut reader, mut messages, mut chunk) =
            (FrameReader::default(), Vec::new(), vec![0; 65_536]);
        loop {
            let mut frame = Vec::new();
            self.writer.finish(&mut frame);
            stream.write_all(&frame).expect("write to the hub");
            if self.is_over {
                self.seen.faults = self.journal.faults;
                return self.seen;
            }
            let bytes = stream.read(&mut chunk).expect("read from the hub");
            assert!(bytes > 0, "the hub has ended");
            reader.buffer_mut().extend_from_slice(&chunk[..bytes]);
            reader.drain(&mut messages).expect("well-formed frames");
            for message in messages.drain(..) {
                self.hear(message);
            }
        }
    }

    fn begin(&mut self) {
        let settings = Settings {
            directory: Text::from(self.directory.to_string_lossy().into_owned()),
            jobs: CORES,
            record: true,
            retry: self.plan.retry,
            grace_ms: 1,
            cluster: self.cluster(),
            ..Settings::default()
        };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.writer.push(&FrontMessage::Hello(version, Box::new(settings)));
        let task = |(number, task): (u32, &Task)| {
            let kind = if task.is_file { TaskKind::File } else { TaskKind::Plain };
            let (name, before) = (Text::from(format!("t{number}")), task.prerequisites.clone());
            (number, kind, TaskFlags::of(&[TaskFlag::HasAction]), name, 0, before, 0, 0, 0)
        };
        let tasks: Vec<TaskDefinition> = (0..).zip(&self.plan.tasks).map(task).collect();
        self.writer.push(&FrontMessage::DefineTasks { tasks });
        self.writer.push(&FrontMessage::Invoke(0, self.plan.asked_for(), None));
    }

    fn cluster(&self) -> Option<ClusterSettings> {
        let far = self.plan.far?;
        let hosts = self.directory.join("hosts");
        std::fs::write(&hosts, format!("localhost {CORES}\nfar {CORES}\n")).expect("write hosts");
        Some(ClusterSettings {
            host_file: Some(Text::from(hosts.to_string_lossy().into_owned())),
            filesystem: if far.stages { Filesystem::Local } else { Filesystem::Shared },
            ..ClusterSettings::default()
        })
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.counts.entry(what).or_default() += 1;
    }

    fn hear(&mut self, message: HubMessage) {
        match message {
            HubMessage::RunAction(task, attempt, node, ..) => {
                self.journal.expect(Note::AttemptStarted(task, attempt));
                self.journal.expect_ended(task, attempt - 1);
                let joined = |it: &Journal| it.joined.contains_key(&FAR.0);
                if node == Text::from("far") {
                    self.journal.expect_that(joined, || "the node joined".into());
                }
                self.seen.begun += 1;
                let left = self.plan.tasks[task as usize].commands;
                self.open.insert(task, Action { attempt, left });
                self.go_on(task);
            }
            HubMessage::CommandEnded(command, status, _, _, error, _) => {
                // One that is not started any more, or is lost, ends with an error.
                if error.is_none() {
                    self.journal.expect(Note::CommandStarted(command));
                    self.journal.expect(Note::CommandEnded(command));
                }
                let task = self.commands[command as usize];
                if self.open.contains_key(&task) {
                    if status == 0 {
                        self.go_on(task);
                    } else {
                        self.end(task, ActionOutcome::Failed);
                    }
                }
            }
            HubMessage::AbortAction { task } => self.end(task, ActionOutcome::Failed),
            HubMessage::ActionLost { task, .. } => {
                self.count("attempts lost");
                let is_lost = |it: &Journal| it.lost.contains_key(&FAR.0);
                self.journal.expect_that(is_lost, || "the node was lost".into());
                self.end(task, ActionOutcome::Failed);
            }
            HubMessage::AttemptFailed(task, attempt, _) => {
                self.journal.read();
                if self.journal.notes.contains(&Note::AttemptStarted(task, attempt)) {
                    self.journal.expect_ended(task, attempt);
                } else {
                    // It waited until the last one, whose node was lost, would be unwound, and the run was stopped.
                    self.count("attempts failed that had not begun");
                    let before = |it: &Journal| {
                        let noted = |number| it.notes.contains(&Note::AttemptStarted(task, number));
                        (1..attempt).any(noted)
                    };
                    self.journal.expect_that(before, || format!("an earlier attempt of {task}"));
                    self.journal.expect(Note::StopRequested);
                    let is_lost = |it: &Journal| it.lost.contains_key(&FAR.0);
                    self.journal.expect_that(is_lost, || "the node was lost".into());
                }
            }
            HubMessage::InvocationEnded(invocation, failed, abandoned) => {
                if self.seen.begun > 0 {
                    self.journal.expect(Note::InvocationEnded(invocation));
                }
                self.expect_at_home(&[failed, abandoned].concat());
                self.writer.push(&FrontMessage::Goodbye { failed: false });
                self.is_over = true;
            }
            HubMessage::Welcome(..)
            | HubMessage::TargetMissing { .. }
            | HubMessage::TargetNotStagedOut { .. }
            | HubMessage::Warning { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
        self.heard += 1;
        self.stop_when_due();
    }

    /// What was asked for, and did not fail, is here.
    fn expect_at_home(&mut self, missing: &[u32]) {
        let Self { plan, journal, .. } = self;
        if !plan.stages() || plan.stop_after.is_some() {
            return;
        }
        for task in plan.asked_for().into_iter().filter(|task| !missing.contains(task)) {
            let mut files = plan.files_of(task);
            if plan.tasks[task as usize].is_file {
                files = [task].into();
            }
            for file in files {
                journal
                    .expect_that(|it| it.has(file, 0, plan), || format!("{file} was staged out"));
            }
        }
    }

    fn stop_when_due(&mut self) {
        let Some(after) = self.plan.stop_after else { return };
        if self.heard == after + 1 {
            self.count("stops");
            self.writer.push(&FrontMessage::Stop { how: StopHow::Interrupt });
        } else if self.plan.kill && self.heard == 2 * (after + 1) {
            self.writer.push(&FrontMessage::Stop { how: StopHow::Kill });
        }
    }

    /// An action comes to its next command, or to its end.
    fn go_on(&mut self, task: u32) {
        let Task { commands, is_file, .. } = self.plan.tasks[task as usize];
        let action = self.open.get_mut(&task).expect("it is open");
        if action.left == 0 {
            if is_file && commands == 0 {
                std::fs::write(self.directory.join(format!("t{task}")), "x")
                    .expect("make a target");
            }
            return self.end(task, ActionOutcome::Ok);
        }
        action.left -= 1;
        let words = Words { task, attempt: action.attempt, makes: is_file && action.left == 0 };
        let command = u32::try_from(self.commands.len()).unwrap();
        self.commands.push(task);
        let start = FrontMessage::StartCommand(command, Some(task), words.program(), None, None);
        self.writer.push(&start);
    }

    fn end(&mut self, task: u32, outcome: ActionOutcome) {
        if self.open.remove(&task).is_some() {
            self.writer.push(&FrontMessage::ActionEnded(task, outcome, Text::default(), None));
        }
    }
}

/// Ends the test where waiting for the other thread would not.
struct AbortsOnPanic;

impl Drop for AbortsOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::io::stderr().write_all(b"the front has failed\n");
            std::process::abort();
        }
    }
}
