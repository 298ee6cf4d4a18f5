//! How many processes ran at each time, by group: the figures 11 to 14 of Tanaka and Tatebe (2014).
//!
//! It does not draw. Each value is the mean over a bin of time, so areas are exact whatever the width of a bin.

use crate::summary::spans::Process;

/// Number of bins of the whole run: about the pixels of a plot.
pub const BINS: usize = 480;
/// Maximum number of groups with a curve of their own. The others are added up.
pub const GROUPS_MAX: usize = 9;

/// Curves of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Begin of the first bin, ns since 1970.
    pub start_ns: i64,
    /// Width of a bin.
    pub bin_ns: f64,
    /// Groups with a curve, the one that used most time first.
    pub groups: Vec<u32>,
    /// Mean processes in each bin: of each of `groups`, then of all others, when there are any.
    pub series: Vec<Vec<f64>>,
    /// Maximum number of processes at one time.
    pub peak: u32,
}

impl Curve {
    /// Of these processes, from `start_ns` to `end_ns`; `ranked` are the groups, the biggest first.
    pub fn of(processes: &[Process], ranked: &[u32], start_ns: i64, end_ns: i64) -> Self {
        let shown = if ranked.len() > GROUPS_MAX + 1 { GROUPS_MAX } else { ranked.len() };
        let count = if shown < ranked.len() { shown + 1 } else { shown };
        let mut place = vec![0; ranked.iter().max().map_or(0, |last| *last as usize + 1)];
        for (index, &group) in ranked.iter().enumerate() {
            place[group as usize] = index.min(shown);
        }
        let bin_ns = (end_ns - start_ns).max(1) as f64 / BINS as f64;
        let mut sums = vec![Sums::new(); count];
        for process in processes {
            let from = (process.start_ns - start_ns) as f64 / bin_ns;
            let to = (process.end_ns - start_ns) as f64 / bin_ns;
            sums[place[process.group as usize]].add(from, to);
        }
        Self {
            start_ns,
            bin_ns,
            groups: ranked[..shown].to_vec(),
            series: sums.into_iter().map(Sums::finish).collect(),
            peak: peak(processes),
        }
    }

    /// All groups together.
    pub fn total(&self) -> Vec<f64> {
        (0..BINS).map(|bin| self.series.iter().map(|series| series[bin]).sum()).collect()
    }
}

/// Whole bins by their ends, parts of bins as they are: an interval costs the same however long it is.
#[derive(Clone)]
struct Sums {
    parts: Vec<f64>,
    steps: Vec<f64>,
}

impl Sums {
    fn new() -> Self {
        Self { parts: vec![0.0; BINS], steps: vec![0.0; BINS + 1] }
    }

    /// From and to in bins.
    fn add(&mut self, from: f64, to: f64) {
        let (from, to) = (from.clamp(0.0, BINS as f64), to.clamp(0.0, BINS as f64));
        let first = (from as usize).min(BINS - 1);
        let last = (to as usize).min(BINS - 1);
        if first == last {
            self.parts[first] += to - from;
            return;
        }
        self.parts[first] += (first + 1) as f64 - from;
        self.parts[last] += to - last as f64;
        self.steps[first + 1] += 1.0;
        self.steps[last] -= 1.0;
    }

    fn finish(self) -> Vec<f64> {
        let mut running = 0.0;
        let steps = self.steps.iter();
        steps
            .zip(&self.parts)
            .map(|(step, part)| {
                running += step;
                running + part
            })
            .collect()
    }
}

fn peak(processes: &[Process]) -> u32 {
    let mut changes: Vec<(i64, i32)> = Vec::with_capacity(processes.len() * 2);
    for process in processes.iter().filter(|process| process.start_ns < process.end_ns) {
        changes.push((process.start_ns, 1));
        changes.push((process.end_ns, -1));
    }
    changes.sort_unstable();
    let mut running = 0;
    let mut peak = 0;
    for (_, change) in changes {
        running += change;
        peak = peak.max(running);
    }
    peak.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(start_ns: i64, end_ns: i64, group: u32) -> Process {
        Process { start_ns, end_ns, group }
    }

    #[test]
    fn area_under_a_curve_is_the_time_of_its_processes() {
        let processes = [process(1000, 1777, 1), process(1500, 1501, 0), process(1990, 2000, 0)];
        let curve = Curve::of(&processes, &[1, 0], 1000, 2000);
        let area = |series: &[f64]| series.iter().sum::<f64>() * curve.bin_ns;
        assert!((area(&curve.series[0]) - 777.0).abs() < 1e-6);
        assert!((area(&curve.series[1]) - 11.0).abs() < 1e-6);
        assert!((area(&curve.total()) - 788.0).abs() < 1e-6);
        assert_eq!(curve.peak, 2);
    }

    #[test]
    fn small_groups_beyond_the_ninth_are_added_up() {
        let processes: Vec<_> = (0..12).map(|group| process(0, 480, group)).collect();
        let ranked: Vec<u32> = (0..12).collect();
        let curve = Curve::of(&processes, &ranked, 0, 480);
        assert_eq!((curve.groups.len(), curve.series.len()), (9, 10));
        assert!((curve.series[9][100] - 3.0).abs() < 1e-9);
    }
}
