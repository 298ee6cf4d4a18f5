//! The nodes of a run and their agents: in the hub's own process, or over a link.
//!
//! It knows where a node is in its life, and what an agent has to be told that comes later than others. How nodes are
//! reached is told in `cluster`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rakuda_agent::Agent;
use rakuda_core::{Capacity, NodeId};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::cluster::{FromAgent, NodeFacts, ToAgent};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::data_link::DataDial;
use crate::hub::LOCAL_NODE;

/// The hub's end of an agent, wherever that lives. What the agent reports comes through the
/// channel that all agents of a hub share.
pub trait AgentPort {
    /// The hub has heard that an agent is there: what it asks from now on is for that one.
    fn on_up(&self, _incarnation: u32) {}
    /// Passes a request on.
    fn handle(&self, request: AgentRequest);
    /// Sends `signal` to all process groups that still have members; how many there were, as far as is known.
    fn signal_all(&self, signal: i32) -> usize;
    /// Stops or goes on reading what commands write.
    fn pause_output(&self, paused: bool);
    /// Asks about files; relative names start at the run's folder. One in this process is asked otherwise.
    fn ask(&self, _question: ToAgent) {}
    /// The hub has taken the report of a command's exit.
    fn on_exited(&self, _command: CommandId) {}
    /// Commands whose exit has not been reported.
    fn unreported(&self) -> usize;
    /// Ends the agent, which ends what it runs. One in this process needs no end of its own.
    fn close(&self) {}
    /// Whether nothing of it is left here.
    fn is_closed(&self) -> bool {
        true
    }
    /// Does not wait for it any more.
    fn give_up(&self) {}
    /// What the node calls a file of the run's folder.
    fn path_there(&self, here: &Path) -> PathBuf {
        here.to_path_buf()
    }
    /// How its files are got at, where they are its own.
    fn data(&self) -> Option<Rc<dyn DataDial>> {
        None
    }
}

impl AgentPort for Agent {
    fn handle(&self, request: AgentRequest) {
        Agent::handle(self, request);
    }

    fn signal_all(&self, signal: i32) -> usize {
        Agent::signal_all(self, signal)
    }

    fn pause_output(&self, paused: bool) {
        Agent::pause_output(self, paused);
    }

    fn unreported(&self) -> usize {
        Agent::unreported(self)
    }
}

/// A node and the agent on it.
pub struct Node {
    /// As in the front's messages.
    pub name: Text,
    /// What it has.
    pub capacity: Capacity,
    /// Its agent.
    pub port: Box<dyn AgentPort>,
}

/// Where a node is in its life (docs/design/clusters.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its agent is being started, or will be once more.
    Starting,
    /// It takes tasks.
    Up,
    /// It is there, but too much has failed on it.
    SetAside,
    /// It is gone, and not started again.
    Lost,
    /// It could never be started.
    Failed,
    /// The hub's own, which takes no tasks because there are others.
    Spare,
    /// It was told to go, and is still there.
    Leaving,
    /// It has gone as it was told.
    Gone,
}

impl NodeState {
    /// For people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::SetAside => "set_aside",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::Spare => "spare",
            Self::Leaving => "leaving",
            Self::Gone => "gone",
        }
    }
}

/// What happened to a node elsewhere.
#[derive(Debug)]
pub enum NodeEvent {
    /// Its agent is there.
    Up(NodeFacts),
    /// As from an agent in this process.
    Agent(AgentEvent),
    /// Its answer to a question. None is asked yet.
    Answer(#[allow(dead_code, reason = "for those who will ask")] FromAgent),
    /// It was up and is gone; why; whether it will be started once more.
    Lost(String, bool),
    /// It could not be started; why; whether that will be tried once more.
    Failed(String, bool),
    /// There is such a node from now on; its number is the next one.
    Appeared(Box<Newcomer>),
    /// It was told to go, and nothing of it is left.
    Gone,
    /// Not of a node: what nodes are waited for.
    Told(String),
    /// Not of a node: with this text a node may join.
    Invited(String),
    /// Not of a node: all nodes that were waited for have appeared, or why they do not.
    AllAppeared(Result<(), String>),
}

/// A node that was not known when the run began.
pub struct Newcomer {
    /// As in the front's messages.
    pub name: Text,
    /// Its agent.
    pub port: Box<dyn AgentPort + Send>,
    /// When it will be taken away, ns since 1970.
    pub ends_ns: Option<i64>,
}

impl std::fmt::Debug for Newcomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Newcomer({})", self.name.to_display())
    }
}

/// What brings nodes while the run goes on.
pub trait NodeSource {
    /// There is something to run.
    fn want(&self);
    /// Brings no more, and gives back what the nodes were taken from.
    fn close(&self);
    /// Whether nothing is left to be given back.
    fn is_closed(&self) -> bool;
}

/// A report about a node.
#[derive(Debug)]
pub struct NodeReport {
    /// Which.
    pub node: NodeId,
    /// Of the link that it came over: what an earlier one reports is dropped.
    pub incarnation: u32,
    /// What.
    pub event: NodeEvent,
}

impl NodeReport {
    /// Bytes of what commands have written.
    fn bytes(&self) -> usize {
        match &self.event {
            NodeEvent::Agent(AgentEvent::OutputWritten { bytes, .. }) => bytes.len(),
            NodeEvent::Agent(AgentEvent::CommandExited { captured: Some(text), .. }) => {
                text.0.len()
            }
            _ => 0,
        }
    }
}

/// Where reports about nodes elsewhere are sent from another thread, and how many bytes of them wait.
#[derive(Clone)]
pub struct ReportSender {
    sender: UnboundedSender<NodeReport>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl ReportSender {
    /// Sends one.
    pub fn send(&self, report: NodeReport) {
        self.waiting_bytes.fetch_add(report.bytes(), Relaxed);
        // The hub is gone only when the run is over.
        let _ = self.sender.send(report);
    }

    /// What the hub has not come to take yet.
    pub fn backlog_bytes(&self) -> usize {
        self.waiting_bytes.load(Relaxed)
    }
}

/// Where the hub takes them.
pub struct ReportReceiver {
    receiver: UnboundedReceiver<NodeReport>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl ReportReceiver {
    async fn recv(&mut self) -> Option<NodeReport> {
        let report = self.receiver.recv().await?;
        Some(self.taken(report))
    }

    fn try_recv(&mut self) -> Option<NodeReport> {
        let report = self.receiver.try_recv().ok()?;
        Some(self.taken(report))
    }

    fn taken(&self, report: NodeReport) -> NodeReport {
        self.waiting_bytes.fetch_sub(report.bytes(), Relaxed);
        report
    }
}

/// A channel for reports about nodes elsewhere.
pub fn report_channel() -> (ReportSender, ReportReceiver) {
    let (sender, receiver) = unbounded_channel();
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    let receiver = ReportReceiver { receiver, waiting_bytes: Arc::clone(&waiting_bytes) };
    (ReportSender { sender, waiting_bytes }, receiver)
}

/// All that agents report: the one in this process has a channel of its own, since it is the fastest.
pub(crate) struct Reports {
    pub local: UnboundedReceiver<AgentEvent>,
    /// What the inspector of this process answers.
    pub answers: UnboundedReceiver<FromAgent>,
    pub remote: ReportReceiver,
}

impl Reports {
    /// The next report; those of this process first.
    pub async fn recv(&mut self) -> NodeReport {
        tokio::select! {
            biased;
            Some(answer) = self.answers.recv() => answered(answer),
            event = self.local.recv() => local(event.expect("the agent keeps a sender")),
            Some(report) = self.remote.recv() => report,
        }
    }

    /// The next report, if there is one now.
    pub fn try_recv(&mut self) -> Option<NodeReport> {
        let answer = self.answers.try_recv().map(answered);
        answer.or_else(|_| self.local.try_recv().map(local)).ok().or_else(|| self.remote.try_recv())
    }
}

fn local(event: AgentEvent) -> NodeReport {
    NodeReport { node: LOCAL_NODE, incarnation: 0, event: NodeEvent::Agent(event) }
}

fn answered(answer: FromAgent) -> NodeReport {
    NodeReport { node: LOCAL_NODE, incarnation: 0, event: NodeEvent::Answer(answer) }
}

/// A node in its life.
pub(crate) struct Place {
    pub node: Node,
    pub state: NodeState,
    /// Of its present link, from 1; 0: it has had none.
    pub incarnation: u32,
    /// Why it is not up.
    pub trouble: Option<String>,
    /// Actions that ended well here.
    pub done: u32,
    /// It came while the run went on, and may be let go.
    pub is_guest: bool,
    /// When it will be taken away, ns since 1970.
    pub ends_ns: Option<i64>,
}

/// All nodes; a node's number is its place.
pub(crate) struct Agents {
    places: Vec<Place>,
    /// Defined so far and not forgotten, for agents that come later.
    environments: BTreeMap<u32, AgentRequest>,
    /// Where commands start since the Rakefile has moved.
    directory: Option<AgentRequest>,
    paused: bool,
    source: Option<Box<dyn NodeSource>>,
    /// Nodes will appear that are not known yet.
    expecting: bool,
    /// Why those that were expected do not appear.
    pub not_appeared: Option<String>,
}

impl Agents {
    /// The first is the hub's own; whether it takes tasks.
    pub fn new(nodes: Vec<Node>, own_takes_tasks: bool) -> Self {
        assert!(!nodes.is_empty(), "a hub has at least its own node");
        let place = |(node, number)| {
            let state = match number {
                _ if number == LOCAL_NODE.0 && own_takes_tasks => NodeState::Up,
                0 => NodeState::Spare,
                _ => NodeState::Starting,
            };
            Place {
                node,
                state,
                incarnation: 0,
                trouble: None,
                done: 0,
                is_guest: false,
                ends_ns: None,
            }
        };
        let places = nodes.into_iter().zip(0..).map(place).collect();
        Self {
            places,
            environments: BTreeMap::new(),
            directory: None,
            paused: false,
            source: None,
            expecting: false,
            not_appeared: None,
        }
    }

    /// Nodes will come from there; `expecting`: without any of them the run may not have one.
    pub fn set_source(&mut self, source: Box<dyn NodeSource>, expecting: bool) {
        self.source = Some(source);
        self.expecting = expecting;
    }

    /// There is something to run.
    pub fn want_nodes(&self) {
        if let Some(source) = &self.source {
            source.want();
        }
    }

    /// All that were expected have appeared, or never will.
    pub fn expect_no_more(&mut self) {
        self.expecting = false;
    }

    /// Whether nodes will appear that are not known yet.
    pub fn is_expecting(&self) -> bool {
        self.expecting
    }

    /// A node that was not known; its number.
    pub fn add(&mut self, newcomer: Newcomer) -> NodeId {
        let id = NodeId(u32::try_from(self.places.len()).expect("nodes have small numbers"));
        self.places.push(Place {
            // No cores: as many as its agent finds.
            node: Node { name: newcomer.name, capacity: Capacity::default(), port: newcomer.port },
            state: NodeState::Starting,
            incarnation: 0,
            trouble: None,
            done: 0,
            is_guest: true,
            ends_ns: newcomer.ends_ns,
        });
        id
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.places[id.0 as usize].node
    }

    pub fn place(&self, id: NodeId) -> &Place {
        &self.places[id.0 as usize]
    }

    pub fn place_mut(&mut self, id: NodeId) -> &mut Place {
        &mut self.places[id.0 as usize]
    }

    /// All, with their numbers.
    pub fn places(&self) -> impl Iterator<Item = (NodeId, &Place)> {
        self.places.iter().zip(0..).map(|(place, number)| (NodeId(number), place))
    }

    /// Whether it takes tasks now.
    pub fn is_up(&self, id: NodeId) -> bool {
        self.place(id).state == NodeState::Up
    }

    /// Whether its agent is there.
    pub fn is_there(&self, id: NodeId) -> bool {
        matches!(self.place(id).state, NodeState::Up | NodeState::SetAside)
    }

    /// Whether a node takes tasks or may come to.
    pub fn any_left(&self) -> bool {
        let left = |place: &Place| {
            matches!(place.state, NodeState::Up | NodeState::SetAside | NodeState::Starting)
        };
        self.expecting || self.places.iter().any(left)
    }

    /// What the nodes that take tasks have.
    pub fn capacities(&self) -> Vec<(NodeId, Capacity)> {
        let up = self.places().filter(|(_, place)| place.state == NodeState::Up);
        up.map(|(id, place)| (id, place.node.capacity.clone())).collect()
    }

    /// A node's agent is there: it is told what the others know.
    pub fn welcome(&self, id: NodeId) {
        let port = &self.node(id).port;
        for request in self.environments.values().chain(&self.directory) {
            port.handle(request.clone());
        }
        if self.paused {
            port.pause_output(true);
        }
    }

    /// Takes note of a report, before it is acted on.
    pub fn note(&self, report: &NodeReport) {
        if let NodeEvent::Agent(AgentEvent::CommandExited { command, .. }) = &report.event {
            self.node(report.node).port.on_exited(*command);
        }
    }

    pub fn handle(&self, node: NodeId, request: AgentRequest) {
        self.node(node).port.handle(request);
    }

    /// To every agent, and to those that come later.
    pub fn handle_all(&mut self, request: &AgentRequest) {
        match request {
            AgentRequest::DefineEnvironment { environment, .. } => {
                self.environments.insert(*environment, request.clone());
            }
            AgentRequest::ForgetEnvironments { below } => {
                self.environments.retain(|number, _| number >= below);
            }
            AgentRequest::ChangeDirectory { .. } => self.directory = Some(request.clone()),
            AgentRequest::Start { .. } | AgentRequest::Signal { .. } => {}
        }
        for place in &self.places {
            place.node.port.handle(request.clone());
        }
    }

    /// How many process groups there are.
    pub fn signal_all(&self, signal: i32) -> usize {
        self.places.iter().map(|place| place.node.port.signal_all(signal)).sum()
    }

    pub fn pause_output(&mut self, paused: bool) {
        self.paused = paused;
        for place in &self.places {
            place.node.port.pause_output(paused);
        }
    }

    pub fn unreported(&self) -> usize {
        self.places.iter().map(|place| place.node.port.unreported()).sum()
    }

    /// Ends the agents elsewhere.
    pub fn close(&self) {
        self.places.iter().for_each(|place| place.node.port.close());
        if let Some(source) = &self.source {
            source.close();
        }
    }

    /// Whether nothing that nodes were taken from is left to be given back.
    pub fn is_source_closed(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.is_closed())
    }

    pub fn are_closed(&self) -> bool {
        self.places.iter().all(|place| place.node.port.is_closed())
    }

    /// Does not wait for any agent elsewhere any more.
    pub fn give_up(&self) {
        self.places.iter().skip(1).for_each(|place| place.node.port.give_up());
    }

    /// Does not wait any more for agents elsewhere that still owe the end of a command.
    pub fn give_up_silent(&self) {
        for place in self.places.iter().skip(1).filter(|place| place.node.port.unreported() > 0) {
            place.node.port.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::agent::OutputStream;

    #[test]
    fn the_backlog_is_what_was_sent_and_not_taken() {
        let (sender, mut receiver) = report_channel();
        let written = |bytes| NodeReport {
            node: NodeId(1),
            incarnation: 1,
            event: NodeEvent::Agent(AgentEvent::OutputWritten {
                command: CommandId(1),
                stream: OutputStream::Stdout,
                bytes: vec![0; bytes],
            }),
        };
        sender.send(written(5));
        sender.send(NodeReport { node: NodeId(1), incarnation: 1, event: NodeEvent::Gone });
        sender.send(written(7));
        assert_eq!(sender.backlog_bytes(), 12);
        receiver.try_recv();
        assert_eq!(sender.backlog_bytes(), 7);
        while receiver.try_recv().is_some() {}
        assert_eq!(sender.backlog_bytes(), 0);
    }
}
