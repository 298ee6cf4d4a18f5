//! Why a task ran in a recorded run, or why it did not: what the journal noted for it, and how that
//! came about through the tasks before it.
//!
//! Why it *would* run now is not known here: that takes the Rakefile and the files as they are.

use std::collections::{HashSet, VecDeque};

use rakuda_proto::Text;
use rakuda_proto::journal::{Reason, ReasonKind, TaskOutcome};

use crate::run::{Run, Task};
use crate::story::{Fate, fate};

/// Maximum number of steps that lead to a reason in an answer.
const STEPS_MAX: usize = 20;

/// The answer for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// Its name.
    pub target: Text,
    /// Whether it ran.
    pub ran: bool,
    /// What became of it.
    pub fate: Fate,
    /// Why it ran.
    pub reasons: Vec<Reason>,
    /// Prerequisites that failed or were abandoned, when that is why it did not run.
    pub because: Vec<Text>,
    /// How it came about: tasks before it that ran in the same run and so made its prerequisites
    /// newer, and why they ran; of a task that was abandoned, what failed in the end. Nearest
    /// first.
    pub chain: Vec<Step>,
}

/// One task on the way to the roots.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub task: Text,
    /// 1 for a prerequisite, 2 for one of that.
    pub depth: u32,
    /// What became of it.
    pub fate: Fate,
    /// Why it ran.
    pub reasons: Vec<Reason>,
    /// What went wrong with it.
    pub message: Option<Text>,
}

/// Answers for a task, by its number. `None`: the journal does not name it.
pub fn why(run: &Run, number: u32) -> Option<Why> {
    let task = run.task(number)?;
    let fate = fate(run, task);
    Some(Why {
        target: task.defined.name.clone(),
        ran: !task.attempts.is_empty() || fate == Fate::Executed,
        fate,
        reasons: reasons(task),
        because: because(run, task).into_iter().map(|task| run.task_name(task)).collect(),
        chain: if fate == Fate::Abandoned { failures(run, task) } else { chain(run, task) },
    })
}

/// The prerequisites because of which a task was settled without an attempt. A task is abandoned with the first that
/// fails; those that failed later are included, too.
pub fn because(run: &Run, task: &Task) -> Vec<u32> {
    let Some(settled) = &task.settled else { return Vec::new() };
    let mut because = settled.because.clone();
    if settled.how == TaskOutcome::Abandoned {
        let mut seen: HashSet<u32> = because.iter().copied().collect();
        let went_badly = |number: &u32| {
            let fate = run.task(*number).map(|task| fate(run, task));
            matches!(fate, Some(Fate::Failed | Fate::Abandoned))
        };
        let before = task.defined.prerequisites.iter().chain(&task.defined.order_only).copied();
        because.extend(before.filter(|number| went_badly(number) && seen.insert(*number)));
    }
    because
}

/// Of the first attempt: later ones ran because that one failed, or because what it made was lost.
fn reasons(task: &Task) -> Vec<Reason> {
    let mut attempts = task.attempts.iter().map(|attempt| &attempt.started.reasons);
    let mut reasons = attempts.next().cloned().unwrap_or_default();
    let is_new = |reasons: &[Reason], reason: &Reason| {
        reason.kind == ReasonKind::Lost && !reasons.contains(reason)
    };
    for reason in attempts.flatten() {
        if is_new(&reasons, reason) {
            reasons.push(reason.clone());
        }
    }
    reasons
}

/// What failed in the end so that a task was abandoned: breadth first over those that were
/// abandoned for the same reason.
fn failures(run: &Run, task: &Task) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut seen = HashSet::from([task.defined.task]);
    let mut waiting = VecDeque::from([(0, task)]);
    while let Some((depth, task)) = waiting.pop_front() {
        for cause in causes(run, task) {
            if !seen.insert(cause.defined.task) {
                continue;
            }
            match fate(run, cause) {
                Fate::Abandoned => waiting.push_back((depth + 1, cause)),
                fate if steps.len() < STEPS_MAX => steps.push(step(cause, depth + 1, fate)),
                _ => {}
            }
        }
    }
    steps
}

fn step(task: &Task, depth: u32, fate: Fate) -> Step {
    let last = task.attempts.last().and_then(|attempt| attempt.ended.as_ref());
    Step {
        task: task.defined.name.clone(),
        depth,
        fate,
        reasons: reasons(task),
        message: last.and_then(|ended| ended.message.clone()),
    }
}

/// Breadth first, each task once.
fn chain(run: &Run, task: &Task) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut seen = HashSet::from([task.defined.task]);
    let mut level = vec![task.defined.task];
    for depth in 1.. {
        let mut next = Vec::new();
        for number in level {
            let Some(task) = run.task(number) else { continue };
            for cause in causes(run, task) {
                if steps.len() == STEPS_MAX || !seen.insert(cause.defined.task) {
                    continue;
                }
                steps.push(step(cause, depth, fate(run, cause)));
                next.push(cause.defined.task);
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    steps
}

/// Prerequisites that ran in this run and are named in the reasons, or that failed and are why the task was abandoned.
fn causes<'a>(run: &'a Run, task: &'a Task) -> Vec<&'a Task> {
    let because = because(run, task);
    if !because.is_empty() {
        return because.into_iter().filter_map(|number| run.task(number)).collect();
    }
    let Some(first) = task.attempts.first() else {
        // A task without an action stands for its prerequisites.
        let ran = task.defined.prerequisites.iter().filter_map(|number| run.task(*number));
        let ran = ran.filter(|other| !other.attempts.is_empty());
        return if task.settled.is_some() { ran.collect() } else { Vec::new() };
    };
    let made_newer = |reason: &&Reason| {
        matches!(reason.kind, ReasonKind::Newer | ReasonKind::Runs | ReasonKind::Content)
    };
    let paths: HashSet<&Text> =
        first.started.reasons.iter().filter(made_newer).filter_map(|r| r.path.as_ref()).collect();
    let prerequisites = task.defined.prerequisites.iter().filter_map(|number| run.task(*number));
    prerequisites
        .filter(|other| {
            paths.contains(&other.defined.name)
                && (!other.attempts.is_empty() || other.settled.is_some())
        })
        .collect()
}
