//! From the last settled prerequisite to a decision, through the questions that it takes; and settling.
//!
//! Knows the rule only by name (`decide.rs`) and starts nothing: needed tasks go to the queues.

use crate::event::{Output, Settled, TaskKind};
use crate::fact::{Fact, Places};
use crate::ids::TaskId;
use crate::scheduler::Scheduler;
use crate::scheduler::checks::Waiter;
use crate::scheduler::decide::{reason_by_facts, sum_up_prerequisites, unknown_facts};
use crate::scheduler::locality::candidate_nodes;
use crate::scheduler::task::{KnownFact, Reason, TaskState};
use crate::time::{Now, Timestamp};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Scheduler {
    /// Decides about a task that misses nothing any more, or lets it wait for its turn.
    pub(crate) fn on_prerequisites_settled(&mut self, now: Now, id: TaskId, out: &mut Vec<Output>) {
        let task = &self.graph.tasks[id];
        if task.state != (TaskState::Waiting { missing: 0 }) {
            return;
        }
        if self.is_serial() {
            self.serial_order.insert(task.batch, id);
        } else {
            self.consider(now, id, out);
        }
    }

    /// Decides about a task that misses nothing, or asks what it takes to decide.
    pub(crate) fn consider(&mut self, now: Now, id: TaskId, out: &mut Vec<Output>) {
        if self.graph.tasks[id].deferred {
            self.set_state(id, TaskState::Resolving);
            out.push(Output::Resolve { id });
            return;
        }
        sum_up_prerequisites(&mut self.graph, id);
        match self.graph.tasks[id].kind {
            // It runs in any case, but its inputs may be newer than what others make of what it prints.
            TaskKind::Plain if self.feeds_others(id) => self.check_facts(now, id, out),
            TaskKind::Plain => self.conclude(id, Reason::AlwaysRuns, out),
            TaskKind::Asked => {
                self.set_state(id, TaskState::Asking);
                out.push(Output::AskNeeded { id });
            }
            TaskKind::File | TaskKind::Directory => self.check_facts(now, id, out),
        }
    }

    fn check_facts(&mut self, now: Now, id: TaskId, out: &mut Vec<Output>) {
        // In rake's order everything that ran came before, related or not.
        let disturbed =
            if self.is_serial() { self.epoch > 0 } else { self.graph.tasks[id].disturbed };
        let disturbed = disturbed && !self.config.dry_run;
        let mut unknown = Vec::new();
        unknown_facts(&self.graph, id, self.epoch, disturbed, &mut unknown);
        if unknown.is_empty() {
            self.decide_by_facts(now, id, out);
            return;
        }
        let missing = u32::try_from(unknown.len()).expect("fewer than 2^32 edges");
        let waiter = Waiter { id, mark: self.new_mark(id) };
        self.set_state(id, TaskState::Checking { missing });
        for file in unknown {
            if self.checks.ask(file, self.epoch, waiter) {
                out.push(Output::GatherFact { id: file });
            }
        }
    }

    pub(crate) fn on_fact_gathered(
        &mut self,
        now: Now,
        id: TaskId,
        fact: Fact,
        out: &mut Vec<Output>,
    ) {
        let request = self.checks.answered(id);
        self.learn_fact(id, fact);
        let task = &mut self.graph.tasks[id];
        let Some(request) = request else {
            // Gathered in bulk, at no known time.
            task.fact_epoch = 0;
            self.on_file_back(id, out);
            self.reopen_if_needed(id, out);
            return;
        };
        task.fact_epoch = request.epoch;
        self.on_file_back(id, out);
        for waiter in request.waiters() {
            let task = &self.graph.tasks[waiter.id];
            if task.mark != waiter.mark {
                continue;
            }
            match task.state {
                TaskState::Checking { missing } => {
                    self.on_check_answered(now, waiter.id, missing - 1, out);
                }
                TaskState::Inspecting => self.on_inspected(waiter.id, out),
                TaskState::Defined
                | TaskState::Waiting { .. }
                | TaskState::Resolving
                | TaskState::Asking
                | TaskState::Comparing
                | TaskState::Ready
                | TaskState::Mustered
                | TaskState::Lost
                | TaskState::Running { .. }
                | TaskState::AwaitingPeers { .. }
                | TaskState::Settled(_) => {}
            }
        }
        self.reopen_if_needed(id, out);
    }

    fn learn_fact(&mut self, id: TaskId, fact: Fact) {
        let mut known = match fact.modified_ns {
            // That it is not found while the nodes that have it are away says nothing.
            None if self.is_lost(id) => return,
            None => KnownFact::Missing,
            Some(ns) => {
                KnownFact::Present { modified: ns.into(), bytes: fact.bytes, places: fact.places }
            }
        };
        if self.config.files_on_nodes {
            self.lost_files.hold(id, &self.graph.tasks[id].fact, &mut known);
        }
        self.graph.tasks[id].fact = known;
    }

    /// Whether there is such a file: one that is missing by now is nowhere.
    pub(crate) fn learn_places(&mut self, id: TaskId, found: Places) -> bool {
        let (modified, bytes) = match self.graph.tasks[id].fact {
            KnownFact::Present { modified, bytes, .. } => (modified, bytes),
            // Another node has come with it, or it was on its way when its last node went: it is as it was.
            KnownFact::Gone { modified, bytes } if self.may_come_to_light(&found) => {
                (modified, bytes)
            }
            KnownFact::Unknown
            | KnownFact::Missing
            | KnownFact::Gone { .. }
            | KnownFact::WouldBeMade { .. } => return false,
        };
        let mut known = KnownFact::Present { modified, bytes, places: found };
        if self.config.files_on_nodes {
            self.lost_files.hold(id, &self.graph.tasks[id].fact, &mut known);
        }
        self.graph.tasks[id].fact = known;
        true
    }

    /// Whether a file that no node had is somewhere now. Where files do not go with nodes a file that is gone stays
    /// gone: an answer may be late.
    fn may_come_to_light(&self, found: &Places) -> bool {
        self.config.files_go_with_nodes() && !found.as_slice().is_empty()
    }

    pub(crate) fn on_places_found(&mut self, id: TaskId, found: Places, out: &mut Vec<Output>) {
        if !self.learn_places(id, found) || !self.config.files_on_nodes {
            return;
        }
        if !self.is_lost(id) {
            return self.on_file_back(id, out);
        }
        let task = &mut self.graph.tasks[id];
        if self.config.files_go_with_nodes() && task.fact.is_nowhere() {
            // No node brings it back that comes back itself.
            self.lost_files.forget_file(&mut task.fact);
            if task.state == TaskState::Lost {
                return self.settle(id, Settled::Failed, out);
            }
        }
        self.uncharge_readers(id);
        self.reopen_if_needed(id, out);
    }

    fn on_check_answered(&mut self, now: Now, id: TaskId, missing: u32, out: &mut Vec<Output>) {
        self.set_state(id, TaskState::Checking { missing });
        if missing > 0 {
            return;
        }
        if !self.invocations.goes_on(self.owner(id)) {
            self.give_back(id);
            return;
        }
        // The facts of prerequisites may have changed under the sums.
        sum_up_prerequisites(&mut self.graph, id);
        self.decide_by_facts(now, id, out);
    }

    fn decide_by_facts(&mut self, now: Now, id: TaskId, out: &mut Vec<Output>) {
        let reason = reason_by_facts(&self.graph, id, now, self.config.build_all);
        let task = &self.graph.tasks[id];
        let comparable = task.kind == TaskKind::File && task.has_action;
        let is_lost = self.is_lost(id);
        if reason == Reason::UpToDate && comparable && self.config.compares && !is_lost {
            self.set_state(id, TaskState::Comparing);
            out.push(Output::CompareRecord { id });
        } else {
            self.conclude(id, reason, out);
        }
    }

    pub(crate) fn on_record_compared(&mut self, id: TaskId, rerun: bool, out: &mut Vec<Output>) {
        if self.is_stale_answer(id) {
            return;
        }
        assert!(
            self.graph.tasks[id].state == TaskState::Comparing,
            "nobody asked how {id:?} was made"
        );
        if self.invocations.goes_on(self.owner(id)) {
            self.conclude(id, if rerun { Reason::Demanded } else { Reason::UpToDate }, out);
        } else {
            self.give_back(id);
        }
    }

    /// Whether an answer belongs to a question that was asked before the task went back to `Waiting`.
    fn is_stale_answer(&mut self, id: TaskId) -> bool {
        let Some(stale) = self.stale_answers.get_mut(&id) else { return false };
        *stale -= 1;
        if *stale == 0 {
            self.stale_answers.remove(&id);
        }
        true
    }

    pub(crate) fn on_needed_answered(
        &mut self,
        id: TaskId,
        needed: bool,
        timestamp: Timestamp,
        out: &mut Vec<Output>,
    ) {
        if self.is_stale_answer(id) {
            return;
        }
        self.graph.tasks[id].answered = timestamp;
        match self.graph.tasks[id].state {
            TaskState::Asking if !self.invocations.goes_on(self.owner(id)) => self.give_back(id),
            TaskState::Asking if needed => self.conclude(id, Reason::AnsweredNeeded, out),
            TaskState::Asking => self.conclude(id, Reason::AnsweredNotNeeded, out),
            TaskState::Inspecting => self.settle(id, Settled::Executed, out),
            state @ (TaskState::Defined
            | TaskState::Waiting { .. }
            | TaskState::Resolving
            | TaskState::Comparing
            | TaskState::Checking { .. }
            | TaskState::Ready
            | TaskState::Mustered
            | TaskState::Lost
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Settled(_)) => panic!("nobody asked whether {id:?} is needed: {state:?}"),
        }
    }

    pub(crate) fn on_resolve_ended(&mut self, id: TaskId, found: bool, out: &mut Vec<Output>) {
        assert!(
            self.graph.tasks[id].state == TaskState::Resolving,
            "{id:?} was not to be resolved"
        );
        if !found {
            self.activated_end = self.graph.end();
            self.graph.tasks[id].reason = Reason::Unresolved;
            self.settle(id, Settled::Failed, out);
            return;
        }
        self.graph.tasks[id].deferred = false;
        let owner = self.owner(id);
        if !self.invocations.goes_on(owner) {
            self.activated_end = self.graph.end();
            self.give_back(id);
            return;
        }
        self.set_state(id, TaskState::Waiting { missing: 0 });
        self.activate(owner, &[id], out);
        self.wait_again(id, out);
        self.promote(&[id]);
        self.pending.work.push_back(id);
    }

    /// Acts on a decision.
    fn conclude(&mut self, id: TaskId, reason: Reason, out: &mut Vec<Output>) {
        let is_lost = self.is_lost(id);
        let reason = if is_lost && !reason.is_needed() { Reason::Lost } else { reason };
        self.graph.tasks[id].reason = reason;
        if let Some(gang) = self.gangs.of(id) {
            self.conclude_member(gang, id, out);
        } else if !reason.is_needed() {
            self.settle(id, Settled::NotNeeded, out);
        } else if is_lost && !self.graph.tasks[id].has_action {
            self.await_input(id, out);
        } else if self.reopen_lost_inputs(id, out) {
            // It is decided once more when they are there.
        } else if self.graph.tasks[id].has_action {
            self.make_ready(id);
        } else {
            self.settle(id, Settled::Executed, out);
        }
    }

    /// Queues a task; what starts is up to `dispatch`.
    pub(crate) fn make_ready(&mut self, id: TaskId) {
        self.new_mark(id);
        let queued_at = if self.config.locality && !self.is_serial() {
            candidate_nodes(&self.graph, &self.fleet, self.residency(), id)
        } else {
            crate::fact::Places::Unknown
        };
        self.graph.tasks[id].queued_at = queued_at;
        self.set_state(id, TaskState::Ready);
        if self.learns_levels() {
            self.learned.levels.make_sure_of(id, &self.graph);
        }
        self.ready.push(id, &self.graph, &self.learned);
        let requirement = self.graph.tasks[id].requirement;
        if self.fleet.requirements[requirement].fitting.is_empty() {
            self.pending.unschedulable.insert(requirement);
        }
        self.pending.fresh.push(id);
    }

    /// Settles a task that stands in no queue, and if it went badly all that depend on it.
    pub(crate) fn settle(&mut self, id: TaskId, how: Settled, out: &mut Vec<Output>) {
        let mut walk = VecDeque::new();
        let mut next = Some((id, how));
        while let Some((id, how)) = next.or_else(|| walk.pop_front()) {
            next = None;
            if self.graph.tasks[id].is_settled() {
                continue;
            }
            self.settle_one(id, how, out);
            let mut cursor = self.graph.first_dependent(id);
            while let Some(dependent) = self.graph.dependent_at(&mut cursor) {
                let TaskState::Waiting { missing } = self.graph.tasks[dependent].state else {
                    continue;
                };
                if !how.is_well() {
                    walk.push_back((dependent, Settled::Abandoned));
                    continue;
                }
                let missing = missing - 1;
                self.set_state(dependent, TaskState::Waiting { missing });
                if missing == 0 {
                    self.pending.work.push_back(dependent);
                }
            }
        }
    }

    fn settle_one(&mut self, id: TaskId, how: Settled, out: &mut Vec<Output>) {
        let owner = self.owner(id);
        self.lost_files.reopened.remove(&id);
        self.set_state(id, TaskState::Settled(how));
        out.push(Output::TaskSettled { id, how });
        let invocation = &mut self.invocations.all[owner];
        invocation.unsettled -= 1;
        match how {
            Settled::Executed | Settled::NotNeeded => {}
            Settled::Failed => invocation.failed.push(id),
            Settled::Abandoned => invocation.abandoned.push(id),
        }
        self.pending.endings.insert(owner);
        if !how.is_well() {
            self.request_halt(owner);
            self.fail_gang_of(id);
        }
        if !core::mem::take(&mut self.graph.tasks[id].wanted) {
            return;
        }
        let waiters = self.invocations.waiters.remove(&id).expect("someone wants it");
        for waiter in waiters {
            self.invocations.all[waiter].wanted_left -= 1;
            self.pending.endings.insert(waiter);
            if !how.is_well() {
                self.request_halt(waiter);
            }
        }
    }
}
