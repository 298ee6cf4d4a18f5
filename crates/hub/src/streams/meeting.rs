//! Where two nodes meet that cannot reach each other, and to which this process has no data link (Slurm, launch
//! templates, `--joinable`): each connects to it, and shows the key of their edge.
//!
//! What goes over a connection is not looked at here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use rakuda_link::credentials::Credentials;
use rakuda_link::peers::{self, Connection, Key, Peers};
use rakuda_proto::Text;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

/// A connection that has shown an awaited key.
pub(super) type Met = Box<dyn Connection>;

/// By key: where its connections go.
type Waiting = Rc<RefCell<BTreeMap<Key, UnboundedSender<Met>>>>;

/// A listener at which nodes meet. It closes when it is dropped.
pub(super) struct Meeting {
    /// Its addresses, for nodes.
    pub addresses: Vec<Text>,
    waiting: Waiting,
    taking: AbortHandle,
}

impl Meeting {
    /// Listens at all addresses of this machine, on a port that the system chooses.
    pub fn open(credentials: &Credentials) -> std::io::Result<Self> {
        let peers = Rc::new(Peers::new(credentials).map_err(std::io::Error::other)?);
        let listener = peers::listen()?;
        let port = listener.local_addr()?.port();
        let addresses = peers::own_addresses().into_iter();
        let addresses = addresses.map(|address| SocketAddr::new(address, port));
        let addresses = addresses.map(|address| Text::from(address.to_string())).collect();
        let waiting = Waiting::default();
        let own = Rc::clone(&waiting);
        let met = move |key, stream| meet(Rc::clone(&own), key, stream);
        let taking = tokio::task::spawn_local(peers::take_all(listener, peers, met));
        Ok(Self { addresses, waiting, taking: taking.abort_handle() })
    }

    /// Connections that show this key, as they come, until the receiver is dropped.
    pub fn expect(&self, key: Key) -> UnboundedReceiver<Met> {
        let (met, meeting) = unbounded_channel();
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|_, met| !met.is_closed());
        waiting.insert(key, met);
        meeting
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

/// Lets a node in that has shown a key, if something waits for that key.
async fn meet(waiting: Waiting, key: Key, mut stream: Met) {
    let met = waiting.borrow().get(&key).cloned();
    let Some(met) = met else { return };
    if peers::welcome(&mut stream).await {
        // The receiver may be gone.
        let _ = met.send(stream);
    }
}

#[cfg(test)]
mod tests {
    use rakuda_link::credentials::Authority;

    use super::*;

    /// Connects as a node does.
    async fn connect(peers: &Peers, address: SocketAddr, key: &Key) -> std::io::Result<Met> {
        let mut stream = peers.dial(address, key).await?;
        peers::take(&mut stream).await?;
        Ok(stream)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn two_nodes_that_show_one_key_meet_and_nobody_else_comes_in() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let authority = Authority::new().unwrap();
        let node = || Peers::new(&authority.issue_peer().unwrap()).unwrap();
        let local = tokio::task::LocalSet::new();
        let lives = local.run_until(async {
            let meeting = Meeting::open(&authority.issue_peer().unwrap()).unwrap();
            let port = meeting.addresses.first().map_or_else(
                || unreachable!("a machine without any address runs no such test"),
                |address| address.to_display().parse::<SocketAddr>().unwrap().port(),
            );
            let address = SocketAddr::new([127, 0, 0, 1].into(), port);
            let mut expected = meeting.expect([7; 16]);
            let (one, other) = (node(), node());
            let (first, second) =
                tokio::join!(connect(&one, address, &[7; 16]), connect(&other, address, &[7; 16]));
            let (mut first, mut second) = (first.unwrap(), second.unwrap());
            let (mut near, mut far) =
                (expected.recv().await.unwrap(), expected.recv().await.unwrap());
            first.write_all(b"one").await.unwrap();
            first.flush().await.unwrap();
            second.write_all(b"two").await.unwrap();
            second.flush().await.unwrap();
            let (mut here, mut there) = ([0; 3], [0; 3]);
            near.read_exact(&mut here).await.unwrap();
            far.read_exact(&mut there).await.unwrap();
            let mut heard = [here, there];
            heard.sort_unstable();
            assert_eq!(heard, [*b"one", *b"two"]);
            assert!(connect(&node(), address, &[8; 16]).await.is_err(), "nobody waits for that");
            drop(expected);
            meeting.expect([9; 16]);
            assert!(connect(&node(), address, &[7; 16]).await.is_err(), "nobody does any more");
        });
        lives.await;
    }
}
