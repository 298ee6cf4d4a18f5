//! The interface: what the shell tells the scheduler, and what the scheduler tells the shell.
//!
//! Holds no behaviour. The meaning of each is in `docs/design/scheduling.md`.

use crate::fact::Fact;
use crate::ids::{InvocationId, NodeId, RequirementId, TaskId};
use crate::requirement::{Capacity, Devices, Requirement};
use crate::time::Timestamp;
use alloc::vec::Vec;

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A set of task properties got its number.
    RequirementDefined {
        /// The next number.
        id: RequirementId,
        /// The properties.
        requirement: Requirement,
    },
    /// A task got its number; nothing happens to it before it is activated.
    TaskDefined {
        /// The next number.
        id: TaskId,
        /// How it is decided whether it runs.
        kind: TaskKind,
        /// Whether there is anything to run.
        has_action: bool,
        /// Whether a prerequisite could not be looked up yet; `prerequisites` are then only waited for.
        deferred: bool,
        /// Defined before.
        requirement: RequirementId,
        /// Smaller numbers.
        prerequisites: &'a [TaskId],
    },
    /// More prerequisites for a task that has not started; for one that has, it is ignored.
    PrerequisitesAdded {
        /// Whose.
        id: TaskId,
        /// Any tasks defined so far; the shell makes sure that there is no cycle.
        prerequisites: &'a [TaskId],
        /// Whether there is anything to run now.
        has_action: bool,
    },
    /// What was found out about a file: in bulk before activation, or the answer to `GatherFact`.
    FactGathered {
        /// Whose file.
        id: TaskId,
        /// What was found out.
        fact: Fact,
    },
    /// Run these; activates every task defined since the last activation.
    InvocationStarted {
        /// The next number.
        id: InvocationId,
        /// The wanted tasks; some may have been settled before or belong to another invocation.
        tasks: &'a [TaskId],
        /// The running task whose action waits for it.
        caller: Option<TaskId>,
    },
    /// The answer to `AskNeeded`.
    NeededAnswered {
        /// Whose.
        id: TaskId,
        /// Whether it has to run; without meaning after its action.
        needed: bool,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The answer to `Resolve`, after the `PrerequisitesAdded` that it found.
    ResolveEnded {
        /// Whose.
        id: TaskId,
        /// Whether all its prerequisites are known now; if not, the task fails.
        found: bool,
    },
    /// A running task is of another kind from now on.
    KindChanged {
        /// Which.
        id: TaskId,
        /// Its new kind.
        kind: TaskKind,
    },
    /// A started action has ended. After a `NodeLost` the shell reports no end of what ran there.
    ActionEnded {
        /// Whose.
        id: TaskId,
        /// How.
        outcome: ActionOutcome,
    },
    /// A node can take actions.
    NodeJoined {
        /// A small number; a node that was lost may join again.
        id: NodeId,
        /// What it has.
        capacity: Capacity,
    },
    /// A node is gone, and with it all that ran there.
    NodeLost {
        /// Which.
        id: NodeId,
    },
    /// So many tasks of one core may start on a node beyond its cores, because the shell begins short actions early and sees to it
    /// itself that no more of them run at a time than the cores allow.
    LookaheadSet {
        /// Which.
        id: NodeId,
        /// How many.
        actions: u32,
    },
    /// Start nothing more.
    StopRequested {
        /// Whether running actions are aborted too.
        kill: bool,
    },
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Look at this task's file now and answer `FactGathered`, in the order of the requests for it.
    GatherFact {
        /// Whose file.
        id: TaskId,
    },
    /// Ask its class whether it is needed, and its timestamp; answer `NeededAnswered`.
    AskNeeded {
        /// Which.
        id: TaskId,
    },
    /// Look its prerequisites up again; answer `PrerequisitesAdded` and `ResolveEnded`.
    Resolve {
        /// Which.
        id: TaskId,
    },
    /// Run the action.
    StartAction {
        /// Whose.
        id: TaskId,
        /// From 1.
        attempt: u32,
        /// Where.
        node: NodeId,
        /// The devices that are its own while it runs.
        devices: Devices,
    },
    /// End the action early; `ActionEnded` is still expected.
    AbortAction {
        /// Whose.
        id: TaskId,
    },
    /// An attempt failed; the shell does away with what it left behind.
    AttemptFailed {
        /// Whose.
        id: TaskId,
        /// From 1.
        attempt: u32,
        /// Whether there will be another one.
        retried: bool,
    },
    /// The action ended well but its file does not exist.
    TargetMissing {
        /// Whose.
        id: TaskId,
    },
    /// The task is done with.
    TaskSettled {
        /// Which.
        id: TaskId,
        /// How.
        how: Settled,
    },
    /// Nothing of the invocation runs any more; empty lists: all its wanted tasks are well.
    InvocationEnded {
        /// Which.
        id: InvocationId,
        /// Its own tasks that failed, in order of failing, then those of earlier invocations that are to blame.
        failed: Vec<TaskId>,
        /// Tasks that depend on those, and wanted tasks that were never started because it was stopped.
        abandoned: Vec<TaskId>,
    },
}

/// How it is decided whether a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Always runs (rake's `Task`).
    Plain,
    /// Runs when its file is missing or older than a prerequisite (rake's `FileTask`).
    File,
    /// Runs when its directory is missing (rake's `FileCreationTask`).
    Directory,
    /// Its class has a mind of its own.
    Asked,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionOutcome {
    /// Well.
    Succeeded,
    /// With an exception.
    Failed,
    /// It was begun early and stopped before it had a core: as if it had not been started.
    GivenBack,
    /// It called `exit`: it is not retried, and nothing more starts in any invocation.
    Exited,
}

/// How a task was done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Its action succeeded, or it was needed and has no action.
    Executed,
    /// It was up to date.
    NotNeeded,
    /// Its last attempt failed, or its prerequisites could not be looked up.
    Failed,
    /// A transitive prerequisite failed.
    Abandoned,
}

impl Settled {
    /// Whether dependents may go on.
    pub fn is_well(self) -> bool {
        match self {
            Self::Executed | Self::NotNeeded => true,
            Self::Failed | Self::Abandoned => false,
        }
    }
}
