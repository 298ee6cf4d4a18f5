//! What the front and the agent report, turned into events of the core.

use rakuda_agent::clock;
use rakuda_core::{
    ActionOutcome as CoreOutcome, Event, InvocationId, Places, RequirementId, TaskId, TaskKind,
    Timestamp,
};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputStream};
use rakuda_proto::front::{
    ActionOutcome, FrontMessage, HubMessage, RequirementDefinition, TaskDefinition, Usage,
    task_flags,
};

use crate::HubError;
use crate::facts;
use crate::hub::{Hub, LOCAL_NODE, PendingCommand, RunningAttempt, RunningCommand};
use crate::leases::Leases;
use crate::printer::OutputMode;
use crate::record::JournalEvent;
use crate::requirements::requirement_of;
use crate::targets::{Settled, settle_target};

/// Wait status of a process that SIGINT ended.
const INTERRUPTED_STATUS: i32 = libc::SIGINT;
/// Sources of the printer: tasks count from 0, commands from here.
const COMMAND_SOURCES: u64 = 1 << 32;

impl Hub {
    /// Handles one message of the front.
    pub(crate) fn on_message(&mut self, message: FrontMessage) -> Result<(), HubError> {
        match message {
            FrontMessage::Hello(..) => return Err(HubError::Protocol("Hello came twice")),
            FrontMessage::DefineRequirement(id, definition) => {
                self.define_requirement(id, &definition);
            }
            FrontMessage::DefineTasks { tasks } => {
                for task in tasks {
                    self.define_task(&task)?;
                }
            }
            FrontMessage::AddPrerequisites(task, prerequisites, flags) => {
                self.gather_facts();
                let prerequisites: Vec<_> = prerequisites.into_iter().map(TaskId).collect();
                self.event(Event::PrerequisitesAdded {
                    id: self.known(task)?,
                    prerequisites: &prerequisites,
                    has_action: flags & task_flags::HAS_ACTION != 0,
                });
            }
            FrontMessage::Invoke(invocation, tasks, caller) => {
                self.gather_facts();
                let tasks: Vec<_> =
                    tasks.into_iter().map(|task| self.known(task)).collect::<Result<_, _>>()?;
                let caller = caller.map(|task| self.known(task)).transpose()?;
                let id = InvocationId(invocation);
                if let Some(caller) = caller {
                    self.suspend_caller(id, caller);
                }
                self.event(Event::InvocationStarted { id, tasks: &tasks, caller });
            }
            FrontMessage::ActionEnded(task, outcome, _) => {
                self.on_action_ended(self.known(task)?, outcome);
            }
            FrontMessage::AskAfter { task } => {
                let id = self.known(task)?;
                if self.running.contains_key(&id) {
                    self.event(Event::KindChanged { id, kind: TaskKind::Asked });
                }
            }
            FrontMessage::NeededAnswered(task, needed, (class, ns)) => {
                let timestamp = match class {
                    0 => Timestamp::Early,
                    1 => Timestamp::At(ns),
                    2 => Timestamp::Late,
                    _ => Timestamp::Now,
                };
                self.event(Event::NeededAnswered { id: self.known(task)?, needed, timestamp });
            }
            FrontMessage::Resolved(task, found) => {
                self.gather_facts();
                self.event(Event::ResolveEnded { id: self.known(task)?, found });
            }
            FrontMessage::DefineEnvironment(environment, set, unset) => {
                self.agents.handle_all(&AgentRequest::DefineEnvironment {
                    environment,
                    set,
                    unset,
                });
            }
            FrontMessage::ForgetEnvironments { below } => {
                self.environments_below = self.environments_below.max(Some(below));
            }
            FrontMessage::ChangeDirectory { directory } => self.change_directory(directory),
            FrontMessage::StartCommand(command, task, program, options, echo) => {
                let task = task.map(|task| self.known(task)).transpose()?;
                let command = CommandId(command);
                self.start_command(task, PendingCommand { command, program, options, echo });
            }
            FrontMessage::WantLease { task } => self.want_lease(self.known(task)?),
            FrontMessage::WriteOutput(task, descriptor, Text(bytes)) => {
                let stream =
                    if descriptor == 2 { OutputStream::Stderr } else { OutputStream::Stdout };
                let source = task.map_or(COMMAND_SOURCES - 1, u64::from);
                if self.settings.prefix
                    && let Some(id) = task.map(|task| self.known(task)).transpose()?
                {
                    self.printer.set_prefix(source, self.names.name(id));
                }
                self.printer.push(source, stream, &bytes);
                if task.is_none() {
                    self.printer.end(source);
                }
            }
            FrontMessage::SignalCommand(command, signal) => {
                self.signal(CommandId(command), signal);
            }
            FrontMessage::Stop { how } => self.stop(how),
            FrontMessage::Goodbye {} => self.goodbye = true,
        }
        Ok(())
    }

    fn known(&self, task: u32) -> Result<TaskId, HubError> {
        if (task as usize) < self.names.len() {
            Ok(TaskId(task))
        } else {
            Err(HubError::Protocol("a task was named before it was defined"))
        }
    }

    fn define_requirement(&mut self, id: u32, definition: &RequirementDefinition) {
        let (requirement, warnings) =
            requirement_of(definition, &self.settings.resources, &self.settings.capacity);
        for warning in warnings {
            self.warn(&warning);
        }
        let all_cores = self.settings.capacity.cores;
        self.requirement_cores.push(if requirement.exclusive {
            all_cores
        } else {
            requirement.cores
        });
        let simple = requirement.cores == 1
            && !requirement.exclusive
            && requirement.memory_bytes == 0
            && requirement.resources.is_empty();
        if !simple {
            self.leases.iter_mut().for_each(Leases::disable);
        }
        self.event(Event::RequirementDefined { id: RequirementId(id), requirement });
    }

    fn define_task(&mut self, task: &TaskDefinition) -> Result<(), HubError> {
        let (number, kind, flags, Text(name), requirement, prerequisites) = task;
        if *number as usize != self.names.len() || prerequisites.iter().any(|p| p >= number) {
            return Err(HubError::Protocol("tasks are to be defined in order"));
        }
        let id = TaskId(*number);
        let kind = match kind {
            0 => TaskKind::Plain,
            1 => TaskKind::File,
            2 => TaskKind::Directory,
            _ => TaskKind::Asked,
        };
        let is_path = matches!(kind, TaskKind::File | TaskKind::Directory);
        if *requirement as usize >= self.requirement_cores.len() {
            return Err(HubError::Protocol("a requirement was named before it was defined"));
        }
        self.names.push(name, is_path);
        self.requirement_of.push(*requirement);
        if is_path {
            self.facts_wanted.push(id);
        }
        let prerequisites: Vec<_> = prerequisites.iter().copied().map(TaskId).collect();
        self.event(Event::TaskDefined {
            id,
            kind,
            has_action: flags & task_flags::HAS_ACTION != 0,
            deferred: flags & task_flags::DEFERRED != 0,
            requirement: RequirementId(*requirement),
            prerequisites: &prerequisites,
        });
        Ok(())
    }

    /// Looks at all files of tasks defined since the last time.
    fn gather_facts(&mut self) {
        if self.facts_wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.facts_wanted);
        for (id, mut fact) in facts::gather(&self.names, &wanted, &self.settings.directory) {
            if self.record.is_unfinished(self.names.name(id)) {
                fact = facts::fact_of(None, Places::Unknown);
            }
            self.event(Event::FactGathered { id, fact });
        }
    }

    fn on_action_ended(&mut self, id: TaskId, outcome: ActionOutcome) {
        let Some(attempt) = self.running.remove(&id) else { return };
        self.leases[attempt.node.0 as usize].end(id, true, clock::monotonic_ns());
        let ok = outcome == ActionOutcome::Ok;
        let given_back = attempt.given_back && !ok;
        if self.names.is_path(id) {
            if ok {
                self.record.mark_finished(self.names.name(id));
            } else if !self.settings.config.dry_run {
                let settled = self.settle_attempt(id, &attempt);
                let name = String::from_utf8_lossy(self.names.name(id));
                if let Some(line) = settled.describe(&name) {
                    self.warn(&line);
                }
            }
        }
        self.record.push(&JournalEvent::AttemptEnded { time_ns: clock::wall_ns(), task: id.0, ok });
        if self.settings.output == OutputMode::Task {
            self.printer.end(u64::from(id.0));
        }
        let outcome = match outcome {
            _ if given_back => CoreOutcome::GivenBack,
            ActionOutcome::Ok => CoreOutcome::Succeeded,
            ActionOutcome::Failed => CoreOutcome::Failed,
            ActionOutcome::Exit => CoreOutcome::Exited,
        };
        self.event(Event::ActionEnded { id, outcome });
    }

    /// Does with the target of an attempt that did not end well what FAILED_TARGET says.
    pub(crate) fn settle_attempt(&mut self, id: TaskId, attempt: &RunningAttempt) -> Settled {
        let policy = self.settings.failed_target;
        let settled = settle_target(&attempt.target, attempt.before, policy);
        if settled.still_there() {
            self.record.mark_unfinished(self.names.name(id));
        }
        settled
    }

    /// The Rakefile has moved: relative names start elsewhere from now on.
    fn change_directory(&mut self, directory: Text) {
        // Where it cannot be entered, each command and fact says so for itself.
        let _ = std::env::set_current_dir(directory.as_path());
        self.settings.directory = directory.as_path().to_path_buf();
        self.moved = true;
        self.agents.handle_all(&AgentRequest::ChangeDirectory { directory });
    }

    fn want_lease(&mut self, id: TaskId) {
        let Some(attempt) = self.running.get_mut(&id) else {
            return;
        };
        if attempt.suspended > 0 || self.leases[attempt.node.0 as usize].holds(id) {
            self.link.push(&HubMessage::Leased { task: id.0 });
        } else {
            attempt.lease_wanted = true;
            self.stand_in_line(id);
        }
    }

    fn stand_in_line(&mut self, id: TaskId) {
        let cores = self.cores_of(id);
        let Some(attempt) = self.running.get_mut(&id) else { return };
        if !std::mem::replace(&mut attempt.in_line, true) {
            self.leases[attempt.node.0 as usize].want(id, cores, attempt.had_lease);
        }
    }

    /// Starts a command, or holds it back until its action has a lease.
    fn start_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        if self.stopping.is_stopping() {
            self.refuse_command(pending.command);
            return;
        }
        if let Some(id) = task
            && let Some(attempt) = self.running.get_mut(&id)
            && attempt.suspended == 0
            && !self.leases[attempt.node.0 as usize].holds(id)
        {
            attempt.held_back.push(pending);
            self.stand_in_line(id);
        } else {
            self.start_pending(task, pending);
        }
    }

    /// The front asked for a command that will not be started any more.
    pub(crate) fn refuse_command(&mut self, command: CommandId) {
        self.link.push(&HubMessage::CommandEnded(
            command.0,
            INTERRUPTED_STATUS,
            0,
            None,
            Some(Text::from("the run is stopping")),
            Usage::default(),
        ));
    }

    /// Starts a command now.
    pub(crate) fn start_pending(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        let PendingCommand { command, program, options, echo } = pending;
        let mut node = LOCAL_NODE;
        if let Some(attempt) = task.and_then(|id| self.running.get_mut(&id)) {
            attempt.commands += 1;
            node = attempt.node;
        }
        self.commands.insert(command, RunningCommand { task, node });
        let source = self.source_of(command, task);
        if self.settings.prefix
            && let Some(id) = task
        {
            self.printer.set_prefix(source, self.names.name(id));
        }
        if let Some(Text(mut line)) = echo {
            line.push(b'\n');
            self.printer.push(source, OutputStream::Stderr, &line);
        }
        self.agents.handle(node, AgentRequest::Start { command, program, options });
    }

    fn source_of(&self, command: CommandId, task: Option<TaskId>) -> u64 {
        match task {
            Some(id) if self.settings.output == OutputMode::Task => u64::from(id.0),
            _ => COMMAND_SOURCES + u64::from(command.0),
        }
    }

    /// Handles one report of the agent.
    pub(crate) fn on_agent_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::OutputWritten { command, stream, bytes } => {
                let running = self.commands.get(&command).map(|command| command.task);
                let task = running.or_else(|| self.left_over.get(&command).copied()).flatten();
                let source = self.source_of(command, task);
                self.printer.push(source, stream, &bytes);
            }
            AgentEvent::OutputEnded { command } => {
                let task = self.left_over.remove(&command).flatten();
                self.printer.end(self.source_of(command, task));
            }
            AgentEvent::CommandExited {
                command,
                status,
                process,
                captured,
                error,
                usage,
                lingers,
            } => {
                let task = self.commands.remove(&command).and_then(|command| command.task);
                self.flush_urgent |= status != 0;
                if lingers {
                    self.left_over.insert(command, task);
                } else if self.settings.output != OutputMode::Task || task.is_none() {
                    self.printer.end(COMMAND_SOURCES + u64::from(command.0));
                }
                self.link.push(&HubMessage::CommandEnded(
                    command.0, status, process, captured, error, usage,
                ));
                if let Some(id) = task {
                    self.on_command_of_task_ended(id);
                }
            }
        }
    }

    fn on_command_of_task_ended(&mut self, id: TaskId) {
        let Some(attempt) = self.running.get_mut(&id) else {
            return;
        };
        attempt.commands = attempt.commands.saturating_sub(1);
        if attempt.commands == 0 {
            self.leases[attempt.node.0 as usize].pass_on(id, clock::monotonic_ns());
        }
        if attempt.abort_pending && attempt.commands == 0 {
            attempt.abort_pending = false;
            self.link.push(&HubMessage::AbortAction { task: id.0 });
        }
    }
}
