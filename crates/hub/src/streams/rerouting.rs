//! Routes that change while streams are open. What has gone in is weighed about once a second; where another route has
//! been cheaper for some time, all nodes first make what it needs, and only then change.
//!
//! `rakuda_core::streams` decides what is cheaper, and when nodes switch (`changing`); its `handing` loses no record.

use std::collections::BTreeMap;

use rakuda_core::NodeId;
use rakuda_core::streams::{NewPlaces, OverThere};
use rakuda_link::credentials::CredentialsError;
use rakuda_proto::Text;
use rakuda_proto::agent::AgentRequest;
use rakuda_proto::journal::{JournalEvent, StreamReroute, StreamsRerouted};
use rakuda_proto::streams::{OpeningId, RouteWish, StreamRequest};

use super::costs::Laid;
use super::routes::{Due, NewRoute};
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
        for Due { stream, tree, by_group, mut route } in due {
            route.relayed = self.relayed_names(&opening.routes.groups, &route, &by_group);
            let places = laid.add(component, stream, &tree);
            streams.insert(stream, NewRoute { by_group, route, places });
        }
        let Laid { first, mut edges, plans } = laid;
        if !plans.keys().all(|node| self.run.nodes().is_up(*node)) {
            return Ok(());
        }
        let mut requests = Vec::new();
        for (node, mut plans) in plans {
            let hops = self.hops_of(node, &edges, first)?;
            self.place_spills(place, node, &mut plans);
            requests.push((node, plans, hops.map(Box::new)));
        }
        let opening = self.streams.open.get_mut(&id).expect("it was looked up");
        let count = |edges: usize| u32::try_from(edges).expect("edges have such numbers");
        let mut new = NewPlaces {
            first: count(first),
            edges: count(edges.all.len()),
            ..NewPlaces::default()
        };
        opening.edges.all.append(&mut edges.all);
        for (node, plans, hops) in requests {
            // The node says anew where it listens when it waits for the new edges.
            opening.edges.close_door(node);
            let request = if matches!(opening.nodes.get(&node), Some(None)) {
                new.asked.insert(node);
                StreamRequest::Reroute(id, plans, hops)
            } else {
                new.joining.insert(node);
                if let Some(told) = opening.nodes.insert(node, None).flatten() {
                    opening.routes.earlier.extend(told);
                }
                StreamRequest::Open(id, plans, hops)
            };
            self.requests.push((Some(node), AgentRequest::Streams(request)));
        }
        opening.routes.changes.begin(new);
        opening.routes.next = streams;
        Ok(())
    }

    /// A node has made what a change needs, or cannot.
    pub(super) fn on_prepared(&mut self, id: OpeningId, node: NodeId, why_not: Option<&Text>) {
        if why_not.is_some() {
            return self.keep_routes(id);
        }
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if opening.routes.changes.on_prepared(node) {
            self.switch_routes(id);
        }
    }

    /// An edge is connected, or cannot be. False: that is for others to deal with.
    pub(super) fn on_new_edge(&mut self, id: OpeningId, number: u32, is_connected: bool) -> bool {
        let Some(opening) = self.streams.open.get_mut(&id) else { return true };
        if is_connected && let Some(edge) = opening.edges.all.get_mut(number as usize) {
            edge.is_connected = true;
        }
        if !opening.routes.changes.is_new_edge(number) {
            return is_connected;
        }
        if !is_connected {
            self.keep_routes(id);
        } else if opening.routes.changes.on_connected(number) {
            self.switch_routes(id);
        }
        true
    }

    /// All nodes have made what a change needs.
    fn switch_routes(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        let mut noted = Vec::new();
        let component = &self.streams.components[opening.component];
        for (number, new) in std::mem::take(&mut opening.routes.next) {
            let name = component.streams[number].name.clone();
            noted.push(StreamReroute { name, route: new.route.clone() });
            opening.edges.routes[number] = new.route;
            opening.routes.by_group[number] = new.by_group;
            if component.stall_ms[number].is_some() {
                new.places.iter().for_each(|node| opening.stalls.on_opened(number, *node));
            }
            opening.routes.places[number] = new.places;
        }
        let places = &opening.routes.places;
        let is_left = |node: &NodeId| !places.iter().any(|nodes| nodes.contains(node));
        let left = opening.nodes.iter().filter(|(node, _)| is_left(node));
        let told = opening.routes.changes.switch(left.map(|(node, told)| (*node, told.is_none())));
        for node in told {
            let switch = AgentRequest::Streams(StreamRequest::Switch(id));
            self.requests.push((Some(node), switch));
        }
        let event = JournalEvent::StreamsRerouted(StreamsRerouted {
            time_ns: self.now.journal_ns(),
            opening: id.0,
            streams: noted,
        });
        self.record.gang_started(self.run.scheduler(), &self.names, &event, &[]);
    }

    /// On a node nothing goes the old way any more.
    pub(super) fn on_switched(&mut self, id: OpeningId, node: NodeId) {
        if let Some(opening) = self.streams.open.get_mut(&id) {
            opening.routes.changes.on_switched(node);
        }
    }

    /// A node reports that all is over there, or cannot be. True: it would have joined a change that has not begun, and
    /// nothing else is wrong.
    pub(super) fn on_end_within_change(&mut self, id: OpeningId, node: NodeId) -> bool {
        let Some(opening) = self.streams.open.get_mut(&id) else { return false };
        let OverThere { kept, is_forgiven } = opening.routes.changes.on_over(node);
        if let Some(kept) = kept {
            self.take_back(id, kept);
        }
        is_forgiven
    }

    /// All stays as it was, for good.
    pub(super) fn keep_routes(&mut self, id: OpeningId) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        if let Some(kept) = opening.routes.changes.keep() {
            self.take_back(id, kept);
        }
    }

    fn take_back(&mut self, id: OpeningId, kept: NewPlaces) {
        let Some(opening) = self.streams.open.get_mut(&id) else { return };
        opening.routes.next.clear();
        opening.edges.all.truncate(kept.first as usize);
        for node in kept.asked {
            let keep = AgentRequest::Streams(StreamRequest::Keep(id));
            self.requests.push((Some(node), keep));
        }
        for node in kept.joining {
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
    use rakuda_core::streams::{Ending, RouteChanges, Stalls};
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
    fn changing(is_switching: bool) -> Hub {
        let settings = Settings { directory: Text::from("/"), ..Settings::default() };
        let (ours, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let inspector = Inspector::new(unbounded_channel().0).unwrap();
        let node = |number| Node {
            name: Text::from(format!("n{number}")),
            capacity: Capacity::default(),
            port: Box::new(Idle),
        };
        let agents = Agents::new((0..3).map(node).collect());
        let settings = RunSettings::new(settings).unwrap();
        let mut hub = Hub::new(settings, FrontLink::new(ours).unwrap(), agents, inspector);
        let mut edges = Edges::default();
        edges.all.push(Edge::new(0, OLD, NEW, LineKind::Wan, new_key()));
        let mut changes = RouteChanges::default();
        let (asked, joining) = ([OLD].into(), [NEW].into());
        changes.begin(NewPlaces { first: 0, edges: 1, asked, joining });
        if is_switching {
            assert!(!changes.on_prepared(OLD) && changes.on_connected(0));
            changes.switch([]);
        }
        let opening = Opening {
            component: 0,
            nodes: [(OLD, None), (NEW, None)].into(),
            interrupted: BTreeMap::new(),
            held_by: BTreeMap::new(),
            stalled: Vec::new(),
            passed: BTreeMap::new(),
            node_of: [(TaskId(0), OLD)].into(),
            edges,
            routes: Routes { changes, ..Routes::default() },
            stalls: Stalls::default(),
            took_ns: BTreeMap::new(),
            ending: Ending::new([]),
        };
        hub.streams.open.insert(ID, opening);
        hub
    }

    #[tokio::test]
    async fn a_node_that_is_lost_before_anything_goes_over_it_keeps_the_route_and_ends_nothing() {
        let mut hub = changing(false);
        hub.lose_streams_on(NEW);
        let opening = &hub.streams.open[&ID];
        assert!(opening.ending.is_going_well() && opening.ending.fault().is_none());
        assert!(!opening.routes.changes.may_begin() && !opening.routes.changes.is_new_edge(0));
        assert!(opening.edges.all.is_empty() && opening.nodes.keys().eq([&OLD]));
        let keep = (Some(OLD), AgentRequest::Streams(StreamRequest::Keep(ID)));
        assert!(hub.requests.contains(&keep), "{:?}", hub.requests);
    }

    #[tokio::test]
    async fn a_node_that_is_lost_when_something_goes_over_it_ends_all() {
        let mut hub = changing(true);
        hub.lose_streams_on(NEW);
        let fault = hub.streams.open[&ID].ending.fault().map(Text::to_display);
        assert_eq!(fault.as_deref(), Some("node n2 was lost, over which its streams went"));
    }
}
