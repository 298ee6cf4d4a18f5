//! Task properties, from the names that people use to the numbers that the core counts with.

use rakuda_core::{Capacity, Devices, Requirement, ResourceId};
use rakuda_proto::front::RequirementDefinition;
use std::collections::BTreeMap;

/// The core's form of `definition`, and what is to be said about what this node cannot give.
///
/// `allow` and `deny` choose among the nodes of a cluster; with one node there is nothing to
/// choose, so that a Rakefile for a cluster still runs on a laptop.
pub fn requirement_of(
    definition: &RequirementDefinition,
    resources: &[String],
    capacity: &Capacity,
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
        let there = capacity.resources[index];
        if count > there {
            warnings.push(format!(
                "a task asks for {count} {name}, but this run has {there}; giving it all of them"
            ));
        }
        wanted.push((id, count.min(there)));
    }
    let mut memory_bytes = definition.memory_bytes;
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
    let requirement = Requirement {
        cores: definition.cores.clamp(1, capacity.cores.max(1)),
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
        let capacity = Capacity { cores: 4, memory_bytes: 50, resources: vec![2] };
        let (requirement, warnings) = requirement_of(&definition, &["gpu".into()], &capacity);
        assert_eq!(requirement.cores, 4);
        assert_eq!(requirement.memory_bytes, 50);
        assert_eq!(requirement.resources, [(ResourceId(0), 2)]);
        assert_eq!(warnings.len(), 4);
    }
}
