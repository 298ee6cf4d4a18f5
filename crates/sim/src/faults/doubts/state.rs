//! A file whose place is in doubt.

use std::collections::BTreeSet;

/// The failure of an action whose inputs lie on nodes that may be lost: it counts only when they have been heard of.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) task: u32,
    pub(super) node: u32,
    pub(super) since_ns: u64,
    pub(super) waits_for: BTreeSet<u32>,
}
