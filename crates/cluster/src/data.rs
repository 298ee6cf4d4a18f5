//! Data links: a second connection to a host, apart from that of its agent, reached in the same way.
//!
//! It is made on the thread of the links, which can, and used on the hub's, where files are moved:
//! between the two lies a pipe in memory.

use std::rc::Rc;

use rakuda_proto::cluster::Role;
use tokio::io::{copy_bidirectional_with_sizes, join};
use tokio::sync::oneshot;

use crate::calls::Piped;
use crate::launcher::Launcher;
use crate::route::{Reached, Route};

/// Maximum bytes that the pipe holds in each direction.
const PIPE_BYTES: usize = 256 << 10;
/// Maximum bytes that are copied at a time.
const COPY_BYTES: usize = 64 << 10;

/// Connects to the files of a host.
#[derive(Clone)]
pub(crate) struct Data {
    host: String,
    route: Rc<Route>,
    launcher: Rc<Launcher>,
}

impl Data {
    pub fn new(host: &str, route: &Rc<Route>, launcher: &Rc<Launcher>) -> Self {
        Self { host: host.to_owned(), route: Rc::clone(route), launcher: Rc::clone(launcher) }
    }

    /// Makes a connection, and carries its bytes until the hub drops it, or it ends.
    pub async fn dial(self, mut answer: oneshot::Sender<Result<Piped, String>>) {
        let launch = self.route.launch(&self.host, Role::Files, &self.launcher);
        let reached = tokio::select! {
            reached = launch => reached,
            () = answer.closed() => return,
        };
        let Reached { reader, writer, carrier } = match reached {
            Ok(reached) => reached,
            Err(error) => return drop(answer.send(Err(error.why))),
        };
        let (near, mut far) = tokio::io::duplex(PIPE_BYTES);
        let (keeper, dropped) = oneshot::channel();
        if answer.send(Ok((near, keeper))).is_ok() {
            let mut connection = join(reader, writer);
            tokio::select! {
                // Reader and writer see the end of the pipe.
                _ = copy_bidirectional_with_sizes(&mut connection, &mut far, COPY_BYTES, COPY_BYTES) => {}
                _ = dropped => {}
            }
        }
        drop(carrier);
    }
}
