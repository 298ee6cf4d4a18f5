//! Points in time and rake's timestamps, and how they compare.
//!
//! Reads no clock: `now` comes in with every event. It has two clocks, because the one that stamps files may be set
//! while a run goes on: then the time that passed by the other is still true.

use core::fmt;

/// Nanoseconds by the shell's clock (or the simulator's) that never steps: how long things take, and when they are due.
///
/// Compared with no file's time. Where it begins is the shell's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// Nanoseconds since the Unix epoch as a file has them, or as the clock shows them that files are stamped with.
///
/// 64 bits would end in 2262, and files of later times would be of one age. Kept in 12 bytes, since
/// each task has three of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(4))]
pub struct FileTime {
    /// The upper bits, with the sign: compared first.
    high: i64,
    /// The lower 32 bits.
    low: u32,
}

impl FileTime {
    const MIN: Self = Self { high: i64::MIN, low: 0 };
    const MAX: Self = Self { high: i64::MAX, low: u32::MAX };

    /// The nanoseconds.
    pub fn ns(self) -> i128 {
        i128::from(self.high) << 32 | i128::from(self.low)
    }
}

/// Of what no kernel can tell, which is below 2^93, the nearest that 12 bytes hold.
impl From<i128> for FileTime {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it takes the lower bits apart on purpose"
    )]
    fn from(ns: i128) -> Self {
        match i64::try_from(ns >> 32) {
            Ok(high) => Self { high, low: ns as u32 },
            Err(_) if ns < 0 => Self::MIN,
            Err(_) => Self::MAX,
        }
    }
}

impl fmt::Debug for FileTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ns(), out)
    }
}

/// What both clocks show when something happens: the shell reads them once, and passes that on with the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// By the clock that never steps.
    pub time: Time,
    /// What a file would be stamped with; compared with times of files, and with nothing else.
    pub wall: FileTime,
}

impl Now {
    /// The time as the journal has it, ns since 1970.
    pub fn journal_ns(self) -> i64 {
        i64::try_from(self.time.0).unwrap_or(i64::MAX)
    }

    /// What a file would be stamped with, ns since 1970; until 2262.
    pub fn wall_ns(self) -> i64 {
        i64::try_from(self.wall.ns()).unwrap_or(i64::MAX)
    }
}

/// Where the clock is never set (simulations, tests), one serves as both.
impl From<Time> for Now {
    fn from(time: Time) -> Self {
        Self { time, wall: i128::from(time.0).into() }
    }
}

/// What rake's `Task#timestamp` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// Before any time (rake's `EARLY`).
    Early,
    /// A time.
    At(FileTime),
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

    /// Whether one of them is after `modified`.
    pub(crate) fn is_after(self, modified: FileTime, now: Now) -> bool {
        let fixed_after = match self.fixed {
            Timestamp::Early | Timestamp::Now => false,
            Timestamp::At(time) => time > modified,
            Timestamp::Late => true,
        };
        fixed_after || (self.now && now.wall > modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i128) -> Timestamp {
        Timestamp::At(ns.into())
    }

    /// The clock that files are stamped with shows this, and the other one something else.
    fn wall(ns: i128) -> Now {
        Now { time: Time(u64::MAX), wall: ns.into() }
    }

    #[test]
    fn late_is_after_any_time_and_early_after_none() {
        let mut newest = Newest::NONE;
        newest.include(Timestamp::Early);
        assert!(!newest.is_after(FileTime::MIN, wall(9)));
        newest.include(at(5));
        newest.include(at(3));
        assert!(newest.is_after(4.into(), wall(0)));
        assert!(!newest.is_after(5.into(), wall(9)));
        newest.include(Timestamp::Late);
        newest.include(at(7));
        assert!(newest.is_after(FileTime::MAX, wall(0)));
    }

    #[test]
    fn now_is_compared_with_the_clock_of_files_and_hides_no_later_time() {
        let mut newest = Newest::NONE;
        newest.include(at(20));
        newest.include(Timestamp::Now);
        assert!(newest.is_after(9.into(), wall(10)));
        assert!(newest.is_after(19.into(), wall(10)));
        assert!(!newest.is_after(20.into(), wall(20)));
        assert!(newest.is_after(20.into(), wall(21)));
    }

    #[test]
    fn any_two_times_that_a_kernel_can_tell_are_told_apart() {
        let second_ns = 1_000_000_000;
        let seconds = [i64::MIN, -9_300_000_000, -1, 0, 1 << 31, 9_300_000_000, i64::MAX];
        let times = seconds.map(|seconds| i128::from(seconds) * second_ns);
        for ns in times.into_iter().flat_map(|ns| [ns, ns + 1, ns + second_ns - 1]) {
            let (time, next) = (FileTime::from(ns), FileTime::from(ns + 1));
            assert_eq!(time.ns(), ns);
            assert!(time < next && FileTime::MIN < time && next < FileTime::MAX, "{ns}");
        }
        assert_eq!(FileTime::from(i128::MAX), FileTime::MAX);
        assert_eq!(FileTime::from(i128::MIN), FileTime::MIN);
    }
}
