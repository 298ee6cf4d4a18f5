//! What files are called on this machine and on others.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::absolute;
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;

use crate::hub::Hub;

impl Hub {
    /// Where a task's file is on this machine, without `.` and `..`.
    pub(super) fn home_path(&self, id: TaskId) -> PathBuf {
        named(&self.settings.directory, self.names.name(id))
    }

    /// What `node` calls a file of this machine.
    pub(super) fn path_on(&self, node: NodeId, here: &Path) -> Text {
        let there = match node {
            LOCAL_NODE => here.to_path_buf(),
            node => self.agents.node(node).port.path_there(here),
        };
        Text(there.into_os_string().into_encoded_bytes())
    }

    /// Whether a file belongs to the run's folder, and so is staged. What does not is expected to be on all nodes.
    pub(super) fn is_staged(&self, here: &Path) -> bool {
        here.starts_with(&self.start_directory)
    }
}

/// A file of this machine as `folder` calls it, without `.` and `..`.
pub(super) fn named(folder: &Path, name: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(absolute(folder.as_os_str().as_bytes(), name)))
}

/// A secondary file of `target`.
pub(super) fn beside(target: &Path, name: &Text) -> PathBuf {
    named(target.parent().unwrap_or(target), &name.0)
}
