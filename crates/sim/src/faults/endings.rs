//! Attempts that end before their time: after too long, because something wants it, or with their node.

use std::collections::BTreeSet;

use rakuda_core::{Attempt, AttemptState, Input, NodeId, TaskId};

use super::attempts::state::{Running, Shadow};
use super::chaos::Chaos;
use super::front::state::ToFront;

impl Chaos {
    /// Ends what runs for too long.
    pub(crate) fn abort_late(&mut self, timeout_ns: u64) {
        let late = |(command, one): &(&u32, &Running)| {
            let is_late = self.now > one.begun_ns.saturating_add(timeout_ns);
            is_late && !self.may_wait_for_set(one.node, **command)
        };
        let late = self.hub.attempts.commands.iter().filter(late);
        let late: BTreeSet<u32> = late.map(|(_, one)| one.task).collect();
        for task in late {
            self.count("timeouts");
            self.abort_attempt(TaskId(task));
        }
    }

    /// The hub wants an attempt to end.
    pub(crate) fn abort_attempt(&mut self, id: TaskId) {
        if let Some(shadow) = self.hub.run.details_mut(id) {
            shadow.aborted = true;
        }
        let state = self.hub.run.attempts().get(id).map(rakuda_core::Attempt::state);
        if matches!(state, Some(AttemptState::Unwinding { next: Some(_), .. })) {
            self.count("attempts aborted before they began");
        }
        self.tell(Input::Abort { id });
    }

    /// Something wants attempts to end: one that may fail, or all that have not had a core yet.
    pub(crate) fn abort_some(&mut self) {
        if !self.hub.is_up() {
            return;
        }
        let first = self.hub.run.attempts().all_acting().next().map(|(id, _)| id);
        if let Some(id) = first {
            self.give_up(id);
        }
        let may_fail = |(id, _): &(TaskId, _)| self.troubles[id.0 as usize] > 0;
        let is_held =
            |state: &AttemptState| matches!(state, AttemptState::Unwinding { next: Some(_), .. });
        let all = || self.hub.run.attempts().all().map(|(id, one)| (id, one.state()));
        let held = all().filter(may_fail).find(|(_, state)| is_held(state));
        let one = held.or_else(|| all().find(may_fail));
        let Some((id, state)) = one else { return };
        let ends = match state {
            AttemptState::Acting
            | AttemptState::Aborting
            | AttemptState::Clearing
            | AttemptState::Attributing => true,
            AttemptState::Unwinding { next, .. } => next.is_some(),
            AttemptState::Inspecting | AttemptState::StagingOut => false,
        };
        let aborted =
            self.hub.run.attempts().get(id).is_some_and(|one| one.is_aborted() && one.is_acting());
        if ends && !aborted {
            self.troubles[id.0 as usize] -= 1;
            self.count("attempts aborted");
            self.abort_attempt(id);
        }
    }

    /// A task has failed for good: what its invocation began early, and has had no core, is given back.
    pub(crate) fn give_up(&mut self, id: TaskId) {
        self.tell(Input::TaskGivenUp { id });
        let is_new = |one: &Attempt<Shadow, u32>| one.is_given_back() && !one.details.aborted;
        let all = self.hub.run.attempts().all().filter(|(_, one)| is_new(one));
        let given_back: Vec<TaskId> = all.map(|(id, _)| id).collect();
        for id in given_back {
            let shadow = self.shadow(id);
            assert!(!shadow.had_lease, "{id:?} has had a core");
            shadow.aborted = true;
            self.count("actions given back");
        }
    }

    /// The node of attempts is gone.
    pub(crate) fn lose_attempts(&mut self, node: u32) {
        let there = NodeId(node);
        let acting = self.hub.run.attempts().all_acting().filter(|(_, one)| one.node() == there);
        let acting: Vec<TaskId> = acting.map(|(id, _)| id).collect();
        self.tell(Input::NodeLost { id: there });
        for id in acting {
            self.release_inputs(id, there);
        }
        let there_too = |(_, one): &(&u32, &Running)| one.node == node;
        let gone = self.hub.attempts.commands.iter().filter(there_too);
        let gone: Vec<(u32, u32)> = gone.map(|(command, one)| (*command, one.task)).collect();
        for (command, task) in gone {
            self.hub.attempts.commands.remove(&command);
            self.say_to_front(task, ToFront::CommandEnded { command, well: false });
        }
    }
}
