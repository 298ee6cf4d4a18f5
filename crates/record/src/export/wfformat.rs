//! WfCommons WfFormat 1.6: what had to be done (`specification`) and what was done (`execution`), as one JSON document.
//!
//! Seconds and bytes as in the format's documentation. A task that did not end well is in
//! `execution` like any other, since the format has no word for how a task ended; the description
//! counts them. Nothing is invented: a value that the journal does not have is left out.
//!
//! The format knows files alone. So a stream is, of each writer, a file that it makes and that each
//! reader takes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufWriter, Write};

use rakuda_proto::Text;
use rakuda_proto::journal::Outcome;
use serde_json::{Value, json};

use super::ExportError;
use super::names::{base_name, file_identifier, iso_time, plain_words, seconds, shell_word};
use super::workflow::{Step, StreamEdges, Workflow, attempts, outcome};
use crate::run::held::total_ns;
use crate::words::environment;
use crate::{Attempt, Command, Run};

/// Version of the format.
const SCHEMA_VERSION: &str = "1.6";

/// Writes a run.
///
/// # Errors
/// When there is no task to tell of, or writing fails.
pub fn write(run: &Run, out: impl Write) -> Result<(), ExportError> {
    let workflow = Workflow::of(run);
    if workflow.steps.is_empty() {
        return Err(ExportError::Empty(run.started.run.clone()));
    }
    let folder = Text(base_name(&run.started.directory.0).to_vec()).to_display();
    let streams = StreamEdges::of(run, &workflow);
    let mut body = json!({ "specification": specification(run, &workflow, &streams) });
    if let Some(execution) = execution(run, &workflow) {
        body["execution"] = execution;
    }
    let document = json!({
        "name": format!("{folder}-{}", run.started.run),
        "description": description(run, &workflow, &streams),
        "schemaVersion": SCHEMA_VERSION,
        "runtimeSystem": {
            "name": "Rakuda",
            "version": non_empty(&run.started.rakuda, "unknown"),
        },
        "workflow": body,
    });
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn non_empty<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn description(run: &Run, workflow: &Workflow, streams: &StreamEdges) -> String {
    let mut counts = [0usize; 3];
    for step in &workflow.steps {
        let place = match last_attempt(run, step) {
            Some(attempt) if outcome(attempt) == Some(Outcome::Done) => 0,
            Some(_) => 1,
            None => 2,
        };
        counts[place] += 1;
    }
    let [done, failed, not_run] = counts;
    format!(
        "Run {} of a Rakefile: {done} tasks done, {failed} failed or were cut off, {not_run} did not run{}{}",
        run.started.run,
        environments(run, workflow),
        streams_words(streams)
    )
}

/// Which files are streams, and which streams are not there.
fn streams_words(streams: &StreamEdges) -> String {
    let names =
        |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(" ");
    let mut words = String::new();
    if !streams.streams.is_empty() {
        let all = names(&mut streams.streams.iter().map(|stream| &stream.name));
        words = format!(
            "; files {STREAM_FOLDER}NAME/ID are what a task wrote into a stream, read while it was written: {all}"
        );
    }
    if !streams.left_out.is_empty() {
        let all = names(&mut streams.left_out.iter());
        words = format!("{words}; streams that would close a circle are left out: {all}");
    }
    words
}

/// What steps have because of streams.
#[derive(Default, Clone)]
struct Joined {
    parents: Vec<usize>,
    children: Vec<usize>,
    inputs: Vec<String>,
    output: Option<String>,
}

fn joined(workflow: &Workflow, streams: &StreamEdges) -> Vec<Joined> {
    let mut all = vec![Joined::default(); workflow.steps.len()];
    for stream in &streams.streams {
        for (writer, _) in &stream.writers {
            let file = stream_file(workflow, &stream.name, *writer);
            all[*writer].children.extend(&stream.readers);
            all[*writer].output = Some(file.clone());
            for reader in &stream.readers {
                all[*reader].parents.push(*writer);
                all[*reader].inputs.push(file.clone());
            }
        }
    }
    all
}

/// The folder of the files that stand for streams.
const STREAM_FOLDER: &str = "streams/";

fn stream_file(workflow: &Workflow, name: &str, writer: usize) -> String {
    let name = format!("{STREAM_FOLDER}{name}/{}", identifier(workflow.steps[writer].task));
    file_identifier(&Text::from(name))
}

/// What tasks with `needs env:` ran in, and which these were. Empty when there are none.
fn environments(run: &Run, workflow: &Workflow) -> String {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for step in &workflow.steps {
        let task = run.tasks[step.task as usize].as_ref();
        if let Some(environment) = task.and_then(|task| environment(&task.defined.params)) {
            found.entry(environment.to_display()).or_default().push(identifier(step.task));
        }
    }
    let told = found.iter().map(|(environment, tasks)| {
        format!("; in the environment {environment}: {}", tasks.join(" "))
    });
    told.collect()
}

/// The attempt whose figures stand for the task: its last.
fn last_attempt<'a>(run: &'a Run, step: &Step) -> Option<&'a Attempt> {
    run.tasks[step.task as usize].as_ref().and_then(|task| attempts(task).next_back())
}

fn identifier(task: u32) -> String {
    format!("ID{task:07}")
}

fn name(run: &Run, task: u32) -> String {
    let name = run.tasks[task as usize].as_ref().map(|task| task.defined.name.to_display());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| identifier(task))
}

fn file(run: &Run, task: u32) -> String {
    run.tasks[task as usize]
        .as_ref()
        .map_or_else(String::new, |task| file_identifier(&task.defined.name))
}

fn specification(run: &Run, workflow: &Workflow, streams: &StreamEdges) -> Value {
    let ids = |indices: &[usize], more: &[usize]| -> Vec<String> {
        let all: BTreeSet<usize> = indices.iter().chain(more).copied().collect();
        all.into_iter().map(|index| identifier(workflow.steps[index].task)).collect()
    };
    let joined = joined(workflow, streams);
    let mut used = vec![false; run.tasks.len()];
    let mut secondary: BTreeMap<String, u64> = BTreeMap::new();
    let mut tasks = Vec::with_capacity(workflow.steps.len());
    for (step, joined) in workflow.steps.iter().zip(&joined) {
        let ended = last_attempt(run, step).and_then(|attempt| attempt.ended.as_ref());
        let beside = ended.into_iter().flat_map(|ended| &ended.secondary);
        let beside: Vec<(String, u64)> =
            beside.map(|(name, bytes)| (file_identifier(name), *bytes)).collect();
        secondary.extend(beside.iter().cloned());
        let beside = beside.into_iter().map(|(name, _)| name);
        let output = workflow.bytes[step.task as usize].is_some().then_some(step.task);
        for &number in step.inputs.iter().chain(&output) {
            used[number as usize] = true;
        }
        tasks.push(json!({
            "name": name(run, step.task),
            "id": identifier(step.task),
            "parents": ids(&step.parents, &joined.parents),
            "children": ids(&step.children, &joined.children),
            "inputFiles": step.inputs.iter().map(|task| file(run, *task)).chain(joined.inputs.iter().cloned()).collect::<Vec<_>>(),
            "outputFiles": output.iter().map(|task| file(run, *task)).chain(beside).chain(joined.output.clone()).collect::<Vec<_>>(),
        }));
    }
    let mut files: Vec<(String, u64)> = (0u32..)
        .zip(&workflow.bytes)
        .filter(|(task, _)| used[*task as usize])
        .filter_map(|(task, bytes)| Some((file(run, task), (*bytes)?)))
        .collect();
    for stream in &streams.streams {
        let written = stream.writers.iter().map(|(writer, bytes)| {
            (stream_file(workflow, &stream.name, *writer), bytes.unwrap_or_default())
        });
        files.extend(written);
    }
    // A secondary file may be a task's own file, too.
    let known: HashSet<&String> = files.iter().map(|(name, _)| name).collect();
    secondary.retain(|name, _| !known.contains(name));
    files.extend(secondary);
    let mut metrics = shape(workflow, &joined);
    metrics["numberOfFiles"] = json!(files.len());
    metrics["sumOfFileSizesInBytes"] = json!(files.iter().map(|(_, bytes)| bytes).sum::<u64>());
    let files: Vec<Value> =
        files.iter().map(|(name, bytes)| json!({ "id": name, "sizeInBytes": bytes })).collect();
    json!({ "tasks": tasks, "files": files, "metrics": metrics })
}

/// Levels and widths: a step without parents is at level 0, any other one below its lowest parent.
fn shape(workflow: &Workflow, joined: &[Joined]) -> Value {
    let count = workflow.steps.len();
    let (mut levels, mut widths) = (vec![0; count], Vec::<usize>::new());
    let mut missing: Vec<usize> = workflow
        .steps
        .iter()
        .zip(joined)
        .map(|(step, joined)| step.parents.len() + joined.parents.len())
        .collect();
    let mut ready: Vec<usize> = (0..count).filter(|step| missing[*step] == 0).collect();
    while let Some(step) = ready.pop() {
        let level: usize = levels[step];
        if widths.len() <= level {
            widths.resize(level + 1, 0);
        }
        widths[level] += 1;
        for &child in workflow.steps[step].children.iter().chain(&joined[step].children) {
            levels[child] = levels[child].max(level + 1);
            missing[child] -= 1;
            if missing[child] == 0 {
                ready.push(child);
            }
        }
    }
    json!({
        "numberOfTasks": workflow.steps.len(),
        "numberOfLevels": widths.len(),
        "minimumWidth": widths.iter().min(),
        "maximumWidth": widths.iter().max(),
    })
}

/// `None` when nothing was begun.
fn execution(run: &Run, workflow: &Workflow) -> Option<Value> {
    let tasks: Vec<Value> = workflow
        .steps
        .iter()
        .filter_map(|step| Some(executed(run, step.task, last_attempt(run, step)?)))
        .collect();
    if tasks.is_empty() {
        return None;
    }
    let sum = |key: &str| tasks.iter().filter_map(|task| task[key].as_u64()).sum::<u64>();
    let runtimes: f64 = tasks.iter().filter_map(|task| task["runtimeInSeconds"].as_f64()).sum();
    let metrics = json!({
        "sumTaskRuntimesInSeconds": runtimes,
        "totalNumBytesRead": sum("readBytes"),
        "totalNumBytesWritten": sum("writtenBytes"),
    });
    let mut execution = json!({
        "makespanInSeconds": seconds(run.last_ns - run.started.time_ns),
        "executedAt": iso_time(run.started.time_ns),
        "tasks": tasks,
        "metrics": metrics,
    });
    if !run.nodes.is_empty() {
        let used = |node: &&crate::Node| !run.is_spare(node.joined.node);
        execution["machines"] = run.nodes.iter().filter(used).map(machine).collect();
    }
    Some(execution)
}

fn machine(node: &crate::Node) -> Value {
    let mut machine = json!({
        "nodeName": non_empty(&node.joined.name.to_display(), "unnamed"),
        "system": "linux",
    });
    if node.joined.cores > 0 {
        machine["cpu"] = json!({ "coreCount": node.joined.cores });
    }
    if node.joined.memory_bytes > 0 {
        machine["memoryInBytes"] = json!(node.joined.memory_bytes);
    }
    machine
}

fn executed(run: &Run, task: u32, attempt: &Attempt) -> Value {
    let held = attempt.held(run);
    let (start, _) = attempt.span(run, &held);
    let runtime_ns = i64::try_from(total_ns(&held)).unwrap_or(i64::MAX);
    let mut value = json!({
        "id": identifier(task),
        "runtimeInSeconds": seconds(runtime_ns),
        "executedAt": iso_time(start),
    });
    if attempt.started.cores_in_all() > 0 {
        value["coreCount"] = json!(attempt.started.cores_in_all());
    }
    if let Some(node) = run.nodes.get(attempt.started.node as usize) {
        value["machines"] = json!([non_empty(&node.joined.name.to_display(), "unnamed")]);
    }
    let commands: Vec<&Command> = attempt
        .commands
        .iter()
        .filter_map(|number| run.commands.get(*number as usize)?.as_ref())
        .collect();
    if let Some(command) = command(&commands) {
        value["command"] = command;
    }
    add_usage(&mut value, &commands, runtime_ns);
    value
}

/// Adds the usage of the commands that ended, if any did.
fn add_usage(value: &mut Value, commands: &[&Command], runtime_ns: i64) {
    let ended: Vec<_> = commands.iter().filter_map(|command| command.ended.as_ref()).collect();
    if ended.is_empty() {
        return;
    }
    let cpu_us: u64 = ended.iter().map(|command| command.user_us + command.system_us).sum();
    if runtime_ns > 0 {
        let cpu_ns = i64::try_from(cpu_us.saturating_mul(1000)).unwrap_or(i64::MAX);
        value["avgCPU"] = json!(100.0 * seconds(cpu_ns) / seconds(runtime_ns));
    }
    value["readBytes"] = json!(ended.iter().map(|command| command.read_bytes).sum::<u64>());
    value["writtenBytes"] = json!(ended.iter().map(|command| command.write_bytes).sum::<u64>());
    if let Some(bytes) = ended.iter().filter_map(|command| command.rss_bytes()).max() {
        value["memoryInBytes"] = json!(bytes);
    }
}

/// One command as it is; several as a shell would run them one after the other. `None` for actions of Ruby code alone.
fn command(commands: &[&Command]) -> Option<Value> {
    let lines: Vec<String> = commands.iter().map(|command| shell_line(command)).collect();
    if let [one] = commands
        && let Some(words) = words(one)
        && words.iter().all(|word| !word.0.is_empty())
        && let Some((program, arguments)) = words.split_first()
    {
        let arguments: Vec<String> = arguments.iter().map(Text::to_display).collect();
        return Some(json!({ "program": program.to_display(), "arguments": arguments }));
    }
    let line = lines.join(" && ");
    (!line.is_empty()).then(|| json!({ "program": "sh", "arguments": ["-c", line] }))
}

fn words(command: &Command) -> Option<Vec<Text>> {
    command.started.words.clone().or_else(|| plain_words(command.started.line.as_ref()?))
}

fn shell_line(command: &Command) -> String {
    match (&command.started.words, &command.started.line) {
        (Some(words), _) => words.iter().map(shell_word).collect::<Vec<_>>().join(" "),
        (None, Some(line)) => line.to_display(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
#[path = "wfformat_tests.rs"]
mod tests;
