//! The names by which commands of this run are looked up in PATH. When a task has made a file of such a name, nodes
//! forget where the program was.
//!
//! It does not know what is in PATH on any node: a file of that name in another folder makes nodes
//! look again for nothing, once.

pub(crate) mod state;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_core::TaskId;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;

use crate::hub::Hub;

impl Hub {
    /// A task has made its file, or that was staged in: programs of that name are looked up again everywhere.
    pub(crate) fn forget_program_like(&mut self, id: TaskId) {
        let path = Path::new(OsStr::from_bytes(self.names.name(id)));
        if let Some(name) = self.program_names.of_file(path) {
            let request = AgentRequest::ForgetProgram { name: Text(name.to_vec()) };
            self.requests.push((None, request));
        }
    }
}
