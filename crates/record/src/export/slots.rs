//! Which core slot of its node each attempt is drawn on: the journal says how many cores an attempt
//! occupied, not which.
//!
//! Greedy: in order of start, each takes the lowest slots that are free. So intervals of one slot
//! never overlap, and no more slots are used than were occupied at once. What has no length takes
//! no slot from others.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Maximum number of slots of one interval. What takes more is drawn on this many.
const SLOTS_OF_ONE_MAX: usize = 1024;
/// Maximum number of slots of all intervals together. Beyond that, each takes one. Only a journal that was made up has
/// more.
const SLOTS_MAX: usize = 1 << 24;

/// What is to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interval {
    /// Beginning, ns.
    pub start_ns: i64,
    /// End, ns, not before the beginning.
    pub end_ns: i64,
    /// Slots that it takes; at least one is given.
    pub width: u32,
}

/// The slots of each interval, from 0, ascending. Intervals must be ordered by start. One that
/// begins when another ends may take its slot.
pub(super) fn allocate(intervals: &[Interval]) -> Vec<Vec<u32>> {
    let mut free: BTreeSet<u32> = BTreeSet::new();
    let mut next = 0;
    let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
    let mut places = Vec::with_capacity(intervals.len());
    let mut left = SLOTS_MAX;
    for interval in intervals {
        while let Some(Reverse((end_ns, slot))) = busy.peek().copied()
            && end_ns <= interval.start_ns
        {
            busy.pop();
            free.insert(slot);
        }
        let mut slots = Vec::new();
        if interval.start_ns == interval.end_ns {
            // It takes no slot away from others.
            if next == 0 {
                next = 1;
                free.insert(0);
            }
            places.push(vec![free.first().copied().unwrap_or(0)]);
            continue;
        }
        let width = (interval.width as usize).min(left).clamp(1, SLOTS_OF_ONE_MAX);
        left = left.saturating_sub(width);
        for _ in 0..width {
            let slot = free.pop_first().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            slots.push(slot);
            busy.push(Reverse((interval.end_ns, slot)));
        }
        slots.sort_unstable();
        places.push(slots);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(intervals: &[(i64, i64, u32)]) -> Vec<Vec<u32>> {
        let intervals: Vec<_> = intervals
            .iter()
            .map(|&(start_ns, end_ns, width)| Interval { start_ns, end_ns, width })
            .collect();
        allocate(&intervals)
    }

    #[test]
    fn the_lowest_free_slots_are_taken() {
        assert_eq!(
            slots(&[(0, 10, 1), (0, 4, 2), (4, 8, 1), (5, 6, 1), (10, 12, 2)]),
            [vec![0], vec![1, 2], vec![1], vec![2], vec![0, 1]]
        );
    }

    #[test]
    fn an_interval_without_length_or_cores_still_has_a_place() {
        assert_eq!(slots(&[(0, 0, 0), (0, 0, 1), (0, 5, 1)]), [vec![0], vec![0], vec![0]]);
    }

    #[test]
    fn slots_never_overlap() {
        let mut seed = 7u64;
        let mut next = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        let mut intervals: Vec<(i64, i64, u32)> = (0..500)
            .map(|_| (next(1000), next(50), next(4)))
            .map(|(start, length, width)| {
                (start.cast_signed(), (start + length).cast_signed(), width as u32)
            })
            .collect();
        intervals.sort_unstable();
        let places = slots(&intervals);
        for (index, (start, _, _)) in intervals.iter().enumerate() {
            for (earlier, (_, end, _)) in intervals[..index].iter().enumerate() {
                if end > start {
                    assert!(places[earlier].iter().all(|slot| !places[index].contains(slot)));
                }
            }
        }
    }
}
