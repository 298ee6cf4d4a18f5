//! Attempts as the hub keeps them: what the core has no word for, and what is done for them.
//!
//! Their life is the core's (`rakuda_core::Attempts`, docs/design/attempts.md); here commands
//! become requests, and refusals messages.

pub(crate) mod inside;
pub(crate) mod state;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{AttemptEffect, Input, Refusal, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentRequest, CommandId, OutputDescriptor};
use rakuda_proto::front::{HubMessage, Usage};

use crate::hub::Hub;
use state::{FailedCommand, PendingCommand, PreparedCommand, RunningCommand};

/// Wait status of a process that SIGINT ended.
const INTERRUPTED_STATUS: i32 = libc::SIGINT;

/// Wait status of a command whose input is not to be seen: as when it cannot be started.
const UNSEEN_STATUS: i32 = 127 << 8;

/// Wait status of what was running on a node that is gone: as if it had been killed.
pub(crate) const LOST_STATUS: i32 = libc::SIGKILL;

/// How a command is handed to the agent of its node.
#[derive(Debug, Clone, Copy)]
enum Handing {
    /// It begins at once; whether its end frees its core.
    Start { frees_core: bool },
    /// It begins when a core is free; `freed`: how many freed cores of the node the hub knows of.
    Prepare { freed: u64 },
}

impl Hub {
    /// Does what an effect of attempts asks for.
    pub(crate) fn perform_for_attempt(&mut self, effect: AttemptEffect<PendingCommand>) {
        match effect {
            AttemptEffect::Leased { id } => self.link.push(&HubMessage::Leased { task: id.0 }),
            AttemptEffect::Start { id, command, frees_core } => {
                self.hand_over(Some(id), command, Handing::Start { frees_core });
            }
            AttemptEffect::Prepare { id, command, freed } => {
                self.hand_over(Some(id), command, Handing::Prepare { freed });
            }
            AttemptEffect::Release { node } => {
                self.requests.push((Some(node), AgentRequest::Release));
            }
            AttemptEffect::Withdraw { id } => {
                self.ask_of_commands(id, |command| AgentRequest::Withdraw { command });
            }
            AttemptEffect::KeepCore { id } => {
                self.ask_of_commands(id, |command| AgentRequest::KeepCore { command });
            }
            AttemptEffect::Refuse { id, command, why } => self.refuse_command(id, command, why),
            AttemptEffect::StageIn { id } => self.stage_inputs(id),
            AttemptEffect::ReleaseInputs { id } => self.leave_room(id),
            AttemptEffect::Abort { id } => {
                self.link.push(&HubMessage::AbortAction { task: id.0 });
            }
            AttemptEffect::Signal { id } => self.signal_commands_of(id),
            AttemptEffect::Unwind { id } => {
                let details = self.run.attempts().get(id).map(|attempt| &attempt.details);
                let reason = details.and_then(|details| details.lost.clone()).unwrap_or_default();
                self.link.push(&HubMessage::ActionLost { task: id.0, reason });
            }
        }
    }

    /// The code of an action wants its cores.
    pub(crate) fn want_lease(&mut self, id: TaskId) {
        self.tell(Input::LeaseWanted { id });
    }

    /// An action, or code outside of actions, wants a command started.
    pub(crate) fn want_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        let Some(id) = task else {
            if self.run.stopping().is_stopping() {
                self.leave_round_of(pending.options.as_deref());
                return self.end_stopped(pending.command);
            }
            return self.start_command(None, pending);
        };
        self.note_undeclared_inputs(id, &pending);
        self.tell(Input::CommandWanted { id, command: pending });
    }

    pub(crate) fn start_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        self.hand_over(task, pending, Handing::Start { frees_core: false });
    }

    fn ask_of_commands(&mut self, id: TaskId, request: impl Fn(CommandId) -> AgentRequest) {
        let own = self.commands.iter().filter(|(_, command)| command.task == Some(id));
        let own: Vec<_> = own.map(|(command, running)| (*command, running.node)).collect();
        for (command, node) in own {
            self.requests.push((Some(node), request(command)));
        }
    }

    /// Hands free cores to actions that wait for some, and commands to nodes far away, where they wait for a core. Not
    /// commands of rounds or of streams, nor those that get the names of other hosts. Returns whether it is to be
    /// called again.
    pub(crate) fn grant_leases(&mut self) -> bool {
        let mut effects = Vec::new();
        let streams = &self.streams;
        let may = |id, pending: &PendingCommand| {
            let is_plain = pending.options.as_ref().is_none_or(|options| options.gate.is_none());
            is_plain && streams.ends_of(id).is_none() && streams.fault_of(id).is_none()
        };
        let told = self.run.grant(self.now, may, &mut effects);
        self.perform_effects(effects);
        told
    }

    /// Hands a command to the agent of its node.
    fn hand_over(&mut self, task: Option<TaskId>, pending: PendingCommand, handing: Handing) {
        let prepared = matches!(handing, Handing::Prepare { .. })
            .then(|| Box::new(PreparedCommand { pending: pending.clone(), signals: Vec::new() }));
        let PendingCommand { command, program, mut options, echo } = pending;
        if let Some(why) = task.and_then(|id| self.streams.fault_of(id)).cloned() {
            self.leave_round_of(options.as_deref());
            let why = self.stream_failure(&why);
            self.end_unstarted(command, UNSEEN_STATUS, why);
            return self.on_not_started(task);
        }
        if let Some(ends) = task.and_then(|id| self.streams.ends_of(id)) {
            options.get_or_insert_default().streams = Some(ends);
        }
        if self.settings.enforce_memory
            && let Some(bytes) = task.and_then(|id| self.memory_wanted(id))
        {
            options.get_or_insert_default().memory_bytes_max = bytes;
        }
        let attempt = task.and_then(|id| self.run.attempts().acting(id));
        let (attempt, node) =
            attempt.map_or((0, LOCAL_NODE), |attempt| (attempt.number(), attempt.node()));
        if let Some(options) = &mut options
            && !self.prepare_worker(command, task, node, options)
        {
            return self.on_not_started(task);
        }
        let started_ns = self.now.time.0;
        let env = options.as_mut().and_then(|options| options.inside.take());
        let own = program.clone();
        let program = match &env {
            Some(env) => inside::wrapped(program, env),
            None => program,
        };
        let running = RunningCommand {
            program: own.clone(),
            env: env.clone(),
            started_ns,
            task,
            attempt,
            node,
            directory: None,
            prepared,
        };
        self.program_names.note(&program);
        self.commands.insert(command, running);
        if let Some(details) = task.and_then(|id| self.run.details_mut(id)) {
            details.begun.push(command);
        }
        let source = self.source_of(command, task);
        if self.settings.prefix
            && let Some(id) = task
        {
            self.printer.set_prefix(source, self.names.name(id));
        }
        if let Some(id) = task {
            self.name_group(id, source);
        }
        let options = self.with_hosts(task, options);
        let directory = self.directory_of(options.as_deref());
        let is_prepared = matches!(handing, Handing::Prepare { .. });
        if is_prepared || options.as_ref().is_some_and(|options| options.gate.is_some()) {
            // It is noted when it begins.
            if let Some(running) = self.commands.get_mut(&command) {
                running.directory = directory;
            }
        } else {
            self.note_command(command, task, &own, env.as_deref(), directory.as_ref());
        }
        if !is_prepared {
            self.show_echo(source, echo);
        }
        let request = match handing {
            Handing::Prepare { freed } => {
                AgentRequest::Prepare { command, program, options, freed }
            }
            Handing::Start { frees_core } => {
                if frees_core {
                    self.requests.push((Some(node), AgentRequest::FreesCore { command }));
                }
                AgentRequest::Start { command, program, options }
            }
        };
        self.requests.push((Some(node), request));
    }

    /// A command that its attempt has let start was not started after all: for the attempt it has ended.
    fn on_not_started(&mut self, task: Option<TaskId>) {
        let acting = |id| Some((id, self.run.attempts().acting(id)?.number()));
        if let Some((id, attempt)) = task.and_then(acting) {
            self.tell(Input::CommandEnded { id, attempt });
        }
    }

    fn show_echo(&mut self, source: u64, echo: Option<Text>) {
        if let Some(Text(mut line)) = echo {
            line.push(b'\n');
            self.printer.push(source, OutputDescriptor::Stderr, &line);
        }
    }

    /// A prepared command has begun at its node.
    pub(crate) fn on_command_begun(&mut self, command: CommandId) {
        let started_ns = self.now.time.0;
        let Some(running) = self.commands.get_mut(&command) else { return };
        let Some(prepared) = running.prepared.take() else { return };
        running.started_ns = started_ns;
        let (node, task, number) = (running.node, running.task, running.attempt);
        let (program, env) = (running.program.clone(), running.env.clone());
        let directory = running.directory.clone();
        self.show_echo(self.source_of(command, task), prepared.pending.echo);
        self.note_command(command, task, &program, env.as_deref(), directory.as_ref());
        for signal in prepared.signals {
            self.signal(command, signal);
        }
        if let Some(id) = task {
            self.tell(Input::CommandBegun { node, id, attempt: number });
        }
    }

    /// A prepared command has come back, and never begins on that node.
    pub(crate) fn on_command_withdrawn(&mut self, command: CommandId) {
        let Some(running) = self.commands.remove(&command) else { return };
        let (Some(id), Some(prepared)) = (running.task, running.prepared) else { return };
        if let Some(details) = self.run.details_mut(id) {
            details.begun.retain(|begun| *begun != command);
        }
        let (node, attempt) = (running.node, running.attempt);
        self.tell(Input::CommandWithdrawn { node, id, attempt, command: prepared.pending });
    }

    /// A command that runs does not free its core at its end.
    pub(crate) fn on_core_kept(&mut self, command: CommandId) {
        let Some(running) = self.commands.get(&command) else { return };
        let (Some(id), number) = (running.task, running.attempt) else { return };
        self.tell(Input::CoreKept { id, attempt: number });
    }

    /// A command has ended well, as its end says next, and another one has its core.
    pub(crate) fn on_core_freed(&mut self, command: CommandId) {
        let Some(running) = self.commands.get(&command) else { return };
        let (node, attempt) = (running.node, running.attempt);
        if let Some(id) = running.task {
            self.tell(Input::CoreFreed { node, id, attempt });
        }
    }

    fn refuse_command(&mut self, id: TaskId, pending: PendingCommand, why: Refusal) {
        let PendingCommand { command, program, options, .. } = pending;
        self.leave_round_of(options.as_deref());
        match why {
            Refusal::Aborted => self.end_stopped(command),
            Refusal::NodeLost => {
                let details = self.run.attempts().get(id).map(|attempt| &attempt.details);
                let lost = details.and_then(|details| details.lost.clone()).unwrap_or_default();
                self.end_unstarted(command, LOST_STATUS, lost);
            }
            Refusal::Inputs => {
                let Some(details) = self.run.details_mut(id) else { return };
                let why = details.unseen.clone().unwrap_or_default();
                let (status, error) = (UNSEEN_STATUS, Some(why.0.clone()));
                details.failed_command = Some(FailedCommand { program, status, error });
                self.end_unstarted(command, UNSEEN_STATUS, why);
            }
        }
    }

    /// Ends a command for the front that will not be started any more.
    pub(crate) fn end_stopped(&mut self, command: CommandId) {
        self.end_unstarted(command, INTERRUPTED_STATUS, Text::from("the run is stopping"));
    }

    /// Ends a command for the front that never ran, or whose end nothing reports.
    pub(crate) fn end_unstarted(&mut self, command: CommandId, status: i32, why: Text) {
        let usage = Usage::default();
        let ended = HubMessage::CommandEnded(command.0, status, 0, None, Some(why), usage);
        self.link.push(&ended);
    }

    /// The inputs of an attempt's commands are in place; `wrong`: why they cannot be had.
    pub(crate) fn on_inputs_seen(&mut self, id: TaskId, number: u32, wrong: Option<Text>) {
        if self.run.attempts().acting_as(id, number).is_none() {
            return;
        }
        let Some(why) = wrong else {
            self.ask_for_time(id);
            return self.tell(Input::InputsReady { id, attempt: number });
        };
        if let Some(details) = self.run.details_mut(id) {
            details.unseen = Some(why);
        }
        self.tell(Input::InputsRefused { id, attempt: number });
    }
}
