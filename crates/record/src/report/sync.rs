//! Synchronised rounds shown: for `rakudactl sync`, which reads several runs, and for the report of one. What the
//! figures are is found out in [`crate::sync`]; here is only how they look (docs/reference/json.md has the fields).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rakuda_proto::Text;
use rakuda_proto::journal::{RoundClock, RoundEnded};
use serde_json::{Map, Value, json};

use crate::collected::Collected;
use crate::printable::shown;
use crate::report::format::bytes;
use crate::run::Run;
use crate::sync::{CacheFigures, FirstRound, Group, Measured, Round, SyncFigures, Troubled};
use crate::words::duration_in_words;

/// What of a round is in each line of `--csv`, as in `--json`.
const COLUMNS: [&str; 19] = [
    "parameter",
    "round",
    "kind",
    "repeat",
    "workers",
    "lag_s",
    "overhead_s",
    "clock_bound_s",
    "late",
    "failed",
    "gate",
    "run_s",
    "fault",
    "cache",
    "cache_bytes",
    "cache_resident_bytes",
    "sync",
    "oversubscribed",
    "begun_after_s",
];
/// And of each figure that programs have printed, after its name and `_`.
const COLLECTED_COLUMNS: [&str; 5] = ["mean", "min", "max", "total", "undefined"];

/// Those of one run. `None`: it had no rounds.
pub fn figures_of(run: &Run) -> Option<SyncFigures> {
    let mut figures = SyncFigures::default();
    figures.add_run(run);
    (!run.rounds.is_empty()).then_some(figures)
}

/// All of it as an object of its own.
pub fn document(figures: &SyncFigures) -> Value {
    let mut object = json(figures);
    object["version"] = 1.into();
    object
}

/// All of it.
pub fn json(figures: &SyncFigures) -> Value {
    let entries = |rounds: &[Round]| -> Vec<Value> {
        rounds.iter().map(|round| entry(round).into()).collect()
    };
    let troubled = figures.troubled();
    let mut object = json!({
        "rounds": entries(figures.rounds()),
        "null_rounds": entries(figures.null_rounds()),
        "lag": figures.lags().iter().map(by_group).collect::<Vec<_>>(),
        "lag_by_round": figures.lags_by_round().iter().map(by_round).collect::<Vec<_>>(),
        "overhead": figures.overheads().iter().map(by_group).collect::<Vec<_>>(),
        "overhead_by_round": figures.overheads_by_round().iter().map(by_round).collect::<Vec<_>>(),
        "collected": figures.collected().iter().map(by_name).collect::<Vec<_>>(),
        "clock_bound_s": seconds(figures.clock_bound_ns()),
        "rounds_late": troubled.late,
        "rounds_failed": troubled.failed,
        "rounds_given_up": troubled.given_up,
        "rounds_clock_jumped": troubled.clock_jumped,
        "rounds_outlived": troubled.outlived,
        "null_rounds_late": troubled.null_late,
        "rounds_oversubscribed": troubled.oversubscribed,
    });
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    if let Some(shortest_ns) = figures.shortest_program_ns() {
        fields.insert("shortest_program_s".to_owned(), seconds(shortest_ns).into());
    }
    if let Some(slope) = figures.slope() {
        let slope = slope as f64 / 1e12;
        fields.insert("lag_slope_s".to_owned(), slope.into());
    }
    object
}

/// One round. What is not known is null, so that all have the same fields.
fn entry(shown: &Round) -> Map<String, Value> {
    let Round { ended: round, overhead_ns, .. } = shown;
    let cache = round.cache.as_ref();
    let values: [Value; COLUMNS.len()] = [
        round.parameter.as_ref().map(Text::to_display).into(),
        round.number.into(),
        round.kind.clone().into(),
        round.repeat.into(),
        round.workers.into(),
        round.lag_ns.map(seconds).into(),
        overhead_ns.map(seconds).into(),
        seconds(round.clock_bound_ns).into(),
        round.late.into(),
        round.failed.into(),
        round.gate.clone().into(),
        round.span_ns.map(seconds).into(),
        round.fault.as_ref().map(Text::to_display).into(),
        cache.map(|cache| cache.state.clone()).into(),
        cache.map(|cache| cache.bytes).into(),
        cache.and_then(|cache| cache.resident_bytes).into(),
        round.sync.to_display().into(),
        round.oversubscribed.into(),
        round.begun_after_ns.map(|ns| ns as f64 / 1e9).into(),
    ];
    let mut entry: Map<String, Value> =
        COLUMNS.iter().map(|column| (*column).to_owned()).zip(values).collect();
    let values = shown.collected();
    if !round.collect.is_empty() {
        let value = |(name, values): (&String, &Vec<Option<f64>>)| {
            let mut object = collected(&Collected::of_round(values, &shown.node_names));
            object["workers"] = json!(values);
            (name.clone(), object)
        };
        entry.insert("values".to_owned(), values.iter().map(value).collect::<Map<_, _>>().into());
    }
    if !round.clocks.is_empty() {
        entry.insert("clocks".to_owned(), round.clocks.iter().map(clock).collect());
    }
    entry
}

/// A node's clock in a round.
fn clock(clock: &RoundClock) -> Value {
    json!({
        "node": clock.name.to_display(),
        "ahead_s": clock.ahead_ns.map(signed_seconds),
        "bound_s": clock.bound_ns.map(seconds),
        "before_s": clock.before_ns.map(signed_seconds),
        "before_bound_s": clock.before_bound_ns.map(seconds),
        "round_trip_s": clock.round_trip_ns.map(seconds),
        "paper_difference_s": clock.paper_ns.map(signed_seconds),
        "contradictions": clock.contradictions,
        "wall_set_s": signed_seconds(clock.wall_set_ns),
    })
}

fn by_group((group, it): (&Group, &Measured)) -> Value {
    let mut object = measured(it);
    put_group(&mut object, group);
    object
}

fn by_round(((group, round), it): (&(Group, u32), &Measured)) -> Value {
    let mut object = by_group((group, it));
    object["round"] = (*round).into();
    object
}

fn by_name(((group, parameter, name), it): (&(Group, String, String), &Collected)) -> Value {
    let mut object = collected(it);
    put_group(&mut object, group);
    object["name"] = name.clone().into();
    object["parameter"] = parameter.clone().into();
    object["rounds"] = it.rounds.into();
    object
}

fn put_group(object: &mut Value, group: &Group) {
    object["sync"] = group.sync.clone().into();
    object["workers"] = group.workers.into();
}

/// What is said of a figure that programs have printed.
fn collected(it: &Collected) -> Value {
    let (mean, min, max) = it
        .spread()
        .map_or((None, None, None), |(mean, min, max)| (Some(mean), Some(min), Some(max)));
    let nodes: Vec<Value> =
        it.node_totals().map(|(node, total)| json!({ "node": node, "total": total })).collect();
    json!({
        "mean": mean,
        "min": min,
        "max": max,
        "total": it.total(),
        "nodes": nodes,
        "undefined": it.undefined,
    })
}

fn measured(Measured { spread, clock_bound_ns }: &Measured) -> Value {
    json!({
        "count": spread.count,
        "mean_s": seconds(spread.mean),
        "min_s": seconds(spread.min),
        "median_s": seconds(spread.median),
        "p99_s": seconds(spread.p99),
        "max_s": seconds(spread.max),
        "clock_bound_s": seconds(*clock_bound_ns),
    })
}

/// All rounds as a table, those of programs that do nothing last.
pub fn csv(figures: &SyncFigures) -> String {
    let all = figures.rounds().iter().chain(figures.null_rounds());
    let all: Vec<_> = all.map(|round| (round, round.collected())).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, values)| values.keys()).collect();
    let mut head: Vec<String> = COLUMNS.iter().map(|column| cell(&(*column).into())).collect();
    for name in &names {
        head.push(cell(&(*name).clone().into()));
        let further =
            COLLECTED_COLUMNS.iter().map(|column| cell(&format!("{name}_{column}").into()));
        head.extend(further);
    }
    let mut text = head.join(",") + "\n";
    for (round, values) in &all {
        let entry = entry(round);
        let mut cells: Vec<String> = COLUMNS.iter().map(|column| cell(&entry[*column])).collect();
        for name in &names {
            cells.extend(collected_cells(round, values.get(*name)));
        }
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// What each worker has printed, with `;` between them, and what is said of all.
fn collected_cells(round: &Round, values: Option<&Vec<Option<f64>>>) -> Vec<String> {
    let Some(values) = values else { return vec![String::new(); 1 + COLLECTED_COLUMNS.len()] };
    let by_worker: Vec<String> =
        values.iter().map(|value| value.map(|it| it.to_string()).unwrap_or_default()).collect();
    let all = collected(&Collected::of_round(values, &round.node_names));
    let further = COLLECTED_COLUMNS.iter().map(|column| cell(&all[*column]));
    std::iter::once(by_worker.join(";")).chain(further).collect()
}

/// As RFC 4180 has it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// For a terminal: a line for each round, and what is said of all.
pub fn text(figures: &SyncFigures) -> String {
    let of = Names::of(figures);
    let head = "round  parameter   workers  gate     start lag    within  late  failed";
    let mut out = format!("{}{head}\n", of.cell("sync"));
    for Round { ended: round, .. } in figures.rounds() {
        let name = of.cell(&shown(&round.sync));
        let parameter = round.parameter.as_ref().map(shown).unwrap_or_default();
        let RoundEnded { number, workers, late, failed, gate, .. } = round;
        let (lag, mark) = (lag_of(round), mark_of(round));
        let bound = bound_of(round.clock_bound_ns);
        let _ = writeln!(
            out,
            "{name}{number:>5}  {parameter:<10}  {workers:>7}  {gate:<7}  {lag:>9}  {bound:>8}  {late:>4}  {failed:>6}{mark}"
        );
    }
    let spreads = spreads(figures);
    if !spreads.is_empty() {
        let head = "               workers  rounds      mean       min    median       p99       max    within";
        let _ = writeln!(out, "\n{}{head}", of.cell("sync"));
    }
    for (title, group, Measured { spread: it, clock_bound_ns }) in spreads {
        let [mean, min, median, p99, max] =
            [it.mean, it.min, it.median, it.p99, it.max].map(|ns: u64| duration_in_words(ns));
        let (name, workers, count) = (of.cell(&group.sync), group.workers, it.count);
        let within = bound_of(clock_bound_ns);
        let line = format!(
            "{name}{title:<13}  {workers:>7}  {count:>6}  {mean:>8}  {min:>8}  {median:>8}  {p99:>8}  {max:>8}  {within:>8}"
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out += &collected_text(figures, &of);
    out.push('\n');
    for line in remarks(figures) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Names of statements, which are shown where there are several.
struct Names {
    /// 0: they are not shown.
    width: usize,
}

impl Names {
    fn of(figures: &SyncFigures) -> Self {
        let names = figures.statements();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        Self { width: if names.len() > 1 { width.max("sync".len()) } else { 0 } }
    }

    /// At the beginning of a line.
    fn cell(&self, name: &str) -> String {
        let width = self.width;
        if width == 0 { String::new() } else { format!("{name:<width$}  ") }
    }
}

/// Figures that programs have printed. Empty: there are none.
fn collected_text(figures: &SyncFigures, of: &Names) -> String {
    let rows = collected_rows(figures);
    if rows.is_empty() {
        return String::new();
    }
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(13);
    let mut out = format!(
        "\n{}{:<width$}  parameter   workers  rounds        mean         min         max       total  undefined\n",
        of.cell("sync"),
        ""
    );
    for CollectedRow {
        group,
        parameter,
        name,
        values: [mean, min, max, total],
        rounds,
        undefined,
    } in rows
    {
        let (sync, workers) = (of.cell(&group.sync), group.workers);
        let _ = writeln!(
            out,
            "{sync}{name:<width$}  {parameter:<10}  {workers:>7}  {rounds:>6}  {mean:>10}  {min:>10}  {max:>10}  {total:>10}  {undefined:>9}"
        );
    }
    out
}

/// What is said of a figure that programs have printed, or of that on one node.
pub struct CollectedRow {
    /// Of which rounds.
    pub group: Group,
    /// Of which parameter.
    pub parameter: String,
    /// Which figure; `on NODE`: its total there.
    pub name: String,
    /// Mean, smallest, largest, and the sum over the workers. Empty: not known.
    pub values: [String; 4],
    /// How many rounds.
    pub rounds: String,
    /// Workers that have not printed it.
    pub undefined: String,
}

/// Those of all rounds that count. Nodes are named where there are several.
pub fn collected_rows(figures: &SyncFigures) -> Vec<CollectedRow> {
    let mut rows = Vec::new();
    for ((group, parameter, name), it) in figures.collected() {
        let word = |value: Option<f64>| value.map(number).unwrap_or_default();
        let (mean, min, max) = it
            .spread()
            .map_or((None, None, None), |(mean, min, max)| (Some(mean), Some(min), Some(max)));
        rows.push(CollectedRow {
            values: [word(mean), word(min), word(max), word(it.total())],
            rounds: it.rounds.to_string(),
            undefined: it.undefined.to_string(),
            group: group.clone(),
            parameter: parameter.clone(),
            name,
        });
        let nodes: Vec<_> = it.node_totals().collect();
        for (node, total) in nodes.iter().filter(|_| nodes.len() > 1) {
            let none = String::new;
            rows.push(CollectedRow {
                values: [none(), none(), none(), word(*total)],
                rounds: none(),
                undefined: none(),
                group: group.clone(),
                parameter: parameter.clone(),
                name: format!("  on {}", shown(&Text::from(*node))),
            });
        }
    }
    rows
}

/// With about five digits that count.
fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = if size >= 1000.0 { 1 } else { 4 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What is said of lags and overheads, by statement and number of workers.
pub fn spreads(figures: &SyncFigures) -> Vec<(&'static str, Group, Measured)> {
    let lags = figures.lags().into_iter().map(|(of, it)| ("start lag", of, it));
    let overheads = figures.overheads();
    lags.chain(overheads.into_iter().map(|(of, it)| ("sync overhead", of, it))).collect()
}

/// The lag of a round, or why it has none.
pub fn lag_of(round: &RoundEnded) -> String {
    match (round.lag_ns, &round.fault) {
        (Some(lag_ns), _) => duration_in_words(lag_ns),
        (None, Some(_)) => "did not begin".to_owned(),
        (None, None) => "not known".to_owned(),
    }
}

/// The error of lags and overheads that were measured with such clocks, in words. Empty: they are exact.
pub fn bound_of(clock_bound_ns: u64) -> String {
    match clock_bound_ns {
        0 => String::new(),
        ns => duration_in_words(ns),
    }
}

/// What is unusual about a round.
pub fn mark_of(round: &RoundEnded) -> String {
    let mut mark = match (round.kind.as_str(), round.repeat) {
        ("warm_up", _) => "  warm-up".to_owned(),
        (_, 0) => String::new(),
        (_, repeat) => format!("  repeat {repeat}"),
    };
    if round.oversubscribed {
        mark += "  oversubscribed";
    }
    mark
}

/// What is to be said of clocks, of programs, and of rounds that did not go as they should.
pub fn remarks(figures: &SyncFigures) -> Vec<String> {
    let mut lines = vec![match figures.clock_bound_ns() {
        0 => "clocks: all workers read one clock, so their starts are compared exactly".to_owned(),
        ns => {
            let bound = duration_in_words(ns);
            format!("clocks: the starts of two workers are compared to within {bound}")
        }
    }];
    for (name, clocks) in figures.clocks() {
        lines.extend(clocks.last().map(|clock| clock_line(&name, clock)));
    }
    if let Some(shortest_ns) = figures.shortest_program_ns() {
        let shortest = duration_in_words(shortest_ns);
        lines.push(format!(
            "programs of {shortest} and longer run on all workers together for 99 % of their time"
        ));
    }
    let several = figures.statements().len() > 1;
    lines.extend(figures.first_rounds().iter().map(|it| first_round_line(it, several)));
    lines.extend(figures.caches().iter().map(|(state, cache)| cache_line(state, cache)));
    lines.extend(trouble_lines(&figures.troubled()));
    lines
}

/// A node's clock by both estimates, and its shortest round trip.
fn clock_line(name: &str, clock: &RoundClock) -> String {
    let ahead = |ns: Option<i64>| ns.map_or("?".to_owned(), ahead_in_words);
    let words = |ns: Option<u64>| ns.map_or("not known".to_owned(), duration_in_words);
    format!(
        "  {}: {} ahead to within {} by the bounds of all exchanges; shortest round trip {}, T2 - (T3 + T1) / 2 of \
         that {}",
        shown(&Text::from(name)),
        ahead(clock.ahead_ns),
        words(clock.bound_ns),
        words(clock.round_trip_ns),
        // The paper says how far a node is behind.
        ahead(clock.paper_ns.map(i64::wrapping_neg)),
    )
}

/// The first round of a run beside the others; `several`: statements.
fn first_round_line(it: &FirstRound, several: bool) -> String {
    let FirstRound { what, group: Group { sync, workers }, .. } = it;
    let (first, others) = (duration_in_words(it.first.mean), duration_in_words(it.others.0));
    let of = if several { format!("of {sync} ") } else { String::new() };
    let which = match it.others.1 {
        1 => "of the other".to_owned(),
        count => format!("mean of the {count} others"),
    };
    let within = match it.clock_bound_ns {
        0 => String::new(),
        ns => format!(", each to within {}", duration_in_words(ns)),
    };
    format!("first round {of}with {workers} workers: {what} {first}, {which} {others}{within}")
}

/// What did not go as it should.
fn trouble_lines(troubled: &Troubled) -> Vec<String> {
    let Troubled {
        late,
        failed,
        given_up,
        clock_jumped,
        outlived,
        oversubscribed,
        null_late,
        null_lost,
    } = *troubled;
    let mut lines = Vec::new();
    let rounds =
        |count: usize| if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") };
    if late + failed + given_up > 0 {
        let late = rounds(late);
        lines.push(format!(
            "{late} with a late worker; {failed} with a failed one and {given_up} that did not begin, which do \
             not count"
        ));
    }
    if null_late > 0 {
        lines.push(format!(
            "{} of programs that do nothing with a late worker: the sync overhead is too long by that",
            rounds(null_late)
        ));
    }
    if null_lost > 0 {
        lines.push(format!("without overhead: {} of programs that do nothing", rounds(null_lost)));
    }
    if clock_jumped > 0 {
        lines.push(format!(
            "{} during which the monotonic clock of a node jumped, as of a virtual machine that is restored: the lag \
             may be wrong there",
            rounds(clock_jumped)
        ));
    }
    if outlived > 0 {
        lines.push(format!(
            "{} in which a command ended before what it had started, which went on beside what followed",
            rounds(outlived)
        ));
    }
    if oversubscribed > 0 {
        lines.push(format!(
            "{} with more workers than slots (oversubscribed): lags are the machine's",
            rounds(oversubscribed)
        ));
    }
    lines
}

/// Whether the page cache was as it should be.
fn cache_line(state: &str, cache: &CacheFigures) -> String {
    let CacheFigures { rounds, as_wanted, unknown, without_files, .. } = cache;
    let mut line = format!("page cache: {state} before {as_wanted} of {rounds} rounds");
    if *unknown > 0 {
        let _ = write!(line, "; not known before {unknown}: the kernel does not say (cachestat)");
    }
    if *without_files > 0 {
        let _ = write!(line, "; none of its files was there before {without_files}");
    }
    if let Some((resident, all)) = cache.worst {
        let (resident, all) = (bytes(resident), bytes(all));
        let _ = write!(line, "; {resident} of {all} were in memory before another");
    }
    line
}

/// With its sign, to the microsecond at least: clocks may be hours apart, and their bounds are short.
fn ahead_in_words(ns: i64) -> String {
    let number = ns as f64;
    match ns.unsigned_abs() {
        ..1_000_000 => format!("{:+.1} µs", number / 1e3),
        1_000_000..1_000_000_000 => format!("{:+.3} ms", number / 1e6),
        _ => format!("{:+.6} s", signed_seconds(ns)),
    }
}

fn signed_seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn numbers_are_as_exact_as_one_reads_them() {
        let words = [0.0, 12.5, 0.123_456, 123_456.78, 1e-7, 7.0].map(number);
        assert_eq!(words, ["0", "12.5", "0.1235", "123456.8", "1.000e-7", "7"]);
    }

    #[test]
    fn rounds_that_did_not_go_as_they_should_are_told_with_their_number() {
        assert!(trouble_lines(&Troubled::default()).is_empty());
        let one = Troubled { late: 1, clock_jumped: 1, ..Troubled::default() };
        let several = Troubled {
            failed: 2,
            outlived: 1,
            oversubscribed: 3,
            null_late: 1,
            null_lost: 2,
            ..Troubled::default()
        };
        assert_eq!(
            trouble_lines(&one),
            [
                "1 round with a late worker; 0 with a failed one and 0 that did not begin, which do not count",
                "1 round during which the monotonic clock of a node jumped, as of a virtual machine that is restored: \
                 the lag may be wrong there",
            ]
        );
        assert_eq!(
            trouble_lines(&several),
            [
                "0 rounds with a late worker; 2 with a failed one and 0 that did not begin, which do not count",
                "1 round of programs that do nothing with a late worker: the sync overhead is too long by that",
                "without overhead: 2 rounds of programs that do nothing",
                "1 round in which a command ended before what it had started, which went on beside what followed",
                "3 rounds with more workers than slots (oversubscribed): lags are the machine's",
            ]
        );
    }

    /// A null round and two that count, with the clock of a node two hours ahead.
    fn two_rounds_elsewhere() -> SyncFigures {
        let clock = RoundClock {
            name: Text::from("far"),
            ahead_ns: Some(7_200_000_001_000),
            bound_ns: Some(40_000),
            before_ns: Some(7_200_000_009_000),
            before_bound_ns: Some(45_000),
            round_trip_ns: Some(70_000),
            paper_ns: Some(-7_200_000_003_000),
            ..RoundClock::default()
        };
        let round = |kind: &str, number, lag_ns, clock_bound_ns| RoundEnded {
            kind: kind.to_owned(),
            workers: 2,
            number,
            lag_ns: Some(lag_ns),
            span_ns: Some(lag_ns * 10),
            clock_bound_ns,
            clocks: vec![clock.clone()],
            ..RoundEnded::default()
        };
        let rounds = [
            round("null", 0, 90_000, 60_000),
            round("counted", 0, 10_000, 40_000),
            round("counted", 1, 30_000, 50_000),
        ];
        let mut figures = SyncFigures::default();
        figures.add(&rounds, &BTreeMap::new(), &|_| String::new());
        figures
    }

    fn keys(object: &Value) -> Vec<&str> {
        object.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn files_that_are_not_there_are_no_evidence() {
        let cache =
            CacheFigures { rounds: 3, as_wanted: 1, without_files: 2, ..Default::default() };
        let line = "page cache: cold before 1 of 3 rounds; none of its files was there before 2";
        assert_eq!(cache_line("cold", &cache), line);
    }

    #[test]
    fn clocks_of_nodes_have_both_estimates_and_the_round_trip() {
        let object = json(&two_rounds_elsewhere());
        let expected = json!({
            "node": "far",
            "ahead_s": 7_200.000_001,
            "bound_s": 0.000_04,
            "before_s": 7_200.000_009,
            "before_bound_s": 0.000_045,
            "round_trip_s": 0.000_07,
            "paper_difference_s": -7_200.000_003,
            "contradictions": 0,
            "wall_set_s": 0.0,
        });
        for rounds in ["rounds", "null_rounds"] {
            assert_eq!(object[rounds][0]["clocks"], json!([expected]), "{rounds}");
        }
        let lines = remarks(&two_rounds_elsewhere());
        assert_eq!(
            lines[1],
            "  far: +7200.000001 s ahead to within 40 µs by the bounds of all exchanges; shortest round trip 70 µs, \
             T2 - (T3 + T1) / 2 of that +7200.000003 s"
        );
    }

    #[test]
    fn a_clock_is_ahead_by_as_much_as_one_can_read() {
        let words = [0, -3_210, 999_950, -1_234_567, 7_200_000_001_000].map(ahead_in_words);
        assert_eq!(words, ["+0.0 µs", "-3.2 µs", "+1000.0 µs", "-1.235 ms", "+7200.000001 s"]);
    }

    #[test]
    fn rounds_of_programs_that_do_nothing_have_the_fields_of_the_others() {
        let figures = two_rounds_elsewhere();
        let object = json(&figures);
        let (rounds, nulls) = (&object["rounds"], &object["null_rounds"]);
        assert_eq!((rounds[0]["kind"].as_str(), rounds[2].is_null()), (Some("counted"), true));
        assert_eq!((nulls[0]["kind"].as_str(), nulls[1].is_null()), (Some("null"), true));
        assert_eq!(keys(&nulls[0]), keys(&rounds[0]));
        assert_eq!(nulls[0]["overhead_s"], json!(0.000_9));
        let table = csv(&figures);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines[0], COLUMNS);
        let shown: Vec<_> = lines[1..].iter().map(|line| [line[1], line[2], line[6]]).collect();
        assert_eq!(
            shown,
            [["0", "counted", "0.0009"], ["1", "counted", "0.0009"], ["0", "null", "0.0009"]]
        );
    }

    #[test]
    fn the_clock_bound_stands_beside_what_is_said_of_lags_and_overheads() {
        let figures = two_rounds_elsewhere();
        let object = json(&figures);
        let bounds = |name: &str| -> Vec<&Value> {
            object[name].as_array().unwrap().iter().map(|it| &it["clock_bound_s"]).collect()
        };
        assert_eq!(bounds("lag"), [&json!(0.000_05)]);
        assert_eq!(bounds("lag_by_round"), [&json!(0.000_04), &json!(0.000_05)]);
        for name in ["overhead", "overhead_by_round"] {
            assert_eq!(bounds(name), [&json!(0.000_06)], "{name}");
        }
        let text = text(&figures);
        let ends = |begin: &str| {
            let line = text.lines().find(|line| line.starts_with(begin));
            line.and_then(|line| line.rsplit("  ").next()).unwrap_or_default().trim()
        };
        assert_eq!((ends("start lag"), ends("sync overhead")), ("50 µs", "60 µs"));
        assert!(text.contains("start lag 10 µs, of the other 30 µs, each to within 50 µs\n"));
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(cell(&json!("a,\"b\"")), "\"a,\"\"b\"\"\"");
        assert_eq!(cell(&Value::Null), "");
        assert_eq!(cell(&json!(0.5)), "0.5");
    }
}
