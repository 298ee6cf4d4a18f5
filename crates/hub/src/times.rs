//! How long tasks are thought to take, by earlier runs, and when nodes end. The core knows both, so that long ways come
//! first (`lifo_hlfet`) and nothing is started that would be cut off.
//!
//! The core knows one duration for each requirement. Where nodes end, a requirement of the front
//! therefore stands for several of the core: one for each class of durations. It does not know how
//! durations are measured (crates/record).

pub(crate) mod state;

use rakuda_core::{Event, NodeId, Requirement, RequirementId, TaskId, Time};
use rakuda_proto::Text;
use rakuda_proto::front::{HubMessage, StopHow};

use crate::hub::Hub;
use crate::progress::duration::duration;
use state::{Bound, CLASSES, NodeEnd, class_of};

/// Maximum number of tasks that a message names.
const NAMED: usize = 3;

impl Hub {
    /// When a node ends, as far as that is known.
    pub(crate) fn node_end(&self, node: NodeId) -> Option<NodeEnd> {
        let walltime = self.times.ends.map(|at| NodeEnd { at, of: Bound::Walltime });
        let taken_away = self.agents.place(node).ends_ns.map(|at_ns| NodeEnd {
            at: Time(u64::try_from(at_ns).unwrap_or(0)),
            of: Bound::Allocation,
        });
        [walltime, taken_away].into_iter().flatten().min()
    }

    /// When the last of the nodes that are there ends; `None`: some of them do not, as far as is known.
    fn last_end(&self) -> Option<NodeEnd> {
        let there = self.agents.places().map(|(id, _)| id).filter(|id| self.run.nodes().is_up(*id));
        let ends: Option<Vec<NodeEnd>> = there.map(|id| self.node_end(id)).collect();
        let walltime = self.times.ends.map(|at| NodeEnd { at, of: Bound::Walltime });
        ends?.into_iter().max().or(walltime)
    }

    /// Reports to the core when a node that has joined ends.
    pub(crate) fn tell_node_end(&mut self, id: NodeId) {
        if let Some(NodeEnd { at, .. }) = self.node_end(id) {
            self.event(Event::NodeEnds { id, at });
        }
    }

    /// The front's next requirement; returns the core's.
    pub(crate) fn add_requirement(&mut self, requirement: Requirement) -> RequirementId {
        let id = self.define_core_requirement(requirement.clone(), 0);
        self.cover_choice(id, self.times.front_requirements());
        self.times.requirements.push((requirement, id));
        id
    }

    fn define_core_requirement(&mut self, requirement: Requirement, run_ns: u64) -> RequirementId {
        let id = RequirementId(self.times.next);
        self.times.next += 1;
        self.event(Event::RequirementDefined { id, requirement });
        if self.times.may_end {
            // Where nothing is known of a task the core only learns that it must not begin after the end.
            self.event(Event::DurationExpected { requirement: id, run_ns });
        }
        id
    }

    /// The core's requirement for a task that is about to be defined, and how long it is thought to take.
    pub(crate) fn requirement_for(
        &mut self,
        id: TaskId,
        front: u32,
    ) -> (RequirementId, Option<u64>) {
        let name = self.names.name(id);
        let estimate = self.times.estimate(name, self.record.known_rule(id));
        let (requirement, unknown) = &self.times.requirements[front as usize];
        let (requirement, unknown) = (requirement.clone(), *unknown);
        let Some(estimate) = estimate else { return (unknown, None) };
        if !self.times.may_end {
            return (unknown, Some(estimate.mean_ns));
        }
        // Mostly it takes no longer than that.
        let long_ns = estimate.mean_ns.saturating_add(estimate.deviation_ns.saturating_mul(2));
        let (class, bound_ns) = class_of(long_ns);
        let known = self.times.classes.get(&(front, class)).copied();
        let requirement = known.unwrap_or_else(|| {
            let id = self.define_core_requirement(requirement, bound_ns);
            self.cover_choice(id, front);
            self.times.classes.insert((front, class), id);
            id
        });
        (requirement, Some(estimate.mean_ns))
    }

    /// No node that is there can run such tasks; others may come.
    pub(crate) fn note_nowhere(&mut self, requirement: RequirementId) {
        if self.times.may_end {
            self.times.nowhere.insert(requirement);
        }
    }

    /// Why no node can run such tasks, where nodes end and the reason may be that they would not end in time.
    pub(crate) fn too_late(&mut self, requirement: RequirementId, name: &str) -> Option<String> {
        let end = self.last_end()?;
        self.times.nowhere.insert(requirement);
        let what = end.of.word();
        let class = self.times.classes.iter().find(|(_, id)| **id == requirement);
        let Some(class) = class.map(|((_, class), _)| f64::from(*class)) else {
            return (end.left_ns(self.now.time) == 0)
                .then(|| format!("the {what} is over: task {name} and its like are not started"));
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as in `class_of`"
        )]
        let long = duration((class / CLASSES).exp2() as u64);
        let left = duration(end.left_ns(self.now.time));
        Some(format!(
            "task {name} and its like may take {long} by earlier runs, and {left} of the {what} are left: not started"
        ))
    }

    /// Ends the run when all that is left would not end in time.
    pub(crate) fn check_time_left(&mut self) {
        if self.run.stopping().is_stopping() || self.goodbye {
            return;
        }
        let Some(left) = self.run.left_for_nothing(&self.times.nowhere) else { return };
        let names = self.listed_names(&left, NAMED);
        let what = self.last_end().map_or(Bound::Walltime, |end| end.of).word();
        let reason = format!(
            "the {what} ends too soon: {names} and what depends on them were not started; run the same command again to go on"
        );
        self.link.push(&HubMessage::NodesGone { reason: Text::from(reason) });
        self.any_failed = true;
        self.flush_urgent = true;
        self.stop(StopHow::Interrupt);
    }
}
