//! Whether any byte has moved in a cycle of streams.
//!
//! It cannot know whether members wait or compute; so it is asked for a word to the user, and for nothing else.

use crate::time::Time;

/// Timeout for a cycle in which nothing moves, ns.
const SILENCE_NS: u64 = 30_000_000_000;

/// Watches one cycle.
#[derive(Clone, Copy, Debug)]
pub struct StallWatch {
    /// When the last byte moved.
    moved: Time,
    /// It was told since.
    told: bool,
}

impl StallWatch {
    /// From now on.
    pub fn new(now: Time) -> Self {
        Self { moved: now, told: false }
    }

    /// A byte has moved.
    pub fn on_moved(&mut self, now: Time) {
        self.moved = now;
        self.told = false;
    }

    /// Whether it is to be said now that nothing moves: once for each time.
    pub fn is_stalled(&mut self, now: Time) -> bool {
        let stalled = !self.told && now.0.saturating_sub(self.moved.0) >= SILENCE_NS;
        self.told |= stalled;
        stalled
    }

    /// When to look again; nothing: it has been said.
    pub fn due(&self) -> Option<Time> {
        (!self.told).then_some(Time(self.moved.0 + SILENCE_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_once_until_something_moves() {
        let mut watch = StallWatch::new(Time(0));
        assert!(!watch.is_stalled(Time(SILENCE_NS - 1)));
        assert!(watch.is_stalled(Time(SILENCE_NS)));
        assert!(!watch.is_stalled(Time(2 * SILENCE_NS)));
        assert_eq!(watch.due(), None);
        watch.on_moved(Time(3 * SILENCE_NS));
        assert_eq!(watch.due(), Some(Time(4 * SILENCE_NS)));
        assert!(watch.is_stalled(Time(4 * SILENCE_NS)));
    }
}
