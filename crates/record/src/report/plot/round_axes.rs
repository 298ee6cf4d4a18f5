//! What pictures of synchronised rounds have in common: axes of times in µs, words and colours below, lines and bars of
//! what a value may be. It knows no round.

use std::fmt::Write as _;

use crate::report::plot::drawing::{LEFT, RIGHT, WIDTH, escape, step};

/// Height of a picture, px.
pub(super) const HEIGHT: f64 = 224.0;
/// Top of the plot, px.
pub(super) const TOP: f64 = 12.0;
/// Bottom of the plot, px.
pub(super) const BOTTOM: f64 = 190.0;
/// Maximum number of points that are drawn. Nobody can tell more of them apart than there are pixels.
pub(super) const POINTS_MAX: usize = 5000;
/// Width of a letter of an axis on average, px.
pub(super) const LETTER: f64 = 7.2;
/// Width of a bar, px.
const BAR: f64 = 8.0;

/// The axis of times from 0 µs on, and how high one is.
pub(super) fn time_axis(body: &mut String, most_ns: u64) -> impl Fn(f64) -> f64 + use<> {
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

/// The axis of times with 0 in the middle, and how high one is.
pub(super) fn axis_around_zero(body: &mut String, most_ns: f64) -> impl Fn(f64) -> f64 + use<> {
    let most_us = (most_ns / 1e3).max(1e-3);
    let middle = f64::midpoint(TOP, BOTTOM);
    let high = move |ns: f64| middle - (BOTTOM - TOP) / 2.0 * (ns / 1e3 / most_us).clamp(-1.0, 1.0);
    let step = step(most_us, 3.0);
    let mut us = -(most_us / step).floor() * step;
    while us <= most_us {
        grid_line(body, high(us * 1e3), if us.abs() < step / 2.0 { 0.0 } else { us });
        us += step;
    }
    high
}

/// A line over all of the plot, with its time at the left.
fn grid_line(body: &mut String, y: f64, us: f64) {
    let _ = write!(
        body,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0,
        // Not 0.30000000000000004, which sums of steps come to.
        (us * 1e6).round() / 1e6
    );
}

/// Words below the axis, in the middle of their place.
pub(super) fn label(body: &mut String, x: f64, words: &str) {
    let _ = write!(
        body,
        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        BOTTOM + 12.0,
        escape(words)
    );
}

/// The line below, with words, and what each colour stands for, as far as there is room.
pub(super) fn foot(body: &mut String, words: &str, key: &[(usize, String)]) {
    let y = BOTTOM + 28.0;
    let _ = write!(
        body,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\
         <text x=\"{LEFT}\" y=\"{y:.1}\">{words}</text>",
        WIDTH - RIGHT
    );
    let wide = |words: &str| LETTER * words.chars().count() as f64;
    let mut x = LEFT + wide(words) + 16.0;
    for (class, name) in key {
        let next = x + 14.0 + wide(name) + 16.0;
        if next > WIDTH {
            break;
        }
        let _ = write!(
            body,
            "<rect class=\"c{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            y - 9.0,
            x + 14.0,
            escape(name)
        );
        x = next;
    }
}

/// From what a value is at least to what it is at most.
pub(super) fn whisker(body: &mut String, x: f64, low: f64, high: f64) {
    let _ = write!(
        body,
        "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
    );
}

/// Draws the clock bound around a mean or a median, unless that is exact.
pub(super) fn bar(
    body: &mut String,
    class: usize,
    x: f64,
    ns: u64,
    bound_ns: u64,
    high: impl Fn(f64) -> f64,
) {
    if bound_ns == 0 {
        return;
    }
    let (top, bottom) = (high((ns + bound_ns) as f64), high(ns.saturating_sub(bound_ns) as f64));
    let _ = write!(
        body,
        "<rect class=\"c{class}\" opacity=\"0.3\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{BAR}\" height=\"{:.1}\"/>",
        x - BAR / 2.0,
        bottom - top
    );
}

/// The attribute of each element with that class, in order; for tests.
#[cfg(test)]
pub(super) fn values<'a>(
    body: &'a str,
    element: &str,
    class: &str,
    attribute: &str,
) -> Vec<&'a str> {
    let begin = format!("<{element} class=\"{class}\"");
    let named = format!(" {attribute}=\"");
    let value = |rest: &'a str| {
        let (attributes, _) = rest.split_once('>')?;
        attributes.split_once(&named)?.1.split('"').next()
    };
    body.split(&begin).skip(1).filter_map(value).collect()
}
