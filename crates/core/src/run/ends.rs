//! What nodes that do not come mean: the run ends, or what needs them is refused.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::held::Held;
use super::{Effect, Run};
use crate::event::{Event, Oversubscribe};
use crate::ids::{GangId, RequirementId, TaskId};
use crate::scheduler::task::TaskState;
use crate::time::Now;

/// Gangs for which the nodes that are there are too few: with the cores that they need, and those of all nodes.
pub(super) type LargeGangs = BTreeMap<GangId, (u64, u64)>;

impl<D, C> Run<D, C> {
    /// Whether nodes that could be started have something to run.
    pub fn wants_nodes(&self) -> bool {
        let held = self.held.as_ref();
        self.nodes.is_expecting()
            && (self.scheduler.queued() > 0
                // A gang that waits for room is in no queue.
                || self.scheduler.is_gang_due()
                || held.is_some_and(Held::needs_nodes))
    }

    /// The tasks that are left, if there are any and all of them ask for what no node has any more (`nowhere`), nothing
    /// runs, and no node comes.
    pub fn left_for_nothing(&self, nowhere: &BTreeSet<RequirementId>) -> Option<Vec<TaskId>> {
        let counts = self.scheduler.counts();
        let acting = || self.attempts.all_acting();
        let is_idle = counts.deciding == 0
            && counts.inspecting == 0
            && acting().all(|(_, attempt)| attempt.is_suspended())
            && counts.running == acting().count();
        if nowhere.is_empty() || counts.ready == 0 || !is_idle || self.nodes.is_any_coming() {
            return None;
        }
        let is_left = |id: &TaskId| {
            self.scheduler.task(*id).is_some_and(|task| {
                task.state == TaskState::Ready && nowhere.contains(&task.requirement)
            })
        };
        let left: Vec<TaskId> = self.scheduler.task_ids().filter(is_left).collect();
        // Something else is missing for others: they wait.
        (left.len() == counts.ready).then_some(left)
    }

    /// Nodes are gone for good, or a gang needs more of them.
    pub(super) fn review_nodes(&mut self, now: Now, out: &mut Vec<Effect<C>>) {
        if self.stopping.is_stopping() {
            return;
        }
        if !self.nodes.is_any_left() {
            out.push(Effect::NodesGone);
        } else if !self.nodes.is_expecting() && !self.nodes.is_any_coming() {
            self.settle_large_gangs(now, out);
        }
    }

    /// No node comes any more for gangs that wait for one.
    fn settle_large_gangs(&mut self, now: Now, out: &mut Vec<Effect<C>>) {
        while let Some((id, (slots, slots_there))) = self.large_gangs.pop_first() {
            let gang = self.scheduler.gang(id);
            if !gang.too_large {
                continue;
            }
            if gang.oversubscribe == Oversubscribe::WhenNoneComes {
                self.tell(now, Event::GangShares { id }, out);
            } else {
                out.push(Effect::GangRefused { id, slots, slots_there });
                self.tell(now, Event::GangRefused { id }, out);
            }
        }
    }
}
