//! Which stamps the files have that were changed since a moment, on a machine whose clock may be set in between.
//!
//! A moment is a time of the kernel's monotonic clock, which nobody sets; files are stamped by the wall clock. Each
//! question notes how far that is ahead, so that files stamped before it was set are found as well as those stamped
//! after. It looks at no file.

use std::sync::{Mutex, PoisonError};

use crate::clock;

/// From when on files were stamped how far ahead of the monotonic clock, in order. Grows only when the clock is set.
#[derive(Debug, Default)]
struct Ahead(Vec<(i64, i64)>);

impl Ahead {
    fn note(&mut self, now_ns: i64, ahead_ns: i64) {
        if self.0.last().is_none_or(|(_, last_ns)| *last_ns != ahead_ns) {
            self.0.push((now_ns, ahead_ns));
        }
    }

    /// The least stamp of what was changed at that moment or later.
    fn least_stamp(&self, since_ns: i64) -> i64 {
        let later = self.0.partition_point(|(from_ns, _)| *from_ns <= since_ns);
        let in_force = &self.0[later.saturating_sub(1)..];
        let ahead_ns = in_force.iter().map(|(_, ahead_ns)| *ahead_ns).min().unwrap_or(0);
        since_ns.saturating_add(ahead_ns)
    }
}

static AHEAD: Mutex<Ahead> = Mutex::new(Ahead(Vec::new()));

/// This moment: files that are changed from now on are changed since then.
pub fn moment_ns() -> i64 {
    let (now_ns, ahead_ns) = clock::stamps_ahead_ns();
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner).note(now_ns, ahead_ns);
    now_ns
}

/// The least stamp that a file can have that was changed since such a moment, ns since 1970.
pub fn least_since_ns(moment_ns: i64) -> i64 {
    let (now_ns, ahead_ns) = clock::stamps_ahead_ns();
    let mut ahead = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
    ahead.note(now_ns, ahead_ns);
    ahead.least_stamp(moment_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_before_and_after_the_clock_was_set_is_found() {
        let mut ahead = Ahead::default();
        ahead.note(10, 5_000);
        ahead.note(20, 5_000);
        assert_eq!(ahead.least_stamp(20), 5_020);
        // It is set back while a command runs that began at 20: noticed at 30.
        ahead.note(30, 1_000);
        assert_eq!(ahead.least_stamp(20), 1_020);
        // What begins later is stamped by the clock as it is then.
        ahead.note(40, 1_000);
        assert_eq!(ahead.least_stamp(40), 1_040);
        // Set ahead: what was changed before that has the lower stamp.
        ahead.note(50, 9_000);
        assert_eq!(ahead.least_stamp(40), 1_040);
        assert_eq!(ahead.least_stamp(50), 9_050);
        assert_eq!(Ahead::default().least_stamp(7), 7);
    }

    #[test]
    fn a_moment_is_not_after_the_stamp_of_a_file_that_is_changed_then() {
        let path = std::env::temp_dir().join(format!("rakuda-stamps-{}", std::process::id()));
        let moment_ns = moment_ns();
        std::fs::write(&path, "").unwrap();
        let changed_ns = rakuda_proto::file_time::changed_ns(&path.metadata().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(i128::from(least_since_ns(moment_ns)) <= changed_ns);
    }
}
