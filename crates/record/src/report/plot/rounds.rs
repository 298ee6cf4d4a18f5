//! Start lags of synchronised rounds, in their order.

use std::fmt::Write as _;

use crate::report::plot::{LEFT, RIGHT, WIDTH, colour_class, inline, step};
use crate::sync::SyncFigures;

const HEIGHT: f64 = 220.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 190.0;
/// More rounds than pixels cannot be told apart.
const POINTS_MAX: usize = 5000;

/// A point for each round with a lag, with a line as long as what it may be off by; nothing: there is none.
pub fn round_plot(figures: &SyncFigures) -> Option<String> {
    let known = figures.rounds().iter().filter_map(|(round, _)| Some((round, round.lag_ns?)));
    let points: Vec<_> = known.take(POINTS_MAX).collect();
    let most_ns = points.iter().map(|(round, lag_ns)| lag_ns + round.clock_bound_ns).max()?;
    let most_us = (most_ns.max(1) as f64) / 1e3;
    let high = |us: f64| BOTTOM - (BOTTOM - TOP) * (us / most_us).clamp(0.0, 1.0);
    let wide = WIDTH - LEFT - RIGHT;
    let mut body = String::new();
    let step = step(most_us, 5.0);
    let mut us = 0.0;
    while us <= most_us {
        let y = high(us);
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
    let mut counts: Vec<u32> = points.iter().map(|(round, _)| round.workers).collect();
    counts.sort_unstable();
    counts.dedup();
    for (index, (round, lag_ns)) in points.iter().enumerate() {
        let x = LEFT + wide * (index as f64 + 0.5) / points.len() as f64;
        let (lag_us, bound_us) = (*lag_ns as f64 / 1e3, round.clock_bound_ns as f64 / 1e3);
        let place = counts.iter().position(|one| *one == round.workers).unwrap_or(0);
        let class = colour_class(place, counts.len());
        let _ = write!(
            body,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>round {}, {} workers: {lag_us:.1} us</title></circle>",
            high((lag_us - bound_us).max(0.0)),
            high(lag_us + bound_us),
            high(lag_us),
            round.number,
            round.workers
        );
    }
    let _ = write!(
        body,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\
         <text x=\"{LEFT}\" y=\"{:.1}\">start lag, us, by round</text>",
        WIDTH - RIGHT,
        BOTTOM + 20.0
    );
    Some(inline(WIDTH, HEIGHT, "start lag of each synchronised round", &body))
}
