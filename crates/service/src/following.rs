//! Follows a service: what it knows of nodes, for a program that would else sample them itself
//! (docs/design/information.md, values from a service).
//!
//! A thread asks for everything again and again, since times of samples matter as much as values. It knows no run.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rakuda_info::Time;
use rakuda_info::catalogue;
use rakuda_info::registry::{Attribute, Threshold};
use rakuda_info::table::{NodeId, State, Table};
use rakuda_info::value::{Kind, Value};
use serde_json::Value as Json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::client::{Client, ClientError};
use crate::http::encoded;
use crate::service::now;

/// Time between two questions, in times as long as the last answer took, so that a large service is not asked all the
/// time.
const REST: u32 = 10;
/// Timeout for an answer of a service, in periods.
const MISSED_PERIODS_MAX: u32 = 3;
/// Minimum of that timeout.
const UNRESPONSIVE_MIN: Duration = Duration::from_secs(1);

/// What is asked for.
const ALL: &str = "/v1/nodes";
const ALL_SAMPLED_NOW: &str = "/v1/nodes?max_age=0";

/// What is heard of a service.
#[derive(Debug)]
pub enum News {
    /// All that it knows.
    Known(Box<Table>),
    /// Why it does not answer, or its answer makes no sense. Nothing follows.
    Silent(String),
}

/// A service that is followed: its news, and the wishes that it gets.
#[derive(Debug)]
pub struct Follower {
    news: UnboundedReceiver<News>,
    wishes: Sender<Vec<String>>,
}

impl Follower {
    /// Begins to ask; with no more than `period` between two answers, as long as these are quick.
    pub fn start(client: Client, period: Duration) -> std::io::Result<Self> {
        let (sender, news) = unbounded_channel();
        let (wishes, wished) = channel();
        let limit = (MISSED_PERIODS_MAX * period).max(UNRESPONSIVE_MIN);
        let thread = move || {
            let mut known = Known { client, attributes: BTreeMap::new() };
            let mut path = ALL;
            loop {
                let Some(took) = known.ask(path, limit, &sender) else { return };
                path = match wished.recv_timeout(period.max(took * REST)) {
                    // One answer is for all wishes until then.
                    Ok(first) => {
                        let wishes = std::iter::once(first).chain(wished.try_iter());
                        known.have_sampled(wishes.flatten().collect())
                    }
                    Err(RecvTimeoutError::Timeout) => ALL,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
            }
        };
        std::thread::Builder::new().name("follower".to_owned()).spawn(thread)?;
        Ok(Self { news, wishes })
    }

    /// The next news. After a silence it never returns.
    pub async fn news(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// These providers are to sample now.
    pub fn wish(&self, providers: Vec<String>) {
        // A follower that has ended has reported that already.
        let _ = self.wishes.send(providers);
    }
}

/// What the thread knows.
struct Known {
    client: Client,
    /// By name; values say nothing of their providers.
    attributes: BTreeMap<String, Attribute>,
}

impl Known {
    /// Has these providers sample, and no others, and returns what to ask for then. A service that does not know one of
    /// them has all sample.
    fn have_sampled(&self, mut providers: Vec<String>) -> &'static str {
        providers.sort_unstable();
        providers.dedup();
        // This asks for no node: the answer that follows has all of them.
        let path = format!("{ALL_SAMPLED_NOW}&limit=0&only={}", encoded(&providers.join(",")));
        self.client.get(&path).map_or(ALL_SAMPLED_NOW, |_| ALL)
    }

    /// Asks until an answer comes, passes it on, and returns how long that took. `None`: no answer came, or nobody
    /// listens.
    fn ask(
        &mut self,
        path: &str,
        limit: Duration,
        sender: &UnboundedSender<News>,
    ) -> Option<Duration> {
        let since = now();
        loop {
            let asked = now();
            match self.look(path) {
                Ok(table) => {
                    sender.send(News::Known(Box::new(table))).ok()?;
                    return Some(passed(asked));
                }
                Err(why) if passed(since) >= limit => {
                    let _ = sender.send(News::Silent(why));
                    return None;
                }
                Err(_) => crate::service::pass(limit / 8),
            }
        }
    }

    fn look(&mut self, path: &str) -> Result<Table, String> {
        let answer = self.get(path)?;
        let is_new = |name: &str| !self.attributes.contains_key(name);
        if nodes_of(&answer).any(|node| values_of(node).any(|(name, _)| is_new(name))) {
            self.learn()?;
        }
        Ok(table_of(&answer, &self.attributes, now()))
    }

    /// Which attributes there are.
    fn learn(&mut self) -> Result<(), String> {
        let answer = self.get("/v1/attributes")?;
        for described in answer["attributes"].as_array().into_iter().flatten() {
            let text = |field: &str| described[field].as_str().unwrap_or_default().to_owned();
            let kind = if described["kind"] == "text" { Kind::Text } else { Kind::Number };
            let (name, unit, provider) = (text("name"), text("unit"), text("provider"));
            let threshold = Threshold::default();
            let attribute = Attribute { name: name.clone(), unit, kind, threshold, provider };
            self.attributes.insert(name, attribute);
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Result<Json, String> {
        let body = self.client.get(path).map_err(|error| match error {
            ClientError::Refused { status: 401, .. } => {
                "its token is another one (status 401)".to_owned()
            }
            other => format!("failed to {other}"),
        })?;
        let answer: Json =
            serde_json::from_slice(&body).map_err(|error| format!("its answer: {error}"))?;
        match answer["version"].as_u64() {
            Some(2) => Ok(answer),
            other => Err(format!("its answer is of version {}, expected 2", other.unwrap_or(0))),
        }
    }
}

fn passed(since: Time) -> Duration {
    Duration::from_nanos(now().0.saturating_sub(since.0))
}

fn nodes_of(answer: &Json) -> impl Iterator<Item = &Json> {
    answer["nodes"].as_array().into_iter().flatten()
}

fn values_of(node: &Json) -> impl Iterator<Item = (&String, &Json)> {
    node["values"].as_object().into_iter().flatten()
}

/// What an answer says; ages are as of `now`.
fn table_of(answer: &Json, attributes: &BTreeMap<String, Attribute>, now: Time) -> Table {
    let mut table = Table::new();
    for described in nodes_of(answer) {
        let row = table.node(None, described["node"].as_str().unwrap_or_default());
        table.set_state(row, State::of(described["state"].as_str().unwrap_or_default()));
        for (name, told) in values_of(described) {
            if let Some(attribute) = attributes.get(name) {
                note(&mut table, row, attribute, told, now);
            }
        }
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an age in ns, not negative"
)]
fn note(table: &mut Table, row: NodeId, attribute: &Attribute, told: &Json, now: Time) {
    let value = match &told["value"] {
        Json::Number(number) => Value::number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::text(text.as_str()),
        _ => {
            let why = told["why"].as_str().unwrap_or("the service does not say why");
            let is_built_in = catalogue::of(&attribute.name).is_some();
            // What else it will be is the service's to say.
            if is_built_in { Value::undefined(why) } else { Value::free(why) }
        }
    };
    let age_ns = (told["age_s"].as_f64().unwrap_or(0.0) * 1e9) as u64;
    // A built-in attribute that means something else there is left out.
    if let Ok(id) = table.find_or_define(attribute.clone(), &[row]) {
        table.set(row, id, value, Time(now.0.saturating_sub(age_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_becomes_a_table_with_times_of_samples() {
        let attribute = |name: &str, kind| {
            let (unit, provider) = (String::new(), "load".to_owned());
            let threshold = Threshold::default();
            (name.to_owned(), Attribute { name: name.to_owned(), unit, kind, threshold, provider })
        };
        let known = [attribute("load1", Kind::Number), attribute("mine", Kind::Text)].into();
        let answer = json!({"version": 2, "nodes": [
            {"node": "a", "state": "suspected", "values": {
                "load1": {"value": 0.5, "unit": "", "age_s": 2.0},
                "mine": {"value": null, "unit": "", "age_s": 1.0, "why": "it hangs"},
                "other": {"value": 7, "unit": ""},
            }},
            {"node": "b", "state": "up", "values": {}},
        ]});
        let table = table_of(&answer, &known, Time(5_000_000_000));
        let row = table.find_node("a").unwrap();
        let cell = |name: &str| table.cell(row, table.registry().find(name)?);
        let load = cell("load1").unwrap();
        assert_eq!((load.value, load.sampled), (Value::number(0.5), Time(3_000_000_000)));
        assert_eq!(cell("mine").unwrap().value, Value::free("it hangs"));
        assert!(cell("other").is_none(), "nobody has said what it is");
        assert_eq!(table.nodes().count(), 2);
        assert_ne!(table.get_node(row).state, State::Up);
    }
}
