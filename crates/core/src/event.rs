//! The interface: what the shell reports to the scheduler, and what the scheduler wants of the shell.
//!
//! Holds no behaviour. The meaning of each is in `docs/design/scheduling.md`.

use crate::fact::{Fact, Places};
use crate::ids::{GangId, InvocationId, NodeId, RequirementId, RuleId, TaskId};
use crate::requirement::{Capacity, Devices, Requirement};
use crate::streams::{StreamEnds, Weights};
use crate::suitability::Suits;
use crate::time::{Time, Timestamp};
use alloc::vec::Vec;

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A set of task properties gets its number.
    RequirementDefined {
        /// The next number.
        id: RequirementId,
        /// The properties.
        requirement: Requirement,
    },
    /// A task gets its number; nothing happens to it before it is activated.
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
    /// Tasks are placed all or none, begin together, and are one retry unit.
    GangDefined {
        /// The next number.
        id: GangId,
        /// Two or more that were never activated and are in no other gang; of one that needs several
        /// nodes it may be one.
        tasks: &'a [TaskId],
        /// Whether more of them than there are slots run all the same.
        oversubscribe: Oversubscribe,
    },
    /// What some tasks of a gang print others read. They go to one node where they fit. Plain tasks
    /// of it do not make it run if others make files; but what they depend on counts for files that are made of what
    /// they print. Before any of them is activated.
    GangJoined {
        /// The gang.
        id: GangId,
        /// Where one node has no room for all of them, they may go to several.
        spread: bool,
        /// They run by turns: each has its share of its nodes only when `TurnTaken` was said of it.
        by_turns: bool,
        /// The streams that join them.
        streams: &'a [StreamEnds],
    },
    /// What is said of the tasks of a gang that streams join: where they go to several nodes, they go by that.
    GangWeighed {
        /// The gang.
        id: GangId,
        /// Computing and traffic.
        weights: &'a Weights,
    },
    /// After `GangTooLarge`: no more nodes come on which it could run, and its tasks share the cores of those that are
    /// there.
    GangShares {
        /// The gang.
        id: GangId,
    },
    /// A begun task of a gang by turns is to have its share, because the tasks that it waited for are done. The answer
    /// is `TurnTaken`, as soon as there is room.
    TurnCame {
        /// The task.
        id: TaskId,
    },
    /// The output of a task of a gang is not what it was to be. The shell found out when the action had ended well and
    /// others still ran: the attempt has failed. Ignored for any other task.
    OutputSpoilt {
        /// The task.
        id: TaskId,
    },
    /// After `GangTooLarge`: no more nodes come on which it could run. Its tasks fail.
    GangRefused {
        /// The gang.
        id: GangId,
    },
    /// More prerequisites for a task that has not started; for one that has, it is ignored.
    PrerequisitesAdded {
        /// The task.
        id: TaskId,
        /// Any tasks defined so far; the shell makes sure that they form no cycle.
        prerequisites: &'a [TaskId],
        /// Whether there is anything to run now.
        has_action: bool,
    },
    /// What the shell found out about a file: in bulk before activation, or the answer to `GatherFact`.
    FactGathered {
        /// The task of the file.
        id: TaskId,
        /// The fact.
        fact: Fact,
    },
    /// The shell found out later than the rest of the fact where a file is. What has been queued already stays where it
    /// is.
    PlacesFound {
        /// The task of the file.
        id: TaskId,
        /// The nodes that hold it.
        places: Places,
    },
    /// Files that were out of reach are in reach again. Files that are found together come in one event: the scheduler
    /// decides about none of them before it knows all.
    FilesFound {
        /// The tasks of the files, each with the nodes that hold its file.
        files: Vec<(TaskId, Places)>,
    },
    /// What lies beside a file and is declared to belong to it. It counts where the scheduler weighs which node holds a
    /// task's input.
    SecondaryFound {
        /// The task of the file.
        id: TaskId,
        /// The size of all that, in bytes.
        bytes: u64,
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
        /// The task.
        id: TaskId,
        /// Whether it has to run; without meaning after its action.
        needed: bool,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The answer to `CompareRecord`.
    RecordCompared {
        /// The task.
        id: TaskId,
        /// Its file was made otherwise than it would be now, and it is to run.
        rerun: bool,
    },
    /// The answer to `Resolve`, after the `PrerequisitesAdded` that it found.
    ResolveEnded {
        /// The task.
        id: TaskId,
        /// Whether all its prerequisites are known now; if not, the task fails.
        found: bool,
    },
    /// A running task is of another kind from now on.
    KindChanged {
        /// The task.
        id: TaskId,
        /// Its new kind.
        kind: TaskKind,
    },
    /// A started action has ended. The end of an attempt that is not the running one (it was lost
    /// with its node, and the node came back) is ignored.
    ActionEnded {
        /// The task.
        id: TaskId,
        /// The number, as in `StartAction`.
        attempt: u32,
        /// How it ended.
        outcome: ActionOutcome,
        /// How long it held its cores; `None`: since it was started. Shells that begin actions before there are cores
        /// for them, or lend a caller's cores to others, know it better.
        run_ns: Option<u64>,
    },
    /// The answer to `RetryDelayed`. Ignored when the task has become something else meanwhile.
    RetryDue {
        /// The task.
        id: TaskId,
        /// The attempt that failed.
        attempt: u32,
    },
    /// A node can take actions.
    NodeJoined {
        /// A small number; a node that was lost may join again.
        id: NodeId,
        /// What the node has.
        capacity: Capacity,
        /// It still has the files that facts place on it. If not, they are gone for good; the shell may still report
        /// single files that it has, with `FactGathered`. Counts only with `Config::files_on_nodes`.
        files_kept: bool,
    },
    /// A node is gone, and with it all that ran there; with `Config::files_on_nodes` its files are
    /// out of reach until it joins again.
    NodeLost {
        /// The node.
        id: NodeId,
    },
    /// A lost node will not come back with its files: what only it had is gone for good.
    NodeGivenUp {
        /// The node.
        id: NodeId,
    },
    /// A node is there that has not joined yet. If it had been given up: files that the shell reports there from now on
    /// count once it has joined.
    NodeCame {
        /// The node.
        id: NodeId,
    },
    /// A file that is out of reach will not come back: without an action that makes it again, its task fails.
    FileGivenUp {
        /// The task of the file.
        id: TaskId,
    },
    /// A running task may have needed a file that was out of reach at some time since it was
    /// started, and that none of its prerequisites is: it lies behind them. If the task fails, that
    /// does not count, and the file is among its inputs from now on.
    InputLacked {
        /// The running task.
        id: TaskId,
        /// A prerequisite of its prerequisites, through any number of them.
        input: TaskId,
    },
    /// A running task may fail, or has failed in the shell, over something that is not its fault.
    /// If it fails, that does not count.
    FailureUncharged {
        /// The running task.
        id: TaskId,
    },
    /// A node that has joined, or is about to, will be taken away at a time (walltime): nothing
    /// starts there that is not expected to have ended by then.
    NodeEnds {
        /// The node.
        id: NodeId,
        /// When.
        at: Time,
    },
    /// A node that has not joined yet may run tasks with these properties, which name the nodes that may.
    NodeAllowed {
        /// The properties.
        requirement: RequirementId,
        /// The node.
        id: NodeId,
    },
    /// Whether nodes suit tasks with these properties, which have a `Choice`, and which of them rather; also of nodes
    /// that have not joined. A node of which the shell has said nothing does not suit.
    NodesSuit {
        /// The properties.
        requirement: RequirementId,
        /// Nodes of which there is news; `None`: the node does not suit. Of those with room the scheduler takes the one
        /// with the highest rank, after nodes that hold the input.
        nodes: &'a [(NodeId, Option<Suits>)],
    },
    /// How long tasks with these properties are expected to run. (A shell that knows different
    /// durations of tasks with equal properties gives them different numbers.)
    DurationExpected {
        /// The properties.
        requirement: RequirementId,
        /// The expected run time.
        run_ns: u64,
    },
    /// This many tasks of one core may start on a node beyond its cores, because the shell begins short actions early
    /// and sees to it itself that no more of them run at a time than the cores allow.
    LookaheadSet {
        /// The node.
        id: NodeId,
        /// Maximum number of such tasks.
        actions: u32,
    },
    /// The run time of an action that earlier runs suggest; before activation. Counts with the policy `LifoHlfet`, in
    /// place of the times of the task's rule.
    TimeExpected {
        /// The task.
        id: TaskId,
        /// The run time.
        run_ns: u64,
    },
    /// The rule that a task belongs to; before it starts. Counts with the policy `LifoHlfet`.
    RuleGiven {
        /// The task.
        id: TaskId,
        /// A small number.
        rule: RuleId,
    },
    /// The measured part of a task's file that is in a node's memory. Counts with the policy `Cached`, and puts its
    /// model right.
    CacheMeasured {
        /// The task of the file.
        id: TaskId,
        /// The node.
        node: NodeId,
        /// Bytes in memory.
        bytes: u64,
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
    /// The answer must not wait for an action to start or end: a core may be kept until it comes.
    GatherFact {
        /// The task of the file.
        id: TaskId,
    },
    /// Ask its class whether it is needed, and its timestamp; answer `NeededAnswered`.
    AskNeeded {
        /// The task.
        id: TaskId,
    },
    /// A file that is up to date by rake's rule: was it made as it would be now? Answer `RecordCompared`.
    CompareRecord {
        /// The task.
        id: TaskId,
    },
    /// Look its prerequisites up again; answer `PrerequisitesAdded` and `ResolveEnded`.
    Resolve {
        /// The task.
        id: TaskId,
    },
    /// The actions that are started next, one for each task of a gang, belong together.
    GangStarted {
        /// The gang.
        id: GangId,
        /// There are fewer slots than it needs.
        oversubscribed: bool,
    },
    /// A task of a gang by turns has its share: what `StartAction` said of it holds from now on.
    TurnTaken {
        /// The task.
        id: TaskId,
        /// As in `StartAction`.
        attempt: u32,
        /// The devices that it may use.
        devices: Devices,
    },
    /// A gang is ready, and the nodes that are there could not run it if nothing else ran: it waits
    /// for more nodes, for `GangShares`, or for `GangRefused`.
    GangTooLarge {
        /// The gang.
        id: GangId,
        /// Cores that its tasks need together.
        slots: u64,
        /// Cores of all nodes.
        slots_there: u64,
    },
    /// The tasks of a gang fail next, since the nodes that are there are too few for it, and no more come.
    GangRefused {
        /// The gang.
        id: GangId,
        /// Cores that its tasks need together.
        slots: u64,
        /// Cores of all nodes.
        slots_there: u64,
    },
    /// A task of a gang needs another one of it, so that they can never run together; all of them fail.
    GangEntangled {
        /// The gang.
        id: GangId,
        /// The one that waits.
        task: TaskId,
        /// What it waits for.
        on: TaskId,
    },
    /// Run the action.
    StartAction {
        /// The task.
        id: TaskId,
        /// From 1.
        attempt: u32,
        /// The node.
        node: NodeId,
        /// The devices that are its own while it runs.
        devices: Devices,
    },
    /// End the action early; `ActionEnded` is still expected.
    AbortAction {
        /// The task.
        id: TaskId,
    },
    /// An attempt failed; the shell deals with what it left behind.
    AttemptFailed {
        /// The task.
        id: TaskId,
        /// From 1.
        attempt: u32,
        /// Whether another attempt follows.
        retried: bool,
    },
    /// The next attempt is to wait this long; `RetryDue` is expected then. Comes after its `AttemptFailed`.
    RetryDelayed {
        /// The task.
        id: TaskId,
        /// The attempt that failed.
        attempt: u32,
        /// From now.
        delay_ns: u64,
    },
    /// An attempt was lost with its node; no end of it is expected. The shell deals with what it left behind where that
    /// can still be reached. It used up none of the task's retries.
    AttemptLost {
        /// The task.
        id: TaskId,
        /// From 1.
        attempt: u32,
        /// The node on which it ran.
        node: NodeId,
        /// Whether another attempt follows.
        rerun: bool,
    },
    /// Attempts of one task were lost on too many different nodes, or too often: the task is taken to be the cause, and
    /// fails.
    TaskBlamed {
        /// The task.
        id: TaskId,
        /// Where attempts were lost, each once.
        nodes: Vec<NodeId>,
    },
    /// A settled task's file was on lost nodes only, and is needed: the task is open again and will
    /// run once more. Another `TaskSettled` follows, unless its invocation is stopped.
    TaskReopened {
        /// The task.
        id: TaskId,
    },
    /// A file that no action makes is on lost nodes only, and is needed. What needs it waits until
    /// a node that has it joins again (`NodeJoined`), or is given up (`NodeGivenUp`: then the task
    /// of the file fails).
    InputLost {
        /// The task of the file.
        id: TaskId,
    },
    /// Actions failed on a node one after the other, while others did well: nothing more starts
    /// there until it joins anew.
    NodeDrained {
        /// The node.
        id: NodeId,
        /// How many failed in a row.
        failures: u32,
    },
    /// A node that was drained is used again, because no other is left.
    NodeTakenBack {
        /// The node.
        id: NodeId,
    },
    /// Tasks with these properties are ready, and no node that is there could ever run them: it has too little, or ends
    /// too soon. They stay queued; a node that joins may change that.
    NowhereToRun {
        /// The properties.
        requirement: RequirementId,
    },
    /// The action ended well but its file does not exist.
    TargetMissing {
        /// The task.
        id: TaskId,
    },
    /// A task is settled.
    TaskSettled {
        /// The task.
        id: TaskId,
        /// How it was settled.
        how: Settled,
    },
    /// Nothing of the invocation runs any more; empty lists: all its wanted tasks are well.
    InvocationEnded {
        /// The invocation.
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
    /// Its class decides; the shell asks it (`AskNeeded`).
    Asked,
}

/// Whether the tasks of a gang may share cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversubscribe {
    /// They may not.
    Never,
    /// Once no more nodes come.
    WhenNoneComes,
    /// Where their nodes have too few.
    Always,
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
    /// It was to end before its turn had come, so nothing of it has begun.
    NotBegun,
    /// It called `exit`: it is not retried, and nothing more starts in any invocation.
    Exited,
}

/// How a task was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Its action succeeded, or it was needed and has no action.
    Executed,
    /// It was up to date.
    NotNeeded,
    /// Its last attempt failed, or its prerequisites could not be looked up, or it was blamed for
    /// lost nodes, or its file was lost and no action makes it.
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
