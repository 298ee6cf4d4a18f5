//! Synchronised rounds: start lags in their order, lags and overheads by the number of workers and by round. The
//! picture of nodes' clocks is made elsewhere, and listed here with the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rakuda_core::sync::statistics::Spread;

use crate::report::plot::clocks::clocks;
use crate::report::plot::drawing::{
    LEFT, RIGHT, WIDTH, colour_class, document, escape, first_of, inline,
};
use crate::report::plot::round_axes::{HEIGHT, POINTS_MAX, bar, foot, label, time_axis, whisker};
use crate::sync::{Group, Measured, SyncFigures};

/// A picture of rounds, for a page or of its own.
pub struct RoundPlot {
    /// What its file is called.
    pub name: &'static str,
    /// What it shows, for readers of the page.
    pub caption: &'static str,
    title: &'static str,
    body: String,
}

impl RoundPlot {
    /// As a part of a page.
    pub fn inline(&self) -> String {
        inline(WIDTH, HEIGHT, self.title, &self.body)
    }

    /// As a picture of its own.
    pub fn document(&self) -> String {
        document(WIDTH, HEIGHT, self.title, &self.body)
    }
}

/// Each that there is: those by round where there are two, that by workers where there are two numbers of them, that of
/// clocks where there are nodes elsewhere.
pub fn round_plots(figures: &SyncFigures) -> Vec<RoundPlot> {
    let one = |name, title, body: Option<String>, caption| {
        body.map(|body| RoundPlot { name, caption, title, body })
    };
    let (lags, overheads) = (figures.lags_by_round(), figures.overheads_by_round());
    let all = [
        one(
            "rounds",
            "start lag of each synchronised round",
            rounds(figures),
            "Start lag of each round, in their order; the line is what the lag may be off by.",
        ),
        one(
            "workers",
            "start lag and sync overhead by number of workers",
            workers(figures),
            "Start lag of each round that counts, sync overhead of each round of programs that do nothing, and the \
             medians of both; dotted are their means, thin the smallest. A pale bar is the clock bound around a median.",
        ),
        one(
            "lag-by-round",
            "start lag by round",
            by_round(&lags, "start lag"),
            "Start lag by the number of the round in its run: mean, and a line from the smallest to the largest. A pale bar is \
             the clock bound around the mean.",
        ),
        one(
            "overhead-by-round",
            "sync overhead by round",
            by_round(&overheads, "sync overhead"),
            "Sync overhead by the number of the round of programs that do nothing, likewise.",
        ),
        one(
            "clocks",
            "clocks of nodes and round trips",
            clocks(figures),
            "Clocks of nodes in each round, less what was first said of them: the middle of what the bounds of all \
             exchanges leave, the line being what that may be off by; beside it T2 - (T3 + T1) / 2 of the exchange with \
             the shortest round trip, and that round trip.",
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Each as a picture of its own, with its name.
pub fn round_pictures(figures: &SyncFigures) -> Vec<(&'static str, String)> {
    round_plots(figures).iter().map(|plot| (plot.name, plot.document())).collect()
}

fn rounds(figures: &SyncFigures) -> Option<String> {
    let all = figures.rounds().iter().map(|round| &round.ended);
    let known = all.filter_map(|round| Some((round, round.lag_ns?)));
    let mut points: Vec<_> = known.collect();
    let left_out = first_of(POINTS_MAX, points.len());
    points.truncate(POINTS_MAX);
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
        whisker(&mut body, x, high((lag_ns - bound_ns).max(0.0)), high(lag_ns + bound_ns));
        let _ = write!(
            body,
            "<circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>round {}, {} workers: {:.1} µs</title></circle>",
            high(lag_ns),
            round.number,
            round.workers,
            lag_ns / 1e3
        );
    }
    foot(&mut body, &format!("start lag, µs, by round{left_out}"), &[]);
    Some(body)
}

/// Every lag and every overhead (figures 9 and 13), and their medians. `None`: there is but one number of workers.
fn workers(figures: &SyncFigures) -> Option<String> {
    let (lags, overheads) = (figures.lags(), figures.overheads());
    let groups = lags.keys().chain(overheads.keys());
    let counts: BTreeSet<u32> = groups.map(|group| group.workers).collect();
    if counts.len() < 2 {
        return None;
    }
    let far = |it: &Measured| it.spread.max.max(it.spread.median + it.clock_bound_ns);
    let most_ns = lags.values().chain(overheads.values()).map(far).max()?;
    let most_workers = *counts.last()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    let along =
        |workers: u32| LEFT + (WIDTH - LEFT - RIGHT) * f64::from(workers) / f64::from(most_workers);
    for workers in &counts {
        label(&mut body, along(*workers), &workers.to_string());
    }
    let lag_points = figures.counted().take(POINTS_MAX).map(|it| (0, it));
    let overhead_points = figures.null_counted().take(POINTS_MAX).map(|it| (1, it));
    for (class, (round, ns)) in lag_points.chain(overhead_points) {
        let _ = write!(
            body,
            "<circle class=\"c{class}\" opacity=\"0.5\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
            along(round.workers),
            high(ns as f64)
        );
    }
    for (group, it) in &lags {
        bar(&mut body, 0, along(group.workers), it.spread.median, it.clock_bound_ns, &high);
    }
    for (group, it) in &overheads {
        bar(&mut body, 1, along(group.workers), it.spread.median, it.clock_bound_ns, &high);
    }
    let place = |workers, ns| format!("{:.1},{:.1}", along(workers), high(ns));
    let several = figures.statements().len() > 1;
    let kinds = [(&lags, "axis median", "start lag"), (&overheads, "cores", "sync overhead")];
    for (all, class, what) in kinds {
        let median = |of: &Spread| of.median;
        line(&mut body, all, (class, "", &format!("median {what}")), several, median, place);
        let (dotted, thin) = (" stroke-dasharray=\"1 3\"", " opacity=\"0.35\"");
        let (mean, smallest) = (|of: &Spread| of.mean, |of: &Spread| of.min);
        line(&mut body, all, ("axis", dotted, &format!("mean {what}")), several, mean, place);
        line(&mut body, all, ("axis", thin, &format!("smallest {what}")), several, smallest, place);
    }
    let key = [(0, "start lag".to_owned()), (1, "sync overhead (median: dashed)".to_owned())];
    foot(
        &mut body,
        "µs, by number of workers; lines are medians, dotted means, thin the smallest:",
        &key,
    );
    Some(body)
}

/// A line through one figure of each statement; `several`: it has to be named.
fn line(
    body: &mut String,
    all: &BTreeMap<Group, Measured>,
    (class, more, name): (&str, &str, &str),
    several: bool,
    figure: impl Fn(&Spread) -> u64,
    place: impl Fn(u32, f64) -> String,
) {
    let statements: BTreeSet<&String> = all.keys().map(|group| &group.sync).collect();
    for sync in statements {
        let those = all.iter().filter(|(group, _)| group.sync == *sync);
        let points: Vec<String> =
            those.map(|(it, of)| place(it.workers, figure(&of.spread) as f64)).collect();
        let of = if several { format!(" of {}", escape(sync)) } else { String::new() };
        let _ = write!(
            body,
            "<polyline class=\"{class}\"{more} points=\"{}\"><title>{name}{of}</title></polyline>",
            points.join(" ")
        );
    }
}

/// By number of the round in its run (figures 11 and 15): the mean of all runs with what it may be off by, and a line
/// from the smallest to the largest. `None`: there is but one number.
fn by_round(all: &BTreeMap<(Group, u32), Measured>, what: &str) -> Option<String> {
    let numbers: BTreeSet<u32> = all.keys().map(|(_, number)| *number).collect();
    if numbers.len() < 2 {
        return None;
    }
    let groups: BTreeSet<&Group> = all.keys().map(|(group, _)| group).collect();
    let (least, most) = (*numbers.first()?, *numbers.last()?);
    let far = |it: &Measured| it.spread.max.max(it.spread.mean + it.clock_bound_ns);
    let most_ns = all.values().map(far).max()?;
    let mut body = String::new();
    let high = time_axis(&mut body, most_ns);
    // As many places as there are numbers, and in each of them one for each group.
    let place_wide = (WIDTH - LEFT - RIGHT) / f64::from(most - least + 1);
    for ((group, number), Measured { spread, clock_bound_ns }) in all.iter().take(POINTS_MAX) {
        let index = groups.iter().position(|one| *one == group).unwrap_or(0);
        let within = (index as f64 + 0.5) / groups.len() as f64;
        let x = LEFT + place_wide * (f64::from(number - least) + within);
        let class = colour_class(index, groups.len());
        bar(&mut body, class, x, spread.mean, *clock_bound_ns, &high);
        whisker(&mut body, x, high(spread.min as f64), high(spread.max as f64));
        let _ = write!(
            body,
            "<circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>{} round {number}, {} workers: {:.1} µs, mean of {}</title></circle>",
            high(spread.mean as f64),
            escape(&group.sync),
            group.workers,
            spread.mean as f64 / 1e3,
            spread.count
        );
    }
    let left_out = first_of(POINTS_MAX, all.len());
    let words =
        format!("{what}, µs, by round {least} to {most}: mean, smallest to largest{left_out}");
    foot(&mut body, &words, &key_of(&groups));
    Some(body)
}

/// Which colour is which number of workers, and of which statement where there are several.
fn key_of(groups: &BTreeSet<&Group>) -> Vec<(usize, String)> {
    let several = groups.iter().any(|group| Some(&group.sync) != groups.first().map(|it| &it.sync));
    let name = |Group { sync, workers }: &Group| {
        if several { format!("{sync}, {workers} workers") } else { format!("{workers} workers") }
    };
    let one = |(index, group): (usize, &&Group)| (colour_class(index, groups.len()), name(group));
    groups.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use rakuda_proto::journal::RoundEnded;

    use super::*;
    use crate::report::plot::round_axes::{BOTTOM, TOP, values};

    fn round(
        kind: &str,
        workers: u32,
        number: u32,
        lag_ns: u64,
        clock_bound_ns: u64,
    ) -> RoundEnded {
        RoundEnded {
            kind: kind.to_owned(),
            workers,
            number,
            lag_ns: Some(lag_ns),
            span_ns: Some(lag_ns * 10),
            clock_bound_ns,
            ..RoundEnded::default()
        }
    }

    fn plots(runs: &[&[RoundEnded]]) -> BTreeMap<&'static str, String> {
        let mut figures = SyncFigures::default();
        for rounds in runs {
            figures.add(rounds, &BTreeMap::new(), &|_| String::new());
        }
        round_plots(&figures).into_iter().map(|plot| (plot.name, plot.body)).collect()
    }

    /// How high times are where 40 us are at the top.
    fn high<const N: usize>(us: [f64; N]) -> [String; N] {
        us.map(|us| format!("{:.1}", BOTTOM - (BOTTOM - TOP) * us / 40.0))
    }

    #[test]
    fn each_round_has_its_mean_its_extremes_and_what_its_mean_may_be_off_by() {
        let runs = [10_000, 30_000].map(|lag_ns| {
            [
                round("null", 2, 0, lag_ns, 0),
                round("counted", 2, 0, lag_ns, 10_000),
                round("counted", 2, 1, 40_000, 0),
            ]
        });
        let plots = plots(&[&runs[0], &runs[1]]);
        assert_eq!(plots.keys().collect::<Vec<_>>(), [&"lag-by-round", &"rounds"]);
        let body = &plots["lag-by-round"];
        assert_eq!(values(body, "circle", "c0", "cy"), high([20.0, 40.0]));
        assert!(body.contains("round 0, 2 workers: 20.0 µs, mean of 2"), "{body}");
        // The last line is the axis.
        assert_eq!(values(body, "line", "axis", "y1")[..2], high([10.0, 40.0]));
        assert_eq!(values(body, "line", "axis", "y2")[..2], high([30.0, 40.0]));
        // Only lags of the first rounds are not exact. The last square is that of the colour.
        assert_eq!(values(body, "rect", "c0", "opacity"), ["0.3"]);
        assert_eq!(values(body, "rect", "c0", "y")[..1], high([30.0]));
        let bottom_and_top = high([10.0, 30.0]).map(|y| y.parse::<f64>().unwrap());
        let height = format!("{:.1}", bottom_and_top[0] - bottom_and_top[1]);
        assert_eq!(values(body, "rect", "c0", "height"), [height.as_str(), "9"]);
        assert!(body.contains(">2 workers</text>"), "{body}");
    }

    #[test]
    fn every_overhead_is_drawn_by_the_number_of_workers_like_every_lag() {
        let plots = plots(&[
            &[round("null", 2, 0, 1_000, 500), round("null", 2, 1, 3_000, 0)],
            &[round("null", 4, 0, 4_000, 0), round("counted", 4, 0, 20_000, 0)],
            &[RoundEnded { failed: 1, ..round("null", 4, 0, 9_000, 0) }],
        ]);
        let body = &plots["workers"];
        assert_eq!(values(body, "circle", "c1", "cy"), high([10.0, 30.0, 40.0]));
        assert_eq!(values(body, "circle", "c0", "cy"), high([20.0]));
        for what in ["start lag", "sync overhead"] {
            for figure in ["median", "mean", "smallest"] {
                assert_eq!(body.matches(&format!("<title>{figure} {what}</title>")).count(), 1);
            }
        }
        // Only overheads with two workers are not exact.
        assert_eq!(values(body, "rect", "c1", "opacity"), ["0.3"]);
        assert_eq!(values(body, "rect", "c1", "y")[..1], high([20.5]));
        assert!(values(body, "rect", "c0", "opacity").is_empty());
    }
}
