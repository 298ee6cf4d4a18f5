//! Connections between hosts over which streams go.

use std::collections::BTreeMap;
use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::NodeId;
use rakuda_link::content::write_message;
use rakuda_link::credentials::{Authority, Credentials, CredentialsError};
use rakuda_link::peers::{self, KEY_BYTES, Key};
use rakuda_proto::Text;
use rakuda_proto::files::FileRequest;
use rakuda_proto::streams::{HopRoute, LineKind, OpeningId, StreamRoute};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::meeting::{Meeting, Met};
use crate::staging::hosts::{Conversation, FileHosts};

/// Maximum bytes that are copied at a time, in each direction.
pub(super) const COPY_BYTES: usize = 64 << 10;

/// An edge.
pub(super) struct Edge {
    /// The place of its stream in the component.
    pub stream: usize,
    /// The node that writes into it.
    pub from: NodeId,
    /// The node that reads from it.
    pub to: NodeId,
    pub line: LineKind,
    pub key: Key,
    pub way: HopRoute,
    /// Its first host was asked to connect it.
    pub(super) asked: bool,
    /// That host has connected it.
    pub is_connected: bool,
}

impl Edge {
    pub fn new(stream: usize, from: NodeId, to: NodeId, line: LineKind, key: Key) -> Self {
        Self {
            stream,
            from,
            to,
            line,
            key,
            way: HopRoute::Direct,
            asked: false,
            is_connected: false,
        }
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.from == node || self.to == node
    }
}

/// Where a node takes connections: addresses, and the socket for processes on it.
pub(super) type Door = (Vec<Text>, Text);

/// The edges of one opening.
#[derive(Default)]
pub(super) struct Edges {
    /// By number.
    pub all: Vec<Edge>,
    /// By stream: how its messages go.
    pub routes: Vec<StreamRoute>,
    pub(super) doors: BTreeMap<NodeId, Door>,
    /// Edges over this process; they end with the opening.
    pub(super) joined: Vec<AbortHandle>,
    pub(super) hosts: Rc<FileHosts>,
}

impl Edges {
    /// Waits for the node to say anew where it takes connections, when it knows of others.
    pub fn close_door(&mut self, node: NodeId) {
        self.doors.remove(&node);
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        for joined in &self.joined {
            joined.abort();
        }
    }
}

/// Two nodes could not be joined: the opening, and why.
pub(crate) type NotJoined = (OpeningId, String);

/// What nodes need to connect to one another.
pub(super) struct Network {
    /// Made for the first component on several nodes.
    authority: Option<Authority>,
    credentials: BTreeMap<NodeId, Credentials>,
    /// Made for the first node without a data link that another one cannot reach.
    meeting: Option<Meeting>,
    pub(super) reports: UnboundedSender<NotJoined>,
    pub(super) reported: UnboundedReceiver<NotJoined>,
}

impl Default for Network {
    fn default() -> Self {
        let (reports, reported) = unbounded_channel();
        Self { authority: None, credentials: BTreeMap::new(), meeting: None, reports, reported }
    }
}

impl Network {
    /// What a node shows to others, and they to it.
    pub fn credentials_of(&mut self, node: NodeId) -> Result<&Credentials, CredentialsError> {
        if !self.credentials.contains_key(&node) {
            let authority = match &mut self.authority {
                Some(authority) => authority,
                none => none.insert(Authority::new()?),
            };
            self.credentials.insert(node, authority.issue_peer()?);
        }
        Ok(&self.credentials[&node])
    }

    pub(super) fn meeting(&mut self) -> Result<&Meeting, String> {
        if self.meeting.is_none() {
            let opened = match self.credentials_of(LOCAL_NODE) {
                Ok(credentials) => Meeting::open(credentials).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            self.meeting = Some(opened.map_err(|why| format!("listen for nodes: {why}"))?);
        }
        Ok(self.meeting.as_ref().expect("it was made"))
    }
}

/// A key that cannot be guessed.
pub(super) fn new_key() -> Key {
    let mut key = Key::default();
    let got = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(KEY_BYTES), "the kernel gives so few random bytes at once");
    key
}

/// A node of an edge that goes over this process.
pub(super) enum Side {
    /// It is reached by its data link: the node, its name, and the socket of its agent.
    Linked(NodeId, String, Text),
    /// It comes by itself.
    Comes,
}

/// Joins two nodes; carries what goes between them until both have ended.
pub(super) async fn join(
    hosts: &FileHosts,
    from: Side,
    to: Side,
    key: &Key,
    mut met: Option<UnboundedReceiver<Met>>,
) -> Result<(), String> {
    let mut one = reach(hosts, &from, key, &mut met).await?;
    let mut other = reach(hosts, &to, key, &mut met).await?;
    // The agents see the end, and say what it means.
    let _ = copy_bidirectional_with_sizes(&mut one, &mut other, COPY_BYTES, COPY_BYTES).await;
    Ok(())
}

async fn reach(
    hosts: &FileHosts,
    side: &Side,
    key: &Key,
    met: &mut Option<UnboundedReceiver<Met>>,
) -> Result<Box<dyn Conversation>, String> {
    let (node, name, socket) = match (side, met) {
        (Side::Linked(node, name, socket), _) => (node, name, socket),
        // Either of the two may come first. A node that cannot come says so to the hub.
        (Side::Comes, Some(met)) => {
            let stream: Met = met.recv().await.ok_or("nobody listens any more")?;
            return Ok(Box::new(stream));
        }
        (Side::Comes, None) => return Err("nobody listens".to_owned()),
    };
    let failed = |why: String| format!("{name}: {why}");
    let mut stream = hosts.open(*node).await.map_err(failed)?;
    let join = FileRequest::Join { socket: socket.clone() };
    write_message(&mut stream, &join).await.map_err(|error| failed(error.to_string()))?;
    peers::show_key(&mut stream, key).await.map_err(|error| failed(error.to_string()))?;
    peers::take(&mut stream).await.map_err(|error| failed(error.to_string()))?;
    Ok(stream)
}
