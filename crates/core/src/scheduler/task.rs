//! One task: its state, and all that is remembered of it.
//!
//! Does not change itself: `Scheduler::set_state` is the only place where a state changes, because
//! the counts go with it. A task is 10^6-fold, so its size is a budget (a test holds it to 200
//! bytes).

use crate::event::{Settled, TaskKind};
use crate::fact::Places;
use crate::ids::{InvocationId, NodeId, RequirementId};
use crate::scheduler::graph::EdgeList;
use crate::time::{FileTime, Newest, Timestamp};

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not activated, or given back by an invocation that was stopped; it belongs to no invocation.
    Defined,
    /// Some prerequisites are not settled; with none missing it is about to be decided
    /// (it stands in `work`, or with the policy `Serial` in `serial_order`).
    Waiting {
        /// Edges to prerequisites that are not settled.
        missing: u32,
    },
    /// `Resolve` is out.
    Resolving,
    /// `AskNeeded` is out, to decide.
    Asking,
    /// `CompareRecord` is out, to decide: it is up to date by rake's rule.
    Comparing,
    /// `GatherFact`s are out, to decide; `mark` tells the answers from older ones.
    Checking {
        /// Answers to come.
        missing: u32,
    },
    /// In the queues that `queued_at` names, with entries that bear `mark`.
    Ready,
    /// Decided; it stands by, in no queue, until its gang begins, or the delay before its next attempt is over.
    Mustered,
    /// `StartAction` is out; it stands in the node's `running`.
    Running {
        /// The node on which it runs.
        node: NodeId,
    },
    /// Its action has ended, and it waits for the others of its gang to end: then all have ended
    /// well, or all run again.
    AwaitingPeers {
        /// The node on which it ran.
        node: NodeId,
    },
    /// Its file has no action and is on lost nodes only: it waits for one of them to come back or to be given up.
    Lost,
    /// Its action succeeded; `GatherFact` or `AskNeeded` is out, to know the new timestamp.
    Inspecting,
    /// It is settled, in this way.
    Settled(Settled),
}

impl TaskState {
    /// Whether `GatherFact` is out for it; or, of one that is `Asked` and has run, `AskNeeded`.
    pub(crate) fn is_look(self) -> bool {
        matches!(self, Self::Checking { .. } | Self::Inspecting)
    }

    /// Whether an answer or an end is still to come for it.
    pub(crate) fn is_in_flight(self) -> bool {
        match self {
            Self::Resolving
            | Self::Asking
            | Self::Comparing
            | Self::Checking { .. }
            | Self::Running { .. }
            | Self::AwaitingPeers { .. }
            | Self::Inspecting => true,
            Self::Defined
            | Self::Waiting { .. }
            | Self::Ready
            | Self::Mustered
            | Self::Lost
            | Self::Settled(_) => false,
        }
    }
}

/// Why a task runs, or does not: the last decision about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing was decided yet.
    Undecided,
    /// A plain task always runs.
    AlwaysRuns,
    /// Its file or directory does not exist.
    Missing,
    /// Its file was only on nodes that were lost.
    Lost,
    /// A transitive prerequisite is newer than its file.
    OutOfDate,
    /// Every file task runs, by the settings.
    BuildAll,
    /// It is up to date by rake's rule, but the shell found that it was made otherwise (`RecordCompared`).
    Demanded,
    /// Its class said so.
    AnsweredNeeded,
    /// It exists, and no prerequisite is newer.
    UpToDate,
    /// Its class said so.
    AnsweredNotNeeded,
    /// Another task of its gang runs.
    GangRuns,
    /// Its prerequisites could not be looked up.
    Unresolved,
}

/// What is known of the file of a task.
#[derive(Clone, Debug)]
pub(crate) enum KnownFact {
    /// Never gathered.
    Unknown,
    /// There is no such file.
    Missing,
    /// There is one.
    Present { modified: FileTime, bytes: u64, places: Places },
    /// It was only on nodes that have it no more, or were given up. As it was then.
    Gone { modified: FileTime, bytes: u64 },
    /// In a dry run: its action would have made it by now. What it was before: missing, or modified then.
    WouldBeMade { before: Option<FileTime> },
}

impl KnownFact {
    /// Its size, if it is there.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Present { bytes, .. } => *bytes,
            Self::Unknown | Self::Missing | Self::Gone { .. } | Self::WouldBeMade { .. } => 0,
        }
    }

    /// When the file was last modified, if it is there; in a dry run, as the disk has it.
    pub(crate) fn modified(&self) -> Option<FileTime> {
        match self {
            Self::Unknown | Self::Missing | Self::Gone { .. } => None,
            Self::Present { modified, .. } => Some(*modified),
            Self::WouldBeMade { before } => *before,
        }
    }

    /// Whether it is known, and nothing has it.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::Present { places: Places::Nowhere, .. })
    }
}

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one byte of a task and independent of the others"
)]
pub(crate) struct Task {
    pub(crate) state: TaskState,
    pub(crate) kind: TaskKind,
    pub(crate) has_action: bool,
    /// It has to be resolved before it is decided.
    pub(crate) deferred: bool,
    /// Its action succeeded in this run, so its fact is as that action left it.
    pub(crate) ran: bool,
    /// A transitive prerequisite ran, when it was last decided.
    pub(crate) disturbed: bool,
    /// It stands in `Invocations::waiters`.
    pub(crate) wanted: bool,
    /// `AbortAction` is out for the running attempt.
    pub(crate) aborted: bool,
    pub(crate) reason: Reason,
    pub(crate) requirement: RequirementId,
    /// The one that activated it last; `None` exactly in the state `Defined`.
    pub(crate) invocation: Option<InvocationId>,
    /// The number of its activation: tasks activated together have the same.
    pub(crate) batch: u32,
    /// 0 for a task without dependents, else 1 + the highest of theirs, when it was activated.
    pub(crate) rank: u32,
    /// Where its action succeeded last; only with the policy `Cached`.
    pub(crate) ran_on: Option<NodeId>,
    /// Attempts started.
    pub(crate) attempt: u32,
    /// `Scheduler::epoch` when its fact was asked for; 0: in bulk.
    pub(crate) fact_epoch: u32,
    pub(crate) prerequisites: EdgeList,
    pub(crate) dependents: EdgeList,
    /// A number that no other stay in `Ready` or `Checking` has.
    pub(crate) mark: u64,
    /// The greatest timestamp of its transitive prerequisites, when it was last decided.
    pub(crate) newest: Newest,
    /// What its class answered last; of kind `Asked` only.
    pub(crate) answered: Timestamp,
    pub(crate) fact: KnownFact,
    /// While `Ready`: the nodes whose queues it stands in; empty: the remote queue.
    pub(crate) queued_at: Places,
}

impl Task {
    pub(crate) fn new(
        kind: TaskKind,
        has_action: bool,
        deferred: bool,
        requirement: RequirementId,
    ) -> Self {
        Self {
            state: TaskState::Defined,
            kind,
            has_action,
            deferred,
            ran: false,
            disturbed: false,
            wanted: false,
            aborted: false,
            reason: Reason::Undecided,
            requirement,
            invocation: None,
            batch: 0,
            rank: 0,
            ran_on: None,
            attempt: 0,
            fact_epoch: 0,
            prerequisites: EdgeList::EMPTY,
            dependents: EdgeList::EMPTY,
            mark: 0,
            newest: Newest::NONE,
            answered: Timestamp::Early,
            fact: KnownFact::Unknown,
            queued_at: Places::Unknown,
        }
    }

    /// Rake's `timestamp` of a settled task.
    pub(crate) fn timestamp(&self) -> Timestamp {
        match self.kind {
            TaskKind::Plain => Timestamp::Now,
            TaskKind::Directory => Timestamp::Early,
            TaskKind::Asked => self.answered,
            TaskKind::File => match self.fact {
                // What was made from a file that is gone is not out of date because of that.
                KnownFact::Present { modified, .. } | KnownFact::Gone { modified, .. } => {
                    Timestamp::At(modified)
                }
                KnownFact::WouldBeMade { .. } => Timestamp::Now,
                KnownFact::Unknown | KnownFact::Missing => Timestamp::Late,
            },
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.state, TaskState::Settled(_))
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, TaskState::Settled(how) if !how.is_well())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_takes_at_most_200_bytes() {
        assert!(size_of::<Task>() <= 200, "{}", size_of::<Task>());
    }
}
