//! Settings of a run. They do not change while it runs.

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The order in queues.
    pub policy: Policy,
    /// What a failed task means for the rest of its invocation.
    pub failure: FailurePolicy,
    /// Attempts after the first, for tasks whose requirement does not say.
    pub retry: u32,
    /// Run every file task (rake's `-B`).
    pub build_all: bool,
    /// Actions only pretend; files are not looked at again after them.
    pub dry_run: bool,
    /// Files that are up to date by rake's rule are compared with the record of how they were made.
    pub compares: bool,
    /// Whether tasks are queued at the nodes that hold their input.
    pub locality: bool,
    /// Whether an idle node takes tasks from another node's queue.
    pub stealing: bool,
    /// Files lie on nodes (local disks, Gfarm), and are out of reach when all nodes are lost that
    /// hold them (`Fact::places`). If not, a lost node takes no file with it.
    pub files_on_nodes: bool,
    /// With `files_on_nodes`: servers of their own hand the files out (Gfarm's gfsd), not the
    /// agents. A lost node takes no file with it; which are out of reach the shell finds out
    /// (`Places::Nowhere`).
    pub files_apart: bool,
    /// A task fails when attempts of it were lost with this many different nodes, or [`LOSSES_PER_NODE`] times as often
    /// with fewer; 0: never.
    pub blame_after: u32,
    /// A node is drained when this many actions failed there in a row, if others do well (Pwrake's `HOST_FAILURE`); 0:
    /// never.
    pub drain_after: u32,
    /// For the random numbers of `RankHrf`.
    pub seed: u64,
}

/// Number of losses, with nodes that come back, that weigh as much as one with another node.
pub const LOSSES_PER_NODE: u32 = 3;

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::LifoHrf,
            failure: FailurePolicy::Wait,
            retry: 0,
            build_all: false,
            dry_run: false,
            compares: false,
            locality: true,
            stealing: true,
            files_on_nodes: false,
            files_apart: false,
            blame_after: 3,
            drain_after: 3,
            seed: 0,
        }
    }
}

impl Config {
    /// Whether a lost node takes its files with it.
    pub(crate) fn files_go_with_nodes(&self) -> bool {
        self.files_on_nodes && !self.files_apart
    }
}

/// The order in queues (Tanaka, Tatebe 2014, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The one that has been ready longest.
    Fifo,
    /// The one that became ready last.
    Lifo,
    /// As `Lifo`, but highest rank first once the highest rank has no more tasks than the node cores.
    LifoHrf,
    /// A random rank, the likelier the shorter its tasks ran; highest rank first at its end.
    RankHrf,
    /// The one with the greatest part of its input in the node's memory.
    Cached,
    /// As `Lifo`, but highest level first (the longest way to the end by the times known) once that
    /// way is long beside the work that is left.
    LifoHlfet,
    /// One action at a time, in rake's own order.
    Serial,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 7] = [
        Self::Fifo,
        Self::Lifo,
        Self::LifoHrf,
        Self::RankHrf,
        Self::Cached,
        Self::LifoHlfet,
        Self::Serial,
    ];

    /// The name in options, settings and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lifo => "lifo",
            Self::LifoHrf => "lifo_hrf",
            Self::RankHrf => "rank_hrf",
            Self::Cached => "cached",
            Self::LifoHlfet => "lifo_hlfet",
            Self::Serial => "serial",
        }
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// What a failed task means for the rest of its invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// Nothing more starts; what runs goes on.
    Wait,
    /// Nothing more starts; what runs is aborted.
    Kill,
    /// All that does not depend on it still runs.
    Continue,
}
