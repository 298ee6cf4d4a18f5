//! Synchronised rounds shown: for `rakudactl sync`, which reads several runs, and for the report of one. What the
//! figures are is found out in [`crate::sync`]; here is only how they look (docs/reference/json.md has the fields).

use std::fmt::Write as _;

use rakuda_core::sync::statistics::Spread;
use rakuda_proto::Text;
use rakuda_proto::journal::{RoundClock, RoundEnded};
use serde_json::{Map, Value, json};

use crate::printable::shown;
use crate::report::format::bytes;
use crate::run::Run;
use crate::sync::{CacheFigures, SyncFigures};
use crate::words::duration_in_words;

/// What of a round is in each line of `--csv`, as in `--json`.
const COLUMNS: [&str; 16] = [
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
];

/// Those of one run; nothing: it had no rounds.
pub fn figures_of(run: &Run) -> Option<SyncFigures> {
    let mut figures = SyncFigures::default();
    figures.add(&run.rounds);
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
    let rounds: Vec<Value> =
        figures.rounds().iter().map(|(round, overhead)| entry(round, *overhead).into()).collect();
    let (late, given_up) = figures.troubled();
    let mut object = json!({
        "rounds": rounds,
        "lag": figures.lags_by_workers().iter().map(by_workers).collect::<Vec<_>>(),
        "lag_by_round": figures.lags_by_round().iter().map(by_round).collect::<Vec<_>>(),
        "overhead": figures.overheads_by_workers().iter().map(by_workers).collect::<Vec<_>>(),
        "clock_bound_s": seconds(figures.clock_bound_ns()),
        "rounds_late": late,
        "rounds_given_up": given_up,
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
fn entry(round: &RoundEnded, overhead_ns: Option<u64>) -> Map<String, Value> {
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
    ];
    let mut entry: Map<String, Value> =
        COLUMNS.iter().map(|column| (*column).to_owned()).zip(values).collect();
    entry.insert("sync".to_owned(), round.sync.to_display().into());
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
    })
}

fn by_workers((workers, it): (&u32, &Spread)) -> Value {
    let mut object = spread(it);
    object["workers"] = (*workers).into();
    object
}

fn by_round(((workers, round), it): (&(u32, u32), &Spread)) -> Value {
    let mut object = by_workers((workers, it));
    object["round"] = (*round).into();
    object
}

fn spread(spread: &Spread) -> Value {
    json!({
        "count": spread.count,
        "mean_s": seconds(spread.mean),
        "min_s": seconds(spread.min),
        "median_s": seconds(spread.median),
        "p99_s": seconds(spread.p99),
        "max_s": seconds(spread.max),
    })
}

/// All rounds as a table.
pub fn csv(figures: &SyncFigures) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for (round, overhead_ns) in figures.rounds() {
        let entry = entry(round, *overhead_ns);
        let cells: Vec<String> = COLUMNS.iter().map(|column| cell(&entry[*column])).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
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
    let mut out = "round  parameter   workers  gate     start lag    within  late\n".to_owned();
    for (round, _) in figures.rounds() {
        let parameter = round.parameter.as_ref().map(shown).unwrap_or_default();
        let RoundEnded { number, workers, late, gate, .. } = round;
        let (lag, bound, mark) = (lag_of(round), bound_of(round), mark_of(round));
        let _ = writeln!(
            out,
            "{number:>5}  {parameter:<10}  {workers:>7}  {gate:<7}  {lag:>9}  {bound:>8}  {late:>4}{mark}"
        );
    }
    out += "\n               workers  rounds      mean       min    median       p99       max\n";
    for (title, workers, it) in spreads(figures) {
        let [mean, min, median, p99, max] =
            [it.mean, it.min, it.median, it.p99, it.max].map(|ns: u64| duration_in_words(ns));
        let count = it.count;
        let _ = writeln!(
            out,
            "{title:<13}  {workers:>7}  {count:>6}  {mean:>8}  {min:>8}  {median:>8}  {p99:>8}  {max:>8}"
        );
    }
    out.push('\n');
    for line in remarks(figures) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// What is said of lags and overheads, by number of workers.
pub fn spreads(figures: &SyncFigures) -> Vec<(&'static str, u32, Spread)> {
    let lags = figures.lags_by_workers().into_iter().map(|(of, it)| ("start lag", of, it));
    let overheads = figures.overheads_by_workers();
    lags.chain(overheads.into_iter().map(|(of, it)| ("sync overhead", of, it))).collect()
}

/// The lag of a round, or why there is none.
pub fn lag_of(round: &RoundEnded) -> String {
    match (round.lag_ns, &round.fault) {
        (Some(lag_ns), _) => duration_in_words(lag_ns),
        (None, Some(_)) => "did not begin".to_owned(),
        (None, None) => "not known".to_owned(),
    }
}

/// To within what the lag of a round is true; empty: exactly.
pub fn bound_of(round: &RoundEnded) -> String {
    match round.clock_bound_ns {
        0 => String::new(),
        ns => duration_in_words(ns),
    }
}

/// What is unusual about a round.
pub fn mark_of(round: &RoundEnded) -> String {
    match (round.kind.as_str(), round.repeat) {
        ("warm_up", _) => "  warm-up".to_owned(),
        (_, 0) => String::new(),
        (_, repeat) => format!("  repeat {repeat}"),
    }
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
    for (name, clock) in figures.clocks() {
        let words = |ns: Option<u64>| ns.map_or("not known".to_owned(), duration_in_words);
        let ahead =
            |ns: Option<i64>| ns.map_or("?".to_owned(), |ns| format!("{:+.6}", signed_seconds(ns)));
        // The paper says how far a node is behind.
        let paper = clock.paper_ns.map(|ns| -ns);
        lines.push(format!(
            "  {}: {} s ahead to within {}; round trip {}; by (T3 + T1) / 2 - T2 {} s",
            shown(&Text::from(name)),
            ahead(clock.ahead_ns),
            words(clock.bound_ns),
            words(clock.round_trip_ns),
            ahead(paper),
        ));
    }
    if let Some(shortest_ns) = figures.shortest_program_ns() {
        let shortest = duration_in_words(shortest_ns);
        lines.push(format!(
            "programs of {shortest} and longer run on all workers together for 99 % of their time"
        ));
    }
    lines.extend(figures.caches().iter().map(|(state, cache)| cache_line(state, cache)));
    let (late, given_up) = figures.troubled();
    if late + given_up > 0 {
        lines.push(format!("{late} rounds with a late worker, {given_up} that did not begin"));
    }
    lines
}

/// Whether the page cache was as it should be.
fn cache_line(state: &str, cache: &CacheFigures) -> String {
    let CacheFigures { rounds, as_wanted, unknown, .. } = cache;
    let mut line = format!("page cache: {state} before {as_wanted} of {rounds} rounds");
    if *unknown > 0 {
        let _ = write!(line, "; not known before {unknown}: the kernel does not say (cachestat)");
    }
    if let Some((resident, all)) = cache.worst {
        let (resident, all) = (bytes(resident), bytes(all));
        let _ = write!(line, "; {resident} of {all} were in memory before another");
    }
    line
}

fn signed_seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(cell(&json!("a,\"b\"")), "\"a,\"\"b\"\"\"");
        assert_eq!(cell(&Value::Null), "");
        assert_eq!(cell(&json!(0.5)), "0.5");
    }
}
