//! What a node is to the hub: its agent behind one port, wherever that lives, and what brings more of them.
//!
//! It does not know where a node is in its life, nor how it is reached.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_agent::Agent;
use rakuda_core::{Capacity, NodeId};
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentRequest, CommandId};
use rakuda_proto::cluster::ToAgent;

use crate::data_dial::DataDial;

/// The hub's own node: where commands run that no action asked for.
pub const LOCAL_NODE: NodeId = NodeId(0);

/// The hub's end of an agent, wherever that lives. What the agent reports comes through the
/// channel that all agents of a hub share.
pub trait AgentPort {
    /// The hub has heard that an agent is there: what it asks from now on is for that one.
    fn on_up(&self, _incarnation: u32) {}
    /// Passes a request on.
    fn handle(&self, request: AgentRequest);
    /// Sends `signal` to all process groups that still have members, and returns how many there were, as far as is
    /// known.
    fn signal_all(&self, signal: i32) -> usize;
    /// Stops or goes on reading what commands write.
    fn pause_output(&self, paused: bool);
    /// Asks `count` times what time it is there; each answer is reported. An agent in this process has the hub's own
    /// clock.
    fn ask_time(&self, _count: u32) {}
    /// Asks about files; relative names start at the run's folder. An agent in this process is asked otherwise.
    fn ask(&self, _question: ToAgent) {}
    /// The hub has dealt with how the node is: it may say so again.
    fn settle_state(&self) {}
    /// The hub has taken the report of a command's exit.
    fn on_exited(&self, _command: CommandId) {}
    /// Commands whose exit has not been reported.
    fn unreported(&self) -> usize;
    /// Kills all that has ever been started below the agent. For one in this process the guard does that.
    fn end_all(&self) {}
    /// Whether that is done, or nothing can be known of it any more.
    fn has_ended_all(&self) -> bool {
        true
    }
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
    /// How its files are reached, where they are its own.
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
