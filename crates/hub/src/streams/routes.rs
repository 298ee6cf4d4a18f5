//! Routes of an opening, and how they change.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::streams::{
    Between, Groups, Known, LineRates, RouteByGroup, RouteChanges, RouteWatch, Traffic, Tree,
};
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::streams::{HopRoute, RouteWish, StreamAccount, StreamRoute};

use super::costs::{MessageCosts, route_of};
use super::state::{Component, Located, Opening};

/// What is needed to weigh the routes of an opening again.
#[derive(Default)]
pub(super) struct Routes {
    /// The groups when it was opened.
    pub groups: Groups,
    pub round_trips: Option<Between<u64>>,
    /// By stream: the routes of its messages.
    pub by_group: Vec<RouteByGroup>,
    /// By stream: the nodes on which it has places.
    pub places: Vec<BTreeSet<NodeId>>,
    pub watches: Vec<RouteWatch>,
    /// How they change.
    pub(super) changes: RouteChanges,
    /// Of a change that has not come, by stream that changes: its route from then on.
    pub(super) next: BTreeMap<usize, NewRoute>,
    /// What nodes have reported over which nothing went any more, when they were taken again.
    pub(super) earlier: Vec<StreamAccount>,
}

/// The new route of a stream.
pub(super) struct NewRoute {
    pub(super) by_group: RouteByGroup,
    pub(super) route: StreamRoute,
    pub(super) places: BTreeSet<NodeId>,
}

/// A stream that is to change.
pub(super) struct Due {
    pub(super) stream: usize,
    pub(super) tree: Tree,
    pub(super) by_group: RouteByGroup,
    pub(super) route: StreamRoute,
}

impl Opening {
    /// Whether a route may change: all tasks run, and all edges are connected by their hosts.
    pub(super) fn may_change(&self, members: usize) -> bool {
        let is_open = |(node, told): (&NodeId, &Option<Vec<StreamAccount>>)| {
            told.is_none() || self.routes.changes.is_leaving(*node)
        };
        let edges = &self.edges.all;
        self.ending.is_going_well()
            && self.routes.changes.may_begin()
            && self.ending.left().len() == members
            && self.nodes.iter().all(is_open)
            && edges.iter().all(|edge| edge.is_connected && edge.way == HopRoute::Direct)
    }

    /// Accounts that nodes have reported of places from which nothing goes on.
    pub(super) fn told(&self) -> impl Iterator<Item = &StreamAccount> {
        let told = self.nodes.values().flatten().chain(self.interrupted.values());
        told.flatten().chain(&self.routes.earlier)
    }

    /// What is to change now: by stream, how it goes then, and why.
    pub(super) fn due(
        &mut self,
        component: &Component,
        (message_costs, line_rates): (&MessageCosts, &LineRates),
        now: rakuda_core::Time,
    ) -> Vec<Due> {
        let mut found = Vec::new();
        for (number, stream) in component.streams.iter().enumerate() {
            let here = self.passed.values().flatten().filter(|one| one.name == stream.name);
            let (bytes, records) =
                here.fold((0, 0), |sum, one| (sum.0 + one.bytes, sum.1 + one.records));
            let routes = &mut self.routes;
            let Some(seen) = routes.watches[number].observe(now, bytes, records) else { continue };
            if seen.per_1000_s == Some(0) {
                continue;
            }
            let traffic = Traffic { is_burst: component.traffic[number].is_burst, ..seen };
            let (seen_bytes, seen_messages) = (traffic.bytes_per_s, traffic.per_1000_s);
            let round_trips = routes.round_trips.as_ref();
            let (writers, readers) = ends_on(stream, &self.node_of);
            let message_ns = message_costs.of_stream(&writers, &readers);
            let rates = line_rates.between(&routes.groups);
            let known = Known { round_trips, rates: &rates, message_ns, traffic };
            let cost = |by_group: &RouteByGroup| {
                known.cost_by_group(&routes.groups, by_group, &writers, &readers)
            };
            let auto = RouteWish::Auto;
            let (tree, mut route, by_group) =
                route_of(&routes.groups, auto, &known, &writers, &readers);
            let (held, best) = (cost(&routes.by_group[number]), cost(&by_group));
            if routes.watches[number].is_due(now, &held, &best) {
                let said = &component.traffic[number];
                (route.declared_bytes_per_s, route.declared_per_1000_s) =
                    (said.bytes_per_s, said.per_1000_s);
                (route.observed_bytes_per_s, route.observed_per_1000_s) =
                    (seen_bytes, seen_messages);
                found.push(Due { stream: number, tree, by_group, route });
            }
        }
        found
    }
}

/// Where the tasks of a stream are.
pub(super) fn ends_on(
    stream: &rakuda_proto::front::StreamDefinition,
    node_of: &BTreeMap<TaskId, NodeId>,
) -> (Located, Located) {
    let on =
        |tasks: &[u32]| tasks.iter().map(|task| (TaskId(*task), node_of[&TaskId(*task)])).collect();
    (on(&stream.writers), on(&stream.readers))
}
