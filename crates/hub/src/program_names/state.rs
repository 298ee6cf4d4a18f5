//! The names by which commands were looked up in PATH.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_proto::front::Program;

/// These names, each once.
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
    pub(super) fn of_file(&self, path: &Path) -> Option<&[u8]> {
        let name = path.file_name()?.as_bytes();
        self.0.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::Text;

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
