//! What the shell tells the stager, and what that has it do. Only words: no part of the stager decides here.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{GangId, NodeId, TaskId};

/// What happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagerInput<S> {
    /// An attempt is about to start a command: these are to be on its node.
    InputsWanted {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
        /// Where.
        node: NodeId,
        /// What is read. Files of which no state is known are passed over.
        files: Vec<TaskId>,
        /// Another command of the attempt runs: what it reads stays until there is room for these, too.
        reads: bool,
        /// What tasks there read that do not end before this one has begun, since streams join them: all are let in
        /// together or not at all. The attempt does not wait for these files.
        beside: Vec<TaskId>,
        /// All of these, on whatever nodes.
        joined: Option<JoinedSet>,
    },
    /// In return for `Admitted`: files that the attempt has written itself are being sent.
    OwnFilesSent {
        /// Whose.
        id: TaskId,
        /// How many.
        count: u32,
    },
    /// One of them is there.
    OwnFileThere {
        /// Whose.
        id: TaskId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// No other command of an attempt is running.
    ReadsNoMore {
        /// Whose.
        id: TaskId,
        /// Where it was.
        node: NodeId,
    },
    /// A command of an attempt stops waiting for its inputs: some of them cannot be staged in.
    Refused {
        /// Whose.
        id: TaskId,
        /// Where it was.
        node: NodeId,
        /// Another command of it runs, and reads what it has read.
        reads: bool,
    },
    /// An attempt neither reads files nor waits for them now.
    Released {
        /// Whose.
        id: TaskId,
        /// Where it was.
        node: NodeId,
    },
    /// A file is to be staged out.
    StageOutWanted {
        /// Whose.
        file: TaskId,
    },
    /// It need no longer be staged out.
    StageOutUnwanted {
        /// Whose.
        file: TaskId,
    },
    /// A transfer has ended.
    Moved {
        /// The number of the transfer, from `Move`.
        transfer: u32,
        /// What came of it.
        result: Result<(), MoveFailure>,
    },
    /// Copies have been removed, or cannot be.
    Removed {
        /// The number of the removal, from `Remove`.
        removal: u32,
    },
    /// A file was made, or found, in this state, and stays there.
    Settled {
        /// Whose.
        file: TaskId,
        /// Where.
        node: NodeId,
        /// The state that counts from now on.
        state: S,
    },
    /// A node is gone. Nothing is begun before `LossTold`.
    NodeLost {
        /// Which.
        id: NodeId,
    },
    /// All other parts know of the loss of a node.
    LossTold {
        /// Which.
        id: NodeId,
    },
    /// A node that was lost is not waited for: what lay there is made again, and must not be there twice.
    NodeGivenUp {
        /// Which.
        id: NodeId,
    },
    /// A node has answered what it was asked after `AskForLife`.
    Alive {
        /// Which.
        id: NodeId,
    },
}

/// What streams join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedSet {
    /// The gang that its tasks are.
    pub gang: GangId,
    /// Those of them that have begun, or are about to, and have not ended.
    pub tasks: Vec<TaskId>,
}

/// Why a file was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveFailure {
    /// Another source may do better.
    pub at_source: bool,
    /// For users: what failed, after "failed to".
    pub reason: String,
}

/// What the shell is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagerEffect<S> {
    /// Send what the attempt has written itself, and answer `OwnFilesSent` before all else.
    Admitted {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
        /// Where to.
        node: NodeId,
    },
    /// There is no room yet for what an attempt reads. `AskAgain` follows.
    NoRoom {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
    },
    /// All that an attempt reads is on its node.
    InputsThere {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
    },
    /// What an attempt reads is more than there may be on its node.
    TooLarge {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
        /// Where.
        node: NodeId,
        /// What its inputs take together.
        needed_bytes: u64,
        /// What there may be.
        limit_bytes: u64,
    },
    /// There may be room for an attempt: say once more what it wants, or that it is released.
    AskAgain {
        /// Whose.
        id: TaskId,
        /// Its number.
        attempt: u32,
        /// Where.
        node: NodeId,
    },
    /// Move a file with all that goes with it, and answer `Moved`.
    Move {
        /// The number of the transfer.
        transfer: u32,
        /// Whose.
        file: TaskId,
        /// What it has to be.
        state: S,
        /// The source.
        from: NodeId,
        /// The destination.
        to: NodeId,
    },
    /// Stop a transfer; the shell answers nothing.
    Cancel {
        /// Its number.
        transfer: u32,
    },
    /// Remove copies, and answer `Removed`. Nothing is staged in there meanwhile.
    Remove {
        /// The number of the removal.
        removal: u32,
        /// Where.
        node: NodeId,
        /// Which, each in its state.
        files: Vec<(TaskId, S)>,
        /// They counted until now: the scheduler is to hear where the files are.
        counted: bool,
    },
    /// Stop a removal: the node is lost, and what is staged in there when it is back must
    /// stay. The shell answers nothing.
    StopRemoval {
        /// Which.
        removal: u32,
    },
    /// A transfer has ended well.
    Arrived {
        /// Its number.
        transfer: u32,
        /// Whose file.
        file: TaskId,
        /// The source.
        from: NodeId,
        /// The destination.
        to: NodeId,
        /// What was moved.
        moved: S,
        /// The node has what counts.
        counts: bool,
    },
    /// A file has arrived at home, as was wanted.
    StagedOut {
        /// Whose.
        file: TaskId,
    },
    /// Ask a node for an answer, whatever it says: `Alive`, or `NodeLost` and `LossTold`.
    AskForLife {
        /// Which.
        node: NodeId,
    },
    /// A file cannot be moved to where it is wanted: those that wait for it do so no more.
    NotStaged {
        /// Whose.
        file: TaskId,
        /// Where to.
        to: NodeId,
        /// The sources that failed.
        from: Vec<NodeId>,
        /// The last reason.
        reason: String,
        /// Who has waited, with the numbers of the attempts.
        readers: Vec<(TaskId, u32)>,
    },
}
