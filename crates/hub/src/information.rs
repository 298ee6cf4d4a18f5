//! What is known of the nodes of this run (docs/design/information.md): values of this machine, sampled here, and
//! values of nodes elsewhere, as their agents report them.
//!
//! Nothing is sampled before a task or a question asks for it. `choosing` decides which tasks choose by it.

mod needed;
pub(crate) mod state;

use std::collections::{BTreeMap, BTreeSet};

use rakuda_agent::Sampled;
use rakuda_agent::providers::ExternalProvider;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{NodeId, Time};
use rakuda_info::catalogue::folder_of;
use rakuda_info::external::set_by_user;
use rakuda_info::of_run;
use rakuda_info::table::{NodeId as Row, State};
use rakuda_proto::cluster::ToAgent;
use rakuda_service::{Client, Finding, Follower, Machine, News, Token};

use crate::hub::Hub;
use crate::settings::InformationService;
use needed::needed;
use state::{Followed, Heard, Information};

/// Maximum number of folders that tasks choose by.
const FOLDERS_MAX: usize = 64;

impl Hub {
    /// Samples all nodes that take tasks from now on, and those that come later, for the values of these providers
    /// (`None`: of all). Programs that nothing has asked for are not started.
    pub(crate) fn sample(&mut self, only: Option<&[String]>) {
        if self.settings.config.dry_run {
            return;
        }
        let is_first = self.information.period.is_none();
        let is_wanted = |it: &&ExternalProvider| only.is_none_or(|only| only.contains(&it.name));
        let known = &self.information.providers;
        let wanted = self.settings.providers.iter().filter(is_wanted);
        let new: Vec<_> = wanted.filter(|it| !known.contains(it)).cloned().collect();
        if !is_first && new.is_empty() {
            return;
        }
        self.information.providers.extend(new);
        if is_first {
            self.information.period = Some(self.settings.sample_period);
            self.follow_service();
        }
        for node in self.nodes_there() {
            self.sample_node(node);
        }
    }

    /// Watches attributes of these names, by which tasks choose: agents report every change of them, and sample the
    /// file systems of folders among them. The error says why not.
    pub(crate) fn watch(&mut self, names: BTreeSet<String>) -> Result<(), String> {
        self.sample_folders(names.iter().filter_map(|name| folder_of(name)).collect())?;
        let before = self.information.exact.len();
        self.information.exact.extend(names);
        if self.information.exact.len() > before && self.information.period.is_some() {
            for node in self.nodes_there() {
                self.tell_exactly(node);
            }
        }
        Ok(())
    }

    /// Has an agent elsewhere report each change of the values by which tasks choose.
    fn tell_exactly(&self, node: NodeId) {
        let attributes: Vec<String> = self.information.exact.iter().cloned().collect();
        if node != LOCAL_NODE && !attributes.is_empty() && !self.information.is_served(node) {
            self.agents.node(node).port.ask(ToAgent::TellExactly { attributes });
        }
    }

    fn sample_folders(&mut self, folders: BTreeSet<String>) -> Result<(), String> {
        let relative = folders.iter().find(|folder| !folder.starts_with('/'));
        if let Some(folder) = relative {
            return Err(format!("{folder:?} is no folder of a node; expected an absolute path"));
        }
        let known = &mut self.information.folders;
        let before = known.len();
        known.extend(folders);
        if known.len() > FOLDERS_MAX {
            return Err(format!(
                "tasks choose by the file systems of more than {FOLDERS_MAX} folders; name fewer"
            ));
        }
        if known.len() > before && self.information.period.is_some() {
            for node in self.nodes_there() {
                self.sample_node(node);
            }
        }
        Ok(())
    }

    fn nodes_there(&self) -> Vec<NodeId> {
        let there =
            self.agents.places().map(|(id, _)| id).filter(|id| self.run.nodes().is_there(*id));
        there.collect()
    }

    /// Begins to ask the service, if there is to be one.
    fn follow_service(&mut self) {
        let Some(InformationService { url, token_file }) = &self.settings.service else { return };
        let follow = || -> Result<Follower, String> {
            let failed = |error: &dyn std::fmt::Display| format!("failed to {error}");
            let token = Token::read(token_file).map_err(|error| failed(&error))?;
            let client = Client::new(url, token).map_err(|error| failed(&error))?;
            let started = Follower::start(client, self.settings.sample_period);
            started.map_err(|error| failed(&format!("start a thread: {error}")))
        };
        match follow() {
            Ok(follower) => {
                let (names, served) = (None, BTreeMap::new());
                self.information.service = Some(Followed { follower, names, served });
            }
            Err(why) => self.warn_of_service(&why),
        }
    }

    fn warn_of_service(&mut self, why: &str) {
        let url = self.settings.service.as_ref().map_or("", |service| &service.url).to_owned();
        self.warn(&format!(
            "--info {url}: {why}; the agents of this run sample their nodes themselves"
        ));
    }

    /// Takes an answer of the service, or the news that it is gone.
    fn on_news(&mut self, news: News) {
        let table = match news {
            News::Known(table) => *table,
            News::Silent(why) => {
                self.information.service = None;
                self.warn_of_service(&why);
                for node in self.nodes_there() {
                    self.sample_node(node);
                }
                return;
            }
        };
        let there = self.nodes_there();
        let name = |node: &NodeId| self.agents.node(*node).name.to_display();
        let names: BTreeMap<NodeId, String> =
            there.iter().map(|node| (*node, name(node))).collect();
        let Some(service) = &mut self.information.service else { return };
        let known = table.nodes().filter(|(_, node)| node.state != State::Down);
        let known: BTreeMap<String, (Row, &State)> =
            known.map(|(row, node)| (node.name.to_string(), (row, &node.state))).collect();
        let is_first = service.names.replace(known.keys().cloned().collect()).is_none();
        for (node, name) in names {
            let Some(service) = &mut self.information.service else { return };
            let was_served = service.served.contains_key(&node);
            match known.get(&name) {
                Some((there, state)) if is_first || was_served => {
                    service.served.insert(node, Some((*state).clone()));
                    let row = self.information.row(node, &name);
                    self.information.table.take_over(row, &table, *there, of_run::PROVIDER);
                    if node != LOCAL_NODE {
                        self.ask_clock(node);
                    }
                    self.ask_page_cache(node);
                    self.on_information(node);
                }
                // The service does not know of it, or not any more.
                _ if is_first || was_served => {
                    service.served.remove(&node);
                    self.sample_node(node);
                }
                _ => {}
            }
        }
    }

    /// A node's agent is there: has it sample, if anything wants values.
    pub(crate) fn sample_node(&mut self, node: NodeId) {
        let Some(period) = self.information.period else { return };
        if let Some(service) = &mut self.information.service {
            let name = self.agents.node(node).name.to_display();
            // Until the service has answered, no agent is asked.
            let Some(names) = &service.names else { return };
            if names.contains(&name) {
                // Its values come with the next answer.
                service.served.entry(node).or_default();
                return;
            }
        }
        let Information { machine, providers, folders, .. } = &mut self.information;
        let folders = folders.iter().cloned().collect();
        if node != LOCAL_NODE {
            let period_ms = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
            let providers = providers.iter().map(Into::into).collect();
            let sample = ToAgent::Sample { period_ms, providers, folders };
            self.agents.node(node).port.ask(sample);
            return self.tell_exactly(node);
        }
        let wanted = Sampled { period, providers: providers.clone(), folders };
        let started = match machine {
            Some(machine) => machine.want(&wanted),
            None => Machine::start(&wanted).map(|started| *machine = Some(started)),
        };
        if let Err(error) = started {
            self.warn(&format!("cannot sample this machine: {error}"));
        }
    }

    /// Takes values of nodes that do not come from their agents.
    pub(crate) fn on_heard(&mut self, heard: Heard) {
        match heard {
            Heard::Finding(finding) => self.on_finding(finding),
            Heard::News(news) => self.on_news(news),
        }
    }

    /// Takes a sample of this machine.
    fn on_finding(&mut self, first: Finding) {
        let name = self.agents.node(LOCAL_NODE).name.to_display();
        let row = self.information.row(LOCAL_NODE, &name);
        let Information { machine, table, .. } = &mut self.information;
        let Some(machine) = machine else { return };
        let mut next = Some(first);
        while let Some(finding) = next {
            machine.note(finding, table, row);
            next = machine.next_finding();
        }
        self.ask_page_cache(LOCAL_NODE);
        self.on_information(LOCAL_NODE);
    }

    /// Takes a delta from the agent of a node elsewhere.
    pub(crate) fn on_state(&mut self, node: NodeId, delta: &[u8], held_ns: u64) {
        let name = self.agents.node(node).name.to_display();
        let applied = self.information.apply(node, &name, delta, self.now.time, held_ns);
        self.agents.node(node).port.settle_state();
        match applied {
            Ok(()) => {
                self.ask_clock(node);
                self.ask_page_cache(node);
                self.on_information(node);
            }
            Err(Some(why)) => {
                let source = self.information.sources.get_mut(&node);
                if source.is_some_and(|source| !std::mem::replace(&mut source.is_told, true)) {
                    self.warn(&format!(
                        "what node {name} tells of itself is not understood: {why}"
                    ));
                }
                // It begins a new session, with everything.
                self.sample_node(node);
            }
            // Nor did that help: it is suspected when it goes on so.
            Err(None) => {}
        }
    }

    /// Refreshes what the run itself knows of a node.
    #[expect(clippy::cast_precision_loss, reason = "bytes and ns of less than 2^53")]
    pub(crate) fn refresh_own(&mut self, node: NodeId) {
        let Some(view) = self.run.scheduler().node(node) else { return };
        let place = self.agents.node(node);
        let name = place.name.to_display();
        let memory = i128::from(place.capacity.memory_bytes) - view.memory_bytes_free;
        let clock = self.clock_of_node(node);
        let seconds = |ns: i64| ns as f64 / 1e9;
        let values = [
            Some(f64::from(view.cores)),
            Some(view.running as f64),
            Some((i64::from(view.cores) - view.cores_free) as f64),
            Some(memory as f64),
            clock.map(|clock| seconds(clock.offset.ahead_ns)),
            clock.map(|clock| seconds(clock.offset.bound_ns)),
            clock.map(|clock| seconds(clock.round_trip_ns)),
        ];
        let row = self.information.row(node, &name);
        self.information.set_own(row, values, self.now.time);
    }

    /// Keeps the values of a node that went, with their times.
    pub(crate) fn forget_source(&mut self, node: NodeId) {
        self.information.sources.remove(&node);
        if let Some(service) = &mut self.information.service {
            service.served.remove(&node);
        }
    }

    /// Sets values that a user gives a node. A value that is refused holds back none of the others.
    pub(crate) fn set_value(
        &mut self,
        name: &str,
        pairs: &serde_json::Value,
    ) -> Result<(), String> {
        let found = self.agents.places().find(|(_, place)| place.node.name.to_display() == name);
        let (id, _) = found.ok_or_else(|| format!("there is no node {name}"))?;
        let row = self.information.row(id, name);
        let now = self.now.time;
        let mut refusals = Vec::new();
        for (name, value) in pairs.as_object().into_iter().flatten() {
            let line = value.as_str().unwrap_or_default();
            refusals.extend(set_by_user(&mut self.information.table, row, name, line, now).err());
        }
        self.on_information(id);
        if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
    }

    /// A user asks for values of a maximum age, or since a time that an earlier answer has named. Whether some are on
    /// their way, and since when they are to be sampled.
    pub(crate) fn want_values(&mut self, question: &serde_json::Value) -> (bool, Option<u64>) {
        let now_ns = self.now.time.0;
        let max_age = question["max_age_ns"].as_u64().map(|age_ns| now_ns.saturating_sub(age_ns));
        let since = max_age.or_else(|| question["sampled_since_ns"].as_u64());
        let needed = needed(&question["question"], self.information.table.registry());
        let only = &needed.providers;
        self.sample(only.as_deref());
        let is_awaited = |provider: &ExternalProvider| {
            let is_wanted = only.as_ref().is_none_or(|only| only.contains(&provider.name));
            is_wanted && !provider.is_long_lived()
        };
        let known = &self.information;
        let up = self.agents.places().map(|(id, _)| id).filter(|id| self.run.nodes().is_up(*id));
        let missing = up.filter_map(|id| {
            let older =
                since.map_or_else(Vec::new, |at| known.older(id, Time(at), only.as_deref()));
            let is_told = known.has_told(id, is_awaited) && !known.awaits_second(id, &needed);
            (!older.is_empty() || !is_told).then_some((id, older))
        });
        let missing: Vec<(NodeId, Vec<String>)> = missing.collect();
        let is_coming = !missing.is_empty();
        // Asked once for each question of a user, which names an age the first time. Nodes that have reported nothing
        // so far are about to.
        let asked = missing.into_iter().filter(|(_, older)| max_age.is_some() && !older.is_empty());
        for (node, older) in asked {
            match &self.information.machine {
                _ if self.information.is_served(node) => {
                    let service = self.information.service.iter();
                    service.for_each(|service| service.follower.wish(older.clone()));
                }
                Some(machine) if node == LOCAL_NODE => machine.sample_now(&older),
                _ => self.agents.node(node).port.ask(ToAgent::SampleNow { only: older }),
            }
        }
        (is_coming, since)
    }
}
