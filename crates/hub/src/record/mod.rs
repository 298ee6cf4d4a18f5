//! The record of a run (docs/design/record.md): its journal, what its commands printed, its
//! summary; and what runs that were cut off have left.
//!
//! Lines are collected in memory and written at once before the effects that they stand for leave
//! the hub. Nothing is made before the first attempt or command: a run that does nothing leaves
//! nothing. It knows the scheduler and names only to define tasks, and sends nothing.

mod calendar;
mod condense;
mod definitions;
mod ending;
mod folder;
mod left;
mod lines;
mod lock;
mod marker;
mod output_log;
mod prune;
mod recover;
mod settled;
mod suspected;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rakuda_agent::processes;
use rakuda_core::{InvocationId, Scheduler, TaskId, total_ns};
use rakuda_proto::Text;
use rakuda_proto::agent::OutputDescriptor;
use rakuda_proto::cluster::Operations;
use rakuda_proto::front::Usage;
use rakuda_proto::journal::{
    ClockStepped, FileIdentity, InvocationEnded, InvocationStarted, JOURNAL_VERSION, JournalEvent,
    NodeGone, NodeJoined, NodeLost, Outcome, Reason, RunStarted, StopRequested, TaskOutcome,
    TaskSettled,
};
use rakuda_record::folder::FOLDER;
use rakuda_record::history::{DurationTable, KnownRule};
use rakuda_record::marks::{MarkLine, RUNNING, marks};

use crate::HubError;
use crate::names::Names;
use crate::project::Project;
use definitions::Definitions;
pub(crate) use folder::cannot_be_made;
pub(crate) use lines::{AttemptEnd, AttemptStart, CommandStart};
use marker::Marker;
use output_log::OutputLog;
pub(crate) use output_log::Source;
pub(crate) use prune::Limits;
#[cfg(test)]
use recover::recover;
pub use recover::recover_soon;
pub(crate) use recover::{
    Turn, changed_since_settled, look_at_dead_runs, recover_in_turn, take_turn,
};
use settled::SettledTargets;
pub(crate) use suspected::SuspectedPeriod;
use unfinished::UnfinishedTargets;

/// Maximum bytes of a buffer that is kept when it is empty.
const BUFFER_BYTES: usize = 1 << 20;
/// Folder of spools, with a folder for each run.
pub(super) const SPOOLS: &str = "spools";
/// Maximum number of tasks that a run which ends early defines although it has not come to them.
const NOT_REACHED_MAX: usize = 10_000;

/// How a record is kept.
#[derive(Debug)]
pub(crate) struct RecordConfig {
    /// The Rakefile's folder.
    pub directory: PathBuf,
    /// The run's folder, when the user chose one.
    pub log_dir: Option<PathBuf>,
    /// Whether a record is written at all.
    pub enabled: bool,
    /// Whether what commands print is kept.
    pub keeps_output: bool,
    /// What is kept of earlier runs.
    pub limits: Limits,
    /// The first line, but for `version` and `run`. Its time names the run.
    pub started: RunStarted,
}

/// How tasks were settled so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    executed: u32,
    /// Number of tasks with an action that are done; the hub sets it at the end of the run.
    done: Option<u32>,
    not_needed: u32,
    failed: u32,
    abandoned: u32,
}

/// An invocation of which nothing has been noted yet.
#[derive(Debug)]
struct QuietInvocation {
    time_ns: i64,
    tasks: Vec<TaskId>,
    caller: Option<TaskId>,
}

/// Writes the record of this run, and knows the targets that earlier runs left unfinished.
#[derive(Debug)]
pub(crate) struct Record {
    /// The folder that `.rakuda` is in.
    project: Project,
    chosen_folder: Option<PathBuf>,
    enabled: bool,
    /// A write failed: what is pending may be written when the run ends, and nothing else.
    broken: bool,
    limits: Limits,
    keeps_output: bool,
    started: RunStarted,
    nodes: Vec<NodeJoined>,
    /// Something is executed: what is pending has to be written.
    executing: bool,
    /// The open record; `None` if nothing has been written yet.
    open: Option<OpenRecord>,
    /// Runs that were going on when this one began, and that the user does not know of yet.
    other_runs: Vec<String>,
    /// Lines not written yet.
    pending: Vec<u8>,
    definitions: Definitions,
    output: OutputLog,
    unfinished: UnfinishedTargets,
    /// Targets that are to be looked at once more.
    settled: SettledTargets,
    /// Periods that the record of earlier runs does not cover.
    suspected: Vec<SuspectedPeriod>,
    /// Running attempts: when they began.
    attempts: BTreeMap<u32, i64>,
    /// Tasks with targets whose last attempt has ended, but not well.
    unsettled: BTreeSet<u32>,
    durations: DurationTable,
    totals: Totals,
    /// By the front's number.
    quiet_invocations: BTreeMap<InvocationId, QuietInvocation>,
    /// Live invocations that were noted: their numbers in the journal.
    noted_invocations: BTreeMap<InvocationId, u32>,
    next_invocation: u32,
    /// Metadata calls, for the last line; `None` if they are not counted.
    metadata_operations: Option<Operations>,
}

#[derive(Debug)]
struct OpenRecord {
    folder: PathBuf,
    journal: File,
    /// Bytes of whole lines in it.
    journal_bytes: u64,
    /// Made at once when what commands print is kept, else when something is printed after all.
    output: Option<File>,
    marker: Marker,
}

impl Record {
    /// A record; nothing is written yet.
    pub fn new(config: RecordConfig) -> Self {
        let RecordConfig { directory, log_dir, enabled, keeps_output, limits, mut started } =
            config;
        started.version = JOURNAL_VERSION;
        let name = calendar::timestamp_name(started.time_ns);
        started.run = format!("{name}-{}", std::process::id());
        let root = directory.join(FOLDER);
        Self {
            unfinished: UnfinishedTargets::read(&root),
            settled: SettledTargets::default(),
            suspected: suspected::read(&root),
            project: Project::new(&directory),
            chosen_folder: log_dir.map(|folder| directory.join(folder)),
            enabled,
            broken: false,
            limits,
            keeps_output,
            started,
            nodes: Vec::new(),
            executing: false,
            open: None,
            other_runs: Vec::new(),
            pending: Vec::new(),
            definitions: Definitions::default(),
            output: OutputLog::default(),
            attempts: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            durations: DurationTable::default(),
            totals: Totals::default(),
            quiet_invocations: BTreeMap::new(),
            noted_invocations: BTreeMap::new(),
            next_invocation: 0,
            metadata_operations: None,
        }
    }

    /// The run's name.
    pub fn run(&self) -> &str {
        &self.started.run
    }

    /// Where markers and sockets of live runs are.
    pub fn running_folder(&self) -> PathBuf {
        self.root().join(RUNNING)
    }

    /// `.rakuda`, absolute, wherever the folder is now that it is in.
    fn root(&self) -> PathBuf {
        self.project.path().join(FOLDER)
    }

    /// The folder that the run began in.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// The run's folder, once something was recorded.
    pub fn folder_if_open(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.folder.as_path())
    }

    /// Removes spools.
    pub fn remove_spools(&self) {
        // The spools of a run that was killed go when it is settled (`recover`).
        let _ = std::fs::remove_dir_all(self.passing_folder());
        let _ = std::fs::remove_dir(self.root().join(SPOOLS));
    }

    /// The folder of the run's spools, which nothing reads after the run.
    pub fn passing_folder(&self) -> PathBuf {
        self.root().join(SPOOLS).join(&self.started.run)
    }

    /// Takes the other runs that are going on in this folder, of which this one is no part. Each is returned once, when
    /// something is executed.
    pub fn take_other_runs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.other_runs)
    }

    /// Whether a record is kept.
    pub fn is_on(&self) -> bool {
        self.enabled
    }

    /// Reads again which targets are unfinished, after `recover` may have found some.
    pub fn reload_unfinished(&mut self) {
        let root = self.root();
        recover::tidy_unfinished(&root);
        self.settled = SettledTargets::read(&root);
        self.unfinished = UnfinishedTargets::read(&root);
        self.suspected = suspected::read(&root);
    }

    /// Adds periods for a plan, which settles nothing, so that nothing is noted of runs that were cut off.
    pub fn add_suspected(&mut self, periods: Vec<SuspectedPeriod>) {
        self.suspected.extend(periods);
    }

    /// The period that the record does not cover and in which a file was changed, if there is one.
    pub fn suspected_period(&self, modified_ns: i128) -> Option<&SuspectedPeriod> {
        self.suspected.iter().find(|period| period.concerns(modified_ns))
    }

    /// Whether the record of all runs is complete.
    pub fn suspects_nothing(&self) -> bool {
        self.suspected.is_empty()
    }

    /// Whether an earlier attempt left this target behind unfinished.
    pub fn is_unfinished(&self, name: &[u8]) -> bool {
        self.unfinished.contains(name)
    }

    /// Remembers beyond this run that `name` exists but is not finished.
    pub fn mark_unfinished(&mut self, name: &[u8]) {
        self.unfinished.insert(name);
    }

    /// An attempt finished `name`.
    pub fn mark_finished(&mut self, name: &[u8]) {
        self.unfinished.remove(name);
    }

    /// An attempt has made `name`, which is like that now.
    pub fn note_made(&mut self, name: &[u8], made: FileIdentity) {
        let root = self.root();
        self.settled.note_made(&root, name, made);
    }

    /// A rule got the next number.
    pub fn add_rule(&mut self, location: &Text, source: Option<&Text>) {
        let directory = self.started.directory.as_path();
        let location = match location.as_path().strip_prefix(directory) {
            Ok(relative) => Text(relative.as_os_str().as_encoded_bytes().to_vec()),
            Err(_) => location.clone(),
        };
        let digest = |source: &Text| blake3::hash(&source.0).to_hex()[..32].to_owned();
        self.definitions.add_rule(location, source.map(digest));
    }

    /// Parameters got the next number.
    pub fn add_parameters(&mut self, list: Vec<(Text, Text)>) {
        self.definitions.add_parameters(list);
    }

    /// How many lists of parameters there are.
    pub fn parameters_len(&self) -> usize {
        self.definitions.parameters_len()
    }

    /// Names and values of what a task's action depends on by declaration.
    pub fn parameters_of(&self, id: TaskId) -> &[(Text, Text)] {
        self.definitions.parameters(id)
    }

    /// The number of a task's rule; 0: it has none.
    pub fn rule_of(&self, id: TaskId) -> u32 {
        self.definitions.rule_of(id)
    }

    /// Where the action of a task stands, when that is known.
    pub fn location_of(&self, id: TaskId) -> Option<&Text> {
        self.definitions.location(self.rule_of(id))
    }

    /// The rule of a task, as other runs know it.
    pub fn known_rule(&self, id: TaskId) -> Option<KnownRule<'_>> {
        self.definitions.known_rule(self.rule_of(id))
    }

    /// Where the actions of a rule stand, when that is known.
    pub fn location_of_rule(&self, rule: u32) -> Option<&Text> {
        self.definitions.location(rule)
    }

    /// Digest of the source of a task's actions, when that is known.
    pub fn source_of(&self, id: TaskId) -> Option<&str> {
        self.definitions.source(self.rule_of(id))
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.definitions.rules_len()
    }

    /// The next task has this rule and these parameters; 0: none.
    pub fn add_task(&mut self, rule: u32, parameters: u32) {
        self.definitions.add_task(rule, parameters);
    }

    /// Metadata calls that the hub and the agents have made.
    pub fn set_metadata_operations(&mut self, operations: Operations) {
        self.metadata_operations = Some(operations);
    }

    /// A node takes part.
    pub fn add_node(&mut self, node: NodeJoined) {
        if self.open.is_some() {
            lines::event(&mut self.pending, &JournalEvent::NodeJoined(node));
        } else {
            // One that comes back before anything is written takes part once.
            self.nodes.retain(|other| other.node != node.node);
            self.nodes.push(node);
        }
    }

    /// A node is lost.
    pub fn node_lost(&mut self, lost: NodeLost) {
        if self.open.is_some() {
            lines::event(&mut self.pending, &JournalEvent::NodeLost(lost));
        } else {
            self.nodes.retain(|node| node.node != lost.node);
        }
    }

    /// A node that the run let go has gone.
    pub fn node_gone(&mut self, gone: NodeGone) {
        if self.open.is_some() {
            lines::event(&mut self.pending, &JournalEvent::NodeGone(gone));
        } else {
            self.nodes.retain(|node| node.node != gone.node);
        }
    }

    /// Tasks are wanted.
    pub fn invocation_started(
        &mut self,
        id: InvocationId,
        time_ns: i64,
        tasks: &[TaskId],
        caller: Option<TaskId>,
    ) {
        if self.enabled {
            let quiet = QuietInvocation { time_ns, tasks: tasks.to_vec(), caller };
            self.quiet_invocations.insert(id, quiet);
        }
    }

    /// An invocation is over.
    pub fn invocation_ended(
        &mut self,
        id: InvocationId,
        time_ns: i64,
        failed: u32,
        abandoned: u32,
    ) {
        self.quiet_invocations.remove(&id);
        if let Some(invocation) = self.noted_invocations.remove(&id) {
            let ended = InvocationEnded { time_ns, invocation, failed, abandoned };
            self.push(&JournalEvent::InvocationEnded(ended));
        }
    }

    /// An action is about to run.
    pub fn attempt_started(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        start: &AttemptStart<'_>,
        reasons: &[Reason],
    ) {
        if !self.enabled {
            return;
        }
        self.executing = true;
        self.note_invocations(names);
        self.attempts.insert(start.task, start.time_ns);
        self.definitions.define(&mut self.pending, scheduler, names, TaskId(start.task));
        lines::attempt_started(&mut self.pending, start, reasons);
    }

    /// An action is over.
    pub fn attempt_ended(&mut self, names: &Names, end: &AttemptEnd<'_>, attempt: u32) {
        let started_ns = self.attempts.remove(&end.task);
        // Of an attempt that began before a write failed, the end is still to be noted.
        if !self.enabled && (!self.broken || started_ns.is_none()) {
            return;
        }
        let id = TaskId(end.task);
        let name = names.name(id);
        self.output.end(Some((end.task, attempt)), name);
        if end.outcome == Outcome::Done {
            let took_ns = total_ns(end.held);
            let rule = self.definitions.known_rule(self.definitions.rule_of(id));
            self.durations.add(rule, &Text(name.to_vec()), took_ns);
        }
        if end.outcome == Outcome::Done || !names.is_path(id) {
            self.unsettled.remove(&end.task);
        } else {
            self.unsettled.insert(end.task);
        }
        lines::attempt_ended(&mut self.pending, end, started_ns.unwrap_or(end.time_ns));
    }

    /// Whether there are targets whose last attempt did not end well: what it left behind may write to them as long as
    /// it lives. The run's mark stays then, so that the guard or the next run, which ends that, settles them once more.
    pub fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// A command is about to start.
    pub fn command_started(&mut self, start: &CommandStart<'_>) {
        if self.enabled {
            self.executing = true;
            let folder = self.started.directory.as_path();
            lines::command_started(&mut self.pending, start, folder);
        }
    }

    /// A command is over.
    pub fn command_ended(
        &mut self,
        time_ns: i64,
        command: u32,
        status: i32,
        error: Option<&Text>,
        usage: &Usage,
    ) {
        if self.enabled {
            lines::command_ended(&mut self.pending, time_ns, command, status, error, usage);
        }
    }

    /// A command printed something.
    pub fn printed(
        &mut self,
        source: Source,
        name: &[u8],
        descriptor: OutputDescriptor,
        bytes: &[u8],
    ) {
        if self.enabled {
            self.output.push(source, name, descriptor, bytes);
        }
    }

    /// Counts a settled task; helpers of the planner, which have no name, do not count.
    pub fn count_settled(&mut self, how: TaskOutcome) {
        let total = match how {
            TaskOutcome::Executed => &mut self.totals.executed,
            TaskOutcome::NotNeeded => &mut self.totals.not_needed,
            TaskOutcome::Failed => &mut self.totals.failed,
            TaskOutcome::Abandoned => &mut self.totals.abandoned,
            TaskOutcome::NotReached => return,
        };
        *total += 1;
    }

    /// Tasks that were not run because others failed, so far.
    pub fn abandoned(&self) -> u32 {
        self.totals.abandoned
    }

    /// How many tasks with an action have ended well: what the last line on the terminal says, too.
    pub fn note_done(&mut self, done: usize) {
        self.totals.done = Some(u32::try_from(done).unwrap_or(u32::MAX));
    }

    /// A task is settled, and no attempt says so.
    pub fn task_settled(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        id: TaskId,
        time_ns: i64,
        how: TaskOutcome,
        because: Vec<u32>,
    ) {
        if self.enabled {
            self.definitions.define(&mut self.pending, scheduler, names, id);
            let settled = TaskSettled { time_ns, task: id.0, how, because };
            self.push(&JournalEvent::TaskSettled(settled));
        }
    }

    /// Tasks begin together; defines them if need be.
    pub fn gang_started(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        event: &JournalEvent,
        tasks: &[TaskId],
    ) {
        if self.enabled {
            for id in tasks {
                self.definitions.define(&mut self.pending, scheduler, names, *id);
            }
            self.push(event);
        }
    }

    /// Something else has happened to a task; defines it if need be.
    pub fn about_task(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        id: TaskId,
        event: &JournalEvent,
    ) {
        if self.enabled && !names.name(id).is_empty() {
            self.definitions.define(&mut self.pending, scheduler, names, id);
            self.push(event);
        }
    }

    /// The run ends before the turn of these tasks. Defines them, too, up to about `NOT_REACHED_MAX` lines.
    pub fn not_reached(
        &mut self,
        scheduler: &Scheduler,
        names: &Names,
        tasks: impl Iterator<Item = TaskId>,
        time_ns: i64,
    ) {
        if !self.executing {
            return;
        }
        let end = self.definitions.tasks_defined() + NOT_REACHED_MAX;
        for id in tasks.take(NOT_REACHED_MAX) {
            if self.definitions.tasks_defined() >= end {
                break;
            }
            self.task_settled(scheduler, names, id, time_ns, TaskOutcome::NotReached, Vec::new());
        }
    }

    /// The machine's clock was set. What is executed later, and fails to be noted, is stamped by that.
    pub fn clock_stepped(&mut self, stepped: ClockStepped) {
        if self.broken {
            self.note_failed(stepped.wall_ns);
        } else {
            self.push(&JournalEvent::ClockStepped(stepped));
        }
    }

    /// What becomes of a round of a synchronised start.
    pub fn round(&mut self, event: &JournalEvent) {
        if self.enabled {
            self.executing |= matches!(event, JournalEvent::CommandPrepared(_));
            self.push(event);
        }
    }

    /// Nothing more is to start.
    pub fn stop_requested(&mut self, time_ns: i64, how: &str) {
        if self.executing {
            self.push(&JournalEvent::StopRequested(StopRequested { time_ns, how: how.into() }));
        }
    }

    fn push(&mut self, event: &JournalEvent) {
        if self.enabled {
            lines::event(&mut self.pending, event);
        }
    }

    /// What is wanted is noted though nothing was executed yet: it waits, and people may ask why.
    pub fn note_waiting(&mut self, names: &Names) {
        if self.enabled {
            self.executing = true;
            self.note_invocations(names);
        }
    }

    /// Invocations are noted when something is executed while they live.
    fn note_invocations(&mut self, names: &Names) {
        while let Some((id, quiet)) = self.quiet_invocations.pop_first() {
            let invocation = self.next_invocation;
            self.next_invocation += 1;
            self.noted_invocations.insert(id, invocation);
            let tasks = quiet.tasks.into_iter().map(|id| Text(names.name(id).to_vec())).collect();
            let caller = quiet.caller.map(|id| id.0);
            let started = InvocationStarted { time_ns: quiet.time_ns, invocation, tasks, caller };
            self.push(&JournalEvent::InvocationStarted(started));
        }
    }

    /// Writes what was added. Makes the run's folder at the first time.
    pub fn flush(&mut self) -> Result<(), HubError> {
        if self.enabled {
            self.write_unfinished()?;
        } else if self.broken {
            // The user knows that writing fails; what is left is tried again.
            let _ = self.write_unfinished();
        }
        if !self.executing || (self.pending.is_empty() && self.output.pending.is_empty()) {
            return Ok(());
        }
        if self.open.is_none() {
            self.begin()?;
        }
        self.write_journal()?;
        if !self.output.pending.is_empty() {
            self.open_output()?;
            let open = self.open.as_mut().expect("opened above");
            let path = self.project.find(&open.folder).join("output.log");
            let file = open.output.as_mut().expect("made above");
            file.write_all(&self.output.pending).map_err(at(&path))?;
            empty(&mut self.output.pending);
        }
        Ok(())
    }

    /// Makes the file of what commands print, once.
    fn open_output(&mut self) -> Result<(), HubError> {
        if let Some(open) = self.open.as_mut().filter(|open| open.output.is_none()) {
            let path = self.project.find(&open.folder).join("output.log");
            open.output = Some(File::create(&path).map_err(at(&path))?);
        }
        Ok(())
    }

    fn write_unfinished(&mut self) -> Result<(), HubError> {
        if !self.unfinished.is_pending() {
            return Ok(());
        }
        let root = self.root();
        self.unfinished.write(&root).map_err(at(&root.join("unfinished")))
    }

    /// Writes the lines that are pending, where there is a journal.
    fn write_journal(&mut self) -> Result<(), HubError> {
        let Some(open) = self.open.as_mut().filter(|_| !self.pending.is_empty()) else {
            return Ok(());
        };
        open.journal.write_all(&self.pending).map_err(at(&open.folder.join(folder::JOURNAL)))?;
        open.journal_bytes += self.pending.len() as u64;
        // Without it a journal that loses its end is not noticed; with it, nothing else changes.
        let _ = open.marker.note_bytes(open.journal_bytes);
        empty(&mut self.pending);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), HubError> {
        let run = &self.started.run;
        let root = self.root();
        let running = root.join(RUNNING).join(run);
        let marker = Marker::prepare(&root, run).map_err(at(&running))?;
        let chosen = self.chosen_folder.as_deref().map(|folder| self.project.find(folder));
        let folder = folder::folder_of(&root, run, chosen.as_deref());
        let journal = folder::make(&root, run, &folder);
        let journal = journal.map_err(|(path, source)| HubError::Record { path, source })?;
        let (device, inode) = self.project.identity();
        let mark = processes::own_mark().unwrap_or_default();
        let life_space = processes::first_lives(&mark).then(processes::life_space).flatten();
        let journal_name = folder::in_project(&root, &folder.join(folder::JOURNAL));
        let line = MarkLine { journal: journal_name, mark, device, inode, life_space };
        let marker = marker.set(&root, run, &line).map_err(at(&running))?;
        // This run's mark is set: of two that begin at once, one at least sees the other.
        let others = marks(&root).into_iter().filter(|other| other.alive && other.run != *run);
        let others = others.filter(|other| !processes::carries(&other.mark));
        self.other_runs = others.map(|other| other.run).collect();
        self.open = Some(OpenRecord { folder, journal, journal_bytes: 0, output: None, marker });
        if self.keeps_output {
            // That it is there says that what is not in it was not printed.
            self.open_output()?;
        }
        let mut first = Vec::new();
        lines::event(&mut first, &JournalEvent::RunStarted(self.started.clone()));
        for node in &self.nodes {
            lines::event(&mut first, &JournalEvent::NodeJoined(node.clone()));
        }
        first.append(&mut self.pending);
        self.pending = first;
        Ok(())
    }
}

fn empty(buffer: &mut Vec<u8>) {
    if buffer.capacity() > BUFFER_BYTES {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> HubError {
    let path = path.to_path_buf();
    move |source| HubError::Record { path: path.clone(), source }
}

#[cfg(test)]
mod suspected_tests;
#[cfg(test)]
mod tests;
