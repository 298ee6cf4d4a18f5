//! What is really there: files on disks, and which of them are whole. The hub knows only what it hears.
//!
//! Holds no behaviour of hub or agents; checks what must never be.

use std::collections::BTreeMap;

/// A file as it lies somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// The content: `None` while, or because, an attempt did not end well.
    pub(crate) content: Option<u64>,
    /// When that was written, there or where it was moved from.
    pub(crate) modified_ns: u64,
}

/// The start of the hub, and the attempt in it.
pub(crate) type Attempt = (u64, u32);

/// The place of everything on a shared file system.
pub(crate) const SERVER: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// The copies, by file and place.
    copies: BTreeMap<(u32, u32), Copy>,
    /// Processes that run: by task, the node, the attempt, and how many.
    processes: BTreeMap<u32, (u32, Attempt, u32)>,
    /// Files that disks have received, and that have no name yet: by file and place, how often.
    received: BTreeMap<(u32, u32), u32>,
}

impl Truth {
    pub(crate) fn write(&mut self, file: u32, place: u32, content: Option<u64>, modified_ns: u64) {
        self.copies.insert((file, place), Copy { content, modified_ns });
    }

    /// When a file was written that is there, whole or not.
    pub(crate) fn version(&self, file: u32, place: u32) -> Option<u64> {
        self.copies.get(&(file, place)).map(|copy| copy.modified_ns)
    }

    /// A disk has all of a file, which is to get its name.
    pub(crate) fn receive(&mut self, file: u32, place: u32) {
        *self.received.entry((file, place)).or_default() += 1;
    }

    /// A file that was received gets its name, or went with its machine.
    pub(crate) fn name_received(&mut self, file: u32, place: u32) {
        let count = self.received.get_mut(&(file, place)).expect("it was received");
        *count -= 1;
        if *count == 0 {
            self.received.remove(&(file, place));
        }
    }

    /// Whether a file is about to get its name.
    pub(crate) fn is_received(&self, file: u32, place: u32) -> bool {
        self.received.contains_key(&(file, place))
    }

    /// A file is gone from one place, if it is as it was then.
    pub(crate) fn remove_version(&mut self, file: u32, place: u32, modified_ns: u64) {
        if self.version(file, place) == Some(modified_ns) {
            self.copies.remove(&(file, place));
        }
    }

    /// A file is gone wherever it was.
    pub(crate) fn remove(&mut self, file: u32) {
        self.copies.retain(|(other, _), _| *other != file);
    }

    /// A disk is gone.
    pub(crate) fn wipe(&mut self, place: u32) {
        self.copies.retain(|(_, other), _| *other != place);
    }

    /// The content of a whole file.
    pub(crate) fn read(&self, file: u32, place: u32) -> Option<u64> {
        self.copies.get(&(file, place)).and_then(|copy| copy.content)
    }

    /// Whether a file is whole somewhere.
    pub(crate) fn is_anywhere(&self, file: u32, content: u64) -> bool {
        let mut copies = self.copies.range((file, 0)..=(file, u32::MAX));
        copies.any(|(_, copy)| copy.content == Some(content))
    }

    /// A process begins. Those of two attempts of one task at a time would write one file.
    pub(crate) fn begin(&mut self, task: u32, node: u32, attempt: Attempt) {
        let (on, other, count) = self.processes.entry(task).or_insert((node, attempt, 0));
        let is_one = (*on, *other) == (node, attempt);
        assert!(is_one, "task {task} runs twice: {other:?} on {on}, and {attempt:?} on {node}");
        *count += 1;
    }

    pub(crate) fn end(&mut self, task: u32) {
        let Some((_, _, count)) = self.processes.get_mut(&task) else { return };
        *count -= 1;
        if *count == 0 {
            self.processes.remove(&task);
        }
    }
}

/// What a task makes of its inputs.
pub(crate) fn content(task: u32, inputs: &[u64]) -> u64 {
    let mix = |sum: u64, next: &u64| (sum ^ *next).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
    inputs.iter().fold(mix(0xCBF2_9CE4_8422_2325, &u64::from(task)), mix)
}
