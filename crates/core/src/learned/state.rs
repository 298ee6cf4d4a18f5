//! What is learned of tasks and nodes, by policy.

use crate::level::Levels;
use crate::rank::RankTimes;
use crate::residency::Residency;

#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    pub(crate) rank_times: RankTimes,
    pub(crate) levels: Levels,
    pub(crate) residency: Residency,
}
