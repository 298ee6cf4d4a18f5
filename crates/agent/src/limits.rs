//! Limits of this process that its commands do not have: it must go on where a file may not grow
//! any more, and it has a few descriptors for each command that runs. What it changed for itself is
//! undone between the start of a command and its program.
//!
//! It knows no commands.
#![allow(unsafe_code, reason = "signal(2), and what a child may call before exec")]

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of descriptors that this process needs beside those of commands.
const FILES_OF_OWN: u64 = 64;
/// Number of descriptors that a command takes here while it runs: itself, what it prints, and those that are open while
/// the next one starts.
const FILES_OF_COMMAND: u64 = 4;

/// What commands get back.
static BEFORE: OnceLock<Before> = OnceLock::new();

struct Before {
    /// The limit of open files.
    files: libc::rlimit,
    /// Writing beyond the limit of a file's size ended this process.
    size_signal: bool,
}

/// Lets this process open as many files as it may, and lets a write that would make a file too
/// large fail instead of ending it. At most once; what it starts from then on has both as they
/// were.
pub fn widen() {
    BEFORE.get_or_init(|| {
        // SAFETY: plain system call; no handler is set.
        let earlier = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let files = getrlimit(Resource::Nofile);
        // Where it cannot be raised, it stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
        let number = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
        let files =
            libc::rlimit { rlim_cur: number(files.current), rlim_max: number(files.maximum) };
        Before { files, size_signal: earlier != libc::SIG_IGN }
    });
}

/// How many commands may run at once, as far as open files go.
pub fn commands_at_once() -> u64 {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (files.saturating_sub(FILES_OF_OWN) / FILES_OF_COMMAND).max(1)
}

/// Undoes `widen` in a child before its exec.
///
/// # Safety
/// Only for a child that shares this process's memory but is a process of its own; it makes plain system calls only.
pub(crate) unsafe fn give_back() {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: plain system calls on the child; the limit is in memory that outlives them.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before.files);
        if before.size_signal {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        }
    }
}
