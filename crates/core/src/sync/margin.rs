//! How long before its instant a round is decided: long enough that every worker sees the instant in time, and no
//! longer, since all wait for it.
//!
//! Each worker notes when it saw the instant, so what a round has needed is known afterwards: telling the nodes and
//! waking all workers there. The next one gets twice the most of the last rounds, as far as a first round has that, and
//! at least half of what the last one had: one round alone says little. It knows no worker and no clock.

use alloc::collections::{BTreeMap, VecDeque};

use crate::ids::NodeId;

/// Minimum time before the instant at which a worker's gate must see it, ns; if later, the worker was late, whether it
/// began in time or not.
pub(super) const SEEN_BEFORE_NS: u64 = 1_000_000;
/// Minimum time from the decision to the instant, ns.
pub(super) const MARGIN_NS_MIN: u64 = 2_000_000;
/// Minimum time for a node of which no round is known, ns.
pub(super) const FIRST_NS_MIN: u64 = 10_000_000;
/// Time that each worker adds to that, ns: its node has to wake it up before. On known nodes each worker adds it beyond
/// the number that there were.
pub(super) const FIRST_NS_WORKER: u64 = 100_000;
/// Round trips to the node that are added to that, of the longest.
pub(super) const FIRST_ROUND_TRIPS: u64 = 3;
/// Maximum number of rounds that are remembered of each node: one in which a worker was late counts until then.
const KEPT: usize = 32;

/// What is known of one node when a round is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeNow {
    pub node: NodeId,
    /// The longest round trip of the last questions to it.
    pub round_trip_ns_max: u64,
}

/// What a round has needed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Workers that the round had, on all nodes.
    pub workers: u32,
    /// From the decision until the last worker of the node saw the instant.
    pub needed_ns: u64,
    /// Time from the decision to the instant.
    pub margin_ns: u64,
    /// A worker of the node was late.
    pub is_late: bool,
}

/// What the last rounds have needed, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins {
    nodes: BTreeMap<NodeId, Known>,
}

/// What is known of one node.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The last rounds, the oldest first.
    rounds: VecDeque<Taken>,
    /// What the node wanted for the last of them.
    wanted_ns: u64,
}

impl Margins {
    /// The time from the decision to the instant for a round with this many workers on these nodes.
    pub fn of(&self, workers: u32, nodes: impl IntoIterator<Item = NodeNow>) -> u64 {
        let each = nodes.into_iter().map(|node| self.of_node(workers, node));
        each.max().unwrap_or(0).max(MARGIN_NS_MIN)
    }

    /// Learns from a round that is over and had begun. A worker that was late although it saw the instant in time has
    /// slept too long, perhaps since the wakes of all were too close to the instant. The next round has more time, but
    /// no more than a first round has without its trips, as nothing that is longer than the wakes helps.
    pub fn learn(&mut self, now: NodeNow, taken: Taken) {
        let wakes_ns = FIRST_NS_MIN + FIRST_NS_WORKER * u64::from(taken.workers);
        let late_ns = if taken.is_late { taken.margin_ns.min(wakes_ns) / 2 } else { 0 };
        let needed_ns = taken.needed_ns + late_ns;
        // Neither a link that was cut nor a machine that is far too busy makes all rounds after it wait.
        let needed_ns = needed_ns.min(first_ns(taken.workers, now));
        let wanted_ns = self.of_node(taken.workers, now);
        let known = self.nodes.entry(now.node).or_default();
        known.wanted_ns = wanted_ns;
        known.rounds.push_back(Taken { needed_ns, ..taken });
        if known.rounds.len() > KEPT {
            known.rounds.pop_front();
        }
    }

    /// The node is gone, and what comes after it is another.
    pub fn lose(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    fn of_node(&self, workers: u32, now: NodeNow) -> u64 {
        let needed = |it: &Taken| {
            it.needed_ns + FIRST_NS_WORKER * u64::from(workers.saturating_sub(it.workers))
        };
        let Some(known) = self.nodes.get(&now.node) else { return first_ns(workers, now) };
        let needed_ns = known.rounds.iter().map(needed).max().unwrap_or(0);
        // Twice what was needed is for delays that vary; where they are long that need not be more than a first round
        // has. A busy machine lets workers oversleep however long they were to sleep.
        let enough_ns = first_ns(workers, now).max(SEEN_BEFORE_NS + needed_ns + needed_ns / 4);
        let twice_ns = SEEN_BEFORE_NS + (2 * needed_ns).max(now.round_trip_ns_max);
        twice_ns.max(known.wanted_ns / 2).min(enough_ns)
    }
}

/// The time for a node of which no round is known.
fn first_ns(workers: u32, now: NodeNow) -> u64 {
    FIRST_NS_MIN + FIRST_NS_WORKER * u64::from(workers) + FIRST_ROUND_TRIPS * now.round_trip_ns_max
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const HERE: NodeNow = NodeNow { node: NodeId(0), round_trip_ns_max: 0 };

    /// A round whose last worker saw the instant this long after the decision; whether one was late.
    fn live(margins: &mut Margins, workers: u32, now: NodeNow, needed_ns: u64) -> (u64, bool) {
        let margin_ns = margins.of(workers, [now]);
        let is_late = needed_ns + SEEN_BEFORE_NS > margin_ns;
        margins.learn(now, Taken { workers, needed_ns, margin_ns, is_late });
        (margin_ns, is_late)
    }

    proptest! {
        /// Delays that differ by up to twice never make a worker late, and cost little more than they are before long.
        #[test]
        fn nobody_is_late_where_delays_are_known(
            delay_ns in 0u64..3_000_000,
            parts in prop::collection::vec(0u64..=1_000, 1..200),
        ) {
            let mut margins = Margins::default();
            let mut half_ns = first_ns(8, HERE);
            for part in parts {
                let needed_ns = delay_ns + delay_ns * part / 1_000;
                let (margin_ns, is_late) = live(&mut margins, 8, HERE, needed_ns);
                prop_assert!(!is_late, "{needed_ns} in {margin_ns}");
                half_ns /= 2;
            }
            let most_ns = (SEEN_BEFORE_NS + 4 * delay_ns).max(MARGIN_NS_MIN);
            prop_assert!(margins.of(8, [HERE]) <= most_ns.max(half_ns));
        }

        /// Whatever delays there are: the margin is at least what each of the last rounds has needed, it is longer
        /// after a worker was late unless it was far longer than before a first round, and it stays bounded.
        #[test]
        fn the_margin_grows_at_once_and_never_falls_below_what_was_needed(
            delays in prop::collection::vec((0u64..60_000_000, 1u32..60, prop::bool::ANY), 1..120),
            round_trip_ns_max in 0u64..40_000_000,
        ) {
            let now = NodeNow { round_trip_ns_max, ..HERE };
            let (mut margins, mut last) = (Margins::default(), Vec::new());
            for (delay_ns, workers, overslept) in delays {
                let margin_ns = margins.of(workers, [now]);
                let is_late = overslept || delay_ns + SEEN_BEFORE_NS > margin_ns;
                margins.learn(now, Taken { workers, needed_ns: delay_ns, margin_ns, is_late });
                last.push(delay_ns);
                let next_ns = margins.of(workers, [now]);
                let first_ns = first_ns(workers, now);
                let wakes_ns = FIRST_NS_MIN + FIRST_NS_WORKER * u64::from(workers);
                if is_late {
                    prop_assert!(next_ns > margin_ns.min(wakes_ns), "{margin_ns} then {next_ns}");
                }
                if delay_ns + SEEN_BEFORE_NS > margin_ns {
                    prop_assert!(next_ns > margin_ns.min(first_ns), "{margin_ns} then {next_ns}");
                }
                for needed_ns in last.iter().rev().take(KEPT) {
                    let counts_ns = (*needed_ns).min(FIRST_NS_MIN);
                    prop_assert!(next_ns >= SEEN_BEFORE_NS + counts_ns);
                }
                prop_assert!(next_ns <= SEEN_BEFORE_NS + 2 * (first_ns + 60 * FIRST_NS_WORKER));
            }
        }
    }

    #[test]
    fn a_first_round_has_long_and_those_after_it_what_it_took() {
        let mut margins = Margins::default();
        let far = NodeNow { node: NodeId(1), round_trip_ns_max: 20_000_000 };
        assert_eq!(margins.of(8, [HERE]), 10_800_000);
        assert_eq!(margins.of(8, [HERE, far]), 70_800_000);
        live(&mut margins, 8, HERE, 300_000);
        live(&mut margins, 8, far, 12_000_000);
        // Half of what they had, as they have needed less.
        assert_eq!(margins.of(8, [HERE]), 5_400_000);
        assert_eq!(margins.of(8, [HERE, far]), 35_400_000);
        live(&mut margins, 8, far, 12_000_000);
        for half_ns in [5_400_000, 2_700_000, MARGIN_NS_MIN] {
            assert_eq!(live(&mut margins, 8, HERE, 300_000), (half_ns, false));
        }
        assert_eq!(margins.of(8, [HERE, far]), 25_000_000);
        // Ten workers more than there were may take 1 ms more.
        assert_eq!(margins.of(18, [HERE, far]), 27_000_000);
        margins.lose(NodeId(1));
        assert_eq!(margins.of(8, [HERE, far]), 70_800_000);
    }

    /// A thousand workers were there early in the first round, and not in the second.
    #[test]
    fn one_round_that_needed_little_makes_nobody_late_in_the_next() {
        let mut margins = Margins::default();
        assert_eq!(live(&mut margins, 1_000, HERE, 16_000_000), (110_000_000, false));
        assert_eq!(live(&mut margins, 1_000, HERE, 53_000_000), (55_000_000, false));
        assert_eq!(margins.of(1_000, [HERE]), 107_000_000);
    }

    /// Rounds with a node far away do not lengthen those without it.
    #[test]
    fn what_another_node_wanted_is_nothing_to_this_one() {
        let mut margins = Margins::default();
        for _ in 0..4 {
            let taken =
                Taken { workers: 2, needed_ns: 100_000, margin_ns: 70_000_000, is_late: false };
            margins.learn(HERE, taken);
        }
        assert_eq!(margins.of(2, [HERE]), MARGIN_NS_MIN);
    }

    #[test]
    fn who_sleeps_too_long_lengthens_the_margin_and_is_forgotten_after_many_rounds() {
        let mut margins = Margins::default();
        for _ in 0..4 {
            live(&mut margins, 2, HERE, 100_000);
        }
        let late =
            Taken { workers: 2, needed_ns: 100_000, margin_ns: MARGIN_NS_MIN, is_late: true };
        margins.learn(HERE, late);
        for _ in 1..KEPT {
            assert_eq!(live(&mut margins, 2, HERE, 100_000), (3_200_000, false));
        }
        live(&mut margins, 2, HERE, 100_000);
        assert_eq!(margins.of(2, [HERE]), MARGIN_NS_MIN);
    }
}
