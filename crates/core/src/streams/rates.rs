//! How fast lines are, from what the edges over them have seen, and what copies over them cost then
//! (docs/design/streams.md, Rates of lines).
//!
//! Does not know how an edge sees that, nor what goes over it.

use alloc::collections::BTreeMap;

use super::route::{Between, Distance, GroupId, Groups, LineCost, line_between};
use crate::Time;
use crate::ids::NodeId;

/// Timeout for the next report of an edge, ns; after it the edge counts as idle. Edges report about once a second. Less
/// than the time of two reports, so that the rates of edges that carry by turns are not added.
const SILENCE_NS: u64 = 1_500_000_000;

/// An edge, by two numbers that are unique in a run.
pub type EdgeKey = (u32, u32);

/// The last report of an edge.
#[derive(Clone, Copy, Debug)]
struct Telling {
    from: NodeId,
    to: NodeId,
    at: Time,
    /// Bytes a second.
    rate: u64,
    /// The rate that it reported before; `None` if that was not lately.
    before: Option<u64>,
}

/// The rates that edges have reported.
#[derive(Clone, Debug, Default)]
pub struct LineRates {
    telling: BTreeMap<EdgeKey, Telling>,
    /// By sender and receiver: the highest rate that was seen of the line between them, bytes a second.
    best: BTreeMap<(NodeId, NodeId), u64>,
}

impl LineRates {
    /// Notes how many bytes a second an edge from host to host has seen its line carry.
    ///
    /// Other edges over the same line at the same time have taken their part of it: their rates are added.
    pub fn observe(
        &mut self,
        now: Time,
        edge: EdgeKey,
        (from, to): (NodeId, NodeId),
        rate: u64,
        groups: &Groups,
    ) {
        self.telling.retain(|_, one| now.0.saturating_sub(one.at.0) <= SILENCE_NS);
        let before = self.telling.get(&edge).map(|one| one.rate);
        self.telling.insert(edge, Telling { from, to, at: now, rate, before });
        let ends = |one: &Telling| (groups.group_of.get(&one.from), groups.group_of.get(&one.to));
        let (Some(source), Some(target)) = (groups.group_of.get(&from), groups.group_of.get(&to))
        else {
            return;
        };
        // If one edge begins while another ends, both would count: so the smaller of an edge's two last reports counts.
        let sum = |is_on: &dyn Fn(&Telling) -> bool| -> u64 {
            let on = self
                .telling
                .values()
                .filter(|one| ends(one) == (Some(source), Some(target)) && is_on(one));
            on.filter_map(|one| one.before.map(|before| before.min(one.rate)))
                .fold(0, u64::saturating_add)
        };
        // Within a group a host has one line to all others.
        let together = if source == target {
            sum(&|one| one.from == from).max(sum(&|one| one.to == to))
        } else {
            sum(&|_| true)
        };
        let best = self.best.entry((from, to)).or_default();
        *best = rate.max(together).max(*best);
    }

    /// Bytes a second within and between groups, in each direction in which something was seen.
    pub fn between(&self, groups: &Groups) -> Between<u64> {
        let mut found = Between::new();
        for ((from, to), rate) in &self.best {
            if let (Some(source), Some(target)) =
                (groups.group_of.get(from), groups.group_of.get(to))
            {
                let most: &mut u64 = found.entry((*source, *target)).or_default();
                *most = (*rate).max(*most);
            }
        }
        found
    }
}

/// Lines within and between groups: as they usually are, but for what was measured. A rate that was seen in one
/// direction alone is taken for both.
pub fn lines_of(
    usual: (&LineCost, &LineCost),
    round_trips: Option<&Between<u64>>,
    rates: &Between<u64>,
) -> Between<LineCost> {
    let (lan, wan) = usual;
    let mut lines = Between::new();
    for ((one, other), ns) in round_trips.into_iter().flatten() {
        let line = line_between(lan, wan, Some(*ns));
        lines.insert((*one, *other), line);
        lines.insert((*other, *one), line);
    }
    for (&(from, to), rate) in rates {
        let mut set = |pair: (GroupId, GroupId)| {
            let usual = if from == to { lan } else { wan };
            lines.entry(pair).or_insert(*usual).set_rate(*rate);
        };
        set((from, to));
        if !rates.contains_key(&(to, from)) {
            set((to, from));
        }
    }
    lines
}

/// The slowest line of some groups that was measured, within one of them or between two, bytes a second.
pub fn slowest(
    rates: &Between<u64>,
    line: Distance,
    is_used: impl Fn(GroupId) -> bool,
) -> Option<u64> {
    let is_of = |(from, to): &(GroupId, GroupId)| {
        (from == to) == (line == Distance::Lan) && is_used(*from) && is_used(*to)
    };
    rates.iter().filter(|(pair, _)| is_of(pair)).map(|(_, rate)| *rate).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const S: u64 = 1_000_000_000;
    const SITES: [GroupId; 2] = [GroupId(0), GroupId(1)];

    /// Hosts 0 to 9 on one site, 10 to 19 on the other.
    fn groups() -> Groups {
        let mut groups = Groups::default();
        groups.group_of.extend((0..20).map(|host| (NodeId(host), GroupId(host / 10))));
        groups.representative.extend([(SITES[0], NodeId(0)), (SITES[1], NodeId(10))]);
        groups
    }

    /// Each edge tells its rate at each of these times.
    fn told(edges: &[(u32, u32, u64)], times: &[u64]) -> LineRates {
        let mut rates = LineRates::default();
        for time in times {
            for ((from, to, rate), number) in edges.iter().zip(0..) {
                let ends = (NodeId(*from), NodeId(*to));
                rates.observe(Time(time * S), (1, number), ends, *rate, &groups());
            }
        }
        rates
    }

    #[test]
    fn the_most_that_was_seen_counts_for_all_lines_between_two_groups() {
        let mut rates = told(&[(0, 10, 70), (1, 11, 90)], &[0]);
        rates.observe(Time(60 * S), (2, 0), (NodeId(0), NodeId(10)), 20, &groups());
        rates.observe(Time(61 * S), (2, 1), (NodeId(12), NodeId(3)), 8, &groups());
        let found = rates.between(&groups());
        assert_eq!(found, Between::from([((SITES[0], SITES[1]), 90), ((SITES[1], SITES[0]), 8)]));
    }

    #[test]
    fn edges_that_share_a_line_add_up() {
        let edges: Vec<_> = (10..20).map(|to| (0, to, 5)).collect();
        assert_eq!(told(&edges, &[0, 1, 2]).between(&groups())[&(SITES[0], SITES[1])], 50);
        // Within a group those of one host do, who sends or who receives.
        let edges = [(1, 2, 5), (1, 3, 5), (4, 5, 7), (6, 5, 8)];
        assert_eq!(told(&edges, &[0, 1]).between(&groups())[&(SITES[0], SITES[0])], 15);
    }

    #[test]
    fn an_edge_that_begins_where_another_ends_is_not_added_to_it() {
        let mut rates = told(&[(0, 10, 50)], &[0, 1]);
        rates.observe(Time(2 * S), (2, 0), (NodeId(0), NodeId(11)), 50, &groups());
        rates.observe(Time(4 * S), (2, 0), (NodeId(0), NodeId(11)), 50, &groups());
        assert_eq!(rates.between(&groups())[&(SITES[0], SITES[1])], 50);
    }

    #[test]
    fn a_measured_rate_stands_in_the_place_of_the_usual_one_and_a_round_trip_beside_it() {
        let lan = LineCost { message_ns: 5_000, kib_ns: 820, round_trip_ns: 100_000 };
        let wan = LineCost { message_ns: 5_000, kib_ns: 8_200, round_trip_ns: 10_000_000 };
        let (there, back) = ((SITES[0], SITES[1]), (SITES[1], SITES[0]));
        let trips = Between::from([(there, 30_000_000)]);
        let none = lines_of((&lan, &wan), Some(&trips), &Between::new());
        assert_eq!((none[&there], none[&there].kib_ns), (none[&back], 8_200));
        let one = Between::from([(there, 1_024_000)]);
        let lines = lines_of((&lan, &wan), Some(&trips), &one);
        assert_eq!(lines[&there], LineCost { kib_ns: 1_000_000, round_trip_ns: 30_000_000, ..wan });
        assert_eq!(lines[&there], lines[&back]);
        let each =
            Between::from([(there, 1_024_000), (back, 10_240_000), ((SITES[0], SITES[0]), 1)]);
        let lines = lines_of((&lan, &wan), None, &each);
        assert_eq!((lines[&there].kib_ns, lines[&back].kib_ns), (1_000_000, 100_000));
        assert_eq!(lines[&(SITES[0], SITES[0])].round_trip_ns, lan.round_trip_ns);
        // As near as a LAN, and slow all the same.
        let near = lines_of((&lan, &wan), Some(&Between::from([(there, 200_000)])), &one);
        assert_eq!(near[&there].kib_ns, 1_000_000);
        assert_eq!(slowest(&each, Distance::Wan, |_| true), Some(1_024_000));
        assert_eq!(slowest(&each, Distance::Lan, |_| true), Some(1));
        assert_eq!(slowest(&each, Distance::Wan, |group| group == SITES[0]), None);
    }
}
