//! What is said of synchronised rounds: start lag and sync overhead as Iwai, Tatebe, Tanaka 2016 define them (sections
//! 5.3 and 5.4), from what the journal has of each round. All places that show them ask here.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::sync::statistics::{Spread, shortest_program_ns, slope_thousandths};
use rakuda_proto::Text;
use rakuda_proto::journal::{RoundCache, RoundClock, RoundEnded};

use crate::collected::{Collected, WorkerValues};
use crate::run::Run;

/// Kind of the rounds whose programs do nothing.
const NULL: &str = "null";
/// Kind of the rounds that are no warm-up.
const COUNTED: &str = "counted";
/// What a round asks for whose files are to be in no memory.
const COLD: &str = "cold";

/// What figures are put together of: rounds of one statement with as many workers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Name of the statement.
    pub sync: String,
    /// How many began together.
    pub workers: u32,
}

/// A round that is shown.
#[derive(Debug, Clone)]
pub struct Round {
    /// As it ended.
    pub ended: RoundEnded,
    /// The mean overhead of its statement in its run; of programs that do nothing its own, if that counts.
    pub overhead_ns: Option<u64>,
    /// What its programs have printed.
    pub values: WorkerValues,
    /// The name of its node, by worker. Empty: not known.
    pub node_names: Vec<String>,
}

/// Rounds of one or more runs.
#[derive(Debug, Default)]
pub struct SyncFigures {
    /// All but those of programs that do nothing, of one run after the other, in order.
    rounds: Vec<Round>,
    /// Those of programs that do nothing, likewise.
    null_rounds: Vec<Round>,
}

/// What is said of the lags or overheads of some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Of the values, ns.
    pub spread: Spread,
    /// The largest clock bound of the rounds: neither a value nor a mean or median of them is off by more.
    pub clock_bound_ns: u64,
}

/// Whether the figures of a round count: no warm-up, all of its workers have begun, and none has failed. What a late
/// worker does counts.
fn counts(round: &RoundEnded) -> bool {
    round.kind == COUNTED && is_whole(round)
}

fn is_whole(round: &RoundEnded) -> bool {
    round.fault.is_none() && round.failed == 0
}

/// The sync overhead of a round of programs that do nothing. `None`: it does not count.
fn own_overhead_ns(round: &RoundEnded) -> Option<u64> {
    round.span_ns.filter(|_| is_whole(round))
}

fn group_of(round: &RoundEnded) -> Group {
    Group { sync: round.sync.to_display(), workers: round.workers }
}

impl SyncFigures {
    /// Adds the rounds of a run.
    pub fn add_run(&mut self, run: &Run) {
        let name = |node: u32| run.nodes.get(node as usize).map(|it| it.joined.name.to_display());
        self.add(&run.rounds, &run.round_values, &|node| name(node).unwrap_or_default());
    }

    /// Adds rounds of one run, with what their programs have printed, and how nodes are called.
    pub fn add(
        &mut self,
        rounds: &[RoundEnded],
        values: &BTreeMap<u32, WorkerValues>,
        node_name: &dyn Fn(u32) -> String,
    ) {
        let is_null = |round: &RoundEnded| round.kind == NULL;
        let mut overheads: BTreeMap<Group, Vec<u64>> = BTreeMap::new();
        for round in rounds.iter().filter(|round| is_null(round)) {
            overheads.entry(group_of(round)).or_default().extend(own_overhead_ns(round));
        }
        let mean_ns = |round: &RoundEnded| {
            let known = overheads.get(&group_of(round))?;
            Some(Spread::of(known.iter().copied())?.mean)
        };
        for ended in rounds {
            let nodes = ended.nodes.iter().map(|node| node.map(node_name).unwrap_or_default());
            let (list, overhead_ns) = if is_null(ended) {
                (&mut self.null_rounds, own_overhead_ns(ended))
            } else {
                (&mut self.rounds, mean_ns(ended))
            };
            list.push(Round {
                overhead_ns,
                values: values.get(&ended.round).cloned().unwrap_or_default(),
                node_names: nodes.collect(),
                ended: ended.clone(),
            });
        }
    }

    /// All rounds but those that do nothing.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// The rounds of programs that do nothing.
    pub fn null_rounds(&self) -> &[Round] {
        &self.null_rounds
    }

    /// Names of the statements that have rounds.
    pub fn statements(&self) -> BTreeSet<String> {
        self.rounds.iter().map(|round| round.ended.sync.to_display()).collect()
    }

    /// The rounds that count, with their lags.
    pub fn counted(&self) -> impl Iterator<Item = (&RoundEnded, u64)> {
        let counted = self.rounds.iter().map(|round| &round.ended).filter(|round| counts(round));
        counted.filter_map(|round| Some((round, round.lag_ns?)))
    }

    /// The rounds of programs that do nothing and count, with their overheads.
    pub fn null_counted(&self) -> impl Iterator<Item = (&RoundEnded, u64)> {
        let nulls = self.null_rounds.iter().map(|round| &round.ended);
        nulls.filter_map(|round| Some((round, own_overhead_ns(round)?)))
    }

    /// Start lags by statement and number of workers (figures 9 and 10).
    pub fn lags(&self) -> BTreeMap<Group, Measured> {
        measured(self.counted(), group_of)
    }

    /// Start lags by that and the round's number in its run (figure 11).
    pub fn lags_by_round(&self) -> BTreeMap<(Group, u32), Measured> {
        measured(self.counted(), |round| (group_of(round), round.number))
    }

    /// Sync overheads by statement and number of workers (figures 13 and 14).
    pub fn overheads(&self) -> BTreeMap<Group, Measured> {
        measured(self.null_counted(), group_of)
    }

    /// Sync overheads by that and the number of the round of programs that do nothing (figure 15).
    pub fn overheads_by_round(&self) -> BTreeMap<(Group, u32), Measured> {
        measured(self.null_counted(), |round| (group_of(round), round.number))
    }

    /// By how much the lag grows with each worker, thousandths of ns. `None` for several statements.
    pub fn slope(&self) -> Option<i64> {
        if self.statements().len() > 1 {
            return None;
        }
        let points = self.counted().map(|(round, lag_ns)| (u64::from(round.workers), lag_ns));
        slope_thousandths(&points.collect::<Vec<_>>())
    }

    /// The shortest program whose workers run together for 99 % of its time: by the mean overhead with the most
    /// workers, and of several statements the largest.
    pub fn shortest_program_ns(&self) -> Option<u64> {
        let overheads = self.overheads();
        let most = overheads.keys().map(|group| group.workers).max()?;
        let with_most = overheads.iter().filter(|(group, _)| group.workers == most);
        with_most.map(|(_, it)| shortest_program_ns(it.spread.mean)).max()
    }

    /// The first round of a run against its others (sections 5.3 and 5.4), of the most workers of each statement:
    /// lags, where there are rounds of both kinds, and likewise overheads.
    pub fn first_rounds(&self) -> Vec<FirstRound> {
        let lags = first_rounds("start lag", &self.lags_by_round());
        let overheads = first_rounds("sync overhead", &self.overheads_by_round());
        lags.into_iter().chain(overheads).collect()
    }

    /// Maximum error of two workers' times, one against the other.
    pub fn clock_bound_ns(&self) -> u64 {
        self.rounds.iter().map(|round| round.ended.clock_bound_ns).max().unwrap_or(0)
    }

    /// The clocks of nodes elsewhere, by name, as they were in each round that knew them.
    pub fn clocks(&self) -> BTreeMap<String, Vec<&RoundClock>> {
        let mut clocks: BTreeMap<String, Vec<&RoundClock>> = BTreeMap::new();
        let all = self.rounds.iter().flat_map(|round| &round.ended.clocks);
        for clock in all.filter(|clock| clock.ahead_ns.is_some()) {
            clocks.entry(clock.name.to_display()).or_default().push(clock);
        }
        clocks
    }

    /// How the page cache was before the rounds that began and asked for it, by what they asked for.
    pub fn caches(&self) -> BTreeMap<String, CacheFigures> {
        let mut figures: BTreeMap<String, CacheFigures> = BTreeMap::new();
        let began = self.rounds.iter().map(|round| &round.ended).filter(|it| it.fault.is_none());
        for round in began {
            if let Some(cache) = &round.cache {
                figures.entry(cache.state.clone()).or_default().add(round.workers, cache);
            }
        }
        figures
    }

    /// Figures that programs have printed: by statement, number of workers, parameter and name.
    pub fn collected(&self) -> BTreeMap<(Group, String, String), Collected> {
        let mut all: BTreeMap<(Group, String, String), Collected> = BTreeMap::new();
        for round in self.rounds.iter().filter(|round| counts(&round.ended)) {
            let parameter = round.ended.parameter.as_ref().map(Text::to_display);
            for (name, values) in round.collected() {
                let key = (group_of(&round.ended), parameter.clone().unwrap_or_default(), name);
                all.entry(key).or_default().add(&values, &round.node_names);
            }
        }
        all
    }

    /// What there is to say of rounds that did not go as they should.
    pub fn troubled(&self) -> Troubled {
        let count = |is: fn(&RoundEnded) -> bool| {
            self.rounds.iter().filter(|round| is(&round.ended)).count()
        };
        Troubled {
            late: count(|round| round.late > 0),
            failed: count(|round| round.failed > 0 && round.fault.is_none()),
            given_up: count(|round| round.fault.is_some()),
            clock_jumped: count(|round| round.clocks.iter().any(|clock| clock.contradictions > 0)),
            outlived: count(|round| round.outlived > 0),
            oversubscribed: count(|round| round.oversubscribed),
            null_late: self.null_counted().filter(|(round, _)| round.late > 0).count(),
            null_lost: self.null_rounds.len() - self.null_counted().count(),
        }
    }
}

impl Round {
    /// By name: what each worker has printed, in order. `None` for one that has not.
    pub fn collected(&self) -> BTreeMap<String, Vec<Option<f64>>> {
        let named = self.ended.collect.iter().filter(|name| *name != "*");
        let found = self.values.values().flat_map(BTreeMap::keys);
        let names: BTreeSet<&String> = named.chain(found).collect();
        let of = |name: &String| {
            let value = |worker| self.values.get(&worker)?.get(name).map(|figure| figure.0);
            (0..self.ended.workers).map(value).collect()
        };
        names.into_iter().map(|name| (name.clone(), of(name))).collect()
    }
}

/// Numbers of rounds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Troubled {
    /// With a worker that was late. They count.
    pub late: usize,
    /// That began, and of which a worker failed.
    pub failed: usize,
    /// That did not begin.
    pub given_up: usize,
    /// During which the monotonic clock of a node jumped.
    pub clock_jumped: usize,
    /// In which a command ended before what it had started.
    pub outlived: usize,
    /// Whose workers shared slots.
    pub oversubscribed: usize,
    /// Of programs that do nothing: with a worker that was late, and an overhead that counts.
    pub null_late: usize,
    /// Of programs that do nothing: without an overhead that counts.
    pub null_lost: usize,
}

/// The first round of runs against the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRound {
    /// Of what.
    pub what: &'static str,
    /// Of which rounds.
    pub group: Group,
    /// Of the first rounds that count, one of each run.
    pub first: Spread,
    /// The mean of the others' means, ns, and how many values that is of.
    pub others: (u64, u64),
    /// The largest clock bound of all of them.
    pub clock_bound_ns: u64,
}

fn first_rounds(
    what: &'static str,
    by_round: &BTreeMap<(Group, u32), Measured>,
) -> Vec<FirstRound> {
    let mut most: BTreeMap<&str, u32> = BTreeMap::new();
    for (group, _) in by_round.keys() {
        let workers = most.entry(&group.sync).or_default();
        *workers = group.workers.max(*workers);
    }
    let of = |(sync, workers): (&str, u32)| {
        let group = Group { sync: sync.to_owned(), workers };
        let all = by_round.iter().filter(|((of, _), _)| *of == group);
        let clock_bound_ns = all.clone().map(|(_, it)| it.clock_bound_ns).max()?;
        let mut spreads = all.map(|(_, it)| it.spread);
        let first = spreads.next()?;
        let others: Vec<Spread> = spreads.collect();
        let count: u64 = others.iter().map(|spread| spread.count).sum();
        let sum: u128 =
            others.iter().map(|spread| u128::from(spread.mean) * u128::from(spread.count)).sum();
        let mean = u64::try_from(sum.checked_div(u128::from(count))?).ok()?;
        Some(FirstRound { what, group, first, others: (mean, count), clock_bound_ns })
    };
    most.into_iter().filter_map(of).collect()
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
    /// Those before which none of its files was there, or had a byte.
    pub without_files: usize,
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
        if cache.bytes == 0 {
            self.without_files += 1;
            return;
        }
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

/// What is said of rounds with values, by that key.
fn measured<'a, Key: Ord>(
    rounds: impl Iterator<Item = (&'a RoundEnded, u64)>,
    key: impl Fn(&RoundEnded) -> Key,
) -> BTreeMap<Key, Measured> {
    let mut all: BTreeMap<Key, (Vec<u64>, u64)> = BTreeMap::new();
    for (round, value_ns) in rounds {
        let (values, clock_bound_ns) = all.entry(key(round)).or_default();
        values.push(value_ns);
        *clock_bound_ns = round.clock_bound_ns.max(*clock_bound_ns);
    }
    let of = |(values, clock_bound_ns): (Vec<u64>, u64)| {
        Some(Measured { spread: Spread::of(values)?, clock_bound_ns })
    };
    all.into_iter().filter_map(|(key, it)| Some((key, of(it)?))).collect()
}

#[cfg(test)]
mod tests {
    use rakuda_proto::Figure;

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

    fn of(workers: u32) -> Group {
        Group { sync: String::new(), workers }
    }

    fn figures(runs: &[&[RoundEnded]]) -> SyncFigures {
        let mut figures = SyncFigures::default();
        for rounds in runs {
            figures.add(rounds, &BTreeMap::new(), &|_| String::new());
        }
        figures
    }

    #[test]
    fn lag_and_overhead_are_those_of_the_paper() {
        let figures = figures(&[
            &[
                round(NULL, 2, 0, 9, 1_000),
                round("warm_up", 2, 0, 99, 5),
                round(COUNTED, 2, 1, 10, 5),
            ],
            &[
                round(NULL, 4, 0, 9, 2_000),
                round(NULL, 4, 1, 9, 4_000),
                round(COUNTED, 4, 0, 30, 5),
                round(COUNTED, 4, 1, 50, 5),
            ],
        ]);
        let (two, four) = (figures.lags()[&of(2)].spread, figures.lags()[&of(4)].spread);
        assert_eq!((two.mean, four.mean, four.max), (10, 40, 50));
        let by_round = figures.lags_by_round();
        let mean = |workers, number| by_round[&(of(workers), number)].spread.mean;
        assert_eq!((mean(2, 1), mean(4, 1)), (10, 50));
        assert_eq!(figures.overheads()[&of(4)].spread.mean, 3_000);
        assert_eq!(figures.overheads_by_round()[&(of(4), 1)].spread.mean, 4_000);
        assert_eq!(figures.shortest_program_ns(), Some(300_000));
        assert_eq!(figures.slope(), Some(15_000));
        assert_eq!(figures.rounds()[0].overhead_ns, Some(1_000));
        assert_eq!(figures.rounds()[3].overhead_ns, Some(3_000));
        let first: Vec<_> = figures.first_rounds();
        let told: Vec<_> = first.iter().map(|it| (it.what, it.first.mean, it.others)).collect();
        assert_eq!(told, [("start lag", 30, (50, 1)), ("sync overhead", 2_000, (4_000, 1))]);
    }

    #[test]
    fn statements_are_not_mixed() {
        let named = |name: &str, it| RoundEnded { sync: Text::from(name), ..it };
        let figures = figures(&[&[
            named("read", round(NULL, 2, 0, 1, 1_000)),
            named("write", round(NULL, 2, 0, 1, 5_000)),
            named("read", round(COUNTED, 2, 0, 10, 5)),
            named("write", round(COUNTED, 2, 0, 70, 5)),
            named("write", round(COUNTED, 4, 1, 90, 5)),
        ]]);
        let lags: Vec<_> =
            figures.lags().into_iter().map(|(it, lag)| (it.sync, lag.spread.mean)).collect();
        assert_eq!(lags, [("read".into(), 10), ("write".into(), 70), ("write".into(), 90)]);
        assert_eq!(figures.slope(), None);
        assert_eq!(figures.shortest_program_ns(), Some(500_000));
        assert_eq!(figures.rounds()[0].overhead_ns, Some(1_000));
    }

    #[test]
    fn the_clock_bound_of_some_rounds_is_the_largest_of_those_that_count() {
        let within = |clock_bound_ns, it| RoundEnded { clock_bound_ns, ..it };
        let figures = figures(&[&[
            within(60, round(NULL, 2, 0, 9, 1_000)),
            within(70, round(NULL, 2, 1, 9, 1_000)),
            within(999, RoundEnded { failed: 1, ..round(NULL, 2, 2, 9, 1_000) }),
            within(999, round("warm_up", 2, 0, 10, 5)),
            within(40, round(COUNTED, 2, 1, 10, 5)),
            within(50, round(COUNTED, 2, 2, 10, 5)),
            within(0, round(COUNTED, 4, 2, 10, 5)),
        ]]);
        let bound_ns = |it: &BTreeMap<Group, Measured>, workers| it[&of(workers)].clock_bound_ns;
        let (lags, overheads) = (figures.lags(), figures.overheads());
        assert_eq!((bound_ns(&lags, 2), bound_ns(&lags, 4), bound_ns(&overheads, 2)), (50, 0, 70));
        let by_round = |it: BTreeMap<(Group, u32), Measured>| -> Vec<_> {
            it.into_iter()
                .map(|((of, number), it)| (of.workers, number, it.clock_bound_ns))
                .collect()
        };
        assert_eq!(by_round(figures.lags_by_round()), [(2, 1, 40), (2, 2, 50), (4, 2, 0)]);
        assert_eq!(by_round(figures.overheads_by_round()), [(2, 0, 60), (2, 1, 70)]);
        let first: Vec<_> = figures.first_rounds().iter().map(|it| it.clock_bound_ns).collect();
        assert_eq!(first, [70]);
    }

    #[test]
    fn rounds_of_programs_that_do_nothing_are_kept_with_their_own_overhead() {
        let figures = figures(&[&[
            round(NULL, 2, 0, 9, 1_000),
            RoundEnded { failed: 1, ..round(NULL, 2, 1, 9, 7_000) },
            round(COUNTED, 2, 0, 10, 5),
            round(NULL, 2, 2, 9, 3_000),
        ]]);
        let of = |rounds: &[Round]| -> Vec<_> {
            rounds.iter().map(|it| (it.ended.number, it.overhead_ns)).collect()
        };
        assert_eq!(of(figures.null_rounds()), [(0, Some(1_000)), (1, None), (2, Some(3_000))]);
        assert_eq!(of(figures.rounds()), [(0, Some(2_000))]);
    }

    #[test]
    fn the_page_cache_is_cold_or_warm_when_the_kernel_says_so_of_all_workers() {
        let with = |state: &str, workers, bytes, resident_bytes| RoundEnded {
            cache: Some(RoundCache { state: state.to_owned(), workers, bytes, resident_bytes }),
            ..round(COUNTED, 2, 0, 1, 2)
        };
        let figures = figures(&[&[
            with(COLD, 2, 100, Some(0)),
            with(COLD, 2, 100, Some(8)),
            with(COLD, 2, 100, Some(4)),
            with(COLD, 2, 100, None),
            with(COLD, 1, 50, Some(0)),
            with(COLD, 2, 0, Some(0)),
            with("warm", 2, 100, Some(100)),
            with("warm", 2, 100, Some(96)),
            RoundEnded { fault: Some("x".into()), ..with(COLD, 1, 50, Some(0)) },
            round(COUNTED, 2, 1, 7, 8),
        ]]);
        let cold = CacheFigures {
            rounds: 6,
            as_wanted: 1,
            unknown: 2,
            without_files: 1,
            worst: Some((8, 100)),
        };
        let warm = CacheFigures {
            rounds: 2,
            as_wanted: 1,
            worst: Some((96, 100)),
            ..CacheFigures::default()
        };
        let found: Vec<_> = figures.caches().into_iter().collect();
        assert_eq!(found, [(COLD.to_owned(), cold), ("warm".to_owned(), warm)]);
    }

    #[test]
    fn only_rounds_count_that_began_and_in_which_nobody_failed() {
        let lost =
            RoundEnded { lag_ns: None, fault: Some("x".into()), ..round(COUNTED, 2, 0, 0, 0) };
        let failed = |it| RoundEnded { failed: 1, ..it };
        let figures = figures(&[&[
            lost,
            RoundEnded { late: 1, ..round(COUNTED, 2, 1, 7, 8) },
            failed(round(COUNTED, 2, 2, 9_000, 8)),
            failed(round(NULL, 2, 0, 9, 9)),
        ]]);
        let lags = figures.lags()[&of(2)].spread;
        assert_eq!((lags.count, lags.max), (1, 7));
        let troubled =
            Troubled { late: 1, failed: 1, given_up: 1, null_lost: 1, ..Troubled::default() };
        assert_eq!(figures.troubled(), troubled);
        let late = |it| RoundEnded { late: 1, ..it };
        let nulls = self::figures(&[&[
            late(round(NULL, 2, 0, 9, 9)),
            failed(late(round(NULL, 2, 1, 9, 9))),
            RoundEnded { outlived: 2, ..round(COUNTED, 2, 0, 1, 1) },
        ]]);
        let troubled = Troubled { null_late: 1, null_lost: 1, outlived: 1, ..Troubled::default() };
        assert_eq!(nulls.troubled(), troubled);
        assert_eq!(figures.shortest_program_ns(), None);
    }

    #[test]
    fn figures_of_programs_are_by_worker_and_parameter() {
        let with = |id, parameter: &str, it| RoundEnded {
            round: id,
            parameter: Some(Text::from(parameter)),
            collect: vec!["bandwidth".to_owned()],
            nodes: vec![Some(0), Some(1)],
            ..it
        };
        let value = |worker, value| (worker, [("bandwidth".to_owned(), Figure(value))].into());
        let values: BTreeMap<u32, WorkerValues> = [
            (0, [value(0, 2.0), value(1, 4.0)].into()),
            (1, [value(1, 8.0)].into()),
            (2, [value(0, 100.0), value(1, 100.0)].into()),
        ]
        .into();
        let mut figures = SyncFigures::default();
        let rounds = [
            with(0, "4k", round(COUNTED, 2, 0, 1, 1)),
            with(1, "4k", round(COUNTED, 2, 1, 1, 1)),
            with(2, "4k", RoundEnded { failed: 1, ..round(COUNTED, 2, 2, 1, 1) }),
            with(3, "8k", round(COUNTED, 2, 3, 1, 1)),
        ];
        figures.add(&rounds, &values, &|node| format!("n{node}"));
        let all = figures.collected();
        let of = |parameter: &str| &all[&(of(2), parameter.to_owned(), "bandwidth".to_owned())];
        assert_eq!((of("4k").defined, of("4k").undefined), (3, 1));
        assert_eq!((of("4k").total(), of("8k").total()), (Some(6.0), None));
        assert_eq!(of("8k").undefined, 2);
        assert_eq!(figures.rounds()[1].collected()["bandwidth"], [None, Some(8.0)]);
        assert_eq!(of("4k").node_totals().next(), Some(("n0", Some(2.0))));
    }
}
