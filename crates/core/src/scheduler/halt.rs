//! How invocations are stopped and end, and what that means for their callers.
//!
//! A stopped invocation gives its tasks that have not started back (`Defined`, no owner), so that a
//! later one can want them, as in rake; those that another invocation needs go to that one.

use crate::config::FailurePolicy;
use crate::event::Output;
use crate::ids::{InvocationId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::invocation::Halt;
use crate::scheduler::task::TaskState;
use alloc::vec::Vec;

impl Scheduler {
    /// Something failed in an invocation: stops the rest of it as the settings want.
    pub(crate) fn request_halt(&mut self, id: InvocationId) {
        let halt = match self.config.failure {
            FailurePolicy::Wait => Halt::Wait,
            FailurePolicy::Kill => Halt::Kill,
            FailurePolicy::Continue => return,
        };
        if self.invocations.all[id].halt < Some(halt) {
            self.pending.halts.push_back((id, halt));
        }
    }

    pub(crate) fn on_stop_requested(&mut self, kill: bool) {
        let halt = if kill { Halt::Kill } else { Halt::Wait };
        self.stop = self.stop.max(Some(halt));
        let live = self.invocations.live.iter().map(|id| (*id, halt));
        self.pending.halts.extend(live);
    }

    pub(crate) fn halt(&mut self, id: InvocationId, halt: Halt, out: &mut Vec<Output>) {
        let invocation = &mut self.invocations.all[id];
        if !self.invocations.live.contains(&id) || invocation.halt >= Some(halt) {
            return;
        }
        let before = invocation.halt.replace(halt);
        let mut members = core::mem::take(&mut invocation.members);
        if before.is_none() {
            if self.stop.is_none() {
                self.hand_over(id, &members);
            }
            for &member in &members {
                self.give_back_unstarted(id, member);
            }
        }
        members.retain(|member| self.is_unsettled_member(*member, id));
        if halt == Halt::Kill {
            self.abort(&members, out);
        }
        self.invocations.all[id].members = members;
        self.pending.endings.insert(id);
    }

    fn is_unsettled_member(&self, task: TaskId, id: InvocationId) -> bool {
        let task = &self.graph.tasks[task];
        task.invocation == Some(id) && !task.is_settled()
    }

    fn give_back_unstarted(&mut self, id: InvocationId, task: TaskId) {
        if !self.is_unsettled_member(task, id) {
            return;
        }
        match self.graph.tasks[task].state {
            TaskState::Waiting { .. }
            | TaskState::Ready
            | TaskState::Mustered
            | TaskState::Lost => {
                self.withdraw(task);
                self.give_back(task);
            }
            TaskState::Resolving
            | TaskState::Asking
            | TaskState::Comparing
            | TaskState::Checking { .. }
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting => {}
            TaskState::Defined | TaskState::Settled(_) => unreachable!("it is an unsettled member"),
        }
    }

    /// Takes a task that stands in no queue and waits for no answer out of its invocation.
    pub(crate) fn give_back(&mut self, id: TaskId) {
        let owner = self.owner(id);
        self.lost_files.reopened.remove(&id);
        self.set_state(id, TaskState::Defined);
        self.graph.tasks[id].invocation = None;
        self.invocations.all[owner].unsettled -= 1;
        self.pending.endings.insert(owner);
    }

    /// Gives the members that other invocations need to these.
    fn hand_over(&mut self, id: InvocationId, members: &[TaskId]) {
        if self.invocations.live.len() < 2 {
            return;
        }
        let mut walk = Vec::new();
        for &member in members {
            if self.is_unsettled_member(member, id)
                && let Some(owner) = self.heir(member)
            {
                walk.push((member, owner));
            }
        }
        while let Some((task, owner)) = walk.pop() {
            if !self.is_unsettled_member(task, id) {
                continue;
            }
            self.change_owner(task, owner);
            let prerequisites = self.graph.prerequisites(task);
            walk.extend(prerequisites.map(|prerequisite| (prerequisite.id, owner)));
            walk.extend(self.gangs.peers(task).iter().map(|peer| (*peer, owner)));
        }
    }

    /// An invocation that goes on and wants the task, or owns one that waits for it.
    fn heir(&self, id: TaskId) -> Option<InvocationId> {
        let waiters = self.invocations.waiters.get(&id).into_iter().flatten().copied();
        let unsettled = |id: &TaskId| !self.graph.tasks[*id].is_settled();
        let dependents = self.graph.dependents(id).chain(self.gangs.peers(id).iter().copied());
        let owners = dependents.filter(unsettled).filter_map(|id| self.graph.tasks[id].invocation);
        waiters.chain(owners).find(|owner| self.invocations.goes_on(*owner))
    }

    /// Aborts what runs, and all that its actions wait for.
    pub(crate) fn abort(&mut self, members: &[TaskId], out: &mut Vec<Output>) {
        for &member in members {
            let task = &mut self.graph.tasks[member];
            if !matches!(task.state, TaskState::Running { .. }) || task.aborted {
                continue;
            }
            task.aborted = true;
            out.push(Output::AbortAction { id: member });
            if self.invocations.callers.contains_key(&member) {
                let called = |id: &InvocationId| self.invocations.all[*id].caller == Some(member);
                let called = self.invocations.live.iter().copied().filter(called);
                self.pending.halts.extend(called.map(|id| (id, Halt::Kill)));
            }
        }
    }

    pub(crate) fn end_if_over(&mut self, id: InvocationId, out: &mut Vec<Output>) {
        if !self.invocations.live.contains(&id) || !self.invocations.all[id].is_over() {
            return;
        }
        let invocation = self.invocations.end(id, &mut self.graph);
        if let Some(caller) = invocation.caller {
            self.resume(caller);
        }
        let (failed, abandoned) = invocation.blame(&self.graph);
        out.push(Output::InvocationEnded { id, failed, abandoned });
    }

    /// Frees the share of a running task whose action waits for one more invocation.
    pub(crate) fn suspend(&mut self, caller: TaskId) {
        let TaskState::Running { node } = self.graph.tasks[caller].state else {
            panic!("the action of caller {caller:?} does not run");
        };
        let calls = self.invocations.callers.entry(caller).or_insert(0);
        *calls += 1;
        if *calls == 1 {
            self.fleet.set_suspended(node, caller, true);
            self.pending.with_capacity.insert(node);
        }
    }

    /// Takes the share back when the last invocation that a caller waits for has ended.
    fn resume(&mut self, caller: TaskId) {
        let TaskState::Running { node } = self.graph.tasks[caller].state else {
            unreachable!("a caller that ended is forgotten");
        };
        let calls = self.invocations.callers.get_mut(&caller).expect("a caller is counted");
        *calls -= 1;
        if *calls == 0 {
            self.invocations.callers.remove(&caller);
            self.fleet.set_suspended(node, caller, false);
            self.pending.with_capacity.insert(node);
        }
    }

    /// A running task ended: what it called goes on without it. Whether it waited for something, so
    /// that its share was free.
    pub(crate) fn forget_caller(&mut self, id: TaskId) -> bool {
        if self.invocations.callers.remove(&id).is_none() {
            return false;
        }
        for &called in &self.invocations.live {
            let caller = &mut self.invocations.all[called].caller;
            if *caller == Some(id) {
                *caller = None;
            }
        }
        true
    }
}
