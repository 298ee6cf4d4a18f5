//! The front's settings, understood: what they leave open becomes what the machine has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rakuda_agent::providers::ExternalProvider;
use rakuda_agent::{StdinSource, limits, memory};
use rakuda_cluster::{ClusterConfig, ClusterPlan};
use rakuda_core::{Capacity, Config, FailurePolicy, Policy};
use rakuda_proto::Text;
use rakuda_proto::front::{
    CiSystem, FailedTarget, FailureTermination, OutputChoice, PolicyChoice, ProgressMode, Settings,
    StdinChoice,
};
use rakuda_proto::streams::RouteWish;

use crate::printer::OutputMode;
use crate::reach::state::mount_of;
use crate::rerun::settings::RerunSettings;

/// A task is blamed when its attempts were lost with this many nodes, or three times as often with fewer.
pub(crate) const BLAME_AFTER: u32 = 3;

/// Choices as the user has made them, for the record.
#[derive(Debug)]
pub struct Choices {
    pub policy: PolicyChoice,
    pub failure: FailureTermination,
}

/// Settings of a run.
#[derive(Debug)]
pub struct RunSettings {
    /// Settings of the core.
    pub config: Config,
    /// What this node has.
    pub capacity: Capacity,
    /// Memory of each node that tasks may use, as the user says; 0: all.
    pub memory_bytes_asked: u64,
    /// A real run has nodes elsewhere; a dry run does not ask them.
    pub elsewhere: bool,
    /// The nodes of the run; `None`: this machine alone.
    pub cluster: Option<ClusterPlan>,
    /// Time from the start after which all nodes end, ns; `None` if they do not.
    pub walltime_ns: Option<u64>,
    /// Commands that have more memory than their task asks for are killed.
    pub enforce_memory: bool,
    /// Gangs with more tasks than there are slots run all the same.
    pub oversubscribe: bool,
    /// How messages of streams go between nodes.
    pub stream_route: RouteWish,
    /// Timeout for a cycle of streams in which nothing moves, ms; the user is warned then.
    pub stream_stall_ms: u32,
    /// Resource names, in the order of `capacity.resources`.
    pub resources: Vec<String>,
    /// What happens to targets of failed attempts.
    pub failed_target: FailedTarget,
    /// When output is shown.
    pub output: OutputMode,
    /// Lines begin with the task's name.
    pub prefix: bool,
    /// Groups and annotations in the form of this system.
    pub ci: Option<CiSystem>,
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
    /// Time between SIGINT, SIGTERM and SIGKILL, ms.
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
    /// Maximum number of runs whose records are kept.
    pub runs_kept: usize,
    /// Maximum bytes of records that are kept.
    pub runs_bytes: u64,
    /// The user's choices, for the record.
    pub choices: Choices,
    /// The Rakefile, relative to `directory`.
    pub rakefile: Text,
    /// What is compared with earlier runs.
    pub rerun: RerunSettings,
    /// What the user typed.
    pub command_line: Vec<Text>,
    /// What starts the run again, where that is no call of rakuda; empty if it is one.
    pub resume: Vec<Text>,
    /// Cores that were asked for on this machine, if it does not have that many.
    pub cores_given_up: Option<u32>,
    /// Interval between two samples of a node, where information about nodes is wanted.
    pub sample_period: Duration,
    /// Programs that provide more information about each node.
    pub providers: Vec<ExternalProvider>,
    /// A service that knows of nodes, and the file with its token.
    pub service: Option<InformationService>,
}

/// Where values of nodes come from that agents would else sample.
#[derive(Debug, Clone)]
pub struct InformationService {
    /// `http://HOST:PORT`.
    pub url: String,
    /// The file with the token, of mode 0600.
    pub token_file: PathBuf,
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
    /// Makes the settings of a run. The error says which settings do not go together, or what is missing.
    pub fn new(mut settings: Settings) -> Result<Self, String> {
        let cores = cores_asked(settings.jobs);
        let elsewhere = settings.cluster.is_some();
        // A dry run looks at files here, and does not ask other hosts.
        let cluster = settings.cluster.take().filter(|_| !settings.dry_run);
        let here = settings.directory.as_path();
        let cluster = cluster.map(|cluster| ClusterPlan::new(cluster, here)).transpose();
        let cluster = cluster.map_err(|error| error.to_string())?;
        let cores = cluster.as_ref().and_then(ClusterPlan::own_cores).unwrap_or(cores);
        // Each command that runs has descriptors here.
        let at_once = u32::try_from(limits::commands_at_once()).unwrap_or(u32::MAX);
        let cores_given_up = (cores > at_once).then_some(cores);
        let cores = cores.min(at_once);
        let one_at_a_time = cores == 1 && cluster.is_none();
        let progress = settings.progress;
        let output = match settings.output {
            // Output that passes byte by byte would leave no place for a display.
            OutputChoice::Line
                if one_at_a_time && !settings.prefix && progress != ProgressMode::Live =>
            {
                OutputMode::Through
            }
            OutputChoice::Line => OutputMode::Line,
            OutputChoice::Task => OutputMode::Task,
            OutputChoice::None => OutputMode::None,
        };
        let rerun = RerunSettings::new(&settings);
        let inherits_stdin = settings.stdin == StdinChoice::Inherit && cluster.is_none();
        let on_gfarm = mount_of(settings.directory.as_path(), cluster.is_some()).is_some();
        let staged = check_staging(cluster.as_ref(), &rerun)?;
        let providers = providers_of(settings.providers.as_ref(), cluster.as_ref())?;
        let service = settings.information_service.map(|service| InformationService {
            url: service.url,
            token_file: service.token_file.as_path().to_path_buf(),
        });
        if service.is_some() && !providers.is_empty() {
            return Err("--info: the service has providers of its own; leave PROVIDERS and [[provider]] of the host file out".into());
        }
        let (resources, counts) = names_and_counts(settings.resources);
        let memory_bytes_asked = settings.memory_bytes;
        let memory_bytes = match settings.memory_bytes {
            0 => memory::usable_bytes().unwrap_or(0),
            bytes => bytes,
        };
        Ok(Self {
            config: Config {
                policy: policy_of(settings.policy),
                failure: failure_of(settings.failure_termination),
                retry: settings.retry,
                build_all: settings.build_all,
                dry_run: settings.dry_run,
                compares: !settings.rerun_on.is_empty(),
                locality: settings.locality && cluster.is_some(),
                stealing: settings.stealing,
                files_on_nodes: on_gfarm || staged,
                files_apart: on_gfarm && !staged,
                blame_after: BLAME_AFTER,
                drain_after: cluster.as_ref().map_or(0, |cluster| cluster.host_failures),
                seed: settings.seed,
            },
            capacity: Capacity {
                cores,
                memory_bytes,
                cache_bytes: memory_bytes,
                resources: counts,
            },
            memory_bytes_asked,
            enforce_memory: settings.enforce_memory,
            elsewhere,
            oversubscribe: settings.oversubscribe,
            stream_route: settings.stream_route,
            stream_stall_ms: settings.stream_stall_ms,
            walltime_ns: (settings.walltime_ms > 0)
                .then(|| settings.walltime_ms.saturating_mul(1_000_000)),
            resources,
            failed_target: settings.failed_target,
            output,
            prefix: settings.prefix,
            ci: settings.ci,
            progress,
            colour: settings.colour,
            strict: settings.strict && !settings.dry_run,
            farewell: settings.farewell && !settings.dry_run,
            trace: settings.trace,
            grace_ms: u64::from(settings.grace_ms),
            directory: settings.directory.as_path().to_path_buf(),
            log_dir: settings.log_dir.map(|folder| folder.as_path().to_path_buf()),
            on_terminal: inherits_stdin && rustix::termios::isatty(rustix::stdio::stdin()),
            stdin: if inherits_stdin { StdinSource::Inherit } else { StdinSource::Null },
            record: settings.record && !settings.dry_run,
            runs_kept: settings.runs_kept as usize,
            runs_bytes: settings.runs_bytes,
            choices: Choices { policy: settings.policy, failure: settings.failure_termination },
            rakefile: settings.rakefile,
            rerun,
            command_line: settings.command_line,
            resume: settings.resume,
            cores_given_up,
            sample_period: Duration::from_millis(u64::from(settings.sample_ms.max(1))),
            providers,
            service,
            cluster,
        })
    }

    /// What the nodes elsewhere are begun with; `None` if there are none.
    pub fn cluster_config(&self) -> Option<ClusterConfig> {
        Some(ClusterConfig {
            plan: self.cluster.clone()?,
            directory: self.directory.clone(),
            collect_output: self.output != OutputMode::None,
        })
    }

    /// Cores of all nodes, as far as they are known before the nodes are there.
    pub fn cores_known(&self) -> u32 {
        let own = self.capacity.cores;
        self.cluster.as_ref().map_or(own, |cluster| cluster.cores_known(own))
    }
}

/// The providers of a file of their own, then those of the host file.
fn providers_of(
    file: Option<&Text>,
    cluster: Option<&ClusterPlan>,
) -> Result<Vec<ExternalProvider>, String> {
    let named = file.map(|file| ExternalProvider::read(file.as_path())).transpose();
    let mut all = named.map_err(|error| format!("failed to {error}"))?.unwrap_or_default();
    for provider in cluster.map_or(&[][..], ClusterPlan::providers) {
        if all.iter().any(|it| it.name == provider.name) {
            let name = &provider.name;
            return Err(format!("the provider {name} is named by PROVIDERS and by the host file"));
        }
        all.push(provider.clone());
    }
    Ok(all)
}

/// Whether files are staged in and out.
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

/// The core's form of a policy.
fn policy_of(choice: PolicyChoice) -> Policy {
    match choice {
        PolicyChoice::Fifo => Policy::Fifo,
        PolicyChoice::Lifo => Policy::Lifo,
        PolicyChoice::LifoHrf => Policy::LifoHrf,
        PolicyChoice::RankHrf => Policy::RankHrf,
        PolicyChoice::Cached => Policy::Cached,
        PolicyChoice::LifoHlfet => Policy::LifoHlfet,
        PolicyChoice::Serial => Policy::Serial,
    }
}

/// The core's form of what a failure does to others.
fn failure_of(choice: FailureTermination) -> FailurePolicy {
    match choice {
        FailureTermination::Wait => FailurePolicy::Wait,
        FailureTermination::Kill => FailurePolicy::Kill,
        FailureTermination::Continue => FailurePolicy::Continue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_same_name_in_the_core() {
        for policy in Policy::ALL {
            let choice = PolicyChoice::named(policy.name()).expect("the protocol knows it");
            assert_eq!(policy_of(choice), policy);
        }
    }
}
