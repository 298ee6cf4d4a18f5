//! `rakudactl export`: a run in a format of others. Here are its words, and how a file comes into
//! being: under another name first, so that nobody ever reads half of one. What the formats are is
//! found in crates/record.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rakuda_record::Run;
use rakuda_record::export::{
    ExportError, code_quality, dot, junit, perfetto, remove_abandoned, ro_crate, unfinished_name,
    wfformat,
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

use super::base_folder::BaseFolder;
use super::report::{read_as_it_is, read_tails};
use super::which_run::RunOption;
use super::{Status, UsageError};

/// Writes a run in a format that other programs read.
#[derive(Args)]
#[command(after_help = "Examples:\n    \
    rakudactl export wfformat -o run.json          WfCommons WfFormat 1.6: simulators, workflow generators\n    \
    rakudactl export ro-crate -o crate             a folder to publish beside the data: how it was made\n    \
    rakudactl export perfetto -o run.pftrace       open it in ui.perfetto.dev: what ran when, on which core\n    \
    rakudactl export dot | dot -Tsvg > a.svg       the graph of tasks\n    \
    rakudactl export dot --of rules -o rules.dot   the graph of rules, small also for large runs\n    \
    rakudactl export junit -o junit.xml            tasks as test cases, for continuous integration\n    \
    rakudactl export code-quality -o quality.json  failed tasks by file and line, for merge requests in GitLab\n\n\
    A file that exists is replaced when the new one is complete; a crate's folder must not exist. What each form holds stands in \
    docs/reference/exports.md.")]
pub struct Export {
    /// What to write.
    #[arg(value_name = "FORMAT")]
    format: Format,

    /// The run.
    #[arg(value_name = "RUN", default_value = "last")]
    run: String,

    #[command(flatten)]
    run_option: RunOption,

    /// Write to FILE; `-` is the standard output, where wfformat, dot, junit and code-quality go without it. perfetto
    /// needs a file or `-`, ro-crate the name of a new folder.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,

    /// dot: what the nodes are.
    #[arg(long, value_name = "WHAT")]
    of: Option<Of>,

    /// ro-crate: the license of the crate, a URL or a few words; without it the crate says that none was stated.
    #[arg(long, value_name = "LICENSE")]
    license: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Wfformat,
    RoCrate,
    Perfetto,
    Dot,
    Junit,
    CodeQuality,
}

#[derive(Clone, Copy, ValueEnum)]
enum Of {
    Tasks,
    Rules,
}

impl Export {
    /// Writes the file or folder.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        self.check_words()?;
        let output = self.output()?;
        let (_, run) = read_as_it_is(base, self.run())?;
        if self.format == Format::RoCrate {
            let folder = base.run_folder(self.run())?;
            let sources = ro_crate::Sources {
                journal: &folder.journal,
                directory: &folder.project(),
                license: self.license.as_deref(),
                made_ns: rakuda_agent::clock::wall_ns(),
            };
            let done = ro_crate::write(&run, &sources, output);
            return done.map(|()| Status::Good).map_err(|error| explained(error.into(), output));
        }
        let tails = self.tails(base, &run)?;
        if output == Path::new("-") {
            self.write(&run, &tails, out)?;
        } else {
            replace(output, |file| self.write(&run, &tails, file))
                .map_err(|error| explained(error, output))?;
        }
        Ok(Status::Good)
    }

    fn run(&self) -> &str {
        self.run_option.instead_of(&self.run)
    }

    /// Where it goes. Text may go to the standard output by itself; a trace is bytes, which no terminal shows.
    fn output(&self) -> Result<&Path, UsageError> {
        match (self.output.as_deref(), self.format) {
            (Some(output), Format::RoCrate) if output == Path::new("-") => {
                Err(UsageError("a crate is a folder: name one with -o".into()))
            }
            (None, Format::RoCrate) => {
                Err(UsageError("a crate is a folder: name a new one with -o, as in -o crate".into()))
            }
            (None, Format::Perfetto) => Err(UsageError(
                "a trace of perfetto is no text: name a file with -o, as in -o run.pftrace (-o - is the standard output)"
                    .into(),
            )),
            (Some(output), _) => Ok(output),
            (None, Format::Wfformat | Format::Dot | Format::Junit | Format::CodeQuality) => Ok(Path::new("-")),
        }
    }

    fn check_words(&self) -> Result<(), UsageError> {
        let usage = |text: &str| Err(UsageError(text.into()));
        if self.of.is_some() && self.format != Format::Dot {
            return usage("--of is for the format dot alone");
        }
        if self.license.is_some() && self.format != Format::RoCrate {
            return usage("--license is for the format ro-crate alone");
        }
        Ok(())
    }

    /// What failed tasks printed, where the format tells it.
    fn tails(&self, base: &BaseFolder, run: &Run) -> anyhow::Result<BTreeMap<u32, String>> {
        if self.format != Format::Junit {
            return Ok(BTreeMap::new());
        }
        Ok(read_tails(&base.run_folder(self.run())?, &junit::failed(run)))
    }

    fn write(
        &self,
        run: &Run,
        tails: &BTreeMap<u32, String>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Junit => junit::write(run, tails, out)?,
            Format::CodeQuality => code_quality::write(run, &repository(run), out)?,
            Format::Wfformat => wfformat::write(run, out).map_err(unwrapped)?,
            Format::Perfetto => perfetto::write(run, out)?,
            Format::Dot => draw(run, self.of.unwrap_or(Of::Tasks), out)?,
            Format::RoCrate => unreachable!("a crate is a folder, and was written before"),
        }
        Ok(())
    }
}

/// The folder of the repository in which a run was, else the folder of the run.
fn repository(run: &Run) -> PathBuf {
    let directory = PathBuf::from(run.started.directory.to_display());
    let top = directory.ancestors().find(|folder| folder.join(".git").exists());
    top.unwrap_or(&directory).to_owned()
}

/// Errors of writing do not say which file; the others are about the run.
fn explained(error: anyhow::Error, output: &Path) -> anyhow::Error {
    match error.downcast_ref::<ExportError>() {
        None | Some(ExportError::Write(_)) => {
            error.context(format!("cannot write {}", output.display()))
        }
        Some(_) => error,
    }
}

/// The error of writing itself, which tells whether the reader is gone.
fn unwrapped(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Write(error) => error.into(),
        error => error.into(),
    }
}

fn draw(run: &Run, of: Of, out: &mut dyn Write) -> io::Result<()> {
    let of = match of {
        Of::Tasks => dot::Of::Tasks,
        Of::Rules => dot::Of::Rules,
    };
    let nodes = dot::write(run, of, out)?;
    if of == dot::Of::Tasks && nodes > dot::TASKS_ADVISED {
        crate::complain(&format!(
            "rakudactl: a graph of {nodes} nodes takes dot very long and nobody can read it; --of rules draws rules instead of tasks\n"
        ));
    }
    Ok(())
}

/// Writes a file under another name in the same folder, then gives it its name.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if !is_plain(path) {
        // Devices and pipes are written as they are: renaming would replace them.
        return write(&mut File::options().write(true).open(path)?);
    }
    remove_abandoned(path);
    let unfinished = unfinished_name(path);
    // Where the file system can do so, it has no name yet: then nothing is left of it, however this ends.
    let unnamed = unnamed_beside(path);
    let is_named = unnamed.is_none();
    let file = unnamed.map_or_else(|| File::create_new(&unfinished), Ok);
    let result = file.map_err(anyhow::Error::from).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        if !is_named {
            let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, descriptor, CWD, &unfinished, AtFlags::SYMLINK_FOLLOW)?;
        }
        Ok(fs::rename(&unfinished, path)?)
    });
    if result.is_err() {
        // The first error counts; a file that was never made cannot be removed.
        drop(fs::remove_file(&unfinished));
    }
    result
}

/// A file in the folder of `path`. `None`: it cannot be made without a name.
fn unnamed_beside(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    open(folder.unwrap_or(Path::new(".")), flags, mode).ok().map(File::from)
}

/// True when a file may be put there: nothing is, or a file.
fn is_plain(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.is_file() || metadata.is_dir())
}
