//! When a stream is to change its route: as soon as another one has been cheaper for some time.
//!
//! Knows neither hosts nor what costs what.

use super::MESSAGE_BYTES;
use super::route::PlanCost;
use super::said::Traffic;
use crate::Time;

/// Minimum time for which another route must be cheaper before it is taken, ns.
pub const WATCH_NS: u64 = 5_000_000_000;
/// Maximum number of messages in 1,000 s at which records are taken to be sent one by one; with more, several go at a
/// time.
const APART_PER_1000_S: u64 = 1_000_000;

/// The watch of one stream.
#[derive(Clone, Debug, Default)]
pub struct RouteWatch {
    /// What had gone in at the last look.
    seen: Option<(Time, u64, u64)>,
    /// Since then another route is cheaper.
    since: Option<Time>,
}

impl RouteWatch {
    /// Takes the bytes and records that have gone in so far. Returns what went in since the last look, as traffic;
    /// `None` if too little time has passed.
    pub fn observe(&mut self, now: Time, bytes: u64, records: u64) -> Option<Traffic> {
        let Some((before, old_bytes, old_records)) = self.seen else {
            self.seen = Some((now, bytes, records));
            return None;
        };
        let time = now.0.saturating_sub(before.0);
        if time < WATCH_NS / 5 {
            return None;
        }
        self.seen = Some((now, bytes, records));
        let bytes = bytes.saturating_sub(old_bytes);
        let per = |count: u64, second_ns: u128| {
            u64::try_from(u128::from(count) * second_ns / u128::from(time)).unwrap_or(u64::MAX)
        };
        let bytes_per_s = per(bytes, 1_000_000_000);
        let records = per(records.saturating_sub(old_records), 1_000_000_000_000);
        // Small records that come often are sent together.
        let packed = bytes_per_s.saturating_mul(1_000) / MESSAGE_BYTES;
        let per_1000_s = records.min(packed.max(APART_PER_1000_S)).max(packed.min(1));
        let message_bytes = bytes_per_s.saturating_mul(1_000).checked_div(per_1000_s);
        Some(Traffic {
            bytes_per_s: Some(bytes_per_s),
            per_1000_s: Some(per_1000_s),
            message_bytes: message_bytes.map(|bytes| bytes.max(1)),
            ..Traffic::default()
        })
    }

    /// Whether to change from a route that costs this to the cheapest one.
    pub fn is_due(&mut self, now: Time, held: &PlanCost, best: &PlanCost) -> bool {
        if !best.is_cheaper_by_a_fifth(held) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let is_due = now.0.saturating_sub(since.0) >= WATCH_NS;
        if is_due {
            self.since = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(response: Option<u64>, period_ns: u64) -> PlanCost {
        PlanCost { period_ns, delay_ns: 0, total_ns: 0, response_ns: response }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn another_route_is_taken_when_it_has_been_cheaper_by_a_fifth_for_some_time() {
        let mut watch = RouteWatch::default();
        let (held, best) = (cost(Some(100), 1), cost(Some(79), 1));
        assert!(!watch.is_due(Time(S), &held, &best));
        assert!(!watch.is_due(Time(5 * S), &held, &best));
        // Once it is not, it all begins anew.
        assert!(!watch.is_due(Time(6 * S - 1), &held, &cost(Some(81), 1)));
        assert!(!watch.is_due(Time(6 * S), &held, &best));
        assert!(!watch.is_due(Time(11 * S - 1), &held, &best));
        assert!(watch.is_due(Time(11 * S), &held, &best));
        assert!(!watch.is_due(Time(12 * S), &held, &best));
    }

    #[test]
    fn a_route_that_can_carry_the_load_is_better_than_one_that_cannot() {
        let mut watch = RouteWatch::default();
        let (held, best) = (cost(None, 10), cost(Some(1_000_000), 9));
        assert!(!watch.is_due(Time(0), &held, &best));
        assert!(watch.is_due(Time(WATCH_NS), &held, &best));
    }

    #[test]
    fn what_went_in_becomes_messages() {
        let mut watch = RouteWatch::default();
        assert_eq!(watch.observe(Time(0), 0, 0), None);
        assert_eq!(watch.observe(Time(S / 2), 10, 1), None);
        // Ten records of 100,000 bytes a second are ten messages.
        let few = watch.observe(Time(2 * S), 2_000_000, 20).unwrap();
        assert_eq!((few.per_1000_s, few.message_bytes), (Some(10_000), Some(100_000)));
        // A million of 80 bytes go together.
        let many = watch.observe(Time(3 * S), 82_000_000, 1_000_020).unwrap();
        assert_eq!(many.per_1000_s, Some(80_000_000_000 / MESSAGE_BYTES));
        assert!(many.message_bytes.unwrap().abs_diff(MESSAGE_BYTES) < 100);
        let none = watch.observe(Time(4 * S), 82_000_000, 1_000_020).unwrap();
        assert_eq!((none.per_1000_s, none.message_bytes), (Some(0), None));
    }
}
