//! Edges between nodes: each is connected by the one of its two hosts that writes into it, or, where that cannot reach
//! the other, over this process: by data links, or, with a node that has none, by a connection which that makes.
//!
//! What goes over an edge is not looked at here.

use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::NodeId;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::streams::{HopRoute, OpeningId, StreamRequest};

use super::network::{Door, Side, join};
use crate::hub::Hub;

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
        if std::mem::replace(&mut edge.way, HopRoute::Hub) == HopRoute::Hub {
            // The address to which it was asked to come.
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
