//! Synchronised rounds: start lags in their order, lags and overheads by the number of workers and by round, and the
//! clocks of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rakuda_core::sync::statistics::Spread;

use crate::report::plot::{LEFT, RIGHT, WIDTH, colour_class, document, escape, inline, step};
use crate::sync::{Group, SyncFigures};

const HEIGHT: f64 = 220.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 190.0;
/// More points than pixels cannot be told apart.
const POINTS_MAX: usize = 5000;
const ROUNDS_TITLE: &str = "start lag of each synchronised round";
const LAGS_BY_ROUND_TITLE: &str = "start lag by round";
const OVERHEADS_BY_ROUND_TITLE: &str = "sync overhead by round";
const CLOCKS_TITLE: &str = "clocks of nodes: what is said of each, less what was said first";
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
        one("lag-by-round", LAGS_BY_ROUND_TITLE, by_round(&figures.lags_by_round(), "start lag")),
        one(
            "overhead-by-round",
            OVERHEADS_BY_ROUND_TITLE,
            by_round(&figures.overheads_by_round(), "sync overhead"),
        ),
        one("clocks", CLOCKS_TITLE, clocks(figures)),
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
        grid_line(body, high(us * 1e3), us);
        us += step;
    }
    high
}

/// A line over all of the plot, with its time at the left.
fn grid_line(body: &mut String, y: f64, us: f64) {
    let _ = write!(
        body,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{us}</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0
    );
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
    let all = figures.rounds().iter().map(|round| &round.ended);
    let known = all.filter_map(|round| Some((round, round.lag_ns?)));
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
    let (lags, overheads) = (figures.lags(), figures.overheads());
    let counts: BTreeSet<u32> = lags.keys().map(|group| group.workers).collect();
    if counts.len() < 2 {
        return None;
    }
    let most_ns = lags.values().chain(overheads.values()).map(|spread| spread.max).max()?;
    let most_workers = lags.keys().chain(overheads.keys()).map(|group| group.workers).max()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    let along =
        |workers: u32| LEFT + (WIDTH - LEFT - RIGHT) * f64::from(workers) / f64::from(most_workers);
    for workers in &counts {
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
    let statements = figures.statements();
    let mut line = |class: &str, name: &str, spreads: &BTreeMap<Group, Spread>| {
        for sync in &statements {
            let points: Vec<String> = spreads
                .iter()
                .filter(|(group, _)| group.sync == *sync)
                .map(|(it, spread)| {
                    format!("{:.1},{:.1}", along(it.workers), high(spread.median as f64))
                })
                .collect();
            let of =
                if statements.len() > 1 { format!(" of {}", escape(sync)) } else { String::new() };
            let _ = write!(
                body,
                "<polyline class=\"{class}\" points=\"{}\"><title>{name}{of}</title></polyline>",
                points.join(" ")
            );
        }
    };
    line("axis median", "median start lag", &lags);
    line("cores", "median sync overhead", &overheads);
    foot(
        &mut body,
        "start lag of each round and its median, and sync overhead (dashed), us, by number of workers",
    );
    Some(body)
}

/// By number of the round in its run: the mean of all runs, and a line from the smallest to the largest; nothing: there
/// is but one number.
fn by_round(spreads: &BTreeMap<(Group, u32), Spread>, what: &str) -> Option<String> {
    let numbers: BTreeSet<u32> = spreads.keys().map(|(_, number)| *number).collect();
    if numbers.len() < 2 {
        return None;
    }
    let groups: BTreeSet<&Group> = spreads.keys().map(|(group, _)| group).collect();
    let (least, most) = (*numbers.first()?, *numbers.last()?);
    let most_ns = spreads.values().map(|spread| spread.max).max()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    // As many places as there are numbers, and in each of them one for each group.
    let place_wide = (WIDTH - LEFT - RIGHT) / f64::from(most - least + 1);
    for ((group, number), spread) in spreads.iter().take(POINTS_MAX) {
        let index = groups.iter().position(|one| *one == group).unwrap_or(0);
        let within = (index as f64 + 0.5) / groups.len() as f64;
        let x = LEFT + place_wide * (f64::from(number - least) + within);
        let class = colour_class(index, groups.len());
        let _ = write!(
            body,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>{} round {number}, {} workers: {:.1} us, mean of {}</title></circle>",
            high(spread.min as f64),
            high(spread.max as f64),
            high(spread.mean as f64),
            escape(&group.sync),
            group.workers,
            spread.mean as f64 / 1e3,
            spread.count
        );
    }
    foot(
        &mut body,
        &format!(
            "{what}, us, by round {least} to {most}: mean of all runs, and smallest to largest"
        ),
    );
    Some(body)
}

/// The clock of each node elsewhere in each round, less what was said of it in the first: by the shortest round trip,
/// with its bound, and by the paper's formula (figure 7). Clocks that are hours apart are comparable so.
fn clocks(figures: &SyncFigures) -> Option<String> {
    let all = figures.clocks();
    let mut points = Vec::new();
    for (index, (name, clocks)) in all.iter().enumerate() {
        let first_ns = clocks.first()?.ahead_ns?;
        for clock in clocks {
            let bound_ns = clock.bound_ns.unwrap_or(0) as f64;
            // The paper says how far it is behind.
            let paper_ns = clock.paper_ns.map(|ns| (-ns).wrapping_sub(first_ns) as f64);
            points.push((index, name, (clock.ahead_ns? - first_ns) as f64, bound_ns, paper_ns));
        }
    }
    let far = |point: &(usize, &String, f64, f64, Option<f64>)| {
        (point.2.abs() + point.3).max(point.4.unwrap_or(0.0).abs())
    };
    let most_ns = points.iter().map(far).max_by(f64::total_cmp)?;
    let mut body = String::new();
    // 0 is in the middle.
    let middle = f64::midpoint(TOP, BOTTOM);
    let most_us = (most_ns / 1e3).max(1e-3);
    let high = |ns: f64| middle - (BOTTOM - TOP) / 2.0 * (ns / 1e3 / most_us).clamp(-1.0, 1.0);
    let step = step(most_us, 3.0);
    let mut us = -(most_us / step).floor() * step;
    while us <= most_us {
        grid_line(&mut body, high(us * 1e3), if us.abs() < step / 2.0 { 0.0 } else { us });
        us += step;
    }
    let wide = (WIDTH - LEFT - RIGHT) / all.len() as f64;
    for (index, name, ns, bound_ns, paper_ns) in points.iter().take(POINTS_MAX) {
        let x = LEFT + wide * (*index as f64 + 0.5);
        let _ = write!(
            body,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"c0\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: by the shortest round trip</title></circle>",
            high(ns - bound_ns),
            high(ns + bound_ns),
            high(*ns),
            escape(name)
        );
        if let Some(paper_ns) = paper_ns {
            let _ = write!(
                body,
                "<circle class=\"c1\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: by (T3 + T1) / 2 - T2</title></circle>",
                x + 8.0,
                high(*paper_ns),
                escape(name)
            );
        }
    }
    foot(
        &mut body,
        "clock of each node, us, less what was said of it first: by the shortest round trip with its bound, and (right) by (T3 + T1) / 2 - T2",
    );
    Some(body)
}

#[cfg(test)]
mod tests {
    use rakuda_proto::Text;
    use rakuda_proto::journal::{RoundClock, RoundEnded};

    use super::*;

    #[test]
    fn rounds_by_number_and_clocks_of_nodes_have_pictures_of_their_own() {
        let round = |kind: &str, number, lag_ns| RoundEnded {
            kind: kind.to_owned(),
            workers: 2,
            number,
            lag_ns: Some(lag_ns),
            span_ns: Some(lag_ns * 10),
            clocks: ["a", "b"]
                .map(|name| RoundClock {
                    name: Text::from(name),
                    ahead_ns: Some(7_200_000_000_000 + i64::from(number)),
                    bound_ns: Some(50_000),
                    paper_ns: Some(-7_200_000_030_000),
                    ..RoundClock::default()
                })
                .to_vec(),
            ..RoundEnded::default()
        };
        let mut figures = SyncFigures::default();
        let rounds: Vec<_> = (0..3)
            .flat_map(|number| [round("null", number, 100), round("counted", number, 200)])
            .collect();
        figures.add(&rounds, &BTreeMap::new(), &|_| String::new());
        let pictures: BTreeMap<_, _> = round_pictures(&figures).into_iter().collect();
        let points = |name: &str| pictures[name].matches("<circle").count();
        assert_eq!(
            pictures.keys().collect::<Vec<_>>(),
            [&"clocks", &"lag-by-round", &"overhead-by-round", &"rounds"]
        );
        assert_eq!((points("lag-by-round"), points("overhead-by-round")), (3, 3));
        // Two nodes, three rounds, both estimates.
        assert_eq!(points("clocks"), 12);
        assert!(!pictures["clocks"].contains("NaN"));
    }
}
