//! Pipes that carry the output of commands, reused from command to command.
//!
//! This process keeps the writing ends, so a pipe never reaches its end by itself: what a command
//! wrote is read until nothing is left when the command exits. A pipe is reused only when no process of
//! the command's group is left that could still write to it.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::unix::AsyncFd;

use crate::readiness::watch;

/// One pipe.
#[derive(Debug)]
pub struct OutputPipe {
    reader: AsyncFd<OwnedFd>,
    writer: OwnedFd,
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadState {
    /// Nothing more for now.
    Empty,
    /// Every writer is gone.
    Ended,
}

const CHUNK_BYTES: usize = 64 << 10;

impl OutputPipe {
    fn new() -> std::io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok(Self { reader: watch(reader)?, writer })
    }

    /// The end for the command.
    pub fn writer(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// Waits until there is something to read, then appends all of it to `into`.
    pub async fn read(&self, into: &mut Vec<u8>) -> std::io::Result<ReadState> {
        let mut guard = self.reader.readable().await?;
        let state = drain(self.reader.get_ref(), into)?;
        if state == ReadState::Empty {
            guard.clear_ready();
        }
        Ok(state)
    }

    /// Appends what is there now to `into`.
    pub fn drain(&self, into: &mut Vec<u8>) -> std::io::Result<ReadState> {
        drain(self.reader.get_ref(), into)
    }

    /// Gives up the writing end, so that the pipe ends with its last writer.
    pub fn into_reader(self) -> AsyncFd<OwnedFd> {
        self.reader
    }
}

/// Reads until nothing is left for now.
pub fn drain(reader: &OwnedFd, into: &mut Vec<u8>) -> std::io::Result<ReadState> {
    loop {
        let old = into.len();
        into.reserve(if old == 0 { 512 } else { CHUNK_BYTES });
        match rustix::io::read(reader, rustix::buffer::spare_capacity(into)) {
            Ok(0) => return Ok(ReadState::Ended),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(ReadState::Empty),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The pipes of one command.
#[derive(Debug)]
pub struct PipePair {
    /// For its descriptor 1.
    pub stdout: OutputPipe,
    /// For its descriptor 2.
    pub stderr: OutputPipe,
}

/// Pipes waiting for their next command.
#[derive(Debug, Default)]
pub struct PipePool {
    idle: Vec<PipePair>,
}

impl PipePool {
    /// An empty pair of pipes.
    pub fn take(&mut self) -> std::io::Result<PipePair> {
        match self.idle.pop() {
            Some(pair) => Ok(pair),
            None => Ok(PipePair { stdout: OutputPipe::new()?, stderr: OutputPipe::new()? }),
        }
    }

    /// Takes back a pair that nobody writes to and that has been drained.
    pub fn give_back(&mut self, pair: PipePair) {
        self.idle.push(pair);
    }
}
