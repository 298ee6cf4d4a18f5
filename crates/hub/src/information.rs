//! What is known of the nodes of this run (docs/design/information.md): values of this machine, sampled here, and of
//! nodes elsewhere, as their agents tell them.
//!
//! Nothing is sampled before a task or a question asks for it. Who chooses by it is not known here (`choosing`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rakuda_agent::Sampled;
use rakuda_agent::providers::ExternalProvider;
use rakuda_core::{NodeId, Time};
use rakuda_info::choice::folder_of;
use rakuda_info::delta::Receiver;
use rakuda_info::external::{has_failed, has_told, set_by_user};
use rakuda_info::of_run;
use rakuda_info::provider::FIRST;
use rakuda_info::query::{Query, Question, names_of};
use rakuda_info::registry::{Attribute, AttributeId, Registry, instance_name};
use rakuda_info::table::{NodeId as Row, State, Table};
use rakuda_info::value::{Kind, Value};
use rakuda_proto::cluster::ToAgent;
use rakuda_service::{Client, Finding, Follower, Machine, News, Token};
use serde_json::{Map, json};

use crate::hub::{Hub, LOCAL_NODE};
use crate::page_cache::PageCaches;
use crate::settings::InformationService;

/// So many periods without a sample: the node is suspected.
const SILENT_PERIODS: u32 = 3;
/// But a busy machine has at least so long.
const SILENT_MIN: Duration = Duration::from_secs(1);
/// Maximum number of folders that tasks choose by.
const FOLDERS_MAX: usize = 64;
/// Whose values are the user's: nothing samples them.
const USER: &str = "user";

/// What the agent of a node elsewhere has told.
struct Source {
    receiver: Receiver,
    /// When it told something last that made sense; before that, when it told anything first.
    heard: Time,
    /// What it told last made no sense, so it was asked to begin anew.
    is_broken: bool,
    /// That was said.
    is_told: bool,
}

/// See the file's head.
pub(crate) struct Information {
    pub table: Table,
    /// Of what the run itself says.
    own: [AttributeId; 8],
    /// Samples this machine.
    machine: Option<Machine>,
    /// Agents elsewhere sample so often; nothing: they do not.
    period: Option<Duration>,
    /// Programs that provide more, on each node: those of the settings that somebody has wanted.
    providers: Vec<ExternalProvider>,
    /// Folders whose file systems are sampled, too: those that tasks choose by.
    folders: BTreeSet<String>,
    /// What tasks choose by: agents tell it as it is, whatever its threshold.
    exact: BTreeSet<String>,
    /// Rows of the table.
    pub rows: BTreeMap<NodeId, Row>,
    /// Elsewhere, as long as the agent is there.
    sources: BTreeMap<NodeId, Source>,
    /// The service that knows of nodes, if there is one and it answers.
    service: Option<Followed>,
    /// Which files nodes are asked about.
    pub page_caches: PageCaches,
}

/// A service whose values are taken.
struct Followed {
    follower: Follower,
    /// The names of the nodes that it knows; nothing: it has not said yet.
    names: Option<BTreeSet<String>>,
    /// Nodes of this run that it tells of, and how it has said that they are; nothing: it has not yet.
    served: BTreeMap<NodeId, Option<State>>,
}

impl Default for Information {
    fn default() -> Self {
        let mut table = Table::new();
        let own = of_run::define(&mut table);
        let (machine, period, providers) = (None, None, Vec::new());
        let (folders, exact) = (BTreeSet::new(), BTreeSet::new());
        let (rows, sources, service) = (BTreeMap::new(), BTreeMap::new(), None);
        let page_caches = PageCaches::default();
        Self {
            table,
            own,
            machine,
            period,
            providers,
            folders,
            exact,
            rows,
            sources,
            service,
            page_caches,
        }
    }
}

impl Information {
    pub fn row(&mut self, node: NodeId, name: &str) -> Row {
        let table = &mut self.table;
        *self.rows.entry(node).or_insert_with(|| table.node(None, name))
    }

    /// Whether all that there is to know of a node was told once.
    pub fn is_known(&self, node: NodeId) -> bool {
        self.has_told(node, |_| true) && (self.is_served(node) || self.has_told_folders(node))
    }

    /// Those that tasks choose by.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().map(String::as_str)
    }

    /// Whether a node has told of all folders that tasks choose by, if only that they are not there.
    fn has_told_folders(&self, node: NodeId) -> bool {
        let Some(row) = self.rows.get(&node) else { return false };
        let find = |folder: &String| self.table.registry().find(&instance_name("fs_type", folder));
        let mut folders = self.folders.iter();
        folders.all(|it| find(it).is_some_and(|id| self.table.sampled(*row, id).is_some()))
    }

    /// Whether all built-in providers have told, and those of the external ones that are awaited.
    fn has_told(&self, node: NodeId, is_awaited: impl Fn(&ExternalProvider) -> bool) -> bool {
        let built_in = match node {
            _ if self.is_served(node) => self.served_state(node).is_some(),
            LOCAL_NODE => self.machine.as_ref().is_some_and(Machine::is_known),
            _ => self.sources.contains_key(&node),
        };
        let row = || self.rows.get(&node).copied();
        built_in
            && self
                .providers
                .iter()
                .filter(|it| is_awaited(it))
                .all(|provider| row().is_some_and(|row| has_told(&self.table, row, &provider.name)))
    }

    /// Whether a service tells how the node is.
    fn is_served(&self, node: NodeId) -> bool {
        self.service.as_ref().is_some_and(|service| service.served.contains_key(&node))
    }

    fn served_state(&self, node: NodeId) -> Option<&State> {
        self.service.as_ref()?.served.get(&node)?.as_ref()
    }

    /// A node that is up, and tells nothing any more.
    pub fn is_suspected(&self, node: NodeId, now: Time) -> bool {
        let Some(period) = self.period else { return false };
        if self.is_served(node) {
            return self.served_state(node).is_some_and(|state| *state != State::Up);
        }
        let limit = (SILENT_PERIODS * period).max(SILENT_MIN);
        let heard = self.sources.get(&node).map(|source| source.heard);
        heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > limit.as_nanos() as u64)
    }

    /// Takes what the run itself says of a node, in the order of `of_run::ATTRIBUTES`; what is not known is left.
    fn set_own(&mut self, row: Row, values: [Option<f64>; 7], now: Time) {
        for (id, value) in self.own.into_iter().zip(values) {
            if let Some(value) = value {
                self.table.set(row, id, Value::number(value), now);
            }
        }
    }

    /// Takes what of the files that it was asked about is in a node's memory, and how many bytes they have in all; of
    /// which that is not known, it is left out.
    pub fn set_page_cache(&mut self, row: Row, files: &[Option<(u64, u64)>], now: Time) {
        let [.., id] = self.own;
        let known = files.iter().flatten();
        #[expect(clippy::cast_precision_loss, reason = "bytes of less than 2^53")]
        let bytes = known.clone().map(|(in_memory, _)| *in_memory).sum::<u64>() as f64;
        let is_known = files.is_empty() || known.count() > 0;
        let why = "the node cannot tell of any of the files (cachestat, Linux 6.5)";
        let value = if is_known { Value::number(bytes) } else { Value::undefined(why) };
        self.table.set(row, id, value, now);
    }

    /// Takes a delta of a node elsewhere. When it makes no sense: the reason, where the one before did.
    fn apply(
        &mut self,
        node: NodeId,
        name: &str,
        delta: &[u8],
        now: Time,
        held_ns: u64,
    ) -> Result<(), Option<String>> {
        let row = self.row(node, name);
        let new = || Source {
            receiver: Receiver::of_node(row),
            heard: now,
            is_broken: false,
            is_told: false,
        };
        let source = self.sources.entry(node).or_insert_with(new);
        // Ages in it are as of when it was made.
        let made = Time(now.0.saturating_sub(held_ns));
        match source.receiver.apply(delta, &mut self.table, made) {
            Ok(()) => {
                source.heard = now;
                source.is_broken = false;
                Ok(())
            }
            Err(error) => {
                let is_first = !std::mem::replace(&mut source.is_broken, true);
                Err(is_first.then(|| error.to_string()))
            }
        }
    }

    /// Providers of a node that have told something and have not sampled since then; of these, or of all.
    fn older(&self, node: NodeId, since: Time, only: Option<&[String]>) -> Vec<String> {
        let Some(row) = self.rows.get(&node) else { return Vec::new() };
        let mut newest: BTreeMap<&str, Time> = BTreeMap::new();
        for (id, attribute) in self.table.registry().iter() {
            if let Some(sampled) = self.table.sampled(*row, id) {
                let known = newest.entry(&attribute.provider).or_insert(sampled);
                *known = sampled.max(*known);
            }
        }
        // They tell when they like, or are tried again when it is time.
        let is_waited_for = |name: &str| {
            let provider = self.providers.iter().find(|it| it.name == name);
            is_sampled(name)
                && provider.is_none_or(|it| {
                    !it.is_long_lived() && !has_failed(&self.table, *row, &it.name)
                })
        };
        let is_wanted = |name: &str| only.is_none_or(|only| only.iter().any(|it| it == name));
        let older = newest
            .into_iter()
            .filter(|(name, sampled)| *sampled < since && is_wanted(name) && is_waited_for(name));
        older.map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether something that is needed of a node takes the next sample, as rates and shares do after the first one.
    fn awaits_second(&self, node: NodeId, needed: &Needed) -> bool {
        let Some(row) = self.rows.get(&node) else { return false };
        let value = |id| self.table.cell(*row, id).map(|cell| cell.value);
        let mut attributes = self.table.registry().iter().filter(|(_, it)| needed.has(it));
        attributes.any(|(id, _)| value(id) == Some(Value::undefined(FIRST)))
    }

    /// All that is known of a node, for `rakudactl nodes`.
    pub fn values_of(&self, node: NodeId, now: Time) -> serde_json::Value {
        let Some(row) = self.rows.get(&node) else { return json!({}) };
        let known = |(id, attribute): (AttributeId, &Attribute)| {
            let cell = self.table.cell(*row, id)?;
            let kind = if attribute.kind == Kind::Number { "number" } else { "text" };
            let mut told = json!({
                "unit": attribute.unit, "provider": attribute.provider, "kind": kind,
                "age_s": age_s(cell.sampled, now),
            });
            match cell.value {
                Value::Number(number) => told["value"] = number.into(),
                Value::Text(text) => told["value"] = (*text).into(),
                Value::Undefined(why) => told["why"] = (*why).into(),
            }
            Some((attribute.name.clone(), told))
        };
        self.table.registry().iter().filter_map(known).collect::<Map<_, _>>().into()
    }
}

/// Whether values of a provider are sampled, rather than set by a user or the run.
fn is_sampled(provider: &str) -> bool {
    provider != USER && provider != of_run::PROVIDER
}

/// What a question of `rakudactl nodes` needs.
#[derive(Debug, Default)]
struct Needed {
    /// `None`: all, or which is not known yet.
    providers: Option<Vec<String>>,
    /// Names of attributes, likewise.
    attributes: Option<Vec<String>>,
}

impl Needed {
    fn has(&self, attribute: &Attribute) -> bool {
        let Self { providers, attributes } = self;
        providers.as_ref().is_none_or(|all| all.contains(&attribute.provider))
            && attributes.as_ref().is_none_or(|all| all.contains(&attribute.name))
    }
}

fn needed(question: &serde_json::Value, registry: &Registry) -> Needed {
    let text = |field: &str| question[field].as_str().map(str::to_owned);
    if let Some(only) = text("only") {
        return Needed { providers: Some(names_of(&only)), attributes: None };
    }
    let question = Question {
        fields: text("fields"),
        condition: text("where"),
        sort: text("sort"),
        group_by: text("group_by"),
        ..Question::default()
    };
    let mut registry = registry.clone();
    for attribute in of_run::told() {
        // A value of a user may have that name.
        let _ = registry.define(attribute);
    }
    let Ok(query) = Query::new(&question, &registry) else { return Needed::default() };
    let name = |id: &AttributeId| registry.get(*id).name.clone();
    let attributes = query.needed().map(|ids| ids.iter().map(name).collect());
    Needed { providers: query.providers(&registry), attributes }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people and programs")]
fn age_s(sampled: Time, now: Time) -> f64 {
    (now.0.saturating_sub(sampled.0) / 1_000_000) as f64 / 1000.0
}

/// What is heard of nodes, but by their agents.
pub(crate) enum Heard {
    /// This machine was sampled.
    Finding(Finding),
    /// A service has answered.
    News(News),
}

/// What is heard next; never, when nobody samples and there is no service.
pub(crate) async fn next_heard(information: &mut Information) -> Heard {
    let Information { machine, service, .. } = information;
    let finding = async {
        match machine {
            Some(machine) => machine.finding().await,
            None => std::future::pending().await,
        }
    };
    let news = async {
        match service {
            Some(service) => service.follower.news().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        finding = finding => Heard::Finding(finding),
        news = news => Heard::News(news),
    }
}

impl Hub {
    /// Information is wanted, of these providers (none: of all): all nodes that take tasks are sampled from now on, and
    /// those that come later. Programs that nobody has wanted are not started.
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

    /// Tasks choose by attributes of these names: all that moves of them is told from now on, and the file systems of
    /// folders among them are sampled. Else why not.
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

    /// An agent elsewhere is to tell what tasks choose by as it is.
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

    /// The service has said something, or is not there any more.
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
                // It does not know of it, or not any more.
                _ if is_first || was_served => {
                    service.served.remove(&node);
                    self.sample_node(node);
                }
                _ => {}
            }
        }
    }

    /// A node's agent is there: it samples, when anybody wants that.
    pub(crate) fn sample_node(&mut self, node: NodeId) {
        let Some(period) = self.information.period else { return };
        if let Some(service) = &mut self.information.service {
            let name = self.agents.node(node).name.to_display();
            // As long as it has not answered, nobody is asked.
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

    /// There is something to know of nodes, but from their agents.
    pub(crate) fn on_heard(&mut self, heard: Heard) {
        match heard {
            Heard::Finding(finding) => self.on_finding(finding),
            Heard::News(news) => self.on_news(news),
        }
    }

    /// The machine has found something.
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

    /// The agent of a node elsewhere says how that is.
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

    /// What the run knows of a node by itself, as of now.
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

    /// What a node that went told of itself stays, with its times.
    pub(crate) fn forget_source(&mut self, node: NodeId) {
        self.information.sources.remove(&node);
        if let Some(service) = &mut self.information.service {
            service.served.remove(&node);
        }
    }

    /// Values that a user gives a node; one that is refused keeps none of the others back.
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

    /// Somebody asks for values, at most so old, or since a time that an answer before has named. Whether some are on
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
        // Asked once for each question of a user, which the first time names an age. Who has told nothing so far is
        // about to.
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

#[cfg(test)]
mod tests {
    use rakuda_info::delta::Sender;

    use super::*;

    const NODE: NodeId = NodeId(1);
    const MS: u64 = 1_000_000;

    fn sampled() -> Information {
        let period = Some(Duration::from_millis(250));
        Information { period, ..Information::default() }
    }

    /// What an agent tells, frame after frame.
    struct Agent {
        table: Table,
        sender: Sender,
    }

    impl Agent {
        fn new() -> Self {
            let mut table = Table::new();
            table.node(None, "itself");
            Self { table, sender: Sender::new(10_000 * MS) }
        }

        fn tell(&mut self, load: f64, at: Time) -> Vec<u8> {
            let id = self.table.registry().find("load1").unwrap();
            self.table.set(Row(0), id, Value::Number(load), at);
            self.sender.take(&self.table, at).expect("there is news")
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_sign_of_life_and_a_new_session_helps() {
        let (mut information, mut agent) = (sampled(), Agent::new());
        let tell = |information: &mut Information, delta: &[u8], at_ms: u64| {
            let at = Time(at_ms * MS);
            let applied = information.apply(NODE, "host1", delta, at, 0);
            (applied.map_err(|why| why.is_some()), information.is_suspected(NODE, at))
        };
        assert_eq!(tell(&mut information, &agent.tell(1.0, Time(0)), 0), (Ok(()), false));
        assert_eq!(tell(&mut information, b"x", 250), (Err(true), false), "it is asked once more");
        for at_ms in (500..=1000).step_by(250) {
            assert_eq!(tell(&mut information, b"x", at_ms), (Err(false), false), "and not again");
        }
        assert_eq!(tell(&mut information, b"x", 1250), (Err(false), true));
        agent = Agent::new();
        assert_eq!(tell(&mut information, &agent.tell(2.0, Time(0)), 1500), (Ok(()), false));
        let _ = agent.tell(3.0, Time(0));
        let gap = agent.tell(4.0, Time(0));
        assert_eq!(tell(&mut information, &gap, 1750), (Err(true), false), "asked anew");
    }

    #[test]
    fn a_node_that_has_told_nothing_that_makes_sense_is_suspected_in_the_end() {
        let mut information = sampled();
        for at_ms in [0, 500, 1000] {
            let applied = information.apply(NODE, "host1", b"x", Time(at_ms * MS), 0);
            assert_eq!(
                applied,
                Err((at_ms == 0).then(|| "the frame is of version 120, expected 1".to_owned()))
            );
            assert!(!information.is_suspected(NODE, Time(at_ms * MS)));
        }
        assert!(information.is_suspected(NODE, Time(1001 * MS)));
    }

    #[test]
    fn who_asks_for_a_share_waits_for_the_second_sample() {
        let mut information = sampled();
        let row = information.row(NODE, "host1");
        let idle = information.table.registry().find("cpu_idle").unwrap();
        information.table.set(row, idle, Value::undefined(FIRST), Time(0));
        let awaits = |information: &Information, question: serde_json::Value| {
            let needed = needed(&question, information.table.registry());
            information.awaits_second(NODE, &needed)
        };
        for (question, expected) in [
            (json!({"where": "cpu_idle > 5"}), true),
            (json!({}), true),
            (json!({"only": "load"}), true),
            (json!({"only": "memory"}), false),
            (json!({"fields": "load1"}), false),
        ] {
            assert_eq!(awaits(&information, question.clone()), expected, "{question}");
        }
        information.table.set(row, idle, Value::Number(3.0), Time(1));
        assert!(!awaits(&information, json!({})));
    }

    #[test]
    fn what_has_lain_at_a_leader_is_older_by_that() {
        let (mut information, mut agent) = (sampled(), Agent::new());
        let told = agent.tell(1.0, Time(0));
        information.apply(NODE, "host1", &told, Time(1000 * MS), 50 * MS).unwrap();
        let load = information.table.registry().find("load1").unwrap();
        let sampled = information.table.sampled(information.rows[&NODE], load);
        assert_eq!(sampled, Some(Time(950 * MS)));
        assert!(!information.is_suspected(NODE, Time(2000 * MS)), "it was heard when it came");
    }

    #[test]
    fn an_agent_does_not_say_what_the_run_keeps_there() {
        let (mut information, mut agent) = (sampled(), Agent::new());
        let [cores, ..] = of_run::define(&mut agent.table);
        agent.table.set(Row(0), cores, Value::Number(99.0), Time(0));
        information.apply(NODE, "host1", &agent.tell(1.0, Time(0)), Time(0), 0).unwrap();
        let row = information.rows[&NODE];
        let [cores, ..] = information.own;
        assert!(information.table.cell(row, cores).is_none());
        let known = information.values_of(NODE, Time(0));
        assert_eq!(known["load1"]["value"], 1.0);
    }
}
