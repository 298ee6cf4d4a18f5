//! Sets of tasks that streams join: no command of one ends well before all of its set have started one.

use rakuda_core::stager::JoinedSet;
use rakuda_core::{Attempt, AttemptState, GangId, NodeId, TaskId, TaskState};

use super::attempts::state::Shadow;
use super::chaos::Chaos;

impl Chaos {
    /// The set of a task, with its number.
    fn set_of(&self, task: u32) -> Option<(GangId, &[u32])> {
        let sets = (0..).map(GangId).zip(&self.scenario.gangs);
        let mut sets = sets.filter(|_| self.scenario.joined);
        sets.find_map(|(id, (tasks, _))| tasks.contains(&task).then_some((id, &tasks[..])))
    }

    fn is_running(&self, task: u32) -> bool {
        let task = self.hub.run.scheduler().task(TaskId(task));
        task.is_some_and(|task| matches!(task.state, TaskState::Running { .. }))
    }

    /// The tasks of a task's set that have begun and not ended.
    pub(crate) fn joined_to(&self, task: u32) -> Option<JoinedSet> {
        let (gang, tasks) = self.set_of(task)?;
        let running = tasks.iter().filter(|task| self.is_running(**task));
        Some(JoinedSet { gang, tasks: running.copied().map(TaskId).collect() })
    }

    /// What others of a task's set read on its node.
    pub(crate) fn read_beside(&self, task: u32, node: NodeId) -> Vec<TaskId> {
        let (_, tasks) = self.set_of(task).unwrap_or((GangId(0), &[]));
        let acts = |peer: &&u32| {
            let attempt = self.hub.run.attempts().acting(TaskId(**peer));
            **peer != task && attempt.is_some_and(|attempt| attempt.node() == node)
        };
        let plans = tasks.iter().filter(acts).map(|peer| &self.scenario.tasks[*peer as usize]);
        plans.flat_map(|plan| &plan.inputs).copied().map(TaskId).collect()
    }

    /// Whether commands of a task wait for others of its set to start one. `life`: the hub that has started them.
    pub(crate) fn waits_for_set(&self, task: u32, life: u64) -> bool {
        let Some((_, tasks)) = self.set_of(task) else { return false };
        let has_started = |attempt: &Attempt<Shadow, u32>| match attempt.state() {
            AttemptState::Acting | AttemptState::Aborting => attempt.details.started,
            AttemptState::Unwinding { .. } => false,
            AttemptState::Inspecting
            | AttemptState::StagingOut
            | AttemptState::Clearing
            | AttemptState::Attributing => true,
        };
        let is_open = |peer: &u32| {
            let attempt = self.hub.run.attempts().get(TaskId(*peer));
            self.is_running(*peer) && !attempt.is_some_and(has_started)
        };
        self.hub.is_up() && self.hub.life == life && tasks.iter().any(is_open)
    }
}
