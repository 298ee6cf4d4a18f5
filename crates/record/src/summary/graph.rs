//! The tasks of a run in an order in which prerequisites come first, and when each could have started.
//!
//! It does not know durations. A damaged journal may name tasks that are not there, or have cycles:
//! those edges are skipped.

use std::collections::HashMap;

use crate::run::{Run, Task};

/// Numbers of the tasks that the journal has, each after its prerequisites.
pub fn in_order(run: &Run) -> Vec<u32> {
    let mut order = Vec::with_capacity(run.tasks.len());
    let mut seen = vec![false; run.tasks.len()];
    let mut stack: Vec<(u32, usize)> = Vec::new();
    for number in 0..run.tasks.len() as u32 {
        visit(run, number, &mut seen, &mut stack);
        while let Some((top, next)) = stack.last_mut() {
            let task = run.tasks[*top as usize].as_ref().expect("only these are put on the stack");
            if let Some(before) = prerequisites(task).nth(*next) {
                *next += 1;
                visit(run, before, &mut seen, &mut stack);
            } else {
                order.push(*top);
                stack.pop();
            }
        }
    }
    order
}

fn visit(run: &Run, number: u32, seen: &mut [bool], stack: &mut Vec<(u32, usize)>) {
    if let Some(Some(_)) = run.tasks.get(number as usize)
        && !seen[number as usize]
    {
        seen[number as usize] = true;
        stack.push((number, 0));
    }
}

/// What must be done before a task, also that which is order-only.
pub fn prerequisites(task: &Task) -> impl Iterator<Item = u32> + '_ {
    task.defined.prerequisites.iter().chain(&task.defined.order_only).copied()
}

/// When each task was done with, and from when on its first attempt could have run; ns since 1970, by number.
#[derive(Debug, Default)]
pub struct Times {
    /// `None`: it was not settled, or it was done with before the run.
    pub done_ns: Vec<Option<i64>>,
    /// The later of: its invocation's start, the end of its last prerequisite.
    pub ready_ns: Vec<i64>,
}

impl Times {
    /// Of all tasks; `order` is [`in_order`].
    pub fn of(run: &Run, order: &[u32], start_ns: i64) -> Self {
        let mut times =
            Self { done_ns: vec![None; run.tasks.len()], ready_ns: asked_for_ns(run, start_ns) };
        for &number in order {
            let Some(task) = &run.tasks[number as usize] else { continue };
            let last = prerequisites(task)
                .filter_map(|before| times.done_ns.get(before as usize).copied().flatten())
                .max();
            let ready = &mut times.ready_ns[number as usize];
            *ready = (*ready).max(last.unwrap_or(i64::MIN));
            times.done_ns[number as usize] = done_ns(task, last);
        }
        times
    }
}

fn done_ns(task: &Task, prerequisites_done_ns: Option<i64>) -> Option<i64> {
    match task.attempts.last() {
        Some(attempt) => attempt.ended.as_ref().map(|ended| ended.time_ns),
        None => match &task.settled {
            Some(settled) => Some(settled.time_ns),
            None => prerequisites_done_ns,
        },
    }
}

/// The start of the first invocation that needs each task.
fn asked_for_ns(run: &Run, start_ns: i64) -> Vec<i64> {
    let mut asked = vec![start_ns; run.tasks.len()];
    if run.invocations.len() < 2 {
        return asked;
    }
    let numbers: HashMap<&[u8], u32> = run
        .tasks
        .iter()
        .flatten()
        .map(|task| (&task.defined.name.0[..], task.defined.task))
        .collect();
    let mut seen = vec![false; run.tasks.len()];
    let mut stack = Vec::new();
    for invocation in &run.invocations {
        let wanted = invocation.tasks.iter().filter_map(|name| numbers.get(&name.0[..]).copied());
        stack.extend(wanted);
        while let Some(number) = stack.pop() {
            let Some(Some(task)) = run.tasks.get(number as usize) else { continue };
            if !std::mem::replace(&mut seen[number as usize], true) {
                asked[number as usize] = invocation.started_ns;
                stack.extend(prerequisites(task));
            }
        }
    }
    asked
}
