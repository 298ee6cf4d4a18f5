//! Definitions and activation: how tasks come in, and into which invocation.
//!
//! Decides nothing about them: a task that misses no prerequisite goes to `Pending::work`.

use crate::event::{Output, Settled};
use crate::ids::{Id, InvocationId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::rank::give_ranks;
use crate::scheduler::task::{Reason, Task, TaskState};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn on_task_defined(&mut self, id: TaskId, task: Task, prerequisites: &[TaskId]) {
        assert!(task.requirement.index() < self.fleet.requirements.len(), "unknown requirement");
        let order_only = task.deferred;
        self.graph.tasks.push(id, task);
        *self.counts.of(TaskState::Defined) += 1;
        for &prerequisite in prerequisites {
            assert!(prerequisite < id, "a prerequisite is defined before its dependent");
            self.graph.connect(prerequisite, id, order_only);
        }
    }

    pub(crate) fn on_prerequisites_added(
        &mut self,
        id: TaskId,
        prerequisites: &[TaskId],
        has_action: bool,
        out: &mut Vec<Output>,
    ) {
        let state = self.graph.tasks[id].state;
        match state {
            TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting
            | TaskState::Settled(_) => {
                // Too late. What was defined for it must not be run for someone else.
                self.activated_end = self.graph.end();
                return;
            }
            TaskState::Lost => {
                // There may be something to run for it now: it is decided once more.
                self.set_state(id, TaskState::Waiting { missing: 0 });
                self.pending.work.push_back(id);
            }
            TaskState::Defined
            | TaskState::Waiting { .. }
            | TaskState::Resolving
            | TaskState::Asking
            | TaskState::Comparing
            | TaskState::Checking { .. }
            | TaskState::Ready
            | TaskState::Mustered => {}
        }
        self.gangs.prerequisites_added();
        for &prerequisite in prerequisites {
            self.graph.connect(prerequisite, id, false);
        }
        self.graph.tasks[id].has_action = has_action;
        if matches!(state, TaskState::Defined | TaskState::Resolving) {
            return;
        }
        let owner = self.owner(id);
        if self.invocations.goes_on(owner) {
            self.activate(owner, &[id], out);
            self.wait_again(id, out);
            self.promote(&[id]);
            self.check_calls(out);
        } else {
            // An answer is still to come for it. Then it is given back, and may come in again with what was added.
            self.activated_end = self.graph.end();
        }
    }

    /// Takes a task that has not started back to `Waiting`, or abandons it, if its prerequisites call for it.
    pub(crate) fn wait_again(&mut self, id: TaskId, out: &mut Vec<Output>) {
        let (missing, failed) = self.graph.unsettled_prerequisites(id);
        let state = self.graph.tasks[id].state;
        if matches!(state, TaskState::Settled(_)) {
            return;
        }
        if failed {
            self.withdraw(id);
            self.set_state(id, TaskState::Waiting { missing });
            self.settle(id, Settled::Abandoned, out);
        } else if missing > 0 {
            self.withdraw(id);
            self.set_state(id, TaskState::Waiting { missing });
        }
    }

    /// Takes a task, which is about to leave its state before it started, out of the books of that state. Its mark, or
    /// a count in `stale_answers`, tells answers that are still to come from later ones.
    pub(crate) fn withdraw(&mut self, id: TaskId) {
        match self.graph.tasks[id].state {
            TaskState::Waiting { missing: 0 } => {
                let batch = self.graph.tasks[id].batch;
                self.serial_order.remove(batch, id);
            }
            TaskState::Ready => self.ready.remove(id, &self.graph, &self.learned),
            TaskState::Asking | TaskState::Comparing => {
                *self.stale_answers.entry(id).or_default() += 1;
            }
            TaskState::Waiting { .. }
            | TaskState::Checking { .. }
            | TaskState::Resolving
            | TaskState::Mustered
            | TaskState::Lost => {}
            TaskState::Defined
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting
            | TaskState::Settled(_) => unreachable!("it is not waiting to start"),
        }
    }

    pub(crate) fn on_invocation_started(
        &mut self,
        id: InvocationId,
        tasks: &[TaskId],
        caller: Option<TaskId>,
        out: &mut Vec<Output>,
    ) {
        self.invocations.start(id, tasks, caller, &mut self.graph);
        self.pending.endings.insert(id);
        if let Some(caller) = caller {
            self.suspend(caller);
        }
        if let Some(halt) = self.stop {
            self.activated_end = self.graph.end();
            self.invocations.all[id].halt = Some(halt);
            return;
        }
        self.activate(id, tasks, out);
        self.reopen_wanted(tasks, id, out);
        self.promote(tasks);
        let failed_before = |task: &TaskId| self.graph.tasks[*task].has_failed();
        if tasks.iter().any(failed_before) {
            self.request_halt(id);
        }
        if caller.is_some() {
            self.check_calls(out);
        }
    }

    /// Activates every task defined since the last time, and those given back before that `roots` or these need.
    pub(crate) fn activate(
        &mut self,
        owner: InvocationId,
        roots: &[TaskId],
        out: &mut Vec<Output>,
    ) {
        let end = self.graph.end();
        let new = (self.activated_end.index()..end.index()).map(TaskId::from_index);
        let new: Vec<TaskId> = new.collect();
        self.activated_end = end;
        self.bring_in(owner, &new, roots, out);
    }

    /// Activates what a settled task needs that is opened again: an invocation that was stopped may have given it back.
    pub(crate) fn activate_inputs(
        &mut self,
        id: TaskId,
        owner: InvocationId,
        out: &mut Vec<Output>,
    ) {
        let inputs = self.graph.prerequisites(id).map(|prerequisite| prerequisite.id);
        let at_rest = |id: &TaskId| self.graph.tasks[*id].state == TaskState::Defined;
        let at_rest: Vec<TaskId> = inputs.filter(at_rest).collect();
        if !at_rest.is_empty() {
            self.bring_in(owner, &[], &at_rest, out);
        }
    }

    fn bring_in(
        &mut self,
        owner: InvocationId,
        new: &[TaskId],
        roots: &[TaskId],
        out: &mut Vec<Output>,
    ) {
        self.batch += 1;
        self.gangs.activated();
        let activated = self.collect(owner, new, roots);
        give_ranks(&mut self.graph, &activated, self.batch);
        self.learned.levels.on_activated(activated.len());
        let mut abandoned = Vec::new();
        for &id in &activated {
            let (missing, failed) = self.graph.unsettled_prerequisites(id);
            self.set_state(id, TaskState::Waiting { missing });
            if failed {
                abandoned.push(id);
            } else if missing == 0 {
                self.pending.work.push_back(id);
            }
        }
        for id in abandoned {
            // An abandoned prerequisite may have taken it along.
            if !self.graph.tasks[id].is_settled() {
                self.settle(id, Settled::Abandoned, out);
            }
        }
    }

    /// Makes `owner` the owner of all tasks to be activated; they are sorted.
    fn collect(&mut self, owner: InvocationId, new: &[TaskId], roots: &[TaskId]) -> Vec<TaskId> {
        let mut activated: Vec<TaskId> = Vec::new();
        let mut gangs = BTreeSet::new();
        for &id in new.iter().chain(roots) {
            self.adopt(id, owner, &mut activated);
        }
        for &id in roots {
            if !self.graph.tasks[id].is_settled() {
                self.adopt_prerequisites(id, owner, &mut activated);
                self.adopt_peers(id, owner, &mut gangs, &mut activated);
            }
        }
        let mut next = 0;
        while let Some(&id) = activated.get(next) {
            next += 1;
            self.adopt_prerequisites(id, owner, &mut activated);
            self.adopt_peers(id, owner, &mut gangs, &mut activated);
        }
        activated.sort_unstable();
        activated
    }

    fn adopt_prerequisites(
        &mut self,
        id: TaskId,
        owner: InvocationId,
        activated: &mut Vec<TaskId>,
    ) {
        let mut cursor = self.graph.first_prerequisite(id);
        while let Some(prerequisite) = self.graph.prerequisite_at(&mut cursor) {
            self.adopt(prerequisite.id, owner, activated);
        }
    }

    /// Makes `owner` the owner of a task that has none, or whose owner was stopped while it was in flight.
    pub(crate) fn adopt(&mut self, id: TaskId, owner: InvocationId, activated: &mut Vec<TaskId>) {
        let task = &mut self.graph.tasks[id];
        if let Some(other) = task.invocation {
            if !task.is_settled() && other != owner && !self.invocations.goes_on(other) {
                self.change_owner(id, owner);
            }
            return;
        }
        task.invocation = Some(owner);
        task.batch = self.batch;
        task.reason = Reason::Undecided;
        activated.push(id);
        let invocation = &mut self.invocations.all[owner];
        invocation.members.push(id);
        invocation.unsettled += 1;
    }

    pub(crate) fn change_owner(&mut self, id: TaskId, owner: InvocationId) {
        let task = &mut self.graph.tasks[id];
        let before = task.invocation.replace(owner).expect("only a task with an owner changes it");
        let in_flight = u32::from(task.state.is_in_flight());
        let invocation = &mut self.invocations.all[before];
        invocation.unsettled -= 1;
        invocation.in_flight -= in_flight;
        self.pending.endings.insert(before);
        let invocation = &mut self.invocations.all[owner];
        invocation.members.push(id);
        invocation.unsettled += 1;
        invocation.in_flight += in_flight;
    }

    pub(crate) fn owner(&self, id: TaskId) -> InvocationId {
        self.graph.tasks[id].invocation.expect("an activated task has an owner")
    }
}
