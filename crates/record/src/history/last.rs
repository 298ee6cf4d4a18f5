//! What a target's last good attempt was like: its action, prerequisites and contents then, to tell
//! what has changed since.
//!
//! Journals are read newest first, only until all that is wanted is found, and what runs that are
//! gone have left in `history.jsonl` last. In memory is what was asked for and nothing else,
//! whatever the size of the journals.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptEnded, FileIdentity, JournalEvent, Outcome, RuleDefined, RunStarted, TaskDefined,
};

use crate::folder::{FolderError, Records};
use crate::reader::{ReadError, Wanted, read_wanted};
use crate::regular::open_regular;

/// Name of the file in `.rakuda` that keeps the last records of targets whose runs have been removed.
pub const HISTORY: &str = "history.jsonl";

/// The last attempt of a target that ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRecord {
    /// The run's name.
    pub run: Arc<str>,
    /// The run's chosen environment: name and blake3 of the value.
    pub environment: Arc<BTreeMap<String, String>>,
    /// When it ended, ns since 1970.
    pub ended_ns: i64,
    /// Names of prerequisites. Order-only ones are not among them: they decide nothing.
    pub prerequisites: Vec<Arc<Text>>,
    /// Name and blake3 of the contents of prerequisites, where they were taken.
    pub contents: Vec<(Text, String)>,
    /// Where its action stands.
    pub location: Option<Text>,
    /// blake3 of the source of its actions, when that was known, and by a version of Rakuda that notes it.
    pub source: Option<String>,
    /// Names and values of what its action depended on by declaration.
    pub params: Vec<(Text, Text)>,
    /// Its file after the attempt.
    pub after: Option<FileIdentity>,
}

/// The last records of some targets.
#[derive(Debug, Default)]
pub struct LastRecords {
    found: HashMap<Text, LastRecord>,
}

impl LastRecords {
    /// Looks for the last records of the targets that are `wanted`, by name.
    ///
    /// Journals of other versions tell nothing, and are passed over.
    ///
    /// # Errors
    /// When the folder, or a file in it, cannot be read.
    pub fn read(
        records: &Records,
        wanted: impl IntoIterator<Item = Text>,
    ) -> Result<Self, FolderError> {
        let mut wanted: HashSet<Text> = wanted.into_iter().collect();
        let mut last = Self::default();
        let runs = records.root.join("runs");
        let folders = records.folders().map_err(|cause| FolderError::Io { path: runs, cause })?;
        let journals = folders.into_iter().map(|folder| folder.journal);
        for path in journals.chain([records.root.join(HISTORY)]) {
            if wanted.is_empty() {
                break;
            }
            match read_file(&path, &wanted) {
                Ok(found) => {
                    for (name, record) in found {
                        wanted.remove(&name);
                        last.found.insert(name, record);
                    }
                }
                // A run may be removed while this goes on, and one of another user need not be readable.
                Err(ReadError::Io(error))
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                    ) => {}
                Err(ReadError::Version { .. }) => {}
                Err(cause) => return Err(FolderError::Read { path, cause }),
            }
        }
        Ok(last)
    }

    /// Takes in what was found later.
    pub fn extend(&mut self, other: Self) {
        self.found.extend(other.found);
    }

    /// The last record of the target `name`. `None`: it has never been made, or its record is gone.
    pub fn get(&self, name: &Text) -> Option<&LastRecord> {
        self.found.get(name)
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no record was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

fn read_file(path: &Path, wanted: &HashSet<Text>) -> Result<Vec<(Text, LastRecord)>, ReadError> {
    let open = || open_regular(path).map(|file| BufReader::with_capacity(1 << 18, file));
    let events = Wanted::RUN_STARTED
        .and(Wanted::RULE_DEFINED)
        .and(Wanted::TASK_DEFINED)
        .and(Wanted::ATTEMPT_ENDED);
    let mut search = Search::new(wanted);
    read_wanted(open()?, events, |event, _| search.see(event))?;
    if search.found.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = search.prerequisites_without_names();
    let mut section = 0;
    read_wanted(open()?, Wanted::RUN_STARTED.and(Wanted::TASK_DEFINED), |event, _| match event {
        JournalEvent::RunStarted(_) => section += 1,
        JournalEvent::TaskDefined(defined) => {
            if let Some(name) = names.get_mut(&(section, defined.task)) {
                *name = Some(Arc::new(defined.name));
            }
        }
        _ => {}
    })?;
    Ok(search.finish(&names))
}

/// Which run of a file, counted from 1, and the task's number in it. A journal has one run, `history.jsonl` many.
type Number = (u32, u32);

/// One pass over a file.
struct Search<'a> {
    wanted: &'a HashSet<Text>,
    section: u32,
    run: Arc<str>,
    environment: Arc<BTreeMap<String, String>>,
    /// Of this section.
    rules: HashMap<u32, RuleDefined>,
    /// Of this section: wanted tasks.
    tasks: HashMap<u32, TaskDefined>,
    /// The prerequisites' names come from a second pass.
    found: HashMap<Text, (LastRecord, Vec<Number>)>,
}

impl<'a> Search<'a> {
    fn new(wanted: &'a HashSet<Text>) -> Self {
        Self {
            wanted,
            section: 0,
            run: Arc::from(""),
            environment: Arc::default(),
            rules: HashMap::new(),
            tasks: HashMap::new(),
            found: HashMap::new(),
        }
    }

    fn see(&mut self, event: JournalEvent) {
        match event {
            JournalEvent::RunStarted(started) => self.begin_section(started),
            JournalEvent::RuleDefined(rule) => {
                self.rules.insert(rule.rule, rule);
            }
            JournalEvent::TaskDefined(defined) if self.wanted.contains(&defined.name) => {
                self.tasks.insert(defined.task, defined);
            }
            JournalEvent::AttemptEnded(ended) => self.end_attempt(ended),
            _ => {}
        }
    }

    fn begin_section(&mut self, started: RunStarted) {
        self.section += 1;
        self.run = Arc::from(started.run);
        self.environment = Arc::new(started.environment);
        self.rules.clear();
        self.tasks.clear();
    }

    fn end_attempt(&mut self, ended: AttemptEnded) {
        let Some(task) = self.tasks.get(&ended.task) else {
            return;
        };
        if ended.outcome != Outcome::Done {
            return;
        }
        let rule = task.rule.and_then(|rule| self.rules.get(&rule));
        let record = LastRecord {
            run: self.run.clone(),
            environment: self.environment.clone(),
            ended_ns: ended.time_ns,
            prerequisites: Vec::new(),
            contents: ended.contents,
            location: rule.map(|rule| rule.location.clone()),
            source: rule.and_then(|rule| rule.source.clone()),
            params: task.params.clone(),
            after: ended.after,
        };
        let numbers = task.prerequisites.iter().map(|task| (self.section, *task)).collect();
        self.found.insert(task.name.clone(), (record, numbers));
    }

    fn prerequisites_without_names(&self) -> HashMap<Number, Option<Arc<Text>>> {
        let mut names = HashMap::new();
        #[allow(clippy::iter_over_hash_type, reason = "from one map into another")]
        for (_, numbers) in self.found.values() {
            names.extend(numbers.iter().map(|number| (*number, None)));
        }
        names
    }

    fn finish(self, names: &HashMap<Number, Option<Arc<Text>>>) -> Vec<(Text, LastRecord)> {
        let finish = |(name, (mut record, numbers)): (Text, (LastRecord, Vec<Number>))| {
            let known = numbers.iter().filter_map(|number| names[number].clone());
            record.prerequisites = known.collect();
            (name, record)
        };
        self.found.into_iter().map(finish).collect()
    }
}
