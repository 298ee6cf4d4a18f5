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
    /// Whether tasks are queued at the nodes that hold their input.
    pub locality: bool,
    /// Whether an idle node takes tasks from another node's queue.
    pub stealing: bool,
    /// For the random numbers of `RankHrf`.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::LifoHrf,
            failure: FailurePolicy::Wait,
            retry: 0,
            build_all: false,
            dry_run: false,
            locality: true,
            stealing: true,
            seed: 0,
        }
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
    /// One action at a time, in rake's own order.
    Serial,
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
