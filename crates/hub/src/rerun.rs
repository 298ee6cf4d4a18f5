//! `--rerun-on`: compares files that are up to date with the record of how they were made: the set
//! of their prerequisites, their contents, the chosen environment, the actions and their
//! parameters.
//!
//! It adds reasons to run and takes none away; that the task then runs is decided in the core. A
//! target without a record is taken as it is.

mod compare;
mod contents;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use rakuda_core::{Event, Held, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::front::{ActionOutcome, RerunOn, Settings};
use rakuda_proto::journal::{FileIdentity, Reason};
use rakuda_record::folder::{FOLDER, Records};
use rakuda_record::history::LastRecords;

use crate::facts::identity_of;
use crate::hub::Hub;
use crate::rerun::compare::Comparison;
use crate::rerun::contents::{Contents, Digest, note, short_hex};
use crate::settings::RunSettings;

/// What is compared.
#[derive(Debug, Clone, Default)]
pub struct RerunSettings {
    /// As they were given.
    pub chosen: Vec<RerunOn>,
    pub command: bool,
    pub inputs: bool,
    pub content: bool,
    pub env: bool,
    /// Larger files are told apart by size and time.
    pub content_bytes_max: u64,
    /// The chosen environment: name and digest of the value; an empty one: it is not set.
    pub environment: BTreeMap<String, String>,
}

impl RerunSettings {
    pub fn new(settings: &Settings) -> Self {
        let on = |word| settings.rerun_on.contains(&word);
        let digest = |value: &Option<Text>| {
            value.as_ref().map_or(String::new(), |value| short_hex(&blake3::hash(&value.0)))
        };
        let environment = settings.rerun_environment.iter();
        let environment = environment.map(|(name, value)| (name.clone(), digest(value)));
        Self {
            chosen: settings.rerun_on.clone(),
            command: on(RerunOn::Command),
            inputs: on(RerunOn::Inputs),
            content: on(RerunOn::Content),
            env: on(RerunOn::Env),
            content_bytes_max: settings.content_bytes_max,
            environment: if on(RerunOn::Env) { environment.collect() } else { BTreeMap::new() },
        }
    }

    /// The chosen reasons in the user's words.
    pub fn words(&self) -> Vec<&'static str> {
        self.chosen.iter().map(|reason| reason.word()).collect()
    }

    pub fn is_on(&self) -> bool {
        !self.chosen.is_empty()
    }
}

/// Why a task is to run again, and what has changed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub reason: Reason,
    pub detail: Option<String>,
}

/// What is known for comparisons.
#[derive(Debug)]
pub(crate) struct Rerun {
    pub settings: RerunSettings,
    /// `.rakuda`.
    root: PathBuf,
    records: LastRecords,
    contents: Contents,
    /// What was found of tasks that are to run again.
    changes: BTreeMap<TaskId, Vec<Change>>,
    /// Comparisons that wait for contents.
    waiting: BTreeMap<TaskId, Comparison>,
    /// What attempts that have begun read.
    inputs_of: BTreeMap<TaskId, Inputs>,
    /// Actions that have ended well while what they read was still being digested.
    ended: BTreeMap<TaskId, (Vec<u8>, Option<Held>)>,
    /// Existing targets without a record, since it was last told.
    without_record: usize,
    /// Those in whose record something is not that is compared.
    partly_recorded: usize,
}

/// Prerequisites of a task as they were when its attempt began.
#[derive(Debug, Default)]
struct Inputs {
    /// Those that are being digested.
    open: VecDeque<(TaskId, FileIdentity)>,
    /// What is to be noted of the others.
    noted: Vec<(TaskId, String)>,
}

impl Inputs {
    /// Takes in what has become known; whether all is.
    fn settle(&mut self, contents: &Contents) -> bool {
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

impl Hub {
    /// Looks for the records of tasks that have been defined. In the loop: a run waits for its plan anyway.
    pub(crate) fn read_last_records(&mut self, tasks: &[TaskId]) {
        let Some(rerun) = &mut self.rerun else { return };
        let wanted = tasks.iter().filter(|id| {
            let task = self.run.scheduler().task(**id);
            task.is_some_and(|task| {
                task.kind == TaskKind::File && task.has_action && task.modified_ns.is_some()
            })
        });
        let wanted: Vec<Text> = wanted.map(|id| Text(self.names.name(*id).to_vec())).collect();
        if wanted.is_empty() || !rerun.root.is_dir() {
            return;
        }
        let records = Records { root: rerun.root.clone() };
        match LastRecords::read(&records, wanted) {
            Ok(found) => rerun.records.extend(found),
            Err(error) => self.warn(&format!(
                "--rerun-on: failed to read earlier runs: {error}; targets of which nothing is known are taken as they are"
            )),
        }
    }

    /// A file is up to date by rake's rule: was it made as it would be now?
    pub(crate) fn compare_record(&mut self, id: TaskId) {
        let Some(comparison) = self.begin_comparison(id) else {
            return self.event(Event::RecordCompared { id, rerun: false });
        };
        if let Some(rerun) = self.go_on_comparing(id, comparison) {
            self.event(Event::RecordCompared { id, rerun });
        }
    }

    /// Some contents have become known.
    pub(crate) fn on_contents(&mut self) {
        let Some(rerun) = &mut self.rerun else { return };
        for (id, (message, code)) in std::mem::take(&mut rerun.ended) {
            self.end_action(id, ActionOutcome::Ok, &message, code);
        }
        let Some(rerun) = &mut self.rerun else { return };
        for (id, comparison) in std::mem::take(&mut rerun.waiting) {
            if let Some(rerun) = self.go_on_comparing(id, comparison) {
                self.event(Event::RecordCompared { id, rerun });
            }
        }
    }

    /// An action has ended; the rest waits until all is known that the record is to keep of it. That is seldom, since
    /// reading began with the attempt.
    pub(crate) fn end_action(
        &mut self,
        id: TaskId,
        outcome: ActionOutcome,
        message: &[u8],
        code: Option<Held>,
    ) {
        if outcome == ActionOutcome::Ok
            && self.run.attempts().acting(id).is_some()
            && let Some(rerun) = &mut self.rerun
            && let Some(inputs) = rerun.inputs_of.get_mut(&id)
            && !inputs.settle(&rerun.contents)
        {
            rerun.ended.insert(id, (message.to_vec(), code));
        } else {
            self.on_action_ended(id, outcome, message, code);
        }
    }

    /// The attempt of a task begins: what it reads is to be noted.
    pub(crate) fn look_at_inputs(&mut self, id: TaskId) {
        let Some(rerun) = self.rerun.as_mut().filter(|rerun| rerun.settings.content) else {
            return;
        };
        let mut inputs = Inputs::default();
        for input in self.run.scheduler().inputs(id) {
            if self.run.scheduler().task(input).is_some_and(|task| task.kind == TaskKind::File)
                && let path = path_of(&self.settings.directory, self.names.name(input))
                && let Some(identity) = identity_of(&path)
            {
                rerun.contents.want(&path, &identity);
                inputs.open.push_back((input, identity));
            }
        }
        rerun.inputs_of.insert(id, inputs);
    }

    /// What the record keeps of what an attempt has read, by name; of one that was ended before its
    /// time, what is known.
    pub(crate) fn contents_of_inputs(&mut self, id: TaskId) -> Vec<(Text, String)> {
        let Some(rerun) = &mut self.rerun else { return Vec::new() };
        let mut inputs = rerun.inputs_of.remove(&id).unwrap_or_default();
        inputs.settle(&rerun.contents);
        let named = inputs.noted.into_iter();
        let noted: BTreeMap<Text, String> =
            named.map(|(input, note)| (Text(self.names.name(input).to_vec()), note)).collect();
        noted.into_iter().collect()
    }

    /// Why a task runs again, if that was found by comparing.
    pub(crate) fn changes_of(&self, id: TaskId) -> &[Change] {
        let changes = self.rerun.as_ref().and_then(|rerun| rerun.changes.get(&id));
        changes.map_or(&[], Vec::as_slice)
    }

    /// Tells once for many how many targets could not be compared.
    pub(crate) fn tell_without_record(&mut self) {
        let Some(rerun) = &mut self.rerun else { return };
        let without = std::mem::take(&mut rerun.without_record);
        let partly = std::mem::take(&mut rerun.partly_recorded);
        let words = rerun.settings.words().join(",");
        let without = match without {
            0 => None,
            1 => {
                Some("1 target has no record of how it was made; it is taken as up to date".into())
            }
            _ => Some(format!(
                "{without} targets have no record of how they were made; they are taken as up to date"
            )),
        };
        let partly = match partly {
            0 => None,
            1 => Some("of 1 target not all that is compared is in its record; the rest is taken as unchanged".into()),
            _ => Some(format!(
                "of {partly} targets not all that is compared is in their records; the rest is taken as unchanged"
            )),
        };
        for text in without.into_iter().chain(partly) {
            self.warn(&format!("--rerun-on {words}: {text}"));
        }
    }
}

fn path_of(directory: &Path, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    directory.join(std::ffi::OsStr::from_bytes(name))
}
