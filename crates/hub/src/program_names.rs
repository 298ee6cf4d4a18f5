//! By which names commands of this run are looked up in PATH, so that nodes forget where a program
//! was once a task has made a file of that name.
//!
//! It does not know what is in PATH on any node: a file of that name in another folder makes nodes
//! look again for nothing, once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_core::TaskId;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::front::Program;

use crate::hub::Hub;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ProgramNames(BTreeSet<Vec<u8>>);

impl ProgramNames {
    /// A command is to be started.
    pub fn note(&mut self, program: &Program) {
        if let Some(name) = rakuda_agent::name_in_path(program)
            && !self.0.contains(name)
        {
            self.0.insert(name.to_vec());
        }
    }

    /// The name of a file that was made, when a program is looked up by it.
    fn of_file(&self, path: &Path) -> Option<&[u8]> {
        let name = path.file_name()?.as_bytes();
        self.0.get(name).map(Vec::as_slice)
    }
}

impl Hub {
    /// A task has made its file, or that was brought to a node: programs of that name are looked up again everywhere.
    pub(crate) fn forget_program_like(&mut self, id: TaskId) {
        let path = Path::new(OsStr::from_bytes(self.names.name(id)));
        if let Some(name) = self.program_names.of_file(path) {
            let request = AgentRequest::ForgetProgram { name: Text(name.to_vec()) };
            self.requests.push((None, request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_the_last_part_of_their_names() {
        let mut names = ProgramNames::default();
        names.note(&Program::Line(Text::from("tool -x a")));
        names.note(&Program::Line(Text::from("other | wc")));
        let of = |path: &str| names.of_file(Path::new(path));
        assert_eq!(of("bin/tool"), Some(&b"tool"[..]));
        assert_eq!(of("tool"), Some(&b"tool"[..]));
        assert_eq!([of("tool/x"), of("bin/other"), of("bin/tool2"), of("")], [None; 4]);
    }
}
