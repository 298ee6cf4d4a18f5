//! Streams on the page: how each ended, what went in and out, and between which hosts.

use std::fmt::Write as _;

use rakuda_proto::streams::LineKind;

use crate::report::format::{bytes, count_u64, counted_u64};
use crate::report::html::tables::{END, cell, cut, first, head};
use crate::report::plot::escape;
use crate::report::text::{costs_words, end_note, ends_words, route_words, stall_words, way_note};
use crate::report::{Report, node_name};
use crate::summary::streams::{StreamFate, StreamSummary, streams};

/// Maximum number of streams of which each end is shown.
const DETAILS_MAX: usize = 40;

/// Writes the section, if a stream was opened.
pub fn section(body: &mut String, report: &Report) {
    let found = streams(report.run);
    if found.is_empty() {
        return;
    }
    *body += "<h2 id=\"streams\">Streams</h2>";
    overview(body, report, &found);
    for (index, stream) in found.iter().enumerate().take(DETAILS_MAX) {
        let (size, records) = (bytes(stream.bytes()), counted_u64(stream.records(), "record"));
        let _ = write!(
            body,
            "<h3>{}</h3><p>{size}, {records}, {}.</p>",
            escape(&stream.name),
            ends_span(stream)
        );
        for stall in first(&stream.stalls) {
            let _ = write!(
                body,
                "<p class=\"bad\">It {}.</p>",
                escape(&stall_words(report, stream, stall))
            );
        }
        ends_table(body, report, stream, index);
        hops(body, report, stream, index);
    }
    if found.len() > DETAILS_MAX {
        let _ = write!(
            body,
            "<p class=\"soft\">The ends of the first {DETAILS_MAX} of {}; \
             <code>rakudactl report --json</code> has those of all.</p>",
            count_u64(found.len() as u64)
        );
    }
}

/// A row for each stream.
fn overview(body: &mut String, report: &Report, found: &[StreamSummary]) {
    let columns = ["<stream", "<from", "<to", "bytes", "records", "<ends", "<route", "<place"];
    head(body, "streams-table", &columns);
    for stream in first(found) {
        let _ = write!(body, "<tr><td class=\"t\">{}</td>", escape(&stream.name));
        for sides in [&stream.writers, &stream.readers] {
            let shown = match &sides[..] {
                [one] => report.name(one.task),
                _ => counted_u64(sides.len() as u64, "task"),
            };
            let _ = write!(body, "<td class=\"t\">{}</td>", escape(&shown));
        }
        figures(body, stream.bytes(), stream.records());
        let route = stream.route.as_ref();
        let route = route.map_or_else(|| "on one host".to_owned(), route_words);
        let _ = write!(
            body,
            "<td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td></tr>",
            ends_span(stream),
            escape(&route),
            escape(&stream.place)
        );
    }
    *body += END;
    cut(body, found.len());
}

fn ends_span(stream: &StreamSummary) -> String {
    let class = match stream.fate {
        StreamFate::Well if stream.is_balanced() => "soft",
        StreamFate::Open => "soft",
        StreamFate::Well | StreamFate::Fault(_) | StreamFate::Closed => "bad",
    };
    format!("<span class=\"{class}\">{}</span>", escape(&ends_words(stream)))
}

fn ends_table(body: &mut String, report: &Report, stream: &StreamSummary, index: usize) {
    let id = format!("stream-{index}");
    head(body, &id, &["<end", "<task", "bytes", "records", "<note"]);
    let sides = [("from", &stream.writers), ("to", &stream.readers)];
    for (word, side) in sides.iter().flat_map(|(word, ends)| first(ends).map(move |it| (*word, it)))
    {
        let _ = write!(
            body,
            "<tr><td class=\"t\">{word}</td><td class=\"t\">{}</td>",
            escape(&report.name(side.task))
        );
        let note = if let Some(account) = &side.account {
            figures(body, account.bytes, account.records);
            end_note(word, account, stream)
        } else {
            *body += "<td data-v=\"\">–</td><td data-v=\"\">–</td>";
            "not known".to_owned()
        };
        let _ = write!(body, "<td class=\"t\">{note}</td></tr>");
    }
    *body += END;
    for (_, ends) in sides {
        cut(body, ends.len());
    }
}

fn hops(body: &mut String, report: &Report, stream: &StreamSummary, index: usize) {
    let Some(route) = &stream.route else { return };
    let before = stream.routes_before.iter().map(|route| format!("{}, then ", route_words(route)));
    let words = before.chain([route_words(route)]).collect::<String>();
    let _ = write!(body, "<p>Between hosts: route {}", escape(&words));
    for (name, line) in [("within groups", LineKind::Lan), ("between groups", LineKind::Wan)] {
        let copies = stream.copies(line);
        if copies.edges > 0 {
            let edges = counted_u64(copies.edges, "edge");
            let _ = write!(body, "; {name} {edges}, {}", bytes(copies.bytes));
        }
    }
    *body += ".";
    if !route.costs.is_empty() {
        let _ = write!(body, " <span class=\"soft\">Weighed: {}.</span>", costs_words(route));
    }
    *body += "</p>";
    let id = format!("hops-{index}");
    head(body, &id, &["<from", "<to", "<line", "bytes", "records", "<note"]);
    for hop in first(&stream.hops) {
        let (from, to) = (node_name(report.run, hop.from), node_name(report.run, hop.to));
        let line = match hop.line {
            LineKind::Lan => "within a group",
            LineKind::Wan => "between groups",
        };
        let _ = write!(
            body,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"t\">{line}</td>",
            escape(&from),
            escape(&to)
        );
        figures(body, hop.bytes, hop.records);
        let _ = write!(body, "<td class=\"t\">{}</td></tr>", way_note(hop, stream));
    }
    *body += END;
    cut(body, stream.hops.len());
}

fn figures(row: &mut String, size: u64, records: u64) {
    cell(row, size as f64, &bytes(size));
    cell(row, records as f64, &count_u64(records));
}
