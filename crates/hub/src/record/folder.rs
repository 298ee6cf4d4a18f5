//! Where a run's files are: a folder of `.rakuda/runs`, or one of the user's choice, which a link there then names.
//!
//! Makes folders and opens files; it does not know what is written into them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rustix::fs::Access;

use super::left::is_below;

/// The name of the journal in a run's folder.
pub(super) const JOURNAL: &str = "journal.jsonl";

/// The folder of `run`. One of the user's choice is the run's own when it holds no journal yet, else a folder in it is.
pub(super) fn folder_of(root: &Path, run: &str, chosen: Option<&Path>) -> PathBuf {
    match chosen {
        None => root.join("runs").join(run),
        Some(chosen) if chosen.join(JOURNAL).exists() => chosen.join(run),
        Some(chosen) => chosen.to_path_buf(),
    }
}

/// Makes `.rakuda` and the run's folder, and opens the journal.
pub(super) fn make(root: &Path, run: &str, folder: &Path) -> Result<File, (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| (path, error)
    };
    let runs = root.join("runs");
    fs::create_dir_all(&runs).map_err(at(&runs))?;
    fs::create_dir_all(folder).map_err(at(folder))?;
    // Nothing in here is part of the project.
    let ignore = root.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(at(&ignore))?;
    }
    let journal = folder.join(JOURNAL);
    let file = File::options().append(true).create_new(true).open(&journal);
    let file = file.map_err(at(&journal))?;
    let link = runs.join(run);
    if folder != link {
        std::os::unix::fs::symlink(target_of_link(root, folder), &link).map_err(at(&link))?;
    }
    Ok(file)
}

/// What a link in `.rakuda/runs` holds that leads to `folder`: it still does when the project is
/// moved with all that is in it.
fn target_of_link(root: &Path, folder: &Path) -> PathBuf {
    let below = root.parent().and_then(|project| folder.strip_prefix(project).ok());
    // Where `.rakuda` itself is a link, the way up is another one.
    let linked = root.is_symlink() || root.join("runs").is_symlink();
    match below.filter(|path| is_below(path)) {
        Some(below) if !linked => Path::new("../..").join(below),
        _ => folder.to_path_buf(),
    }
}

/// What a mark says of where a journal is: it still holds when the project is moved or copied with all that is in it.
pub(super) fn in_project(root: &Path, journal: &Path) -> Text {
    let below = root.parent().and_then(|project| journal.strip_prefix(project).ok());
    let name = below.filter(|path| is_below(path)).unwrap_or(journal);
    Text(name.as_os_str().as_encoded_bytes().to_vec())
}

/// Why no folder could be made at `path`, which is not made yet.
pub(crate) fn cannot_be_made(path: &Path) -> Option<io::Error> {
    let there = path.ancestors().find(|folder| folder.exists())?;
    if !there.is_dir() {
        return Some(io::ErrorKind::NotADirectory.into());
    }
    rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK).err().map(Into::into)
}
