//! What the hub knows of where files can be read.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::{HostId, KnownPlaces, NodeId, TaskId};

/// The part, and what is held against it.
#[derive(Debug)]
pub(crate) struct HubReach {
    /// Where the hub takes files to be.
    pub(crate) places: KnownPlaces<HostId, ()>,
    /// The round under way, and when it, or the last one, began.
    pub(super) round: Option<u32>,
    pub(super) asked_ns: u64,
    /// Files of which users have had a warning, and the scheduler has not heard.
    pub(super) warned: BTreeSet<TaskId>,
    /// Failures that wait.
    pub(crate) held: BTreeSet<TaskId>,
    /// How often the failures of tasks were uncharged.
    pub(crate) uncharged: BTreeMap<TaskId, u32>,
    /// Tasks of which a failure over a server counted, within the limits.
    pub(crate) limited: BTreeSet<TaskId>,
    /// Inputs that were waited for in vain.
    pub(crate) given_up: BTreeSet<TaskId>,
    /// When a round last had no answer.
    pub(crate) unanswered_ns: Option<u64>,
    /// When the hub began.
    pub(crate) started_ns: u64,
    /// When nodes first came to this hub.
    pub(crate) came_ns: BTreeMap<u32, u64>,
    /// When nodes were lost that have not come again.
    pub(crate) lost_ns: BTreeMap<u32, u64>,
}

impl Default for HubReach {
    fn default() -> Self {
        Self::new(0)
    }
}

impl HubReach {
    pub(crate) fn new(started_ns: u64) -> Self {
        Self {
            places: KnownPlaces::default(),
            round: None,
            asked_ns: started_ns,
            warned: BTreeSet::new(),
            held: BTreeSet::new(),
            uncharged: BTreeMap::new(),
            limited: BTreeSet::new(),
            given_up: BTreeSet::new(),
            unanswered_ns: None,
            started_ns,
            came_ns: BTreeMap::new(),
            lost_ns: BTreeMap::new(),
        }
    }

    /// The file of a task that begins is at no place.
    pub(crate) fn forget(&mut self, id: TaskId) {
        self.places.forget(id);
    }

    pub(crate) fn set_made(&mut self, id: TaskId, node: NodeId) {
        self.places.set_made(id, node, ());
    }
}
