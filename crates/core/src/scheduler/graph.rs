//! Tasks and the edges between them, in two flat arenas.
//!
//! An edge stands in two linked lists: its dependent's prerequisites and its prerequisite's
//! dependents. 16 bytes an edge, no allocation per task. Knows nothing of states; walks over more
//! than one edge are the callers', with worklists, never by recursion.

use crate::ids::{Id, IdVec, TaskId};
use crate::scheduler::task::Task;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// No edge.
const END: u32 = u32::MAX;
/// In `Edge::dependent`: the prerequisite is only waited for.
const ORDER_ONLY: u32 = 1 << 31;

/// First and last edge of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeList {
    first: u32,
    last: u32,
}

impl EdgeList {
    pub(crate) const EMPTY: Self = Self { first: END, last: END };
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    prerequisite: u32,
    /// The number of the dependent, and `ORDER_ONLY`.
    dependent: u32,
    /// The next edge of the same dependent.
    next_prerequisite: u32,
    /// The next edge of the same prerequisite.
    next_dependent: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) tasks: IdVec<TaskId, Task>,
    edges: Vec<Edge>,
    /// Bytes that are declared to belong to the files of some tasks.
    secondary: BTreeMap<TaskId, u64>,
}

impl Graph {
    pub(crate) fn set_secondary_bytes(&mut self, id: TaskId, bytes: u64) {
        self.secondary.insert(id, bytes);
    }

    pub(crate) fn secondary_bytes(&self, id: TaskId) -> u64 {
        self.secondary.get(&id).copied().unwrap_or(0)
    }

    /// Adds an edge at the end of both lists. The same two tasks may have several.
    pub(crate) fn connect(&mut self, prerequisite: TaskId, dependent: TaskId, order_only: bool) {
        assert!(prerequisite != dependent, "a task is its own prerequisite");
        assert!(dependent.0 < ORDER_ONLY, "more than 2^31 tasks");
        let edge = u32::try_from(self.edges.len()).expect("more than 2^32 edges");
        assert!(edge != END, "more than 2^32 edges");
        self.edges.push(Edge {
            prerequisite: prerequisite.0,
            dependent: dependent.0 | if order_only { ORDER_ONLY } else { 0 },
            next_prerequisite: END,
            next_dependent: END,
        });
        let list = &mut self.tasks[dependent].prerequisites;
        let last = core::mem::replace(&mut list.last, edge);
        if last == END {
            list.first = edge;
        } else {
            self.edges[last as usize].next_prerequisite = edge;
        }
        let list = &mut self.tasks[prerequisite].dependents;
        let last = core::mem::replace(&mut list.last, edge);
        if last == END {
            list.first = edge;
        } else {
            self.edges[last as usize].next_dependent = edge;
        }
    }

    /// The first prerequisite, to walk on with [`Self::prerequisite_at`] while tasks change.
    pub(crate) fn first_prerequisite(&self, id: TaskId) -> Cursor {
        Cursor(self.tasks[id].prerequisites.first)
    }

    pub(crate) fn first_dependent(&self, id: TaskId) -> Cursor {
        Cursor(self.tasks[id].dependents.first)
    }

    /// The prerequisite at `cursor`, which moves on.
    pub(crate) fn prerequisite_at(&self, cursor: &mut Cursor) -> Option<Prerequisite> {
        let edge = self.edges.get(cursor.0 as usize)?;
        cursor.0 = edge.next_prerequisite;
        Some(Prerequisite {
            id: TaskId(edge.prerequisite),
            order_only: edge.dependent & ORDER_ONLY != 0,
        })
    }

    /// The dependent at `cursor`, which moves on.
    pub(crate) fn dependent_at(&self, cursor: &mut Cursor) -> Option<TaskId> {
        let edge = self.edges.get(cursor.0 as usize)?;
        cursor.0 = edge.next_dependent;
        Some(TaskId(edge.dependent & !ORDER_ONLY))
    }

    /// All prerequisites in the order in which they were given.
    pub(crate) fn prerequisites(&self, id: TaskId) -> impl Iterator<Item = Prerequisite> {
        let mut cursor = self.first_prerequisite(id);
        core::iter::from_fn(move || self.prerequisite_at(&mut cursor))
    }

    /// All dependents in the order in which they were given.
    pub(crate) fn dependents(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        let mut cursor = self.first_dependent(id);
        core::iter::from_fn(move || self.dependent_at(&mut cursor))
    }

    /// How many edges to `id`'s prerequisites end at a task that is not settled, and whether one of them failed.
    pub(crate) fn unsettled_prerequisites(&self, id: TaskId) -> (u32, bool) {
        let (mut missing, mut failed) = (0, false);
        for prerequisite in self.prerequisites(id) {
            let task = &self.tasks[prerequisite.id];
            missing += u32::from(!task.is_settled());
            failed |= task.has_failed();
        }
        (missing, failed)
    }

    /// The position of the task that the next definition gets.
    pub(crate) fn end(&self) -> TaskId {
        TaskId::from_index(self.tasks.len())
    }
}

/// A place in a list of edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor(u32);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Prerequisite {
    pub(crate) id: TaskId,
    /// It is waited for, but counts nothing in rake's rule.
    pub(crate) order_only: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskKind;
    use crate::ids::RequirementId;

    #[test]
    fn both_lists_keep_the_order_of_the_edges() {
        let mut graph = Graph::default();
        for id in 0..4 {
            let task = Task::new(TaskKind::Plain, true, false, RequirementId(0));
            graph.tasks.push(TaskId(id), task);
        }
        graph.connect(TaskId(1), TaskId(3), false);
        graph.connect(TaskId(0), TaskId(3), true);
        graph.connect(TaskId(1), TaskId(2), false);
        let given: Vec<_> =
            graph.prerequisites(TaskId(3)).map(|p| (p.id.0, p.order_only)).collect();
        assert_eq!(given, [(1, false), (0, true)]);
        assert_eq!(graph.dependents(TaskId(1)).collect::<Vec<_>>(), [TaskId(3), TaskId(2)]);
        assert_eq!(graph.unsettled_prerequisites(TaskId(3)), (2, false));
    }

    #[test]
    fn an_edge_takes_16_bytes() {
        assert_eq!(size_of::<Edge>(), 16);
    }
}
