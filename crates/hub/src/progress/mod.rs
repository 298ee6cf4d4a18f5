//! How far a run is: counted as tasks end, estimated, and shown. Here: when something is shown, and
//! what of the hub goes into it.
//!
//! What it looks like is told in `view`, what a terminal has to be told in `screen`; how long the
//! rest takes in `estimate`.

#![allow(
    clippy::cast_precision_loss,
    reason = "estimates, shown rounded: nothing is decided by them"
)]

mod by_rule;
pub(crate) mod duration;
pub(crate) mod earlier;
pub(crate) mod estimate;
mod farewell;
mod program;
mod remaining;
pub(crate) mod view;

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use rakuda_core::{NodeId, Settled, TaskId};
use rakuda_proto::agent::OutputStream;
use rakuda_proto::front::ProgressMode;

use crate::attempts::RunningAttempt;
use crate::hub::Hub;
use crate::screen::Screen;
use crate::stopping::StoppingView;
pub(crate) use by_rule::RuleTotal;
use earlier::EarlierRuns;
use estimate::{Load, RunningTask};
use farewell::Made;
use program::program_name;
use rakuda_record::printable::printable;
use remaining::Remaining;
use view::{Busy, TASKS_MAX, View};

const SECOND: u64 = 1_000_000_000;
/// A run that is over before this shows nothing.
const FIRST_DRAW_NS: u64 = 300_000_000;
/// Between two draws when something has changed, and when nothing has but the time.
const DRAW_NS: u64 = 100_000_000;
const IDLE_DRAW_NS: u64 = SECOND;
/// Between plain lines: at first, and at most; each gap is half as long again as the one before.
const PLAIN_FIRST_NS: u64 = 10 * SECOND;
const PLAIN_MAX_NS: u64 = 60 * SECOND;
/// The rate is that of the time before, so long.
const RATE_NS: u64 = 10 * SECOND;
/// Tasks that must have run to tell how many cores are kept busy, for each core.
const BUSY_SAMPLES: u64 = 2;

/// Counts of a run, and when they are shown next.
#[derive(Debug)]
pub(crate) struct Progress {
    mode: ProgressMode,
    /// When the first task was wanted, by the monotonic clock.
    started_ns: Option<u64>,
    /// When something is to be shown next.
    due_ns: u64,
    plain_gap_ns: u64,
    /// Something has happened since the last draw.
    changed: bool,
    drawn_ns: u64,
    /// Actions that ended well, and what they took together.
    done: usize,
    busy_ns: u64,
    failed: usize,
    /// Told to end before their end.
    stopped: usize,
    remaining: Remaining,
    /// What is read of earlier runs; none: they have not been looked at.
    earlier: Option<EarlierRuns>,
    /// When how many were done, the oldest first.
    samples: VecDeque<(u64, usize)>,
    /// Those who need the terminal for themselves.
    pub holds: u32,
    shown: bool,
    /// Counted where it will be told.
    made: Made,
}

impl Progress {
    pub fn new(mode: ProgressMode) -> Self {
        Self {
            mode,
            started_ns: None,
            due_ns: 0,
            plain_gap_ns: PLAIN_FIRST_NS,
            changed: false,
            drawn_ns: 0,
            done: 0,
            busy_ns: 0,
            failed: 0,
            stopped: 0,
            remaining: Remaining::default(),
            earlier: None,
            samples: VecDeque::new(),
            holds: 0,
            shown: false,
            made: Made::default(),
        }
    }

    /// Tasks are wanted: time runs.
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

    /// A task of this rule is done with; `acted`: an attempt was made; `aborted`: it was told to end.
    pub fn on_settled(&mut self, id: TaskId, rule: u32, how: Settled, acted: bool, aborted: bool) {
        let before = self.done + self.stopped + self.failed;
        match how {
            // What was made, was lost and came back is not needed, and done all the same.
            Settled::Executed | Settled::NotNeeded if acted => self.done += 1,
            Settled::Failed if aborted => self.stopped += 1,
            // Its gang has failed after it was begun.
            Settled::Abandoned if acted => self.stopped += 1,
            Settled::Failed => self.failed += 1,
            Settled::Executed | Settled::NotNeeded | Settled::Abandoned => {}
        }
        let is_over = self.done + self.stopped + self.failed > before;
        self.remaining.on_settled(id, rule, is_over);
        self.changed = true;
    }
}

impl Hub {
    /// An attempt ended well.
    pub(crate) fn learn_duration(&mut self, id: TaskId, took_ns: u64) {
        self.progress.busy_ns += took_ns;
        self.progress.remaining.on_duration(id, &self.names, &self.record, took_ns);
    }

    /// When `show_progress` has something to do, if nothing happens before.
    pub(crate) fn progress_due_ns(&self) -> Option<u64> {
        let progress = &self.progress;
        let waits = progress.mode != ProgressMode::Off && self.is_progress_wanted();
        waits.then(|| {
            if progress.mode == ProgressMode::Plain || progress.changed || !progress.shown {
                progress.due_ns
            } else {
                progress.drawn_ns + IDLE_DRAW_NS
            }
        })
    }

    fn is_progress_wanted(&self) -> bool {
        self.progress.holds == 0
            && self.progress.started_ns.is_some()
            && !self.output_lost
            && !self.goodbye
            && self.run.scheduler().live_invocations().next().is_some()
    }

    /// Shows what is due. Cheap when nothing is.
    pub(crate) fn show_progress(&mut self) {
        if self.progress.mode == ProgressMode::Off {
            return;
        }
        if !self.is_progress_wanted() {
            self.hide_progress();
            return;
        }
        let now_ns = self.now.time.0;
        if self.progress_due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return;
        }
        let view = self.view(now_ns);
        self.progress.drawn_ns = now_ns;
        self.progress.changed = false;
        if self.progress.mode == ProgressMode::Plain {
            self.progress.due_ns = now_ns + self.progress.plain_gap_ns;
            let gap_ns = self.progress.plain_gap_ns * 3 / 2;
            self.progress.plain_gap_ns = gap_ns.min(PLAIN_MAX_NS);
            self.printer.push_block(OutputStream::Stderr, view.plain_line().as_bytes());
        } else {
            self.progress.due_ns = now_ns + DRAW_NS;
            self.progress.shown = true;
            let (columns, rows) = Screen::size();
            self.printer.set_lines(&view.lines(columns, rows, self.settings.colour));
        }
    }

    /// Takes the display off the terminal, with the next flush.
    pub(crate) fn hide_progress(&mut self) {
        if std::mem::take(&mut self.progress.shown) {
            self.progress.changed = true;
            self.printer.set_lines(&[]);
        }
    }

    /// How far the run is now.
    pub(crate) fn view(&mut self, now_ns: u64) -> View {
        self.inform();
        let now = self.now;
        let (names, record) = (&self.names, &self.record);
        let all_known = self.progress.remaining.refresh(self.run.scheduler(), names, record, now);
        let rate = self.rate(now_ns);
        let mut running: Vec<(Reverse<u64>, TaskId)> = Vec::new();
        for (id, attempt) in self.run.attempts().all_acting() {
            if attempt.holds_lease() {
                running.push((Reverse(self.run.attempts().ran_ns(id, attempt, self.now)), id));
            }
        }
        let load = self.load(now_ns, &running);
        let count = running.len();
        let nodes = self.nodes_of(&running);
        running.sort_unstable();
        running.truncate(TASKS_MAX);
        let busy = running.into_iter().map(|(Reverse(ran_ns), id)| self.busy(id, ran_ns));
        View {
            done: self.progress.done,
            total: self.progress.done
                + self.progress.failed
                + self.progress.stopped
                + self.progress.remaining.count(),
            running: count,
            failed: self.progress.failed,
            rate,
            stopping: StoppingView::of(self.run.stopping(), now_ns),
            left: if all_known { estimate::time_left(&load) } else { None },
            busy: busy.collect(),
            nodes,
        }
    }

    /// Looks at earlier runs, once, and not before something is to be shown.
    fn inform(&mut self) {
        let directory = &self.start_directory;
        let earlier = self.progress.earlier.get_or_insert_with(|| EarlierRuns::look(directory));
        if let Some(durations) = earlier.durations() {
            self.progress.remaining.set_earlier(durations);
        }
    }

    fn rate(&mut self, now_ns: u64) -> f64 {
        let (done, samples) = (self.progress.done, &mut self.progress.samples);
        samples.push_back((now_ns, done));
        while samples.len() > 2 && samples[1].0 + RATE_NS < now_ns {
            samples.pop_front();
        }
        let Some((since_ns, before)) = samples.front() else { return 0.0 };
        let span_ns = now_ns.saturating_sub(*since_ns).max(1);
        (done - before) as f64 / (span_ns as f64 / 1e9)
    }

    fn load(&self, now_ns: u64, running: &[(Reverse<u64>, TaskId)]) -> Load {
        let progress = &self.progress;
        let cores: u32 = self.capacities().iter().map(|(_, capacity)| capacity.cores).sum();
        let started_ns = progress.started_ns.unwrap_or(now_ns);
        let total_ns = (now_ns.saturating_sub(started_ns) as f64).max(1.0);
        let now_busy_ns: f64 = running.iter().map(|(Reverse(ran_ns), _)| *ran_ns as f64).sum();
        let enough = progress.done as u64 >= BUSY_SAMPLES * u64::from(cores);
        let tasks = running.iter().map(|(Reverse(ran_ns), id)| RunningTask {
            elapsed_ns: *ran_ns as f64,
            known: progress.remaining.known(*id),
        });
        Load {
            kinds: progress.remaining.kinds(),
            running: tasks.collect(),
            cores: f64::from(cores),
            busy_cores: enough.then(|| (progress.busy_ns as f64 + now_busy_ns) / total_ns),
        }
    }

    fn has_several_nodes(&self) -> bool {
        self.agents.places().count() > 1
    }

    /// Names of the nodes of these tasks, where there are several, in the order of their numbers.
    fn nodes_of(&self, running: &[(Reverse<u64>, TaskId)]) -> Vec<String> {
        if !self.has_several_nodes() {
            return Vec::new();
        }
        let attempts = running.iter().filter_map(|(_, id)| self.run.attempts().acting(*id));
        let nodes: BTreeSet<NodeId> = attempts.map(RunningAttempt::node).collect();
        nodes.into_iter().map(|node| printable(&self.agents.node(node).name.0)).collect()
    }

    fn busy(&self, id: TaskId, elapsed_ns: u64) -> Busy {
        let of_task = self.commands.values().find(|command| command.task == Some(id));
        let program = of_task.map(|command| program_name(&command.program));
        let node = self.run.attempts().acting(id).filter(|_| self.has_several_nodes());
        let node =
            node.map(|attempt| printable(self.agents.node(attempt.node()).name.0.as_slice()));
        Busy { name: self.display_name(id), program, node, elapsed_ns }
    }
}
