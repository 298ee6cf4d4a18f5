//! The hub's loop: waits for the front, the agent, a signal or a deadline, lets `messages`, `outputs`
//! and `stopping` act, and writes: first the record, then what commands printed, then the front's messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rakuda_agent::inspector::Inspector;
use rakuda_agent::{Agent, AgentConfig, clock, processes};
pub(crate) use rakuda_cluster::LOCAL_NODE;
use rakuda_cluster::{Elsewhere, Node, NodeReport, report_channel};
use rakuda_core::files::FilePolicy;
use rakuda_core::{
    Effect, Event, GangId, Input, NodeId, NodeInput, Now, Output, ReachEffect, ReachInput,
    Requirement, Run, TaskId, Time,
};
use rakuda_locate::Located;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::frame::FrameError;
use rakuda_proto::front::{FrontMessage, HubMessage, ProgressMode, Settings, StopHow};
use rakuda_proto::journal::{FileIdentity, RunOutcome};
use rakuda_record::folder::FOLDER;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::HubError;
use crate::agents::{Agents, Reports};
use crate::attempts::{AttemptDetails, PendingCommand, RunningCommand};
use crate::choosing::Choosing;
use crate::control::{Control, Question, next_question};
use crate::failed_files::FailedFiles;
use crate::failures::Failures;
use crate::file_probes::FileProbes;
use crate::fresh_looks::FreshLooks;
use crate::front_link::FrontLink;
use crate::gangs::{GangTargets, Refusal};
use crate::group_losses::GroupLosses;
use crate::guard::{Ends, Guard};
use crate::information::{Heard, Information, next_heard};
use crate::inputs::Inputs;
use crate::names::Names;
use crate::newcomers::Newcomers;
use crate::notes::record_config;
use crate::plan;
use crate::printer::{OutputMode, Printer};
use crate::program_names::ProgramNames;
use crate::progress::Progress;
use crate::reach::{Reachability, RoundAnswer, mount_of};
use crate::record::{self, Record, Source, Turn, cannot_be_made};
use crate::rerun::Rerun;
use crate::screen::Screen;
use crate::settings::RunSettings;
use crate::sizes::Sizes;
use crate::staging::{Moved, Staging, next_moved};
use crate::stopping::stop_settings;
use crate::streams::{NotJoined, Streams, next_not_joined};
use crate::sync::SyncRounds;
use crate::times::Times;

/// How long messages to the front may wait for others.
const FLUSH_DELAY_NS: u64 = 2_000_000;
/// How often output is tried again whose reader does not read.
const OUTPUT_RETRY_NS: u64 = 20_000_000;
/// How often it is looked whether another process still looks after runs that were cut off.
const TURN_STEP: Duration = Duration::from_millis(20);
/// Nothing is said of that for so many steps.
const TURN_STEPS_QUIET: i32 = 25;
/// Reports that are taken before effects are let out: nodes may report without end.
const REPORTS_AT_ONCE: usize = 256;

/// How a hub's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// The front said goodbye.
    Goodbye,
    /// As `Goodbye`, but attempts did not end well whose targets may be written to by what they have left behind.
    Unsettled,
    /// The front said goodbye after the user had stopped the run: nothing of it may be left.
    Stopped,
    /// The front is gone, or this process was told to end; what ran was killed.
    CutOff,
}

/// What the loop waits for.
enum Arrival {
    /// SIGTERM.
    Terminate,
    /// Something is due.
    Deadline,
    /// Of a node or its agent.
    Report(NodeReport),
    /// There is something to read, or the link has failed.
    FrontReady(Result<(), HubError>),
    /// Its process is gone.
    FrontEnded,
    /// Files were brought somewhere, or not.
    Moved(Moved),
    /// Two hosts between which a stream leads could not be joined.
    NotJoined(NotJoined),
    /// The catalogue has answered.
    Located(Located),
    /// A round of questions about files in Gfarm is over.
    Reached(RoundAnswer),
    /// Digests that were waited for.
    Contents,
    /// This machine was sampled.
    Heard(Heard),
    /// A person has asked something.
    Asked(Question),
}

/// Everything that a run needs, in one thread; links to other hosts have their own.
pub(crate) struct Hub {
    /// When what is handled now came in, by both clocks: all that is decided and noted goes by that.
    pub now: Now,
    clock: Clock,
    pub settings: RunSettings,
    /// All that is decided: what happens goes in, what is to be done comes out.
    pub run: Run<AttemptDetails, PendingCommand>,
    pub names: Names,
    pub link: FrontLink,
    pub guard: Guard,
    /// The front's process; none: not known.
    pub front: Option<i32>,
    pub agents: Agents,
    pub printer: Printer,
    pub record: Record,
    /// File tasks whose facts have not been gathered yet.
    pub facts_wanted: Vec<TaskId>,
    /// In a dry run: targets that runs that were cut off have left half-written, and that are not settled now.
    pub cut_off_targets: BTreeSet<Vec<u8>>,
    /// Targets that runs that were cut off had left half-written, and that were settled when this
    /// run began: why they are made.
    pub remains_settled: BTreeSet<Vec<u8>>,
    /// What runs have left of targets under other names; nothing: it has not been looked for.
    pub failed_files: Option<FailedFiles>,
    /// Compares targets with earlier runs; nothing: the user has not asked for it.
    pub rerun: Option<Rerun>,
    /// In a dry run: tasks that the front is told to run all the same, since they invoke others themselves.
    pub own_way: BTreeSet<TaskId>,
    /// In a dry run: the numbers from which on tasks wait for all before them, as what the command
    /// line asks for comes in turns.
    pub plan_turns: Vec<u32>,
    /// What the core wants done, in order.
    pub outputs: VecDeque<Output>,
    /// Nodes that are lost, and of which nothing was said yet.
    pub group_losses: GroupLosses,
    /// Nodes that came while the run went on.
    pub newcomers: Newcomers,
    /// Tasks that are to be made again, as their files went with a node, and have neither begun nor been settled since.
    pub reopened: BTreeSet<TaskId>,
    pub commands: BTreeMap<CommandId, RunningCommand>,
    /// What the agents are to do once the record of it is written, in order; none: all agents.
    pub requests: Vec<(Option<NodeId>, AgentRequest)>,
    /// Cores of each requirement, and of each task its requirement.
    pub requirement_cores: Vec<u32>,
    /// Likewise, the nodes that it has at once and the slots on each, if the Rakefile says so.
    pub requirement_nodes: Vec<Option<(u32, u32)>>,
    /// Tasks of which it says so, and that are not known to be in a gang.
    pub wide_tasks: Vec<TaskId>,
    pub requirement_of: Vec<u32>,
    pub any_failed: bool,
    pub failures: Failures,
    /// Where inputs of tasks are.
    pub inputs: Inputs,
    /// How long tasks take, and when nodes end.
    pub times: Times,
    /// Nodes that tasks choose by what is known of them.
    pub choosing: Choosing,
    /// What is known of nodes.
    pub information: Information,
    /// Which files in Gfarm can be read.
    pub reach: Reachability,
    /// Decides which files go along with targets and commands.
    pub files: FilePolicy,
    /// Brings files to nodes; nothing: they share a file system.
    pub staging: Option<Staging>,
    /// What agents were asked about files.
    pub file_probes: FileProbes,
    pub progress: Progress,
    /// Commands that begin at one instant.
    pub sync: SyncRounds,
    /// Questions of people; none before something was recorded, or when it cannot be opened.
    pub control: Option<Control>,
    control_tried: bool,
    pub goodbye: bool,
    /// Of the machine's clock against the journal's, as was noted last.
    pub clock_steps: clock::StepWatch,
    /// The front ends because of an error.
    pub front_failed: bool,
    /// Messages to the front may wait until then, to go together.
    pub flush_due_ns: Option<u64>,
    /// Among the messages is one that may change what is to run.
    pub flush_urgent: bool,
    /// Output waits for its reader; it is tried again then.
    pub output_retry_ns: Option<u64>,
    /// The socket takes nothing any more. (Its end is not always to be read: a front that was
    /// killed with messages unread leaves an error behind instead.)
    pub front_gone: bool,
    /// Output cannot be shown any more.
    pub output_lost: bool,
    /// Environments that the front has given up.
    pub environments_below: Option<u32>,
    /// Exited commands that left something behind that may still write.
    pub left_over: BTreeMap<CommandId, Source>,
    /// The run's directory as it was at first.
    pub start_directory: PathBuf,
    /// The front has been told that a task needs more than there is.
    pub needs_refused: bool,
    /// Sizes of tasks that no node had so far.
    pub sizes: Sizes,
    /// Gangs whose tasks share cores when no more nodes can come.
    pub gangs_to_share: BTreeSet<GangId>,
    /// Gangs that wait for nodes which may still come, and what is said if none does.
    pub gangs_too_large: BTreeMap<GangId, Refusal>,
    /// Targets that tasks of gangs have made whose gangs have not ended.
    pub gang_targets: GangTargets,
    /// What streams join.
    pub streams: Streams,
    /// What was said of how memory is enforced: by watching, or not.
    pub memory_told: Vec<bool>,
    /// The front has said, under this number, that its actions wait for one another.
    pub front_stuck: Option<u32>,
    /// The target of this task was just looked at, after its action.
    pub just_seen: Option<(TaskId, Option<FileIdentity>)>,
    /// What targets were seen to be since an action has ended.
    pub fresh_looks: FreshLooks,
    /// Names by which commands are looked up in PATH.
    pub program_names: ProgramNames,
    /// The directory has changed: names in the record are made absolute.
    pub moved: bool,
    /// Reused by `tell`.
    effects: Vec<Effect<PendingCommand>>,
}

/// What both clocks show now.
pub type Clock = fn() -> Now;

/// Serves one front until it leaves, with one agent in this process.
pub async fn run(stream: StdUnixStream, guard: Guard) -> Result<RunEnding, HubError> {
    let front = rustix::net::sockopt::socket_peercred(&stream).ok();
    let front_group = front.and_then(|peer| rustix::process::getpgid(Some(peer.pid)).ok());
    let front_group = front_group.map(rustix::process::Pid::as_raw_nonzero).map(i32::from);
    run_with(stream, guard, |settings, events| local_node(settings, events, front_group)).await
}

/// The node that this process runs on.
fn local_node(
    settings: &RunSettings,
    events: UnboundedSender<AgentEvent>,
    front_group: Option<i32>,
) -> Result<Vec<Node>, HubError> {
    if !settings.on_terminal {
        // Without a terminal of their own, commands that ask for one fail instead of being stopped for ever.
        processes::leave_terminal();
    }
    // A command that may read the terminal must be in the front's process group, the foreground one.
    let join_group = settings.on_terminal.then_some(front_group).flatten();
    let config = AgentConfig {
        directory: settings.directory.clone(),
        stdin: settings.stdin,
        collect_output: settings.output != OutputMode::None,
        join_group,
    };
    let agent = Agent::new(config, events).map_err(HubError::SetUp)?;
    Ok(vec![Node {
        name: Text(rustix::system::uname().nodename().to_bytes().to_vec()),
        capacity: settings.capacity.clone(),
        port: Box::new(agent),
    }])
}

/// As [`run`], with the nodes that `nodes` makes; their agents report to the sender that it is given.
pub async fn run_with(
    stream: StdUnixStream,
    guard: Guard,
    nodes: impl FnOnce(&RunSettings, UnboundedSender<AgentEvent>) -> Result<Vec<Node>, HubError>,
) -> Result<RunEnding, HubError> {
    run_by_clock(read_clocks, stream, guard, nodes).await
}

/// As [`run_with`], where all that is decided goes by `clock`, which never goes back: for what depends on how long
/// something takes, on a machine that may be busy with something else.
pub async fn run_by_clock(
    clock: Clock,
    stream: StdUnixStream,
    guard: Guard,
    nodes: impl FnOnce(&RunSettings, UnboundedSender<AgentEvent>) -> Result<Vec<Node>, HubError>,
) -> Result<RunEnding, HubError> {
    stream.set_nonblocking(true).map_err(HubError::SetUp)?;
    let front = rustix::net::sockopt::socket_peercred(&stream).ok();
    let front = front.map(|peer| i32::from(peer.pid.as_raw_nonzero()));
    let mut link = FrontLink::new(UnixStream::from_std(stream).map_err(HubError::SetUp)?);
    let mut ends = guard.ends().map_err(HubError::SetUp)?;
    let mut messages = Vec::new();
    let Some(settings) = greet(&mut link, &mut messages).await? else {
        return Ok(RunEnding::CutOff);
    };
    let settings = match RunSettings::new(*settings) {
        Ok(settings) => settings,
        Err(reason) => {
            refuse(&mut link, reason);
            return Ok(RunEnding::Goodbye);
        }
    };
    if settings.record
        && let Some(folder) = settings.log_dir.as_ref()
        && let Some(error) = cannot_be_made(&settings.directory.join(folder))
    {
        let reason =
            format!("cannot write into {}, the folder for logs: {error}", folder.display());
        link.push(&HubMessage::Refused { reason: Text::from(reason) });
        link.flush();
        return Ok(RunEnding::Goodbye);
    }
    let mut turn = None;
    if settings.record {
        match await_turn(&settings, &mut link, &mut messages, &mut ends).await? {
            Waited::Ended => return Ok(RunEnding::CutOff),
            Waited::Stopped => {}
            Waited::Over(own) => turn = Some(own),
        }
    }
    // Relative names then mean here what they mean in the Rakefile.
    std::env::set_current_dir(&settings.directory).map_err(HubError::SetUp)?;
    rakuda_agent::operations::enter(&settings.directory);
    guard.tell_directory(&settings.directory);
    let (sender, local) = unbounded_channel();
    let (remote_sender, remote) = report_channel();
    let (answer_sender, answers) = unbounded_channel();
    let inspector = Inspector::new(answer_sender).map_err(HubError::SetUp)?;
    let mut reports = Reports { local, answers, remote };
    let mut nodes = nodes(&settings, sender)?;
    let elsewhere = match settings.cluster_config() {
        Some(config) => rakuda_cluster::start(config, remote_sender)?,
        None => Elsewhere::default(),
    };
    nodes.extend(elsewhere.nodes);
    let mut agents = Agents::new(nodes);
    if let Some(source) = elsewhere.source {
        agents.set_source(source);
    }
    let mut hub = Hub::new(settings, link, agents, inspector);
    (hub.guard, hub.front, hub.clock) = (guard, front, clock);
    hub.tick();
    hub.welcome(turn);
    for message in messages.drain(..) {
        hub.tick();
        hub.on_message(message)?;
    }
    hub.serve(&mut messages, &mut reports, &mut ends).await
}

/// How waiting for one's turn to look after runs that were cut off has come to its end.
enum Waited {
    /// It is one's turn.
    Over(Turn),
    /// The user wants the run to end: it may tell its end, and must start nothing.
    Stopped,
    /// The front is gone, or this process is to end.
    Ended,
}

/// Waits while another process looks after runs that were cut off: nothing may be decided before.
async fn await_turn(
    settings: &RunSettings,
    link: &mut FrontLink,
    messages: &mut Vec<FrontMessage>,
    ends: &mut Ends,
) -> Result<Waited, HubError> {
    // The guards of a run that was just killed need less than that.
    let mut steps = 0;
    loop {
        if let Some(turn) = record::take_turn(&settings.directory) {
            return Ok(Waited::Over(turn));
        }
        steps += 1;
        if steps == TURN_STEPS_QUIET {
            let lock = settings.directory.join(FOLDER).join("recovery.lock");
            let text = format!(
                "rakuda: another process looks after a run that was cut off here, and is waited for (it has {} locked, or ends what is left)",
                lock.display()
            );
            link.push(&HubMessage::Warning { text: Text::from(text) });
            link.flush();
        }
        tokio::select! {
            () = ends.come() => return Ok(Waited::Ended),
            () = tokio::time::sleep(TURN_STEP) => {}
            ready = link.ready() => {
                ready?;
                let is_open = link.receive(messages)?;
                if let Some(place) = messages.iter().position(|message| matches!(message, FrontMessage::Stop { .. })) {
                    // Before what it is to keep from starting.
                    let stop = messages.remove(place);
                    messages.insert(0, stop);
                    return Ok(Waited::Stopped);
                }
                if !is_open {
                    return Ok(Waited::Ended);
                }
            }
        }
    }
}

/// Answers `Hello` with a no.
fn refuse(link: &mut FrontLink, reason: String) {
    link.push(&HubMessage::Refused { reason: Text::from(reason) });
    link.flush();
}

/// Waits for `Hello`; `None`: the front left before it, or was refused.
async fn greet(
    link: &mut FrontLink,
    messages: &mut Vec<FrontMessage>,
) -> Result<Option<Box<Settings>>, HubError> {
    while messages.is_empty() {
        link.ready().await?;
        match link.receive(messages) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(HubError::Frame(FrameError::Malformed { source, .. })) if messages.is_empty() => {
                refuse(
                    link,
                    format!(
                        "{source}; the engine does not fit the front: install both from one release"
                    ),
                );
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let rest = messages.split_off(1);
    match std::mem::replace(messages, rest).pop() {
        Some(FrontMessage::Hello(version, settings)) => {
            let own = env!("CARGO_PKG_VERSION");
            if version == own {
                return Ok(Some(settings));
            }
            let versions = format!("the engine is version {own}, the front version {version}");
            refuse(link, format!("{versions}: install both from one release"));
            Ok(None)
        }
        _ => Err(HubError::Protocol("expected Hello first")),
    }
}

impl Hub {
    pub(crate) fn new(
        settings: RunSettings,
        link: FrontLink,
        agents: Agents,
        inspector: Inspector,
    ) -> Self {
        let now = read_clocks();
        let record = Record::new(record_config(&settings, now));
        let mut printer = Printer::new(settings.output);
        printer.set_ci(settings.ci);
        if settings.progress == ProgressMode::Live {
            printer.set_screen(Screen::new());
        }
        let reach = Reachability::new(mount_of(&settings.directory, settings.cluster.is_some()));
        Self {
            now,
            clock: read_clocks,
            run: Run::new(settings.config.clone(), reach.has_servers(), stop_settings(&settings)),
            requirement_cores: vec![1],
            requirement_nodes: vec![None],
            wide_tasks: Vec::new(),
            requirement_of: Vec::new(),
            names: Names::default(),
            link,
            guard: Guard::default(),
            front: None,
            agents,
            printer,
            record,
            facts_wanted: Vec::new(),
            cut_off_targets: BTreeSet::new(),
            remains_settled: BTreeSet::new(),
            failed_files: None,
            own_way: BTreeSet::new(),
            plan_turns: Vec::new(),
            rerun: settings.rerun.is_on().then(|| Rerun::new(&settings)),
            outputs: VecDeque::new(),
            group_losses: GroupLosses::default(),
            newcomers: Newcomers::default(),
            reopened: BTreeSet::new(),
            commands: BTreeMap::new(),
            requests: Vec::new(),
            any_failed: false,
            failures: Failures::default(),
            inputs: Inputs::default(),
            times: Times::new(&settings, now.time),
            choosing: Choosing::default(),
            information: Information::default(),
            reach,
            files: file_policy(&settings),
            staging: staging_of(&settings),
            file_probes: FileProbes::new(inspector),
            progress: Progress::new(settings.progress),
            sync: SyncRounds::default(),
            control: None,
            control_tried: false,
            goodbye: false,
            clock_steps: clock::StepWatch::default(),
            front_failed: false,
            flush_due_ns: None,
            flush_urgent: false,
            output_retry_ns: None,
            front_gone: false,
            output_lost: false,
            environments_below: None,
            left_over: BTreeMap::new(),
            needs_refused: false,
            sizes: Sizes::default(),
            gangs_to_share: BTreeSet::new(),
            gangs_too_large: BTreeMap::new(),
            gang_targets: GangTargets::default(),
            streams: Streams::default(),
            memory_told: Vec::new(),
            front_stuck: None,
            moved: false,
            start_directory: settings.directory.clone(),
            just_seen: None,
            fresh_looks: FreshLooks::default(),
            program_names: ProgramNames::default(),
            effects: Vec::new(),
            settings,
        }
    }

    fn welcome(&mut self, turn: Option<Turn>) {
        self.tell_known_nodes();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let jobs = self.settings.capacity.cores;
        self.link.push(&HubMessage::Welcome(version, self.record.run().to_owned(), jobs));
        if let Some(asked) = self.settings.cores_given_up {
            self.warn(&format!(
                "{jobs} commands at once instead of {asked}: this process may not open more files (ulimit -Hn)"
            ));
        }
        if self.settings.record
            && let Some(turn) = turn
        {
            (self.remains_settled, _) =
                plan::targets_cut_off(&self.settings.directory, self.now.wall_ns());
            for line in record::recover_in_turn(&self.settings.directory, turn, self.now.wall_ns())
            {
                self.warn(&line);
            }
            self.record.reload_unfinished();
        }
        if self.settings.config.dry_run {
            let (targets, doubts) =
                plan::targets_cut_off(&self.settings.directory, self.now.wall_ns());
            self.cut_off_targets = targets;
            self.record.add_doubts(doubts);
        }
        self.add_requirement(Requirement::default());
        for (id, capacity) in self.capacities() {
            self.event(Event::NodeJoined { id, capacity, files_kept: false });
            self.tell_node_end(id);
        }
        self.note_node(LOCAL_NODE);
        self.open_catalogue();
    }

    /// Tells the run what happened, and does what follows; what the scheduler wants waits in `outputs`.
    pub(crate) fn tell(&mut self, input: Input<'_, PendingCommand>) {
        match &input {
            Input::Event(Event::NodeJoined { id, .. })
            | Input::NodeLost { id }
            | Input::Node { id, input: NodeInput::LetGo } => self.choosing.touch(*id),
            Input::Event(Event::ActionEnded { id, .. }) => self.choosing.on_ended(*id),
            // Its cores are for others meanwhile.
            Input::Event(Event::InvocationStarted { caller: Some(_), .. }) => {
                self.choosing.on_called();
                self.touch_all();
            }
            _ => {}
        }
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let mut effects = std::mem::take(&mut self.effects);
            self.run.handle(self.now, input, &self.inputs, &mut effects);
            for effect in effects.drain(..) {
                if matches!(effect, Effect::Reach(ReachEffect::Continue)) {
                    next = Some(Input::Reach(ReachInput::Continued));
                } else {
                    self.perform_effect(effect);
                }
            }
            self.effects = effects;
        }
    }

    /// The same of an event of the scheduler.
    pub(crate) fn event(&mut self, event: Event<'_>) {
        self.tell(Input::Event(event));
    }

    fn perform_effect(&mut self, effect: Effect<PendingCommand>) {
        match effect {
            Effect::Output(output) => self.outputs.push_back(output),
            Effect::Attempt(effect) => self.perform_for_attempt(effect),
            Effect::Reach(effect) => self.perform_for_reach(effect),
            Effect::Stop(effect) => self.perform_for_stop(effect),
            Effect::Node(effect) => self.perform_for_node(effect),
            Effect::StartHeld { id, start } => self.note_claim(id, start.node),
            // The first is told when it comes.
            Effect::EndHeld { .. } | Effect::LookaheadSet { .. } => {}
            Effect::FailureLost { id } => {
                self.on_unwound(id);
            }
            // Of an action that has ended, a thread goes on.
            Effect::StartUnowned { id, command } => self.start_command(Some(id), command),
            Effect::DropUnowned { command, .. } => self.end_stopped(command.command),
        }
    }

    /// Does what `what` wants done, as if it had come of an input.
    pub(crate) fn perform_effects(&mut self, what: Vec<Effect<PendingCommand>>) {
        for effect in what {
            self.perform_effect(effect);
        }
    }

    async fn serve(
        &mut self,
        messages: &mut Vec<FrontMessage>,
        reports: &mut Reports,
        ends: &mut Ends,
    ) -> Result<RunEnding, HubError> {
        loop {
            self.drain();
            // A round that is over is noted when clocks are known after it, which takes a moment.
            if self.goodbye && !self.sync.is_closing() {
                self.hide_progress();
                // Commands that nobody waits for any more must not outlive the run.
                let stopped = self.end_run(reports).await;
                self.tick();
                if self.front_failed {
                    self.print_summary();
                } else if !stopped && !self.any_failed && !self.output_lost {
                    self.print_farewell();
                }
                self.printer.flush_patiently().await;
                self.close_agents(stopped).await;
                let how = match self.any_failed {
                    _ if stopped => RunOutcome::Stopped,
                    true => RunOutcome::Failed,
                    false => RunOutcome::Done,
                };
                if let Err(error) = self.note_end(how) {
                    self.warn(&format!("failed to {error}"));
                    self.link.flush();
                }
                return Ok(if stopped { RunEnding::Stopped } else { self.ending() });
            }
            if self.front_gone && !self.goodbye {
                return Ok(self.cut_off(reports).await);
            }
            let behind = self.output_retry_ns.is_some();
            let wait = self.next_deadline_ns().map(|deadline_ns| self.until(deadline_ns));
            let arrival = tokio::select! {
                // In this order: reports may come without end, and the first two are rare.
                biased;
                () = ends.come() => Arrival::Terminate,
                () = sleep(wait) => Arrival::Deadline,
                report = reports.recv(), if !behind => Arrival::Report(report),
                ready = self.link.ready() => Arrival::FrontReady(ready),
                // Its end of the link may be held by a process that it has forked.
                _ = self.guard.front_ended(), if !self.guard.has_told() => Arrival::FrontEnded,
                moved = next_moved(&mut self.staging) => Arrival::Moved(moved),
                told = next_not_joined(&mut self.streams) => Arrival::NotJoined(told),
                located = self.inputs.located() => Arrival::Located(located),
                reached = self.reach.answered() => Arrival::Reached(reached),
                () = some_content(self.rerun.as_ref()) => Arrival::Contents,
                heard = next_heard(&mut self.information) => Arrival::Heard(heard),
                question = next_question(&mut self.control) => Arrival::Asked(question),
            };
            self.tick();
            match arrival {
                Arrival::Terminate => {
                    self.note_stop("terminate");
                    return Ok(self.cut_off(reports).await);
                }
                Arrival::Deadline => self.on_deadline(),
                Arrival::Report(report) => self.on_report(report),
                Arrival::FrontReady(ready) => {
                    ready?;
                    let open = self.hear_front(messages)?;
                    if !open && !self.goodbye {
                        return Ok(if self.is_replaced() {
                            self.replaced(reports, ends).await
                        } else {
                            self.cut_off(reports).await
                        });
                    }
                }
                Arrival::FrontEnded => {
                    // What it has said before.
                    self.hear_front(messages)?;
                    self.front_gone |= !self.goodbye;
                }
                Arrival::Moved(moved) => self.on_moved(moved),
                Arrival::NotJoined(told) => self.on_not_joined(told),
                Arrival::Located(located) => self.on_located(located),
                Arrival::Reached(reached) => self.on_reached(reached),
                Arrival::Contents => self.on_contents(),
                Arrival::Heard(heard) => self.on_heard(heard),
                Arrival::Asked((question, answer)) => {
                    // Who has asked may be gone again.
                    let _ = answer.send(self.answer(&question));
                }
            }
            let at_once = if behind { 0 } else { REPORTS_AT_ONCE };
            for _ in 0..at_once {
                let Some(report) = reports.try_recv() else { break };
                // What is wanted is done before the next report: it may be about just that.
                self.perform_all();
                self.tick();
                self.on_report(report);
            }
            // What follows from it is decided and noted now, however long that took.
            self.tick();
        }
    }

    /// When something is due next.
    fn next_deadline_ns(&self) -> Option<u64> {
        let behind = self.output_retry_ns.is_some();
        let deadlines = [
            self.inputs.due_ns(),
            self.group_losses.due_ns(),
            self.newcomers.due_ns(),
            self.run.due_ns(),
            self.sync.due_ns(),
            self.flush_due_ns,
            self.output_retry_ns,
            self.progress_due_ns().filter(|_| !behind),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Reads the clocks. The loop alone does: what it hands on is decided and noted as of that moment.
    pub(crate) fn tick(&mut self) {
        self.now = (self.clock)();
    }

    pub(crate) fn until(&self, deadline_ns: u64) -> Duration {
        Duration::from_nanos(deadline_ns.saturating_sub(self.now.time.0))
    }

    /// Handles what the front has sent; whether it may send more.
    fn hear_front(&mut self, messages: &mut Vec<FrontMessage>) -> Result<bool, HubError> {
        let open = self.link.receive(messages)?;
        for message in messages.drain(..) {
            self.perform_all();
            self.tick();
            self.on_message(message)?;
        }
        Ok(open)
    }

    /// How a run has ended that nobody has stopped.
    pub(crate) fn ending(&self) -> RunEnding {
        if self.record.is_unsettled() { RunEnding::Unsettled } else { RunEnding::Goodbye }
    }

    /// Does all that the core wants, then lets the effects out: record, output, messages.
    fn drain(&mut self) {
        loop {
            self.perform_all();
            if !self.grant_leases() && !self.tell_suiting() {
                self.check_time_left();
                if self.outputs.is_empty() {
                    break;
                }
            }
        }
        self.check_rounds();
        self.write_record();
        self.pass_requests_on();
        self.forget_environments();
        self.open_control();
        self.write_invitation();
        self.tell_nothing_left();
        let held = self.inputs.held.as_ref();
        let needs_nodes = held.is_some_and(|held| held.needs_nodes);
        if self.run.nodes().is_expecting() && (self.run.scheduler().queued() > 0 || needs_nodes) {
            self.agents.want_nodes();
        }
        self.show_progress();
        match self.printer.flush() {
            Ok(true) => self.set_output_behind(false),
            // What an action is told must not overtake what its command wrote.
            Ok(false) => return self.set_output_behind(true),
            Err(error) => self.on_output_lost(error),
        }
        self.flush_link();
    }

    pub(crate) fn write_record(&mut self) {
        self.note_clock();
        if let Err(error) = self.record.flush() {
            self.record.disable(self.now.wall_ns());
            self.warn(&format!(
                "failed to {error}; going on without a record: if this run is cut off, what it makes from now on is made again"
            ));
        }
        for run in self.record.take_other_runs() {
            self.warn(&format!(
                "another run ({run}) is going on in this folder; targets that both make are not safe"
            ));
        }
    }

    /// Lets the agents do what is noted in the record.
    fn pass_requests_on(&mut self) {
        for (node, request) in self.requests.drain(..) {
            match node {
                Some(node) => self.agents.handle(node, request),
                None => self.agents.handle_all(&request),
            }
        }
    }

    /// The run is in the record: it may be asked about. Without a socket it is not, and runs all the same.
    fn open_control(&mut self) {
        if !self.control_tried && self.record.folder_if_open().is_some() {
            self.control_tried = true;
            self.control = Control::open(&self.record.running_folder(), self.record.run()).ok();
        }
    }

    /// Whoever reads our stdout or stderr does not read fast enough: commands are not read either,
    /// so that nothing piles up, and the front hears of nothing until it does.
    fn set_output_behind(&mut self, behind: bool) {
        if behind != self.output_retry_ns.is_some() {
            self.agents.pause_output(behind);
        }
        self.output_retry_ns = behind.then(|| self.now.time.0 + OUTPUT_RETRY_NS);
    }

    /// The reader is gone or the disk is full: as with rake, the run ends.
    fn on_output_lost(&mut self, error: rustix::io::Errno) {
        self.printer.discard();
        self.set_output_behind(false);
        if !std::mem::replace(&mut self.output_lost, true) {
            let reason = Text::from(std::io::Error::from(error).to_string());
            self.link.push(&HubMessage::OutputLost { reason });
            self.any_failed = true;
            self.stop(StopHow::Interrupt);
            self.perform_all();
            self.write_record();
            self.pass_requests_on();
        }
    }

    /// Environments that the front has given up, once no command that waits needs one of them.
    fn forget_environments(&mut self) {
        let Some(below) = self.environments_below else { return };
        let needs = |pending: &PendingCommand| {
            pending.options.as_ref().is_some_and(|options| options.environment < below)
        };
        if !self.run.attempts().all().flat_map(|(_, attempt)| attempt.gated()).any(needs) {
            self.agents.forget_environments(below);
            self.environments_below = None;
        }
    }

    /// Sends what the front is to know; while every node has enough to go on with, not at once, so
    /// that the front wakes up seldom and handles many messages each time.
    fn flush_link(&mut self) {
        if !self.link.has_messages() || self.goodbye {
            self.flush_due_ns = None;
        } else if !self.flush_urgent && self.is_well_supplied() {
            let now_ns = self.now.time.0;
            let due_ns = *self.flush_due_ns.get_or_insert(now_ns + FLUSH_DELAY_NS);
            if now_ns < due_ns {
                return;
            }
        }
        self.flush_due_ns = None;
        self.flush_urgent = false;
        self.front_gone |= !self.link.flush();
    }

    /// Whether every node that takes tasks has enough to go on with.
    fn is_well_supplied(&self) -> bool {
        let up = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id));
        up.into_iter().all(|(id, _)| self.run.attempts().is_well_supplied(id))
    }

    /// Has the front show a line on stderr.
    pub(crate) fn warn(&mut self, text: &str) {
        self.link.push(&HubMessage::Warning { text: Text::from(format!("rakuda: {text}")) });
    }
}

/// The only place of the hub that reads clocks.
pub(crate) fn read_clocks() -> Now {
    let now = clock::Reading::now();
    let time_ns = clock::journal_clock().at(now.monotonic_ns);
    let time = Time(u64::try_from(time_ns).unwrap_or(0));
    Now { time, wall: i128::from(now.wall_ns).into() }
}

fn file_policy(settings: &RunSettings) -> FilePolicy {
    let staging = settings.cluster.as_ref().and_then(|cluster| cluster.staging.as_ref());
    let guesses = staging.is_none_or(|staging| staging.guess_files);
    FilePolicy::new(settings.directory.as_os_str().as_encoded_bytes(), guesses)
}

fn staging_of(settings: &RunSettings) -> Option<Staging> {
    let wanted = settings.cluster.as_ref()?.staging.clone()?;
    let root = settings.record.then(|| settings.directory.join(FOLDER));
    Some(Staging::new(wanted, root.as_deref()))
}

/// Waits until what waits for contents may go on; for ever when nothing does.
async fn some_content(rerun: Option<&Rerun>) {
    match rerun.filter(|rerun| rerun.is_waiting()) {
        Some(rerun) => rerun.some_content().await,
        None => std::future::pending().await,
    }
}

/// For ever without a time.
pub(crate) async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
