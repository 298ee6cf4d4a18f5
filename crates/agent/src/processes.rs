//! Processes of a run as such: how those above it are started and end, and the mark by which all of them are known.
#![allow(unsafe_code, reason = "prctl and wait have no safe wrapper for this")]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;

use rakuda_proto::agent::CommandId;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv,
    socket_with,
};

use crate::spawn::{DescriptorAction, EnvironmentBlock, Group, Launch, Process, Spawner};
use crate::trees;

/// How a child of this process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Ending {
    /// From a status as wait(2) gives it.
    pub fn of(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Exited(libc::WEXITSTATUS(status))
        } else {
            Self::Killed(libc::WTERMSIG(status))
        }
    }

    /// As wait(2) would give it.
    pub fn status(self) -> i32 {
        match self {
            Self::Exited(status) => (status & 0xff) << 8,
            Self::Killed(signal) => signal & 0x7f,
        }
    }
}

/// Makes this process the one that gets the orphans below it.
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
    start(c"/proc/self/exe", words, environment, &[], Group::Inherit)
}

/// Starts a program where this process is.
pub fn start(
    program: &CStr,
    words: &[CString],
    environment: &EnvironmentBlock,
    descriptors: &[DescriptorAction],
    group: Group,
) -> std::io::Result<Process> {
    let launch = Launch {
        program,
        words,
        environment,
        directory: None,
        descriptors,
        group,
        control_group: None,
    };
    Spawner::new().start(&launch)
}

/// Waits until the child `id` ends; other children that end meanwhile (orphans) are reaped.
pub fn wait_for(id: i32) -> Ending {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to this frame.
        let ended = unsafe { libc::wait4(-1, &raw mut status, 0, std::ptr::null_mut()) };
        if ended == id {
            return Ending::of(status);
        }
        if ended < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return Ending::Killed(0);
        }
    }
}

/// A child that has ended, orphans among them, and how. `None`: no other has.
pub fn reap() -> Option<(i32, Ending)> {
    let mut status = 0;
    // SAFETY: the pointer is to this frame.
    let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (ended > 0).then(|| (ended, Ending::of(status)))
}

/// Makes a copy of this process, which must have one thread. `None`: this is the copy. It learns that the parent has
/// died from a pipe that the parent has, or from [`die_with_parent`].
pub fn fork() -> std::io::Result<Option<i32>> {
    // SAFETY: with one thread the copy may do all that its parent may.
    match unsafe { libc::fork() } {
        0 => Ok(None),
        id if id > 0 => Ok(Some(id)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Becomes the program `words[0]`, looked up in PATH. Returns only when that fails.
pub fn execute(words: &[CString], environment: &EnvironmentBlock) -> std::io::Error {
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: both lists end with a null and point to strings that live during the call.
    unsafe { libc::execvpe(pointers[0], pointers.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error()
}

/// Gives up the controlling terminal: what asks for it then fails instead of being stopped for ever.
pub fn leave_terminal() {
    // SAFETY: plain system calls; the descriptor is this function's own.
    unsafe {
        if libc::setsid() >= 0 {
            return;
        }
        // The leader of a group can only let go of it.
        let terminal =
            libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOCTTY);
        if terminal >= 0 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
}

/// Files made from now on have no more permissions than this leaves.
pub fn set_umask(mask: u32) {
    // SAFETY: plain system call on this process.
    unsafe { libc::umask(mask) };
}

/// Whether the other end of a socket is closed.
pub fn is_closed(socket: &impl AsFd) -> bool {
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    !matches!(recv(socket, &mut byte[..], flags), Err(Errno::AGAIN | Errno::INTR) | Ok((1.., _)))
}

/// Variable of the environment that marks the processes of a run. The guard of a run sets it; its value ends
/// with the mark of this run.
const RUN_VARIABLE: &str = "RAKUDA_RUN";

/// Variable of the environment that says which command of which run a process was started as, or below.
pub const COMMAND_VARIABLE: &str = "RAKUDA_COMMAND";

/// Its value for a command of the run, or the agent, of `mark`.
pub fn command_mark(mark: &str, command: CommandId) -> String {
    format!("{mark}/{}", command.0)
}

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

/// A new mark, for a run that this process starts.
pub fn new_front_mark() -> String {
    format!("{}-{:08x}", std::process::id(), random() & 0xffff_ffff)
}

/// A number that nobody can guess.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        // Before Linux 3.17.
        Err(Errno::NOSYS) => random_from_device(&mut bytes),
        got => assert_eq!(got, Ok(bytes.len()), "the kernel gives so few random bytes at once"),
    }
    u64::from_ne_bytes(bytes)
}

fn random_from_device(bytes: &mut [u8]) {
    let read = File::open("/dev/urandom").and_then(|mut device| device.read_exact(bytes));
    read.expect("every Linux has /dev/urandom");
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
        if is_marked(id, mark) {
            // SAFETY: plain system call. Its number can only have become another's within the last
            // microseconds.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    }
}

/// Whether a process of this user carries `mark`.
fn is_marked(id: i32, mark: &str) -> bool {
    let environment = trees::environment_of(id).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let value = variable.strip_prefix(RUN_VARIABLE.as_bytes());
        let marks = value.and_then(|value| value.strip_prefix(b"="));
        marks.is_some_and(|marks| {
            marks.split(|byte| *byte == b':').any(|part| part == mark.as_bytes())
        })
    })
}

/// The process that has drawn a mark: `PID-` and 8 hexadecimal digits (a front) or 16 (the guard of
/// an agent). `None`: it is no mark.
pub fn mark_process(mark: &str) -> Option<i32> {
    let (process, digits) = mark.split_once('-')?;
    let is_drawn =
        matches!(digits.len(), 8 | 16) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    process.parse().ok().filter(|process| is_drawn && *process > 0)
}

/// Whether the guard that has drawn a mark is there.
pub fn guard_lives(mark: &str) -> bool {
    mark_process(mark).is_some_and(|id| has_name(id, GUARD_NAME))
}

/// Whether this process's parent is a guard: one that has ended leaves its children to another process.
pub fn is_guarded() -> bool {
    has_name(parent(), GUARD_NAME)
}

fn has_name(id: i32, name: &str) -> bool {
    let told = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    told.trim_end() == name
}

/// Shows on this machine that processes of a run live: nobody has to be asked, so nothing waits for an answer.
#[derive(Debug)]
pub struct Life {
    /// Open in `rakuda` and in the guard below it.
    _above: OwnedFd,
    /// Open in `rakuda` alone.
    first: Option<OwnedFd>,
}

impl Life {
    /// Of the run of `mark`, which this process has drawn.
    pub fn show(mark: &str) -> std::io::Result<Self> {
        // A process that sees the other sees this one.
        let first = life_socket()?;
        bind(&first, &life_address(&first_name(mark))?)?;
        let above = life_socket()?;
        bind(&above, &life_address(mark)?)?;
        Ok(Self { _above: above, first: Some(first) })
    }

    /// In a copy of the process that has drawn the mark.
    pub fn leave_first(&mut self) {
        self.first = None;
    }
}

/// Whether the processes above the run of `mark` live on this machine. They end all that stands
/// below them before they end.
pub fn shows_life(mark: &str) -> bool {
    let connected = life_socket().and_then(|socket| Ok(connect(&socket, &life_address(mark)?)?));
    connected.is_ok()
}

/// Whether the run of `mark` is being ended: `rakuda` is gone, and the guard below it is not.
pub fn is_being_ended(mark: &str) -> bool {
    !first_lives(mark) && shows_life(mark)
}

/// Whether `rakuda` of the run of `mark` lives, by what this machine shows ([`life_space`]).
pub fn first_lives(mark: &str) -> bool {
    shows_life(&first_name(mark))
}

/// Where [`Life`] of processes like this one is seen: on this machine until it is started anew, and in one space of
/// networks. `None`: the kernel does not tell.
pub fn life_space() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {}", boot.trim(), network.to_str()?))
}

fn first_name(mark: &str) -> String {
    format!("{mark}-first")
}

fn life_socket() -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    // Others may connect to it without any work of its owner.
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// A name without a file: it goes with the last process that has it.
fn life_address(mark: &str) -> std::io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("rakuda-{mark}").as_bytes())?)
}

/// What a guard is called.
pub const GUARD_NAME: &str = "rakuda-guard";
/// The process above it, which the user has started.
pub const STARTER_NAME: &str = "rakuda";
/// The hub.
pub const HUB_NAME: &str = "rakudad";

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
    // In a container processes have other numbers, and so has the one that drew their mark.
    let space = |id: i32| std::fs::read_link(format!("/proc/{id}/ns/pid")).ok();
    let own_space = space(own);
    let is_over = |id: i32| {
        if space(id) != own_space {
            return None;
        }
        let environment = trees::environment_of(id)?;
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

/// When a process was started, in the kernel's ticks; one that is not there: later than any, as if
/// its number were given out anew.
fn started(id: i32) -> Option<u64> {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return Some(u64::MAX);
    };
    // pid (comm) state ppid ...: comm may hold anything, so count from its last parenthesis.
    stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the process lives, and is not about to end. (One that ends closes its files first.)
pub fn goes_on(id: i32) -> bool {
    const EXITING: u32 = 4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let flags = fields.split_whitespace().nth(6).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING == 0)
}

/// Whether the process group has a member that goes on.
pub fn group_goes_on(group: i32) -> bool {
    // SAFETY: plain system call.
    let is_member = |id: &i32| unsafe { libc::getpgid(*id) } == group;
    all_processes().filter(is_member).any(goes_on)
}

/// The parent of this process.
pub fn parent() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::getppid() }
}

/// All processes that `/proc` shows.
pub(crate) fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies of this process that other tests make hold its descriptors until they execute something.
    fn await_life(mark: &str, wanted: (bool, bool)) {
        while (shows_life(mark), is_being_ended(mark)) != wanted {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_run_shows_that_it_lives_however_often_one_looks() {
        let mark = new_front_mark();
        assert_eq!((shows_life(&mark), is_being_ended(&mark)), (false, false));
        let mut life = Life::show(&mark).unwrap();
        for _ in 0..1000 {
            assert_eq!((shows_life(&mark), is_being_ended(&mark)), (true, false));
        }
        life.leave_first();
        await_life(&mark, (true, true));
        for _ in 0..1000 {
            assert_eq!((shows_life(&mark), is_being_ended(&mark)), (true, true));
        }
        drop(life);
        await_life(&mark, (false, false));
    }
}
