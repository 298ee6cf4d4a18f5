//! Failed attempts of a run, until they are made good.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::TaskId;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A command did.
    Command {
        /// As one would type it, fit to be shown.
        line: String,
        /// As wait(2) gives it.
        status: i32,
        /// Why it could not be started.
        error: Option<Vec<u8>>,
    },
    /// The first line of what Ruby raised, with its place.
    Exception(Vec<u8>),
    /// It was lost with too many nodes, of these names, and is taken to be the cause.
    Lost(Vec<String>),
}

/// One failed attempt.
#[derive(Debug)]
pub(super) struct Note {
    /// Its place in the order of failing.
    pub(super) number: u32,
    pub(super) attempt: u32,
    pub(super) node: String,
    pub(super) took_ns: u64,
    pub(super) cause: Option<Cause>,
    /// The line of a Ruby file that was run when it failed, where that is wanted.
    pub(super) place: Option<(String, String)>,
    /// What may be behind it, and what to do.
    pub(super) hint: Option<String>,
    pub(super) output: Option<Vec<String>>,
    pub(super) target: Option<String>,
}

/// Failed attempts of this run that were not made good.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub(super) notes: BTreeMap<TaskId, Note>,
    /// Tasks whose last attempts were ended because of others or by the user.
    pub(super) aborted: BTreeSet<TaskId>,
    pub(super) count: u32,
    /// How tasks ended that failed just now, where that is shown at once.
    pub(super) endings: BTreeMap<TaskId, String>,
}

impl Failures {
    /// An attempt ended well.
    pub fn on_success(&mut self, id: TaskId) {
        self.aborted.remove(&id);
        if self.count > 0 {
            self.notes.remove(&id);
            self.endings.remove(&id);
        }
    }

    /// Whether its last attempt was ended from outside: it did not fail by itself.
    pub fn is_aborted(&self, id: TaskId) -> bool {
        self.aborted.contains(&id)
    }
}
