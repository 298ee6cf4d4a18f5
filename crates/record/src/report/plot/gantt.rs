//! Which attempt used which core slot when. A picture of few attempts shows each; one of many shows for each cell of
//! slots and time how busy it was, and with which rule.

use std::fmt::Write as _;

use crate::report::Report;
use crate::report::plot::drawing::{LEFT, RIGHT, WIDTH, colour_class, document, escape, time_axis};
use crate::summary::Summary;
use crate::summary::spans::{Ending, Piece};

/// Maximum number of attempts that are drawn one by one.
const SPANS_MAX: usize = 5000;
/// Maximum rows of the picture.
const ROWS_MAX: u32 = 96;
/// Top of the rows, px.
const TOP: f64 = 30.0;

/// Rows of a chart: lanes of nodes, several in one when there are too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// First lane of each node among all lanes.
    pub first_lane: Vec<u32>,
    /// Lanes of each node.
    pub lanes: Vec<u32>,
    /// Lanes in a row.
    pub in_row: u32,
    /// Rows in all.
    pub count: u32,
}

impl Rows {
    /// At most `most` rows for the attempts of a run.
    pub fn of(summary: &Summary, most: u32) -> Self {
        let mut lanes = vec![0_u32; summary.nodes.len().max(1)];
        for piece in &summary.pieces {
            let node = piece.node as usize;
            let lanes = &mut lanes[node.min(summary.nodes.len().saturating_sub(1))];
            *lanes = (*lanes).max(piece.lane.saturating_add(piece.cores));
        }
        let mut first_lane = Vec::with_capacity(lanes.len());
        let mut all = 0_u32;
        for &lanes in &lanes {
            first_lane.push(all);
            all = all.saturating_add(lanes);
        }
        let in_row = all.div_ceil(most).max(1);
        Self { first_lane, lanes, in_row, count: all.div_ceil(in_row) }
    }

    /// The rows that a piece covers.
    fn rows(&self, piece: &Piece) -> std::ops::RangeInclusive<u32> {
        let node = piece.node as usize;
        let first = self.first_lane[node.min(self.first_lane.len() - 1)];
        let lane = first.saturating_add(piece.lane);
        let row = |lane: u32| (lane / self.in_row).min(self.count.saturating_sub(1));
        row(lane)..=row(lane.saturating_add(piece.cores.max(1) - 1))
    }
}

/// Cells of rows and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// Rows.
    pub rows: Rows,
    /// Cells of a row.
    pub columns: usize,
    /// Row by row: the group that had most of the cell (`None`: idle), and the busy share.
    pub cells: Vec<(Option<u32>, f32)>,
}

/// While cells are filled: the candidate for most of the time, its lead, and all time; in cells.
#[derive(Clone, Copy, Default)]
struct Vote {
    group: Option<u32>,
    lead: f32,
    busy: f32,
}

impl Vote {
    /// The majority vote of Boyer and Moore (1981), weighted with time: right whenever one group has more than half.
    fn add(&mut self, group: u32, time: f32) {
        self.busy += time;
        if self.group == Some(group) {
            self.lead += time;
        } else if self.lead < time {
            self.group = Some(group);
            self.lead = time - self.lead;
        } else {
            self.lead -= time;
        }
    }
}

impl Cells {
    /// Of all attempts.
    pub fn of(report: &Report, rows_max: u32, columns: usize) -> Self {
        let summary = report.summary;
        let rows = Rows::of(summary, rows_max);
        let mut votes = vec![Vote::default(); rows.count as usize * columns];
        let bin_ns = (summary.end_ns - summary.start_ns).max(1) as f64 / columns as f64;
        for piece in &summary.pieces {
            let group = summary.spans[piece.span as usize].group;
            let from = ((piece.start_ns - summary.start_ns) as f64 / bin_ns).max(0.0);
            let to = ((piece.end_ns - summary.start_ns) as f64 / bin_ns).min(columns as f64);
            for row in rows.rows(piece) {
                let row = &mut votes[row as usize * columns..][..columns];
                for (bin, vote) in
                    row.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize)
                {
                    let share = to.min((bin + 1) as f64) - from.max(bin as f64);
                    vote.add(group, share.max(0.0) as f32);
                }
            }
        }
        let lanes = rows.in_row as f32;
        let cells =
            votes.into_iter().map(|vote| (vote.group, (vote.busy / lanes).min(1.0))).collect();
        Self { rows, columns, cells }
    }
}

/// The chart as a picture of its own.
pub fn gantt(report: &Report) -> String {
    let summary = report.summary;
    let rows = Rows::of(summary, ROWS_MAX);
    let high = (520.0 / f64::from(rows.count.max(1))).clamp(4.0, 22.0);
    let bottom = TOP + high * f64::from(rows.count.max(1));
    let title = format!("Attempts by node and core slot, run {}", report.run.started.run);
    let mut body = format!("<text x=\"{LEFT}\" y=\"18\">{}</text>", escape(&title));
    time_axis(&mut body, summary.makespan_s(), TOP, bottom);
    node_axis(&mut body, report, &rows, high);
    if summary.pieces.len() <= SPANS_MAX {
        each(&mut body, report, &rows, high);
    } else {
        cells(&mut body, report, high);
    }
    document(WIDTH, bottom + 44.0, &title, &body)
}

fn node_axis(body: &mut String, report: &Report, rows: &Rows, high: f64) {
    for (index, node) in report.summary.nodes.iter().enumerate() {
        if node.is_spare() {
            continue;
        }
        let y = TOP + high * f64::from(rows.first_lane[index]) / f64::from(rows.in_row);
        let name: String = node.name.chars().take(7).collect();
        let _ = write!(
            body,
            "<path class=\"axis\" d=\"M8 {y:.1}H{:.1}\"/><text x=\"8\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            y + 13.0,
            escape(&name)
        );
    }
}

/// The place of each group in the order of colours.
pub fn places(report: &Report) -> Vec<usize> {
    let mut places = vec![0; report.summary.groups.len()];
    for (index, &group) in report.summary.ranked.iter().enumerate() {
        places[group as usize] = colour_class(index, report.summary.curve.groups.len());
    }
    places
}

fn each(body: &mut String, report: &Report, rows: &Rows, high: f64) {
    let summary = report.summary;
    let places = places(report);
    let scale = (WIDTH - LEFT - RIGHT) / (summary.end_ns - summary.start_ns).max(1) as f64;
    for piece in &summary.pieces {
        let span = &summary.spans[piece.span as usize];
        let x = LEFT + scale * (piece.start_ns - summary.start_ns) as f64;
        let wide = (scale * (piece.end_ns - piece.start_ns) as f64).max(0.3);
        let covered = rows.rows(piece);
        let y = TOP + high * f64::from(*covered.start());
        let high = high * f64::from(covered.end() - covered.start() + 1) - 1.0;
        let class = match span.ending {
            Ending::Done | Ending::Open => format!("c{}", places[span.group as usize]),
            Ending::Failed | Ending::Retried | Ending::Aborted => "failed".to_owned(),
        };
        let _ = write!(
            body,
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{wide:.2}\" height=\"{high:.1}\"/>"
        );
    }
}

fn cells(body: &mut String, report: &Report, high: f64) {
    let wide = WIDTH - LEFT - RIGHT;
    let cells = Cells::of(report, ROWS_MAX, wide as usize);
    let places = places(report);
    for row in 0..cells.rows.count as usize {
        let y = TOP + high * row as f64;
        let of_row = &cells.cells[row * cells.columns..][..cells.columns];
        let mut from = 0;
        while from < of_row.len() {
            let look = |cell: &(Option<u32>, f32)| (cell.0, (cell.1 * 5.0).ceil() as u32);
            let same =
                of_row[from..].iter().take_while(|cell| look(cell) == look(&of_row[from])).count();
            if let (Some(group), busy) = of_row[from] {
                let _ = write!(
                    body,
                    "<rect class=\"c{}\" opacity=\"{:.1}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{same}\" height=\"{:.1}\"/>",
                    places[group as usize],
                    (busy * 5.0).ceil() / 5.0,
                    LEFT + from as f64,
                    (high - 0.5).max(1.0)
                );
            }
            from += same;
        }
    }
}
