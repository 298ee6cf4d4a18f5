//! What it takes to start agents and leaders on other hosts, which the lives of all of them share.

use std::rc::Rc;
use std::time::Duration;

use rakuda_proto::cluster::AgentSettings;
use tokio::sync::Semaphore;

use crate::context::Context;
use crate::port::LOCAL_NODE;
use crate::program::{Depot, Programs};
use crate::reports::{NodeEvent, NodeReport, ReportSender};

/// Maximum time before a node is launched again, s.
pub(crate) const BACKOFF_S_MAX: u64 = 60;
/// Maximum launches in a row without a task run in between.
pub(crate) const FRUITLESS_MAX: u32 = 5;
/// Timeout for the hello of an agent that was started.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(60);

/// What it takes to start an agent or a leader, and where reports go.
pub(crate) struct Launcher {
    /// Connections that may be opened from here now.
    pub permits: Semaphore,
    /// As many may be opened from each leader.
    pub connections_at_once: usize,
    pub depot: Depot,
    pub ssh_options: Vec<Vec<u8>>,
    pub agent: AgentSettings,
    pub reports: ReportSender,
}

impl Launcher {
    pub fn new(context: &Context) -> Self {
        Self {
            permits: Semaphore::new(context.plan.connections_at_once),
            connections_at_once: context.plan.connections_at_once,
            depot: Depot::default(),
            ssh_options: context.plan.ssh_options.clone(),
            agent: context.agent.clone(),
            reports: context.reports.clone(),
        }
    }

    /// The engine's own, and those for other machine types.
    pub async fn programs(&self) -> Result<Rc<Programs>, String> {
        self.depot.programs().await
    }

    /// Tells the hub what is not of a node.
    pub fn tell(&self, event: NodeEvent) {
        self.reports.send(NodeReport { node: LOCAL_NODE, incarnation: 0, event });
    }
}
