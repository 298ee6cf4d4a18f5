//! The front's settings about nodes, understood: the host file read, this machine found in it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_agent::files::FOLDERS;
use rakuda_agent::providers::ExternalProvider;
use rakuda_core::NodeId;
use rakuda_locate::gfarm_mount;
use rakuda_proto::Text;
use rakuda_proto::cluster::AgentSettings;
use rakuda_proto::front::{ClusterKind, ClusterSettings, Filesystem, StagingSettings};

use crate::error::ClusterError;
use crate::hosts::{self, Host, HostFile};
use crate::port::LOCAL_NODE;

/// Maximum number of hosts that are connected at the same time. The default is much lower, because sshd begins to
/// refuse at 10 (MaxStartups).
const CONNECTIONS_MAX: u32 = 256;
/// Time for which the commands of a node live on after its link was lost.
const ORPHAN_MS: u32 = 15_000;

/// Where nodes come from that no host file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From nowhere: there is a host file.
    Hosts,
    /// From nowhere: there is this machine.
    Own,
    /// From an allocation of Slurm.
    Slurm(SlurmWish),
    /// From a command line of the user.
    Launch(LaunchPlan),
}

/// Which allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlurmWish {
    /// The job that has it. `None`: one is asked for.
    pub job: Option<String>,
    /// Nodes to ask for.
    pub nodes: u32,
    /// Cores of each node to ask for; 0: all.
    pub cores: u32,
    /// Words for sbatch.
    pub options: Vec<String>,
}

/// How agents are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchPlan {
    /// The command line.
    pub line: String,
    /// How many, when that is said.
    pub nodes: Option<u32>,
}

fn refused(what: impl Into<String>) -> ClusterError {
    ClusterError::Setting(what.into())
}

impl Origin {
    fn new(settings: &ClusterSettings) -> Result<Self, ClusterError> {
        match settings.kind {
            ClusterKind::Ssh => Ok(Self::Hosts),
            ClusterKind::Local => Ok(Self::Own),
            ClusterKind::Slurm => {
                let nodes = match (settings.nodes, &settings.job) {
                    (Some(nodes), _) => nodes,
                    (None, Some(_)) => 0,
                    (None, None) => {
                        return Err(refused(
                            "there is no Slurm allocation here (SLURM_JOB_ID is not set): say how many nodes to ask for (--nodes N)",
                        ));
                    }
                };
                Ok(Self::Slurm(SlurmWish {
                    job: settings.job.clone(),
                    nodes,
                    cores: settings.cores_max,
                    options: settings.batch_options.iter().map(Text::to_display).collect(),
                }))
            }
            ClusterKind::Launch => {
                let line = settings
                    .launch
                    .as_ref()
                    .ok_or_else(|| refused("a launch template is missing (--launch LINE)"))?;
                Ok(Self::Launch(LaunchPlan { line: line.to_display(), nodes: settings.nodes }))
            }
        }
    }
}

/// The nodes of a run.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Of those that no host file names.
    pub(crate) origin: Origin,
    /// Nodes may join while the run goes on.
    pub(crate) joinable: bool,
    /// Where this run listens, when it does.
    pub(crate) listen: Option<String>,
    /// Time without work after which a node is let go whose agent dialled in, ns.
    pub idle_ns: Option<u64>,
    /// Those elsewhere; a node's number is its place, from 1.
    pub(crate) hosts: Vec<Host>,
    /// This machine takes tasks, too: it is among the hosts.
    pub own_takes_tasks: bool,
    /// The groups of this machine where the file names it, outermost first.
    own_groups: Vec<String>,
    /// Cores of this machine, when they are named.
    own_cores: Option<u32>,
    /// Cores of each node, at most; 0: no limit.
    pub cores_max: u32,
    /// Failures in a row after which a node is drained; 0: never.
    pub host_failures: u32,
    /// Timeout for a node to see what another one has made, ms.
    pub visible_ms: u32,
    /// Words for ssh.
    pub(crate) ssh_options: Vec<Vec<u8>>,
    /// Connections that are opened at the same time.
    pub(crate) connections_at_once: usize,
    /// Settings of agents, without those that differ from run to run.
    pub(crate) agent: AgentSettings,
    /// Where the run's directory is on the nodes, when it has another name there.
    pub(crate) work_directory: Option<Text>,
    /// What it is called in Gfarm, when nodes are to mount it.
    pub(crate) gfarm_path: Option<Text>,
    /// Nodes share no file system: how files come to them.
    pub staging: Option<StagingSettings>,
    /// Programs that provide information about each node.
    providers: Vec<ExternalProvider>,
}

/// A name for a folder of this machine that is the same in each run.
fn name_of(here: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(rustix::system::uname().nodename().to_bytes_with_nul());
    hasher.update(here.as_os_str().as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

impl ClusterPlan {
    /// `Err` says what cannot be used.
    pub fn new(settings: ClusterSettings, directory: &Path) -> Result<Self, ClusterError> {
        let (gfarm_path, staging) = match settings.filesystem {
            Filesystem::Shared => (None, None),
            Filesystem::Gfarm => (Some(gfarm_path(&settings, directory)?), None),
            Filesystem::Local => (None, Some(settings.staging.clone())),
        };
        let origin = Origin::new(&settings)?;
        let HostFile { hosts: all, providers } =
            if origin == Origin::Hosts { read_hosts(&settings)? } else { HostFile::default() };
        if staging.is_some() && (origin != Origin::Hosts || settings.joinable) {
            return Err(refused(
                "FILESYSTEM local needs hosts that are reached by ssh (-F FILE), and no others: to nodes that come by themselves (--joinable, Slurm, launch templates) no files can be copied",
            ));
        }
        let own_name = rustix::system::uname();
        let own_name = own_name.nodename().to_string_lossy();
        let is_own_name = |name: &str| name == "localhost" || name == own_name;
        let (own, hosts): (Vec<Host>, Vec<Host>) =
            all.into_iter().partition(|host| is_own_name(&host.name));
        let most = |cores: u32| match settings.cores_max {
            0 => cores,
            most => cores.min(most),
        };
        let cut = |host: Host| Host {
            cores: host.cores.map(most),
            // A leader on this machine would have nothing to do: the hub is there.
            leaders: host.leaders.into_iter().filter(|name| !is_own_name(name)).collect(),
            ..host
        };
        let own_cores = own.iter().filter_map(|host| host.cores).reduce(u32::saturating_add);
        Ok(Self {
            hosts: hosts.into_iter().map(cut).collect(),
            own_takes_tasks: !own.is_empty() || origin == Origin::Own,
            // `localhost` and its name may stand in two groups: the first counts.
            own_groups: own.into_iter().next().map_or_else(Vec::new, |host| host.groups),
            origin,
            joinable: settings.joinable,
            listen: settings.listen.map(|listen| listen.to_display()),
            idle_ns: settings.idle_ms.map(|idle| idle.saturating_mul(1_000_000)),
            own_cores: own_cores.map(most),
            cores_max: settings.cores_max,
            host_failures: settings.host_failures,
            visible_ms: settings.visible_ms,
            ssh_options: settings.ssh_options.into_iter().map(|word| word.0).collect(),
            connections_at_once: settings.connections.clamp(1, CONNECTIONS_MAX) as usize,
            agent: AgentSettings {
                environment: settings.pass_environment.into_iter().collect(),
                silence_ms: settings.silence_ms.max(1000) / 2,
                orphan_ms: ORPHAN_MS,
                ..AgentSettings::default()
            },
            work_directory: settings.work_directory,
            gfarm_path,
            staging,
            providers,
        })
    }

    /// Programs that provide information about each node, as the host file names them.
    pub fn providers(&self) -> &[ExternalProvider] {
        &self.providers
    }

    /// Whether the run's nodes are known later only.
    pub fn brings_nodes(&self) -> bool {
        match self.origin {
            Origin::Slurm(_) | Origin::Launch(_) => true,
            Origin::Hosts | Origin::Own => false,
        }
    }

    /// Whether nodes may be taken away at a time that is known once they are there.
    pub fn nodes_may_end(&self) -> bool {
        matches!(self.origin, Origin::Slurm(_))
    }

    /// What nodes call the folder that is `here` on this machine, when that differs; relative: below a node's scratch.
    pub(crate) fn folder_there(&self, here: &Path) -> Option<Text> {
        let named = self.work_directory.clone();
        named.or_else(|| {
            self.staging.is_some().then(|| Text::from(format!("{FOLDERS}/{}", name_of(here))))
        })
    }

    /// Whether agents with the invitation may join.
    pub fn is_joinable(&self) -> bool {
        self.joinable
    }

    /// Cores of this machine, when the host file names them.
    pub fn own_cores(&self) -> Option<u32> {
        self.own_cores
    }

    /// A node's host, when the host file names it.
    fn host_of(&self, id: NodeId) -> Option<&Host> {
        self.hosts.get((id.0 as usize).checked_sub(1)?)
    }

    /// The host groups of a node, outermost first.
    pub fn groups_of(&self, id: NodeId) -> &[String] {
        match id {
            LOCAL_NODE => &self.own_groups,
            _ => self.host_of(id).map_or(&[], |host| &host.groups),
        }
    }

    /// The same with `/` between them.
    pub fn group_of(&self, id: NodeId) -> Option<String> {
        Some(self.groups_of(id).join("/")).filter(|groups| !groups.is_empty())
    }

    /// The leader through which a node is reached.
    pub fn leader_of(&self, id: NodeId) -> Option<&str> {
        self.host_of(id)?.leaders.last().map(String::as_str)
    }

    /// Silence after which a node is lost, ms.
    pub fn silence_ms(&self) -> u32 {
        self.agent.silence_ms.saturating_mul(2)
    }

    /// Cores that the host file names; `own`: those of this machine, when it takes part without being named.
    pub fn cores_known(&self, own: u32) -> u32 {
        if self.origin == Origin::Own {
            return own;
        }
        let named = self.hosts.iter().filter_map(|host| host.cores).chain(self.own_cores);
        named.reduce(u32::saturating_add).unwrap_or(0)
    }
}

fn read_hosts(settings: &ClusterSettings) -> Result<HostFile, ClusterError> {
    let file = settings.host_file.as_ref();
    let file = file.ok_or_else(|| refused("a cluster of hosts needs a host file (-F FILE)"))?;
    Ok(hosts::read(file.as_path())?)
}

/// What the run's directory is called in Gfarm.
fn gfarm_path(settings: &ClusterSettings, directory: &Path) -> Result<Text, ClusterError> {
    if settings.work_directory.is_some() {
        return Err(refused(
            "FILESYSTEM gfarm and WORK_DIR together: with gfarm each host has the run's folder where Rakuda mounts it; leave one of the two out",
        ));
    }
    // As its real name, which the mount's begins.
    let path = directory.canonicalize().ok().and_then(|real| gfarm_mount(&real)?.path_of(&real));
    let path = path.ok_or_else(|| {
        refused(format!(
            "FILESYSTEM gfarm: {} does not lie in Gfarm; mount that with gfarm2fs and start in a folder below the mount",
            directory.display()
        ))
    })?;
    Ok(Text(path.into_os_string().into_encoded_bytes()))
}
