//! Levels of tasks: how long the longest way from a task to the end takes, itself included, by the
//! times that its rules have taken so far (the *static b-level* of list scheduling; Adam, Chandy,
//! Dickson 1974).
//!
//! Used by the policy `lifo_hlfet` alone. Means change with every action, levels only when it
//! matters and is paid for: when a mean has moved by a quarter from the one last used, and as many
//! actions have ended as a sixteenth of the tasks and edges walked over.

use crate::ids::{Id, IdVec, RuleId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::rank::RunTimes;
use crate::scheduler::task::TaskState;
use alloc::vec::Vec;

/// Maximum number of steps of a walk for each action that has ended since the last one.
const STEPS_PER_ACTION: usize = 16;

#[derive(Clone, Debug, Default)]
struct Rule {
    times: RunTimes,
    /// The mean that the levels are made of.
    used_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    rules: IdVec<RuleId, Rule>,
    all: RunTimes,
    /// The rule of each task for which one was given.
    rule_of: IdVec<TaskId, Option<RuleId>>,
    /// The time that each action is thought to take, from elsewhere; 0: not known.
    expected: IdVec<TaskId, u64>,
    /// As of the last walk; 0 for tasks that were not there.
    by_task: IdVec<TaskId, u64>,
    /// Tasks and edges of the last walk.
    walked: usize,
    /// Actions ended since.
    ended: usize,
    /// A mean has moved since.
    is_stale: bool,
    /// Work left at the last walk, less what has ended since.
    work_ns: u128,
}

fn has_moved(used_ns: u64, mean_ns: u64) -> bool {
    mean_ns.abs_diff(used_ns) > used_ns / 4
}

impl Levels {
    pub(crate) fn give_rule(&mut self, id: TaskId, rule: RuleId) {
        *self.rule_of.entry(id) = Some(rule);
        self.rules.entry(rule);
    }

    pub(crate) fn expect(&mut self, id: TaskId, run_ns: u64) {
        *self.expected.entry(id) = run_ns.max(1);
    }

    pub(crate) fn of(&self, id: TaskId) -> u64 {
        self.by_task.get(id).copied().unwrap_or(0)
    }

    fn rule(&self, id: TaskId) -> Option<RuleId> {
        self.rule_of.get(id).copied().flatten()
    }

    /// Counts the run time of a task's action.
    pub(crate) fn add(&mut self, id: TaskId, run_ns: u64) {
        self.all.add(run_ns);
        self.ended += 1;
        let expected = self.expected.get(id).copied().unwrap_or(0);
        self.work_ns = self.work_ns.saturating_sub(u128::from(expected));
        let Some(rule) = self.rule(id) else { return };
        let rule = &mut self.rules[rule];
        rule.times.add(run_ns);
        if expected == 0 {
            self.work_ns = self.work_ns.saturating_sub(u128::from(rule.used_ns));
        }
        self.is_stale |= rule.times.mean_ns().is_some_and(|mean| has_moved(rule.used_ns, mean));
    }

    /// Notes that this many tasks were activated, which makes all levels stale.
    pub(crate) fn on_activated(&mut self, tasks: usize) {
        self.ended += tasks;
        self.is_stale = true;
    }

    /// Gives a level to a task that was not there at the last walk.
    pub(crate) fn make_sure_of(&mut self, id: TaskId, graph: &Graph) {
        if self.of(id) == 0 {
            let below = graph.dependents(id).map(|dependent| self.of(dependent)).max();
            let own_ns = self.own_ns(graph, id, self.all.mean_ns().unwrap_or(1));
            *self.by_task.entry(id) = below.unwrap_or(0).saturating_add(own_ns);
        }
    }

    /// Whether levels are to be made anew, which changes the order of whatever is queued.
    pub(crate) fn is_due(&self) -> bool {
        self.is_stale && self.ended > self.walked / STEPS_PER_ACTION
    }

    /// Work that is left, by the times so far.
    pub(crate) fn work_ns(&self) -> u128 {
        self.work_ns
    }

    /// Makes the levels of all tasks that are not settled anew.
    pub(crate) fn walk(&mut self, graph: &Graph) {
        let usual_ns = self.all.mean_ns().unwrap_or(1);
        for rule in self.rules.ids() {
            let rule = &mut self.rules[rule];
            rule.used_ns = rule.times.mean_ns().unwrap_or(usual_ns);
        }
        (self.walked, self.ended, self.is_stale, self.work_ns) = (0, 0, false, 0);
        let mut after = unsettled_dependents(graph);
        let tasks = (0..graph.end().index()).map(TaskId::from_index);
        let mut ready: Vec<TaskId> = tasks
            .filter(|id| graph.tasks[*id].state != TaskState::Defined)
            .filter(|id| !graph.tasks[*id].is_settled() && after[id.index()] == 0)
            .collect();
        while let Some(id) = ready.pop() {
            let own_ns = self.own_ns(graph, id, usual_ns);
            let dependents = graph.dependents(id).filter(|id| !graph.tasks[*id].is_settled());
            let below = dependents.map(|dependent| self.of(dependent)).max().unwrap_or(0);
            *self.by_task.entry(id) = below.saturating_add(own_ns);
            self.work_ns += u128::from(own_ns);
            self.walked += 1;
            for prerequisite in graph.prerequisites(id) {
                self.walked += 1;
                let left = &mut after[prerequisite.id.index()];
                *left = left.saturating_sub(1);
                if *left == 0 && !graph.tasks[prerequisite.id].is_settled() {
                    ready.push(prerequisite.id);
                }
            }
        }
    }

    fn own_ns(&self, graph: &Graph, id: TaskId, usual_ns: u64) -> u64 {
        if !graph.tasks[id].has_action {
            return 0;
        }
        if let Some(expected) = self.expected.get(id).filter(|ns| **ns > 0) {
            return *expected;
        }
        self.rule(id).map_or(usual_ns, |rule| self.rules[rule].used_ns)
    }
}

/// By task, the edges to dependents that take part in the walk.
fn unsettled_dependents(graph: &Graph) -> Vec<u32> {
    let count = |id: TaskId| {
        let takes_part = |id: &TaskId| {
            !graph.tasks[*id].is_settled() && graph.tasks[*id].state != TaskState::Defined
        };
        u32::try_from(graph.dependents(id).filter(takes_part).count()).expect("32-bit edges")
    };
    (0..graph.end().index()).map(|index| count(TaskId::from_index(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskKind;
    use crate::ids::RequirementId;
    use crate::scheduler::task::Task;

    /// A chain of rules 0, 1, 0; the last task is wanted.
    fn chain() -> (Graph, Levels) {
        let (mut graph, mut levels) = (Graph::default(), Levels::default());
        for number in 0..3 {
            let mut task = Task::new(TaskKind::Plain, true, false, RequirementId(0));
            task.state = TaskState::Waiting { missing: u32::from(number > 0) };
            graph.tasks.push(TaskId(number), task);
            levels.give_rule(TaskId(number), RuleId(number % 2));
        }
        graph.connect(TaskId(0), TaskId(1), false);
        graph.connect(TaskId(1), TaskId(2), false);
        (graph, levels)
    }

    fn all(levels: &Levels) -> [u64; 3] {
        [0, 1, 2].map(|number| levels.of(TaskId(number)))
    }

    #[test]
    fn without_times_levels_count_steps() {
        let (graph, mut levels) = chain();
        levels.on_activated(3);
        assert!(levels.is_due());
        levels.walk(&graph);
        assert_eq!((all(&levels), levels.work_ns()), ([3, 2, 1], 3));
        assert!(!levels.is_due());
    }

    #[test]
    fn a_rule_that_nothing_ran_of_takes_as_long_as_the_others() {
        let (graph, mut levels) = chain();
        levels.on_activated(3);
        levels.walk(&graph);
        levels.add(TaskId(0), 40);
        assert!(levels.is_due());
        assert_eq!(levels.work_ns(), 2, "as before, until they are walked");
        levels.walk(&graph);
        assert_eq!(all(&levels), [120, 80, 40]);
        levels.add(TaskId(1), 7);
        levels.walk(&graph);
        assert_eq!((all(&levels), levels.work_ns()), ([87, 47, 40], 87));
        // Within a quarter: not worth a walk.
        levels.add(TaskId(0), 44);
        assert!(!levels.is_due());
        levels.add(TaskId(0), 66);
        assert!(!levels.is_due(), "just a quarter more");
        levels.add(TaskId(0), 62);
        assert!(levels.is_due());
    }

    #[test]
    fn a_time_that_is_expected_counts_before_that_of_the_rule() {
        let (graph, mut levels) = chain();
        levels.expect(TaskId(1), 500);
        levels.on_activated(3);
        levels.walk(&graph);
        assert_eq!((all(&levels), levels.work_ns()), ([502, 501, 1], 502));
    }
}
