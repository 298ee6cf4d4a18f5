//! What a run was: its tasks with their attempts and commands, as the journal has them. Plain data, put together event
//! by event.
//!
//! It draws no conclusions (critical path, statistics): other modules do.

pub mod held;
mod numbers;

use std::collections::BTreeMap;
use std::io::BufRead;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptEnded, AttemptStarted, CommandEnded, CommandEnvironment, CommandStarted, FileStaged,
    GangStarted, InputLost, JournalEvent, NodeChosen, NodeGone, NodeJoined, NodeLost, Outcome,
    RoundEnded, RoundValues, RuleDefined, RunEnded, RunOutcome, RunStarted, StopRequested,
    StreamsEnded, StreamsOpened, StreamsRerouted, StreamsStalled, TaskBlamed, TaskDefined,
    TaskReopened, TaskSettled,
};

use crate::bounds::{CORES_OF_RUN_MAX, NODES_MAX, TASKS_MAX};
use crate::collected::WorkerValues;
use crate::reader::{ReadError, Skipped, Wanted, read_wanted};
use crate::words::with_name;

/// A node that took part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As it joined.
    pub joined: NodeJoined,
    /// When it was lost, ns since 1970. `None`: it takes part, perhaps again.
    pub lost_ns: Option<i64>,
    /// When it was released, ns since 1970, as it had run nothing for long.
    pub released_ns: Option<i64>,
    /// How long it was gone before it took part again.
    pub absent_ns: i64,
}

impl Node {
    /// A number of which nothing has been heard: hosts take part in the order in which they are there.
    fn unheard(number: usize, time_ns: i64) -> Self {
        let node = u32::try_from(number).unwrap_or(u32::MAX);
        let name = Text::default();
        let joined = NodeJoined { time_ns, node, name, cores: 0, memory_bytes: 0, group: None };
        Self { joined, lost_ns: Some(time_ns), released_ns: None, absent_ns: 0 }
    }

    fn joins(&mut self, joined: NodeJoined) {
        let before = (self.joined.cores > 0).then_some(self.joined.time_ns);
        if let (Some(_), Some(lost_ns)) = (before, self.lost_ns) {
            self.absent_ns += (joined.time_ns - lost_ns).max(0);
        }
        self.lost_ns = None;
        self.released_ns = None;
        let time_ns = before.unwrap_or(joined.time_ns);
        self.joined = NodeJoined { time_ns, ..joined };
    }
}

/// Where tasks of one kind are made.
pub type Rule = RuleDefined;

/// What was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Names.
    pub tasks: Vec<Text>,
    /// The task whose action waited.
    pub caller: Option<u32>,
    /// ns since 1970.
    pub started_ns: i64,
    /// ns since 1970. `None`: it had not ended.
    pub ended_ns: Option<i64>,
}

/// A command that an action started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As it started.
    pub started: CommandStarted,
    /// `None`: it had not ended.
    pub ended: Option<CommandEnded>,
}

/// One attempt of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// As it started.
    pub started: AttemptStarted,
    /// `None`: it had not ended.
    pub ended: Option<AttemptEnded>,
    /// By what its node was chosen. Boxed, as most have none.
    pub chosen: Option<Box<NodeChosen>>,
    /// Indices into [`Run::commands`], in order of start.
    pub commands: Vec<u32>,
}

/// A task that the journal names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// As it was defined.
    pub defined: TaskDefined,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// Only for those that the journal settles without an attempt. Boxed, as most have none.
    pub settled: Option<Box<TaskSettled>>,
    /// What it made went with a node, and it has neither begun again nor been settled since.
    pub reopened: bool,
}

/// What the loss of nodes did to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It is taken to be the reason of the losses.
    Blamed(TaskBlamed),
    /// Its file is to be made again.
    Reopened(TaskReopened),
    /// Its file cannot be made again.
    InputLost(InputLost),
}

/// Streams from their opening to their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// What they join.
    pub opened: StreamsOpened,
    /// Changes of routes meanwhile, in their order.
    pub rerouted: Vec<StreamsRerouted>,
    /// Cycles of them in which nothing moved, in the order of time.
    pub stalled: Vec<StreamsStalled>,
    /// What went through them. `None`: not all did, and nobody has said how much.
    pub ended: Option<StreamsEnded>,
}

impl Loss {
    /// Whose.
    pub fn task(&self) -> u32 {
        match self {
            Self::Blamed(event) => event.task,
            Self::Reopened(event) => event.task,
            Self::InputLost(event) => event.task,
        }
    }

    /// ns since 1970.
    pub fn time_ns(&self) -> i64 {
        match self {
            Self::Blamed(event) => event.time_ns,
            Self::Reopened(event) => event.time_ns,
            Self::InputLost(event) => event.time_ns,
        }
    }
}

/// A run, or as much of it as its journal has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The first line.
    pub started: RunStarted,
    /// By number.
    pub nodes: Vec<Node>,
    /// By number. `None`: not defined.
    pub rules: Vec<Option<Rule>>,
    /// By number. `None`: nothing that the journal tells happened to it. Boxed, as numbers may have wide gaps: a plan
    /// of a million tasks of which one runs.
    pub tasks: Vec<Option<Box<Task>>>,
    /// By number.
    pub commands: Vec<Option<Command>>,
    /// By number.
    pub invocations: Vec<Invocation>,
    /// In order: what the loss of nodes did to tasks, beyond the attempts that were lost.
    pub losses: Vec<Loss>,
    /// Gangs, each time that one began.
    pub gangs: Vec<GangStarted>,
    /// Streams between tasks, each time that some were opened.
    pub streams: Vec<Streams>,
    /// In order: files that were staged from node to node.
    pub staged: Vec<FileStaged>,
    /// In order of their ends: synchronised rounds.
    pub rounds: Vec<RoundEnded>,
    /// Figures that workers of rounds have printed, by the number of the round in the run.
    pub round_values: BTreeMap<u32, WorkerValues>,
    /// How far the machine's clock was ahead of the journal's when it was noted last; 0: as far as
    /// is known it was never set.
    pub clock_ahead_ns: i64,
    /// In order.
    pub stops: Vec<StopRequested>,
    /// `None`: it goes on, or was cut off.
    pub ended: Option<RunEnded>,
    /// Time of the last event of the run itself, ns since 1970; of one that was seen alive later,
    /// that time. What a later run adds to the journal of one that was cut off does not count.
    pub last_ns: i64,
    /// It was alive after its journal had been read up to here.
    pub alive: bool,
    /// What could not be read.
    pub skipped: Skipped,
    /// Lines so far that define a rule.
    rules_seen: usize,
    /// Lines so far that begin a command.
    commands_seen: usize,
    /// Cores of all nodes.
    cores_seen: u32,
}

/// Maximum gap in the numbers of commands and rules, which are numbered as they come. A number beyond this and twice as
/// many as were seen is damage.
const GAP_MAX: usize = 1 << 16;

impl Run {
    /// Reads a whole journal.
    ///
    /// # Errors
    /// When reading fails, or the journal is of another version.
    pub fn read(journal: impl BufRead) -> Result<Self, ReadError> {
        Self::read_wanted(journal, Wanted::ALL)
    }

    /// Reads only the events that are `wanted`: without commands a run takes half the time and memory.
    ///
    /// # Errors
    /// When reading fails, or the journal is of another version.
    pub fn read_wanted(journal: impl BufRead, wanted: Wanted) -> Result<Self, ReadError> {
        let mut run = Self::default();
        run.skipped = read_wanted(journal, wanted, |event, _| run.add(event))?;
        Ok(run)
    }

    /// Takes one more event.
    pub fn add(&mut self, event: JournalEvent) {
        match event {
            JournalEvent::RunStarted(started) => {
                self.see(started.time_ns);
                self.started = started;
            }
            JournalEvent::NodeJoined(joined) => self.add_node(joined),
            JournalEvent::NodeLost(lost) => self.lose_node(&lost),
            JournalEvent::NodeGone(gone) => self.release_node(&gone),
            JournalEvent::InvocationStarted(event) => {
                self.see(event.time_ns);
                self.invocations.push(Invocation {
                    tasks: event.tasks,
                    caller: event.caller,
                    started_ns: event.time_ns,
                    ended_ns: None,
                });
            }
            JournalEvent::InvocationEnded(event) => {
                self.see(event.time_ns);
                if let Some(invocation) = self.invocations.get_mut(event.invocation as usize) {
                    invocation.ended_ns = Some(event.time_ns);
                }
            }
            JournalEvent::RuleDefined(rule) => {
                self.rules_seen += 1;
                let end = 2 * self.rules_seen + GAP_MAX;
                put(&mut self.rules, rule.rule, end, rule);
            }
            JournalEvent::TaskDefined(mut defined) => {
                defined.prerequisites.shrink_to_fit();
                let number = defined.task;
                let task = Task { defined, attempts: Vec::new(), settled: None, reopened: false };
                put(&mut self.tasks, number, TASKS_MAX as usize, Box::new(task));
            }
            JournalEvent::AttemptStarted(mut started) => {
                self.see(started.time_ns);
                started.reasons.shrink_to_fit();
                if let Some(task) = get(&mut self.tasks, started.task) {
                    task.reopened = false;
                    task.attempts.reserve_exact(1);
                    task.attempts.push(Attempt {
                        started,
                        ended: None,
                        chosen: None,
                        commands: Vec::new(),
                    });
                }
            }
            JournalEvent::CommandStarted(mut started) => {
                self.see(started.time_ns);
                take_script_off(&mut started);
                if let Some(words) = &mut started.words {
                    words.shrink_to_fit();
                }
                if let Some(task) = started.task.and_then(|task| get(&mut self.tasks, task))
                    && let Some(attempt) = task.attempts.last_mut()
                {
                    attempt.commands.push(started.command);
                }
                self.commands_seen += 1;
                let end = 2 * self.commands_seen + GAP_MAX;
                put(&mut self.commands, started.command, end, Command { started, ended: None });
            }
            JournalEvent::CommandEnded(ended) => {
                self.see(ended.time_ns);
                if let Some(command) = get(&mut self.commands, ended.command) {
                    command.ended = Some(ended);
                }
            }
            JournalEvent::AttemptEnded(ended) => self.end_attempt(ended),
            JournalEvent::GangStarted(gang) => self.add_gang(gang),
            JournalEvent::StreamsOpened(opened) => self.begin_streams(opened),
            JournalEvent::StreamsRerouted(event) => self.reroute_streams(event),
            JournalEvent::StreamsStalled(event) => self.stall_streams(event),
            JournalEvent::StreamsEnded(ended) => self.end_streams(ended),
            JournalEvent::TaskSettled(settled) => self.settle(settled),
            JournalEvent::TaskBlamed(event) => self.add_loss(Loss::Blamed(event)),
            JournalEvent::NodeChosen(chosen) => self.add_choice(chosen),
            JournalEvent::TaskReopened(event) => self.reopen(event),
            JournalEvent::InputLost(event) => self.add_loss(Loss::InputLost(event)),
            JournalEvent::FileStaged(staged) => self.add_staged(staged),
            JournalEvent::ClockStepped(stepped) => {
                self.see(stepped.time_ns);
                self.clock_ahead_ns = stepped.ahead_ns();
            }
            JournalEvent::CommandPrepared(prepared) => self.see(prepared.time_ns),
            JournalEvent::RoundEnded(round) => self.add_round(round),
            JournalEvent::RoundValues(event) => self.add_round_values(event),
            JournalEvent::StopRequested(stop) => self.add_stop(stop),
            JournalEvent::RunEnded(ended) => {
                if ended.how != RunOutcome::Recovered {
                    self.see(ended.time_ns);
                }
                self.ended = Some(ended);
            }
        }
    }

    fn end_attempt(&mut self, ended: AttemptEnded) {
        self.see(ended.time_ns);
        if let Some(task) = get(&mut self.tasks, ended.task)
            && let Some(attempt) = task.attempts.last_mut()
        {
            attempt.ended = Some(ended);
        }
    }

    fn begin_streams(&mut self, opened: StreamsOpened) {
        self.see(opened.time_ns);
        self.streams.push(Streams {
            opened,
            rerouted: Vec::new(),
            stalled: Vec::new(),
            ended: None,
        });
    }

    fn reroute_streams(&mut self, event: StreamsRerouted) {
        self.see(event.time_ns);
        let opened = |one: &&mut Streams| one.opened.opening == event.opening;
        if let Some(streams) = self.streams.iter_mut().find(opened) {
            streams.rerouted.push(event);
        }
    }

    fn stall_streams(&mut self, event: StreamsStalled) {
        self.see(event.time_ns);
        let opened = |one: &&mut Streams| one.opened.opening == event.opening;
        if let Some(streams) = self.streams.iter_mut().find(opened) {
            streams.stalled.push(event);
        }
    }

    fn end_streams(&mut self, ended: StreamsEnded) {
        self.see(ended.time_ns);
        // Its attempt had ended well before that was known.
        if let Some(task) = ended.at_fault.and_then(|task| get(&mut self.tasks, task))
            && let Some(attempt) = task.attempts.last_mut().and_then(|last| last.ended.as_mut())
        {
            let defined = &task.defined;
            let name = |number| (number == defined.task).then(|| defined.name.to_display());
            attempt.outcome = Outcome::Failed;
            attempt.retried = ended.retried;
            let fault = ended.fault.as_ref().map(Text::to_display).unwrap_or_default();
            attempt.message = Some(Text::from(with_name(&fault, name)));
        }
        let opened = |one: &&mut Streams| one.opened.opening == ended.opening;
        if let Some(streams) = self.streams.iter_mut().find(opened) {
            streams.ended = Some(ended);
        }
    }

    fn add_gang(&mut self, gang: GangStarted) {
        self.see(gang.time_ns);
        self.gangs.push(gang);
    }

    fn settle(&mut self, settled: TaskSettled) {
        self.see(settled.time_ns);
        if let Some(task) = get(&mut self.tasks, settled.task) {
            task.reopened = false;
            task.settled = Some(Box::new(settled));
        }
    }

    fn add_choice(&mut self, chosen: NodeChosen) {
        self.see(chosen.time_ns);
        if let Some(task) = get(&mut self.tasks, chosen.task)
            && let Some(attempt) = task.attempts.last_mut()
        {
            attempt.chosen = Some(Box::new(chosen));
        }
    }

    fn add_node(&mut self, joined: NodeJoined) {
        self.see(joined.time_ns);
        let index = joined.node as usize;
        let earlier = self.nodes.get(index).map_or(0, |node| node.joined.cores);
        let cores = (self.cores_seen - earlier).saturating_add(joined.cores);
        if cores <= CORES_OF_RUN_MAX && joined.node < NODES_MAX {
            self.cores_seen = cores;
            for number in self.nodes.len()..=index {
                self.nodes.push(Node::unheard(number, joined.time_ns));
            }
            self.nodes[index].joins(joined);
        }
    }

    fn add_staged(&mut self, staged: FileStaged) {
        self.see(staged.time_ns);
        self.staged.push(staged);
    }

    fn add_round(&mut self, round: RoundEnded) {
        self.see(round.time_ns);
        self.rounds.push(round);
    }

    fn add_round_values(&mut self, event: RoundValues) {
        self.see(event.time_ns);
        self.round_values.entry(event.round).or_default().insert(event.worker, event.values);
    }

    fn add_stop(&mut self, stop: StopRequested) {
        self.see(stop.time_ns);
        self.stops.push(stop);
    }

    fn lose_node(&mut self, lost: &NodeLost) {
        self.see(lost.time_ns);
        if let Some(node) = self.nodes.get_mut(lost.node as usize) {
            node.lost_ns = Some(lost.time_ns);
        }
    }

    fn release_node(&mut self, gone: &NodeGone) {
        self.see(gone.time_ns);
        if let Some(node) = self.nodes.get_mut(gone.node as usize) {
            node.released_ns = Some(gone.time_ns);
        }
    }

    fn reopen(&mut self, event: TaskReopened) {
        if let Some(task) = get(&mut self.tasks, event.task) {
            task.reopened = true;
            task.settled = None;
        }
        self.add_loss(Loss::Reopened(event));
    }

    fn add_loss(&mut self, loss: Loss) {
        self.see(loss.time_ns());
        self.losses.push(loss);
    }

    /// Notes that the run is alive at this time of its journal's clock: what has not ended goes on
    /// until then. A run that has ended stays as it is.
    pub fn seen_alive(&mut self, now_ns: i64) {
        if self.ended.is_none() {
            self.alive = true;
            self.see(now_ns);
        }
    }

    /// Whether it is known how long it took: not of a run that was cut off at some time after its last event.
    pub fn end_is_known(&self) -> bool {
        match &self.ended {
            Some(ended) => ended.how != RunOutcome::Recovered,
            None => self.alive,
        }
    }

    fn see(&mut self, time_ns: i64) {
        self.last_ns = self.last_ns.max(time_ns);
    }
}

fn put<T>(list: &mut Vec<Option<T>>, number: u32, end: usize, value: T) {
    let index = number as usize;
    if index >= end {
        return;
    }
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    list[index] = Some(value);
}

fn get<T>(list: &mut [Option<T>], number: u32) -> Option<&mut T> {
    list.get_mut(number as usize)?.as_mut()
}

/// Where the scripts of `needs env:` are.
const ENVIRONMENTS: &str = "/.rakuda/env/";

/// An older version has noted the script of `needs env:` in front of the user's own command, and no `env`.
fn take_script_off(started: &mut CommandStarted) {
    let Some([shell, script, own @ ..]) = started.words.as_deref() else { return };
    let name = script.to_display();
    let kind = name.rsplit_once('/').and_then(|(_, file)| file.split_once('-'));
    let Some((kind, _)) = kind.filter(|_| shell.0 == b"sh" && name.contains(ENVIRONMENTS)) else {
        return;
    };
    let env =
        CommandEnvironment { kind: kind.to_owned(), names: Vec::new(), script: script.clone() };
    match own {
        [first, words @ ..] if first.0 == b"--" => started.words = Some(words.to_vec()),
        [line] => {
            started.line = Some(line.clone());
            started.words = None;
        }
        _ => return,
    }
    started.env = Some(Box::new(env));
}
