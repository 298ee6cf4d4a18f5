//! Whose the cores of a node are, and since when: what the run times of attempts are made of (docs/glossary.md).
//!
//! No moment of a core is counted twice, so the run times of all attempts together are never more than cores times
//! time. It hands out nothing: the leases decide which task may have a core.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::ids::TaskId;

/// From when to when, ns since 1970.
pub type Held = (i64, i64);

/// The run time of an attempt that held its cores at these times.
pub fn total_ns(held: &[Held]) -> u64 {
    let lengths = held
        .iter()
        .map(|(from_ns, to_ns)| u64::try_from(to_ns.saturating_sub(*from_ns)).unwrap_or(0));
    lengths.sum()
}

/// The cores of one node.
#[derive(Debug)]
pub(super) struct CoreTime {
    /// Since when how many cores have been free, those that were free longest first.
    free: Vec<(i64, u32)>,
    free_count: u32,
    /// Which task has how many cores, since when. `None`: it goes on, but other tasks still have its cores.
    taken: BTreeMap<TaskId, (u32, Option<i64>)>,
    /// Tasks that go on without cores, in the order in which they get them.
    owed: VecDeque<TaskId>,
}

impl CoreTime {
    pub fn new(cores: u32) -> Self {
        let free = alloc::vec![(i64::MIN, cores)];
        Self { free, free_count: cores, taken: BTreeMap::new(), owed: VecDeque::new() }
    }

    /// Gives an action these cores from now on. One that takes back what it has lent has them when they are free.
    pub fn take(&mut self, id: TaskId, cores: u32, now_ns: i64) {
        let since_ns = (self.owed.is_empty() && self.pop(cores)).then_some(now_ns);
        if since_ns.is_none() {
            self.owed.push_back(id);
        }
        self.taken.insert(id, (cores, since_ns));
    }

    /// Frees the cores of an action; when it had them.
    pub fn give(&mut self, id: TaskId, now_ns: i64) -> Option<Held> {
        let (cores, since_ns) = self.taken.remove(&id)?;
        let Some(since_ns) = since_ns else {
            self.owed.retain(|owed| *owed != id);
            return None;
        };
        self.push(cores, now_ns);
        while let Some(next) = self.owed.front().copied() {
            let wanted = self.taken.get(&next).map_or(0, |(cores, _)| *cores);
            if !self.pop(wanted) {
                break;
            }
            self.owed.pop_front();
            self.taken.insert(next, (wanted, Some(now_ns)));
        }
        Some((since_ns, now_ns.max(since_ns)))
    }

    /// Code ran in the front without a lease: it had a core as far as one was free all the time since.
    pub fn claim(&mut self, (from_ns, to_ns): Held) -> Option<Held> {
        let (free_ns, count) = self.free.first_mut()?;
        let from_ns = from_ns.max(*free_ns);
        if from_ns >= to_ns {
            return None;
        }
        *count -= 1;
        if *count == 0 {
            self.free.remove(0);
        }
        self.free_count -= 1;
        self.push(1, to_ns);
        Some((from_ns, to_ns))
    }

    /// Since when an action has had its cores without a break.
    pub fn held_since_ns(&self, id: TaskId) -> Option<i64> {
        self.taken.get(&id)?.1
    }

    /// Those that became free last go first, so that what was long free can still be claimed.
    fn pop(&mut self, cores: u32) -> bool {
        if cores > self.free_count {
            return false;
        }
        self.free_count -= cores;
        let mut wanted = cores;
        while wanted > 0 {
            let Some((_, count)) = self.free.last_mut() else { break };
            let taken = wanted.min(*count);
            wanted -= taken;
            *count -= taken;
            if *count == 0 {
                self.free.pop();
            }
        }
        true
    }

    fn push(&mut self, cores: u32, since_ns: i64) {
        if cores == 0 {
            // Of a gang with more tasks than slots.
            return;
        }
        self.free_count += cores;
        let place = self.free.partition_point(|(free_ns, _)| *free_ns <= since_ns);
        self.free.insert(place, (since_ns, cores));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_goes_on_has_its_cores_when_they_are_free() {
        let mut cores = CoreTime::new(2);
        cores.take(TaskId(1), 1, 0);
        assert_eq!(cores.give(TaskId(1), 5), Some((0, 5)), "it waits for an invocation");
        cores.take(TaskId(2), 1, 5);
        cores.take(TaskId(3), 1, 5);
        cores.take(TaskId(1), 1, 7);
        assert_eq!(cores.held_since_ns(TaskId(1)), None);
        assert_eq!(cores.give(TaskId(3), 9), Some((5, 9)));
        assert_eq!(cores.held_since_ns(TaskId(1)), Some(9));
        assert_eq!(cores.give(TaskId(1), 10), Some((9, 10)));
        assert_eq!(cores.give(TaskId(2), 11), Some((5, 11)));
    }

    #[test]
    fn one_that_ends_before_its_cores_are_free_never_had_them() {
        let mut cores = CoreTime::new(1);
        cores.take(TaskId(2), 1, 0);
        cores.take(TaskId(1), 1, 1);
        assert_eq!(cores.give(TaskId(1), 2), None);
        assert_eq!(cores.give(TaskId(2), 3), Some((0, 3)));
        assert_eq!(cores.held_since_ns(TaskId(1)), None);
        cores.take(TaskId(4), 1, 4);
        assert_eq!(cores.held_since_ns(TaskId(4)), Some(4), "nothing is owed any more");
    }

    #[test]
    fn code_without_a_lease_claims_no_more_than_what_was_free() {
        let mut cores = CoreTime::new(2);
        cores.take(TaskId(1), 2, 0);
        assert_eq!(cores.claim((1, 2)), None);
        assert_eq!(cores.give(TaskId(1), 10), Some((0, 10)));
        assert_eq!(cores.claim((8, 14)), Some((10, 14)));
        assert_eq!(cores.claim((9, 15)), Some((10, 15)), "the other core");
        assert_eq!(cores.claim((11, 15)), Some((14, 15)));
        assert_eq!(cores.claim((11, 15)), None);
    }
    #[test]
    fn code_claims_the_core_beside_the_one_that_is_taken_and_no_other() {
        let mut cores = CoreTime::new(2);
        cores.take(TaskId(1), 1, 0);
        assert_eq!(cores.claim((1, 2)), Some((1, 2)));
        assert_eq!(cores.claim((1, 2)), None);
        cores.take(TaskId(2), 1, 3);
        assert_eq!(cores.held_since_ns(TaskId(2)), Some(3), "what was claimed is free again");
        cores.take(TaskId(3), 1, 4);
        assert_eq!(cores.held_since_ns(TaskId(3)), None, "both cores are taken");
    }

    #[test]
    fn the_core_that_became_free_last_is_taken_first() {
        let mut cores = CoreTime::new(2);
        cores.take(TaskId(1), 1, 0);
        cores.take(TaskId(2), 1, 0);
        cores.give(TaskId(1), 5);
        cores.give(TaskId(2), 9);
        cores.take(TaskId(3), 1, 10);
        assert_eq!(cores.claim((0, 12)), Some((5, 12)));
    }

    #[test]
    fn an_action_has_all_its_cores_or_waits_for_them() {
        let mut cores = CoreTime::new(3);
        cores.take(TaskId(1), 2, 0);
        cores.take(TaskId(2), 2, 1);
        assert_eq!(cores.held_since_ns(TaskId(2)), None, "one is free");
        cores.take(TaskId(3), 1, 2);
        assert_eq!(cores.held_since_ns(TaskId(3)), None, "it stands behind the other one");
        assert_eq!(cores.give(TaskId(1), 3), Some((0, 3)));
        assert_eq!([2, 3].map(|id| cores.held_since_ns(TaskId(id))), [Some(3), Some(3)]);
    }

    #[test]
    fn tasks_of_a_gang_without_a_core_of_their_own_hold_none() {
        let mut cores = CoreTime::new(1);
        cores.take(TaskId(1), 1, 0);
        cores.take(TaskId(2), 0, 0);
        assert_eq!(cores.give(TaskId(2), 1), Some((0, 1)));
        assert_eq!(cores.claim((1, 2)), None, "the other one has the core");
        assert_eq!(cores.give(TaskId(1), 3), Some((0, 3)));
    }
}
