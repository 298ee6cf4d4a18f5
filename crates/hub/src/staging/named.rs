//! Files that a command's own words name, beyond the task's prerequisites: scripts, tables, the file that it prints into.
//!
//! Words are guessed from the command line, without a shell's knowledge. A word that is no file costs a look on this machine; a file
//! that no word names is not brought.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rakuda_proto::front::{CommandOptions, Program, RedirectTarget};

/// Words of one command that are looked at.
const WORDS_MAX: usize = 4096;
/// What stands between words of a command line, and before names in words such as `--input=name`.
const BETWEEN: &[u8] = b" \t\n|&;<>()\"'`=,:";

/// Names in a command that may be files, absolute; relative ones start at its folder, or else at `base`.
pub(super) fn names_in(
    program: &Program,
    options: Option<&CommandOptions>,
    base: &Path,
) -> BTreeSet<PathBuf> {
    let folder = options.and_then(|options| options.directory.as_ref());
    let base = folder.map_or_else(|| base.to_path_buf(), |folder| base.join(folder.as_path()));
    let mut names = BTreeSet::new();
    let mut add = |text: &[u8]| {
        for word in text.split(|byte| BETWEEN.contains(byte)).take(WORDS_MAX) {
            if !word.is_empty() && !word.starts_with(b"-") {
                names.insert(super::normalized(&base.join(as_path(word))));
            }
        }
    };
    match program {
        Program::Line(line) => add(&line.0),
        Program::Words(words) => words.iter().for_each(|word| add(&word.0)),
    }
    for (_, target) in options.map_or(&[][..], |options| &options.redirects) {
        if let RedirectTarget::File(_, path, ..) = target {
            names.insert(super::normalized(&base.join(path.as_path())));
        }
    }
    names
}

fn as_path(word: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::Text;

    fn names(line: &str, options: Option<&CommandOptions>) -> Vec<String> {
        let program = Program::Line(Text::from(line.to_owned()));
        let names = names_in(&program, options, Path::new("/run"));
        names.iter().map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn words_options_and_redirections_name_files() {
        let line = "sh bin/tool.sh --table=a/b.tbl -q <in/1 >'out/x' && cmp ./in/1 ../other";
        let found = names(line, None);
        for name in ["/run/bin/tool.sh", "/run/a/b.tbl", "/run/in/1", "/run/out/x", "/other"] {
            assert!(found.iter().any(|other| other == name), "{name} in {found:?}");
        }
        assert!(!found.iter().any(|name| name.contains("-q")));
        let options = CommandOptions {
            directory: Some(Text::from("sub")),
            redirects: vec![(
                1,
                RedirectTarget::File("file".into(), Text::from("log"), Text::from("w"), 0o644),
            )],
            ..CommandOptions::default()
        };
        assert_eq!(names("/bin/cat x", Some(&options)), ["/bin/cat", "/run/sub/log", "/run/sub/x"]);
    }
}
