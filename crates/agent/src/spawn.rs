//! Starts a process with posix_spawn(3): no copy of page tables, however large the hub's heap.
//!
//! `std::process::Command` was measured a fifth slower here: it rebuilds the environment and makes
//! descriptors for each start. This is the only place that starts processes, and, with `processes`,
//! the only one with `unsafe`.
#![allow(unsafe_code, reason = "posix_spawn has no safe wrapper that keeps process groups")]

use std::ffi::{CStr, CString, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::ptr;

use rakuda_proto::front::Usage;

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
    pointers: Vec<*mut libc::c_char>,
    /// Value of PATH, for looking programs up.
    pub search_path: Vec<u8>,
}

impl EnvironmentBlock {
    /// From names and values; an entry with a NUL byte is left out.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut entries = Vec::new();
        let mut search_path = b"/usr/local/bin:/usr/bin:/bin".to_vec();
        for (name, value) in variables {
            let value = value.into_vec();
            if name == "PATH" {
                search_path.clone_from(&value);
            }
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend_from_slice(&value);
            entries.extend(CString::new(entry));
        }
        let mut pointers: Vec<_> = entries.iter().map(|e| e.as_ptr().cast_mut()).collect();
        pointers.push(ptr::null_mut());
        Self { _entries: entries, pointers, search_path }
    }
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
    /// Where it runs; nothing: here.
    pub directory: Option<&'a CStr>,
    /// Its descriptors.
    pub descriptors: &'a [DescriptorAction],
}

/// A process that was started and not waited for yet. Leader of its own process group.
#[derive(Debug)]
pub struct Process {
    /// Its number, and that of its group.
    pub id: i32,
    /// Readable when it is over.
    pub pidfd: OwnedFd,
}

fn check(code: libc::c_int) -> std::io::Result<()> {
    if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(code)) }
}

/// The attributes of every start: own process group, no blocked and no ignored signals.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> std::io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        let flags = libc::POSIX_SPAWN_SETPGROUP
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: `raw` is initialised by the first call before any other uses it; the signal
        // sets live on this stack frame and are copied by the setters.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut attributes = Self(raw.assume_init());
            let mut signals = MaybeUninit::uninit();
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, signals.as_ptr()))?;
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE);
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGQUIT);
            check(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, signals.as_ptr()))?;
            check(libc::posix_spawnattr_setpgroup(&raw mut attributes.0, 0))?;
            let flags = libc::c_short::try_from(flags).expect("spawn flags are small");
            check(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new(launch: &Launch<'_>) -> std::io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: initialised by the first call; the directory's string is copied by the call.
        unsafe {
            check(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            let mut actions = Self(raw.assume_init());
            if let Some(directory) = launch.directory {
                check(libc::posix_spawn_file_actions_addchdir_np(
                    &raw mut actions.0,
                    directory.as_ptr(),
                ))?;
            }
            for action in launch.descriptors {
                check(match *action {
                    DescriptorAction::Duplicate { from, to } => {
                        libc::posix_spawn_file_actions_adddup2(&raw mut actions.0, from, to)
                    }
                    DescriptorAction::Close { to } => {
                        libc::posix_spawn_file_actions_addclose(&raw mut actions.0, to)
                    }
                })?;
            }
            Ok(actions)
        }
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// Starts processes; keeps what is the same for all of them.
pub struct Spawner {
    attributes: Attributes,
}

impl Spawner {
    /// Fails only when memory is out.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { attributes: Attributes::new()? })
    }

    /// Starts `launch`. A file that is a script without `#!` is given to the shell, as Ruby does.
    pub fn start(&self, launch: &Launch<'_>) -> std::io::Result<Process> {
        match self.start_file(launch) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                let mut words = vec![c"sh".to_owned(), launch.program.to_owned()];
                words.extend(launch.words.iter().skip(1).cloned());
                self.start_file(&Launch { program: c"/bin/sh", words: &words, ..*launch })
            }
            result => result,
        }
    }

    fn start_file(&self, launch: &Launch<'_>) -> std::io::Result<Process> {
        let actions = FileActions::new(launch)?;
        let mut words: Vec<_> = launch.words.iter().map(|w| w.as_ptr().cast_mut()).collect();
        words.push(ptr::null_mut());
        let mut id = 0;
        // SAFETY: all pointers live until the call returns; both arrays end with a null pointer;
        // the attributes and the actions are initialised.
        let code = unsafe {
            libc::posix_spawn(
                &raw mut id,
                launch.program.as_ptr(),
                &raw const actions.0,
                &raw const self.attributes.0,
                words.as_ptr(),
                launch.environment.pointers.as_ptr(),
            )
        };
        check(code)?;
        // SAFETY: the child is ours and not waited for, so its number is its own; the call
        // returns a new descriptor that nothing else owns.
        let pidfd = unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, id, libc::PIDFD_NONBLOCK);
            match RawFd::try_from(descriptor) {
                Ok(descriptor) if descriptor >= 0 => OwnedFd::from_raw_fd(descriptor),
                _ => {
                    let error = std::io::Error::last_os_error();
                    libc::kill(id, libc::SIGKILL);
                    libc::waitpid(id, ptr::null_mut(), 0);
                    return Err(error);
                }
            }
        };
        Ok(Process { id, pidfd })
    }
}

impl Process {
    /// Takes the exit status (as wait(2) gives it) and the usage, once the pidfd is readable.
    /// `None`: it still runs. The wall time is left to the caller.
    pub fn take_status(&self) -> Option<(i32, Usage)> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to memory of this frame, and all-zero is a valid rusage.
        let (id, usage) = unsafe {
            let id = libc::wait4(self.id, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
            (id, usage.assume_init())
        };
        (id == self.id).then(|| {
            let usage = Usage {
                wall_ns: 0,
                user_us: microseconds(usage.ru_utime),
                system_us: microseconds(usage.ru_stime),
                max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
            };
            (status, usage)
        })
    }

    /// Sends `signal` to the process group. Nothing happens when it is gone.
    pub fn signal_group(&self, signal: i32) {
        // SAFETY: plain system call.
        unsafe { libc::kill(-self.id, signal) };
    }

    /// Whether the group has members besides the (already waited-for) leader.
    pub fn group_lives(&self) -> bool {
        // SAFETY: plain system call; signal 0 only asks.
        unsafe { libc::kill(-self.id, 0) == 0 || *libc::__errno_location() == libc::EPERM }
    }
}

impl AsRawFd for Process {
    fn as_raw_fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
}
