//! The clocks of nodes elsewhere in synchronised rounds: how far each was ahead of that of the machine of `rakuda`, by
//! two estimates, and how far away it is (figure 7 of Iwai, Tatebe, Tanaka 2016).

use std::fmt::Write as _;

use rakuda_proto::journal::RoundClock;

use crate::report::plot::drawing::{LEFT, RIGHT, WIDTH, escape};
use crate::report::plot::round_axes::{LETTER, POINTS_MAX, axis_around_zero, foot, label, whisker};
use crate::sync::SyncFigures;

/// Distance from one column of a node to the next, px.
const COLUMN: f64 = 8.0;

/// A clock in a round, ns. Clocks that are hours apart are comparable by what is said of each less what was said of it
/// first.
#[expect(clippy::struct_field_names, reason = "all are times, and named with their unit")]
struct Point {
    /// How far it was ahead: the middle of what the bounds of all exchanges leave.
    ahead_ns: f64,
    /// Maximum error of that.
    bound_ns: f64,
    /// How far it was ahead by the paper's formula, of the exchange with the shortest round trip alone.
    paper_ns: Option<f64>,
    /// That round trip.
    round_trip_ns: Option<f64>,
}

impl Point {
    fn of(clock: &RoundClock, first_ns: i64) -> Option<Self> {
        let since = |ns: i64| ns.wrapping_sub(first_ns) as f64;
        Some(Self {
            ahead_ns: since(clock.ahead_ns?),
            bound_ns: clock.bound_ns.unwrap_or(0) as f64,
            // The paper says how far it is behind.
            paper_ns: clock.paper_ns.map(|ns| since(ns.wrapping_neg())),
            round_trip_ns: clock.round_trip_ns.map(|ns| ns as f64),
        })
    }

    /// The farthest from 0 that is drawn of it.
    fn far_ns(&self) -> f64 {
        let estimate_ns = self.ahead_ns.abs() + self.bound_ns;
        estimate_ns.max(self.paper_ns.unwrap_or(0.0).abs()).max(self.round_trip_ns.unwrap_or(0.0))
    }
}

/// The picture of clocks. `None`: all workers were on one machine.
pub(super) fn clocks(figures: &SyncFigures) -> Option<String> {
    let all = figures.clocks();
    let mut points = Vec::new();
    for (index, clocks) in all.values().enumerate() {
        let first_ns = clocks.first()?.ahead_ns?;
        points.extend(clocks.iter().filter_map(|it| Some((index, Point::of(it, first_ns)?))));
    }
    let most_ns = points.iter().map(|(_, point)| point.far_ns()).max_by(f64::total_cmp)?;
    let mut body = String::new();
    let high = axis_around_zero(&mut body, most_ns);
    let wide = (WIDTH - LEFT - RIGHT) / all.len() as f64;
    let along = |index: usize| LEFT + wide * (index as f64 + 0.5);
    let names: Vec<&String> = all.keys().collect();
    for (index, name) in names.iter().enumerate() {
        if LETTER * name.chars().count() as f64 <= wide {
            label(&mut body, along(index), name);
        }
    }
    for (index, point) in points.iter().take(POINTS_MAX) {
        draw(&mut body, point, along(*index), names[*index], &high);
    }
    let key = ["clock, by all exchanges", "T2 - (T3 + T1) / 2, shortest", "shortest round trip"];
    let key: Vec<(usize, String)> = key.map(str::to_owned).into_iter().enumerate().collect();
    foot(&mut body, "µs, by node, less the first:", &key);
    Some(body)
}

/// In three columns: by all exchanges, by the shortest, and its round trip.
fn draw(body: &mut String, point: &Point, x: f64, name: &str, high: impl Fn(f64) -> f64) {
    let Point { ahead_ns, bound_ns, .. } = *point;
    whisker(body, x - COLUMN, high(ahead_ns - bound_ns), high(ahead_ns + bound_ns));
    let mut circle = |class: usize, x: f64, ns: f64, what: &str| {
        let _ = write!(
            body,
            "<circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {what} {:.1} µs</title></circle>",
            high(ns),
            escape(name),
            ns / 1e3
        );
    };
    circle(0, x - COLUMN, ahead_ns, "by the bounds of all exchanges");
    if let Some(ns) = point.paper_ns {
        circle(1, x, ns, "by T2 - (T3 + T1) / 2 of the shortest exchange");
    }
    if let Some(ns) = point.round_trip_ns {
        circle(2, x + COLUMN, ns, "round trip of the shortest exchange");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rakuda_proto::Text;
    use rakuda_proto::journal::RoundEnded;

    use super::*;
    use crate::report::plot::round_axes::{BOTTOM, TOP, values};

    fn clock(name: &str, number: i64) -> RoundClock {
        RoundClock {
            name: Text::from(name),
            ahead_ns: Some(7_200_000_000_000 + number * 10_000),
            bound_ns: Some(30_000),
            paper_ns: Some(-7_200_000_020_000),
            round_trip_ns: Some(40_000),
            ..RoundClock::default()
        }
    }

    /// How high times are of two nodes in two rounds, where 40 us are at the top and 0 is in the middle.
    fn high(us: [f64; 2]) -> Vec<String> {
        let middle = f64::midpoint(TOP, BOTTOM);
        let one = |us: f64| format!("{:.1}", middle - (BOTTOM - TOP) / 2.0 * us / 40.0);
        [us, us].concat().into_iter().map(one).collect()
    }

    #[test]
    fn clocks_are_drawn_by_both_estimates_with_the_round_trip() {
        let mut figures = SyncFigures::default();
        let rounds = [0, 1].map(|number| RoundEnded {
            clocks: ["far", "<near>"].map(|name| clock(name, number)).to_vec(),
            ..RoundEnded::default()
        });
        figures.add(&rounds, &BTreeMap::new(), &|_| String::new());
        let body = &clocks(&figures).unwrap();
        assert_eq!(values(body, "circle", "c0", "cy"), high([0.0, 10.0]));
        // The last line is the axis.
        assert_eq!(values(body, "line", "axis", "y1")[..4], high([-30.0, -20.0]));
        assert_eq!(values(body, "line", "axis", "y2")[..4], high([30.0, 40.0]));
        assert_eq!(values(body, "circle", "c1", "cy"), high([20.0, 20.0]));
        assert_eq!(values(body, "circle", "c2", "cy"), high([40.0, 40.0]));
        let keys = [
            "clock, by all exchanges",
            "T2 - (T3 + T1) / 2, shortest",
            "shortest round trip",
            "far",
            "&lt;near&gt;",
        ];
        for words in keys {
            assert!(body.contains(&format!(">{words}</text>")), "{words}: {body}");
        }
        assert!(!body.contains("NaN"));
    }

    #[test]
    fn without_nodes_elsewhere_there_is_no_picture() {
        let mut figures = SyncFigures::default();
        figures.add(&[RoundEnded::default()], &BTreeMap::new(), &|_| String::new());
        assert_eq!(clocks(&figures), None);
    }
}
