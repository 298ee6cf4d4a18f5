//! Where files lie: as this run has made them, and as a catalogue says.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::view::FilePlaces;
use crate::fact::Places;
use crate::ids::{NodeId, TaskId};

/// Where the files of tasks are, as far as is known. `H` is what the catalogue calls a host, `V` what the maker of a
/// file has vouched for.
#[derive(Debug)]
pub struct KnownPlaces<H, V> {
    /// Files that this run made: on which node, and what was vouched for then.
    made: BTreeMap<TaskId, (NodeId, V)>,
    /// Nodes by the catalogue. They count before `made`, as it was asked about them later.
    found: BTreeMap<TaskId, Places>,
    /// Files on hosts that were no node when the catalogue said so; some may become one.
    unmatched: BTreeMap<H, BTreeSet<TaskId>>,
    /// A node that takes no tasks: what is made there is on no node.
    spare: Option<NodeId>,
}

impl<H, V> Default for KnownPlaces<H, V> {
    fn default() -> Self {
        Self {
            made: BTreeMap::new(),
            found: BTreeMap::new(),
            unmatched: BTreeMap::new(),
            spare: None,
        }
    }
}

impl<H, V> FilePlaces for KnownPlaces<H, V> {
    fn places_of(&self, id: TaskId) -> Places {
        match (self.found.get(&id), self.made.get(&id)) {
            (Some(places), _) => places.clone(),
            (None, Some((node, _))) if self.spare != Some(*node) => Places::One(*node),
            (None, _) => Places::Unknown,
        }
    }

    fn known(&self) -> impl Iterator<Item = TaskId> {
        let made = self.made.keys().filter(|id| !self.found.contains_key(id));
        self.found.keys().chain(made).copied()
    }
}

impl<H: Clone + Ord, V> KnownPlaces<H, V> {
    /// What is made on this node is on no node: it takes no tasks.
    pub fn set_spare(&mut self, node: Option<NodeId>) {
        self.spare = node;
    }

    /// An attempt on `node` has made the file of a task, and `vouched` for it.
    pub fn set_made(&mut self, id: TaskId, node: NodeId, vouched: V) {
        self.found.remove(&id);
        self.made.insert(id, (node, vouched));
    }

    /// The catalogue says which hosts hold a file. Returns the nodes that they are.
    pub fn set_found<'h>(
        &mut self,
        id: TaskId,
        hosts: impl IntoIterator<Item = &'h H>,
        node_of: impl Fn(&H) -> Option<NodeId>,
    ) -> Places
    where
        H: 'h,
    {
        let mut nodes = Vec::new();
        for host in hosts {
            match node_of(host) {
                Some(node) => nodes.push(node),
                None => {
                    self.unmatched.entry(host.clone()).or_default().insert(id);
                }
            }
        }
        let places = places_on(nodes);
        self.found.insert(id, places.clone());
        places
    }

    /// Hosts of the catalogue may have become nodes. Returns where files are known to be now.
    pub fn match_hosts(
        &mut self,
        node_of: impl Fn(&H) -> Option<NodeId>,
    ) -> impl Iterator<Item = (TaskId, Places)> {
        let matched = self.unmatched.keys().filter_map(|host| Some((host.clone(), node_of(host)?)));
        let mut changed = BTreeMap::new();
        for (host, node) in matched.collect::<Vec<_>>() {
            for id in self.unmatched.remove(&host).unwrap_or_default() {
                // What was made or removed since is elsewhere.
                let Some(places) = self.found.get_mut(&id) else { continue };
                let mut nodes = places.as_slice().to_vec();
                nodes.push(node);
                *places = places_on(nodes);
                changed.insert(id, places.clone());
            }
        }
        changed.into_iter()
    }

    /// A file is removed, or about to be made anew: it is nowhere.
    pub fn forget(&mut self, id: TaskId) {
        self.made.remove(&id);
        self.found.remove(&id);
    }

    /// Whether this run has made a file.
    pub fn is_made(&self, id: TaskId) -> bool {
        self.made.contains_key(&id)
    }

    /// What another node than `node` has made in this run, and vouched for.
    pub fn made_elsewhere(&self, id: TaskId, node: NodeId) -> Option<&V> {
        let (maker, vouched) = self.made.get(&id)?;
        (*maker != node).then_some(vouched)
    }
}

fn places_on(mut nodes: Vec<NodeId>) -> Places {
    nodes.sort_unstable();
    nodes.dedup();
    Places::from_slice(&nodes)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    fn places(known: &KnownPlaces<u8, ()>, ids: [TaskId; 2]) -> [Places; 2] {
        ids.map(|id| known.places_of(id))
    }

    #[test]
    fn what_was_heard_last_of_a_file_counts() {
        let both = |host: &u8| Some(NodeId(u32::from(*host)));
        let mut known = KnownPlaces::default();
        assert_eq!(places(&known, [A, B]), [Places::Unknown, Places::Unknown]);
        known.set_made(A, ONE, ());
        assert_eq!(known.set_found(A, [&2, &1, &1], both), Places::Many(vec![ONE, TWO].into()));
        assert_eq!(known.known().collect::<Vec<_>>(), [A]);
        known.set_made(A, TWO, ());
        assert!(known.is_made(A));
        known.set_found(B, [&1], both);
        assert_eq!(places(&known, [A, B]), [Places::One(TWO), Places::One(ONE)]);
        assert_eq!(known.known().collect::<Vec<_>>(), [B, A]);
        known.forget(A);
        assert_eq!((known.places_of(A), known.is_made(A)), (Places::Unknown, false));
        assert_eq!(known.known().collect::<Vec<_>>(), [B]);
    }

    #[test]
    fn hosts_that_become_nodes_hold_what_the_catalogue_said_of_them() {
        let one = |host: &u8| (*host == 1).then_some(ONE);
        let both = |host: &u8| Some(NodeId(u32::from(*host)));
        let mut known = KnownPlaces::<u8, ()>::default();
        assert_eq!(known.set_found(A, [&1, &2], one), Places::One(ONE));
        assert_eq!(known.set_found(B, [&2], one), Places::Unknown);
        assert_eq!(known.match_hosts(one).count(), 0);
        known.set_made(B, ONE, ());
        let changed: Vec<_> = known.match_hosts(both).collect();
        assert_eq!(changed, [(A, Places::Many(vec![ONE, TWO].into()))], "B was made since");
        assert_eq!(known.match_hosts(both).count(), 0, "each once");
    }

    #[test]
    fn what_is_made_on_a_node_without_tasks_is_on_no_node() {
        let mut known = KnownPlaces::<u8, u8>::default();
        known.set_spare(Some(ONE));
        known.set_made(A, ONE, 7);
        known.set_made(B, TWO, 8);
        assert_eq!((known.places_of(A), known.places_of(B)), (Places::Unknown, Places::One(TWO)));
        assert_eq!((known.made_elsewhere(A, ONE), known.made_elsewhere(A, TWO)), (None, Some(&7)));
        known.set_spare(None);
        assert_eq!(known.places_of(A), Places::One(ONE));
    }
}
