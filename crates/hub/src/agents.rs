//! The nodes of a run and their agents: in the hub's own process, or over a link.
//!
//! It knows what an agent that comes later than others must be sent. Where a node is in its life is the business of
//! `rakuda_core`, how it is reached that of `rakuda_cluster`.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::{
    LOCAL_NODE, Newcomer, Node, NodeEvent, NodeReport, NodeSource, ReportReceiver,
};
use rakuda_core::{Capacity, NodeId};
use rakuda_proto::agent::{AgentEvent, AgentRequest};
use rakuda_proto::cluster::{FromAgent, NodeFacts};
use tokio::sync::mpsc::UnboundedReceiver;

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

/// What the hub knows of a node, but where it is in its life.
pub(crate) struct Member {
    pub node: Node,
    /// Why it is not up.
    pub trouble: Option<String>,
    /// What an agent has said of itself, until the run has taken its link.
    pub facts: Option<NodeFacts>,
    /// Why a link has ended, until the run has taken that.
    pub link_trouble: Option<String>,
    /// Actions that ended well here.
    pub done: u32,
    /// It came while the run went on, and may be let go.
    pub is_dial_in: bool,
    /// When it will be taken away, ns since 1970.
    pub ends_ns: Option<i64>,
    /// Numbers of environments that its agent knows. The agent gets one with the first command that has it: where each
    /// command has its own, all of them for all nodes would be their product.
    told: BTreeSet<u32>,
}

/// The number of the environment of a command that is handed over; `None`: that of the run.
fn environment_of(request: &AgentRequest) -> Option<u32> {
    match request {
        AgentRequest::Start { options, .. } | AgentRequest::Prepare { options, .. } => {
            options.as_ref().map(|options| options.environment)
        }
        _ => None,
    }
}

/// All nodes; a node's number is its place.
pub(crate) struct Agents {
    places: Vec<Member>,
    /// Environments that are defined so far and not forgotten.
    environments: BTreeMap<u32, AgentRequest>,
    /// The folder in which commands start since the Rakefile has moved.
    directory: Option<AgentRequest>,
    paused: bool,
    source: Option<Box<dyn NodeSource>>,
    /// Why nodes that were expected do not appear.
    pub not_appeared: Option<String>,
}

impl Agents {
    /// The hub's own node is the first.
    pub fn new(nodes: Vec<Node>) -> Self {
        assert!(!nodes.is_empty(), "a hub has at least its own node");
        let place = |node| Member {
            node,
            trouble: None,
            facts: None,
            link_trouble: None,
            done: 0,
            is_dial_in: false,
            ends_ns: None,
            told: BTreeSet::new(),
        };
        let places = nodes.into_iter().map(place).collect();
        Self {
            places,
            environments: BTreeMap::new(),
            directory: None,
            paused: false,
            source: None,
            not_appeared: None,
        }
    }

    /// Sets where nodes will come from.
    pub fn set_source(&mut self, source: Box<dyn NodeSource>) {
        self.source = Some(source);
    }

    /// Whether nodes may come from somewhere.
    pub fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// Asks for nodes: there is something to run.
    pub fn want_nodes(&self) {
        if let Some(source) = &self.source {
            source.want();
        }
    }

    /// Adds a node that was not known. Returns its number.
    pub fn add(&mut self, newcomer: Newcomer) -> NodeId {
        let id = NodeId(u32::try_from(self.places.len()).expect("nodes have small numbers"));
        self.places.push(Member {
            // No cores: as many as its agent finds.
            node: Node { name: newcomer.name, capacity: Capacity::default(), port: newcomer.port },
            trouble: None,
            facts: None,
            link_trouble: None,
            done: 0,
            is_dial_in: true,
            ends_ns: newcomer.ends_ns,
            told: BTreeSet::new(),
        });
        id
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.places[id.0 as usize].node
    }

    pub fn place(&self, id: NodeId) -> &Member {
        &self.places[id.0 as usize]
    }

    pub fn place_mut(&mut self, id: NodeId) -> &mut Member {
        &mut self.places[id.0 as usize]
    }

    /// All nodes, with their numbers.
    pub fn places(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.places.iter().zip(0..).map(|(place, number)| (NodeId(number), place))
    }

    /// A node's agent is there: sends it what the others know.
    pub fn welcome(&mut self, id: NodeId) {
        let place = &mut self.places[id.0 as usize];
        place.told.clear();
        if let Some(request) = &self.directory {
            place.node.port.handle(request.clone());
        }
        if self.paused {
            place.node.port.pause_output(true);
        }
    }

    /// Notes a report before the hub acts on it.
    pub fn note(&self, report: &NodeReport) {
        let over = match &report.event {
            NodeEvent::Agent(
                AgentEvent::CommandExited { command, .. }
                | AgentEvent::CommandWithdrawn { command },
            ) => Some(command),
            _ => None,
        };
        if let Some(command) = over {
            self.node(report.node).port.on_exited(*command);
        }
    }

    pub fn handle(&mut self, node: NodeId, request: AgentRequest) {
        let place = &mut self.places[node.0 as usize];
        if let Some(definition) =
            environment_of(&request).and_then(|number| self.environments.get_key_value(&number))
            && place.told.insert(*definition.0)
        {
            place.node.port.handle(definition.1.clone());
        }
        place.node.port.handle(request);
    }

    /// No command will have one of these environments any more.
    pub fn forget_environments(&mut self, below: u32) {
        self.environments.retain(|number, _| *number >= below);
        for place in &mut self.places {
            let known = place.told.len();
            place.told.retain(|number| *number >= below);
            if place.told.len() < known {
                place.node.port.handle(AgentRequest::ForgetEnvironments { below });
            }
        }
    }

    /// Sends a request to every agent, and to those that come later. An agent gets an environment with the first
    /// command that has it.
    pub fn handle_all(&mut self, request: &AgentRequest) {
        match request {
            AgentRequest::DefineEnvironment { environment, .. } => {
                self.environments.insert(*environment, request.clone());
                return;
            }
            AgentRequest::ChangeDirectory { .. } => self.directory = Some(request.clone()),
            // An agent that comes later remembers nothing.
            AgentRequest::ForgetProgram { .. }
            | AgentRequest::ForgetEnvironments { .. }
            | AgentRequest::Start { .. }
            | AgentRequest::FreesCore { .. }
            | AgentRequest::Prepare { .. }
            | AgentRequest::Release
            | AgentRequest::Withdraw { .. }
            | AgentRequest::KeepCore { .. }
            | AgentRequest::CommitRound { .. }
            | AgentRequest::CloseRound { .. }
            | AgentRequest::Signal { .. }
            | AgentRequest::Streams(_) => {}
        }
        for place in &self.places {
            place.node.port.handle(request.clone());
        }
    }

    /// Sends a signal to all process groups. Returns how many there are.
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

    /// Has all agents elsewhere kill what was ever started below them.
    pub fn end_all(&self) {
        self.places.iter().for_each(|place| place.node.port.end_all());
    }

    /// Whether those that are there have done so.
    pub fn have_ended_all(&self) -> bool {
        self.places.iter().all(|place| place.node.port.has_ended_all())
    }

    /// Waits no longer for agents elsewhere that have not; they end all when they see the end of their links.
    pub fn give_up_unended(&self) {
        for place in self.places.iter().filter(|place| !place.node.port.has_ended_all()) {
            place.node.port.give_up();
        }
    }

    /// Ends the agents elsewhere.
    pub fn close(&self) {
        self.places.iter().for_each(|place| place.node.port.close());
        if let Some(source) = &self.source {
            source.close();
        }
    }

    /// Whether all that nodes were taken from, such as an allocation, is given back.
    pub fn is_source_closed(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.is_closed())
    }

    pub fn are_closed(&self) -> bool {
        self.places.iter().all(|place| place.node.port.is_closed())
    }

    /// Waits no longer for any agent elsewhere.
    pub fn give_up(&self) {
        self.places.iter().skip(1).for_each(|place| place.node.port.give_up());
    }

    /// Waits no longer for agents elsewhere that still owe the end of a command.
    pub fn give_up_unresponsive(&self) {
        for place in self.places.iter().skip(1).filter(|place| place.node.port.unreported() > 0) {
            place.node.port.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use rakuda_cluster::AgentPort;
    use rakuda_proto::agent::CommandId;
    use rakuda_proto::front::{CommandOptions, Program};

    use super::*;

    /// Keeps what it is asked, in a word each.
    struct Listening(Rc<RefCell<Vec<String>>>);

    impl AgentPort for Listening {
        fn handle(&self, request: AgentRequest) {
            self.0.borrow_mut().push(match request {
                AgentRequest::DefineEnvironment { environment, .. } => {
                    format!("define {environment}")
                }
                AgentRequest::ForgetEnvironments { below } => format!("forget {below}"),
                AgentRequest::Start { .. } => "start".to_owned(),
                other => format!("{other:?}"),
            });
        }

        fn signal_all(&self, _signal: i32) -> usize {
            0
        }

        fn pause_output(&self, _paused: bool) {}

        fn unreported(&self) -> usize {
            0
        }
    }

    #[test]
    fn an_environment_goes_to_the_nodes_that_have_a_command_with_it() {
        let heard: Vec<_> = (0..3).map(|_| Rc::<RefCell<Vec<String>>>::default()).collect();
        let node = |heard: &Rc<RefCell<Vec<String>>>| Node {
            name: "node".into(),
            capacity: Capacity::default(),
            port: Box::new(Listening(Rc::clone(heard))),
        };
        let mut agents = Agents::new(heard.iter().map(node).collect());
        let define = |environment| AgentRequest::DefineEnvironment {
            environment,
            set: BTreeMap::new(),
            unset: Vec::new(),
        };
        let start = |environment| AgentRequest::Start {
            command: CommandId(0),
            program: Program::Line("true".into()),
            options: Some(Box::new(CommandOptions { environment, ..CommandOptions::default() })),
        };
        (1..=1000).for_each(|number| agents.handle_all(&define(number)));
        for number in [0, 7, 7, 900] {
            agents.handle(NodeId(1), start(number));
        }
        agents.forget_environments(900);
        // Its agent is another one from now on.
        agents.welcome(NodeId(1));
        agents.handle(NodeId(1), start(900));
        let expected = ["start", "define 7", "start", "start", "define 900", "start", "forget 900"];
        assert_eq!(heard[1].borrow()[..7], expected);
        assert_eq!(heard[1].borrow()[7..], ["define 900", "start"]);
        assert!(heard[0].borrow().is_empty() && heard[2].borrow().is_empty());
    }
}
