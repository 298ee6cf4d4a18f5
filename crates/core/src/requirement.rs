//! What a task needs of a node, and what a node has.
//!
//! Does not know what is free at the moment: see `node.rs`.

use crate::ids::{NodeId, RequirementId, ResourceId};
use alloc::vec::Vec;

/// What a task needs, and how it wants to be treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Cores; 0 counts as 1. With several nodes, of each.
    pub cores: u32,
    /// Different nodes at once, on each of which it has all that stands here; 0 counts as 1.
    pub nodes: u32,
    /// The whole node, alone.
    pub exclusive: bool,
    /// When it does not fit, keep the node free of smaller ones until it does.
    pub reserve: bool,
    /// Whether a node without its input may take it from a node with its input.
    pub steal: bool,
    /// Attempts after the first; `None`: as the settings say.
    pub retry: Option<u32>,
    /// From an attempt that failed until the next is queued, ns. Not in gangs, which are tried again at once.
    pub retry_delay_ns: u64,
    /// What the task needs after an attempt that failed and used up a retry, defined before; `None`: the same.
    pub after_failure: Option<RequirementId>,
    /// Memory.
    pub memory_bytes: u64,
    /// Numbers of devices.
    pub resources: Vec<(ResourceId, u32)>,
    /// The only nodes that may run it; `None`: any.
    pub allowed_nodes: Option<Vec<NodeId>>,
    /// It runs only where the shell says that a node suits (`Event::NodesSuit`); `None`: anywhere.
    pub choice: Option<Choice>,
    /// Whether nodes that hold its input come before others.
    pub locality: bool,
    /// Where no node is large enough: whether it waits for one, or takes all of the largest.
    pub waits_for_size: WaitsForSize,
}

/// Of which a task must have all that it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitsForSize {
    /// Its cores.
    pub cores: bool,
    /// Its memory.
    pub memory: bool,
}

/// How nodes are chosen that suit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// A start on a node may change whether the node suits: from then on it does not, until the shell says so anew.
    pub used_up: bool,
}

impl Default for Requirement {
    fn default() -> Self {
        Self {
            cores: 1,
            nodes: 1,
            exclusive: false,
            reserve: false,
            steal: true,
            retry: None,
            retry_delay_ns: 0,
            after_failure: None,
            memory_bytes: 0,
            resources: Vec::new(),
            allowed_nodes: None,
            choice: None,
            locality: true,
            waits_for_size: WaitsForSize::default(),
        }
    }
}

impl Requirement {
    /// Puts the lists in order, so that they can be searched and counted.
    pub(crate) fn normalize(&mut self) {
        self.cores = self.cores.max(1);
        self.nodes = self.nodes.max(1);
        if let Some(nodes) = &mut self.allowed_nodes {
            nodes.sort_unstable();
            nodes.dedup();
        }
        self.resources.sort_unstable();
        self.resources.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(later.1);
            }
            same
        });
        self.resources.retain(|(_, count)| *count > 0);
    }

    /// What these nodes have, if none has all that the task must have in full, and there is one.
    pub(crate) fn exceeded<'a>(
        &self,
        nodes: impl Iterator<Item = &'a Capacity>,
    ) -> Option<LargestNodes> {
        let waits = self.waits_for_size;
        let mut most: Option<LargestNodes> = None;
        for node in nodes {
            let has_cores = !waits.cores || node.cores >= self.cores;
            if has_cores && (!waits.memory || node.memory_bytes >= self.memory_bytes) {
                return None;
            }
            most.get_or_insert_default().include(node);
        }
        most
    }

    /// One node more may run it, where only some may.
    pub(crate) fn allow(&mut self, node: NodeId) {
        if let Some(nodes) = &mut self.allowed_nodes
            && let Err(place) = nodes.binary_search(&node)
        {
            nodes.insert(place, node);
        }
    }

    pub(crate) fn allows(&self, node: NodeId) -> bool {
        self.allowed_nodes.as_ref().is_none_or(|nodes| nodes.binary_search(&node).is_ok())
    }
}

/// The most that nodes have which may run a task: not always one node has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargestNodes {
    /// Cores of the node with the most.
    pub cores: u32,
    /// Memory of the node with the most.
    pub memory_bytes: u64,
}

impl LargestNodes {
    pub(crate) fn include(&mut self, capacity: &Capacity) {
        self.cores = self.cores.max(capacity.cores);
        self.memory_bytes = self.memory_bytes.max(capacity.memory_bytes);
    }
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Cores, or slots.
    pub cores: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Memory that files may take (the page cache); 0: not known, and with the policy `Cached`
    /// nothing is thought to be there.
    pub cache_bytes: u64,
    /// Number of devices, for each [`ResourceId`]; missing ones are 0.
    pub resources: Vec<u32>,
}

/// The device numbers (from 0 on each node) that an action has for itself, for each resource that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices(pub Vec<(ResourceId, Vec<u32>)>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_has_to_have_all_that_a_task_must_have() {
        let node = |(cores, memory_bytes)| Capacity { cores, memory_bytes, ..Capacity::default() };
        let exceeded = |cores: u32, memory_bytes: u64, nodes: &[(u32, u64)]| {
            let nodes: Vec<Capacity> = nodes.iter().copied().map(node).collect();
            let waits_for_size = WaitsForSize { cores: cores > 0, memory: memory_bytes > 0 };
            // What it need not have is more than any node has.
            let cores = if cores > 0 { cores } else { 99 };
            let memory_bytes = if memory_bytes > 0 { memory_bytes } else { 99 };
            let asked =
                Requirement { cores, memory_bytes, waits_for_size, ..Requirement::default() };
            asked.exceeded(nodes.iter()).map(|most| (most.cores, most.memory_bytes))
        };
        for nodes in [[(2, 64), (16, 8)], [(16, 8), (2, 64)]] {
            for (cores, memory_bytes) in [(16, 8), (2, 64), (0, 64), (16, 0)] {
                assert_eq!(exceeded(cores, memory_bytes, &nodes), None);
            }
            for (cores, memory_bytes) in [(17, 1), (17, 0), (0, 65), (3, 9)] {
                assert_eq!(exceeded(cores, memory_bytes, &nodes), Some((16, 64)));
            }
        }
        assert_eq!(exceeded(17, 0, &[]), None, "where there is no node something else is said");
    }
}
