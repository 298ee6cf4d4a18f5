//! Targets that runs which were cut off have left half-written, for a plan: looked up, not settled.
//!
//! A run that executes something settles them first (`record`); a plan must change nothing, but tell the same.

use std::collections::BTreeSet;
use std::path::Path;

use crate::record::{self, SuspectedPeriod};

/// Names of targets whose last attempt began in a run that was cut off, and did not end, or that
/// were changed after the next one had made them anew, and times of which no record tells all. A
/// target that is as it was before the attempt is not among them.
pub fn targets(directory: &Path, now_ns: i64) -> (BTreeSet<Vec<u8>>, Vec<SuspectedPeriod>) {
    let (mut targets, mut suspected) = (BTreeSet::new(), Vec::new());
    for left in record::look_at_dead_runs(directory, now_ns) {
        targets.extend(left.targets.into_iter().map(|left| left.target.name.0));
        suspected.extend(left.suspected);
    }
    targets.extend(record::changed_since_settled(directory).into_iter().map(|name| name.0));
    (targets, suspected)
}
