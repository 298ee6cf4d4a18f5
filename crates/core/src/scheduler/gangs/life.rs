//! The life of a gang: from its definition to the end of its tasks, with all their failures.
//!
//! Tasks of a gang are decided one by one like others; then they stand by (`Mustered`) until all are. If one of them
//! does not end well, all of them run again. This part does not know where they run.

use super::{Gang, GangPhase};
use crate::event::{Output, Oversubscribe, Settled, TaskKind};
use crate::ids::{GangId, InvocationId, NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::{Reason, TaskState};
use crate::streams::{StreamEnds, Weights};
use crate::time::Now;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

impl Scheduler {
    pub(crate) fn on_gang_defined(
        &mut self,
        id: GangId,
        tasks: &[TaskId],
        oversubscribe: Oversubscribe,
    ) {
        assert!(!tasks.is_empty(), "a gang has tasks");
        for task in tasks {
            let state = self.graph.tasks[*task].state;
            assert!(
                state == TaskState::Defined,
                "{task:?} is activated before its gang is defined"
            );
            let before = self.gangs.of.insert(*task, id);
            assert!(before.is_none(), "{task:?} is in two gangs, or twice in one");
        }
        let gang = Gang {
            members: tasks.to_vec(),
            oversubscribe,
            phase: GangPhase::Mustering,
            mustered: 0,
            running: 0,
            settled: 0,
            age: 0,
            slots: Vec::new(),
            too_large: false,
            oversubscribed: false,
            culprit: None,
            at_fault: BTreeSet::new(),
            given_back: BTreeSet::new(),
            uncharged: false,
            joined: false,
            streams: Vec::new(),
            spread: false,
            by_turns: false,
            shares: BTreeMap::new(),
            weights: Weights::default(),
            begins: None,
        };
        self.gangs.all.push(id, gang);
        self.gangs.unchecked.push(id);
    }

    /// Joins the tasks of a gang by streams.
    pub(crate) fn on_gang_joined(
        &mut self,
        id: GangId,
        spread: bool,
        by_turns: bool,
        streams: &[StreamEnds],
    ) {
        self.gangs.all[id].joined = true;
        self.gangs.all[id].streams = streams.to_vec();
        self.gangs.all[id].spread = spread;
        self.gangs.all[id].by_turns = by_turns;
        self.gangs.any_by_turns |= by_turns;
    }

    /// Notes what the Rakefile says of a gang's tasks.
    pub(crate) fn on_gang_weighed(&mut self, id: GangId, weights: &Weights) {
        self.gangs.all[id].weights = weights.clone();
    }

    /// Whether a gang runs, all of whose tasks are decided. Of one that is joined plain tasks do not
    /// count, which are always needed, if another makes a file.
    fn is_gang_needed(&self, id: GangId) -> bool {
        let gang = &self.gangs.all[id];
        let tasks = || gang.members.iter().map(|member| &self.graph.tasks[*member]);
        let any_file = tasks().any(|task| task.kind != TaskKind::Plain);
        let counts = |kind| !gang.joined || !any_file || kind != TaskKind::Plain;
        tasks().any(|task| counts(task.kind) && task.reason.is_needed())
    }

    /// No more nodes come, and those that are there are to do.
    pub(crate) fn on_gang_shares(&mut self, id: GangId) {
        let gang = &mut self.gangs.all[id];
        gang.oversubscribe = Oversubscribe::Always;
        gang.too_large = false;
        self.gangs.fresh = true;
    }

    /// No more nodes come, and those that are there are not enough.
    pub(crate) fn on_gang_refused(&mut self, id: GangId, out: &mut Vec<Output>) {
        if self.gangs.all[id].phase == GangPhase::Waiting {
            let (slots, slots_there) = self.slots_for(id);
            out.push(Output::GangRefused { id, slots, slots_there });
            let first = self.gangs.all[id].members[0];
            self.settle(first, Settled::Failed, out);
        }
    }

    /// A task of a gang was decided.
    pub(crate) fn conclude_member(&mut self, gang: GangId, id: TaskId, out: &mut Vec<Output>) {
        let task = &self.graph.tasks[id];
        let (is_needed, has_action) = (task.reason.is_needed(), task.has_action);
        if self.gangs.all[gang].phase == GangPhase::Failed {
            self.settle(id, Settled::Abandoned, out);
        } else if is_needed && self.is_lost(id) && !has_action {
            self.await_input(id, out);
        } else if !(is_needed && self.reopen_lost_inputs(id, out)) {
            self.set_state(id, TaskState::Mustered);
        }
    }

    /// Does what follows from the states of a gang's tasks.
    pub(crate) fn review_gang(&mut self, now: Now, id: GangId, out: &mut Vec<Output>) {
        let gang = &self.gangs.all[id];
        let all_mustered = gang.mustered == gang.members.len();
        match gang.phase {
            GangPhase::Mustering if all_mustered => self.on_all_mustered(now, id, out),
            GangPhase::Mustering if gang.mustered > 0 && gang.settled > 0 => {
                self.open_settled(id, out);
            }
            GangPhase::Waiting if !all_mustered => {
                self.release_slots(id);
                let gang = &mut self.gangs.all[id];
                self.gangs.waiting.remove(&(gang.age, id));
                gang.phase = GangPhase::Mustering;
                gang.too_large = false;
                self.pending.gangs.insert(id);
            }
            GangPhase::Begun if gang.running == 0 => self.on_all_ended(id, out),
            GangPhase::Breaking if gang.running == 0 => self.begin_again(id, out),
            GangPhase::Breaking => self.abort_gang(id, out),
            GangPhase::Failed => {
                self.abort_gang(id, out);
                self.abandon_others(id, out);
            }
            GangPhase::Mustering | GangPhase::Waiting | GangPhase::Begun => {}
        }
    }

    /// All tasks of a gang are decided: if one has to run, all do.
    fn on_all_mustered(&mut self, now: Now, id: GangId, out: &mut Vec<Output>) {
        let members = self.gangs.all[id].members.clone();
        let outdated = self.outdated_by_streams(now, id);
        if outdated.is_empty() && !self.is_gang_needed(id) {
            for member in members {
                self.settle(member, Settled::NotNeeded, out);
            }
            return;
        }
        for member in members {
            if self.graph.tasks[member].reason.is_needed() {
                continue;
            }
            let is_outdated = outdated.binary_search(&member).is_ok();
            self.graph.tasks[member].reason =
                if is_outdated { Reason::OutOfDate } else { Reason::GangRuns };
            // Of a file that is up to date the inputs were not looked for.
            if self.reopen_lost_inputs(member, out) {
                return;
            }
            self.set_state(member, TaskState::Mustered);
        }
        self.gangs.ages += 1;
        let gang = &mut self.gangs.all[id];
        gang.phase = GangPhase::Waiting;
        gang.age = self.gangs.ages;
        self.gangs.waiting.insert((gang.age, id));
        self.gangs.fresh = true;
        // The shell is about to do the same: nothing may begin early beside the gang meanwhile.
        self.fleet.end_lookahead();
    }

    /// Opens the settled tasks of a gang again, because one of them is to run again.
    fn open_settled(&mut self, id: GangId, out: &mut Vec<Output>) {
        let members = self.gangs.all[id].members.clone();
        let is_mustered = |task: &&TaskId| self.graph.tasks[**task].state == TaskState::Mustered;
        let owner = members.iter().find(is_mustered).map(|task| self.owner(*task));
        let Some(owner) = owner.filter(|owner| self.invocations.goes_on(*owner)) else { return };
        for member in members {
            if matches!(self.graph.tasks[member].state, TaskState::Settled(how) if how.is_well()) {
                // Its file is good, and is overwritten all the same.
                self.uncharge_readers(member);
                self.reopen(member, owner, out);
            }
        }
    }

    /// All tasks of a gang have ended well.
    fn on_all_ended(&mut self, id: GangId, out: &mut Vec<Output>) {
        self.gangs.all[id].phase = GangPhase::Mustering;
        for member in self.gangs.all[id].members.clone() {
            if let TaskState::AwaitingPeers { node } = self.graph.tasks[member].state {
                self.on_attempt_succeeded(member, node, out);
            }
        }
    }

    /// The last task of a gang that is to run again has ended.
    fn begin_again(&mut self, id: GangId, out: &mut Vec<Output>) {
        self.gangs.all[id].phase = GangPhase::Mustering;
        self.settle_charges(id);
        for member in self.gangs.all[id].members.clone() {
            if matches!(self.graph.tasks[member].state, TaskState::AwaitingPeers { .. }) {
                self.start_again(member, out);
            }
        }
        self.pending.gangs.insert(id);
    }

    fn abandon_others(&mut self, id: GangId, out: &mut Vec<Output>) {
        for member in self.gangs.all[id].members.clone() {
            match self.graph.tasks[member].state {
                TaskState::Waiting { .. } | TaskState::Mustered | TaskState::Lost => {
                    self.withdraw(member);
                    self.settle(member, Settled::Abandoned, out);
                }
                TaskState::AwaitingPeers { .. } => {
                    let how = self.end_in_failed_gang(member);
                    self.settle(member, how, out);
                }
                // They are decided, or end, and come to that then.
                TaskState::Defined
                | TaskState::Resolving
                | TaskState::Asking
                | TaskState::Comparing
                | TaskState::Checking { .. }
                | TaskState::Ready
                | TaskState::Running { .. }
                | TaskState::Inspecting
                | TaskState::Settled(_) => {}
            }
        }
    }

    /// A task has failed, or was abandoned: its gang cannot run, or go on.
    pub(crate) fn fail_gang_of(&mut self, id: TaskId) {
        let Some(gang) = self.gangs.of(id) else { return };
        if self.gangs.all[gang].phase == GangPhase::Failed {
            return;
        }
        if self.gangs.all[gang].phase == GangPhase::Waiting {
            self.release_slots(gang);
            self.gangs.waiting.remove(&(self.gangs.all[gang].age, gang));
        }
        self.gangs.all[gang].phase = GangPhase::Failed;
        self.pending.gangs.insert(gang);
    }

    /// Ends what runs of a gang.
    fn abort_gang(&mut self, id: GangId, out: &mut Vec<Output>) {
        let members = self.gangs.all[id].members.clone();
        self.abort(&members, out);
    }

    /// A task of a gang that has begun came to nothing: the others are ended, and all run again.
    /// `charged`: that uses up a retry.
    pub(crate) fn break_gang(&mut self, id: GangId, charged: bool) {
        if !charged {
            self.uncharge_gang(id);
        }
        if self.gangs.all[id].phase == GangPhase::Begun {
            self.gangs.all[id].phase = GangPhase::Breaking;
            self.pending.gangs.insert(id);
        }
    }

    /// Gangs that have begun with a task that has ended on a node.
    pub(crate) fn gangs_awaiting_on(&self, node: NodeId) -> Vec<GangId> {
        let on_node =
            |id: &&TaskId| self.graph.tasks[**id].state == (TaskState::AwaitingPeers { node });
        let begun = self.gangs.all.iter().filter(|(_, gang)| gang.phase == GangPhase::Begun);
        begun
            .filter(|(_, gang)| gang.members.iter().any(|id| on_node(&id)))
            .map(|(id, _)| id)
            .collect()
    }

    fn uncharge_gang(&mut self, id: GangId) {
        if core::mem::replace(&mut self.gangs.all[id].uncharged, true) {
            return;
        }
        for member in self.gangs.all[id].members.clone() {
            self.lost_files.uncharged(member);
        }
    }

    /// A member of a gang by turns has failed by itself.
    pub(crate) fn note_at_fault(&mut self, id: TaskId) {
        if self.runs_by_turns(id)
            && let Some(gang) = self.gangs.of(id)
        {
            self.gangs.all[gang].at_fault.insert(id);
        }
    }

    /// The action of a member was given back. That uses up no retry of the others, unless one of them has failed.
    pub(crate) fn on_member_given_back(&mut self, gang: GangId, id: TaskId) {
        self.gangs.all[gang].given_back.insert(id);
        let charged = self.gangs.all[gang].phase != GangPhase::Begun;
        self.break_gang(gang, charged);
    }

    /// Decides which attempts of a gang that came to nothing use up a retry. Where tasks run by turns each has its own
    /// retries: of those that are not at fault some have ended well, and need not run again, and others have not begun.
    /// A task that was given back has made no attempt, so none is taken off its count.
    fn settle_charges(&mut self, id: GangId) {
        let gang = &mut self.gangs.all[id];
        let at_fault = core::mem::take(&mut gang.at_fault);
        let given_back = core::mem::take(&mut gang.given_back);
        let (uncharged, by_turns) = (gang.uncharged, gang.by_turns);
        for member in gang.members.clone() {
            let is_back = given_back.contains(&member);
            if uncharged && is_back {
                self.lost_files.uncounted_mut(member).attempts -= 1;
            } else if !uncharged && !is_back && by_turns && !at_fault.contains(&member) {
                self.lost_files.uncharged(member);
            }
        }
    }

    /// The attempt of a task uses up no retry; with it those of its whole gang do not.
    pub(crate) fn uncharge(&mut self, id: TaskId) {
        match self.gangs.of(id) {
            Some(gang) => self.uncharge_gang(gang),
            None => {
                self.lost_files.uncharged(id);
            }
        }
    }

    /// Puts all tasks of a gang that `id` is in into the invocation that has just got it.
    pub(crate) fn adopt_peers(
        &mut self,
        id: TaskId,
        owner: InvocationId,
        seen: &mut BTreeSet<GangId>,
        activated: &mut Vec<TaskId>,
    ) {
        if let Some(gang) = self.gangs.of(id)
            && seen.insert(gang)
        {
            for member in self.gangs.all[gang].members.clone() {
                self.adopt(member, owner, activated);
            }
        }
    }

    /// Fails gangs whose tasks need one another. All that are activated are looked at once; again
    /// when prerequisites were added and nothing goes on any more.
    pub(crate) fn check_entangled(&mut self, out: &mut Vec<Output>) {
        let is_due = core::mem::take(&mut self.gangs.check_due);
        let mut gangs = Vec::new();
        if is_due {
            gangs = core::mem::take(&mut self.gangs.unchecked);
        }
        if self.gangs.recheck && self.counts.in_flight() <= self.invocations.callers.len() {
            self.gangs.recheck = false;
            gangs = self.gangs.all.ids().collect();
        }
        for id in gangs {
            let gang = &self.gangs.all[id];
            if gang.phase != GangPhase::Mustering {
                continue;
            }
            let states = || gang.members.iter().map(|id| self.graph.tasks[*id].state);
            if states().all(|state| state == TaskState::Defined) {
                self.gangs.unchecked.push(id);
            } else if let Some((task, on)) = self.entangled(id) {
                let stands_still =
                    |state| matches!(state, TaskState::Waiting { .. } | TaskState::Mustered);
                if stands_still(self.graph.tasks[task].state) {
                    out.push(Output::GangEntangled { id, task, on });
                    self.withdraw(task);
                    self.settle(task, Settled::Failed, out);
                } else {
                    self.gangs.recheck = true;
                }
            }
        }
    }

    /// A task of a gang and one that it waits for before it can start, of the same gang: over
    /// prerequisites that are not settled, and gangs of these.
    fn entangled(&self, id: GangId) -> Option<(TaskId, TaskId)> {
        let mut walk = Vec::new();
        let mut origins: BTreeMap<TaskId, TaskId> = BTreeMap::new();
        let mut gangs = BTreeSet::from([id]);
        for &member in &self.gangs.all[id].members {
            walk.extend(self.missing_prerequisites(member).map(|task| (task, member)));
        }
        while let Some((task, origin)) = walk.pop() {
            let gang = self.gangs.of(task);
            if gang == Some(id) {
                return Some((origin, task));
            }
            if origins.insert(task, origin).is_some() {
                continue;
            }
            if let Some(gang) = gang.filter(|gang| gangs.insert(*gang)) {
                walk.extend(self.gangs.all[gang].members.iter().map(|task| (*task, origin)));
            }
            walk.extend(self.missing_prerequisites(task).map(|task| (task, origin)));
        }
        None
    }
}
