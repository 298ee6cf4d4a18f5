//! A run as Prometheus scrapes it: what its hub says, and the tables of the page.

use std::fmt::Write as _;

use rakuda_info::format::metrics::{Format, put_head, put_sample};
use serde_json::Value;

/// Counts of tasks: field of the hub's answer, and label.
const TASKS: [(&str, &str); 6] = [
    ("total", "total"),
    ("done", "done"),
    ("running", "running"),
    ("queued", "queued"),
    ("failed", "failed"),
    ("abandoned", "abandoned"),
];

struct Writer {
    out: String,
    format: Format,
}

impl Writer {
    /// A family of gauges; those without a value are left out, and one without any is not there.
    fn family<'a>(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        samples: impl Iterator<Item = (Vec<(&'a str, &'a str)>, Option<f64>)>,
    ) {
        let mut lines = String::new();
        for (labels, value) in samples {
            if let Some(value) = value {
                put_sample(&mut lines, name, &labels, &value.to_string());
            }
        }
        if !lines.is_empty() {
            put_head(&mut self.out, name, "gauge", unit, help, self.format);
            let _ = self.out.write_str(&lines);
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// All figures of a run.
pub fn write(status: Option<&Value>, tables: &Value, goes_on: bool, format: Format) -> String {
    let mut to = Writer { out: String::new(), format };
    let up = f64::from(u8::from(goes_on));
    to.family("rakuda_run_up", "", "Whether the run goes on", [(vec![], Some(up))].into_iter());
    if let Some(status) = status {
        of_status(&mut to, status, goes_on);
    }
    of_tables(&mut to, tables);
    if format == Format::OpenMetrics {
        to.out.push_str("# EOF\n");
    }
    to.out
}

fn of_status(to: &mut Writer, status: &Value, goes_on: bool) {
    let run = text(&status["run"]);
    let tasks = TASKS.iter();
    to.family(
        "rakuda_run_tasks",
        "",
        "Tasks of the run, by state",
        tasks
            .map(|(field, state)| (vec![("run", run), ("state", *state)], status[*field].as_f64())),
    );
    let of_run =
        |value: &Value| [(vec![("run", run)], value.as_f64().filter(|_| goes_on))].into_iter();
    to.family(
        "rakuda_run_tasks_per_second",
        "",
        "Tasks done, lately",
        of_run(&status["rate_per_s"]),
    );
    to.family(
        "rakuda_run_elapsed_seconds",
        "seconds",
        "Time since the start",
        of_run(&status["now_s"]),
    );
    to.family(
        "rakuda_run_left_seconds",
        "seconds",
        "Estimated time to the end",
        of_run(&status["left"]["s"]),
    );
    let nodes = list(status, "nodes");
    for (field, name, help) in [
        ("cores", "rakuda_run_node_cores", "Cores that the run may use on a node"),
        ("running", "rakuda_run_node_running_tasks", "Tasks that run on a node"),
        ("done", "rakuda_run_node_done_tasks", "Tasks that were done on a node"),
    ] {
        let of_node = nodes
            .iter()
            .map(|node| (vec![("run", run), ("node", text(&node["node"]))], node[field].as_f64()));
        to.family(name, "", help, of_node);
    }
    let up = nodes.iter().map(|node| {
        let is_up = f64::from(u8::from(node["state"] == "up"));
        (vec![("run", run), ("node", text(&node["node"]))], Some(is_up))
    });
    to.family("rakuda_run_node_up", "", "Whether a node takes part", up);
}

fn of_tables(to: &mut Writer, tables: &Value) {
    let rules = list(tables, "rules");
    let states = ["running", "done", "failed"];
    let of_rule = rules.iter().flat_map(|rule| {
        states.iter().map(|state| {
            let labels = vec![
                ("rule", text(&rule["label"])),
                ("place", text(&rule["key"])),
                ("state", *state),
            ];
            (labels, rule[*state].as_f64())
        })
    });
    to.family("rakuda_run_rule_tasks", "", "Tasks of a rule that were begun, by state", of_rule);
    let by_rule = |field: &'static str| {
        rules.iter().map(move |rule| {
            let labels = vec![("rule", text(&rule["label"])), ("place", text(&rule["key"]))];
            (labels, rule[field].as_f64())
        })
    };
    to.family(
        "rakuda_run_rule_total_tasks",
        "",
        "Tasks of a rule: done, failed, stopped, running or to come",
        by_rule("total"),
    );
    to.family(
        "rakuda_run_rule_seconds",
        "seconds",
        "Run time of the attempts of a rule that have ended",
        by_rule("total_s"),
    );
    let busy = [(vec![], tables["cores_busy"].as_f64())].into_iter();
    to.family("rakuda_run_cores_busy", "", "Cores that commands keep busy", busy);
    let streams = list(tables, "streams");
    let bytes =
        streams.iter().map(|it| (vec![("stream", text(&it["name"]))], it["bytes"].as_f64()));
    to.family("rakuda_run_stream_bytes", "bytes", "Bytes that went through a stream", bytes);
    let open = streams.iter().map(|it| {
        (vec![("stream", text(&it["name"]))], Some(f64::from(u8::from(it["state"] == "open"))))
    });
    to.family("rakuda_run_stream_open", "", "Whether a stream is open", open);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_of_the_hub_and_of_rules_are_gauges() {
        let status = json!({"run": "r1", "done": 3, "total": 8, "running": 2, "queued": 3, "failed": 0, "abandoned": 0,
            "rate_per_s": 1.5, "now_s": 4.0,
            "nodes": [{"node": "a", "state": "up", "cores": 4, "running": 2, "done": 3}]});
        let tables = json!({"cores_busy": 2, "streams": [], "rules": [
            {"key": "Rakefile:3", "label": "map/*.\"bam\"", "running": 2, "done": 3, "failed": 0, "total": 8,
             "total_s": 9.5}]});
        let found = write(Some(&status), &tables, true, Format::OpenMetrics);
        for line in [
            "rakuda_run_up{} 1",
            "rakuda_run_tasks{run=\"r1\",state=\"done\"} 3",
            "rakuda_run_rule_tasks{rule=\"map/*.\\\"bam\\\"\",place=\"Rakefile:3\",state=\"running\"} 2",
            "rakuda_run_rule_total_tasks{rule=\"map/*.\\\"bam\\\"\",place=\"Rakefile:3\"} 8",
            "# UNIT rakuda_run_rule_seconds seconds",
            "rakuda_run_node_cores{run=\"r1\",node=\"a\"} 4",
            "rakuda_run_cores_busy{} 2",
        ] {
            assert!(found.lines().any(|it| it == line), "{line} in {found}");
        }
        assert!(
            found.ends_with("# EOF\n")
                && !found.contains("left_seconds")
                && !found.contains("stream")
        );
        let after = write(Some(&status), &tables, false, Format::Text);
        assert!(after.contains("rakuda_run_up{} 0") && !after.contains("per_second"));
    }
}
