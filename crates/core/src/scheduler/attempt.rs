//! Attempts: how they end, well or badly, with their node or without; and the nodes' coming and going.
//!
//! Starts nothing: a task to be run again goes back to the queues.

use crate::config::{FailurePolicy, LOSSES_PER_NODE};
use crate::event::{ActionOutcome, Output, Settled, TaskKind};
use crate::ids::{GangId, NodeId, RequirementId, TaskId};
use crate::requirement::Capacity;
use crate::scheduler::Scheduler;
use crate::scheduler::checks::Waiter;
use crate::scheduler::gangs::GangPhase;
use crate::scheduler::task::{KnownFact, Reason, TaskState};
use crate::time::Time;
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn on_action_ended(
        &mut self,
        now: Time,
        id: TaskId,
        attempt: u32,
        (outcome, run_ns): (ActionOutcome, Option<u64>),
        out: &mut Vec<Output>,
    ) {
        let last = self.graph.tasks[id].attempt;
        assert!((1..=last).contains(&attempt), "attempt {attempt} of {id:?} was never started");
        if attempt < last {
            // It was lost with its node; whatever became of it, another one was started since.
            return;
        }
        let TaskState::Running { node } = self.graph.tasks[id].state else {
            // It was lost with its node, and the task waits to be started again, or is done with.
            return;
        };
        let was_caller = self.forget_caller(id);
        let started = self.end_share(id, node, outcome, was_caller);
        let gang = self.gangs.of(id);
        self.release_parts(id);
        let lacked_input = self.lost_files.lacked.remove(&id);
        self.epoch += 1;
        match outcome {
            ActionOutcome::Succeeded => {
                let run_ns = run_ns.unwrap_or_else(|| now.0.saturating_sub(started.0));
                self.learn(id, node, run_ns);
                self.lost_files.clear_uncharged(id);
                self.on_node_did_well(node);
                if gang.is_some() {
                    self.graph.tasks[id].aborted = false;
                    self.set_state(id, TaskState::AwaitingPeers { node });
                } else {
                    self.on_attempt_succeeded(id, node, out);
                }
            }
            ActionOutcome::Failed => self.on_attempt_failed(id, node, lacked_input, true, out),
            ActionOutcome::GivenBack => {
                self.graph.tasks[id].attempt -= 1;
                self.graph.tasks[id].aborted = false;
                if let Some(gang) = gang {
                    self.set_state(id, TaskState::AwaitingPeers { node });
                    self.on_member_given_back(gang, id);
                } else {
                    self.start_again(id, out);
                }
            }
            ActionOutcome::NotBegun => self.on_not_begun(id, node, out),
            ActionOutcome::Exited => {
                self.on_attempt_failed(id, node, lacked_input, false, out);
                self.on_stop_requested(self.config.failure == FailurePolicy::Kill);
            }
        }
    }

    /// Queues a task whose attempt came to nothing, if its invocation goes on.
    pub(crate) fn start_again(&mut self, id: TaskId, out: &mut Vec<Output>) {
        let in_gang = self.gangs.of(id).is_some();
        if in_gang && matches!(self.graph.tasks[id].kind, TaskKind::File | TaskKind::Directory) {
            // It may have been there, and what has begun may have overwritten it.
            self.graph.tasks[id].fact = KnownFact::Unknown;
        }
        let was_lost = !in_gang
            && (self.lost_files.reopened.contains(&id)
                || self.graph.tasks[id].reason == Reason::Lost);
        if !self.invocations.goes_on(self.owner(id)) {
            self.give_back(id);
        } else if (was_lost && !self.is_lost(id))
            || (in_gang && self.missing_prerequisites(id).next().is_some())
        {
            // What it was to make again has come back meanwhile; or a prerequisite in another gang
            // runs again.
            self.set_state(id, TaskState::Waiting { missing: 0 });
            self.wait_again(id, out);
            self.pending.work.push_back(id);
        } else if !self.reopen_lost_inputs(id, out) {
            if in_gang {
                self.set_state(id, TaskState::Mustered);
            } else {
                self.make_ready(id);
            }
        }
    }

    pub(crate) fn on_attempt_succeeded(&mut self, id: TaskId, node: NodeId, out: &mut Vec<Output>) {
        let mark = self.new_mark(id);
        let task = &mut self.graph.tasks[id];
        task.ran = true;
        let kind = task.kind;
        if self.config.dry_run {
            // Its dependents find a file that has just been made.
            task.fact = KnownFact::WouldBeMade { before: task.fact.modified() };
            self.settle(id, Settled::Executed, out);
            return;
        }
        match kind {
            TaskKind::Plain => self.settle(id, Settled::Executed, out),
            TaskKind::Asked => {
                self.set_state(id, TaskState::Inspecting);
                out.push(Output::AskNeeded { id });
            }
            TaskKind::File | TaskKind::Directory => {
                self.set_state(id, TaskState::Inspecting);
                if self.config.files_on_nodes {
                    // Where it was before does not matter any more.
                    self.graph.tasks[id].fact = KnownFact::Unknown;
                    self.lost_files.ran_on.insert(id, Some(node));
                }
                if self.checks.ask(id, self.epoch, Waiter { id, mark }) {
                    out.push(Output::GatherFact { id });
                }
            }
        }
    }

    /// The fact of a file whose action succeeded has come in.
    pub(crate) fn on_inspected(&mut self, id: TaskId, out: &mut Vec<Output>) {
        let is_missing = matches!(self.graph.tasks[id].fact, KnownFact::Missing);
        let node_was_lost = self.lost_files.ran_on.remove(&id) == Some(None);
        if is_missing && node_was_lost {
            // It was made, and went with its node before it was seen.
            self.uncharge(id);
            self.start_again(id, out);
            return;
        }
        if is_missing {
            out.push(Output::TargetMissing { id });
        }
        self.note_written(id);
        self.settle(id, Settled::Executed, out);
        self.reopen_if_needed(id, out);
    }

    /// What a task has printed is no good, though its action has ended well.
    pub(crate) fn on_output_spoilt(&mut self, id: TaskId, out: &mut Vec<Output>) {
        if let Some(node) = self.spoilable_on(id) {
            self.on_attempt_failed(id, node, false, true, out);
        }
    }

    /// Where a task has run whose action has ended well, while `OutputSpoilt` can still fail its attempt: its action,
    /// or what the shell does after it, does not go on, and its gang does.
    pub fn spoilable_on(&self, id: TaskId) -> Option<NodeId> {
        let TaskState::AwaitingPeers { node } = self.graph.tasks.get(id)?.state else {
            return None;
        };
        self.gang_of(id).filter(|gang| gang.phase == GangPhase::Begun).map(|_| node)
    }

    fn on_attempt_failed(
        &mut self,
        id: TaskId,
        node: NodeId,
        lacked_input: bool,
        may_retry: bool,
        out: &mut Vec<Output>,
    ) {
        let lacked_input = lacked_input
            || self.config.files_on_nodes
                && self.graph.prerequisites(id).any(|p| self.is_lost(p.id));
        let phase = self.gangs.of(id).map(|gang| self.gang(gang).phase);
        let task = &self.graph.tasks[id];
        let (attempt, aborted) = (task.attempt, task.aborted);
        let requirement = &self.fleet.requirements[task.requirement].requirement;
        let (delay_ns, after_failure) = (requirement.retry_delay_ns, requirement.after_failure);
        let goes_on = self.invocations.goes_on(self.owner(id));
        if lacked_input {
            self.uncharge(id);
        } else if may_retry && !aborted {
            self.on_node_did_badly(node, id, out);
            self.note_at_fault(id);
        }
        let retried = may_retry && goes_on && self.has_retries_left(id);
        self.graph.tasks[id].aborted = false;
        out.push(Output::AttemptFailed { id, attempt, retried });
        if retried
            && !lacked_input
            && !aborted
            && let Some(next) = after_failure
        {
            self.graph.tasks[id].requirement = next;
        }
        match self.gangs.of(id) {
            Some(gang) if retried => {
                self.set_state(id, TaskState::AwaitingPeers { node });
                self.break_gang(gang, true);
            }
            None if retried && delay_ns > 0 && !lacked_input => {
                self.set_state(id, TaskState::Mustered);
                out.push(Output::RetryDelayed { id, attempt, delay_ns });
            }
            None if retried => self.start_again(id, out),
            _ if phase == Some(GangPhase::Failed) => {
                let how = self.end_in_failed_gang(id);
                self.settle(id, how, out);
            }
            _ => self.settle(id, Settled::Failed, out),
        }
    }

    /// Whether the attempts that count so far, with the one that ends, leave room for another.
    pub(crate) fn has_retries_left(&self, id: TaskId) -> bool {
        let task = &self.graph.tasks[id];
        let counted = task.attempt.saturating_sub(self.lost_files.uncounted(id));
        match self.gangs.of(id).map(|gang| self.gang(gang).phase) {
            // One that was ended because its gang runs again runs again, too.
            Some(GangPhase::Breaking) => true,
            Some(GangPhase::Failed) => false,
            Some(GangPhase::Mustering | GangPhase::Waiting | GangPhase::Begun) | None => {
                !task.aborted && counted < self.attempts_max(id)
            }
        }
    }

    /// The delay before the next attempt is over, unless something else has become of the task meanwhile.
    pub(crate) fn on_retry_due(&mut self, id: TaskId, attempt: u32, out: &mut Vec<Output>) {
        let task = &self.graph.tasks[id];
        if task.state == TaskState::Mustered
            && task.attempt == attempt
            && self.gangs.of(id).is_none()
        {
            self.start_again(id, out);
        }
    }

    pub(crate) fn on_node_joined(
        &mut self,
        id: NodeId,
        capacity: Capacity,
        files_kept: bool,
        out: &mut Vec<Output>,
    ) {
        self.learned.residency.set_capacity(id, capacity.cache_bytes);
        let changed = self.fleet.join(id, capacity);
        self.plan_gangs_anew();
        self.pending.with_capacity.insert(id);
        self.lost_files.given_up.remove(&id);
        let was_away = self.lost_files.away.remove(&id);
        if self.config.files_go_with_nodes() && !files_kept {
            self.on_files_gone(id, out);
        } else if self.config.files_go_with_nodes() && was_away {
            self.on_files_back(id, out);
        }
        self.queue_anew(&changed);
        if let Some(at) = self.fleet.announced.remove(&id) {
            let changed = self.fleet.set_end(id, at);
            self.plan_gangs_anew();
            self.queue_anew(&changed);
        }
    }

    /// Looks for the candidates of queued tasks again after the largest node changed, by which too
    /// large requirements are cut.
    pub(crate) fn queue_anew(&mut self, changed: &[RequirementId]) {
        for &requirement in changed {
            for task in self.ready.tasks_with(requirement, &self.graph) {
                self.ready.remove(task, &self.graph, &self.learned);
                self.make_ready(task);
            }
            self.pending.with_capacity.extend(self.fleet.requirements[requirement].fitting.iter());
        }
    }

    /// A node that has never joined may be lost too: a shell that was started anew knows that it holds files.
    pub(crate) fn on_node_lost(&mut self, id: NodeId, out: &mut Vec<Output>) {
        if !self.fleet.nodes.get(id).is_some_and(|node| node.joined) {
            if self.lost_files.away.insert(id) && self.config.files_go_with_nodes() {
                self.on_files_away(id, out);
            }
            return;
        }
        self.plan_gangs_anew();
        let parts = self.parts_on(id);
        for &task in &parts {
            self.release_parts(task);
        }
        let running = self.fleet.nodes[id].running.ids();
        for &task in &running {
            self.lost_files.lacked.remove(&task);
            self.forget_caller(task);
            self.fleet.release(id, task);
            self.release_parts(task);
        }
        self.drop_kept_on(id);
        self.learned.residency.set_capacity(id, 0);
        let changed = self.fleet.lose(id);
        self.pending.with_capacity.remove(id);
        self.queue_anew(&changed);
        self.leave_queues_of(id);
        self.lost_files.away.insert(id);
        for node in self.lost_files.ran_on.values_mut().filter(|node| **node == Some(id)) {
            *node = None;
        }
        for task in running {
            self.on_attempt_lost(task, id, out);
        }
        self.break_gangs_on(id, &parts);
        if self.config.files_go_with_nodes() {
            self.on_files_away(id, out);
        }
        self.on_node_out_of_use(id, out);
    }

    /// Tasks queued at a node that is out of use are queued at their other candidates, or for all.
    pub(crate) fn leave_queues_of(&mut self, id: NodeId) {
        for task in self.ready.tasks_at(id, &self.graph) {
            self.ready.remove(task, &self.graph, &self.learned);
            self.make_ready(task);
        }
    }

    fn on_attempt_lost(&mut self, id: TaskId, node: NodeId, out: &mut Vec<Output>) {
        let task = &mut self.graph.tasks[id];
        task.aborted = false;
        let attempt = task.attempt;
        self.uncharge(id);
        let uncounted = self.lost_files.uncounted_mut(id);
        if !uncounted.lost_with.contains(&node) {
            uncounted.lost_with.push(node);
        }
        uncounted.losses += 1;
        let limit = self.config.blame_after;
        let blamed = limit > 0
            && (uncounted.lost_with.len() >= limit as usize
                || uncounted.losses >= limit.saturating_mul(LOSSES_PER_NODE));
        let nodes = uncounted.lost_with.clone();
        let gang_failed = self.gang_of(id).is_some_and(|gang| gang.phase == GangPhase::Failed);
        let rerun = !blamed && !gang_failed && self.invocations.goes_on(self.owner(id));
        out.push(Output::AttemptLost { id, attempt, node, rerun });
        if blamed {
            out.push(Output::TaskBlamed { id, nodes });
            self.settle(id, Settled::Failed, out);
        } else if self.gangs.of(id).is_some() {
            self.set_state(id, TaskState::AwaitingPeers { node });
        } else {
            self.start_again(id, out);
        }
    }

    /// A node is lost: gangs end of which it had a task or a part, and so does one of which a task
    /// had ended well there, if its files went with the node.
    fn break_gangs_on(&mut self, node: NodeId, parts: &[TaskId]) {
        let mut gangs: Vec<GangId> = parts.iter().filter_map(|id| self.gangs.of(*id)).collect();
        gangs.extend(self.gangs_awaiting_on(node));
        for gang in gangs {
            self.break_gang(gang, false);
        }
    }
}
