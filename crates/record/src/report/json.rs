//! The summary as JSON: docs/reference/json.md has its fields. What is not known is left out, never 0.

use rakuda_proto::streams::{HopAccount, LineKind};
use serde_json::{Map, Value, json};

use crate::report::text::most_shared;
use crate::report::{Report, failures, node_name, sync};
use crate::summary::io::Cache;
use crate::summary::placements::Placement;
use crate::summary::seconds;
use crate::summary::stats::Distribution;
use crate::summary::streams::{
    Copies, StreamFate, StreamSide, StreamStall, StreamSummary, streams,
};
use crate::summary::tables::{GroupSummary, NodeSummary, Usage};

/// Version of the fields.
pub const VERSION: u32 = 1;
/// Maximum number of tasks in a list of tasks.
const LISTED_MAX: usize = 1000;

/// One object.
pub fn summary(report: &Report) -> Value {
    let Report { run, summary, .. } = *report;
    let counts = &summary.counts;
    let mut object = json!({
        "version": VERSION,
        "id": run.started.run,
        "state": summary.state.word(),
        "directory": run.started.directory.to_display(),
        "command_line": run.started.command_line.iter().map(rakuda_proto::Text::to_display).collect::<Vec<_>>(),
        "policy": run.started.policy,
        "host": run.started.host.to_display(),
        "started_ns": summary.start_ns,
        "ended_ns": summary.end_ns,
        "makespan_s": summary.makespan_s(),
        "tasks": counts.tasks,
        "run": counts.run,
        "done": counts.done,
        "without_action": counts.passed,
        "not_needed": counts.not_needed,
        "failed": counts.failed,
        "abandoned": counts.abandoned,
        "stopped": counts.stopped,
        "running": counts.running,
        "not_reached": counts.not_reached,
        "not_started": counts.not_started,
        "attempts": summary.spans.len(),
        "retries": summary.retries(),
        "cores": cores(report),
        "core_s": summary.core_s,
        "held_core_s": summary.held_core_s,
        "processes_max": summary.curve.peak,
        "critical_path_s": seconds(summary.critical.work_ns),
        "critical_path": critical_path(report),
        "rules": summary.ranked.iter().map(|&group| rule(&summary.groups[group as usize])).collect::<Vec<_>>(),
        "slowest": summary.slowest.iter().map(|&index| slow(report, index)).collect::<Vec<_>>(),
        "failures": failures(report).iter().take(LISTED_MAX).map(failure).collect::<Vec<_>>(),
        "retried": summary.retried.iter().take(LISTED_MAX).map(|&task| report.name(task)).collect::<Vec<_>>(),
        "nodes": summary.nodes_used().map(node).collect::<Vec<_>>(),
        "unreadable_lines": run.skipped.damaged,
    });
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "utilisation", summary.utilisation());
    put(fields, "held", summary.held());
    put(fields, "wait", summary.wait.as_ref().map(distribution));
    usage(fields, &summary.usage);
    cache(fields, &summary.cache);
    if summary.nodes_used().count() > 1 {
        put(fields, "local_share", summary.cache.local_share(run));
    }
    put(fields, "staged_files", summary.staged.map(|staged| staged.files));
    put(fields, "staged_bytes", summary.staged.map(|staged| staged.bytes));
    if !summary.placements.is_empty() {
        let placements = summary.placements.iter().map(|one| placement(report, one));
        put(fields, "placed", Some(summary.placed()));
        put(fields, "placements", Some(placements.collect::<Vec<_>>()));
    }
    let streams: Vec<Value> = streams(run).iter().map(|one| stream(report, one)).collect();
    put(fields, "streams", (!streams.is_empty()).then_some(streams));
    put(fields, "sync", sync::figures_of(run).map(|figures| sync::json(&figures)));
    if !run.gangs.is_empty() {
        let shared = run.gangs.iter().filter(|gang| gang.oversubscribed).count();
        put(fields, "gangs_begun", Some(run.gangs.len()));
        put(fields, "gangs_oversubscribed", Some(shared));
        let most = most_shared(run);
        put(fields, "gangs_cores_asked", most.map(|cores| cores.asked));
        put(fields, "gangs_cores_there", most.map(|cores| cores.there));
    }
    put(fields, "metadata_ops_per_task", summary.metadata_ops_per_task(run));
    put(fields, "run_file_system_ops_per_task", summary.run_file_system_ops_per_task(run));
    object
}

fn placement(report: &Report, placement: &Placement) -> Value {
    let mut object = json!({"rule": report.label(placement.group), "tasks": placement.tasks});
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "where", placement.condition.clone());
    put(fields, "prefer", placement.prefer.clone());
    object
}

fn stream(report: &Report, stream: &StreamSummary) -> Value {
    let sides = |sides: &[StreamSide], special: &str| -> Vec<Value> {
        let side = |side: &StreamSide| {
            let task = report.name(side.task);
            let Some(account) = &side.account else { return json!({ "task": task }) };
            let mut object = json!({
                "task": task,
                "bytes": account.bytes,
                "records": account.records,
                "dropped_bytes": account.dropped,
            });
            object[special] = account.is_special.into();
            object
        };
        sides.iter().map(side).collect()
    };
    let (ended, fault) = match &stream.fate {
        StreamFate::Well => ("well", None),
        StreamFate::Fault(fault) => ("failed", Some(fault)),
        StreamFate::Closed => ("closed", None),
        StreamFate::Open => ("open", None),
    };
    let mut object = json!({
        "name": stream.name,
        "place": stream.place,
        "ended": ended,
        "bytes": stream.bytes(),
        "records": stream.records(),
        "balanced": stream.is_balanced(),
        "memory_bytes_max": stream.memory_bytes_max,
        "spilled_bytes": stream.spilled_bytes,
        "spilled_bytes_max": stream.spilled_bytes_max,
        "writers": sides(&stream.writers, "separator_added"),
        "readers": sides(&stream.readers, "left_early"),
    });
    if let Some(fault) = fault {
        object["fault"] = fault.as_str().into();
    }
    if !stream.stalls.is_empty() {
        let stall = |stall: &StreamStall| {
            let tasks: Vec<String> = stall.tasks.iter().map(|task| report.name(*task)).collect();
            json!({
                "time_ns": stall.time_ns,
                "silence_ns": stall.silence_ns,
                "tasks": tasks,
                "still": stall.still,
            })
        };
        object["stalls"] = stream.stalls.iter().map(stall).collect();
    }
    if let Some(route) = &stream.route {
        object["route"] = json!(route);
        if !stream.routes_before.is_empty() {
            object["routes_before"] = json!(stream.routes_before);
        }
        let copies = |line: LineKind| {
            let Copies { edges, bytes, records } = stream.copies(line);
            json!({ "edges": edges, "bytes": bytes, "records": records })
        };
        object["copies"] = json!({ "within_groups": copies(LineKind::Lan), "between_groups": copies(LineKind::Wan) });
        let hop = |hop: &HopAccount| {
            let mut object = json!(hop);
            object["from"] = node_name(report.run, hop.from).into();
            object["to"] = node_name(report.run, hop.to).into();
            object
        };
        object["hops"] = stream.hops.iter().map(hop).collect();
    }
    object
}

fn put<T: Into<Value>>(fields: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Cores of all nodes.
pub fn cores(report: &Report) -> u32 {
    match report.summary.nodes.iter().map(|node| node.cores).sum() {
        0 => report.run.started.cores,
        cores => cores,
    }
}

fn critical_path(report: &Report) -> Value {
    let path = &report.summary.critical;
    let mut object = json!({
        "tasks": path.tasks.len(),
        "work_s": seconds(path.work_ns),
        "waiting_s": seconds(path.waiting_ns),
        "after_s": seconds(path.after_ns),
        "path": path.tasks.iter().take(LISTED_MAX).map(|&task| report.name(task)).collect::<Vec<_>>(),
    });
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "share", report.summary.critical_share());
    object
}

fn rule(row: &GroupSummary) -> Value {
    let mut object = json!({
        "label": row.group.label(),
        "tasks": row.tasks,
        "failed": row.failed,
        "retries": row.retries,
    });
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "location", row.group.location.clone());
    put(fields, "places", row.group.places.as_ref().map(|(places, _)| *places));
    put(fields, "program", row.group.program.clone());
    put(fields, "seconds", row.durations.as_ref().map(distribution));
    usage(fields, &row.usage);
    cache(fields, &row.cache);
    object
}

/// The fields of a distribution, s.
pub fn distribution(of: &Distribution) -> Value {
    json!({
        "count": of.count, "total": of.total, "mean": of.mean, "deviation": of.deviation, "min": of.min, "p5": of.p5,
        "p25": of.p25, "median": of.median, "p75": of.p75, "p95": of.p95, "max": of.max,
        "median_interval": [of.median_interval.0, of.median_interval.1],
    })
}

fn usage(fields: &mut Map<String, Value>, usage: &Usage) {
    put(fields, "commands", Some(usage.commands));
    if usage.commands > 0 {
        put(fields, "user_s", Some(usage.user_s));
        put(fields, "system_s", Some(usage.system_s));
        put(fields, "rss_bytes_max", usage.rss_bytes_max);
        put(fields, "read_bytes", Some(usage.bytes.read));
        put(fields, "write_bytes", Some(usage.bytes.written));
    }
}

fn cache(fields: &mut Map<String, Value>, cache: &Cache) {
    put(fields, "page_cache_share", cache.share());
    put(fields, "page_cache_known_share", cache.known_share());
    put(fields, "input_bytes", cache.share().map(|_| cache.input_bytes));
    put(fields, "cache_hit", cache.hit());
}

fn slow(report: &Report, index: u32) -> Value {
    let span = &report.summary.spans[index as usize];
    json!({
        "task": report.name(span.task),
        "attempt": span.attempt + 1,
        "rule": report.label(span.group),
        "node": report.node(span.node),
        "start_s": report.summary.since_start_s(span.start_ns),
        "seconds": seconds(span.duration_ns()),
    })
}

fn failure(failure: &crate::report::Failure) -> Value {
    let mut object = json!({"task": failure.name, "attempts": failure.attempts});
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "command", failure.command.clone());
    put(fields, "env", failure.env.clone());
    put(fields, "status", failure.status.clone());
    put(fields, "node", failure.node.clone());
    put(fields, "message", failure.message.clone());
    put(fields, "output", failure.tail.clone());
    object
}

fn node(row: &NodeSummary) -> Value {
    let mut object = json!({
        "name": row.name,
        "cores": row.cores,
        "attempts": row.attempts,
        "not_done": row.failed,
        "core_s": row.core_s,
    });
    let fields = object.as_object_mut().expect("json!({}) makes an object");
    put(fields, "utilisation", row.utilisation);
    put(fields, "lost_s", row.lost_s);
    usage(fields, &row.usage);
    object
}
