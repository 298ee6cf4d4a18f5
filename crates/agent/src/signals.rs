//! Signals as values: blocked, and read one after the other with their senders. For processes of one thread that pass
//! on what they get, such as those above a run.
#![allow(unsafe_code, reason = "signal masks and signalfd have no safe wrapper for this")]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Signals that are never blocked: those by which the kernel tells a process of its own mistake,
/// and those of job control.
const LEFT_ALONE: [libc::c_int; 14] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPIPE,
    libc::SIGSTOP,
    libc::SIGKILL,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
];

/// Which signals a process has blocked.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Makes it this thread's.
    pub fn restore(&self) {
        // SAFETY: the pointer is to a whole set; the former one is not wanted.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// The process that sent it. `None`: the kernel, as with Ctrl-C on the terminal, which every process of the
    /// foreground group gets.
    pub sender: Option<u32>,
}

/// Signals that have come and were not read yet.
pub struct SignalQueue {
    descriptor: OwnedFd,
}

impl SignalQueue {
    /// Blocks all signals that can be passed on, and SIGCHLD, and collects them from now on. The
    /// mask is what held before.
    pub fn new() -> std::io::Result<(Self, SignalMask)> {
        let mut wanted = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets live in this frame, and are filled before they are read.
        let (descriptor, before) = unsafe {
            libc::sigfillset(wanted.as_mut_ptr());
            for signal in LEFT_ALONE {
                libc::sigdelset(wanted.as_mut_ptr(), signal);
            }
            libc::sigprocmask(libc::SIG_SETMASK, wanted.as_ptr(), before.as_mut_ptr());
            let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
            (libc::signalfd(-1, wanted.as_ptr(), flags), before.assume_init())
        };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the kernel made this descriptor for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok((Self { descriptor }, SignalMask(before)))
    }

    /// The next signal. `None`: there is none now.
    pub fn read(&self) -> Option<Received> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has room for what is asked, and is only read when all of it was written.
        let info = unsafe {
            let got = libc::read(self.descriptor.as_raw_fd(), info.as_mut_ptr().cast(), bytes);
            if got != bytes.cast_signed() {
                return None;
            }
            info.assume_init()
        };
        Some(Received {
            signal: info.ssi_signo.cast_signed(),
            sender: (info.ssi_code <= 0).then_some(info.ssi_pid),
        })
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether `signal` is ignored by this process.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to memory of this frame, and all-zero is a valid value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Ends this process by `signal`, as another one has ended by it; without a core, which that one has left.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: plain system calls on this process; the limit lives in this frame.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only = MaybeUninit::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut());
    }
    // One that does not end a process by default.
    std::process::exit(128 + signal);
}

/// Sends `signal` to a process; one that is gone is no error.
pub fn send(process: i32, signal: i32) {
    // SAFETY: plain system call.
    unsafe { libc::kill(process, signal) };
}
