//! What will happen, by time; what was entered first comes first among equals.
//!
//! Transfers are not in it: when they end changes with every other transfer.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct EventQueue<E> {
    events: BTreeMap<(u64, u64), E>,
    entered: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), entered: 0 }
    }
}

impl<E> EventQueue<E> {
    pub(crate) fn push(&mut self, time_ns: u64, event: E) {
        self.events.insert((time_ns, self.entered), event);
        self.entered += 1;
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.events.first_key_value().map(|((time_ns, _), _)| *time_ns)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((time_ns, _), event)| (time_ns, event))
    }
}
