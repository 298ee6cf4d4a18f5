//! Why a run cannot have nodes elsewhere at all. What happens to one of them later is a report, and no error.

use std::io;

use crate::hosts::HostFileError;

/// Why a run cannot have nodes elsewhere at all.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A setting, or two of them together, cannot be used: what was found, and what was expected.
    #[error("{0}")]
    Setting(String),
    /// The host file cannot be used.
    #[error("{}", .0.as_sentence())]
    HostFile(#[from] HostFileError),
    /// The program that is copied to hosts is this one, and cannot be read.
    #[error("cannot read the engine's own program: {0}")]
    Program(#[source] io::Error),
    /// The program for another machine type, which lies beside this one.
    #[error("cannot read the engine for other machines, {}: {why}", path.display())]
    OtherProgram {
        /// Of the program.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// The thread of the links could not be begun.
    #[error(transparent)]
    Thread(io::Error),
}
