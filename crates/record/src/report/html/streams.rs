//! Streams on the page: what went in and out of each, and between which hosts.

use std::fmt::Write as _;

use rakuda_proto::streams::LineKind;

use crate::report::format::{bytes, count_u64, counted_u64};
use crate::report::html::tables::{END, cell, cut, first, head};
use crate::report::plot::escape;
use crate::report::text::{end_note, ends_words, route_words, way_note};
use crate::report::{Report, node_name};
use crate::summary::streams::{StreamSummary, streams};

/// The section; nothing where no stream has ended well.
pub fn section(body: &mut String, report: &Report) {
    let found = streams(report.run);
    if found.is_empty() {
        return;
    }
    *body += "<h2 id=\"streams\">Streams</h2>";
    for (index, stream) in found.iter().enumerate() {
        let class = if stream.is_balanced() { "soft" } else { "bad" };
        let ends = ends_words(stream);
        let (size, records) = (bytes(stream.bytes()), counted_u64(stream.records(), "record"));
        let _ = write!(
            body,
            "<h3>{}</h3><p>{size}, {records}, <span class=\"{class}\">{ends}</span>.</p>",
            escape(&stream.name)
        );
        ends_table(body, report, stream, index);
        hops(body, report, stream, index);
    }
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
        figures(body, side.account.bytes, side.account.records);
        let note = end_note(word, &side.account);
        let _ = write!(body, "<td class=\"t\">{note}</td></tr>");
    }
    *body += END;
    for (_, ends) in sides {
        cut(body, ends.len());
    }
}

fn hops(body: &mut String, report: &Report, stream: &StreamSummary, index: usize) {
    let Some(route) = &stream.route else { return };
    let _ = write!(body, "<p>Between hosts: route {}", route_words(route));
    for (name, line) in [("within groups", LineKind::Lan), ("between groups", LineKind::Wan)] {
        let copies = stream.copies(line);
        if copies.edges > 0 {
            let edges = counted_u64(copies.edges, "edge");
            let _ = write!(body, "; {name} {edges}, {}", bytes(copies.bytes));
        }
    }
    *body += ".</p>";
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
        let _ = write!(body, "<td class=\"t\">{}</td></tr>", way_note(hop));
    }
    *body += END;
    cut(body, stream.hops.len());
}

fn figures(row: &mut String, size: u64, records: u64) {
    cell(row, size as f64, &bytes(size));
    cell(row, records as f64, &count_u64(records));
}
