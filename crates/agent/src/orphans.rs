//! Processes that have lost their parent and so have come to this one, a child subreaper: their
//! status is taken when they end.
//!
//! It tells them from those that were started here, whose status is for the code that watches them. It does not end
//! any.
#![allow(unsafe_code, reason = "wait has no safe wrapper that leaves a status in place")]

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Time between two tries while a command that has ended stands before an orphan. What watches the command takes its
/// status within a moment.
const STEP: Duration = Duration::from_millis(20);
/// Time between two looks for orphans that have ended.
const SELDOM: Duration = Duration::from_secs(2);

/// Children of this process that were started here and whose status was not taken yet.
static OWN_CHILDREN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// To be held while one is started or its status is taken: a number may be another's at once.
pub(crate) fn own_children() -> MutexGuard<'static, BTreeSet<i32>> {
    OWN_CHILDREN.lock().expect("nothing fails while it is held")
}

/// Takes the status of orphans now and then; for ever. For a process that starts many commands and
/// is not to be woken by the end of each: an orphan that has ended costs nothing but its number.
pub async fn reap_seldom() {
    loop {
        tokio::time::sleep(SELDOM).await;
        reap_now();
    }
}

/// Takes the status of orphans as they end; for ever.
pub(crate) async fn reap() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    while ended.recv().await.is_some() {
        while !reap_now() {
            tokio::time::sleep(STEP).await;
        }
    }
}

/// Takes what there is. `false`: one that was started here stands before others that may be there,
/// until its status was taken.
fn reap_now() -> bool {
    let own = own_children();
    loop {
        let mut ended = MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the pointer is to this frame, and all-zero is a valid siginfo; it stays so when no child has ended.
        let (failed, id) = unsafe {
            let failed = libc::waitid(libc::P_ALL, 0, ended.as_mut_ptr(), flags) < 0;
            (failed, ended.assume_init().si_pid())
        };
        if failed || id == 0 {
            return true;
        }
        if own.contains(&id) {
            return false;
        }
        // SAFETY: a child of ours that nobody waits for.
        unsafe { libc::waitpid(id, std::ptr::null_mut(), libc::WNOHANG) };
    }
}
