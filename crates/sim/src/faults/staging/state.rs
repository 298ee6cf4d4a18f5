//! What the hub knows of files on nodes, beside what the stager decides.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rakuda_core::stager::{
    Earlier, Expected, FileState, MoveFailure, StageOut, StageOutRules, Stager, StagerEffect,
};
use rakuda_core::{NodeId, TaskId};

/// One state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) modified_ns: u64,
    pub(crate) bytes: u64,
}

impl FileState for Version {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self == other
    }

    fn supersedes(&self, earlier: &Self) -> bool {
        self != earlier && self.modified_ns >= earlier.modified_ns
    }
}

/// What happens between nodes, over data links.
#[derive(Clone, Debug)]
pub(crate) enum DataHappening {
    /// The source has handed out all of a file. `turn` is that of the transfer; an earlier one no longer counts.
    Passed { life: u64, transfer: u32, turn: u32 },
    /// The destination gives a file its name, whether anything still waits for it or not.
    Placed { life: u64, transfer: u32, turn: u32, arriving: Arriving },
    /// The hub learns the result of a transfer.
    Moved { life: u64, transfer: u32, result: Result<(), MoveFailure> },
    /// Copies are to be removed; tried again until then.
    Remove { life: u64, removal: Removal, until_ns: u64 },
}

/// A file that a node has received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    pub(crate) file: u32,
    pub(crate) version: Version,
    pub(crate) content: Option<u64>,
    pub(crate) to: u32,
    /// The start of its machine: what has not got its name goes with it.
    pub(crate) start: u32,
}

/// Copies that a node is to remove.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) number: u32,
    pub(crate) node: u32,
    pub(crate) files: Vec<(TaskId, Version)>,
}

/// A transfer that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) file: u32,
    pub(crate) version: Version,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) turn: u32,
    pub(crate) tries: u32,
}

/// The data link of a machine, and its disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataLink {
    pub(crate) cut_until_ns: u64,
    pub(crate) full_until_ns: u64,
}

/// What is noted for later hubs: a node has a file, or a copy of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceNote {
    pub(crate) file: u32,
    pub(crate) node: u32,
    pub(crate) version: Version,
    pub(crate) copy: bool,
}

/// The hub's books of files, and what is held against them.
#[derive(Debug)]
pub(crate) struct HubStaging {
    pub(crate) stager: Stager<Version>,
    /// Effects of the stager that are not done yet.
    pub(crate) effects: VecDeque<StagerEffect<Version>>,
    /// These effects are being performed.
    pub(crate) performs: bool,
    pub(crate) moves: BTreeMap<u32, Moving>,
    pub(crate) removals: BTreeSet<u32>,
    pub(crate) stage_out: StageOut<()>,
    /// What the workflow is for: the invocation asks for it, and at its end it is at home.
    pub(crate) wanted: BTreeSet<u32>,
    pub(crate) earlier: Earlier<u32, u32, Version>,
    /// Files that nodes were asked about and have not answered.
    pub(crate) asked: BTreeMap<u32, Vec<Expected<u32, Version>>>,
    /// Files that could not be staged in there for a fault of the data links, or of a disk.
    pub(crate) tainted: BTreeSet<(u32, u32)>,
    /// Number of attempts of a task that came to nothing for such a fault, its own or one of its gang, with the last of
    /// them; and tasks with too many of these.
    pub(crate) charges: BTreeMap<u32, (u32, u32)>,
    pub(crate) limited: BTreeSet<TaskId>,
}

impl HubStaging {
    pub(crate) fn new(home: u32) -> Self {
        Self {
            stager: Stager::new(NodeId(home)),
            effects: VecDeque::new(),
            performs: false,
            moves: BTreeMap::new(),
            removals: BTreeSet::new(),
            stage_out: StageOut::new(NodeId(home), StageOutRules::default()),
            wanted: BTreeSet::new(),
            earlier: Earlier::default(),
            asked: BTreeMap::new(),
            tainted: BTreeSet::new(),
            charges: BTreeMap::new(),
            limited: BTreeSet::new(),
        }
    }
}
