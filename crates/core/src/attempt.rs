//! Attempts: how they end, well or badly, with their node or without; and the nodes' coming and going.
//!
//! Starts nothing: a task to be run again goes back to the queues.

use crate::checks::Waiter;
use crate::config::FailurePolicy;
use crate::event::{ActionOutcome, Output, Settled, TaskKind};
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::requirement::Capacity;
use crate::scheduler::Scheduler;
use crate::task::{KnownFact, TaskState};
use crate::time::Time;
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn on_action_ended(
        &mut self,
        now: Time,
        id: TaskId,
        outcome: ActionOutcome,
        out: &mut Vec<Output>,
    ) {
        let TaskState::Running { node } = self.graph.tasks[id].state else {
            panic!("the action of {id:?} does not run");
        };
        self.forget_caller(id);
        let started = self.fleet.release(node, id);
        self.pending.roomy.insert(node);
        self.epoch += 1;
        match outcome {
            ActionOutcome::Succeeded => {
                let rank = self.graph.tasks[id].rank;
                self.rank_times.add(rank, now.0.saturating_sub(started.0));
                self.on_attempt_succeeded(id, out);
            }
            ActionOutcome::Failed => self.on_attempt_failed(id, true, out),
            ActionOutcome::GivenBack => {
                self.graph.tasks[id].attempt -= 1;
                self.graph.tasks[id].aborted = false;
                if self.invocations.goes_on(self.owner(id)) {
                    self.make_ready(id);
                } else {
                    self.give_back(id);
                }
            }
            ActionOutcome::Exited => {
                self.on_attempt_failed(id, false, out);
                self.on_stop_requested(self.config.failure == FailurePolicy::Kill);
            }
        }
    }

    fn on_attempt_succeeded(&mut self, id: TaskId, out: &mut Vec<Output>) {
        let mark = self.new_mark(id);
        let task = &mut self.graph.tasks[id];
        task.ran = true;
        let kind = task.kind;
        if self.config.dry_run {
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
                if self.checks.ask(id, self.epoch, Waiter { id, mark }) {
                    out.push(Output::GatherFact { id });
                }
            }
        }
    }

    /// The fact of a file whose action succeeded has come in.
    pub(crate) fn on_inspected(&mut self, id: TaskId, out: &mut Vec<Output>) {
        if matches!(self.graph.tasks[id].fact, KnownFact::Missing) {
            out.push(Output::TargetMissing { id });
        }
        self.settle(id, Settled::Executed, out);
    }

    fn on_attempt_failed(&mut self, id: TaskId, may_retry: bool, out: &mut Vec<Output>) {
        let task = &mut self.graph.tasks[id];
        let attempt = task.attempt;
        let aborted = core::mem::take(&mut task.aborted);
        let requirement = &self.fleet.requirements[task.requirement].requirement;
        let retries = requirement.retry.unwrap_or(self.config.retry);
        let goes_on = self.invocations.goes_on(self.owner(id));
        let retried = may_retry && !aborted && goes_on && attempt <= retries;
        out.push(Output::AttemptFailed { id, attempt, retried });
        if retried {
            self.make_ready(id);
        } else {
            self.settle(id, Settled::Failed, out);
        }
    }

    pub(crate) fn on_node_joined(&mut self, id: NodeId, capacity: Capacity) {
        let changed = self.fleet.join(id, capacity);
        self.pending.roomy.insert(id);
        self.queue_anew(&changed);
    }

    /// Looks for the candidates of queued tasks again after the largest node changed, by which too large requirements are cut.
    fn queue_anew(&mut self, changed: &[RequirementId]) {
        for &requirement in changed {
            for task in self.ready.tasks_with(requirement, &self.graph) {
                self.ready.remove(task, &self.graph);
                self.make_ready(task);
            }
            self.pending.roomy.extend(&self.fleet.requirements[requirement].fitting);
        }
    }

    pub(crate) fn on_node_lost(&mut self, id: NodeId) {
        let running: Vec<TaskId> = self.fleet.nodes[id].running.keys().copied().collect();
        for &task in &running {
            self.forget_caller(task);
            self.fleet.release(id, task);
        }
        let changed = self.fleet.lose(id);
        self.pending.roomy.remove(&id);
        self.queue_anew(&changed);
        for task in self.ready.tasks_at(id, &self.graph) {
            self.ready.remove(task, &self.graph);
            self.make_ready(task);
        }
        for task in running {
            self.graph.tasks[task].attempt -= 1;
            self.graph.tasks[task].aborted = false;
            if self.invocations.goes_on(self.owner(task)) {
                self.make_ready(task);
            } else {
                self.give_back(task);
            }
        }
    }
}
