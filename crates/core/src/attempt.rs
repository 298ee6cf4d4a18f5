//! Attempts: how they end, well or badly, with their node or without; and the nodes' coming and going.
//!
//! Starts nothing: a task to be run again goes back to the queues.

use crate::checks::Waiter;
use crate::config::FailurePolicy;
use crate::event::{ActionOutcome, Output, Settled, TaskKind};
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::requirement::Capacity;
use crate::scheduler::Scheduler;
use crate::task::{KnownFact, Reason, TaskState};
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
        self.forget_caller(id);
        let started = self.fleet.release(node, id);
        let lacked_input = self.losses.lacked.remove(&id);
        self.pending.roomy.insert(node);
        self.epoch += 1;
        match outcome {
            ActionOutcome::Succeeded => {
                let run_ns = run_ns.unwrap_or_else(|| now.0.saturating_sub(started.0));
                self.learn(id, node, run_ns);
                self.losses.acquit(id);
                self.on_node_did_well(node);
                self.on_attempt_succeeded(id, node, out);
            }
            ActionOutcome::Failed => self.on_attempt_failed(id, node, lacked_input, true, out),
            ActionOutcome::GivenBack => {
                self.graph.tasks[id].attempt -= 1;
                self.graph.tasks[id].aborted = false;
                self.start_again(id, out);
            }
            ActionOutcome::Exited => {
                self.on_attempt_failed(id, node, lacked_input, false, out);
                self.on_stop_requested(self.config.failure == FailurePolicy::Kill);
            }
        }
    }

    /// Queues a task whose attempt came to nothing, if its invocation goes on.
    fn start_again(&mut self, id: TaskId, out: &mut Vec<Output>) {
        let was_lost =
            self.losses.reopened.contains(&id) || self.graph.tasks[id].reason == Reason::Lost;
        if !self.invocations.goes_on(self.owner(id)) {
            self.give_back(id);
        } else if was_lost && !self.is_lost(id) {
            // What it was to make again has come back meanwhile.
            self.set_state(id, TaskState::Waiting { missing: 0 });
            self.wait_again(id, out);
            self.pending.work.push_back(id);
        } else if !self.remake_inputs(id, out) {
            self.make_ready(id);
        }
    }

    fn on_attempt_succeeded(&mut self, id: TaskId, node: NodeId, out: &mut Vec<Output>) {
        let mark = self.new_mark(id);
        let task = &mut self.graph.tasks[id];
        task.ran = true;
        let kind = task.kind;
        if self.config.dry_run {
            // Its dependents find a file that has just been made.
            task.fact = KnownFact::WouldBeMade { before_ns: task.fact.modified_ns() };
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
                    self.losses.ran_on.insert(id, Some(node));
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
        let node_was_lost = self.losses.ran_on.remove(&id) == Some(None);
        if is_missing && node_was_lost {
            // It was made, and went with its node before it was seen.
            self.losses.excuse(id);
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
        let task = &mut self.graph.tasks[id];
        let attempt = task.attempt;
        let aborted = core::mem::take(&mut task.aborted);
        let requirement = &self.fleet.requirements[task.requirement].requirement;
        let retries = requirement.retry.unwrap_or(self.config.retry);
        let goes_on = self.invocations.goes_on(self.owner(id));
        if lacked_input {
            self.losses.excuse(id);
        } else if may_retry && !aborted {
            self.on_node_did_badly(node, id, out);
        }
        let counted = attempt.saturating_sub(self.losses.uncounted(id));
        let retried = may_retry && !aborted && goes_on && counted <= retries;
        out.push(Output::AttemptFailed { id, attempt, retried });
        if retried {
            self.start_again(id, out);
        } else {
            self.settle(id, Settled::Failed, out);
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
        self.pending.roomy.insert(id);
        self.losses.given_up.remove(&id);
        let was_away = self.losses.away.remove(&id);
        if self.config.files_go_with_nodes() && !files_kept {
            self.on_files_gone(id, out);
        } else if self.config.files_go_with_nodes() && was_away {
            self.on_files_back(id, out);
        }
        self.queue_anew(&changed);
        if let Some(at) = self.fleet.announced.remove(&id) {
            let changed = self.fleet.set_end(id, at);
            self.queue_anew(&changed);
        }
    }

    /// Looks for the candidates of queued tasks again after the largest node changed, by which too large requirements are cut.
    pub(crate) fn queue_anew(&mut self, changed: &[RequirementId]) {
        for &requirement in changed {
            for task in self.ready.tasks_with(requirement, &self.graph) {
                self.ready.remove(task, &self.graph, &self.learned);
                self.make_ready(task);
            }
            self.pending.roomy.extend(self.fleet.requirements[requirement].fitting.iter());
        }
    }

    /// A node that has never joined may be lost too: a shell that was started anew knows that it holds files.
    pub(crate) fn on_node_lost(&mut self, id: NodeId, out: &mut Vec<Output>) {
        if !self.fleet.nodes.get(id).is_some_and(|node| node.joined) {
            if self.losses.away.insert(id) && self.config.files_go_with_nodes() {
                self.on_files_away(id, out);
            }
            return;
        }
        let running = self.fleet.nodes[id].running.ids();
        for &task in &running {
            self.losses.lacked.remove(&task);
            self.forget_caller(task);
            self.fleet.release(id, task);
        }
        self.learned.residency.set_capacity(id, 0);
        let changed = self.fleet.lose(id);
        self.pending.roomy.remove(id);
        self.queue_anew(&changed);
        self.leave_queues_of(id);
        self.losses.away.insert(id);
        for node in self.losses.ran_on.values_mut().filter(|node| **node == Some(id)) {
            *node = None;
        }
        for task in running {
            self.on_attempt_lost(task, id, out);
        }
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
        let uncounted = self.losses.excuse(id);
        if !uncounted.lost_with.contains(&node) {
            uncounted.lost_with.push(node);
        }
        let limit = self.config.blame_after as usize;
        let blamed = limit > 0 && uncounted.lost_with.len() >= limit;
        let nodes = uncounted.lost_with.clone();
        let rerun = !blamed && self.invocations.goes_on(self.owner(id));
        out.push(Output::AttemptLost { id, attempt, node, rerun });
        if blamed {
            out.push(Output::TaskBlamed { id, nodes });
            self.settle(id, Settled::Failed, out);
        } else {
            self.start_again(id, out);
        }
    }
}
