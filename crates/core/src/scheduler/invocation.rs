//! Invocations: what they want, what belongs to them, how they end.
//!
//! Knows no queue and no node. `halt.rs` decides which invocation stops and why, `activate.rs` which tasks join one.

use crate::event::Settled;
use crate::ids::{IdVec, InvocationId, TaskId};
use crate::scheduler::graph::Graph;
use crate::scheduler::task::TaskState;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How an invocation was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Halt {
    /// Nothing more starts.
    Wait,
    /// As `Wait`, and what runs is to end.
    Kill,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Invocation {
    /// As given; a task may stand there twice.
    pub(crate) wanted: Vec<TaskId>,
    /// Entries of `wanted` that are not settled.
    pub(crate) wanted_left: u32,
    /// Every task that belonged to it once; it still does if its `invocation` says so.
    pub(crate) members: Vec<TaskId>,
    /// Members that belong to it and are not settled.
    pub(crate) unsettled: u32,
    /// Those of `unsettled` that are in flight.
    pub(crate) in_flight: u32,
    /// `None`: it goes on.
    pub(crate) halt: Option<Halt>,
    /// The running task whose action waits for it; `None` too when that has ended meanwhile.
    pub(crate) caller: Option<TaskId>,
    /// Its own failed tasks, in order of failing.
    pub(crate) failed: Vec<TaskId>,
    /// Its own abandoned tasks.
    pub(crate) abandoned: Vec<TaskId>,
}

impl Invocation {
    pub(crate) fn is_over(&self) -> bool {
        match self.halt {
            Some(_) => self.in_flight == 0,
            None => self.wanted_left == 0 && self.unsettled == 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Invocations {
    pub(crate) all: IdVec<InvocationId, Invocation>,
    /// Those that have not ended; the others are empty.
    pub(crate) live: BTreeSet<InvocationId>,
    /// The invocations that want a task that is not settled: exactly the tasks with `wanted` set.
    pub(crate) waiters: BTreeMap<TaskId, Vec<InvocationId>>,
    /// Callers that wait, and for how many invocations.
    pub(crate) callers: BTreeMap<TaskId, u32>,
}

impl Invocations {
    /// Whether it lives and was not stopped.
    pub(crate) fn goes_on(&self, id: InvocationId) -> bool {
        self.live.contains(&id) && self.all[id].halt.is_none()
    }

    /// Adds an invocation and notes which of its wanted tasks it waits for.
    pub(crate) fn start(
        &mut self,
        id: InvocationId,
        wanted: &[TaskId],
        caller: Option<TaskId>,
        graph: &mut Graph,
    ) {
        let mut invocation = Invocation { wanted: wanted.to_vec(), caller, ..Default::default() };
        for &task in wanted {
            if !graph.tasks[task].is_settled() {
                graph.tasks[task].wanted = true;
                invocation.wanted_left += 1;
                self.waiters.entry(task).or_default().push(id);
            }
        }
        self.all.push(id, invocation);
        self.live.insert(id);
    }

    /// Takes an invocation that is over out of the books.
    pub(crate) fn end(&mut self, id: InvocationId, graph: &mut Graph) -> Invocation {
        self.live.remove(&id);
        let invocation = core::mem::take(&mut self.all[id]);
        for task in &invocation.wanted {
            if let Some(waiters) = self.waiters.get_mut(task) {
                waiters.retain(|waiter| *waiter != id);
                if waiters.is_empty() {
                    self.waiters.remove(task);
                    graph.tasks[*task].wanted = false;
                }
            }
        }
        invocation
    }
}

impl Invocation {
    /// The lists for `InvocationEnded`: its own failed and abandoned tasks, then, by number, those
    /// of earlier invocations that its own or its wanted tasks fell over, then wanted tasks that
    /// were never started.
    pub(crate) fn blame(mut self, graph: &Graph) -> (Vec<TaskId>, Vec<TaskId>) {
        let mut found: BTreeSet<TaskId> =
            self.failed.iter().chain(&self.abandoned).copied().collect();
        let mut walk: Vec<TaskId> = self.abandoned.clone();
        let (mut failed, mut abandoned) = (BTreeSet::new(), BTreeSet::new());
        let mut meet = |id: TaskId, walk: &mut Vec<TaskId>| match graph.tasks[id].state {
            TaskState::Settled(Settled::Failed) if found.insert(id) => {
                failed.insert(id);
            }
            TaskState::Settled(Settled::Abandoned) if found.insert(id) => {
                abandoned.insert(id);
                walk.push(id);
            }
            _ => {}
        };
        for &id in &self.wanted {
            meet(id, &mut walk);
        }
        while let Some(id) = walk.pop() {
            for prerequisite in graph.prerequisites(id) {
                meet(prerequisite.id, &mut walk);
            }
        }
        let never_started = |id: &TaskId| !graph.tasks[*id].is_settled();
        abandoned.extend(self.wanted.iter().copied().filter(never_started));
        self.failed.extend(failed);
        self.abandoned.extend(abandoned);
        (self.failed, self.abandoned)
    }
}
