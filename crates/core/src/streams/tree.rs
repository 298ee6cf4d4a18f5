//! Where a stream passes when its tasks are on several hosts: a place on each, and edges between them.
//!
//! All that is written meets in one place, so that all readers see one order; from there it goes to
//! the readers' hosts. A host may have a place on the way up and another on the way down.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::route::{
    Distance, Groups, Hop, Route, RouteByGroup, hops_by_group, hops_of_merge_by_group,
};
use crate::ids::{NodeId, TaskId};

/// What goes into a place, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceEnd {
    /// A task on its host.
    Task(TaskId),
    /// An edge: its index in the tree.
    Edge(usize),
}

/// A stream on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// Which host.
    pub node: NodeId,
    /// What comes in.
    pub writers: Vec<PlaceEnd>,
    /// Where it goes.
    pub readers: Vec<PlaceEnd>,
}

/// Places and edges of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// In the order in which bytes pass them, where one is before another.
    pub places: Vec<StreamPlace>,
    /// Each message is copied over each that leads down once; over one that leads up, if it was written above it.
    pub edges: Vec<Hop>,
}

impl Tree {
    /// Edges within groups, and between them.
    pub fn lines(&self) -> (usize, usize) {
        let over = |distance| self.edges.iter().filter(|edge| edge.over == distance).count();
        (over(Distance::Lan), over(Distance::Wan))
    }
}

/// The host where all that is written meets.
pub fn meeting_of(
    by_group: &RouteByGroup,
    writers: &[(TaskId, NodeId)],
    readers: &[(TaskId, NodeId)],
) -> NodeId {
    let one = |ends: &[(TaskId, NodeId)]| {
        let first = ends.first().map(|(_, node)| *node)?;
        ends.iter().all(|(_, node)| *node == first).then_some(first)
    };
    if let Some(meeting) = by_group.meeting {
        return meeting;
    }
    one(writers).or_else(|| one(readers)).unwrap_or_else(|| {
        let mut tasks: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (_, node) in writers.iter().chain(readers) {
            *tasks.entry(*node).or_default() += 1;
        }
        let most = tasks.into_iter().max_by_key(|(node, count)| (*count, Reverse(*node)));
        most.expect("a stream has two ends").0
    })
}

/// The tree of a stream whose tasks are on these hosts; all of them, and representatives, are in groups.
pub fn tree_of(
    groups: &Groups,
    route: Route,
    writers: &[(TaskId, NodeId)],
    readers: &[(TaskId, NodeId)],
) -> Tree {
    tree_by_group(groups, &RouteByGroup::of(route, groups), writers, readers)
}

/// The same where the way is chosen group by group.
pub fn tree_by_group(
    groups: &Groups,
    by_group: &RouteByGroup,
    writers: &[(TaskId, NodeId)],
    readers: &[(TaskId, NodeId)],
) -> Tree {
    let meeting = meeting_of(by_group, writers, readers);
    let hosts = |ends: &[(TaskId, NodeId)]| {
        let hosts: BTreeSet<NodeId> = ends.iter().map(|(_, node)| *node).collect();
        hosts.into_iter().filter(|host| *host != meeting).collect::<Vec<_>>()
    };
    let up = hops_of_merge_by_group(groups, &by_group.relayed, &hosts(writers), meeting);
    let down = hops_by_group(groups, &by_group.relayed, meeting, &hosts(readers));
    let mut places = StreamPlaces::new(meeting, &up, &down);
    for (index, hop) in up.iter().enumerate() {
        places.up(hop.from).readers.push(PlaceEnd::Edge(index));
        places.up(hop.to).writers.push(PlaceEnd::Edge(index));
    }
    for (hop, index) in down.iter().zip(up.len()..) {
        places.down(hop.from).readers.push(PlaceEnd::Edge(index));
        places.down(hop.to).writers.push(PlaceEnd::Edge(index));
    }
    for (task, node) in writers {
        places.up(*node).writers.push(PlaceEnd::Task(*task));
    }
    for (task, node) in readers {
        places.down(*node).readers.push(PlaceEnd::Task(*task));
    }
    let mut edges = up;
    edges.extend(down);
    Tree { places: places.all, edges }
}

/// Places while they are filled.
struct StreamPlaces {
    all: Vec<StreamPlace>,
    up: BTreeMap<NodeId, usize>,
    down: BTreeMap<NodeId, usize>,
}

impl StreamPlaces {
    fn new(meeting: NodeId, up: &[Hop], down: &[Hop]) -> Self {
        let mut places = Self { all: Vec::new(), up: BTreeMap::new(), down: BTreeMap::new() };
        let place = |node| StreamPlace { node, writers: Vec::new(), readers: Vec::new() };
        for node in up.iter().map(|hop| hop.from) {
            places.up.entry(node).or_insert_with(|| {
                places.all.push(place(node));
                places.all.len() - 1
            });
        }
        places.up.insert(meeting, places.all.len());
        places.down.insert(meeting, places.all.len());
        places.all.push(place(meeting));
        for node in down.iter().map(|hop| hop.to) {
            places.down.entry(node).or_insert_with(|| {
                places.all.push(place(node));
                places.all.len() - 1
            });
        }
        places
    }

    fn up(&mut self, node: NodeId) -> &mut StreamPlace {
        &mut self.all[self.up[&node]]
    }

    fn down(&mut self, node: NodeId) -> &mut StreamPlace {
        &mut self.all[self.down[&node]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::GroupId;

    /// Hosts 1..=9 in three groups of three; 1, 4 and 7 are their representatives.
    fn groups() -> Groups {
        let mut groups = Groups::default();
        for host in 1..=9 {
            groups.group_of.insert(NodeId(host), GroupId((host - 1) / 3));
        }
        for group in 0..3 {
            groups.representative.insert(GroupId(group), NodeId(group * 3 + 1));
        }
        groups
    }

    fn on(hosts: &[u32], first: u32) -> Vec<(TaskId, NodeId)> {
        hosts.iter().zip(first..).map(|(host, task)| (TaskId(task), NodeId(*host))).collect()
    }

    /// Every writer's bytes come to every reader once, each place is left by what comes in.
    fn check(tree: &Tree, writers: &[(TaskId, NodeId)], readers: &[(TaskId, NodeId)]) {
        let into = |edge: usize| {
            let mut found =
                tree.places.iter().filter(|place| place.writers.contains(&PlaceEnd::Edge(edge)));
            let place = found.next().expect("an edge leads somewhere");
            assert_eq!((found.next(), place.node), (None, tree.edges[edge].to));
            place
        };
        for (task, node) in writers {
            let start =
                tree.places.iter().find(|place| place.writers.contains(&PlaceEnd::Task(*task)));
            let start = start.expect("a writer has a place");
            assert_eq!(start.node, *node);
            let mut reached = Vec::new();
            let mut open = alloc::vec![start];
            while let Some(place) = open.pop() {
                assert!(!place.readers.is_empty() && !place.writers.is_empty());
                for end in &place.readers {
                    match end {
                        PlaceEnd::Task(task) => reached.push((*task, place.node)),
                        PlaceEnd::Edge(edge) => {
                            assert_eq!(tree.edges[*edge].from, place.node);
                            open.push(into(*edge));
                        }
                    }
                }
            }
            reached.sort_unstable();
            let mut expected = readers.to_vec();
            expected.sort_unstable();
            assert_eq!(reached, expected);
        }
    }

    #[test]
    fn every_reader_gets_every_writer_once_whatever_the_route() {
        let groups = groups();
        let hosts: [&[u32]; 6] =
            [&[2], &[1, 1, 2], &[2, 5, 8], &[3, 4, 9, 9], &[6, 5], &[1, 2, 3, 4, 5, 6, 7, 8, 9]];
        for from in hosts {
            for to in hosts {
                let (writers, readers) = (on(from, 0), on(to, 100));
                let end = readers[0].1;
                for route in [Route::Direct, Route::Relay, Route::Conventional { end }] {
                    check(&tree_of(&groups, route, &writers, &readers), &writers, &readers);
                }
                // Each set of groups.
                for set in 0_u32..8 {
                    let in_set = (0..3).filter(|group| set & (1 << group) != 0);
                    let relayed: BTreeSet<GroupId> = in_set.map(GroupId).collect();
                    for meeting in [None, Some(NodeId(6)), Some(end)] {
                        let by_group = RouteByGroup { meeting, relayed: relayed.clone() };
                        let tree = tree_by_group(&groups, &by_group, &writers, &readers);
                        check(&tree, &writers, &readers);
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_between_groups_is_passed_once_by_way_of_representatives() {
        let groups = groups();
        let (writers, readers) = (on(&[2], 0), on(&[5, 6, 5, 8, 9], 100));
        let lines = |route| tree_of(&groups, route, &writers, &readers).lines();
        assert_eq!(lines(Route::Direct), (0, 4));
        assert_eq!(lines(Route::Relay), (5, 2));
        // To the first of them, and from there to the others.
        assert_eq!(lines(Route::Conventional { end: NodeId(5) }), (1, 3));
        let merge = tree_of(&groups, Route::Relay, &on(&[2, 3, 5, 6], 0), &on(&[8], 100));
        assert_eq!(merge.lines(), (4, 2));
    }

    #[test]
    fn what_stays_on_one_host_has_one_place_and_no_edge() {
        let tree = tree_of(&groups(), Route::Relay, &on(&[4, 4], 0), &on(&[4], 100));
        assert_eq!((tree.places.len(), tree.edges.len()), (1, 0));
    }
}
