//! Which of a run's events go into the record, with what the hub knows of them.
//!
//! It decides nothing, and calls nothing but the record; when lines are written is the hub's loop's business.

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{InvocationId, NodeId, Now, Settled, TaskId, TaskState};
use rakuda_proto::Text;
use rakuda_proto::agent::{CommandId, OutputDescriptor};
use rakuda_proto::front::{ActionOutcome, CommandOptions, Program};
use rakuda_proto::journal::{
    ClockStepped, CommandEnvironment, FileIdentity, InputLost, JournalEvent, Outcome, RunOutcome,
    RunStarted, TargetFate, TaskBlamed, TaskOutcome, TaskReopened,
};

use crate::HubError;
use crate::attempts::state::RunningAttempt;
use crate::hub::Hub;
use crate::plan::Evidence;
use crate::printer::OutputMode;
use crate::record::{AttemptEnd, AttemptStart, CommandStart, Limits, RecordConfig, Source};
use crate::settings::RunSettings;
use crate::targets::TargetEnding;

/// How the record of a run with these settings is to be kept.
pub(crate) fn record_config(settings: &RunSettings, now: Now) -> RecordConfig {
    let choices = &settings.choices;
    RecordConfig {
        directory: settings.directory.clone(),
        log_dir: settings.log_dir.clone(),
        enabled: settings.record,
        keeps_output: settings.output != OutputMode::None,
        limits: Limits { runs: settings.runs_kept, bytes: settings.runs_bytes },
        started: RunStarted {
            time_ns: now.journal_ns(),
            rakuda: env!("CARGO_PKG_VERSION").to_owned(),
            directory: Text(settings.directory.as_os_str().as_encoded_bytes().to_vec()),
            rakefile: settings.rakefile.clone(),
            command_line: settings.command_line.clone(),
            host: Text(rustix::system::uname().nodename().to_bytes().to_vec()),
            cores: settings.cores_known(),
            policy: choices.policy.word().to_owned(),
            failure: choices.failure.word().to_owned(),
            failed_target: settings.failed_target.word().to_owned(),
            retry: settings.config.retry,
            seed: settings.config.seed,
            build_all: settings.config.build_all,
            enforce: settings.enforce_memory.then(|| "memory".to_owned()).into_iter().collect(),
            rerun_on: settings.rerun.words().into_iter().map(str::to_owned).collect(),
            environment: settings.rerun.environment.clone(),
            ..RunStarted::default()
        },
    }
}

/// How an attempt ended, and what became of its target.
pub(crate) struct AttemptNote<'a> {
    pub outcome: Outcome,
    pub message: &'a [u8],
    pub retried: bool,
    pub after: Option<FileIdentity>,
    pub settled: TargetEnding,
}

impl Hub {
    pub(crate) fn note_invocation(
        &mut self,
        id: InvocationId,
        tasks: &[TaskId],
        caller: Option<TaskId>,
    ) {
        self.record.invocation_started(id, self.now.journal_ns(), tasks, caller);
    }

    pub(crate) fn note_invocation_ended(
        &mut self,
        id: InvocationId,
        failed: &[TaskId],
        abandoned: &[TaskId],
    ) {
        let named = |tasks: &[TaskId]| {
            let named = tasks.iter().filter(|id| !self.names.name(**id).is_empty()).count();
            u32::try_from(named).unwrap_or(u32::MAX)
        };
        let own: Vec<TaskId> =
            failed.iter().copied().filter(|id| !self.failures.is_aborted(*id)).collect();
        let not_run: Vec<TaskId> =
            abandoned.iter().copied().filter(|id| self.counts_as_not_run(*id)).collect();
        let (failed, abandoned) = (named(&own), named(&not_run));
        self.record.invocation_ended(id, self.now.journal_ns(), failed, abandoned);
    }

    pub(crate) fn note_attempt(&mut self, id: TaskId) {
        if !self.record.is_on() {
            return;
        }
        self.reopened.remove(&id);
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let time_ns = attempt.began().journal_ns();
        let target = attempt.details.target.as_os_str().as_encoded_bytes();
        let others =
            self.run.scheduler().nodes_of(id).into_iter().filter(|node| *node != attempt.node());
        let elsewhere: Vec<(u32, u32)> =
            others.map(|node| (node.0, self.cores_on(id, node))).collect();
        let start = AttemptStart {
            time_ns,
            task: id.0,
            attempt: attempt.number(),
            node: attempt.node().0,
            cores: attempt.cores(),
            elsewhere: &elsewhere,
            memory_bytes: self.memory_wanted(id),
            early: !attempt.had_lease(),
            before: attempt.details.before,
            target: Some(target).filter(|target| self.moved && !target.is_empty()),
        };
        // A target that is there but unfinished counted as missing; what was left of targets that were so when the run
        // began may be gone.
        let name = self.names.name(id);
        let unfinished = attempt.details.before.is_some() && self.record.is_unfinished(name)
            || attempt.number() == 1 && self.remains_settled.contains(name);
        let now = self.now;
        let build_all = self.settings.config.build_all;
        let evidence =
            Evidence { scheduler: self.run.scheduler(), names: &self.names, now, build_all };
        let mut reasons = evidence.reasons(id, unfinished);
        reasons.extend(self.changes_of(id).iter().map(|change| change.reason.clone()));
        self.record.attempt_started(self.run.scheduler(), &self.names, &start, &reasons);
        self.note_choice(id);
    }

    /// What a task says that it needs of memory, if it does.
    pub(crate) fn memory_wanted(&self, id: TaskId) -> Option<u64> {
        let requirement = self.run.scheduler().task(id)?.requirement;
        let bytes = self.run.scheduler().requirement(requirement)?.memory_bytes;
        (bytes > 0).then_some(bytes)
    }

    pub(crate) fn note_attempt_ended(
        &mut self,
        id: TaskId,
        attempt: &RunningAttempt,
        note: &AttemptNote<'_>,
    ) {
        self.fresh_looks.on_action_ended();
        let contents = self.contents_of_inputs(id);
        let end = AttemptEnd {
            time_ns: self.now.journal_ns(),
            task: id.0,
            outcome: note.outcome,
            message: note.message,
            retried: note.retried,
            after: note.after,
            target: match note.settled {
                TargetEnding::Untouched => None,
                TargetEnding::Renamed => Some(TargetFate::Renamed),
                TargetEnding::Deleted => Some(TargetFate::Deleted),
                TargetEnding::Left => Some(TargetFate::Left),
                TargetEnding::Stuck(_) => Some(TargetFate::Stuck),
            },
            secondary: &attempt.details.secondary,
            contents: &contents,
            inputs: attempt.details.inputs,
            held: attempt.held(),
        };
        self.record.attempt_ended(&self.names, &end, attempt.number());
    }

    pub(crate) fn note_command(
        &mut self,
        command: CommandId,
        task: Option<TaskId>,
        program: &Program,
        env: Option<&CommandEnvironment>,
        directory: Option<&Text>,
    ) {
        let time_ns = self.now.journal_ns();
        let started = CommandStart { time_ns, command: command.0, task, program, env, directory };
        self.record.command_started(&started);
    }

    /// Where a command with these options runs, when that is not the run's directory.
    pub(crate) fn directory_of(&self, options: Option<&CommandOptions>) -> Option<Text> {
        let run = self.start_directory.as_path();
        let asked = options.and_then(|options| options.directory.clone());
        let moved = (asked.is_none() && self.moved && self.settings.directory != run)
            .then(|| Text(self.settings.directory.as_os_str().as_encoded_bytes().to_vec()));
        asked.or(moved).filter(|directory| directory.as_path() != run)
    }

    /// A command of a task, or of none, printed something.
    pub(crate) fn note_output(
        &mut self,
        source: Source,
        descriptor: OutputDescriptor,
        bytes: &[u8],
    ) {
        let name = source.map_or(&b""[..], |(task, _)| self.names.name(TaskId(task)));
        self.record.printed(source, name, descriptor, bytes);
    }

    pub(crate) fn note_settled(&mut self, id: TaskId, how: Settled) {
        // Helpers of the planner have no name.
        if self.names.name(id).is_empty() {
            return;
        }
        let how = match how {
            Settled::Executed => TaskOutcome::Executed,
            Settled::NotNeeded => TaskOutcome::NotNeeded,
            Settled::Failed => TaskOutcome::Failed,
            Settled::Abandoned => TaskOutcome::Abandoned,
        };
        let counts = match how {
            TaskOutcome::Failed => !self.failures.is_aborted(id),
            TaskOutcome::Abandoned => self.counts_as_not_run(id),
            TaskOutcome::Executed | TaskOutcome::NotNeeded | TaskOutcome::NotReached => true,
        };
        if counts {
            self.record.count_settled(how);
        }
        let Some(task) = self.run.scheduler().task(id) else { return };
        let told = match how {
            TaskOutcome::Executed => !task.has_action && task.disturbed,
            // A task that was opened again had run; then its file came back.
            TaskOutcome::NotNeeded => self.reopened.remove(&id),
            // The end of its attempt says that it was stopped.
            TaskOutcome::Failed if self.failures.is_aborted(id) => false,
            TaskOutcome::Failed | TaskOutcome::Abandoned | TaskOutcome::NotReached => true,
        };
        if !told || !self.record.is_on() {
            return;
        }
        let went_badly = |id: &TaskId| {
            self.run.scheduler().task(*id).is_some_and(|task| match task.state {
                TaskState::Settled(how) => !how.is_well(),
                _ => false,
            })
        };
        let needed = self.run.scheduler().prerequisites(id);
        let because = needed.filter(went_badly).map(|id| id.0).collect();
        let time_ns = self.now.journal_ns();
        self.record.task_settled(self.run.scheduler(), &self.names, id, time_ns, how, because);
    }

    /// Whether an abandoned task counts as not run because of others: what has no action would not have run either, and
    /// what was begun was stopped.
    fn counts_as_not_run(&self, id: TaskId) -> bool {
        self.run.scheduler().has_action(id) && !self.has_run(id)
    }

    /// Whether an action of a task was begun, as the journal has it: not of one whose turn never came.
    pub(crate) fn has_run(&self, id: TaskId) -> bool {
        let attempt = self.run.scheduler().task(id).map_or(0, |task| task.attempt);
        attempt > 0 && self.streams.has_begun(id)
    }

    /// A task was lost with too many nodes.
    pub(crate) fn note_blamed(&mut self, id: TaskId, nodes: &[NodeId]) {
        let nodes = nodes.iter().map(|node| node.0).collect();
        let event = TaskBlamed { time_ns: self.now.journal_ns(), task: id.0, nodes };
        self.record.about_task(
            self.run.scheduler(),
            &self.names,
            id,
            &JournalEvent::TaskBlamed(event),
        );
    }

    /// What a task made is to be made again.
    pub(crate) fn note_reopened(&mut self, id: TaskId) {
        self.reopened.insert(id);
        let acted = self.has_run(id);
        self.progress.on_reopened(self.record.rule_of(id), acted);
        let event = TaskReopened { time_ns: self.now.journal_ns(), task: id.0 };
        let event = JournalEvent::TaskReopened(event);
        self.record.about_task(self.run.scheduler(), &self.names, id, &event);
    }

    /// A file that is needed is out of reach.
    pub(crate) fn note_input_lost(&mut self, id: TaskId) {
        let event = InputLost { time_ns: self.now.journal_ns(), task: id.0 };
        self.record.about_task(
            self.run.scheduler(),
            &self.names,
            id,
            &JournalEvent::InputLost(event),
        );
    }

    /// The machine's clock may have been set. Its times are those of files, and the journal's are
    /// not (docs/design/record.md).
    pub(crate) fn note_clock(&mut self) {
        let (time_ns, wall_ns) = (self.now.journal_ns(), self.now.wall_ns());
        let ahead_ns = wall_ns.saturating_sub(time_ns);
        let Some(by_ns) = self.clock_steps.see(ahead_ns) else { return };
        self.warn_of_set_clock(LOCAL_NODE, by_ns);
        self.record.clock_stepped(ClockStepped { time_ns, wall_ns });
    }

    pub(crate) fn note_stop(&mut self, how: &str) {
        self.record.stop_requested(self.now.journal_ns(), how);
    }

    /// Notes tasks that would have run, and those that stand for others, that the run did not come to.
    fn note_not_reached(&mut self) {
        let time_ns = self.now.journal_ns();
        let runs = self.run.scheduler().forecast(self.now);
        let (scheduler, names) = (self.run.scheduler(), &self.names);
        let is_left = |id: &TaskId| {
            let Some(task) = scheduler.task(*id) else { return false };
            let stands = !task.has_action && scheduler.prerequisites(*id).next().is_some();
            let settled = matches!(task.state, TaskState::Settled(_));
            let wanted = runs[id.0 as usize] || stands;
            wanted && !settled && task.attempt == 0 && !names.name(*id).is_empty()
        };
        let left = scheduler.task_ids().filter(is_left);
        self.record.not_reached(scheduler, names, left, time_ns);
    }

    /// Ends the record.
    pub(crate) fn note_end(&mut self, how: RunOutcome) -> Result<(), HubError> {
        self.note_interrupted(true);
        if how != RunOutcome::Done && self.record.is_on() {
            self.note_not_reached();
        }
        // Closed before the run's mark goes: a socket without a mark belongs to no run.
        self.control = None;
        self.record.set_metadata_operations(self.file_probes.operations());
        self.record.note_done(self.progress.done());
        self.record.finish(how, self.now)
    }
}

/// The record's word for the end of an action.
pub(crate) fn outcome_of(outcome: ActionOutcome, attempt: &RunningAttempt) -> Outcome {
    match outcome {
        ActionOutcome::Ok => Outcome::Done,
        _ if attempt.is_given_back() => Outcome::GivenBack,
        ActionOutcome::Failed | ActionOutcome::Exit if attempt.is_aborted() => Outcome::Aborted,
        ActionOutcome::Failed => Outcome::Failed,
        ActionOutcome::Exit => Outcome::Exited,
    }
}
