//! What happens to a run, and what its shell is to do.

use alloc::vec::Vec;

use super::held::PlacesAwaited;
use crate::attempts::{AttemptEffect, Held, NextAttempt};
use crate::event::{ActionOutcome, Event, Output};
use crate::ids::{InvocationId, NodeId, RequirementId, TaskId};
use crate::nodes::{NodeEffect, NodeInput};
use crate::reach::{ReachEffect, ReachInput};
use crate::requirement::LargestNodes;
use crate::stopping::{StopEffect, StopHow};

/// What happened outside.
#[derive(Clone, Debug)]
pub enum Input<'a, C> {
    /// For the scheduler: definitions, facts, answers, ends of attempts that were taken, invocations, nodes that join.
    /// What an event means to the other parts follows. A node that comes, is lost or leaves is an input of its own.
    Event(Event<'a>),
    /// For reachability alone.
    Reach(ReachInput),
    /// For the nodes of the run: a step in the life of one. What it means to the other parts follows.
    Node {
        /// The node.
        id: NodeId,
        /// What happened to it.
        input: NodeInput,
    },
    /// Whether nodes will appear that are not known yet.
    NodesExpected(bool),
    /// Some time has passed. Due at [`Run::due_ns`](super::Run::due_ns); earlier it has no effect.
    TimeCame,
    /// The front knows of the end of an invocation: the action that waited for it has its cores again.
    InvocationOver {
        /// The invocation.
        id: InvocationId,
    },
    /// The cores of a node. None of its attempts holds any.
    CoresSet {
        /// The node; it may be the next number.
        node: NodeId,
        /// 0: it is not there.
        cores: u32,
    },
    /// How long a message takes to a node and back.
    TripMeasured {
        /// The node.
        node: NodeId,
        /// Nanoseconds.
        trip_ns: u64,
    },
    /// A task needs more than one plain core: no action is begun early any more.
    LookaheadOff,
    /// A size that tasks must have in full: [`Effect::SizeRefused`] follows if no node has it, and none comes any more.
    SizeWanted {
        /// What asks for it, defined before.
        requirement: RequirementId,
    },
    /// The answer to [`NodeEffect::Lose`]: a node is gone, with all that ran there.
    NodeLost {
        /// The node.
        id: NodeId,
    },
    /// The shell has noted and told all that the loss of a node means. Whether any node is left counts from now on.
    LossTold,
    /// The shell has noted that a node has joined. Whether nodes are large enough counts from now on, if no more come.
    JoinNoted,
    /// Tasks are asked for. [`Effect::Invoke`] follows, at once or when it is known where their inputs are. Another
    /// invocation that is held is begun first.
    InvocationWanted {
        /// The invocation.
        id: InvocationId,
        /// Its tasks.
        tasks: Vec<TaskId>,
        /// The action that waits for it.
        caller: Option<TaskId>,
        /// What is awaited about places.
        awaited: PlacesAwaited,
        /// Nodes have file servers that hold files.
        nodes_hold_files: bool,
    },
    /// What is awaited about places may have changed.
    PlacesAwaited(PlacesAwaited),
    /// Nothing is to be waited for any more: an invocation that is held begins.
    HeldInvocationDue,
    /// The code of an action wants its cores.
    LeaseWanted {
        /// The task.
        id: TaskId,
    },
    /// An action wants a command started.
    CommandWanted {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
    },
    /// A prepared command has begun at its node.
    CommandBegun {
        /// The node.
        node: NodeId,
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// A node has given a prepared command back.
    CommandWithdrawn {
        /// The node.
        node: NodeId,
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
        /// The command.
        command: C,
    },
    /// A node keeps the core of an action when its command has ended.
    CoreKept {
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// A node has freed the core of a command that has ended well, as `CommandEnded` says next.
    CoreFreed {
        /// The node.
        node: NodeId,
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// A command has ended.
    CommandEnded {
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// Commands of an attempt wait until its node sees its inputs.
    InputsAwaited {
        /// The task.
        id: TaskId,
    },
    /// The next command of an attempt is to find something more on its node.
    InputsChanged {
        /// The task.
        id: TaskId,
    },
    /// The node of an attempt has no room yet for what its commands read.
    InputsHeldUp {
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// The inputs of an attempt's commands are in place.
    InputsReady {
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// The inputs of an attempt's commands cannot be had.
    InputsRefused {
        /// The task.
        id: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// The action of an attempt has ended: it gives up its cores. [`Effect::Look`], [`Effect::EndLeft`] or
    /// [`Effect::Finish`] follows, or [`ReachEffect::PassOn`] later.
    ActionEnded {
        /// The task.
        id: TaskId,
        /// How.
        ending: ActionEnding,
        /// When its code ran, if it never wanted a lease.
        code: Option<Held>,
    },
    /// The target of an attempt is being staged out, after its node has looked at it.
    StagingOut {
        /// The task.
        id: TaskId,
    },
    /// The answer to [`Effect::EndLeft`]: nothing that the commands of a failed attempt have left behind runs any more.
    LeftEnded {
        /// The task.
        id: TaskId,
    },
    /// An attempt is to end before its time.
    Abort {
        /// The task.
        id: TaskId,
    },
    /// The shell has told the user that a task has failed for good.
    TaskGivenUp {
        /// The task.
        id: TaskId,
    },
    /// The run is to end.
    Stop {
        /// How.
        how: StopHow,
        /// The user has asked for it.
        by_user: bool,
        /// All commands that run, by the shell's numbers, also those that no action waits for.
        commands: &'a [u32],
    },
    /// The answer to [`AttemptEffect::Signal`]: these commands are to end.
    CommandsToEnd {
        /// By the shell's numbers.
        commands: &'a [u32],
    },
}

/// How an action has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionEnding {
    /// Well.
    Succeeded {
        /// A node is asked what its target is now.
        looks: bool,
    },
    /// Not well.
    Failed {
        /// It has started commands, which may have left processes behind.
        started: bool,
    },
    /// It ends the whole run.
    Exited,
}

/// What the shell is to do.
#[derive(Clone, Debug)]
pub enum Effect<C> {
    /// An output of the scheduler. It may wait until the shell has handed in all that came with this input; the other
    /// effects are to be done at once.
    Output(Output),
    /// An effect of attempts.
    Attempt(AttemptEffect<C>),
    /// An effect of the nodes' lives.
    Node(NodeEffect),
    /// A signal for commands that have to end.
    Stop(StopEffect),
    /// An effect of reachability. The shell must give an [`Event`] back, in its place among the others.
    Reach(ReachEffect),
    /// The scheduler has placed the next attempt of a task; it waits until the last one is unwound.
    StartHeld {
        /// The task.
        id: TaskId,
        /// The attempt that waits.
        start: NextAttempt,
    },
    /// The scheduler knows how many actions a node may begin early.
    LookaheadSet {
        /// The node.
        id: NodeId,
        /// 0: none.
        actions: u32,
    },
    /// The scheduler has ended an invocation; `InvocationEnded` follows when all on lost nodes is unwound.
    EndHeld {
        /// The invocation.
        id: InvocationId,
        /// Tasks that failed.
        failed: Vec<TaskId>,
        /// Tasks that were not run because of that.
        abandoned: Vec<TaskId>,
    },
    /// Have the node of an attempt look at its target. The shell then stages it out ([`Input::StagingOut`]), or takes
    /// the attempt.
    Look {
        /// The task.
        id: TaskId,
    },
    /// The node that was to look at the target of an attempt is about to be lost: the shell looks itself, and ends the
    /// attempt by what it sees.
    LookHere {
        /// The task.
        id: TaskId,
    },
    /// The node that was to look at the target of an attempt is about to be lost, and the target with it: the shell
    /// takes the attempt.
    TargetLost {
        /// The task.
        id: TaskId,
    },
    /// End what the commands of a failed attempt have left behind, before the next attempt begins; answer
    /// [`Input::LeftEnded`].
    EndLeft {
        /// The task.
        id: TaskId,
    },
    /// All is known of an attempt: the shell takes it, hands in [`Event::ActionEnded`], and notes its end with what
    /// that says of another attempt.
    Finish {
        /// The task.
        id: TaskId,
        /// How its action has ended.
        outcome: ActionOutcome,
    },
    /// An attempt that had failed went with its node: the front has ended its action long ago.
    /// Answer with [`Run::take_unwound`](super::Run::take_unwound).
    FailureLost {
        /// The task.
        id: TaskId,
    },
    /// Begin an invocation: the shell does what goes before it, and hands in [`Event::InvocationStarted`].
    Invoke {
        /// The invocation.
        id: InvocationId,
        /// Its tasks.
        tasks: Vec<TaskId>,
        /// The action that waits for it.
        caller: Option<TaskId>,
    },
    /// No node has all that tasks must have, and none comes any more. The shell says so, and stops the run.
    SizeRefused {
        /// What asks for it.
        requirement: RequirementId,
        /// What the nodes have that it allows.
        most: LargestNodes,
    },
    /// No node is left, and none comes: the run cannot go on. The shell says why, and stops it.
    NodesGone,
    /// Start a command, though the action that wants it has ended: a thread of it goes on.
    StartUnowned {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
    },
    /// A command that came back from its node is not to be started: its attempt has ended.
    DropUnowned {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
    },
}
