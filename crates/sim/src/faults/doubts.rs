//! Ends of attempts: failures that may not be the task's fault wait, the others are passed on.

pub(crate) mod state;

use std::collections::BTreeSet;

use rakuda_core::{ActionOutcome, AttemptState, Event, Input, TaskId, TaskState};

use super::chaos::Chaos;
use super::hub::Made;
use super::messages::Ended;
use super::truth::SERVER;
use state::Doubt;

impl Chaos {
    /// The action of a task has failed: whether that counts is seen when all that it reads has been heard of.
    pub(crate) fn doubt(&mut self, task: u32, node: u32) {
        let places: BTreeSet<u32> =
            self.inputs_of(task).into_iter().map(|(_, place)| place).collect();
        let others = places.into_iter().filter(|place| *place != SERVER && *place != node);
        let waits_for: BTreeSet<u32> = others.filter(|other| !self.is_lost(*other)).collect();
        if waits_for.is_empty() {
            return self.finish_attempt(task, ActionOutcome::Failed);
        }
        self.tell(Input::Attributing { id: TaskId(task) });
        self.hub.doubts.push(Doubt { task, node, since_ns: self.now, waits_for });
    }

    /// A node is gone: failures there went with it.
    pub(crate) fn forget_doubts_on(&mut self, lost: u32) {
        self.hub.doubts.retain(|doubt| doubt.node != lost);
    }

    /// A node was heard that sent this then, or is lost: failures that waited for that are clear.
    pub(crate) fn heard_of(&mut self, node: u32, sent_ns: u64) {
        for doubt in self.hub.doubts.iter_mut().filter(|doubt| doubt.since_ns < sent_ns) {
            doubt.waits_for.remove(&node);
        }
        let doubts = std::mem::take(&mut self.hub.doubts);
        let (clear, left): (Vec<_>, _) =
            doubts.into_iter().partition(|doubt| doubt.waits_for.is_empty());
        self.hub.doubts = left;
        for Doubt { task, .. } in clear {
            // The end of another one of its gang may have ended it, too.
            let attempt = self.hub.run.attempts().get(TaskId(task));
            if attempt.is_some_and(|one| *one.state() == AttemptState::Attributing) {
                self.finish_attempt(task, ActionOutcome::Failed);
            }
        }
    }

    /// An attempt has ended, well or not, and all that is to be known of it is.
    pub(crate) fn finish_attempt(&mut self, task: u32, outcome: ActionOutcome) {
        let id = TaskId(task);
        let attempt = self.hub.run.take(id).expect("it has not ended");
        let (number, node) = (attempt.number(), attempt.node());
        let given_back = attempt.is_given_back() && outcome != ActionOutcome::Succeeded;
        let outcome = if given_back { ActionOutcome::GivenBack } else { outcome };
        let state = self.hub.run.scheduler().task(id).expect("it was defined");
        let runs = state.state == TaskState::Running { node } && state.attempt == number;
        assert!(runs, "task {task} ends on {node:?} as attempt {number}, but it is {state:?}");
        self.note(format_args!("ended {task} attempt {number} {outcome:?}"));
        if outcome == ActionOutcome::Succeeded {
            let content = attempt.details.content;
            let expected = self.expected[task as usize];
            assert_eq!(content, Some(expected), "task {task} read what it should not");
            let made = Made { place: self.place_of(node.0), modified_ns: self.now };
            self.hub.made.insert(task, made);
            self.hub.reach.set_made(id, node);
            self.hub.open.remove(&task);
            self.count("effects taken");
        }
        let uncounted = state.uncounted;
        let aborted = attempt.is_aborted();
        let goes_on = self.hub.run.scheduler().goes_on(id);
        self.event(Event::ActionEnded { id, attempt: number, outcome, run_ns: None });
        // When the run is to end, no failure waits to be looked into.
        if outcome == ActionOutcome::Failed && !aborted && !self.is_stopping() {
            let counts =
                self.hub.run.scheduler().task(id).is_some_and(|task| task.uncounted == uncounted);
            self.check_cause(task, number, counts, goes_on);
        }
    }

    /// The end of a command that is over for the hub: it is that of an attempt that was lost. The
    /// scheduler takes no notice.
    pub(crate) fn refuse_old_end(&mut self, ended: &Ended) {
        let Ended { task, attempt, outcome, .. } = *ended;
        let id = TaskId(task);
        self.count("ends not taken");
        let before = self.hub.run.scheduler().task(id).expect("it was defined").state;
        self.event(Event::ActionEnded { id, attempt, outcome, run_ns: None });
        let after = self.hub.run.scheduler().task(id).expect("it was defined").state;
        assert!(after == before, "an old end of task {task} was taken");
    }
}
