//! A run as one machine: hands each input to its part, and passes on what that part says to the others.
//!
//! It has no state of its own but the parts: the scheduler (which task runs where), attempts (their life, and the
//! leases on cores), nodes (their life), stopping (what has to end), reachability (which files can be read, and what
//! failures are due to), and what waits: retries that are delayed, an invocation, ends of invocations, gangs for which
//! the nodes are too few, sizes to be compared with the nodes. The hub and the simulator of faults drive it; both reach
//! a part only through [`Run::handle`] and the few functions beside it. What follows from what between the parts is
//! decided here alone; `docs/design/run.md` describes it.

mod ends;
mod held;
mod input;
mod retries;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

pub use held::PlacesAwaited;
pub use input::{ActionEnding, Effect, Input};

use crate::attempts::{
    Aborting, Attempt, AttemptEffect, Attempts, Held, NextAttempt, Refusal, State,
};
use crate::config::{Config, FailurePolicy};
use crate::event::{ActionOutcome, Event, Output};
use crate::ids::{GangId, NodeId, RequirementId, TaskId};
use crate::nodes::{NodeEffect, NodeInput, NodeState, Nodes};
use crate::reach::{FilePlaces, ReachEffect, ReachInput, ReachView, Reachability};
use crate::scheduler::Scheduler;
use crate::scheduler::task::TaskState;
use crate::stopping::{StopEffect, StopHow, StopSettings, Stopping};
use crate::time::Now;
use ends::Review;
use held::{Held as HeldInvocation, Wanted};
use retries::Retries;

/// One run. `D` is what the shell keeps with an attempt, `C` a command that has not been started.
#[derive(Debug)]
pub struct Run<D, C> {
    scheduler: Scheduler,
    attempts: Attempts<D, C>,
    nodes: Nodes,
    stopping: Stopping,
    reach: Reachability,
    /// Ends of invocations that the front must not learn before all actions on lost nodes have been unwound.
    endings: Vec<Output>,
    retries: Retries,
    held: Option<HeldInvocation>,
    /// Gangs for which the nodes that are there are too few.
    large_gangs: BTreeSet<GangId>,
    /// Sizes to be compared with the nodes once no more come.
    sizes: BTreeSet<RequirementId>,
    /// Nodes have joined or are gone for good, or something needs more of them: to be reviewed after the input.
    review: Option<Review>,
    /// Empty between inputs; kept for their memory.
    outputs: Vec<Output>,
    attempt_effects: Vec<AttemptEffect<C>>,
}

impl<D, C> Run<D, C> {
    /// Makes a run with no tasks and no nodes. `asks_servers`: servers of their own hand out files (Gfarm).
    pub fn new(config: Config, asks_servers: bool, stops: StopSettings) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            attempts: Attempts::default(),
            nodes: Nodes::default(),
            stopping: Stopping::new(stops),
            reach: Reachability::new(asks_servers),
            endings: Vec::new(),
            retries: Retries::default(),
            held: None,
            large_gangs: BTreeSet::new(),
            sizes: BTreeSet::new(),
            review: None,
            outputs: Vec::new(),
            attempt_effects: Vec::new(),
        }
    }

    /// The scheduler: which task runs where.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Attempts that have not ended.
    pub fn attempts(&self) -> &Attempts<D, C> {
        &self.attempts
    }

    /// The nodes, and where each is in its life.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What has to end.
    pub fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    /// Which files can be read.
    pub fn reach(&self) -> &Reachability {
        &self.reach
    }

    /// When [`Input::TimeCame`] is due, by the clock of `now`.
    pub fn due_ns(&self) -> Option<u64> {
        let nodes_ns = self.nodes.due().map(|due| due.0);
        let stops_ns = self.stopping.due().map(|due| due.0);
        let held_ns = self.held.as_ref().map(|held| held.until().0);
        let due = [nodes_ns, stops_ns, self.retries.due_ns(), self.reach.due_ns(), held_ns];
        due.into_iter().flatten().min()
    }

    /// Whether an invocation waits until it is known where its inputs are.
    pub fn holds_invocation(&self) -> bool {
        self.held.is_some()
    }

    /// What the shell keeps with the attempt of a task.
    pub fn details_mut(&mut self, id: TaskId) -> Option<&mut D> {
        self.attempts.details_mut(id)
    }

    /// Takes in one input and adds what is to be done to `out`, in the order in which it is to be done.
    pub fn handle<P: FilePlaces>(
        &mut self,
        now: Now,
        input: Input<'_, C>,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        self.take_in(now, input, places, out);
        if let Some(review) = self.review {
            self.review_nodes(now, review, out);
            self.review = None;
        }
    }

    fn take_in<P: FilePlaces>(
        &mut self,
        now: Now,
        input: Input<'_, C>,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        match input {
            Input::Event(event) => self.on_event(now, event, places, out),
            Input::Reach(input) => self.tell_reach(now, input, places, out),
            Input::Node { id, input } => self.on_node(now, id, input, out),
            Input::NodesExpected(expecting) => {
                self.nodes.set_expecting(expecting);
                self.check_held(out);
                self.review = Some(Review::All);
            }
            Input::TimeCame => self.on_time(now, places, out),
            Input::InvocationOver { id } => self.attempts.resume(id, now),
            Input::CoresSet { node, cores } => self.attempts.set_cores(node, cores),
            Input::TripMeasured { node, trip_ns } => self.attempts.set_trip(node, trip_ns),
            Input::LookaheadOff => self.attempts.disable_lookahead(),
            Input::NodeLost { id } => self.lose_node(now, id, places, out),
            Input::LossTold => self.review = Some(Review::All),
            Input::JoinNoted => self.review_needs(),
            Input::SizeWanted { requirement } => self.want_size(requirement),
            Input::InvocationWanted { id, tasks, caller, awaited, nodes_hold_files } => {
                self.begin_held(out);
                let wanted = Wanted { id, tasks, caller };
                self.want_invocation(now, wanted, awaited, nodes_hold_files, out);
            }
            Input::PlacesAwaited(awaited) => self.on_places_awaited(awaited, out),
            Input::HeldInvocationDue => self.begin_held(out),
            Input::LeaseWanted { id } => {
                self.tell_attempts(out, |attempts, out| attempts.want_lease(id, out));
            }
            Input::CommandWanted { id, command } if self.stopping.is_stopping() => {
                let why = Refusal::Aborted;
                out.push(Effect::Attempt(AttemptEffect::Refuse { id, command, why }));
            }
            Input::CommandWanted { id, command } => {
                let mut left = None;
                self.tell_attempts(out, |attempts, out| {
                    left = attempts.want_command(id, command, out);
                });
                out.extend(left.map(|command| Effect::StartUnowned { id, command }));
            }
            Input::CommandBegun { node, id, attempt } => {
                self.tell_attempts(out, |attempts, out| {
                    attempts.command_begun(node, id, attempt, now, out);
                });
            }
            Input::CommandWithdrawn { node, id, attempt, command } => {
                let mut left = None;
                self.tell_attempts(out, |attempts, out| {
                    left = attempts.command_withdrawn(node, id, attempt, command, out);
                });
                out.extend(left.map(|command| Effect::DropUnowned { id, command }));
            }
            Input::CoreKept { id, attempt } => {
                self.tell_attempts(out, |attempts, out| attempts.core_kept(id, attempt, now, out));
            }
            Input::CoreFreed { node, id, attempt } => {
                self.attempts.core_freed(node, id, attempt, now);
            }
            Input::CommandEnded { id, attempt } => {
                // What an earlier attempt left behind does not belong to this one.
                if self.attempts.acting_as(id, attempt).is_some() {
                    self.tell_attempts(out, |attempts, out| attempts.command_ended(id, now, out));
                }
            }
            Input::InputsAwaited { id } => self.attempts.await_inputs(id),
            Input::InputsChanged { id } => self.attempts.inputs_changed(id),
            Input::InputsHeldUp { id, attempt } => self.attempts.inputs_held_up(id, attempt, now),
            Input::InputsReady { id, attempt } => {
                self.tell_attempts(out, |attempts, out| attempts.inputs_ready(id, attempt, out));
            }
            Input::InputsRefused { id, attempt } => {
                self.tell_attempts(out, |attempts, out| attempts.inputs_refused(id, attempt, out));
            }
            Input::ActionEnded { id, ending, code } => {
                self.on_action_ended(now, id, ending, code, places, out);
            }
            Input::StagingOut { id } => self.attempts.stage_out(id),
            Input::LeftEnded { id } => self.on_left_ended(now, id, places, out),
            Input::Abort { id } => self.abort(now, id, places, out),
            Input::TaskGivenUp { id } => {
                for early in self.begun_early_with(id) {
                    self.abort(now, early, places, out);
                }
            }
            Input::Stop { how, by_user, commands } => {
                if self.stopping.begin(how, by_user) {
                    out.push(Effect::Stop(StopEffect::Begin { how }));
                    self.tell_reach(now, ReachInput::StopRequested, places, out);
                    self.tell(now, Event::StopRequested { kill: true }, out);
                    self.tell_stopping(out, |stopping, out| stopping.end(now.time, commands, out));
                    if how == StopHow::AtOnce {
                        out.push(Effect::Stop(StopEffect::KillAll));
                    }
                }
            }
            Input::CommandsToEnd { commands } => {
                self.tell_stopping(out, |stopping, out| stopping.end(now.time, commands, out));
            }
        }
    }

    fn on_time<P: FilePlaces>(&mut self, now: Now, places: &P, out: &mut Vec<Effect<C>>) {
        if self.nodes.due().is_some_and(|due| due <= now.time) {
            // The shell answers first; the rest is still due.
            let mut effects = Vec::new();
            self.nodes.take_due(now.time, &mut effects);
            return self.follow_nodes(now, &effects, out);
        }
        while let Some((id, attempt)) = self.retries.take(now.time.0) {
            self.tell(now, Event::RetryDue { id, attempt }, out);
        }
        if self.reach.due_ns().is_some_and(|due_ns| due_ns <= now.time.0) {
            self.tell_reach(now, ReachInput::TimeCame, places, out);
        }
        self.tell_stopping(out, |stopping, out| stopping.take_due(now.time, out));
        // Last: the shell hands in at once what begins it.
        if let Some(held) = self.held.take_if(|held| held.is_over(now.time, &self.nodes)) {
            self.invoke(held.into_wanted(), out);
        }
    }

    /// Hands an event to the scheduler, and what it means to the other parts.
    fn on_event<P: FilePlaces>(
        &mut self,
        now: Now,
        event: Event<'_>,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        if let Event::InvocationStarted { id, caller: Some(caller), .. } = event {
            self.tell_attempts(out, |attempts, out| attempts.suspend(id, caller, now, out));
        }
        let joined = if let Event::NodeJoined { id, .. } = event { Some(id) } else { None };
        self.tell(now, event, out);
        if let Some(id) = joined {
            self.tell_reach(now, ReachInput::NodeJoined { id }, places, out);
        }
    }

    /// Begins an invocation, or holds it until it is known where its inputs are.
    fn want_invocation(
        &mut self,
        now: Now,
        wanted: Wanted,
        awaited: PlacesAwaited,
        nodes_hold_files: bool,
        out: &mut Vec<Effect<C>>,
    ) {
        if self.scheduler.config.dry_run {
            return self.invoke(wanted, out);
        }
        let starting = nodes_hold_files && held::is_any_starting(&self.nodes);
        let needs_nodes = starting && self.scheduler.forecast(now).contains(&true);
        match HeldInvocation::hold(now.time, wanted, awaited, needs_nodes) {
            Ok(held) => self.held = Some(held),
            Err(wanted) => self.invoke(wanted, out),
        }
    }

    fn on_places_awaited(&mut self, awaited: PlacesAwaited, out: &mut Vec<Effect<C>>) {
        if let Some(held) = &mut self.held {
            held.set_awaited(awaited);
            self.check_held(out);
        }
    }

    fn check_held(&mut self, out: &mut Vec<Effect<C>>) {
        if self.held.as_ref().is_some_and(|held| !held.waits(&self.nodes)) {
            self.begin_held(out);
        }
    }

    fn begin_held(&mut self, out: &mut Vec<Effect<C>>) {
        if let Some(held) = self.held.take() {
            self.invoke(held.into_wanted(), out);
        }
    }

    /// A caller whose node has been lost, or whose attempt is over, waits for nothing any more.
    fn invoke(&self, Wanted { id, tasks, caller }: Wanted, out: &mut Vec<Effect<C>>) {
        let waits =
            |id: &TaskId| self.attempts.get(*id).is_some() && !self.attempts.is_unwinding(*id);
        let caller = caller.filter(waits);
        out.push(Effect::Invoke { id, tasks, caller });
    }

    /// Hands an event to the scheduler alone. What it answers about attempts goes to those first.
    fn tell(&mut self, now: Now, event: Event<'_>, out: &mut Vec<Effect<C>>) {
        let mut outputs = mem::take(&mut self.outputs);
        self.scheduler.handle(now, event, &mut outputs);
        self.attempts.hold_lookahead(self.scheduler.is_gang_due());
        for output in outputs.drain(..) {
            self.note_health(now, &output);
            match output {
                Output::StartAction { id, attempt: number, node, devices }
                    if self.attempts.is_unwinding(id) =>
                {
                    let start = NextAttempt { number, node, devices };
                    self.attempts.hold_start(id, &start);
                    out.push(Effect::StartHeld { id, start });
                }
                Output::AttemptLost { id, attempt, rerun, .. } => {
                    self.attempts.on_attempt_lost(id, attempt, rerun);
                    out.push(Effect::Output(output));
                }
                Output::RetryDelayed { id, attempt, delay_ns } => {
                    self.retries.add(now.time.0.saturating_add(delay_ns), id, attempt);
                    out.push(Effect::Output(output));
                }
                Output::InvocationEnded { id, ref failed, ref abandoned }
                    if self.attempts.is_any_unwinding() =>
                {
                    let (failed, abandoned) = (failed.clone(), abandoned.clone());
                    out.push(Effect::EndHeld { id, failed, abandoned });
                    self.endings.push(output);
                }
                Output::GangTooLarge { id, .. } => {
                    self.large_gangs.insert(id);
                    self.review_needs();
                    out.push(Effect::Output(output));
                }
                other => out.push(Effect::Output(other)),
            }
        }
        self.outputs = outputs;
    }

    fn tell_attempts(
        &mut self,
        out: &mut Vec<Effect<C>>,
        tell: impl FnOnce(&mut Attempts<D, C>, &mut Vec<AttemptEffect<C>>),
    ) {
        tell(&mut self.attempts, &mut self.attempt_effects);
        out.extend(self.attempt_effects.drain(..).map(Effect::Attempt));
    }

    fn tell_stopping(
        &mut self,
        out: &mut Vec<Effect<C>>,
        tell: impl FnOnce(&mut Stopping, &mut Vec<StopEffect>),
    ) {
        let mut effects = Vec::new();
        tell(&mut self.stopping, &mut effects);
        out.extend(effects.into_iter().map(Effect::Stop));
    }

    fn tell_reach<P: FilePlaces>(
        &mut self,
        now: Now,
        input: ReachInput,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        let mut effects = Vec::new();
        let view = ReachView { scheduler: &self.scheduler, places };
        self.reach.handle(now.time, input, &view, &mut effects);
        for effect in effects {
            if let ReachEffect::Attribute { id } = effect {
                self.attempts.attribute(id);
            }
            out.push(Effect::Reach(effect));
        }
    }

    /// An action has ended: decides what must be known before its attempt has ended, too.
    fn on_action_ended<P: FilePlaces>(
        &mut self,
        now: Now,
        id: TaskId,
        ending: ActionEnding,
        code: Option<Held>,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        if self.attempts.acting(id).is_none() {
            return;
        }
        self.attempts.end_action(id, code, now);
        out.push(match ending {
            ActionEnding::Succeeded { looks: true } => {
                self.attempts.inspect(id);
                Effect::Look { id }
            }
            ActionEnding::Succeeded { looks: false } => {
                Effect::Finish { id, outcome: ActionOutcome::Succeeded }
            }
            ActionEnding::Failed { started: true }
                if !self.stopping.is_stopping() && self.scheduler.may_run_again(id) =>
            {
                self.attempts.clear(id);
                Effect::EndLeft { id }
            }
            ActionEnding::Failed { .. } => return self.on_action_failed(now, id, places, out),
            ActionEnding::Exited => Effect::Finish { id, outcome: ActionOutcome::Exited },
        });
    }

    fn on_left_ended<P: FilePlaces>(
        &mut self,
        now: Now,
        id: TaskId,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        let is_clearing = |one: &Attempt<D, C>| *one.state() == State::Clearing;
        if self.attempts.get(id).is_some_and(is_clearing) {
            self.on_action_failed(now, id, places, out);
        }
    }

    /// An action has failed, and nothing of it is left. Where that may be due to a file server, its attempt waits, and
    /// `PassOn` follows.
    fn on_action_failed<P: FilePlaces>(
        &mut self,
        now: Now,
        id: TaskId,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let (node, began) = (attempt.node(), attempt.began().time);
        let told_to_end = attempt.is_aborted();
        let failed = ReachInput::ActionFailed { id, node, began, told_to_end };
        self.tell_reach(now, failed, places, out);
        let waits = |one: &Attempt<D, C>| *one.state() == State::Attributing;
        if !self.attempts.get(id).is_some_and(waits) {
            out.push(Effect::Finish { id, outcome: ActionOutcome::Failed });
        }
    }

    /// Loses a node. Its actions are unwound before the scheduler knows, so that what it wants of their tasks next
    /// waits for their ends.
    fn lose_node<P: FilePlaces>(
        &mut self,
        now: Now,
        id: NodeId,
        places: &P,
        out: &mut Vec<Effect<C>>,
    ) {
        // The front has seen the ends of these; for the scheduler they went with the node.
        self.reach.take_failures_on(id);
        let is_failed = |(_, attempt): &(TaskId, &Attempt<D, C>)| {
            attempt.node() == id && matches!(attempt.state(), State::Clearing | State::Attributing)
        };
        let failed: Vec<TaskId> = self.attempts.all().filter(is_failed).map(|(id, _)| id).collect();
        self.tell_attempts(out, |attempts, out| {
            attempts.lose_node(id, now, out);
            for task in &failed {
                attempts.lose_failed(*task);
            }
        });
        self.attempts.set_cores(id, 0);
        self.tell(now, Event::NodeLost { id }, out);
        out.extend(failed.into_iter().map(|id| Effect::FailureLost { id }));
        self.tell_reach(now, ReachInput::NodeLost { id }, places, out);
        if self.nodes.state(id) == NodeState::Lost {
            self.tell(now, Event::NodeGivenUp { id }, out);
        }
    }

    /// Takes a step in the life of a node, and passes on what it means to the scheduler and to attempts.
    fn on_node(&mut self, now: Now, id: NodeId, input: NodeInput, out: &mut Vec<Effect<C>>) {
        let leaves = matches!(input, NodeInput::LetGo) && self.nodes.is_up(id);
        let mut effects = Vec::new();
        self.nodes.handle(now.time, id, input, &mut effects);
        if matches!(input, NodeInput::Known { .. }) {
            self.attempts.set_cores(id, 0);
        }
        if leaves {
            self.attempts.set_cores(id, 0);
            self.tell(now, Event::NodeLost { id }, out);
        }
        self.follow_nodes(now, &effects, out);
    }

    /// A node goes that was to look at targets: before it is lost, the shell looks where it can see them.
    fn end_inspections(&self, node: NodeId, out: &mut Vec<Effect<C>>) {
        let config = &self.scheduler.config;
        let sees_files = !config.files_on_nodes || config.files_apart;
        let is_looked_at = |(_, attempt): &(TaskId, &Attempt<D, C>)| {
            attempt.node() == node && *attempt.state() == State::Inspecting
        };
        out.extend(self.attempts.all().filter(is_looked_at).map(|(id, _)| {
            if sees_files { Effect::LookHere { id } } else { Effect::TargetLost { id } }
        }));
    }

    fn follow_nodes(&mut self, now: Now, effects: &[NodeEffect], out: &mut Vec<Effect<C>>) {
        for effect in effects {
            match *effect {
                NodeEffect::GiveUp { id } | NodeEffect::Gone { id } => {
                    self.tell(now, Event::NodeGivenUp { id }, out);
                }
                NodeEffect::Welcome { id, .. } => self.tell(now, Event::NodeCame { id }, out),
                NodeEffect::Lose { id } => self.end_inspections(id, out),
                NodeEffect::Miss { .. } => {}
            }
            if matches!(effect, NodeEffect::GiveUp { .. } | NodeEffect::Miss { .. }) {
                self.review = Some(Review::All);
            }
            // Last: what the shell then says comes after what was wanted before.
            out.push(Effect::Node(*effect));
        }
    }

    /// Notes whether the scheduler drains a node or takes it back.
    fn note_health(&mut self, now: Now, output: &Output) {
        let (id, input) = match *output {
            Output::NodeDrained { id, .. } => (id, NodeInput::Drain),
            Output::NodeTakenBack { id } => (id, NodeInput::TakeBack),
            _ => return,
        };
        self.nodes.handle(now.time, id, input, &mut Vec::new());
    }

    fn abort<P: FilePlaces>(&mut self, now: Now, id: TaskId, places: &P, out: &mut Vec<Effect<C>>) {
        let mut aborting = None;
        // A run that is stopped signals its commands all at once.
        let signals = !self.stopping.is_stopping();
        self.tell_attempts(out, |attempts, out| aborting = attempts.abort(id, signals, out));
        match aborting {
            Some(Aborting::NotBegun(attempt)) => {
                let outcome = ActionOutcome::Failed;
                self.tell(now, Event::ActionEnded { id, attempt, outcome, run_ns: None }, out);
            }
            Some(Aborting::Failed) => {
                self.tell_reach(now, ReachInput::FailedTold { id }, places, out);
            }
            Some(Aborting::UnderWay) | None => {}
        }
    }

    /// A task has failed for good. If nothing more of its invocation may start, takes back the actions that were begun
    /// early and have had no core yet.
    fn begun_early_with(&mut self, failed: TaskId) -> Vec<TaskId> {
        if self.scheduler.config.failure == FailurePolicy::Continue {
            return Vec::new();
        }
        let scheduler = &self.scheduler;
        let owner = |id| scheduler.task(id).and_then(|task| task.invocation);
        let of_failed = owner(failed);
        self.attempts.give_back_early(|id| owner(id) == of_failed)
    }
}

/// Beginning and ending.
impl<D, C> Run<D, C> {
    /// Whether what [`Output::StartAction`] wanted is still wanted: the node may have gone since.
    pub fn is_wanted(&self, id: TaskId, attempt: u32) -> bool {
        self.scheduler.task(id).is_some_and(|task| {
            task.attempt == attempt && matches!(task.state, TaskState::Running { .. })
        })
    }

    /// Begins an action; whether it has a lease at once. `unstaged`: what its commands read must be staged in first.
    pub fn begin(
        &mut self,
        now: Now,
        id: TaskId,
        start: &NextAttempt,
        cores: u32,
        unstaged: bool,
        details: D,
    ) -> bool {
        self.attempts.begin(id, start, cores, now, unstaged, details)
    }

    /// Hands free cores to the attempts that stand in line, and commands to far nodes that `may` wait there. True if
    /// the shell must call it again after the effects: the scheduler got news, or an attempt that has just got cores
    /// may find no room for its inputs, and give them away.
    pub fn grant(
        &mut self,
        now: Now,
        may: impl Fn(TaskId, &C) -> bool,
        out: &mut Vec<Effect<C>>,
    ) -> bool {
        let scheduler = &self.scheduler;
        let may = |id, command: &C| scheduler.gang_of(id).is_none() && may(id, command);
        self.attempts.grant(now, &mut self.attempt_effects);
        self.attempts.prepare(may, &mut self.attempt_effects);
        let stages = |effect: &AttemptEffect<C>| matches!(effect, AttemptEffect::StageIn { .. });
        let stages = self.attempt_effects.iter().any(stages);
        out.extend(self.attempt_effects.drain(..).map(Effect::Attempt));
        let changed = self.attempts.take_lookahead();
        let told = !changed.is_empty();
        for (id, actions) in changed {
            out.push(Effect::LookaheadSet { id, actions });
            self.tell(now, Event::LookaheadSet { id, actions }, out);
        }
        told || stages
    }

    /// Takes an attempt that has ended. The shell notes what there is to note, and then reports [`Event::ActionEnded`].
    pub fn take(&mut self, id: TaskId) -> Option<Attempt<D, C>> {
        self.attempts.take(id)
    }

    /// The front has ended the action of an attempt whose node is gone, if it is one. The next
    /// attempt, if there is one, is wanted from now on; so are the ends that waited for the last one.
    pub fn take_unwound(&mut self, id: TaskId, out: &mut Vec<Effect<C>>) -> Option<Attempt<D, C>> {
        if !self.attempts.is_unwinding(id) {
            return None;
        }
        let attempt = self.attempts.take(id)?;
        if let State::Unwinding { next: Some(next), .. } = attempt.state() {
            let NextAttempt { number: attempt, node, devices } = next.clone();
            out.push(Effect::Output(Output::StartAction { id, attempt, node, devices }));
        }
        if !self.attempts.is_any_unwinding() {
            out.extend(self.endings.drain(..).map(Effect::Output));
        }
        Some(attempt)
    }

    /// Takes all attempts when the run is over, with the time that they have held their cores.
    pub fn take_all(&mut self, now: Now) -> BTreeMap<TaskId, Attempt<D, C>> {
        self.endings.clear();
        self.attempts.take_all(now)
    }

    /// Takes the attempts whose actions run code of their own, and no command.
    pub fn take_in_code(&mut self) -> BTreeMap<TaskId, Attempt<D, C>> {
        self.attempts.take_in_code()
    }
}
