//! Who waits for which fact to be gathered.
//!
//! One answer comes for each `GatherFact`, in the order of the requests for a file. A request that was made since the last action
//! ended serves everyone who asks for the same file.

use crate::ids::TaskId;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// Per file the requests that are out, oldest first; no empty lists.
    requests: BTreeMap<TaskId, VecDeque<Request>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Actions ended when it was made.
    pub(crate) epoch: u32,
    pub(crate) waiters: Vec<Waiter>,
}

/// A task in `Checking` (or `Inspecting`) at the time; its state and `mark` tell whether it still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) id: TaskId,
    pub(crate) mark: u64,
}

impl Checks {
    /// Notes that `waiter` wants the fact of `id`; whether it has to be asked for.
    pub(crate) fn ask(&mut self, id: TaskId, epoch: u32, waiter: Waiter) -> bool {
        let requests = self.requests.entry(id).or_default();
        if let Some(last) = requests.back_mut().filter(|last| last.epoch == epoch) {
            last.waiters.push(waiter);
            return false;
        }
        requests.push_back(Request { epoch, waiters: Vec::from([waiter]) });
        true
    }

    /// The oldest request for the fact of `id`, now answered; none: it came unasked.
    pub(crate) fn answered(&mut self, id: TaskId) -> Option<Request> {
        let requests = self.requests.get_mut(&id)?;
        let request = requests.pop_front();
        if requests.is_empty() {
            self.requests.remove(&id);
        }
        request
    }

    /// How many requests are out that `waiter` waits for, by counting; for checks only.
    pub(crate) fn waiting_for(&self, waiter: Waiter) -> usize {
        let requests = self.requests.values().flatten();
        requests.flat_map(|request| &request.waiters).filter(|other| **other == waiter).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_serves_all_until_an_action_ends() {
        let mut checks = Checks::default();
        let waiter = |id| Waiter { id: TaskId(id), mark: 0 };
        assert!(checks.ask(TaskId(9), 1, waiter(1)));
        assert!(!checks.ask(TaskId(9), 1, waiter(2)));
        assert!(checks.ask(TaskId(9), 2, waiter(3)));
        assert_eq!(checks.answered(TaskId(9)).map(|r| r.waiters.len()), Some(2));
        assert_eq!(checks.waiting_for(waiter(3)), 1);
        assert_eq!(checks.answered(TaskId(9)).map(|r| r.waiters.len()), Some(1));
        assert!(checks.answered(TaskId(9)).is_none());
    }
}
