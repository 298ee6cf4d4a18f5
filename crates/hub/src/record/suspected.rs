//! `.rakuda/doubts`: times in which something was made of which the record does not tell whether it
//! was finished, as the journal of a run that was cut off is damaged, gone, or could not be written
//! to its end. A target that was changed in such a time counts as missing, unless a line of some
//! journal says that it was finished as it is now.
//!
//! A line is one JSON object; lines are only added, by one run at a time (`recovery.lock`). It looks at no target.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use rakuda_record::regular::{open_regular, open_to_append};
use serde::{Deserialize, Serialize};

use super::unfinished::is_torn;

/// Maximum time by which files may be older than the journal says, ns: clocks of file servers, and whole seconds.
const COARSE_NS: i64 = 2_000_000_000;

/// A period, from `since_ns` to `until_ns` (ns since 1970), whose changes the journal of `run` does not fully cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SuspectedPeriod {
    pub run: String,
    pub since_ns: i64,
    pub until_ns: i64,
}

impl SuspectedPeriod {
    pub fn concerns(&self, modified_ns: i128) -> bool {
        let since_ns = self.since_ns.saturating_sub(COARSE_NS);
        (since_ns.into()..=self.until_ns.into()).contains(&modified_ns)
    }
}

/// The periods that earlier runs have left. A line that cannot be read was torn, and its run is recovered again.
pub(super) fn read(root: &Path) -> Vec<SuspectedPeriod> {
    let Ok(file) = open_regular(&path_in(root)) else { return Vec::new() };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect()
}

/// Adds one, unless that run has left one already: what was changed later, it has not changed.
pub(super) fn add(root: &Path, period: &SuspectedPeriod) -> io::Result<()> {
    if read(root).iter().any(|old| old.run == period.run && old.since_ns <= period.since_ns) {
        return Ok(());
    }
    let path = path_in(root);
    let mut file = open_to_append(&path, 0o666)?;
    let mut line = if is_torn(&mut file)? { vec![b'\n'] } else { Vec::new() };
    line.extend(serde_json::to_vec(period)?);
    line.push(b'\n');
    file.write_all(&line)
}

pub(super) fn path_in(root: &Path) -> PathBuf {
    root.join("doubts")
}
