//! What the hub does for attempts: messages in, effects out; and what must hold of them.
//!
//! The rules are checked against an account of its own (`Shadow`): which action asked for what, and when which gate was
//! passed.

pub(crate) mod state;

use rakuda_core::{
    ActionEnding, ActionOutcome, Attempt, AttemptEffect, AttemptState, Input, InvocationId,
    NextAttempt, NodeId, Refusal, TaskId, Time,
};

use super::chaos::Chaos;
use super::front::state::{FromFront, ToFront};
use super::messages::{Ended, Happening, Order, Start};
use crate::units::SECOND_NS;
use state::{Later, Running, Shadow};

/// Maximum time for which files are staged in, or looked at.
const FILES_NS_MAX: u64 = SECOND_NS;

impl Chaos {
    /// Cores of a node that an action of a task needs.
    pub(crate) fn cores_on(&self, task: u32, node: u32) -> u32 {
        let held = self.hub.run.scheduler().cores_held(TaskId(task), NodeId(node));
        if let Some(cores) =
            held.filter(|_| self.hub.run.scheduler().gang_of(TaskId(task)).is_some())
        {
            return cores;
        }
        self.scenario.tasks[task as usize].cores.min(self.scenario.cores[node as usize])
    }

    pub(crate) fn later(&mut self, task: u32, what: Later) {
        let Some(attempt) = self.hub.run.attempts().get(TaskId(task)) else { return };
        let (life, attempt) = (self.hub.life, attempt.number());
        let at_most = if self.scenario.short { FILES_NS_MAX / 1000 } else { FILES_NS_MAX };
        let at = self.now + 1 + self.random.below(at_most);
        self.queue.push(at, Happening::Later { life, task, attempt, what });
    }

    pub(crate) fn begin_attempt(&mut self, id: TaskId, start: &NextAttempt) {
        let now = Time(self.now).into();
        let (cores, unstaged) = (self.cores_on(id.0, start.node.0), self.scenario.stages());
        let heeded = (!unstaged).then_some(0);
        let details = Shadow { heeded, ..Shadow::default() };
        let leased = self.hub.run.begin(now, id, start, cores, unstaged, details);
        self.shadow(id).had_lease = leased;
        if !leased {
            self.count("actions begun early");
        }
        if !unstaged && self.random.below(4) == 0 {
            // Its node is asked whether it sees what was made elsewhere.
            self.tell(Input::InputsAwaited { id });
            self.shadow(id).heeded = None;
            self.later(id.0, Later::Visible);
        }
        self.say_to_front(id.0, ToFront::Run { attempt: start.number, leased });
    }

    pub(crate) fn shadow(&mut self, id: TaskId) -> &mut Shadow {
        self.hub.run.details_mut(id).expect("it has an attempt")
    }

    pub(crate) fn on_from_front(&mut self, life: u64, task: u32, what: &FromFront) {
        if !self.hub.is_up() || life != self.hub.life {
            return;
        }
        self.note(format_args!("front: {task} {what:?}"));
        self.tell(Input::HeldInvocationDue);
        let id = TaskId(task);
        let number = self.hub.run.attempts().get(id).map(rakuda_core::Attempt::number);
        match *what {
            FromFront::WantLease => {
                self.stand_in_line(id);
                self.tell(Input::LeaseWanted { id });
            }
            FromFront::Want { attempt, command, is_last } => {
                assert_eq!(number, Some(attempt), "the next attempt of {task} began too soon");
                self.hub.attempts.wanted.insert(command, (task, is_last));
                if !self.is_stopping() {
                    self.stand_in_line(id);
                }
                self.tell(Input::CommandWanted { id, command });
            }
            FromFront::Invoke { attempt, called } => {
                assert_eq!(number, Some(attempt), "the next attempt of {task} began too soon");
                self.invoke(id, attempt, called);
            }
            FromFront::Changed if self.scenario.stages() => {
                self.tell(Input::InputsChanged { id });
                self.shadow(id).changes += 1;
            }
            FromFront::Changed => {}
            FromFront::Ended { attempt, outcome } => {
                assert_eq!(number, Some(attempt), "the next attempt of {task} began too soon");
                self.on_action_ended(id, outcome);
            }
        }
    }

    /// An action waits for a task. One whose node has been lost is unwound instead.
    fn invoke(&mut self, id: TaskId, attempt: u32, called: u32) {
        self.count("tasks invoked by actions");
        self.hub.attempts.invocations += 1;
        let invocation = InvocationId(self.hub.attempts.invocations);
        self.hub.attempts.calls.insert(invocation.0, (id.0, attempt));
        let caller = self.hub.run.attempts().acting_as(id, attempt).map(|_| id);
        self.want_invocation(invocation, vec![TaskId(called)], caller);
    }

    /// What an action has invoked is settled.
    pub(crate) fn on_called(&mut self, invocation: InvocationId, well: bool) {
        let (task, attempt) =
            self.hub.attempts.calls.remove(&invocation.0).expect("an action has invoked it");
        self.tell(Input::InvocationOver { id: invocation });
        let acts = self.hub.run.attempts().acting_as(TaskId(task), attempt);
        if let Some(acts) = acts {
            let (resumed, had_lease) = (acts.holds_lease(), acts.had_lease());
            let shadow = self.shadow(TaskId(task));
            shadow.resumed |= resumed;
            shadow.had_lease |= had_lease;
            self.say_to_front(task, ToFront::InvocationEnded { attempt, well });
        }
    }

    /// Where an attempt is to stand, if it has no lease.
    pub(crate) fn stand_in_line(&mut self, id: TaskId) {
        let attempt = self.hub.run.attempts().acting(id);
        if attempt.is_none_or(|attempt| {
            let has_place = attempt.holds_lease() || attempt.is_prepared();
            let has_place = has_place || attempt.waits_for_room() || attempt.is_suspended();
            has_place || attempt.details.aborted && !attempt.details.had_lease
        }) {
            return;
        }
        self.hub.attempts.places += 1;
        let place = self.hub.attempts.places;
        let shadow = self.shadow(id);
        if shadow.in_line.is_none() {
            shadow.in_line = Some(if shadow.had_lease { -place } else { place });
        }
    }

    fn on_action_ended(&mut self, id: TaskId, outcome: ActionOutcome) {
        if self.on_unwound(id) {
            return;
        }
        self.shadow(id).in_line = None;
        let attempt = self.hub.run.attempts().get(id).expect("its action has just ended");
        self.release_inputs(id, attempt.node());
        let ending = match outcome {
            ActionOutcome::Succeeded => ActionEnding::Succeeded { looks: self.scenario.inspects },
            _ => ActionEnding::Failed { started: self.scenario.inspects },
        };
        self.tell(Input::ActionEnded { id, ending, code: None });
    }

    /// A node is to look at the target of an attempt.
    pub(crate) fn look_at_target(&mut self, id: TaskId) {
        if !self.scenario.stages() {
            return self.later(id.0, Later::Inspected);
        }
        let attempt = self.hub.run.attempts().get(id).expect("its action has just ended");
        let (node, attempt) = (attempt.node().0, attempt.number());
        let session = self.session_of(node);
        self.send_order(node, session, Order::Look { task: id.0, attempt });
    }

    /// The front has ended an action whose node was gone; the next attempt begins, if there is one.
    pub(crate) fn on_unwound(&mut self, id: TaskId) -> bool {
        let mut effects = Vec::new();
        if self.hub.run.take_unwound(id, &mut effects).is_none() {
            return false;
        }
        self.count("actions unwound");
        for effect in effects {
            self.perform(effect);
        }
        true
    }

    pub(crate) fn on_later(&mut self, life: u64, task: u32, attempt: u32, what: &Later) {
        let id = TaskId(task);
        let current = self.hub.run.attempts().get(id).filter(|current| current.number() == attempt);
        if !self.hub.is_up() || life != self.hub.life {
            return;
        }
        match *what {
            Later::Visible => {
                if self.hub.run.attempts().acting_as(id, attempt).is_some() {
                    self.shadow(id).heeded = Some(0);
                }
                self.tell(Input::InputsReady { id, attempt });
            }
            Later::Sent { well } => self.on_sent(id, attempt, well),
            Later::Inspected => {
                if current.is_some_and(|one| *one.state() == AttemptState::Inspecting) {
                    self.finish_attempt(task, ActionOutcome::Succeeded);
                }
            }
            Later::Cleared => {
                if current.is_some_and(|one| *one.state() == AttemptState::Clearing) {
                    self.tell(Input::LeftEnded { id });
                }
            }
        }
    }

    pub(crate) fn perform_for_attempt(&mut self, effect: &AttemptEffect<u32>) {
        self.note(format_args!("{effect:?}"));
        match *effect {
            AttemptEffect::Leased { id } => self.say_to_front(id.0, ToFront::Leased),
            AttemptEffect::Start { id, command, frees_core } => {
                let start = self.start_command(id, command, true);
                self.send_to(id, Order::Start { start, frees_core });
            }
            AttemptEffect::Prepare { id, command, freed } => {
                self.count("commands prepared");
                let start = self.start_command(id, command, false);
                self.send_to(id, Order::Prepare { start, freed });
            }
            AttemptEffect::Release { node } => {
                let session = self.session_of(node.0);
                self.send_order(node.0, session, Order::Release);
            }
            AttemptEffect::Withdraw { id } => {
                self.tell_commands_of(id, |command| Order::Withdraw { command });
            }
            AttemptEffect::KeepCore { id } => {
                self.count("cores kept for other commands of an action");
                self.tell_commands_of(id, |command| Order::KeepCore { command });
            }
            AttemptEffect::Refuse { id, command, why } => {
                self.count(match why {
                    Refusal::Aborted if self.is_stopping() => "commands refused: the run ends",
                    Refusal::Aborted => "commands refused: aborted",
                    Refusal::Inputs => "commands refused: no inputs",
                    Refusal::NodeLost => "commands refused: node lost",
                });
                self.settle_command(id, command);
                self.say_to_front(id.0, ToFront::CommandEnded { command, well: false });
            }
            AttemptEffect::StageIn { id } => self.stage_inputs(id),
            AttemptEffect::ReleaseInputs { id } => self.leave_room(id),
            AttemptEffect::Abort { id } => {
                self.shadow(id).told = true;
                self.say_to_front(id.0, ToFront::Abort);
            }
            AttemptEffect::Signal { id } => {
                let own = self.commands_of(id).into_iter();
                let commands: Vec<u32> = own.map(|(command, _)| command).collect();
                self.tell(Input::CommandsToEnd { commands: &commands });
            }
            AttemptEffect::Unwind { id } => self.say_to_front(id.0, ToFront::Lost),
        }
    }

    /// A command is started, or refused: once.
    fn settle_command(&mut self, id: TaskId, command: u32) -> bool {
        let wanted = self.hub.attempts.wanted.remove(&command);
        let (task, is_last) = wanted.unwrap_or_else(|| panic!("nobody waits for {command}"));
        assert_eq!(task, id.0, "command {command} is another task's");
        is_last
    }

    /// The commands of a task, each with its node.
    fn commands_of(&self, id: TaskId) -> Vec<(u32, u32)> {
        let own = self.hub.attempts.commands.iter().filter(|(_, one)| one.task == id.0);
        own.map(|(command, one)| (*command, one.node)).collect()
    }

    fn tell_commands_of(&mut self, id: TaskId, order: impl Fn(u32) -> Order) {
        for (command, node) in self.commands_of(id) {
            let session = self.session_of(node);
            self.send_order(node, session, order(command));
        }
    }

    fn send_to(&mut self, id: TaskId, order: Order) {
        let attempt = self.hub.run.attempts().acting(id).expect("it runs");
        let node = attempt.node().0;
        let session = self.session_of(node);
        self.send_order(node, session, order);
    }

    /// A prepared command has begun.
    pub(crate) fn on_begun(&mut self, node: u32, command: u32) {
        let Some(running) = self.hub.attempts.commands.get_mut(&command) else { return };
        running.begun_ns = self.now;
        let (id, attempt) = (TaskId(running.task), running.attempt);
        if self.hub.run.attempts().acting_as(id, attempt).is_some() {
            let shadow = self.shadow(id);
            (shadow.in_line, shadow.had_lease) = (None, true);
        }
        self.count("prepared commands begun");
        self.tell(Input::CommandBegun { node: NodeId(node), id, attempt });
    }

    /// One has come back.
    pub(crate) fn on_withdrawn(&mut self, node: u32, command: u32) {
        let Some(running) = self.hub.attempts.commands.remove(&command) else { return };
        let (id, attempt) = (TaskId(running.task), running.attempt);
        let is_last = self.hub.attempts.last.remove(&command);
        self.count("prepared commands withdrawn");
        self.hub.attempts.wanted.insert(command, (id.0, is_last));
        if self.hub.run.attempts().acting_as(id, attempt).is_some_and(|one| !one.is_aborted()) {
            self.hub.attempts.places += 1;
            self.shadow(id).in_line = Some(-self.hub.attempts.places);
        }
        self.tell(Input::CommandWithdrawn { node: NodeId(node), id, attempt, command });
    }

    pub(crate) fn on_core_kept(&mut self, command: u32) {
        let Some(running) = self.hub.attempts.commands.get(&command) else { return };
        let (id, attempt) = (TaskId(running.task), running.attempt);
        self.tell(Input::CoreKept { id, attempt });
    }

    /// Starts a command. `leased`: it has its cores; else it only goes to its node, where it waits for a core.
    fn start_command(&mut self, id: TaskId, command: u32, leased: bool) -> Start {
        let is_last = self.settle_command(id, command);
        let attempt =
            self.hub.run.attempts().acting(id).expect("only actions that run start commands");
        let Shadow { changes, heeded, refused, aborted, .. } = attempt.details;
        let (task, node, number) = (id.0, attempt.node().0, attempt.number());
        assert_eq!(
            attempt.holds_lease() || attempt.is_suspended(),
            leased,
            "command {command} of {task} starts with another lease"
        );
        assert_eq!(
            heeded,
            Some(changes),
            "command {command} of {task} starts before its inputs are there"
        );
        assert!(!refused, "command {command} of {task} starts without inputs");
        let is_ended = *attempt.state() == AttemptState::Aborting
            || aborted && !attempt.had_lease() && !attempt.is_suspended();
        assert!(!is_ended, "command {command} of {task} starts after its action was told to end");
        let begun_ns = if leased { self.now } else { u64::MAX };
        if !leased {
            self.shadow(id).in_line = None;
        }
        self.shadow(id).started = true;
        let running = Running { task, attempt: number, node, begun_ns };
        self.hub.attempts.commands.insert(command, running);
        if is_last {
            self.hub.attempts.last.insert(command);
        }
        self.count("commands started");
        let (inputs, life) = (self.scenario.tasks[task as usize].inputs.clone(), self.hub.life);
        let cores = self.cores_on(task, node);
        Start { life, task, attempt: number, command, cores, is_last, inputs }
    }

    /// An agent says that a command has ended.
    pub(crate) fn on_ended(&mut self, ended: &Ended) {
        let Some(running) = self.hub.attempts.commands.remove(&ended.command) else {
            return self.refuse_old_end(ended);
        };
        let id = TaskId(ended.task);
        let attempt = running.attempt;
        if ended.freed {
            self.tell(Input::CoreFreed { node: NodeId(running.node), id, attempt });
        }
        if self.hub.run.attempts().acting_as(id, running.attempt).is_some() {
            if self.hub.attempts.last.remove(&ended.command) {
                self.shadow(id).content = ended.content;
            }
            self.tell(Input::CommandEnded { id, attempt });
            self.note_read(id);
            let waits = |one: &Attempt<Shadow, u32>| !one.gated().is_empty() && !one.holds_lease();
            if self.hub.run.attempts().acting(id).is_some_and(waits) {
                // Other commands of it wait, and another attempt has its core.
                self.stand_in_line(id);
            }
            let is_last = !self.hub.attempts.commands.values().any(|one| one.task == id.0);
            let Shadow { aborted, told, .. } = *self.shadow(id);
            assert!(!is_last || !aborted || told, "the action of {} is not aborted", id.0);
        }
        let well = ended.outcome == ActionOutcome::Succeeded;
        self.say_to_front(id.0, ToFront::CommandEnded { command: ended.command, well });
    }
}
