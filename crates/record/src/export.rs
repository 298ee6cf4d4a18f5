//! A run in the formats of others: WfCommons WfFormat, Workflow Run RO-Crate, Perfetto's
//! TrackEvent, Graphviz, JUnit's XML, GitLab's code quality.
//!
//! Each format is a module that writes to what it is given; what maps to what stands in
//! docs/reference/exports.md. None of them knows how a run is found, where the result goes, or the
//! command line.

pub mod code_quality;
pub mod dot;
pub mod junit;
mod names;
pub mod perfetto;
mod protobuf;
pub mod ro_crate;
#[cfg(test)]
mod samples;
mod slots;
pub mod wfformat;
pub(crate) mod workflow;

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a run could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The format has no form for a run without tasks.
    #[error("run {0} has no task that ran or was to run, and WfFormat has no form for that")]
    Empty(String),
    /// Something is in the way.
    #[error("{0} exists: remove it, or name another folder")]
    Exists(PathBuf),
    /// A file that belongs into the result.
    #[error("cannot read {path}, which belongs into the crate")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// What an export is called until it is whole: beside `path`, so that renaming stays on one file system.
pub fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{UNFINISHED}{}", std::process::id()));
    path.with_file_name(name)
}

/// Between the name and the number of the process.
const UNFINISHED: &str = ".unfinished-";

/// Removes what earlier exports to `path` have left that were killed.
pub fn remove_abandoned(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    for entry in entries {
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let number = rest.and_then(|rest| rest.strip_prefix(UNFINISHED.as_bytes()));
        let number = number.and_then(|number| str::from_utf8(number).ok()?.parse::<u32>().ok());
        let Some(number) = number else { continue };
        if number != std::process::id() && !Path::new(&format!("/proc/{number}")).exists() {
            let path = entry.path();
            // Where it cannot be removed, it is named like what it is.
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}
