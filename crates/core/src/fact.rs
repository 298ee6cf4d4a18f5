//! What is known of the file of a task: when it was modified, how large it is, where it lies.
//!
//! Knows no paths and touches no file: the shell gathers facts, in bulk or when asked.

use crate::ids::NodeId;
use alloc::boxed::Box;

/// What the shell found out about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Modification time in ns since the Unix epoch (64 bits would end in 2262); `None`: there is no such file.
    pub modified_ns: Option<i128>,
    /// Its size.
    pub bytes: u64,
    /// The nodes that hold it.
    pub places: Places,
}

/// The nodes that hold a file, or in whose queues a task stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// Not known, or of no importance.
    #[default]
    Unknown,
    /// One node.
    One(NodeId),
    /// Several nodes, each once.
    Many(Box<[NodeId]>),
    /// Out of reach wherever it is, as the shell found out; with `Config::files_on_nodes` it is
    /// lost until other places are found.
    Nowhere,
}

impl Places {
    /// The nodes as a slice.
    pub fn as_slice(&self) -> &[NodeId] {
        match self {
            Self::Unknown | Self::Nowhere => &[],
            Self::One(node) => core::slice::from_ref(node),
            Self::Many(nodes) => nodes,
        }
    }

    pub(crate) fn from_slice(nodes: &[NodeId]) -> Self {
        match nodes {
            [] => Self::Unknown,
            [node] => Self::One(*node),
            [..] => Self::Many(nodes.into()),
        }
    }
}
