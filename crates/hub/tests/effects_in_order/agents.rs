//! Fake agents: one in the hub's process, and one elsewhere, which holds prepared commands back as a real one does, has
//! files of its own, and may be lost and come again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_agent::files;
use rakuda_agent::visibility::identity_of;
use rakuda_cluster::{
    AgentPort, DataConnection, DataDial, Dialled, NodeEvent, NodeReport, ReportSender,
};
use rakuda_core::{NodeId, Prepared};
use rakuda_link::time::ClockExchange;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{FromAgent, NodeFacts, Operations, ToAgent};
use rakuda_proto::front::Program;
use tokio::sync::mpsc::UnboundedSender;

use crate::journal::{Journal, Note};
use crate::plan::{Far, Loss, Plan};
use crate::support::end_soon;

/// The node elsewhere.
pub const FAR: NodeId = NodeId(1);
pub const CORES: u32 = 2;

/// How often something happened, in words.
pub type Counts = BTreeMap<&'static str, u32>;

/// What a command is for.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    pub task: u32,
    pub attempt: u32,
    /// It makes the file of its task.
    pub makes: bool,
}

impl Words {
    /// The command is at its end.
    fn end(self, status: i32, folder: &Path) {
        if self.makes && status == 0 {
            std::fs::write(folder.join(format!("t{}", self.task)), "x").expect("make a target");
        }
    }

    pub fn program(self) -> Program {
        let Self { task, attempt, makes } = self;
        Program::Line(Text::from(format!(
            "{task} {attempt} {}",
            if makes { "make" } else { "run" }
        )))
    }

    fn of(program: &Program) -> Self {
        let Program::Line(line) = program else { panic!("unexpected {program:?}") };
        let line = line.to_display();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        Self { task: number(0), attempt: number(1), makes: words[2] == "make" }
    }
}

/// What both agents know.
pub struct Common {
    pub plan: Plan,
    pub journal: RefCell<Journal>,
    pub counts: RefCell<Counts>,
    /// The run's folder.
    pub home: PathBuf,
}

impl Common {
    pub fn count(&self, what: &'static str) {
        *self.counts.borrow_mut().entry(what).or_default() += 1;
    }

    fn status(&self, command: CommandId) -> i32 {
        self.plan.statuses[command.0 as usize % self.plan.statuses.len()]
    }
}

/// Ends each command after a few turns of the loop, as its plan wants.
pub struct FakeAgent {
    pub common: Rc<Common>,
    pub events: UnboundedSender<AgentEvent>,
    pub running: Rc<Cell<usize>>,
    /// Each hears of a signal for a command that is over.
    pub started: RefCell<BTreeSet<CommandId>>,
}

impl AgentPort for FakeAgent {
    fn handle(&self, request: AgentRequest) {
        let common = &self.common;
        let (command, program) = match request {
            AgentRequest::Start { command, program, .. } => (command, program),
            AgentRequest::Signal { command, .. } if self.started.borrow().contains(&command) => {
                return common.journal.borrow_mut().expect(Note::StopRequested);
            }
            _ => return,
        };
        self.started.borrow_mut().insert(command);
        let words = Words::of(&program);
        common.journal.borrow_mut().expect(Note::CommandStarted(command.0));
        common.journal.borrow_mut().expect_for(words, 0, &common.plan);
        common.count("started here");
        self.running.set(self.running.get() + 1);
        let (running, common) = (Rc::clone(&self.running), Rc::clone(common));
        let status = common.status(command);
        end_soon(command, status, self.events.clone(), move || {
            words.end(status, &common.home);
            running.set(running.get() - 1);
        });
    }

    fn signal_all(&self, _: i32) -> usize {
        0
    }

    fn pause_output(&self, _: bool) {}

    fn unreported(&self) -> usize {
        self.running.get()
    }
}

/// The agent elsewhere.
pub struct FarAgent(Rc<FarState>);

struct FarState {
    common: Rc<Common>,
    far: Far,
    /// The run's folder there.
    folder: PathBuf,
    reports: ReportSender,
    /// Of the agent that is there, or was there last.
    incarnation: Cell<u32>,
    is_up: Cell<bool>,
    /// Of the agent that the hub knows.
    known: Cell<u32>,
    requests: Cell<u32>,
    /// Commands whose end the hub waits for.
    owed: RefCell<BTreeSet<CommandId>>,
    /// Those that free their cores.
    freeing: RefCell<BTreeSet<CommandId>>,
    prepared: RefCell<Prepared<CommandId, Words>>,
    /// Commands that have run here, and whether they were prepared: then they may be ended because their actions are
    /// given back.
    started: RefCell<BTreeMap<CommandId, bool>>,
}

impl FarAgent {
    /// Comes after some turns of the loop. Must be called inside a `tokio::task::LocalSet`.
    pub fn new(common: &Rc<Common>, far: Far, folder: PathBuf, reports: ReportSender) -> Self {
        let state = Rc::new(FarState {
            common: Rc::clone(common),
            far,
            folder,
            reports,
            incarnation: Cell::new(0),
            is_up: Cell::new(false),
            known: Cell::new(0),
            requests: Cell::new(0),
            owed: RefCell::default(),
            freeing: RefCell::default(),
            prepared: RefCell::default(),
            started: RefCell::default(),
        });
        Rc::clone(&state).come(far.late);
        Self(state)
    }
}

impl FarState {
    fn come(self: Rc<Self>, turns: u32) {
        tokio::task::spawn_local(async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            self.incarnation.set(self.incarnation.get() + 1);
            self.is_up.set(true);
            self.report(NodeEvent::Up(NodeFacts {
                host: Text::from("far"),
                cores: CORES,
                memory_bytes: 1 << 30,
                scratch: Text::from("/scratch"),
                scratch_bytes_free: 1 << 40,
                ..NodeFacts::default()
            }));
        });
    }

    /// The node is gone, if it is time for that.
    fn lose_when_due(self: &Rc<Self>) {
        let requests = self.requests.get();
        self.requests.set(requests + 1);
        let Some(Loss { again, .. }) = self.far.lost.filter(|loss| loss.after == requests) else {
            return;
        };
        self.is_up.set(false);
        self.owed.take();
        self.freeing.take();
        self.prepared.take();
        self.common.count("nodes lost");
        self.report(NodeEvent::Lost("it is gone".into(), again));
        if again {
            Rc::clone(self).come(3);
        }
    }

    /// Whether what the hub says is for the agent that is there.
    fn hears(&self) -> bool {
        self.is_up.get() && self.known.get() == self.incarnation.get()
    }

    fn report(&self, event: NodeEvent) {
        let incarnation = self.incarnation.get();
        self.reports.send(NodeReport { node: FAR, incarnation, event });
    }

    fn tell(&self, event: AgentEvent) {
        self.report(NodeEvent::Agent(event));
    }

    fn answer(&self, answer: FromAgent) {
        self.report(NodeEvent::Answer(answer));
    }

    /// The node is there, as the journal has it: it has joined since it was lost.
    fn expect_node(&self) {
        let is_there = |it: &Journal| {
            let times = |all: &BTreeMap<u32, u32>| all.get(&FAR.0).copied().unwrap_or(0);
            times(&it.joined) > times(&it.lost)
        };
        self.common.journal.borrow_mut().expect_that(is_there, || "the node joined".into());
    }

    fn start(self: &Rc<Self>, command: CommandId, words: Words) {
        let common = &self.common;
        common.journal.borrow_mut().expect(Note::CommandStarted(command.0));
        common.journal.borrow_mut().expect_for(words, FAR.0, &common.plan);
        self.expect_node();
        common.count("started elsewhere");
        if self.incarnation.get() > 1 {
            common.count("started on a node that is back");
        }
        if common.plan.stages() && !common.plan.files_of(words.task).is_empty() {
            common.count("started with files that were staged");
        }
        self.owed.borrow_mut().insert(command);
        self.started.borrow_mut().insert(command, false);
        self.run(command, words);
    }

    fn prepare(self: &Rc<Self>, command: CommandId, words: Words, freed: u64) {
        let common = &self.common;
        common.journal.borrow_mut().expect_for(words, FAR.0, &common.plan);
        self.expect_node();
        common.count("prepared");
        self.owed.borrow_mut().insert(command);
        let next = self.prepared.borrow_mut().prepare(command, words, freed);
        self.begin(next);
    }

    /// A prepared command begins.
    fn begin(self: &Rc<Self>, next: Option<(CommandId, Words)>) {
        let Some((command, words)) = next else { return };
        self.common.count("prepared commands begun");
        self.freeing.borrow_mut().insert(command);
        self.started.borrow_mut().insert(command, true);
        self.tell(AgentEvent::CommandBegun { command });
        self.run(command, words);
    }

    /// A prepared command comes back, unless it has begun.
    fn withdraw(&self, command: CommandId) {
        if self.prepared.borrow_mut().withdraw(&command).is_some() {
            self.tell(AgentEvent::CommandWithdrawn { command });
        }
    }

    /// A command does not free its core, unless it has ended.
    fn keep_core(&self, command: CommandId) {
        if self.freeing.borrow_mut().remove(&command) {
            self.tell(AgentEvent::CoreKept { command });
        }
    }

    /// Ends a command after a few turns of the loop, unless its agent is gone by then.
    fn run(self: &Rc<Self>, command: CommandId, words: Words) {
        let (state, incarnation) = (Rc::clone(self), self.incarnation.get());
        let (events, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let status = self.common.status(command);
        end_soon(command, status, events, || {});
        tokio::task::spawn_local(async move {
            let event = ended.recv().await.expect("it ends");
            if !state.is_up.get() || state.incarnation.get() != incarnation {
                return;
            }
            words.end(status, &state.folder);
            let frees = state.freeing.borrow_mut().remove(&command) && status == 0;
            if frees {
                state.tell(AgentEvent::CoreFreed { command });
            }
            state.tell(event);
            if frees {
                let next = state.prepared.borrow_mut().core_freed();
                state.begin(next);
            }
        });
    }

    fn signal(&self, command: CommandId) {
        let Some(was_prepared) = self.started.borrow().get(&command).copied() else { return };
        let mut journal = self.common.journal.borrow_mut();
        self.common.count("signals elsewhere");
        journal.expect(Note::CommandStarted(command.0));
        if !was_prepared {
            journal.expect(Note::StopRequested);
        }
    }

    /// A file of the run's folder as it is called there.
    fn at(&self, path: &Text) -> PathBuf {
        let path = path.as_path();
        self.folder.join(path.strip_prefix(&self.common.home).unwrap_or(path))
    }
}

impl AgentPort for FarAgent {
    fn on_up(&self, incarnation: u32) {
        self.0.known.set(incarnation);
    }

    fn handle(&self, request: AgentRequest) {
        let state = &self.0;
        if state.hears() {
            state.lose_when_due();
        }
        if !state.hears() {
            return;
        }
        match request {
            AgentRequest::Start { command, program, .. } => {
                state.start(command, Words::of(&program));
            }
            AgentRequest::Prepare { command, program, freed, .. } => {
                state.prepare(command, Words::of(&program), freed);
            }
            AgentRequest::Signal { command, .. } => state.signal(command),
            AgentRequest::FreesCore { command } => {
                state.freeing.borrow_mut().insert(command);
            }
            AgentRequest::Release => {
                let next = state.prepared.borrow_mut().release();
                state.begin(next);
            }
            AgentRequest::Withdraw { command } => state.withdraw(command),
            AgentRequest::KeepCore { command } => state.keep_core(command),
            _ => {}
        }
    }

    fn ask(&self, message: ToAgent) {
        let (state, operations) = (&self.0, Operations::default());
        if !state.hears() {
            return;
        }
        match message {
            ToAgent::Look { probe, paths } => {
                let files = paths.iter().map(|path| identity_of(&state.at(path))).collect();
                state.answer(FromAgent::Looked { probe, files, operations });
            }
            ToAgent::LookAround { probe, path, searches } => {
                let (target, found) = (identity_of(&state.at(&path)), vec![vec![]; searches.len()]);
                let more = false;
                state.answer(FromAgent::LookedAround { probe, target, found, more, operations });
            }
            ToAgent::TellTime { probe } => {
                state.answer(FromAgent::Time { probe, now_ns: 0 });
            }
            ToAgent::AskResident { probe, files } => {
                state.answer(FromAgent::Resident { probe, files: vec![None; files.len()] });
            }
            ToAgent::Expect { probe, .. } => {
                state.answer(FromAgent::Seen { probe, wrong: None, operations });
            }
            ToAgent::EndLeft { probe, .. } => {
                state.answer(FromAgent::LeftEnded { probe, killed: 0 });
            }
            ToAgent::MakeFolders { paths } => {
                for path in paths {
                    std::fs::create_dir_all(state.at(&path)).expect("make a folder");
                }
            }
            ToAgent::PutAway { path, unless, .. } => {
                let path = state.at(&path);
                if files::version_of(&path).is_some_and(|is| Some(is) != unless) {
                    std::fs::remove_file(path).expect("put a target away");
                }
            }
            _ => {}
        }
    }

    fn ask_time(&self, count: u32) {
        let trip_ns = i64::try_from(self.0.far.trip_ns).expect("it is short");
        for sent_ns in (1..=i64::from(count)).map(|number| number * 2 * trip_ns) {
            let there_ns = sent_ns + trip_ns / 2;
            self.0.report(NodeEvent::Exchange(ClockExchange {
                sent_ns,
                there_received_ns: there_ns,
                there_sent_ns: there_ns,
                received_ns: sent_ns + trip_ns,
            }));
        }
    }

    fn signal_all(&self, _: i32) -> usize {
        0
    }

    fn pause_output(&self, _: bool) {}

    fn on_exited(&self, command: CommandId) {
        self.0.owed.borrow_mut().remove(&command);
    }

    fn unreported(&self) -> usize {
        self.0.owed.borrow().len()
    }

    fn path_there(&self, here: &Path) -> PathBuf {
        self.0.at(&Text(here.as_os_str().as_encoded_bytes().to_vec()))
    }

    fn data(&self) -> Option<Rc<dyn DataDial>> {
        self.0.far.stages.then(|| Rc::new(Files) as Rc<dyn DataDial>)
    }
}

/// The files of the node, which are on this machine.
struct Files;

/// Ends what serves them.
struct Served(tokio::task::AbortHandle);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl DataDial for Files {
    fn dial(&self) -> Dialled {
        Box::pin(async {
            let (near, far) = tokio::io::duplex(1 << 16);
            let (reader, writer) = tokio::io::split(far);
            let serving = files::serve(Box::new(reader), Box::new(writer));
            let keeper = Served(tokio::task::spawn_local(serving).abort_handle());
            let (reader, writer) = tokio::io::split(near);
            Ok(DataConnection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                keeper: Box::new(keeper),
            })
        })
    }
}
