//! How long attempts took: the source of every mean and total of a rule, in the report, on the live page, in `top` and
//! in the graph of rules.
//!
//! It does not know which tasks are of one rule.

use crate::run::{Run, Task};

/// Run times of attempts that count and have ended, however they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// How many.
    pub ended: u64,
    /// Their run times, ns.
    pub total_ns: u64,
}

impl AttemptTimes {
    /// Takes the attempts of one more task.
    pub fn add(&mut self, run: &Run, task: &Task) {
        let ended = |attempt: &&crate::run::Attempt| attempt.counts() && attempt.ended.is_some();
        for attempt in task.attempts.iter().filter(ended) {
            self.ended += 1;
            self.total_ns = self.total_ns.saturating_add(attempt.run_ns(run));
        }
    }

    /// Their mean, ns. `None`: there are no such attempts.
    pub fn mean_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.ended)
    }

    /// The same, s.
    pub fn mean_s(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.total_ns as f64 / 1e9 / self.ended as f64)
    }
}
