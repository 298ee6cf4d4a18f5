//! What the front knows, and the messages between it and the hub.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::ActionOutcome;

/// What the hub says of an action.
#[derive(Clone, Debug)]
pub(crate) enum ToFront {
    Run {
        attempt: u32,
        leased: bool,
    },
    Leased,
    CommandEnded {
        command: u32,
        well: bool,
    },
    /// What the action has invoked is settled.
    InvocationEnded {
        attempt: u32,
        well: bool,
    },
    Abort,
    Lost,
}

/// What the front says of it. `attempt` is for checks alone: real messages go without.
#[derive(Clone, Debug)]
pub(crate) enum FromFront {
    WantLease,
    Want {
        attempt: u32,
        command: u32,
        is_last: bool,
    },
    /// Code has written something that the next command reads.
    Changed,
    /// The action waits for a task.
    Invoke {
        attempt: u32,
        called: u32,
    },
    Ended {
        attempt: u32,
        outcome: ActionOutcome,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(super) actions: BTreeMap<u32, Action>,
    /// When the last message arrives, here and at the hub.
    pub(super) last_ns: [u64; 2],
}

#[derive(Debug, Default)]
pub(super) struct Action {
    pub(super) attempt: u32,
    /// Commands that it has wanted, and those of them that have not ended.
    pub(super) wanted: u32,
    pub(super) open: BTreeSet<u32>,
    /// It waits for its cores.
    pub(super) waits: bool,
    /// Code of one of its threads waits for them, beside commands of others.
    pub(super) asks: bool,
    /// It has invoked a task, and whether one of its threads still waits for that.
    pub(super) called: bool,
    pub(super) calls: bool,
    /// It goes on at a time that is known already.
    pub(super) thinks: bool,
    pub(super) failed: bool,
    /// It is to end: its threads ask for nothing more.
    pub(super) told: bool,
    pub(super) lost: bool,
}
