//! The hub: what the run hears and what it says, the journal, sessions with agents.
//!
//! Starts anew from its journal alone. Checks at each step that no effect is taken twice and
//! nothing is made that is there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rakuda_core::{
    ActionOutcome, Capacity, Config, Counts, Effect, Event, Fact, FilePlaces as _, GangId, Input,
    InvocationId, NextAttempt, NodeEffect, NodeId, NodeInput, NodeLimits, NodeOrigin, Output,
    Oversubscribe, Places, ReachEffect, ReachInput, Requirement, RequirementId, Run, Settled,
    Signal, StopEffect, StopHow, StopSettings, TaskId, TaskKind, Time, stager::StagerInput,
};

use super::attempts::state::{HubAttempts, Later, Shadow};
use super::chaos::Chaos;
use super::messages::{Ended, Happening, Order, Report};
use super::reach::state::HubReach;
use super::scenario::Scenario;
use super::staging::state::{HubStaging, PlaceNote};
use super::truth::SERVER;
use crate::units::SECOND_NS;

/// Maximum time without a word from a node; then it is lost.
const SILENCE_NS: u64 = 8 * SECOND_NS;
/// Maximum time without a word from a node that is lost; then it is given up.
const AWAY_NS: u64 = 40 * SECOND_NS;
/// Timeout for an action.
const TIMEOUT_NS: u64 = 60 * SECOND_NS;
/// Time that the hub takes to look at a file.
const LOOK_NS: u64 = 100_000;
/// How commands are stopped, with the time that each has to end after each signal.
const STOPS: StopSettings = StopSettings { grace_ns: 2 * SECOND_NS, first: Signal::Interrupt };

/// What the journal says of a task whose action ended well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) modified_ns: u64,
}

/// What an agent has sent. The run knows where its node is in its life.
#[derive(Clone, Debug, Default)]
struct Peer {
    /// The number of the `Hello` with which its session began.
    incarnation: u64,
    /// When the agent sent what was heard last.
    sent_ns: u64,
    /// Its session that begins: whether the disk is as it was, and which commands have ended and could not be reported.
    files_kept: bool,
    untold: Vec<Ended>,
}

pub(crate) struct Hub {
    up: bool,
    /// Number of starts of the hub.
    pub(crate) life: u64,
    /// All that is decided: the same parts as the hub's.
    pub(crate) run: Run<Shadow, u32>,
    /// What the scheduler wants, in order: done when all has been taken in that came together.
    pub(crate) outputs: VecDeque<Output>,
    /// Starts that wait until the last attempt is unwound: whether they are needed was checked when they were placed.
    held_starts: BTreeSet<(TaskId, u32)>,
    /// No node joins before: what the last hub started has ended by then.
    pub(crate) opens_ns: u64,
    peers: Vec<Peer>,
    /// Sessions of all nodes so far, with all hubs.
    sessions: u32,
    pub(crate) attempts: HubAttempts,
    pub(crate) reach: HubReach,
    pub(crate) staging: HubStaging,
    /// What was noted of where files lie, for later hubs.
    pub(crate) remembered: Vec<PlaceNote>,
    /// The scheduler has ended the invocation: what dies from now on is no loss that it could make
    /// good, though the front may hear of the end much later.
    is_ending: bool,
    /// Tasks of gangs that were refused.
    pub(crate) refused: BTreeSet<TaskId>,
    /// No node was left, or none came for a gang: the user gives the same command again when the run has ended.
    runs_again: bool,
    /// The journal: files that were made and those that the workflow starts from; and attempts that have not ended.
    pub(crate) made: BTreeMap<u32, Made>,
    pub(crate) open: BTreeSet<u32>,
}

impl Hub {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut made = BTreeMap::new();
        for (id, plan) in (0..).zip(&scenario.tasks) {
            if !plan.has_action {
                made.insert(id, Made { modified_ns: 1 });
            }
        }
        Self {
            up: false,
            life: 0,
            run: Run::new(Config::default(), false, STOPS),
            outputs: VecDeque::new(),
            held_starts: BTreeSet::new(),
            opens_ns: 0,
            peers: vec![Peer::default(); scenario.cores.len()],
            sessions: 0,
            attempts: HubAttempts::default(),
            reach: HubReach::default(),
            staging: HubStaging::new(scenario.home()),
            remembered: Vec::new(),
            is_ending: false,
            refused: BTreeSet::new(),
            runs_again: false,
            made,
            open: BTreeSet::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.run.scheduler().counts()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }
}

impl Chaos {
    /// A hub begins, with what the journal says.
    pub(crate) fn start_hub(&mut self) {
        let hub = &mut self.hub;
        hub.up = true;
        hub.life += 1;
        hub.run = Run::new(self.scenario.config.clone(), self.scenario.gfarm.is_some(), STOPS);
        hub.outputs.clear();
        hub.held_starts.clear();
        hub.opens_ns = if hub.life == 1 { 0 } else { self.now + SILENCE_NS };
        hub.peers.fill(Peer::default());
        hub.attempts = HubAttempts::default();
        hub.reach = HubReach::new(self.now);
        self.gfarm.causes.clear();
        hub.is_ending = false;
        hub.refused.clear();
        hub.runs_again = false;
        // Targets of attempts that did not end are not taken as good.
        for task in &hub.open {
            hub.made.remove(task);
        }
        if !self.scenario.stages() {
            hub.open.clear();
        }
        self.start_staging();
        self.start_front();
        self.note(format_args!("hub starts"));
        for node in 0..self.scenario.cores.len() as u32 {
            self.know_node(node);
        }
        if self.scenario.stages() {
            let (id, origin) =
                (NodeId(self.scenario.home()), NodeOrigin::Own { takes_tasks: false });
            let input = NodeInput::Known { origin, limits: NodeLimits::default() };
            self.tell(Input::Node { id, input });
        }
        if self.scenario.wide {
            self.tell(Input::LookaheadOff);
        }
        self.define();
        self.perform_outputs();
    }

    fn know_node(&mut self, node: u32) {
        let holds_inputs = self.scenario.tasks.iter().any(|j| !j.has_action && j.place == node);
        // What the last hub has started may run until no node can join. After that the nodes have their time.
        let closed_ns = self.hub.opens_ns - if self.hub.life == 1 { 0 } else { self.now };
        let limits = NodeLimits {
            start_ns: Some(closed_ns + SILENCE_NS),
            unresponsive_ns: Some(SILENCE_NS),
            // Inputs are always waited for, for nothing makes them.
            away_ns: (!holds_inputs).then_some(AWAY_NS),
        };
        let origin = NodeOrigin::Awaited;
        self.tell(Input::Node { id: NodeId(node), input: NodeInput::Known { origin, limits } });
    }

    pub(crate) fn stop_hub(&mut self) {
        self.hub.up = false;
        self.stop_attempts();
        self.note(format_args!("hub stops"));
    }

    fn define(&mut self) {
        let retry_delay_ns = self.scenario.retry_delay_ns;
        let requirement = Requirement { retry_delay_ns, ..Requirement::default() };
        self.event(Event::RequirementDefined { id: RequirementId(0), requirement });
        let requirement = Requirement { cores: 2, retry_delay_ns, ..Requirement::default() };
        self.event(Event::RequirementDefined { id: RequirementId(1), requirement });
        let mut wanted: BTreeSet<u32> = (0..self.scenario.tasks.len() as u32).collect();
        for index in 0..self.scenario.tasks.len() {
            let plan = self.scenario.tasks[index].clone();
            let id = TaskId(index as u32);
            let prerequisites: Vec<TaskId> = plan.inputs.iter().copied().map(TaskId).collect();
            plan.inputs.iter().for_each(|input| {
                wanted.remove(input);
            });
            self.event(Event::TaskDefined {
                id,
                kind: TaskKind::File,
                has_action: plan.has_action,
                deferred: false,
                requirement: RequirementId(plan.cores - 1),
                prerequisites: &prerequisites,
            });
            if self.scenario.stages() {
                self.note_at_home(index as u32);
            }
            let fact = self.fact(index as u32);
            self.event(Event::FactGathered { id, fact });
            self.locate(index as u32);
        }
        for (index, (members, oversubscribe)) in self.scenario.gangs.clone().into_iter().enumerate()
        {
            let (id, tasks) = (GangId(index as u32), members.into_iter().map(TaskId));
            let tasks: Vec<TaskId> = tasks.collect();
            self.event(Event::GangDefined { id, tasks: &tasks, oversubscribe });
        }
        self.hub.staging.wanted = wanted;
        self.queue.push(self.hub.opens_ns, Happening::Invoked { life: self.hub.life });
    }

    /// What the hub knows of a file.
    fn fact(&self, task: u32) -> Fact {
        if self.scenario.stages() {
            return self.staged_fact(task);
        }
        let Some(made) = self.hub.made.get(&task) else {
            return Fact { modified_ns: None, bytes: 0, places: Places::Unknown };
        };
        let places = if self.hub.run.reach().is_lost(TaskId(task)) {
            Places::Nowhere
        } else {
            self.hub.reach.places.places_of(TaskId(task))
        };
        Fact { modified_ns: Some(made.modified_ns.into()), bytes: 1, places }
    }

    /// Hands an input to the run, and does what follows; outputs of the scheduler wait, as in the hub.
    pub(crate) fn tell(&mut self, input: Input<'_, u32>) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let is_for_scheduler = matches!(
                input,
                Input::Event(_)
                    | Input::TimeCame
                    | Input::NodeLost { .. }
                    | Input::Abort { .. }
                    | Input::Stop { .. }
            );
            let mut effects = Vec::new();
            let hub = &mut self.hub;
            hub.run.handle(Time(self.now).into(), input, &hub.reach.places, &mut effects);
            if is_for_scheduler {
                hub.run.scheduler().check_invariants();
            }
            for effect in effects {
                assert!(next.is_none(), "{effect:?} follows Continue");
                if matches!(effect, Effect::Reach(ReachEffect::Continue)) {
                    next = Some(Input::Reach(ReachInput::Continued));
                } else {
                    self.perform(effect);
                }
            }
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        self.tell(Input::Event(event));
    }

    pub(crate) fn perform(&mut self, effect: Effect<u32>) {
        match effect {
            Effect::Output(output) => {
                // An end of the invocation that is held is reported at once.
                if let Output::GangRefused { id, .. } = output {
                    self.on_gang_refused(id);
                }
                self.hub.outputs.push_back(output);
            }
            Effect::Attempt(effect) => self.perform_for_attempt(&effect),
            Effect::Stop(effect) => self.perform_for_stop(effect),
            Effect::Node(effect) => self.perform_for_node(effect),
            Effect::Reach(effect) => self.perform_for_reach(effect),
            Effect::StartHeld { id, start } => {
                self.check_needed(id.0);
                self.hub.held_starts.insert((id, start.number));
                self.note(format_args!("held {} attempt {}", id.0, start.number));
                self.count("attempts held until the last is unwound");
            }
            Effect::LookaheadSet { id, actions } => {
                self.count(if actions > 0 { "looking ahead begins" } else { "looking ahead ends" });
                self.note(format_args!("node {} looks ahead by {actions}", id.0));
            }
            Effect::EndHeld { id, .. } if id != InvocationId(0) => {}
            Effect::EndHeld { failed, abandoned, .. } => {
                self.count("ends held until all is unwound");
                self.on_invocation_over(&failed, &abandoned);
            }
            Effect::Look { id } => self.look_at_target(id),
            Effect::LookHere { id } => {
                self.count("targets looked at by the hub");
                self.finish_attempt(id.0, ActionOutcome::Succeeded);
            }
            Effect::TargetLost { id } => {
                self.count("targets lost before a node looked");
                self.hub.run.take(id);
            }
            Effect::EndLeft { id } => self.later(id.0, Later::Cleared),
            Effect::Finish { id, outcome } => self.finish_attempt(id.0, outcome),
            Effect::FailureLost { id } => {
                self.hub.reach.held.remove(&id);
                assert!(self.on_unwound(id), "the failure of {} went with no node", id.0);
            }
            Effect::Invoke { id, tasks, caller } => self.begin_invocation(id, &tasks, caller),
            Effect::NodesGone => self.on_nodes_gone(),
            Effect::SizeRefused { requirement, .. } => {
                panic!("nothing asks for the size of requirement {}", requirement.0);
            }
            Effect::StartUnowned { id, command } | Effect::DropUnowned { id, command } => {
                panic!("command {command} of {} is of no attempt", id.0);
            }
        }
    }

    /// Does what the scheduler wants.
    pub(crate) fn perform_outputs(&mut self) {
        while self.hub.up
            && let Some(output) = self.hub.outputs.pop_front()
        {
            self.act(output);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::StartAction { id, attempt, .. } if !self.hub.run.is_wanted(id, attempt) => {
                self.count("starts whose node had gone");
            }
            Output::StartAction { id, attempt: number, node, devices } => {
                if !self.hub.held_starts.remove(&(id, number)) {
                    self.check_needed(id.0);
                }
                self.start(id, &NextAttempt { number, node, devices });
            }
            Output::GatherFact { id } => {
                let life = self.hub.life;
                self.queue.push(self.now + LOOK_NS, Happening::Looked { id, life });
            }
            Output::AttemptFailed { id, retried, .. } => {
                self.note(format_args!("failed {} retried {retried}", id.0));
                if !retried {
                    self.give_up(id);
                }
            }
            Output::RetryDelayed { id, .. } => {
                self.note(format_args!("waits {}", id.0));
                self.count("retries delayed");
            }
            Output::AttemptLost { id, node, .. } => {
                self.note(format_args!("lost {} node {}", id.0, node.0));
                self.count("attempts lost");
            }
            Output::TaskReopened { id } => {
                self.note(format_args!("again {}", id.0));
                self.count("tasks made again");
            }
            Output::InputLost { id } => {
                self.note(format_args!("waits for {}", id.0));
                self.count("inputs waited for");
                self.tell(Input::Reach(ReachInput::InputAwaited { id }));
            }
            Output::NodeDrained { id, .. } => {
                self.note(format_args!("node {} drained", id.0));
                self.count("nodes drained");
            }
            Output::NodeTakenBack { id } => self.note(format_args!("node {} taken back", id.0)),
            Output::TaskSettled { id, how } => {
                self.note(format_args!("settled {} {how:?}", id.0));
                if how != Settled::Executed {
                    // What an earlier attempt elsewhere left does not matter: the file is as it was.
                    self.hub.open.remove(&id.0);
                }
                if how.is_well() {
                    self.on_settled_well(id);
                }
            }
            Output::InvocationEnded { id, failed, abandoned } if id != InvocationId(0) => {
                self.on_called(id, failed.is_empty() && abandoned.is_empty());
            }
            ending @ Output::InvocationEnded { .. } => {
                let Some(Output::InvocationEnded { failed, abandoned, .. }) =
                    self.hold_for_stage_out(ending)
                else {
                    return;
                };
                self.on_invocation_over(&failed, &abandoned);
                self.check_none_left();
                if self.scenario.stages() && failed.is_empty() && !self.is_stopping() {
                    self.check_targets_at_home();
                }
                if self.is_stopping() {
                    self.check_no_commands_left();
                }
                if self.hub.runs_again {
                    return self.run_again();
                }
                if self.is_stopping() {
                    self.count("runs ended by the user");
                }
                self.ended = true;
            }
            Output::GangStarted { id, oversubscribed } => {
                self.note(format_args!("gang {} begins", id.0));
                self.count(if oversubscribed { "gangs that share cores" } else { "gangs begun" });
            }
            Output::AbortAction { id } => {
                self.count("attempts ended with their gang");
                self.abort_attempt(id);
            }
            // `Run` says what becomes of it.
            Output::GangTooLarge { id, .. } => self.note(format_args!("gang {} waits", id.0)),
            Output::GangRefused { .. } => {}
            Output::GangEntangled { .. }
            | Output::TurnTaken { .. }
            | Output::TaskBlamed { .. }
            | Output::NowhereToRun { .. }
            | Output::TargetMissing { .. }
            | Output::AskNeeded { .. }
            | Output::CompareRecord { .. }
            | Output::Resolve { .. } => panic!("nothing calls for {output:?}"),
        }
    }

    /// The user has said what is wanted.
    pub(crate) fn on_invoked(&mut self, life: u64) {
        if self.hub.up && life == self.hub.life {
            let tasks = self.hub.staging.wanted.iter().copied().map(TaskId).collect();
            self.want_invocation(InvocationId(0), tasks, None);
        }
    }

    /// Tasks are asked for.
    pub(crate) fn want_invocation(
        &mut self,
        id: InvocationId,
        tasks: Vec<TaskId>,
        caller: Option<TaskId>,
    ) {
        let awaited = self.places_awaited();
        let nodes_hold_files = self.scenario.gfarm.is_some();
        self.tell(Input::InvocationWanted { id, tasks, caller, awaited, nodes_hold_files });
        if self.hub.run.holds_invocation() {
            self.count("invocations held");
        }
    }

    /// It is known where the inputs of tasks that are asked for are, or was waited for long enough.
    fn begin_invocation(&mut self, id: InvocationId, tasks: &[TaskId], caller: Option<TaskId>) {
        if self.scenario.stages() {
            self.request_stage_out(tasks, caller.is_some());
        }
        self.event(Event::InvocationStarted { id, tasks, caller });
        if let Some(caller) = caller {
            self.shadow(caller).in_line = None;
        }
    }

    /// The run cannot go on: the hub stops it.
    fn on_nodes_gone(&mut self) {
        self.count("runs that no node is left for");
        self.note(format_args!("no node is left"));
        self.hub.runs_again = true;
        let commands: Vec<u32> = self.hub.attempts.commands.keys().copied().collect();
        self.tell(Input::Stop { how: StopHow::Gently, by_user: false, commands: &commands });
    }

    fn on_gang_refused(&mut self, id: GangId) {
        self.count("gangs refused");
        self.note(format_args!("gang {} is refused", id.0));
        self.hub.runs_again = true;
        let gang = self.hub.run.scheduler().gang(id);
        assert_eq!(gang.oversubscribe, Oversubscribe::Never, "{id:?} may share");
        self.hub.refused.extend(gang.tasks);
    }

    /// The run has ended for want of nodes: the user gives the same command again.
    fn run_again(&mut self) {
        self.count("runs again");
        self.stop_hub();
        let for_ns = 1 + self.random.below(12 * SECOND_NS);
        self.queue.push(self.now + for_ns, Happening::HubUp);
    }

    /// The scheduler has ended the invocation, which the front may not know yet.
    fn on_invocation_over(&mut self, failed: &[TaskId], abandoned: &[TaskId]) {
        if std::mem::replace(&mut self.hub.is_ending, true) || self.is_stopping() {
            return;
        }
        if self.may_fail(failed) {
            return;
        }
        assert!(failed.is_empty(), "tasks failed: {failed:?}, abandoned {abandoned:?}");
        assert!(abandoned.is_empty(), "tasks abandoned: {abandoned:?}");
        if !self.scenario.stages() {
            self.check_targets();
        }
    }

    /// An attempt begins.
    fn start(&mut self, id: TaskId, start: &NextAttempt) {
        let (task, node, attempt) = (id.0, start.node.0, start.number);
        self.note(format_args!("start {task} attempt {attempt} node {node}"));
        self.hub.open.insert(task);
        // Its old file is overwritten from now on.
        self.tell(Input::Reach(ReachInput::MakingBegan { id }));
        self.hub.reach.forget(id);
        self.note_begun(task);
        self.hub.made.remove(&task);
        self.begin_attempt(id, start);
    }

    /// Checks that a file that is there, and newer than all that it is made from, is not made once more.
    fn check_needed(&self, task: u32) {
        let Some(made_ns) = self.made_ns(task) else { return };
        if self.hub.run.scheduler().gang_of(TaskId(task)).is_some() {
            // Another one of its gang has to run.
            return;
        }
        let is_there = !self.hub.run.reach().is_lost(TaskId(task)) && self.is_in_reach(task);
        let mut walk = self.scenario.tasks[task as usize].inputs.clone();
        let mut newest = 0;
        while let Some(input) = walk.pop() {
            newest = newest.max(self.made_ns(input).unwrap_or(u64::MAX));
            walk.extend(&self.scenario.tasks[input as usize].inputs);
        }
        assert!(!is_there || newest > made_ns, "task {task} is done, and starts again");
    }

    /// When a file was made that has not been begun again since.
    fn made_ns(&self, task: u32) -> Option<u64> {
        if !self.scenario.stages() {
            return self.hub.made.get(&task).map(|made| made.modified_ns);
        }
        let state = self.hub.staging.stager.ledger().state(TaskId(task));
        state.filter(|_| !self.hub.open.contains(&task)).map(|state| state.modified_ns)
    }

    /// Whether a node that has joined has a file, where they are on nodes.
    fn is_in_reach(&self, task: u32) -> bool {
        let holders = self.hub.staging.stager.ledger().nodes_with(TaskId(task));
        let is_joined = |node: &NodeId| self.scenario.home() == node.0 || self.has_joined(node.0);
        !self.scenario.stages() || holders.iter().any(is_joined)
    }

    /// Every target is whole and as it should be, unless the machine that has it has died since the
    /// hub last heard of it.
    fn check_targets(&mut self) {
        let mut is_target = vec![true; self.scenario.tasks.len()];
        for plan in &self.scenario.tasks {
            plan.inputs.iter().for_each(|input| is_target[*input as usize] = false);
        }
        for task in (0..is_target.len() as u32).filter(|task| is_target[*task as usize]) {
            assert!(self.hub.made.contains_key(&task), "target {task} was not made");
            if self.scenario.gfarm.is_some() {
                self.check_target_in_gfarm(task);
                continue;
            }
            let content = self.truth.read(task, SERVER);
            assert_eq!(content, Some(self.expected[task as usize]), "target {task} is lost");
        }
    }

    pub(crate) fn on_looked(&mut self, id: TaskId, life: u64) {
        if self.hub.up && life == self.hub.life {
            let fact = self.fact(id.0);
            self.event(Event::FactGathered { id, fact });
        }
    }

    pub(crate) fn tick_hub(&mut self) {
        if !self.hub.up {
            return;
        }
        while self.hub.run.nodes().due().is_some_and(|due| due.0 <= self.now) {
            self.tell(Input::TimeCame);
        }
        for node in 0..self.hub.peers.len() as u32 {
            let (session, heard_ns) =
                (self.session_of(node), self.hub.peers[node as usize].sent_ns);
            if session != 0 {
                self.send_order(node, session, Order::Ping { heard_ns });
            }
        }
        self.note_places_awaited();
        self.abort_late(TIMEOUT_NS);
        self.tell(Input::TimeCame);
    }

    /// The session of a node; 0 if it has none.
    pub(crate) fn session_of(&self, node: u32) -> u64 {
        self.hub.run.nodes().link(NodeId(node)).map_or(0, u64::from)
    }

    /// Whether the scheduler may give a node tasks.
    fn has_joined(&self, node: u32) -> bool {
        self.session_of(node) != 0 && !self.hub.staging.asked.contains_key(&node)
    }

    fn perform_for_stop(&mut self, effect: StopEffect) {
        let command = match effect {
            StopEffect::Begin { how } => return self.note(format_args!("the run ends {how:?}")),
            // Each of those gets a `Send`, too.
            StopEffect::KillAll => return,
            StopEffect::Send { command, .. } | StopEffect::GiveUpNode { command } => command,
        };
        // It may have ended meanwhile.
        let Some(running) = self.hub.attempts.commands.get(&command) else { return };
        let node = running.node;
        let Some(link) = self.hub.run.nodes().link(NodeId(node)) else { return };
        if let StopEffect::Send { signal, .. } = effect {
            if signal == Signal::Kill {
                self.count("commands killed");
            }
            self.send_order(node, u64::from(link), Order::Signal { command, signal });
        } else {
            self.count("nodes given up that do not kill");
            let input = NodeInput::LinkDown { incarnation: link, again: false };
            self.tell(Input::Node { id: NodeId(node), input });
        }
    }

    /// The user wants the run to end.
    pub(crate) fn stop_by_user(&mut self, how: StopHow) {
        if !self.hub.up {
            return;
        }
        self.count("stops by the user");
        let commands: Vec<u32> = self.hub.attempts.commands.keys().copied().collect();
        self.tell(Input::Stop { how, by_user: true, commands: &commands });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.hub.run.stopping().is_stopping()
    }

    fn perform_for_node(&mut self, effect: NodeEffect) {
        match effect {
            NodeEffect::Welcome { id, files_kept, .. } => self.welcome(id.0, files_kept),
            NodeEffect::Lose { id } => self.lose(id.0),
            NodeEffect::GiveUp { id } => {
                self.note(format_args!("node {} is given up", id.0));
                self.count("nodes given up");
                self.stage(StagerInput::NodeGivenUp { id });
                self.note_places_awaited();
            }
            NodeEffect::Miss { .. } | NodeEffect::Gone { .. } => {
                panic!("nothing calls for {effect:?}")
            }
        }
    }

    fn lose(&mut self, node: u32) {
        self.note(format_args!("node {node} is lost"));
        self.count("nodes lost");
        self.hub.reach.lost_ns.insert(node, self.now);
        if self.scenario.stages() {
            self.lose_staging(node);
        }
        self.lose_attempts(node);
        if self.scenario.stages() {
            self.tell_staging_of_loss(node);
        }
        self.tell(Input::LossTold);
        // Each report is an input of its own.
        self.perform_outputs();
    }

    pub(crate) fn on_report(&mut self, node: u32, session: u64, sent_ns: u64, report: Report) {
        if !self.hub.up {
            return;
        }
        if let Report::Hello { incarnation, files_kept, untold } = report {
            let peer = &self.hub.peers[node as usize];
            let is_known = self.session_of(node) != 0 && peer.incarnation == incarnation;
            if self.now >= self.hub.opens_ns && !is_known {
                self.join(node, sent_ns, incarnation, files_kept, untold);
            }
            return;
        }
        if self.session_of(node) != session || session == 0 {
            if matches!(report, Report::Ended(_)) {
                self.count("reports of old sessions");
            }
            return;
        }
        self.hub.peers[node as usize].sent_ns = sent_ns;
        let incarnation = u32::try_from(session).expect("sessions are few");
        self.tell(Input::Node { id: NodeId(node), input: NodeInput::Heard { incarnation } });
        match report {
            Report::Looked { task, attempt, seen } => {
                self.on_target_looked(TaskId(task), attempt, seen);
            }
            Report::Lives => self.stage(StagerInput::Alive { id: NodeId(node) }),
            Report::Holdings { found } => self.on_holdings(node, &found),
            Report::Ended(ended) => self.on_ended(&ended),
            Report::Begun { command } => self.on_begun(node, command),
            Report::Withdrawn { command } => self.on_withdrawn(node, command),
            Report::CoreKept { command } => self.on_core_kept(command),
            Report::Pong => {}
            Report::Hello { .. } => unreachable!("handled above"),
        }
    }

    /// An agent begins a session. Whatever was left of the last one is over.
    fn join(
        &mut self,
        node: u32,
        sent_ns: u64,
        incarnation: u64,
        files_kept: bool,
        untold: Vec<Ended>,
    ) {
        let id = NodeId(node);
        if let Some(link) = self.hub.run.nodes().link(id) {
            self.count("sessions begun anew");
            let input = NodeInput::LinkDown { incarnation: link, again: true };
            self.tell(Input::Node { id, input });
        }
        self.hub.sessions += 1;
        let session = self.hub.sessions;
        self.hub.peers[node as usize] = Peer { incarnation, sent_ns, files_kept, untold };
        self.tell(Input::Node { id, input: NodeInput::LinkUp { incarnation: session } });
    }

    /// A session begins. `are_files_trusted`: those on the node count, if they are there.
    fn welcome(&mut self, node: u32, are_files_trusted: bool) {
        let session = self.session_of(node);
        let peer = &mut self.hub.peers[node as usize];
        let (incarnation, sent_ns) = (peer.incarnation, peer.sent_ns);
        // Where files are staged in, nodes are asked for them.
        let files_kept = !self.scenario.shared || peer.files_kept && are_files_trusted;
        self.note(format_args!("node {node} comes kept {files_kept}"));
        self.send_order(
            node,
            session,
            Order::Welcome { session, incarnation, files_kept, heard_ns: sent_ns },
        );
        let cores = self.scenario.cores[node as usize];
        let (id, trip_ns) = (NodeId(node), self.scenario.trip_ns);
        self.tell(Input::CoresSet { node: id, cores });
        self.tell(Input::TripMeasured { node: id, trip_ns });
        self.hub.reach.came_ns.entry(node).or_insert(self.now);
        self.hub.reach.lost_ns.remove(&node);
        if !self.scenario.stages() || !self.hold_node(node) {
            self.join_node(node, files_kept);
        }
    }

    /// A node takes tasks from now on. `files_kept`: those that lay there.
    pub(crate) fn join_node(&mut self, node: u32, files_kept: bool) {
        self.note(format_args!("node {node} joins kept {files_kept}"));
        let cores = self.scenario.cores[node as usize];
        // A file has few bytes: memory for some of them.
        let capacity = Capacity { cores, cache_bytes: 2 * u64::from(cores), ..Capacity::default() };
        let (id, life) = (NodeId(node), self.hub.life);
        let untold = std::mem::take(&mut self.hub.peers[node as usize].untold);
        self.event(Event::NodeJoined { id, capacity, files_kept });
        self.tell(Input::JoinNoted);
        self.hub.staging.earlier.join(id);
        self.note_places_awaited();
        for ended in untold {
            if ended.life == life && !self.ended {
                self.count("late reports");
                self.on_ended(&ended);
            }
        }
    }
}
