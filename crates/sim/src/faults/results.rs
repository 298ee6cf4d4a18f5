//! Ends of attempts as the scheduler hears of them: what it takes, and what it does not.

use rakuda_core::{ActionOutcome, Event, TaskId, TaskState};

use super::chaos::Chaos;
use super::hub::Made;
use super::messages::Ended;

impl Chaos {
    /// An attempt has ended, well or not, and all that there is to know of it is known.
    pub(crate) fn finish_attempt(&mut self, task: u32, outcome: ActionOutcome) {
        let id = TaskId(task);
        let attempt = self.hub.run.take(id).expect("it has not ended");
        let (number, node) = (attempt.number(), attempt.node());
        let given_back = attempt.is_given_back() && outcome != ActionOutcome::Succeeded;
        let outcome = if given_back { ActionOutcome::GivenBack } else { outcome };
        if given_back {
            self.hub.attempts.given_back.insert((task, number));
        }
        let state = self.hub.run.scheduler().task(id).expect("it was defined");
        let runs = state.state == TaskState::Running { node } && state.attempt == number;
        assert!(runs, "task {task} ends on {node:?} as attempt {number}, but it is {state:?}");
        self.note(format_args!("ended {task} attempt {number} {outcome:?}"));
        if outcome == ActionOutcome::Succeeded {
            let content = attempt.details.content;
            let expected = self.expected[task as usize];
            assert_eq!(content, Some(expected), "task {task} read what it should not");
            let made = Made { modified_ns: self.now };
            self.hub.made.insert(task, made);
            self.hub.reach.set_made(id, node);
            self.hub.open.remove(&task);
            self.count("effects taken");
        }
        let uncounted = state.uncounted;
        let aborted = attempt.is_aborted();
        let lacks = attempt.details.lacks;
        let goes_on = self.hub.run.scheduler().goes_on(id);
        let attempts = self.attempts_beside(task);
        self.event(Event::ActionEnded { id, attempt: number, outcome, run_ns: None });
        // When the run is to end, no failure waits to be looked into.
        if outcome == ActionOutcome::Failed && !aborted && !self.is_stopping() {
            let counts =
                self.hub.run.scheduler().task(id).is_some_and(|task| task.uncounted == uncounted);
            self.check_cause(task, number, counts, goes_on);
            if let Some(is_fault) = lacks.filter(|_| goes_on) {
                self.check_lack(attempts, task, is_fault, counts);
            }
        }
    }

    /// Refuses the end of a command that is over for the hub: its attempt was lost, or given back. The scheduler
    /// ignores attempts that were lost; those that were given back have no number for it.
    pub(crate) fn refuse_old_end(&mut self, ended: &Ended) {
        let Ended { task, attempt, outcome, .. } = *ended;
        let id = TaskId(task);
        self.count("ends not taken");
        if self.hub.attempts.given_back.contains(&(task, attempt)) {
            return;
        }
        let before = self.hub.run.scheduler().task(id).expect("it was defined").state;
        self.event(Event::ActionEnded { id, attempt, outcome, run_ns: None });
        let after = self.hub.run.scheduler().task(id).expect("it was defined").state;
        assert!(after == before, "an old end of task {task} was taken");
    }
}
