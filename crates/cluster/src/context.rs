//! What the nodes elsewhere of a run are begun with.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rakuda_agent::processes;
use rakuda_proto::Text;
use rakuda_proto::cluster::AgentSettings;

use crate::calls::OwnCalls;
use crate::plan::ClusterPlan;
use crate::reports::ReportSender;

/// What a run's nodes elsewhere are begun with.
#[derive(Debug)]
pub struct ClusterConfig {
    /// Which there are, and how they are reached.
    pub plan: ClusterPlan,
    /// The run's folder; absolute.
    pub directory: PathBuf,
    /// Agents report what commands write.
    pub collect_output: bool,
}

/// What the thread is begun with.
pub(crate) struct Context {
    pub plan: ClusterPlan,
    /// Settings of agents.
    pub agent: AgentSettings,
    /// The run's folder.
    pub directory: PathBuf,
    pub reports: ReportSender,
    pub calls: OwnCalls,
    /// Searches for nodes that are under way.
    pub searches: Arc<AtomicUsize>,
}

/// The settings of the agents of a run.
pub(crate) fn agent_settings(config: &ClusterConfig) -> AgentSettings {
    let ClusterConfig { plan, directory, collect_output } = config;
    let here = Text(directory.as_os_str().as_encoded_bytes().to_vec());
    let mut agent = plan.agent.clone();
    agent.directory = plan.folder_there(directory).unwrap_or(here);
    agent.own_folder = plan.staging.is_some();
    agent.gfarm_path.clone_from(&plan.gfarm_path);
    agent.collect_output = *collect_output;
    if let Some(mark) = processes::own_mark() {
        agent.environment.push((Text::from("RAKUDA_RUN"), Text::from(mark)));
    }
    agent
}
