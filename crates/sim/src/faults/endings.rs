//! Attempts that end before their time: after too long, because something wants it, or with their node.

use std::collections::BTreeSet;

use rakuda_core::{Aborting, ActionOutcome, AttemptState, Event, NodeId, ReachInput, TaskId, Time};

use super::attempts::Running;
use super::chaos::Chaos;
use super::front::ToFront;

impl Chaos {
    /// Ends what runs for too long.
    pub(crate) fn abort_late(&mut self, timeout_ns: u64) {
        let late = |one: &&Running| self.now > one.begun_ns.saturating_add(timeout_ns);
        let late = self.hub.attempts.commands.values().filter(late);
        let late: BTreeSet<u32> = late.map(|one| one.task).collect();
        for task in late {
            self.count("timeouts");
            self.abort_attempt(TaskId(task));
        }
    }

    /// The hub wants an attempt to end.
    pub(crate) fn abort_attempt(&mut self, id: TaskId) {
        let mut aborting = None;
        if let Some(shadow) = self.hub.attempts.core.details_mut(id) {
            shadow.aborted = true;
        }
        self.tell_attempts(|attempts, out| aborting = attempts.abort(id, true, out));
        match aborting {
            Some(Aborting::NotBegun(attempt)) => {
                self.count("attempts aborted before they began");
                let outcome = ActionOutcome::Failed;
                self.tell(Event::ActionEnded { id, attempt, outcome, run_ns: None });
            }
            Some(Aborting::Failed) => {
                if self.scenario.gfarm.is_some() {
                    self.tell_reach(ReachInput::FailedTold { id });
                } else {
                    self.hub.doubts.retain(|doubt| doubt.task != id.0);
                    self.finish_attempt(id.0, ActionOutcome::Failed);
                }
            }
            Some(Aborting::UnderWay) | None => {}
        }
    }

    /// Something wants attempts to end: one that may fail, or all that have not had a core yet.
    pub(crate) fn abort_some(&mut self) {
        if !self.hub.is_up() {
            return;
        }
        let early = self.hub.attempts.core.give_back_early(|_| true);
        for id in early {
            let attempt = self.hub.attempts.core.get(id).expect("it acts");
            assert!(!attempt.details.had_lease, "{id:?} has had a core");
            self.count("actions given back");
            self.abort_attempt(id);
        }
        let may_fail = |(id, _): &(TaskId, _)| self.troubles[id.0 as usize] > 0;
        let is_held =
            |state: &AttemptState| matches!(state, AttemptState::Unwinding { next: Some(_), .. });
        let all = || self.hub.attempts.core.all().map(|(id, one)| (id, one.state()));
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
            self.hub.attempts.core.get(id).is_some_and(|one| one.is_aborted() && one.is_acting());
        if ends && !aborted {
            self.troubles[id.0 as usize] -= 1;
            self.count("attempts aborted");
            self.abort_attempt(id);
        }
    }

    /// The node of attempts is gone. Those whose end was only to be looked at have ended.
    pub(crate) fn lose_attempts(&mut self, node: u32) {
        let there = NodeId(node);
        let now = Time(self.now).into();
        self.tell_attempts(|attempts, out| attempts.lose_node(there, now, out));
        let there_too = |(_, one): &(&u32, &Running)| one.node == node;
        let gone = self.hub.attempts.commands.iter().filter(there_too);
        let gone: Vec<(u32, u32)> = gone.map(|(command, one)| (*command, one.task)).collect();
        for (command, task) in gone {
            self.hub.attempts.commands.remove(&command);
            self.say_to_front(task, ToFront::CommandEnded { command, well: false });
        }
        let looked_at = |state: &AttemptState| {
            matches!(
                state,
                AttemptState::Inspecting | AttemptState::StagingOut | AttemptState::Clearing
            )
        };
        let ended: Vec<TaskId> = self
            .hub
            .attempts
            .core
            .all()
            .filter(|(_, one)| one.node() == there && looked_at(one.state()))
            .map(|(id, _)| id)
            .collect();
        for id in ended {
            self.hub.attempts.core.take(id);
        }
        self.hub.attempts.core.set_cores(there, 0);
    }
}
