//! Sizes that tasks must have in full. Once no more nodes come, those are refused that no node has.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Effect, Run};
use crate::ids::RequirementId;

/// Sizes to be compared with the nodes once no more come.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeSet<RequirementId>);

impl<D, C> Run<D, C> {
    pub(super) fn want_size(&mut self, requirement: RequirementId) {
        self.sizes.0.insert(requirement);
        self.review_needs();
    }

    /// No node comes any more: what none of those that are there has is refused. What one has is not asked for again.
    pub(super) fn refuse_sizes(&mut self, out: &mut Vec<Effect<C>>) {
        for requirement in core::mem::take(&mut self.sizes).0 {
            let Some(asked) = self.scheduler.requirement(requirement) else { continue };
            let nodes = self.scheduler.capacities().filter(|(id, _)| asked.allows(*id));
            if let Some(most) = asked.exceeded(nodes.map(|(_, node)| node)) {
                out.push(Effect::SizeRefused { requirement, most });
            }
        }
    }
}
