//! Finds a program in PATH, as execvp would.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::operations;

/// Where `name` is executed from. A name with a slash is taken as it is; otherwise the first
/// executable file of that name in `search_path`. `None`: command not found.
///
/// Nothing is remembered between calls: a workflow may well build a tool into its PATH.
pub fn find_program(name: &[u8], search_path: &[u8], directory: Option<&Path>) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains(&b'/') {
        return Some(PathBuf::from(OsString::from_vec(name.to_vec())));
    }
    for folder in search_path.split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        let mut candidate = Vec::with_capacity(folder.len() + name.len() + 1);
        candidate.extend_from_slice(folder);
        candidate.push(b'/');
        candidate.extend_from_slice(name);
        let candidate = Path::new(OsStr::from_bytes(&candidate));
        let seen_from_here = match directory {
            Some(directory) if !candidate.is_absolute() => directory.join(candidate),
            _ => candidate.to_path_buf(),
        };
        operations::count(1);
        if accessat(CWD, &seen_from_here, Access::EXEC_OK, AtFlags::empty()).is_ok()
            && is_file(&seen_from_here)
        {
            return Some(candidate.to_path_buf());
        }
    }
    None
}

fn is_file(path: &Path) -> bool {
    operations::count(1);
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_first_folder_that_has_it() {
        let found = find_program(b"sh", b"/nonexistent:/bin:/usr/bin", None);
        assert_eq!(found, Some(PathBuf::from("/bin/sh")));
    }

    #[test]
    fn a_folder_is_no_program() {
        assert_eq!(find_program(b"bin", b"/usr", None), None);
    }

    #[test]
    fn a_name_with_a_slash_is_not_looked_up() {
        assert_eq!(find_program(b"./x", b"/bin", None), Some(PathBuf::from("./x")));
    }
}
