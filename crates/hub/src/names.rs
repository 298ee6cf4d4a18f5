//! Names and kinds of tasks: what the core does not know.

use rakuda_core::TaskId;

/// Names of all tasks in one piece of memory, indexed by task.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// The end of each name; it begins where the one before ends.
    ends: Vec<u64>,
    /// Whether the task stands for a file or a directory.
    is_path: Vec<bool>,
}

impl Names {
    /// Adds the name of the next task.
    pub fn push(&mut self, name: &[u8], is_path: bool) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len() as u64);
        // For rake a file task without a name is one whose file is missing: it is not the folder.
        self.is_path.push(is_path && !name.is_empty());
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name of a task; of a file task, its path.
    pub fn name(&self, id: TaskId) -> &[u8] {
        let index = id.0 as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// Whether the task stands for a file or a directory.
    pub fn is_path(&self, id: TaskId) -> bool {
        self.is_path[id.0 as usize]
    }
}
