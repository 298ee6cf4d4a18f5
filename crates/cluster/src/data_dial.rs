//! How the hub reaches the files of a node: over a connection of their own, apart from control, so
//! that bulk holds up no heartbeat.
//!
//! A seam: staging wants connections, and the code that starts nodes knows how one is made. What
//! goes over it is not known here.

use std::any::Any;
use std::pin::Pin;

use rakuda_link::hub::{Reader, Writer};

/// A connection to what serves the files of a node (`rakudad files`).
pub struct DataConnection {
    /// Where it is heard.
    pub reader: Reader,
    /// Where it hears.
    pub writer: Writer,
    /// What has to live as long as the connection is used; dropping it ends the other side.
    pub keeper: Box<dyn Any>,
}

/// A connection, or why it cannot be made.
pub type Dialled = Pin<Box<dyn Future<Output = Result<DataConnection, String>>>>;

/// Makes connections to one node.
pub trait DataDial {
    /// Makes one.
    fn dial(&self) -> Dialled;
}
