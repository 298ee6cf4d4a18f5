//! Tasks by state.

use crate::event::Settled;
use crate::scheduler::task::TaskState;

/// Numbers of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not activated.
    pub defined: usize,
    /// Prerequisites are missing, or (policy `Serial`) its turn has not come.
    pub waiting: usize,
    /// `Resolve`, `AskNeeded` or `GatherFact` is out, to decide.
    pub deciding: usize,
    /// Queued, or its gang has not begun.
    pub ready: usize,
    /// A file without an action that is on lost nodes only.
    pub lost: usize,
    /// An action runs; callers that wait are among them.
    pub running: usize,
    /// Its action succeeded, and its new timestamp is found out; or its gang has not ended.
    pub inspecting: usize,
    /// Settled as executed.
    pub executed: usize,
    /// Settled as not needed.
    pub not_needed: usize,
    /// Settled as failed.
    pub failed: usize,
    /// Settled as abandoned.
    pub abandoned: usize,
}

impl Counts {
    /// Tasks that are done with.
    pub fn settled(&self) -> usize {
        self.executed + self.not_needed + self.failed + self.abandoned
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.deciding + self.running + self.inspecting
    }

    pub(crate) fn change(&mut self, before: TaskState, after: TaskState) {
        *self.of(before) -= 1;
        *self.of(after) += 1;
    }

    pub(crate) fn of(&mut self, state: TaskState) -> &mut usize {
        match state {
            TaskState::Defined => &mut self.defined,
            TaskState::Waiting { .. } => &mut self.waiting,
            TaskState::Resolving
            | TaskState::Asking
            | TaskState::Comparing
            | TaskState::Checking { .. } => &mut self.deciding,
            TaskState::Ready | TaskState::Mustered => &mut self.ready,
            TaskState::Lost => &mut self.lost,
            TaskState::Running { .. } => &mut self.running,
            TaskState::Inspecting | TaskState::AwaitingPeers { .. } => &mut self.inspecting,
            TaskState::Settled(Settled::Executed) => &mut self.executed,
            TaskState::Settled(Settled::NotNeeded) => &mut self.not_needed,
            TaskState::Settled(Settled::Failed) => &mut self.failed,
            TaskState::Settled(Settled::Abandoned) => &mut self.abandoned,
        }
    }
}
