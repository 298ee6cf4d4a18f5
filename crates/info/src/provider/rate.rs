//! Two samples of counters that only grow, to what they grew by in a second.

use std::collections::BTreeMap;

use rakuda_core::Time;

use crate::value::Value;

/// Why there is no rate yet.
pub const FIRST: &str = "it takes a second sample";

/// The last sample of some counters.
#[derive(Debug)]
pub(super) struct Rates<K, const N: usize> {
    last: BTreeMap<K, [u64; N]>,
    at: Option<Time>,
}

impl<K, const N: usize> Default for Rates<K, N> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), at: None }
    }
}

impl<K: Ord + Clone, const N: usize> Rates<K, N> {
    /// What the counters of each grew by, a second.
    pub fn rates(&mut self, now: Time, counters: BTreeMap<K, [u64; N]>) -> Vec<(K, [Value; N])> {
        let passed_ns = self.at.map_or(0, |at| now.0.saturating_sub(at.0));
        let rate = |key: &K, index: usize, count: u64| {
            let last = self.last.get(key).filter(|_| passed_ns > 0);
            match last.map(|last| count.checked_sub(last[index])) {
                Some(Some(grown)) => Value::number(per_second(grown, passed_ns)),
                // A device went and another one of its name has come.
                Some(None) => Value::undefined("its counter began anew"),
                None => Value::undefined(FIRST),
            }
        };
        let rates = counters
            .iter()
            .map(|(key, counts)| {
                (key.clone(), std::array::from_fn(|index| rate(key, index, counts[index])))
            })
            .collect();
        (self.last, self.at) = (counters, Some(now));
        rates
    }
}

/// Rounded to whole numbers, which are worth reading.
#[expect(clippy::cast_precision_loss, reason = "rates need not be exact beyond 2^53")]
fn per_second(grown: u64, passed_ns: u64) -> f64 {
    (grown as f64 * 1e9 / passed_ns as f64).round()
}
