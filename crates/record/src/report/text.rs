//! A run for a terminal: facts, the curve of running processes in blocks, tables. At most 120 columns.

use std::fmt::Write as _;

use rakuda_proto::journal::SharedCores;
use rakuda_proto::memory;
use rakuda_proto::streams::{
    EndAccount, HopAccount, HopRoute, LineKind, RouteCost, RouteKind, RouteWish, StreamRoute,
};

use crate::printable::{cut_middle, printable};
use crate::report::format::{bytes, count, count_u64, counted, counted_u64, percent, seconds};
use crate::report::{Failure, Report, failures, node_name, sync};
use crate::run::Run;
use crate::summary::curve::{BINS, Curve};
use crate::summary::seconds as of_ns;
use crate::summary::streams::{StreamFate, StreamStall, StreamSummary, streams as summed};
use crate::summary::tables::GroupSummary;
use crate::words::duration_in_words;

/// Columns of the curve.
const COLUMNS: usize = 60;
/// Columns of a label.
const LABEL: usize = 32;
/// Maximum columns of words at the end of a row of two other columns.
const WORDS: usize = 80;
/// Maximum rows of a table.
const ROWS: usize = 20;
/// Maximum number of tasks of a cycle that are named.
const STALLED: usize = 10;
/// Maximum number of tasks of the critical path that are listed: those at its end.
const PATH: usize = 12;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    head(&mut out, report);
    curve(&mut out, report);
    rules(&mut out, report);
    nodes(&mut out, report);
    placements(&mut out, report);
    path(&mut out, report);
    slowest(&mut out, report);
    failed(&mut out, report);
    streams(&mut out, report);
    if let Some(figures) = sync::figures_of(report.run) {
        let _ = write!(out, "\nsynchronised rounds\n{}", sync::text(&figures));
    }
    metadata(&mut out, report);
    out
}

/// What went through each stream.
fn streams(out: &mut String, report: &Report) {
    for stream in summed(report.run) {
        let (total, records) = (bytes(stream.bytes()), counted_u64(stream.records(), "record"));
        let ends = shown(&ends_words(&stream));
        let _ = writeln!(out, "\nstream {}: {total}, {records}, {ends}", shown(&stream.name));
        for stall in stream.stalls.iter().take(ROWS) {
            let _ = writeln!(out, "  {}", shown(&stall_words(report, &stream, stall)));
        }
        more(out, stream.stalls.len(), ROWS.min(stream.stalls.len()), "stalls");
        for (word, sides) in [("from", &stream.writers), ("to", &stream.readers)] {
            for side in sides.iter().take(ROWS) {
                let name = shown(&report.name(side.task));
                let Some(account) = &side.account else {
                    let _ = writeln!(out, "  {word:<4} {name}: not known");
                    continue;
                };
                let note = after_comma(&end_note(word, account, &stream));
                let (size, records) =
                    (bytes(account.bytes), counted_u64(account.records, "record"));
                let _ = writeln!(out, "  {word:<4} {name}: {size}, {records}{note}");
            }
            more(out, sides.len(), ROWS.min(sides.len()), "tasks");
        }
        hops(out, report, &stream);
    }
}

/// Copies between hosts, and over which edges.
fn hops(out: &mut String, report: &Report, stream: &StreamSummary) {
    let Some(route) = &stream.route else { return };
    for before in &stream.routes_before {
        let _ = writeln!(out, "  before: route {}", route_words(before));
    }
    let _ = writeln!(out, "  route {}", route_words(route));
    if !route.costs.is_empty() {
        let _ = writeln!(out, "  weighed: {}", costs_words(route));
    }
    for (name, line) in [("within groups", LineKind::Lan), ("between groups", LineKind::Wan)] {
        let copies = stream.copies(line);
        if copies.edges > 0 {
            let (size, records) = (bytes(copies.bytes), counted_u64(copies.records, "record"));
            let edges = counted_u64(copies.edges, "edge");
            let _ = writeln!(out, "  {name}: {edges}, {size}, {records}");
        }
    }
    for hop in stream.hops.iter().take(ROWS) {
        let (from, to) = (node_name(report.run, hop.from), node_name(report.run, hop.to));
        let (size, records) = (bytes(hop.bytes), counted_u64(hop.records, "record"));
        let note = after_comma(&way_note(hop, stream));
        let _ = writeln!(out, "  {} -> {}: {size}, {records}{note}", shown(&from), shown(&to));
    }
    more(out, stream.hops.len(), ROWS.min(stream.hops.len()), "edges");
}

/// Says that a cycle with a stream stood still, and when.
pub fn stall_words(report: &Report, stream: &StreamSummary, stall: &StreamStall) -> String {
    let names: Vec<String> = stall.tasks.iter().take(STALLED).map(|id| report.name(*id)).collect();
    let more = match stall.tasks.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let after = stall.time_ns.saturating_sub(report.run.started.time_ns);
    format!(
        "stood still {} after the begin: no byte had moved for {} in the cycle of tasks {}{more}: {} {}",
        duration_in_words(after),
        duration_in_words(stall.silence_ns),
        names.join(", "),
        stream.name,
        stall.words()
    )
}

/// How what went into a stream and what came out of it are to each other.
pub fn ends_words(stream: &StreamSummary) -> String {
    let ends = match &stream.fate {
        StreamFate::Fault(fault) => format!("failed: {fault}"),
        StreamFate::Closed => "closed before its end, as a task failed or the run ended".to_owned(),
        StreamFate::Open => "running".to_owned(),
        StreamFate::Well if !stream.is_whole() => "not read to its end".to_owned(),
        StreamFate::Well if !stream.is_balanced() => "in and out differ".to_owned(),
        StreamFate::Well if stream.is_abandoned() => "all readers left early".to_owned(),
        StreamFate::Well => "in = out".to_owned(),
    };
    let dropped = after_comma(&dropped_note(stream.dropped()));
    format!("{ends}{dropped}{}", after_comma(&spilled_note(stream)))
}

fn spilled_note(stream: &StreamSummary) -> String {
    if stream.spilled_bytes == 0 {
        return String::new();
    }
    let (all, most) = (bytes(stream.spilled_bytes), bytes(stream.spilled_bytes_max));
    format!("{all} spilled for slow readers ({most} at most at one time)")
}

fn dropped_note(dropped: u64) -> String {
    if dropped > 0 { format!("{} dropped", bytes(dropped)) } else { String::new() }
}

/// What is to be said of an end of a stream; `word`: "from" or "to".
pub fn end_note(word: &str, account: &EndAccount, stream: &StreamSummary) -> String {
    let special = match (word, account.is_special) {
        ("to", true) => "left early",
        ("to", false) if stream.is_whole() && stream.got_all(account) => "in = out",
        ("to", false) if stream.is_whole() => "in and out differ",
        (_, true) => "and a separator that was added",
        (_, false) => "",
    };
    let dropped = dropped_note(account.dropped);
    if special.is_empty() { dropped } else { format!("{special}{}", after_comma(&dropped)) }
}

fn route_name(kind: RouteKind) -> &'static str {
    match kind {
        RouteKind::Relay => "relay",
        RouteKind::Direct => "direct",
        RouteKind::Conventional => "conventional",
        RouteKind::Mixed => "by group",
    }
}

fn ms(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// How the messages of a stream went, and why so.
pub fn route_words(route: &StreamRoute) -> String {
    let word = match route.route {
        kind @ (RouteKind::Relay | RouteKind::Direct | RouteKind::Conventional) => {
            route_name(kind).to_owned()
        }
        RouteKind::Mixed => {
            let names: Vec<String> =
                route.relayed.iter().map(rakuda_proto::Text::to_display).collect();
            format!("over representatives in {}, else direct", shown(&names.join(", ")))
        }
    };
    let why = match route.wish {
        RouteWish::Auto => {
            let trip = route.round_trip_ns.map(|ns| format!(", {} between groups", ms(ns)));
            let cost = route.message_ns.map(|ns| {
                let each = duration_in_words(ns);
                format!(", {each} of a processor for each message at each end")
            });
            let (trip, cost) = (trip.unwrap_or_default(), cost.unwrap_or_default());
            format!("chosen by cost{trip}{cost}{}", lines_words(route))
        }
        RouteWish::Relay | RouteWish::Direct | RouteWish::Conventional => "as asked for".to_owned(),
    };
    let said = if route.wish == RouteWish::Auto { said_words(route) } else { String::new() };
    let seen = words_of_traffic(route.observed_bytes_per_s, route.observed_per_1000_s);
    let seen = if seen.is_empty() { seen } else { format!("; seen: {seen}") };
    format!("{word} ({why}{said}{seen})")
}

/// How fast lines are, and whether that was measured. Without an edge between groups nothing is said of those.
fn lines_words(route: &StreamRoute) -> String {
    let words = |rate: Option<u64>, place: &str| match rate {
        Some(rate) => format!(", lines {place} groups carry {}/s as measured", bytes(rate)),
        None => format!(", lines {place} groups as usual"),
    };
    let within = words(route.lan_bytes_per_s, "within");
    let between = words(route.wan_bytes_per_s, "between");
    match (route.lan_bytes_per_s, route.wan_bytes_per_s) {
        (None, None) => ", lines as fast as usual".to_owned(),
        _ if route.wan == 0 => within,
        _ => format!("{between}{within}"),
    }
}

fn words_of_traffic(bytes_per_s: Option<u64>, per_1000_s: Option<u64>) -> String {
    let pace = bytes_per_s.map(|pace| format!("{}/s", bytes(pace)));
    let often =
        per_1000_s.map(|many| format!("{}.{:03} messages a second", many / 1_000, many % 1_000));
    pace.into_iter().chain(often).collect::<Vec<_>>().join(", ")
}

/// What the Rakefile says of messages.
fn said_words(route: &StreamRoute) -> String {
    let traffic = words_of_traffic(route.declared_bytes_per_s, route.declared_per_1000_s);
    let bursts = route.in_bursts.then(|| "in bursts".to_owned());
    let traffic = Some(traffic).filter(|words| !words.is_empty());
    let said: Vec<String> = traffic.into_iter().chain(bursts).collect();
    if said.is_empty() { String::new() } else { format!("; said: {}", said.join(", ")) }
}

/// What each route that was weighed would cost.
pub fn costs_words(route: &StreamRoute) -> String {
    let cost = |cost: &RouteCost| {
        let name = route_name(cost.route);
        format!("{name} {} a message, {} to the last reader", ms(cost.period_ns), ms(cost.delay_ns))
    };
    route.costs.iter().map(cost).collect::<Vec<_>>().join("; ")
}

/// What is to be said of an edge between hosts.
///
/// Of a stream that has ended well the sums of both ends are equal: that was checked by the receiver and by the hub.
pub fn way_note(hop: &HopAccount, stream: &StreamSummary) -> String {
    let way = match hop.way {
        HopRoute::Direct => None,
        HopRoute::Hub => Some("over the hub's host"),
    };
    let end = match (hop.left, &stream.fate) {
        (true, _) => Some("left early"),
        (false, StreamFate::Well) => Some("in = out"),
        (false, StreamFate::Fault(_) | StreamFate::Closed | StreamFate::Open) => None,
    };
    let notes: Vec<&str> = way.into_iter().chain(end).collect();
    notes.join(", ")
}

fn after_comma(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(", {note}") }
}

/// A line of the head.
fn fact(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<16} {}", shown(value));
}

fn head(out: &mut String, report: &Report) {
    let Report { run, summary, .. } = *report;
    let _ = writeln!(out, "run {}: {}", shown(&run.started.run), summary.state.word());
    fact(out, "command", &report.command_line());
    fact(out, "in", &run.started.directory.to_display());
    if let Some(warning) = summary.state.warning() {
        fact(out, "note", warning);
    }
    fact(out, "makespan", &makespan(report));
    fact(out, "tasks", &tasks_line(report));
    fact(out, "attempts", &attempts_line(report));
    fact(out, "utilisation", &utilisation_line(report));
    fact(out, "critical path", &critical_line(report));
    if let Some(wait) = &summary.wait {
        let (median, p95, max) = (seconds(wait.median), seconds(wait.p95), seconds(wait.max));
        fact(out, "queue wait", &format!("median {median}, 95 % within {p95}, longest {max}"));
    }
    fact(out, "storage", &storage_line(report));
    if let Some(line) = input_line(report) {
        fact(out, "input", &line);
    }
    if let Some(line) = placement_line(report) {
        fact(out, "placement", &line);
    }
    if let Some(line) = gangs_line(report) {
        fact(out, "gangs", &line);
    }
    if let Some(staged) = &summary.staged {
        let files = counted(usize::try_from(staged.files).unwrap_or(usize::MAX), "file");
        fact(out, "staged", &format!("{files}, {}, from host to host", bytes(staged.bytes)));
    }
}

/// `12 tasks by what is known of nodes`. `None`: no task was placed so.
pub fn placement_line(report: &Report) -> Option<String> {
    let placed = report.summary.placed();
    (placed > 0).then(|| format!("{} by what is known of nodes", counted(placed, "task")))
}

/// `3 begun, 1 of them oversubscribed`. `None`: there was no gang.
pub fn gangs_line(report: &Report) -> Option<String> {
    let gangs = &report.run.gangs;
    let shared = gangs.iter().filter(|gang| gang.oversubscribed).count();
    let begun = format!("{} begun", count(gangs.len()));
    match (gangs.len(), shared) {
        (0, _) => None,
        (_, 0) => Some(begun),
        (_, shared) => {
            let most = most_shared(report.run);
            let most = most.map(|cores| format!(" ({})", shared_words(cores, shared > 1)));
            let most = most.unwrap_or_default();
            Some(format!("{begun}, {} of them oversubscribed{most}", count(shared)))
        }
    }
}

/// The cores of the gang that had least of what it asked for. `None`: no gang was oversubscribed, or it is not known by
/// how much.
pub fn most_shared(run: &Run) -> Option<SharedCores> {
    let all = run.gangs.iter().filter_map(|gang| gang.cores);
    all.max_by(|one, other| {
        let share = |a: &SharedCores, b: &SharedCores| u128::from(a.asked) * u128::from(b.there);
        share(one, other).cmp(&share(other, one))
    })
}

fn shared_words(cores: SharedCores, of_several: bool) -> String {
    let most = if of_several { "at most " } else { "" };
    format!(
        "{most}{} asked for, {} there",
        counted_u64(cores.asked, "core"),
        count_u64(cores.there)
    )
}

/// `12.3 s`; of a run that was cut off, nobody knows when, `at least 12.3 s`.
pub fn makespan(report: &Report) -> String {
    let words = seconds(report.summary.makespan_s());
    if report.summary.end_known { words } else { format!("at least {words}") }
}

/// `153: 150 done, 3 failed; beside them 40 up to date`.
pub fn tasks_line(report: &Report) -> String {
    let (parts, beside) = tasks_parts(report);
    let parts = if parts.is_empty() { String::new() } else { format!(": {parts}") };
    let beside = beside.map_or(String::new(), |beside| format!("; {beside}"));
    let known = how_known(report);
    format!("{}{known}{parts}{beside}", count(report.summary.counts.tasks))
}

/// What stands behind the number of tasks where there may be others, of which no event tells.
pub fn how_known(report: &Report) -> &'static str {
    match (&report.run.ended, report.run.alive) {
        (Some(_), _) => "",
        (None, true) => " so far",
        (None, false) => " in its record",
    }
}

/// What became of the tasks of the run, and what there was beside them.
pub fn tasks_parts(report: &Report) -> (String, Option<String>) {
    let counts = &report.summary.counts;
    let parts = [
        (counts.done, "done"),
        (counts.failed, "failed"),
        (counts.abandoned, "not run because of those"),
        (counts.stopped, "stopped"),
        (counts.not_reached, "not reached"),
        (counts.running, "not ended"),
        (counts.not_started, "not started"),
    ];
    let beside = [(counts.not_needed, "up to date"), (counts.passed, "without an action")];
    let list = |parts: &[(usize, &str)]| -> String {
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        let parts = parts.map(|(number, what)| format!("{} {what}", count(*number)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let beside = Some(list(&beside)).filter(|beside| !beside.is_empty());
    (list(&parts), beside.map(|beside| format!("beside them {beside}")))
}

fn attempts_line(report: &Report) -> String {
    let summary = report.summary;
    let attempts = count(summary.spans.len());
    let commands = counted(summary.usage.commands, "command");
    let retries = summary.retries();
    let retries =
        if retries > 0 { format!(" ({} made anew)", count(retries)) } else { String::new() };
    format!("{attempts}{retries}, {commands}, at most {} at a time", summary.curve.peak)
}

/// `87.1 % of 4 cores`.
pub fn utilisation_line(report: &Report) -> String {
    let summary = report.summary;
    let (Some(used), Some(held)) = (summary.utilisation(), summary.held()) else {
        if !summary.end_known {
            return "unknown: the run was cut off at some time after its last event".to_owned();
        }
        return "unknown: no cores or no time".to_owned();
    };
    let makespan_s = summary.makespan_s();
    let cores = if makespan_s > 0.0 { summary.available_core_s / makespan_s } else { 0.0 };
    let cores = format!("{cores:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
    let noun = if cores == "1" { "core" } else { "cores" };
    format!(
        "{} of {cores} {noun}: processes {} core seconds; tasks had cores for {}",
        percent(used),
        digits(summary.core_s),
        percent(held)
    )
}

/// Seconds as a plain number.
fn digits(seconds: f64) -> String {
    if seconds >= 100.0 { format!("{seconds:.0}") } else { format!("{seconds:.2}") }
}

/// `12.3 s of work in 5 tasks`.
pub fn critical_line(report: &Report) -> String {
    let path = &report.summary.critical;
    let (work, waiting) = (seconds(of_ns(path.work_ns)), seconds(of_ns(path.waiting_ns)));
    let tasks = counted(path.tasks.len(), "task");
    let share = report
        .summary
        .critical_share()
        .map_or_else(String::new, |share| format!(", {} of the makespan", percent(share)));
    format!("{work} in {tasks}{share}; {waiting} waiting")
}

/// Bytes, and what is known of the page cache.
pub fn storage_line(report: &Report) -> String {
    let summary = report.summary;
    let read = bytes(summary.usage.bytes.read);
    let written = bytes(summary.usage.bytes.written);
    let cached = match (summary.cache.share(), summary.cache.known_share()) {
        (Some(share), Some(known)) => {
            let (share, known) = (percent(share), percent(known));
            format!("; at least {share} of the input was in memory (known for {known} of tasks)")
        }
        _ => String::new(),
    };
    format!("{read} read, {written} written{cached}")
}

/// Where input was when attempts began.
fn input_line(report: &Report) -> Option<String> {
    let cache = &report.summary.cache;
    let local = cache.local_share(report.run).map(|share| {
        let placed = bytes(cache.inputs.placed_bytes);
        format!("{} of {placed} was on the node that read it", percent(share))
    });
    let hit = cache.hit().map(|share| {
        let measured = bytes(cache.inputs.measured_bytes);
        format!("{} of {measured} was in its memory, as measured at the start", percent(share))
    });
    let parts: Vec<String> = local.into_iter().chain(hit).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn curve(out: &mut String, report: &Report) {
    let curve = &report.summary.curve;
    if curve.series.is_empty() {
        return;
    }
    let _ =
        writeln!(out, "\nrunning processes over {}, by rule", seconds(report.summary.makespan_s()));
    let total = curve.total();
    let _ = writeln!(out, "{:>1$}", "mean  most", LABEL + COLUMNS + 13);
    row(out, "all", &total, f64::from(curve.peak.max(1)));
    let top = |series: &Vec<f64>| columns(series).into_iter().fold(0.0, f64::max);
    let most = curve.series.iter().map(top).fold(0.0, f64::max).max(1.0);
    for (index, series) in curve.series.iter().enumerate() {
        row(out, &series_label(report, curve, index), series, most);
    }
}

/// The label of a curve: of its rule, or of the others.
pub fn series_label(report: &Report, curve: &Curve, index: usize) -> String {
    match curve.groups.get(index) {
        Some(&group) => report.label(group),
        None => format!("{} other rules", report.summary.ranked.len() - curve.groups.len()),
    }
}

fn row(out: &mut String, label: &str, series: &[f64], top: f64) {
    let columns = columns(series);
    let blocks: String = columns.iter().map(|value| block(value / top)).collect();
    let mean = series.iter().sum::<f64>() / BINS as f64;
    let most = columns.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(out, "{} {blocks} {mean:5.1} {most:5.1}", fitted(label, LABEL));
}

/// Means of a curve for the columns of a terminal.
fn columns(series: &[f64]) -> Vec<f64> {
    let wide = BINS / COLUMNS;
    series.chunks(wide).map(|bins| bins.iter().sum::<f64>() / bins.len() as f64).collect()
}

fn block(share: f64) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if share <= 0.0 {
        return BLOCKS[0];
    }
    BLOCKS[((share * 8.0).round() as usize).clamp(1, 8)]
}

/// A label in `width` columns.
pub fn fitted(label: &str, width: usize) -> String {
    let label = shown(label);
    if label.chars().count() <= width {
        return format!("{label:<width$}");
    }
    let end: String = label.chars().skip(label.chars().count() + 1 - width).collect();
    format!("…{end}")
}

/// What a terminal would take as a command is replaced.
pub fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

fn rules(out: &mut String, report: &Report) {
    let summary = report.summary;
    if summary.ranked.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<LABEL$} {:>8} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "rule", "tasks", "failed", "total", "median", "p5", "p95", "longest", "memory"
    );
    for &group in summary.ranked.iter().take(ROWS) {
        rule(out, &summary.groups[group as usize]);
    }
    more(out, summary.ranked.len(), ROWS, "rules");
}

fn rule(out: &mut String, row: &GroupSummary) {
    let label = fitted(&row.group.label(), LABEL);
    let memory = row.usage.rss_bytes_max.map_or_else(|| "-".to_owned(), memory::measured);
    let times = match &row.durations {
        Some(times) => [times.total, times.median, times.p5, times.p95, times.max].map(seconds),
        None => [const { String::new() }; 5].map(|_| "-".to_owned()),
    };
    let [total, median, p5, p95, max] = times;
    let _ = writeln!(
        out,
        "{label} {:>8} {:>6} {total:>10} {median:>9} {p5:>9} {p95:>9} {max:>9} {memory:>9}",
        count(row.tasks),
        count(row.failed),
    );
}

fn more(out: &mut String, all: usize, listed: usize, noun: &str) {
    if all > listed {
        let _ = writeln!(out, "… and {} more {noun}", count(all - listed));
    }
}

fn nodes(out: &mut String, report: &Report) {
    if report.summary.nodes_used().count() < 2 {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<LABEL$} {:>6} {:>9} {:>12} {:>10} {:>10}",
        "node", "cores", "attempts", "utilisation", "read", "written"
    );
    for node in report.summary.nodes_used() {
        let used = node.utilisation.map_or("-".to_owned(), percent);
        let (read, written) = (bytes(node.usage.bytes.read), bytes(node.usage.bytes.written));
        let label = fitted(&node.name, LABEL);
        let (cores, attempts) = (node.cores, count(node.attempts));
        let _ =
            writeln!(out, "{label} {cores:>6} {attempts:>9} {used:>12} {read:>10} {written:>10}");
    }
}

fn placements(out: &mut String, report: &Report) {
    let placements = &report.summary.placements;
    if placements.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:<LABEL$} {:>6} by what is known of nodes", "rule", "tasks");
    for placement in placements.iter().take(ROWS) {
        let label = fitted(&report.label(placement.group), LABEL);
        let tasks = count(placement.tasks);
        let _ = writeln!(
            out,
            "{label} {tasks:>6} {}",
            cut_middle(&shown(&placement.in_words()), WORDS)
        );
    }
    more(out, placements.len(), ROWS, "rows");
}

fn metadata(out: &mut String, report: &Report) {
    if let Some(calls) = report.summary.run_file_system_ops_per_task(report.run) {
        let _ = writeln!(out, "\n{}", metadata_line(calls));
    }
}

/// What hub and agents asked of the file system that the run's folder is on.
pub fn metadata_line(calls: f64) -> String {
    format!("metadata calls on the run's file system: {calls:.1} per task, by hub and agents")
}

fn path(out: &mut String, report: &Report) {
    let tasks = &report.summary.critical.tasks;
    if tasks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\ncritical path, first to last");
    let first = tasks.len().saturating_sub(PATH);
    if first > 0 {
        let _ = writeln!(out, "  … {} before these", counted(first, "task"));
    }
    for &task in &tasks[first..] {
        let _ = writeln!(out, "  {}", shown(&report.name(task)));
    }
}

fn slowest(out: &mut String, report: &Report) {
    let summary = report.summary;
    if summary.slowest.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nslowest");
    for &index in summary.slowest.iter().take(10) {
        let span = &summary.spans[index as usize];
        let took = seconds(of_ns(span.duration_ns()));
        let at = seconds(summary.since_start_s(span.start_ns));
        let (label, name) =
            (fitted(&report.label(span.group), LABEL), shown(&report.name(span.task)));
        let _ = writeln!(out, "  {took:>10}  from {at:>10}  {label} {name}");
    }
}

fn failed(out: &mut String, report: &Report) {
    let failures = failures(report);
    if failures.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nfailed");
    for failure in failures.iter().take(ROWS) {
        one_failed(out, failure);
    }
    more(out, failures.len(), ROWS, "tasks");
}

fn one_failed(out: &mut String, failure: &Failure) {
    let _ = writeln!(out, "  {}", shown(&failure.name));
    let lines = [
        ("command", &failure.command),
        ("env", &failure.env),
        ("status", &failure.status),
        ("node", &failure.node),
        ("message", &failure.message),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(out, "    {name:<8} {}", shown(value));
        }
    }
    for line in failure.tail.iter().flat_map(|tail| tail.lines()) {
        let _ = writeln!(out, "    | {}", shown(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_told_with_what_was_measured() {
        let mut route = StreamRoute {
            route: RouteKind::Relay,
            wish: RouteWish::Auto,
            lan: 1,
            wan: 1,
            relayed: Vec::new(),
            costs: Vec::new(),
            round_trip_ns: Some(10_250_000),
            message_ns: Some(5_080),
            lan_bytes_per_s: None,
            wan_bytes_per_s: Some(12_000_000),
            declared_bytes_per_s: None,
            declared_per_1000_s: None,
            observed_bytes_per_s: None,
            observed_per_1000_s: Some(1_500),
            in_bursts: false,
        };
        let measured = "10.250 ms between groups, 5.1 µs of a processor for each message at each end, \
             lines between groups carry 12.0 MB/s as measured, lines within groups as usual";
        let seen = "seen: 1.500 messages a second";
        assert_eq!(route_words(&route), format!("relay (chosen by cost, {measured}; {seen})"));
        (route.round_trip_ns, route.message_ns, route.wan_bytes_per_s) = (None, None, None);
        let usual = "lines as fast as usual";
        assert_eq!(route_words(&route), format!("relay (chosen by cost, {usual}; {seen})"));
    }
}
