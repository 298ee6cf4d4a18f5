//! A run in the formats of others: WfCommons WfFormat, Workflow Run RO-Crate, Perfetto's TrackEvent, Graphviz.
//!
//! Each format is a module that writes to what it is given; what maps to what stands in docs/reference/exports.md. None of them knows how a
//! run is found, where the result goes, or the command line.

pub mod dot;
mod names;
pub mod perfetto;
mod protobuf;
pub mod ro_crate;
#[cfg(test)]
mod samples;
mod slots;
pub mod wfformat;
mod workflow;

use std::io;
use std::path::PathBuf;

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
    #[error("cannot read {path}, which belongs into the crate: {source}")]
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
