//! What the front and the agent report, turned into events of the core.

use std::path::PathBuf;

use rakuda_agent::clock;
use rakuda_core::{
    ActionOutcome as CoreOutcome, Event, InvocationId, Output, Places, RuleId, TaskId, TaskKind,
    Timestamp,
};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputStream};
use rakuda_proto::front::{
    ActionOutcome, FrontMessage, HubMessage, RequirementDefinition, StopHow, TaskDefinition, Usage,
    task_flags,
};
use rakuda_proto::journal::FileIdentity;
use rakuda_record::folder::FOLDER;

use crate::HubError;
use crate::core_time::{Held, Now, total_ns};
use crate::facts::{self, identity_of};
use crate::failed_files::FailedFiles;
use crate::hub::{FailedCommand, Hub, LOCAL_NODE, PendingCommand, RunningAttempt, RunningCommand};
use crate::leases::Leases;
use crate::notes::{AttemptNote, outcome_of};
use crate::printer::OutputMode;
use crate::progress::ProgressMode;
use crate::questions::Sight;
use crate::requirements::{Shortage, allowed_nodes, requirement_of};
use crate::targets::{Settled, settle_target};

/// Wait status of a process that SIGINT ended.
const INTERRUPTED_STATUS: i32 = libc::SIGINT;
/// Wait status of a command whose input is not to be seen: as when it cannot be started.
const UNSEEN_STATUS: i32 = 127 << 8;
/// Why an action has failed that ended well without its target, where that counts.
const NOT_MADE: &str = "its action ended well but did not make it (--strict)";
/// Sources of the printer: tasks count from 0, commands from here.
const COMMAND_SOURCES: u64 = 1 << 32;

impl Hub {
    /// Handles one message of the front.
    pub(crate) fn on_message(&mut self, message: FrontMessage) -> Result<(), HubError> {
        // Whatever else the front wants may rest on what it wanted before.
        self.release_invocation();
        self.front_stuck = None;
        match message {
            FrontMessage::Hello(..) => return Err(HubError::Protocol("Hello came twice")),
            FrontMessage::DefineRequirement(id, definition) => {
                if id as usize != self.requirement_cores.len() {
                    return Err(HubError::Protocol("requirements are to be defined in order"));
                }
                self.define_requirement(&definition);
            }
            FrontMessage::DefineRule(number, location, text) => {
                self.define_rule(number, &location, text.as_ref())?;
            }
            FrontMessage::DefineTasks { tasks } => {
                tasks.iter().try_for_each(|task| self.define_task(task))?;
            }
            FrontMessage::AddPrerequisites(task, prerequisites, flags) => {
                self.gather_facts();
                let prerequisites: Vec<_> = prerequisites.into_iter().map(TaskId).collect();
                let id = self.known(task)?;
                self.event(Event::PrerequisitesAdded {
                    id,
                    prerequisites: &prerequisites,
                    has_action: flags & task_flags::HAS_ACTION != 0,
                });
                self.want_added(id, &prerequisites);
            }
            FrontMessage::Invoke(invocation, tasks, caller) => {
                self.gather_facts();
                let tasks: Vec<_> =
                    tasks.into_iter().map(|task| self.known(task)).collect::<Result<_, _>>()?;
                let caller = caller.map(|task| self.known(task)).transpose()?;
                let caller = caller.filter(|id| !self.unwindings.contains(*id));
                self.invoke_located(InvocationId(invocation), tasks, caller);
            }
            FrontMessage::ActionEnded(task, outcome, Text(message), ran) => {
                let id = self.known(task)?;
                self.count_code(id, ran);
                self.end_action(id, outcome, &message);
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
                let request = AgentRequest::DefineEnvironment { environment, set, unset };
                self.requests.push((None, request));
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
                self.write_output(task, descriptor, &bytes)?;
            }
            FrontMessage::HoldDisplay { held } => self.hold_display(held),
            FrontMessage::SignalCommand(command, signal) => {
                self.signal(CommandId(command), signal);
            }
            FrontMessage::DescribeCommands(task, commands) => {
                let id = self.known(task)?;
                if let Some(rerun) = &mut self.rerun {
                    rerun.describe(id, commands);
                }
            }
            message @ (FrontMessage::FetchFile(..)
            | FrontMessage::LookForFile(..)
            | FrontMessage::ChangeFile(..)
            | FrontMessage::FileWritten(..)) => self.on_file_named(message)?,
            FrontMessage::Stuck { turn } => self.front_stuck = Some(turn),
            FrontMessage::DescribePlan { format } => self.describe_plan(&format),
            FrontMessage::Stop { how } => self.stop_for_user(how),
            FrontMessage::Goodbye { failed } => {
                self.goodbye = true;
                self.front_failed = failed;
            }
        }
        Ok(())
    }

    /// These tasks are wanted now.
    pub(crate) fn invoke(&mut self, id: InvocationId, tasks: &[TaskId], caller: Option<TaskId>) {
        self.progress.start();
        if let Some(caller) = caller {
            self.suspend_caller(id, caller);
        }
        self.note_invocation(id, tasks, caller);
        self.want_home(tasks, caller.is_some());
        self.event(Event::InvocationStarted { id, tasks, caller });
    }

    /// What an action printed itself.
    fn write_output(
        &mut self,
        task: Option<u32>,
        descriptor: u8,
        bytes: &[u8],
    ) -> Result<(), HubError> {
        let stream = if descriptor == 2 { OutputStream::Stderr } else { OutputStream::Stdout };
        let source = task.map_or(COMMAND_SOURCES - 1, u64::from);
        let attempt = task.and_then(|task| self.running.get_mut(&TaskId(task)));
        if let Some(attempt) = attempt {
            attempt.tail.push(bytes);
        }
        if self.settings.prefix
            && let Some(id) = task.map(|task| self.known(task)).transpose()?
        {
            self.printer.set_prefix(source, self.names.name(id));
        }
        self.printer.push(source, stream, bytes);
        if task.is_none() {
            self.printer.end(source);
        }
        Ok(())
    }

    /// The front needs the terminal, or gives it back. What was printed before is written before the answer is sent.
    fn hold_display(&mut self, held: bool) {
        if held {
            self.progress.holds += 1;
            self.link.push(&HubMessage::DisplayHeld {});
            self.flush_urgent = true;
        } else {
            self.progress.holds = self.progress.holds.saturating_sub(1);
        }
    }

    pub(crate) fn known(&self, task: u32) -> Result<TaskId, HubError> {
        if (task as usize) < self.names.len() {
            Ok(TaskId(task))
        } else {
            Err(HubError::Protocol("a task was named before it was defined"))
        }
    }

    fn define_requirement(&mut self, definition: &RequirementDefinition) {
        let alone = self.settings.cluster.is_none();
        let capacity = alone.then_some(&self.settings.capacity);
        let counts = &self.settings.capacity.resources;
        let (mut requirement, shortages) =
            requirement_of(definition, &self.settings.resources, counts, capacity);
        if !alone {
            let names = self.agents.places().map(|(id, place)| (id, place.node.name.to_display()));
            requirement.allowed_nodes = allowed_nodes(definition, names);
            if requirement.allowed_nodes.is_some() {
                self.newcomers.note_choosy(self.times.front_requirements(), definition);
            }
        }
        for Shortage { text, refused } in shortages {
            if refused {
                self.refuse_needs(&text);
            } else {
                self.warn(&text);
            }
        }
        // Of the node that it runs on, see `cores_on`.
        let cores = if requirement.exclusive { u32::MAX } else { requirement.cores };
        self.requirement_cores.push(cores);
        let simple = requirement.cores == 1
            && !requirement.exclusive
            && requirement.memory_bytes == 0
            && requirement.resources.is_empty();
        if !simple {
            self.lookahead_off = true;
            self.leases.iter_mut().for_each(Leases::disable);
        }
        self.add_requirement(requirement);
    }

    /// The user has asked for what is not there: nothing more is started, and the front says so.
    fn refuse_needs(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.needs_refused, true) {
            self.link.push(&HubMessage::NeedsRefused { reason: Text::from(reason) });
            self.flush_urgent = true;
            self.any_failed = true;
            self.stop(StopHow::Interrupt);
        }
    }

    fn define_rule(
        &mut self,
        number: u32,
        location: &Text,
        text: Option<&Text>,
    ) -> Result<(), HubError> {
        if number as usize != self.record.rules_len() + 1 {
            return Err(HubError::Protocol("rules are to be defined in order"));
        }
        self.record.add_rule(location, text);
        Ok(())
    }

    fn define_task(&mut self, task: &TaskDefinition) -> Result<(), HubError> {
        let (number, kind, flags, Text(name), requirement, prerequisites, rule) = task;
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
        if *rule as usize > self.record.rules_len() {
            return Err(HubError::Protocol("a rule was named before it was defined"));
        }
        self.names.push(name, is_path);
        self.record.add_task(*rule);
        self.requirement_of.push(*requirement);
        if self.settings.config.dry_run && flags & task_flags::OWN_WAY != 0 {
            self.own_way.insert(id);
        }
        if is_path {
            self.facts_wanted.push(id);
        }
        let prerequisites: Vec<_> = prerequisites.iter().copied().map(TaskId).collect();
        let (requirement, run_ns) = self.requirement_for(id, *requirement);
        self.event(Event::TaskDefined {
            id,
            kind,
            has_action: flags & task_flags::HAS_ACTION != 0,
            deferred: flags & task_flags::DEFERRED != 0,
            requirement,
            prerequisites: &prerequisites,
        });
        if let Some(run_ns) = run_ns {
            self.event(Event::TimeExpected { id, run_ns });
        }
        self.event(Event::RuleGiven { id, rule: RuleId(*rule) });
        Ok(())
    }

    /// Looks at all files of tasks defined since the last time.
    fn gather_facts(&mut self) {
        if self.facts_wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.facts_wanted);
        self.doubt_targets(&wanted);
        for (id, mut fact) in facts::gather(&self.names, &wanted, &self.directory_now()) {
            if self.is_unfinished(self.names.name(id)) {
                fact = facts::fact_of(None, Places::Unknown);
            }
            self.place_here(id, &mut fact);
            self.event(Event::FactGathered { id, fact });
        }
        self.note_files_here(&wanted);
        self.note_gathered(&wanted);
        self.read_last_records(&wanted);
    }

    /// An action that is about to end began without a lease and never wanted one: its code ran at this time.
    fn count_code(&mut self, id: TaskId, ran: Option<Held>) {
        if let Some((from_ns, to_ns)) = ran
            && let Some(attempt) = self.running.get_mut(&id).filter(|attempt| !attempt.had_lease)
        {
            let ran = (from_ns.max(attempt.began_ns), to_ns.min(clock::wall_ns()));
            attempt.held.extend(self.leases[attempt.node.0 as usize].claim(ran));
        }
    }

    pub(crate) fn on_action_ended(&mut self, id: TaskId, outcome: ActionOutcome, message: &[u8]) {
        if self.on_unwound(id) {
            return;
        }
        let Some(mut attempt) = self.running.remove(&id) else { return };
        attempt.held.extend(self.leases[attempt.node.0 as usize].end(id, true, Now::read()));
        self.release_inputs(id, attempt.node);
        self.pump_transfers();
        let attempt = match outcome {
            ActionOutcome::Ok => self.ask_about_target(id, attempt, message),
            ActionOutcome::Failed => self.hold_failure(id, attempt, outcome, message),
            ActionOutcome::Exit => Some(attempt),
        };
        // The machine of the hub has no need to ask.
        let Some(attempt) = attempt else { return };
        let looks =
            outcome == ActionOutcome::Ok && self.names.is_path(id) && !self.settings.config.dry_run;
        let target = || self.record.project().find(&attempt.target);
        let seen = if looks { identity_of(&target()) } else { None };
        self.finish_action(id, &attempt, outcome, message, seen);
    }

    /// An action has ended, and what its target is then is known: `seen`, where it ended well.
    pub(crate) fn finish_action(
        &mut self,
        id: TaskId,
        attempt: &RunningAttempt,
        outcome: ActionOutcome,
        message: &[u8],
        seen: Option<FileIdentity>,
    ) {
        let given_back = attempt.given_back && outcome != ActionOutcome::Ok;
        let (outcome, message) = self.judge(id, outcome, message, seen);
        let ok = outcome == ActionOutcome::Ok;
        let mut settled = Settled::Untouched;
        let mut after = None;
        if self.names.is_path(id) && !self.settings.config.dry_run {
            if ok {
                self.record.mark_finished(self.names.name(id));
                after = seen;
                if seen.is_some() {
                    self.note_made(id);
                    let root = self.start_directory.join(FOLDER);
                    self.failed_files().on_made(&root, &attempt.target);
                }
                self.note_here(id, seen);
                let made_there = attempt.ran || self.staging.is_some();
                let place = if made_there { attempt.node } else { LOCAL_NODE };
                self.inputs.set_made(id, place, after);
                // The scheduler is about to ask for it.
                self.just_seen = (!self.moved).then_some((id, after));
            } else {
                settled = self.settle_attempt(id, attempt);
                self.put_away_there(id, attempt);
                let name = String::from_utf8_lossy(self.names.name(id));
                if let Some(line) = settled.describe(&name) {
                    self.warn(&line);
                }
            }
        }
        if ok {
            self.agents.place_mut(attempt.node).done += 1;
            self.failures.on_success(id);
            self.learn_duration(id, total_ns(&attempt.held));
        } else if !given_back {
            self.note_failure(id, attempt, message, Some(&settled));
        }
        if self.settings.output == OutputMode::Task || self.settings.progress == ProgressMode::Live
        {
            self.printer.end(u64::from(id.0));
        }
        let core_outcome = match outcome {
            _ if given_back => CoreOutcome::GivenBack,
            ActionOutcome::Ok => CoreOutcome::Succeeded,
            ActionOutcome::Failed => CoreOutcome::Failed,
            ActionOutcome::Exit => CoreOutcome::Exited,
        };
        let before = self.outputs.len();
        let run_ns = Some(total_ns(&attempt.held));
        let attempt_number = attempt.attempt;
        self.event(Event::ActionEnded {
            id,
            attempt: attempt_number,
            outcome: core_outcome,
            run_ns,
        });
        let retried = self.outputs.iter().skip(before).any(|output| {
            matches!(output, Output::AttemptFailed { id: failed, retried: true, .. } if *failed == id)
        });
        let outcome = outcome_of(outcome, attempt);
        let note = AttemptNote { outcome, message, retried, after, settled };
        self.note_attempt_ended(id, attempt, &note);
    }

    /// With `--strict` an action has failed that ended well without its target.
    fn judge<'a>(
        &mut self,
        id: TaskId,
        outcome: ActionOutcome,
        message: &'a [u8],
        seen: Option<FileIdentity>,
    ) -> (ActionOutcome, &'a [u8]) {
        let ended_well = outcome == ActionOutcome::Ok;
        if !self.settings.strict || !ended_well || seen.is_some() || !self.names.is_path(id) {
            return (outcome, message);
        }
        let reason = format!("task {}: {NOT_MADE}", self.display_name(id));
        self.link.push(&HubMessage::TargetNotMade { task: id.0, reason: Text::from(reason) });
        (ActionOutcome::Failed, NOT_MADE.as_bytes())
    }

    /// Where relative names start, wherever that folder is now.
    pub(crate) fn directory_now(&self) -> PathBuf {
        self.record.project().find(&self.settings.directory)
    }

    /// Does with the target of an attempt that did not end well what FAILED_TARGET says.
    pub(crate) fn settle_attempt(&mut self, id: TaskId, attempt: &RunningAttempt) -> Settled {
        let policy = self.settings.failed_target;
        let target = self.record.project().find(&attempt.target);
        let settled = settle_target(&target, attempt.before, policy);
        if matches!(settled, Settled::Renamed) && self.settings.record {
            let root = self.record.project().find(&self.start_directory).join(FOLDER);
            self.failed_files().note(&root, &target);
        }
        if settled.still_there() {
            self.record.mark_unfinished(self.names.name(id));
        }
        settled
    }

    /// What runs have left of targets under other names; none is known without a record.
    fn failed_files(&mut self) -> &mut FailedFiles {
        let root = self.start_directory.join(FOLDER);
        let recorded = self.settings.record;
        self.failed_files.get_or_insert_with(|| {
            if recorded { FailedFiles::read(&root) } else { FailedFiles::default() }
        })
    }

    /// The Rakefile has moved: relative names start elsewhere from now on.
    fn change_directory(&mut self, directory: Text) {
        // Where it cannot be entered, each command and fact says so for itself.
        let _ = std::env::set_current_dir(directory.as_path());
        self.settings.directory = directory.as_path().to_path_buf();
        self.moved = true;
        self.requests.push((None, AgentRequest::ChangeDirectory { directory }));
    }

    fn want_lease(&mut self, id: TaskId) {
        if self.unwindings.contains(id) {
            // Nothing is kept from the end of an action that nobody waits for.
            self.link.push(&HubMessage::Leased { task: id.0 });
            return;
        }
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
        let Some(node) = self.running.get(&id).map(|attempt| attempt.node) else { return };
        let cores = self.cores_on(id, node);
        let Some(attempt) = self.running.get_mut(&id) else { return };
        if !std::mem::replace(&mut attempt.in_line, true) {
            self.leases[attempt.node.0 as usize].want(id, cores, attempt.had_lease);
        }
    }

    /// Starts a command, or holds it back until its action has a lease.
    fn start_command(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        if self.stopping.is_stopping() || task.is_some_and(|id| self.unwindings.contains(id)) {
            self.refuse_command(pending.command);
            return;
        }
        if let Some(id) = task {
            self.note_named(id, &pending);
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
        let why = Text::from("the run is stopping");
        self.end_unstarted(command, INTERRUPTED_STATUS, why);
    }

    fn end_unstarted(&mut self, command: CommandId, status: i32, why: Text) {
        let usage = Usage::default();
        let ended = HubMessage::CommandEnded(command.0, status, 0, None, Some(why), usage);
        self.link.push(&ended);
    }

    /// Keeps a command of a task until its node sees the inputs, or ends it when that never comes; gives it back when it may start.
    fn hold_for_sight(
        &mut self,
        task: Option<TaskId>,
        pending: PendingCommand,
    ) -> Option<PendingCommand> {
        let has_written = task.is_some_and(|id| self.has_written(id));
        let attempt = task.and_then(|id| self.running.get_mut(&id));
        let Some(attempt) = attempt else { return Some(pending) };
        if has_written && matches!(attempt.sight, Sight::Clear) {
            attempt.held_back.push(pending);
            self.stage_inputs(task?);
            return None;
        }
        match &attempt.sight {
            Sight::Clear => Some(pending),
            Sight::Unstaged => {
                attempt.held_back.push(pending);
                if let Some(id) = task {
                    self.stage_inputs(id);
                }
                None
            }
            Sight::Asked => {
                attempt.held_back.push(pending);
                None
            }
            Sight::Wrong(why) => {
                let why = why.clone();
                attempt.failed_command = Some(FailedCommand {
                    program: pending.program,
                    status: UNSEEN_STATUS,
                    error: Some(why.0.clone()),
                });
                self.end_unstarted(pending.command, UNSEEN_STATUS, why);
                None
            }
        }
    }

    /// Starts a command now.
    pub(crate) fn start_pending(&mut self, task: Option<TaskId>, pending: PendingCommand) {
        let Some(pending) = self.hold_for_sight(task, pending) else { return };
        let PendingCommand { command, program, options, echo } = pending;
        let (mut attempt_number, mut node) = (0, LOCAL_NODE);
        if let Some(attempt) = task.and_then(|id| self.running.get_mut(&id)) {
            attempt.commands += 1;
            attempt.ran = true;
            attempt_number = attempt.attempt;
            node = attempt.node;
        }
        let running = RunningCommand {
            program: program.clone(),
            started_ns: clock::monotonic_ns(),
            task,
            attempt: attempt_number,
            node,
        };
        self.commands.insert(command, running);
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
        self.note_command(command, task, &program, options.as_deref());
        self.requests.push((Some(node), AgentRequest::Start { command, program, options }));
    }

    pub(crate) fn source_of(&self, command: CommandId, task: Option<TaskId>) -> u64 {
        match task {
            Some(id) if self.settings.output == OutputMode::Task => u64::from(id.0),
            _ => COMMAND_SOURCES + u64::from(command.0),
        }
    }

    /// Handles one report of the agent.
    pub(crate) fn on_agent_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::OutputWritten { command, stream, bytes } => {
                let running = self.commands.get(&command).map(RunningCommand::source);
                let owner = running.or_else(|| self.left_over.get(&command).copied()).flatten();
                self.note_output(owner, stream, &bytes);
                let task = owner.map(|(task, _)| TaskId(task));
                if let Some(attempt) = task.and_then(|id| self.running.get_mut(&id)) {
                    attempt.tail.push(&bytes);
                }
                let source = self.source_of(command, task);
                self.printer.push(source, stream, &bytes);
            }
            AgentEvent::OutputEnded { command } => {
                let owner = self.left_over.remove(&command).flatten();
                self.printer.end(self.source_of(command, owner.map(|(task, _)| TaskId(task))));
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
                let ended = self.commands.remove(&command);
                let task = ended.as_ref().and_then(|command| command.task);
                let owner = ended.as_ref().and_then(RunningCommand::source);
                let time_ns = clock::wall_ns();
                self.record.command_ended(time_ns, command.0, status, error.as_ref(), &usage);
                self.flush_urgent |= status != 0;
                if status != 0
                    && let Some(attempt) = task.and_then(|id| self.running.get_mut(&id))
                    && let Some(RunningCommand { program, .. }) = ended
                {
                    let error = error.as_ref().map(|error| error.0.clone());
                    attempt.failed_command = Some(FailedCommand { program, status, error });
                }
                if lingers {
                    self.left_over.insert(command, owner);
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
            attempt.held.extend(self.leases[attempt.node.0 as usize].pass_on(id, Now::read()));
        }
        if attempt.abort_pending && attempt.commands == 0 {
            attempt.abort_pending = false;
            self.link.push(&HubMessage::AbortAction { task: id.0 });
        }
    }
}
