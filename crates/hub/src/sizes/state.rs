//! Sizes of tasks that no node has.

use rakuda_core::{Capacity, NodeId, Requirement};
use rakuda_proto::Text;
use rakuda_proto::front::RequirementDefinition;
use rakuda_proto::memory;

/// Sizes that tasks must have in full, and no node had so far.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// The sizes for which no node was large enough so far.
    pub(super) open: Vec<Size>,
}

#[derive(Debug, Default)]
pub(super) struct Size {
    /// 0: it takes what there is.
    cores: u32,
    memory_bytes: u64,
    /// The only nodes that may run it; `None`: all may.
    allowed: Option<Vec<NodeId>>,
    task: String,
    /// Its place in the Rakefile.
    place: Option<String>,
}

impl Size {
    pub(super) fn new(requirement: &Requirement, definition: &RequirementDefinition) -> Self {
        let waits = requirement.waits_for_size;
        Self {
            cores: if waits.cores { requirement.cores } else { 0 },
            memory_bytes: if waits.memory { requirement.memory_bytes } else { 0 },
            allowed: requirement.allowed_nodes.clone(),
            task: definition.task.to_display(),
            place: definition.place.as_ref().map(Text::to_display),
        }
    }

    pub(super) fn allows(&self, id: NodeId) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&id))
    }

    /// The message when none of these nodes, of which there is at least one, is large enough.
    pub(super) fn lack(&self, nodes: &[&Capacity]) -> Option<String> {
        let most_cores = nodes.iter().map(|node| node.cores).max()?;
        let most_bytes = nodes.iter().map(|node| node.memory_bytes).max()?;
        let is_enough =
            |node: &&Capacity| node.cores >= self.cores && node.memory_bytes >= self.memory_bytes;
        if nodes.iter().any(is_enough) {
            return None;
        }
        let (cores, bytes) = (self.cores, memory::asked(self.memory_bytes));
        let what = if cores > most_cores {
            format!("{cores} cores, but no node that may run it has more than {most_cores}")
        } else if self.memory_bytes > most_bytes {
            let most = memory::asked(most_bytes);
            format!("{bytes} of memory, but no node that may run it has more than {most}")
        } else {
            format!("{cores} cores and {bytes} of memory, but no node that may run it has both")
        };
        let ways = if cores > most_cores {
            "--oversubscribe, or `desc` in the place of `needs`"
        } else {
            "`desc` in the place of `needs`"
        };
        let place = self.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        Some(format!(
            "{place}needs: task {} asks for {what}: add one that has, or let the task have less ({ways})",
            self.task
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn lack(cores: u32, memory_bytes: u64, nodes: &[(u32, u64)]) -> Option<String> {
        let node = |&(cores, gib): &(u32, u64)| Capacity {
            cores,
            memory_bytes: gib * GIB,
            ..Capacity::default()
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        let place = Some("Rakefile:3".to_owned());
        let size = Size { cores, memory_bytes, task: "big".to_owned(), place, ..Size::default() };
        size.lack(&nodes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn one_node_has_to_have_all_of_it() {
        let nodes = [(2, 64), (16, 8)];
        for (cores, gib) in [(16, 8), (2, 64), (0, 64), (16, 0)] {
            assert_eq!(lack(cores, gib * GIB, &nodes), None);
        }
        let said = |what: &str, ways: &str| {
            Some(format!(
                "Rakefile:3: needs: task big asks for {what}: add one that has, or let the task have less \
                 ({ways}`desc` in the place of `needs`)"
            ))
        };
        let cores = "17 cores, but no node that may run it has more than 16";
        assert_eq!(lack(17, GIB, &nodes), said(cores, "--oversubscribe, or "));
        let memory = "65 GiB of memory, but no node that may run it has more than 64 GiB";
        assert_eq!(lack(0, 65 * GIB, &nodes), said(memory, ""));
        let both = "3 cores and 9 GiB of memory, but no node that may run it has both";
        assert_eq!(lack(3, 9 * GIB, &nodes), said(both, ""));
    }

    #[test]
    fn where_there_is_no_node_something_else_is_said() {
        assert_eq!(lack(17, 0, &[]), None);
    }
}
