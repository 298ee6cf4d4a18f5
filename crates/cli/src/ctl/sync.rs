//! `rakudactl sync`: runs a program on all workers at once, round by round, and says how far apart they began
//! (docs/design/synchronised-start.md). It starts `rakuda`, reads what the run has recorded, and prints; figures are
//! computed in `rakuda_record::sync` and shown by `rakuda_record::report::sync`.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context as _;
use clap::Args;
use rakuda_agent::processes::Ending;
use rakuda_agent::signals;
use rakuda_record::Run;
use rakuda_record::report::{plot, sync as report};
use rakuda_record::sync::SyncFigures;
use serde_json::json;

use super::base_folder::BaseFolder;
use super::run_below::{self, Ended};
use super::{Status, why};

/// Names a run on its command line, so that it is found again.
const CALL: &str = "RAKUDA_SYNC_CALL";
/// Runs a program on all workers at the same instant, for each parameter, and measures how far apart they begin.
#[derive(Args)]
#[command(
    after_help = "CONF is a Ruby file:\n    WORKER_COUNT = 8\n    TASK_FILE = \"./command\"\n    \
    PARAMETER_ARRAY = [\"4k\", \"8k\", \"16k\"]\n    ARGUMENTS = \"-i 10 -d /tmp/work/%w\"\n\n\
    Variables of the environment of the same names hold instead of it, or without it. %w in ARGUMENTS is the worker's \
    number, %p the parameter, which comes last where no %p stands.\n\n\
    Example: ten rounds for each parameter, with 1, 2 and 4 workers\n    rakudactl sync -j 4 --rounds 10 --workers 1,2,4 conf.rb\n\n\
    Exit status: 0 all rounds went well, 1 not, or rakuda has refused CONF or the value of an option, 2 \
    rakudactl has refused the command line (an unknown option, no number)."
)]
pub struct Sync {
    /// The configuration.
    #[arg(value_name = "CONF")]
    configuration: Option<OsString>,

    /// Run it with these numbers of workers in turn instead of WORKER_COUNT.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    workers: Vec<u32>,

    /// Slots: how many workers there may be.
    #[arg(short = 'j', long = "jobs", value_name = "N")]
    jobs: Option<u32>,

    /// Rounds with each parameter.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,

    /// Rounds before those, which do not count.
    #[arg(long, value_name = "N")]
    warm_up: Option<u32>,

    /// Repeat a round with a worker that was late up to N times; all are listed.
    #[arg(long, value_name = "N")]
    repeat_late: Option<u32>,

    /// What holds workers: auto, preload, exec, call (the program's own), none.
    #[arg(long, value_name = "GATE")]
    gate: Option<String>,

    /// Stop all workers this long after they begin.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    stop_after: Option<f64>,

    /// Give up a round when a worker is not at its gate this long after it was started (60).
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    ready_within: Option<f64>,

    /// Worker N begins N times this long after the first; with several values, each this long after the instant.
    #[arg(
        long,
        value_name = "SECONDS,...",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    offset: Vec<f64>,

    /// Have the files out of each worker's page cache before it waits (cold), or in it (warm); needs --files.
    #[arg(long, value_name = "HOW", requires = "files", value_parser = ["cold", "warm"])]
    cache: Option<String>,

    /// The files for --cache: `data.%w` is that of each worker, `%p` its parameter.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', requires = "cache")]
    files: Vec<String>,

    /// Collect a figure that the programs print: what the group of the pattern matches last; `json`: all numbers of
    /// the last line that is a JSON object.
    #[arg(long, value_name = "NAME=REGEX")]
    collect: Vec<String>,

    /// Measure N times what starting and ending programs that do nothing takes (1).
    #[arg(long, value_name = "N")]
    overhead: Option<u32>,

    /// Do not measure it.
    #[arg(long, conflicts_with = "overhead")]
    no_overhead: bool,

    /// Let workers share slots where there are fewer; such rounds are marked.
    #[arg(long)]
    oversubscribe: bool,

    /// End with one JSON object; what the programs print goes to stderr.
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// End with a table of all rounds in CSV; what the programs print goes to stderr.
    #[arg(long)]
    csv: bool,

    /// Write plots of all rounds into DIR as SVG pictures: start lags, by round and by number of workers, and clocks.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Further options for rakuda.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

impl Sync {
    /// Runs all, and prints what came of it.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let directory = base.directory();
        anyhow::ensure!(directory.is_dir(), "{}: no such folder", directory.display());
        // A folder that cannot be written into is reported before the rounds, not after them.
        self.svg.as_ref().map(|folder| super::report::make_folder(base, folder)).transpose()?;
        let mut figures = SyncFigures::default();
        let mut all_well = true;
        let mut ended_by = None;
        let counts: Vec<Option<u32>> = match self.workers.as_slice() {
            [] => vec![None],
            counts => counts.iter().copied().map(Some).collect(),
        };
        for (number, workers) in counts.into_iter().enumerate() {
            // What this program has printed comes before what the next one prints.
            out.flush()?;
            let call = format!("{}-{number}", std::process::id());
            let Ended { ending, signal } = self.start(base, workers, &call)?;
            all_well &= ending == Ending::Exited(0);
            if let Some(run) = run_of(base, &call)? {
                figures.add_run(&run);
            }
            ended_by = signal;
            if signal.is_some() {
                break;
            }
        }
        // Without rounds, stderr has the reason, or none were asked for (-P, -n, -T).
        if !figures.rounds().is_empty() {
            self.show(base, &figures, out)?;
        }
        if let Some(signal) = ended_by {
            out.flush()?;
            signals::die_of(signal);
        }
        Ok(if all_well { Status::Good } else { Status::Failed })
    }

    fn show(
        &self,
        base: &BaseFolder,
        figures: &SyncFigures,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, &report::document(figures))?;
            writeln!(out)?;
        } else if self.csv {
            out.write_all(report::csv(figures).as_bytes())?;
        } else {
            write!(out, "\n{}", report::text(figures))?;
        }
        if let Some(folder) = &self.svg {
            // What is for programs stays as it is.
            let mut named = Vec::new();
            super::report::write_pictures(base, folder, plot::round_pictures(figures), &mut named)?;
            if !self.json && !self.csv {
                out.write_all(&named)?;
            }
        }
        Ok(())
    }

    /// Runs rakuda; how that has ended.
    fn start(&self, base: &BaseFolder, workers: Option<u32>, call: &str) -> anyhow::Result<Ended> {
        let front = why::front();
        #[expect(
            clippy::disallowed_methods,
            reason = "this starts a run, which has an engine of its own"
        )]
        let mut command = std::process::Command::new(&front);
        command.current_dir(base.directory());
        command.args(["-r", "rakuda/sync_main", "-f", "/dev/null", "-q"]);
        if let Some(jobs) = self.jobs {
            command.arg("-j").arg(jobs.to_string());
        }
        if self.oversubscribe {
            command.arg("--oversubscribe");
        }
        command.args(&self.options).arg(format!("{CALL}={call}")).arg("sync");
        let options = json!({
            "workers": workers,
            "workers_most": self.workers.iter().max(),
            "rounds": self.rounds,
            "warm_up": self.warm_up,
            "repeat_late": self.repeat_late,
            "gate": self.gate,
            "stop_after": self.stop_after,
            "ready_within": self.ready_within,
            "offset": match self.offset.as_slice() {
                [] => None,
                [step] => Some(json!(step)),
                each => Some(json!(each)),
            },
            "overhead": if self.no_overhead { Some(0) } else { self.overhead },
            "collect": (!self.collect.is_empty()).then_some(&self.collect),
            "cache": self.cache,
            "call": own_call(),
            "files": self.cache.as_ref().map(|_| &self.files),
        });
        command.env("RAKUDA_SYNC_OPTIONS", options.to_string());
        command.env("RAKUDA_SYNC_CONFIGURATION", self.configuration.clone().unwrap_or_default());
        if self.json || self.csv {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            command.stdout(Stdio::from(stderr.context("duplicate stderr")?));
        }
        run_below::run(&mut command)
    }
}

/// A finite number. The code that knows its meaning refuses one that is too small.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "expected seconds, such as 0.5".to_owned())
}

/// The words that have started this program, for those who want to do so again.
fn own_call() -> Vec<String> {
    let words = std::env::args_os().skip(1).skip_while(|word| word == "ctl");
    let words = words.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("rakudactl".to_owned()).chain(words).collect()
}

/// The run with that word on its command line. `None`: it recorded none.
fn run_of(base: &BaseFolder, call: &str) -> anyhow::Result<Option<Run>> {
    let word = format!("{CALL}={call}");
    let Ok(records) = base.records() else { return Ok(None) };
    let mut folders = records.folders()?;
    folders.sort_by(|one, other| other.run.cmp(&one.run));
    for folder in folders {
        let Ok(run) = folder.read() else { continue };
        if run.started.command_line.iter().any(|one| one.0 == word.as_bytes()) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}
