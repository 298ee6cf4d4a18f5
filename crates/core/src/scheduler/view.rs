//! What a shell may look at: counts, a task, a node. Read only.
//!
//! Decides nothing; good for `why`, `explain`, a status line, and for checking what comes from
//! outside before it is handed in.

pub(crate) mod counts;

use crate::event::TaskKind;
use crate::ids::{Id, InvocationId, NodeId, RequirementId, TaskId};
use crate::requirement::Capacity;
use crate::scheduler::Scheduler;
use crate::scheduler::task::{KnownFact, Reason, TaskState};
use crate::time::{FileTime, Now, Timestamp};
use counts::Counts;

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Where it stands.
    pub state: TaskState,
    /// A transitive prerequisite ran, when it was last decided.
    pub disturbed: bool,
    /// Why it runs, or does not.
    pub reason: Reason,
    /// How that is decided.
    pub kind: TaskKind,
    /// Whether there is anything to run.
    pub has_action: bool,
    /// Its action has succeeded in this run, or in a dry run would have run.
    pub ran: bool,
    /// When its file was last modified, as far as is known; in a dry run, as the disk has it.
    pub modified_ns: Option<i128>,
    /// Size of its file when it was looked at last; 0: missing, or not known.
    pub bytes: u64,
    /// Size of what is declared to belong to it.
    pub secondary_bytes: u64,
    /// Rake's timestamp.
    pub timestamp: Timestamp,
    /// 0 for a task without dependents, else 1 + the highest of theirs.
    pub rank: u32,
    /// Attempts started.
    pub attempt: u32,
    /// Those of them that used up no retry.
    pub uncounted: u32,
    /// Its properties.
    pub requirement: RequirementId,
    /// The invocation that it belongs, or belonged, to.
    pub invocation: Option<InvocationId>,
}

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// What it has.
    pub cores: u32,
    /// Free cores. Below 0 while callers that took their cores back share them.
    pub cores_free: i64,
    /// Free memory, bytes. Below 0 as `cores_free`.
    pub memory_bytes_free: i128,
    /// Running actions.
    pub running: usize,
    /// Callers among them that wait.
    pub suspended: usize,
    /// Ready tasks in its queue.
    pub queued: u32,
    /// Only tasks with these properties start here, until one does.
    pub reserved_for: Option<RequirementId>,
}

impl Scheduler {
    /// Numbers of tasks by state.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Tasks that run, but for those that wait for an invocation of theirs.
    pub fn busy_len(&self) -> usize {
        self.counts.running.saturating_sub(self.invocations.callers.len())
    }

    /// Tasks defined so far; the number of the next.
    pub fn tasks_len(&self) -> usize {
        self.graph.tasks.len()
    }

    /// Tasks queued: in the remote queue or in those of nodes, each counted once.
    pub fn queued(&self) -> u32 {
        self.ready.len
    }

    /// Tasks in the remote queue.
    pub fn queued_remote(&self) -> u32 {
        self.ready.remote_len()
    }

    /// One task, if it was defined.
    pub fn task(&self, id: TaskId) -> Option<TaskView> {
        let task = self.graph.tasks.get(id)?;
        Some(TaskView {
            state: task.state,
            disturbed: task.disturbed,
            reason: task.reason,
            kind: task.kind,
            has_action: task.has_action,
            ran: task.ran,
            modified_ns: task.fact.modified().map(FileTime::ns),
            bytes: task.fact.bytes(),
            secondary_bytes: self.graph.secondary_bytes(id),
            timestamp: task.timestamp(),
            rank: task.rank,
            attempt: task.attempt,
            uncounted: self.lost_files.uncounted(id),
            requirement: task.requirement,
            invocation: task.invocation,
        })
    }

    /// The prerequisites of a task that count in rake's rule, in order. Not those that a deferred task only waited for.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn inputs(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        self.graph.prerequisites(id).filter(|prerequisite| !prerequisite.order_only).map(|p| p.id)
    }

    /// All prerequisites of a task, in order.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn prerequisites(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        self.graph.prerequisites(id).map(|prerequisite| prerequisite.id)
    }

    /// All prerequisites of a task, in order, and whether each is only waited for.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn prerequisite_edges(&self, id: TaskId) -> impl Iterator<Item = (TaskId, bool)> {
        self.graph.prerequisites(id).map(|prerequisite| (prerequisite.id, prerequisite.order_only))
    }

    /// The size of a task's file, as far as it is known to exist.
    pub fn file_bytes(&self, id: TaskId) -> Option<u64> {
        match self.graph.tasks.get(id)?.fact {
            KnownFact::Present { bytes, .. } => Some(bytes),
            KnownFact::Unknown
            | KnownFact::Missing
            | KnownFact::Gone { .. }
            | KnownFact::WouldBeMade { .. } => None,
        }
    }

    /// Whether something below a task, as it was when that was decided last, is after a file's time.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn below_is_after(&self, id: TaskId, modified_ns: i128, now: Now) -> bool {
        self.graph.tasks[id].newest.is_after(modified_ns.into(), now)
    }

    /// The prerequisites that a task still waits for.
    ///
    /// # Panics
    /// When the task was not defined.
    pub fn missing_prerequisites(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        let ids = self.graph.prerequisites(id).map(|prerequisite| prerequisite.id);
        ids.filter(|id| !self.graph.tasks[*id].is_settled())
    }

    /// Whether there is anything to run for a task.
    pub fn has_action(&self, id: TaskId) -> bool {
        self.graph.tasks.get(id).is_some_and(|task| task.has_action)
    }

    /// Whether something has failed, or was stopped, so that what has not begun never will.
    pub fn starts_nothing_more(&self) -> bool {
        let mut live = self.invocations.live.iter();
        self.stop.is_some() || live.any(|id| self.invocations.all[*id].halt.is_some())
    }

    /// Whether a task that has been activated could be tried again: its invocation has not been halted.
    pub fn goes_on(&self, id: TaskId) -> bool {
        let invocation = self.graph.tasks.get(id).and_then(|task| task.invocation);
        invocation.is_some_and(|invocation| self.invocations.goes_on(invocation))
    }

    /// Maximum number of attempts of a task.
    pub fn attempts_max(&self, id: TaskId) -> u32 {
        let requirement = self.graph.tasks.get(id).map(|task| task.requirement);
        let class = requirement.and_then(|id| self.fleet.requirements.get(id));
        let retries = class.and_then(|class| class.requirement.retry);
        retries.unwrap_or(self.config.retry).saturating_add(1)
    }

    /// Whether another attempt may follow should the one that runs fail: it has retries left, its
    /// gang runs again, or the failure may turn out not to count.
    pub fn may_run_again(&self, id: TaskId) -> bool {
        self.goes_on(id)
            && (self.has_retries_left(id)
                || self.config.files_on_nodes && !self.graph.tasks[id].aborted)
    }

    /// The nodes whose queues a ready task stands in; empty: the remote queue, or it is not ready.
    pub fn candidate_nodes(&self, id: TaskId) -> &[NodeId] {
        match self.graph.tasks.get(id) {
            Some(task) if task.state == TaskState::Ready => task.queued_at.as_slice(),
            Some(_) | None => &[],
        }
    }

    /// One node, if it is there.
    pub fn node(&self, id: NodeId) -> Option<NodeView> {
        let node = self.fleet.nodes.get(id).filter(|node| node.joined)?;
        Some(NodeView {
            cores: node.capacity.cores,
            cores_free: node.cores_free,
            memory_bytes_free: node.memory_bytes_free,
            running: node.running.len(),
            suspended: node.suspended as usize,
            queued: self.ready.node_len(id),
            reserved_for: node.reserved_for,
        })
    }

    /// Whether there is a kind of task that only this node can take.
    pub fn is_only_choice(&self, id: NodeId) -> bool {
        self.fleet.is_only_choice(id)
    }

    /// Whether a task has ended on a node whose gang goes on: with the node all of it would be lost.
    pub fn is_awaiting_peers_on(&self, id: NodeId) -> bool {
        !self.gangs_awaiting_on(id).is_empty()
    }

    /// The actions that run on a node.
    pub fn running_on(&self, id: NodeId) -> impl Iterator<Item = TaskId> {
        let node = self.fleet.nodes.get(id).into_iter();
        node.flat_map(|node| node.running.ids())
    }

    /// Whether some joined node could ever run tasks with these properties. If not, they stay queued: the shell warns.
    pub fn fits_some_node(&self, id: RequirementId) -> bool {
        self.fleet.nodes.ids().any(|node| self.fleet.could_take(node, id))
    }

    /// Invocations that have not ended.
    pub fn live_invocations(&self) -> impl Iterator<Item = InvocationId> {
        self.invocations.live.iter().copied()
    }

    /// Invocations started so far; the number of the next.
    pub fn invocations_len(&self) -> usize {
        self.invocations.all.len()
    }

    /// What each node has on which tasks may start.
    pub(crate) fn capacities(&self) -> impl Iterator<Item = (NodeId, &Capacity)> {
        let in_use = self.fleet.nodes.iter().filter(|(_, node)| node.is_in_use());
        in_use.map(|(id, node)| (id, &node.capacity))
    }

    /// Requirements defined so far; the number of the next.
    pub fn requirements_len(&self) -> usize {
        self.fleet.requirements.len()
    }

    /// All tasks, in order.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> {
        (0..self.graph.tasks.len()).map(TaskId::from_index)
    }
}
