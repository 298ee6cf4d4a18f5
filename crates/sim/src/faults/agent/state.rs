//! What an agent knows.

use std::collections::{BTreeMap, VecDeque};

use rakuda_core::{ActionOutcome, Prepared};

use crate::faults::messages::{Ended, Happening, Start};

#[derive(Debug)]
pub(crate) struct Agent {
    /// The machine is there.
    pub(crate) up: bool,
    /// How often the machine has gone down.
    pub(crate) starts: u32,
    /// Whether its disk is as it was when the hub last knew it.
    pub(crate) disk_kept: bool,
    /// Its session; 0 if it has none.
    pub(crate) session: u64,
    /// Number of sessions that it has ended: tells a repeated `Hello` from a new one.
    pub(super) incarnation: u64,
    pub(super) lease_ns: u64,
    /// By command.
    pub(super) running: BTreeMap<u32, Process>,
    pub(super) prepared: Prepared<u32, Start>,
    pub(super) untold: Vec<Ended>,
    pub(crate) stalled: bool,
    /// What came while it stalled: orders, and ends of processes.
    pub(super) inbox: VecDeque<Happening>,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) life: u64,
    pub(super) task: u32,
    pub(super) attempt: u32,
    pub(super) outcome: ActionOutcome,
    pub(super) content: Option<u64>,
    /// Where its file lies in the end.
    pub(super) target: u32,
    /// When it has ended well, a prepared command begins in its place.
    pub(super) frees_core: bool,
    /// Cores that its action has on this node.
    pub(super) cores: u32,
    /// It ends only when it is killed.
    pub(super) is_deaf: bool,
    /// It has come to its end, and the agent stalls and does not know yet.
    pub(super) is_over: bool,
}

impl Agent {
    pub(crate) fn new() -> Self {
        Self {
            up: true,
            starts: 0,
            disk_kept: true,
            session: 0,
            incarnation: 0,
            lease_ns: 0,
            running: BTreeMap::new(),
            prepared: Prepared::default(),
            untold: Vec::new(),
            stalled: false,
            inbox: VecDeque::new(),
        }
    }
}
