//! What a message takes of a host's processor on its way over an edge, measured once by sending
//! some to itself: through the two halves of an edge, and between them by what the carriers of two
//! hosts do, with a pair of sockets in the place of their connection. So it is written and read
//! three times, as from one relay to another.
//!
//! It measures processor time, not time, so other processes of the host do not count. Neither does
//! TLS, nor what TCP takes beyond such a pair.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;

use super::hops::{HopIntake, HopOutlet};
use crate::clock;

/// Number of messages that are timed together.
const MESSAGES: u64 = 32;
/// Number of times that are taken. The shortest counts: the first ones find nothing in the caches.
const ROUNDS: usize = 4;
/// Bytes of a message.
const BYTES: usize = 64;

/// Processor time for each message at each end of an edge, ns. `None`: it cannot be measured here.
pub(super) fn message_ns() -> Option<u64> {
    let mut edge = Edge::new().ok()?;
    let mut least = u64::MAX;
    for _ in 0..ROUNDS {
        let begin = clock::thread_cpu_ns();
        for _ in 0..MESSAGES {
            edge.pass_one()?;
        }
        least = least.min(clock::thread_cpu_ns().saturating_sub(begin));
    }
    Some(least / MESSAGES / 2).filter(|ns| *ns > 0)
}

/// An edge of this thread to itself.
struct Edge {
    outlet: HopOutlet,
    /// What the carrier of each host joins: an end of the edge, and one of the connection.
    carriers: [(OwnedFd, OwnedFd); 2],
    intake: HopIntake,
}

impl Edge {
    fn new() -> std::io::Result<Self> {
        let pair = || -> std::io::Result<(OwnedFd, OwnedFd)> {
            let (one, other) = UnixStream::pair()?;
            one.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            Ok((one.into(), other.into()))
        };
        let [(from, near), (out, back), (far, to)] = [pair()?, pair()?, pair()?];
        let name = || "this host".to_owned();
        let (outlet, intake) = (HopOutlet::new(from, name()), HopIntake::new(to, 0, name()));
        Ok(Self { outlet, carriers: [(near, out), (far, back)], intake })
    }

    /// One message goes from one end to the other, and what the other says comes back.
    fn pass_one(&mut self) -> Option<()> {
        let taken = self.outlet.machine.take(std::iter::once(&[0; BYTES][..]));
        self.outlet.pump().ok()?;
        let [(near, out), (far, back)] = &self.carriers;
        carry(near, out)?;
        carry(back, far)?;
        self.intake.pump().ok()?;
        self.intake.machine.on_taken(self.intake.machine.pending().len());
        carry(far, back)?;
        carry(out, near)?;
        (taken == BYTES).then_some(())
    }
}

/// Passes on the bytes that have arrived.
fn carry(from: &OwnedFd, to: &OwnedFd) -> Option<()> {
    let mut bytes = [0; 4 * BYTES];
    match rustix::io::read(from, &mut bytes) {
        Ok(read) => rustix::io::write(to, &bytes[..read]).ok().map(drop),
        Err(Errno::AGAIN) => Some(()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_and_take_some_time() {
        let mut edge = Edge::new().unwrap();
        for _ in 0..100_000 {
            edge.pass_one().expect("there is always room");
        }
        assert!(message_ns().is_some());
    }
}
