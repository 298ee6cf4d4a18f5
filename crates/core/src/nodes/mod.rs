//! The nodes of a run: where each of them is in its life, and when it has been waited for long enough.
//!
//! One transition function, [`Nodes::handle`]; `docs/design/nodes.md` has its table. It knows no
//! tasks, no files and no links: [`Run`](crate::Run) passes on what a transition means to the other
//! parts, and the shell what it means to the node.

mod idle;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::NodeId;
use crate::time::Time;

pub use idle::IdleNodes;

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The hub's own, which takes no tasks because there are others.
    Spare,
    /// Its agent is being started for the first time, or will be.
    Starting,
    /// It takes tasks.
    Up,
    /// Its agent is there, but too much has failed on it.
    Drained,
    /// Its link is gone, and may come again.
    Away,
    /// It was there, and the run no longer waits for it.
    Lost,
    /// It never was there, and the run no longer waits for it.
    Failed,
    /// The run lets it go, and it is still there.
    Leaving,
    /// The run let it go, and it has gone.
    Gone,
}

impl NodeState {
    /// Whether its agent is there, and the run counts on it.
    pub fn is_there(self) -> bool {
        matches!(self, Self::Up | Self::Drained)
    }

    /// Whether the run waits for it.
    pub fn is_coming(self) -> bool {
        matches!(self, Self::Starting | Self::Away)
    }
}

/// How a node became part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOrigin {
    /// It is the hub's own, and there.
    Own {
        /// Whether it is for tasks.
        takes_tasks: bool,
    },
    /// It is to be started, or has announced itself.
    Awaited,
}

/// How long the run waits for a node. `None`: the shell's links report when that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// Timeout for the first link, ns.
    pub start_ns: Option<u64>,
    /// Timeout for the next word over a link, ns.
    pub unresponsive_ns: Option<u64>,
    /// Timeout for the next link, from the last word over the one before, ns.
    pub away_ns: Option<u64>,
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeInput {
    /// It is part of the run. Its number is the next one.
    Known {
        /// How it became part of the run.
        origin: NodeOrigin,
        /// How long the run waits for it.
        limits: NodeLimits,
    },
    /// An agent is there, over a new link.
    LinkUp {
        /// The number of the link: one that the node has not had.
        incarnation: u32,
    },
    /// Something came over its link.
    Heard {
        /// The number of the link.
        incarnation: u32,
    },
    /// A link has ended.
    LinkDown {
        /// The number of the link.
        incarnation: u32,
        /// Another link may come.
        again: bool,
    },
    /// No link could be had.
    StartFailed {
        /// The shell will try again.
        again: bool,
    },
    /// The run lets it go. Nothing runs there.
    LetGo,
    /// Nothing of it is left.
    Farewell,
    /// The scheduler starts nothing more there.
    Drain,
    /// The scheduler uses it again.
    TakeBack,
}

/// What the shell is to do after a step in a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEffect {
    /// It is there. The shell sends it what it must know, and reports to the run when it may have tasks
    /// ([`Event::NodeJoined`](crate::Event::NodeJoined)).
    Welcome {
        /// The node.
        id: NodeId,
        /// The run had waited for it since it was lost.
        is_back: bool,
        /// The run still counts on the files that lie there.
        files_kept: bool,
    },
    /// It is gone. The shell ends what it still looks at there, and then says
    /// [`Input::NodeLost`](crate::Input::NodeLost).
    Lose {
        /// The node.
        id: NodeId,
    },
    /// The run no longer waits for it: what lies there is made again elsewhere.
    GiveUp {
        /// The node.
        id: NodeId,
    },
    /// It never was there, and the run no longer waits for it.
    Miss {
        /// The node.
        id: NodeId,
    },
    /// The run let it go, and it has gone.
    Gone {
        /// The node.
        id: NodeId,
    },
}

#[derive(Debug)]
struct Node {
    state: NodeState,
    limits: NodeLimits,
    /// The number of its last link; 0: it has had none, or is the hub's own.
    incarnation: u32,
    /// When it was heard last; before that, when it became known.
    heard: Time,
}

impl Node {
    /// When the run has waited for it long enough.
    fn due(&self) -> Option<Time> {
        let limit_ns = match self.state {
            NodeState::Starting => self.limits.start_ns,
            NodeState::Up | NodeState::Drained => self.limits.unresponsive_ns,
            NodeState::Away => self.limits.away_ns,
            NodeState::Spare
            | NodeState::Lost
            | NodeState::Failed
            | NodeState::Leaving
            | NodeState::Gone => None,
        };
        // A word at exactly that time is still in time.
        limit_ns.map(|limit_ns| Time(self.heard.0.saturating_add(limit_ns).saturating_add(1)))
    }
}

/// All nodes of a run, and how long it waits for each.
#[derive(Debug, Default)]
pub struct Nodes {
    /// A node's number is its place.
    all: Vec<Node>,
    /// Nodes will appear that are not known yet.
    expecting: bool,
    /// When the run has waited long enough for each node.
    due: BTreeSet<(Time, NodeId)>,
}

impl Nodes {
    /// Where a node is in its life.
    ///
    /// # Panics
    ///
    /// The node is not known.
    pub fn state(&self, id: NodeId) -> NodeState {
        self.node(id).state
    }

    /// All states, with the numbers of their nodes.
    pub fn states(&self) -> impl Iterator<Item = (NodeId, NodeState)> + '_ {
        self.all.iter().zip(0..).map(|(node, number)| (NodeId(number), node.state))
    }

    /// Whether a node takes tasks now.
    pub fn is_up(&self, id: NodeId) -> bool {
        self.state(id) == NodeState::Up
    }

    /// Whether its agent is there.
    pub fn is_there(&self, id: NodeId) -> bool {
        self.state(id).is_there()
    }

    /// Whether a link is the last that a node has had: the run ignores what comes over earlier ones.
    pub fn is_current(&self, id: NodeId, incarnation: u32) -> bool {
        self.node(id).incarnation == incarnation
    }

    /// The number of its link; `None` if it has none.
    pub fn link(&self, id: NodeId) -> Option<u32> {
        let node = self.node(id);
        node.state.is_there().then_some(node.incarnation)
    }

    /// Whether nodes will appear that are not known yet.
    pub fn is_expecting(&self) -> bool {
        self.expecting
    }

    /// Whether the run waits for a known node.
    pub fn is_any_coming(&self) -> bool {
        self.all.iter().any(|node| node.state.is_coming())
    }

    /// Whether a node takes tasks or may come to.
    pub fn is_any_left(&self) -> bool {
        let is_left = |node: &Node| node.state.is_there() || node.state.is_coming();
        self.expecting || self.all.iter().any(is_left)
    }

    /// When the run has waited long enough for a node.
    pub fn due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether nodes will appear that are not known yet.
    pub(crate) fn set_expecting(&mut self, expecting: bool) {
        self.expecting = expecting;
    }

    /// Takes a step for a node, if there is one, for which the run has waited long enough at `now`.
    pub(crate) fn take_due(&mut self, now: Time, out: &mut Vec<NodeEffect>) {
        let Some((_, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) else {
            return;
        };
        let node = &mut self.all[id.0 as usize];
        let old = node.due();
        let (state, effect) = match node.state {
            // Files that are said to lie there are out of reach.
            NodeState::Starting | NodeState::Up | NodeState::Drained => {
                (NodeState::Away, NodeEffect::Lose { id })
            }
            NodeState::Away => (NodeState::Lost, NodeEffect::GiveUp { id }),
            NodeState::Spare
            | NodeState::Lost
            | NodeState::Failed
            | NodeState::Leaving
            | NodeState::Gone => unreachable!("{id:?} is waited for as {:?}", node.state),
        };
        node.state = state;
        self.set_due(id, old);
        out.push(effect);
    }

    /// One step in the life of a node.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        id: NodeId,
        input: NodeInput,
        out: &mut Vec<NodeEffect>,
    ) {
        if let NodeInput::Known { origin, limits } = input {
            return self.add(now, id, origin, limits);
        }
        let node = &mut self.all[id.0 as usize];
        let old = node.due();
        let (state, effect) = match (input, node.state) {
            (NodeInput::Known { .. }, _) => unreachable!("handled above"),
            (
                NodeInput::LinkUp { incarnation },
                from
                @ (NodeState::Starting | NodeState::Away | NodeState::Lost | NodeState::Failed),
            ) => {
                node.incarnation = incarnation;
                node.heard = now;
                let is_back = matches!(from, NodeState::Away | NodeState::Lost);
                // What lay on a node that was given up is made again: it must not be there twice.
                let files_kept = from.is_coming();
                (NodeState::Up, Some(NodeEffect::Welcome { id, is_back, files_kept }))
            }
            (NodeInput::Heard { incarnation }, state)
                if incarnation == node.incarnation && state.is_there() =>
            {
                node.heard = node.heard.max(now);
                (state, None)
            }
            (NodeInput::LinkDown { incarnation, again }, NodeState::Up | NodeState::Drained)
                if incarnation == node.incarnation =>
            {
                let state = if again { NodeState::Away } else { NodeState::Lost };
                (state, Some(NodeEffect::Lose { id }))
            }
            (NodeInput::StartFailed { again: false }, NodeState::Starting) => {
                (NodeState::Failed, Some(NodeEffect::Miss { id }))
            }
            (NodeInput::StartFailed { again: false }, NodeState::Away) => {
                (NodeState::Lost, Some(NodeEffect::GiveUp { id }))
            }
            (NodeInput::LetGo, NodeState::Up) => (NodeState::Leaving, None),
            (NodeInput::Farewell, NodeState::Leaving) => {
                (NodeState::Gone, Some(NodeEffect::Gone { id }))
            }
            (NodeInput::Drain, NodeState::Up) => (NodeState::Drained, None),
            (NodeInput::TakeBack, NodeState::Drained) => (NodeState::Up, None),
            // A late report, or one of an earlier link.
            (
                NodeInput::LinkUp { .. }
                | NodeInput::Heard { .. }
                | NodeInput::LinkDown { .. }
                | NodeInput::StartFailed { .. }
                | NodeInput::LetGo
                | NodeInput::Farewell
                | NodeInput::Drain
                | NodeInput::TakeBack,
                state,
            ) => (state, None),
        };
        node.state = state;
        self.set_due(id, old);
        out.extend(effect);
    }

    fn add(&mut self, now: Time, id: NodeId, origin: NodeOrigin, limits: NodeLimits) {
        assert_eq!(id.0 as usize, self.all.len(), "nodes become known in order");
        let state = match origin {
            NodeOrigin::Own { takes_tasks: true } => NodeState::Up,
            NodeOrigin::Own { takes_tasks: false } => NodeState::Spare,
            NodeOrigin::Awaited => NodeState::Starting,
        };
        self.all.push(Node { state, limits, incarnation: 0, heard: now });
        self.set_due(id, None);
    }

    fn set_due(&mut self, id: NodeId, old: Option<Time>) {
        let new = self.node(id).due();
        if new != old {
            self.due.extend(new.map(|due| (due, id)));
            old.map(|due| self.due.remove(&(due, id)));
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.all[id.0 as usize]
    }
}
