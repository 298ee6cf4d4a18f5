//! What nodes that do not come mean: the run ends, or what needs them is refused.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::held::Held;
use super::{Effect, Run};
use crate::event::{Event, Oversubscribe};
use crate::ids::{NodeId, RequirementId, TaskId};
use crate::nodes::NodeState;
use crate::scheduler::task::TaskState;
use crate::time::Now;

/// What is to be reviewed after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Review {
    /// What needs more or larger nodes.
    Needs,
    /// Nodes are gone for good, and the shell has told of it.
    All,
}

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
        if nowhere.is_empty() || counts.ready == 0 || !is_idle || self.is_any_to_join() {
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

    /// The requirements among `lacking` of tasks that are ready, if nothing runs that could make what these lack, and
    /// nothing else is ready that may start: whatever is has such a requirement, or is in a gang with one that has.
    pub fn ready_for_nothing(
        &self,
        lacking: &BTreeSet<RequirementId>,
    ) -> Option<BTreeSet<RequirementId>> {
        let counts = self.scheduler.counts();
        let is_busy =
            self.scheduler.busy_len() > 0 || counts.deciding + counts.inspecting + counts.lost > 0;
        if is_busy || counts.ready == 0 {
            return None;
        }
        let lack_of = |id: TaskId| {
            let requirement = self.scheduler.task(id)?.requirement;
            lacking.contains(&requirement).then_some(requirement)
        };
        let mut found = BTreeSet::new();
        for id in self.scheduler.task_ids() {
            let state = self.scheduler.task(id).map(|task| task.state);
            if !matches!(state, Some(TaskState::Ready | TaskState::Mustered)) {
                continue;
            }
            let lack = lack_of(id);
            let gang = self.scheduler.gang_of(id);
            let mut mates = gang.iter().flat_map(|gang| gang.tasks.iter().copied());
            if lack.is_none() && !mates.any(|mate| lack_of(mate).is_some()) {
                return None;
            }
            found.extend(lack);
        }
        Some(found)
    }

    /// What needs more or larger nodes is to be reviewed after the input.
    pub(super) fn review_needs(&mut self) {
        self.review.get_or_insert(Review::Needs);
    }

    /// Does what there is to do when nodes have joined or are gone for good, or something needs more of them.
    pub(super) fn review_nodes(&mut self, now: Now, review: Review, out: &mut Vec<Effect<C>>) {
        if self.stopping.is_stopping() {
            return;
        }
        if !self.nodes.is_any_left() {
            // The shell says first why the last one went.
            if review == Review::All {
                out.push(Effect::NodesGone);
            }
        } else if !self.nodes.is_expecting() && !self.is_any_to_join() {
            self.settle_large_gangs(now, out);
            self.refuse_sizes(out);
        }
    }

    /// Whether a known node may yet take tasks: one that is up does not before it has said what it has.
    fn is_any_to_join(&self) -> bool {
        let joins = |(id, state): (NodeId, NodeState)| {
            state == NodeState::Up && self.scheduler.node(id).is_none()
        };
        self.nodes.is_any_coming() || self.nodes.states().any(joins)
    }

    /// No node comes any more for gangs that wait for one.
    fn settle_large_gangs(&mut self, now: Now, out: &mut Vec<Effect<C>>) {
        while let Some(id) = self.large_gangs.pop_first() {
            let gang = self.scheduler.gang(id);
            if !gang.too_large {
                continue;
            }
            let event = if gang.oversubscribe == Oversubscribe::WhenNoneComes {
                Event::GangShares { id }
            } else {
                Event::GangRefused { id }
            };
            self.tell(now, event, out);
        }
    }

    /// Tasks must have all of a size.
    pub(super) fn want_size(&mut self, requirement: RequirementId) {
        self.sizes.insert(requirement);
        self.review_needs();
    }

    /// No node comes any more: what none of those that are there has is refused. What one has is not asked for again.
    fn refuse_sizes(&mut self, out: &mut Vec<Effect<C>>) {
        for requirement in core::mem::take(&mut self.sizes) {
            let Some(asked) = self.scheduler.requirement(requirement) else { continue };
            let nodes = self.scheduler.capacities().filter(|(id, _)| asked.allows(*id));
            if let Some(most) = asked.exceeded(nodes.map(|(_, node)| node)) {
                out.push(Effect::SizeRefused { requirement, most });
            }
        }
    }
}
