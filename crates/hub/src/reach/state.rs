//! The mount whose files are asked about, the hosts of its catalogue, and the round of questions under way.

use std::collections::BTreeMap;

use rakuda_core::{HostId, TaskId};
use rakuda_locate::{GfarmMount, Reached, gfarm_mount};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The answers of a round, or why there are none.
pub(crate) type RoundAnswer = (u32, Result<Reached, String>);

/// The mount, its hosts, and the round under way.
#[derive(Debug)]
pub(crate) struct Reachability {
    /// `None`: the run's folder is not in Gfarm, or there is one node only.
    pub(super) mount: Option<GfarmMount>,
    pub(super) sender: UnboundedSender<RoundAnswer>,
    answers: UnboundedReceiver<RoundAnswer>,
    pub(super) hosts: HostNames,
    /// Why the last round has no answers.
    pub(super) reason: String,
    /// A task whose file is out of reach is about to begin: the name is to be free for the new one.
    pub(super) to_free: Option<TaskId>,
}

/// What the catalogue calls hosts, by number.
#[derive(Debug, Default)]
pub(super) struct HostNames {
    numbers: BTreeMap<Vec<u8>, HostId>,
    names: Vec<Vec<u8>>,
}

impl HostNames {
    pub(super) fn number(&mut self, name: Vec<u8>) -> HostId {
        let next = HostId(u32::try_from(self.names.len()).expect("few hosts"));
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    pub(super) fn name(&self, id: HostId) -> &[u8] {
        &self.names[id.0 as usize]
    }

    /// For people.
    pub(super) fn list(&self, hosts: &[HostId]) -> String {
        let mut names: Vec<&[u8]> = hosts.iter().map(|id| self.name(*id)).collect();
        names.sort_unstable();
        let names: Vec<_> = names.into_iter().map(String::from_utf8_lossy).collect();
        names.join(", ")
    }
}

impl Reachability {
    pub fn new(mount: Option<GfarmMount>) -> Self {
        let (sender, answers) = unbounded_channel();
        Self {
            mount,
            sender,
            answers,
            hosts: HostNames::default(),
            reason: String::new(),
            to_free: None,
        }
    }

    /// Whether files are handed out by servers of their own.
    pub fn has_servers(&self) -> bool {
        self.mount.is_some()
    }

    /// The answers of the round under way; for ever when there is none.
    pub async fn answered(&mut self) -> RoundAnswer {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

/// The mount, where files are handed out by other hosts than this one.
pub(crate) fn mount_of(directory: &std::path::Path, several: bool) -> Option<GfarmMount> {
    several.then(|| gfarm_mount(directory)).flatten()
}
