//! How far a run is: counted as tasks end, estimated, and shown. Here: when something is shown, and
//! what of the hub goes into it.
//!
//! `view` decides what it looks like, `screen` what a terminal needs; `estimate` computes how long the rest takes.

#![allow(
    clippy::cast_precision_loss,
    reason = "estimates, shown rounded: nothing is decided by them"
)]

mod by_rule;
pub(crate) mod duration;
pub(crate) mod earlier;
pub(crate) mod estimate;
mod farewell;
mod made;
mod program;
mod remaining;
pub(crate) mod state;
pub(crate) mod view;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rakuda_core::{NodeId, TaskId};
use rakuda_proto::agent::OutputDescriptor;
use rakuda_proto::front::ProgressMode;
use rakuda_record::printable::printable;

use crate::attempts::state::RunningAttempt;
use crate::hub::Hub;
use crate::screen::Screen;
use crate::stopping::StoppingView;
use earlier::EarlierRuns;
use estimate::{Load, RunningTask};
use program::program_name;
use state::SECOND;
use view::{Busy, TASKS_MAX, View};

/// Time between two draws when something has changed, ns.
const DRAW_NS: u64 = 100_000_000;

/// Time between two draws when only time has passed, ns.
const IDLE_DRAW_NS: u64 = SECOND;

/// Maximum time between two plain lines, ns.
const PLAIN_MAX_NS: u64 = 60 * SECOND;

/// Time over which the rate is taken, ns.
const RATE_NS: u64 = 10 * SECOND;

/// Minimum number of tasks for each core that must have run before the number of busy cores counts.
const BUSY_SAMPLES: u64 = 2;

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
            self.printer.push_block(OutputDescriptor::Stderr, view.plain_line().as_bytes());
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
            total: self.progress.total(),
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
