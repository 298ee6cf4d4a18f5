//! Routes that change while streams are open. What has gone in is weighed about once a second; where another route has
//! been cheaper for some time, all nodes first make what it needs, and only then change.
//!
//! `rakuda_core::streams` decides what is cheaper, and when; its `handing` loses no record.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::NodeId;
use rakuda_link::credentials::CredentialsError;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::journal::{JournalEvent, StreamReroute, StreamsRerouted};
use rakuda_proto::streams::{OpeningId, RouteWish, StreamRequest};

use super::costs::Laid;
use super::routes::{Change, Due, NewRoute};
use crate::hub::Hub;

impl Hub {
    /// Something has gone in: perhaps another route is cheaper now.
    pub(super) fn weigh_routes(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let component = &self.streams.components[opening.component];
        let is_spread = !opening.edges.all.is_empty();
        if !is_spread
            || self.settings.stream_route != RouteWish::Auto
            || !opening.may_change(component.members.len())
        {
            return;
        }
        let measured = (&self.streams.message_costs, &self.streams.line_rates);
        let due = opening.due(component, measured, self.now.time);
        if !due.is_empty() && self.begin_change(id, due).is_err() {
            self.keep_routes(id);
        }
    }

    /// Has all nodes make what the new routes need.
    fn begin_change(&mut self, id: OpeningId, due: Vec<Due>) -> Result<(), CredentialsError> {
        let Some(opening) = self.streams.open.get(&id) else { return Ok(()) };
        let place = opening.component;
        let component = &self.streams.components[place];
        let mut laid = Laid { first: opening.edges.all.len(), ..Laid::default() };
        let mut streams = BTreeMap::new();
        for Due { stream, tree, ways, mut route } in due {
            route.relayed = self.relayed_names(&opening.routes.groups, &route, &ways);
            let places = laid.add(component, stream, &tree);
            streams.insert(stream, NewRoute { ways, route, places });
        }
        let Laid { first, mut edges, plans } = laid;
        if !plans.keys().all(|node| self.run.nodes().is_up(*node)) {
            return Ok(());
        }
        let mut change = Change {
            first,
            unconnected: (0..).skip(first).take(edges.all.len()).collect(),
            unprepared: BTreeSet::new(),
            asked: BTreeSet::new(),
            joining: BTreeSet::new(),
            streams,
            switching: None,
        };
        let mut requests = Vec::new();
        for (node, mut plans) in plans {
            let hops = self.hops_of(node, &edges, first)?;
            self.place_spills(place, node, &mut plans);
            requests.push((node, plans, hops.map(Box::new)));
        }
        let opening = self.streams.open.get_mut(&id).expect("it was looked up");
        opening.edges.all.append(&mut edges.all);
        for (node, plans, hops) in requests {
            // The node says anew where it listens when it waits for the new edges.
            opening.edges.close_door(node);
            let request = if matches!(opening.nodes.get(&node), Some(None)) {
                change.asked.insert(node);
                StreamRequest::Reroute(id, plans, hops)
            } else {
                change.joining.insert(node);
                opening.routes.leaving.remove(&node);
                if let Some(told) = opening.nodes.insert(node, None).flatten() {
                    opening.routes.earlier.extend(told);
                }
                StreamRequest::Open(id, plans, hops)
            };
            self.requests.push((Some(node), AgentRequest::Streams(request)));
        }
        change.unprepared.clone_from(&change.asked);
        opening.routes.change = Some(change);
        Ok(())
    }

    /// A node has made what a change needs, or cannot.
    pub(super) fn on_prepared(&mut self, id: OpeningId, node: NodeId, why_not: Option<&Text>) {
        if why_not.is_some() {
            return self.keep_routes(id);
        }
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if let Some(change) = &mut opening.routes.change {
            change.unprepared.remove(&node);
        }
        self.switch_if_ready(id);
    }

    /// An edge is connected, or cannot be. False: that is for others to deal with.
    pub(super) fn on_new_edge(&mut self, id: OpeningId, number: u32, is_connected: bool) -> bool {
        let Some(opening) = self.streams.open.get_mut(&id) else { return true };
        if is_connected && let Some(edge) = opening.edges.all.get_mut(number as usize) {
            edge.is_connected = true;
        }
        let Some(change) = &mut opening.routes.change else { return is_connected };
        if (number as usize) < change.first || change.switching.is_some() {
            return is_connected;
        }
        if is_connected {
            change.unconnected.remove(&number);
            self.switch_if_ready(id);
        } else {
            self.keep_routes(id);
        }
        true
    }

    fn switch_if_ready(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let Some(change) = &mut opening.routes.change else { return };
        let is_ready = change.unconnected.is_empty() && change.unprepared.is_empty();
        if !is_ready || change.switching.is_some() {
            return;
        }
        let streams = std::mem::take(&mut change.streams);
        let mut switching = change.asked.clone();
        let mut noted = Vec::new();
        let component = &self.streams.components[opening.component];
        for (number, new) in streams {
            let name = component.streams[number].name.clone();
            noted.push(StreamReroute { name, route: new.route.clone() });
            opening.edges.routes[number] = new.route;
            opening.routes.ways[number] = new.ways;
            if component.stall_ms[number].is_some() {
                new.places.iter().for_each(|node| opening.stalls.on_opened(number, *node));
            }
            opening.routes.places[number] = new.places;
        }
        let places = &opening.routes.places;
        let is_left = |node: &NodeId| !places.iter().any(|nodes| nodes.contains(node));
        for node in opening.nodes.keys().filter(|node| is_left(node)) {
            if opening.routes.leaving.insert(*node) && opening.nodes[node].is_none() {
                switching.insert(*node);
            }
        }
        let change = opening.routes.change.as_mut().expect("it was looked at");
        for node in &change.asked {
            let switch = AgentRequest::Streams(StreamRequest::Switch(id));
            self.requests.push((Some(*node), switch));
        }
        change.switching = Some(switching);
        let event = JournalEvent::StreamsRerouted(StreamsRerouted {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            streams: noted,
        });
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &[]);
        self.end_change(id);
    }

    /// On a node nothing goes the old way any more.
    pub(super) fn on_switched(&mut self, id: OpeningId, node: NodeId) {
        let change = self.streams.open.get_mut(&id).and_then(|one| one.routes.change.as_mut());
        if let Some(switching) = change.and_then(|change| change.switching.as_mut()) {
            switching.remove(&node);
        }
        self.end_change(id);
    }

    fn end_change(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let change = opening.routes.change.as_ref();
        let switching = change.and_then(|change| change.switching.as_ref());
        if switching.is_some_and(BTreeSet::is_empty) {
            opening.routes.change = None;
        }
    }

    /// A node reports that all is over there, or cannot be. True: it would have joined a change that has not begun, and
    /// nothing else is wrong.
    pub(super) fn on_end_within_change(&mut self, id: OpeningId, node: NodeId) -> bool {
        let Some(opening) = self.streams.open.get(&id) else { return false };
        let Some(change) = &opening.routes.change else { return false };
        if change.switching.is_some() {
            self.on_switched(id, node);
            return false;
        }
        let is_joining = opening.routes.is_joining(node);
        if is_joining || !opening.routes.leaving.contains(&node) {
            self.keep_routes(id);
        }
        is_joining
    }

    /// All stays as it was, for good: what kept a route from being changed once would do so again.
    pub(super) fn keep_routes(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        opening.routes.is_final = true;
        if opening.routes.change.as_ref().is_none_or(|change| change.switching.is_some()) {
            return;
        }
        let Some(change) = opening.routes.change.take() else { return };
        opening.edges.all.truncate(change.first);
        for node in change.asked {
            let keep = AgentRequest::Streams(StreamRequest::Keep(id));
            self.requests.push((Some(node), keep));
        }
        for node in change.joining {
            opening.nodes.remove(&node);
            let close = AgentRequest::Streams(StreamRequest::Close(id));
            self.requests.push((Some(node), close));
        }
    }
}

#[cfg(test)]
mod tests {
    use rakuda_agent::inspector::Inspector;
    use rakuda_cluster::{AgentPort, Node};
    use rakuda_core::streams::{Ending, Stalls};
    use rakuda_core::{Capacity, TaskId};
    use rakuda_proto::front::Settings;
    use rakuda_proto::streams::LineKind;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::RunSettings;
    use crate::agents::Agents;
    use crate::front_link::FrontLink;
    use crate::streams::network::{Edge, Edges, new_key};
    use crate::streams::routes::Routes;
    use crate::streams::state::Opening;

    const ID: OpeningId = OpeningId(1);
    const OLD: NodeId = NodeId(1);
    const NEW: NodeId = NodeId(2);

    /// Does nothing.
    struct Idle;

    impl AgentPort for Idle {
        fn handle(&self, _: AgentRequest) {}

        fn signal_all(&self, _: i32) -> usize {
            0
        }

        fn pause_output(&self, _: bool) {}

        fn unreported(&self) -> usize {
            0
        }
    }

    /// A hub of three nodes, in which a stream passes over the second one and is to pass over the third, too.
    fn changing(switching: Option<BTreeSet<NodeId>>) -> Hub {
        let settings = Settings { directory: Text::from("/"), ..Settings::default() };
        let (ours, _) = tokio::net::UnixStream::pair().unwrap();
        let inspector = Inspector::new(unbounded_channel().0).unwrap();
        let node = |number| Node {
            name: Text::from(format!("n{number}")),
            capacity: Capacity::default(),
            port: Box::new(Idle),
        };
        let agents = Agents::new((0..3).map(node).collect());
        let settings = RunSettings::new(settings).unwrap();
        let mut hub = Hub::new(settings, FrontLink::new(ours), agents, inspector);
        let mut edges = Edges::default();
        edges.all.push(Edge::new(0, OLD, NEW, LineKind::Wan, new_key()));
        let change = Change {
            first: 0,
            unconnected: [0].into(),
            unprepared: [OLD].into(),
            asked: [OLD].into(),
            joining: [NEW].into(),
            streams: BTreeMap::new(),
            switching,
        };
        let opening = Opening {
            component: 0,
            nodes: [(OLD, None), (NEW, None)].into(),
            interrupted: BTreeMap::new(),
            held_by: BTreeMap::new(),
            stalled: Vec::new(),
            passed: BTreeMap::new(),
            node_of: [(TaskId(0), OLD)].into(),
            edges,
            routes: Routes { change: Some(change), ..Routes::default() },
            stalls: Stalls::default(),
            took_ns: BTreeMap::new(),
            ending: Ending::new([]),
        };
        hub.streams.open.insert(ID, opening);
        hub
    }

    #[tokio::test]
    async fn a_node_that_is_lost_before_anything_goes_over_it_keeps_the_route_and_ends_nothing() {
        let mut hub = changing(None);
        hub.lose_streams_on(NEW);
        let opening = &hub.streams.open[&ID];
        assert!(opening.ending.is_going_well() && opening.ending.fault().is_none());
        assert!(opening.routes.is_final && opening.routes.change.is_none());
        assert!(opening.edges.all.is_empty() && opening.nodes.keys().eq([&OLD]));
        let keep = (Some(OLD), AgentRequest::Streams(StreamRequest::Keep(ID)));
        assert!(hub.requests.contains(&keep), "{:?}", hub.requests);
    }

    #[tokio::test]
    async fn a_node_that_is_lost_when_something_goes_over_it_ends_all() {
        let mut hub = changing(Some([OLD].into()));
        hub.lose_streams_on(NEW);
        let fault = hub.streams.open[&ID].ending.fault().map(Text::to_display);
        assert_eq!(fault.as_deref(), Some("node n2 was lost, over which its streams went"));
    }
}
