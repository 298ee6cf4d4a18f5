//! How much of the run's files is in the memory of each node (docs/design/information.md, Values of a run's nodes):
//! which files the hub asks about, and when.
//!
//! Bounded: for each node the files that its tasks have read or made last, [`FILES_MAX`] at most. The hub asks nothing
//! before a user wants values of nodes. How a file is looked at is the agent's business.

use std::collections::{BTreeMap, VecDeque};

use rakuda_agent::residency::FILES_MAX;
use rakuda_core::{NodeId, TaskId, Time};

/// Interval between two questions to a node whose tasks have used other files since, ns.
const CHANGED_NS: u64 = 1_000_000_000;
/// Interval between two questions to a node whose tasks have used the same files, ns: they may have left its memory.
const SAME_NS: u64 = 10_000_000_000;

/// The files that one node has used.
#[derive(Debug, Default)]
struct Used {
    /// Files by their tasks, the last used at the end; none twice.
    files: VecDeque<TaskId>,
    /// They are not those of the last question.
    is_changed: bool,
    /// When the hub asked last; `None` if it never did.
    asked: Option<Time>,
    /// The answer has not come yet.
    is_open: bool,
}

/// The files that each node has used last, and when it was asked about them.
#[derive(Debug, Default)]
pub(crate) struct PageCaches(BTreeMap<NodeId, Used>);

impl PageCaches {
    /// Notes files that a task on the node reads or has made.
    pub fn note(&mut self, node: NodeId, files: impl IntoIterator<Item = TaskId>) {
        let mut files = files.into_iter().take(FILES_MAX).peekable();
        if files.peek().is_none() {
            return;
        }
        let used = self.0.entry(node).or_default();
        for file in files {
            if let Some(place) = used.files.iter().position(|it| *it == file) {
                used.files.remove(place);
            } else if used.files.len() == FILES_MAX {
                used.files.pop_front();
            }
            used.files.push_back(file);
        }
        used.is_changed = true;
    }

    /// The files that a node is to be asked about now; `None` if it is not to be asked.
    pub fn due(&mut self, node: NodeId, now: Time) -> Option<Vec<TaskId>> {
        let used = self.0.get_mut(&node)?;
        let wait_ns = if used.is_changed { CHANGED_NS } else { SAME_NS };
        let is_due = used.asked.is_none_or(|asked| now.0.saturating_sub(asked.0) >= wait_ns);
        if used.is_open || !is_due {
            return None;
        }
        used.asked = Some(now);
        used.is_changed = false;
        used.is_open = true;
        Some(used.files.iter().copied().collect())
    }

    /// The node has answered, or never will.
    pub fn answered(&mut self, node: NodeId) {
        if let Some(used) = self.0.get_mut(&node) {
            used.is_open = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);
    const S: u64 = 1_000_000_000;

    fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<TaskId> {
        numbers.into_iter().map(TaskId).collect()
    }

    #[test]
    fn the_files_that_were_used_last_are_asked_about_and_no_more_than_the_most() {
        let most = u32::try_from(FILES_MAX).unwrap();
        let mut caches = PageCaches::default();
        assert_eq!(caches.due(NODE, Time(0)), None, "nothing was used there");
        caches.note(NODE, ids(0..most));
        caches.note(NODE, ids([0, most]));
        let expected = ids((2..most).chain([0, most]));
        assert_eq!(caches.due(NODE, Time(0)), Some(expected));
        caches.note(NODE, ids(1000..2000));
        caches.answered(NODE);
        assert_eq!(caches.due(NODE, Time(S)).map(|files| files.len()), Some(FILES_MAX));
    }

    #[test]
    fn a_node_is_asked_each_second_while_files_change_else_each_ten() {
        let mut caches = PageCaches::default();
        caches.note(NODE, ids([1]));
        let is_due = |caches: &mut PageCaches, seconds: u64| {
            let is_due = caches.due(NODE, Time(seconds * S)).is_some();
            caches.answered(NODE);
            is_due
        };
        assert!(is_due(&mut caches, 5));
        assert!(!is_due(&mut caches, 14) && is_due(&mut caches, 15));
        caches.note(NODE, ids([1]));
        assert!(is_due(&mut caches, 16));
        assert!(!is_due(&mut caches, 17));
        assert!(caches.due(NODE, Time(30 * S)).is_some());
        caches.note(NODE, ids([2]));
        assert!(caches.due(NODE, Time(99 * S)).is_none(), "the last answer is not there yet");
    }
}
