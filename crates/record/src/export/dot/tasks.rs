//! The graph of tasks: one node per task that ran or was to run, one per file that was there before, coloured by rule.
//!
//! Clusters are the folders of targets, when there are a few.

use std::collections::BTreeMap;

use rakuda_proto::Text;
use rakuda_proto::journal::TaskKind;

use super::{FAILED, Graph, NOT_RUN, fill, stream_shape};
use crate::export::names::seconds;
use crate::export::workflow::{Step, Workflow, attempts};
use crate::report::format::bytes;
use crate::summary::outcomes::{Fate, fate};
use crate::summary::streams::streams;
use crate::{Run, Task};

/// Maximum number of folders that are drawn as clusters. With more, clusters do not help.
const FOLDERS_MAX: usize = 12;

pub(super) fn draw(run: &Run, graph: &mut Graph) -> usize {
    let workflow = Workflow::of(run);
    let mut folders: BTreeMap<Option<Text>, Vec<&Step>> = BTreeMap::new();
    for step in &workflow.steps {
        folders.entry(folder(run, step.task)).or_default().push(step);
    }
    let clusters = folders.keys().flatten().count();
    let clustered = (2..=FOLDERS_MAX).contains(&clusters);
    for (number, (name, steps)) in folders.iter().enumerate() {
        let cluster = name.as_ref().filter(|_| clustered);
        if let Some(name) = cluster {
            graph.open_cluster(number, &name.to_display());
        }
        for step in steps {
            draw_step(run, step.task, graph);
        }
        if cluster.is_some() {
            graph.close_cluster();
        }
    }
    draw_edges(&workflow, graph);
    draw_streams(run, graph);
    workflow.steps.len() + draw_files(run, &workflow, graph)
}

/// Files that were there before, and the edges from them; the answer is how many.
fn draw_files(run: &Run, workflow: &Workflow, graph: &mut Graph) -> usize {
    let mut made = vec![false; run.tasks.len()];
    for step in &workflow.steps {
        made[step.task as usize] = true;
    }
    let mut drawn = vec![false; run.tasks.len()];
    for step in &workflow.steps {
        for &input in step.inputs.iter().filter(|input| !made[**input as usize]) {
            if !std::mem::replace(&mut drawn[input as usize], true) {
                let more = "shape=note, fontcolor=\"#505050\"";
                graph.node(&id(input), &name(run, input), more);
            }
            graph.edge(&id(input), &id(step.task), "");
        }
    }
    drawn.iter().filter(|drawn| **drawn).count()
}

fn draw_edges(workflow: &Workflow, graph: &mut Graph) {
    for step in &workflow.steps {
        for parent in &step.parents {
            graph.edge(&id(workflow.steps[*parent].task), &id(step.task), "");
        }
    }
}

/// Each stream once: an edge from each writer to it, and from it to each reader.
fn draw_streams(run: &Run, graph: &mut Graph) {
    for (number, stream) in streams(run).iter().enumerate() {
        let node = format!("s{number}");
        let label = format!("{}\n{}", stream.name, bytes(stream.bytes()));
        graph.node(&node, &label, &stream_shape(!stream.is_balanced()));
        stream.writers.iter().for_each(|side| graph.edge(&id(side.task), &node, ""));
        stream.readers.iter().for_each(|side| graph.edge(&node, &id(side.task), ""));
    }
}

fn id(task: u32) -> String {
    format!("t{task}")
}

fn name(run: &Run, task: u32) -> String {
    run.tasks[task as usize]
        .as_ref()
        .map_or_else(String::new, |task| task.defined.name.to_display())
}

/// The folder of a target, when it has one.
fn folder(run: &Run, task: u32) -> Option<Text> {
    let task = run.tasks[task as usize].as_ref()?;
    if task.defined.kind != TaskKind::File {
        return None;
    }
    let name = &task.defined.name.0;
    let end = name.iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0)?;
    Some(Text(name[..end].to_vec()))
}

fn draw_step(run: &Run, number: u32, graph: &mut Graph) {
    let Some(task) = &run.tasks[number as usize] else { return };
    let shape = match task.defined.kind {
        TaskKind::Plain => "shape=ellipse",
        TaskKind::Directory => "shape=folder",
        TaskKind::File | TaskKind::Asked => "shape=box",
    };
    let mut more = format!("{shape}, {}", fill(task.defined.rule));
    if let Some(border) = border(task) {
        more.push_str(", ");
        more.push_str(border);
    }
    let mut label = task.defined.name.to_display();
    if let Some(attempt) = attempts(task).next_back() {
        let run_ns = i64::try_from(attempt.run_ns(run)).unwrap_or(i64::MAX);
        label = format!("{label}\n{:.2} s", seconds(run_ns));
    }
    graph.node(&id(number), &label, &more);
}

fn border(task: &Task) -> Option<&'static str> {
    match fate(task) {
        Fate::Ran => None,
        Fate::Failed => Some(FAILED),
        _ if attempts(task).next().is_some() => Some(NOT_RUN),
        _ => task.defined.action.then_some(NOT_RUN),
    }
}
