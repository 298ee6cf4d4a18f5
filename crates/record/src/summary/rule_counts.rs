//! What has become of the tasks of each rule, for people who look at a run while it goes on.
//!
//! Only of tasks with an attempt in the journal. It does not know how it is shown.

use crate::Run;
use crate::summary::attempt_times::AttemptTimes;
use crate::summary::groups::Groups;
use crate::summary::outcomes::{Fate, fate};

/// The tasks of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// What it is called: as in the report.
    pub label: String,
    /// Tasks whose last attempt goes on.
    pub running: usize,
    /// Tasks that are done.
    pub done: usize,
    /// Tasks that failed.
    pub failed: usize,
    /// All its tasks that the run has (docs/glossary.md). `None`: nobody has said.
    pub total: Option<usize>,
    /// Of its attempts, as in the report.
    pub times: AttemptTimes,
}

/// A row for each rule with the number of its group, those of which something runs first, then those that took most
/// time.
pub fn rule_counts_of(run: &Run, groups: &Groups) -> Vec<(u32, RuleCounts)> {
    let label = |group: &crate::summary::groups::Group| RuleCounts {
        label: group.label(),
        ..RuleCounts::default()
    };
    let mut counts: Vec<RuleCounts> = groups.list.iter().map(label).collect();
    for task in run.tasks.iter().flatten() {
        if !task.attempts.iter().any(crate::run::Attempt::counts) {
            continue;
        }
        let rule = &mut counts[groups.of_task(task.defined.task) as usize];
        rule.times.add(run, task);
        match fate(task) {
            Fate::Ran => rule.done += 1,
            Fate::Running => rule.running += 1,
            Fate::Failed => rule.failed += 1,
            Fate::Passed
            | Fate::NotNeeded
            | Fate::Abandoned
            | Fate::Stopped
            | Fate::NotReached
            | Fate::NotStarted => {}
        }
    }
    let mut counts: Vec<(u32, RuleCounts)> = (0..).zip(counts).collect();
    counts.sort_by_key(|(_, rule)| (rule.running == 0, std::cmp::Reverse(rule.times.total_ns)));
    counts
}
