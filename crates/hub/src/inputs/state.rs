//! Where the inputs of tasks are, as far as it is known.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{FilePlaces, InvocationId, NodeId, Places, TaskId};
use rakuda_locate::{GfarmMount, Hosts, Located, Locator};
use rakuda_proto::journal::FileIdentity;
use tokio::sync::mpsc::UnboundedReceiver;

/// What is wanted once the places of its inputs are known.
#[derive(Debug)]
pub(crate) struct HeldInvocation {
    pub id: InvocationId,
    pub tasks: Vec<TaskId>,
    pub caller: Option<TaskId>,
    /// When it goes on whatever is known, by the monotonic clock.
    pub due_ns: u64,
    /// It waits for nodes, and some task will need one.
    pub needs_nodes: bool,
}

/// Where files are, as this run and the catalogue know.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The run has several nodes.
    pub(super) several: bool,
    /// The hub's own node takes no tasks: what is made there is on no node.
    pub(super) own_is_spare: bool,
    /// Files that this run made: the node, and the state of the file then, where its maker has vouched for that.
    pub(super) made: BTreeMap<TaskId, (NodeId, Option<FileIdentity>)>,
    /// Places by the catalogue. They count before `made`, as it was asked about them later.
    found: BTreeMap<TaskId, Places>,
    /// Files on hosts that were no node when the catalogue said so; some may become one.
    unmatched: BTreeMap<Vec<u8>, BTreeSet<TaskId>>,
    pub(super) catalogue: Option<Catalogue>,
    /// Files that have not been looked up.
    pub(super) unlocated: Vec<TaskId>,
    pub held: Option<HeldInvocation>,
}

#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) locator: Locator,
    pub(super) answers: UnboundedReceiver<Located>,
    pub(super) mount: GfarmMount,
    pub(super) hosts: Hosts,
    /// Questions that have no answer yet.
    pub(super) open: usize,
}

impl FilePlaces for Inputs {
    fn places_of(&self, id: TaskId) -> Places {
        match (self.found.get(&id), self.made.get(&id)) {
            (Some(places), _) => places.clone(),
            (None, Some((LOCAL_NODE, _))) if self.own_is_spare => Places::Unknown,
            (None, Some((node, _))) => Places::One(*node),
            (None, None) => Places::Unknown,
        }
    }

    fn known(&self) -> impl Iterator<Item = TaskId> {
        let made = self.made.keys().filter(|id| !self.found.contains_key(id));
        self.found.keys().chain(made).copied()
    }
}

impl Inputs {
    /// Sets the hosts that the catalogue has found for a file. Returns the nodes that they are.
    pub fn set_found(&mut self, id: TaskId, hosts: &[Vec<u8>]) -> Places {
        if self.catalogue.is_none() {
            return self.places_of(id);
        }
        let catalogue = self.catalogue.as_ref().expect("it was looked for");
        let none = hosts.iter().filter(|host| catalogue.hosts.node_of(host).is_none());
        for host in none.cloned().collect::<Vec<_>>() {
            self.unmatched.entry(host).or_default().insert(id);
        }
        let places = places_on(&self.nodes_of(hosts));
        self.found.insert(id, places.clone());
        places
    }

    /// Hosts of the catalogue that have become nodes: where files are known to be now.
    pub fn match_hosts(&mut self) -> Vec<(TaskId, Places)> {
        let Some(catalogue) = &self.catalogue else { return Vec::new() };
        let node_of = |host: &Vec<u8>| catalogue.hosts.node_of(host).map(NodeId);
        let matched: Vec<(Vec<u8>, NodeId)> = (self.unmatched.keys())
            .filter_map(|host| Some((host.clone(), node_of(host)?)))
            .collect();
        let mut changed = BTreeMap::new();
        for (host, node) in matched {
            for id in self.unmatched.remove(&host).unwrap_or_default() {
                // What was made or removed since is elsewhere.
                let Some(places) = self.found.get_mut(&id) else { continue };
                let mut nodes = places.as_slice().to_vec();
                nodes.push(node);
                nodes.sort_unstable();
                nodes.dedup();
                *places = places_on(&nodes);
                changed.insert(id, places.clone());
            }
        }
        changed.into_iter().collect()
    }

    /// A file is removed: it is nowhere.
    pub fn forget(&mut self, id: TaskId) {
        self.made.remove(&id);
        self.found.remove(&id);
    }

    /// An attempt on `node` has made the file of a task.
    pub fn set_made(&mut self, id: TaskId, node: NodeId, vouched: Option<FileIdentity>) {
        if self.several {
            self.found.remove(&id);
            self.made.insert(id, (node, vouched));
        }
    }

    /// What another node than `node` has made in this run and vouched for.
    pub fn vouched_elsewhere(&self, id: TaskId, node: NodeId) -> Option<FileIdentity> {
        let (maker, vouched) = self.made.get(&id)?;
        vouched.filter(|_| *maker != node)
    }

    /// The run has one node more.
    pub fn on_node_added(&mut self, node: NodeId, name: &[u8]) {
        self.several = true;
        self.add_name(node, name);
    }

    /// Gives `node` another name.
    pub fn add_name(&mut self, node: NodeId, name: &[u8]) {
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.hosts.add(node.0, name);
        }
    }

    /// The next answer of the catalogue; for ever when none is asked.
    pub async fn located(&mut self) -> Located {
        if let Some(catalogue) = &mut self.catalogue
            && let Some(located) = catalogue.answers.recv().await
        {
            return located;
        }
        std::future::pending().await
    }

    /// When what is held goes on, whatever is known then.
    pub fn due_ns(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.due_ns)
    }

    /// Which nodes the catalogue's hosts are, each once.
    fn nodes_of(&self, hosts: &[Vec<u8>]) -> Vec<NodeId> {
        let Some(catalogue) = &self.catalogue else { return Vec::new() };
        let mut nodes: Vec<NodeId> =
            hosts.iter().filter_map(|host| catalogue.hosts.node_of(host)).map(NodeId).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

pub(super) fn places_on(nodes: &[NodeId]) -> Places {
    match nodes {
        [] => Places::Unknown,
        [node] => Places::One(*node),
        nodes => Places::Many(nodes.into()),
    }
}
