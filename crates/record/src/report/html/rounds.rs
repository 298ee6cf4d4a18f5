//! Synchronised rounds on the page: all pictures, what is said of lags and overheads, and each round.

use std::fmt::Write as _;

use crate::report::html::tables::{END, cell, head};
use crate::report::plot::{escape, round_plots};
use crate::report::{Report, sync};
use crate::sync::{Measured, SyncFigures};
use crate::words::duration_in_words;

/// Maximum number of rounds that are listed.
const ROWS_MAX: usize = 1000;

/// Writes the section, if there was a round.
pub fn section(body: &mut String, report: &Report) {
    let Some(figures) = sync::figures_of(report.run) else { return };
    *body += "<h2 id=\"rounds\">Synchronised rounds</h2>";
    for plot in round_plots(&figures) {
        let (picture, caption) = (plot.inline(), plot.caption);
        let _ = write!(
            body,
            "<figure class=\"wide\">{picture}</figure><p class=\"soft\">{caption}</p>"
        );
    }
    head(
        body,
        "lag-table",
        &["<sync", "<figure", "workers", "rounds", "mean", "min", "median", "p99", "max", "within"],
    );
    for (title, group, Measured { spread: it, clock_bound_ns }) in sync::spreads(&figures) {
        let _ = write!(
            body,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{title}</td>",
            escape(&group.sync)
        );
        cell(body, f64::from(group.workers), &group.workers.to_string());
        cell(body, it.count as f64, &it.count.to_string());
        for ns in [it.mean, it.min, it.median, it.p99, it.max] {
            cell(body, ns as f64, &duration_in_words(ns));
        }
        cell(body, clock_bound_ns as f64, &sync::bound_of(clock_bound_ns));
        *body += "</tr>";
    }
    *body += END;
    collected(body, &figures);
    *body += "<ul>";
    for line in sync::remarks(&figures) {
        let _ = write!(body, "<li>{}</li>", escape(line.trim()));
    }
    *body += "</ul>";
    head(
        body,
        "round-table",
        &[
            "<sync",
            "round",
            "<parameter",
            "workers",
            "<gate",
            "start lag",
            "within",
            "late",
            "failed",
            "<note",
        ],
    );
    for round in figures.rounds().iter().take(ROWS_MAX).map(|round| &round.ended) {
        let _ = write!(body, "<tr><td class=\"t\">{}</td>", escape(&round.sync.to_display()));
        cell(body, f64::from(round.number), &round.number.to_string());
        let parameter = round.parameter.as_ref().map(rakuda_proto::Text::to_display);
        let _ = write!(body, "<td class=\"t\">{}</td>", escape(&parameter.unwrap_or_default()));
        cell(body, f64::from(round.workers), &round.workers.to_string());
        let _ = write!(body, "<td class=\"t\">{}</td>", escape(&round.gate));
        cell(body, round.lag_ns.map_or(-1.0, |ns| ns as f64), &sync::lag_of(round));
        cell(body, round.clock_bound_ns as f64, &sync::bound_of(round.clock_bound_ns));
        cell(body, f64::from(round.late), &round.late.to_string());
        cell(body, f64::from(round.failed), &round.failed.to_string());
        let fault = round.fault.as_ref().map(rakuda_proto::Text::to_display).unwrap_or_default();
        let _ =
            write!(body, "<td class=\"t\">{}{}</td>", sync::mark_of(round).trim(), escape(&fault));
        *body += "</tr>";
    }
    *body += END;
    if figures.rounds().len() > ROWS_MAX {
        let _ = write!(
            body,
            "<p class=\"soft\">The first {ROWS_MAX} of {}.</p>",
            figures.rounds().len()
        );
    }
}

/// Figures that programs have printed.
fn collected(body: &mut String, figures: &SyncFigures) {
    let rows = sync::collected_rows(figures);
    if rows.is_empty() {
        return;
    }
    head(
        body,
        "value-table",
        &[
            "<sync",
            "<printed by the programs",
            "<parameter",
            "workers",
            "rounds",
            "mean",
            "min",
            "max",
            "total",
            "undefined",
        ],
    );
    for row in &rows {
        let _ = write!(
            body,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td>",
            escape(&row.group.sync),
            escape(&row.name),
            escape(&row.parameter)
        );
        cell(body, f64::from(row.group.workers), &row.group.workers.to_string());
        let words = std::iter::once(&row.rounds).chain(&row.values).chain([&row.undefined]);
        for word in words {
            cell(body, word.parse().unwrap_or(-1.0), word);
        }
        *body += "</tr>";
    }
    *body += END;
}
