//! Starts a process as posix_spawn(3) does, with clone(2) and a shared memory until exec: no copy of
//! page tables, however large the hub's heap.
//!
//! `std::process::Command` was measured a fifth slower: it rebuilds the environment and makes
//! descriptors for each start. posix_spawn(3) itself costs about 70 system calls a start (it asks for
//! the disposition of every signal), cannot set a parent-death signal, and gives no pidfd. This is
//! the only place that starts processes, and, with those that ARCHITECTURE.md names, the only one with `unsafe`.
#![allow(unsafe_code, reason = "between clone and exec there is no safe code")]

use std::cell::Cell;
use std::ffi::{CStr, CString, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::ptr;
use std::rc::Rc;

use rakuda_proto::front::Usage;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::limits;
use crate::orphans::own_children;
use crate::processes::COMMAND_VARIABLE;

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such program in PATH.
    #[error("find the command {name:?} in PATH")]
    NotFound {
        /// The first word.
        name: String,
    },
    /// The kernel refused.
    #[error("start {program:?}: {source}")]
    Refused {
        /// The file that was to be executed.
        program: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A file of a redirection could not be opened.
    #[error("open {path:?} for the command's descriptor {descriptor}: {source}")]
    Redirect {
        /// The file.
        path: String,
        /// Which descriptor.
        descriptor: i32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// What its task reads or writes is not there.
    #[error("start a command: the streams of its task are not open")]
    NoStreams,
    /// A word holds a NUL byte.
    #[error("start a command: a word of it holds a NUL byte")]
    Nul,
}

/// What happens to descriptors between start and exec, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorAction {
    /// The child's `to` becomes what `from` is at that point.
    Duplicate {
        /// A descriptor of this process, or one already placed.
        from: RawFd,
        /// Of the child.
        to: RawFd,
    },
    /// The child's `to` is closed.
    Close {
        /// Of the child.
        to: RawFd,
    },
}

/// An environment in the form that exec wants.
#[derive(Debug)]
pub struct EnvironmentBlock {
    /// `NAME=value`, each; owns the memory that `pointers` point to.
    _entries: Vec<CString>,
    /// To `entries`, then a null.
    pointers: Vec<*const libc::c_char>,
    /// Value of PATH, for looking programs up.
    pub search_path: Vec<u8>,
    /// What other entries belong to.
    _base: Option<Rc<EnvironmentBlock>>,
}

impl EnvironmentBlock {
    /// From names and values; an entry with a NUL byte is left out.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut entries = Vec::new();
        let mut search_path = b"/usr/local/bin:/usr/bin:/bin".to_vec();
        for (name, value) in variables {
            if name == COMMAND_VARIABLE {
                // Of a run around this one.
                continue;
            }
            let value = value.into_vec();
            if name == "PATH" {
                search_path.clone_from(&value);
            }
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend_from_slice(&value);
            entries.extend(CString::new(entry));
        }
        let mut pointers: Vec<_> = entries.iter().map(|e| e.as_ptr()).collect();
        pointers.push(ptr::null());
        Self { _entries: entries, pointers, search_path, _base: None }
    }

    /// The same and one entry more, `NAME=value`.
    pub(crate) fn with(base: &Rc<Self>, entry: CString) -> Self {
        let mut pointers = Vec::with_capacity(base.pointers.len() + 1);
        pointers.push(entry.as_ptr());
        pointers.extend_from_slice(&base.pointers);
        let search_path = base.search_path.clone();
        Self { _entries: vec![entry], pointers, search_path, _base: Some(Rc::clone(base)) }
    }

    /// The same with these entries, each in the place of one of its name.
    pub(crate) fn replacing(base: &Rc<Self>, entries: Vec<CString>) -> Self {
        let name_of = |entry: &CStr| {
            let bytes = entry.to_bytes();
            let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
            bytes[..end].to_vec()
        };
        let names: Vec<_> = entries.iter().map(|entry| name_of(entry)).collect();
        let mut pointers: Vec<_> = entries.iter().map(|entry| entry.as_ptr()).collect();
        pointers.extend(
            base.entries().filter(|entry| !names.contains(&name_of(entry))).map(CStr::as_ptr),
        );
        pointers.push(ptr::null());
        let search_path = base.search_path.clone();
        Self { _entries: entries, pointers, search_path, _base: Some(Rc::clone(base)) }
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.entries().find_map(|entry| entry.to_bytes().strip_prefix(name)?.strip_prefix(b"="))
    }

    fn entries(&self) -> impl Iterator<Item = &CStr> {
        let pointers = self.pointers.iter().filter(|pointer| !pointer.is_null());
        // SAFETY: all but the null point to strings of this block or of the one that it keeps.
        pointers.map(|pointer| unsafe { CStr::from_ptr(*pointer) })
    }

    /// In the form that exec wants; lives as long as this does.
    pub(crate) fn as_ptr(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }
}

/// The process group of a new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// One of its own.
    Own,
    /// An existing one.
    Join(i32),
    /// The one of this process.
    Inherit,
}

/// Everything that a start needs, looked up and opened.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The file to execute.
    pub program: &'a CStr,
    /// Its words, the name first.
    pub words: &'a [CString],
    /// Its environment.
    pub environment: &'a EnvironmentBlock,
    /// Where it runs. `None`: here.
    pub directory: Option<&'a CStr>,
    /// Its descriptors.
    pub descriptors: &'a [DescriptorAction],
    /// Its process group.
    pub group: Group,
    /// Where it writes 0 first, which makes it a member of a control group.
    pub control_group: Option<RawFd>,
}

/// A process that was started by this one.
#[derive(Debug)]
pub struct Process {
    /// Its number, and that of its group when it has one of its own.
    pub id: i32,
    own_group: bool,
    /// Its status was taken: its number may be another's from then on.
    reaped: Cell<bool>,
    /// Readable when it is over: a pidfd, or what stands for one on kernels without them.
    pub pidfd: OwnedFd,
    /// It was to join a control group and has.
    pub is_grouped: bool,
}

/// Bytes of the stack of a child until its exec, which needs a few hundred.
const STACK_BYTES: usize = 64 << 10;
/// Signals whose disposition this process has changed. Others stay as they were at its start, so
/// that a run under nohup(1) has commands that survive, too.
const RESET_SIGNALS: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGTERM];

/// What the child reads, and writes, in the memory that it shares with this process until exec.
struct ChildTask<'a> {
    launch: &'a Launch<'a>,
    /// To the words, then a null.
    words: &'a [*const libc::c_char],
    /// 0, or why exec was not reached.
    error: libc::c_int,
    /// It has joined its control group.
    is_grouped: bool,
}

/// Starts processes; keeps what is the same for all of them.
pub struct Spawner {
    stack: Box<[MaybeUninit<u128>]>,
}

impl Spawner {
    /// A spawner for one thread. The kernel kills its commands when that thread ends.
    pub fn new() -> Self {
        Self { stack: Box::new_uninit_slice(STACK_BYTES / size_of::<u128>()) }
    }

    /// Starts `launch`. A file that is a script without `#!` is given to the shell, as Ruby does.
    pub fn start(&mut self, launch: &Launch<'_>) -> std::io::Result<Process> {
        match self.start_file(launch) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                let mut words = vec![c"sh".to_owned(), launch.program.to_owned()];
                words.extend(launch.words.iter().skip(1).cloned());
                self.start_file(&Launch { program: c"/bin/sh", words: &words, ..*launch })
            }
            result => result,
        }
    }

    fn start_file(&mut self, launch: &Launch<'_>) -> std::io::Result<Process> {
        let mut words: Vec<_> = launch.words.iter().map(|word| word.as_ptr()).collect();
        words.push(ptr::null());
        let mut task = ChildTask { launch, words: &words, error: 0, is_grouped: false };
        let mut pidfd: RawFd = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let mut own = own_children();
        // SAFETY: the child runs `run_child` on a stack of its own while this thread is stopped
        // (CLONE_VFORK), so `task` and all that it refers to outlives the child's use of it. All
        // signals are blocked meanwhile, so that no handler of this process runs in the child.
        let id = unsafe {
            let mut all = MaybeUninit::uninit();
            let mut before = MaybeUninit::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            let top = self.stack.as_mut_ptr_range().end;
            let argument: *mut ChildTask<'_> = &raw mut task;
            let id = libc::clone(run_child, top.cast(), flags, argument.cast(), &raw mut pidfd);
            let error = std::io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            if id < 0 {
                return Err(error);
            }
            id
        };
        // SAFETY: the kernel made this descriptor for us, if it knows the flag.
        let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
        if task.error != 0 {
            // SAFETY: a child of ours that is not waited for.
            unsafe { libc::waitpid(id, ptr::null_mut(), 0) };
            return Err(std::io::Error::from_raw_os_error(task.error));
        }
        let pidfd = match pidfd {
            Some(pidfd) => pidfd,
            None => end_of(id).inspect_err(|_| kill(id))?,
        };
        own.insert(id);
        let own_group = launch.group == Group::Own;
        let is_grouped = task.is_grouped;
        Ok(Process { id, own_group, reaped: Cell::new(false), pidfd, is_grouped })
    }
}

/// A descriptor that is readable when a child is over, where the kernel gives none (before Linux 5.2): the end of a
/// pipe, whose other end a thread closes. The thread waits for the child, and leaves its status.
fn end_of(id: i32) -> std::io::Result<OwnedFd> {
    let child = Pid::from_raw(id).ok_or(Errno::SRCH)?;
    let (ended, until) = pipe_with(PipeFlags::CLOEXEC)?;
    let thread = std::thread::Builder::new().name("rakuda-end".to_owned());
    thread.stack_size(STACK_BYTES).spawn(move || {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(child), how), Err(Errno::INTR)) {}
        drop(until);
    })?;
    Ok(ended)
}

/// Ends a child whose end could not be noticed.
fn kill(id: i32) {
    // SAFETY: plain system calls on a child of ours that is not waited for.
    unsafe {
        libc::kill(id, libc::SIGKILL);
        libc::waitpid(id, ptr::null_mut(), 0);
    }
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new()
    }
}

/// The child between clone and exec. Memory and errno are the parent's, which is stopped: nothing
/// here may allocate, lock or panic.
extern "C" fn run_child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start_file` passes a pointer to its `ChildTask`, which nobody else uses meanwhile;
    // everything below is a plain system call on memory that outlives it.
    unsafe {
        let task = &mut *argument.cast::<ChildTask<'_>>();
        // Before all else: what it does from here on counts there.
        if let Some(group) = task.launch.control_group {
            task.is_grouped = libc::write(group, c"0".as_ptr().cast(), 1) == 1;
        }
        if let Err(error) = prepare_child(task.launch) {
            task.error = error;
        } else {
            let environment = task.launch.environment.as_ptr();
            libc::execve(task.launch.program.as_ptr(), task.words.as_ptr(), environment);
            task.error = *libc::__errno_location();
        }
        libc::_exit(127);
    }
}

/// # Safety
/// Only for the child of `start_file`.
unsafe fn prepare_child(launch: &Launch<'_>) -> Result<(), libc::c_int> {
    // SAFETY: see `run_child`.
    unsafe {
        let check = |code: libc::c_int| {
            if code < 0 { Err(*libc::__errno_location()) } else { Ok(()) }
        };
        match launch.group {
            Group::Own => check(libc::setpgid(0, 0))?,
            Group::Join(group) => check(libc::setpgid(0, group))?,
            Group::Inherit => {}
        }
        // When this process is killed, its commands die with it; the guard sees to their children.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        if let Some(directory) = launch.directory {
            check(libc::chdir(directory.as_ptr()))?;
        }
        for action in launch.descriptors {
            match *action {
                // dup2 onto itself would leave the descriptor to be closed at exec.
                DescriptorAction::Duplicate { from, to } if from == to => {
                    check(libc::fcntl(to, libc::F_SETFD, 0))?;
                }
                DescriptorAction::Duplicate { from, to } => check(libc::dup2(from, to))?,
                DescriptorAction::Close { to } => drop(check(libc::close(to))),
            }
        }
        // Handlers of this process must be gone before signals can come in again.
        for signal in RESET_SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        limits::give_back();
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        check(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()))
    }
}

impl Process {
    /// Takes the exit status (as wait(2) gives it) and the usage, once the pidfd is readable.
    /// `None`: it still runs. The wall time is left to the caller.
    pub fn take_status(&self) -> Option<(i32, Usage)> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // Held meanwhile: the number may be another child's at once.
        let mut own = own_children();
        // SAFETY: both pointers are to memory of this frame, and all-zero is a valid rusage.
        let (id, usage) = unsafe {
            let id = libc::wait4(self.id, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
            (id, usage.assume_init())
        };
        self.reaped.set(id == self.id);
        if id == self.id {
            own.remove(&id);
        }
        (id == self.id).then(|| {
            let usage = Usage {
                wall_ns: 0,
                user_us: microseconds(usage.ru_utime),
                system_us: microseconds(usage.ru_stime),
                max_rss_kib: beyond_ours(usage.ru_maxrss),
                read_bytes: block_bytes(usage.ru_inblock),
                write_bytes: block_bytes(usage.ru_oublock),
            };
            (status, usage)
        })
    }

    /// Sends `signal` to the process group; to the process alone when it has none of its own.
    pub fn signal_group(&self, signal: i32) {
        if self.own_group {
            // SAFETY: plain system call. A group that is gone is no error that matters.
            unsafe { libc::kill(-self.id, signal) };
        } else if !self.reaped.get() {
            // SAFETY: plain system call on a child that is not waited for.
            unsafe { libc::kill(self.id, signal) };
        }
    }

    /// Whether its status has been taken.
    pub fn is_reaped(&self) -> bool {
        self.reaped.get()
    }

    /// Whether its own group has members besides the (already waited-for) leader.
    pub fn group_lives(&self) -> bool {
        // SAFETY: plain system call; signal 0 only asks.
        self.own_group
            && unsafe { libc::kill(-self.id, 0) == 0 || *libc::__errno_location() == libc::EPERM }
    }
}

impl AsRawFd for Process {
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

/// Peaks that are nearer than this are not told apart: the kernel keeps such counts for each
/// processor, and adds them up now and then.
const TELLING_KIB: libc::c_long = 1024;

/// The peak memory of a child, KiB; 0 when it is not clearly above that of this process: a child
/// shares our memory until it executes its program, and the kernel counts that as its own.
fn beyond_ours(child_kib: libc::c_long) -> u64 {
    let mut ours = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of this frame, and all-zero is a valid rusage.
    let ours = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, ours.as_mut_ptr());
        ours.assume_init()
    };
    if child_kib > ours.ru_maxrss.saturating_add(TELLING_KIB) {
        u64::try_from(child_kib).unwrap_or(0)
    } else {
        0
    }
}

/// Blocks of getrusage(2), which have 512 bytes.
fn block_bytes(blocks: libc::c_long) -> u64 {
    u64::try_from(blocks).unwrap_or(0).saturating_mul(512)
}

fn microseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any child, in a test")]
    fn the_end_of_a_child_is_told_without_a_pidfd_and_its_status_is_left() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read line; exit 7"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ended = end_of(child.id().cast_signed()).unwrap();
        let is_told = |timeout: Option<&Timespec>| {
            let mut waited = [PollFd::new(&ended, PollFlags::IN)];
            poll(&mut waited, timeout).unwrap() == 1
        };
        assert!(!is_told(Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), "it waits for its input");
        drop(child.stdin.take());
        assert!(is_told(None));
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }
}
