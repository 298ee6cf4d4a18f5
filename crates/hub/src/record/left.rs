//! What a run left that was cut off, by its mark and its journal: targets that are half-written, targets of which that
//! is not known, and a period of which not all is known.
//!
//! It looks, and changes nothing: a run that executes something settles it (`recover`), a plan only tells.

use std::io;
use std::path::{Component, Path, PathBuf};

use rakuda_record::calendar;
use rakuda_record::marks::RunMark;
use rakuda_record::regular::open_regular;
use rakuda_record::unfinished::OpenTarget;
use rakuda_record::{ReadError, Unfinished};

use super::suspected::SuspectedPeriod;
use crate::targets::{is_touched, is_touched_copy};

/// What one run that was cut off has left.
#[derive(Debug)]
pub(crate) struct Left {
    /// What the journal says; the error: it cannot be read.
    pub journal: Result<Unfinished, ReadError>,
    /// The period that the journal does not cover; `None` if it is complete.
    pub suspected: Option<SuspectedPeriod>,
    /// The folder is the one that the run worked in, and no copy of it.
    pub is_own: bool,
    /// Targets that are not as they were before an attempt that began and did not end.
    pub targets: Vec<LeftTarget>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct LeftTarget {
    pub target: OpenTarget,
    /// Where it is.
    pub path: PathBuf,
    /// It may be good, or not this folder's own: it is to be left where it is.
    pub untouchable: bool,
}

/// Looks at what `dead` left in `directory`; `identity` is that folder's device and inode, `now_ns` the time.
pub(super) fn look(dead: &RunMark, directory: &Path, identity: (u64, u64), now_ns: i64) -> Left {
    let is_own = dead.folder.is_none_or(|folder| folder == identity);
    let journal = open_regular(&dead.journal).map_err(ReadError::from);
    let journal = journal.and_then(|file| Unfinished::read(file, dead.kept.bytes));
    let suspected = suspected_period(dead, journal.as_ref().ok(), now_ns);
    let targets = journal.as_ref().map(|left| targets(dead, left, directory, is_own));
    Left { targets: targets.unwrap_or_default(), suspected, is_own, journal }
}

/// Whether a journal is gone, and not only hard to read.
pub(super) fn is_gone(error: &ReadError) -> bool {
    matches!(error, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound)
}

fn suspected_period(
    dead: &RunMark,
    left: Option<&Unfinished>,
    now_ns: i64,
) -> Option<SuspectedPeriod> {
    // A run that ended by itself has settled what it began.
    if left.is_some_and(|left| left.ended.is_some()) {
        return None;
    }
    let began_ns = left.and_then(|left| left.started.as_ref()).map(|started| started.time_ns);
    let began_ns = began_ns.or_else(|| calendar::time_in_name(&dead.run)).unwrap_or(0);
    // Files are stamped by the machine's clock. Where that was set, what is suspected may have been
    // stamped before or after it.
    let (least_ahead_ns, most_ahead_ns) = left.map_or((0, 0), |left| left.clock_ahead_ns);
    let damage = match left {
        Some(left) => left.damage.map(|damage| damage.after_ns.unwrap_or(began_ns)),
        None => Some(began_ns),
    };
    let damage = damage.map(|since_ns| since_ns.saturating_add(least_ahead_ns));
    // Zero: it is not known when.
    let began_ns = began_ns.saturating_add(least_ahead_ns);
    let when = |failed_ns| if failed_ns == 0 { began_ns } else { failed_ns };
    let since_ns = [damage, dead.kept.failed_ns.map(when)].into_iter().flatten().min()?;
    let newest_ns = left.and_then(|left| left.newest_ns).unwrap_or(now_ns);
    let until_ns = now_ns.max(newest_ns.saturating_add(most_ahead_ns));
    Some(SuspectedPeriod { run: dead.run.clone(), since_ns, until_ns })
}

fn targets(dead: &RunMark, left: &Unfinished, directory: &Path, is_own: bool) -> Vec<LeftTarget> {
    let began_in = left.started.as_ref().map(|started| started.directory.as_path());
    let failed = dead.kept.failed_ns.is_some();
    let mut found = Vec::new();
    for target in left.targets() {
        let name = target.path.as_path();
        // The folder may have another name now.
        let name = began_in.and_then(|began_in| name.strip_prefix(began_in).ok()).unwrap_or(name);
        let path = directory.join(name);
        // Inode and change time are another's in a copy.
        let touched = if is_own { is_touched } else { is_touched_copy };
        if touched(&path, target.before) {
            let untouchable = target.is_suspected || failed || !(is_own || is_below(name));
            found.push(LeftTarget { target, path, untouchable });
        }
    }
    found
}

/// Whether a name stays in the folder that it starts from, as far as the name tells.
pub(super) fn is_below(name: &Path) -> bool {
    name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
