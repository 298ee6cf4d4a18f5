//! What happens to a run, and what its shell is to do.

use alloc::vec::Vec;

use crate::attempts::{AttemptEffect, Held, NextAttempt};
use crate::event::{Event, Output};
use crate::ids::{InvocationId, NodeId, TaskId};
use crate::nodes::{NodeEffect, NodeInput};
use crate::reach::{ReachEffect, ReachInput};
use crate::stopping::{StopEffect, StopHow};

/// What happened outside.
#[derive(Clone, Debug)]
pub enum Input<'a, C> {
    /// For the scheduler: definitions, facts, answers, ends of attempts that were taken, invocations, nodes that join.
    /// What an event means to the other parts follows; but a node that comes, is lost or leaves is an input of its own.
    Event(Event<'a>),
    /// For reachability alone.
    Reach(ReachInput),
    /// For the nodes of the run: a step in the life of one. What it means to the other parts follows.
    Node {
        /// Which.
        id: NodeId,
        /// What happened to it.
        input: NodeInput,
    },
    /// Whether nodes will appear that are not known yet.
    NodesExpected(bool),
    /// Some time has passed. Due at [`Run::due_ns`](super::Run::due_ns); before, it says nothing.
    TimeCame,
    /// The end of an invocation has been told: the action that waited for it has its cores again.
    InvocationOver {
        /// Which.
        id: InvocationId,
    },
    /// A node has so many cores. None of its attempts holds any.
    CoresSet {
        /// Which; it may be the next number.
        node: NodeId,
        /// 0: it is not there.
        cores: u32,
    },
    /// How long a message takes to a node and back.
    TripMeasured {
        /// Which.
        node: NodeId,
        /// Nanoseconds.
        trip_ns: u64,
    },
    /// A task needs more than one plain core: no action is begun early any more.
    LookaheadOff,
    /// The answer to [`NodeEffect::Lose`]: a node is gone, with all that ran there.
    NodeLost {
        /// Which.
        id: NodeId,
    },
    /// The code of an action wants its cores.
    LeaseWanted {
        /// Whose.
        id: TaskId,
    },
    /// An action wants a command started.
    CommandWanted {
        /// Whose.
        id: TaskId,
        /// Which.
        command: C,
    },
    /// A prepared command has begun at its node.
    CommandBegun {
        /// Where.
        node: NodeId,
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// A node has given a prepared command back.
    CommandWithdrawn {
        /// Where.
        node: NodeId,
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
        /// Which.
        command: C,
    },
    /// A node keeps the core of an action when its command has ended.
    CoreKept {
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// A node has freed the core of a command that has ended well, which is told next.
    CoreFreed {
        /// Where.
        node: NodeId,
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// A command has ended.
    CommandEnded {
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// Commands of an attempt wait until its node sees its inputs.
    InputsAwaited {
        /// Whose.
        id: TaskId,
    },
    /// There is something more that the next command of an attempt is to find on its node.
    InputsChanged {
        /// Whose.
        id: TaskId,
    },
    /// There is no room on its node yet for what the commands of an attempt read.
    InputsHeldUp {
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// What the commands of an attempt read is in place.
    InputsReady {
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// It cannot be had.
    InputsRefused {
        /// Whose.
        id: TaskId,
        /// Of which attempt.
        attempt: u32,
    },
    /// The action of an attempt has ended: it gives up its cores. What follows is one of the next
    /// five, or [`Run::take`](super::Run::take).
    ActionEnded {
        /// Whose.
        id: TaskId,
        /// When its code ran, if it never wanted a lease.
        code: Option<Held>,
    },
    /// The node of an attempt looks at its target.
    Inspecting {
        /// Whose.
        id: TaskId,
    },
    /// The target of an attempt is brought to where it belongs.
    StagingOut {
        /// Whose.
        id: TaskId,
    },
    /// What the commands of a failed attempt have left behind is ended.
    Clearing {
        /// Whose.
        id: TaskId,
    },
    /// The shell finds out what the failure of an attempt is due to.
    Attributing {
        /// Whose.
        id: TaskId,
    },
    /// An action has failed, and nothing of it is left. Where that may be due to a file server, its
    /// attempt is `Attributing` from now on, and `PassOn` follows.
    ActionFailed {
        /// Whose.
        id: TaskId,
    },
    /// An attempt is to end before its time.
    Abort {
        /// Whose.
        id: TaskId,
    },
    /// The user has been told that a task has failed for good.
    TaskGivenUp {
        /// Which.
        id: TaskId,
    },
    /// The run is to end.
    Stop {
        /// How.
        how: StopHow,
        /// The user has asked for it.
        by_user: bool,
        /// All that run, by the shell's numbers, also those that no action waits for.
        commands: &'a [u32],
    },
    /// The answer to [`AttemptEffect::Signal`]: these commands are to end.
    CommandsToEnd {
        /// By the shell's numbers.
        commands: &'a [u32],
    },
}

/// What the shell is to do.
#[derive(Clone, Debug)]
pub enum Effect<C> {
    /// What the scheduler wants. May wait until all that came in with this input has been taken in;
    /// the others are to be done at once.
    Output(Output),
    /// What attempts want.
    Attempt(AttemptEffect<C>),
    /// What has become of a node.
    Node(NodeEffect),
    /// What commands that have to end are told.
    Stop(StopEffect),
    /// What reachability wants. An [`Event`] is to be given back, in its place among the others.
    Reach(ReachEffect),
    /// The scheduler has placed the next attempt of a task; it waits until the last one is unwound.
    StartHeld {
        /// Whose.
        id: TaskId,
        /// Where and what.
        start: NextAttempt,
    },
    /// The scheduler has been told how many actions a node may begin early.
    LookaheadSet {
        /// Which.
        id: NodeId,
        /// 0: none.
        actions: u32,
    },
    /// The scheduler has ended an invocation; `InvocationEnded` follows when all on lost nodes is unwound.
    EndHeld {
        /// Which.
        id: InvocationId,
        /// Tasks that failed.
        failed: Vec<TaskId>,
        /// Tasks that were not run because of that.
        abandoned: Vec<TaskId>,
    },
    /// An attempt that had failed went with its node: the front has ended its action long ago.
    /// Answer with [`Run::take_unwound`](super::Run::take_unwound).
    FailureLost {
        /// Whose.
        id: TaskId,
    },
    /// Start a command, though the action that wants it has ended: a thread of it goes on.
    StartUnowned {
        /// Whose.
        id: TaskId,
        /// Which.
        command: C,
    },
    /// A command that came back from its node is not to be started: its attempt has ended.
    DropUnowned {
        /// Whose.
        id: TaskId,
        /// Which.
        command: C,
    },
}
