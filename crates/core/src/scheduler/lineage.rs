//! Files that were on lost nodes: which of them are needed, and how they come to be made again.
//!
//! A settled task whose file is lost is opened again when something that has not started needs the
//! file, or when an invocation wants it. What cannot be made, because it has no action, is waited
//! for, or fails. Knows no capacity and no queue; what is where is in `lost_files.rs`.

use crate::event::{Output, Settled, TaskKind};
use crate::fact::Places;
use crate::ids::{InvocationId, NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::{KnownFact, Reason, TaskState};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Scheduler {
    /// Whether the file of a task was made once, and is out of reach.
    pub(crate) fn is_lost(&self, id: TaskId) -> bool {
        let task = &self.graph.tasks[id];
        self.config.files_on_nodes
            && task.kind == TaskKind::File
            && self.lost_files.may_lack_files()
            && self.lost_files.is_lost(&task.fact)
    }

    fn is_settled_and_lost(&self, id: TaskId) -> bool {
        matches!(self.graph.tasks[id].state, TaskState::Settled(how) if how.is_well())
            && self.is_lost(id)
    }

    /// A node has gone, and its files with it: opens again what made those that are needed.
    pub(crate) fn on_files_away(&mut self, node: NodeId, out: &mut Vec<Output>) {
        let files = self.lost_files.files_on(node, &self.graph);
        let lost: Vec<TaskId> = files.into_iter().filter(|id| self.is_lost(*id)).collect();
        if lost.is_empty() {
            return;
        }
        let wanted = self.wanted_by_live();
        for id in lost {
            // Also of one that is open again already, for an attempt that was lost with the node.
            self.uncharge_readers(id);
            self.decide_lost_member(id);
            if self.is_settled_and_lost(id)
                && let Some(owner) = self.demand(id, &wanted)
            {
                self.reopen(id, owner, out);
            }
        }
    }

    /// What runs and may not have read a file that is lost, or made again, is uncharged, also when the file is back
    /// before it fails.
    pub(crate) fn uncharge_readers(&mut self, id: TaskId) {
        let mut cursor = self.graph.first_dependent(id);
        while let Some(dependent) = self.graph.dependent_at(&mut cursor) {
            if matches!(self.graph.tasks[dependent].state, TaskState::Running { .. }) {
                self.lost_files.lacked.insert(dependent);
            }
        }
    }

    /// What runs may have needed a file that is behind its prerequisites. As an input it will be
    /// there before the next attempt. What is decided by the files' times does not change: they go
    /// through all prerequisites anyhow.
    pub(crate) fn on_input_lacked(&mut self, id: TaskId, input: TaskId) {
        if !matches!(self.graph.tasks[id].state, TaskState::Running { .. }) {
            return;
        }
        self.lost_files.lacked.insert(id);
        let is_input = self.graph.prerequisites(id).any(|p| !p.order_only && p.id == input);
        if !is_input {
            self.graph.connect(input, id, false);
        }
    }

    /// A task that fails next is not to blame, if it runs.
    pub(crate) fn on_failure_uncharged(&mut self, id: TaskId) {
        if matches!(self.graph.tasks[id].state, TaskState::Running { .. }) {
            self.lost_files.lacked.insert(id);
        }
    }

    /// A task of a gang that waits stands by. If it has no action, nothing will make its file when
    /// the gang begins; if it was up to date, it is so no longer.
    fn decide_lost_member(&mut self, id: TaskId) {
        let task = &self.graph.tasks[id];
        let is_remade = task.has_action && task.reason.is_needed();
        if task.state == TaskState::Mustered && !is_remade && self.is_lost(id) {
            self.set_state(id, TaskState::Waiting { missing: 0 });
            self.pending.work.push_back(id);
        }
    }

    /// A file is now known to be out of reach.
    pub(crate) fn reopen_if_needed(&mut self, id: TaskId, out: &mut Vec<Output>) {
        self.decide_lost_member(id);
        if self.is_settled_and_lost(id)
            && let Some(owner) = self.demand(id, &self.wanted_by_live())
        {
            self.reopen(id, owner, out);
        }
    }

    /// What invocations that go on want, with one that does.
    fn wanted_by_live(&self) -> BTreeSet<(TaskId, InvocationId)> {
        let live = self.invocations.live.iter().copied();
        let going = live.filter(|id| self.invocations.goes_on(*id));
        let wanted = going
            .flat_map(|id| self.invocations.all[id].wanted.iter().map(move |task| (*task, id)));
        wanted.collect()
    }

    /// The invocation for which the lost file of a settled task has to be made again. `None`: nothing needs it, or that
    /// is not certain yet (then `reopen_lost_inputs` deals with it when its dependent is decided).
    fn demand(
        &self,
        id: TaskId,
        wanted: &BTreeSet<(TaskId, InvocationId)>,
    ) -> Option<InvocationId> {
        let mut walk = Vec::from([id]);
        let mut seen = BTreeSet::new();
        while let Some(file) = walk.pop() {
            if !seen.insert(file) {
                continue;
            }
            let first = (file, InvocationId(0));
            if let Some((_, owner)) = wanted.range(first..).next().filter(|(task, _)| *task == file)
            {
                return Some(*owner);
            }
            for dependent in self.graph.dependents(file) {
                let task = &self.graph.tasks[dependent];
                match task.state {
                    TaskState::Ready => return task.invocation,
                    TaskState::Mustered if task.reason.is_needed() => return task.invocation,
                    TaskState::Waiting { .. } if self.will_run(dependent, id) => {
                        return task.invocation;
                    }
                    // A task that only names others: an invocation that wants it wants these.
                    TaskState::Settled(how)
                        if how.is_well() && task.kind == TaskKind::Plain && !task.has_action =>
                    {
                        walk.push(dependent);
                    }
                    TaskState::Defined
                    | TaskState::Mustered
                    | TaskState::Waiting { .. }
                    | TaskState::Resolving
                    | TaskState::Asking
                    | TaskState::Comparing
                    | TaskState::Checking { .. }
                    | TaskState::Lost
                    | TaskState::Running { .. }
                    | TaskState::AwaitingPeers { .. }
                    | TaskState::Inspecting
                    | TaskState::Settled(_) => {}
                }
            }
        }
        None
    }

    /// Whether it is certain that a waiting task will run when its prerequisites are settled, of which `input` is one.
    fn will_run(&self, id: TaskId, input: TaskId) -> bool {
        let task = &self.graph.tasks[id];
        match task.kind {
            TaskKind::Plain => true,
            TaskKind::File => {
                self.graph.tasks[input].ran
                    || matches!(task.fact, KnownFact::Missing | KnownFact::Gone { .. })
                    || self.is_lost(id)
            }
            TaskKind::Directory | TaskKind::Asked => false,
        }
    }

    /// Opens the task of every lost file that a task is about to need; whether it has to wait, or
    /// was abandoned. It is in no queue.
    pub(crate) fn reopen_lost_inputs(&mut self, id: TaskId, out: &mut Vec<Output>) -> bool {
        let may_lack_files = self.config.files_on_nodes && self.lost_files.may_lack_files();
        // What was opened again may have failed since; of a gang that runs again tasks without an action are open
        // again, wherever files lie.
        if !may_lack_files && !self.lost_files.any_reopened {
            return false;
        }
        let owner = self.owner(id);
        self.set_state(id, TaskState::Waiting { missing: 0 });
        self.open_lost_inputs(id, owner, out);
        if self.graph.tasks[id].is_settled() {
            return true;
        }
        self.wait_again(id, out);
        self.graph.tasks[id].state != (TaskState::Waiting { missing: 0 })
    }

    fn open_lost_inputs(&mut self, id: TaskId, owner: InvocationId, out: &mut Vec<Output>) {
        let mut cursor = self.graph.first_prerequisite(id);
        while let Some(prerequisite) = self.graph.prerequisite_at(&mut cursor) {
            if !prerequisite.order_only && self.is_settled_and_lost(prerequisite.id) {
                self.reopen(prerequisite.id, owner, out);
            }
        }
    }

    /// An invocation wants tasks that are settled, but whose files have been lost since.
    pub(crate) fn reopen_wanted(
        &mut self,
        wanted: &[TaskId],
        owner: InvocationId,
        out: &mut Vec<Output>,
    ) {
        if !self.lost_files.may_lack_files() {
            return;
        }
        let mut walk = wanted.to_vec();
        let mut seen = BTreeSet::new();
        while let Some(id) = walk.pop() {
            let task = &self.graph.tasks[id];
            let names_others = task.kind == TaskKind::Plain && !task.has_action;
            if !task.is_settled() || !seen.insert(id) {
                continue;
            }
            if self.is_settled_and_lost(id) {
                self.reopen(id, owner, out);
            } else if names_others {
                walk.extend(self.graph.prerequisites(id).map(|prerequisite| prerequisite.id));
            }
        }
    }

    /// Takes a settled task back to where it is decided once more. What waits for it, or would have
    /// started, waits again.
    pub(crate) fn reopen(&mut self, id: TaskId, owner: InvocationId, out: &mut Vec<Output>) {
        let task = &mut self.graph.tasks[id];
        task.invocation = Some(owner);
        task.reason = Reason::Lost;
        let attempts = task.attempt;
        self.lost_files.start_over(id, attempts);
        self.lost_files.reopened.insert(id);
        self.lost_files.any_reopened = true;
        let invocation = &mut self.invocations.all[owner];
        invocation.members.push(id);
        invocation.unsettled += 1;
        self.want_again(id);
        self.activate_inputs(id, owner, out);
        let (missing, failed) = self.graph.unsettled_prerequisites(id);
        self.set_state(id, TaskState::Waiting { missing });
        out.push(Output::TaskReopened { id });
        let mut cursor = self.graph.first_dependent(id);
        while let Some(dependent) = self.graph.dependent_at(&mut cursor) {
            self.hold_up(dependent, out);
        }
        if failed {
            self.settle(id, Settled::Abandoned, out);
        } else if missing == 0 {
            self.pending.work.push_back(id);
        }
    }

    /// Notes again which invocations want a task that is no longer settled.
    fn want_again(&mut self, id: TaskId) {
        for &live in &self.invocations.live {
            let invocation = &mut self.invocations.all[live];
            for _ in invocation.wanted.iter().filter(|wanted| **wanted == id) {
                invocation.wanted_left += 1;
                self.invocations.waiters.entry(id).or_default().push(live);
                self.graph.tasks[id].wanted = true;
            }
        }
    }

    /// A prerequisite of a task is open again. One that runs goes on: it may have what it needs.
    fn hold_up(&mut self, id: TaskId, out: &mut Vec<Output>) {
        match self.graph.tasks[id].state {
            TaskState::Waiting { .. }
            | TaskState::Asking
            | TaskState::Comparing
            | TaskState::Checking { .. }
            | TaskState::Ready
            | TaskState::Mustered => {
                if self.invocations.goes_on(self.owner(id)) {
                    self.wait_again(id, out);
                }
            }
            TaskState::Defined
            | TaskState::Resolving
            | TaskState::Lost
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting
            | TaskState::Settled(_) => {}
        }
    }

    /// The file of a task that has no action is lost, and is needed.
    pub(crate) fn await_input(&mut self, id: TaskId, out: &mut Vec<Output>) {
        self.graph.tasks[id].reason = Reason::Lost;
        if matches!(self.graph.tasks[id].fact, KnownFact::Gone { .. }) {
            self.settle(id, Settled::Failed, out);
        } else {
            self.set_state(id, TaskState::Lost);
            out.push(Output::InputLost { id });
        }
    }

    /// Files are in reach again. All of them are known to be so before anything is decided: what is decided of one may
    /// want another, and would have that one made again.
    pub(crate) fn on_files_found(&mut self, files: &[(TaskId, Places)], out: &mut Vec<Output>) {
        for (id, places) in files {
            self.learn_places(*id, places.clone());
        }
        if self.config.files_on_nodes {
            for (id, _) in files {
                self.on_file_back(*id, out);
            }
        }
    }

    /// A file is somewhere again: what waits for it goes on, and what would have made it again is decided anew.
    pub(crate) fn on_file_back(&mut self, id: TaskId, out: &mut Vec<Output>) {
        if self.is_lost(id) {
            return;
        }
        match self.graph.tasks[id].state {
            TaskState::Lost => self.settle(id, Settled::NotNeeded, out),
            TaskState::Ready | TaskState::Mustered
                if self.graph.tasks[id].reason == Reason::Lost =>
            {
                self.withdraw(id);
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
            | TaskState::Mustered
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting
            | TaskState::Settled(_) => {}
        }
    }

    /// A lost node has joined again with its files.
    pub(crate) fn on_files_back(&mut self, node: NodeId, out: &mut Vec<Output>) {
        for id in self.lost_files.files_on(node, &self.graph) {
            self.on_file_back(id, out);
        }
    }

    /// A node that is away, or has joined again, has none of its files any more.
    pub(crate) fn on_files_gone(&mut self, node: NodeId, out: &mut Vec<Output>) {
        for id in self.lost_files.forget_files(node, &mut self.graph) {
            if self.graph.tasks[id].state == TaskState::Lost {
                self.settle(id, Settled::Failed, out);
            } else {
                // Already open again, unless the node joins for the first time.
                self.uncharge_readers(id);
                self.reopen_if_needed(id, out);
            }
        }
    }

    /// A file that is out of reach is so for good.
    pub(crate) fn on_file_given_up(&mut self, id: TaskId, out: &mut Vec<Output>) {
        if !self.is_lost(id) || !self.lost_files.forget_file(&mut self.graph.tasks[id].fact) {
            return;
        }
        if self.graph.tasks[id].state == TaskState::Lost {
            self.settle(id, Settled::Failed, out);
        }
    }

    /// Nothing is known to lie there. What is found there now waits for it to join.
    pub(crate) fn on_node_came(&mut self, node: NodeId) {
        self.lost_files.given_up.remove(&node);
    }

    pub(crate) fn on_node_given_up(&mut self, node: NodeId, out: &mut Vec<Output>) {
        let is_new = self.lost_files.away.contains(&node) && self.lost_files.given_up.insert(node);
        if is_new && self.config.files_go_with_nodes() {
            self.on_files_gone(node, out);
        }
    }
}
