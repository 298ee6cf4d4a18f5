//! Sets of tasks that streams join: who of a set has been let in, and who is still to be.
//!
//! No task of a set ends before all of them have begun. If two sets were let in task by task, each
//! could have room on one node and wait for it on another, for ever. So one set at a time, over all
//! nodes: from when the first of its tasks is let in to when none is awaited any more, those that
//! are come before all others, and no other set begins to be let in. Knows neither files nor room.

use alloc::collections::{BTreeMap, BTreeSet};

use super::readers::Reader;
use crate::ids::{GangId, NodeId, TaskId};

/// A set of which a task has been let in.
#[derive(Debug, Default)]
struct Begun {
    /// Those that have been let in, each with its node: never none.
    inside: BTreeMap<TaskId, NodeId>,
    /// Those that are still to be let in, or once more.
    awaited: BTreeSet<TaskId>,
}

/// The sets that streams join, as far as their tasks have asked for room.
#[derive(Debug, Default)]
pub(super) struct Sets {
    begun: BTreeMap<GangId, Begun>,
    /// Others than before may come next.
    has_changed: bool,
}

impl Sets {
    /// Whether a task is let in before others.
    pub fn is_awaited(&self, id: TaskId) -> bool {
        self.begun.values().any(|set| set.awaited.contains(&id))
    }

    /// Whether some task is.
    pub fn is_any_awaited(&self) -> bool {
        self.begun.values().any(|set| !set.awaited.is_empty())
    }

    /// Whether a reader waits until all of another set have been let in.
    pub fn holds_back(&self, reader: &Reader) -> bool {
        reader.gang.is_some_and(|gang| !self.begun.contains_key(&gang)) && self.is_any_awaited()
    }

    /// Those of a set that have been let in on a node.
    pub fn inside(&self, gang: Option<GangId>, node: NodeId) -> impl Iterator<Item = TaskId> {
        let set = gang.and_then(|gang| self.begun.get(&gang));
        let inside = set.into_iter().flat_map(|set| &set.inside);
        inside.filter(move |(_, at)| **at == node).map(|(id, _)| *id)
    }

    /// One asks for room: once its set has begun, it is awaited until it has some.
    pub fn asks(&mut self, reader: &Reader) {
        if let Some(set) = reader.gang.and_then(|gang| self.begun.get_mut(&gang))
            && !set.inside.contains_key(&reader.id)
        {
            set.awaited.insert(reader.id);
        }
    }

    /// One has room. `tasks`: all of its set.
    pub fn let_in(&mut self, reader: &Reader, tasks: &[TaskId]) {
        let Some(gang) = reader.gang else { return };
        let is_new = !self.begun.contains_key(&gang);
        let set = self.begun.entry(gang).or_default();
        if is_new {
            set.awaited.extend(tasks);
        }
        set.inside.insert(reader.id, reader.node);
        let was_awaited = set.awaited.remove(&reader.id);
        self.has_changed |= is_new || was_awaited && set.awaited.is_empty();
    }

    /// One that had room is to ask for it once more.
    pub fn waits(&mut self, reader: &Reader) {
        if let Some(set) = reader.gang.and_then(|gang| self.begun.get_mut(&gang)) {
            set.awaited.insert(reader.id);
        }
    }

    /// One no longer has room.
    pub fn has_none(&mut self, id: TaskId) {
        self.change(|set| {
            set.inside.remove(&id);
        });
    }

    /// One neither reads nor waits.
    pub fn leaves(&mut self, id: TaskId) {
        self.change(|set| {
            set.inside.remove(&id);
            set.awaited.remove(&id);
        });
    }

    /// A node is gone, and with it all that ran there. Each of them leaves.
    pub fn lose(&mut self, node: NodeId) {
        self.change(|set| set.inside.retain(|_, at| *at != node));
    }

    /// A set of which nobody is inside holds nothing, and may begin anew.
    fn change(&mut self, change: impl Fn(&mut Begun)) {
        let has_changed = &mut self.has_changed;
        self.begun.retain(|_, set| {
            let was_awaited = !set.awaited.is_empty();
            change(set);
            let stays = !set.inside.is_empty();
            *has_changed |= was_awaited && (set.awaited.is_empty() || !stays);
            stays
        });
    }

    /// Whether others may come next than when this was asked last.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.has_changed)
    }
}
