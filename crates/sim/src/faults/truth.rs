//! What is really there: files on disks, and which of them are whole. The hub knows only what it is told.
//!
//! Holds no behaviour of hub or agents; checks what must never be.

use std::collections::BTreeMap;

/// A file as it lies somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// What is in it: `None` while, or because, an attempt did not end well.
    pub(crate) content: Option<u64>,
}

/// The place of everything on a shared file system.
pub(crate) const SERVER: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// By file and place.
    copies: BTreeMap<(u32, u32), Copy>,
    /// Processes that run: task, and node.
    processes: BTreeMap<u32, u32>,
}

impl Truth {
    pub(crate) fn write(&mut self, file: u32, place: u32, content: Option<u64>) {
        self.copies.insert((file, place), Copy { content });
    }

    /// A disk is gone.
    pub(crate) fn wipe(&mut self, place: u32) {
        self.copies.retain(|(_, other), _| *other != place);
    }

    /// The content of a whole file.
    pub(crate) fn read(&self, file: u32, place: u32) -> Option<u64> {
        self.copies.get(&(file, place)).and_then(|copy| copy.content)
    }

    /// A process begins. Two of one task at a time would write one file.
    pub(crate) fn begin(&mut self, task: u32, node: u32) {
        let other = self.processes.insert(task, node);
        assert!(other.is_none(), "task {task} runs twice: on {other:?} and on {node}");
    }

    pub(crate) fn end(&mut self, task: u32) {
        self.processes.remove(&task);
    }
}

/// What a task makes of its inputs.
pub(crate) fn content(task: u32, inputs: &[u64]) -> u64 {
    let mix = |sum: u64, next: &u64| (sum ^ *next).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
    inputs.iter().fold(mix(0xCBF2_9CE4_8422_2325, &u64::from(task)), mix)
}
