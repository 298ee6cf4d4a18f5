//! What the hub and an agent say to each other.
//!
//! The hub decides and keeps the names; an agent starts processes and reports. To an agent in the hub's
//! process these are passed as values, to one elsewhere inside [`crate::cluster`]'s messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::front::{CommandOptions, GateKind, Program, Usage};
use crate::streams::{StreamEvent, StreamRequest};

/// How the reason begins (`CommandExited`) when a command was killed because it had more memory than its bound.
pub const BOUND_EXCEEDED: &str = "killed: ";
/// How the reason begins for the front when streams of the command's task are at fault, and not the command.
pub const STREAMS_FAILED: &str = "streams: ";

/// A command, numbered by the hub. Unique in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandId(pub u32);

/// From the hub to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentRequest {
    /// A difference from the run's environment, for later commands.
    DefineEnvironment {
        /// Its number.
        environment: u32,
        /// Variables that it sets.
        set: BTreeMap<Text, Text>,
        /// Variables that it lacks.
        unset: Vec<Text>,
    },
    /// Environments below this number are not used any more (but for 0).
    ForgetEnvironments {
        /// The first number that is kept.
        below: u32,
    },
    /// Commands that name no directory start here from now on.
    ChangeDirectory {
        /// Absolute.
        directory: Text,
    },
    /// A task has made a file of that name: the program is looked for in PATH again by the next command of that name.
    ForgetProgram {
        /// Without folders.
        name: Text,
    },
    /// Start a process.
    Start {
        /// Its number.
        command: CommandId,
        /// What runs.
        program: Program,
        /// Everything unusual.
        options: Option<Box<CommandOptions>>,
    },
    /// A command that is started next frees its core when it has ended well: one that is prepared begins in its place
    /// (docs/design/prepared-commands.md).
    FreesCore {
        /// Which.
        command: CommandId,
    },
    /// Start a process as soon as a core is free. It frees its core then.
    Prepare {
        /// Its number.
        command: CommandId,
        /// What runs.
        program: Program,
        /// Everything unusual.
        options: Option<Box<CommandOptions>>,
        /// Number of cores that this agent has freed, as known when this was sent.
        freed: u64,
    },
    /// A core is free for a prepared command.
    Release,
    /// Give a prepared command back, if it has not begun.
    Withdraw {
        /// Which.
        command: CommandId,
    },
    /// A command that runs does not free its core.
    KeepCore {
        /// Which.
        command: CommandId,
    },
    /// The workers of a round begin at an instant (docs/design/synchronised-start.md).
    CommitRound {
        /// Which.
        round: u32,
        /// When, ns of the kernel's monotonic clock on the agent's machine.
        t0_ns: i64,
        /// Time before it at which a worker stops sleeping and spins, where each worker has a processor.
        spin_ns: i64,
        /// Time beyond it for which those that spin wait for one another: until all are on a processor at once, where
        /// the round has no workers elsewhere. 0: they do not.
        patience_ns: i64,
        /// When all of them are ended. `None`: they end by themselves.
        stop: Option<RoundStop>,
    },
    /// Nothing more comes of a round: what still waits at its gate ends there.
    CloseRound {
        /// Which.
        round: u32,
    },
    /// Send a signal to a command's process group.
    Signal {
        /// Which.
        command: CommandId,
        /// As in kill(2).
        signal: i32,
    },
    /// About streams between tasks.
    Streams(StreamRequest),
}

/// Which of a command's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutputDescriptor {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

/// From an agent to the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEvent {
    /// Bytes that a command wrote.
    OutputWritten {
        /// Which.
        command: CommandId,
        /// Where it wrote.
        descriptor: OutputDescriptor,
        /// What.
        #[serde(with = "crate::text::as_bytes")]
        bytes: Vec<u8>,
    },
    /// What a command left behind has written its last, some time after the command's exit.
    OutputEnded {
        /// Which.
        command: CommandId,
    },
    /// How commands are held to their bounds of memory here. Comes before the first of them is
    /// started, and again should it change.
    MemoryEnforced {
        /// Why a watch holds them. `None`: each is in a control group of its own.
        why_watched: Option<Text>,
    },
    /// A prepared command was started.
    CommandBegun {
        /// Which.
        command: CommandId,
    },
    /// A prepared command was given back: it never begins.
    CommandWithdrawn {
        /// Which.
        command: CommandId,
    },
    /// A command keeps its core when it ends.
    CoreKept {
        /// Which.
        command: CommandId,
    },
    /// A command has ended well, and its core is another one's. Its exit follows.
    CoreFreed {
        /// Which.
        command: CommandId,
    },
    /// A command waits at the gate of its round.
    CommandReady {
        /// Which.
        command: CommandId,
    },
    /// A command has gone through the gate of its round. Comes before its exit.
    CommandPassed {
        /// Which.
        command: CommandId,
        /// What it was held by.
        gate: GateKind,
        /// What it said at the gate.
        stamps: GateStamps,
    },
    /// A command is over. All that it wrote itself was reported before.
    CommandExited {
        /// Which.
        command: CommandId,
        /// As wait(2) gives it.
        status: i32,
        /// Its process; 0 when none was started.
        process: i32,
        /// Captured stdout.
        captured: Option<Text>,
        /// Why it could not be started.
        error: Option<Text>,
        /// What it used.
        usage: Usage,
        /// Something that it left behind may still write; `OutputEnded` will follow.
        lingers: bool,
        /// Something of its process group was still there. It is looked for of workers of rounds alone.
        is_outlived: bool,
    },
    /// While a round had workers on the machine, its wall clock was set.
    ClockSet {
        /// By how much, ns. Below 0: back.
        by_ns: i64,
    },
    /// About streams between tasks.
    Streams(StreamEvent),
}

/// When the workers of a round are ended, whatever they do: by the clock of the agent's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundStop {
    /// Time from the instant to SIGTERM.
    pub after_ns: u64,
    /// Time from SIGTERM to SIGKILL.
    pub grace_ns: u64,
}

/// What a worker has noted at its gate, ns of the kernel's monotonic clock on its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateStamps {
    /// It waited.
    pub ready_ns: i64,
    /// It saw when to begin.
    pub woke_ns: i64,
    /// It stopped sleeping.
    pub spun_ns: i64,
    /// It went on.
    pub start_ns: i64,
    /// It was to spin before that.
    pub spins: bool,
    /// All workers were on a processor, and it began with them, in time or not.
    pub has_met: bool,
    /// The processor on which it did.
    pub cpu: i32,
    /// What of its files was in memory before it waited, when it had seen to that.
    pub cache: Option<CacheEvidence>,
}

/// What the kernel says of files whose place in memory was seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEvidence {
    /// Of all files that are there.
    pub bytes: u64,
    /// Of these in memory. `None`: the kernel does not tell (cachestat(2) is missing, or not allowed).
    pub resident: Option<u64>,
}
