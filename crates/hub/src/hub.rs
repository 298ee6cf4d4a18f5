//! All that the hub has, and its one way to report to the run what happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use rakuda_agent::clock;
use rakuda_core::files::FilePolicy;
use rakuda_core::{
    Effect, Event, Input, NodeId, NodeInput, Now, Output, ReachEffect, ReachInput, Run, Stuck,
    TaskId, Time,
};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentRequest, CommandId};
use rakuda_proto::front::HubMessage;
use rakuda_proto::journal::FileIdentity;

use crate::agents::Agents;
use crate::attempts::state::{AttemptDetails, PendingCommand, RunningCommand};
use crate::choosing::state::Choosing;
use crate::control::Control;
use crate::failed_files::FailedFiles;
use crate::failures::state::Failures;
use crate::file_probes::state::FileProbes;
use crate::fresh_looks::FreshLooks;
use crate::front_link::FrontLink;
use crate::gangs::state::GangTargets;
use crate::group_losses::state::GroupLosses;
use crate::guard::Guard;
use crate::information::state::Information;
use crate::inputs::state::Inputs;
use crate::names::Names;
use crate::newcomers::state::Newcomers;
use crate::printer::Printer;
use crate::program_names::state::ProgramNames;
use crate::progress::state::Progress;
use crate::reach::state::Reachability;
use crate::record::{Record, Source};
use crate::rerun::state::Rerun;
use crate::settings::RunSettings;
use crate::sizes::state::Sizes;
use crate::staging::Staging;
use crate::streams::state::Streams;
use crate::sync::state::SyncRounds;
use crate::times::state::Times;

/// How a hub's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// The front said goodbye.
    Goodbye,
    /// As `Goodbye`, but some attempts did not end well, and what they left behind may still write to their targets.
    Unsettled,
    /// The front said goodbye after the user had stopped the run: nothing of it may be left.
    Stopped,
    /// The front is gone, or this process was to end; what ran was killed.
    CutOff,
}

/// Everything that a run needs, in one thread; links to other hosts have their own.
pub(crate) struct Hub {
    /// Both clocks as the present input came in: all that is decided and noted goes by that.
    pub now: Now,
    pub clock: Clock,
    pub settings: RunSettings,
    /// All that is decided: what happens goes in, what is to be done comes out.
    pub run: Run<AttemptDetails, PendingCommand>,
    pub names: Names,
    pub link: FrontLink,
    pub guard: Guard,
    /// The front's process, if it is known.
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
    /// Targets that runs have left under other names; `None` if they have not been looked for.
    pub failed_files: Option<FailedFiles>,
    /// Compares targets with earlier runs; `None` if the user has not asked for it.
    pub rerun: Option<Rerun>,
    /// In a dry run: tasks that the front is to run all the same, since they invoke others themselves.
    pub own_way: BTreeSet<TaskId>,
    /// In a dry run: the numbers from which on tasks wait for all before them, since what the
    /// command line names runs one after the other.
    pub plan_barriers: Vec<u32>,
    /// What the core wants done, in order.
    pub outputs: VecDeque<Output>,
    /// Nodes that are lost, and that the user does not know of yet.
    pub group_losses: GroupLosses,
    /// Nodes that came while the run went on.
    pub newcomers: Newcomers,
    /// Tasks that are to be made again, as their files went with a node, and have neither begun nor been settled since.
    pub reopened: BTreeSet<TaskId>,
    pub commands: BTreeMap<CommandId, RunningCommand>,
    /// What the agents are to do once the record of it is written, in order; `None`: all agents.
    pub requests: Vec<(Option<NodeId>, AgentRequest)>,
    /// Cores of each requirement, by the front's number.
    pub requirement_cores: Vec<u32>,
    /// The nodes that each requirement has at once and the slots on each, if the Rakefile says so.
    pub requirement_nodes: Vec<Option<(u32, u32)>>,
    /// Tasks with such a requirement that are not known to be in a gang.
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
    /// Values of nodes.
    pub information: Information,
    /// Which files in Gfarm can be read.
    pub reach: Reachability,
    /// Decides which files go along with targets and commands.
    pub files: FilePolicy,
    /// Stages files in and out; `None` if they share a file system.
    pub staging: Option<Staging>,
    /// Questions to agents about files.
    pub file_probes: FileProbes,
    pub progress: Progress,
    /// Commands that begin at one instant.
    pub sync: SyncRounds,
    /// Questions of people; `None` before something was recorded, or if the socket cannot be opened.
    pub control: Option<Control>,
    pub control_tried: bool,
    pub goodbye: bool,
    /// The steps of the machine's clock against the journal's, as noted last.
    pub clock_steps: clock::StepWatch,
    /// The front ends because of an error.
    pub front_failed: bool,
    /// Until when messages to the front may wait, to go together.
    pub flush_due_ns: Option<u64>,
    /// One of these messages may change what is to run.
    pub flush_urgent: bool,
    /// Output waits for its reader. When it is tried again.
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
    /// The front knows that a task needs more than there is.
    pub needs_refused: bool,
    /// Sizes that tasks must have in full.
    pub sizes: Sizes,
    /// Targets that tasks of gangs have made whose gangs have not ended.
    pub gang_targets: GangTargets,
    /// The streams, and the tasks that they join.
    pub streams: Streams,
    /// Which ways of enforcing memory the user knows of: by watching, or not.
    pub memory_told: Vec<bool>,
    /// Whether the front has said that its actions wait for one another.
    pub front_stuck: Stuck,
    /// The target of this task was just looked at, after its action.
    pub just_seen: Option<(TaskId, Option<FileIdentity>)>,
    /// What targets were seen to be since an action has ended.
    pub fresh_looks: FreshLooks,
    /// Names by which commands are looked up in PATH.
    pub program_names: ProgramNames,
    /// The directory has changed: names in the record are made absolute.
    pub moved: bool,
    /// Reused by `tell`.
    pub effects: Vec<Effect<PendingCommand>>,
}

/// What both clocks show now.
pub type Clock = fn() -> Now;

impl Hub {
    /// Hands an input to the run, and does what follows; outputs of the scheduler wait in `outputs`.
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

    /// The same for an event of the scheduler.
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
            // `InvocationEnded` is reported when it comes.
            Effect::EndHeld { .. } | Effect::LookaheadSet { .. } => {}
            Effect::Look { id } => self.ask_about_target(id),
            Effect::LookHere { id } => self.look_here(id),
            Effect::TargetLost { id } => {
                self.file_probes.forget_target(id);
                self.note_lost_target(id, "its node was lost before its target was known");
            }
            Effect::EndLeft { id } => self.ask_to_end_left(id),
            Effect::Finish { id, outcome } => self.finish_attempt(id, outcome),
            Effect::FailureLost { id } => {
                self.on_unwound(id);
            }
            Effect::Invoke { id, tasks, caller } => self.invoke(id, &tasks, caller),
            Effect::NodesGone => self.on_nodes_gone(),
            Effect::SizeRefused { requirement, most } => self.on_size_refused(requirement, most),
            // A thread of an action that has ended goes on.
            Effect::StartUnowned { id, command } => self.start_command(Some(id), command),
            Effect::DropUnowned { command, .. } => self.end_stopped(command.command),
        }
    }

    /// Performs effects as if an input had caused them.
    pub(crate) fn perform_effects(&mut self, what: Vec<Effect<PendingCommand>>) {
        for effect in what {
            self.perform_effect(effect);
        }
    }

    /// Reads the clocks. The loop alone does: what it hands on is decided and noted as of that moment.
    pub(crate) fn tick(&mut self) {
        self.now = (self.clock)();
    }

    pub(crate) fn until(&self, deadline_ns: u64) -> Duration {
        Duration::from_nanos(deadline_ns.saturating_sub(self.now.time.0))
    }

    /// How a run has ended that was not stopped.
    pub(crate) fn ending(&self) -> RunEnding {
        if self.record.is_unsettled() { RunEnding::Unsettled } else { RunEnding::Goodbye }
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

/// Sleeps for a time; without one, for ever.
pub(crate) async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
