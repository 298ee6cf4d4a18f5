//! Statistics of lags or overheads: the one place that computes them.
//!
//! Units are the caller's; here they are ns. The median of an even number is the mean of the two in the middle; another
//! quantile is the value of nearest rank, so it is one that was seen.

use alloc::vec::Vec;

/// Share of a program's time for which all workers are to run together, percent: the paper's rule.
const TOGETHER_PERCENT: u64 = 99;

/// The figures of one set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Their sum divided by their number.
    pub mean: u64,
    /// The smallest.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The value that 99 of 100 do not exceed.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    /// The figures of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut values: Vec<u64> = values.into_iter().collect();
        values.sort_unstable();
        let (min, max) = (*values.first()?, *values.last()?);
        let count = u64::try_from(values.len()).unwrap_or(u64::MAX);
        let sum: u128 = values.iter().copied().map(u128::from).sum();
        let mean = u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX);
        let nearest = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        let median = values[(values.len() - 1) / 2].midpoint(values[values.len() / 2]);
        Some(Self { count, mean, min, median, p99: nearest(99), max })
    }
}

/// The shortest program whose workers run together for 99 % of its time, when starting and ending them takes this long
/// (section 5.4.1 of the paper: 17 ms, so 1.7 s).
pub fn shortest_program_ns(overhead_ns: u64) -> u64 {
    overhead_ns.saturating_mul(100) / (100 - TOGETHER_PERCENT)
}

/// By how much `y` grows with each `x`, in thousandths, by least squares; `None` with fewer than two different `x`.
pub fn slope_thousandths(points: &[(u64, u64)]) -> Option<i64> {
    let count = i128::try_from(points.len()).ok()?;
    let sum = |of: fn(i128, i128) -> i128| -> i128 {
        points.iter().map(|(x, y)| of(i128::from(*x), i128::from(*y))).sum()
    };
    let (x, y) = (sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let below = count * xx - x * x;
    (below != 0).then(|| i64::try_from(1000 * (count * xy - x * y) / below).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let spread = Spread::of([4, 1, 3, 2, 100]).unwrap();
        let expected = Spread { count: 5, mean: 22, min: 1, median: 3, p99: 100, max: 100 };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of(1..=200).unwrap().p99, 198);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([7]).unwrap().median, 7);
        assert_eq!(Spread::of([7, 20]).unwrap().median, 13);
    }

    #[test]
    fn the_shortest_program_is_a_hundred_times_the_overhead() {
        assert_eq!(shortest_program_ns(17_000_000), 1_700_000_000);
    }

    #[test]
    fn a_line_has_its_slope() {
        assert_eq!(slope_thousandths(&[(1, 10), (2, 170), (3, 330)]), Some(160_000));
        assert_eq!(slope_thousandths(&[(2, 10), (2, 20)]), None);
        assert_eq!(slope_thousandths(&[]), None);
    }
}
