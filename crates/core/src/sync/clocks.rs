//! The clocks of all nodes that rounds have workers on: which are asked for the time and when, and what is known of
//! them.
//!
//! The shell makes an exchange, as near the socket as it can; this part decides when. One clock may be known exactly:
//! that of the hub's own machine. It knows no round.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::clock::{ClockFilter, Exchange, Offset};
use super::rounds::RoundEffect;
use crate::ids::NodeId;
use crate::time::Time;

/// Maximum number of exchanges in a burst, one after the other; the best of them counts.
pub const BURST: u32 = 16;
/// Maximum time of a burst with a node whose round trip is known, ns, but for [`BURST_MIN`] exchanges: rounds wait for
/// it.
const BURST_NS: u64 = 40_000_000;
/// Minimum number of exchanges in a burst.
const BURST_MIN: u32 = 2;
/// Maximum age of a burst, ns, at which a clock need not be asked again: two clocks drift apart by 30 us at most
/// meanwhile.
const FRESH_NS: u64 = 50_000_000;
/// The same in the node's shortest round trips: the drift meanwhile is 6 % of its least bound.
const FRESH_ROUND_TRIPS: u64 = 50;

/// What is known of the clocks of nodes.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    nodes: BTreeMap<NodeId, Known>,
}

#[derive(Clone, Debug)]
enum Known {
    /// It is always this far ahead, ns.
    Exactly(i64),
    /// Exchanges measure it.
    Measured(Measured),
}

#[derive(Clone, Debug, Default)]
struct Measured {
    filter: ClockFilter,
    /// Exchanges of the burst under way that have not come back.
    awaited: u32,
    /// When the last burst was over.
    fresh: Option<Time>,
    /// The longest round trips of the burst that is under way or was the last, and of the one before.
    round_trip_ns_max: [i64; 2],
}

impl Clocks {
    /// Sets how far a node's clock is ahead, for good.
    pub fn set_exact(&mut self, node: NodeId, ahead_ns: i64) {
        self.nodes.insert(node, Known::Exactly(ahead_ns));
    }

    /// Asks a node for the time, unless a burst is under way.
    pub fn measure(&mut self, node: NodeId, out: &mut Vec<RoundEffect>) {
        let known = self.nodes.entry(node).or_insert_with(|| Known::Measured(Measured::default()));
        if let Known::Measured(measured) = known
            && measured.awaited == 0
        {
            measured.awaited = measured.burst();
            measured.round_trip_ns_max = [0, measured.round_trip_ns_max[0]];
            out.push(RoundEffect::Measure { node, exchanges: measured.awaited });
        }
    }

    /// An exchange with the node has come back.
    pub fn exchanged(&mut self, now: Time, node: NodeId, exchange: Exchange) {
        let Some(Known::Measured(measured)) = self.nodes.get_mut(&node) else { return };
        measured.filter.add(exchange);
        let longest = &mut measured.round_trip_ns_max[0];
        *longest = exchange.round_trip_ns().max(*longest);
        measured.awaited = measured.awaited.saturating_sub(1);
        if measured.awaited == 0 {
            measured.fresh = Some(now);
        }
    }

    /// The node is gone; what comes after it may have another clock.
    pub fn lose(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Whether a burst is under way.
    pub fn is_asked(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(Known::Measured(Measured { awaited: 1.., .. })))
    }

    /// Whether a burst with the node was over a moment ago, or none is needed. A burst under way may still be waited
    /// for.
    pub fn is_fresh(&self, now: Time, node: NodeId) -> bool {
        match self.nodes.get(&node) {
            Some(Known::Exactly(_)) => true,
            Some(Known::Measured(measured)) => {
                let age_ns_max = FRESH_NS.max(FRESH_ROUND_TRIPS * measured.trip_ns());
                measured.fresh.is_some_and(|fresh| now.0.saturating_sub(fresh.0) <= age_ns_max)
            }
            None => false,
        }
    }

    /// Whether the last burst was over at most `age_ns_max` ago, and none is under way.
    pub fn is_known_since(&self, node: NodeId, now: Time, age_ns_max: u64) -> bool {
        match self.nodes.get(&node) {
            Some(Known::Exactly(_)) => true,
            Some(Known::Measured(measured)) => {
                let is_new = |fresh: Time| now.0.saturating_sub(fresh.0) <= age_ns_max;
                measured.awaited == 0 && measured.fresh.is_some_and(is_new)
            }
            None => false,
        }
    }

    /// How far the node's clock is ahead when the hub's shows `here_ns`; `None` if it is not known.
    pub fn at(&self, node: NodeId, here_ns: i64) -> Option<Offset> {
        match self.nodes.get(&node)? {
            Known::Exactly(ahead_ns) => Some(Offset { ahead_ns: *ahead_ns, bound_ns: 0 }),
            Known::Measured(measured) => measured.filter.at(here_ns),
        }
    }

    /// The longest round trip of its last two bursts: what a message to it may take.
    pub fn round_trip_ns_max(&self, node: NodeId) -> u64 {
        let [last, former] = self.measured(node).map_or([0; 2], |it| it.round_trip_ns_max);
        u64::try_from(last.max(former)).unwrap_or(0)
    }

    /// The exchange with the shortest round trip; `None` if the clock is known exactly.
    pub fn best(&self, node: NodeId) -> Option<&Exchange> {
        self.measured(node)?.filter.best()
    }

    /// How often an exchange with the node contradicted those before it.
    pub fn contradictions(&self, node: NodeId) -> u32 {
        self.measured(node).map_or(0, |measured| measured.filter.contradictions())
    }

    fn measured(&self, node: NodeId) -> Option<&Measured> {
        match self.nodes.get(&node)? {
            Known::Measured(measured) => Some(measured),
            Known::Exactly(_) => None,
        }
    }
}

impl Measured {
    /// The shortest known round trip, ns; 0 if none is known.
    fn trip_ns(&self) -> u64 {
        self.filter.round_trip_ns_min().and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
    }

    /// Number of exchanges of the next burst. Where trips are long an exchange of a second ago bounds the clock almost
    /// as well as a new one, and all that are kept count.
    fn burst(&self) -> u32 {
        let exchanges = BURST_NS.checked_div(self.trip_ns()).unwrap_or(u64::MAX);
        u32::try_from(exchanges).unwrap_or(BURST).clamp(BURST_MIN, BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent_ns: i64) -> Exchange {
        let there_ns = sent_ns + 1_000_005;
        Exchange {
            sent_ns,
            there_received_ns: there_ns,
            there_sent_ns: there_ns,
            received_ns: sent_ns + 10,
        }
    }

    #[test]
    fn a_clock_is_asked_a_burst_at_a_time_and_is_fresh_for_a_moment() {
        let (mut clocks, node, mut out) = (Clocks::default(), NodeId(3), Vec::new());
        clocks.measure(node, &mut out);
        clocks.measure(node, &mut out);
        assert_eq!(out, [RoundEffect::Measure { node, exchanges: BURST }]);
        for number in 0..BURST {
            assert!(clocks.is_asked(node) && !clocks.is_fresh(Time(0), node));
            clocks.exchanged(Time(100), node, exchange(i64::from(number)));
        }
        assert!(!clocks.is_asked(node));
        assert!(clocks.is_fresh(Time(100 + FRESH_NS), node));
        assert!(!clocks.is_fresh(Time(101 + FRESH_NS), node));
        let said = clocks.at(node, 20).unwrap();
        assert!((said.ahead_ns - 1_000_000).abs() <= said.bound_ns && said.bound_ns <= 7);
        clocks.lose(node);
        assert_eq!(clocks.at(node, 20), None);
    }

    #[test]
    fn a_far_node_is_asked_less_often_and_stays_fresh_for_longer() {
        for (trip_ns, expected, fresh_ns) in [
            (100_000, BURST, 50_000_000),
            (5_000_000, 8, 250_000_000),
            (20_000_000, BURST_MIN, 1_000_000_000),
        ] {
            let (mut clocks, node, mut out) = (Clocks::default(), NodeId(3), Vec::new());
            clocks.measure(node, &mut out);
            for _ in 0..BURST {
                let there_ns = trip_ns / 2;
                clocks.exchanged(
                    Time(0),
                    node,
                    Exchange {
                        sent_ns: 0,
                        there_received_ns: there_ns,
                        there_sent_ns: there_ns,
                        received_ns: trip_ns,
                    },
                );
            }
            assert!(
                clocks.is_fresh(Time(fresh_ns), node) && !clocks.is_fresh(Time(fresh_ns + 1), node)
            );
            out.clear();
            clocks.measure(node, &mut out);
            assert_eq!(out, [RoundEffect::Measure { node, exchanges: expected }]);
            assert!(clocks.is_fresh(Time(fresh_ns), node), "no burst has to be waited for");
            assert_eq!(clocks.round_trip_ns_max(node), trip_ns.unsigned_abs());
        }
    }

    #[test]
    fn a_clock_that_is_known_is_not_asked() {
        let (mut clocks, node, mut out) = (Clocks::default(), NodeId(0), Vec::new());
        clocks.set_exact(node, -7);
        clocks.measure(node, &mut out);
        assert_eq!(out, []);
        assert!(clocks.is_fresh(Time(u64::MAX), node));
        assert_eq!(clocks.at(node, 5), Some(Offset { ahead_ns: -7, bound_ns: 0 }));
    }
}
