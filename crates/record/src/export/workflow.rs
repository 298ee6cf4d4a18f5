//! The graph that other formats know: tasks that ran or were to run, the files between them, and nothing else.
//!
//! Rake's graph has tasks without an action, which only group others, and targets that were up to
//! date. The former are contracted: what stood below them counts as standing below their
//! dependents. The latter are files. Formats take their edges from here; what they make of them is
//! theirs.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_proto::journal::{Outcome, TaskKind, TaskOutcome};

use crate::summary::streams::{StreamSide, streams};
use crate::{Attempt, Run, Task};

/// Maximum number of pairs (what is below, what is above) of a group that is contracted: each becomes an edge. A group
/// with more is kept as a step of its own.
const PAIRS_MAX: usize = 100_000;

/// A task of the graph.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its number in the run.
    pub task: u32,
    /// Steps that had to be done before, ascending, as indices into [`Workflow::steps`].
    pub parents: Vec<usize>,
    /// The reverse.
    pub children: Vec<usize>,
    /// Numbers of the tasks whose files it takes, ascending.
    pub inputs: Vec<u32>,
}

/// The tasks that ran or were to run, and the files between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Workflow {
    /// Parents before children.
    pub steps: Vec<Step>,
    /// By task number: the size of its file, when it is a file that is, or was at the end of its last attempt, there.
    pub bytes: Vec<Option<u64>>,
}

/// Streams between steps, as far as they are an order: a workflow knows no circles.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEdges {
    /// In the order of their names.
    pub streams: Vec<StreamEdge>,
    /// Names of those that would close a circle, or have too many edges, and are left out.
    pub left_out: Vec<String>,
}

/// A stream between steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEdge {
    /// As the Rakefile has it.
    pub name: String,
    /// Indices of the steps that write, and the bytes that each wrote. `None`: that is not known.
    pub writers: Vec<(usize, Option<u64>)>,
    /// Indices of the steps that read.
    pub readers: Vec<usize>,
}

impl StreamEdges {
    /// Of a run.
    pub(crate) fn of(run: &Run, workflow: &Workflow) -> Self {
        let mut found = Self::default();
        if run.streams.is_empty() {
            return found;
        }
        let place: BTreeMap<u32, usize> =
            workflow.steps.iter().zip(0..).map(|(step, index)| (step.task, index)).collect();
        let mut after: Vec<Vec<usize>> =
            workflow.steps.iter().map(|step| step.children.clone()).collect();
        for stream in streams(run) {
            let index = |side: &StreamSide| place.get(&side.task).copied();
            let bytes = |side: &StreamSide| side.account.as_ref().map(|account| account.bytes);
            let writers: Vec<(usize, Option<u64>)> = stream
                .writers
                .iter()
                .filter_map(|side| Some((index(side)?, bytes(side))))
                .collect();
            let readers: Vec<usize> = stream.readers.iter().filter_map(index).collect();
            let closes_circle = reach_any(&after, &readers, writers.iter().map(|(step, _)| *step));
            if closes_circle || writers.len().saturating_mul(readers.len()) > PAIRS_MAX {
                found.left_out.push(stream.name);
                continue;
            }
            for (writer, _) in &writers {
                after[*writer].extend(&readers);
            }
            found.streams.push(StreamEdge { name: stream.name, writers, readers });
        }
        found
    }
}

/// Whether a way leads from some steps to one of others.
pub(crate) fn reach_any(
    after: &[Vec<usize>],
    from: &[usize],
    to: impl Iterator<Item = usize>,
) -> bool {
    let wanted: BTreeSet<usize> = to.collect();
    let mut seen = vec![false; after.len()];
    let mut ahead = from.to_vec();
    while let Some(step) = ahead.pop() {
        if wanted.contains(&step) {
            return true;
        }
        if !std::mem::replace(&mut seen[step], true) {
            ahead.extend(&after[step]);
        }
    }
    false
}

/// What of a task its dependents depend on.
#[derive(Default, Clone)]
struct Below {
    steps: BTreeSet<usize>,
    files: BTreeSet<u32>,
}

impl Workflow {
    /// Of a run.
    pub(crate) fn of(run: &Run) -> Self {
        let bytes: Vec<_> =
            run.tasks.iter().map(|task| task.as_deref().and_then(file_bytes)).collect();
        let dependents = dependent_counts(run);
        let mut workflow = Self { steps: Vec::new(), bytes };
        let mut below: Vec<Option<Below>> = vec![None; run.tasks.len()];
        for number in planning_order(run) {
            let index = number as usize;
            let Some(task) = &run.tasks[index] else { continue };
            let mut own = Below::default();
            for &before in task.defined.prerequisites.iter().chain(&task.defined.order_only) {
                if let Some(found) = below.get(before as usize).and_then(Option::as_ref) {
                    own.steps.extend(&found.steps);
                }
            }
            for &before in &task.defined.prerequisites {
                if let Some(found) = below.get(before as usize).and_then(Option::as_ref) {
                    own.files.extend(&found.files);
                }
            }
            let pairs = (own.steps.len() + own.files.len()).saturating_mul(dependents[index]);
            if is_step(task) || pairs > PAIRS_MAX {
                own = workflow.push(number, own);
            }
            if workflow.bytes[index].is_some() {
                own.files = BTreeSet::from([number]);
            }
            below[index] = Some(own);
        }
        workflow
    }

    /// Adds a step; what its dependents see is the step alone.
    fn push(&mut self, task: u32, below: Below) -> Below {
        let index = self.steps.len();
        for &parent in &below.steps {
            self.steps[parent].children.push(index);
        }
        self.steps.push(Step {
            task,
            parents: below.steps.into_iter().collect(),
            children: Vec::new(),
            inputs: below.files.into_iter().collect(),
        });
        Below { steps: BTreeSet::from([index]), files: BTreeSet::new() }
    }
}

/// The attempts that count: those that were given back had not begun.
pub(crate) fn attempts(task: &Task) -> impl DoubleEndedIterator<Item = &Attempt> {
    task.attempts.iter().filter(|attempt| attempt.counts())
}

/// How an attempt ended. `None`: it was cut off, or goes on.
pub(crate) fn outcome(attempt: &Attempt) -> Option<Outcome> {
    attempt.ended.as_ref().map(|ended| ended.outcome)
}

/// Why what has not ended yet is not called good.
pub(crate) const GOES_ON: &str = "goes on: the run has not ended yet";

/// When its last attempt that counts has not ended well, a few words why.
pub(crate) fn failure(run: &Run, attempt: &Attempt) -> Option<String> {
    let said = |ended: &rakuda_proto::journal::AttemptEnded, otherwise: &str| {
        ended.message.as_ref().map_or_else(|| otherwise.to_owned(), rakuda_proto::Text::to_display)
    };
    match &attempt.ended {
        None if run.alive => Some(GOES_ON.into()),
        None => Some("cut off: the journal does not have its end".into()),
        Some(ended) => match ended.outcome {
            Outcome::Done | Outcome::GivenBack => None,
            Outcome::Failed => Some(said(ended, "failed")),
            Outcome::Exited => Some(said(ended, "its action called exit")),
            Outcome::Aborted => Some(said(ended, "ended because of others")),
            Outcome::Lost => Some(said(ended, "its node was lost")),
        },
    }
}

/// A task with an action that was begun, or would have been but for others or for the end of the run.
fn is_step(task: &Task) -> bool {
    let settled = task.settled.as_ref().map(|settled| settled.how);
    attempts(task).next().is_some()
        || task.defined.action
            && matches!(
                settled,
                Some(TaskOutcome::Failed | TaskOutcome::Abandoned | TaskOutcome::NotReached)
            )
}

/// Size of a task's file, if it has one. Directories have none.
fn file_bytes(task: &Task) -> Option<u64> {
    if !matches!(task.defined.kind, TaskKind::File | TaskKind::Asked) {
        return None;
    }
    match attempts(task).next_back() {
        Some(attempt) => Some(attempt.ended.as_ref()?.after?.bytes),
        None => task.defined.bytes,
    }
}

fn dependent_counts(run: &Run) -> Vec<usize> {
    let mut counts = vec![0; run.tasks.len()];
    for task in run.tasks.iter().flatten() {
        for &before in task.defined.prerequisites.iter().chain(&task.defined.order_only) {
            if let Some(count) = counts.get_mut(before as usize) {
                *count += 1;
            }
        }
    }
    counts
}

/// Numbers of tasks, prerequisites first. What a damaged journal has in a cycle comes last, ascending.
fn planning_order(run: &Run) -> Vec<u32> {
    let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); run.tasks.len()];
    let mut missing = vec![0usize; run.tasks.len()];
    for task in run.tasks.iter().flatten() {
        for &before in task.defined.prerequisites.iter().chain(&task.defined.order_only) {
            if let Some(list) = dependents.get_mut(before as usize) {
                list.push(task.defined.task);
                missing[task.defined.task as usize] += 1;
            }
        }
    }
    let mut ready: BTreeSet<u32> =
        (0u32..).zip(&missing).filter(|(_, count)| **count == 0).map(|(task, _)| task).collect();
    let mut order = Vec::with_capacity(run.tasks.len());
    let mut placed = vec![false; run.tasks.len()];
    while let Some(task) = ready.pop_first() {
        order.push(task);
        placed[task as usize] = true;
        for &dependent in &dependents[task as usize] {
            missing[dependent as usize] -= 1;
            if missing[dependent as usize] == 0 {
                ready.insert(dependent);
            }
        }
    }
    order.extend((0u32..).zip(&placed).filter(|(_, placed)| !**placed).map(|(task, _)| task));
    order
}
