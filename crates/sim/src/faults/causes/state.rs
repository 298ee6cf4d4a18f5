//! Why a failure is no fault of its task.

/// A failure over a file server.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// The file that was read; `None` if it was to be written.
    pub(crate) file: Option<u32>,
    /// It is one of the task's inputs.
    pub(crate) named: bool,
    /// The host that was silent; `None` if the catalogue named none.
    pub(crate) host: Option<u32>,
    pub(crate) epoch: u64,
    pub(crate) failed_ns: u64,
    /// The last round that was about it.
    pub(crate) round: Option<u32>,
    /// Files that such a round asked about tell of the host.
    pub(crate) sampled: bool,
    /// Such a round has found the host silent, or the file out of reach.
    pub(crate) seen: bool,
}
