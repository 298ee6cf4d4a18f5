//! A component on several nodes: groups, routes, and what is opened where.
//!
//! `rakuda_core::streams` makes the tree of each stream; here it becomes plans for agents.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::ClusterPlan;
use rakuda_core::streams::{
    Choice, Distance, GroupId, Groups, LineCost, Load, PlaceEnd, Route, Tree, choose, cost_of,
    tree_of,
};
use rakuda_core::{NodeId, TaskId};
use rakuda_link::credentials::CredentialsError;
use rakuda_proto::Text;
use rakuda_proto::front::StreamDefinition;
use rakuda_proto::streams::{
    HopPlan, HopSet, LineKind, RouteCost, RouteKind, RouteWish, StreamEnd, StreamPlan, StreamRoute,
};

use super::edges::{Edge, Edges, new_key};
use super::plan_of;
use crate::hub::{Hub, LOCAL_NODE};

/// What is opened on a node.
pub(super) type NodePlans = (NodeId, Vec<StreamPlan>, Option<HopSet>);

/// A message, where nothing is known of a stream.
const MESSAGE_BYTES: u64 = 64 << 10;
/// Messages in 1,000 s, likewise.
const MESSAGES_PER_1000_S: u64 = 1_000_000;
/// Lines as they usually are: 10 Gbit/s within a group, and 1 Gbit/s with 5 ms a way between two.
const LAN: LineCost = LineCost { message_ns: 5_000, kib_ns: 820, round_trip_ns: 100_000 };
const WAN: LineCost = LineCost { message_ns: 5_000, kib_ns: 8_200, round_trip_ns: 10_000_000 };

impl Hub {
    /// What is opened on each node for a component, and the edges between them.
    pub(super) fn plan_over_nodes(
        &mut self,
        place: usize,
        node_of: &BTreeMap<TaskId, NodeId>,
    ) -> Result<(Edges, Vec<NodePlans>), CredentialsError> {
        let groups = self.stream_groups(node_of.values().copied());
        let component = &self.streams.components[place];
        let mut edges = Edges::default();
        let mut plans: BTreeMap<NodeId, Vec<StreamPlan>> = BTreeMap::new();
        for (number, stream) in component.streams.iter().enumerate() {
            let on = |tasks: &[u32]| -> Vec<(TaskId, NodeId)> {
                tasks.iter().map(|task| (TaskId(*task), node_of[&TaskId(*task)])).collect()
            };
            let (writers, readers) = (on(&stream.writers), on(&stream.readers));
            let wish = self.settings.stream_route;
            let (tree, route) = route_of(&groups, wish, &writers, &readers);
            let first = edges.all.len();
            for hop in &tree.edges {
                let line = match hop.over {
                    Distance::Wan => LineKind::Wan,
                    Distance::None | Distance::Lan => LineKind::Lan,
                };
                edges.all.push(Edge::new(number, hop.from, hop.to, line, new_key()));
            }
            edges.routes.push(route);
            let is_cyclic = component.is_cyclic[number];
            for (node, plan) in places_of(stream, &tree, first, is_cyclic) {
                plans.entry(node).or_default().push(plan);
            }
        }
        let mut opened = Vec::with_capacity(plans.len());
        for (node, plans) in plans {
            let hops = self.hops_of(node, &edges)?;
            opened.push((node, plans, hops));
        }
        Ok((edges, opened))
    }

    /// What a node needs for its edges.
    fn hops_of(&mut self, node: NodeId, edges: &Edges) -> Result<Option<HopSet>, CredentialsError> {
        let name = |node: NodeId| self.agents.node(node).name.clone();
        let own = edges.all.iter().zip(0..).filter(|(edge, _)| edge.has(node));
        let hops: Vec<HopPlan> = own
            .map(|(edge, number)| HopPlan {
                edge: number,
                key: Text(edge.key.to_vec()),
                peer: name(if edge.from == node { edge.to } else { edge.from }),
            })
            .collect();
        if hops.is_empty() {
            return Ok(None);
        }
        let credentials = Text(self.streams.network.credentials_of(node)?.to_bytes());
        // A lost node is found out after its silence, and some time.
        let silence_ms = self.settings.cluster.as_ref().map_or(0, ClusterPlan::silence_ms);
        let patience_ms = silence_ms.saturating_mul(3) / 2 + 1_000;
        Ok(Some(HopSet { credentials, hops, patience_ms }))
    }

    /// The groups of these nodes, with a representative of each: its leader, where that is a node of
    /// the run that is up, else the first of its nodes that is.
    fn stream_groups(&self, involved: impl Iterator<Item = NodeId>) -> Groups {
        let plan = self.settings.cluster.as_ref();
        let name_of = |node: NodeId| plan.and_then(|plan| plan.group_of(node)).unwrap_or_default();
        let takes_tasks =
            |node: NodeId| node != LOCAL_NODE || plan.is_some_and(|plan| plan.own_takes_tasks);
        let mut nodes: BTreeSet<NodeId> = involved.collect();
        let up = self.agents.places().map(|(node, _)| node).filter(|node| self.agents.is_up(*node));
        nodes.extend(up.filter(|node| takes_tasks(*node)));
        let mut numbers: BTreeMap<String, GroupId> = BTreeMap::new();
        let mut groups = Groups::default();
        for node in nodes {
            let next = GroupId(u32::try_from(numbers.len()).expect("groups are few"));
            let group = *numbers.entry(name_of(node)).or_insert(next);
            groups.group_of.insert(node, group);
            let leads = plan
                .and_then(|plan| plan.leader_of(node))
                .is_some_and(|leader| leader.as_bytes() == self.agents.node(node).name.0);
            if leads || !groups.representative.contains_key(&group) {
                groups.representative.insert(group, node);
            }
        }
        for (name, group) in &numbers {
            let mut above = name.as_str();
            while let Some((outer, _)) = above.rsplit_once('/') {
                above = outer;
                if let Some(outer) = numbers.get(above) {
                    groups.above.insert(*group, *outer);
                    break;
                }
            }
        }
        groups
    }
}

/// The plans of one stream, by node; `first`: the number of its first edge in the opening.
fn places_of(
    stream: &StreamDefinition,
    tree: &Tree,
    first: usize,
    is_cyclic: bool,
) -> Vec<(NodeId, StreamPlan)> {
    let ends = |ends: &[PlaceEnd]| -> Vec<StreamEnd> {
        let end = |end: &PlaceEnd| match end {
            PlaceEnd::Task(task) => StreamEnd::Task(task.0),
            PlaceEnd::Edge(edge) => {
                StreamEnd::Hop(u32::try_from(first + edge).expect("edges are few"))
            }
        };
        ends.iter().map(end).collect()
    };
    let places = tree.places.iter().map(|place| {
        let plan = plan_of(stream, ends(&place.writers), ends(&place.readers));
        (place.node, StreamPlan { is_cyclic, ..plan })
    });
    places.collect()
}

fn kind_of(route: Route) -> RouteKind {
    match route {
        Route::Conventional { .. } => RouteKind::Conventional,
        Route::Direct => RouteKind::Direct,
        Route::Relay => RouteKind::Relay,
    }
}

/// The tree of a stream over the route that is wished for, or the cheaper one, and why.
fn route_of(
    groups: &Groups,
    wish: RouteWish,
    writers: &[(TaskId, NodeId)],
    readers: &[(TaskId, NodeId)],
) -> (Tree, StreamRoute) {
    let end = readers.first().expect("a stream has readers").1;
    let load = Load { bytes: MESSAGE_BYTES, per_1000_s: MESSAGES_PER_1000_S, lan: LAN, wan: WAN };
    let choice = |route: Route| {
        let tree = tree_of(groups, route, writers, readers);
        Choice { route, cost: cost_of(groups, &tree.edges, &load) }
    };
    // The shorter way is taken where both cost the same.
    let known = [Route::Direct, Route::Relay, Route::Conventional { end }].map(choice);
    let chosen = match wish {
        RouteWish::Auto => choose(&known[..2], None).map_or(Route::Direct, |choice| choice.route),
        RouteWish::Direct => Route::Direct,
        RouteWish::Relay => Route::Relay,
        RouteWish::Conventional => Route::Conventional { end },
    };
    let tree = tree_of(groups, chosen, writers, readers);
    let (lan, wan) = tree.lines();
    let cost = |choice: &Choice| RouteCost {
        route: kind_of(choice.route),
        period_ns: choice.cost.period_ns,
        delay_ns: choice.cost.delay_ns,
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let route = StreamRoute {
        route: kind_of(chosen),
        wish,
        lan: count(lan),
        wan: count(wan),
        costs: known.iter().map(cost).collect(),
    };
    (tree, route)
}
