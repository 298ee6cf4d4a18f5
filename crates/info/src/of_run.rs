//! The attributes that a run itself gives its nodes: what its hub keeps there, how far away a node is, and what of the
//! run's files is in its memory.
//!
//! But for the last, they are set when they change, not sampled, so no value is older than what has been started. This
//! module does not know what sets them.

use crate::registry::{Attribute, AttributeId, Threshold};
use crate::table::Table;
use crate::value::Kind;

/// The provider that sets them.
pub const PROVIDER: &str = crate::words::RUN;

/// Slots of the node. The texts of [`ATTRIBUTES`] explain this and the others.
pub const CORES: &str = "run_cores";
/// Number of tasks that run.
pub const RUNNING: &str = "run_running";
/// Cores that they keep.
pub const CORES_RESERVED: &str = "run_cores_reserved";
/// Memory that they have said they take.
pub const MEMORY_RESERVED: &str = "run_memory_reserved";
/// How far its clock is ahead of the hub's.
pub const CLOCK_OFFSET: &str = "clock_offset";
/// Maximum error of that.
pub const CLOCK_BOUND: &str = "clock_bound";
/// Round trip from the hub to the agent.
pub const ROUND_TRIP: &str = "round_trip";

/// How much of the files that tasks there have used last is in its memory.
pub const PAGE_CACHE: &str = "run_page_cache";

/// Name and unit of each.
pub const ATTRIBUTES: [(&str, &str); 8] = [
    (CORES, ""),
    (RUNNING, ""),
    (CORES_RESERVED, ""),
    (MEMORY_RESERVED, "B"),
    (CLOCK_OFFSET, "s"),
    (CLOCK_BOUND, "s"),
    (ROUND_TRIP, "s"),
    (PAGE_CACHE, "B"),
];

/// Attributes that a list of the nodes of live runs takes from what hubs say of them: number of tasks done, when the
/// node ends, its host group and leader, and why it takes no tasks. No table of a hub has them.
pub fn told() -> [Attribute; 5] {
    [
        ("run_done", "", Kind::Number),
        ("run_ends_in", "s", Kind::Number),
        ("run_group", "", Kind::Text),
        ("run_leader", "", Kind::Text),
        ("run_why", "", Kind::Text),
    ]
    .map(|(name, unit, kind)| {
        let (name, unit, provider) = (name.to_owned(), unit.to_owned(), PROVIDER.to_owned());
        Attribute { name, unit, kind, threshold: Threshold::default(), provider }
    })
}

/// The numbers of the others in a table, in the order of [`ATTRIBUTES`].
pub fn define(table: &mut Table) -> [AttributeId; 8] {
    ATTRIBUTES.map(|(name, unit)| {
        let (name, unit, provider) = (name.to_owned(), unit.to_owned(), PROVIDER.to_owned());
        let threshold = Threshold::default();
        let attribute = Attribute { name, unit, kind: Kind::Number, threshold, provider };
        table.define(attribute).expect("nobody else has these names")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_say_is_kept_for_them() {
        let own = ATTRIBUTES.map(|(name, _)| name.to_owned());
        let told = told().map(|attribute| attribute.name);
        assert_eq!(own.into_iter().chain(told).collect::<Vec<_>>(), crate::words::OF_RUN);
    }
}
