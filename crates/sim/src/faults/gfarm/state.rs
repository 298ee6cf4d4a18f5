//! File servers, what they have, and what befalls them.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::{ReachInput, TaskId};

use crate::faults::causes::state::Cause;

/// What happens to servers, and to questions about them.
#[derive(Clone, Debug)]
pub(crate) enum GfarmHappening {
    /// The catalogue notices that a server is gone, if the server has not answered since.
    Noticed { host: u32, epoch: u64 },
    /// A server goes on.
    GoesOn { host: u32, epoch: u64 },
    /// The catalogue answers a round of questions; each host that it names is asked then.
    Asked { life: u64, round: u32, files: Vec<TaskId> },
    /// The hub learns the result.
    Told { life: u64, answer: ReachInput },
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) machine_up: bool,
    pub(super) hangs: bool,
    /// The catalogue takes it for up.
    pub(super) listed: bool,
    /// Changes each time it becomes unresponsive or answers again.
    pub(super) epoch: u64,
    /// When it last began to answer.
    pub(super) back_ns: u64,
    /// Since when it has been unresponsive, but for breaths.
    pub(super) troubled_ns: u64,
}

/// The file servers, the catalogue, and what attempts failed over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gfarm {
    pub(super) servers: Vec<Server>,
    /// Hosts of each file, as the catalogue has them.
    pub(super) replicas: BTreeMap<u32, BTreeSet<u32>>,
    /// When each file was written last.
    written_ns: BTreeMap<u32, u64>,
    /// Files whose last bytes went with a disk: the host, and when.
    pub(super) wiped: BTreeMap<u32, (u32, u64)>,
    /// What attempts failed over.
    pub(crate) causes: BTreeMap<(u32, u32), Cause>,
}

impl Gfarm {
    pub(crate) fn new(hosts: u32) -> Self {
        let server = Server {
            machine_up: true,
            hangs: false,
            listed: true,
            epoch: 0,
            back_ns: 0,
            troubled_ns: 0,
        };
        Self { servers: vec![server; hosts as usize], ..Self::default() }
    }

    /// A file that is there from the start.
    pub(crate) fn add(&mut self, file: u32, host: u32) {
        if !self.servers.is_empty() {
            self.set(file, host, 0);
        }
    }

    /// A file is written.
    pub(crate) fn set(&mut self, file: u32, host: u32, now: u64) {
        self.wiped.remove(&file);
        self.written_ns.insert(file, now);
        self.replicas.insert(file, BTreeSet::from([host]));
    }

    pub(crate) fn remove(&mut self, file: u32) {
        self.replicas.remove(&file);
    }

    /// The disk of a host is gone. The catalogue learns of it when the server is back.
    pub(crate) fn wipe(&mut self, host: u32, now: u64) {
        let lost = self.replicas.iter().filter(|(_, hosts)| hosts.contains(&host));
        self.wiped.extend(lost.map(|(file, _)| (*file, (host, now))));
    }

    pub(crate) fn written_ns(&self, file: u32) -> Option<u64> {
        self.written_ns.get(&file).copied()
    }

    pub(crate) fn answers(&self, host: u32) -> bool {
        let server = &self.servers[host as usize];
        server.machine_up && !server.hangs
    }

    pub(crate) fn is_listed(&self, host: u32) -> bool {
        self.servers[host as usize].listed
    }

    pub(crate) fn epoch(&self, host: u32) -> u64 {
        self.servers[host as usize].epoch
    }

    /// Since when a host has been unresponsive, but for breaths.
    pub(crate) fn troubled_ns(&self, host: u32) -> u64 {
        self.servers[host as usize].troubled_ns
    }

    /// Hosts that are taken for up and have a file; `None`: there is no such file.
    pub(crate) fn listed_hosts(&self, file: u32) -> Option<Vec<u32>> {
        let hosts = self.replicas.get(&file)?;
        Some(hosts.iter().copied().filter(|host| self.is_listed(*host)).collect())
    }

    /// When a file's bytes went with a disk, and the host of that disk.
    pub(crate) fn wiped(&self, file: u32) -> Option<(u32, u64)> {
        self.wiped.get(&file).copied()
    }

    /// Since when a file could have been read all the time.
    pub(crate) fn readable_since_ns(&self, file: u32) -> Option<u64> {
        let hosts = self.replicas.get(&file)?.iter().filter(|host| self.answers(**host));
        hosts.map(|host| self.servers[*host as usize].back_ns).min()
    }
}
