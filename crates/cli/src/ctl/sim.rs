//! `rakudactl sim`: a workflow in virtual time, under each policy. The words of the command line,
//! and how results are printed; everything else is in crates/sim.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use rakuda_sim::{
    CellResult, Cluster, Experiment, FileSystem, Log, MIB, Policy, SECOND_NS, Settings, Simulation,
    Workload, curves_svg, running_tasks, scaling_svg, workloads,
};
use serde::Serialize;

use rakuda_agent::clock::monotonic_ns;
use rakuda_record::folder::FolderError;
use rakuda_sim::faults::{Failure, Finish, check_seed, run_seed};
use rakuda_sim::workloads::RecordedTimes;

use super::base_folder::BaseFolder;
use super::seeds;
use super::sim_sizes::Sizes;
use super::{Status, UsageError};

/// Maximum number of nodes. This and the limits below are far above what is of use, and low enough that nothing
/// overflows.
const NODES_MAX: i64 = 100_000;
/// Maximum cores of a node.
const CORES_MAX: i64 = 65_536;
/// Maximum seed.
const SEED_MAX: u64 = 1 << 62;
/// Maximum bandwidth of a link or the switch, MiB/s.
const BANDWIDTH_MIB_MAX: u64 = 1 << 20;
/// Maximum percentage of the workload's computing times.
const COMPUTE_PERCENT_MAX: u64 = 1_000_000;
/// Maximum number of tasks of `layers`.
const TASKS_MAX: i64 = 20_000_000;
/// Maximum time between two points of the curve, s.
const CURVE_S_MAX: u64 = 1 << 30;

/// Where the log of a seed of `faults` goes.
static LOG: Mutex<Option<std::fs::File>> = Mutex::new(None);

/// Runs a workflow in virtual time, on a cluster of any size, under each policy.
#[derive(Args)]
#[command(
    after_help = "Examples: the paper's mosaic under every policy; how it scales; a workflow of WfCommons\n    \
    rakudactl sim montage --policy fifo,lifo,lifo_hrf,rank_hrf,cached,lifo_hlfet --locality on,off --repeat 5\n    \
    rakudactl sim montage --nodes 1,2,3,4,6,8,12 --plot scaling.svg\n    \
    rakudactl sim epigenomics.json --nodes 4 --cores 16\n\n\
    The model is described in docs/design/simulator.md."
)]
pub struct Sim {
    /// `faults` (small workflows in which things die, one for each seed), `copyfile`, `montage`,
    /// `layers`, a file of WfCommons (WfFormat, `.json`), or RUN, a recorded run: its name, `last`,
    /// or the path of its folder or journal.
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// Numbers of nodes, each tried [default: 12; copyfile: 10; a run: as it had].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: Vec<u32>,

    /// Cores of a node [default: 8; copyfile: 1; a run: as it had].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CORES_MAX))]
    cores: Option<u32>,

    /// Policies, each tried.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "lifo_hrf", value_parser = policies())]
    policy: Vec<Policy>,

    /// Whether tasks are queued at the nodes that hold their input; each tried.
    #[arg(long, value_name = "on|off", value_delimiter = ',', default_value = "on")]
    locality: Vec<Switch>,

    /// Whether idle nodes take tasks from others; each tried.
    #[arg(long, value_name = "on|off", value_delimiter = ',', default_value = "on")]
    steal: Vec<Switch>,

    /// Seed of all that is random.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,

    /// Run each K times, with the seeds that follow.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Where files lie.
    #[arg(long, value_name = "KIND", default_value = "gfarm")]
    file_system: FileSystemName,

    /// Bandwidth of each node's link, MiB/s [default: that of 1 Gbit/s].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=BANDWIDTH_MIB_MAX))]
    link: Option<u64>,

    /// Bandwidth of the switch that all share, MiB/s [default: no limit].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=BANDWIDTH_MIB_MAX))]
    switch: Option<u64>,

    /// Percent of a disk's speed that is left while several transfers use it.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    disk_efficiency: u64,

    /// The scheduler knows beforehand how long each task takes, as after an earlier run;
    /// `lifo_hlfet` goes by it.
    #[arg(long)]
    known_times: bool,

    /// Writes go to memory first.
    #[arg(long)]
    write_back: bool,

    /// Percent of the workload's computing times.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=COMPUTE_PERCENT_MAX))]
    compute: u64,

    /// A task of `copyfile` reads and writes at the same time.
    #[arg(long)]
    overlapped: bool,

    #[command(flatten)]
    sizes: Sizes,

    /// Number of tasks of `layers`.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=TASKS_MAX))]
    tasks: u32,

    /// Print one JSON object a line for each combination.
    #[arg(long)]
    json: bool,

    /// With `--json`: also how many tasks of each program ran every S seconds of the first run.
    #[arg(long, value_name = "S", requires = "json", value_parser = clap::value_parser!(u64).range(1..=CURVE_S_MAX))]
    curve: Option<u64>,

    /// Draw running tasks by program, or with several numbers of nodes how the time falls, into FILE (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Measure the first run of the first combination instead: processor time of the simulator and
    /// of the scheduler in it, and memory.
    #[arg(long, conflicts_with_all = ["json", "plot", "log"])]
    measure: bool,

    /// In a recorded run, tasks compute as long as their commands used the processor, and read and
    /// write as the model says.
    #[arg(long)]
    io: bool,

    /// Write what happened in the first run of the first combination into FILE.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Write the workflow into FILE in WfFormat, with the computing times of this seed, and run nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "plot", "log", "measure"])]
    save: Option<PathBuf>,
}

/// What `--json` prints for one combination.
#[derive(Serialize)]
struct CellLine<'a> {
    #[serde(flatten)]
    result: &'a CellResult,
    /// For each program how many of its tasks ran, with `--curve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<BTreeMap<String, Vec<u32>>>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum FileSystemName {
    Gfarm,
    Nfs,
    Local,
}

/// Takes the name of a policy, and offers all of them.
/// Runs a seed, each line of its log going to the file as soon as it is noted.
fn check_logged(seed: u64) -> Result<Finish, String> {
    let log = Log::told(|line| {
        if let Some(file) = &mut *LOG.lock().unwrap_or_else(PoisonError::into_inner) {
            file.write_all(line.as_bytes()).expect("the log can be written");
        }
    });
    let run = run_seed(seed, log);
    run.failure.map_or(Ok(Finish { counts: run.counts, twice: false }), Err)
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name))
        .map(|name| Policy::named(&name).expect("only names of policies are possible"))
}

impl Sim {
    /// Runs all combinations and prints what came out.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        if self.workload == "faults" {
            return self.faults(base, out);
        }
        let (workload, usual) = self.workload(base)?;
        if let Some(path) = &self.save {
            let text = workloads::to_wfformat(&workload, self.seed)
                .with_context(|| self.workload.clone())?;
            write_file(base, path, &text)?;
            return Ok(Status::Good);
        }
        let experiment = self.experiment(usual);
        if self.measure {
            return measure(&workload, &experiment, out);
        }
        let mut results = Vec::new();
        if !self.json {
            writeln!(
                out,
                "{}: {} tasks, {} files",
                workload.name,
                workload.tasks.len(),
                workload.files.len()
            )?;
            heading(out)?;
        }
        for cell in experiment.cells() {
            let result = experiment.run(&workload, cell).with_context(|| self.workload.clone())?;
            if self.json {
                let step_ns = self.curve.map(|seconds| seconds * SECOND_NS);
                let running =
                    step_ns.map(|step_ns| running_tasks(&workload, &result.outcome, step_ns));
                serde_json::to_writer(&mut *out, &CellLine { result: &result, running })?;
                writeln!(out)?;
            } else {
                print(&result, out)?;
            }
            out.flush()?;
            results.push(result);
        }
        if let Some(path) = &self.plot {
            let scaling = experiment.nodes.len() > 1;
            let svg = if scaling { scaling_svg(&results) } else { curves_svg(&workload, &results) };
            write_file(base, path, &svg)?;
        }
        if let Some(path) = &self.log {
            write_log(base, path, &workload, &experiment)?;
        }
        let well = results.iter().all(|result| result.outcome.is_well());
        Ok(if well { Status::Good } else { Status::Failed })
    }

    /// Runs seeds in which things die.
    fn faults(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        if let Some(path) = &self.log {
            let path = base.directory().join(path);
            let file = std::fs::File::create(&path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
            // Whether it fails, the seeds below tell once more.
            seeds::run(self.seed..self.seed + 1, check_logged)?;
        }
        let result = seeds::run(self.seed..self.seed + u64::from(self.repeat), check_seed)?;
        for (what, count) in &result.counts {
            writeln!(out, "{count:>9} {what}")?;
        }
        let (finished, twice) = (result.finished, result.twice);
        writeln!(out, "{finished:>9} seeds finished, {twice} of them twice with equal logs")?;
        for Failure { seed, reason } in &result.failures {
            let again = format!("rakudactl sim faults --seed {seed} --log FILE");
            writeln!(out, "seed {seed} failed: {reason}\n    {again}")?;
        }
        if !result.failures.is_empty() {
            writeln!(out, "{:>9} seeds failed", result.failures.len())?;
        }
        Ok(if result.failures.is_empty() { Status::Good } else { Status::Failed })
    }

    /// The workload, and the nodes and cores that it usually runs on.
    fn workload(&self, base: &BaseFolder) -> anyhow::Result<(Workload, (u32, u32))> {
        let usual = (12, 8);
        match self.workload.as_str() {
            "copyfile" => Ok((self.sizes.copyfile(self.overlapped), (10, 1))),
            "montage" => Ok((workloads::montage(), usual)),
            "layers" => Ok((workloads::layers(self.tasks as usize, self.seed), usual)),
            path if Path::new(path).extension().is_some_and(|end| end == "json") => {
                Ok((read_instance(&base.directory().join(path))?, usual))
            }
            run => {
                let run = base.read_run(run).map_err(|error| match error {
                    FolderError::NoRecords(_)
                    | FolderError::NoRuns(_)
                    | FolderError::NoSuchRun { .. } => anyhow::Error::new(error).context(format!(
                        "{run} is no workload (copyfile, montage, layers, faults, a workflow FILE.json) and no run"
                    )),
                    error => error.into(),
                })?;
                let times = if self.io { RecordedTimes::Processor } else { RecordedTimes::Wall };
                let cores = run.nodes.first().map_or(1, |node| node.joined.cores);
                let nodes = u32::try_from(run.nodes.len()).unwrap_or(u32::MAX).max(1);
                Ok((workloads::recorded(&run, times)?, (nodes, cores)))
            }
        }
    }

    fn experiment(&self, usual: (u32, u32)) -> Experiment {
        let (nodes, cores) = usual;
        let usual = Cluster::default();
        let cluster = Cluster {
            cores: self.cores.unwrap_or(cores).max(1),
            memory_bytes: self.sizes.memory_bytes(),
            system_bytes: self.sizes.system_bytes(),
            rates: self.sizes.rates(),
            duplex_disks: self.sizes.duplex_disks(),
            file_system: match self.file_system {
                FileSystemName::Gfarm => FileSystem::Gfarm,
                FileSystemName::Nfs => FileSystem::Nfs,
                FileSystemName::Local => FileSystem::Local,
            },
            link: self.link.map_or(usual.link, |link| link.max(1) * MIB),
            switch: self.switch.map(|switch| switch.max(1) * MIB),
            disk_percent: self.disk_efficiency,
            write_back: self.write_back,
            compute_percent: self.compute,
            ..usual
        };
        let on = |switches: &[Switch]| switches.iter().map(|s| matches!(s, Switch::On)).collect();
        let nodes = if self.nodes.is_empty() { vec![nodes] } else { self.nodes.clone() };
        Experiment {
            base: Settings {
                cluster,
                seed: self.seed,
                known_times: self.known_times,
                ..Settings::default()
            },
            nodes: nodes.into_iter().map(|nodes| nodes.max(1)).collect(),
            policies: self.policy.clone(),
            locality: on(&self.locality),
            stealing: on(&self.steal),
            repeat: self.repeat,
        }
    }
}

/// Runs the first run of the first combination once more, for its log.
fn write_log(
    base: &BaseFolder,
    path: &Path,
    workload: &Workload,
    experiment: &Experiment,
) -> anyhow::Result<()> {
    let Some(cell) = experiment.cells().first().copied() else {
        return Ok(());
    };
    let settings = experiment.settings(cell);
    let (_, log) = Simulation::new(workload, settings, Log::kept())?.run();
    write_file(base, path, log.text().unwrap_or_default())
}

fn read_instance(path: &Path) -> anyhow::Result<Workload> {
    let text = std::fs::read(path)
        .map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let workload = workloads::wfformat(&name, &text);
    workload.with_context(|| format!("{}: not a workflow in WfFormat", path.display()))
}

/// Runs once and prints what that took. Processor time, because other programs slow this one down;
/// the scheduler's part of it is its part of the time that went by.
fn measure(
    workload: &Workload,
    experiment: &Experiment,
    out: &mut dyn Write,
) -> anyhow::Result<Status> {
    let Some(cell) = experiment.cells().first().copied() else {
        return Ok(Status::Good);
    };
    let begun_ns = processor_ns()?;
    let mut simulation = Simulation::new(workload, experiment.settings(cell), Log::off())?;
    let (defined_ns, before_ns) = (processor_ns()?, monotonic_ns());
    simulation.measure(monotonic_ns);
    let (outcome, _) = simulation.run();
    let (ended_ns, passed_ns) = (processor_ns()?, (monotonic_ns() - before_ns).max(1));
    let tasks = workload.tasks.len() as u64;
    let each = |ns: u64| format!("{} ns a task", ns / tasks.max(1));
    let run_ns = ended_ns - defined_ns;
    let scheduler_ns =
        u128::from(run_ns) * u128::from(outcome.scheduler_ns) / u128::from(passed_ns);
    let Cluster { cores, .. } = experiment.base.cluster;
    writeln!(out, "{tasks} tasks on {} nodes of {cores} cores, {}", cell.nodes, workload.name)?;
    writeln!(out, "define     {}", each(defined_ns - begun_ns))?;
    writeln!(out, "run        {}", each(run_ns))?;
    writeln!(out, "scheduler  {} of these", each(u64::try_from(scheduler_ns)?))?;
    writeln!(out, "in all     {} ms", (ended_ns - begun_ns) / 1_000_000)?;
    let memory = std::fs::read_to_string("/proc/self/status")?;
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    writeln!(out, "memory     {} at most", peak.unwrap_or("unknown").trim())?;
    Ok(Status::Good)
}

/// Processor time of this process so far, as the kernel counts it: in hundredths of a second.
fn processor_ns() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may have blanks; utime and stime are the twelfth and thirteenth after it.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    anyhow::ensure!(ticks.len() == 2, "/proc/self/stat is not as expected");
    Ok(ticks.iter().sum::<u64>() * 10_000_000)
}

fn write_file(base: &BaseFolder, path: &Path, text: &str) -> anyhow::Result<()> {
    let path = base.directory().join(path);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn heading(out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:>6} {:<9} {:<8} {:<5} {:>11} {:>23} {:>13} {:>5} {:>6} {:>6} {:>6} {:>10} {:>11}",
        "nodes",
        "policy",
        "locality",
        "steal",
        "makespan s",
        "least .. greatest",
        "accumulated s",
        "use",
        "local",
        "files",
        "cache",
        "network GB",
        "bound s"
    )
}

fn print(result: &CellResult, out: &mut dyn Write) -> std::io::Result<()> {
    let word = |on: bool| if on { "on" } else { "off" };
    let percent = |part: f64| format!("{:.1}%", part * 100.0);
    let spread = format!("{:.1} .. {:.1}", result.makespan_s_min, result.makespan_s_max);
    writeln!(
        out,
        "{:>6} {:<9} {:<8} {:<5} {:>11.1} {spread:>23} {:>13.1} {:>5} {:>6} {:>6} {:>6} {:>10.2} {:>11.1}",
        result.nodes,
        result.policy,
        word(result.locality),
        word(result.steal),
        result.makespan_s,
        result.accumulated_s,
        format!("{:.0}%", result.utilisation * 100.0),
        percent(result.local_share.bytes),
        percent(result.local_share.files),
        percent(result.cache_hit),
        result.network_bytes / 1e9,
        result.lower_bound_s,
    )
}
