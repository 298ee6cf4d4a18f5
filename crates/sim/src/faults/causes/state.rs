//! Why a failure is no fault of its task.

/// A failure over a file server.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// The file that was read; `None` if it was to be written.
    pub(crate) file: Option<u32>,
    /// It is one of the task's inputs.
    pub(crate) named: bool,
    /// The unresponsive host; `None` if the catalogue named none.
    pub(crate) host: Option<u32>,
    pub(crate) epoch: u64,
    pub(crate) failed_ns: u64,
    /// The last round that was about it.
    pub(crate) round: Option<u32>,
    /// The file that such a round asked about to know of the host, unless it is being made anew since.
    pub(crate) sampled: Option<u32>,
    /// Such a round has found the host unresponsive, or the file out of reach.
    pub(crate) seen: bool,
}
