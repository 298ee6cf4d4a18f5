//! Workflow Run RO-Crate: a folder that tells how a run was made, for people and machines that know
//! neither Rakuda nor rake.
//!
//! Profile: Provenance Run Crate 0.5 on RO-Crate 1.1. The Rakefile and the journal are copied; data
//! is described (name, size, time), not copied. What each entity says is in `entities`; here the
//! folder is made. It knows no persons and no values of the environment, and invents neither.

mod entities;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rakuda_proto::Text;
use rakuda_proto::file_time::{changed_ns, modified_ns};
use rakuda_proto::journal::FileIdentity;
use rustix::io::Errno;

use super::ExportError;
use super::names::base_name;
use super::{remove_abandoned, unfinished_name};
use crate::Run;
use crate::regular::{open_below, open_regular};

/// Where things are, and what only the user can say.
#[derive(Debug, Clone)]
pub struct Sources<'a> {
    /// The run's journal.
    pub journal: &'a Path,
    /// The run's folder: only what is below it is copied, whatever the journal says.
    pub directory: &'a Path,
    /// URL or text of the license of the whole. `None`: the crate says that none was stated.
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
    remove_abandoned(folder);
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

fn fill(run: &Run, sources: &Sources<'_>, folder: &Path) -> Result<(), ExportError> {
    let rakefile = run.started.rakefile.as_path();
    // An absolute name is one in the folder as it was called then.
    let below = rakefile.strip_prefix(run.started.directory.as_path()).unwrap_or(rakefile);
    let name = Text(base_name(&run.started.rakefile.0).to_vec());
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError::Unreadable { path, source }
    };
    let source = open_below(sources.directory, below);
    let source = source.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV | Errno::LOOP) => {
            let text = format!("only what is below {} is copied", sources.directory.display());
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        }
        _ => error,
    });
    let mut source = source.map_err(unreadable(&sources.directory.join(below)))?;
    let workflow = copy(&mut source, &folder.join(name.as_path()))?;
    let source = open_regular(sources.journal);
    let mut source = source.map_err(unreadable(sources.journal))?;
    let journal = copy(&mut source, &folder.join(JOURNAL))?;
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
fn copy(source: &mut File, to: &Path) -> Result<FileIdentity, ExportError> {
    let metadata = source.metadata()?;
    let bytes = io::copy(source, &mut File::create_new(to)?)?;
    Ok(FileIdentity {
        modified_ns: modified_ns(&metadata),
        changed_ns: changed_ns(&metadata),
        bytes,
        inode: metadata.ino(),
    })
}

#[cfg(test)]
#[path = "ro_crate_tests.rs"]
mod tests;
