//! What tells one state of a task's file from another: the file itself, and what goes with it.

use std::rc::Rc;

use rakuda_core::stager::FileState;
use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;
use rakuda_proto::journal::FileIdentity;

/// A file that goes with a task's file: what that one's folder calls it, and its state.
pub(crate) type Secondary = (Text, FileVersion);

/// A task's file with what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Of the task's file itself.
    pub version: FileVersion,
    /// By name.
    pub secondary: Rc<[Secondary]>,
}

impl State {
    /// Without secondary files.
    pub fn alone(version: FileVersion) -> Self {
        Self { version, secondary: Rc::default() }
    }
}

impl FileState for State {
    fn bytes(&self) -> u64 {
        let beside: u64 = self.secondary.iter().map(|(_, version)| version.bytes).sum();
        self.version.bytes.saturating_add(beside)
    }

    fn is_alone(&self) -> bool {
        self.secondary.is_empty()
    }

    /// It may have lost secondary files to other tasks since.
    fn covers(&self, other: &Self) -> bool {
        let mut wanted = other.secondary.iter();
        self.version == other.version && wanted.all(|one| self.secondary.contains(one))
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self.version == other.version
    }

    fn supersedes(&self, earlier: &Self) -> bool {
        !self.is_same_file(earlier) && self.version.modified_ns >= earlier.version.modified_ns
    }
}

pub(super) fn version_in(identity: &FileIdentity) -> FileVersion {
    FileVersion { bytes: identity.bytes, modified_ns: identity.modified_ns }
}
