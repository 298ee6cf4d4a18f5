//! Workflow Run RO-Crate: a folder that tells how a run was made, for people and machines that know neither Rakuda nor rake.
//!
//! Profile: Provenance Run Crate 0.5 on RO-Crate 1.1. The Rakefile and the journal are copied; data is described (name, size, time), not
//! copied. What each entity says is in `entities`; here the folder is made. It knows no persons and no values of the environment, and invents neither.

mod entities;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::journal::FileIdentity;

use super::ExportError;
use super::names::base_name;
use crate::Run;

/// Where things are, and what only the user can say.
#[derive(Debug, Clone)]
pub struct Sources<'a> {
    /// The run's journal.
    pub journal: &'a Path,
    /// URL or text of the license of the whole; none: the crate says that none was stated.
    pub license: Option<&'a str>,
    /// When the crate is made, ns since 1970.
    pub made_ns: i64,
}

/// Name of the copied journal in the crate.
const JOURNAL: &str = "journal.jsonl";
/// Name of the description.
const METADATA: &str = "ro-crate-metadata.json";

/// Makes the crate as a new folder: under another name first, so that there is never half a crate.
///
/// # Errors
/// When the folder exists, the Rakefile or the journal cannot be read, or writing fails.
pub fn write(run: &Run, sources: &Sources<'_>, folder: &Path) -> Result<(), ExportError> {
    if folder.symlink_metadata().is_ok() {
        return Err(ExportError::Exists(folder.to_owned()));
    }
    let unfinished = unfinished_name(folder);
    fs::create_dir(&unfinished)?;
    let result = fill(run, sources, &unfinished)
        .and_then(|()| fs::rename(&unfinished, folder).map_err(ExportError::from));
    if result.is_err() {
        // The first error counts; what cannot be removed is named like what it is.
        drop(fs::remove_dir_all(&unfinished));
    }
    result
}

/// Beside the folder, so that renaming stays on one file system.
fn unfinished_name(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".unfinished-{}", std::process::id()));
    folder.with_file_name(name)
}

fn fill(run: &Run, sources: &Sources<'_>, folder: &Path) -> Result<(), ExportError> {
    let rakefile = run.started.directory.as_path().join(run.started.rakefile.as_path());
    let name = Text(base_name(&run.started.rakefile.0).to_vec());
    let workflow = copy(&rakefile, &folder.join(name.as_path()))?;
    let journal = copy(sources.journal, &folder.join(JOURNAL))?;
    let parts = Parts { rakefile: name, workflow, journal };
    let mut out = BufWriter::new(File::create_new(folder.join(METADATA))?);
    entities::write(run, sources, &parts, &mut out)?;
    Ok(out.flush()?)
}

/// What was copied.
struct Parts {
    /// The Rakefile's name in the crate.
    rakefile: Text,
    workflow: FileIdentity,
    journal: FileIdentity,
}

/// Copies a file's content, and says which state of it.
fn copy(from: &Path, to: &Path) -> Result<FileIdentity, ExportError> {
    let unreadable = |source| ExportError::Unreadable { path: from.to_owned(), source };
    let mut source = File::open(from).map_err(unreadable)?;
    let metadata = source.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    let bytes = io::copy(&mut source, &mut File::create_new(to)?)?;
    let time_ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Ok(FileIdentity {
        modified_ns: time_ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: time_ns(metadata.ctime(), metadata.ctime_nsec()),
        bytes,
        inode: metadata.ino(),
    })
}

#[cfg(test)]
#[path = "ro_crate_tests.rs"]
mod tests;
