//! Synchronised rounds: start lags in their order, and lags and overheads by the number of workers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rakuda_core::sync::statistics::Spread;

use crate::report::plot::{LEFT, RIGHT, WIDTH, colour_class, document, inline, step};
use crate::sync::SyncFigures;

const HEIGHT: f64 = 220.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 190.0;
/// More points than pixels cannot be told apart.
const POINTS_MAX: usize = 5000;
const ROUNDS_TITLE: &str = "start lag of each synchronised round";
const WORKERS_TITLE: &str = "start lag and sync overhead by number of workers";

/// For a page: a point for each round with a lag, with a line as long as what it may be off by; nothing: there is none.
pub fn round_plot(figures: &SyncFigures) -> Option<String> {
    Some(inline(WIDTH, HEIGHT, ROUNDS_TITLE, &rounds(figures)?))
}

/// For a page: the lag of each round that counts and its median, and the overheads, by the number of workers; nothing:
/// there is but one number of workers.
pub fn worker_plot(figures: &SyncFigures) -> Option<String> {
    Some(inline(WIDTH, HEIGHT, WORKERS_TITLE, &workers(figures)?))
}

/// Each that there is as a picture of its own, with its name.
pub fn round_pictures(figures: &SyncFigures) -> Vec<(&'static str, String)> {
    let one = |name, title, body: Option<String>| {
        body.map(|body| (name, document(WIDTH, HEIGHT, title, &body)))
    };
    let all = [
        one("rounds", ROUNDS_TITLE, rounds(figures)),
        one("workers", WORKERS_TITLE, workers(figures)),
    ];
    all.into_iter().flatten().collect()
}

/// The axis of times from 0 us on, and how high one is.
fn time_axis(body: &mut String, most_ns: u64) -> impl Fn(f64) -> f64 + use<> {
    let most_us = (most_ns.max(1) as f64) / 1e3;
    let high = move |ns: f64| BOTTOM - (BOTTOM - TOP) * (ns / 1e3 / most_us).clamp(0.0, 1.0);
    let step = step(most_us, 5.0);
    let mut us = 0.0;
    while us <= most_us {
        let y = high(us * 1e3);
        let _ = write!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{us}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
        us += step;
    }
    high
}

/// The line below, with words.
fn foot(body: &mut String, words: &str) {
    let _ = write!(
        body,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\
         <text x=\"{LEFT}\" y=\"{:.1}\">{words}</text>",
        WIDTH - RIGHT,
        BOTTOM + 28.0
    );
}

fn rounds(figures: &SyncFigures) -> Option<String> {
    let known = figures.rounds().iter().filter_map(|(round, _)| Some((round, round.lag_ns?)));
    let points: Vec<_> = known.take(POINTS_MAX).collect();
    let most_ns = points.iter().map(|(round, lag_ns)| lag_ns + round.clock_bound_ns).max()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    let wide = WIDTH - LEFT - RIGHT;
    let mut counts: Vec<u32> = points.iter().map(|(round, _)| round.workers).collect();
    counts.sort_unstable();
    counts.dedup();
    for (index, (round, lag_ns)) in points.iter().enumerate() {
        let x = LEFT + wide * (index as f64 + 0.5) / points.len() as f64;
        let (lag_ns, bound_ns) = (*lag_ns as f64, round.clock_bound_ns as f64);
        let place = counts.iter().position(|one| *one == round.workers).unwrap_or(0);
        let class = colour_class(place, counts.len());
        let _ = write!(
            body,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>round {}, {} workers: {:.1} us</title></circle>",
            high((lag_ns - bound_ns).max(0.0)),
            high(lag_ns + bound_ns),
            high(lag_ns),
            round.number,
            round.workers,
            lag_ns / 1e3
        );
    }
    foot(&mut body, "start lag, us, by round");
    Some(body)
}

fn workers(figures: &SyncFigures) -> Option<String> {
    let (lags, overheads) = (figures.lags_by_workers(), figures.overheads_by_workers());
    if lags.len() < 2 {
        return None;
    }
    let most_ns = lags.values().chain(overheads.values()).map(|spread| spread.max).max()?;
    let most_workers = lags.keys().chain(overheads.keys()).max().copied()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    let along =
        |workers: u32| LEFT + (WIDTH - LEFT - RIGHT) * f64::from(workers) / f64::from(most_workers);
    for workers in lags.keys() {
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{workers}</text>",
            along(*workers),
            BOTTOM + 12.0
        );
    }
    for (round, lag_ns) in figures.counted().take(POINTS_MAX) {
        let _ = write!(
            body,
            "<circle class=\"c0\" opacity=\"0.5\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
            along(round.workers),
            high(lag_ns as f64)
        );
    }
    let mut line = |class: &str, name: &str, spreads: &BTreeMap<u32, Spread>| {
        let points: Vec<String> = spreads
            .iter()
            .map(|(workers, it)| format!("{:.1},{:.1}", along(*workers), high(it.median as f64)))
            .collect();
        let _ = write!(
            body,
            "<polyline class=\"{class}\" points=\"{}\"><title>{name}</title></polyline>",
            points.join(" ")
        );
    };
    line("axis median", "median start lag", &lags);
    line("cores", "median sync overhead", &overheads);
    foot(
        &mut body,
        "start lag of each round and its median, and sync overhead (dashed), us, by number of workers",
    );
    Some(body)
}
