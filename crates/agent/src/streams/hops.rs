//! Ends of edges to other hosts, as the relay has them: a socket, behind which a carrier makes the
//! connection, and the half of `rakuda_core::streams` that says what goes over it.

use std::os::fd::OwnedFd;

use rakuda_core::Time;
use rakuda_core::streams::{HopError, HopReceiver, HopSender, SenderState};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::clock;

/// Maximum bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// An edge that is read from here.
#[derive(Debug)]
pub(super) struct HopIntake {
    pub socket: OwnedFd,
    pub edge: u32,
    /// The other host, for people.
    peer: String,
    pub machine: HopReceiver,
    /// The sender's own count of records, once it has ended.
    pub said_records: Option<u64>,
}

impl HopIntake {
    pub fn new(socket: OwnedFd, edge: u32, peer: String) -> Self {
        Self { socket, edge, peer, machine: HopReceiver::default(), said_records: None }
    }

    /// What is waited for.
    pub fn interest(&self) -> PollFlags {
        interest(self.machine.to_write())
    }

    /// Hears and says what can be.
    pub fn pump(&mut self) -> Result<(), String> {
        self.machine.on_time(Time(clock::monotonic_ns()));
        let mut bytes = [0; READ_BYTES];
        let done = loop {
            if self.machine.is_over() {
                break Ok(());
            }
            if let Some(written) = write(&self.socket, self.machine.to_write()) {
                self.machine.on_written(written);
                continue;
            }
            match read(&self.socket, &mut bytes) {
                None => break Ok(()),
                Some(0) => break self.machine.on_closed(),
                Some(read) => {
                    if let Err(error) = self.machine.on_received(&bytes[..read]) {
                        break Err(error);
                    }
                }
            }
        };
        done.map_err(|error| words_of(error, &self.peer))
    }
}

/// An edge that is written into here.
#[derive(Debug)]
pub(super) struct HopOutlet {
    pub socket: OwnedFd,
    /// The other host, for people.
    peer: String,
    pub machine: HopSender,
}

impl HopOutlet {
    pub fn new(socket: OwnedFd, peer: String) -> Self {
        Self { socket, peer, machine: HopSender::default() }
    }

    /// What is waited for.
    pub fn interest(&self) -> PollFlags {
        interest(self.machine.to_write())
    }

    /// Whether the other side has taken all, or has left.
    pub fn is_over(&self) -> bool {
        matches!(self.machine.state(), SenderState::Done | SenderState::Left)
    }

    /// Hears and says what can be.
    pub fn pump(&mut self) -> Result<(), String> {
        let mut bytes = [0; 1024];
        let done = loop {
            if self.is_over() {
                break Ok(());
            }
            match read(&self.socket, &mut bytes) {
                Some(0) => break self.machine.on_closed(),
                Some(read) => {
                    if let Err(error) = self.machine.on_received(&bytes[..read]) {
                        break Err(error);
                    }
                    continue;
                }
                None => {}
            }
            match write(&self.socket, self.machine.to_write()) {
                None => break Ok(()),
                Some(written) => self.machine.on_written(written),
            }
        };
        done.map_err(|error| words_of(error, &self.peer))
    }
}

fn interest(to_write: &[u8]) -> PollFlags {
    if to_write.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
}

/// How much was read; 0: nothing more comes. `None`: nothing is there now.
fn read(socket: &OwnedFd, bytes: &mut [u8]) -> Option<usize> {
    loop {
        match rustix::io::read(socket, &mut *bytes) {
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {}
            // A connection that is broken says no more.
            Err(_) => return Some(0),
            Ok(read) => return Some(read),
        }
    }
}

/// How much was written. `None`: nothing can be, or need be; that it is broken is seen by reading.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() {
        return None;
    }
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(written) => return Some(written),
        }
    }
}

fn words_of(error: HopError, peer: &str) -> String {
    match error {
        HopError::EndsEarly => format!("the connection to {peer} was lost"),
        HopError::Broken => {
            format!("{peer} said what it may not; this is an error of rakuda")
        }
        HopError::Differs { said, came } => format!(
            "{came} bytes came from {peer}, which has sent {said}; this is an error of rakuda"
        ),
    }
}
