//! What is said of synchronised rounds: start lag and sync overhead as Iwai, Tatebe, Tanaka 2016 define them (sections
//! 5.3 and 5.4), from what the journal has of each round. All places that show them ask here.

use std::collections::BTreeMap;

use rakuda_core::sync::statistics::{Spread, shortest_program_ns, slope_thousandths};
use rakuda_proto::journal::{RoundCache, RoundClock, RoundEnded};

/// Kind of the rounds whose programs do nothing.
const NULL: &str = "null";
/// Kind of the rounds that count.
const COUNTED: &str = "counted";
/// What a round asks for whose files are to be in no memory.
const COLD: &str = "cold";

/// Rounds of one or more runs.
#[derive(Debug, Default)]
pub struct SyncFigures {
    /// Each run's rounds, in order, with the overhead that was measured in it.
    rounds: Vec<(RoundEnded, Option<u64>)>,
    /// Overheads: workers, last end minus first start of programs that do nothing.
    overheads: Vec<(u32, u64)>,
}

impl SyncFigures {
    /// Adds the rounds of a run; of its statements `sync`, each has an overhead of its own.
    pub fn add(&mut self, rounds: &[RoundEnded]) {
        let nulls = rounds.iter().filter(|round| round.kind == NULL);
        let overheads: BTreeMap<_, u64> =
            nulls.clone().filter_map(|round| Some((&round.sync, round.span_ns?))).collect();
        let measured = nulls.filter_map(|round| Some((round.workers, round.span_ns?)));
        self.overheads.extend(measured);
        for round in rounds.iter().filter(|round| round.kind != NULL) {
            self.rounds.push((round.clone(), overheads.get(&round.sync).copied()));
        }
    }

    /// All rounds but those that do nothing, and the overhead with so many workers.
    pub fn rounds(&self) -> &[(RoundEnded, Option<u64>)] {
        &self.rounds
    }

    /// The rounds whose lag counts: those that began, and are no warm-up.
    pub fn counted(&self) -> impl Iterator<Item = (&RoundEnded, u64)> {
        let rounds = self.rounds.iter().map(|(round, _)| round);
        let counted = rounds.filter(|round| round.kind == COUNTED);
        counted.filter_map(|round| Some((round, round.lag_ns?)))
    }

    /// Start lags by number of workers (figures 9 and 10), ns.
    pub fn lags_by_workers(&self) -> BTreeMap<u32, Spread> {
        spreads(self.counted().map(|(round, lag_ns)| (round.workers, lag_ns)))
    }

    /// Start lags by number of workers and the round's number in its run (figure 11), ns.
    pub fn lags_by_round(&self) -> BTreeMap<(u32, u32), Spread> {
        spreads(self.counted().map(|(round, lag_ns)| ((round.workers, round.number), lag_ns)))
    }

    /// Sync overheads by number of workers (figures 13 and 14), ns.
    pub fn overheads_by_workers(&self) -> BTreeMap<u32, Spread> {
        spreads(self.overheads.iter().copied())
    }

    /// By how much the lag grows with each worker, thousandths of ns.
    pub fn slope(&self) -> Option<i64> {
        let points = self.counted().map(|(round, lag_ns)| (u64::from(round.workers), lag_ns));
        slope_thousandths(&points.collect::<Vec<_>>())
    }

    /// The shortest program whose workers run together for 99 % of its time: by the mean overhead
    /// with the most workers.
    pub fn shortest_program_ns(&self) -> Option<u64> {
        let overheads = self.overheads_by_workers();
        Some(shortest_program_ns(overheads.last_key_value()?.1.mean))
    }

    /// What two workers' times are off by at most, one against the other.
    pub fn clock_bound_ns(&self) -> u64 {
        self.rounds.iter().map(|(round, _)| round.clock_bound_ns).max().unwrap_or(0)
    }

    /// The clocks of nodes elsewhere, by name, as they were in the last round that knew them.
    pub fn clocks(&self) -> BTreeMap<String, &RoundClock> {
        let rounds = self.rounds.iter().flat_map(|(round, _)| &round.clocks);
        let known = rounds.filter(|clock| clock.ahead_ns.is_some());
        known.map(|clock| (clock.name.to_display(), clock)).collect()
    }

    /// How the page cache was before the rounds that began and asked for it, by what they asked for.
    pub fn caches(&self) -> BTreeMap<String, CacheFigures> {
        let mut figures: BTreeMap<String, CacheFigures> = BTreeMap::new();
        for round in self.rounds.iter().map(|(round, _)| round).filter(|it| it.fault.is_none()) {
            if let Some(cache) = &round.cache {
                figures.entry(cache.state.clone()).or_default().add(round.workers, cache);
            }
        }
        figures
    }

    /// Rounds with a worker that was late, and rounds that did not begin.
    pub fn troubled(&self) -> (usize, usize) {
        let count =
            |is: fn(&RoundEnded) -> bool| self.rounds.iter().filter(|(it, _)| is(it)).count();
        (count(|round| round.late > 0), count(|round| round.fault.is_some()))
    }
}

/// How the page cache was before rounds that asked for the same.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// All of them.
    pub rounds: usize,
    /// Those before which it was as they asked, at each worker.
    pub as_wanted: usize,
    /// Those of which the kernel of some worker does not say.
    pub unknown: usize,
    /// Of the others the one that was furthest from it: bytes in memory, and bytes of its files.
    pub worst: Option<(u64, u64)>,
}

impl CacheFigures {
    fn add(&mut self, workers: u32, cache: &RoundCache) {
        self.rounds += 1;
        let Some(resident) = cache.resident_bytes.filter(|_| cache.workers == workers) else {
            self.unknown += 1;
            return;
        };
        let off = |(resident, bytes): (u64, u64)| match cache.state.as_str() {
            COLD => resident,
            _ => bytes.saturating_sub(resident),
        };
        let found = (resident, cache.bytes);
        if off(found) == 0 {
            self.as_wanted += 1;
        } else if self.worst.is_none_or(|worst| off(worst) < off(found)) {
            self.worst = Some(found);
        }
    }
}

fn spreads<Key: Ord>(points: impl Iterator<Item = (Key, u64)>) -> BTreeMap<Key, Spread> {
    let mut values: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for (key, value) in points {
        values.entry(key).or_default().push(value);
    }
    values.into_iter().filter_map(|(key, values)| Some((key, Spread::of(values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(kind: &str, workers: u32, number: u32, lag_ns: u64, span_ns: u64) -> RoundEnded {
        RoundEnded {
            kind: kind.to_owned(),
            workers,
            number,
            lag_ns: Some(lag_ns),
            span_ns: Some(span_ns),
            ..RoundEnded::default()
        }
    }

    #[test]
    fn lag_and_overhead_are_those_of_the_paper() {
        let mut figures = SyncFigures::default();
        figures.add(&[
            round(NULL, 2, 0, 9, 1_000),
            round("warm_up", 2, 0, 99, 5),
            round(COUNTED, 2, 1, 10, 5),
        ]);
        figures.add(&[
            round(NULL, 4, 0, 9, 3_000),
            round(COUNTED, 4, 0, 30, 5),
            round(COUNTED, 4, 1, 50, 5),
        ]);
        let lags = figures.lags_by_workers();
        assert_eq!((lags[&2].mean, lags[&4].mean, lags[&4].max), (10, 40, 50));
        let by_round = figures.lags_by_round();
        assert_eq!((by_round[&(2, 1)].mean, by_round[&(4, 1)].mean), (10, 50));
        assert_eq!(figures.overheads_by_workers()[&4].mean, 3_000);
        assert_eq!(figures.shortest_program_ns(), Some(300_000));
        assert_eq!(figures.slope(), Some(15_000));
        assert_eq!(figures.rounds()[0].1, Some(1_000));
        assert_eq!(figures.rounds()[3].1, Some(3_000));
    }

    #[test]
    fn the_page_cache_is_cold_or_warm_when_the_kernel_says_so_of_all_workers() {
        let with = |state: &str, workers, bytes, resident_bytes| RoundEnded {
            cache: Some(RoundCache { state: state.to_owned(), workers, bytes, resident_bytes }),
            ..round(COUNTED, 2, 0, 1, 2)
        };
        let mut figures = SyncFigures::default();
        figures.add(&[
            with(COLD, 2, 100, Some(0)),
            with(COLD, 2, 100, Some(8)),
            with(COLD, 2, 100, Some(4)),
            with(COLD, 2, 100, None),
            with(COLD, 1, 50, Some(0)),
            with("warm", 2, 100, Some(100)),
            with("warm", 2, 100, Some(96)),
            RoundEnded { fault: Some("x".into()), ..with(COLD, 1, 50, Some(0)) },
            round(COUNTED, 2, 1, 7, 8),
        ]);
        let cold = CacheFigures { rounds: 5, as_wanted: 1, unknown: 2, worst: Some((8, 100)) };
        let warm = CacheFigures { rounds: 2, as_wanted: 1, unknown: 0, worst: Some((96, 100)) };
        let found: Vec<_> = figures.caches().into_iter().collect();
        assert_eq!(found, [(COLD.to_owned(), cold), ("warm".to_owned(), warm)]);
    }

    #[test]
    fn a_round_that_did_not_begin_has_no_lag() {
        let mut figures = SyncFigures::default();
        let lost =
            RoundEnded { lag_ns: None, fault: Some("x".into()), ..round(COUNTED, 2, 0, 0, 0) };
        figures.add(&[lost, RoundEnded { late: 1, ..round(COUNTED, 2, 1, 7, 8) }]);
        assert_eq!(figures.lags_by_workers()[&2].count, 1);
        assert_eq!(figures.troubled(), (1, 1));
        assert_eq!(figures.shortest_program_ns(), None);
    }
}
