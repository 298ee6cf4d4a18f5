//! What the hub keeps of gangs: targets before all of one have ended, and why one cannot begin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_core::{NodeId, TaskId};
use rakuda_proto::journal::FileIdentity;

/// Why a gang cannot begin.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) reason: String,
    /// Slots that it takes and slots that there are, where these are too few or do not fit.
    pub(super) slots: Option<(u64, u64)>,
}

/// Targets of tasks that have ended well, and whose gang has not. Each counts as unfinished in the record meanwhile.
#[derive(Debug, Default)]
pub(crate) struct GangTargets(pub(super) BTreeMap<TaskId, GangTarget>);

/// One of them.
#[derive(Debug)]
pub(super) struct GangTarget {
    pub(super) path: PathBuf,
    /// What was there before the first attempt that has made it.
    pub(super) before: Option<FileIdentity>,
    /// Where it was made, if nodes have folders of their own.
    pub(super) node: Option<NodeId>,
}

impl GangTargets {
    pub fn contains(&self, id: TaskId) -> bool {
        self.0.contains_key(&id)
    }
}
