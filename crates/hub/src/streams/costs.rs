//! Trees of streams, laid over nodes, and their routes for messages and the record.
//! `rakuda_core::streams` chooses them.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::streams::{
    Cheapest, Distance, Groups, Known, PlaceEnd, Placed, PlanCost, RouteByGroup, RouteName, Tree,
    slowest,
};
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::front::StreamDefinition;
use rakuda_proto::streams::{
    LineKind, RouteCost, RouteKind, RouteWish, StreamEnd, StreamPlan, StreamRoute,
};

use super::network::{Edge, Edges, new_key};
use super::state::{Component, plan_of};

/// By node: how long a message takes there, ns, as it has reported.
#[derive(Debug, Default)]
pub(super) struct MessageCosts(BTreeMap<NodeId, u64>);

impl MessageCosts {
    pub fn set(&mut self, node: NodeId, ns: u64) {
        self.0.insert(node, ns);
    }

    /// The cost on the slowest host that has a task of a stream, as far as these have reported it.
    pub fn of_stream(
        &self,
        writers: &[(TaskId, NodeId)],
        readers: &[(TaskId, NodeId)],
    ) -> Option<u64> {
        let ends = writers.iter().chain(readers);
        ends.filter_map(|(_, node)| self.0.get(node)).max().copied()
    }
}

/// The trees of some streams, laid over nodes.
#[derive(Default)]
pub(super) struct Laid {
    /// The number in the opening of the first edge here.
    pub first: usize,
    pub edges: Edges,
    pub plans: BTreeMap<NodeId, Vec<StreamPlan>>,
}

impl Laid {
    /// Adds the tree of a stream. Returns the nodes on which it has places.
    pub fn add(&mut self, component: &Component, stream: usize, tree: &Tree) -> BTreeSet<NodeId> {
        let first = self.first + self.edges.all.len();
        let edges = tree
            .edges
            .iter()
            .map(|hop| Edge::new(stream, hop.from, hop.to, line_kind(hop.over), new_key()));
        self.edges.all.extend(edges);
        let stall_ms = component.stall_ms[stream];
        let mut nodes = BTreeSet::new();
        for (node, plan) in places_of(&component.streams[stream], tree, first, stall_ms) {
            nodes.insert(node);
            self.plans.entry(node).or_default().push(plan);
        }
        nodes
    }
}

/// The plans of one stream, by node; `first`: the number of its first edge in the opening.
pub(super) fn places_of(
    stream: &StreamDefinition,
    tree: &Tree,
    first: usize,
    stall_ms: Option<u32>,
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
        (place.node, StreamPlan { stall_ms, ..plan })
    });
    places.collect()
}

/// The kind of line between two hosts, for messages and the record.
pub(super) fn line_kind(distance: Distance) -> LineKind {
    match distance {
        Distance::Wan => LineKind::Wan,
        Distance::None | Distance::Lan => LineKind::Lan,
    }
}

/// The tree of a stream over the route that is wished for, or the cheapest one, and why; with how it
/// goes to each group.
pub(super) fn route_of(
    groups: &Groups,
    wish: RouteWish,
    known: &Known<'_>,
    writers: &[Placed],
    readers: &[Placed],
) -> (Tree, StreamRoute, RouteByGroup) {
    let wanted = match wish {
        RouteWish::Auto => None,
        RouteWish::Direct => Some(RouteName::Direct),
        RouteWish::Relay => Some(RouteName::Relay),
        RouteWish::Conventional => Some(RouteName::Conventional),
    };
    let Cheapest { name, by_group, tree, costs, used } =
        known.cheapest(groups, wanted, writers, readers);
    let (lan, wan) = tree.lines();
    let slowest = |line| slowest(known.rates, line, |group| used.contains(&group));
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let cost = |(name, cost): &(RouteName, PlanCost)| RouteCost {
        route: kind_of(*name),
        period_ns: cost.period_ns,
        delay_ns: cost.delay_ns,
    };
    let route = StreamRoute {
        route: kind_of(name),
        wish,
        lan: count(lan),
        wan: count(wan),
        relayed: Vec::new(),
        costs: costs.iter().map(cost).collect(),
        round_trip_ns: known.round_trips.and_then(|all| all.values().max().copied()),
        message_ns: known.message_ns,
        lan_bytes_per_s: slowest(Distance::Lan),
        wan_bytes_per_s: slowest(Distance::Wan),
        declared_bytes_per_s: known.traffic.bytes_per_s,
        declared_per_1000_s: known.traffic.per_1000_s,
        observed_bytes_per_s: None,
        observed_per_1000_s: None,
        in_bursts: known.traffic.is_burst,
    };
    (tree, route, by_group)
}

fn kind_of(name: RouteName) -> RouteKind {
    match name {
        RouteName::Direct => RouteKind::Direct,
        RouteName::Relay => RouteKind::Relay,
        RouteName::Conventional => RouteKind::Conventional,
        RouteName::Mixed => RouteKind::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::said;
    use rakuda_core::streams::{Between, GroupId, Said, Traffic, Volume};

    /// Hosts 10g to 10g+9 in group g, of which the first represents it.
    fn groups(count: u32) -> Groups {
        let mut groups = Groups::default();
        for group in 0..count {
            groups.representative.insert(GroupId(group), NodeId(group * 10));
            for host in 0..10 {
                groups.group_of.insert(NodeId(group * 10 + host), GroupId(group));
            }
        }
        groups
    }

    fn on(hosts: impl IntoIterator<Item = u32>, first: u32) -> Vec<(TaskId, NodeId)> {
        (first..).zip(hosts).map(|(task, host)| (TaskId(task), NodeId(host))).collect()
    }

    fn auto(writers: &[(TaskId, NodeId)], readers: &[(TaskId, NodeId)]) -> StreamRoute {
        let traffic = Traffic { per_1000_s: Some(15_258), ..Traffic::default() };
        let known = Known { round_trips: None, rates: &Between::new(), message_ns: None, traffic };
        let (_, route, by_group) = route_of(&groups(3), RouteWish::Auto, &known, writers, readers);
        assert_eq!(route.route == RouteKind::Mixed, route.costs.len() == 4);
        let is_mixed = route.route == RouteKind::Mixed;
        assert!(!is_mixed || !by_group.relayed.is_empty(), "{route:?}");
        let delay = |kind| route.costs.iter().find(|cost| cost.route == kind).unwrap().delay_ns;
        let kinds = [RouteKind::Direct, RouteKind::Relay, RouteKind::Conventional];
        let least = kinds.map(delay).into_iter().min().unwrap();
        assert!(delay(route.route) <= least + least / 10, "{route:?}");
        route
    }

    #[test]
    fn a_writer_that_is_far_from_all_its_readers_sends_over_one_of_them_where_that_costs_least() {
        // The one reader nearby costs a copy within the group; all goes over it, not over a third host.
        let route = auto(&on([1, 2, 3], 0), &on([11, 12, 13, 14, 15], 100));
        assert_ne!(route.route, RouteKind::Direct);
        let cost = |kind| route.costs.iter().find(|cost| cost.route == kind).unwrap().delay_ns;
        assert!(cost(RouteKind::Conventional) < cost(RouteKind::Direct), "{route:?}");
    }

    #[test]
    fn each_group_has_the_way_that_is_cheaper_for_it() {
        let route = auto(&on([1], 0), &on([11, 21, 22, 23, 24, 25, 26, 27, 28, 29], 100));
        assert_eq!(route.route, RouteKind::Mixed, "{route:?}");
    }

    #[test]
    fn whatever_is_wished_for_is_taken() {
        let (writers, readers) = (on([1, 2], 0), on([11, 12, 21], 100));
        let known = Known {
            round_trips: None,
            rates: &Between::new(),
            message_ns: None,
            traffic: Traffic::default(),
        };
        for (wish, kind) in [
            (RouteWish::Direct, RouteKind::Direct),
            (RouteWish::Relay, RouteKind::Relay),
            (RouteWish::Conventional, RouteKind::Conventional),
        ] {
            let (_, route, _) = route_of(&groups(3), wish, &known, &writers, &readers);
            assert_eq!((route.route, route.costs.len()), (kind, 3));
        }
    }

    /// One writer, nine readers far away.
    fn of_traffic(traffic: Traffic) -> StreamRoute {
        let known = Known { round_trips: None, rates: &Between::new(), message_ns: None, traffic };
        let (writers, readers) = (on([1], 0), on(11..20, 100));
        route_of(&groups(2), RouteWish::Auto, &known, &writers, &readers).1
    }

    #[test]
    fn what_is_said_of_messages_decides_what_a_route_would_cost() {
        let direct = |route: &StreamRoute| {
            let cost = route.costs.iter().find(|cost| cost.route == RouteKind::Direct);
            cost.unwrap().period_ns
        };
        let (usual, small) = (
            of_traffic(Traffic::default()),
            of_traffic(Traffic { message_bytes: Some(100), ..Traffic::default() }),
        );
        assert!(direct(&small) * 10 < direct(&usual), "{small:?} {usual:?}");
        // Rare small messages take the shortest way; of many each line is to carry as few as can be.
        let rare =
            Traffic { per_1000_s: Some(10_000), message_bytes: Some(100), ..Traffic::default() };
        let burst = Traffic { is_burst: true, ..rare.clone() };
        let (rare, burst) = (of_traffic(rare), of_traffic(burst));
        assert_eq!(rare.route, RouteKind::Direct, "{rare:?}");
        assert_ne!(burst.route, RouteKind::Direct, "{burst:?}");
        assert_eq!((rare.in_bursts, burst.in_bursts), (false, true));
    }

    #[test]
    fn what_a_message_takes_as_measured_stands_in_the_place_of_what_is_usual() {
        let (writers, readers) = (on([1], 0), on(11..20, 100));
        let cost = |message_ns| {
            let traffic = Traffic { message_bytes: Some(100), ..Traffic::default() };
            let known = Known { round_trips: None, rates: &Between::new(), message_ns, traffic };
            let (_, route, _) = route_of(&groups(2), RouteWish::Direct, &known, &writers, &readers);
            assert_eq!(route.message_ns, message_ns);
            route.costs[0].period_ns
        };
        // Nine copies leave the writer's host.
        assert_eq!(cost(Some(7_000)) - cost(None), 9 * 2_000);
    }

    #[test]
    fn what_lines_were_seen_to_carry_stands_in_the_place_of_what_is_usual_and_is_told() {
        let (writers, readers) = (on([1], 0), on(11..14, 100));
        let of = |rates: &[((u32, u32), u64)]| {
            let pair = |(from, to)| (GroupId(from), GroupId(to));
            let rates = rates.iter().map(|(line, rate)| (pair(*line), *rate)).collect();
            let traffic = Traffic { per_1000_s: Some(20_000), ..Traffic::default() };
            let known = Known { round_trips: None, rates: &rates, message_ns: None, traffic };
            route_of(&groups(3), RouteWish::Auto, &known, &writers, &readers).1
        };
        let usual = of(&[]);
        assert_eq!((usual.lan_bytes_per_s, usual.wan_bytes_per_s), (None, None));
        // With 20 messages of 64 KiB a second a line of 10 MB/s is to be passed once, and one of 10 GB/s often.
        let slow = of(&[((0, 1), 10_000_000), ((0, 2), 1), ((1, 1), 300_000_000)]);
        assert_eq!(
            (slow.lan_bytes_per_s, slow.wan_bytes_per_s),
            (Some(300_000_000), Some(10_000_000))
        );
        let fast = of(&[((0, 1), 10_000_000_000)]);
        assert_eq!((slow.wan, fast.wan), (1, 3), "{slow:?} {fast:?}");
        let delay = |route: &StreamRoute| route.costs[0].delay_ns;
        assert!(delay(&fast) < delay(&usual) && delay(&usual) < delay(&slow));
    }

    #[test]
    fn the_slowest_host_that_has_a_task_of_a_stream_counts() {
        let (writers, readers) = (on([1], 0), on([2, 3], 100));
        let mut costs = MessageCosts::default();
        assert_eq!(costs.of_stream(&writers, &readers), None);
        for (node, ns) in [(2, 7_000), (1, 6_000), (4, 9_000)] {
            costs.set(NodeId(node), ns);
        }
        assert_eq!(costs.of_stream(&writers, &readers), Some(7_000));
        costs.set(NodeId(1), 8_000);
        assert_eq!(costs.of_stream(&writers, &readers), Some(8_000));
    }

    #[test]
    fn words_of_the_front_are_read() {
        let words =
            [("cost", "0.5"), ("output", "1.5MB/s"), ("frequency", "20"), ("pattern", "burst")];
        let expected = Said {
            cost_milli: Some(500),
            output: Some(Volume::PerSecond(1_500_000)),
            input: None,
            per_1000_s: Some(20_000),
            is_burst: true,
        };
        assert_eq!(said(&BTreeMap::from(words)), expected);
        assert_eq!(said(&BTreeMap::from([("pattern", "steady")])), Said::default());
    }
}
