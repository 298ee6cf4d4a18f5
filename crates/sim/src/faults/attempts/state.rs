//! What the hub knows of attempts beside what the run does.

use std::collections::{BTreeMap, BTreeSet};

/// What the hub waits for.
#[derive(Clone, Debug)]
pub(crate) enum Later {
    /// The node sees what was made elsewhere.
    Visible,
    /// What the code of an action has written has come to its node, or cannot.
    Sent { well: bool },
    /// The node has looked at the target.
    Inspected,
    /// What commands have left behind is ended.
    Cleared,
}

/// What is known of an attempt apart from its life.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// What the last command has made.
    pub(crate) content: Option<u64>,
    /// Times that code has written something since it began, and how many of them the inputs in
    /// place heed; `None` while the inputs are not in place.
    pub(crate) changes: u32,
    pub(crate) heeded: Option<u32>,
    /// Number of these writes that were sent to its node, and whether some are on their way.
    pub(crate) sent: u32,
    pub(crate) is_sending: bool,
    pub(crate) refused: bool,
    /// It failed for want of a file that was not staged in; whether a data link or a disk was at fault.
    pub(crate) lacks: Option<bool>,
    pub(crate) aborted: bool,
    /// A command of it was started.
    pub(crate) started: bool,
    /// The front knows it.
    pub(super) told: bool,
    /// Where it stands in line: the lower, the sooner it has its lease.
    pub(crate) in_line: Option<i64>,
    pub(crate) had_lease: bool,
    /// It has its cores again after an invocation, whatever runs.
    pub(crate) resumed: bool,
}

/// A command that was started and has not ended.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) task: u32,
    pub(super) attempt: u32,
    pub(crate) node: u32,
    pub(crate) begun_ns: u64,
}

/// Attempts, and what is held against them.
#[derive(Debug, Default)]
pub(crate) struct HubAttempts {
    pub(crate) commands: BTreeMap<u32, Running>,
    /// Commands that were asked for, until they are started or refused: the task of each, and whether it is the last of
    /// its action.
    pub(crate) wanted: BTreeMap<u32, (u32, bool)>,
    pub(super) last: BTreeSet<u32>,
    /// Attempts that were given back, by task and number: another one may have the number.
    pub(crate) given_back: BTreeSet<(u32, u32)>,
    /// Number of invocations of actions so far, and the task and attempt of each.
    pub(crate) invocations: u32,
    pub(crate) calls: BTreeMap<u32, (u32, u32)>,
    /// Places in lines so far.
    pub(super) places: i64,
}
