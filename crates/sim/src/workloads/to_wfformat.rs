//! A workload as an instance of WfCommons (WfFormat 1.6), so that others can run what is simulated
//! here. Files are called after the program that writes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::ids::FileId;
use crate::workload::{TaskSpec, Workload, WorkloadError};

/// The instance as JSON; `seed` is that of the computing times.
///
/// # Errors
/// When a file has two writers.
pub fn to_wfformat(workload: &Workload, seed: u64) -> Result<String, WorkloadError> {
    let writers = workload.writers()?;
    let names = names(workload, &writers);
    let parents: Vec<BTreeSet<u32>> =
        workload.tasks.iter().map(|task| parents(task, &writers)).collect();
    let mut children: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (number, parents) in (0_u32..).zip(&parents) {
        for parent in parents {
            children.entry(*parent).or_default().push(task_id(number));
        }
    }
    let mut specified = Vec::new();
    let mut executed = Vec::new();
    for (number, (task, parents)) in (0_u32..).zip(workload.tasks.iter().zip(&parents)) {
        let program = &workload.rules[task.rule.index()];
        let files = |files: &[FileId]| {
            files.iter().map(|file| names[file.index()].as_str().into()).collect()
        };
        specified.push(json!({
            "id": task_id(number),
            "name": format!("{program}_{number}"),
            "parents": parents.iter().map(|parent| task_id(*parent)).collect::<Vec<_>>(),
            "children": children.remove(&number).unwrap_or_default(),
            "inputFiles": Value::Array(files(&task.inputs)),
            "outputFiles": Value::Array(files(&task.outputs)),
        }));
        #[expect(clippy::cast_precision_loss, reason = "seconds to 15 digits are enough")]
        let seconds = task.compute.draw_ns(seed, number) as f64 / 1e9;
        executed.push(json!({
            "id": task_id(number),
            "runtimeInSeconds": seconds,
            "coreCount": task.cores.max(1),
            "memoryInBytes": task.memory_bytes,
            "command": {"program": program},
        }));
    }
    let sizes = names.iter().zip(&workload.files);
    let files = sizes.map(|(name, bytes)| json!({"id": name, "sizeInBytes": bytes}));
    let instance = json!({
        "name": workload.name,
        "schemaVersion": "1.6",
        "workflow": {
            "specification": {"tasks": specified, "files": files.collect::<Vec<_>>()},
            "execution": {"tasks": executed},
        },
    });
    Ok(format!("{instance:#}\n"))
}

fn task_id(number: u32) -> String {
    format!("ID{number:07}")
}

/// The tasks that come before one.
fn parents(task: &TaskSpec, writers: &[Option<u32>]) -> BTreeSet<u32> {
    let by_files = task.inputs.iter().filter_map(|file| writers[file.index()]);
    by_files.chain(task.after.iter().copied()).collect()
}

/// `PROGRAM-TASK`, with a number behind it where a task writes several; `input-N` for a file that no task writes.
fn names(workload: &Workload, writers: &[Option<u32>]) -> Vec<String> {
    let mut of_task: BTreeMap<u32, u32> = BTreeMap::new();
    let name = |(file, writer): (usize, &Option<u32>)| {
        let Some(writer) = *writer else {
            return format!("input-{file:07}");
        };
        let task = &workload.tasks[writer as usize];
        let program =
            workload.rules[task.rule.index()].replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let place = of_task.entry(writer).or_default();
        *place += 1;
        if *place == 1 {
            format!("{program}-{writer:07}")
        } else {
            format!("{program}-{writer:07}.{place}")
        }
    };
    writers.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{layers, montage, wfformat};
    use super::*;
    use crate::workload::Compute;

    #[test]
    fn what_is_written_is_read_again_as_the_same_workflow() {
        for workload in [montage(), layers(200, 3)] {
            let text = to_wfformat(&workload, 1).expect("no file has two writers");
            let again = wfformat("again", text.as_bytes()).expect("it is understood");
            assert_eq!(again.name, workload.name);
            assert_eq!(again.files, workload.files);
            assert_eq!(again.tasks.len(), workload.tasks.len());
            for (number, (read, wrote)) in (0..).zip(again.tasks.iter().zip(&workload.tasks)) {
                assert_eq!((&read.inputs, &read.outputs), (&wrote.inputs, &wrote.outputs));
                let writers = workload.writers().expect("no file has two writers");
                let after: BTreeSet<u32> = read.after.iter().copied().collect();
                assert_eq!(after, parents(wrote, &writers));
                let Compute::Fixed(ns) = read.compute else { panic!("{:?}", read.compute) };
                assert!(ns.abs_diff(wrote.compute.draw_ns(1, number)) <= 1_000);
            }
        }
    }
}
