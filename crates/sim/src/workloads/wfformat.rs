//! Instances of WfCommons in its WfFormat: schema 1.4 and before (files and run times stand in the
//! tasks) and 1.5, 1.6 (specification and execution apart).
//!
//! A run time becomes computing time as it is, though in an instance of a real run it has reading and writing in it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ids::FileId;
use crate::workload::{Compute, TaskSpec, Workload, WorkloadError};

/// Maximum run time of a task that is accepted, s: some thirty years.
const RUN_S_MAX: f64 = 1e9;
/// Maximum of all run times together, s, so that their sum in ns has room in a `u64`.
const RUN_S_SUM_MAX: f64 = 1e10;
/// Maximum bytes of a file or of a task's memory.
const BYTES_MAX: f64 = 1e15;
/// Maximum bytes of all files together.
const BYTES_SUM_MAX: u128 = 1_000_000_000_000_000_000;
/// Maximum number of cores of a task.
const CORES_MAX: f64 = 1e6;

#[derive(Deserialize)]
struct Instance {
    name: Option<String>,
    workflow: Workflow,
}

#[derive(Deserialize)]
struct Workflow {
    /// The form of schema 1.5 and later.
    specification: Option<Specification>,
    execution: Option<Execution>,
    /// The form of schema 1.4 and before; `jobs` before 1.0.
    #[serde(default, alias = "jobs")]
    tasks: Vec<TaskItem>,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<TaskItem>,
    #[serde(default)]
    files: Vec<FileItem>,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(default)]
    tasks: Vec<TaskItem>,
}

/// A task in any of its places; what is not there is empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskItem {
    name: Option<String>,
    id: Option<String>,
    category: Option<String>,
    command: Option<Command>,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
    #[serde(default)]
    files: Vec<FileItem>,
    #[serde(alias = "runtime")]
    runtime_in_seconds: Option<f64>,
    #[serde(alias = "cores")]
    core_count: Option<f64>,
    #[serde(alias = "memory")]
    memory_in_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct Command {
    program: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileItem {
    #[serde(alias = "name")]
    id: String,
    /// In a task's own list: `input` or `output`.
    link: Option<String>,
    #[serde(alias = "size")]
    size_in_bytes: Option<f64>,
}

impl TaskItem {
    fn id(&self) -> &str {
        self.id.as_deref().or(self.name.as_deref()).unwrap_or_default()
    }

    /// What tasks of one program have in common.
    fn program(&self) -> String {
        let command = self.command.as_ref().and_then(|command| command.program.as_deref());
        let name = self.category.as_deref().or(command).or(self.name.as_deref());
        let name = name.unwrap_or_else(|| self.id());
        let name = name.rsplit('/').next().unwrap_or(name);
        // A number at the end tells tasks of one program apart.
        let kind = name.trim_end_matches(|end: char| end.is_ascii_digit());
        if kind.len() < name.len() { kind.trim_end_matches(['_', '-']) } else { name }.to_owned()
    }

    fn inputs(&self) -> impl Iterator<Item = &str> {
        self.input_files.iter().map(String::as_str).chain(self.linked("input"))
    }

    fn outputs(&self) -> impl Iterator<Item = &str> {
        self.output_files.iter().map(String::as_str).chain(self.linked("output"))
    }

    fn linked<'a>(&'a self, link: &'static str) -> impl Iterator<Item = &'a str> {
        let linked = self.files.iter().filter(move |file| file.link.as_deref() == Some(link));
        linked.map(|file| file.id.as_str())
    }
}

/// The workflow of an instance. `fallback` is its name if it has none.
///
/// # Errors
/// When it is not JSON, or not an instance.
pub fn wfformat(fallback: &str, json: &[u8]) -> Result<Workload, WorkloadError> {
    let understood = serde_json::from_slice(json);
    let instance: Instance =
        understood.map_err(|error| WorkloadError::Description(error.to_string()))?;
    let mut workload = Workload::new(instance.name.unwrap_or_else(|| fallback.to_owned()));
    let Workflow { specification, execution, tasks } = instance.workflow;
    let (tasks, listed) = match specification {
        Some(Specification { tasks, files }) => (tasks, files),
        None => (tasks, Vec::new()),
    };
    let measured = execution.map(|execution| execution.tasks).unwrap_or_default();
    let measured: BTreeMap<&str, &TaskItem> =
        measured.iter().map(|item| (item.id(), item)).collect();
    let numbers: BTreeMap<&str, u32> = (0..).zip(&tasks).map(|(n, item)| (item.id(), n)).collect();
    let mut files = Files::default();
    for file in listed.iter().chain(tasks.iter().flat_map(|item| &item.files)) {
        files.size(&mut workload, &file.id, file.size_in_bytes)?;
    }
    let all_bytes: u128 = workload.files.iter().map(|bytes| u128::from(*bytes)).sum();
    if all_bytes > BYTES_SUM_MAX {
        let wrong = format!("all files have {all_bytes} bytes: expected at most {BYTES_SUM_MAX}");
        return Err(WorkloadError::Description(wrong));
    }
    let mut all_seconds = 0.0;
    for (number, item) in (0..).zip(&tasks) {
        let run = measured.get(item.id()).copied().unwrap_or(item);
        let parents = item.parents.iter().map(|parent| {
            let known = numbers.get(parent.as_str()).copied();
            known.ok_or_else(|| no_task(item.id(), parent))
        });
        let after = parents.collect::<Result<Vec<u32>, WorkloadError>>()?;
        let program = if item.category.is_some() { item } else { run };
        let rule = workload.rule(&program.program());
        let inputs = item.inputs().map(|name| files.find(&mut workload, name)).collect();
        let outputs = item.outputs().map(|name| files.find(&mut workload, name));
        // A file belongs to the task that writes it first.
        let outputs = outputs.collect::<Vec<FileId>>();
        let outputs = outputs.into_iter().filter(|file| files.write(*file, number)).collect();
        let task = format!("task {}", item.id());
        let of_task = |what, number: Option<f64>, most| checked(&task, what, number, most);
        let seconds = run.runtime_in_seconds.or(item.runtime_in_seconds);
        let seconds = of_task("runtimeInSeconds", seconds, RUN_S_MAX)?;
        all_seconds += seconds;
        let cores = of_task("coreCount", run.core_count.or(item.core_count), CORES_MAX)?;
        let memory = run.memory_in_bytes.or(item.memory_in_bytes);
        workload.task(TaskSpec {
            cores: u32::try_from(whole(cores)).unwrap_or(u32::MAX).max(1),
            memory_bytes: whole(of_task("memoryInBytes", memory, BYTES_MAX)?),
            inputs,
            outputs,
            after,
            ..TaskSpec::new(rule, Compute::Fixed(whole(seconds * 1e9)))
        });
    }
    checked("the instance", "seconds of all tasks", Some(all_seconds), RUN_S_SUM_MAX)?;
    own_outputs_are_no_inputs(&mut workload);
    Ok(workload)
}

/// A number of an instance, 0 where there is none, if it can be simulated.
fn checked(of: &str, what: &str, number: Option<f64>, most: f64) -> Result<f64, WorkloadError> {
    let number = number.unwrap_or(0.0);
    if (0.0..=most).contains(&number) {
        return Ok(number);
    }
    let wrong = format!("{of} has {number:e} for {what}: expected 0 to {most:e}");
    Err(WorkloadError::Description(wrong))
}

fn no_task(of: &str, parent: &str) -> WorkloadError {
    WorkloadError::Description(format!("task {of} has the parent {parent}, which is not there"))
}

/// A task that changes a file in place reads one that was there before.
fn own_outputs_are_no_inputs(workload: &mut Workload) {
    for task in &mut workload.tasks {
        let outputs = std::mem::take(&mut task.outputs);
        task.inputs.retain(|input| !outputs.contains(input));
        task.outputs = outputs;
    }
}

/// Files by their names.
#[derive(Default)]
struct Files<'a> {
    numbers: BTreeMap<&'a str, FileId>,
    writers: BTreeMap<FileId, u32>,
}

impl<'a> Files<'a> {
    fn find(&mut self, workload: &mut Workload, name: &'a str) -> FileId {
        *self.numbers.entry(name).or_insert_with(|| workload.file(0))
    }

    fn size(
        &mut self,
        workload: &mut Workload,
        name: &'a str,
        bytes: Option<f64>,
    ) -> Result<(), WorkloadError> {
        let bytes = checked(&format!("file {name}"), "sizeInBytes", bytes, BYTES_MAX)?;
        let file = self.find(workload, name);
        workload.files[file.index()] = workload.files[file.index()].max(whole(bytes));
        Ok(())
    }

    fn write(&mut self, file: FileId, task: u32) -> bool {
        *self.writers.entry(file).or_insert(task) == task
    }
}

/// A number of JSON that should be whole and not negative.
#[allow(clippy::cast_sign_loss, reason = "it is not negative")]
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workload: &Workload) {
        assert_eq!(workload.name, "two");
        assert_eq!(workload.rules, ["split", "join"]);
        assert_eq!(workload.files, [10, 20, 30]);
        let [split, join] = workload.tasks.as_slice() else { panic!("{:?}", workload.tasks) };
        assert_eq!(split.compute, Compute::Fixed(1_500_000_000));
        assert_eq!((&split.inputs[..], &split.outputs[..]), (&[FileId(0)][..], &[FileId(1)][..]));
        assert_eq!((&join.inputs[..], &join.outputs[..]), (&[FileId(1)][..], &[FileId(2)][..]));
        assert_eq!((join.after.as_slice(), join.cores), (&[0][..], 4));
    }

    #[test]
    fn an_instance_of_schema_1_5_is_understood() {
        let json = br#"{"name": "two", "schemaVersion": "1.5", "workflow": {
            "specification": {
                "tasks": [
                    {"name": "split", "id": "split_1", "parents": [], "children": ["join_2"],
                     "inputFiles": ["a"], "outputFiles": ["b"]},
                    {"name": "join", "id": "join_2", "parents": ["split_1"], "children": [],
                     "inputFiles": ["b"], "outputFiles": ["c"]}],
                "files": [{"id": "a", "sizeInBytes": 10}, {"id": "b", "sizeInBytes": 20},
                          {"id": "c", "sizeInBytes": 30}]},
            "execution": {"makespanInSeconds": 3, "tasks": [
                {"id": "split_1", "runtimeInSeconds": 1.5, "command": {"program": "split"}},
                {"id": "join_2", "runtimeInSeconds": 1, "coreCount": 4, "command": {"program": "join"}}]}}}"#;
        check(&wfformat("file", json).unwrap());
    }

    #[test]
    fn an_instance_of_schema_1_4_is_understood() {
        let json = br#"{"name": "two", "schemaVersion": "1.4", "workflow": {"makespanInSeconds": 3, "tasks": [
            {"name": "split_00000001", "id": "ID1", "type": "compute", "runtimeInSeconds": 1.5,
             "parents": [], "files": [{"link": "input", "name": "a", "sizeInBytes": 10},
                                      {"link": "output", "name": "b", "sizeInBytes": 20}]},
            {"name": "join_00000002", "id": "ID2", "type": "compute", "runtimeInSeconds": 1,
             "cores": 4, "parents": ["ID1"], "files": [
                {"link": "input", "name": "b", "sizeInBytes": 20},
                {"link": "output", "name": "c", "sizeInBytes": 30}]}]}}"#;
        check(&wfformat("file", json).unwrap());
    }

    #[test]
    fn what_is_not_an_instance_is_refused_with_a_reason() {
        assert!(wfformat("file", b"{}").unwrap_err().to_string().contains("workflow"));
        let json = br#"{"workflow": {"tasks": [{"name": "a", "parents": ["b"]}]}}"#;
        assert!(wfformat("file", json).unwrap_err().to_string().contains("parent b"));
    }

    #[test]
    fn what_no_machine_could_do_is_refused_with_its_name() {
        for (fields, told) in [
            (r#""runtimeInSeconds": 1e300"#, "task a has 1e300 for runtimeInSeconds"),
            (r#""runtimeInSeconds": -1"#, "task a has -1e0 for runtimeInSeconds"),
            (r#""cores": 1e9"#, "task a has 1e9 for coreCount"),
            (r#""memory": 1e18"#, "task a has 1e18 for memoryInBytes"),
            (
                r#""files": [{"link": "input", "name": "f", "sizeInBytes": 1e16}]"#,
                "file f has 1e16 for sizeInBytes",
            ),
        ] {
            let json = format!(r#"{{"workflow": {{"tasks": [{{"name": "a", {fields}}}]}}}}"#);
            let error = wfformat("file", json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
