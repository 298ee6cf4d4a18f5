//! What always holds between two events, checked by counting everything anew.
//!
//! O(tasks + edges): for tests and simulations, not for a run.

use crate::event::TaskKind;
use crate::ids::TaskId;
use crate::scheduler::Scheduler;
use crate::scheduler::checks::Waiter;
use crate::scheduler::task::{KnownFact, Task, TaskState};
use crate::scheduler::view::counts::Counts;
use alloc::vec::Vec;

impl Scheduler {
    /// Panics when the books contradict each other.
    ///
    /// # Panics
    /// When an invariant is broken, which is a bug in this crate.
    pub fn check_invariants(&self) {
        let pending = &self.pending;
        let nothing_left = pending.work.is_empty()
            && pending.halts.is_empty()
            && pending.endings.is_empty()
            && pending.with_capacity.is_empty()
            && pending.gangs.is_empty();
        assert!(nothing_left, "something was left to do");
        assert!(pending.fresh.is_empty() || self.is_serial(), "something was left to start");
        let mut counts = Counts::default();
        let mut ready = Vec::new();
        let mut in_order = 0;
        for (id, task) in self.graph.tasks.iter() {
            *counts.of(task.state) += 1;
            self.check_task(id, task);
            if task.state == TaskState::Ready {
                ready.push(id);
            }
            in_order += usize::from(task.state == TaskState::Waiting { missing: 0 });
        }
        assert_eq!(counts, self.counts, "tasks by state");
        assert_eq!(in_order, self.serial_order.len(), "tasks that wait for their turn");
        self.ready.check_invariants(&self.graph, &ready);
        self.fleet.check_invariants();
        self.learned.residency.check_invariants();
        self.check_running();
        self.kept.check_invariants(|id| self.graph.tasks[id].state);
        self.check_reservations();
        self.check_nothing_fits(&ready);
        self.check_invocations();
        self.check_lost_files();
        self.check_gangs();
    }

    fn check_lost_files(&self) {
        self.lost_files.check_invariants(&self.graph, self.config.files_on_nodes);
        for &id in &self.lost_files.reopened {
            let task = &self.graph.tasks[id];
            let is_open = !task.is_settled() && task.state != TaskState::Defined;
            assert!(is_open, "{id:?} is not open");
        }
        for node in &self.lost_files.away {
            let joined = self.fleet.nodes.get(*node).is_some_and(|node| node.joined);
            assert!(!joined, "{node:?} is there and away");
        }
        for id in &self.lost_files.lacked {
            let state = self.graph.tasks[*id].state;
            assert!(matches!(state, TaskState::Running { .. }), "{id:?} does not run");
        }
        for id in self.lost_files.ran_on.keys() {
            assert_eq!(self.graph.tasks[*id].state, TaskState::Inspecting, "{id:?}");
        }
        for &id in &self.invocations.live {
            let invocation = &self.invocations.all[id];
            for task in invocation.wanted.iter().filter(|_| invocation.halt.is_none()) {
                let state = self.graph.tasks[*task].state;
                let is_well = matches!(state, TaskState::Settled(how) if how.is_well());
                assert!(!is_well || !self.is_lost(*task), "{task:?} is wanted, and lost");
            }
        }
        self.health.check_invariants(&self.fleet);
    }

    fn check_task(&self, id: TaskId, task: &Task) {
        let (missing_now, failed) = self.graph.unsettled_prerequisites(id);
        // What was decided in a stopped invocation, or started, does not wait for prerequisites
        // that were opened again since.
        let settled_prerequisites = (missing_now == 0 && !failed) || self.lost_files.any_reopened;
        let has_owner = task.invocation.is_some();
        assert_eq!(has_owner, task.state != TaskState::Defined, "owner of {id:?}");
        assert_eq!(task.wanted, self.invocations.waiters.contains_key(&id), "wanted {id:?}");
        match task.state {
            TaskState::Waiting { missing } => {
                assert_eq!(missing, missing_now, "missing of {id:?}");
                assert!(!failed, "{id:?} waits for a failed task");
                if missing == 0 {
                    assert!(self.serial_order.contains(task.batch, id), "{id:?} was forgotten");
                }
                let goes_on = self.invocations.goes_on(self.owner(id));
                assert!(goes_on, "{id:?} waits in a stopped invocation");
                for prerequisite in self.graph.prerequisites(id) {
                    let state = self.graph.tasks[prerequisite.id].state;
                    assert!(state != TaskState::Defined, "{id:?} waits for a task at rest");
                }
            }
            TaskState::Checking { missing } => {
                assert!(settled_prerequisites, "{id:?} checks too early");
                let out = self.checks.waiting_for(Waiter { id, mark: task.mark });
                assert_eq!(missing as usize, out, "answers for {id:?}");
            }
            TaskState::Inspecting => {
                let out = self.checks.waiting_for(Waiter { id, mark: task.mark });
                assert_eq!(out, usize::from(task.kind != TaskKind::Asked), "answers for {id:?}");
            }
            TaskState::Lost => {
                assert!(!task.has_action && self.is_lost(id), "{id:?} is not lost");
                let is_gone = matches!(task.fact, KnownFact::Gone { .. });
                let nobody_brings_it = self.config.files_go_with_nodes() && task.fact.is_nowhere();
                assert!(!is_gone && !nobody_brings_it, "{id:?} waits in vain");
            }
            TaskState::Ready | TaskState::Mustered => {
                assert!(missing_now == 0 && !failed, "{id:?} is ready too early");
                let mut inputs = self.graph.prerequisites(id).filter(|p| !p.order_only);
                // One that only stands by, up to date, may never read them.
                let reads = task.reason.is_needed();
                let lacks = reads && inputs.any(|p| self.is_lost(p.id));
                assert!(!lacks, "{id:?} is ready without its input");
                let goes_on = self.invocations.goes_on(self.owner(id));
                assert!(goes_on, "{id:?} is ready in a stopped invocation");
            }
            TaskState::Defined | TaskState::Resolving | TaskState::Settled(_) => {}
            TaskState::Asking | TaskState::Comparing => {
                assert!(settled_prerequisites, "{id:?} asks too early");
            }
            TaskState::AwaitingPeers { .. } => {
                assert!(settled_prerequisites, "{id:?} ran too early");
                assert!(self.gangs.of(id).is_some(), "{id:?} has no peers");
            }
            TaskState::Running { node } => {
                assert!(settled_prerequisites, "{id:?} runs too early");
                assert!(self.fleet.nodes[node].running.contains(id), "{id:?} is nowhere");
            }
        }
    }

    fn check_running(&self) {
        let mut running = 0;
        for (node_id, node) in self.fleet.nodes.iter() {
            running += node.running.len();
            for (id, share) in node.running.iter() {
                let state = self.graph.tasks[id].state;
                assert_eq!(state, TaskState::Running { node: node_id }, "{id:?}");
                let calls = self.invocations.callers.contains_key(&id);
                assert_eq!(share.suspended, calls, "caller {id:?}");
            }
        }
        assert_eq!(running, self.counts.running, "running tasks");
    }

    fn check_reservations(&self) {
        for (id, class) in self.fleet.requirements.iter() {
            let queued = self.ready.count(id) as usize;
            assert!(class.reserved.len() <= queued, "nodes are kept free for no task of {id:?}");
        }
    }

    fn check_nothing_fits(&self, ready: &[TaskId]) {
        if self.is_serial() && self.counts.running > self.invocations.callers.len() {
            return;
        }
        for id in ready {
            let task = &self.graph.tasks[*id];
            let fitting = &self.fleet.requirements[task.requirement].fitting;
            let nodes = task.queued_at.as_slice();
            if nodes.is_empty() || self.ready.is_stealable(task.requirement) {
                assert!(fitting.is_empty(), "{id:?} could start on {fitting:?}");
            }
            for node in nodes {
                assert!(!fitting.contains(*node), "{id:?} could start on {node:?}");
                assert!(self.fleet.nodes[*node].joined, "{id:?} is queued at lost {node:?}");
            }
        }
    }

    fn check_invocations(&self) {
        let mut calls = 0;
        for &id in &self.invocations.live {
            let invocation = &self.invocations.all[id];
            assert!(!invocation.is_over(), "{id:?} is over");
            let owned = |task: &&Task| task.invocation == Some(id) && !task.is_settled();
            let tasks = || self.graph.tasks.iter().map(|(_, task)| task);
            assert_eq!(invocation.unsettled as usize, tasks().filter(owned).count(), "{id:?}");
            let in_flight = tasks().filter(owned).filter(|task| task.state.is_in_flight());
            assert_eq!(invocation.in_flight as usize, in_flight.count(), "{id:?}");
            let wanted = invocation.wanted.iter();
            let wanted_left = wanted.filter(|task| !self.graph.tasks[**task].is_settled());
            assert_eq!(invocation.wanted_left as usize, wanted_left.count(), "{id:?}");
            calls += u32::from(invocation.caller.is_some());
            if self.stop.is_some() {
                assert!(invocation.halt.is_some(), "{id:?} goes on after a stop");
            }
        }
        assert_eq!(calls, self.invocations.callers.values().sum::<u32>(), "callers");
    }
}
