//! Files that a task may read without naming them: what its inputs are made of.
//!
//! Bounded in steps and in files. Does not know which of them can be read.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::event::TaskKind;
use crate::ids::TaskId;
use crate::scheduler::Scheduler;

/// Maximum number of files behind the inputs of a task; the nearest ones.
const BEHIND_MAX: usize = 1000;
/// Maximum number of tasks that are walked over to find them.
const STEPS_MAX: usize = 10_000;

/// Files of this run that the inputs of a task are made of, the nearest first. What nothing makes
/// is not among them: it would only be waited for.
///
/// # Panics
/// When the task was not defined.
pub fn files_behind(scheduler: &Scheduler, id: TaskId) -> Vec<TaskId> {
    let mut walk: VecDeque<TaskId> = scheduler.inputs(id).collect();
    let mut seen: BTreeSet<TaskId> = walk.iter().copied().collect();
    let mut behind = Vec::new();
    while let Some(next) = walk.pop_front() {
        for other in scheduler.inputs(next) {
            if seen.len() >= STEPS_MAX || behind.len() >= BEHIND_MAX {
                return behind;
            }
            if seen.insert(other) {
                walk.push_back(other);
                let task = scheduler.task(other);
                if task.is_some_and(|task| task.kind == TaskKind::File && task.has_action) {
                    behind.push(other);
                }
            }
        }
    }
    behind
}
