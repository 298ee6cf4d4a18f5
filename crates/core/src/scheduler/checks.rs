//! Which tasks wait for which fact to be gathered.
//!
//! One answer comes for each `GatherFact`, in the order of the requests for a file. A request that was made since the
//! last action ended serves every task that asks for the same file.

use crate::ids::TaskId;
use alloc::collections::VecDeque;
use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// The requests for each file that are not answered.
    requests: BTreeMap<TaskId, Requests>,
}

/// The requests for one file: nearly always one.
#[derive(Clone, Debug)]
struct Requests {
    oldest: Request,
    /// Oldest first.
    others: VecDeque<Request>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Number of actions that had ended when it was made.
    pub(crate) epoch: u32,
    /// Nearly always the only one.
    first: Waiter,
    others: Vec<Waiter>,
}

impl Request {
    /// The waiters, in the order in which they asked.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = Waiter> {
        core::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// A task in `Checking` (or `Inspecting`) at the time; its state and `mark` tell whether it still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) id: TaskId,
    pub(crate) mark: u64,
}

impl Checks {
    /// Notes that `waiter` wants the fact of `id`; whether the shell has to gather it.
    pub(crate) fn ask(&mut self, id: TaskId, epoch: u32, waiter: Waiter) -> bool {
        let request = Request { epoch, first: waiter, others: Vec::new() };
        match self.requests.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Requests { oldest: request, others: VecDeque::new() });
            }
            Entry::Occupied(place) => {
                let Requests { oldest, others } = place.into_mut();
                let last = others.back_mut().unwrap_or(oldest);
                if last.epoch == epoch {
                    last.others.push(waiter);
                    return false;
                }
                others.push_back(request);
            }
        }
        true
    }

    /// Takes the oldest request for the fact of `id`, which is answered now; `None` if nothing asked for it.
    pub(crate) fn answered(&mut self, id: TaskId) -> Option<Request> {
        let Entry::Occupied(mut requests) = self.requests.entry(id) else { return None };
        match requests.get_mut().others.pop_front() {
            Some(next) => Some(core::mem::replace(&mut requests.get_mut().oldest, next)),
            None => Some(requests.remove().oldest),
        }
    }

    /// Number of open requests that `waiter` waits for, by counting; for checks only.
    pub(crate) fn waiting_for(&self, waiter: Waiter) -> usize {
        let all = |requests: &'_ Requests| {
            let oldest = core::iter::once(&requests.oldest).chain(&requests.others);
            oldest.flat_map(Request::waiters).filter(|other| *other == waiter).count()
        };
        self.requests.values().map(all).sum()
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
        assert_eq!(checks.answered(TaskId(9)).map(|r| r.waiters().count()), Some(2));
        assert_eq!(checks.waiting_for(waiter(3)), 1);
        assert_eq!(checks.answered(TaskId(9)).map(|r| r.waiters().count()), Some(1));
        assert!(checks.answered(TaskId(9)).is_none());
    }
}
