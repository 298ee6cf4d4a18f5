//! How a hub comes to serve a front: the greeting, the turn of this process to look after runs that were cut off, the
//! nodes, and the first messages to the front.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use rakuda_agent::inspector::Inspector;
use rakuda_agent::{Agent, AgentConfig, clock, processes};
use rakuda_cluster::LOCAL_NODE;
use rakuda_cluster::{Elsewhere, Node, ReportSender, report_channel};
use rakuda_core::files::FilePolicy;
use rakuda_core::{Event, Requirement, Run, Stuck};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::frame::FrameError;
use rakuda_proto::front::{FrontMessage, HubMessage, ProgressMode, Settings};
use rakuda_record::folder::FOLDER;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::HubError;
use crate::agents::{Agents, Reports};
use crate::choosing::state::Choosing;
use crate::failures::state::Failures;
use crate::file_probes::state::FileProbes;
use crate::fresh_looks::FreshLooks;
use crate::front_link::FrontLink;
use crate::gangs::state::GangTargets;
use crate::group_losses::state::GroupLosses;
use crate::guard::{Ends, Guard};
use crate::hub::{Clock, Hub, RunEnding, read_clocks};
use crate::information::state::Information;
use crate::inputs::state::Inputs;
use crate::names::Names;
use crate::newcomers::state::Newcomers;
use crate::notes::record_config;
use crate::plan;
use crate::printer::{OutputMode, Printer};
use crate::program_names::state::ProgramNames;
use crate::progress::state::Progress;
use crate::reach::state::{Reachability, mount_of};
use crate::record::{self, Record, Turn, cannot_be_made};
use crate::rerun::state::Rerun;
use crate::screen::Screen;
use crate::settings::RunSettings;
use crate::sizes::state::Sizes;
use crate::staging::Staging;
use crate::stopping::stop_settings;
use crate::streams::state::Streams;
use crate::sync::state::SyncRounds;
use crate::times::state::Times;

/// Interval between looks whether another process still looks after runs that were cut off.
const TURN_STEP: Duration = Duration::from_millis(20);
/// Number of these looks before the user learns of the wait.
const TURN_STEPS_QUIET: i32 = 25;

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
    serve_front(clock, stream, guard, |settings, events, reports| {
        let mut nodes = nodes(settings, events)?;
        let elsewhere = match settings.cluster_config() {
            Some(config) => rakuda_cluster::start(config, reports)?,
            None => Elsewhere::default(),
        };
        nodes.extend(elsewhere.nodes);
        Ok(Elsewhere { nodes, source: elsewhere.source })
    })
    .await
}

/// As [`run_with`], where `nodes` makes all nodes, those of the host file, too, in its order: no agent is started
/// elsewhere. What happens to these is reported to the second sender.
pub async fn run_among(
    stream: StdUnixStream,
    guard: Guard,
    nodes: impl FnOnce(
        &RunSettings,
        UnboundedSender<AgentEvent>,
        ReportSender,
    ) -> Result<Vec<Node>, HubError>,
) -> Result<RunEnding, HubError> {
    serve_front(read_clocks, stream, guard, |settings, events, reports| {
        Ok(Elsewhere { nodes: nodes(settings, events, reports)?, source: None })
    })
    .await
}

/// Serves the front. `nodes`: all of them, and where others come from.
async fn serve_front(
    clock: Clock,
    stream: StdUnixStream,
    guard: Guard,
    nodes: impl FnOnce(
        &RunSettings,
        UnboundedSender<AgentEvent>,
        ReportSender,
    ) -> Result<Elsewhere, HubError>,
) -> Result<RunEnding, HubError> {
    let front = rustix::net::sockopt::socket_peercred(&stream).ok();
    let front = front.map(|peer| i32::from(peer.pid.as_raw_nonzero()));
    let mut link = FrontLink::new(stream).map_err(HubError::SetUp)?;
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
    let Elsewhere { nodes, source } = nodes(&settings, sender, remote_sender)?;
    let mut agents = Agents::new(nodes);
    if let Some(source) = source {
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

/// How the wait for this process's turn to look after runs that were cut off has ended.
enum Waited {
    /// It is this process's turn.
    Over(Turn),
    /// The user wants the run to end: it may report its end, and must start nothing.
    Stopped,
    /// The front is gone, or this process is to end.
    Ended,
}

/// Waits while another process looks after runs that were cut off: the hub may decide nothing before.
async fn await_turn(
    settings: &RunSettings,
    link: &mut FrontLink,
    messages: &mut Vec<FrontMessage>,
    ends: &mut Ends,
) -> Result<Waited, HubError> {
    // The guards of a run that was just killed need less time than that.
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
                    // Before the message that it is to keep from starting.
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
            plan_barriers: Vec::new(),
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
            gang_targets: GangTargets::default(),
            streams: Streams::default(),
            memory_told: Vec::new(),
            front_stuck: Stuck::default(),
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
            let (targets, suspected) =
                plan::targets_cut_off(&self.settings.directory, self.now.wall_ns());
            self.cut_off_targets = targets;
            self.record.add_suspected(suspected);
        }
        self.add_requirement(Requirement::default());
        for (id, capacity) in self.capacities() {
            self.event(Event::NodeJoined { id, capacity, files_kept: false });
            self.tell_node_end(id);
        }
        self.note_node(LOCAL_NODE);
        self.open_catalogue();
    }
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
