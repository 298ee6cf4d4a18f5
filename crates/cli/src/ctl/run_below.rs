//! A run that is started below this process, which waits for its end and goes on. Signals are passed on to it, but for
//! those that it has got itself, as with Ctrl-C on the terminal or a signal to the whole process group. It knows
//! nothing of what is started.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use rakuda_agent::clock;
use rakuda_agent::processes::{self, Ending};
use rakuda_agent::signals::{SignalMask, SignalQueue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::starter::{GROUP_NS, Signals};
use crate::tidings::{self, Tiding};

/// Status of a program that cannot be started, as of a shell.
const NOT_STARTED: i32 = 127;

/// Signals that end a run in good order.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// How a run has ended.
pub struct Ended {
    /// Its own end.
    pub ending: Ending,
    /// The last signal that has come meanwhile and ends runs.
    pub signal: Option<i32>,
}

/// Starts the command and waits for its end. This process must have one thread.
pub fn run(command: &mut Command) -> anyhow::Result<Ended> {
    let (queue, mask) = SignalQueue::new().context("block signals")?;
    let ended = run_and_pass_on(command, &queue, &mask);
    mask.restore();
    ended
}

fn run_and_pass_on(
    command: &mut Command,
    queue: &SignalQueue,
    mask: &SignalMask,
) -> anyhow::Result<Ended> {
    let own = std::process::id().cast_signed();
    let Some(child) = processes::fork().context("start a run")? else {
        mask.restore();
        if processes::die_with_parent(own, libc::SIGTERM) {
            let error = command.exec();
            let program = command.get_program().display();
            crate::complain(&format!("rakudactl: failed to start {program}: {error}\n"));
        }
        std::process::exit(NOT_STARTED);
    };
    let (mine, theirs) = tidings::pair().context("make a socket")?;
    let Some(witness) = processes::fork().context("start the witness of signals")? else {
        drop(mine);
        bear_witness(&theirs, queue);
        std::process::exit(0);
    };
    drop(theirs);
    let ended = wait(child, queue, &mine);
    rakuda_agent::signals::send(witness, libc::SIGKILL);
    Ok(ended)
}

/// Reports signals that come to the process group, until the other end is gone.
fn bear_witness(told: &OwnedFd, queue: &SignalQueue) {
    loop {
        let mut waits = [PollFd::new(queue, PollFlags::IN), PollFd::new(told, PollFlags::IN)];
        let _ = poll(&mut waits, None);
        if processes::is_closed(told) {
            return;
        }
        while let Some(received) = queue.read() {
            tidings::tell(told, &Tiding::Signalled(received));
        }
    }
}

fn wait(child: i32, queue: &SignalQueue, witness: &OwnedFd) -> Ended {
    let mut signals = Signals::default();
    let mut last = None;
    loop {
        let timeout = signals.due_ns().map(|due_ns| {
            let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
            Timespec::try_from(Duration::from_nanos(left_ns)).unwrap_or_default()
        });
        let mut waits = [PollFd::new(queue, PollFlags::IN), PollFd::new(witness, PollFlags::IN)];
        let _ = poll(&mut waits, timeout.as_ref());
        while let Some(received) = queue.read() {
            if received.signal == libc::SIGCHLD {
                while let Some((id, ending)) = processes::reap() {
                    if id == child {
                        return Ended { ending, signal: last };
                    }
                }
                continue;
            }
            if ENDING.contains(&received.signal) {
                last = Some(received.signal);
            }
            // What the terminal sends all processes of its foreground get.
            if received.sender.is_some() {
                signals.add(received, clock::monotonic_ns() + GROUP_NS);
            }
        }
        while let Some(Tiding::Signalled(received)) = tidings::receive(witness) {
            signals.note_of_group(received);
        }
        signals.pass_on(Some(child), clock::monotonic_ns());
    }
}
