//! The thread that all links of the hub live on.
//!
//! The hub's own thread writes the record and looks at files; a file system that hangs (a server
//! that is away for a minute) holds it up. Meanwhile agents must not take the hub for gone, nor the
//! hub them: so what carries a heartbeat is here, where nothing touches the run's files. The hub's
//! side of a node is a [`crate::remote::RemotePort`]; reports come to the hub over a channel.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rakuda_core::{Capacity, NodeId};
use rakuda_proto::Text;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::calls::{Call, Calls, OwnCalls, PortCall};
use crate::connection::NodeConnection;
use crate::context::{ClusterConfig, Context, agent_settings};
use crate::error::ClusterError;
use crate::launcher::Launcher;
use crate::nodes::Nodes;
use crate::origins;
use crate::port::{Node, NodeSource};
use crate::remote::{RemotePort, Shared};
use crate::reports::ReportSender;

/// The nodes that are not this machine.
#[derive(Default)]
pub struct Elsewhere {
    /// Those that are known now.
    pub nodes: Vec<Node>,
    /// Where others come from.
    pub source: Option<Box<dyn NodeSource>>,
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
    let nodes = Rc::new(Nodes::new(&context, &Rc::new(Launcher::new(&context))));
    let (connections, reports) = (Rc::clone(&nodes.connections), context.reports.clone());
    tokio::task::spawn_local(async move { connections.watch_backlog(&reports).await });
    nodes.begin_known(&context, known);
    let search = origins::await_nodes(&context, &nodes);
    drop(context);
    while let Some(call) = calls.recv().await {
        match (call, &search) {
            (Call::Node(node, call), _) => {
                let connection = nodes.connections.get(node);
                if let Some(connection) = connection {
                    handle(&connection, call);
                }
            }
            (Call::WantNodes, Some(search)) => search.want(),
            (Call::CloseSource, Some(search)) => {
                search.close();
                // Also nodes of which the hub has not heard yet.
                for connection in nodes.connections.all() {
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
