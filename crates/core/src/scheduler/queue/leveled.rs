//! `lifo_hlfet`: last in, first out, then highest level first (*highest level first with estimated
//! times*; Adam, Chandy, Dickson 1974; levels are the upward ranks of HEFT, Topcuoglu, Hariri, Wu
//! 2002, without the cost of communication).
//!
//! As long as the work that is left takes all cores several times as long as the longest way, any
//! order leaves time for that way, and what has just been written is read while it is in memory.
//! After that the longest way decides. Levels alone take a workflow layer by layer and lose what is
//! in memory (copyfile took 15 % longer); the point where one way is as long as all work left was
//! too late (WfCommons' Montage took 27 % longer). Knows no times: the owner files all tasks anew
//! when levels change.

use super::entry::Entry;
use crate::ids::TaskId;
use crate::scheduler::level::Levels;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The longest way goes first once it is more than this part, 1/N, of the time that all cores need for what is left.
const WAY_PARTS: u128 = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct LifoHlfet {
    /// Level, mark, task.
    by_level: BTreeSet<(u64, u64, TaskId)>,
    /// Mark, task.
    by_age: BTreeSet<(u64, TaskId)>,
}

impl LifoHlfet {
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.by_age.len()).expect("32-bit numbers")
    }

    pub(super) fn push(&mut self, entry: Entry, level: u64) {
        self.by_level.insert((level, entry.mark, entry.id));
        self.by_age.insert((entry.mark, entry.id));
    }

    pub(super) fn forget(&mut self, entry: Entry, level: u64) {
        let was_there = self.by_level.remove(&(level, entry.mark, entry.id));
        assert!(was_there, "a queued task is filed by its level");
        self.by_age.remove(&(entry.mark, entry.id));
    }

    pub(super) fn choose(&self, levels: &Levels, cores_all: u64) -> Option<TaskId> {
        let &(level, _, highest) = self.by_level.last()?;
        let way_ns = u128::from(level) * u128::from(cores_all);
        if way_ns.saturating_mul(WAY_PARTS) > levels.work_ns() {
            return Some(highest);
        }
        self.by_age.last().map(|(_, id)| *id)
    }

    pub(super) fn tasks(&self, tasks: &mut Vec<TaskId>) {
        tasks.extend(self.by_age.iter().map(|(_, id)| *id));
    }
}
