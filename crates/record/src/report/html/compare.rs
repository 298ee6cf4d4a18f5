//! The page that shows two runs beside each other.

use std::fmt::Write as _;

use crate::report::compare::{Comparison, Pair, facts, makespan_ratio, only_in};
use crate::report::format::{count, counted, seconds};
use crate::report::html::frame::{frame, legend};
use crate::report::html::tables::{END, cell, head};
use crate::report::plot::{escape, inline, running_scaled, top_of};
use crate::summary::tables::GroupSummary;

/// The page.
pub fn page(comparison: &Comparison) -> String {
    let names =
        [&comparison.first, &comparison.second].map(|report| escape(&report.run.started.run));
    let mut body = format!("<header><h1>Two runs: {} and {}</h1>", names[0], names[1]);
    if let Some(ratio) = makespan_ratio(comparison) {
        let _ = write!(body, "<p>The second took {ratio:.3} times as long as the first.</p>");
    }
    for report in [&comparison.first, &comparison.second] {
        if let Some(warning) = report.summary.state.warning() {
            let run = escape(&report.run.started.run);
            let _ = write!(body, "<p class=\"note\">{run}: {warning}</p>");
        }
    }
    body += "</header><main>";
    fact_table(&mut body, comparison, &names);
    curves(&mut body, comparison, &names);
    rules(&mut body, comparison);
    only(&mut body, comparison);
    body += "</main>";
    frame(
        &format!("{} and {}", comparison.first.run.started.run, comparison.second.run.started.run),
        &body,
    )
}

fn fact_table(body: &mut String, comparison: &Comparison, names: &[String; 2]) {
    let _ = write!(
        body,
        "<div class=\"scroll\"><table id=\"facts\"><thead><tr><th class=\"t\"></th><th class=\"t\">first: {}</th>\
         <th class=\"t\">second: {}</th></tr></thead><tbody>",
        names[0], names[1]
    );
    for (name, [first, second]) in facts(comparison) {
        let (first, second) = (escape(&first), escape(&second));
        let _ = write!(
            body,
            "<tr><th class=\"t\" scope=\"row\">{name}</th><td class=\"name\">{first}</td><td class=\"name\">{second}</td></tr>"
        );
    }
    *body += END;
}

fn curves(body: &mut String, comparison: &Comparison, names: &[String; 2]) {
    let reports = [&comparison.first, &comparison.second];
    let range_s = reports.map(|report| report.summary.makespan_s()).into_iter().fold(0.0, f64::max);
    let top = reports.map(top_of).into_iter().fold(1.0, f64::max);
    *body += "<h2 id=\"running\">Running processes over time</h2><p class=\"soft\">Both on the same axes; colours are each run’s own.</p>";
    for (report, name) in reports.into_iter().zip(names) {
        let _ = write!(
            body,
            "<figure class=\"wide\"><figcaption>{name}</figcaption>{}</figure>",
            running_scaled(report, range_s, top)
        );
        legend(body, report, &report.summary.curve);
    }
}

fn rules(body: &mut String, comparison: &Comparison) {
    *body += "<h2 id=\"rules\">Rules</h2>";
    let columns = [
        "<rule",
        "tasks, first",
        "tasks, second",
        "median, first",
        "median, second",
        "p5 to p95, first",
        "p5 to p95, second",
        "ratio",
        "interval, ¼ to 4",
        "<verdict",
    ];
    head(body, "rule-table", &columns);
    for pair in &comparison.pairs {
        row(body, pair);
    }
    *body += END;
    *body += "<p class=\"soft\">Ratio: median of the second run over that of the first, of the times of attempts. Its interval \
              holds the true ratio with about 95 % or more (quotient of the medians’ intervals from order statistics); where it \
              holds 1, the difference is within the scatter. Of fewer than six attempts in either run nothing can be told. Scatter between runs as a whole (a busy machine, a cold cache) is not in it.</p>";
}

fn row(body: &mut String, pair: &Pair) {
    let _ = write!(body, "<tr><td class=\"name\">{}</td>", escape(&pair.label()));
    for side in [pair.first, pair.second] {
        value(body, side.map(|row| row.tasks as f64), |_| count(side.map_or(0, |row| row.tasks)));
    }
    for side in [pair.first, pair.second] {
        value(body, times(side, |times| times.median), seconds);
    }
    for side in [pair.first, pair.second] {
        let high = times(side, |times| times.p95).map(seconds).unwrap_or_default();
        value(body, times(side, |times| times.p5), |low| format!("{} to {high}", seconds(low)));
    }
    let Some(ratio) = pair.ratio() else {
        let only = only_in(pair);
        let _ = write!(
            body,
            "<td data-v=\"\">–</td><td data-v=\"\"></td><td class=\"t\">{only}</td></tr>"
        );
        return;
    };
    cell(body, ratio.value, &format!("{:.2}", ratio.value));
    match ratio.interval {
        Some((low, high)) => {
            let picture = interval(ratio.value, low, high, &format!("{low:.2} to {high:.2}"));
            let _ = write!(body, "<td class=\"plot\" data-v=\"{low}\">{picture}</td>");
        }
        None => *body += "<td data-v=\"\">–</td>",
    }
    let class = if ratio.verdict() == "slower" { "t bad" } else { "t" };
    let _ = write!(body, "<td class=\"{class}\">{}</td></tr>", ratio.verdict());
}

fn times(
    row: Option<&GroupSummary>,
    of: impl Fn(&crate::summary::stats::Distribution) -> f64,
) -> Option<f64> {
    row.and_then(|row| row.durations.as_ref()).map(of)
}

fn value(body: &mut String, value: Option<f64>, shown: impl Fn(f64) -> String) {
    match value {
        Some(value) => cell(body, value, &shown(value)),
        None => *body += "<td data-v=\"\">–</td>",
    }
}

/// The interval on a logarithmic axis from a quarter to four times, with a line at 1.
fn interval(value: f64, low: f64, high: f64, title: &str) -> String {
    let x = |ratio: f64| 100.0 + 50.0 * ratio.max(1e-9).log2().clamp(-2.0, 2.0);
    let (from, to) = (x(low), x(high));
    let body = format!(
        "<path class=\"axis\" d=\"M0 22H200M100 4V26\"/>\
         <rect class=\"c0\" opacity=\".45\" x=\"{from:.1}\" y=\"9\" width=\"{:.1}\" height=\"9\"/>\
         <path class=\"median\" d=\"M{:.1} 6v15\"/>",
        (to - from).max(1.0),
        x(value)
    );
    inline(200.0, 30.0, title, &body)
}

fn only(body: &mut String, comparison: &Comparison) {
    for (which, (number, names)) in
        [("first", &comparison.only_first), ("second", &comparison.only_second)]
    {
        if *number == 0 {
            continue;
        }
        let _ = write!(body, "<h2>In the {which} run only: {}</h2><ul>", counted(*number, "task"));
        for name in names {
            let _ = write!(body, "<li><code>{}</code></li>", escape(name));
        }
        *body += "</ul>";
        if *number > names.len() {
            let _ = write!(body, "<p class=\"soft\">The first {} by name.</p>", names.len());
        }
    }
}
