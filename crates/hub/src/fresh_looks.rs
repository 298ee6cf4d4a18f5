//! What targets were just seen to be, so that an attempt which begins at once need not look again
//! at what its target was before it.
//!
//! The scheduler decides about a task by how its target is, and often starts it in the same moment. What was seen
//! counts until an action of the run has ended, which may have changed any file, and no longer than [`FRESH_NS`]:
//! another program may have changed it, too. Pure; it looks at nothing.

use std::collections::BTreeMap;

use rakuda_core::TaskId;
use rakuda_proto::journal::FileIdentity;

/// Time for which a look counts, ns: what is done in the same moment, and no more. A file that another program makes
/// meanwhile is taken for the attempt's.
const FRESH_NS: u64 = 100_000_000;
/// Maximum number of looks that are kept; what is looked at in bulk are many more files than tasks that start at once.
const KEPT_MAX: usize = 10_000;

/// What a look has found; `None`: no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look(pub Option<FileIdentity>);

/// What the last looks at targets have found.
#[derive(Debug, Default)]
pub(crate) struct FreshLooks {
    /// When each target was looked at, ns, and what was seen.
    seen: BTreeMap<TaskId, (u64, Option<FileIdentity>)>,
}

impl FreshLooks {
    /// Notes what a look at a target has found.
    pub fn note(&mut self, id: TaskId, now_ns: u64, identity: Option<FileIdentity>) {
        if self.seen.len() < KEPT_MAX {
            self.seen.insert(id, (now_ns, identity));
        }
    }

    /// An action has ended: what was seen before says nothing any more.
    pub fn on_action_ended(&mut self) {
        self.seen.clear();
    }

    /// What the target of a task is now; `None` if it has to be looked at.
    pub fn take(&mut self, id: TaskId, now_ns: u64) -> Option<Look> {
        let (seen_ns, identity) = self.seen.remove(&id)?;
        (now_ns.saturating_sub(seen_ns) <= FRESH_NS).then_some(Look(identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIdentity = FileIdentity { modified_ns: 1, changed_ns: 2, bytes: 3, inode: 4 };

    #[test]
    fn a_look_counts_once_and_until_an_action_has_ended() {
        let mut looks = FreshLooks::default();
        looks.note(TaskId(1), 10, Some(FILE));
        looks.note(TaskId(2), 10, None);
        assert_eq!(looks.take(TaskId(1), 20), Some(Look(Some(FILE))));
        assert_eq!(looks.take(TaskId(1), 20), None, "a second attempt looks itself");
        looks.on_action_ended();
        assert_eq!(looks.take(TaskId(2), 20), None);
    }

    #[test]
    fn a_look_counts_for_the_time_that_is_stated() {
        let mut looks = FreshLooks::default();
        for (id, later_ns, found) in [(1, FRESH_NS, Some(Look(None))), (2, FRESH_NS + 1, None)] {
            looks.note(TaskId(id), 10, None);
            assert_eq!(looks.take(TaskId(id), 10 + later_ns), found);
        }
    }

    #[test]
    fn no_more_looks_are_kept_than_stated() {
        let mut looks = FreshLooks::default();
        (0..=10_000).for_each(|id| looks.note(TaskId(id), 1, None));
        assert_eq!((looks.seen.len(), looks.take(TaskId(10_000), 1)), (KEPT_MAX, None));
    }
}
