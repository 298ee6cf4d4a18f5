//! What became of the tasks of a run: counts, and those that failed.
//!
//! It does not know times of groups or how anything is shown.

use rakuda_proto::journal::{Outcome, RunEnded, TaskOutcome};

use crate::run::{Run, Task};

/// What became of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// An attempt of it succeeded.
    Ran,
    /// It has no action, and stands for something that ran.
    Passed,
    /// It was up to date.
    NotNeeded,
    /// Its last attempt failed.
    Failed,
    /// A prerequisite failed.
    Abandoned,
    /// Its attempt was ended because of others, or ended well and came to nothing with its gang.
    Stopped,
    /// Its attempt had not ended.
    Running,
    /// The run ended before its turn.
    NotReached,
    /// Nothing is known to have happened to it.
    NotStarted,
}

impl Fate {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ran | Self::Passed => "done",
            Self::NotNeeded => "up to date",
            Self::Failed => "failed",
            Self::Abandoned => "not run",
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::NotReached => "not reached",
            Self::NotStarted => "not started",
        }
    }
}

/// What became of a task.
pub fn fate(task: &Task) -> Fate {
    let last = task.attempts.iter().rev().find(|attempt| {
        attempt.ended.as_ref().is_none_or(|ended| ended.outcome != Outcome::GivenBack)
    });
    if task.reopened {
        return Fate::Stopped;
    }
    match (task.settled.as_ref().map(|settled| settled.how), last) {
        (Some(TaskOutcome::Failed), _) => Fate::Failed,
        (Some(TaskOutcome::Abandoned), None) => Fate::Abandoned,
        // It was begun, and its gang has failed.
        (Some(TaskOutcome::Abandoned), Some(_)) => Fate::Stopped,
        // It was made in this run, was lost, and came back.
        (Some(TaskOutcome::NotNeeded), Some(_)) => Fate::Ran,
        (Some(TaskOutcome::NotNeeded), None) => Fate::NotNeeded,
        (Some(TaskOutcome::NotReached), _) => Fate::NotReached,
        (Some(TaskOutcome::Executed), None) => Fate::Passed,
        (None, None) if task.defined.up_to_date => Fate::NotNeeded,
        (None, None) => Fate::NotStarted,
        (_, Some(attempt)) => match &attempt.ended {
            None => Fate::Running,
            Some(ended) => match ended.outcome {
                Outcome::Done => Fate::Ran,
                Outcome::Aborted | Outcome::Lost | Outcome::GivenBack => Fate::Stopped,
                Outcome::Failed | Outcome::Exited if ended.retried => Fate::Stopped,
                Outcome::Failed | Outcome::Exited => Fate::Failed,
            },
        },
    }
}

/// Tasks by what became of them. All but `run`, `passed` and `not_needed` together are `tasks`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All tasks of the run (docs/glossary.md), as far as they are known.
    pub tasks: usize,
    /// An attempt of it was made.
    pub run: usize,
    /// Succeeded.
    pub done: usize,
    /// Beside them: without an action, for something that ran or would have.
    pub passed: usize,
    /// Beside them: up to date, source files too.
    pub not_needed: usize,
    /// Failed.
    pub failed: usize,
    /// Not tried because of those.
    pub abandoned: usize,
    /// Ended because of others.
    pub stopped: usize,
    /// Had not ended.
    pub running: usize,
    /// The run ended before their turn.
    pub not_reached: usize,
    /// Nothing is known to have happened to them. 0 for a run that has ended.
    pub not_started: usize,
}

impl Counts {
    /// Of all tasks. Those that were up to date are not all in the journal: their number stands in its last line.
    pub fn of(run: &Run) -> Self {
        let mut counts = Self::default();
        // Of tasks without an end of their own: those with an action, and those without.
        let mut unknown = (0, 0);
        for task in run.tasks.iter().flatten() {
            match fate(task) {
                Fate::Ran => counts.done += 1,
                Fate::Passed => counts.passed += 1,
                // Nothing of its own was left undone: what was is counted with what it stands for.
                Fate::Abandoned | Fate::NotReached if !task.defined.action => counts.passed += 1,
                Fate::NotNeeded => counts.not_needed += 1,
                Fate::Failed => counts.failed += 1,
                Fate::Abandoned => counts.abandoned += 1,
                Fate::Stopped => counts.stopped += 1,
                Fate::Running => counts.running += 1,
                Fate::NotReached => counts.not_reached += 1,
                Fate::NotStarted if task.defined.action => unknown.0 += 1,
                Fate::NotStarted => unknown.1 += 1,
            }
            counts.run += usize::from(!attempted(task).is_empty());
        }
        if let Some(ended) = &run.ended {
            counts.settle(ended, executed(run), unknown);
        } else {
            counts.not_started = unknown.0;
            counts.passed += unknown.1;
        }
        counts.tasks = counts.sum();
        counts
    }

    /// The end of a run tells how many tasks were settled in each way, also those whose end is in no line of their own:
    /// what was up to date, and what has no action and nothing before it. `executed`: those with such a line.
    fn settle(&mut self, ended: &RunEnded, executed: usize, unknown: (usize, usize)) {
        let (acting, standing) = unknown;
        let not_needed = (ended.not_needed as usize).saturating_sub(self.not_needed);
        let stood = (ended.executed as usize).saturating_sub(executed);
        let acting_left = acting.saturating_sub(not_needed);
        let not_needed_left = not_needed - (acting - acting_left);
        self.not_needed += not_needed;
        self.not_reached += acting_left;
        self.passed += stood.max(standing.saturating_sub(not_needed_left));
    }

    fn sum(&self) -> usize {
        let parts = [
            self.done,
            self.failed,
            self.abandoned,
            self.stopped,
            self.running,
            self.not_reached,
            self.not_started,
        ];
        parts.into_iter().sum()
    }
}

/// How often a line of its own says that a task was executed; one that was made again has several.
fn executed(run: &Run) -> usize {
    let of_task = |task: &Task| {
        let done = |attempt: &&crate::run::Attempt| {
            attempt.ended.as_ref().is_some_and(|ended| ended.outcome == Outcome::Done)
        };
        let stands =
            task.settled.as_ref().is_some_and(|settled| settled.how == TaskOutcome::Executed);
        task.attempts.iter().filter(done).count() + usize::from(stands)
    };
    run.tasks.iter().flatten().map(|task| of_task(task)).sum()
}

fn attempted(task: &Task) -> &[crate::run::Attempt] {
    let given_back = |attempt: &crate::run::Attempt| {
        attempt.ended.as_ref().is_some_and(|ended| ended.outcome == Outcome::GivenBack)
    };
    if task.attempts.iter().all(given_back) { &[] } else { &task.attempts }
}

/// How a wait(2) status reads: `status 1`, `signal 9`.
pub fn status_text(status: i32) -> String {
    match (status & 0x7f, (status >> 8) & 0xff) {
        (0, code) => format!("status {code}"),
        (signal, _) if status & 0x80 != 0 => format!("signal {signal} (core dumped)"),
        (signal, _) => format!("signal {signal}"),
    }
}
