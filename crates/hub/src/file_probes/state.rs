//! File probes that nodes have not answered.

use std::collections::BTreeMap;

use rakuda_agent::inspector::Inspector;
use rakuda_agent::{operations, residency};
use rakuda_core::files::Search;
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::cluster::Operations;
use rakuda_proto::journal::FileIdentity;

use crate::staging::HeldFile;

/// What a node is asked about files, or about itself beside them.
#[derive(Debug)]
pub(super) enum FileProbe {
    /// What the target is after an action that ended well, and what is beside it.
    Target { id: TaskId, searches: Vec<Search> },
    /// That nothing is left of an attempt that failed, before the next one.
    Left { id: TaskId },
    /// What time it is where the first command of an attempt is about to start.
    Time { id: TaskId, number: u32 },
    /// Whether the inputs are as they were vouched for.
    Visibility { id: TaskId, number: u32, vouched: Vec<(Text, FileIdentity)> },
    /// Whether the node is there: it answers, or is lost.
    Life,
    /// Which of these files a node that has just come still has.
    Holdings { files: Vec<HeldFile> },
    /// What of the inputs is in memory.
    Residency { id: TaskId, number: u32, inputs: Vec<TaskId> },
    /// What of the files that tasks there have used last is in memory.
    PageCache,
}

/// What a node is to be asked when an action has ended well.
#[derive(Debug)]
pub(crate) struct TargetLook {
    pub(super) node: NodeId,
    /// The target, as it is called there.
    pub(super) path: Text,
    /// What is looked for beside it.
    pub(super) searches: Vec<Search>,
    /// When the attempt's first command began, by that node's clock; `None` if none ran there.
    pub(super) since_ns: Option<i64>,
}

/// Probes that have no answer yet.
#[derive(Debug)]
pub(crate) struct FileProbes {
    /// Of the machine of the hub.
    pub(super) inspector: Inspector,
    /// Whether it can tell what is in memory.
    pub(super) own_residency: bool,
    pub(super) open: BTreeMap<u32, (NodeId, FileProbe)>,
    pub(super) next: u32,
    /// Metadata calls that agents elsewhere have made.
    pub(super) operations: Operations,
}

impl FileProbes {
    pub fn new(inspector: Inspector) -> Self {
        let own_residency = residency::is_known();
        Self {
            inspector,
            own_residency,
            open: BTreeMap::new(),
            next: 0,
            operations: Operations::default(),
        }
    }

    /// Whether all have been answered.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The answer about the target of an attempt is awaited no longer; what was looked for beside it, if one was.
    pub(crate) fn forget_target(&mut self, id: TaskId) -> Option<Vec<Search>> {
        let is_it =
            |probe: &FileProbe| matches!(probe, FileProbe::Target { id: of, .. } if *of == id);
        let number =
            self.open.iter().find(|(_, (_, probe))| is_it(probe)).map(|(number, _)| *number)?;
        match self.open.remove(&number) {
            Some((_, FileProbe::Target { searches, .. })) => Some(searches),
            _ => None,
        }
    }

    /// Metadata calls that this process and agents elsewhere have made.
    pub fn operations(&self) -> Operations {
        let mut all = operations::total();
        all += self.operations;
        all
    }
}
