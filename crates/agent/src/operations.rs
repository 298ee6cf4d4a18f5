//! Counts the system calls on metadata of files that this process makes for its tasks: looks (statx, access), opens of files and folders to look
//! at them, and listings. A rename or a removal of a failed target counts too.
//!
//! One counter for the process, as the calls are made by several threads; who asks for the count gets all of them. Opens of pipes, of /proc, of the
//! record's own files and what libraries do by themselves are not counted.

use std::sync::atomic::{AtomicU64, Ordering};

static MADE: AtomicU64 = AtomicU64::new(0);

/// So many calls are made.
pub fn count(calls: u64) {
    MADE.fetch_add(calls, Ordering::Relaxed);
}

/// Calls since the process started.
pub fn total() -> u64 {
    MADE.load(Ordering::Relaxed)
}

/// Calls since [`take`] was called last: for an agent elsewhere, that reports them bit by bit.
pub fn take() -> u32 {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let total = total();
    u32::try_from(total - TAKEN.swap(total, Ordering::Relaxed).min(total)).unwrap_or(u32::MAX)
}
