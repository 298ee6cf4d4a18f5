//! What is asked of a node over its data link, one question a substream (docs/design/staging.md).
//!
//! Data only. The content of a file goes between these messages as pieces, each after its length;
//! `crates/link` has the form.

use serde::{Deserialize, Serialize};

use crate::Text;

/// A request about the node's files. Names are absolute, and as the node calls them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Send the content; answered by `Content`.
    Read {
        /// Which.
        path: Text,
        /// What it has to be: another one is refused.
        version: FileVersion,
    },
    /// Take what follows as the content; answered by `Done` when it is there, whole and in its place.
    Write {
        /// Where to. Folders on the way are made.
        path: Text,
        /// What it will be.
        version: FileVersion,
        /// Permissions, as in chmod(2).
        mode: u32,
    },
    /// Ask whether a file is there; answered by `Found`.
    Look {
        /// Which.
        path: Text,
    },
    /// Rename, or remove; answered by `Done`, or by `Found` with nothing.
    Change {
        /// Which.
        path: Text,
        /// The new name. `None`: it is removed.
        to: Option<Text>,
    },
    /// Remove these; answered by `Done`. What is not there, or is another state of the file by now, is passed over.
    Remove {
        /// Which.
        files: Vec<(Text, FileVersion)>,
    },
    /// Be a pipe to an abstract socket of the node's agent; the only answer is what comes from the socket.
    Join {
        /// Its name.
        socket: Text,
    },
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileVersion {
    /// Its size.
    pub bytes: u64,
    /// As [`crate::file_time`] has it.
    pub modified_ns: i128,
}

/// From the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileAnswer {
    /// The content follows.
    Content {
        /// Permissions, as in chmod(2).
        mode: u32,
    },
    /// The file, if it is there.
    Found {
        /// `None`: there is no such file.
        version: Option<FileVersion>,
        /// It is a folder.
        is_folder: bool,
    },
    /// It is done.
    Done,
    /// It is not; why, as a fragment that fits after "failed to".
    Failed {
        /// Why.
        reason: String,
    },
}

/// What comes behind the last piece of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentEnd {
    /// That was all.
    Whole {
        /// BLAKE3 of it.
        digest: [u8; 32],
    },
    /// There would be more, or it has changed meanwhile: what was sent is not to be used.
    Broken {
        /// Why.
        reason: String,
    },
}
