//! Providers that something else has started and that register by themselves: which there are, how long their values
//! hold, and how much they may send. It sees bytes and times; how they come is not known here.

use std::collections::BTreeMap;

use rakuda_core::Time;

use crate::external::{self, OUTPUT_BYTES_MAX, parse};
use crate::format::digits;
use crate::registry::ATTRIBUTES_MAX;
use crate::table::{NodeId, Table};

/// Maximum number of registered providers of a node.
pub const NODE_MAX: usize = 128;
/// Maximum number of registered providers in all.
pub const ALL_MAX: usize = 1024;
/// Maximum number of attributes with those of registered providers: the rest is for what samples.
const NAMES_MAX: usize = ATTRIBUTES_MAX / 2;
/// Maximum silence of a provider, in its validities, before it is forgotten.
const GONE_AFTER: u64 = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Why something was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are too many providers.
    #[error(
        "as many providers have registered as may: {NODE_MAX} of a node, {ALL_MAX} in all; end one of them"
    )]
    Full,
    /// It has sent too much.
    #[error(
        "provider {0} has sent more than 128 KiB within a second; expected less, or less often"
    )]
    TooMuch(String),
    /// There are too many attributes.
    #[error("provider {0} has new values, and there are {NAMES_MAX} attributes already")]
    Names(String),
    /// It has sent nothing that makes sense.
    #[error("{0}")]
    Rubbish(String),
}

/// The result of what a provider sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// It was not there, or had been silent for too long: its earlier values are not known.
    pub is_new: bool,
    /// What was not taken, and why.
    pub complaints: Vec<String>,
}

struct Registered {
    heard: Time,
    /// Time for which its values hold without another word, ns.
    validity_ns: u64,
    /// It has been silent for longer, and its values are undefined.
    is_silent: bool,
    /// When a second began, and how many bytes came in it.
    second: (Time, usize),
}

/// The registered providers of all nodes, and how long their values hold.
#[derive(Default)]
pub struct Registrations {
    all: BTreeMap<(NodeId, String), Registered>,
}

impl Registrations {
    /// Takes what a provider sends about a node, as one would print it; an empty text says that it is there.
    pub fn take(
        &mut self,
        table: &mut Table,
        (node, name): (NodeId, &str),
        validity_ns: u64,
        said: &[u8],
        now: Time,
    ) -> Result<Taken, Refused> {
        let key = (node, name.to_owned());
        let of_node = self.all.keys().filter(|(other, _)| *other == node).count();
        let is_full = of_node >= NODE_MAX || self.all.len() >= ALL_MAX;
        if is_full && !self.all.contains_key(&key) {
            return Err(Refused::Full);
        }
        let new = || Registered { heard: now, validity_ns, is_silent: true, second: (now, 0) };
        let known = self.all.entry(key).or_insert_with(new);
        if now.0.saturating_sub(known.second.0.0) >= SECOND_NS {
            known.second = (now, 0);
        }
        known.second.1 = known.second.1.saturating_add(said.len());
        if known.second.1 > OUTPUT_BYTES_MAX {
            return Err(Refused::TooMuch(name.to_owned()));
        }
        (known.heard, known.validity_ns) = (now, validity_ns);
        let is_new = std::mem::replace(&mut known.is_silent, false);
        let output = parse(said);
        let registry = table.registry();
        let new = output.values.iter().filter(|it| registry.find(&it.name).is_none()).count();
        if new > 0 && registry.len() + new > NAMES_MAX {
            return Err(Refused::Names(name.to_owned()));
        }
        let complaints = external::note(table, node, name, &output, true, now);
        match complaints.first().filter(|_| output.values.is_empty()) {
            Some(complaint) => Err(Refused::Rubbish(complaint.clone())),
            None => Ok(Taken { is_new, complaints }),
        }
    }

    /// Ends a provider: its values are not known any more. False if there is none.
    pub fn end(&mut self, table: &mut Table, (node, name): (NodeId, &str), now: Time) -> bool {
        let is_there = self.all.remove(&(node, name.to_owned())).is_some();
        if is_there {
            external::forget(table, node, name, now);
        }
        is_there
    }

    /// Ends all providers of a name, which something else provides from now on.
    pub fn end_all_of(&mut self, table: &mut Table, name: &str, now: Time) {
        let of_name = self.all.keys().filter(|(_, it)| it == name);
        let nodes: Vec<NodeId> = of_name.map(|(node, _)| *node).collect();
        for node in nodes {
            self.end(table, (node, name), now);
        }
    }

    /// Makes values undefined whose providers have been silent for too long; in the end these are forgotten.
    pub fn note_silence(&mut self, table: &mut Table, now: Time) {
        let mut gone = Vec::new();
        for ((node, name), known) in &mut self.all {
            let silent_ns = now.0.saturating_sub(known.heard.0);
            if silent_ns > known.validity_ns.saturating_mul(GONE_AFTER) {
                gone.push((*node, name.clone()));
            } else if silent_ns > known.validity_ns && !known.is_silent {
                known.is_silent = true;
                #[expect(clippy::cast_precision_loss, reason = "a time for people")]
                let seconds = digits(known.validity_ns as f64 / 1e9);
                let why = format!("provider {name} has said nothing for {seconds} s");
                external::fail(table, *node, name, &why, now);
            }
        }
        for (node, name) in gone {
            self.end(table, (node, &name), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    struct Service {
        table: Table,
        node: NodeId,
        registrations: Registrations,
    }

    impl Service {
        fn new() -> Self {
            let mut table = Table::new();
            let node = table.node(None, "a");
            Self { table, node, registrations: Registrations::default() }
        }

        fn take(&mut self, name: &str, said: &str, second: u64) -> Result<Taken, Refused> {
            let Self { table, node, registrations } = self;
            let now = Time(second * SECOND_NS);
            registrations.take(table, (*node, name), 3 * SECOND_NS, said.as_bytes(), now)
        }

        fn is_new(&mut self, name: &str, said: &str, second: u64) -> bool {
            self.take(name, said, second).unwrap().is_new
        }

        fn pass(&mut self, second: u64) {
            self.registrations.note_silence(&mut self.table, Time(second * SECOND_NS));
        }

        fn value(&self, name: &str) -> Option<Value> {
            self.table.cell(self.node, self.table.registry().find(name)?).map(|cell| cell.value)
        }
    }

    #[test]
    fn what_one_said_holds_as_long_as_it_says_that_it_is_there() {
        let mut service = Service::new();
        assert!(service.is_new("sensor", "depth 3 m\nmode deep", 0));
        assert!(!service.is_new("sensor", "depth 4 m", 2), "what it does not name stays");
        assert!(!service.is_new("sensor", "", 4));
        service.pass(7);
        assert_eq!(service.value("depth"), Some(Value::Number(4.0)));
        assert_eq!(service.value("mode"), Some(Value::text("deep")));
        service.pass(8);
        let why = "provider sensor has said nothing for 3 s";
        assert_eq!(service.value("depth"), Some(Value::undefined(why)));
        assert_eq!(service.value("provider_error('sensor')"), Some(Value::text(why)));
        assert!(service.is_new("sensor", "depth 5 m", 9), "it is to tell all again");
        assert_eq!(service.value("depth"), Some(Value::Number(5.0)));
        assert_eq!(
            service.value("provider_error('sensor')"),
            Some(Value::undefined("it has no fault"))
        );
        service.pass(39);
        assert_eq!(service.registrations.all.len(), 1);
        service.pass(40);
        assert_eq!(service.registrations.all.len(), 0);
        assert_eq!(
            service.value("provider_error('sensor')"),
            Some(Value::free("its provider was removed"))
        );
    }

    #[test]
    fn one_that_ends_leaves_nothing_that_is_known() {
        let mut service = Service::new();
        service.take("sensor", "{\"depth\": 3}", 0).unwrap();
        let Service { table, node, registrations } = &mut service;
        assert!(registrations.end(table, (*node, "sensor"), Time(1)));
        assert!(!registrations.end(table, (*node, "sensor"), Time(1)));
        assert_eq!(service.value("depth"), Some(Value::free("its provider was removed")));
        service.take("sensor", "depth 4", 1).unwrap();
        let Service { table, registrations, .. } = &mut service;
        registrations.end_all_of(table, "sensor", Time(2 * SECOND_NS));
        assert_eq!(service.value("depth"), Some(Value::free("its provider was removed")));
        assert!(service.is_new("sensor", "depth 5", 3));
    }

    #[test]
    fn what_makes_no_sense_or_is_anothers_is_told() {
        let mut service = Service::new();
        let taken = service.take("sensor", "depth 3\nload1 9\nALONE", 0).unwrap();
        assert_eq!(taken.complaints.len(), 2, "{:?}", taken.complaints);
        assert!(taken.complaints[1].contains("load1 is set by the provider load"));
        assert_eq!(service.value("depth"), Some(Value::Number(3.0)));
        let rubbish = Refused::Rubbish("line 1: expected `name value [unit]`".to_owned());
        assert_eq!(service.take("sensor", "rubbish", 1), Err(rubbish));
        assert_eq!(service.value("depth"), Some(Value::Number(3.0)));
    }

    #[test]
    fn they_are_bounded_in_number_names_and_bytes() {
        let mut service = Service::new();
        let line = |length: usize| format!("x \"{}\"", "x".repeat(length - 4));
        assert!(service.take("p0", &line(100_000), 0).is_ok());
        let too_much = Err(Refused::TooMuch("p0".to_owned()));
        assert_eq!(service.take("p0", &line(100_000), 0), too_much, "in the same second");
        assert!(service.take("p1", "", 0).is_ok(), "others may");
        assert!(service.take("p0", &line(100_000), 1).is_ok());
        for number in 2..NODE_MAX {
            assert!(service.is_new(&format!("p{number}"), "", 1));
        }
        assert_eq!(service.take("more", "", 1), Err(Refused::Full));
        assert!(!service.is_new("p1", "", 1));
        let names = |provider: usize| {
            (0..200).map(|name| format!("n{provider}_{name} 1")).collect::<Vec<_>>().join("\n")
        };
        let refused = (1..NODE_MAX)
            .find(|number| service.take(&format!("p{number}"), &names(*number), 2).is_err());
        assert!(service.table.registry().len() <= NAMES_MAX);
        let refused = format!("p{}", refused.unwrap());
        let again = service.take(&refused, &names(1), 3);
        assert!(again.is_ok(), "names that are there are no new ones: {again:?}");
    }
}
