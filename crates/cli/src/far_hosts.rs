//! Hosts that are looked at without a run: an agent on each, started over ssh as for a run, reports how its host is.
//!
//! No command is started there. What values mean, and what asks for them, is not known here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rakuda_agent::providers::ExternalProvider;
use rakuda_cluster::{
    ClusterConfig, ClusterPlan, Node, NodeEvent, NodeReport, ReportReceiver, report_channel,
};
use rakuda_info::Time;
use rakuda_info::delta::Receiver;
use rakuda_info::external::has_told;
use rakuda_info::table::{NodeId as Row, State, Table};
use rakuda_proto::Text;
use rakuda_proto::cluster::ToAgent;
use rakuda_proto::front::ClusterSettings;
use tokio::time::{sleep, timeout};

/// Maximum number of intervals without a word. A host that is silent for longer is suspected.
const MISSED_PERIODS_MAX: u32 = 3;
/// Minimum silence after which a host is suspected.
const UNRESPONSIVE_MIN: Duration = Duration::from_secs(1);
/// Timeout for the end of the agents.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Time between two looks whether they have ended.
const CLOSE_LOOK: Duration = Duration::from_millis(10);
/// Folder of an agent: any does that each host has.
const ROOT: &str = "/";
/// Number of looks that a host needs: rates and shares are of two.
const DELTAS: u32 = 2;

/// Hosts with an agent each, and what they have reported.
pub struct FarHosts {
    reports: ReportReceiver,
    hosts: Vec<Host>,
    period: Duration,
    /// What provides more, on each host.
    pub providers: Vec<ExternalProvider>,
    /// Folders whose file systems are sampled there, too.
    pub folders: Vec<String>,
    /// This machine is named, too.
    pub has_own: bool,
}

struct Host {
    node: Node,
    row: Row,
    /// Of the agent that is there.
    incarnation: u32,
    receiver: Receiver,
    /// How often its agent has reported something, and when it did last.
    deltas: u32,
    heard: Option<Time>,
    /// Its last report made no sense, so it was asked to begin anew.
    is_broken: bool,
    /// It is not started again.
    is_given_up: bool,
}

fn plan_of(file: &str) -> anyhow::Result<ClusterPlan> {
    let file = std::path::absolute(file).unwrap_or_else(|_| PathBuf::from(file));
    let host_file = Some(Text(file.into_os_string().into_encoded_bytes()));
    let settings = ClusterSettings { host_file, ..Default::default() };
    ClusterPlan::new(settings, Path::new(ROOT)).map_err(anyhow::Error::from)
}

fn together(
    mut providers: Vec<ExternalProvider>,
    of_host_file: &[ExternalProvider],
) -> anyhow::Result<Vec<ExternalProvider>> {
    for provider in of_host_file {
        let name = &provider.name;
        anyhow::ensure!(
            providers.iter().all(|it| it.name != *name),
            "start the provider {name}: --providers and the host file both name it"
        );
        providers.push(provider.clone());
    }
    Ok(providers)
}

impl FarHosts {
    /// Begins to start agents on the hosts of a host file; they sample every `period`, and run these providers and
    /// those of the file. The hosts get rows in the table.
    pub fn start(
        file: &str,
        period: Duration,
        providers: Vec<ExternalProvider>,
        table: &mut Table,
    ) -> anyhow::Result<Self> {
        let plan = plan_of(file)?;
        let root = Path::new(ROOT);
        let has_own = plan.own_takes_tasks;
        let providers = together(providers, plan.providers())?;
        let (sender, reports) = report_channel();
        let config = ClusterConfig { plan, directory: root.to_path_buf(), collect_output: false };
        let elsewhere = rakuda_cluster::start(config, sender).context("reach the hosts")?;
        let host = |node: Node| {
            let row = table.node(None, &node.name.to_display());
            table.set_state(row, State::of("starting"));
            let receiver = Receiver::of_node(row);
            let (incarnation, deltas, heard, is_given_up) = (0, 0, None, false);
            let is_broken = false;
            Host { node, row, incarnation, receiver, deltas, heard, is_broken, is_given_up }
        };
        let hosts = elsewhere.nodes.into_iter().map(host).collect();
        Ok(Self { reports, hosts, period, providers, folders: Vec::new(), has_own })
    }

    /// All providers, once the host file is read anew, and with these others.
    pub fn providers_anew(
        file: &str,
        others: Vec<ExternalProvider>,
    ) -> anyhow::Result<Vec<ExternalProvider>> {
        together(others, plan_of(file)?.providers())
    }

    /// From now on these provide, also on hosts that come up later.
    pub fn set_providers(&mut self, providers: Vec<ExternalProvider>) {
        self.providers = providers;
        // A message for an agent that is not there is dropped; the next agent gets it when it comes.
        self.hosts.iter().for_each(|host| host.node.port.ask(self.sample()));
    }

    fn sample(&self) -> ToAgent {
        let period_ms = u32::try_from(self.period.as_millis()).unwrap_or(u32::MAX);
        let providers = self.providers.iter().map(Into::into).collect();
        ToAgent::Sample { period_ms, providers, folders: self.folders.clone() }
    }

    /// The next that is to be noted; never when there is no host elsewhere.
    pub async fn next(&mut self) -> NodeReport {
        match self.reports.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }

    /// Notes what has happened, and returns what is to be said of it.
    pub fn note(&mut self, report: NodeReport, table: &mut Table, now: Time) -> Option<String> {
        // Numbers begin behind that of this machine.
        let index = (report.node.0 as usize).checked_sub(1)?;
        let sample = self.sample();
        let host = self.hosts.get_mut(index)?;
        let name = host.node.name.to_display();
        let is_current = host.incarnation == report.incarnation;
        match report.event {
            NodeEvent::Up(_) => {
                host.incarnation = report.incarnation;
                host.receiver = Receiver::of_node(host.row);
                host.node.port.on_up(report.incarnation);
                host.node.port.ask(sample);
                None
            }
            NodeEvent::State { delta, held_ns } if is_current => {
                // Ages in it are as of when it was made.
                let made = Time(now.0.saturating_sub(held_ns));
                let applied = host.receiver.apply(&delta, table, made);
                host.node.port.settle_state();
                host.deltas += 1;
                let Err(error) = applied else {
                    host.heard = Some(now);
                    host.is_broken = false;
                    table.set_state(host.row, State::Up);
                    return None;
                };
                // No sign of life: when it goes on so, it is suspected.
                host.heard.get_or_insert(now);
                if std::mem::replace(&mut host.is_broken, true) {
                    return None;
                }
                host.node.port.ask(sample);
                Some(format!("what {name} tells is not understood: {error}"))
            }
            NodeEvent::Lost(why, again) | NodeEvent::Failed(why, again) => {
                let is_new = host.heard.take().is_some() || !again;
                host.is_given_up = !again;
                table.set_state(host.row, State::Down);
                is_new.then(|| format!("{name} is not reached: {why}"))
            }
            NodeEvent::State { .. }
            | NodeEvent::Agent(_)
            | NodeEvent::Answer(_)
            | NodeEvent::Exchange(_)
            | NodeEvent::Appeared(_)
            | NodeEvent::Gone
            | NodeEvent::Told(_)
            | NodeEvent::Invited(_)
            | NodeEvent::AllAppeared(_) => None,
        }
    }

    /// Hosts that have been silent for too long are suspected.
    pub fn note_silence(&self, table: &mut Table, now: Time) {
        let limit = (MISSED_PERIODS_MAX * self.period).max(UNRESPONSIVE_MIN).as_nanos() as u64;
        for host in &self.hosts {
            if host.heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > limit) {
                table.set_state(host.row, State::Suspected);
            }
        }
    }

    /// Whether each host has reported all, rates and shares and the values of providers as well, or cannot be reached.
    pub fn is_settled(&self, table: &Table) -> bool {
        let awaited = || self.providers.iter().filter(|provider| !provider.is_long_lived());
        let has_all = |host: &Host| {
            host.deltas >= DELTAS
                && awaited().all(|provider| has_told(table, host.row, &provider.name))
        };
        self.hosts.iter().all(|host| host.is_given_up || has_all(host))
    }

    /// Whether some host cannot be reached.
    pub fn has_failed(&self) -> bool {
        self.hosts.iter().any(|host| host.is_given_up)
    }

    /// Has these providers of all hosts sample now.
    pub fn sample_now(&self, providers: &[String]) {
        for host in self.hosts.iter().filter(|host| host.heard.is_some()) {
            host.node.port.ask(ToAgent::SampleNow { only: providers.to_vec() });
        }
    }

    /// Ends the agents.
    pub async fn close(self) {
        self.hosts.iter().for_each(|host| host.node.port.close());
        let all_closed = async {
            while !self.hosts.iter().all(|host| host.node.port.is_closed()) {
                sleep(CLOSE_LOOK).await;
            }
        };
        if timeout(CLOSE_LIMIT, all_closed).await.is_err() {
            self.hosts.iter().for_each(|host| host.node.port.give_up());
        }
    }
}
