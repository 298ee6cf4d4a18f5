//! The hub's end of a way to the files of a node, from another thread than that of the links.

use rakuda_core::NodeId;
use tokio::sync::oneshot;

use crate::calls::{Calls, PortCall};
use crate::data_dial::{DataConnection, DataDial, Dialled};

/// Dials the files of a node for the hub, from another thread.
pub(crate) struct FarData {
    node: NodeId,
    calls: Calls,
}

impl FarData {
    pub fn new(node: NodeId, calls: &Calls) -> Self {
        Self { node, calls: calls.clone() }
    }
}

impl DataDial for FarData {
    fn dial(&self) -> Dialled {
        let (answer, answered) = oneshot::channel();
        self.calls.node(self.node, PortCall::Dial(answer));
        Box::pin(async move {
            let (pipe, keeper) =
                answered.await.unwrap_or_else(|_| Err("the node is gone".into()))?;
            let (reader, writer) = tokio::io::split(pipe);
            let (reader, writer) = (Box::new(reader), Box::new(writer));
            Ok(DataConnection { reader, writer, keeper: Box::new(keeper) })
        })
    }
}
