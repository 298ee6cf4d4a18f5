//! The route of a stream: the one that is wished for, or the cheapest by what is known.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::rates::lines_of;
use super::route::{
    Between, GroupId, Groups, LineCost, Load, PlanCost, Route, RouteByGroup, cost_over, improve,
};
use super::said::{BURST_PER_1000_S, MESSAGE_BYTES, Traffic};
use super::tree::{Tree, tree_by_group};
use crate::ids::{NodeId, TaskId};

/// Messages in 1,000 s, where the Rakefile says nothing of a stream.
const MESSAGES_PER_1000_S: u64 = 1_000_000;

/// Lines as they usually are, where none was measured: 10 Gbit/s in a group, 1 Gbit/s and 5 ms a way between two.
const LAN: LineCost = LineCost { message_ns: 5_000, kib_ns: 820, round_trip_ns: 100_000 };

const WAN: LineCost = LineCost { message_ns: 5_000, kib_ns: 8_200, round_trip_ns: 10_000_000 };

/// Maximum number of hosts of readers that are tried as the one that all goes over.
const ENDS_MAX: usize = 8;

/// The kind of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteName {
    /// Each copy goes from the writer's host to the reader's.
    Direct,
    /// Between groups a copy goes over their representatives.
    Relay,
    /// All goes over one reader's host.
    Conventional,
    /// Direct to some groups, over representatives to others.
    Mixed,
}

/// What is known of a stream and its lines.
#[derive(Debug)]
pub struct Known<'known> {
    /// Round trips between groups, ns; `None` if they were not measured.
    pub round_trips: Option<&'known Between<u64>>,
    /// Bytes a second that lines have been seen to carry.
    pub rates: &'known Between<u64>,
    /// What a message takes at each end of an edge, ns.
    pub message_ns: Option<u64>,
    /// What the Rakefile says of it, or what was seen.
    pub traffic: Traffic,
}

/// A writer, or a reader, and where it is.
pub type Placed = (TaskId, NodeId);

impl Known<'_> {
    /// The load by what the Rakefile says, and the usual one where it says nothing.
    fn load(&self) -> Load {
        let traffic = &self.traffic;
        let per_1000_s = match traffic.per_1000_s {
            _ if traffic.is_burst => BURST_PER_1000_S,
            said => said.unwrap_or(MESSAGES_PER_1000_S),
        };
        let bytes = traffic.message_bytes.unwrap_or(MESSAGE_BYTES);
        let (lan, wan) = self.lines();
        Load { bytes, per_1000_s, lan, wan }
    }

    /// Lines within groups and between them, as they usually are but for what was measured of messages.
    fn lines(&self) -> (LineCost, LineCost) {
        let of = |usual: LineCost| LineCost {
            message_ns: self.message_ns.unwrap_or(usual.message_ns),
            ..usual
        };
        (of(LAN), of(WAN))
    }

    /// What it costs to go by a route of each group.
    pub fn cost_by_group(
        &self,
        groups: &Groups,
        by_group: &RouteByGroup,
        writers: &[Placed],
        readers: &[Placed],
    ) -> PlanCost {
        let (lan, wan) = self.lines();
        let lines = lines_of((&lan, &wan), self.round_trips, self.rates);
        let tree = tree_by_group(groups, by_group, writers, readers);
        cost_over(groups, &tree.edges, &self.load(), &lines)
    }

    /// The tree of a stream over the route that is wished for, or else the cheapest one.
    ///
    /// # Panics
    ///
    /// If there are no readers.
    pub fn cheapest(
        &self,
        groups: &Groups,
        wish: Option<RouteName>,
        writers: &[Placed],
        readers: &[Placed],
    ) -> Cheapest {
        let end = readers.first().expect("a stream has readers").1;
        let cost = |by_group: &RouteByGroup| self.cost_by_group(groups, by_group, writers, readers);
        let of = |name: RouteName, route: Route| {
            let by_group = RouteByGroup::of(route, groups);
            (name, cost(&by_group), by_group)
        };
        let ends: BTreeSet<NodeId> = readers.iter().map(|(_, node)| *node).collect();
        let over = |end| of(RouteName::Conventional, Route::Conventional { end });
        let conventional = ends.into_iter().take(ENDS_MAX).map(over);
        // The shorter way is taken where several cost the same.
        let plans = [
            of(RouteName::Direct, Route::Direct),
            of(RouteName::Relay, Route::Relay),
            conventional.min_by_key(|(_, cost, _)| cost.key()).expect("a stream has readers"),
        ];
        let mut costs: Vec<_> = plans.iter().map(|(name, cost, _)| (*name, *cost)).collect();
        let tasks = writers.iter().chain(readers);
        let used: BTreeSet<GroupId> = tasks.map(|(_, node)| groups.group_of[node]).collect();
        let (name, by_group) = match wish {
            Some(RouteName::Direct) => (RouteName::Direct, RouteByGroup::of(Route::Direct, groups)),
            Some(RouteName::Relay) => (RouteName::Relay, RouteByGroup::of(Route::Relay, groups)),
            Some(RouteName::Conventional) => {
                (RouteName::Conventional, RouteByGroup::of(Route::Conventional { end }, groups))
            }
            None | Some(RouteName::Mixed) => {
                let best = plans.iter().min_by_key(|(_, cost, _)| cost.key());
                let (name, least, by_group) = best.expect("there are three");
                let (other, cost) = improve(by_group, &used, cost);
                if cost.key() < least.key() {
                    costs.push((RouteName::Mixed, cost));
                    (RouteName::Mixed, other)
                } else {
                    (*name, by_group.clone())
                }
            }
        };
        let tree = tree_by_group(groups, &by_group, writers, readers);
        Cheapest { name, by_group, tree, costs, used }
    }
}

/// A route, and what it was compared with.
#[derive(Debug)]
pub struct Cheapest {
    /// Its kind.
    pub name: RouteName,
    /// How it goes to each group.
    pub by_group: RouteByGroup,
    /// Where the stream passes.
    pub tree: Tree,
    /// What was compared, with its cost.
    pub costs: Vec<(RouteName, PlanCost)>,
    /// Groups with a task of the stream.
    pub used: BTreeSet<GroupId>,
}
