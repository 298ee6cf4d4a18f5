//! Edges between nodes: each is connected by the one of its two hosts that writes into it, or, where that cannot reach
//! the other, over this process: by data links, or, with a node that has none, by a connection which that makes.
//!
//! What goes over an edge is not looked at here.

use std::collections::BTreeMap;
use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::NodeId;
use rakuda_link::content::write_message;
use rakuda_link::credentials::{Authority, Credentials, CredentialsError};
use rakuda_link::peers::{self, KEY_BYTES, Key};
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::files::FileRequest;
use rakuda_proto::streams::{HopWay, LineKind, OpeningId, StreamRequest, StreamRoute};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::Streams;
use super::meeting::{Meeting, Met};
use crate::hub::Hub;
use crate::staging::hosts::{Conversation, FileHosts};

/// So much is copied at a time, in each direction.
const COPY_BYTES: usize = 64 << 10;

/// An edge.
pub(super) struct Edge {
    /// Its stream: the place of that in the component.
    pub stream: usize,
    /// Who writes into it.
    pub from: NodeId,
    /// Who reads from it.
    pub to: NodeId,
    pub line: LineKind,
    pub key: Key,
    pub way: HopWay,
    /// Its first host was asked to connect it.
    asked: bool,
    /// And has.
    pub is_connected: bool,
}

impl Edge {
    pub fn new(stream: usize, from: NodeId, to: NodeId, line: LineKind, key: Key) -> Self {
        Self { stream, from, to, line, key, way: HopWay::Direct, asked: false, is_connected: false }
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.from == node || self.to == node
    }
}

/// Where a node takes connections: addresses, and the socket for processes on it.
type Door = (Vec<Text>, Text);

/// Those of one opening.
#[derive(Default)]
pub(super) struct Edges {
    /// By number.
    pub all: Vec<Edge>,
    /// By stream: how its messages go.
    pub routes: Vec<StreamRoute>,
    doors: BTreeMap<NodeId, Door>,
    /// Edges over this process; they end with the opening.
    joined: Vec<AbortHandle>,
    hosts: Rc<FileHosts>,
}

impl Edges {
    /// A node will say once more where it takes connections, when it knows of others.
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
    reports: UnboundedSender<NotJoined>,
    reported: UnboundedReceiver<NotJoined>,
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

    fn meeting(&mut self) -> Result<&Meeting, String> {
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

/// The next pair of nodes that could not be joined.
pub(crate) async fn next_not_joined(streams: &mut Streams) -> NotJoined {
    streams.network.reported.recv().await.expect("it keeps a sender")
}

/// What nobody can guess.
pub(super) fn new_key() -> Key {
    let mut key = Key::default();
    let got = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(KEY_BYTES), "the kernel gives so few random bytes at once");
    key
}

impl Hub {
    /// A node takes connections: the edges are connected whose hosts both do.
    pub(super) fn on_node_listens(&mut self, id: OpeningId, node: NodeId, door: Door) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let edges = &mut opening.edges;
        edges.doors.insert(node, door);
        for (edge, number) in edges.all.iter_mut().zip(0..) {
            let is_new = edge.has(node) && !edge.asked;
            if is_new
                && edges.doors.contains_key(&edge.from)
                && let Some((addresses, _)) = edges.doors.get(&edge.to)
            {
                edge.asked = true;
                let dial = StreamRequest::Dial(id, number, addresses.clone());
                self.requests.push((Some(edge.from), AgentRequest::Streams(dial)));
            }
        }
    }

    /// Whether a host could reach another one, or this one. Where it could not reach the other, this process joins the
    /// two.
    pub(super) fn on_dialled(
        &mut self,
        id: OpeningId,
        number: u32,
        node: NodeId,
        why_not: Option<Text>,
    ) {
        if self.on_new_edge(id, number, why_not.is_none()) {
            return;
        }
        let Some(why_not) = why_not.map(|why| why.to_display()) else { return };
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let Some(edge) = opening.edges.all.get_mut(number as usize) else { return };
        let name_of = |node: NodeId| self.agents.node(node).name.to_display();
        let what = format!("connect {} to {}", name_of(edge.from), name_of(edge.to));
        if std::mem::replace(&mut edge.way, HopWay::Hub) == HopWay::Hub {
            // That is where it was asked to come.
            let why = format!("{what} over this host: {}: {why_not}", name_of(node));
            return self.on_not_joined((id, why));
        }
        let (key, both) = (edge.key, [edge.from, edge.to]);
        let hosts = Rc::clone(&opening.edges.hosts);
        let [from, to] = both.map(|node| {
            let is_linked = match self.agents.node(node).port.data() {
                Some(dial) if node != LOCAL_NODE => {
                    hosts.add_once(node, dial);
                    true
                }
                data => node == LOCAL_NODE || data.is_some(),
            };
            let door = opening.edges.doors.get(&node);
            let socket = door.map(|(_, socket)| socket.clone()).unwrap_or_default();
            if is_linked { Side::Linked(node, name_of(node), socket) } else { Side::Comes }
        });
        let come = both.into_iter().zip([&from, &to]);
        let come: Vec<NodeId> =
            come.filter(|(_, side)| matches!(side, Side::Comes)).map(|(node, _)| node).collect();
        let mut met = None;
        if !come.is_empty() {
            let meeting = match self.streams.network.meeting() {
                Ok(meeting) => meeting,
                Err(why) => return self.on_not_joined((id, format!("{what}: {why_not}; {why}"))),
            };
            met = Some(meeting.expect(key));
            let dial = StreamRequest::Dial(id, number, meeting.addresses.clone());
            let words =
                come.into_iter().map(|node| (Some(node), AgentRequest::Streams(dial.clone())));
            self.requests.extend(words);
        }
        let reports = self.streams.network.reports.clone();
        let joined = tokio::task::spawn_local(async move {
            if let Err(why) = join(&hosts, from, to, &key, met).await {
                let _ = reports.send((id, format!("{what}: {why_not}; over this host: {why}")));
            }
        });
        if let Some(opening) = self.streams.open.get_mut(&id) {
            opening.edges.joined.push(joined.abort_handle());
        }
    }
}

/// A node of an edge that goes over this process.
enum Side {
    /// It is reached by its data link: the node, its name, and the socket of its agent.
    Linked(NodeId, String, Text),
    /// It comes by itself.
    Comes,
}

/// Joins two nodes; carries what goes between them until both have ended.
async fn join(
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
        // Of two that come, either may come first. Who cannot come says so to the hub.
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
