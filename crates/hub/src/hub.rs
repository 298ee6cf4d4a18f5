//! The hub's loop: waits for the front, the agent, a signal or a deadline, lets `messages`, `outputs`
//! and `stopping` act, and writes: first the record, then what commands printed, then the front's messages.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rakuda_agent::{Agent, AgentConfig, clock};
use rakuda_core::{
    Event, InvocationId, NodeId, Output, Requirement, RequirementId, Scheduler, TaskId, Time,
};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::{CommandOptions, FrontMessage, HubMessage, Program, Settings, StopHow};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::HubError;
use crate::agents::{Agents, Node};
use crate::facts::FileIdentity;
use crate::front_link::FrontLink;
use crate::leases::Leases;
use crate::names::Names;
use crate::printer::{OutputMode, Printer};
use crate::record::{self, Record};
use crate::settings::RunSettings;
use crate::stopping::Stopping;

/// The hub's own node: where commands run that no action asked for.
pub const LOCAL_NODE: NodeId = NodeId(0);

/// How long messages to the front may wait for others.
const FLUSH_DELAY_NS: u64 = 2_000_000;
/// How often output is tried again whose reader does not read.
const OUTPUT_RETRY_NS: u64 = 20_000_000;

/// How a hub's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// The front said goodbye.
    Goodbye,
    /// The front said goodbye after the user had stopped the run: nothing of it may be left.
    Stopped,
    /// The front is gone, or this process was told to end; what ran was killed.
    CutOff,
}

/// An attempt whose action runs.
#[derive(Debug)]
pub(crate) struct RunningAttempt {
    /// Where it runs.
    pub node: NodeId,
    /// Where its target is, absolute: the Rakefile may move before it ends. Empty: it has none.
    pub target: PathBuf,
    /// Its target before it began; `None`: no target, or it was missing.
    pub before: Option<FileIdentity>,
    /// Its commands that run.
    pub commands: u32,
    /// Commands that wait for its lease.
    pub held_back: Vec<PendingCommand>,
    /// Its own code waits for a lease.
    pub lease_wanted: bool,
    /// It is among those that wait for a lease.
    pub in_line: bool,
    /// It has had a lease before.
    pub had_lease: bool,
    /// Invocations that it waits for; it has given up its cores meanwhile.
    pub suspended: u32,
    /// It was begun early, and is to be run again later: something failed.
    pub given_back: bool,
    /// The front is to be told to abort it when no command of it runs any more.
    pub abort_pending: bool,
}

/// A command that has not been started.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    pub command: CommandId,
    pub program: Program,
    pub options: Option<Box<CommandOptions>>,
    /// Shown on stderr when it starts.
    pub echo: Option<Text>,
}

/// A command that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningCommand {
    /// Whose action asked for it.
    pub task: Option<TaskId>,
    /// Where it runs.
    pub node: NodeId,
}

/// Everything that a run needs, in one thread.
pub(crate) struct Hub {
    pub settings: RunSettings,
    pub scheduler: Scheduler,
    pub names: Names,
    pub link: FrontLink,
    pub agents: Agents,
    pub printer: Printer,
    pub record: Record,
    /// File tasks whose facts have not been gathered yet.
    pub facts_wanted: Vec<TaskId>,
    /// What the core wants done, in order.
    pub outputs: VecDeque<Output>,
    pub running: BTreeMap<TaskId, RunningAttempt>,
    pub commands: BTreeMap<CommandId, RunningCommand>,
    /// By node.
    pub leases: Vec<Leases>,
    /// Cores of each requirement, and of each task its requirement.
    pub requirement_cores: Vec<u32>,
    pub requirement_of: Vec<u32>,
    /// Which running task waits for which invocation.
    pub callers: BTreeMap<InvocationId, TaskId>,
    pub stopping: Stopping,
    pub any_failed: bool,
    pub goodbye: bool,
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
    pub left_over: BTreeMap<CommandId, Option<TaskId>>,
    /// The directory has changed: names in the record are made absolute.
    pub moved: bool,
    /// Reused by calls of the core.
    scratch: Vec<Output>,
}

/// Serves one front until it leaves, with one agent in this process. `on_directory` is told the
/// run's directory.
pub async fn run(
    stream: StdUnixStream,
    on_directory: impl FnOnce(&std::path::Path),
) -> Result<RunEnding, HubError> {
    let front = rustix::net::sockopt::socket_peercred(&stream).ok();
    let front_group = front.and_then(|peer| rustix::process::getpgid(Some(peer.pid)).ok());
    let front_group = front_group.map(rustix::process::Pid::as_raw_nonzero).map(i32::from);
    run_with(stream, on_directory, |settings, events| local_node(settings, events, front_group))
        .await
}

/// The node that this process runs on.
fn local_node(
    settings: &RunSettings,
    events: UnboundedSender<AgentEvent>,
    front_group: Option<i32>,
) -> Result<Vec<Node>, HubError> {
    if !settings.on_terminal {
        // Without a terminal of their own, commands that ask for one fail instead of being stopped for ever.
        let _ = rustix::process::setsid();
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
    on_directory: impl FnOnce(&std::path::Path),
    nodes: impl FnOnce(&RunSettings, UnboundedSender<AgentEvent>) -> Result<Vec<Node>, HubError>,
) -> Result<RunEnding, HubError> {
    stream.set_nonblocking(true).map_err(HubError::SetUp)?;
    let mut link = FrontLink::new(UnixStream::from_std(stream).map_err(HubError::SetUp)?);
    let mut terminate = signal(SignalKind::terminate()).map_err(HubError::SetUp)?;
    let mut messages = Vec::new();
    let Some(settings) = greet(&mut link, &mut messages).await? else {
        return Ok(RunEnding::CutOff);
    };
    let settings = match RunSettings::new(*settings) {
        Ok(settings) => settings,
        Err(reason) => {
            link.push(&HubMessage::Refused { reason: Text::from(reason) });
            link.flush();
            return Ok(RunEnding::Goodbye);
        }
    };
    // Relative names then mean here what they mean in the Rakefile.
    std::env::set_current_dir(&settings.directory).map_err(HubError::SetUp)?;
    on_directory(&settings.directory);
    let (sender, mut agent_events) = unbounded_channel();
    let agents = Agents::new(nodes(&settings, sender)?);
    let mut hub = Hub::new(settings, link, agents);
    hub.welcome();
    for message in messages.drain(..) {
        hub.on_message(message)?;
    }
    hub.serve(&mut messages, &mut agent_events, &mut terminate).await
}

/// Waits for `Hello`; `None`: the front left before it.
async fn greet(
    link: &mut FrontLink,
    messages: &mut Vec<FrontMessage>,
) -> Result<Option<Box<Settings>>, HubError> {
    while messages.is_empty() {
        link.ready().await?;
        if !link.receive(messages)? {
            return Ok(None);
        }
    }
    let rest = messages.split_off(1);
    match std::mem::replace(messages, rest).pop() {
        Some(FrontMessage::Hello(version, settings)) => {
            let own = env!("CARGO_PKG_VERSION");
            if version == own {
                return Ok(Some(settings));
            }
            let reason = format!(
                "the engine is version {own}, the front version {version}: install both from one release"
            );
            link.push(&HubMessage::Refused { reason: Text::from(reason) });
            link.flush();
            Ok(None)
        }
        _ => Err(HubError::Protocol("expected Hello first")),
    }
}

impl Hub {
    fn new(settings: RunSettings, link: FrontLink, agents: Agents) -> Self {
        let record = Record::new(
            &settings.directory,
            settings.log_dir.as_deref(),
            settings.record,
            settings.command_line.clone(),
            settings.failed_target,
        );
        let capacities = agents.capacities();
        Self {
            leases: capacities.iter().map(|(_, capacity)| Leases::new(capacity.cores)).collect(),
            requirement_cores: vec![1],
            requirement_of: Vec::new(),
            callers: BTreeMap::new(),
            scheduler: Scheduler::new(settings.config.clone()),
            names: Names::default(),
            link,
            agents,
            printer: Printer::new(settings.output),
            record,
            facts_wanted: Vec::new(),
            outputs: VecDeque::new(),
            running: BTreeMap::new(),
            commands: BTreeMap::new(),
            stopping: Stopping::new(settings.grace_ms),
            any_failed: false,
            goodbye: false,
            flush_due_ns: None,
            flush_urgent: false,
            output_retry_ns: None,
            front_gone: false,
            output_lost: false,
            environments_below: None,
            left_over: BTreeMap::new(),
            moved: false,
            scratch: Vec::new(),
            settings,
        }
    }

    fn welcome(&mut self) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let jobs = self.settings.capacity.cores;
        self.link.push(&HubMessage::Welcome(version, self.record.run().to_owned(), jobs));
        if self.settings.record {
            for line in record::recover(&self.settings.directory) {
                self.warn(&line);
            }
            self.record.reload_unfinished();
        }
        let requirement = Requirement::default();
        self.event(Event::RequirementDefined { id: RequirementId(0), requirement });
        for (id, capacity) in self.agents.capacities() {
            self.event(Event::NodeJoined { id, capacity });
        }
    }

    /// Tells the core; what it wants done waits in `outputs`.
    pub(crate) fn event(&mut self, event: Event<'_>) {
        let now = Time(u64::try_from(clock::wall_ns()).unwrap_or(0));
        self.scheduler.handle(now, event, &mut self.scratch);
        self.outputs.extend(self.scratch.drain(..));
    }

    async fn serve(
        &mut self,
        messages: &mut Vec<FrontMessage>,
        agent_events: &mut UnboundedReceiver<AgentEvent>,
        terminate: &mut Signal,
    ) -> Result<RunEnding, HubError> {
        loop {
            self.settle();
            if self.goodbye {
                // Commands that nobody waits for any more must not outlive the run.
                let stopped = self.end_run(agent_events).await;
                let how = if self.any_failed { "failed" } else { "done" };
                if let Err(error) = self.record.finish(how) {
                    self.warn(&format!("failed to {error}"));
                    self.link.flush();
                }
                return Ok(if stopped { RunEnding::Stopped } else { RunEnding::Goodbye });
            }
            if self.front_gone {
                return Ok(self.cut_off(agent_events).await);
            }
            let behind = self.output_retry_ns.is_some();
            let deadlines =
                [self.stopping.next_deadline_ns(), self.flush_due_ns, self.output_retry_ns];
            let deadline = deadlines.into_iter().flatten().min();
            tokio::select! {
                biased;
                event = agent_events.recv(), if !behind => {
                    self.on_agent_event(event.expect("the agent keeps a sender"));
                }
                ready = self.link.ready() => {
                    ready?;
                    let open = self.link.receive(messages)?;
                    for message in messages.drain(..) {
                        self.on_message(message)?;
                    }
                    if !open && !self.goodbye {
                        return Ok(self.cut_off(agent_events).await);
                    }
                }
                _ = terminate.recv() => return Ok(self.cut_off(agent_events).await),
                () = sleep_until(deadline), if deadline.is_some() => self.on_deadline(),
            }
            while !behind && let Ok(event) = agent_events.try_recv() {
                self.on_agent_event(event);
            }
        }
    }

    /// Does all that the core wants, then lets the effects out: record, output, messages.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.outputs.pop_front() {
                self.perform(output);
            }
            if !self.grant_leases() {
                break;
            }
        }
        self.forget_environments();
        if let Err(error) = self.record.flush() {
            self.record.disable();
            self.warn(&format!(
                "failed to {error}; going on without a record: what is cut off will not be noticed"
            ));
        }
        match self.printer.flush() {
            Ok(true) => self.set_output_behind(false),
            // What an action is told must not overtake what its command wrote.
            Ok(false) => return self.set_output_behind(true),
            Err(error) => self.on_output_lost(error),
        }
        self.flush_link();
    }

    /// Whoever reads our stdout or stderr does not read fast enough: commands are not read either,
    /// so that nothing piles up, and the front hears of nothing until it does.
    fn set_output_behind(&mut self, behind: bool) {
        if behind != self.output_retry_ns.is_some() {
            self.agents.pause_output(behind);
        }
        self.output_retry_ns = behind.then(|| clock::monotonic_ns() + OUTPUT_RETRY_NS);
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
            while let Some(output) = self.outputs.pop_front() {
                self.perform(output);
            }
        }
    }

    /// Environments that the front has given up, once no command that waits needs one of them.
    fn forget_environments(&mut self) {
        let Some(below) = self.environments_below else { return };
        let needs = |pending: &PendingCommand| {
            pending.options.as_ref().is_some_and(|options| options.environment < below)
        };
        if !self.running.values().flat_map(|attempt| &attempt.held_back).any(needs) {
            self.agents.handle_all(&AgentRequest::ForgetEnvironments { below });
            self.environments_below = None;
        }
    }

    /// Sends what the front is to know; while every node has enough to go on with, not at once, so
    /// that the front wakes up seldom and handles many messages each time.
    fn flush_link(&mut self) {
        if !self.link.has_messages() || self.goodbye {
            self.flush_due_ns = None;
        } else if !self.flush_urgent && self.leases.iter().all(Leases::is_well_supplied) {
            let now_ns = clock::monotonic_ns();
            let due_ns = *self.flush_due_ns.get_or_insert(now_ns + FLUSH_DELAY_NS);
            if now_ns < due_ns {
                return;
            }
        }
        self.flush_due_ns = None;
        self.flush_urgent = false;
        self.front_gone |= !self.link.flush();
    }

    /// Has the front show a line on stderr.
    pub(crate) fn warn(&mut self, text: &str) {
        self.link.push(&HubMessage::Warning { text: Text::from(format!("rakuda: {text}")) });
    }
}

async fn sleep_until(deadline_ns: Option<u64>) {
    let now = clock::monotonic_ns();
    let wait = deadline_ns.unwrap_or(now).saturating_sub(now);
    tokio::time::sleep(Duration::from_nanos(wait)).await;
}
