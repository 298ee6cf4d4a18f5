//! Whole trees of processes: the guard's part in leaving none behind.
//!
//! Linux hands a process whose parent died to its nearest *child subreaper*. The guard is one, and
//! the hub is its child: whatever the hub started ends up below the guard when the hub dies.
#![allow(unsafe_code, reason = "prctl and wait have no safe wrapper for this")]

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt as _;

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

/// A new mark, for an agent: nothing else has it.
pub fn new_mark() -> String {
    format!("{}-{:016x}", std::process::id(), random())
}

/// A number that nobody can guess.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "the kernel gives so few random bytes at once");
    u64::from_ne_bytes(bytes)
}

/// The variable that marks a process, with `mark` behind the marks that it would have otherwise.
pub fn marked(outer: Option<&[u8]>, mark: &str) -> (OsString, OsString) {
    let mut value = outer.unwrap_or_default().to_vec();
    if !value.is_empty() {
        value.push(b':');
    }
    value.extend_from_slice(mark.as_bytes());
    (RUN_VARIABLE.into(), OsString::from_vec(value))
}

/// Whether a variable is the one that marks processes.
pub fn is_mark(name: &OsStr) -> bool {
    name == RUN_VARIABLE
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

/// The process that has drawn a mark: `PID-` and 8 hexadecimal digits (a front) or 16 (the guard of an agent). `None`: it is no mark.
pub fn mark_process(mark: &str) -> Option<i32> {
    let (process, digits) = mark.split_once('-')?;
    let is_drawn =
        matches!(digits.len(), 8 | 16) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    process.parse().ok().filter(|process| is_drawn && *process > 0)
}

/// Whether the guard that has drawn a mark is there.
pub fn guard_lives(mark: &str) -> bool {
    let name = |id: i32| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    mark_process(mark).is_some_and(|id| name(id).trim_end() == GUARD_NAME)
}

/// What a guard is called.
pub const GUARD_NAME: &str = "rakuda-guard";

/// A process that a run has left behind which is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// Its number.
    pub id: i32,
    /// What it is called.
    pub name: String,
}

impl LeftBehind {
    /// Kills it.
    pub fn kill(&self) {
        // SAFETY: plain system call. Its number can only have become another's within the last moments.
        unsafe { libc::kill(self.id, libc::SIGKILL) };
    }
}

/// Processes of this user that carry the mark of a run whose front, or of an agent whose guard, is gone.
pub fn left_behind() -> Vec<LeftBehind> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    // In a container processes have other numbers, and so has who drew their mark.
    let space = |id: i32| std::fs::read_link(format!("/proc/{id}/ns/pid")).ok();
    let own_space = space(own);
    let is_over = |id: i32| {
        if space(id) != own_space {
            return None;
        }
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let marks = variables.find_map(|variable| {
            variable.strip_prefix(RUN_VARIABLE.as_bytes())?.strip_prefix(b"=")
        })?;
        // The innermost is of this machine.
        let mark = marks.rsplit(|byte| *byte == b':').next()?;
        let mark = std::str::from_utf8(mark).ok()?;
        let drawer = mark_process(mark)?;
        let is_agents = mark.len() - mark.find('-')? == 17;
        let lives = if is_agents { guard_lives(mark) } else { started(drawer)? <= started(id)? };
        (!lives).then_some(())
    };
    let left = all_processes().filter(|id| *id != own).filter_map(|id| {
        let is_there = || std::fs::read_to_string(format!("/proc/{id}/comm")).ok();
        is_over(id).and_then(|()| is_there()).map(|name| (id, name.trim_end().to_owned()))
    });
    left.map(|(id, name)| LeftBehind { id, name }).collect()
}

/// When a process was started, in the kernel's ticks; one that is not there: later than any, as if its number were given out anew.
fn started(id: i32) -> Option<u64> {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return Some(u64::MAX);
    };
    // pid (comm) state ppid ...: comm may hold anything, so count from its last parenthesis.
    stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()
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
