//! What makes the connections of edges to other hosts: one thread, with a loop of its own, so that
//! bulk holds up neither commands nor heartbeats.
//!
//! For each edge it has one end of a pair of sockets, whose other end the relay has; it joins that to
//! a connection that it makes, or takes, over TCP and TLS, or takes from a process of this host which
//! has it from the hub. It does not know what goes over an edge.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::rc::Rc;
use std::time::Duration;

use rakuda_link::credentials::Credentials;
use rakuda_link::peers::{self, Connection, GREETING_LIMIT, Key, Peers};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentEvent;
use rakuda_proto::streams::{OpeningId, StreamEvent};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::cost;
use crate::processes;

/// Timeout for the answer of another host. One that does not answer is reached through the hub's.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Maximum bytes that are copied at a time, in each direction.
const COPY_BYTES: usize = 64 << 10;

/// What the agent wants.
enum Word {
    /// A connection that shows this key gets this end.
    Expect(Key, UnixStream),
    /// Nobody comes for these any more.
    Forget(Vec<Key>),
    /// Say where connections are taken.
    Listen(OpeningId, Box<Credentials>),
    /// Connect an end: opening, edge, key, addresses.
    Dial(OpeningId, u32, Key, Vec<SocketAddr>),
}

/// The agent's end of the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Carrier {
    words: UnboundedSender<Word>,
}

impl Carrier {
    /// Starts the thread.
    pub fn start(events: UnboundedSender<AgentEvent>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (words, heard) = unbounded_channel();
        std::thread::Builder::new().name("hops".to_owned()).spawn(move || {
            let work = Work { ends: Rc::default(), events, door: None, is_measured: false };
            tokio::task::LocalSet::new().block_on(&runtime, work.run(heard));
        })?;
        Ok(Self { words })
    }

    pub fn expect(&self, key: Key, end: UnixStream) {
        self.say(Word::Expect(key, end));
    }

    pub fn forget(&self, keys: Vec<Key>) {
        self.say(Word::Forget(keys));
    }

    pub fn listen(&self, id: OpeningId, credentials: Credentials) {
        self.say(Word::Listen(id, Box::new(credentials)));
    }

    pub fn dial(&self, id: OpeningId, edge: u32, key: Key, addresses: Vec<SocketAddr>) {
        self.say(Word::Dial(id, edge, key, addresses));
    }

    fn say(&self, word: Word) {
        // It ends after us.
        let _ = self.words.send(word);
    }
}

/// Ends that wait for a connection.
type Ends = Rc<RefCell<BTreeMap<Key, UnixStream>>>;

struct Work {
    ends: Ends,
    events: UnboundedSender<AgentEvent>,
    /// Where it listens, once it does.
    door: Option<Door>,
    /// The hub knows what a message takes here.
    is_measured: bool,
}

/// Where connections are taken.
struct Door {
    peers: Rc<Peers>,
    addresses: Vec<Text>,
    socket: Text,
}

impl Work {
    async fn run(mut self, mut words: UnboundedReceiver<Word>) {
        while let Some(word) = words.recv().await {
            match word {
                Word::Expect(key, end) => drop(self.ends.borrow_mut().insert(key, end)),
                Word::Forget(keys) => {
                    self.ends.borrow_mut().retain(|key, _| !keys.contains(key));
                }
                Word::Listen(id, credentials) => {
                    self.tell_where(id, &credentials);
                    self.tell_cost();
                }
                Word::Dial(id, edge, key, addresses) => self.dial(id, edge, key, addresses),
            }
        }
    }

    fn tell_where(&mut self, id: OpeningId, credentials: &Credentials) {
        if self.door.is_none() {
            match self.open(credentials) {
                Ok(door) => self.door = Some(door),
                Err(error) => {
                    let why = format!("could not open its streams: listen for others: {error}");
                    self.tell(StreamEvent::Ended(id, Vec::new(), Some(why.into())));
                    return;
                }
            }
        }
        if let Some(door) = &self.door {
            self.tell(StreamEvent::Listening(id, door.addresses.clone(), door.socket.clone()));
        }
    }

    /// Once: for the routes of streams from then on.
    fn tell_cost(&mut self) {
        if std::mem::replace(&mut self.is_measured, true) {
            return;
        }
        if let Some(ns) = cost::message_ns() {
            self.tell(StreamEvent::MessageCost(ns));
        }
    }

    fn tell(&self, event: StreamEvent) {
        // The hub is gone only when the run is over.
        let _ = self.events.send(AgentEvent::Streams(event));
    }

    fn open(&self, credentials: &Credentials) -> std::io::Result<Door> {
        let peers = Peers::new(credentials).map_err(std::io::Error::other)?;
        let peers = Rc::new(peers);
        let far = peers::listen()?;
        let port = far.local_addr()?.port();
        let (name, near) = near_socket()?;
        let addresses = peers::own_addresses();
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        let addresses = addresses.map(|address| Text::from(address.to_string())).collect();
        let ends = Rc::clone(&self.ends);
        let met = move |key: Key, stream: Box<dyn Connection>| {
            let ends = Rc::clone(&ends);
            async move { join(&ends, key, stream).await }
        };
        spawn_local(peers::take_all(far, Rc::clone(&peers), met));
        let ends = Rc::clone(&self.ends);
        spawn_local(async move {
            loop {
                let Ok((mut stream, _)) = near.accept().await else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let own = rustix::process::geteuid().as_raw();
                if stream.peer_cred().is_ok_and(|peer| peer.uid() == own) {
                    let ends = Rc::clone(&ends);
                    spawn_local(async move {
                        let key = timeout(GREETING_LIMIT, peers::read_key(&mut stream)).await;
                        if let Ok(Ok(key)) = key {
                            join(&ends, key, stream).await;
                        }
                    });
                }
            }
        });
        Ok(Door { peers, addresses, socket: Text::from(name) })
    }

    fn dial(&self, id: OpeningId, edge: u32, key: Key, addresses: Vec<SocketAddr>) {
        let Some(peers) = self.door.as_ref().map(|door| Rc::clone(&door.peers)) else { return };
        let (ends, events) = (Rc::clone(&self.ends), self.events.clone());
        spawn_local(async move {
            let mut why = "it has no address".to_owned();
            for address in addresses {
                match timeout(DIAL_LIMIT, peers.dial(address, &key)).await {
                    Ok(Ok(mut stream)) => {
                        if let Err(error) = peers::take(&mut stream).await {
                            why = format!("{address}: {error}");
                            continue;
                        }
                        let dialled = StreamEvent::Dialled(id, edge, None);
                        let _ = events.send(AgentEvent::Streams(dialled));
                        let end = ends.borrow_mut().remove(&key);
                        return carry(end, stream).await;
                    }
                    Ok(Err(error)) => why = format!("{address}: {error}"),
                    Err(_) => {
                        let limit = DIAL_LIMIT.as_millis();
                        why = format!("{address}: no answer within {limit} ms");
                    }
                }
            }
            let dialled = StreamEvent::Dialled(id, edge, Some(Text::from(why)));
            let _ = events.send(AgentEvent::Streams(dialled));
        });
    }
}

/// The name of a new socket for processes of this host, which is no file, and the socket.
fn near_socket() -> std::io::Result<(String, tokio::net::UnixListener)> {
    let name = format!("rakuda-hops-{:016x}{:016x}", processes::random(), processes::random());
    let listener = UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((name, tokio::net::UnixListener::from_std(listener)?))
}

/// A connection has shown a key: it is answered and carried if somebody waits for it.
async fn join(ends: &Ends, key: Key, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let is_known = ends.borrow().contains_key(&key);
    // A connection that is slow to answer may have been given up, and another one comes for the end.
    if is_known && peers::welcome(&mut stream).await {
        let end = ends.borrow_mut().remove(&key);
        carry(end, stream).await;
    }
}

/// Passes bytes on in both directions until both sides have ended, or the connection breaks.
async fn carry(end: Option<UnixStream>, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Some(end) = end.and_then(|end| tokio::net::UnixStream::from_std(end).ok()) else { return };
    let mut end = end;
    // Reader and writer see the end of the socket.
    let _ = copy_bidirectional_with_sizes(&mut end, &mut stream, COPY_BYTES, COPY_BYTES).await;
}

/// Be the pipe between a data link and the agent of this host, whose socket has this name.
pub(crate) async fn pass_on(
    socket: &str,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let near = UnixStream::connect_addr(&UnixAddress::from_abstract_name(socket)?)?;
    near.set_nonblocking(true)?;
    let mut near = tokio::net::UnixStream::from_std(near)?;
    // A name outlives its agent: its owner now may be another user.
    if near.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    copy_bidirectional_with_sizes(stream, &mut near, COPY_BYTES, COPY_BYTES).await?;
    Ok(())
}
