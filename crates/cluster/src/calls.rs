//! What the hub asks of the thread of the links, and of the life of a node on it.

use rakuda_core::NodeId;
use rakuda_proto::cluster::ToAgent;
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};
use tokio::sync::oneshot;

/// The hub's end of a connection to the files of a host. When the second is dropped, the connection ends.
pub(crate) type Piped = (DuplexStream, oneshot::Sender<()>);

/// What the hub asks of a node's life.
pub(crate) enum PortCall {
    /// For the agent of this incarnation.
    Send(u32, ToAgent),
    /// Ask the agent of this incarnation for the time, this number of times.
    AskTime(u32, u32),
    /// What this incarnation said of its node was dealt with.
    SettleState(u32),
    /// The run is over, or the node is to go.
    Close,
    /// Nothing waits for it any more.
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
pub(crate) struct Calls(pub UnboundedSender<Call>);

impl Calls {
    /// Without a thread.
    #[cfg(test)]
    pub fn to_nobody() -> Self {
        Self(tokio::sync::mpsc::unbounded_channel().0)
    }

    pub fn node(&self, node: NodeId, call: PortCall) {
        // The thread is gone only with the process.
        let _ = self.0.send(Call::Node(node, call));
    }
}

/// The same as the thread itself has it: it ends with the last one that the hub has.
#[derive(Clone)]
pub(crate) struct OwnCalls(pub WeakUnboundedSender<Call>);

impl OwnCalls {
    /// For a node that has come. `None`: the hub is gone.
    pub fn calls(&self) -> Option<Calls> {
        self.0.upgrade().map(Calls)
    }
}
