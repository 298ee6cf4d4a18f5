//! How long tasks take, and when nodes end, as far as it is known.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::ClusterPlan;
use rakuda_core::{NodeId, Policy, Requirement, RequirementId, Time};
use rakuda_proto::Text;
use rakuda_record::history::{Durations, Estimate, KnownRule};

use crate::progress::earlier::EarlierRuns;
use crate::settings::RunSettings;

/// Classes of durations for each doubling: a duration is taken to be up to 19 % longer.
pub(super) const CLASSES: f64 = 4.0;

/// When a node is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeEnd {
    /// By the clock that never steps.
    pub at: Time,
    /// What ends then.
    pub of: Bound,
}

/// What ends the time of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    /// What the user has said (`--walltime`).
    Walltime,
    /// The allocation that the node is of.
    Allocation,
}

impl Bound {
    /// For people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Walltime => "walltime",
            Self::Allocation => "allocation",
        }
    }
}

impl NodeEnd {
    pub fn left_ns(self, now: Time) -> u64 {
        self.at.0.saturating_sub(now.0)
    }

    /// Whether a task that takes this long would not have ended by then.
    pub fn is_too_soon_for(self, run_ns: u64, now: Time) -> bool {
        self.at.0.saturating_sub(run_ns) < now.0
    }
}

/// Durations of tasks by earlier runs, and the ends of nodes.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// When all nodes end (`--walltime`), by the clock that never steps.
    pub(super) ends: Option<Time>,
    /// Nodes end at some time, which may not be known yet.
    pub(super) may_end: bool,
    /// What is being read of earlier runs.
    earlier: Option<EarlierRuns>,
    durations: Option<Durations>,
    /// By the front's number: what is required, and the core's number for tasks of which no duration is known.
    pub(super) requirements: Vec<(Requirement, RequirementId)>,
    /// By the front's number and class of duration.
    pub(super) classes: BTreeMap<(u32, u16), RequirementId>,
    /// The next number of the core.
    pub(super) next: u32,
    /// Requirements of which the core says that no node can run them.
    pub(super) nowhere: BTreeSet<RequirementId>,
}

impl Times {
    /// Begins to look at earlier runs, if something goes by them.
    pub fn new(settings: &RunSettings, now: Time) -> Self {
        let ends = settings.walltime_ns.map(|walltime_ns| Time(now.0.saturating_add(walltime_ns)));
        let may_end =
            ends.is_some() || settings.cluster.as_ref().is_some_and(ClusterPlan::nodes_may_end);
        let is_wanted = may_end || settings.config.policy == Policy::LifoHlfet;
        let earlier = (is_wanted && !settings.config.dry_run)
            .then(|| EarlierRuns::look_closely(&settings.directory));
        Self { ends, may_end, earlier, ..Self::default() }
    }

    /// How many requirements the front has defined.
    pub fn front_requirements(&self) -> u32 {
        u32::try_from(self.requirements.len()).expect("numbers of requirements fit")
    }

    /// The core's requirement for tasks of which no duration is known.
    pub fn requirement_without_duration(&self, front: u32) -> RequirementId {
        self.requirements[front as usize].1
    }

    /// A requirement of the front that names nodes allows one more, a new one; the core's
    /// requirements that stand for it so far.
    pub fn allow(&mut self, front: u32, node: NodeId) -> Vec<RequirementId> {
        let (requirement, unknown) = &mut self.requirements[front as usize];
        if let Some(nodes) = &mut requirement.allowed_nodes {
            nodes.push(node);
        }
        let of_front = (front, 0)..=(front, u16::MAX);
        let classes = self.classes.range(of_front).map(|(_, id)| *id);
        std::iter::once(*unknown).chain(classes).collect()
    }

    /// How long a task is thought to take.
    pub(super) fn estimate(
        &mut self,
        name: &[u8],
        rule: Option<KnownRule<'_>>,
    ) -> Option<Estimate> {
        if let Some(earlier) = &mut self.earlier {
            self.durations = earlier.durations();
            self.earlier = None;
        }
        self.durations.as_ref()?.estimate(&Text(name.to_vec()), rule)
    }
}

/// The class of a duration, and the longest that is in it, ns.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, rounded up on purpose; its logarithm is small and positive"
)]
pub(super) fn class_of(run_ns: u64) -> (u16, u64) {
    let class = ((run_ns.max(1) as f64).log2() * CLASSES).ceil();
    (class as u16, (class / CLASSES).exp2() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_at_most_a_fifth_longer_than_what_is_in_it() {
        for run_ns in [1, 2, 1000, 123_456_789, 60_000_000_000, 86_400_000_000_000] {
            let (class, bound_ns) = class_of(run_ns);
            assert!(
                bound_ns + 1 >= run_ns && bound_ns <= run_ns + run_ns / 5 + 1,
                "{run_ns}: {bound_ns}"
            );
            assert_eq!(class_of(bound_ns.max(1)).0, class, "{run_ns}");
        }
    }
}
