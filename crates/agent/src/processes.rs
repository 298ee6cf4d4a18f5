//! Whole trees of processes: the guard's part in leaving none behind.
//!
//! Linux hands a process whose parent died to its nearest *child subreaper*. The guard is one, and
//! the hub is its child: whatever the hub started ends up below the guard when the hub dies.
#![allow(unsafe_code, reason = "prctl and wait have no safe wrapper for this")]

use std::ffi::CString;
use std::os::fd::RawFd;

use crate::spawn::{EnvironmentBlock, Group, Launch, Process, Spawner};

/// How a child of this process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

/// Makes this process the one that orphans below it are handed to.
pub fn become_subreaper() -> std::io::Result<()> {
    // SAFETY: plain system call on this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Asks the kernel to send `signal` to this process when its parent dies; `false` when the parent
/// is gone already.
pub fn die_with_parent(parent: i32, signal: i32) -> bool {
    // SAFETY: plain system calls on this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0);
        libc::getppid() == parent
    }
}

/// Names this process as ps and pkill see it (at most 15 bytes).
pub fn set_name(name: &str) {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: the string lives during the call, which copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Makes `descriptor` close at exec, or stay open over it.
pub fn set_close_on_exec(descriptor: RawFd, close: bool) {
    // SAFETY: plain system call; a bad descriptor is an error that does not matter here.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, if close { libc::FD_CLOEXEC } else { 0 }) };
}

/// Starts this program again with other arguments; descriptors without close-on-exec stay open.
pub fn start_myself(words: &[CString], environment: &EnvironmentBlock) -> std::io::Result<Process> {
    Spawner::new().start(&Launch {
        program: c"/proc/self/exe",
        words,
        environment,
        directory: None,
        descriptors: &[],
        group: Group::Inherit,
    })
}

/// Waits until the child `id` ends; other children that end meanwhile (orphans) are reaped.
pub fn wait_for(id: i32) -> Ending {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to this frame.
        let ended = unsafe { libc::wait4(-1, &raw mut status, 0, std::ptr::null_mut()) };
        if ended == id {
            return if libc::WIFEXITED(status) {
                Ending::Exited(libc::WEXITSTATUS(status))
            } else {
                Ending::Killed(libc::WTERMSIG(status))
            };
        }
        if ended < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return Ending::Killed(0);
        }
    }
}

/// Kills every process below this one, however deep, also those that left their group or session.
/// Returns how many were killed.
pub fn kill_descendants() -> usize {
    let mut killed = 0;
    loop {
        for child in children_of_self() {
            // SAFETY: a child of ours that is not waited for yet keeps its number.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to this frame. Blocks until one of the killed is gone; its
        // own children are ours from then on, and the loop comes to them.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended > 0 {
            killed += 1;
        } else if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return killed;
        }
    }
}

/// Variable of the environment that marks the processes of a run. The front sets it; its value ends
/// with the mark of this run.
const RUN_VARIABLE: &str = "RAKUDA_RUN";

/// The marks of the runs that this process belongs to, the innermost last.
fn own_marks() -> Vec<String> {
    let marks = std::env::var_os(RUN_VARIABLE).and_then(|marks| marks.into_string().ok());
    let marks = marks.unwrap_or_default();
    marks.split(':').filter(|mark| !mark.is_empty()).map(str::to_owned).collect()
}

/// The mark of the run that this process belongs to.
pub fn own_mark() -> Option<String> {
    own_marks().pop()
}

/// Whether this process itself belongs to the run of that mark, be it as a run inside it.
pub fn carries(mark: &str) -> bool {
    own_marks().iter().any(|own| own == mark)
}

/// Kills every process that carries `mark`, wherever it stands, but this one and `spared`. So also
/// what the front itself had started goes, which nobody hands to the guard.
pub fn kill_marked(mark: &str, spared: &[i32]) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    for id in all_processes().filter(|id| *id != own && !spared.contains(id)) {
        let Ok(environment) = std::fs::read(format!("/proc/{id}/environ")) else { continue };
        let mut variables = environment.split(|byte| *byte == 0);
        let marked = variables.any(|variable| {
            let value = variable.strip_prefix(RUN_VARIABLE.as_bytes());
            value.is_some_and(|value| {
                value
                    .get(1..)
                    .unwrap_or_default()
                    .split(|byte| *byte == b':')
                    .any(|part| part == mark.as_bytes())
            })
        });
        if marked {
            // SAFETY: plain system call. Its number can only have become another's within the last
            // microseconds.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    }
}

/// The parent of this process.
pub fn parent() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::getppid() }
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children_of_self() -> Vec<i32> {
    let own = std::process::id().to_string();
    let is_child = |id: &i32| {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
        // pid (comm) state ppid ...: comm may hold anything, so count from its last parenthesis.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(own.as_str())
    };
    all_processes().filter(is_child).collect()
}

/// Closes a descriptor that was handed to this process by number.
pub fn close(descriptor: RawFd) {
    // SAFETY: plain system call; the caller owns the number.
    unsafe { libc::close(descriptor) };
}

/// A descriptor that was handed to this process by number and stays open.
pub fn borrow(descriptor: RawFd) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: the caller keeps it open for the life of the process.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) }
}
