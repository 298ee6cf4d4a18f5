//! What the hub keeps of attempts and their commands; `attempts` decides what becomes of them.

use std::path::PathBuf;

use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::agent::CommandId;
use rakuda_proto::front::{CommandOptions, Program};
use rakuda_proto::journal::{CommandEnvironment, FileIdentity, InputBytes};

use crate::failures::tail::Tail;
use crate::file_probes::state::TargetLook;
use crate::record::Source;

/// An attempt that has not ended.
pub(crate) type RunningAttempt = rakuda_core::Attempt<AttemptDetails, PendingCommand>;

/// What the hub keeps with an attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptDetails {
    /// Where its target is, absolute: the Rakefile may move before it ends. Empty if it has none.
    pub target: PathBuf,
    /// Its target before it began; `None`: no target, or it was missing.
    pub before: Option<FileIdentity>,
    /// The end of what it printed.
    pub tail: Tail,
    /// The last of its commands that did not end well.
    pub failed_command: Option<FailedCommand>,
    /// Where its input was when it began.
    pub inputs: InputBytes,
    /// When its first command began, by the clock that its node stamps files with, ns since 1970;
    /// where nodes share no file system.
    pub began_there_ns: Option<i64>,
    /// Commands of it that have been started, until what they left behind has been ended.
    pub begun: Vec<CommandId>,
    /// Secondary files of its target, by name: sizes.
    pub secondary: Vec<(Text, u64)>,
    /// What its action said when it ended.
    pub message: Vec<u8>,
    /// What its node is to be asked about its target.
    pub look: Option<TargetLook>,
    /// Why its inputs cannot be had.
    pub unseen: Option<Text>,
    /// How its node was lost.
    pub lost: Option<Text>,
}

/// A command that has not been started.
#[derive(Debug, Clone)]
pub(crate) struct PendingCommand {
    pub command: CommandId,
    pub program: Program,
    pub options: Option<Box<CommandOptions>>,
    /// Shown on stderr when it starts.
    pub echo: Option<Text>,
}

/// A command that did not end well.
#[derive(Debug)]
pub(crate) struct FailedCommand {
    pub program: Program,
    /// As wait(2) gives it.
    pub status: i32,
    /// Why it could not be started, if so.
    pub error: Option<Vec<u8>>,
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    /// What it executes; in an environment, without the script in front of it.
    pub program: Program,
    /// The environment in which it runs (`needs env:`).
    pub env: Option<Box<CommandEnvironment>>,
    /// When it was handed to the agent, by the monotonic clock.
    pub started_ns: u64,
    /// The task whose action asked for it.
    pub task: Option<TaskId>,
    /// The attempt of that task; 0: none.
    pub attempt: u32,
    /// Where it runs.
    pub node: NodeId,
    /// The folder in which it runs, when that is not the run's; of a command that waits at a gate, or is prepared.
    pub directory: Option<Text>,
    /// It has not begun, as far as is known (docs/design/prepared-commands.md).
    pub prepared: Option<Box<PreparedCommand>>,
}

/// A command at its node that has not begun.
#[derive(Debug)]
pub(crate) struct PreparedCommand {
    /// What it is when the node gives it back.
    pub pending: PendingCommand,
    /// Signals that it gets when it has begun.
    pub signals: Vec<i32>,
}

impl RunningCommand {
    /// Whose output the record takes its output for.
    pub fn source(&self) -> Source {
        self.task.map(|id| (id.0, self.attempt))
    }
}
