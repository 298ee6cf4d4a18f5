//! The guard: a small process above Ruby and the hub, below the one that the user has started.
//!
//! It starts Ruby, and a hub each time that Ruby asks for one. All that a run ever starts stands
//! below it (child subreaper). When the hub or Ruby was killed, or the run stopped, it ends what is
//! left, and only then settles the targets: before that, something might still write to them. It
//! does the same when the process above it is killed. It knows no protocol. Of the socket between the
//! two it holds the hub's end, so that Ruby hears of the hub's end only when nothing is left that is
//! to be ended: what Ruby starts after that is its own.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use rakuda_agent::processes::{self, Ending};
use rakuda_agent::signals::{SignalMask, SignalQueue};
use rakuda_agent::spawn::{DescriptorAction, Group};
use rakuda_agent::{EnvironmentBlock, clock, trees};
use rakuda_hub::record;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, getrlimit};

use crate::hub_process;
use crate::hub_requests::{HubRequest, HubRequests};
use crate::tidings::{self, Tiding};

/// Names the descriptor over which Ruby asks for a hub, in its environment.
const GUARD_VARIABLE: &str = "RAKUDA_GUARD";

/// Sizes of the stacks of Ruby's Fibers, which Ruby reads as it boots: as large as those of its
/// main thread, so that recursion in an action goes as deep as with rake. They are address space; a
/// page costs memory once it is touched.
const STACKS: [(&str, usize); 2] =
    [("RUBY_FIBER_VM_STACK_SIZE", 1 << 20), ("RUBY_FIBER_MACHINE_STACK_SIZE", 8 << 20)];
/// Objects for which Ruby's heap has room from the beginning: what Rakuda loads fits without a
/// collection. Ruby 3.3 and later, which keep objects by size, do not read it.
const HEAP: (&str, usize) = ("RUBY_GC_HEAP_INIT_SLOTS", 150_000);
/// Names those of these that the user has not set himself, with colons between them; Ruby removes them from its
/// environment.
const SIZES_VARIABLE: &str = "RAKUDA_SIZES";

/// The folder of a run, held open: it may get another name while the run goes on.
pub struct RunDirectory(OwnedFd);

impl RunDirectory {
    /// `None`: it cannot be opened; the next run then settles what this one leaves.
    pub fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).ok().map(Self)
    }

    /// What it is called now.
    fn path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()
    }
}

/// A hub that runs.
struct RunningHub {
    id: i32,
    /// Over it the hub says where its run is, and learns how the front has ended.
    socket: OwnedFd,
    /// It may still say something.
    speaks: bool,
    /// Its end of the link to the front.
    link: OwnedFd,
}

/// What the guard has below it.
struct Guard {
    above: OwnedFd,
    signals: SignalQueue,
    requests: HubRequests,
    front: i32,
    /// As wait(2) gives it. `None`: it runs.
    front_status: Option<i32>,
    hubs: Vec<RunningHub>,
    /// Where the last run is.
    directory: Option<RunDirectory>,
    /// Nothing may be left, and the targets are to be looked at.
    is_unsettled: bool,
}

/// Starts `words` and all that they ask for; returns when all is over.
pub fn run(
    above: OwnedFd,
    signals: SignalQueue,
    mask: SignalMask,
    mark: &str,
    words: &[OsString],
) -> anyhow::Result<ExitCode> {
    processes::set_name(processes::GUARD_NAME);
    processes::become_subreaper().context("take over orphaned processes")?;
    let (requests, theirs) = HubRequests::new().context("make a socket")?;
    let front = start_front(words, mark, &theirs, mask)?;
    drop(theirs);
    tidings::tell(&above, &Tiding::Front(front));
    let guard = Guard {
        above,
        signals,
        requests,
        front,
        front_status: None,
        hubs: Vec::new(),
        directory: None,
        is_unsettled: false,
    };
    guard.serve();
    Ok(ExitCode::SUCCESS)
}

/// Ruby has all signals, descriptors and settings as this command was started with.
fn start_front(
    words: &[OsString],
    mark: &str,
    requests: &OwnedFd,
    mask: SignalMask,
) -> anyhow::Result<i32> {
    let outer = std::env::vars_os().find(|(name, _)| processes::is_mark(name));
    let outer = outer.map(|(_, value)| value.into_encoded_bytes());
    let mut variables: Vec<_> = std::env::vars_os().collect();
    variables.retain(|(name, _)| !processes::is_mark(name));
    variables.push(processes::marked(outer.as_deref(), mark));
    variables.push((GUARD_VARIABLE.into(), requests.as_raw_fd().to_string().into()));
    add_sizes(&mut variables);
    let environment = EnvironmentBlock::new(variables);
    let words = words.iter().map(|word| CString::new(word.as_bytes()));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let guard = i32::try_from(std::process::id()).unwrap_or(0);
    if let Some(front) = processes::fork().context("start Ruby")? {
        return Ok(front);
    }
    processes::set_close_on_exec(requests.as_raw_fd(), false);
    mask.restore();
    if processes::die_with_parent(guard, libc::SIGKILL) {
        let error = processes::execute(&words, &environment);
        let program = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        let hint =
            if is_missing { "; Ruby 3.0 or later has to be in PATH (Debian: ruby)" } else { "" };
        crate::complain(&format!("rakuda: failed to start {program}: {error}{hint}\n"));
    }
    std::process::exit(127)
}

fn add_sizes(variables: &mut Vec<(OsString, OsString)>) {
    let users = |wanted: &str| variables.iter().find(|(name, _)| name == wanted);
    // Ruby tells of the size of its heap when it is to warn.
    let warns = users("RUBYOPT").is_some_and(|(_, options)| {
        options.as_bytes().iter().any(|byte| byte.eq_ignore_ascii_case(&b'w'))
    });
    let stacks = STACKS.into_iter().filter(|_| has_address_space());
    let sizes = stacks.chain((!warns).then_some(HEAP));
    let given: Vec<_> = sizes.filter(|(name, _)| users(name).is_none()).collect();
    let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
    variables.push((SIZES_VARIABLE.into(), names.join(":").into()));
    variables.extend(given.iter().map(|(name, value)| (name.into(), value.to_string().into())));
}

/// Whether address space costs nothing.
fn has_address_space() -> bool {
    let is_unlimited = |resource| getrlimit(resource).current.is_none();
    let overcommit = std::fs::read("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    is_unlimited(Resource::As) && is_unlimited(Resource::Data) && !overcommit.starts_with(b"2")
}

impl Guard {
    fn serve(mut self) {
        while self.front_status.is_none() || !self.hubs.is_empty() {
            self.wait();
            if processes::is_closed(&self.above) {
                trees::kill_all_below(self.requests.pages());
                erase_display();
                return settle(self.directory.as_ref());
            }
            self.take_signals();
            while let Some(request) = self.requests.receive() {
                self.start_hub(request);
            }
            self.hear_hubs();
        }
        if self.is_unsettled {
            trees::kill_all_below(self.requests.pages());
            settle(self.directory.as_ref());
        }
        tidings::tell(&self.above, &Tiding::Ended(self.front_status.unwrap_or_default()));
    }

    fn wait(&self) {
        let watched =
            [Some(self.above.as_fd()), Some(self.signals.as_fd()), self.requests.socket()];
        let hubs = self.hubs.iter().filter(|hub| hub.speaks).map(|hub| hub.socket.as_fd());
        let watched = watched.into_iter().flatten().chain(hubs);
        let mut waits: Vec<_> =
            watched.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        // What it was woken by is looked for in any case.
        let _ = poll(&mut waits, None);
    }

    fn take_signals(&mut self) {
        while let Some(received) = self.signals.read() {
            if received.signal == libc::SIGCHLD {
                while let Some((id, ending)) = processes::reap() {
                    self.on_end(id, ending);
                }
            } else {
                tidings::tell(&self.above, &Tiding::Signalled(received));
            }
        }
    }

    /// A child has ended, or an orphan.
    fn on_end(&mut self, id: i32, ending: Ending) {
        if id == self.front {
            let status = ending.status();
            self.front_status = Some(status);
            // What it had started goes with it, whether there is a run or not.
            self.is_unsettled |= matches!(ending, Ending::Killed(_));
            for hub in &self.hubs {
                let _ = rustix::io::write(&hub.socket, &status.to_le_bytes());
            }
        }
        if let Some(place) = self.hubs.iter().position(|hub| hub.id == id) {
            self.hear_hubs();
            let hub = self.hubs.swap_remove(place);
            self.on_hub_end(ending);
            // The front goes on from here.
            drop(hub.link);
        }
    }

    fn on_hub_end(&mut self, ending: Ending) {
        if ending == Ending::Exited(hub_process::GOOD) {
            return;
        }
        self.is_unsettled = true;
        if matches!(ending, Ending::Killed(_)) {
            erase_display();
        }
        if ending != Ending::Exited(hub_process::UNSETTLED) && self.hubs.is_empty() {
            // The front is about to say what happened.
            let spared = [&[self.front], self.requests.pages()].concat();
            trees::kill_all_below(&spared);
        }
    }

    /// Hubs say where their runs are.
    fn hear_hubs(&mut self) {
        let mut bytes = [0; libc::PATH_MAX as usize];
        for hub in self.hubs.iter_mut().filter(|hub| hub.speaks) {
            match recv(&hub.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => hub.speaks = false,
                Ok((length, _)) => {
                    let path = Path::new(OsStr::from_bytes(&bytes[..length])).to_path_buf();
                    tidings::tell(&self.above, &Tiding::Directory(path.clone()));
                    self.directory = RunDirectory::open(&path);
                }
                Err(_) => {}
            }
        }
    }

    /// A hub that cannot be started leaves its end of the link closed, which the front tells.
    fn start_hub(&mut self, request: HubRequest) {
        let started = UnixStream::pair().and_then(|(ours, theirs)| {
            let id = start_hub(&request, &theirs)?;
            Ok((id, ours.into()))
        });
        match started {
            Ok((id, socket)) => {
                let [link, ..] = request.descriptors;
                self.hubs.push(RunningHub { id, socket, speaks: true, link });
            }
            Err(error) => {
                let program = request.program.to_string_lossy();
                let text = format!("rakuda: failed to start the engine {program}: {error}\n");
                crate::complain(&text);
            }
        }
    }
}

/// Returns its process.
fn start_hub(request: &HubRequest, guard: &UnixStream) -> std::io::Result<i32> {
    let [link, streams @ ..] = &request.descriptors;
    let program = CString::new(request.program.as_bytes())?;
    let (link, guard) = (link.as_raw_fd(), guard.as_raw_fd());
    let words =
        ["rakudad", hub_process::FRONT, &link.to_string(), hub_process::GUARD, &guard.to_string()];
    let words = words.map(CString::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    // All of them are above 2 here, as this process has 0, 1 and 2 itself.
    let mut actions: Vec<_> = (0..)
        .zip(streams)
        .map(|(to, from)| DescriptorAction::Duplicate { from: from.as_raw_fd(), to })
        .collect();
    actions.extend([link, guard].map(|from| DescriptorAction::Duplicate { from, to: from }));
    let environment = EnvironmentBlock::new(request.environment.iter().cloned());
    processes::set_umask(request.umask);
    // In a group of its own: what the user sends to the run's group, as by Ctrl-C, comes to it as
    // messages of the front.
    processes::start(&program, &words, &environment, &actions, Group::Own).map(|hub| hub.id)
}

/// What the hub has drawn begins where the cursor rests; where nothing is drawn, nothing is below it.
pub fn erase_display() {
    if rustix::termios::isatty(rustix::stdio::stderr()) {
        crate::complain("\x1b[J");
    }
}

/// Settles the targets of the runs in `directory` whose hubs are gone, and says what it has done.
pub fn settle(directory: Option<&RunDirectory>) {
    let directory = directory.and_then(RunDirectory::path);
    for line in directory
        .as_deref()
        .map(|at| record::recover_soon(at, clock::wall_ns()))
        .unwrap_or_default()
    {
        crate::complain(&format!("rakuda: {line}\n"));
    }
}
