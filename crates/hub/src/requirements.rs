//! Task properties, from the names that people use to the numbers that the core counts with.

use rakuda_core::files::matches_glob;
use rakuda_core::{Capacity, Devices, NodeId, Requirement, ResourceId, WaitsForSize};
use rakuda_proto::Text;
use rakuda_proto::front::{ListOrder, RequirementDefinition, StrictField};
use rakuda_proto::memory;
use std::collections::BTreeMap;

/// The message about properties that no node can give in full.
#[derive(Debug, PartialEq, Eq)]
pub struct Shortage {
    /// For the user, with the task and its place.
    pub text: String,
    /// The user has said that all of it must be there.
    pub refused: bool,
}

/// Makes a [`Shortage`] of each field of a definition that asks for too much.
struct Shortages<'a> {
    definition: &'a RequirementDefinition,
    found: Vec<Shortage>,
}

impl Shortages<'_> {
    fn refuses(&self, field: StrictField) -> bool {
        self.definition.strict.contains(&field)
    }

    /// `asked` and `there` fit after "asks for" and "but"; `instead` is what is done when that is allowed, `ways`
    /// what the user can do when it is not, the last of which is to allow it.
    fn add(&mut self, field: StrictField, asked: &str, there: &str, instead: &str, ways: &str) {
        let task = self.definition.task.to_display();
        let place = self.definition.place.as_ref().map(Text::to_display);
        let refused = self.refuses(field);
        let text = match (refused, place) {
            (true, place) => {
                let place = place.map_or(String::new(), |place| format!("{place}: "));
                format!(
                    "{place}needs: task {task} asks for {asked}, but {there}: {ways} in the place of `needs`)"
                )
            }
            (false, Some(place)) => {
                format!("task {task} ({place}) asks for {asked}, but {there}; {instead}")
            }
            (false, None) => format!("task {task} asks for {asked}, but {there}; {instead}"),
        };
        self.found.push(Shortage { text, refused });
    }
}

/// `definition` with `--oversubscribe`: a task has what cores there are, and one that asks for nodes also what else
/// there is on them.
pub fn oversubscribed(definition: &RequirementDefinition) -> RequirementDefinition {
    let mut lenient = definition.clone();
    let is_wide = definition.nodes.is_some();
    lenient.strict.retain(|field| *field != StrictField::Cores && !is_wide);
    lenient
}

/// The core's form of `definition`, and what is to be said about what a node cannot give. `counts`
/// is what each node has of `resources`, `capacity` what the only node has; in a cluster the core
/// cuts down what is too large for every node, where not all of it must be there.
///
/// `allow` and `deny` choose among the nodes of a cluster ([`allowed_nodes`]); with one node there is nothing to
/// choose, so that a Rakefile for a cluster still runs on a laptop.
pub fn requirement_of(
    definition: &RequirementDefinition,
    resources: &[String],
    counts: &[u32],
    capacity: Option<&Capacity>,
) -> (Requirement, Vec<Shortage>) {
    let mut shortages = Shortages { definition, found: Vec::new() };
    let mut wanted = Vec::new();
    for (name, &count) in &definition.resources {
        let index = resources.iter().position(|known| known == name);
        let asked = format!("{count} {name}");
        let Some((index, id)) = index.and_then(|i| Some((i, ResourceId(u32::try_from(i).ok()?))))
        else {
            let ways =
                format!("give it --resource {name}={count}, or let the task run without (`desc`");
            let there = if shortages.refuses(StrictField::Resources) {
                "this run has none".to_owned()
            } else {
                format!("this run has none (give it: --resource {name}=N)")
            };
            shortages.add(StrictField::Resources, &asked, &there, "running it without", &ways);
            continue;
        };
        let there = counts[index];
        if count > there {
            let has = format!("this run has {there}");
            let ways = format!(
                "give it --resource {name}={count}, or let the task have all of them (`desc`"
            );
            shortages.add(StrictField::Resources, &asked, &has, "giving it all of them", &ways);
        }
        wanted.push((id, count.min(there)));
    }
    let mut memory_bytes = definition.memory_bytes;
    let mut cores = definition.cores.max(1);
    if let Some(capacity) = capacity {
        if memory_bytes > capacity.memory_bytes {
            let asked = format!("{} of memory", memory::asked(memory_bytes));
            let there = format!("this node has {}", memory::asked(capacity.memory_bytes));
            shortages.add(
                StrictField::MemoryBytes,
                &asked,
                &there,
                "running it alone in all of it",
                "ask for less, or let the task run alone in all of it (`desc`",
            );
            memory_bytes = capacity.memory_bytes;
        }
        if definition.cores > capacity.cores {
            let there = format!("this run has {} (-j {0})", capacity.cores);
            let asked = format!("{} cores", definition.cores);
            let ways = format!(
                "give it -j {0}, or let the task have fewer (--oversubscribe, or `desc \"ncore={0}\"`",
                definition.cores
            );
            shortages.add(StrictField::Cores, &asked, &there, "giving it all of them", &ways);
        }
        cores = cores.min(capacity.cores.max(1));
    }
    let is_strict = |field| capacity.is_none() && definition.strict.contains(&field);
    let waits_for_size = WaitsForSize {
        cores: is_strict(StrictField::Cores),
        memory: is_strict(StrictField::MemoryBytes),
    };
    let requirement = Requirement {
        cores,
        nodes: definition.nodes.unwrap_or(1).max(1),
        exclusive: definition.exclusive,
        reserve: definition.reserve,
        steal: definition.steal,
        retry: definition.retry,
        retry_delay_ns: definition.retry_delay_ms.saturating_mul(1_000_000),
        after_failure: None,
        memory_bytes,
        resources: wanted,
        allowed_nodes: None,
        choice: None,
        locality: definition.locality,
        waits_for_size: if definition.later { WaitsForSize::default() } else { waits_for_size },
    };
    let found = if definition.later { Vec::new() } else { shortages.found };
    (requirement, found)
}

/// The nodes that `allow`, `deny` and `order` leave, as in Pwrake: with both lists and `deny,allow`
/// a host that both name is allowed, with `allow,deny` a host must be named by the first and not by
/// the second. `None`: all.
pub fn allowed_nodes(
    definition: &RequirementDefinition,
    nodes: impl Iterator<Item = (NodeId, String)>,
) -> Option<Vec<NodeId>> {
    let (allow, deny) = (&definition.allow, &definition.deny);
    if allow.is_empty() && deny.is_empty() {
        return None;
    }
    let named = |globs: &[String], name: &str| {
        globs.iter().any(|glob| matches_glob(glob.as_bytes(), name.as_bytes()))
    };
    let is_allowed = |name: &str| match (allow.is_empty(), deny.is_empty()) {
        (false, true) => named(allow, name),
        (true, _) => !named(deny, name),
        (false, false) if definition.order == ListOrder::AllowDeny => {
            named(allow, name) && !named(deny, name)
        }
        (false, false) => named(allow, name) || !named(deny, name),
    };
    Some(nodes.filter(|(_, name)| is_allowed(name)).map(|(id, _)| id).collect())
}

/// Device numbers by resource name; `None` when the action has none.
pub fn devices_by_name(
    devices: &Devices,
    resources: &[String],
) -> Option<BTreeMap<String, Vec<u32>>> {
    let by_name = |(id, numbers): &(ResourceId, Vec<u32>)| {
        (resources[id.0 as usize].clone(), numbers.clone())
    };
    (!devices.0.is_empty()).then(|| devices.0.iter().map(by_name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_does_not_have_is_said_and_not_waited_for() {
        let definition = RequirementDefinition {
            cores: 9,
            memory_bytes: 900 << 30,
            task: "big".into(),
            place: Some("Rakefile:3".into()),
            resources: BTreeMap::from([("gpu".to_owned(), 3), ("fpga".to_owned(), 1)]),
            ..RequirementDefinition::default()
        };
        let capacity =
            Capacity { cores: 4, memory_bytes: (15 << 30) / 2, cache_bytes: 0, resources: vec![2] };
        let (requirement, shortages) =
            requirement_of(&definition, &["gpu".into()], &[2], Some(&capacity));
        assert_eq!(requirement.cores, 4);
        assert_eq!(requirement.memory_bytes, (15 << 30) / 2);
        assert_eq!(requirement.resources, [(ResourceId(0), 2)]);
        assert_eq!(shortages.len(), 4);
        assert!(!shortages.iter().any(|shortage| shortage.refused));
        let said = "task big (Rakefile:3) asks for 900 GiB of memory, but this node has 7680 MiB; running it alone in all of it";
        assert!(shortages.iter().any(|shortage| shortage.text == said), "{shortages:?}");
    }

    #[test]
    fn what_must_all_be_there_is_refused() {
        let definition = RequirementDefinition {
            cores: 9,
            memory_bytes: 100,
            strict: vec![StrictField::Cores],
            task: "big".into(),
            place: Some("Rakefile:3".into()),
            ..RequirementDefinition::default()
        };
        let capacity = Capacity { cores: 4, memory_bytes: 50, cache_bytes: 0, resources: vec![] };
        let (_, shortages) = requirement_of(&definition, &[], &[], Some(&capacity));
        let refused = shortages.iter().filter(|shortage| shortage.refused);
        let texts: Vec<_> = refused.map(|shortage| shortage.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Rakefile:3: needs: task big asks for 9 cores, but this run has 4 (-j 4): give it -j 9, or let the task \
              have fewer (--oversubscribe, or `desc \"ncore=9\"` in the place of `needs`)"
            ]
        );
        let (_, shortages) =
            requirement_of(&oversubscribed(&definition), &[], &[], Some(&capacity));
        let texts: Vec<_> = shortages.iter().map(|it| (it.refused, it.text.as_str())).collect();
        assert_eq!(
            texts[1],
            (
                false,
                "task big (Rakefile:3) asks for 9 cores, but this run has 4 (-j 4); giving it all of them"
            )
        );
    }

    fn allowed(allow: &[&str], deny: &[&str], order: ListOrder) -> Option<Vec<u32>> {
        let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let definition = RequirementDefinition {
            allow: list(allow),
            deny: list(deny),
            order,
            ..RequirementDefinition::default()
        };
        let names = ["h1", "h2", "g1"].map(str::to_owned);
        let nodes = (1..).map(NodeId).zip(names);
        allowed_nodes(&definition, nodes).map(|nodes| nodes.iter().map(|id| id.0).collect())
    }

    #[test]
    fn hosts_are_allowed_as_in_pwrake() {
        assert_eq!(allowed(&[], &[], ListOrder::DenyAllow), None);
        assert_eq!(allowed(&["h*"], &[], ListOrder::DenyAllow), Some(vec![1, 2]));
        assert_eq!(allowed(&[], &["?1"], ListOrder::DenyAllow), Some(vec![2]));
        assert_eq!(allowed(&["h1"], &["h*"], ListOrder::DenyAllow), Some(vec![1, 3]));
        assert_eq!(allowed(&["h*"], &["*2"], ListOrder::AllowDeny), Some(vec![1]));
    }
}
