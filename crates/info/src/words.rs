//! Names that mean something already, so that no value may have them. It knows no attribute.

/// Functions of expressions.
pub(crate) const FUNCTIONS: [&str; 12] = [
    "has", "age", "min", "max", "abs", "floor", "ceil", "count", "sum", "mean", "lowest", "highest",
];
/// Other words of expressions.
const WORDS: [&str; 8] = ["node", "run", "state", "true", "false", "and", "or", "not"];
/// The family of what is wrong with providers, with the provider's name as instance.
pub(crate) const FAULTS: &str = "provider_error";
/// The provider of what runs say of their nodes.
pub(crate) const RUN: &str = "run";
/// The attributes that it sets.
pub(crate) const OF_RUN: [&str; 13] = [
    "run_cores",
    "run_running",
    "run_cores_reserved",
    "run_memory_reserved",
    "clock_offset",
    "clock_bound",
    "round_trip",
    "run_page_cache",
    "run_done",
    "run_ends_in",
    "run_group",
    "run_leader",
    "run_why",
];

/// Whether a name without an instance means something else than an attribute.
pub(crate) fn is_reserved(name: &str) -> bool {
    FUNCTIONS.contains(&name) || WORDS.contains(&name) || name == FAULTS
}
