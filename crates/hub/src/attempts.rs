//! Attempts as the hub keeps them: what the core has no word for, and what is done for them.
//!
//! Their life is the core's (`rakuda_core::Attempts`, docs/design/attempts.md); here commands
//! become requests, and refusals messages.

use std::path::PathBuf;

use rakuda_core::{AttemptEffect, Attempts, NodeId, Refusal, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentRequest, CommandId, OutputStream};
use rakuda_proto::front::{CommandOptions, HubMessage, Program, Usage};
use rakuda_proto::journal::{FileIdentity, InputBytes};

use crate::failures::Tail;
use crate::hub::{Hub, LOCAL_NODE};
use crate::record::Source;

/// Wait status of a process that SIGINT ended.
const INTERRUPTED_STATUS: i32 = libc::SIGINT;
/// Wait status of a command whose input is not to be seen: as when it cannot be started.
const UNSEEN_STATUS: i32 = 127 << 8;
/// Wait status of what was running on a node that is gone: as if it had been killed.
pub(crate) const LOST_STATUS: i32 = libc::SIGKILL;

/// An attempt that has not ended.
pub(crate) type RunningAttempt = rakuda_core::Attempt<AttemptDetails, PendingCommand>;
/// All of them.
pub(crate) type RunningAttempts = Attempts<AttemptDetails, PendingCommand>;
/// What is to be done for them.
pub(crate) type Effect = AttemptEffect<PendingCommand>;

/// What the hub keeps with an attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptDetails {
    /// Where its target is, absolute: the Rakefile may move before it ends. Empty: it has none.
    pub target: PathBuf,
    /// Its target before it began; `None`: no target, or it was missing.
    pub before: Option<FileIdentity>,
    /// The end of what it printed.
    pub tail: Tail,
    /// The last of its commands that did not end well.
    pub failed_command: Option<FailedCommand>,
    /// Where its input was when it began.
    pub inputs: InputBytes,
    /// When its first command began, by the clock that its node stamps files with, ns since 1970;
    /// where nodes share no file system.
    pub began_there_ns: Option<i64>,
    /// Commands of it that have been started, until what they left behind has been ended.
    pub begun: Vec<CommandId>,
    /// Secondary files of its target, by name: sizes.
    pub secondary: Vec<(Text, u64)>,
    /// What its action said when it ended.
    pub message: Vec<u8>,
    /// Why its inputs cannot be had.
    pub unseen: Option<Text>,
    /// How its node was lost.
    pub lost: Option<Text>,
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

/// A command that did not end well.
#[derive(Debug)]
pub(crate) struct FailedCommand {
    pub program: Program,
    /// As wait(2) gives it.
    pub status: i32,
    /// Why it could not be started.
    pub error: Option<Vec<u8>>,
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    /// What it executes.
    pub program: Program,
    /// When it was handed to the agent, by the monotonic clock.
    pub started_ns: u64,
    /// Whose action asked for it.
    pub task: Option<TaskId>,
    /// Which attempt of that; 0: none.
    pub attempt: u32,
    /// Where it runs.
    pub node: NodeId,
    /// The folder in which it runs, when that is not the run's; of a command that waits at a gate.
    pub directory: Option<Text>,
}

impl RunningCommand {
    /// Whose output the record takes its output for.
    pub fn source(&self) -> Source {
        self.task.map(|id| (id.0, self.attempt))
    }
}

impl Hub {
    /// Tells the attempts something, and does what follows.
    pub(crate) fn tell_attempts(
        &mut self,
        tell: impl FnOnce(&mut RunningAttempts, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        tell(&mut self.attempts, &mut effects);
        for effect in effects {
            self.perform_for_attempt(effect);
        }
    }

    fn perform_for_attempt(&mut self, effect: Effect) {
        match effect {
            AttemptEffect::Leased { id } => self.link.push(&HubMessage::Leased { task: id.0 }),
            AttemptEffect::Start { id, command } => self.start_command(Some(id), command),
            AttemptEffect::Refuse { id, command, why } => self.refuse_command(id, command, why),
            AttemptEffect::StageIn { id } => self.stage_inputs(id),
            AttemptEffect::Abort { id } => {
                self.link.push(&HubMessage::AbortAction { task: id.0 });
            }
            AttemptEffect::Signal { id } => self.signal_commands_of(id),
            AttemptEffect::Unwind { id } => {
                let details = self.attempts.get(id).map(|attempt| &attempt.details);
                let reason = details.and_then(|details| details.lost.clone()).unwrap_or_default();
                self.link.push(&HubMessage::ActionLost { task: id.0, reason });
            }
        }
    }

    /// The code of an action wants its cores.
    pub(crate) fn want_lease(&mut self, id: TaskId) {
        self.tell_attempts(|attempts, out| attempts.want_lease(id, out));
    }

    /// An action, or code outside of actions, wants a command started.
    pub(crate) fn want_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        if self.stopping.is_stopping() {
            self.leave_round_of(pending.options.as_deref());
            self.end_stopped(pending.command);
            return;
        }
        let Some(id) = task else { return self.start_command(None, pending) };
        self.note_named(id, &pending);
        let mut left = None;
        self.tell_attempts(|attempts, out| left = attempts.want_command(id, pending, out));
        if let Some(pending) = left {
            // Of an action that has ended, a thread goes on.
            self.start_command(task, pending);
        }
    }

    /// Hands a command to the agent of its node.
    fn start_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        let PendingCommand { command, program, mut options, echo } = pending;
        if let Some(why) = task.and_then(|id| self.streams.fault_of(id)).cloned() {
            self.leave_round_of(options.as_deref());
            return self.end_unstarted(command, UNSEEN_STATUS, why);
        }
        if let Some(ends) = task.and_then(|id| self.streams.ends_of(id)) {
            options.get_or_insert_default().streams = Some(ends);
        }
        if self.settings.enforce_memory
            && let Some(bytes) = task.and_then(|id| self.memory_wanted(id))
        {
            options.get_or_insert_default().memory_bytes_max = bytes;
        }
        let attempt = task.and_then(|id| self.attempts.acting(id));
        let (attempt, node) =
            attempt.map_or((0, LOCAL_NODE), |attempt| (attempt.number(), attempt.node()));
        if let Some(options) = &mut options
            && !self.prepare_worker(command, task, node, options)
        {
            return;
        }
        let started_ns = self.now.time.0;
        let program_again = program.clone();
        let running = RunningCommand {
            program: program_again,
            started_ns,
            task,
            attempt,
            node,
            directory: None,
        };
        self.program_names.note(&program);
        self.commands.insert(command, running);
        if let Some(details) = task.and_then(|id| self.attempts.details_mut(id)) {
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
        if let Some(Text(mut line)) = echo {
            line.push(b'\n');
            self.printer.push(source, OutputStream::Stderr, &line);
        }
        let options = self.with_hosts(task, options);
        let directory = self.directory_of(options.as_deref());
        if options.as_ref().is_some_and(|options| options.gate.is_some()) {
            // It is noted when it begins.
            if let Some(running) = self.commands.get_mut(&command) {
                running.directory = directory;
            }
        } else {
            self.note_command(command, task, &program, directory.as_ref());
        }
        self.requests.push((Some(node), AgentRequest::Start { command, program, options }));
    }

    fn refuse_command(&mut self, id: TaskId, pending: PendingCommand, why: Refusal) {
        let PendingCommand { command, program, options, .. } = pending;
        self.leave_round_of(options.as_deref());
        match why {
            Refusal::Aborted => self.end_stopped(command),
            Refusal::NodeLost => {
                let details = self.attempts.get(id).map(|attempt| &attempt.details);
                let lost = details.and_then(|details| details.lost.clone()).unwrap_or_default();
                self.end_unstarted(command, LOST_STATUS, lost);
            }
            Refusal::Inputs => {
                let Some(details) = self.attempts.details_mut(id) else { return };
                let why = details.unseen.clone().unwrap_or_default();
                let (status, error) = (UNSEEN_STATUS, Some(why.0.clone()));
                details.failed_command = Some(FailedCommand { program, status, error });
                self.end_unstarted(command, UNSEEN_STATUS, why);
            }
        }
    }

    /// The front asked for a command that will not be started any more.
    fn end_stopped(&mut self, command: CommandId) {
        self.end_unstarted(command, INTERRUPTED_STATUS, Text::from("the run is stopping"));
    }

    /// For the front a command has ended that never ran, or whose end nobody tells.
    pub(crate) fn end_unstarted(&mut self, command: CommandId, status: i32, why: Text) {
        let usage = Usage::default();
        let ended = HubMessage::CommandEnded(command.0, status, 0, None, Some(why), usage);
        self.link.push(&ended);
    }

    /// What the commands of an attempt read is in place; or why it cannot be had.
    pub(crate) fn on_inputs_seen(&mut self, id: TaskId, number: u32, wrong: Option<Text>) {
        if self.attempts.acting_as(id, number).is_none() {
            return;
        }
        let Some(why) = wrong else {
            self.ask_for_time(id);
            return self.tell_attempts(|attempts, out| attempts.inputs_ready(id, number, out));
        };
        if let Some(details) = self.attempts.details_mut(id) {
            details.unseen = Some(why);
        }
        self.tell_attempts(|attempts, out| attempts.inputs_refused(id, number, out));
    }
}
