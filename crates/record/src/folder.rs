//! Where runs are on disk: finds `.rakuda`, lists its runs, and finds the run that someone names.
//! It reads the first and the last lines of journals, and summaries; it does not know what happened
//! between them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use rakuda_proto::journal::{JournalEvent, RunOutcome, RunStarted};

use crate::history::summary::RunSummary;
use crate::marks;
use crate::reader::{ReadError, Wanted, read_wanted};
use crate::regular::open_regular;
use crate::run::{Command, Run};
use crate::unfinished::last_event;

/// Name of the folder that a project's runs are in.
pub const FOLDER: &str = ".rakuda";
/// Name of the journal in a run's folder.
pub const JOURNAL: &str = "journal.jsonl";

/// Why there is no run to talk about.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Nothing was ever recorded.
    #[error("no {FOLDER} folder in {} or above it: nothing has been recorded there", .0.display())]
    NoRecords(PathBuf),
    /// It is empty.
    #[error("no runs in {}", .0.display())]
    NoRuns(PathBuf),
    /// Neither the beginning of a run's name nor a path.
    #[error("no run {name} in {}; `rakudactl runs` lists them", .folder.display())]
    NoSuchRun {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// More than one run begins like this.
    #[error("{name} may be any of {}", .runs.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Some of those that it may be.
        runs: Vec<String>,
    },
    /// The bytes do not come.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The journal does not tell what was started.
    #[error("{}: its first line is missing or damaged, so it is not known what was started", .0.display())]
    NoStart(PathBuf),
    /// The journal is empty.
    #[error("{}: nothing is in it: the run has just begun, or was cut off at once", .0.display())]
    Empty(PathBuf),
    /// The journal cannot be understood.
    #[error("{}: {cause}", .path.display())]
    Read {
        /// The journal.
        path: PathBuf,
        /// Why.
        cause: ReadError,
    },
}

/// The records of a project: its `.rakuda`.
#[derive(Debug, Clone)]
pub struct Records {
    /// `.rakuda` itself.
    pub root: PathBuf,
}

/// Where one run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    /// Its name; of a journal without a folder of ours, the path that was given.
    pub run: String,
    /// The folder that holds its journal.
    pub path: PathBuf,
    /// Its journal.
    pub journal: PathBuf,
    /// `.rakuda/running/ID`. `None`: the run was named by a path.
    marker: Option<PathBuf>,
}

/// What can be said of a run at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It lives.
    Running,
    /// It ended.
    Ended(RunOutcome),
    /// It was killed, and no later run has looked after it yet.
    CutOff,
    /// Its link leads to no journal: the folder that the user chose was moved or removed.
    Moved,
}

impl RunState {
    /// One word or two, for people and for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(RunOutcome::Done) => "done",
            Self::Ended(RunOutcome::Failed) => "failed",
            Self::Ended(RunOutcome::Stopped) => "stopped",
            Self::Ended(RunOutcome::Recovered) | Self::CutOff => "cut off",
            Self::Moved => "moved",
        }
    }

    /// As its journal tells: one that has no end was cut off, unless the run was seen alive.
    pub fn of_journal(run: &Run) -> Self {
        match &run.ended {
            Some(ended) => Self::Ended(ended.how),
            None if run.alive => Self::Running,
            None => Self::CutOff,
        }
    }

    /// For people, when there is something to say about the figures; none when the run came to its end.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            // Of one that was moved there are no figures.
            Self::Ended(RunOutcome::Done | RunOutcome::Failed) | Self::Moved => None,
            Self::Ended(RunOutcome::Stopped) => Some(
                "This run was stopped before its end: what was not reached is in no figure but that of all tasks.",
            ),
            Self::Ended(RunOutcome::Recovered) => Some(
                "This run was cut off and settled by a later one: attempts that had not ended are counted up to \
                 its last event, and are in no distribution.",
            ),
            Self::CutOff => Some(
                "This run was cut off, and no later one has settled it yet: attempts that had not ended are counted up to \
                 its last event, and are in no distribution.",
            ),
            Self::Running => Some(
                "This run is still going on: attempts that have not ended are counted up to now, and are in no \
                 distribution.",
            ),
        }
    }
}

impl Records {
    /// Finds `.rakuda` in `directory` or the nearest folder above it that has one.
    ///
    /// # Errors When no folder has one.
    pub fn find(directory: &Path) -> Result<Self, FolderError> {
        let start = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
        let root = start.ancestors().map(|folder| folder.join(FOLDER)).find(|path| path.is_dir());
        root.map(|root| Self { root }).ok_or(FolderError::NoRecords(start))
    }

    /// Where runs are, newest first. A folder that holds no journal is left out.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn folders(&self) -> io::Result<Vec<RunFolder>> {
        let mut folders = self.folders_and_links()?;
        folders.retain(RunFolder::has_journal);
        Ok(folders)
    }

    /// As [`Records::folders`], and the links that lead to no journal.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn folders_and_links(&self) -> io::Result<Vec<RunFolder>> {
        let mut names = Vec::new();
        match fs::read_dir(self.root.join("runs")) {
            Ok(entries) => {
                for entry in entries {
                    names.extend(entry?.file_name().into_string());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        let folders = names.into_iter().map(|run| self.folder(run));
        Ok(folders.filter(|folder| folder.has_journal() || folder.path.is_symlink()).collect())
    }

    fn folder(&self, run: String) -> RunFolder {
        let path = self.root.join("runs").join(&run);
        let marker = Some(self.root.join(marks::RUNNING).join(&run));
        RunFolder { journal: path.join(JOURNAL), path, marker, run }
    }

    /// The run that `name` says: a run's name or a beginning of it that no other has, or `last`.
    ///
    /// # Errors When no run has that name, or more than one.
    pub fn resolve(&self, name: &str) -> Result<RunFolder, FolderError> {
        let runs = self.root.join("runs");
        let mut folders =
            self.folders().map_err(|cause| FolderError::Io { path: runs.clone(), cause })?;
        if name == "last" {
            return folders.into_iter().next().ok_or(FolderError::NoRuns(runs));
        }
        folders.retain(|folder| folder.run.starts_with(name));
        match folders.as_slice() {
            [] => Err(FolderError::NoSuchRun { name: name.to_owned(), folder: runs }),
            [folder] => Ok(folder.clone()),
            [first, ..] if first.run == name => Ok(first.clone()),
            more => Err(FolderError::Ambiguous {
                name: name.to_owned(),
                runs: more.iter().take(5).map(|folder| folder.run.clone()).collect(),
            }),
        }
    }
}

/// The run that someone names, looked for from `directory`: as [`Records::resolve`] does, or the
/// path of a run's folder or of a journal (which need not be in any `.rakuda`).
///
/// # Errors When no run has that name, or more than one.
pub fn find_run(directory: &Path, name: &str) -> Result<RunFolder, FolderError> {
    let path = directory.join(name);
    if path.is_file() {
        return Ok(RunFolder::at(path));
    }
    if name != "last" && path.join(JOURNAL).is_file() {
        return Ok(RunFolder::at(path.join(JOURNAL)));
    }
    Records::find(directory)?.resolve(name)
}

impl RunFolder {
    fn at(journal: PathBuf) -> Self {
        let path = journal.parent().unwrap_or(Path::new(".")).to_path_buf();
        let mut folder =
            Self { run: journal.to_string_lossy().into_owned(), path, journal, marker: None };
        if let Some(first) = folder.first() {
            folder.run = first.run;
        }
        // Below a `.rakuda/runs`, the run may be alive; the folder may also be the end of a link from there.
        let folder_name = Path::new(&folder.run);
        let records = std::path::absolute(&folder.path).ok().and_then(|path| {
            path.ancestors().map(|above| above.join(FOLDER)).find(|root| root.is_dir())
        });
        folder.marker = records.map(|root| root.join(marks::RUNNING).join(folder_name));
        folder
    }

    /// The folder that the run worked in, by where its record is: the one that holds `.rakuda`,
    /// else the journal's own. What the journal itself says may be a name from before, or of
    /// another machine.
    pub fn project(&self) -> PathBuf {
        let above = self.marker.as_deref().and_then(|marker| marker.ancestors().nth(3));
        above.unwrap_or(&self.path).to_path_buf()
    }

    /// Whether there is a journal, be it one that may not be read.
    fn has_journal(&self) -> bool {
        !fs::metadata(&self.journal).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The journal, to be read from the start.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_journal(&self) -> io::Result<BufReader<File>> {
        Ok(BufReader::with_capacity(1 << 18, open_regular(&self.journal)?))
    }

    /// All of the run.
    ///
    /// # Errors
    /// When its journal cannot be read.
    pub fn read(&self) -> Result<Run, FolderError> {
        self.with_journal(Run::read)
    }

    /// The run without its commands: half the time and memory.
    ///
    /// # Errors
    /// When its journal cannot be read.
    pub fn read_without_commands(&self) -> Result<Run, FolderError> {
        let wanted = Wanted::ALL.without(Wanted::COMMAND_STARTED.and(Wanted::COMMAND_ENDED));
        self.with_journal(|journal| Run::read_wanted(journal, wanted))
    }

    /// Adds the commands of one task to a run that was read without commands. Their places in
    /// [`Run::commands`] are not their numbers then.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn add_commands_of(&self, run: &mut Run, task: u32) -> Result<(), FolderError> {
        let events =
            Wanted::ATTEMPT_STARTED.and(Wanted::COMMAND_STARTED).and(Wanted::COMMAND_ENDED);
        let mut attempts = 0;
        let mut places = HashMap::new();
        self.with_journal(|journal| {
            read_wanted(journal, events, |event, _| match event {
                JournalEvent::AttemptStarted(started) if started.task == task => attempts += 1,
                JournalEvent::CommandStarted(started) if started.task == Some(task) => {
                    let place = run.commands.len();
                    places.insert(started.command, place);
                    let attempt = run.tasks.get_mut(task as usize).and_then(Option::as_mut);
                    let attempt = attempt
                        .and_then(|task| task.attempts.get_mut(usize::checked_sub(attempts, 1)?));
                    if let Some(attempt) = attempt {
                        attempt.commands.push(u32::try_from(place).unwrap_or(u32::MAX));
                    }
                    run.commands.push(Some(Command { started, ended: None }));
                }
                JournalEvent::CommandEnded(ended) => {
                    let place = places.get(&ended.command).map(|place| &mut run.commands[*place]);
                    if let Some(Some(command)) = place {
                        command.ended = Some(ended);
                    }
                }
                _ => {}
            })
            .map(drop)
        })
    }

    fn with_journal<T>(
        &self,
        read: impl FnOnce(BufReader<File>) -> Result<T, ReadError>,
    ) -> Result<T, FolderError> {
        let io = |cause| FolderError::Io { path: self.journal.clone(), cause };
        let journal = self.open_journal().map_err(io)?;
        read(journal).map_err(|cause| FolderError::Read { path: self.journal.clone(), cause })
    }

    /// The first line. `None` when it is damaged, or the journal cannot be read.
    pub fn first(&self) -> Option<RunStarted> {
        self.read_first().ok().flatten()
    }

    /// The first line. `None` when it is damaged or not there.
    ///
    /// # Errors
    /// When the journal cannot be read, or is of another version.
    pub fn read_first(&self) -> Result<Option<RunStarted>, ReadError> {
        let mut line = Vec::new();
        let file = open_regular(&self.journal)?;
        BufReader::new(file).take(1 << 24).read_until(b'\n', &mut line)?;
        let mut first = None;
        read_wanted(line.as_slice(), Wanted::RUN_STARTED, |event, _| {
            if let JournalEvent::RunStarted(started) = event {
                first = Some(started);
            }
        })?;
        Ok(first)
    }

    /// Its summary. `None` when it has no summary, or lives.
    pub fn summary(&self) -> Option<RunSummary> {
        RunSummary::read(&self.path)
    }

    /// Whether it lives: its marker is locked.
    pub fn is_running(&self) -> bool {
        self.marker.as_deref().and_then(marks::lives) == Some(true)
    }

    /// How it is with the run, and when its last line was written when that tells the end.
    ///
    /// # Errors
    /// When its journal cannot be read.
    pub fn state(&self) -> Result<(RunState, Option<rakuda_proto::journal::RunEnded>), ReadError> {
        if self.path.is_symlink() && !self.journal.exists() {
            return Ok((RunState::Moved, None));
        }
        // First the lock, then the journal: a run may end in between, but it does not come back.
        let running = self.is_running();
        let last = last_event(open_regular(&self.journal)?, Wanted::RUN_ENDED)?;
        Ok(match last {
            Some(JournalEvent::RunEnded(ended)) => (RunState::Ended(ended.how), Some(ended)),
            _ if running => (RunState::Running, None),
            _ => (RunState::CutOff, None),
        })
    }

    /// What commands of the run printed.
    pub fn output(&self) -> PathBuf {
        self.path.join("output.log")
    }
}
