//! The topmost process of a run, `rakuda` itself: what the user started, sees in ps and sends signals to.
//!
//! Below it stands the guard, a copy of it, and below that all else: Ruby, the hub, commands, and
//! whatever these start. Both are child subreapers, so that each of them has below it all that the
//! run has ever started. When the guard is killed, this one ends all that and settles the targets;
//! when this one is killed, the guard does. It knows neither Ruby nor the hub: what comes from the
//! guard are [`Tiding`]s.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use rakuda_agent::processes::{self, Ending, Life};
use rakuda_agent::signals::{self, Received, SignalQueue};
use rakuda_agent::{clock, trees};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::guard::{self, RunDirectory};
use crate::tidings::{self, Tiding};

/// Maximum time that a signal takes to reach all processes of a group.
pub const GROUP_NS: u64 = 20_000_000;

/// Starts `words` below a guard, and ends as that ends.
pub fn run(words: &[OsString]) -> anyhow::Result<ExitCode> {
    processes::set_name(processes::STARTER_NAME);
    processes::become_subreaper().context("take over orphaned processes")?;
    let (queue, mask) = SignalQueue::new().context("block signals")?;
    let (mine, theirs) = tidings::pair().context("make a socket")?;
    let mark = processes::new_front_mark();
    // Without it the next run does not wait for the end of this one.
    let mut life = Life::show(&mark).ok();
    let Some(guard) = processes::fork().context("start the guard")? else {
        drop(mine);
        if let Some(life) = &mut life {
            life.leave_first();
        }
        return guard::run(theirs, queue, mask, &mark, words);
    };
    drop(theirs);
    let starter = Starter { guard, mine, queue, front: None, signals: Signals::default() };
    Ok(starter.serve())
}

struct Starter {
    guard: i32,
    mine: OwnedFd,
    queue: SignalQueue,
    /// Ruby's process, once it is known.
    front: Option<i32>,
    signals: Signals,
}

impl Starter {
    fn serve(mut self) -> ExitCode {
        let mut directory = None;
        let mut front_status = None;
        loop {
            self.wait();
            // Before its end, all that the guard has said.
            let ended = self.take_signals();
            while let Some(tiding) = tidings::receive(&self.mine) {
                match tiding {
                    Tiding::Front(id) => self.front = Some(id),
                    Tiding::Signalled(received) => self.signals.note_of_group(received),
                    Tiding::Directory(path) => directory = RunDirectory::open(&path),
                    Tiding::Ended(status) => front_status = Some(status),
                }
            }
            self.signals.pass_on(self.front, clock::monotonic_ns());
            if ended {
                return match front_status.map(Ending::of) {
                    Some(Ending::Exited(status)) => {
                        ExitCode::from(u8::try_from(status).unwrap_or(1))
                    }
                    Some(Ending::Killed(signal)) => signals::die_of(signal),
                    None => end_all(directory.as_ref()),
                };
            }
        }
    }

    fn wait(&self) {
        let mut waits =
            [PollFd::new(&self.queue, PollFlags::IN), PollFd::new(&self.mine, PollFlags::IN)];
        let timeout = self.signals.due_ns().filter(|_| self.front.is_some()).map(|due_ns| {
            let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
            Timespec::try_from(Duration::from_nanos(left_ns)).unwrap_or_default()
        });
        // What it was woken by is looked for in any case.
        let _ = poll(&mut waits, timeout.as_ref());
    }

    /// Whether the guard has ended.
    fn take_signals(&mut self) -> bool {
        let mut ended = false;
        while let Some(received) = self.queue.read() {
            if received.signal == libc::SIGCHLD {
                while let Some((id, _)) = processes::reap() {
                    ended |= id == self.guard;
                }
            } else {
                self.signals.add(received, clock::monotonic_ns() + GROUP_NS);
            }
        }
        ended
    }
}

/// The guard was killed.
fn end_all(directory: Option<&RunDirectory>) -> ExitCode {
    trees::kill_all_below(&[]);
    guard::erase_display();
    crate::complain("rakuda: the guard of this run was killed; the run was ended\n");
    guard::settle(directory);
    ExitCode::FAILURE
}

/// Signals on their way to the front. One that was sent to the whole process group, as by Ctrl-C,
/// timeout(1) or a shell's `kill %1`, the front has already; then the guard, which is in the group,
/// too, has got it from the same sender.
#[derive(Default)]
pub struct Signals {
    /// With the time at which they are passed on.
    waiting: Vec<(Received, u64)>,
    /// Those that the guard has got.
    of_group: Vec<Received>,
}

impl Signals {
    /// One has come, which is passed on at that time.
    pub fn add(&mut self, received: Received, due_ns: u64) {
        self.waiting.push((received, due_ns));
    }

    /// One has come to another process of the group.
    pub fn note_of_group(&mut self, received: Received) {
        self.of_group.push(received);
    }

    /// When the next one is passed on.
    pub fn due_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|(_, due_ns)| *due_ns).min()
    }

    /// Passes on what is due, to `front`, once that is known.
    pub fn pass_on(&mut self, front: Option<i32>, now_ns: u64) {
        let of_group = &mut self.of_group;
        self.waiting.retain(|(received, _)| {
            let place = of_group.iter().position(|other| other == received);
            place.map(|place| of_group.swap_remove(place)).is_none()
        });
        let Some(front) = front else { return };
        self.waiting.retain(|(received, due_ns)| {
            if *due_ns <= now_ns {
                signals::send(front, received.signal);
            }
            *due_ns > now_ns
        });
        if self.waiting.is_empty() {
            // Meant for the guard alone.
            self.of_group.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(waiting: &[(Received, u64)], of_group: &[Received]) -> Signals {
        Signals { waiting: waiting.to_vec(), of_group: of_group.to_vec() }
    }

    const TERM: Received = Received { signal: libc::SIGTERM, sender: Some(7) };
    const OTHER: Received = Received { signal: libc::SIGTERM, sender: Some(8) };

    #[test]
    fn signal_of_the_whole_group_is_not_passed_on() {
        let mut signals = signals(&[(TERM, 5)], &[TERM]);
        signals.pass_on(None, 0);
        assert!(signals.waiting.is_empty() && signals.of_group.is_empty());
    }

    #[test]
    fn signal_of_another_sender_waits_for_its_time() {
        let mut signals = signals(&[(TERM, 5)], &[OTHER]);
        signals.pass_on(None, 9);
        assert_eq!(signals.waiting, [(TERM, 5)]);
        assert_eq!(signals.due_ns(), Some(5));
    }
}
