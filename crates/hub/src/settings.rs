//! The front's settings, understood: words become choices, what is not said becomes what the machine has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rakuda_agent::StdinSource;
use rakuda_core::{Capacity, Config, FailurePolicy, Policy};
use rakuda_proto::Text;
use rakuda_proto::front::Settings;

use crate::printer::OutputMode;
use crate::targets::FailedTarget;

/// Settings of a run.
#[derive(Debug)]
pub struct RunSettings {
    /// For the core.
    pub config: Config,
    /// Of this node.
    pub capacity: Capacity,
    /// Resource names, in the order of `capacity.resources`.
    pub resources: Vec<String>,
    /// What happens to targets of failed attempts.
    pub failed_target: FailedTarget,
    /// When output is shown.
    pub output: OutputMode,
    /// Lines begin with the task's name.
    pub prefix: bool,
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
    /// Keep a record of attempts.
    pub record: bool,
    /// What the user typed.
    pub command_line: Vec<Text>,
}

impl RunSettings {
    /// `Err` says which setting has no such value.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let cores = match settings.jobs {
            0 => std::thread::available_parallelism()
                .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
            jobs => jobs,
        };
        let policy = match settings.policy.as_str() {
            "fifo" => Policy::Fifo,
            "lifo" => Policy::Lifo,
            "lifo_hrf" => Policy::LifoHrf,
            "rank_hrf" => Policy::RankHrf,
            "serial" => Policy::Serial,
            other => {
                return Err(format!(
                    "unknown policy '{other}': expected fifo, lifo, lifo_hrf, rank_hrf or serial"
                ));
            }
        };
        let failure = match settings.failure_termination.as_str() {
            "wait" => FailurePolicy::Wait,
            "kill" => FailurePolicy::Kill,
            "continue" => FailurePolicy::Continue,
            other => {
                return Err(format!(
                    "unknown FAILURE_TERMINATION '{other}': expected wait, kill or continue"
                ));
            }
        };
        let output = match settings.output.as_str() {
            "line" if cores == 1 && !settings.prefix => OutputMode::Through,
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
        let (resources, counts) = names_and_counts(settings.resources);
        let memory_bytes = match settings.memory_bytes {
            0 => machine_memory_bytes(),
            bytes => bytes,
        };
        Ok(Self {
            config: Config {
                policy,
                failure,
                retry: settings.retry,
                build_all: settings.build_all,
                dry_run: settings.dry_run,
                locality: false,
                stealing: true,
                seed: settings.seed,
            },
            capacity: Capacity { cores, memory_bytes, resources: counts },
            resources,
            failed_target,
            output,
            prefix: settings.prefix,
            trace: settings.trace,
            grace_ms: u64::from(settings.grace_ms),
            directory: settings.directory.as_path().to_path_buf(),
            log_dir: settings.log_dir.map(|folder| folder.as_path().to_path_buf()),
            on_terminal: settings.stdin == "inherit"
                && rustix::termios::isatty(rustix::stdio::stdin()),
            stdin: if settings.stdin == "inherit" {
                StdinSource::Inherit
            } else {
                StdinSource::Null
            },
            record: settings.record && !settings.dry_run,
            command_line: settings.command_line,
        })
    }
}

fn names_and_counts(resources: BTreeMap<String, u32>) -> (Vec<String>, Vec<u32>) {
    resources.into_iter().unzip()
}

/// Physical memory; 0 when the kernel does not say.
fn machine_memory_bytes() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else {
        return 0;
    };
    let line = text.lines().find(|line| line.starts_with("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}
