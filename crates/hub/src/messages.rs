//! What the front and the agent report, turned into events of the core.

use std::path::{Path, PathBuf};

use rakuda_agent::clock;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{
    ActionEnding, ActionOutcome as CoreOutcome, Event, Held, Input, InvocationId, Output, Places,
    RuleId, TaskId, TaskKind, Timestamp, total_ns,
};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId, OutputDescriptor};
use rakuda_proto::file_time::file_ns;
use rakuda_proto::front::{
    self, ActionOutcome, FrontMessage, HubMessage, ProgressMode, RequirementDefinition, StopHow,
    TaskDefinition, TaskFlag,
};
use rakuda_proto::journal::{FileIdentity, JournalEvent, Outcome, RoundValues};
use rakuda_record::folder::FOLDER;

use crate::HubError;
use crate::attempts::inside;
use crate::attempts::state::{
    AttemptDetails, FailedCommand, PendingCommand, RunningAttempt, RunningCommand,
};
use crate::ci::Group;
use crate::facts::{self, identity_of};
use crate::failed_files::FailedFiles;
use crate::hub::Hub;
use crate::notes::{AttemptNote, outcome_of};
use crate::printer::OutputMode;
use crate::progress::duration::duration;
use crate::requirements::{Shortage, allowed_nodes, oversubscribed, requirement_of};
use crate::targets::{TargetEnding, settle_target};

/// Why an action has failed that ended well without its target, where that counts.
const NOT_MADE: &str = "its action ended well but did not make it (--strict)";
/// Sources of the printer: tasks count from 0, commands from here.
const COMMAND_SOURCES: u64 = 1 << 32;

impl Hub {
    /// Handles one message of the front.
    pub(crate) fn on_message(&mut self, message: FrontMessage) -> Result<(), HubError> {
        // Whatever else the front wants may rest on what it wanted before.
        self.release_invocation();
        self.front_stuck.on_message();
        match message {
            FrontMessage::Hello(..) => return Err(HubError::Protocol("Hello came twice")),
            FrontMessage::DefineRequirement(id, definition) => {
                self.define_requirement(id, &definition)?;
            }
            FrontMessage::DefineRule(number, location, source) => {
                self.define_rule(number, &location, source.as_ref())?;
            }
            FrontMessage::DefineParameters(number, list) => self.define_parameters(number, list)?,
            FrontMessage::DefineFiles(number, definition) => {
                self.define_files(number, definition)?;
            }
            FrontMessage::DefineTasks { tasks } => {
                tasks.iter().try_for_each(|task| self.define_task(task))?;
            }
            FrontMessage::DefineGang(tasks, may_share) => self.define_gang(&tasks, may_share)?,
            FrontMessage::DefineComponent { component } => self.define_component(component)?,
            FrontMessage::AddPrerequisites(task, prerequisites, flags) => {
                self.close_definitions();
                let prerequisites: Vec<_> = prerequisites.into_iter().map(TaskId).collect();
                let id = self.known(task)?;
                self.event(Event::PrerequisitesAdded {
                    id,
                    prerequisites: &prerequisites,
                    has_action: flags.has(TaskFlag::HasAction),
                });
                self.want_added(id, &prerequisites);
            }
            FrontMessage::Invoke(invocation, tasks, caller) => {
                self.close_definitions();
                let tasks: Vec<_> =
                    tasks.into_iter().map(|task| self.known(task)).collect::<Result<_, _>>()?;
                let caller = caller.map(|task| self.known(task)).transpose()?;
                self.want_invocation(InvocationId(invocation), tasks, caller);
            }
            FrontMessage::ActionEnded(task, outcome, Text(message), ran) => {
                let id = self.known(task)?;
                self.end_action(id, outcome, &message, ran);
            }
            FrontMessage::AskAfter { task } => {
                let id = self.known(task)?;
                if self.run.attempts().acting(id).is_some() {
                    self.event(Event::KindChanged { id, kind: TaskKind::Asked });
                }
            }
            FrontMessage::NeededAnswered(task, needed, timestamp) => {
                let timestamp = timestamp_of(timestamp);
                self.event(Event::NeededAnswered { id: self.known(task)?, needed, timestamp });
            }
            FrontMessage::Resolved(task, found) => {
                self.close_definitions();
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
                self.want_command(task, PendingCommand { command, program, options, echo });
            }
            FrontMessage::DefineRound(id, definition) => self.define_round(id, *definition),
            FrontMessage::LeaveRound(id, worker) => self.leave_round(id, worker),
            FrontMessage::RoundValues(id, worker, values) => {
                let time_ns = self.now.journal_ns();
                let event = RoundValues { time_ns, round: id, worker, values };
                self.record.round(&JournalEvent::RoundValues(event));
            }
            FrontMessage::WantLease { task } => {
                self.want_lease(self.known(task)?);
            }
            FrontMessage::WriteOutput(task, descriptor, Text(bytes)) => {
                self.write_output(task, descriptor, &bytes)?;
            }
            FrontMessage::HoldDisplay { held } => self.hold_display(held),
            FrontMessage::SignalCommand(command, signal) => {
                self.signal(CommandId(command), signal);
            }
            message @ (FrontMessage::FetchFile(..)
            | FrontMessage::LookForFile(..)
            | FrontMessage::ChangeFile(..)
            | FrontMessage::FileWritten(..)) => self.on_file_named(message)?,
            FrontMessage::Stuck { turn } => self.front_stuck.on_asked(turn),
            FrontMessage::DescribePlan { format } => self.describe_plan(format),
            FrontMessage::Stop { how } => self.stop_for_user(how),
            FrontMessage::Goodbye { failed } => {
                self.goodbye = true;
                self.front_failed = failed;
            }
        }
        Ok(())
    }

    /// Starts an invocation of these tasks.
    pub(crate) fn invoke(&mut self, id: InvocationId, tasks: &[TaskId], caller: Option<TaskId>) {
        self.progress.start(self.now.time.0);
        self.note_invocation(id, tasks, caller);
        self.request_stage_out(tasks, caller.is_some());
        self.event(Event::InvocationStarted { id, tasks, caller });
    }

    /// Writes what an action printed itself.
    fn write_output(
        &mut self,
        task: Option<u32>,
        descriptor: OutputDescriptor,
        bytes: &[u8],
    ) -> Result<(), HubError> {
        let source = task.map_or(COMMAND_SOURCES - 1, u64::from);
        if let Some(id) = task {
            self.note_tail(TaskId(id), bytes);
        }
        if self.settings.prefix
            && let Some(id) = task.map(|task| self.known(task)).transpose()?
        {
            self.printer.set_prefix(source, self.names.name(id));
        }
        if let Some(id) = task.map(|task| self.known(task)).transpose()? {
            self.name_group(id, source);
        }
        self.printer.push(source, descriptor, bytes);
        if task.is_none() {
            self.printer.end(source);
        }
        Ok(())
    }

    /// Holds the terminal for the front, or takes it back. What was printed before is written before the answer is
    /// sent.
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

    fn define_requirement(
        &mut self,
        id: u32,
        definition: &RequirementDefinition,
    ) -> Result<(), HubError> {
        if id as usize != self.requirement_cores.len() {
            return Err(HubError::Protocol("requirements are to be defined in order"));
        }
        if definition.after_failure.is_some_and(|next| next >= id) {
            return Err(HubError::Protocol("what holds after a failure is to be defined first"));
        }
        let lenient;
        let definition = if self.settings.oversubscribe {
            lenient = oversubscribed(definition);
            &lenient
        } else {
            definition
        };
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
        // The nodes first: what it lacks is slots on all of them, not cores of one.
        self.check_nodes_wanted(definition);
        for Shortage { text, refused } in shortages {
            if refused {
                self.refuse_needs(&text);
            } else {
                self.warn(&text);
            }
        }
        requirement.choice = self.choice_of(definition);
        requirement.after_failure =
            definition.after_failure.map(|front| self.times.requirement_without_duration(front));
        // Of the node that it runs on, see `cores_on`.
        let cores = if requirement.exclusive { u32::MAX } else { requirement.cores };
        self.requirement_cores.push(cores);
        let slots = if requirement.exclusive { u32::MAX } else { definition.cores.max(1) };
        self.requirement_nodes.push(definition.nodes.map(|nodes| (nodes, slots)));
        // A task that asks for nodes is a gang: beside it nothing is begun early, but before and after it
        // (`Hub::event`).
        let simple = requirement.nodes > 1
            || requirement.cores == 1
                && !requirement.exclusive
                && requirement.memory_bytes == 0
                && requirement.choice.is_none()
                && requirement.resources.is_empty();
        if !simple {
            self.tell(Input::LookaheadOff);
        }
        let waits = requirement.waits_for_size;
        let id = self.add_requirement(requirement);
        if waits.cores || waits.memory {
            self.want_size(id, definition, waits);
        }
        Ok(())
    }

    /// Refuses a need that nothing can meet: nothing more is started, and the front gets the reason.
    pub(crate) fn refuse_needs(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.needs_refused, true) {
            self.link.push(&HubMessage::NeedsRefused { reason: Text::from(reason) });
            self.flush_urgent = true;
            self.any_failed = true;
            self.stop(StopHow::Interrupt);
        }
    }

    fn define_parameters(&mut self, number: u32, list: Vec<(Text, Text)>) -> Result<(), HubError> {
        if number as usize != self.record.parameters_len() + 1 {
            return Err(HubError::Protocol("parameters are to be defined in order"));
        }
        self.record.add_parameters(list);
        Ok(())
    }

    fn define_rule(
        &mut self,
        number: u32,
        location: &Text,
        source: Option<&Text>,
    ) -> Result<(), HubError> {
        if number as usize != self.record.rules_len() + 1 {
            return Err(HubError::Protocol("rules are to be defined in order"));
        }
        self.record.add_rule(location, source);
        Ok(())
    }

    fn define_task(&mut self, task: &TaskDefinition) -> Result<(), HubError> {
        let (number, kind, flags, Text(name), requirement, prerequisites, rule, parameters, files) =
            task;
        if *number as usize != self.names.len() || prerequisites.iter().any(|p| p >= number) {
            return Err(HubError::Protocol("tasks are to be defined in order"));
        }
        let id = TaskId(*number);
        let kind = match kind {
            front::TaskKind::Plain => TaskKind::Plain,
            front::TaskKind::File => TaskKind::File,
            front::TaskKind::Directory => TaskKind::Directory,
            front::TaskKind::Asked => TaskKind::Asked,
        };
        let is_path = matches!(kind, TaskKind::File | TaskKind::Directory);
        if *requirement as usize >= self.requirement_cores.len() {
            return Err(HubError::Protocol("a requirement was named before it was defined"));
        }
        if *rule as usize > self.record.rules_len() {
            return Err(HubError::Protocol("a rule was named before it was defined"));
        }
        if *parameters as usize > self.record.parameters_len() {
            return Err(HubError::Protocol("parameters were named before they were defined"));
        }
        if *files as usize > self.files.declarations() {
            return Err(HubError::Protocol("files were named before they were defined"));
        }
        self.names.push(name, is_path);
        self.files.add_task(id, *files);
        self.record.add_task(*rule, *parameters);
        self.requirement_of.push(*requirement);
        if self.requirement_nodes[*requirement as usize].is_some() {
            self.wide_tasks.push(id);
        }
        if self.settings.config.dry_run && flags.has(TaskFlag::OwnWay) {
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
            has_action: flags.has(TaskFlag::HasAction),
            deferred: flags.has(TaskFlag::Deferred),
            requirement,
            prerequisites: &prerequisites,
        });
        if let Some(run_ns) = run_ns {
            self.event(Event::TimeExpected { id, run_ns });
        }
        self.event(Event::RuleGiven { id, rule: RuleId(*rule) });
        Ok(())
    }

    /// Closes what was defined, as it is about to be wanted.
    fn close_definitions(&mut self) {
        self.gather_facts();
        self.define_gangs_of_one();
    }

    /// Looks at all files of tasks defined since the last time.
    fn gather_facts(&mut self) {
        if self.facts_wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.facts_wanted);
        self.suspect_targets(&wanted);
        for (id, seen) in facts::identities(&self.names, &wanted, &self.directory_now()) {
            let mut fact = facts::fact_of(seen, Places::Unknown);
            if seen.is_none() && self.staging.is_none() && !self.moved {
                self.fresh_looks.note(id, self.now.time.0, None);
            }
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

    /// An action has ended; `code`: when its code ran, by the kernel's monotonic clock, where it
    /// has never wanted a lease.
    pub(crate) fn on_action_ended(
        &mut self,
        id: TaskId,
        outcome: ActionOutcome,
        message: &[u8],
        code: Option<Held>,
    ) {
        if self.on_unwound(id) {
            return;
        }
        let Some(node) = self.run.attempts().acting(id).map(RunningAttempt::node) else { return };
        // A worker did not run as it should whose round did not begin, whatever its action makes of that.
        let of_round = self.sync.take_fault(id).filter(|_| outcome == ActionOutcome::Ok);
        let of_stream = || self.streams.fault_of_action(id, outcome).cloned();
        let fault = of_round.or_else(of_stream).map(|fault| self.with_names(&fault));
        let (outcome, message) = match &fault {
            Some(why) => (ActionOutcome::Failed, why.as_bytes()),
            None => (outcome, message),
        };
        if self.hold_for_streams(id, outcome, message, code) {
            return;
        }
        let in_journal = |ns| clock::journal_clock().at(ns);
        let code = code.map(|(from_ns, to_ns)| (in_journal(from_ns), in_journal(to_ns)));
        let look = (outcome == ActionOutcome::Ok).then(|| self.target_look(id)).flatten();
        let Some(details) = self.run.details_mut(id) else { return };
        details.message = message.to_vec();
        let ending = match outcome {
            ActionOutcome::Ok => ActionEnding::Succeeded { looks: look.is_some() },
            ActionOutcome::Failed => ActionEnding::Failed { started: !details.begun.is_empty() },
            ActionOutcome::Exit => ActionEnding::Exited,
        };
        details.look = look;
        self.release_inputs(id, node);
        self.tell(Input::ActionEnded { id, ending, code });
    }

    /// An attempt has ended, and no node is to be asked about it: the machine of the hub need not be.
    pub(crate) fn finish_attempt(&mut self, id: TaskId, outcome: CoreOutcome) {
        let Some(attempt) = self.run.take(id) else { return };
        let outcome = match outcome {
            CoreOutcome::Succeeded => ActionOutcome::Ok,
            CoreOutcome::Exited => ActionOutcome::Exit,
            CoreOutcome::Failed | CoreOutcome::GivenBack | CoreOutcome::NotBegun => {
                ActionOutcome::Failed
            }
        };
        let looks =
            outcome == ActionOutcome::Ok && self.names.is_path(id) && !self.settings.config.dry_run;
        let target = || self.record.project().find(&attempt.details.target);
        let seen = if looks { identity_of(&target()) } else { None };
        self.finish_action(id, &attempt, outcome, &attempt.details.message, seen);
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
        let given_back = attempt.is_given_back() && outcome != ActionOutcome::Ok;
        let (outcome, message) = self.judge(id, outcome, message, seen);
        let ok = outcome == ActionOutcome::Ok;
        let mut settled = TargetEnding::Untouched;
        let mut after = None;
        if self.names.is_path(id) && !self.settings.config.dry_run {
            if ok {
                if self.run.scheduler().gang_of(id).is_some() {
                    self.await_gang(id, attempt);
                } else {
                    self.record.mark_finished(self.names.name(id));
                }
                after = seen;
                if let Some(seen) = seen {
                    self.record.note_made(self.names.name(id), seen);
                    self.note_made(id);
                    let root = self.start_directory.join(FOLDER);
                    self.failed_files().on_made(&root, &attempt.details.target);
                    self.forget_program_like(id);
                }
                self.note_here(id, seen);
                let made_there = attempt.ran_command() || self.staging.is_some();
                let place = if made_there { attempt.node() } else { LOCAL_NODE };
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
            self.agents.place_mut(attempt.node()).done += 1;
            self.failures.on_success(id);
            self.learn_duration(id, total_ns(attempt.held()));
        } else if !given_back {
            self.note_failure(id, attempt, message, Some(&settled));
        }
        let other_ending = match ok {
            true => None,
            false if given_back => Some("given back"),
            false if attempt.is_aborted() || self.run.stopping().by_user() => Some("aborted"),
            false => Some("failed"),
        };
        self.name_ended_group(id, total_ns(attempt.held()), other_ending);
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
        let run_ns = Some(total_ns(attempt.held()));
        let attempt_number = attempt.number();
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
        let noted = self.with_hint(id, attempt, outcome, message);
        let message = noted.as_deref().unwrap_or(message);
        let note = AttemptNote { outcome, message, retried, after, settled };
        self.note_attempt_ended(id, attempt, &note);
    }

    /// Adds a hint to a failure where the streams of the task may be behind it.
    fn with_hint(
        &self,
        id: TaskId,
        attempt: &RunningAttempt,
        outcome: Outcome,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let has_failed = outcome == Outcome::Failed && attempt.details.failed_command.is_some();
        let hint = self.streams.hint_for(id).filter(|_| has_failed)?;
        Some([message, b" (", hint.as_bytes(), b")"].concat())
    }

    /// Fails an action that ended well without its target, with `--strict`.
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
    pub(crate) fn settle_attempt(&mut self, id: TaskId, attempt: &RunningAttempt) -> TargetEnding {
        let (target, before) = (attempt.details.target.clone(), attempt.details.before);
        self.settle_target_of(id, &target, before)
    }

    pub(crate) fn settle_target_of(
        &mut self,
        id: TaskId,
        target: &Path,
        before: Option<FileIdentity>,
    ) -> TargetEnding {
        let policy = self.settings.failed_target;
        let target = self.record.project().find(target);
        let root = self.record.project().find(&self.start_directory).join(FOLDER);
        let root = self.settings.record.then_some(root);
        let failed = self.failed_files();
        let rename = |path: &Path| failed.rename(root.as_deref(), path);
        let settled = settle_target(&target, before, policy, rename);
        if settled.still_there() {
            self.record.mark_unfinished(self.names.name(id));
        }
        settled
    }

    /// What runs have left of targets under other names; empty without a record.
    pub(crate) fn failed_files(&mut self) -> &mut FailedFiles {
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

    /// What a task prints is a group in the log of a job.
    pub(crate) fn name_group(&mut self, id: TaskId, source: u64) {
        if self.groups_output() {
            let (title, now_s) = (self.display_name(id), self.now.wall_ns() / 1_000_000_000);
            let group = Group { title, began_s: now_s, ended_s: now_s, open: false };
            self.printer.set_group(source, group);
        }
    }

    /// Sets the title of an ended attempt's group, which says how it ended where it was not well.
    fn name_ended_group(&mut self, id: TaskId, took_ns: u64, other_ending: Option<&str>) {
        if !self.groups_output() {
            return;
        }
        let (name, took) = (self.display_name(id), duration(took_ns));
        let title = match other_ending {
            None => format!("{name} ({took})"),
            Some(ending) => format!("{name}: {ending} after {took}"),
        };
        let ended_ns = self.now.wall_ns();
        let began_ns = ended_ns.saturating_sub(i64::try_from(took_ns).unwrap_or(i64::MAX));
        let [began_s, ended_s] = [began_ns, ended_ns].map(|ns| ns / 1_000_000_000);
        self.printer.set_group(
            u64::from(id.0),
            Group { title, began_s, ended_s, open: other_ending.is_some() },
        );
    }

    fn groups_output(&self) -> bool {
        self.settings.ci.is_some() && self.settings.output == OutputMode::Task
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
            AgentEvent::OutputWritten { command, descriptor, bytes } => {
                let running = self.commands.get(&command).map(RunningCommand::source);
                let owner = running.or_else(|| self.left_over.get(&command).copied()).flatten();
                self.note_output(owner, descriptor, &bytes);
                self.sync.note_output(command, &bytes);
                let task = owner.map(|(task, _)| TaskId(task));
                if let Some(id) = task {
                    self.note_tail(id, &bytes);
                }
                let source = self.source_of(command, task);
                self.printer.push(source, descriptor, &bytes);
            }
            AgentEvent::Streams(_)
            | AgentEvent::MemoryEnforced { .. }
            | AgentEvent::ClockSet { .. } => {
                unreachable!("it is taken with its node")
            }
            AgentEvent::OutputEnded { command } => {
                let owner = self.left_over.remove(&command).flatten();
                self.printer.end(self.source_of(command, owner.map(|(task, _)| TaskId(task))));
            }
            AgentEvent::CommandBegun { command } => self.on_command_begun(command),
            AgentEvent::CommandWithdrawn { command } => self.on_command_withdrawn(command),
            AgentEvent::CoreKept { command } => self.on_core_kept(command),
            AgentEvent::CoreFreed { command } => self.on_core_freed(command),
            AgentEvent::CommandReady { command } => self.on_command_ready(command),
            AgentEvent::CommandPassed { command, gate, stamps } => {
                self.on_command_passed(command, gate, &stamps);
            }
            AgentEvent::CommandExited {
                command,
                mut status,
                process,
                captured,
                mut error,
                usage,
                lingers,
                is_outlived,
            } => {
                self.on_worker_exited(command, &mut status, &mut error, &usage, is_outlived);
                let ended = self.commands.remove(&command);
                error = error.or_else(|| self.trouble_of_env(ended.as_ref()?, status));
                let task = ended.as_ref().and_then(|command| command.task);
                let number = ended.as_ref().map(|command| command.attempt);
                let owner = ended.as_ref().and_then(RunningCommand::source);
                let time_ns = self.now.journal_ns();
                self.record.command_ended(time_ns, command.0, status, error.as_ref(), &usage);
                self.flush_urgent |= status != 0;
                if status != 0
                    && let Some(details) = task.and_then(|id| self.details_of_acting(id))
                    && let Some(RunningCommand { program, .. }) = ended
                {
                    let error = error.as_ref().map(|error| error.0.clone());
                    details.failed_command = Some(FailedCommand { program, status, error });
                }
                if lingers {
                    self.left_over.insert(command, owner);
                } else if self.settings.output != OutputMode::Task || task.is_none() {
                    self.printer.end(COMMAND_SOURCES + u64::from(command.0));
                }
                let fault = task.and_then(|id| self.streams.fault_of_command(id, status == 0));
                let fault = fault.cloned();
                let error = fault.map(|fault| self.stream_failure(&fault)).or(error);
                self.link.push(&HubMessage::CommandEnded(
                    command.0, status, process, captured, error, usage,
                ));
                if let Some((id, attempt)) = task.zip(number) {
                    self.tell(Input::CommandEnded { id, attempt });
                    self.note_read(id);
                }
            }
        }
    }

    /// Why what a command was to run in could not be set up, if that is how it ended.
    fn trouble_of_env(&self, ended: &RunningCommand, status: i32) -> Option<Text> {
        let env = ended.env.as_deref()?;
        let attempt = self.run.attempts().acting(ended.task?)?;
        let listens = self.settings.output != OutputMode::None;
        let lines = listens.then(|| attempt.details.tail.lines(inside::LINES_MAX));
        inside::trouble(env, status, lines.as_deref())
    }

    /// What the hub keeps with an attempt whose action runs.
    fn details_of_acting(&mut self, id: TaskId) -> Option<&mut AttemptDetails> {
        self.run.attempts().acting(id)?;
        self.run.details_mut(id)
    }

    /// An action, or a command of it, printed something.
    fn note_tail(&mut self, id: TaskId, bytes: &[u8]) {
        if let Some(details) = self.details_of_acting(id) {
            details.tail.push(bytes);
        }
    }
}

fn timestamp_of(timestamp: front::Timestamp) -> Timestamp {
    match timestamp {
        front::Timestamp::Early => Timestamp::Early,
        front::Timestamp::At(seconds, ns) => Timestamp::At(file_ns(seconds, ns).into()),
        front::Timestamp::Late => Timestamp::Late,
        front::Timestamp::Now => Timestamp::Now,
    }
}
