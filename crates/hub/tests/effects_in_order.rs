//! The whole hub with a fake agent and a front in a thread: starts of commands, signals and what the
//! front is told do not leave the hub before the journal has the note that they stand for
//! (docs/design/record.md, "The journal").
//!
//! Agent and front read the journal whenever something comes. The agent is called by the hub, so it
//! finds each request that comes too early; the front finds a message that does, unless the note
//! comes before it has looked.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proptest::prelude::*;
use rakuda_cluster::{AgentPort, Node};
use rakuda_core::Capacity;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest};
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{
    ActionOutcome, FrontMessage, HubMessage, Program, Settings, StopHow, TaskDefinition, TaskFlag,
    TaskFlags, TaskKind,
};
use rakuda_proto::journal::JournalEvent;
use rakuda_record::reader::{Skipped, read_events};
use tokio::sync::mpsc::UnboundedSender;

use support::end_soon;

const CORES: u32 = 2;
/// Statuses of wait(2).
const FAILED: i32 = 1 << 8;

/// What a line of the journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Note {
    AttemptStarted(u32, u32),
    CommandStarted(u32),
    CommandEnded(u32),
    InvocationEnded(u32),
    StopRequested,
    RunEnded,
}

/// The journal of a run, as far as somebody has read it.
struct Journal {
    runs: PathBuf,
    bytes_read: usize,
    notes: BTreeSet<Note>,
    /// How many attempts of each task have ended.
    attempts_ended: BTreeMap<u32, u32>,
    /// What is wrong. Nobody fails before the run is over: the hub would wait for the rest of it.
    faults: Vec<String>,
}

impl Journal {
    fn of(directory: &Path) -> Self {
        let runs = directory.join(".rakuda/runs");
        Self {
            runs,
            bytes_read: 0,
            notes: BTreeSet::new(),
            attempts_ended: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn read(&mut self) {
        let Some(run) = std::fs::read_dir(&self.runs).ok().and_then(|mut runs| runs.next()) else {
            return;
        };
        let path = run.expect("list the runs").path().join("journal.jsonl");
        let text = std::fs::read(path).unwrap_or_default();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let skipped = read_events(&text[self.bytes_read..whole], |event| self.take(&event));
        assert_eq!(skipped.expect("a journal"), Skipped::default());
        self.bytes_read = whole;
    }

    fn take(&mut self, event: &JournalEvent) {
        let note = match event {
            JournalEvent::AttemptStarted(one) => Note::AttemptStarted(one.task, one.attempt),
            JournalEvent::AttemptEnded(one) => {
                *self.attempts_ended.entry(one.task).or_default() += 1;
                return;
            }
            JournalEvent::CommandStarted(one) => Note::CommandStarted(one.command),
            JournalEvent::CommandEnded(one) => Note::CommandEnded(one.command),
            JournalEvent::InvocationEnded(one) => Note::InvocationEnded(one.invocation),
            JournalEvent::StopRequested(_) => Note::StopRequested,
            JournalEvent::RunEnded(_) => Note::RunEnded,
            _ => return,
        };
        let is_new = self.notes.insert(note);
        if !is_new && note != Note::StopRequested {
            self.faults.push(format!("{note:?} is noted twice"));
        }
    }

    /// Something has come that stands for this note.
    fn expect(&mut self, note: Note) {
        self.read();
        if !self.notes.contains(&note) {
            self.faults.push(format!("it came before {note:?}; there are {:?}", self.notes));
        }
    }
}

#[derive(Clone, Debug)]
struct Task {
    prerequisites: Vec<u32>,
    commands: u32,
    is_file: bool,
}

#[derive(Clone, Debug)]
struct Plan {
    tasks: Vec<Task>,
    /// Of commands by their numbers, again and again. One that fails ends its action.
    statuses: Vec<i32>,
    retry: u32,
    /// The user stops the run when the front has heard of so many things.
    stop_after: Option<u32>,
    /// And does so once more when it has heard of as many again.
    kill: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    let tasks = prop::collection::vec((picks, 0..4_u32, any::<bool>()), 1..24).prop_map(|tasks| {
        let whole =
            |(number, (picks, commands, is_file)): (usize, (Vec<prop::sample::Index>, _, _))| {
                let before = picks.iter().filter(|_| number > 0).map(|pick| pick.index(number));
                let before: BTreeSet<u32> = before.map(|one| u32::try_from(one).unwrap()).collect();
                Task { prerequisites: before.into_iter().collect(), commands, is_file }
            };
        tasks.into_iter().enumerate().map(whole).collect()
    });
    let status = prop_oneof![6 => Just(0), 1 => Just(FAILED)];
    let statuses = prop::collection::vec(status, 1..30);
    let stop_after = prop::option::of(0..60_u32);
    (tasks, statuses, 0..3_u32, stop_after, any::<bool>()).prop_map(
        |(tasks, statuses, retry, stop_after, kill)| Plan {
            tasks,
            statuses,
            retry,
            stop_after,
            kill,
        },
    )
}

/// Ends each command after a few turns of the loop, as its plan wants.
struct FakeAgent {
    journal: Rc<RefCell<Journal>>,
    statuses: Vec<i32>,
    events: UnboundedSender<AgentEvent>,
    running: Rc<Cell<usize>>,
    started: Rc<Cell<usize>>,
}

impl AgentPort for FakeAgent {
    fn handle(&self, request: AgentRequest) {
        let command = match request {
            AgentRequest::Start { command, .. } => command,
            AgentRequest::Signal { .. } => {
                return self.journal.borrow_mut().expect(Note::StopRequested);
            }
            _ => return,
        };
        self.journal.borrow_mut().expect(Note::CommandStarted(command.0));
        self.started.set(self.started.get() + 1);
        self.running.set(self.running.get() + 1);
        let running = Rc::clone(&self.running);
        let status = self.statuses[command.0 as usize % self.statuses.len()];
        end_soon(command, status, self.events.clone(), move || running.set(running.get() - 1));
    }

    fn signal_all(&self, _: i32) -> usize {
        0
    }

    fn pause_output(&self, _: bool) {}

    fn unreported(&self) -> usize {
        self.running.get()
    }
}

/// What a front has to do, and where it stands.
struct Front {
    plan: Plan,
    directory: PathBuf,
    journal: Journal,
    writer: FrameWriter,
    /// Of actions that run: the commands that are still to come.
    open: BTreeMap<u32, u32>,
    /// Whose they are.
    commands: Vec<u32>,
    begun: u32,
    heard: u32,
    is_over: bool,
}

impl Front {
    fn new(plan: Plan, directory: &Path) -> Self {
        Self {
            plan,
            directory: directory.to_path_buf(),
            journal: Journal::of(directory),
            writer: FrameWriter::default(),
            open: BTreeMap::new(),
            commands: Vec::new(),
            begun: 0,
            heard: 0,
            is_over: false,
        }
    }

    /// How many actions were begun, and what is wrong.
    fn run(mut self, mut stream: UnixStream) -> (u32, Vec<String>) {
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
                return (self.begun, self.journal.faults);
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
        let numbers = tasks.iter().map(|task| task.0).collect();
        self.writer.push(&FrontMessage::DefineTasks { tasks });
        self.writer.push(&FrontMessage::Invoke(0, numbers, None));
    }

    fn hear(&mut self, message: HubMessage) {
        match message {
            HubMessage::RunAction(task, attempt, ..) => {
                self.journal.expect(Note::AttemptStarted(task, attempt));
                self.begun += 1;
                self.open.insert(task, self.plan.tasks[task as usize].commands);
                self.go_on(task);
            }
            HubMessage::CommandEnded(command, status, _, _, error, _) => {
                // One that is not started any more ends with an error, and without a note.
                if error.is_none() {
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
            HubMessage::AttemptFailed(task, attempt, _) => {
                self.journal.read();
                let ended = self.journal.attempts_ended.get(&task).copied().unwrap_or(0);
                if ended < attempt {
                    let fault = format!("attempt {attempt} of {task} failed; {ended} are noted");
                    self.journal.faults.push(fault);
                }
            }
            HubMessage::InvocationEnded(invocation, ..) => {
                if self.begun > 0 {
                    self.journal.expect(Note::InvocationEnded(invocation));
                }
                self.writer.push(&FrontMessage::Goodbye { failed: false });
                self.is_over = true;
            }
            HubMessage::Welcome(..) | HubMessage::TargetMissing { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
        self.heard += 1;
        self.stop_when_due();
    }

    fn stop_when_due(&mut self) {
        let Some(after) = self.plan.stop_after else { return };
        if self.heard == after + 1 {
            self.writer.push(&FrontMessage::Stop { how: StopHow::Interrupt });
        } else if self.plan.kill && self.heard == 2 * (after + 1) {
            self.writer.push(&FrontMessage::Stop { how: StopHow::Kill });
        }
    }

    /// An action comes to its next command, or to its end.
    fn go_on(&mut self, task: u32) {
        let left = self.open.get_mut(&task).expect("it is open");
        if *left == 0 {
            if self.plan.tasks[task as usize].is_file {
                std::fs::write(self.directory.join(format!("t{task}")), "").expect("make a target");
            }
            return self.end(task, ActionOutcome::Ok);
        }
        *left -= 1;
        let command = u32::try_from(self.commands.len()).unwrap();
        self.commands.push(task);
        let program = Program::Line(Text::from("true"));
        self.writer.push(&FrontMessage::StartCommand(command, Some(task), program, None, None));
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

/// A folder of its own for each run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("rakuda-effects-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("make a folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a plan, and looks at what is left of it.
fn run(plan: Plan) {
    let scratch = Scratch::new();
    let (ours, theirs) = UnixStream::pair().expect("make a socket pair");
    let (statuses, front) = (plan.statuses.clone(), Front::new(plan, &scratch.0));
    let front = std::thread::spawn(move || front.run(ours));
    let (running, started) = (Rc::default(), Rc::new(Cell::new(0)));
    let agents_journal = Rc::new(RefCell::new(Journal::of(&scratch.0)));
    let agent = |events| FakeAgent {
        journal: Rc::clone(&agents_journal),
        statuses,
        events,
        running,
        started: Rc::clone(&started),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hub = rakuda_hub::run_with(theirs, rakuda_hub::Guard::default(), |_, events| {
        Ok(vec![Node {
            name: Text::from("here"),
            capacity: Capacity { cores: CORES, memory_bytes: 1 << 30, ..Capacity::default() },
            port: Box::new(agent(events)),
        }])
    });
    let ended = tokio::task::LocalSet::new().block_on(&runtime, hub);
    let (begun, faults) = front.join().expect("the front ends well");
    assert_eq!(faults, Vec::<String>::new(), "messages to the front");
    assert_eq!(agents_journal.borrow().faults, Vec::<String>::new(), "requests to the agent");
    ended.expect("the hub ends well");
    let mut journal = Journal::of(&scratch.0);
    journal.read();
    let noted = |note: &&Note| matches!(note, Note::CommandStarted(_));
    assert_eq!(journal.notes.iter().filter(noted).count(), started.get());
    assert_eq!(journal.notes.contains(&Note::RunEnded), begun > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_effect_leaves_before_its_note(plan in plan()) {
        run(plan);
    }
}
