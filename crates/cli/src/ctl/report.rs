//! `rakudactl report`: what a run was like. It reads the run and what its failed tasks printed,
//! asks crates/record for the report, and puts it where it is wanted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;
use rakuda_agent::clock;
use rakuda_record::Run;
use rakuda_record::folder::RunFolder;
use rakuda_record::regular::open_regular;
use rakuda_record::report::{Report as Shown, compare, csv, html, json, plot, sync, tails, text};
use rakuda_record::summary::Summary;
use rustix::fs::Access;

use super::base_folder::BaseFolder;
use super::which_run::RunOption;
use super::{Status, live};

/// What turns SVG into PNG.
const CONVERTER: &str = "rsvg-convert";

/// Shows what a run was like: makespan, use of cores, rules, critical path, failures.
///
/// Without one of --text, --json, --csv, --svg, --png it writes a page, one file without any
/// reference to others, into the run's folder.
#[derive(Args)]
#[command(
    after_help = "Examples: a page for the browser; the last run on the terminal; what a change brought\n    \
    rakudactl report\n    rakudactl report --text\n    rakudactl report 20261121-2305 --compare last --text\n\n\
    docs/reference/report.md defines every figure."
)]
pub struct Report {
    /// Which run.
    #[arg(value_name = "RUN", default_value = "last")]
    run: String,

    #[command(flatten)]
    run_option: RunOption,

    /// Show RUN and RUN2 beside each other.
    #[arg(long, value_name = "RUN2", conflicts_with_all = ["csv", "svg", "png"])]
    compare: Option<String>,

    /// Print the report for a terminal.
    #[arg(long, conflicts_with = "json")]
    text: bool,

    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,

    /// Write Pwrake's tables task.csv and command.csv into DIR.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,

    /// Write each plot as an SVG picture into DIR.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Write each plot as a PNG picture into DIR; needs rsvg-convert.
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,

    /// Write to FILE instead; `-` is standard output.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A run with its figures.
pub(super) struct Read {
    run: Run,
    summary: Summary,
    tails: BTreeMap<u32, String>,
    folder: RunFolder,
}

impl Read {
    pub(super) fn of(base: &BaseFolder, name: &str) -> anyhow::Result<Self> {
        let (folder, run) = read_as_it_is(base, name)?;
        let summary = Summary::of(&run);
        let tails = read_tails(&folder, &summary.failed);
        Ok(Self { run, summary, tails, folder })
    }

    pub(super) fn shown(&self) -> Shown<'_> {
        Shown { run: &self.run, summary: &self.summary, tails: &self.tails }
    }
}

/// A run as its journal has it, up to now if it goes on.
pub(super) fn read_as_it_is(base: &BaseFolder, name: &str) -> anyhow::Result<(RunFolder, Run)> {
    let folder = base.run_folder(name)?;
    // First whether it lives, then the journal: a run may end in between, but it does not come back.
    let alive = folder.is_running();
    let mut run = base.read_run(name)?;
    if alive {
        // Only the hub knows what has passed: the clock may have been set. Where it is on
        // another machine, what it has noted is known.
        let now_ns = live::journal_ns(base, &folder.run);
        let by_wall = || clock::wall_ns().saturating_sub(run.clock_ahead_ns);
        run.seen_alive(now_ns.unwrap_or_else(by_wall));
    }
    Ok((folder, run))
}

/// What failed tasks printed. A run without a log has none. A log that cannot be read is worth a word, and no more.
pub(super) fn read_tails(folder: &RunFolder, failed: &[u32]) -> BTreeMap<u32, String> {
    let path = folder.output();
    if failed.is_empty() || !path.exists() {
        return BTreeMap::new();
    }
    let read = open_regular(&path).and_then(|log| tails::tails(BufReader::new(log), failed));
    read.unwrap_or_else(|error| {
        crate::complain(&format!("rakudactl: {}: {error}\n", path.display()));
        BTreeMap::new()
    })
}

impl Report {
    /// Writes what is asked for.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let read = Read::of(base, self.run_option.instead_of(&self.run))?;
        let shown = read.shown();
        if let Some(second) = &self.compare {
            let second = Read::of(base, second)?;
            let comparison = compare::Comparison::of(shown, second.shown());
            let page = || html::compare(&comparison);
            let text = || compare::text(&comparison);
            let name = format!("compare-{}.html", read.run.started.run);
            let default = second.folder.path.join(name);
            self.write(base, &default, out, &page, &text, &|| compare::json(&comparison))?;
            return Ok(Status::Good);
        }
        self.write_files(base, &shown, out)?;
        let only_files = self.csv.is_some() || self.svg.is_some() || self.png.is_some();
        if !only_files || self.text || self.json || self.output.is_some() {
            let page = || html::page(&shown);
            let text = || text::text(&shown);
            let default = read.folder.path.join("report.html");
            self.write(base, &default, out, &page, &text, &|| json::summary(&shown))?;
        }
        Ok(Status::Good)
    }

    /// The one document that is asked for. By default text and JSON go to standard output, a page to `default`.
    fn write(
        &self,
        base: &BaseFolder,
        default: &Path,
        out: &mut dyn Write,
        page: &dyn Fn() -> String,
        text: &dyn Fn() -> String,
        json: &dyn Fn() -> serde_json::Value,
    ) -> anyhow::Result<()> {
        let (document, page) = match (self.text, self.json) {
            (true, _) => (text(), false),
            (_, true) => (format!("{}\n", json()), false),
            _ => (page(), true),
        };
        let path = match &self.output {
            Some(path) if path.as_os_str() == "-" => None,
            Some(path) => Some(base.directory().join(path)),
            None => page.then(|| default.to_path_buf()),
        };
        match path {
            None => out.write_all(document.as_bytes())?,
            Some(path) => {
                write_file(&path, document.as_bytes()).map_err(|error| match &self.output {
                    Some(_) => error,
                    None => anyhow::anyhow!("{error:#}; -o FILE writes it elsewhere"),
                })?;
                writeln!(out, "{}", path.display())?;
            }
        }
        Ok(())
    }

    fn write_files(
        &self,
        base: &BaseFolder,
        shown: &Shown,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if let Some(folder) = &self.csv {
            let folder = make_folder(base, folder)?;
            write_table(&folder.join("task.csv"), out, |file| csv::tasks(shown, file))?;
            write_table(&folder.join("command.csv"), out, |file| csv::commands(shown, file))?;
        }
        if let Some(folder) = &self.svg {
            write_pictures(base, folder, pictures(shown), out)?;
        }
        if let Some(folder) = &self.png {
            let folder = make_folder(base, folder)?;
            for (name, picture) in pictures(shown) {
                let path = folder.join(format!("{name}.png"));
                convert(&picture, &path)?;
                writeln!(out, "{}", path.display())?;
            }
        }
        Ok(())
    }
}

/// Every plot with its name.
fn pictures(shown: &Shown) -> Vec<(&'static str, String)> {
    let mut pictures = vec![
        ("running", plot::running(shown, true)),
        ("gantt", plot::gantt(shown)),
        ("rules", plot::rules(shown)),
    ];
    let rounds = sync::figures_of(shown.run);
    pictures.extend(rounds.iter().flat_map(plot::round_pictures));
    pictures
}

/// Writes pictures into a folder, and names them.
pub(super) fn write_pictures(
    base: &BaseFolder,
    folder: &Path,
    pictures: Vec<(&'static str, String)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let folder = make_folder(base, folder)?;
    for (name, picture) in pictures {
        let path = folder.join(format!("{name}.svg"));
        write_file(&path, picture.as_bytes())?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

/// A folder that files can be written into.
pub(super) fn make_folder(base: &BaseFolder, folder: &Path) -> anyhow::Result<PathBuf> {
    let folder = base.directory().join(folder);
    let made = fs::create_dir_all(&folder);
    let is_writable = || Ok(rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK)?);
    let failed = || format!("{}: make a folder that can be written into", folder.display());
    made.and_then(|()| is_writable()).with_context(failed)?;
    Ok(folder)
}

/// Through a second name, so that a page that was there is whole until the new one is.
fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if special {
        return fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()));
    }
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn write_table(
    path: &Path,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut file = BufWriter::new(file);
    write(&mut file).and_then(|()| file.flush()).with_context(|| path.display().to_string())?;
    writeln!(out, "{}", path.display())?;
    Ok(())
}

/// Gives an SVG to the converter.
#[allow(
    clippy::disallowed_methods,
    reason = "a converter for people, no task: the agent has nothing to watch over"
)]
fn convert(picture: &str, path: &Path) -> anyhow::Result<()> {
    let child = Command::new(CONVERTER)
        .args(["--zoom", "2", "--unlimited", "--output"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!(
            "--png needs {CONVERTER}, which is not in PATH: install the package librsvg2-bin, or use --svg"
        ),
        _ => anyhow::Error::new(error).context(CONVERTER),
    })?;
    // What it does not read it says on its standard error.
    let fed = child.stdin.take().map(|mut input| input.write_all(picture.as_bytes()));
    let output = child.wait_with_output().context(CONVERTER)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("{CONVERTER}: {}", said.lines().next().unwrap_or("failed"));
    }
    fed.unwrap_or(Ok(())).context(CONVERTER)
}
