//! What is remembered of failed attempts, so that the last lines on the terminal can say what went
//! wrong and what to do next.
//!
//! It changes nothing about what runs. `text` decides how the lines look.

mod resume;
pub(crate) mod state;
mod status;
pub(crate) mod tail;
mod text;

use std::path::Path;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{FailurePolicy, LOSSES_PER_NODE, TaskId, TaskState, total_ns};
use rakuda_proto::Text;
use rakuda_proto::agent::OutputDescriptor;
use rakuda_proto::front::{CiSystem, Program};
use rakuda_record::printable::printable;
use rakuda_record::words::{command_line, environment_in_words};

use crate::attempts::state::RunningAttempt;
use crate::ci;
use crate::hub::Hub;
use crate::printer::OutputMode;
use crate::settings::BLAME_AFTER;
use crate::targets::TargetEnding;
use state::{Cause, Note};
use text::{FailedTask, Summary, TASKS_MAX};

/// Maximum number of failures that are remembered with all that is known about them.
const NOTES_MAX: usize = 100;

/// Maximum number of lines of a task's output that are shown.
const LINES_MAX: usize = 5;

/// Maximum number of names of tasks that are shown as not run because of one.
const NAMES_MAX: usize = 5;

/// Maximum number of tasks that are looked at to count those.
const STEPS_MAX: usize = 1_000_000;

/// How an exception's first line begins that rake's `sh` raises; and in the front's words, where rake has none for what
/// has killed the command.
const COMMAND_FAILED: [&[u8]; 3] =
    [b"Command failed with status", b"Command failed with signal", b"Command was killed: "];

impl Hub {
    /// An attempt has failed: what is known about it now.
    pub(crate) fn note_failure(
        &mut self,
        id: TaskId,
        attempt: &RunningAttempt,
        message: &[u8],
        settled: Option<&TargetEnding>,
    ) {
        if attempt.is_aborted() || self.run.stopping().by_user() {
            self.failures.aborted.insert(id);
            return;
        }
        self.failures.aborted.remove(&id);
        self.failures.count += 1;
        let took_ns = total_ns(attempt.held());
        let cause = cause_of(attempt, message);
        if self.settings.config.failure == FailurePolicy::Continue {
            let several = self.agents.places().count() > 1;
            let node = several.then(|| self.agents.node(attempt.node()).name.to_display());
            let ending = text::ending(took_ns, node.as_deref(), cause.as_ref());
            self.failures.endings.insert(id, ending);
        }
        if self.failures.notes.len() >= NOTES_MAX && !self.failures.notes.contains_key(&id) {
            return;
        }
        let lines =
            || attempt.details.tail.lines(LINES_MAX).into_iter().map(printable_line).collect();
        let note = Note {
            number: self.failures.count,
            attempt: attempt.number(),
            node: self.agents.node(attempt.node()).name.to_display(),
            took_ns,
            cause,
            place: self.settings.ci.and_then(|_| {
                let message = printable(message);
                ci::place_of(&message).map(|(file, line)| (file.to_owned(), line.to_owned()))
            }),
            hint: attempt.details.failed_command.as_ref().and_then(|_| self.streams.hint_for(id)),
            output: (self.settings.output != OutputMode::None).then(lines),
            target: settled.and_then(|settled| describe_target(settled, &self.display_name(id))),
        };
        self.failures.notes.insert(id, note);
    }

    /// A task was lost with too many nodes: what is known about its last attempt, whose action is still being unwound.
    pub(crate) fn note_blame(&mut self, id: TaskId, nodes: Vec<String>) {
        self.failures.aborted.remove(&id);
        self.failures.count += 1;
        if self.failures.notes.len() >= NOTES_MAX && !self.failures.notes.contains_key(&id) {
            return;
        }
        let attempt = self.run.attempts().get(id).filter(|_| self.run.attempts().is_unwinding(id));
        let listens = self.settings.output != OutputMode::None;
        let note = Note {
            number: self.failures.count,
            attempt: attempt.map_or(0, RunningAttempt::number),
            node: nodes.last().cloned().unwrap_or_default(),
            took_ns: attempt.map_or(0, |attempt| total_ns(attempt.held())),
            cause: Some(Cause::Lost(nodes)),
            place: None,
            hint: None,
            output: listens.then(|| {
                let lines = attempt.map(|attempt| attempt.details.tail.lines(LINES_MAX));
                lines.unwrap_or_default().into_iter().map(printable_line).collect()
            }),
            target: None,
        };
        self.failures.notes.insert(id, note);
    }

    /// The output of a task is no good, as was found out when its action had ended well.
    pub(crate) fn note_spoilt(&mut self, id: TaskId, reason: &str) {
        let (node, took_ns) = self.streams.end_of(id).unwrap_or((LOCAL_NODE, 0));
        self.failures.aborted.remove(&id);
        self.failures.count += 1;
        let cause = Some(Cause::Exception(reason.as_bytes().to_vec()));
        if self.settings.config.failure == FailurePolicy::Continue {
            let several = self.agents.places().count() > 1;
            let name = several.then(|| self.agents.node(node).name.to_display());
            let ending = text::ending(took_ns, name.as_deref(), cause.as_ref());
            self.failures.endings.insert(id, ending);
        }
        if self.failures.notes.len() >= NOTES_MAX && !self.failures.notes.contains_key(&id) {
            return;
        }
        let note = Note {
            number: self.failures.count,
            attempt: self.run.scheduler().task(id).map_or(0, |task| task.attempt),
            node: self.agents.node(node).name.to_display(),
            took_ns,
            cause,
            place: None,
            hint: None,
            output: (self.settings.output != OutputMode::None).then(Vec::new),
            target: None,
        };
        self.failures.notes.insert(id, note);
    }

    /// Notes why a task fails that was never begun.
    pub(crate) fn note_refused(&mut self, id: TaskId, reason: &str) {
        self.failures.count += 1;
        if self.failures.notes.len() >= NOTES_MAX {
            return;
        }
        let note = Note {
            number: self.failures.count,
            attempt: 0,
            node: String::new(),
            took_ns: 0,
            cause: Some(Cause::Exception(reason.as_bytes().to_vec())),
            place: None,
            hint: None,
            output: None,
            target: None,
        };
        self.failures.notes.insert(id, note);
    }

    /// Reports a task that has failed for good. Where the run goes on with others, the end may be hours away, so it is
    /// shown now.
    pub(crate) fn tell_failure(&mut self, id: TaskId) {
        if let Some(ending) = self.failures.endings.remove(&id) {
            let name = text::red(&self.display_name(id), self.settings.colour);
            self.warn(&format!("task {name} failed {ending}"));
        }
    }

    /// What was done with the target of an attempt that was noted before that was known.
    pub(crate) fn note_target(&mut self, id: TaskId, settled: &TargetEnding) {
        let target = describe_target(settled, &self.display_name(id));
        if let Some(note) = self.failures.notes.get_mut(&id) {
            note.target = target;
        }
    }

    /// A task's name, fit to be shown.
    pub(crate) fn display_name(&self, id: TaskId) -> String {
        printable(self.names.name(id))
    }

    /// The names of tasks; of more than `most` it is said how many.
    pub(crate) fn listed_names(&self, tasks: &[TaskId], most: usize) -> String {
        let names: Vec<String> = tasks.iter().take(most).map(|id| self.display_name(*id)).collect();
        match tasks.len() - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// Says at the end of a run that did not end well what went wrong and how to go on.
    pub(crate) fn print_summary(&mut self) {
        let stopped = self.run.stopping().by_user();
        let failed = self.failed_tasks();
        if failed.is_empty() && !stopped {
            return;
        }
        let summary = self.summary(stopped, &failed);
        let mut text = summary.text();
        if let Some(system) = self.settings.ci {
            text = ci::obeyed_no_more(system, &text);
            for (task, id) in summary.tasks.iter().zip(&failed) {
                text.push_str(&self.annotation(system, task, *id));
            }
        }
        self.printer.push_block(OutputDescriptor::Stderr, text.as_bytes());
    }

    /// A failed task for the system that reads the log. GitHub takes a relative name as one from the
    /// top of the repository, where the run need not be, and finds an absolute one below it.
    fn annotation(&self, system: CiSystem, task: &FailedTask, id: TaskId) -> String {
        let place = self.failures.notes.get(&id).and_then(|note| note.place.as_ref());
        let place = place.map(|(file, line)| match system {
            CiSystem::Github => (printable_path(&self.start_directory.join(file)), line.as_str()),
            CiSystem::Gitlab => (file.clone(), line.as_str()),
        });
        let place = place.as_ref().map(|(file, line)| (file.as_str(), *line));
        let message = match task.attempt {
            0 => "failed".to_owned(),
            _ => format!("failed {}", text::ending(task.took_ns, None, task.cause.as_ref())),
        };
        ci::annotation(system, self.settings.colour, place, &task.name, &message)
    }

    /// Tasks that failed by themselves, in the order of failing as far as that is remembered.
    fn failed_tasks(&self) -> Vec<TaskId> {
        if self.run.scheduler().counts().failed == 0 {
            return Vec::new();
        }
        let has_failed = |id: &TaskId| {
            let state = self.run.scheduler().task(*id).map(|task| task.state);
            state == Some(TaskState::Settled(rakuda_core::Settled::Failed))
        };
        let own = |id: &TaskId| has_failed(id) && !self.failures.aborted.contains(id);
        let mut failed: Vec<TaskId> = self.run.scheduler().task_ids().filter(own).collect();
        let place = |id: &TaskId| self.failures.notes.get(id).map_or(u32::MAX, |note| note.number);
        failed.sort_by_key(|id| (place(id), *id));
        failed
    }

    fn summary(&self, stopped: bool, failed: &[TaskId]) -> Summary {
        let now = self.now;
        let mut summary = Summary {
            stopped,
            failed: failed.len(),
            resume: match self.settings.resume.as_slice() {
                [] => resume::resume_command(&self.settings.command_line),
                words => resume::call(words),
            },
            again: !self.settings.resume.is_empty(),
            log: self.log_shown(),
            colour: self.settings.colour,
            not_started: self
                .run
                .scheduler()
                .forecast(now)
                .into_iter()
                .filter(|runs| *runs)
                .count(),
            tasks: failed.iter().take(TASKS_MAX).map(|id| self.failed_task(*id)).collect(),
            ..Summary::default()
        };
        for id in self.run.scheduler().task_ids().filter(|id| self.run.scheduler().has_action(*id))
        {
            let Some(task) = self.run.scheduler().task(id) else { continue };
            match task.state {
                TaskState::Settled(rakuda_core::Settled::Executed) => summary.done += 1,
                TaskState::Settled(rakuda_core::Settled::Abandoned) if !self.has_run(id) => {
                    summary.not_run += 1;
                }
                TaskState::Settled(rakuda_core::Settled::Abandoned) => summary.aborted += 1,
                _ => summary.aborted += usize::from(self.failures.is_aborted(id)),
            }
        }
        summary
    }

    /// The file with all output, from where the user is; `None` if nothing is recorded.
    fn log_shown(&self) -> Option<String> {
        let folder = self.record.folder_if_open()?;
        let path = folder.join("output.log");
        let path = path.strip_prefix(&self.start_directory).unwrap_or(&path);
        Some(printable_path(path))
    }

    fn failed_task(&self, id: TaskId) -> FailedTask {
        let has_run = |id| self.has_run(id);
        let scheduler = self.run.scheduler();
        let (count, first) = scheduler.abandoned_because_of(id, NAMES_MAX, STEPS_MAX, has_run);
        let mut task = FailedTask {
            name: self.display_name(id),
            attempts: self.run.scheduler().attempts_max(id),
            not_run: first.into_iter().map(|id| self.display_name(id)).collect(),
            not_run_count: count,
            environment: environment_in_words(self.record.parameters_of(id)),
            ..FailedTask::default()
        };
        if let Some(note) = self.failures.notes.get(&id) {
            task.node.clone_from(&note.node);
            task.attempt = note.attempt;
            task.took_ns = note.took_ns;
            task.cause.clone_from(&note.cause);
            task.hint.clone_from(&note.hint);
            task.output.clone_from(&note.output);
            task.target.clone_from(&note.target);
        }
        task
    }
}

fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
}

/// Tabs are kept apart from other controls: programs print them.
fn printable_line(line: &[u8]) -> String {
    let spaced: Vec<u8> =
        line.iter().map(|byte| if *byte == b'\t' { b' ' } else { *byte }).collect();
    // What a carriage return has overwritten was not to be read.
    let shown = spaced.strip_suffix(b"\r").unwrap_or(&spaced);
    let start = shown.iter().rposition(|byte| *byte == b'\r').map_or(0, |place| place + 1);
    printable(&shown[start..])
}

/// What the user reads of a task that was lost with these nodes, after its name.
pub(crate) fn blame(nodes: &[String]) -> String {
    let (count, names) = (nodes.len(), nodes.join(", "));
    if count >= BLAME_AFTER as usize {
        return format!(
            "was lost with {count} different nodes ({names}) and is suspected of taking them down"
        );
    }
    let times = LOSSES_PER_NODE * BLAME_AFTER;
    format!(
        "was lost {times} times with {names}, never ended well since, and is suspected of taking its node down"
    )
}

fn cause_of(attempt: &RunningAttempt, message: &[u8]) -> Option<Cause> {
    match &attempt.details.failed_command {
        Some(failed)
            if message.is_empty()
                || COMMAND_FAILED.iter().any(|words| message.starts_with(words)) =>
        {
            Some(Cause::Command {
                line: shown_command(&failed.program),
                status: failed.status,
                error: failed.error.clone(),
            })
        }
        _ if message.is_empty() => None,
        _ => Some(Cause::Exception(message.to_vec())),
    }
}

/// A command as one would type it, fit to be shown.
pub(crate) fn shown_command(program: &Program) -> String {
    match program {
        Program::Line(Text(line)) => {
            let line: Vec<u8> =
                line.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
            printable(&line)
        }
        Program::Words(words) => command_line(words),
    }
}

fn describe_target(settled: &TargetEnding, name: &str) -> Option<String> {
    Some(match settled {
        TargetEnding::Untouched => return None,
        TargetEnding::Renamed => format!("renamed to {name}._fail_"),
        TargetEnding::Deleted => "deleted".to_owned(),
        TargetEnding::Left => "left in place; it will be made again".to_owned(),
        TargetEnding::Stuck(error) => {
            format!("left in place, as it could not be moved ({error}); it will be made again")
        }
    })
}
