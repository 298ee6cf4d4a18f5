//! What becomes of open streams when a node goes on which their component has no action that could end it: a node that
//! only passes them on, or whose members have ended.

use rakuda_core::streams::NodeLoss;
use rakuda_core::{Event, NodeId};
use rakuda_proto::Text;
use rakuda_proto::front::ActionOutcome;
use rakuda_proto::streams::{OpeningId, StreamFault};

use super::state::{HeldEnd, Opening, Streams};
use crate::hub::Hub;

impl Streams {
    /// Whether something may still pass through a node.
    pub fn is_passing(&self, node: NodeId) -> bool {
        self.open.values().any(|opening| opening.is_passing(node))
    }
}

impl Opening {
    /// Whether a node has a place of a stream, and has not reported that all has gone through.
    fn is_passing(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(None))
    }

    fn has_member_on(&self, node: NodeId) -> bool {
        self.node_of.values().any(|one| *one == node)
    }
}

impl Hub {
    /// A node is gone, and the core knows that. What went over it cannot end well, and uses up no retry.
    pub(crate) fn lose_streams_on(&mut self, node: NodeId) {
        let open = self.streams.open.iter();
        let touched: Vec<OpeningId> =
            open.filter(|(_, opening)| opening.is_passing(node)).map(|(id, _)| *id).collect();
        for id in touched {
            self.lose_opening_on(id, node);
        }
        self.await_no_account_of(node);
    }

    fn lose_opening_on(&mut self, id: OpeningId, node: NodeId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let is_joining = opening.routes.changes.is_joining(node);
        let loss = opening.ending.on_node_lost(is_joining, opening.has_member_on(node));
        let name = self.agents.node(node).name.to_display();
        let fault = Text::from(format!("node {name} was lost, over which its streams went"));
        match loss {
            NodeLoss::Nothing | NodeLoss::LetGo(None) => {}
            NodeLoss::KeepWay => self.keep_routes(id),
            NodeLoss::LetGo(Some((task, HeldEnd { code, .. }))) => {
                self.close_streams(id);
                self.on_action_ended(task, ActionOutcome::Failed, &fault.0, code);
            }
            NodeLoss::Fault(uncharged) => {
                for id in uncharged {
                    self.event(Event::FailureUncharged { id });
                }
                let fault = StreamFault { words: fault, task: None };
                self.on_streams_over(id, &[], Some(fault));
            }
        }
    }
}
