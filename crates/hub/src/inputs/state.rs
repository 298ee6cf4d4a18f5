//! Where the inputs of tasks are, as far as it is known.

use rakuda_core::{FilePlaces, KnownPlaces, NodeId, Places, TaskId};
use rakuda_locate::{GfarmMount, Hosts, Located, Locator};
use rakuda_proto::journal::FileIdentity;
use tokio::sync::mpsc::UnboundedReceiver;

/// Where files are, as this run and the catalogue know.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The run has several nodes.
    pub(super) several: bool,
    /// By what the catalogue calls hosts; with what is made, the state of the file then, where its maker has vouched
    /// for that.
    pub(super) places: KnownPlaces<Vec<u8>, Option<FileIdentity>>,
    pub(super) catalogue: Option<Catalogue>,
    /// Files that have not been looked up.
    pub(super) unlocated: Vec<TaskId>,
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
        self.places.places_of(id)
    }

    fn known(&self) -> impl Iterator<Item = TaskId> {
        self.places.known()
    }
}

impl Inputs {
    /// Sets the hosts that the catalogue has found for a file. Returns the nodes that they are.
    pub fn set_found(&mut self, id: TaskId, hosts: &[Vec<u8>]) -> Places {
        let Some(catalogue) = &self.catalogue else { return self.places_of(id) };
        self.places.set_found(id, hosts, |host| catalogue.node_of(host))
    }

    /// Hosts of the catalogue that have become nodes: where files are known to be now.
    pub fn match_hosts(&mut self) -> Vec<(TaskId, Places)> {
        let Some(catalogue) = &self.catalogue else { return Vec::new() };
        self.places.match_hosts(|host| catalogue.node_of(host)).collect()
    }

    /// A file is removed: it is nowhere.
    pub fn forget(&mut self, id: TaskId) {
        self.places.forget(id);
    }

    /// An attempt on `node` has made the file of a task.
    pub fn set_made(&mut self, id: TaskId, node: NodeId, vouched: Option<FileIdentity>) {
        if self.several {
            self.places.set_made(id, node, vouched);
        }
    }

    /// What another node than `node` has made in this run and vouched for.
    pub fn vouched_elsewhere(&self, id: TaskId, node: NodeId) -> Option<FileIdentity> {
        self.places.made_elsewhere(id, node).copied().flatten()
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
}

impl Catalogue {
    /// The node that a host of the catalogue is.
    fn node_of(&self, host: &[u8]) -> Option<NodeId> {
        self.hosts.node_of(host).map(NodeId)
    }
}
