//! Task properties, from the names that people use to the numbers that the core counts with.

use rakuda_core::{Capacity, Devices, NodeId, Requirement, ResourceId};
use rakuda_proto::front::RequirementDefinition;
use std::collections::BTreeMap;

/// The core's form of `definition`, and what is to be said about what a node cannot give. `counts` is what each
/// node has of `resources`, `capacity` what the only node has; in a cluster the core cuts down what is too large for every node.
///
/// `allow` and `deny` choose among the nodes of a cluster ([`allowed_nodes`]); with one node there is nothing to
/// choose, so that a Rakefile for a cluster still runs on a laptop.
pub fn requirement_of(
    definition: &RequirementDefinition,
    resources: &[String],
    counts: &[u32],
    capacity: Option<&Capacity>,
) -> (Requirement, Vec<String>) {
    let mut warnings = Vec::new();
    let mut wanted = Vec::new();
    for (name, &count) in &definition.resources {
        let index = resources.iter().position(|known| known == name);
        let Some((index, id)) = index.and_then(|i| Some((i, ResourceId(u32::try_from(i).ok()?))))
        else {
            warnings.push(format!(
                "a task asks for {count} {name}, but this run has none (give it: --resource {name}=N); running it without"
            ));
            continue;
        };
        let there = counts[index];
        if count > there {
            warnings.push(format!(
                "a task asks for {count} {name}, but this run has {there}; giving it all of them"
            ));
        }
        wanted.push((id, count.min(there)));
    }
    let mut memory_bytes = definition.memory_bytes;
    let mut cores = definition.cores.max(1);
    if let Some(capacity) = capacity {
        if memory_bytes > capacity.memory_bytes {
            warnings.push(format!(
            "a task asks for {memory_bytes} bytes of memory, but this node has {}; running it alone in all of it",
            capacity.memory_bytes
        ));
            memory_bytes = capacity.memory_bytes;
        }
        if definition.cores > capacity.cores {
            warnings.push(format!(
                "a task asks for ncore={}, but this run has {} (-j); giving it all of them",
                definition.cores, capacity.cores
            ));
        }
        cores = cores.min(capacity.cores.max(1));
    }
    let requirement = Requirement {
        cores,
        exclusive: definition.exclusive,
        reserve: definition.reserve,
        steal: definition.steal,
        retry: definition.retry,
        memory_bytes,
        resources: wanted,
        allowed_nodes: None,
    };
    (requirement, warnings)
}

/// The nodes that `allow`, `deny` and `order` leave, as in Pwrake: with both lists and `deny,allow` a host that both name is
/// allowed, with `allow,deny` a host must be named by the first and not by the second. `None`: all.
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
        (false, false) if definition.order == "allow,deny" => {
            named(allow, name) && !named(deny, name)
        }
        (false, false) => named(allow, name) || !named(deny, name),
    };
    Some(nodes.filter(|(_, name)| is_allowed(name)).map(|(id, _)| id).collect())
}

/// `*` stands for any text, `?` for one byte.
pub fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on when the last star takes one byte more.
    let mut star = None;
    while from < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (at, from) = (after, taken + 1);
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
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
            memory_bytes: 100,
            resources: BTreeMap::from([("gpu".to_owned(), 3), ("fpga".to_owned(), 1)]),
            ..RequirementDefinition::default()
        };
        let capacity = Capacity { cores: 4, memory_bytes: 50, cache_bytes: 0, resources: vec![2] };
        let (requirement, warnings) =
            requirement_of(&definition, &["gpu".into()], &[2], Some(&capacity));
        assert_eq!(requirement.cores, 4);
        assert_eq!(requirement.memory_bytes, 50);
        assert_eq!(requirement.resources, [(ResourceId(0), 2)]);
        assert_eq!(warnings.len(), 4);
    }

    fn allowed(allow: &[&str], deny: &[&str], order: &str) -> Option<Vec<u32>> {
        let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let definition = RequirementDefinition {
            allow: list(allow),
            deny: list(deny),
            order: order.to_owned(),
            ..RequirementDefinition::default()
        };
        let names = ["h1", "h2", "g1"].map(str::to_owned);
        let nodes = (1..).map(NodeId).zip(names);
        allowed_nodes(&definition, nodes).map(|nodes| nodes.iter().map(|id| id.0).collect())
    }

    #[test]
    fn hosts_are_allowed_as_in_pwrake() {
        assert_eq!(allowed(&[], &[], "deny,allow"), None);
        assert_eq!(allowed(&["h*"], &[], "deny,allow"), Some(vec![1, 2]));
        assert_eq!(allowed(&[], &["?1"], "deny,allow"), Some(vec![2]));
        assert_eq!(allowed(&["h1"], &["h*"], "deny,allow"), Some(vec![1, 3]));
        assert_eq!(allowed(&["h*"], &["*2"], "allow,deny"), Some(vec![1]));
    }

    #[test]
    fn stars_try_every_length() {
        assert!(
            matches_glob(b"*a*b", b"xaab")
                && matches_glob(b"**", b"")
                && matches_glob(b"n*[1", b"n0[1")
        );
        assert!(
            !matches_glob(b"*a*b", b"xaabc")
                && !matches_glob(b"a?", b"a")
                && !matches_glob(b"", b"a")
        );
    }
}
