//! What is known of nodes, and where it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rakuda_agent::providers::ExternalProvider;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{NodeId, Time};
use rakuda_info::delta::Receiver;
use rakuda_info::external::{has_failed, has_told};
use rakuda_info::of_run;
use rakuda_info::provider::FIRST;
use rakuda_info::registry::{Attribute, AttributeId, instance_name};
use rakuda_info::table::{NodeId as Row, State, Table};
use rakuda_info::value::{Kind, Value};
use rakuda_service::{Finding, Follower, Machine, News};
use serde_json::{Map, json};

use super::needed::Needed;
use crate::page_cache::PageCaches;

/// Maximum number of periods without a sample; after more the node is suspected.
pub(super) const MISSED_PERIODS_MAX: u32 = 3;

/// Minimum time without a sample before a node is suspected: a busy machine may be late.
pub(super) const UNRESPONSIVE_MIN: Duration = Duration::from_secs(1);

/// The provider of values that the user sets: nothing samples them.
pub(super) const USER: &str = "user";

/// The agent of a node elsewhere, as a source of values.
pub(super) struct Source {
    receiver: Receiver,
    /// When it last sent something that made sense; before that, when it sent anything first.
    heard: Time,
    /// Its last delta made no sense, so the hub asked it to begin anew.
    is_broken: bool,
    /// The user knows that.
    pub(super) is_told: bool,
}

/// The values of the nodes of a run, and their sources.
pub(crate) struct Information {
    pub table: Table,
    /// Attributes that the run itself sets.
    own: [AttributeId; 8],
    /// Samples this machine.
    pub(super) machine: Option<Machine>,
    /// Interval between samples of agents elsewhere; `None` if they do not sample.
    pub(super) period: Option<Duration>,
    /// Programs that provide more, on each node: those of the settings that something has asked for.
    pub(super) providers: Vec<ExternalProvider>,
    /// Folders whose file systems are sampled, too: those that tasks choose by.
    pub(super) folders: BTreeSet<String>,
    /// Attributes by which tasks choose: agents report each change of them, whatever the threshold.
    pub(super) exact: BTreeSet<String>,
    /// Rows of the table.
    pub rows: BTreeMap<NodeId, Row>,
    /// Agents elsewhere, while they are there.
    pub(super) sources: BTreeMap<NodeId, Source>,
    /// The service that knows of nodes, if there is one and it answers.
    pub(super) service: Option<Followed>,
    /// Files of which nodes are asked how much is in memory.
    pub page_caches: PageCaches,
}

/// A service whose values are used.
pub(super) struct Followed {
    pub(super) follower: Follower,
    /// The names of the nodes that it knows; `None` if it has not said yet.
    pub(super) names: Option<BTreeSet<String>>,
    /// Nodes of this run that it has values of, and their states; `None` if it has not given one yet.
    pub(super) served: BTreeMap<NodeId, Option<State>>,
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

    /// Whether each value that there is to know of a node has come once.
    pub fn is_known(&self, node: NodeId) -> bool {
        self.has_told(node, |_| true) && (self.is_served(node) || self.has_told_folders(node))
    }

    /// Those that tasks choose by.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().map(String::as_str)
    }

    /// Whether a node has reported all folders by which tasks choose, if only that they do not exist.
    fn has_told_folders(&self, node: NodeId) -> bool {
        let Some(row) = self.rows.get(&node) else { return false };
        let find = |folder: &String| self.table.registry().find(&instance_name("fs_type", folder));
        let mut folders = self.folders.iter();
        folders.all(|it| find(it).is_some_and(|id| self.table.sampled(*row, id).is_some()))
    }

    /// Whether all built-in providers have reported, and those of the external ones that are awaited.
    pub(super) fn has_told(
        &self,
        node: NodeId,
        is_awaited: impl Fn(&ExternalProvider) -> bool,
    ) -> bool {
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

    /// Whether a service gives the values of the node.
    pub(super) fn is_served(&self, node: NodeId) -> bool {
        self.service.as_ref().is_some_and(|service| service.served.contains_key(&node))
    }

    fn served_state(&self, node: NodeId) -> Option<&State> {
        self.service.as_ref()?.served.get(&node)?.as_ref()
    }

    /// Whether a node that is up reports nothing any more.
    pub fn is_suspected(&self, node: NodeId, now: Time) -> bool {
        let Some(period) = self.period else { return false };
        if self.is_served(node) {
            return self.served_state(node).is_some_and(|state| *state != State::Up);
        }
        let limit = (MISSED_PERIODS_MAX * period).max(UNRESPONSIVE_MIN);
        let heard = self.sources.get(&node).map(|source| source.heard);
        heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > limit.as_nanos() as u64)
    }

    /// Sets what the run itself knows of a node, in the order of `of_run::ATTRIBUTES`; values that are not known stay.
    pub(super) fn set_own(&mut self, row: Row, values: [Option<f64>; 7], now: Time) {
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

    /// Applies a delta of a node elsewhere. The error: it makes no sense. With the reason, if the one before did.
    pub(super) fn apply(
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

    /// Providers of a node that have reported values and have not sampled since then; of these, or of all.
    pub(super) fn older(&self, node: NodeId, since: Time, only: Option<&[String]>) -> Vec<String> {
        let Some(row) = self.rows.get(&node) else { return Vec::new() };
        let mut newest: BTreeMap<&str, Time> = BTreeMap::new();
        for (id, attribute) in self.table.registry().iter() {
            if let Some(sampled) = self.table.sampled(*row, id) {
                let known = newest.entry(&attribute.provider).or_insert(sampled);
                *known = sampled.max(*known);
            }
        }
        // They report when they like, or are tried again when it is time.
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
    pub(super) fn awaits_second(&self, node: NodeId, needed: &Needed) -> bool {
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
pub(super) fn is_sampled(provider: &str) -> bool {
    provider != USER && provider != of_run::PROVIDER
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people and programs")]
pub(super) fn age_s(sampled: Time, now: Time) -> f64 {
    (now.0.saturating_sub(sampled.0) / 1_000_000) as f64 / 1000.0
}

/// What is heard of nodes, but by their agents.
pub(crate) enum Heard {
    /// This machine was sampled.
    Finding(Finding),
    /// A service has answered.
    News(News),
}

/// What is heard next; waits for ever if nothing samples and there is no service.
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

#[cfg(test)]
mod tests {
    use rakuda_info::delta::Sender;

    use super::*;
    use crate::information::needed::needed;

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
