//! `rakudactl explain`: why a task of a live run has not started, or what it does. The hub answers; this prints.

use std::io::{self, Write};

use clap::Args;
use rakuda_proto::memory;
use rakuda_record::printable::printable;
use rakuda_record::report::format::{bytes, counted_u64};
use rakuda_record::words::duration_in_words;
use serde_json::{Value, json};

use super::base_folder::BaseFolder;
use super::which_run::RunArgument;
use super::{Status, live};

/// Says why a task is not running yet, while a run is going on.
#[derive(Args)]
pub struct Explain {
    /// The task.
    #[arg(value_name = "TASK")]
    task: String,

    /// Ask only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Asks and prints. A task that no run knows is status 1.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let question = json!({"ask": "explain", "task": self.task});
        let answers = live::ask(base, self.run_argument.or(self.run.as_deref()), &question)?;
        let known = answers.iter().any(|answer| answer["state"] != "unknown");
        if self.json {
            writeln!(out, "{}", json!({"version": 1, "answers": answers}))?;
        } else {
            for answer in &answers {
                if answers.len() > 1 {
                    writeln!(out, "run {}:", text(&answer["run"]))?;
                }
                print(answer, out)?;
            }
        }
        Ok(if known { Status::Good } else { Status::Failed })
    }
}

pub(super) fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or("?").as_bytes())
}

fn print(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let task = text(&answer["task"]);
    match text(&answer["state"]).as_str() {
        "unknown" => {
            writeln!(out, "{task}: no such task in this run")?;
            let near: Vec<String> = list(&answer["near"]).map(text).collect();
            if !near.is_empty() {
                writeln!(out, "  perhaps {}", near.join(", "))?;
            }
        }
        "waiting" => print_waiting(&task, answer, out)?,
        "queued" => print_queued(&task, answer, out)?,
        "waits_to_retry" => {
            writeln!(out, "{task}: failed, and is tried again when its delay is over")?;
        }
        "waits_for_gang" => writeln!(out, "{task}: ready, and waits for its gang")?,
        "waits_for_writers" => print_reader(&task, answer, out)?,
        "waits_for_room" => {
            writeln!(out, "{task}: all that it reads is there, and waits for room on its node")?;
        }
        "ended_before_gang" => {
            writeln!(out, "{task}: has ended well, and counts when all of its gang have")?;
        }
        "running" => print_running(answer, "", out)?,
        "abandoned" => {
            writeln!(out, "{task}: not run, because of {}", tasks(&answer["because"]))?;
        }
        state => writeln!(out, "{task}: {}", in_words(state))?,
    }
    if answer["environment"].is_string() {
        writeln!(out, "  in the environment: {}", text(&answer["environment"]))?;
    }
    if answer["gang"].is_object() {
        print_gang(&answer["gang"], out)?;
    }
    for stream in list(&answer["streams"]) {
        print_stream(stream, out)?;
    }
    if answer["stalled"].is_string() {
        writeln!(out, "  {}", text(&answer["stalled"]))?;
    }
    Ok(())
}

/// A stream of the task, and what holds it open.
fn print_stream(stream: &Value, out: &mut dyn Write) -> io::Result<()> {
    let amount = |value: &Value, of: &str| {
        let [size, records] =
            ["bytes", "records"].map(|unit| value[format!("{of}{unit}")].as_u64().unwrap_or(0));
        format!("{}, {}", bytes(size), counted_u64(records, "record"))
    };
    let does = if stream["does"] == "writes" { "writes into" } else { "reads from" };
    write!(out, "  {does} stream {}", text(&stream["stream"]))?;
    if stream["bytes"].is_u64() {
        write!(out, ": {} written so far", amount(stream, ""))?;
    }
    writeln!(out)?;
    for held in list(&stream["held"]) {
        let process = |one: &Value| format!("{} ({})", one["process"], text(&one["command"]));
        let processes: Vec<String> = list(&held["processes"]).map(process).collect();
        let (writer, node) = (text(&held["task"]), text(&held["node"]));
        if processes.is_empty() {
            writeln!(
                out,
                "    {writer} has ended, and a process that it has started on {node} still holds its standard output"
            )?;
            continue;
        }
        let noun = if processes.len() == 1 { "process" } else { "processes" };
        let processes = processes.join(", ");
        writeln!(
            out,
            "    {writer} has ended, and its standard output is still held on {node} by {noun} {processes}"
        )?;
    }
    let before = &stream["interrupted"];
    if before.is_object() {
        write!(out, "    when an attempt failed: {} written", amount(before, ""))?;
        if stream["does"] == "reads" && before["own_bytes"].is_u64() {
            write!(out, ", of which it had got {}", amount(before, "own_"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A task that reads what others print when all of these have ended.
fn print_reader(task: &str, answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let count = answer["waits_for_count"].as_u64().unwrap_or(0);
    let more = count.saturating_sub(list(&answer["waits_for"]).count() as u64);
    write!(out, "{task}: waits for what it reads from {}", tasks(&answer["waits_for"]))?;
    if more > 0 { writeln!(out, " and {more} more") } else { writeln!(out) }
}

/// Why the gang of a task has not begun, or what it does.
fn print_gang(gang: &Value, out: &mut dyn Write) -> io::Result<()> {
    let number = |name: &str| gang[name].as_u64().unwrap_or(0);
    let (slots, count) = (number("slots"), number("tasks_count"));
    write!(out, "  its gang of {count} ")?;
    match text(&gang["state"]).as_str() {
        "waits_for_tasks" => writeln!(out, "waits for {}", tasks(&gang["waits_for"]))?,
        "too_large" => writeln!(out, "needs {slots} slots, which the nodes here do not have")?,
        "waits_for_slots" => {
            write!(out, "needs {slots} slots at once; {} are kept for it", number("slots_kept"))?;
            match number("gangs_before") {
                0 => writeln!(out)?,
                1 => writeln!(out, "; 1 gang has waited for longer")?,
                before => writeln!(out, "; {before} gangs have waited for longer")?,
            }
        }
        "ends_to_run_again" => writeln!(out, "is ended, to run again: {}", tasks(&gang["tasks"]))?,
        "failed" => writeln!(out, "has failed: {}", tasks(&gang["tasks"]))?,
        _ if gang["oversubscribed"] == true => {
            writeln!(out, "runs with fewer slots than the {slots} it needs")?;
        }
        _ => writeln!(out, "runs on {slots} slots: {}", tasks(&gang["tasks"]))?,
    }
    for chooser in list(&gang["unsuited"]) {
        for node in list(&chooser["nodes"]) {
            let (task, name) = (text(&chooser["task"]), text(&node["node"]));
            writeln!(out, "  {task} not on {name}: {}", unsuited(&node["where"]))?;
        }
    }
    Ok(())
}

fn in_words(state: &str) -> &str {
    match state {
        "waits_for_turn" => "waits for its turn (one task at a time)",
        "deferred" => "its prerequisites are being looked up",
        "deciding" => "it is being found out whether it has to run",
        "not_started" => "not started: nothing that is wanted needs it now, or the run is ending",
        "up_to_date" => "up to date",
        "waits_to_retry" => "waits for its next try",
        "waits_for_gang" => "waits for its gang",
        "ended_before_gang" => "ended before its gang",
        "waits_for_writers" => "waits for what it reads",
        "waits_for_room" => "waits for room",
        other => other,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn tasks(value: &Value) -> String {
    let entry =
        |task: &Value| format!("{} ({})", text(&task["task"]), in_words(&text(&task["state"])));
    list(value).map(entry).collect::<Vec<_>>().join(", ")
}

fn print_waiting(task: &str, answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let count = answer["waits_for_count"].as_u64().unwrap_or(0);
    let noun = if count == 1 { "prerequisite" } else { "prerequisites" };
    writeln!(out, "{task}: waits for {count} {noun}: {}", tasks(&answer["waits_for"]))?;
    if answer["roots"] != answer["waits_for"] {
        writeln!(out, "  in the end for: {}", tasks(&answer["roots"]))?;
    }
    Ok(())
}

fn print_queued(task: &str, answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let [ahead, queued] = ["ahead", "queued"].map(|name| answer[name].as_u64().unwrap_or(0));
    writeln!(out, "{task}: ready, {ahead} of {queued} queued tasks come before it")?;
    for short in list(&answer["short"]) {
        let mut parts = Vec::new();
        for (name, value) in short.as_object().into_iter().flatten() {
            match name.as_str() {
                "node" => {}
                "exclusive" => parts.push("it wants the node for itself".to_owned()),
                "reserved_for_others" => parts.push("the node is kept free for others".to_owned()),
                "not_allowed" => parts.push("it may not run there".to_owned()),
                "never_fits" => parts.push("it can never run there".to_owned()),
                "ends_too_soon" => parts.push(too_soon(value)),
                "where" => parts.push(unsuited(value)),
                "memory_bytes" => parts.push(little_memory(value)),
                _ => {
                    let name = printable(name.replace('_', " ").as_bytes());
                    parts.push(format!(
                        "{name}: {} needed, {} free",
                        value["needed"], value["free"]
                    ));
                }
            }
        }
        writeln!(out, "  {}: {}", text(&short["node"]), parts.join("; "))?;
    }
    Ok(())
}

fn little_memory(value: &Value) -> String {
    let [needed, free] =
        ["needed", "free"].map(|name| memory::asked(value[name].as_u64().unwrap_or(0)));
    format!("memory: {needed} needed, {free} free")
}

/// Why a node does not suit, by what is known of it.
fn unsuited(value: &Value) -> String {
    let seen = |value: &Value| {
        let age = value["age_s"].as_f64().map(|age_s| format!(", {age_s:.1} s old"));
        let (name, shown) = (text(&value["name"]), text(&value["text"]));
        format!("{name} is {shown}{}", age.unwrap_or_default())
    };
    let values: Vec<String> = list(&value["values"]).map(seen).collect();
    let values = values.join("; ");
    if let Some(count) = value["at_once"].as_u64() {
        return format!("where: it suits {count} of the gang at once");
    }
    match (value["clause"].as_str(), value["waits_for_sample_of"].as_str()) {
        (Some(clause), _) => {
            let clause = printable(clause.as_bytes());
            match (value["undefined"].as_str(), values.is_empty()) {
                (None, true) => format!("where: {clause} is not true"),
                (None, false) => format!("where: {clause} is not true ({values})"),
                (Some(why), true) => {
                    format!("where: {clause} is undefined: {}", printable(why.as_bytes()))
                }
                (Some(why), false) => {
                    format!(
                        "where: {clause} is undefined: {} ({values})",
                        printable(why.as_bytes())
                    )
                }
            }
        }
        (_, Some(name)) => format!(
            "where: something was started there since {} was sampled, which is waited for",
            printable(name.as_bytes())
        ),
        _ => "where: nothing is known of the node yet".to_owned(),
    }
}

/// Why a task is not started on a node that ends.
fn too_soon(value: &Value) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "seconds to be shown")]
    let ns = |name: &str| (value[name].as_f64().unwrap_or(0.0) * 1e9) as i64;
    let what = text(&value["what"]);
    let [needed_ns, left_ns] = ["needed_s", "left_s"].map(ns);
    if left_ns == 0 {
        return format!("the {what} is over");
    }
    let [needed, left] = [needed_ns, left_ns].map(duration_in_words);
    format!("it may take {needed} by earlier runs, and {left} of the {what} are left")
}

/// What a running task does.
pub fn print_running(answer: &Value, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let seconds = |value: &Value| value["elapsed_s"].as_f64().unwrap_or(0.0);
    if let Some(hosts) = answer["waits_for_file_servers"].as_str() {
        let task = text(&answer["task"]);
        return writeln!(
            out,
            "{indent}{task}: has failed while gfsd on {hosts} does not answer; it is tried again when Gfarm takes the host for gone, or it answers"
        );
    }
    write!(out, "{indent}{}: running for {:.1} s", text(&answer["task"]), seconds(answer))?;
    write!(out, " on {}", text(&answer["node"]))?;
    if answer["attempts_max"].as_u64().unwrap_or(1) > 1 {
        write!(out, " (attempt {} of {})", answer["attempt"], answer["attempts_max"])?;
    }
    if answer["waits_for_room"] == true {
        write!(out, ", waits for room on the node's disk (STAGE_CACHE) for what it reads")?;
    }
    if answer["waits_for_core"] == true {
        write!(out, ", begun early, waits for a core")?;
    }
    if answer["waits_for_invocation"] == true {
        write!(out, ", waits for tasks that it has invoked")?;
    }
    writeln!(out)?;
    for command in list(&answer["commands"]) {
        writeln!(out, "{indent}  {:.1} s: {}", seconds(command), text(&command["command"]))?;
    }
    Ok(())
}
