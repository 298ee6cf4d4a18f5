//! A component on several nodes: groups, routes, and what is opened where.
//!
//! `rakuda_core::streams` makes the tree of each stream; here it becomes plans for agents.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::ClusterPlan;
use rakuda_core::streams::{
    Choice, Distance, GroupId, Groups, LineCost, Load, PlaceEnd, Route, Tree, choose, cost_of,
    farthest_ns, line_between, tree_of,
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
        let used: BTreeSet<NodeId> = node_of.values().copied().collect();
        let round_trip_ns = self.round_trip_between(&groups, &used);
        let component = &self.streams.components[place];
        let mut edges = Edges::default();
        let mut plans: BTreeMap<NodeId, Vec<StreamPlan>> = BTreeMap::new();
        for (number, stream) in component.streams.iter().enumerate() {
            let on = |tasks: &[u32]| -> Vec<(TaskId, NodeId)> {
                tasks.iter().map(|task| (TaskId(*task), node_of[&TaskId(*task)])).collect()
            };
            let (writers, readers) = (on(&stream.writers), on(&stream.readers));
            let wish = self.settings.stream_route;
            let known = Known { round_trip_ns, bytes_per_s: self.declared_by(stream) };
            let (tree, route) = route_of(&groups, wish, known, &writers, &readers);
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

    /// There and back between those groups of some nodes that are farthest from each other: what is known of it.
    fn round_trip_between(&self, groups: &Groups, nodes: &BTreeSet<NodeId>) -> Option<u64> {
        let used: BTreeSet<GroupId> = nodes.iter().map(|node| groups.group_of[node]).collect();
        let mut of_used = Groups { above: groups.above.clone(), ..Groups::default() };
        let mut times: BTreeMap<GroupId, u64> = BTreeMap::new();
        // The least of a group's nodes: the others were busy.
        for (node, group) in groups.group_of.iter().filter(|(_, group)| used.contains(group)) {
            of_used.representative.insert(*group, groups.representative[group]);
            let clock = self.clock_of_node(*node).filter(|clock| clock.round_trip_ns > 0);
            let time = clock.and_then(|clock| u64::try_from(clock.round_trip_ns).ok());
            if let Some(time) = if *node == LOCAL_NODE { Some(0) } else { time } {
                let least = times.entry(*group).or_insert(time);
                *least = time.min(*least);
            }
        }
        farthest_ns(&of_used, &times)
    }

    /// What the writers of a stream are said to write in a second, where anything is said of them.
    fn declared_by(&self, stream: &StreamDefinition) -> Option<u64> {
        let said = stream.writers.iter().filter_map(|writer| {
            let name = Text(self.names.name(TaskId(*writer)).to_vec());
            bytes_per_s(stream.meta.get(&name)?.get("output")?)
        });
        said.reduce(u64::saturating_add)
    }

    /// Routes are chosen by what lies between groups: how far a node is away is asked when it is there.
    pub(crate) fn ask_distance(&mut self, node: NodeId) {
        let has_group =
            self.settings.cluster.as_ref().is_some_and(|plan| plan.group_of(node).is_some());
        if has_group && node != LOCAL_NODE && self.settings.stream_route == RouteWish::Auto {
            self.ask_clock(node);
        }
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

/// What is known of a stream and its lines.
#[derive(Clone, Copy)]
struct Known {
    round_trip_ns: Option<u64>,
    bytes_per_s: Option<u64>,
}

/// Reads `1MB/s`, with B, KB, MB or GB, of which each is 1,000 of the one before.
fn bytes_per_s(text: &str) -> Option<u64> {
    let text = text.trim().strip_suffix("/s")?.trim_end();
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "B" => 1,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    // Three places behind the point are enough.
    let (whole, part) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    let thousandths = whole.parse::<u64>().ok()?.checked_mul(1_000)?;
    let thousandths = thousandths.checked_add(part.parse().ok()?)?;
    Some(u64::try_from(u128::from(thousandths) * factor / 1_000).unwrap_or(u64::MAX))
}

/// The tree of a stream over the route that is wished for, or the cheaper one, and why.
fn route_of(
    groups: &Groups,
    wish: RouteWish,
    known: Known,
    writers: &[(TaskId, NodeId)],
    readers: &[(TaskId, NodeId)],
) -> (Tree, StreamRoute) {
    let end = readers.first().expect("a stream has readers").1;
    let per_1000_s = known
        .bytes_per_s
        .map_or(MESSAGES_PER_1000_S, |bytes| bytes.saturating_mul(1_000) / MESSAGE_BYTES);
    let wan = line_between(&LAN, &WAN, known.round_trip_ns);
    let load = Load { bytes: MESSAGE_BYTES, per_1000_s, lan: LAN, wan };
    let choice = |route: Route| {
        let tree = tree_of(groups, route, writers, readers);
        Choice { route, cost: cost_of(groups, &tree.edges, &load) }
    };
    // The shorter way is taken where both cost the same.
    let plans = [Route::Direct, Route::Relay, Route::Conventional { end }].map(choice);
    let chosen = match wish {
        RouteWish::Auto => choose(&plans[..2], None).map_or(Route::Direct, |choice| choice.route),
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
        costs: plans.iter().map(cost).collect(),
        round_trip_ns: known.round_trip_ns,
        declared_bytes_per_s: known.bytes_per_s,
    };
    (tree, route)
}

#[cfg(test)]
mod tests {
    use super::bytes_per_s;

    #[test]
    fn what_writers_are_said_to_write_is_read() {
        let read = ["1MB/s", "1.5 KB/s", "20 B/s", "2GB/s", "0.0625 MB/s"].map(bytes_per_s);
        assert_eq!(read, [1_000_000, 1_500, 20, 2_000_000_000, 62_000].map(Some));
        assert_eq!(["1MB", "MB/s", "x/s", "1TB/s", "-1B/s"].map(bytes_per_s), [None; 5]);
    }
}
