//! The thread that all links of the hub live on, and what the hub asks of it.
//!
//! The hub's own thread writes the record and looks at files; a file system that hangs (a server
//! that is away for a minute) holds it up. Meanwhile agents must not take the hub for gone, nor the
//! hub them: so whoever carries a heartbeat is here, where nothing touches the run's files. The
//! hub's side of a node is a [`crate::remote::RemotePort`]; reports come to the hub over a channel.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use rakuda_core::{Capacity, NodeId};
use rakuda_proto::Text;
use rakuda_proto::cluster::{AgentSettings, ToAgent};
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel,
};
use tokio::sync::{Notify, oneshot};

use crate::connection::NodeConnection;
use crate::data::Piped;
use crate::error::ClusterError;
use crate::nodes::{Launcher, agent_settings};
use crate::plan::ClusterPlan;
use crate::port::{Node, NodeSource};
use crate::remote::{RemotePort, Shared};
use crate::reports::ReportSender;

/// Of what commands have written so much may wait for the hub; then agents stop reading it.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// They go on when less than this waits.
const BACKLOG_BYTES_LOW: usize = 16 << 20;
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What the hub asks of a node's life.
pub(crate) enum PortCall {
    /// For the agent of this incarnation.
    Send(u32, ToAgent),
    /// Ask the agent of this incarnation for the time, so often.
    AskTime(u32, u32),
    /// What this incarnation said of its node was dealt with.
    SettleState(u32),
    /// The run is over, or the node is to go.
    Close,
    /// It is not waited for.
    GiveUp,
    /// A connection to its files is wanted.
    Dial(oneshot::Sender<Result<Piped, String>>),
}

/// What the hub asks.
pub(crate) enum Call {
    Node(NodeId, PortCall),
    /// There is something to run.
    WantNodes,
    /// No more nodes are wanted.
    CloseSource,
}

/// Where the hub's calls go.
#[derive(Clone)]
pub(crate) struct Calls(UnboundedSender<Call>);

impl Calls {
    /// Without a thread.
    #[cfg(test)]
    pub fn to_nobody() -> Self {
        Self(unbounded_channel().0)
    }

    pub fn node(&self, node: NodeId, call: PortCall) {
        // The thread is gone only with the process.
        let _ = self.0.send(Call::Node(node, call));
    }
}

/// The same as the thread itself has it: it ends when the hub has none any more.
#[derive(Clone)]
pub(crate) struct OwnCalls(WeakUnboundedSender<Call>);

impl OwnCalls {
    /// For a node that has come; none: the hub is gone.
    pub fn calls(&self) -> Option<Calls> {
        self.0.upgrade().map(Calls)
    }
}

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

/// The nodes that are not this machine.
#[derive(Default)]
pub struct Elsewhere {
    /// Those that are known now.
    pub nodes: Vec<Node>,
    /// Where others come from.
    pub source: Option<Box<dyn NodeSource>>,
}

/// What the thread is begun with.
pub(crate) struct Context {
    pub plan: ClusterPlan,
    /// What agents are told.
    pub agent: AgentSettings,
    /// The run's folder.
    pub directory: PathBuf,
    pub reports: ReportSender,
    pub calls: OwnCalls,
    /// Searches for nodes that are under way.
    pub searches: Arc<AtomicUsize>,
}

/// What the thread knows of each node.
#[derive(Default)]
pub(crate) struct Connections {
    by_node: RefCell<BTreeMap<NodeId, Rc<NodeConnection>>>,
    /// Too much waits for the hub.
    pub full: Notify,
}

impl Connections {
    pub fn add(&self, node: NodeId, connection: &Rc<NodeConnection>) {
        self.by_node.borrow_mut().insert(node, Rc::clone(connection));
    }

    fn all(&self) -> Vec<Rc<NodeConnection>> {
        self.by_node.borrow().values().cloned().collect()
    }

    /// Waits until too much waits for the hub, and then until it does not any more; for ever.
    async fn watch_backlog(&self, reports: &ReportSender) {
        loop {
            self.full.notified().await;
            while reports.backlog_bytes() > BACKLOG_BYTES_LOW {
                tokio::time::sleep(LOOK).await;
            }
            self.all().iter().for_each(|connection| connection.hold_output(false));
        }
    }
}

/// Whether so much waits for the hub that agents are to stop reading.
pub(crate) fn is_full(reports: &ReportSender) -> bool {
    reports.backlog_bytes() > BACKLOG_BYTES_MAX
}

/// Begins the lives of all nodes elsewhere, and the search for those that are not known yet.
pub fn start(config: ClusterConfig, reports: ReportSender) -> Result<Elsewhere, ClusterError> {
    let (sender, receiver) = unbounded_channel();
    let calls = Calls(sender);
    let brings_nodes = config.plan.joinable || config.plan.brings_nodes();
    let searches = Arc::new(AtomicUsize::new(usize::from(brings_nodes)));
    let agent = agent_settings(&config);
    let ClusterConfig { plan, directory, .. } = config;
    let context = Context {
        plan: plan.clone(),
        agent,
        directory: directory.clone(),
        reports,
        calls: OwnCalls(calls.0.downgrade()),
        searches: Arc::clone(&searches),
    };
    let numbered = plan.hosts.iter().zip(1..);
    let shared = || Arc::new(Shared::new(&directory, true));
    let nodes: Vec<_> = numbered.map(|(host, number)| (host, NodeId(number), shared())).collect();
    let known: Vec<Arc<Shared>> = nodes.iter().map(|(.., shared)| Arc::clone(shared)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ClusterError::Thread)?;
    let thread = std::thread::Builder::new().name("links".into()).spawn(move || {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, serve(context, known, receiver));
    });
    thread.map_err(ClusterError::Thread)?;
    let node = |(host, id, shared): (&crate::hosts::Host, NodeId, Arc<Shared>)| Node {
        name: Text::from(host.name.clone()),
        capacity: Capacity { cores: host.cores.unwrap_or(0), ..Capacity::default() },
        port: Box::new(RemotePort::new(id, shared, calls.clone())),
    };
    let nodes = nodes.into_iter().map(node).collect();
    let source = SourcePort { calls, searches, wanted: Cell::new(false) };
    let source = brings_nodes.then(|| Box::new(source) as Box<dyn NodeSource>);
    Ok(Elsewhere { nodes, source })
}

/// Until the hub is gone.
async fn serve(context: Context, known: Vec<Arc<Shared>>, mut calls: UnboundedReceiver<Call>) {
    let launcher = Rc::new(Launcher::new(&context));
    let (connections, reports) = (Rc::clone(&launcher.connections), context.reports.clone());
    tokio::task::spawn_local(async move { connections.watch_backlog(&reports).await });
    let search = crate::nodes::begin(&context, &launcher, known);
    drop(context);
    while let Some(call) = calls.recv().await {
        match (call, &search) {
            (Call::Node(node, call), _) => {
                let connection = launcher.connections.by_node.borrow().get(&node).cloned();
                if let Some(connection) = connection {
                    handle(&connection, call);
                }
            }
            (Call::WantNodes, Some(search)) => search.want(),
            (Call::CloseSource, Some(search)) => {
                search.close();
                // Also nodes of which the hub has not heard yet.
                for connection in launcher.connections.all() {
                    connection.shared.close();
                    connection.close();
                }
            }
            (Call::WantNodes | Call::CloseSource, None) => {}
        }
    }
}

/// Does what the hub asks of a node.
fn handle(connection: &NodeConnection, call: PortCall) {
    match call {
        PortCall::Send(incarnation, message) => connection.send(incarnation, &message),
        PortCall::AskTime(incarnation, count) => connection.ask_time(incarnation, count),
        PortCall::SettleState(incarnation) => connection.settle_state(incarnation),
        PortCall::Close => connection.close(),
        PortCall::GiveUp => connection.give_up(),
        PortCall::Dial(answer) => match connection.data() {
            Some(data) => drop(tokio::task::spawn_local(data.dial(answer))),
            None => drop(answer.send(Err("the node is gone".into()))),
        },
    }
}

/// The hub's end of the search for nodes.
struct SourcePort {
    calls: Calls,
    searches: Arc<AtomicUsize>,
    wanted: Cell<bool>,
}

impl NodeSource for SourcePort {
    fn want(&self) {
        if !self.wanted.replace(true) {
            let _ = self.calls.0.send(Call::WantNodes);
        }
    }

    fn close(&self) {
        let _ = self.calls.0.send(Call::CloseSource);
    }

    fn is_closed(&self) -> bool {
        self.searches.load(SeqCst) == 0
    }
}
