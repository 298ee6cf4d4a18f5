//! Files in Gfarm as they really are: replicas on hosts, servers that die, hang and come back, and
//! a catalogue that notices late.
//!
//! What clients of it see when they open files, and what a round of questions finds out. Knows
//! nothing of what the hub makes of that.

pub(crate) mod state;

use std::collections::BTreeMap;

use rakuda_core::{HostId, Reach, ReachInput, TaskId};

use super::causes::state::Cause;
use super::chaos::Chaos;
use super::messages::Happening;
use crate::units::SECOND_NS;
use state::GfarmHappening;

/// Maximum time after which a client gives up.
const CLIENT_NS_MAX: u64 = 15 * SECOND_NS;

/// Timeout for a host to hand out a byte.
const PROBE_NS: u64 = 5 * SECOND_NS;

/// Timeout for the catalogue to answer.
const CATALOGUE_NS: u64 = 10 * SECOND_NS;

/// Maximum time for which a host with files that nothing can make is away: tasks wait for these.
const INPUTS_AWAY_NS: u64 = 15 * SECOND_NS;

/// Minimum time for which a server answers between two times when it is unresponsive; below it, these count as one.
const BREATH_NS: u64 = 30 * SECOND_NS;

impl Chaos {
    pub(crate) fn on_gfarm(&mut self, what: GfarmHappening) {
        match what {
            GfarmHappening::Noticed { host, epoch } => {
                if self.gfarm.epoch(host) == epoch && !self.gfarm.answers(host) {
                    self.note(format_args!("the catalogue takes server {host} for gone"));
                    self.count("servers taken for gone");
                    self.gfarm.servers[host as usize].listed = false;
                }
            }
            GfarmHappening::GoesOn { host, epoch } => {
                let server = &mut self.gfarm.servers[host as usize];
                if server.hangs && server.epoch == epoch {
                    server.hangs = false;
                    self.server_changed(host, false);
                }
            }
            GfarmHappening::Asked { life, round, files } => self.find_out(life, round, &files),
            GfarmHappening::Told { life, answer } => {
                if self.hub.is_up() && life == self.hub.life {
                    self.on_round_answered(answer);
                }
            }
        }
    }

    /// A machine went down, and its server with it.
    pub(crate) fn server_goes(&mut self, host: u32) {
        if self.scenario.gfarm.is_some() {
            let before = self.gfarm.answers(host);
            let server = &mut self.gfarm.servers[host as usize];
            (server.machine_up, server.hangs) = (false, false);
            self.server_changed(host, before);
        }
    }

    pub(crate) fn server_comes(&mut self, host: u32) {
        if self.scenario.gfarm.is_some() {
            self.gfarm.servers[host as usize].machine_up = true;
            self.server_changed(host, false);
        }
    }

    /// A server dies or hangs, and its machine does not.
    pub(crate) fn freeze_server(&mut self) {
        let host = self.random.below(self.gfarm.servers.len() as u64) as u32;
        let at_most = if self.random.below(3) == 0 { 180 } else { 40 };
        let for_ns = self.random.below(at_most * SECOND_NS);
        let for_ns = self.bound_by_inputs(host, for_ns);
        if !self.gfarm.answers(host) {
            return;
        }
        self.count("file servers unresponsive");
        self.gfarm.servers[host as usize].hangs = true;
        self.server_changed(host, true);
        let epoch = self.gfarm.epoch(host);
        let back = GfarmHappening::GoesOn { host, epoch };
        self.queue.push(self.now + for_ns, Happening::Gfarm(back));
    }

    /// What has files that nothing can make is not away for long.
    pub(crate) fn bound_by_inputs(&self, host: u32, for_ns: u64) -> u64 {
        let holds_inputs =
            self.scenario.tasks.iter().any(|plan| !plan.has_action && plan.place == host);
        let is_bound = self.scenario.gfarm.is_some() && holds_inputs;
        if is_bound { for_ns.min(INPUTS_AWAY_NS) } else { for_ns }
    }

    /// A server may answer now where it did not, or the other way round.
    fn server_changed(&mut self, host: u32, before: bool) {
        let (now, after) = (self.now, self.gfarm.answers(host));
        if before == after {
            return;
        }
        self.note(format_args!("server {host} answers {after}"));
        let server = &mut self.gfarm.servers[host as usize];
        server.epoch += 1;
        if after {
            (server.listed, server.back_ns) = (true, now);
            let wiped = self.gfarm.wiped.iter().filter(|(_, (on, _))| *on == host);
            for (file, _) in wiped {
                if let Some(hosts) = self.gfarm.replicas.get_mut(file) {
                    hosts.remove(&host);
                }
            }
            return;
        }
        if now.saturating_sub(server.back_ns) > BREATH_NS {
            server.troubled_ns = now;
        }
        let epoch = server.epoch;
        let noticed_ns_max = self.scenario.gfarm.map_or(1, |gfarm| gfarm.noticed_ns_max);
        let at = now + self.random.below(noticed_ns_max);
        self.queue.push(at, Happening::Gfarm(GfarmHappening::Noticed { host, epoch }));
    }

    /// A command opens the files that it reads, and its own. Returns the host of its file and what it has read; or the
    /// time after which it fails.
    pub(crate) fn open_in_gfarm(
        &mut self,
        node: u32,
        of: (u32, u32),
        files: &[u32],
    ) -> Result<(u32, Vec<u64>), u64> {
        let mut read = Vec::new();
        let behind = self.scenario.tasks[of.0 as usize].behind;
        for file in files.iter().copied().chain(behind) {
            match self.read_in_gfarm(node, file) {
                Ok(content) => read.push(content),
                Err(host) => return Err(self.fail_over_server(of, Some(file), host)),
            }
        }
        read.truncate(files.len());
        let host = self.host_for_new_file(node);
        match host.filter(|host| self.gfarm.answers(*host)) {
            Some(host) => {
                self.truth.remove(of.0);
                self.gfarm.remove(of.0);
                Ok((host, read))
            }
            None => Err(self.fail_over_server(of, None, host)),
        }
    }

    fn read_in_gfarm(&mut self, node: u32, file: u32) -> Result<u64, Option<u32>> {
        let hosts = self.gfarm.listed_hosts(file).unwrap_or_default();
        let Some(host) = self.one_of(&hosts, node) else { return Err(None) };
        if !self.gfarm.answers(host) {
            return Err(Some(host));
        }
        self.truth.read(file, host).ok_or(Some(host))
    }

    /// The host itself, or any other if it is not among them.
    fn one_of(&mut self, hosts: &[u32], own: u32) -> Option<u32> {
        if hosts.contains(&own) || hosts.is_empty() {
            return hosts.contains(&own).then_some(own);
        }
        Some(hosts[self.random.below(hosts.len() as u64) as usize])
    }

    /// The host for a new file: mostly the node's own; another one where its disk is full, or it is taken for gone.
    fn host_for_new_file(&mut self, node: u32) -> Option<u32> {
        let all = 0..self.gfarm.servers.len() as u32;
        let listed: Vec<u32> = all.filter(|host| self.gfarm.is_listed(*host)).collect();
        let is_full = self.random.below(8) == 0;
        let others: Vec<u32> = listed.iter().copied().filter(|host| *host != node).collect();
        let hosts = if is_full && !others.is_empty() { &others } else { &listed };
        self.one_of(hosts, node)
    }

    /// Fails a command over a server. Returns the time that this takes.
    pub(crate) fn fail_over_server(
        &mut self,
        (task, attempt): (u32, u32),
        file: Option<u32>,
        host: Option<u32>,
    ) -> u64 {
        self.count(match (file, host) {
            (Some(_), Some(_)) => "reads from an unresponsive server",
            (Some(_), None) => "reads of a file that nobody has",
            (None, _) => "writes to an unresponsive server",
        });
        let after_ns =
            if host.is_some() { self.random.below(CLIENT_NS_MAX) } else { SECOND_NS / 10 };
        let inputs = &self.scenario.tasks[task as usize].inputs;
        let cause = Cause {
            file,
            named: file.is_some_and(|file| inputs.contains(&file)),
            host,
            epoch: host.map_or(0, |host| self.gfarm.epoch(host)),
            failed_ns: self.now + after_ns,
            round: None,
            sampled: None,
            seen: false,
        };
        self.note(format_args!("{task} attempt {attempt} fails over {cause:?}"));
        self.gfarm.causes.entry((task, attempt)).or_insert(cause);
        after_ns
    }

    /// A round of questions begins.
    pub(crate) fn ask_gfarm(&mut self, round: u32, files: Vec<TaskId>) {
        let life = self.hub.life;
        let late = if self.random.below(10) == 0 { CATALOGUE_NS } else { SECOND_NS / 10 };
        let asked = if self.random.below(30) == 0 && !self.heals() {
            self.count("rounds without an answer");
            let answer = ReachInput::Unanswered { round };
            (CATALOGUE_NS, GfarmHappening::Told { life, answer })
        } else {
            (self.random.below(late), GfarmHappening::Asked { life, round, files })
        };
        self.queue.push(self.now + asked.0, Happening::Gfarm(asked.1));
    }

    /// Finds out what `rakuda_locate::reach` would: the catalogue names hosts, and each of them is asked for one file.
    fn find_out(&mut self, life: u64, round: u32, files: &[TaskId]) {
        let named: Vec<(TaskId, Option<Vec<u32>>)> =
            files.iter().map(|id| (*id, self.gfarm.listed_hosts(id.0))).collect();
        let mut unresponsive = BTreeMap::new();
        for (id, hosts) in &named {
            for host in hosts.iter().flatten().filter(|host| !self.gfarm.answers(**host)) {
                unresponsive.entry(HostId(*host)).or_insert(*id);
            }
        }
        let reach = |hosts: Option<Vec<u32>>| match hosts {
            None => Reach::Unknown,
            Some(hosts) => {
                let hosts = hosts.into_iter().map(HostId);
                let hosts: Vec<HostId> =
                    hosts.filter(|host| !unresponsive.contains_key(host)).collect();
                if hosts.is_empty() { Reach::Nowhere } else { Reach::Hosts(hosts) }
            }
        };
        let files = named.into_iter().map(|(id, hosts)| (id, reach(hosts))).collect();
        let after_ns = if unresponsive.is_empty() { SECOND_NS / 20 } else { PROBE_NS };
        let answer = ReachInput::Answered { round, files, unresponsive };
        let told = GfarmHappening::Told { life, answer };
        self.queue.push(self.now + after_ns, Happening::Gfarm(told));
    }
}
