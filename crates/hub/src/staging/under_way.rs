//! What is on its way between nodes, and how its end is reported.

use std::path::PathBuf;

use rakuda_core::stager::Expected;
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::FileAnswer;
use rakuda_proto::journal::FileIdentity;
use tokio::task::AbortHandle;

use super::relay::{Carried, Failure};
use super::state::State;

/// A transfer that is under way.
#[derive(Debug)]
pub(super) struct Moving {
    /// By the monotonic clock.
    pub started_ns: u64,
    pub task: AbortHandle,
    /// It has ended well: what was moved beside the file itself.
    pub carried: Option<Carried>,
}

/// What a transfer, or a removal, came to.
#[derive(Debug)]
pub(crate) struct Moved(pub(super) Kind);

/// What it was.
#[derive(Debug)]
pub(super) enum Kind {
    File {
        transfer: u32,
        result: Result<Carried, Failure>,
    },
    /// A target that Ruby code has made here, to what commands have written beside it.
    Followed {
        id: TaskId,
        number: u32,
        result: Result<(), Failure>,
    },
    Removed(u32),
    /// What the front has asked for.
    Found {
        request: u32,
        outcome: Result<FileAnswer, String>,
    },
    /// What an action has written, or a command names.
    Sent {
        node: NodeId,
        path: PathBuf,
        version: FileVersion,
        result: Result<(), String>,
    },
}

/// Where the target goes of an action that has ended well.
#[derive(Debug)]
pub(super) enum Destination {
    /// It is staged out.
    Home(FileIdentity),
    /// Ruby code has made it here: to where its secondary files are.
    Followed(Followed),
}

impl Destination {
    pub fn is_home(&self) -> bool {
        matches!(self, Self::Home(_))
    }
}

/// A target on its way to its secondary files.
#[derive(Debug)]
pub(super) struct Followed {
    /// Which.
    pub node: NodeId,
    /// The target.
    pub seen: FileIdentity,
    pub state: State,
}

/// A file that a node should have, by the name of its task.
pub(crate) type HeldFile = Expected<Vec<u8>, State>;
