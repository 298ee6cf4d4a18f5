//! The tables of the page. They are whole without a script; cells whose text is no plain number carry it in `data-v`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rakuda_proto::memory;

use crate::report::format::{bytes, count, counted, percent, seconds};
use crate::report::html::frame::swatch;
use crate::report::plot::{colour_class, escape, rule_axis, rule_plot};
use crate::report::text::metadata_line;
use crate::report::{Failure, Report, failures};
use crate::summary::groups::Group;
use crate::summary::seconds as of_ns;
use crate::summary::spans::{Ending, Span};
use crate::summary::tables::GroupSummary;

/// Maximum rows of a list of tasks.
const ROWS_MAX: usize = 200;
/// Maximum number of failed tasks that are seen at once. Further ones stand in a box that opens.
const FAILED_SHOWN: usize = 10;
/// Maximum number of failed tasks that are all shown whole. Of more, the first one is.
const FAILED_OPEN: usize = 3;

/// A cell with a number: what is shown, and what it is sorted by.
pub fn cell(row: &mut String, value: f64, shown: &str) {
    let _ = write!(row, "<td data-v=\"{value}\">{shown}</td>");
}

fn cell_of(row: &mut String, value: Option<f64>, shown: impl Fn(f64) -> String) {
    match value {
        Some(value) => cell(row, value, &shown(value)),
        None => *row += "<td data-v=\"\">–</td>",
    }
}

fn cell_count(row: &mut String, number: usize, bad: bool) {
    let class = if bad && number > 0 { " class=\"bad\"" } else { "" };
    let _ = write!(row, "<td data-v=\"{number}\"{class}>{}</td>", count(number));
}

/// A head of these columns; a leading `<` is for text, which stands on the left.
pub fn head(body: &mut String, id: &str, columns: &[&str]) {
    let _ = write!(body, "<div class=\"scroll\"><table class=\"sortable\" id=\"{id}\"><thead><tr>");
    for column in columns {
        let _ = match column.strip_prefix('<') {
            Some(name) => write!(body, "<th class=\"t\" scope=\"col\">{name}</th>"),
            None => write!(body, "<th scope=\"col\">{column}</th>"),
        };
    }
    *body += "</tr></thead><tbody>";
}

pub const END: &str = "</tbody></table></div>";

/// The rows of a list that are shown.
pub fn first<T>(all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().take(ROWS_MAX)
}

/// Says when a list is not whole.
pub fn cut(body: &mut String, all: usize) {
    if all > ROWS_MAX {
        let _ = write!(body, "<p class=\"soft\">The first {ROWS_MAX} of {}.</p>", count(all));
    }
}

/// A row for each rule.
pub fn rules(body: &mut String, report: &Report) {
    let summary = report.summary;
    let Some(bins) = &summary.bins else { return };
    *body += "<h2 id=\"rules\">Rules</h2>";
    let (low, high) = rule_axis(bins);
    let plot = format!("distribution, {low} to {high}");
    let columns = [
        "<rule",
        "tasks",
        "failed",
        "total",
        "mean",
        "median",
        "p5",
        "p95",
        "min",
        "max",
        &plot,
        "CPU user",
        "CPU system",
        "memory",
        "read",
        "written",
    ];
    head(body, "rule-table", &columns);
    for (index, &group) in summary.ranked.iter().enumerate() {
        let row = &summary.groups[group as usize];
        let class = colour_class(index, summary.curve.groups.len());
        let _ = write!(
            body,
            "<tr><td class=\"name\">{}{}{}</td>",
            swatch(class),
            escape(&row.group.label()),
            origin(&row.group)
        );
        times(body, row);
        let _ = write!(
            body,
            "<td class=\"plot\" data-v=\"{}\">{}</td>",
            row.durations.map_or(0.0, |times| times.deviation),
            rule_plot(row, bins, class)
        );
        usage(body, row);
        *body += "</tr>";
    }
    *body += END;
    *body += "<p class=\"soft\">Times are of attempts. Bars: how many attempts took how long, on a logarithmic axis that all rows \
              share; line: median. Memory: largest resident set of one process.</p>";
}

/// Program and place, where the name of the rule does not say them.
fn origin(group: &Group) -> String {
    let (label, origin) = (group.label(), group.origin());
    if label == origin || group.ambiguous {
        return String::new();
    }
    format!("<span class=\"origin\">{}</span>", escape(&origin))
}

fn times(body: &mut String, row: &GroupSummary) {
    cell_count(body, row.tasks, false);
    cell_count(body, row.failed, true);
    let of = row.durations.as_ref();
    for value in [
        of.map(|times| times.total),
        of.map(|times| times.mean),
        of.map(|times| times.median),
        of.map(|times| times.p5),
        of.map(|times| times.p95),
        of.map(|times| times.min),
        of.map(|times| times.max),
    ] {
        cell_of(body, value, seconds);
    }
}

fn usage(body: &mut String, row: &GroupSummary) {
    let usage = Some(&row.usage).filter(|usage| usage.commands > 0);
    cell_of(body, usage.map(|usage| usage.user_s), seconds);
    cell_of(body, usage.map(|usage| usage.system_s), seconds);
    let bytes: fn(u64) -> String = bytes;
    for (value, shown) in [
        (usage.and_then(|usage| usage.rss_bytes_max), memory::measured as fn(u64) -> String),
        (usage.map(|usage| usage.bytes.read), bytes),
        (usage.map(|usage| usage.bytes.written), bytes),
    ] {
        match value {
            Some(value) => cell(body, value as f64, &shown(value)),
            None => *body += "<td data-v=\"\">–</td>",
        }
    }
}

/// The chain, first to last, with what it waited.
pub fn critical_path(body: &mut String, report: &Report) {
    let summary = report.summary;
    let path = &summary.critical;
    if path.tasks.is_empty() {
        return;
    }
    *body += "<h2 id=\"critical\">Critical path</h2>";
    let makespan_s = summary.makespan_s();
    let share = |ns: i64| {
        if !summary.end_known {
            return seconds(of_ns(ns));
        }
        let share = if makespan_s > 0.0 { of_ns(ns) / makespan_s } else { 0.0 };
        format!("{} ({})", seconds(of_ns(ns)), percent(share))
    };
    let _ = write!(
        body,
        "<p>The longest chain of tasks in which each is a prerequisite of the next: {} of work in {}, {} in which none of it ran, \
         {} after it. With any number of cores, this run would have taken at least the time of that work.</p>",
        share(path.work_ns),
        counted(path.tasks.len(), "task"),
        share(path.waiting_ns),
        share(path.after_ns)
    );
    let mut spans: BTreeMap<u32, Vec<&Span>> =
        path.tasks.iter().map(|&task| (task, Vec::new())).collect();
    for span in &summary.spans {
        if let Some(spans) = spans.get_mut(&span.task) {
            spans.push(span);
        }
    }
    head(body, "critical-table", &["<task", "<rule", "waited before", "started", "took", "ended"]);
    let mut before_ns = summary.start_ns;
    for task in path.tasks.iter().take(ROWS_MAX) {
        let spans = &spans[task];
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { continue };
        let _ = write!(
            body,
            "<tr><td class=\"name\">{}</td><td class=\"t\">{}</td>",
            escape(&report.name(*task)),
            escape(&report.label(first.group))
        );
        let took_ns = spans.iter().map(|span| span.duration_ns()).sum::<i64>();
        for ns in [(first.start_ns - before_ns).max(0), first.start_ns - summary.start_ns, took_ns]
        {
            cell(body, of_ns(ns), &seconds(of_ns(ns)));
        }
        let ended_s = summary.since_start_s(last.end_ns);
        cell(body, ended_s, &seconds(ended_s));
        *body += "</tr>";
        before_ns = last.end_ns;
    }
    *body += END;
    cut(body, path.tasks.len());
}

/// The attempts that took longest.
pub fn slowest(body: &mut String, report: &Report) {
    let summary = report.summary;
    if summary.slowest.is_empty() {
        return;
    }
    *body += "<h2 id=\"slowest\">Slowest attempts</h2>";
    head(body, "slowest-table", &["<task", "<rule", "<node", "started", "took", "<ended"]);
    for &index in &summary.slowest {
        attempt_row(body, report, &summary.spans[index as usize]);
    }
    *body += END;
}

fn attempt_row(body: &mut String, report: &Report, span: &Span) {
    let _ = write!(
        body,
        "<tr><td class=\"name\">{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td>",
        escape(&report.name(span.task)),
        escape(&report.label(span.group)),
        escape(&report.node(span.node))
    );
    let started_s = report.summary.since_start_s(span.start_ns);
    cell(body, started_s, &seconds(started_s));
    let took_s = of_ns(span.duration_ns());
    cell(body, took_s, &seconds(took_s));
    let ending = match span.ending {
        Ending::Done => "done",
        Ending::Failed => "<span class=\"bad\">failed</span>",
        Ending::Retried => "<span class=\"bad\">failed</span>, made anew",
        Ending::Aborted => "ended because of others",
        Ending::Open => "had not ended",
    };
    let _ = write!(body, "<td class=\"t\">{ending}</td></tr>");
}

/// What failed, with its last lines.
pub fn failed(body: &mut String, report: &Report) {
    let failures = failures(report);
    if failures.is_empty() {
        return;
    }
    let _ = write!(body, "<h2 id=\"failed\">Failed: {}</h2>", counted(failures.len(), "task"));
    let abandoned = report.summary.counts.abandoned;
    if abandoned > 0 {
        let noun = if abandoned == 1 { "task was" } else { "tasks were" };
        let _ = write!(body, "<p>{} {noun} not run because of these.</p>", count(abandoned));
    }
    let listed = &failures[..failures.len().min(ROWS_MAX)];
    let (shown, rest) = listed.split_at(listed.len().min(FAILED_SHOWN));
    let open = if listed.len() > FAILED_OPEN { 1 } else { FAILED_OPEN };
    for (index, failure) in shown.iter().enumerate() {
        one_failed(body, failure, index < open);
    }
    if !rest.is_empty() {
        let _ = write!(
            body,
            "<details class=\"rest\"><summary>{} more</summary><div>",
            count(rest.len())
        );
        for failure in rest {
            one_failed(body, failure, false);
        }
        *body += "</div></details>";
    }
    cut(body, failures.len());
}

fn one_failed(body: &mut String, failure: &Failure, open: bool) {
    let open = if open { " open" } else { "" };
    let status = failure.status.as_deref().unwrap_or("failed");
    let _ = write!(
        body,
        "<details{open}><summary><code>{}</code><span class=\"bad\">{}</span></summary><dl class=\"pairs\">",
        escape(&failure.name),
        escape(status)
    );
    let attempts = (failure.attempts > 1).then(|| failure.attempts.to_string());
    let pairs = [
        ("command", failure.command.as_ref()),
        ("env", failure.env.as_ref()),
        ("node", failure.node.as_ref()),
        ("attempts", attempts.as_ref()),
        ("message", failure.message.as_ref()),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            let _ = write!(body, "<dt>{name}</dt><dd><code>{}</code></dd>", escape(value));
        }
    }
    *body += "</dl>";
    if let Some(tail) = &failure.tail {
        let _ = write!(body, "<pre>{}</pre>", escape(tail));
    }
    *body += "</details>";
}

/// All attempts that were followed by another.
pub fn retried(body: &mut String, report: &Report) {
    let summary = report.summary;
    if summary.retried.is_empty() {
        return;
    }
    *body += "<h2 id=\"retried\">Made anew</h2><p class=\"soft\">Attempts after which the task was tried once more.</p>";
    head(body, "retried-table", &["<task", "<rule", "<node", "started", "took", "<ended"]);
    let retried = || summary.spans.iter().filter(|span| span.ending == Ending::Retried);
    for span in retried().take(ROWS_MAX) {
        attempt_row(body, report, span);
    }
    *body += END;
    cut(body, retried().count());
}

/// A row for each node.
pub fn nodes(body: &mut String, report: &Report) {
    *body += "<h2 id=\"nodes\">Nodes</h2>";
    let columns = [
        "<node",
        "cores",
        "attempts",
        "not done",
        "core time",
        "utilisation",
        "read",
        "written",
        "<lost",
    ];
    head(body, "node-table", &columns);
    for node in report.summary.nodes_used() {
        let _ = write!(body, "<tr><td class=\"name\">{}</td>", escape(&node.name));
        cell(body, f64::from(node.cores), &node.cores.to_string());
        cell_count(body, node.attempts, false);
        cell_count(body, node.failed, true);
        cell(body, node.core_s, &seconds(node.core_s));
        cell_of(body, node.utilisation, percent);
        cell(body, node.usage.bytes.read as f64, &bytes(node.usage.bytes.read));
        cell(body, node.usage.bytes.written as f64, &bytes(node.usage.bytes.written));
        let lost =
            node.lost_s.map(|lost_s| format!("after {}", seconds(lost_s))).unwrap_or_default();
        let _ = write!(body, "<td class=\"t\">{lost}</td></tr>");
    }
    *body += END;
    if let Some(calls) = report.summary.run_file_system_ops_per_task(report.run) {
        let _ = write!(body, "<p class=\"soft\">{}</p>", escape(&metadata_line(calls)));
    }
}

/// Tasks whose nodes were chosen by what is known of them: a row for each rule and way.
pub fn placements(body: &mut String, report: &Report) {
    let placements = &report.summary.placements;
    if placements.is_empty() {
        return;
    }
    *body += "<h2 id=\"placements\">Placed by what is known of nodes</h2>";
    head(body, "placement-table", &["<rule", "tasks", "<where", "<prefer"]);
    for placement in first(placements) {
        let label = escape(&report.label(placement.group));
        let _ = write!(body, "<tr><td class=\"name\">{label}</td>");
        cell_count(body, placement.tasks, false);
        for words in [&placement.condition, &placement.prefer] {
            let words = words.as_deref().map(escape).unwrap_or_default();
            let _ = write!(body, "<td class=\"name\">{words}</td>");
        }
        *body += "</tr>";
    }
    *body += END;
    *body += "<p class=\"soft\"><code>rakudactl story TASK</code> tells the values that a task's node was chosen by.</p>";
    cut(body, placements.len());
}
