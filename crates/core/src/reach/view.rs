//! What the part sees of others: the scheduler, and what the shell knows of where files are. Read only.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::event::TaskKind;
use crate::fact::Places;
use crate::ids::{NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::TaskState;

/// What the shell knows of where files are.
pub trait FilePlaces {
    /// The nodes that hold a task's file.
    fn places_of(&self, id: TaskId) -> Places;

    /// The files of which something is known, in an order that equal runs have, each once.
    fn known(&self) -> impl Iterator<Item = TaskId>;
}

/// What the part may look at while it decides.
#[derive(Debug)]
pub struct ReachView<'a, P> {
    /// The scheduler, as it is now.
    pub scheduler: &'a Scheduler,
    /// Where files are, as far as is known now.
    pub places: &'a P,
}

impl<P: FilePlaces> ReachView<'_, P> {
    /// A file whose bytes some server keeps. One without bytes is read without it.
    pub(super) fn is_kept(&self, id: TaskId) -> bool {
        let task = self.scheduler.task(id);
        task.is_some_and(|task| task.kind == TaskKind::File && task.bytes > 0)
    }

    /// Whether an action that makes a file runs.
    pub(super) fn is_being_made(&self, id: TaskId) -> bool {
        let task = self.scheduler.task(id);
        task.is_some_and(|task| matches!(task.state, TaskState::Running { .. }))
    }

    /// Whether tasks wait for a file that nothing makes.
    pub(super) fn is_waited_for(&self, id: TaskId) -> bool {
        self.scheduler.task(id).is_some_and(|task| task.state == TaskState::Lost)
    }

    /// Whether a node that is there could run what makes a file.
    pub(super) fn can_be_made(&self, id: TaskId) -> bool {
        let task = self.scheduler.task(id);
        task.is_some_and(|task| self.scheduler.fits_some_node(task.requirement))
    }

    /// Files with bytes that lie on `node` and on no other.
    pub(super) fn kept_only_on(&self, node: NodeId) -> impl Iterator<Item = TaskId> {
        let only = Places::One(node);
        self.places
            .known()
            .filter(move |id| self.places.places_of(*id) == only && self.is_kept(*id))
    }

    /// A file of each node that is known to have some, and one of those of which that is not known.
    pub(super) fn one_of_each_place(&self, files: &[TaskId]) -> Vec<TaskId> {
        let mut places = BTreeSet::new();
        let is_first =
            |id: &&TaskId| places.insert(self.places.places_of(**id).as_slice().to_vec());
        files.iter().filter(is_first).copied().collect()
    }

    /// A file of each of the first `nodes_max` nodes that are found to have one alone, among those that are wanted.
    pub(super) fn one_on_each_node(
        &self,
        nodes_max: usize,
        is_wanted: impl Fn(TaskId) -> bool,
    ) -> Vec<TaskId> {
        let mut nodes = BTreeMap::new();
        for id in self.places.known() {
            if let Places::One(node) = self.places.places_of(id)
                && is_wanted(id)
            {
                nodes.entry(node).or_insert(id);
                if nodes.len() == nodes_max {
                    break;
                }
            }
        }
        nodes.into_values().collect()
    }
}
