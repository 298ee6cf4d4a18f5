//! What is learned of tasks and nodes, by policy.

use crate::scheduler::level::Levels;
use crate::scheduler::rank::RankTimes;
use crate::scheduler::residency::Residency;

#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    pub(crate) rank_times: RankTimes,
    pub(crate) levels: Levels,
    pub(crate) residency: Residency,
}
