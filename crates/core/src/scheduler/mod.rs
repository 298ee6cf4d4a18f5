//! The coordinator: takes each event to its handler, then works off what follows from it.
//!
//! Holds the parts together and decides nothing itself. Handlers: `activate.rs` (definitions,
//! activation), `progress.rs` (deciding, answers, settling), `attempt.rs` (actions, nodes),
//! `kept.rs` (whether the core of an action that ended is free at once), `lineage.rs` (files that
//! were lost), `health.rs` (nodes on which actions fail), `halt.rs` (failures, stop), `dispatch.rs`
//! (what starts where).

mod activate;
mod attempt;
mod checks;
mod decide;
mod dispatch;
pub(crate) mod explain;
mod fleet;
mod forecast;
pub(crate) mod gangs;
mod graph;
mod halt;
mod health;
mod id_set;
mod invariants;
mod invocation;
mod kept;
mod learned;
mod level;
mod lineage;
mod locality;
mod lost_files;
mod node;
mod progress;
mod queue;
mod rank;
mod ready;
mod residency;
mod running;
mod serial_order;
pub(crate) mod stuck;
pub(crate) mod task;
mod victims;
pub(crate) mod view;

use crate::config::{Config, Policy};
use crate::event::{Event, Output};
use crate::ids::{GangId, InvocationId, NodeId, RequirementId, TaskId};
use crate::random::Random;
use crate::scheduler::checks::Checks;
use crate::scheduler::fleet::Fleet;
use crate::scheduler::gangs::Gangs;
use crate::scheduler::graph::Graph;
use crate::scheduler::health::state::Health;
use crate::scheduler::id_set::IdSet;
use crate::scheduler::invocation::{Halt, Invocations};
use crate::scheduler::kept::state::Kept;
use crate::scheduler::learned::state::Learned;
use crate::scheduler::lost_files::LostFiles;
use crate::scheduler::ready::Ready;
use crate::scheduler::serial_order::SerialOrder;
use crate::scheduler::task::{Task, TaskState};
use crate::scheduler::view::counts::Counts;
use crate::time::Now;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Decides which tasks run, where and when. `docs/design/scheduling.md` describes it.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) config: Config,
    pub(crate) graph: Graph,
    pub(crate) fleet: Fleet,
    pub(crate) ready: Ready,
    pub(crate) invocations: Invocations,
    pub(crate) checks: Checks,
    /// Cores whose tasks have ended, and which are not given away yet.
    pub(crate) kept: Kept,
    /// Measured times and memory that policies use.
    pub(crate) learned: Learned,
    pub(crate) random: Random,
    /// The files that went with lost nodes.
    pub(crate) lost_files: LostFiles,
    /// Which nodes do well.
    pub(crate) health: Health,
    /// Tasks that begin together.
    pub(crate) gangs: Gangs,
    /// With the policy `Serial`: tasks whose turn is to come.
    pub(crate) serial_order: SerialOrder,
    /// Answers still to come to an `AskNeeded` or `CompareRecord` whose task went back to `Waiting`; no zeros.
    pub(crate) stale_answers: BTreeMap<TaskId, u32>,
    /// Tasks by state.
    pub(crate) counts: Counts,
    /// The strongest `StopRequested` so far.
    pub(crate) stop: Option<Halt>,
    /// The first task that the next activation looks at; those before were activated once or left out.
    pub(crate) activated_end: TaskId,
    /// Activations so far.
    pub(crate) batch: u32,
    /// Actions ended so far.
    pub(crate) epoch: u32,
    /// `Task::mark`s given out so far.
    pub(crate) marks: u64,
    pub(crate) pending: Pending,
}

/// What is still to be done within one `handle`; empty between events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// Tasks that no longer miss a prerequisite; stale if not in `Waiting { missing: 0 }`.
    pub(crate) work: VecDeque<TaskId>,
    /// Invocations to be stopped.
    pub(crate) halts: VecDeque<(InvocationId, Halt)>,
    /// Gangs of which a task has come into another state.
    pub(crate) gangs: BTreeSet<GangId>,
    /// Invocations that may be over.
    pub(crate) endings: IdSet<InvocationId>,
    /// Tasks that became ready; stale if not `Ready`. With the policy `Serial` all ready tasks, between events too.
    pub(crate) fresh: Vec<TaskId>,
    /// Nodes with more room than before.
    pub(crate) with_capacity: IdSet<NodeId>,
    /// Requirements that perhaps no node can take.
    pub(crate) unschedulable: BTreeSet<RequirementId>,
}

impl Scheduler {
    /// A scheduler with no tasks and no nodes.
    pub fn new(config: Config) -> Self {
        Self {
            graph: Graph::default(),
            fleet: Fleet::default(),
            ready: Ready::new(config.policy),
            invocations: Invocations::default(),
            checks: Checks::default(),
            kept: Kept::default(),
            learned: Learned::default(),
            random: Random::new(config.seed),
            lost_files: LostFiles::new(config.files_apart),
            health: Health::default(),
            gangs: Gangs::default(),
            serial_order: SerialOrder::default(),
            stale_answers: BTreeMap::new(),
            counts: Counts::default(),
            stop: None,
            activated_end: TaskId(0),
            batch: 0,
            epoch: 0,
            marks: 0,
            pending: Pending::default(),
            config,
        }
    }

    /// Takes in one event and adds what is to be done to `out`, in the order in which it is to be done.
    ///
    /// # Panics
    /// When the shell breaks the protocol: a number out of order, an answer to no question, the end of an action that
    /// does not run. The shell checks what comes from outside, with the views.
    pub fn handle(&mut self, now: impl Into<Now>, event: Event<'_>, out: &mut Vec<Output>) {
        self.handle_at(now.into(), event, out);
    }

    fn handle_at(&mut self, now: Now, event: Event<'_>, out: &mut Vec<Output>) {
        match event {
            Event::RequirementDefined { id, requirement } => {
                let stealable = self.config.stealing && requirement.steal;
                self.ready.define_requirement(id, stealable);
                self.fleet.define_requirement(id, requirement);
            }
            Event::TaskDefined { id, kind, has_action, deferred, requirement, prerequisites } => {
                let task = Task::new(kind, has_action, deferred, requirement);
                self.on_task_defined(id, task, prerequisites);
            }
            Event::PrerequisitesAdded { id, prerequisites, has_action } => {
                self.on_prerequisites_added(id, prerequisites, has_action, out);
            }
            Event::RecordCompared { id, rerun } => self.on_record_compared(id, rerun, out),
            Event::FactGathered { id, fact } => self.on_fact_gathered(now, id, fact, out),
            Event::FilesFound { files } => self.on_files_found(&files, out),
            Event::PlacesFound { id, places } => self.on_places_found(id, places, out),
            Event::SecondaryFound { id, bytes } => self.graph.set_secondary_bytes(id, bytes),
            Event::FileGivenUp { id } => self.on_file_given_up(id, out),
            Event::InputLacked { id, input } => self.on_input_lacked(id, input),
            Event::FailureUncharged { id } => self.on_failure_uncharged(id),
            Event::InvocationStarted { id, tasks, caller } => {
                self.on_invocation_started(id, tasks, caller, out);
            }
            Event::NeededAnswered { id, needed, timestamp } => {
                self.on_needed_answered(id, needed, timestamp, out);
            }
            Event::ResolveEnded { id, found } => self.on_resolve_ended(id, found, out),
            Event::KindChanged { id, kind } => self.graph.tasks[id].kind = kind,
            Event::ActionEnded { id, attempt, outcome, run_ns } => {
                self.on_action_ended(now.time, id, attempt, (outcome, run_ns), out);
            }
            Event::RetryDue { id, attempt } => self.on_retry_due(id, attempt, out),
            Event::GangDefined { id, tasks, oversubscribe } => {
                self.on_gang_defined(id, tasks, oversubscribe);
            }
            Event::GangJoined { id, spread, by_turns, streams } => {
                self.on_gang_joined(id, spread, by_turns, streams);
            }
            Event::GangWeighed { id, weights } => self.on_gang_weighed(id, weights),
            Event::GangShares { id } => self.on_gang_shares(id),
            Event::TurnCame { id } => self.on_turn_came(id),
            Event::OutputSpoilt { id } => self.on_output_spoilt(id, out),
            Event::GangRefused { id } => self.on_gang_refused(id, out),
            Event::NodeJoined { id, capacity, files_kept } => {
                self.on_node_joined(id, capacity, files_kept, out);
            }
            Event::NodeLost { id } => self.on_node_lost(id, out),
            Event::NodeGivenUp { id } => self.on_node_given_up(id, out),
            Event::NodeCame { id } => self.on_node_came(id),
            Event::NodeEnds { id, at } => {
                let changed = self.fleet.set_end(id, at);
                self.plan_gangs_anew();
                self.queue_anew(&changed);
                self.take_back_needed(out);
            }
            Event::NodeAllowed { requirement, id } => self.fleet.allow(requirement, id),
            Event::NodesSuit { requirement, nodes } => {
                for node in self.fleet.set_suiting(requirement, nodes) {
                    self.pending.with_capacity.insert(node);
                }
                // A node that is kept for a gang may suit one of its tasks now.
                self.try_gangs_again();
            }
            Event::DurationExpected { requirement, run_ns } => {
                if self.fleet.set_expected(requirement, run_ns) {
                    self.plan_gangs_anew();
                    self.queue_anew(&[requirement]);
                    self.take_back_needed(out);
                }
            }
            Event::LookaheadSet { id, actions } => {
                self.fleet.set_lookahead(id, actions);
                self.pending.with_capacity.insert(id);
            }
            Event::TimeExpected { id, run_ns } => self.learned.levels.expect(id, run_ns),
            Event::RuleGiven { id, rule } => self.learned.levels.give_rule(id, rule),
            Event::CacheMeasured { id, node, bytes } => self.on_cache_measured(id, node, bytes),
            Event::StopRequested { kill } => self.on_stop_requested(kill),
        }
        self.close_nodes(now.time, out);
        self.work_off(now, out);
        self.tell_where_nothing_runs(out);
    }

    fn work_off(&mut self, now: Now, out: &mut Vec<Output>) {
        self.check_entangled(out);
        loop {
            self.settle_down(now, out);
            self.renew_levels();
            self.give_kept_away();
            self.dispatch(now.time, out);
            self.check_entangled(out);
            if self.pending.gangs.is_empty() {
                break;
            }
        }
    }

    fn settle_down(&mut self, now: Now, out: &mut Vec<Output>) {
        loop {
            // What a failed gang takes along is abandoned, and not given back.
            if let Some(id) = self.pending.gangs.pop_first() {
                self.review_gang(now, id, out);
            } else if let Some((id, halt)) = self.pending.halts.pop_front() {
                self.halt(id, halt, out);
            } else if let Some(id) = self.pending.work.pop_front() {
                self.on_prerequisites_settled(now, id, out);
            } else if let Some(id) = self.pending.endings.pop_first() {
                self.end_if_over(id, out);
            } else if let Some(id) = self.next_in_order() {
                self.consider(now, id, out);
            } else {
                break;
            }
        }
    }

    /// The only place where a state changes.
    pub(crate) fn set_state(&mut self, id: TaskId, state: TaskState) {
        let task = &mut self.graph.tasks[id];
        let before = core::mem::replace(&mut task.state, state);
        self.counts.change(before, state);
        if let Some(gang) = self.gangs.of(id) {
            self.gangs.on_state_changed(gang, before, state);
            self.pending.gangs.insert(gang);
        }
        let task = &self.graph.tasks[id];
        if self.kept.heeds_looks() && before.is_look() != state.is_look() {
            self.kept.on_look_changed(id, state.is_look());
        }
        if let Some(owner) = task.invocation {
            let invocation = &mut self.invocations.all[owner];
            match (before.is_in_flight(), state.is_in_flight()) {
                (false, true) => invocation.in_flight += 1,
                (true, false) => {
                    invocation.in_flight -= 1;
                    self.pending.endings.insert(owner);
                }
                (false, false) | (true, true) => {}
            }
        }
    }

    /// A number that no other stay in a state has.
    pub(crate) fn new_mark(&mut self, id: TaskId) -> u64 {
        self.marks += 1;
        self.graph.tasks[id].mark = self.marks;
        self.marks
    }

    pub(crate) fn is_serial(&self) -> bool {
        self.config.policy == Policy::Serial
    }
}
