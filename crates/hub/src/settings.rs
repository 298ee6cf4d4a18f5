//! The front's settings, understood: words become choices, what is not said becomes what the machine has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_agent::{StdinSource, limits, memory};
use rakuda_core::{Capacity, Config, FailurePolicy, Policy};
use rakuda_proto::Text;
use rakuda_proto::front::Settings;

use crate::cluster::ClusterPlan;
use crate::printer::OutputMode;
use crate::progress::ProgressMode;
use crate::reach::mount_of;
use crate::rerun::RerunSettings;
use crate::targets::FailedTarget;

/// A task whose attempts were lost with so many nodes is taken to be the reason.
const BLAME_AFTER: u32 = 3;

/// Choices in the user's words, for the record.
#[derive(Debug)]
pub struct ChosenWords {
    /// `fifo`, `lifo`, ...
    pub policy: String,
    /// `wait`, `kill`, `continue`.
    pub failure: String,
    /// `rename`, `delete`, `leave`.
    pub failed_target: String,
}

/// Settings of a run.
#[derive(Debug)]
pub struct RunSettings {
    /// For the core.
    pub config: Config,
    /// Of this node.
    pub capacity: Capacity,
    /// Memory of each node that tasks may use, as the user says; 0: all.
    pub memory_bytes_asked: u64,
    /// The nodes of the run; nothing: this machine alone.
    pub cluster: Option<ClusterPlan>,
    /// All nodes end so long after the start, ns; nothing: they do not.
    pub walltime_ns: Option<u64>,
    /// Resource names, in the order of `capacity.resources`.
    pub resources: Vec<String>,
    /// What happens to targets of failed attempts.
    pub failed_target: FailedTarget,
    /// When output is shown.
    pub output: OutputMode,
    /// Lines begin with the task's name.
    pub prefix: bool,
    /// Where progress is shown.
    pub progress: ProgressMode,
    /// Colours may be used.
    pub colour: bool,
    /// A target that an action did not make is a failure.
    pub strict: bool,
    /// A line at the end of a run in which all went well.
    pub farewell: bool,
    /// Send `TaskSettled`.
    pub trace: bool,
    /// Between SIGINT, SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// Where relative names start; absolute.
    pub directory: PathBuf,
    /// The run's folder, when the user chose one.
    pub log_dir: Option<PathBuf>,
    /// Where commands read from.
    pub stdin: StdinSource,
    /// Commands read from the terminal, one at a time.
    pub on_terminal: bool,
    /// Keep a record of the run.
    pub record: bool,
    /// Runs whose records are kept.
    pub runs_kept: usize,
    /// Bytes of records that are kept.
    pub runs_bytes: u64,
    /// For the record.
    pub words: ChosenWords,
    /// The Rakefile, relative to `directory`.
    pub rakefile: Text,
    /// What is compared with earlier runs.
    pub rerun: RerunSettings,
    /// What the user typed.
    pub command_line: Vec<Text>,
    /// Cores that were asked for on this machine; none: it has that many.
    pub cores_given_up: Option<u32>,
}

/// Cores of `-j`; 0: all of this machine.
fn cores_asked(jobs: u32) -> u32 {
    match jobs {
        0 => std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        jobs => jobs,
    }
}

impl RunSettings {
    /// `Err` says which setting has no such value.
    pub fn new(mut settings: Settings) -> Result<Self, String> {
        let cores = cores_asked(settings.jobs);
        // A dry run looks at files here, and asks no other host.
        let cluster = settings.cluster.take().filter(|_| !settings.dry_run);
        let here = settings.directory.as_path();
        let cluster = cluster.map(|cluster| ClusterPlan::new(cluster, here)).transpose()?;
        let cores = cluster.as_ref().and_then(ClusterPlan::own_cores).unwrap_or(cores);
        // Each command that runs has descriptors here.
        let at_once = u32::try_from(limits::commands_at_once()).unwrap_or(u32::MAX);
        let cores_given_up = (cores > at_once).then_some(cores);
        let cores = cores.min(at_once);
        let one_at_a_time = cores == 1 && cluster.is_none();
        let policy = policy_of(&settings.policy)?;
        let failure = failure_of(&settings.failure_termination)?;
        let progress = ProgressMode::parse(&settings.progress).ok_or_else(|| {
            format!("unknown progress '{}': expected live, plain or off", settings.progress)
        })?;
        let output = match settings.output.as_str() {
            // What passes byte by byte would leave no place for a display.
            "line" if one_at_a_time && !settings.prefix && progress != ProgressMode::Live => {
                OutputMode::Through
            }
            "line" => OutputMode::Line,
            "task" => OutputMode::Task,
            "none" => OutputMode::None,
            other => {
                return Err(format!("unknown output '{other}': expected line, task or none"));
            }
        };
        let failed_target = FailedTarget::parse(&settings.failed_target).ok_or_else(|| {
            format!(
                "unknown FAILED_TARGET '{}': expected rename, delete or leave",
                settings.failed_target
            )
        })?;
        let rerun = RerunSettings::new(&settings)?;
        let on_gfarm = mount_of(settings.directory.as_path(), cluster.is_some()).is_some();
        let staged = check_staging(cluster.as_ref(), &rerun)?;
        let (resources, counts) = names_and_counts(settings.resources);
        let memory_bytes_asked = settings.memory_bytes;
        let memory_bytes = match settings.memory_bytes {
            0 => memory::usable_bytes().unwrap_or(0),
            bytes => bytes,
        };
        Ok(Self {
            config: Config {
                policy,
                failure,
                retry: settings.retry,
                build_all: settings.build_all,
                dry_run: settings.dry_run,
                compares: !settings.rerun_on.is_empty(),
                locality: settings.locality && cluster.is_some(),
                stealing: settings.stealing,
                files_on_nodes: on_gfarm || staged,
                files_apart: on_gfarm && !staged,
                blame_after: BLAME_AFTER,
                set_aside_after: cluster.as_ref().map_or(0, |cluster| cluster.host_failures),
                seed: settings.seed,
            },
            capacity: Capacity {
                cores,
                memory_bytes,
                cache_bytes: memory_bytes,
                resources: counts,
            },
            memory_bytes_asked,
            walltime_ns: (settings.walltime_ms > 0)
                .then(|| settings.walltime_ms.saturating_mul(1_000_000)),
            resources,
            failed_target,
            output,
            prefix: settings.prefix,
            progress,
            colour: settings.colour,
            strict: settings.strict && !settings.dry_run,
            farewell: settings.farewell && !settings.dry_run,
            trace: settings.trace,
            grace_ms: u64::from(settings.grace_ms),
            directory: settings.directory.as_path().to_path_buf(),
            log_dir: settings.log_dir.map(|folder| folder.as_path().to_path_buf()),
            on_terminal: cluster.is_none()
                && settings.stdin == "inherit"
                && rustix::termios::isatty(rustix::stdio::stdin()),
            stdin: if settings.stdin == "inherit" && cluster.is_none() {
                StdinSource::Inherit
            } else {
                StdinSource::Null
            },
            record: settings.record && !settings.dry_run,
            runs_kept: settings.runs_kept as usize,
            runs_bytes: settings.runs_bytes,
            words: ChosenWords {
                policy: settings.policy,
                failure: settings.failure_termination,
                failed_target: settings.failed_target,
            },
            rakefile: settings.rakefile,
            rerun,
            command_line: settings.command_line,
            cores_given_up,
            cluster,
        })
    }

    /// Cores of all nodes, as far as they are known before the nodes are there.
    pub fn cores_known(&self) -> u32 {
        let own = self.capacity.cores;
        self.cluster.as_ref().map_or(own, |cluster| cluster.cores_known(own))
    }
}

/// Whether files are brought to nodes.
fn check_staging(cluster: Option<&ClusterPlan>, rerun: &RerunSettings) -> Result<bool, String> {
    let staged = cluster.is_some_and(|cluster| cluster.staging.is_some());
    if staged && rerun.is_on() {
        return Err("--rerun-on compares files on this machine, and with --filesystem local they are elsewhere: use one of the two".into());
    }
    Ok(staged)
}

fn names_and_counts(resources: BTreeMap<String, u32>) -> (Vec<String>, Vec<u32>) {
    resources.into_iter().unzip()
}

/// The policy by its name on the command line.
fn policy_of(name: &str) -> Result<Policy, String> {
    Policy::named(name).ok_or_else(|| {
        format!(
            "unknown policy '{name}': expected fifo, lifo, lifo_hrf, rank_hrf, cached, lifo_hlfet or serial"
        )
    })
}

/// What a failure does to others, by its name on the command line.
fn failure_of(name: &str) -> Result<FailurePolicy, String> {
    match name {
        "wait" => Ok(FailurePolicy::Wait),
        "kill" => Ok(FailurePolicy::Kill),
        "continue" => Ok(FailurePolicy::Continue),
        other => {
            Err(format!("unknown FAILURE_TERMINATION '{other}': expected wait, kill or continue"))
        }
    }
}
