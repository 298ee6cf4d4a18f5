//! Figures of many durations: quantiles, spread, histograms on a logarithmic axis.
//!
//! It does not know what the durations are of.

/// Number of bins of a decade in [`LogBins`].
const BINS_PER_DECADE: f64 = 8.0;
/// Minimum duration with a bin of its own, s. Shorter ones are put into the first bin: the hub's clock does not tell
/// them apart.
const SECONDS_MIN: f64 = 1e-6;
/// Maximum number of bins: 16 decades, of which more are never needed.
const BINS_MAX: usize = 128;

/// What many values look like. Unit: that of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// Sum.
    pub total: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample; 0 for one value.
    pub deviation: f64,
    /// Smallest.
    pub min: f64,
    /// 5th percentile.
    pub p5: f64,
    /// First quartile.
    pub p25: f64,
    /// 50th percentile.
    pub median: f64,
    /// Third quartile.
    pub p75: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Largest.
    pub max: f64,
    /// Where the median of such values lies with a probability of about 95 %.
    pub median_interval: (f64, f64),
}

impl Distribution {
    /// Of these values, which are sorted on the way. `None`: there are none.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let total: f64 = values.iter().sum();
        let mean = total / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Some(Self {
            count,
            total,
            mean,
            deviation,
            min: values[0],
            p5: quantile(values, 0.05),
            p25: quantile(values, 0.25),
            median: quantile(values, 0.5),
            p75: quantile(values, 0.75),
            p95: quantile(values, 0.95),
            max: values[count - 1],
            median_interval: median_interval(values),
        })
    }
}

/// Between the two neighbours, linearly (type 7 of Hyndman and Fan 1996; the default of R and NumPy).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * share;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// The order statistics around the median that enclose it with about 95 % (normal approximation of the binomial
/// distribution): ranks n/2 ± 0.98 √n. With fewer than 6 values smallest and largest.
fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let half = count as f64 / 2.0;
    let reach = 0.98 * (count as f64).sqrt();
    if count < 6 {
        return (sorted[0], sorted[count - 1]);
    }
    let low = (half - reach).floor().max(0.0) as usize;
    let high = ((half + reach).ceil() as usize).min(count - 1);
    (sorted[low], sorted[high])
}

/// A logarithmic axis that several histograms share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogBins {
    /// Lower end of the first bin: 10 to the power of this.
    pub low_log10: f64,
    /// How many, each an eighth of a decade.
    pub count: usize,
}

impl LogBins {
    /// An axis of whole decades that encloses `min` to `max`, s.
    pub fn around(min: f64, max: f64) -> Self {
        let low = min.max(SECONDS_MIN).log10().floor();
        let high = max.max(SECONDS_MIN).log10().floor() + 1.0;
        let count = ((high - low) * BINS_PER_DECADE) as usize;
        Self { low_log10: low, count: count.clamp(1, BINS_MAX) }
    }

    /// The bin of a value.
    pub fn bin(&self, value: f64) -> usize {
        let place = (value.max(SECONDS_MIN).log10() - self.low_log10) * BINS_PER_DECADE;
        (place.max(0.0) as usize).min(self.count - 1)
    }

    /// Where a value lies between the axis' ends, 0 to 1.
    pub fn position(&self, value: f64) -> f64 {
        let place = (value.max(SECONDS_MIN).log10() - self.low_log10) * BINS_PER_DECADE;
        (place / self.count as f64).clamp(0.0, 1.0)
    }

    /// Whole decades of the axis.
    pub fn decades(&self) -> usize {
        (self.count as f64 / BINS_PER_DECADE).round() as usize
    }

    /// How many values fall into each bin.
    pub fn histogram(&self, values: &[f64]) -> Vec<u32> {
        let mut bins = vec![0; self.count];
        for &value in values {
            bins[self.bin(value)] += 1;
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_type_7() {
        let mut values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let distribution = Distribution::of(&mut values).unwrap();
        let close = |left: f64, right: f64| assert!((left - right).abs() < 1e-9, "{left} {right}");
        close(distribution.median, 5.5);
        close(distribution.p5, 1.45);
        close(distribution.p95, 9.55);
        close(distribution.p25, 3.25);
        close(distribution.deviation, 3.027_650_354_097_491_7);
        close(distribution.total, 55.0);
        assert_eq!((distribution.min, distribution.max), (1.0, 10.0));
    }

    #[test]
    fn interval_of_a_median_narrows_with_more_values() {
        let interval = |count: u32| {
            let mut values: Vec<f64> = (0..count).map(f64::from).collect();
            Distribution::of(&mut values).unwrap().median_interval
        };
        assert_eq!(interval(3), (0.0, 2.0));
        assert_eq!(interval(100), (40.0, 60.0));
        let (low, high) = interval(10_000);
        assert!((high - low) / 10_000.0 < 0.03);
    }

    #[test]
    fn every_value_has_a_bin_and_bins_are_eighths_of_decades() {
        let bins = LogBins::around(0.002, 30.0);
        assert_eq!((bins.low_log10, bins.count, bins.decades()), (-3.0, 40, 5));
        assert_eq!(bins.bin(0.001), 0);
        assert_eq!(bins.bin(1.0), 24);
        assert_eq!(bins.bin(1e9), 39);
        assert_eq!(bins.histogram(&[0.0, 1.0, 1.1, 50.0]).iter().sum::<u32>(), 4);
    }
}
