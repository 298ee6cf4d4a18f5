//! Counts of a run, and when they are shown next.

use std::collections::VecDeque;

use rakuda_core::{Settled, TaskId};
use rakuda_proto::front::ProgressMode;

use crate::progress::by_rule::RuleTotal;
use crate::progress::earlier::EarlierRuns;
use crate::progress::made::Made;
use crate::progress::remaining::Remaining;

pub(super) const SECOND: u64 = 1_000_000_000;

/// Minimum time of a run before it shows anything, ns.
pub(super) const FIRST_DRAW_NS: u64 = 300_000_000;

/// Time to the first plain line and the next, ns. Each gap is half as long again as the one before.
pub(super) const PLAIN_FIRST_NS: u64 = 10 * SECOND;

/// Counts of a run, and when they are shown next.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(super) mode: ProgressMode,
    /// When the first task was wanted, by the monotonic clock.
    pub(super) started_ns: Option<u64>,
    /// When the last invocation so far has ended, by the same clock.
    pub(super) ended_ns: Option<u64>,
    /// When something is to be shown next.
    pub(super) due_ns: u64,
    pub(super) plain_gap_ns: u64,
    /// Something has happened since the last draw.
    pub(super) changed: bool,
    pub(super) drawn_ns: u64,
    /// Actions that ended well, and what they took together.
    pub(super) done: usize,
    pub(super) busy_ns: u64,
    pub(super) failed: usize,
    /// Number of tasks that were stopped.
    pub(super) stopped: usize,
    /// Number of tasks with an action that was not tried, as something failed.
    pub(super) not_run: usize,
    pub(super) remaining: Remaining,
    /// Reads earlier runs; `None` if they have not been looked at.
    pub(super) earlier: Option<EarlierRuns>,
    /// Number of tasks done at some times, the oldest first.
    pub(super) samples: VecDeque<(u64, usize)>,
    /// Number of programs that need the terminal for themselves.
    pub holds: u32,
    pub(super) shown: bool,
    /// The targets that were made, for the last line.
    pub(super) made: Made,
}

/// How a task was settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub settled: Settled,
    pub has_action: bool,
    /// An attempt of the task was made.
    pub acted: bool,
    /// Its attempt was to end.
    pub aborted: bool,
}

impl Progress {
    pub fn new(mode: ProgressMode) -> Self {
        Self {
            mode,
            started_ns: None,
            ended_ns: None,
            due_ns: 0,
            plain_gap_ns: PLAIN_FIRST_NS,
            changed: false,
            drawn_ns: 0,
            done: 0,
            busy_ns: 0,
            failed: 0,
            stopped: 0,
            not_run: 0,
            remaining: Remaining::default(),
            earlier: None,
            samples: VecDeque::new(),
            holds: 0,
            shown: false,
            made: Made::default(),
        }
    }

    /// Tasks are wanted: the time of the run begins.
    pub fn start(&mut self, now_ns: u64) {
        if self.started_ns.is_none() {
            self.started_ns = Some(now_ns);
            self.samples.push_back((now_ns, 0));
            let first_ns =
                if self.mode == ProgressMode::Live { FIRST_DRAW_NS } else { PLAIN_FIRST_NS };
            self.due_ns = now_ns + first_ns;
        }
        self.changed = true;
    }

    /// An invocation has ended, perhaps the last.
    pub fn note_invocation_ended(&mut self, now_ns: u64) {
        self.ended_ns = Some(now_ns);
    }

    /// From the first invocation's start to the last one's end; `None` if nothing was wanted.
    pub(super) fn makespan_ns(&self) -> Option<u64> {
        Some(self.ended_ns?.saturating_sub(self.started_ns?))
    }

    /// Something has changed that is to be seen at once, even where lines come seldom.
    pub fn show_soon(&mut self, now_ns: u64) {
        self.changed = true;
        let wait_ns = if self.mode == ProgressMode::Live { 0 } else { SECOND };
        self.due_ns = self.due_ns.min(now_ns + wait_ns);
    }

    /// Tasks with an action that ended well, each once.
    pub fn done(&self) -> usize {
        self.done
    }

    /// What a task of this rule had made is lost; `acted`: it had made it in this run.
    pub fn on_reopened(&mut self, rule: u32, acted: bool) {
        if acted {
            self.done = self.done.saturating_sub(1);
            self.remaining.on_reopened(rule);
        }
    }

    /// Rules that have tasks, by number, with how many.
    pub fn rules(&self) -> impl Iterator<Item = (u32, &RuleTotal)> {
        self.remaining.by_rule().all()
    }

    /// Tasks of the run that are settled.
    fn over(&self) -> usize {
        self.done + self.failed + self.stopped + self.not_run
    }

    /// All tasks of the run (docs/glossary.md).
    pub(super) fn total(&self) -> usize {
        self.over() + self.remaining.count()
    }

    /// A task of this rule is settled.
    pub fn on_settled(&mut self, id: TaskId, rule: u32, how: Ending) {
        let before = self.over();
        let Ending { settled, has_action, acted, aborted } = how;
        match settled {
            // What was made, was lost and came back is not needed, and done all the same.
            Settled::Executed | Settled::NotNeeded if acted => self.done += 1,
            Settled::Failed if aborted => self.stopped += 1,
            // Its gang has failed after it was begun.
            Settled::Abandoned if acted => self.stopped += 1,
            Settled::Abandoned if has_action => self.not_run += 1,
            Settled::Failed => self.failed += 1,
            Settled::Executed | Settled::NotNeeded | Settled::Abandoned => {}
        }
        self.remaining.on_settled(id, rule, self.over() > before);
        self.changed = true;
    }
}
