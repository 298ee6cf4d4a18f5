//! Which tasks would still run an action, by the facts as they are known now: what a display of
//! progress counts as its total.
//!
//! A guess, put right as tasks are decided: facts grow old, prerequisites may be added, and a class
//! that is asked may say no. One walk over all tasks and edges, in the order of numbers; nothing is
//! changed.

use crate::event::{Settled, TaskKind};
use crate::ids::TaskId;
use crate::scheduler::Scheduler;
use crate::scheduler::task::{KnownFact, Task, TaskState};
use crate::time::{Newest, Now, Timestamp};
use alloc::vec::Vec;

impl Scheduler {
    /// For each task whether an action of it runs or would run yet.
    pub fn forecast(&self, now: Now) -> Vec<bool> {
        let tasks = &self.graph.tasks;
        let mut runs = Vec::with_capacity(tasks.len());
        let mut newest: Vec<Newest> = Vec::with_capacity(tasks.len());
        for id in self.task_ids() {
            let task = &tasks[id];
            let sum = if task.is_settled() { task.newest } else { self.sum_of(id, &runs, &newest) };
            newest.push(sum);
            runs.push(self.would_run(task, sum, now));
        }
        let acts = |(id, runs): (TaskId, bool)| runs && tasks[id].has_action;
        self.task_ids().zip(runs).map(acts).collect()
    }

    /// Of prerequisites with larger numbers only what is settled is known.
    fn sum_of(&self, id: TaskId, runs: &[bool], newest: &[Newest]) -> Newest {
        let mut sum = Newest::NONE;
        if self.graph.tasks[id].deferred {
            return sum;
        }
        for prerequisite in self.graph.prerequisites(id).filter(|p| !p.order_only) {
            let (task, index) = (&self.graph.tasks[prerequisite.id], prerequisite.id.0 as usize);
            let changes = runs.get(index).copied().unwrap_or(false)
                && matches!(task.kind, TaskKind::File | TaskKind::Asked);
            sum.include(if changes { Timestamp::Now } else { task.timestamp() });
            sum.include_all_of(newest.get(index).copied().unwrap_or(task.newest));
        }
        sum
    }

    fn would_run(&self, task: &Task, newest: Newest, now: Now) -> bool {
        match task.state {
            TaskState::Settled(_) => return false,
            TaskState::Ready
            | TaskState::Running { .. }
            | TaskState::AwaitingPeers { .. }
            | TaskState::Inspecting => return true,
            TaskState::Mustered if task.reason.is_needed() => return true,
            TaskState::Defined
            | TaskState::Mustered
            | TaskState::Lost
            | TaskState::Waiting { .. }
            | TaskState::Resolving
            | TaskState::Asking
            | TaskState::Comparing
            | TaskState::Checking { .. } => {}
        }
        match (task.kind, &task.fact) {
            (TaskKind::Plain | TaskKind::Asked, _)
            | (
                _,
                KnownFact::Unknown
                | KnownFact::Missing
                | KnownFact::Gone { .. }
                | KnownFact::WouldBeMade { .. },
            ) => true,
            (TaskKind::Directory, KnownFact::Present { .. }) => false,
            (TaskKind::File, KnownFact::Present { modified, .. }) => {
                self.config.build_all || newest.is_after(*modified, now)
            }
        }
    }

    /// The tasks with an action that were abandoned because of `failed` and have not run (`has_run`): how many, and the
    /// first few. They depend on it, are in its gang, or follow from these. Looks at no more than `steps` tasks.
    pub fn abandoned_because_of(
        &self,
        failed: TaskId,
        count_max: usize,
        steps: usize,
        has_run: impl Fn(TaskId) -> bool,
    ) -> (usize, Vec<TaskId>) {
        let mut seen = alloc::collections::BTreeSet::from([failed]);
        let mut work = alloc::collections::VecDeque::from([failed]);
        let (mut count, mut first) = (0, Vec::new());
        while let Some(id) = work.pop_front() {
            let peers = self.gangs.peers(id).iter().copied();
            for other in self.graph.dependents(id).chain(peers) {
                let task = &self.graph.tasks[other];
                if task.state != TaskState::Settled(Settled::Abandoned)
                    || seen.len() > steps
                    || !seen.insert(other)
                {
                    continue;
                }
                work.push_back(other);
                if task.has_action && !has_run(other) {
                    count += 1;
                    if first.len() < count_max {
                        first.push(other);
                    }
                }
            }
        }
        (count, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::event::Event;
    use crate::fact::{Fact, Places};
    use crate::ids::{InvocationId, RequirementId};
    use crate::requirement::Requirement;
    use crate::time::Time;

    fn scheduler(build_all: bool) -> Scheduler {
        let mut scheduler = Scheduler::new(Config { build_all, ..Config::default() });
        let requirement = Requirement::default();
        let event = Event::RequirementDefined { id: RequirementId(0), requirement };
        scheduler.handle(Time(0), event, &mut Vec::new());
        scheduler
    }

    fn define(
        scheduler: &mut Scheduler,
        kind: TaskKind,
        modified_ns: Option<i128>,
        prerequisites: &[u32],
    ) {
        let id = TaskId(u32::try_from(scheduler.tasks_len()).unwrap());
        let prerequisites: Vec<_> = prerequisites.iter().copied().map(TaskId).collect();
        let event = Event::TaskDefined {
            id,
            kind,
            has_action: true,
            deferred: false,
            requirement: RequirementId(0),
            prerequisites: &prerequisites,
        };
        scheduler.handle(Time(100), event, &mut Vec::new());
        if kind != TaskKind::Plain {
            let fact = Fact { modified_ns, bytes: 0, places: Places::Unknown };
            scheduler.handle(Time(100), Event::FactGathered { id, fact }, &mut Vec::new());
        }
    }

    #[test]
    fn what_is_up_to_date_is_not_counted_and_what_hangs_on_a_change_is() {
        let mut scheduler = scheduler(false);
        define(&mut scheduler, TaskKind::File, Some(5), &[]);
        define(&mut scheduler, TaskKind::File, Some(6), &[0]);
        define(&mut scheduler, TaskKind::File, Some(4), &[0]);
        define(&mut scheduler, TaskKind::File, Some(9), &[2]);
        define(&mut scheduler, TaskKind::Directory, None, &[]);
        define(&mut scheduler, TaskKind::File, Some(9), &[4, 1]);
        define(&mut scheduler, TaskKind::Plain, None, &[3, 5]);
        let forecast = scheduler.forecast(Time(100).into());
        assert_eq!(forecast, [false, false, true, true, true, false, true]);
    }

    #[test]
    fn with_build_all_every_file_is_counted() {
        let mut scheduler = scheduler(true);
        define(&mut scheduler, TaskKind::File, Some(5), &[]);
        define(&mut scheduler, TaskKind::Directory, Some(5), &[]);
        assert_eq!(scheduler.forecast(Time(100).into()), [true, false]);
    }

    #[test]
    fn what_was_settled_is_not_counted_any_more() {
        let mut scheduler = scheduler(false);
        define(&mut scheduler, TaskKind::File, Some(5), &[]);
        define(&mut scheduler, TaskKind::File, Some(6), &[0]);
        define(&mut scheduler, TaskKind::File, None, &[1]);
        let started =
            Event::InvocationStarted { id: InvocationId(0), tasks: &[TaskId(2)], caller: None };
        scheduler.handle(Time(100), started, &mut Vec::new());
        assert_eq!(scheduler.forecast(Time(100).into()), [false, false, true]);
    }
}
