//! Cores and memory of which tasks must have all that `needs` asks for, and which no node of a cluster has.
//!
//! `rakuda_core::Run` decides when that is known.

pub(crate) mod state;

use rakuda_cluster::ClusterPlan;
use rakuda_core::{Input, LargestNodes, RequirementId, WaitsForSize};
use rakuda_proto::front::RequirementDefinition;

use crate::hub::Hub;
use state::Size;

impl Hub {
    /// Tasks must have all of a size. An agent that may join at any time may have it.
    pub(crate) fn want_size(
        &mut self,
        requirement: RequirementId,
        definition: &RequirementDefinition,
        waits: WaitsForSize,
    ) {
        if !self.settings.cluster.as_ref().is_some_and(ClusterPlan::is_joinable) {
            self.sizes.of_core.insert(requirement, Size::new(definition, waits));
            self.tell(Input::SizeWanted { requirement });
        }
    }

    /// Ends the run: no node is large enough, and none comes any more.
    pub(crate) fn on_size_refused(&mut self, requirement: RequirementId, most: LargestNodes) {
        if self.goodbye {
            return;
        }
        let reason = self.sizes.of_core[&requirement].refusal(most);
        self.refuse_needs(&reason);
    }
}
