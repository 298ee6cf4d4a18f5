//! Services that register here: whose nodes are whose, how long what they said holds, and what is asked of them
//! (docs/design/information.md, A service under a service).
//!
//! It sees frames and times; connections are not its business.

use std::collections::{BTreeMap, BTreeSet};

use hyper::StatusCode;
use rakuda_info::Time;
use rakuda_info::delta::{FrameError, Receiver};
use rakuda_info::query::oldest;
use rakuda_info::table::{NodeId, State, Table};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::freshness::Freshness;

/// Maximum number of services that have registered and are there.
const SOURCES_MAX: usize = 1024;
/// Maximum silence of a service, in times of its validity. One that is silent for longer is taken to be gone, and
/// forgotten.
const GONE_AFTER: u64 = 10;

/// Why what a service says was not taken.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Refused {
    /// It is to begin a new session, with everything.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// It has had this name before another one took it, and is there: neither is to have it in turns.
    #[error("another service is called {0:?}, too: give one of them another name with --name")]
    Twice(String),
    /// There are too many.
    #[error("{SOURCES_MAX} services have registered and are there, which is the most")]
    Full,
}

impl Refused {
    /// What the service that said it is answered with: it acts upon this, and not upon the words.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Frame(_) => StatusCode::CONFLICT,
            Self::Twice(_) => StatusCode::LOCKED,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Fresh values are wanted of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// Counts from 1. The service sends it back when it has sent all that it could get.
    pub number: u64,
    /// Of all questions that it has not answered yet.
    pub freshness: Freshness,
}

/// What comes with a frame.
pub(crate) struct Said {
    pub session: String,
    /// Time for which it holds without another word, ns.
    pub validity_ns: u64,
    /// The last wish that it has fulfilled.
    pub answered: u64,
    /// It is the first one of its session: the service has nothing but what is in it.
    pub begins: bool,
    /// It is the last one: the service ends.
    pub is_last: bool,
}

struct Source {
    session: String,
    /// That before it.
    before: Option<String>,
    /// Its first word has come.
    has_begun: bool,
    receiver: Receiver,
    heard: Time,
    validity_ns: u64,
    /// While it is silent: the states that it reported last.
    before_silence: Option<Vec<(NodeId, State)>>,
    wishes: watch::Sender<Option<Wish>>,
    answered: watch::Sender<u64>,
}

/// The services that register here, and whose nodes are whose.
#[derive(Default)]
pub(crate) struct Sources {
    all: BTreeMap<String, Source>,
    /// The service that reports a node. `None`: it is gone.
    owners: BTreeMap<NodeId, Option<String>>,
    /// Since when nodes that others reported are down.
    down: BTreeMap<NodeId, Time>,
}

impl Sources {
    /// Takes what a service says. A head alone says that it is there.
    pub fn take(
        &mut self,
        name: &str,
        said: &Said,
        frame: &[u8],
        table: &mut Table,
        now: Time,
    ) -> Result<(), Refused> {
        self.forget(table, &|_, source| source.is_gone(now));
        if !self.all.contains_key(name) && self.all.len() == SOURCES_MAX {
            return Err(Refused::Full);
        }
        let Self { all, owners, .. } = self;
        let source = all.entry(name.to_owned()).or_insert_with(|| Source {
            session: said.session.clone(),
            before: None,
            has_begun: false,
            receiver: Receiver::new(),
            heard: now,
            validity_ns: said.validity_ns,
            before_silence: None,
            wishes: watch::channel(None).0,
            answered: watch::channel(0).0,
        });
        if source.before.as_ref() == Some(&said.session) {
            return Err(Refused::Twice(name.to_owned()));
        }
        if source.session != said.session {
            source.before = Some(std::mem::replace(&mut source.session, said.session.clone()));
            source.receiver = Receiver::new();
            source.has_begun = false;
        }
        source.has_begun |= said.begins || !frame.is_empty();
        if !source.has_begun {
            return Err(FrameError::Gap { expected: 1, found: 0 }.into());
        }
        for (node, state) in source.before_silence.take().into_iter().flatten() {
            if is_of(owners.get(&node), name) {
                table.set_state(node, state);
            }
        }
        source.heard = now;
        source.validity_ns = said.validity_ns;
        if !frame.is_empty() {
            let may = |table: &Table, node: &str| match table.find_node(node) {
                None => true,
                Some(id) => owners
                    .get(&id)
                    .is_some_and(|it| it.as_deref().is_none_or(|owner| owner == name)),
            };
            let known = source.receiver.nodes().to_vec();
            source.receiver.apply_where(frame, table, now, &may)?;
            let told = source.receiver.nodes();
            if *told != *known {
                owners.extend(told.iter().map(|id| (*id, Some(name.to_owned()))));
                // Of a session before, and not in this one.
                let lost =
                    owners.iter().filter(|(id, it)| is_of(Some(it), name) && !told.contains(id));
                lost.for_each(|(id, _)| table.set_state(*id, State::Down));
            }
        }
        source.answered.send_replace(said.answered);
        if said.is_last {
            self.forget(table, &|it, _| it == name);
        }
        Ok(())
    }

    /// Nodes of services that are silent for longer than what they said holds are suspected, and in the end down.
    pub fn note_silence(&mut self, table: &mut Table, now: Time) {
        self.forget(table, &|_, source| source.is_gone(now));
        let Self { all, owners, .. } = self;
        for (name, source) in all {
            let silent_ns = now.0.saturating_sub(source.heard.0);
            if silent_ns <= source.validity_ns || source.before_silence.is_some() {
                continue;
            }
            let own = owners.iter().filter(|(_, it)| is_of(Some(it), name)).map(|(id, _)| *id);
            let before: Vec<(NodeId, State)> =
                own.map(|id| (id, table.get_node(id).state.clone())).collect();
            for (id, _) in before.iter().filter(|(_, state)| *state == State::Up) {
                table.set_state(*id, State::Suspected);
            }
            source.before_silence = Some(before);
        }
    }

    /// Forgets services that are gone. One may lose its nodes to others, so nothing is kept of it, and it is to report
    /// all anew. Its nodes are down until a service reports them.
    fn forget(&mut self, table: &mut Table, is_gone: &dyn Fn(&str, &Source) -> bool) {
        let Self { all, owners, .. } = self;
        all.retain(|name, source| {
            if !is_gone(name, source) {
                return true;
            }
            for (id, owner) in owners.iter_mut().filter(|(_, it)| is_of(Some(it), name)) {
                table.set_state(*id, State::Down);
                *owner = None;
            }
            false
        });
    }

    /// Removes nodes that have been down for `keep_ns` and that no service reports: a service below that is there and
    /// has one keeps it by its own setting.
    pub fn remove_long_down(&mut self, table: &mut Table, now: Time, keep_ns: u64) {
        let Self { all, owners, down } = self;
        for id in owners.keys() {
            if table.get_node(*id).state == State::Down {
                down.entry(*id).or_insert(now);
            } else {
                down.remove(id);
            }
        }
        let is_long = |since: &Time| now.0.saturating_sub(since.0) >= keep_ns;
        let mut long: BTreeSet<NodeId> =
            down.iter().filter(|(_, since)| is_long(since)).map(|(id, _)| *id).collect();
        if long.is_empty() {
            return;
        }
        for source in all.values() {
            for id in source.receiver.nodes() {
                long.remove(id);
            }
        }
        for id in long {
            owners.remove(&id);
            down.remove(&id);
            table.remove(id);
        }
    }

    /// Whether another service reports a node, or did.
    pub fn owns(&self, node: NodeId) -> bool {
        self.owners.contains_key(&node)
    }

    /// What is wished of a service, now and later. `None`: no service has that name.
    pub fn wishes(&self, name: &str) -> Option<watch::Receiver<Option<Wish>>> {
        Some(self.all.get(name)?.wishes.subscribe())
    }

    /// Asks services with values that are too old for fresh ones, and returns what shows that a wish was fulfilled.
    pub fn ask(
        &mut self,
        freshness: &Freshness,
        table: &Table,
        now: Time,
    ) -> Vec<(watch::Receiver<u64>, u64)> {
        let providers: std::collections::BTreeSet<&str> =
            table.registry().iter().map(|(_, it)| it.provider.as_str()).collect();
        let is_old = |id: &NodeId| {
            providers.iter().any(|provider| {
                let age_ns = freshness.of(provider);
                let sampled = oldest(table, *id, provider);
                let (Some(age_ns), Some(sampled)) = (age_ns, sampled) else { return false };
                now.0.saturating_sub(sampled.0) > age_ns
            })
        };
        let mut asked = Vec::new();
        for source in self.all.values().filter(|it| it.before_silence.is_none()) {
            if !source.receiver.nodes().iter().any(is_old) {
                continue;
            }
            let answered = *source.answered.borrow();
            let mut number = 1;
            source.wishes.send_modify(|wish| {
                let waiting = wish.as_ref().filter(|it| it.number > answered);
                let freshness =
                    waiting.map_or_else(|| freshness.clone(), |it| it.freshness.and(freshness));
                number = wish.as_ref().map_or(0, |it| it.number) + 1;
                *wish = Some(Wish { number, freshness });
            });
            asked.push((source.answered.subscribe(), number));
        }
        asked
    }
}

fn is_of(owner: Option<&Option<String>>, name: &str) -> bool {
    owner.is_some_and(|it| it.as_deref() == Some(name))
}

impl Source {
    fn is_gone(&self, now: Time) -> bool {
        now.0.saturating_sub(self.heard.0) > self.validity_ns.saturating_mul(GONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_info::delta::Sender;
    use rakuda_info::value::Value;

    const S: u64 = 1_000_000_000;

    /// A service with nodes, and how it reports them.
    struct Below {
        table: Table,
        sender: Sender,
        session: &'static str,
    }

    impl Below {
        fn new(session: &'static str, nodes: &[&str]) -> Self {
            let mut table = Table::new();
            for name in nodes {
                table.node(None, name);
            }
            Self { table, sender: Sender::new(u64::MAX).telling_samples(), session }
        }

        fn load(&mut self, node: &str, load: f64, at: Time) {
            let (node, id) = (self.table.find_node(node), self.table.registry().find("load1"));
            self.table.set(node.unwrap(), id.unwrap(), Value::Number(load), at);
        }

        fn said(&self, answered: u64) -> Said {
            let session = self.session.to_owned();
            Said { session, validity_ns: 3 * S, answered, begins: false, is_last: false }
        }
    }

    /// A service that they register with.
    #[derive(Default)]
    struct Above {
        table: Table,
        sources: Sources,
    }

    impl Above {
        fn hear(
            &mut self,
            name: &str,
            below: &mut Below,
            answered: u64,
            now: Time,
        ) -> Result<(), Refused> {
            let frame = below.sender.take(&below.table, now).unwrap_or_default();
            self.sources.take(name, &below.said(answered), &frame, &mut self.table, now)
        }

        fn states(&self) -> String {
            let states = self.table.nodes().map(|(_, it)| format!("{}:{}", it.name, it.state));
            states.collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn silence_makes_nodes_suspected_then_down_and_a_word_brings_them_back() {
        let (mut above, mut below) = (Above::default(), Below::new("1", &["a", "b"]));
        let down = below.table.find_node("b").unwrap();
        below.table.set_state(down, State::Down);
        above.hear("one", &mut below, 0, Time(0)).unwrap();
        for (seconds, states) in [
            (3, "a:up b:down"),
            (4, "a:suspected b:down"),
            (30, "a:suspected b:down"),
            (31, "a:down b:down"),
        ] {
            above.sources.note_silence(&mut above.table, Time(seconds * S));
            assert_eq!(above.states(), states, "after {seconds} s");
        }
        let gap = above.hear("one", &mut below, 0, Time(40 * S)).unwrap_err();
        assert!(matches!(gap, Refused::Frame(FrameError::Gap { .. })), "all of it, who was gone");
        below.sender.restart();
        above.hear("one", &mut below, 0, Time(40 * S)).unwrap();
        assert_eq!(above.states(), "a:up b:down");
        above.sources.note_silence(&mut above.table, Time(44 * S));
        above.hear("one", &mut below, 0, Time(45 * S)).unwrap();
        assert_eq!(above.states(), "a:up b:down", "a word is enough from who was not gone");
    }

    #[test]
    fn an_index_without_nodes_is_there_once_it_has_begun() {
        let (mut above, below) = (Above::default(), Below::new("1", &[]));
        let mut take =
            |said: Said| above.sources.take("index", &said, b"", &mut above.table, Time(0));
        let gap = Err(Refused::Frame(FrameError::Gap { expected: 1, found: 0 }));
        assert_eq!(take(below.said(0)), gap, "it may have told more to one that has forgotten it");
        assert_eq!(take(Said { begins: true, ..below.said(0) }), Ok(()));
        assert_eq!(take(below.said(0)), Ok(()));
    }

    #[test]
    fn two_services_of_one_name_do_not_have_it_in_turns() {
        let mut above = Above::default();
        let (mut first, mut second) = (Below::new("1", &["a"]), Below::new("2", &["b"]));
        above.hear("one", &mut first, 0, Time(0)).unwrap();
        above.hear("one", &mut second, 0, Time(S)).unwrap();
        first.load("a", 1.0, Time(S));
        let twice = above.hear("one", &mut first, 0, Time(2 * S));
        assert_eq!(twice, Err(Refused::Twice("one".to_owned())));
        second.load("b", 1.0, Time(2 * S));
        above.hear("one", &mut second, 0, Time(3 * S)).unwrap();
        // It has its name again when the other one is gone.
        above.sources.note_silence(&mut above.table, Time(40 * S));
        above.hear("one", &mut Below::new("1", &["a"]), 0, Time(41 * S)).unwrap();
    }

    #[test]
    fn a_node_is_told_of_by_one_service_until_that_is_gone() {
        let mut above = Above::default();
        above.table.node(None, "own");
        above.hear("one", &mut Below::new("1", &["a"]), 0, Time(0)).unwrap();
        let foreign = |node: &str| Err(Refused::Frame(FrameError::Foreign(node.to_owned())));
        assert_eq!(above.hear("two", &mut Below::new("2", &["b", "a"]), 0, Time(S)), foreign("a"));
        assert_eq!(above.hear("two", &mut Below::new("2", &["own"]), 0, Time(S)), foreign("own"));
        assert_eq!(above.states(), "own:up a:up", "nothing of a refused frame is taken");
        above.hear("two", &mut Below::new("3", &["a"]), 0, Time(31 * S)).unwrap();
        assert!(above.sources.owns(above.table.find_node("a").unwrap()));
        assert!(!above.sources.owns(above.table.find_node("own").unwrap()));
        let mut first = Below::new("1", &["a"]);
        assert_eq!(
            above.hear("one", &mut first, 0, Time(32 * S)),
            foreign("a"),
            "it was gone too long"
        );
    }

    #[test]
    fn a_node_that_another_service_tells_of_is_as_that_one_says() {
        let mut above = Above::default();
        above.hear("one", &mut Below::new("1", &["a", "b"]), 0, Time(0)).unwrap();
        above.sources.note_silence(&mut above.table, Time(31 * S));
        assert_eq!(above.states(), "a:down b:down");
        let mut below = Below::new("2", &["b"]);
        above.hear("two", &mut below, 0, Time(32 * S)).unwrap();
        for seconds in 32..60 {
            above.hear("two", &mut below, 0, Time(seconds * S)).unwrap();
            above.sources.note_silence(&mut above.table, Time(seconds * S));
            assert_eq!(above.states(), "a:down b:up", "after {seconds} s");
        }
        above.hear("one", &mut Below::new("3", &["a"]), 0, Time(60 * S)).unwrap();
        assert_eq!(above.states(), "a:up b:up", "it comes back with what is left to it");
    }

    #[test]
    fn who_ends_says_so() {
        let (mut above, mut below) = (Above::default(), Below::new("1", &["a"]));
        above.hear("one", &mut below, 0, Time(0)).unwrap();
        let said = Said { is_last: true, ..below.said(0) };
        above.sources.take("one", &said, b"", &mut above.table, Time(S)).unwrap();
        assert_eq!(above.states(), "a:down");
        assert!(above.sources.wishes("one").is_none());
        above.hear("two", &mut Below::new("2", &["a"]), 0, Time(S)).unwrap();
        assert_eq!(above.states(), "a:up", "others may tell of its nodes at once");
    }

    #[test]
    fn who_is_gone_makes_room_for_others() {
        let mut above = Above::default();
        let come = |above: &mut Above, number: usize, now| {
            let (name, node) = (format!("s{number}"), format!("n{number}"));
            above.hear(&name, &mut Below::new("1", &[node.as_str()]), 0, now)
        };
        for number in 0..SOURCES_MAX {
            come(&mut above, number, Time(0)).unwrap();
        }
        assert_eq!(come(&mut above, SOURCES_MAX, Time(S)), Err(Refused::Full));
        come(&mut above, SOURCES_MAX, Time(31 * S)).unwrap();
        assert!(above.sources.wishes("s0").is_none() && above.states().contains("n0:down"));
    }

    #[test]
    fn a_new_session_tells_all_and_what_it_does_not_tell_is_down() {
        let mut above = Above::default();
        above.hear("one", &mut Below::new("1", &["a", "b"]), 0, Time(0)).unwrap();
        let mut anew = Below::new("2", &["b"]);
        let gap = above.sources.take("one", &anew.said(0), b"", &mut above.table, Time(S));
        assert_eq!(gap, Err(Refused::Frame(FrameError::Gap { expected: 1, found: 0 })));
        above.hear("one", &mut anew, 0, Time(S)).unwrap();
        assert_eq!(above.states(), "a:down b:up");
    }

    #[test]
    fn nodes_that_are_long_down_are_removed_by_each_level_in_turn() {
        const KEEP: u64 = 100 * S;
        let mut above = Above::default();
        let own = above.table.node(None, "own");
        above.table.set_state(own, State::Down);
        let mut below = Below::new("1", &["a", "b"]);
        let look = |above: &mut Above, seconds: u64| {
            let now = Time(seconds * S);
            above.sources.note_silence(&mut above.table, now);
            above.sources.remove_long_down(&mut above.table, now, KEEP);
        };
        let b = below.table.find_node("b").unwrap();
        below.table.set_state(b, State::Down);
        for seconds in 0..110 {
            above.hear("one", &mut below, 0, Time(seconds * S)).unwrap();
            look(&mut above, seconds);
        }
        assert_eq!(above.states(), "own:down a:up b:down", "the one below has it still");
        below.table.remove(b);
        above.hear("one", &mut below, 0, Time(110 * S)).unwrap();
        look(&mut above, 110);
        assert_eq!(above.states(), "own:down a:up", "own nodes are for others to remove");
        below.table.node(None, "c");
        above.hear("one", &mut below, 0, Time(111 * S)).unwrap();
        assert_eq!(above.states(), "own:down a:up c:up", "the row is used again");
        above.hear("two", &mut Below::new("2", &["b"]), 0, Time(111 * S)).unwrap();
        assert_eq!(above.states(), "own:down a:up c:up b:up");
        // Both are silent for good: down after 30 s and a look, removed 100 s later.
        look(&mut above, 142);
        for (seconds, count) in [(241, 4), (242, 1)] {
            look(&mut above, seconds);
            assert_eq!(above.table.len(), count, "after {seconds} s");
        }
        below.sender.restart();
        above.hear("one", &mut below, 0, Time(250 * S)).unwrap();
        assert_eq!(above.states(), "own:down a:up c:up", "it may come back");
    }

    #[test]
    fn who_has_old_values_is_asked_and_all_that_wait_are_answered() {
        let (mut above, mut below) = (Above::default(), Below::new("1", &["a"]));
        below.load("a", 1.0, Time(10 * S));
        above.hear("one", &mut below, 0, Time(10 * S)).unwrap();
        let ask = |above: &mut Above, words: &[&str]| {
            let mut freshness = Freshness::default();
            for word in words {
                freshness.add(word).unwrap();
            }
            above.sources.ask(&freshness, &above.table, Time(12 * S))
        };
        assert!(ask(&mut above, &["2s"]).is_empty(), "it is fresh enough");
        assert!(ask(&mut above, &["memory=0s"]).is_empty(), "nobody has told of memory");
        let first = ask(&mut above, &["load=1s"]);
        let second = ask(&mut above, &["load=500ms"]);
        let wish = above.sources.wishes("one").unwrap().borrow().clone().unwrap();
        assert_eq!((wish.number, wish.freshness.of("load")), (2, Some(S / 2)));
        above.hear("one", &mut below, 2, Time(12 * S)).unwrap();
        for (answered, number) in first.iter().chain(&second) {
            assert!(*answered.borrow() >= *number);
        }
        let third = ask(&mut above, &["load=1s"]);
        assert_eq!(third[0].1, 3);
        let wish = above.sources.wishes("one").unwrap().borrow().clone().unwrap();
        assert_eq!(wish.freshness.of("load"), Some(S), "what was answered counts no more");
        assert!(above.sources.wishes("two").is_none());
    }
}
