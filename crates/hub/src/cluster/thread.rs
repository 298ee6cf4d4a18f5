//! The thread that all links of the hub live on, and what the hub asks of it.
//!
//! The hub's own thread writes the record and looks at files; a file system that hangs (a server that is away for a minute) holds it up.
//! Meanwhile agents must not take the hub for gone, nor the hub them: so whoever carries a heartbeat is here, where nothing touches
//! the run's files. The hub's side of a node is a [`super::remote::RemotePort`]; reports come to the hub over a channel.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
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

use super::data::Piped;
use super::line::Line;
use super::nodes::{Launcher, agent_settings};
use super::plan::ClusterPlan;
use super::remote::{RemotePort, Shared};
use crate::agents::{Node, NodeSource, ReportSender};
use crate::settings::RunSettings;

/// Of what commands have written so much may wait for the hub; then agents stop reading it.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// They go on when less than this waits.
const BACKLOG_BYTES_LOW: usize = 16 << 20;
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What the hub asks of a node's life.
pub(super) enum PortCall {
    /// For the agent of this incarnation.
    Send(u32, ToAgent),
    /// The run is over, or the node is to go.
    Close,
    /// It is not waited for.
    GiveUp,
    /// A connection to its files is wanted.
    Dial(oneshot::Sender<Result<Piped, String>>),
}

/// What the hub asks.
pub(super) enum Call {
    Node(NodeId, PortCall),
    /// There is something to run.
    WantNodes,
    /// No more nodes are wanted.
    CloseSource,
}

/// Where the hub's calls go.
#[derive(Clone)]
pub(super) struct Calls(UnboundedSender<Call>);

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
pub(super) struct OwnCalls(WeakUnboundedSender<Call>);

impl OwnCalls {
    /// For a node that has come; none: the hub is gone.
    pub fn calls(&self) -> Option<Calls> {
        self.0.upgrade().map(Calls)
    }
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
pub(super) struct Brief {
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
pub(super) struct Lines {
    lines: RefCell<BTreeMap<NodeId, Rc<Line>>>,
    /// Too much waits for the hub.
    pub full: Notify,
}

impl Lines {
    pub fn add(&self, node: NodeId, line: &Rc<Line>) {
        self.lines.borrow_mut().insert(node, Rc::clone(line));
    }

    fn all(&self) -> Vec<Rc<Line>> {
        self.lines.borrow().values().cloned().collect()
    }

    /// Waits until too much waits for the hub, and then until it does not any more; for ever.
    async fn watch_backlog(&self, reports: &ReportSender) {
        loop {
            self.full.notified().await;
            while reports.backlog_bytes() > BACKLOG_BYTES_LOW {
                tokio::time::sleep(LOOK).await;
            }
            self.all().iter().for_each(|line| line.hold_output(false));
        }
    }
}

/// Whether so much waits for the hub that agents are to stop reading.
pub(super) fn is_full(reports: &ReportSender) -> bool {
    reports.backlog_bytes() > BACKLOG_BYTES_MAX
}

/// Begins the lives of all nodes elsewhere, and the search for those that are not known yet; none: the run has this machine alone.
pub fn start(settings: &RunSettings, reports: ReportSender) -> io::Result<Elsewhere> {
    let Some(plan) = &settings.cluster else { return Ok(Elsewhere::default()) };
    let (sender, receiver) = unbounded_channel();
    let calls = Calls(sender);
    let brings_nodes = plan.joinable || plan.origin.brings_nodes();
    let searches = Arc::new(AtomicUsize::new(usize::from(brings_nodes)));
    let brief = Brief {
        plan: plan.clone(),
        agent: agent_settings(plan, settings),
        directory: settings.directory.clone(),
        reports,
        calls: OwnCalls(calls.0.downgrade()),
        searches: Arc::clone(&searches),
    };
    let numbered = plan.hosts.iter().zip(1..);
    let shared = || Arc::new(Shared::new(&settings.directory, plan.staging.is_some()));
    let nodes: Vec<_> = numbered.map(|(host, number)| (host, NodeId(number), shared())).collect();
    let known: Vec<Arc<Shared>> = nodes.iter().map(|(.., shared)| Arc::clone(shared)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("links".into()).spawn(move || {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, serve(brief, known, receiver));
    })?;
    let node = |(host, id, shared): (&super::hosts::Host, NodeId, Arc<Shared>)| Node {
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
async fn serve(brief: Brief, known: Vec<Arc<Shared>>, mut calls: UnboundedReceiver<Call>) {
    let launcher = Rc::new(Launcher::new(&brief));
    let (lines, reports) = (Rc::clone(&launcher.lines), brief.reports.clone());
    tokio::task::spawn_local(async move { lines.watch_backlog(&reports).await });
    let search = super::nodes::begin(&brief, &launcher, known);
    drop(brief);
    while let Some(call) = calls.recv().await {
        match (call, &search) {
            (Call::Node(node, call), _) => {
                let line = launcher.lines.lines.borrow().get(&node).cloned();
                if let Some(line) = line {
                    handle(&line, call);
                }
            }
            (Call::WantNodes, Some(search)) => search.want(),
            (Call::CloseSource, Some(search)) => {
                search.close();
                // Also nodes of which the hub has not heard yet.
                for line in launcher.lines.all() {
                    line.shared.close();
                    line.close();
                }
            }
            (Call::WantNodes | Call::CloseSource, None) => {}
        }
    }
}

/// Does what the hub asks of a node.
fn handle(line: &Line, call: PortCall) {
    match call {
        PortCall::Send(incarnation, message) => line.send(incarnation, &message),
        PortCall::Close => line.close(),
        PortCall::GiveUp => line.give_up(),
        PortCall::Dial(answer) => match line.data() {
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
