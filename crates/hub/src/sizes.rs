//! Cores and memory of which tasks must have all that `needs` asks for, and which no node of a cluster has.

pub(crate) mod state;

use rakuda_cluster::ClusterPlan;
use rakuda_core::{Capacity, Requirement};
use rakuda_proto::front::RequirementDefinition;

use crate::hub::Hub;
use state::Size;

impl Hub {
    /// Notes tasks of a requirement, to report them if no node will be large enough.
    pub(crate) fn note_size(
        &mut self,
        requirement: &Requirement,
        definition: &RequirementDefinition,
    ) {
        let waits = requirement.waits_for_size;
        if waits.cores || waits.memory {
            self.sizes.open.push(Size::new(requirement, definition));
            self.refuse_sizes();
        }
    }

    /// Ends the run when no node is large enough for some task, and none comes any more.
    pub(crate) fn refuse_sizes(&mut self) {
        let nodes = self.run.nodes();
        let is_open = self.settings.cluster.as_ref().is_some_and(ClusterPlan::is_joinable);
        if self.sizes.open.is_empty() || is_open || nodes.is_expecting() || nodes.is_any_coming() {
            return;
        }
        for size in std::mem::take(&mut self.sizes.open) {
            let usable = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id));
            let allowed = usable.filter(|(id, _)| size.allows(*id));
            let there: Vec<&Capacity> = allowed.map(|(_, place)| &place.node.capacity).collect();
            if let Some(reason) = size.lack(&there) {
                self.refuse_needs(&reason);
            }
        }
    }
}
