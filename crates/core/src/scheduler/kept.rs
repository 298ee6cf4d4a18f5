//! Cores that are kept when their task has ended, until it is decided what that makes ready.
//!
//! As in the paper (Tanaka, Tatebe 2014, section 5.2): what can run next is queued before the
//! agent that ran a task takes another. A policy that takes the youngest then takes a task that
//! reads what was written just there, so it reads on its own node and from memory also where tasks
//! are not queued by locality. To decide takes looks at files (`GatherFact`), and those alone are
//! waited for: the shell answers them whatever runs. An answer of Ruby's may need a core itself, so
//! none is kept for one. Chooses no task, and knows no queue.

pub(crate) mod state;

use crate::event::{ActionOutcome, TaskKind};
use crate::ids::{NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::task::TaskState;
use crate::time::Time;
use alloc::vec::Vec;
use state::KeptShare;

impl Scheduler {
    /// Ends the share of an attempt that is over: what it had is free now, or is kept. Since when it had it.
    pub(crate) fn end_share(
        &mut self,
        id: TaskId,
        node: NodeId,
        outcome: ActionOutcome,
        was_suspended: bool,
    ) -> Time {
        let keeps = outcome == ActionOutcome::Succeeded && !was_suspended && self.may_lead_on(id);
        if !keeps {
            self.pending.with_capacity.insert(node);
            return self.fleet.release(node, id);
        }
        if let Some(earlier) = self.kept.shares.remove(&id) {
            // It was lost and made again while answers were out.
            self.kept.looks.retain(|_, other| *other != id);
            self.fleet.release_kept(earlier.node, id);
            self.pending.with_capacity.insert(earlier.node);
        }
        self.kept.current = Some((id, KeptShare { node, looks: 0, is_put_by: false }));
        self.fleet.nodes[node].started(id)
    }

    /// Whether the end of a task may make another ready, and where that one starts matters. By
    /// locality tasks are queued for nodes, and one that has nothing to do would take at once what
    /// waits for a core that is kept. Two edges between the same tasks count as two.
    fn may_lead_on(&self, id: TaskId) -> bool {
        let has_choice = self.fleet.joined > 1 && !self.is_serial() && !self.config.dry_run;
        let misses_it =
            |id: TaskId| self.graph.tasks[id].state == TaskState::Waiting { missing: 1 };
        has_choice
            && self.graph.tasks[id].kind != TaskKind::Asked
            && !(self.config.locality && self.fleet.some_fits(self.graph.tasks[id].requirement))
            && self.graph.dependents(id).any(misses_it)
    }

    /// All that followed from the event is decided, or asked for: shares that wait for nothing more are free.
    pub(crate) fn give_kept_away(&mut self) {
        if let Some((id, share)) = self.kept.current.take() {
            if share.looks == 0 {
                self.give_away(id, share);
            } else {
                self.put_by(id, share);
            }
        }
        while let Some((id, share)) = self.kept.over.pop() {
            self.give_away(id, share);
        }
    }

    fn give_away(&mut self, id: TaskId, share: KeptShare) {
        if share.is_put_by {
            self.fleet.release_kept(share.node, id);
        } else {
            self.fleet.release(share.node, id);
        }
        self.pending.with_capacity.insert(share.node);
    }

    fn put_by(&mut self, id: TaskId, share: KeptShare) {
        if !share.is_put_by {
            self.fleet.nodes[share.node].keep(id);
        }
        self.kept.shares.insert(id, KeptShare { is_put_by: true, ..share });
    }

    /// A node is lost: nothing on it can be kept.
    pub(crate) fn drop_kept_on(&mut self, node: NodeId) {
        let on_node = |(_, share): &(&TaskId, &KeptShare)| share.node == node;
        let ended: Vec<TaskId> =
            self.kept.shares.iter().filter(on_node).map(|(id, _)| *id).collect();
        for id in ended {
            self.kept.shares.remove(&id);
            self.kept.looks.retain(|_, other| *other != id);
            self.fleet.release_kept(node, id);
        }
    }
}
