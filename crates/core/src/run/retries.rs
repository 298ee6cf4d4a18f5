//! Tasks that failed and wait before they are tried again (`needs retry_delay:`). The scheduler says how long; it knows
//! what has become of a task meanwhile.

use alloc::collections::BTreeSet;

use crate::ids::TaskId;

/// Tasks that wait for their next attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Retries {
    /// When each is due by the clock that never steps, ns; the task; the attempt that failed.
    due: BTreeSet<(u64, TaskId, u32)>,
}

impl Retries {
    /// Delays the attempt after a failed one until `due_ns`.
    pub(super) fn add(&mut self, due_ns: u64, id: TaskId, attempt: u32) {
        self.due.insert((due_ns, id, attempt));
    }

    /// When the next wait is over.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, ..)| *due_ns)
    }

    /// Takes a wait that is over at `now_ns`.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<(TaskId, u32)> {
        self.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.due.pop_first().map(|(_, id, attempt)| (id, attempt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_taken_once_the_earliest_first() {
        let mut retries = Retries::default();
        retries.add(20, TaskId(1), 1);
        retries.add(10, TaskId(2), 3);
        assert_eq!(retries.due_ns(), Some(10));
        assert_eq!(retries.take(9), None);
        assert_eq!(retries.take(25), Some((TaskId(2), 3)));
        assert_eq!(retries.take(25), Some((TaskId(1), 1)));
        assert_eq!((retries.take(25), retries.due_ns()), (None, None));
    }
}
