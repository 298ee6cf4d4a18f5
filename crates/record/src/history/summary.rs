//! `summary.json`: what lists of runs and estimates need, so that they do not read journals.
//! Derived, and may be missing.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rakuda_proto::Text;
use rakuda_proto::journal::RunOutcome;
use serde::{Deserialize, Serialize};

use crate::regular::open_regular;

/// Version of [`RunSummary`].
pub const SUMMARY_VERSION: u32 = 1;

/// What `summary.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// [`SUMMARY_VERSION`].
    pub version: u32,
    /// The run's name.
    pub run: String,
    /// How it ended.
    pub how: RunOutcome,
    /// ns since 1970.
    pub started_ns: i64,
    /// ns since 1970.
    pub ended_ns: i64,
    /// `fifo`, `lifo`, ...
    pub policy: String,
    /// Of all nodes.
    pub cores: u32,
    /// That joined.
    pub nodes: u32,
    /// Tasks whose actions succeeded, or that were needed and have none.
    pub executed: u32,
    /// Tasks with an action that ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u32>,
    /// Tasks that were up to date.
    pub not_needed: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks that were not run because of those.
    pub abandoned: u32,
    /// How long the attempts that ended well took, by rule and pattern of names.
    #[serde(default)]
    pub rules: Vec<RuleSummary>,
}

/// Durations of attempts that ended well, of one rule and one pattern of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSummary {
    /// `Rakefile:12`. `None`: the tasks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Text>,
    /// Digest of the source of its actions, as in the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A name with each run of digits as `#`.
    pub pattern: Text,
    /// Attempts.
    pub count: u64,
    /// Mean of their durations.
    pub mean_ns: u64,
    /// Standard deviation of their durations.
    pub deviation_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl RunSummary {
    /// The name of the file in a run's folder.
    pub const FILE: &str = "summary.json";

    /// Reads the summary in a run's folder. `None` when it is missing, damaged or of a later
    /// version.
    pub fn read(folder: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        open_regular(&folder.join(Self::FILE)).ok()?.read_to_end(&mut bytes).ok()?;
        let summary: Self = serde_json::from_slice(&bytes).ok()?;
        (summary.version == SUMMARY_VERSION).then_some(summary)
    }

    /// Writes it into a run's folder, so that a reader sees all of it or none.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        let new = folder.join("summary.json.new");
        fs::write(&new, bytes)?;
        fs::rename(&new, folder.join(Self::FILE))
    }
}
