//! What a cluster is: numbers only.
//!
//! The defaults are table 1 of the paper (Tanaka, Tatebe 2014) where it says something; see
//! `docs/design/simulator.md` for the rest.

use crate::units::{GIB, MIB};

/// Where files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// On the node that wrote them; other nodes read them from there.
    Gfarm,
    /// On one server.
    Nfs,
    /// On the node that wrote them; other nodes copy them.
    Local,
}

/// How transfers share what they go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Max-min fair: what one transfer cannot use goes to the others.
    MaxMin,
    /// Each has an equal share of everything on its way; what one cannot use is lost. For clusters
    /// on which the other takes too long.
    Equal,
}

/// What one transfer alone reaches, bytes/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// From the own disk.
    pub local_disk_read: u64,
    /// From the own memory.
    pub local_cached_read: u64,
    /// From another node's disk.
    pub remote_disk_read: u64,
    /// From another node's memory.
    pub remote_cached_read: u64,
    /// To the own disk.
    pub local_write: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            local_disk_read: 70 * MIB,
            local_cached_read: 592 * MIB,
            remote_disk_read: 39 * MIB,
            remote_cached_read: 71 * MIB,
            local_write: 59 * MIB,
        }
    }
}

/// Maximum number of nodes with max-min fair transfers, unless the settings ask for them. With more, transfers get
/// equal shares.
pub const NODES_MAX_MIN: u32 = 64;

/// A cluster of equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Number of nodes.
    pub nodes: u32,
    /// Cores of each node.
    pub cores: u32,
    /// Memory of each node.
    pub memory_bytes: u64,
    /// Part of the memory that is never a page cache.
    pub system_bytes: u64,
    /// Where files lie.
    pub file_system: FileSystem,
    /// Rates of one transfer; those of local disks are the disks' own, too.
    pub rates: Rates,
    /// Bandwidth of each node in each direction, bytes/s.
    pub link: u64,
    /// Bandwidth that all share, bytes/s; `None` if the switch is non-blocking.
    pub switch: Option<u64>,
    /// `None`: max-min up to [`NODES_MAX_MIN`] nodes, equal beyond.
    pub sharing: Option<Sharing>,
    /// Percent of a disk's speed that is left while several transfers use it.
    pub disk_percent: u64,
    /// Whether a disk reads and writes at the same time, each at its full speed: two bounds, as
    /// control groups set them.
    pub duplex_disks: bool,
    /// Whether writes go to memory first.
    pub write_back: bool,
    /// Time of a message from the hub to a node, and of one back.
    pub dispatch_ns: u64,
    /// Time of a look at a file.
    pub fact_ns: u64,
    /// Time that tasks compute, in percent of the workload's.
    pub compute_percent: u64,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            nodes: 12,
            cores: 8,
            memory_bytes: 32 * GIB,
            system_bytes: GIB,
            file_system: FileSystem::Gfarm,
            rates: Rates::default(),
            link: 125_000_000,
            switch: None,
            sharing: None,
            disk_percent: 100,
            duplex_disks: false,
            write_back: false,
            dispatch_ns: 200_000,
            fact_ns: 100_000,
            compute_percent: 100,
        }
    }
}

impl Cluster {
    /// Cores of all nodes.
    pub fn cores_all(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.cores)
    }

    pub(crate) fn sharing(&self) -> Sharing {
        let usual = if self.nodes > NODES_MAX_MIN { Sharing::Equal } else { Sharing::MaxMin };
        self.sharing.unwrap_or(usual)
    }

    /// Nodes, and the server if there is one.
    pub(crate) fn machines(&self) -> u32 {
        self.nodes + u32::from(self.file_system == FileSystem::Nfs)
    }
}
