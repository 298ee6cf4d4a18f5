//! The agents that the hub can use: one in its own process today, links to others later.

use rakuda_agent::Agent;
use rakuda_core::{Capacity, NodeId};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;

/// The hub's end of an agent, wherever that lives. What the agent reports comes through the
/// channel that all agents of a hub share.
pub trait AgentPort {
    /// Passes a request on.
    fn handle(&self, request: AgentRequest);
    /// Sends `signal` to all process groups that still have members; how many there were.
    fn signal_all(&self, signal: i32) -> usize;
    /// Stops or goes on reading what commands write.
    fn pause_output(&self, paused: bool);
    /// Commands whose exit has not been reported.
    fn unreported(&self) -> usize;
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

/// All nodes; a node's number is its place.
pub(crate) struct Agents {
    nodes: Vec<Node>,
}

impl Agents {
    pub fn new(nodes: Vec<Node>) -> Self {
        assert!(!nodes.is_empty(), "a hub has at least its own node");
        Self { nodes }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn capacities(&self) -> Vec<(NodeId, Capacity)> {
        let numbered = self.nodes.iter().zip(0..);
        numbered.map(|(node, number)| (NodeId(number), node.capacity.clone())).collect()
    }

    pub fn handle(&self, node: NodeId, request: AgentRequest) {
        self.nodes[node.0 as usize].port.handle(request);
    }

    /// To every agent.
    pub fn handle_all(&self, request: &AgentRequest) {
        for node in &self.nodes {
            node.port.handle(request.clone());
        }
    }

    /// How many process groups there are.
    pub fn signal_all(&self, signal: i32) -> usize {
        self.nodes.iter().map(|node| node.port.signal_all(signal)).sum()
    }

    pub fn pause_output(&self, paused: bool) {
        for node in &self.nodes {
            node.port.pause_output(paused);
        }
    }

    pub fn unreported(&self) -> usize {
        self.nodes.iter().map(|node| node.port.unreported()).sum()
    }
}
