//! What can go wrong outside of tasks.

use std::path::PathBuf;

use rakuda_cluster::ClusterError;
use rakuda_proto::frame::FrameError;

/// Trouble that ends the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The link to the front broke.
    #[error("talk to the front: {0}")]
    Link(#[source] std::io::Error),
    /// The front sent something that is no message.
    #[error("read what the front sent: {0}")]
    Frame(#[from] FrameError),
    /// The front did not begin with `Hello`, or spoke out of turn.
    #[error("understand the front: {0}")]
    Protocol(&'static str),
    /// The runtime, signals or the agent could not be set up.
    #[error("set up the hub: {0}")]
    SetUp(#[source] std::io::Error),
    /// The nodes elsewhere could not be begun.
    #[error("set up the hub: {0}")]
    Cluster(#[from] ClusterError),
    /// The run's folder or its record cannot be written.
    #[error("write the record {path:?}: {source}")]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}
