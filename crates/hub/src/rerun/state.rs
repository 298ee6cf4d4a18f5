//! What is known for comparisons with earlier runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use rakuda_core::{Held, TaskId};
use rakuda_proto::journal::{FileIdentity, Reason};
use rakuda_record::folder::FOLDER;
use rakuda_record::history::LastRecords;

use crate::rerun::contents::{Contents, Digest, note};
use crate::rerun::settings::RerunSettings;
use crate::settings::RunSettings;

/// Why a task is to run again, and what has changed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub reason: Reason,
    pub detail: Option<String>,
}

/// A comparison that goes on: contents have to be read for it.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) changes: Vec<Change>,
    /// Prerequisites of which it is not known yet whether they have the content with this digest.
    pub(super) unsure: VecDeque<(TaskId, FileIdentity, String)>,
    /// Something that is compared is not in the record.
    pub(super) partly: bool,
}

/// What is known for comparisons.
#[derive(Debug)]
pub(crate) struct Rerun {
    pub settings: RerunSettings,
    /// `.rakuda`.
    pub(super) root: PathBuf,
    pub(super) records: LastRecords,
    /// Tasks without a file of which records were looked for, as they print for files.
    pub(super) read_upstream: BTreeSet<TaskId>,
    pub(super) contents: Contents,
    /// What was found of tasks that are to run again.
    pub(super) changes: BTreeMap<TaskId, Vec<Change>>,
    /// Comparisons that wait for contents.
    pub(super) waiting: BTreeMap<TaskId, Comparison>,
    /// What attempts that have begun read.
    pub(super) inputs_of: BTreeMap<TaskId, Inputs>,
    /// Actions that have ended well while what they read was still being digested.
    pub(super) ended: BTreeMap<TaskId, (Vec<u8>, Option<Held>)>,
    /// Number of existing targets without a record since the last report.
    pub(super) without_record: usize,
    /// Number of targets whose record lacks something that is compared.
    pub(super) partly_recorded: usize,
}

/// Prerequisites of a task as they were when its attempt began.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Those that are being digested.
    pub(super) open: VecDeque<(TaskId, FileIdentity)>,
    /// What is to be noted of the others.
    pub(super) noted: Vec<(TaskId, String)>,
}

impl Inputs {
    /// Takes in what has become known; whether all is.
    pub(super) fn settle(&mut self, contents: &Contents) -> bool {
        while let Some((input, identity)) = self.open.front() {
            match contents.digest(identity) {
                Digest::NotYet => return false,
                Digest::Is(digest) => self.noted.push((*input, note(&digest, identity))),
                Digest::Unreadable => {}
            }
            self.open.pop_front();
        }
        true
    }
}

impl Rerun {
    pub fn new(settings: &RunSettings) -> Self {
        Self {
            root: settings.directory.join(FOLDER),
            contents: Contents::new(settings.rerun.content_bytes_max),
            settings: settings.rerun.clone(),
            records: LastRecords::default(),
            read_upstream: BTreeSet::new(),
            changes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            inputs_of: BTreeMap::new(),
            ended: BTreeMap::new(),
            without_record: 0,
            partly_recorded: 0,
        }
    }

    /// Waits until some comparison, or the end of some action, may go on.
    pub async fn some_content(&self) {
        self.contents.some_done().await;
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.ended.is_empty()
    }
}
