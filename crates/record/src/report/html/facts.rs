//! The head of the page: what run it was and its main figures; and the settings it had.

use std::fmt::Write as _;

use crate::report::format::{bytes, count, counted, percent, seconds, time};
use crate::report::plot::escape;
use crate::report::text::{gangs_line, how_known, makespan, tasks_parts};
use crate::report::{Report, sync};
use crate::summary::seconds as of_ns;
use crate::summary::streams::streams;

/// Minimum bytes of input for which a card says what of it was in memory. Of fewer that says nothing.
const INPUT_MIN: u64 = 1 << 20;

/// Title, note, links, cards.
pub fn header(report: &Report) -> String {
    let Report { run, summary, .. } = *report;
    let state = summary.state.word();
    let mut head = format!(
        "<header><h1>{}<span class=\"state {}\">{state}</span></h1>",
        escape(&report.command_line()),
        state.replace(' ', "-")
    );
    let _ = write!(
        head,
        "<p class=\"soft\">Run {} in <code>{}</code> on {}, started {}</p>",
        escape(&run.started.run),
        escape(&run.started.directory.to_display()),
        escape(&run.started.host.to_display()),
        moment(summary.start_ns)
    );
    if let Some(warning) = summary.state.warning() {
        let _ = write!(head, "<p class=\"note\">{warning}</p>");
    }
    if let Some(line) = gangs_line(report).filter(|line| line.contains("oversubscribed")) {
        let _ = write!(
            head,
            "<p class=\"note\">Gangs: {line}: tasks shared cores, of which there were fewer than they asked for.</p>"
        );
    }
    if run.skipped.damaged > 0 {
        let lines = counted(run.skipped.damaged as usize, "line");
        let _ = write!(head, "<p class=\"note\">{lines} of the journal could not be read.</p>");
    }
    cards(&mut head, report);
    links(&mut head, report);
    head + "</header>"
}

/// A point in time: UTC, which the script turns into the reader's time.
fn moment(time_ns: i64) -> String {
    let utc = time(time_ns);
    let iso = utc.replace(' ', "T");
    format!("<time datetime=\"{iso}Z\">{} UTC</time>", &utc[..19])
}

fn card(head: &mut String, name: &str, value: &str, more: &str) {
    let (value, more) = (escape(value), escape(more));
    let _ =
        write!(head, "<div class=\"card\"><dt>{name}</dt><dd>{value}</dd><dd>{more}</dd></div>");
}

fn cards(head: &mut String, report: &Report) {
    let summary = report.summary;
    *head += "<dl class=\"cards\">";
    let more = match (summary.end_known, report.run.alive, &report.run.ended) {
        (false, ..) => "up to its last event".to_owned(),
        (_, true, _) => "so far".to_owned(),
        (.., Some(ended)) => {
            let took = of_ns(ended.time_ns.saturating_sub(report.run.started.time_ns));
            format!("the run took {}, with planning", seconds(took))
        }
        _ => String::new(),
    };
    card(head, "Makespan", &makespan(report), &more);
    let (parts, beside) = tasks_parts(report);
    let parts: Vec<String> = [Some(parts), beside].into_iter().flatten().collect();
    let parts = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let title = format!("Tasks{}", how_known(report));
    card(head, &title, &count(summary.counts.tasks), &parts);
    utilisation(head, report);
    critical(head, report);
    let retries = match summary.retries() {
        0 => "none made anew".to_owned(),
        retries => format!("{} made anew", count(retries)),
    };
    let attempts = format!("{retries}; {}", counted(summary.usage.commands, "command"));
    card(head, "Attempts", &count(summary.spans.len()), &attempts);
    if let Some(wait) = &summary.wait {
        let more = format!("median; longest {}", seconds(wait.max));
        card(head, "Queue wait", &seconds(wait.median), &more);
    }
    storage(head, report);
    *head += "</dl>";
}

fn utilisation(head: &mut String, report: &Report) {
    let summary = report.summary;
    let (Some(used), Some(held)) = (summary.utilisation(), summary.held()) else { return };
    let cores: u32 = summary.nodes.iter().map(|node| node.cores).sum();
    let more = format!(
        "of {}; tasks held cores for {}; at most {} at a time",
        counted(cores.max(1) as usize, "core"),
        percent(held),
        counted(summary.curve.peak as usize, "process").replace("processs", "processes")
    );
    card(head, "Core utilisation", &percent(used), &more);
}

fn critical(head: &mut String, report: &Report) {
    let path = &report.summary.critical;
    if path.tasks.is_empty() {
        return;
    }
    let tasks = counted(path.tasks.len(), "task");
    let more = match report.summary.critical_share() {
        Some(share) => format!("{} of the makespan, {tasks}", percent(share)),
        None => tasks,
    };
    card(head, "Critical path", &seconds(of_ns(path.work_ns)), &more);
}

fn storage(head: &mut String, report: &Report) {
    let summary = report.summary;
    if summary.usage.commands == 0 {
        return;
    }
    let read = bytes(summary.usage.bytes.read);
    card(
        head,
        "Read from storage",
        &read,
        &format!("{} written", bytes(summary.usage.bytes.written)),
    );
    let cache = summary.cache.share().filter(|_| summary.cache.input_bytes >= INPUT_MIN);
    if let (Some(share), Some(known)) = (cache, summary.cache.known_share()) {
        let more = format!(
            "of {} of input, at least; known for {} of the tasks with input",
            bytes(summary.cache.input_bytes),
            percent(known)
        );
        card(head, "In the page cache", &percent(share), &more);
    }
    if let Some(local) = summary.cache.local_share(report.run) {
        let placed = bytes(summary.cache.inputs.placed_bytes);
        card(head, "Local input", &percent(local), &format!("of {placed} whose place is known"));
    }
    let is_told = summary.cache.inputs.measured_bytes >= INPUT_MIN;
    if let Some(hit) = summary.cache.hit().filter(|_| is_told) {
        let measured = bytes(summary.cache.inputs.measured_bytes);
        let more = format!("of {measured}, measured when the tasks began");
        card(head, "Input in memory", &percent(hit), &more);
    }
    if let Some(staged) = &summary.staged {
        let files = counted(usize::try_from(staged.files).unwrap_or(usize::MAX), "file");
        card(head, "Staged", &bytes(staged.bytes), &format!("{files}, from host to host"));
    }
}

fn links(head: &mut String, report: &Report) {
    let summary = report.summary;
    let mut sections = Vec::new();
    if !summary.failed.is_empty() {
        sections.push(("failed", "Failed"));
    }
    sections.push(("running", "Running processes"));
    if !summary.spans.is_empty() {
        sections.extend([("gantt-section", "Attempts"), ("rules", "Rules"), ("graph", "Graph")]);
        sections.extend([("tasks", "All tasks"), ("critical", "Critical path")]);
        sections.push(("slowest", "Slowest"));
    }
    if !summary.retried.is_empty() {
        sections.push(("retried", "Made anew"));
    }
    if !streams(report.run).is_empty() {
        sections.push(("streams", "Streams"));
    }
    if sync::figures_of(report.run).is_some() {
        sections.push(("rounds", "Synchronised rounds"));
    }
    sections.push(("nodes", "Nodes"));
    if !summary.placements.is_empty() {
        sections.push(("placements", "Placed by what is known"));
    }
    sections.extend([("settings", "Settings"), ("definitions", "Definitions")]);
    *head += "<nav aria-label=\"sections\">";
    for (id, name) in sections {
        let _ = write!(head, "<a href=\"#{id}\">{name}</a>");
    }
    *head += "</nav>";
}

/// The settings of the run.
pub fn settings(body: &mut String, report: &Report) {
    *body += "<h2 id=\"settings\">Settings</h2><dl class=\"pairs\">";
    let mut pairs = vec![
        ("command", report.command_line()),
        ("Rakefile", report.run.started.rakefile.to_display()),
    ];
    pairs.extend(report.settings());
    for (name, at_ns) in [("started", report.summary.start_ns), ("ended", report.summary.end_ns)] {
        let _ = write!(body, "<dt>{name}</dt><dd>{}</dd>", moment(at_ns));
    }
    for (name, value) in pairs {
        let _ = write!(body, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    *body += "</dl>";
}
