//! The one place that reads clocks.
//!
//! The wall clock may be set at any time: by a person, by what keeps it right, by a machine that
//! was asleep. So what passes is measured by the kernel's monotonic clock, and the wall clock is
//! asked only what is compared with times of files, which it stamps.
#![allow(clippy::disallowed_methods, reason = "this is their home")]

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Minimum change of the difference between wall clock and monotonic clock that counts as a step. A clock that is kept
/// right moves by less, and so does what a process sees that is kept from reading both clocks at once.
const STEP_NS_MIN: u64 = 500_000_000;
/// Maximum time that the reading of both clocks takes for them to count as read at once.
const AT_ONCE_NS: i64 = 100_000;
/// Maximum attempts at that: nothing waits for a machine that is too busy.
const ATTEMPTS: usize = 5;

/// What both clocks showed at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// ns since 1970.
    pub wall_ns: i64,
    /// ns of the kernel's monotonic clock, which begins when the machine is started and stands still while it sleeps.
    pub monotonic_ns: i64,
}

impl Reading {
    /// Reads them.
    pub fn now() -> Self {
        let read = || {
            let before_ns = kernel_ns();
            let wall_ns = wall_ns();
            let between_ns = kernel_ns() - before_ns;
            (between_ns, Self { wall_ns, monotonic_ns: before_ns + between_ns / 2 })
        };
        let mut best = read();
        for _ in 1..ATTEMPTS {
            if best.0 <= AT_ONCE_NS {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

/// The clock of a journal: what the wall clock showed at first, plus what has passed since. So
/// differences between its times are true, and its first time is, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalClock {
    start: Reading,
}

impl JournalClock {
    /// One that begins there.
    pub fn new(start: Reading) -> Self {
        Self { start }
    }

    /// What it shows when the kernel's monotonic clock shows that, ns since 1970.
    pub fn at(&self, monotonic_ns: i64) -> i64 {
        let passed_ns = monotonic_ns.saturating_sub(self.start.monotonic_ns);
        self.start.wall_ns.saturating_add(passed_ns)
    }

    /// The inverse of [`Self::at`].
    pub fn monotonic_at(&self, journal_ns: i64) -> i64 {
        self.start.monotonic_ns.saturating_add(journal_ns.saturating_sub(self.start.wall_ns))
    }

    /// How far the wall clock is ahead of it: by how much that has been set since the beginning.
    pub fn step_ns(&self, now: Reading) -> i64 {
        now.wall_ns.saturating_sub(self.at(now.monotonic_ns))
    }
}

/// Notices that the wall clock was set.
#[derive(Debug, Default, Clone, Copy)]
pub struct StepWatch {
    /// How far it was ahead of the journal's when it had last been set.
    ahead_ns: i64,
}

impl StepWatch {
    /// A watch that begins when the wall clock is `ahead_ns` ahead.
    pub fn new(ahead_ns: i64) -> Self {
        Self { ahead_ns }
    }

    /// Notes that it is `ahead_ns` ahead now, and returns by how much it was set since. `None`: it was not.
    pub fn see(&mut self, ahead_ns: i64) -> Option<i64> {
        let by_ns = ahead_ns.saturating_sub(self.ahead_ns);
        if by_ns.unsigned_abs() < STEP_NS_MIN {
            return None;
        }
        self.ahead_ns = ahead_ns;
        Some(by_ns)
    }
}

/// That of this process; it begins when it is asked for first.
pub fn journal_clock() -> &'static JournalClock {
    static CLOCK: OnceLock<JournalClock> = OnceLock::new();
    CLOCK.get_or_init(|| JournalClock::new(Reading::now()))
}

/// What it shows now, ns since 1970; never goes back.
pub fn journal_ns() -> i64 {
    journal_clock().at(kernel_ns())
}

/// What the kernel's monotonic clock shows, ns: what gates of synchronised starts go by.
pub fn machine_ns() -> i64 {
    kernel_ns()
}

/// ns for which this thread has had a processor.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds since the first call in this process; never goes back.
pub fn monotonic_ns() -> u64 {
    let start_ns = journal_clock().start.monotonic_ns;
    u64::try_from(kernel_ns().saturating_sub(start_ns)).unwrap_or(0)
}

/// What the kernel would stamp a file with that is changed now, ns since 1970: its clock for that
/// stands still between two ticks.
pub fn file_ns() -> i64 {
    read_ns(ClockId::RealtimeCoarse)
}

/// The monotonic clock, and how far [`file_ns`] is ahead of it. Both stand still between the same
/// ticks, so that this is the same until the clock is set.
pub fn stamps_ahead_ns() -> (i64, i64) {
    let mut now_ns = read_ns(ClockId::MonotonicCoarse);
    loop {
        let stamp_ns = file_ns();
        let after_ns = read_ns(ClockId::MonotonicCoarse);
        if after_ns == now_ns {
            return (now_ns, stamp_ns - now_ns);
        }
        now_ns = after_ns;
    }
}

/// Nanoseconds since 1970 by the machine's clock, which may be set meanwhile; negative before it.
pub fn wall_ns() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

fn kernel_ns() -> i64 {
    read_ns(ClockId::Monotonic)
}

fn read_ns(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    #[test]
    fn what_passes_is_not_changed_by_setting_the_clock() {
        let clock = JournalClock::new(Reading { wall_ns: 1_000 * HOUR_NS, monotonic_ns: 7 });
        assert_eq!(clock.at(7), 1_000 * HOUR_NS);
        for set_by_ns in [0, 240 * HOUR_NS, -240 * HOUR_NS] {
            let wall_ns = 1_001 * HOUR_NS + set_by_ns;
            let now = Reading { wall_ns, monotonic_ns: HOUR_NS + 7 };
            assert_eq!(clock.at(now.monotonic_ns), 1_001 * HOUR_NS, "{set_by_ns}");
            assert_eq!(clock.step_ns(now), set_by_ns);
        }
    }

    #[test]
    fn a_step_is_noticed_once_and_what_keeps_a_clock_right_is_none() {
        let mut steps = StepWatch::new(5);
        assert_eq!(steps.see(5 + STEP_NS_MIN.cast_signed() - 1), None);
        assert_eq!(steps.see(5 - HOUR_NS), Some(-HOUR_NS));
        assert_eq!(steps.see(5 - HOUR_NS + 1_000), None);
        assert_eq!(steps.see(5), Some(HOUR_NS));
    }

    #[test]
    fn times_of_a_journal_never_go_back() {
        let times: Vec<i64> = (0..1000).map(|_| journal_ns()).collect();
        assert!(times.is_sorted());
    }
}
