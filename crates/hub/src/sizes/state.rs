//! Sizes that tasks must have in full, and what is said when no node has one.

use std::collections::BTreeMap;

use rakuda_core::{LargestNodes, RequirementId, WaitsForSize};
use rakuda_proto::Text;
use rakuda_proto::front::RequirementDefinition;
use rakuda_proto::memory;

/// Sizes that tasks must have in full.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(super) of_core: BTreeMap<RequirementId, Size>,
}

#[derive(Debug, Default)]
pub(super) struct Size {
    /// 0: it takes what there is.
    cores: u32,
    memory_bytes: u64,
    task: String,
    /// Its place in the Rakefile.
    place: Option<String>,
}

impl Size {
    pub(super) fn new(definition: &RequirementDefinition, waits: WaitsForSize) -> Self {
        Self {
            cores: if waits.cores { definition.cores.max(1) } else { 0 },
            memory_bytes: if waits.memory { definition.memory_bytes } else { 0 },
            task: definition.task.to_display(),
            place: definition.place.as_ref().map(Text::to_display),
        }
    }

    /// The message when no node that may run it has more than that.
    pub(super) fn refusal(&self, most: LargestNodes) -> String {
        let (cores, bytes) = (self.cores, memory::asked(self.memory_bytes));
        let what = if cores > most.cores {
            format!("{cores} cores, but no node that may run it has more than {}", most.cores)
        } else if self.memory_bytes > most.memory_bytes {
            let most = memory::asked(most.memory_bytes);
            format!("{bytes} of memory, but no node that may run it has more than {most}")
        } else {
            format!("{cores} cores and {bytes} of memory, but no node that may run it has both")
        };
        let ways = if cores > most.cores {
            "--oversubscribe, or `desc` in the place of `needs`"
        } else {
            "`desc` in the place of `needs`"
        };
        let place = self.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        format!(
            "{place}needs: task {} asks for {what}: add one that has, or let the task have less ({ways})",
            self.task
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn refusal_names_what_no_node_has() {
        let refusal = |cores, memory_bytes| {
            let place = Some("Rakefile:3".to_owned());
            let size = Size { cores, memory_bytes, task: "big".to_owned(), place };
            size.refusal(LargestNodes { cores: 16, memory_bytes: 64 * GIB })
        };
        let said = |what: &str, ways: &str| {
            format!(
                "Rakefile:3: needs: task big asks for {what}: add one that has, or let the task have less \
                 ({ways}`desc` in the place of `needs`)"
            )
        };
        let cores = "17 cores, but no node that may run it has more than 16";
        assert_eq!(refusal(17, GIB), said(cores, "--oversubscribe, or "));
        let memory = "65 GiB of memory, but no node that may run it has more than 64 GiB";
        assert_eq!(refusal(0, 65 * GIB), said(memory, ""));
        let both = "3 cores and 9 GiB of memory, but no node that may run it has both";
        assert_eq!(refusal(3, 9 * GIB), said(both, ""));
    }
}
