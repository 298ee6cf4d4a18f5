//! Commands at their node before they may run: which of them the node holds back, and which begins when.
//!
//! `docs/design/prepared-commands.md` describes the protocol. This is the node's side; the hub's is part of the leases.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The commands that a node holds back. `I` names a command, `C` is what is needed to start it.
#[derive(Debug)]
pub struct Prepared<I, C> {
    /// In the order in which they begin.
    waiting: VecDeque<(I, C)>,
    /// Number of cores that became free so far.
    freed: u64,
    /// Those of them, by number, that no command has got yet.
    unused: VecDeque<u64>,
}

impl<I, C> Default for Prepared<I, C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), freed: 0, unused: VecDeque::new() }
    }
}

impl<I: PartialEq, C> Prepared<I, C> {
    /// Takes a command in. It begins now if a core has become free that the hub did not know of when it sent the
    /// command: it knew of `known`.
    pub fn prepare(&mut self, id: I, command: C, known: u64) -> Option<(I, C)> {
        while self.unused.front().is_some_and(|number| *number <= known) {
            self.unused.pop_front();
        }
        if self.unused.pop_front().is_some() {
            return Some((id, command));
        }
        self.waiting.push_back((id, command));
        None
    }

    /// A command that was to free its core has ended well. Returns the command that begins in its place.
    pub fn core_freed(&mut self) -> Option<(I, C)> {
        self.freed += 1;
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.unused.push_back(self.freed);
        }
        next
    }

    /// The hub gives a core. Returns the command that begins; `None` if all have begun meanwhile.
    pub fn release(&mut self) -> Option<(I, C)> {
        self.waiting.pop_front()
    }

    /// Takes a command back that has not begun.
    pub fn withdraw(&mut self, id: &I) -> Option<C> {
        let place = self.waiting.iter().position(|(waiting, _)| waiting == id)?;
        self.waiting.remove(place).map(|(_, command)| command)
    }

    /// Takes all commands back.
    pub fn withdraw_all(&mut self) -> Vec<(I, C)> {
        self.waiting.drain(..).collect()
    }
}
