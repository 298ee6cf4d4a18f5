//! A component on several nodes: groups, routes, and what is opened where.
//!
//! `rakuda_core::streams` makes the tree of each stream; here it becomes plans for agents.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::ClusterPlan;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::streams::{Between, GroupId, Groups, Known, RouteByGroup, RouteWatch, between_ns};
use rakuda_core::{NodeId, TaskId};
use rakuda_link::credentials::CredentialsError;
use rakuda_proto::Text;
use rakuda_proto::streams::{HopPlan, HopSet, RouteKind, RouteWish, StreamPlan, StreamRoute};

use super::costs::{Laid, route_of};
use super::network::Edges;
use super::routes::{Routes, ends_on};
use crate::hub::Hub;

/// What is opened on a node.
pub(super) type NodePlans = (NodeId, Vec<StreamPlan>, Option<HopSet>);

impl Hub {
    /// What is opened on each node for a component, and the edges between them.
    pub(super) fn plan_over_nodes(
        &mut self,
        place: usize,
        node_of: &BTreeMap<TaskId, NodeId>,
    ) -> Result<(Edges, Routes, Vec<NodePlans>), CredentialsError> {
        let groups = self.stream_groups(node_of.values().copied());
        let used: BTreeSet<NodeId> = node_of.values().copied().collect();
        let round_trips = self.round_trips_between(&groups, &used);
        let component = &self.streams.components[place];
        let rates = self.streams.line_rates.between(&groups);
        let mut laid = Laid::default();
        let mut routes = Routes::default();
        for (number, stream) in component.streams.iter().enumerate() {
            let (writers, readers) = ends_on(stream, node_of);
            let wish = self.settings.stream_route;
            let traffic = component.traffic[number].clone();
            let message_ns = self.streams.message_costs.of_stream(&writers, &readers);
            let round_trips = round_trips.as_ref();
            let known = Known { round_trips, rates: &rates, message_ns, traffic };
            let (tree, mut route, by_group) = route_of(&groups, wish, &known, &writers, &readers);
            route.relayed = self.relayed_names(&groups, &route, &by_group);
            laid.edges.routes.push(route);
            routes.by_group.push(by_group);
            routes.places.push(laid.add(component, number, &tree));
            routes.watches.push(RouteWatch::default());
        }
        let Laid { edges, plans, .. } = laid;
        let mut opened = Vec::with_capacity(plans.len());
        for (node, plans) in plans {
            let hops = self.hops_of(node, &edges, 0)?;
            opened.push((node, plans, hops));
        }
        (routes.groups, routes.round_trips) = (groups, round_trips);
        Ok((edges, routes, opened))
    }

    /// The groups that are relayed, for a mixed route.
    pub(super) fn relayed_names(
        &self,
        groups: &Groups,
        route: &StreamRoute,
        by_group: &RouteByGroup,
    ) -> Vec<Text> {
        let is_mixed = route.route == RouteKind::Mixed;
        let relayed = by_group.relayed.iter().filter(|_| is_mixed);
        relayed.map(|group| self.group_name(groups, *group)).collect()
    }

    /// The name of a group in the host file.
    fn group_name(&self, groups: &Groups, group: GroupId) -> Text {
        let plan = self.settings.cluster.as_ref();
        let name = plan.and_then(|plan| plan.group_of(groups.representative[&group]));
        Text::from(name.unwrap_or_default())
    }

    /// Round trips between the groups of some nodes, as far as they are known.
    fn round_trips_between(
        &self,
        groups: &Groups,
        nodes: &BTreeSet<NodeId>,
    ) -> Option<Between<u64>> {
        let used: BTreeSet<GroupId> = nodes.iter().map(|node| groups.group_of[node]).collect();
        let mut of_used = Groups { above: groups.above.clone(), ..Groups::default() };
        let mut times: BTreeMap<GroupId, u64> = BTreeMap::new();
        // The shortest of a group's nodes: the others were busy.
        for (node, group) in groups.group_of.iter().filter(|(_, group)| used.contains(group)) {
            of_used.representative.insert(*group, groups.representative[group]);
            let clock = self.clock_of_node(*node).filter(|clock| clock.round_trip_ns > 0);
            let time = clock.and_then(|clock| u64::try_from(clock.round_trip_ns).ok());
            if let Some(time) = if *node == LOCAL_NODE { Some(0) } else { time } {
                let least = times.entry(*group).or_insert(time);
                *least = time.min(*least);
            }
        }
        between_ns(&of_used, &times)
    }

    /// Asks how far a node is away, when it is there: routes are chosen by what lies between groups.
    pub(crate) fn ask_distance(&mut self, node: NodeId) {
        let has_group =
            self.settings.cluster.as_ref().is_some_and(|plan| plan.group_of(node).is_some());
        if has_group && node != LOCAL_NODE && self.settings.stream_route == RouteWish::Auto {
            self.ask_clock(node);
        }
    }

    /// What a node needs for its edges, the first of which has the number `first`.
    pub(super) fn hops_of(
        &mut self,
        node: NodeId,
        edges: &Edges,
        first: usize,
    ) -> Result<Option<HopSet>, CredentialsError> {
        let name = |node: NodeId| self.agents.node(node).name.clone();
        let own = edges.all.iter().zip((0..).skip(first)).filter(|(edge, _)| edge.has(node));
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
        // A lost node is noticed after its silence, and some time.
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
        let up =
            self.agents.places().map(|(node, _)| node).filter(|node| self.run.nodes().is_up(*node));
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
