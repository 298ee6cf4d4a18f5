//! Points in time and rake's timestamps, and how they compare.
//!
//! Reads no clock: `now` comes in with every event.

/// Nanoseconds since the Unix epoch, as the shell's clock (or the simulator's) shows them.
///
/// The same epoch as files' modification times, because a timestamp of *now* is compared with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// What rake's `Task#timestamp` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// Before any time (rake's `EARLY`).
    Early,
    /// Nanoseconds since the Unix epoch.
    At(i64),
    /// After any time (rake's `LATE`).
    Late,
    /// Whatever the clock shows when it is compared.
    Now,
}

/// The greatest of several timestamps, with *now* kept apart because it has no value before it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// The greatest one that is not `Now`.
    fixed: Timestamp,
    /// Whether one of them was `Now`.
    now: bool,
}

impl Newest {
    pub(crate) const NONE: Self = Self { fixed: Timestamp::Early, now: false };

    pub(crate) fn include(&mut self, timestamp: Timestamp) {
        match (self.fixed, timestamp) {
            (_, Timestamp::Now) => self.now = true,
            (_, Timestamp::Early) | (Timestamp::Late, _) => {}
            (Timestamp::At(known), Timestamp::At(other)) => {
                self.fixed = Timestamp::At(known.max(other));
            }
            (_, Timestamp::At(_) | Timestamp::Late) => self.fixed = timestamp,
        }
    }

    pub(crate) fn include_all_of(&mut self, other: Self) {
        self.include(other.fixed);
        self.now |= other.now;
    }

    /// Whether one of them is after `modified_ns`.
    pub(crate) fn is_after(self, modified_ns: i64, now: Time) -> bool {
        let fixed_after = match self.fixed {
            Timestamp::Early | Timestamp::Now => false,
            Timestamp::At(ns) => ns > modified_ns,
            Timestamp::Late => true,
        };
        fixed_after || (self.now && i128::from(now.0) > i128::from(modified_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_after_any_time_and_early_after_none() {
        let mut newest = Newest::NONE;
        newest.include(Timestamp::Early);
        assert!(!newest.is_after(i64::MIN, Time(9)));
        newest.include(Timestamp::At(5));
        newest.include(Timestamp::At(3));
        assert!(newest.is_after(4, Time(0)));
        assert!(!newest.is_after(5, Time(9)));
        newest.include(Timestamp::Late);
        newest.include(Timestamp::At(7));
        assert!(newest.is_after(i64::MAX, Time(0)));
    }

    #[test]
    fn now_is_compared_with_the_clock_and_hides_no_later_time() {
        let mut newest = Newest::NONE;
        newest.include(Timestamp::At(20));
        newest.include(Timestamp::Now);
        assert!(newest.is_after(9, Time(10)));
        assert!(newest.is_after(19, Time(10)));
        assert!(!newest.is_after(20, Time(20)));
        assert!(newest.is_after(20, Time(21)));
    }
}
