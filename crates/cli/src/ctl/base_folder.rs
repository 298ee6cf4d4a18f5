//! Where questions are asked from, and how their runs are found.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rakuda_proto::Text;
use rakuda_proto::journal::RunOutcome;
use rakuda_record::Run;
use rakuda_record::find::{find_task, near_names};
use rakuda_record::folder::{FolderError, Records, RunFolder, RunState, find_run};
use rakuda_record::printable::shown;

/// The folder of `-C`, or the current one: relative names begin there, and runs are looked for from there.
#[derive(Clone)]
pub struct BaseFolder {
    directory: PathBuf,
}

impl BaseFolder {
    /// `directory` is what `-C` says.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory: directory.unwrap_or_else(|| PathBuf::from(".")) }
    }

    /// The folder by its whole name, where it has one.
    pub fn full_directory(&self) -> PathBuf {
        std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone())
    }

    /// The folder itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The records of the project that the folder is in.
    pub fn records(&self) -> Result<Records, FolderError> {
        Records::find(&self.directory)
    }

    /// Where the run is that RUN names.
    pub fn run_folder(&self, name: &str) -> Result<RunFolder, FolderError> {
        find_run(&self.directory, name)
    }

    /// The run that RUN names, and a word to the user about lines that could not be read. A journal
    /// without its first line is refused: without it no figure means anything.
    pub fn read_run(&self, name: &str) -> Result<Run, FolderError> {
        let folder = self.run_folder(name)?;
        let run = folder.read()?;
        if run.started.run.is_empty() {
            let empty = fs::metadata(&folder.journal).is_ok_and(|metadata| metadata.len() == 0);
            let error = if empty { FolderError::Empty } else { FolderError::NoStart };
            return Err(error(folder.journal));
        }
        complain_of_damage(&folder, &run);
        Ok(run)
    }
}

/// A word to the user about lines of a journal that could not be read.
pub fn complain_of_damage(folder: &RunFolder, run: &Run) {
    if run.started.run.is_empty() {
        let path = folder.journal.display();
        crate::complain(&format!("rakudactl: {path}: its first line is missing or damaged\n"));
    }
    if run.skipped.damaged > 0 {
        let lines = if run.skipped.damaged == 1 { "line" } else { "lines" };
        crate::complain(&format!(
            "rakudactl: {}: skipped {} damaged {lines}\n",
            folder.journal.display(),
            run.skipped.damaged
        ));
    }
}

/// The number of the task that TASK names.
pub fn task_number(folder: &RunFolder, run: &Run, name: &Text) -> anyhow::Result<u32> {
    if let Some(number) = find_task(run, name) {
        return Ok(number);
    }
    let near: Vec<String> = near_names(run, name).iter().map(shown).collect();
    let asked = shown(name);
    let hint = match folder.state() {
        _ if !near.is_empty() => format!("did you mean {}?", near.join(" or ")),
        Ok((RunState::Running, _)) => format!(
            "it goes on, and what it has not come to is not in its journal yet: `rakudactl explain {asked}` tells"
        ),
        Ok((RunState::CutOff | RunState::Ended(RunOutcome::Recovered), _)) => {
            "it was cut off, and what it had not come to is not in its journal".to_owned()
        }
        _ => "what was never needed is not in a journal".to_owned(),
    };
    anyhow::bail!("no task {} in run {}; {hint}", shown(name), folder.run)
}

/// TASK as the user typed it.
pub fn task_name(word: &OsStr) -> Text {
    Text(word.as_bytes().to_vec())
}
