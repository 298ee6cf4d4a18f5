//! Targets that runs which were cut off have left half-written, for a plan: looked up, not settled.
//!
//! A run that executes something settles them first (`record`); a plan must change nothing, but tell the same.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use rakuda_record::folder::FOLDER;
use rakuda_record::marks::marks;
use rakuda_record::unfinished::Unfinished;

use crate::targets::is_touched;

/// Names of targets whose last attempt began in a run that was cut off, and did not end. One that is as it was before
/// the attempt is not among them.
pub fn targets(directory: &Path) -> BTreeSet<Vec<u8>> {
    let dead = marks(&directory.join(FOLDER)).into_iter().filter(|mark| !mark.alive);
    let runs = dead.filter_map(|mark| Unfinished::read(File::open(mark.journal).ok()?).ok());
    let open: Vec<_> = runs.flat_map(|run| run.targets().collect::<Vec<_>>()).collect();
    let left = open
        .into_iter()
        .filter(|target| is_touched(&directory.join(target.path.as_path()), target.before));
    left.map(|target| target.name.0).collect()
}
