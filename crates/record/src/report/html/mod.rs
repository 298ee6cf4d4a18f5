//! A run as one page: nothing is loaded from anywhere, and without its script it lacks only sorting,
//! the chart of attempts and the table of all tasks.
//!
//! Here is the frame; [`facts`], [`tables`], [`streams`], [`rounds`] and [`compare`] have the parts. Everything
//! that comes from a run goes through [`escape`] or [`crate::report::data::embedded`].

mod compare;
mod definitions;
mod facts;
mod frame;
mod live;
mod rounds;
mod streams;
mod tables;

use crate::report::plot::{rule_graph, running};
use crate::report::{Report, data};
pub use compare::page as compare;
use frame::{frame, legend};
pub use live::page as live;
use std::fmt::Write as _;

/// The page.
pub fn page(report: &Report) -> String {
    let mut body = facts::header(report);
    body += "<main>";
    tables::failed(&mut body, report);
    running_section(&mut body, report);
    chart_section(&mut body, report);
    tables::rules(&mut body, report);
    graph_section(&mut body, report);
    tasks_section(&mut body);
    tables::critical_path(&mut body, report);
    tables::slowest(&mut body, report);
    tables::retried(&mut body, report);
    streams::section(&mut body, report);
    rounds::section(&mut body, report);
    tables::nodes(&mut body, report);
    tables::placements(&mut body, report);
    facts::settings(&mut body, report);
    definitions::section(&mut body);
    body += "</main>";
    let embedded = data::embedded(&data::chart(report));
    let _ = write!(body, "<script type=\"application/json\" id=\"data\">{embedded}</script>");
    frame(&format!("Run {}", report.run.started.run), &body)
}

fn running_section(body: &mut String, report: &Report) {
    *body += "<h2 id=\"running\">Running processes over time</h2>";
    if report.summary.curve.series.is_empty() {
        *body += "<p class=\"soft\">Nothing ran.</p>";
        return;
    }
    let _ = write!(body, "<figure class=\"whole\">{}</figure>", running(report, false));
    legend(body, report, &report.summary.curve);
    *body += "<p class=\"soft\">By rule, stacked; the dashed line is the number of cores. Each value is a mean over a \
              480th of the run.</p>";
}

fn chart_section(body: &mut String, report: &Report) {
    if report.summary.spans.is_empty() {
        return;
    }
    *body += "<h2 id=\"gantt-section\">Attempts by node and core slot</h2>\
              <noscript><p class=\"soft\">The chart needs JavaScript; <code>rakudactl report --svg DIR</code> writes it as a \
              picture.</p></noscript>\
              <div data-script hidden><div class=\"tools\"><button type=\"button\" id=\"zoom-in\" aria-label=\"zoom in\">+</button>\
              <button type=\"button\" id=\"zoom-out\" aria-label=\"zoom out\">−</button>\
              <button type=\"button\" id=\"zoom-all\">whole run</button>";
    if report.summary.pieces.len() <= data::SPANS_MAX {
        *body += "<label><input type=\"checkbox\" id=\"critical-path-shown\"> critical path</label>\
                  <input type=\"search\" id=\"search\" placeholder=\"find tasks by name\" aria-label=\"find tasks by name\">";
    } else {
        *body += "<input type=\"search\" id=\"search\" hidden>";
    }
    *body += "</div><div id=\"gantt\"><canvas id=\"chart\" tabindex=\"0\" role=\"img\" \
              aria-label=\"chart of attempts by node and core slot over time\"></canvas><div id=\"tip\"></div></div>\
              <div id=\"found\"></div>";
    *body += if report.summary.pieces.len() <= data::SPANS_MAX {
        "<p class=\"soft\">Colours are those of the rules above; failed attempts are red, attempts that had not ended pale. \
         Drag to move, wheel with Shift or Ctrl (or after a click) to zoom, double click to zoom in; keys + − 0 ← →.</p></div>"
    } else {
        "<p class=\"soft\">More than 200,000 attempts: a cell has the colour of the rule that used most of it, and is the paler \
         the more of it was idle. Drag to move, wheel with Shift or Ctrl (or after a click) to zoom; keys + − 0 ← →.</p></div>"
    };
}

fn graph_section(body: &mut String, report: &Report) {
    if report.summary.spans.is_empty() {
        return;
    }
    *body += "<h2 id=\"graph\">Graph of rules</h2>";
    match rule_graph(report) {
        Some(picture) => {
            let _ = write!(body, "<figure class=\"graph\">{picture}</figure>");
            *body += "<p class=\"soft\">What comes first stands above; a line is the thicker the more pairs of tasks it stands \
                      for. Tasks without an action are left out.";
            *body += if report.run.streams.is_empty() {
                "</p>"
            } else {
                " Boxes with round ends are <a href=\"#streams\">streams</a>.</p>"
            };
        }
        None => {
            *body += "<p class=\"soft\">Too many rules for a picture here; <code>rakudactl export dot --of rules</code> writes the \
                      graph for Graphviz.</p>";
        }
    }
}

fn tasks_section(body: &mut String) {
    *body += "<h2 id=\"tasks\">All tasks</h2>\
              <noscript><p class=\"soft\">The table needs JavaScript; <code>rakudactl report --csv DIR</code> writes one.</p></noscript>\
              <div data-script hidden><div class=\"tools\">\
              <input type=\"search\" id=\"task-search\" placeholder=\"find by name, rule, command, node, reason ...\" \
              aria-label=\"find tasks\"><select id=\"task-status\" aria-label=\"status\"><option value=\"\">any status</option></select>\
              <span id=\"task-count\" class=\"soft\" aria-live=\"polite\"></span></div>\
              <div id=\"task-table\" class=\"virtual\" tabindex=\"0\" aria-label=\"all tasks\"></div>\
              <div id=\"task-detail\" hidden></div>\
              <p class=\"soft\">Figures are of a task's last attempt and all its commands; CPU is their time over the attempt's, so \
              above 100 % where they used several cores. A click on a row shows the whole of it; with the table in focus (Tab) \
              the arrow keys, Page Up and Down, Home and End go through rows, Enter shows one, and Escape closes it.</p></div>";
}
