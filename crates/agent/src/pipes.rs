//! Pipes that carry the output of commands.
//!
//! Each command has its own, and this process gives up the writing ends at once, so that a pipe ends with its last
//! writer, whichever process that is. (Pipes were used again for later commands at first; a daemon that had left its
//! process group then wrote into another command's output.)

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::unix::AsyncFd;

use crate::readiness::watch;

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// Nothing more for now.
    Empty,
    /// A good deal was read, and there may be more.
    More,
    /// Every writer is gone.
    Ended,
}

/// Room for the first read, bytes.
const FIRST_BYTES: usize = 512;
/// Room for each later read, bytes. With this many a read is at an end for now.
pub const CHUNK_BYTES: usize = 64 << 10;

/// The reading end of one pipe.
#[derive(Debug)]
pub struct OutputPipe {
    reader: AsyncFd<OwnedFd>,
    /// Nothing more will come.
    ended: bool,
}

/// The writing ends of a pair, for the time until the command has been started.
#[derive(Debug)]
pub struct WriterPair {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl WriterPair {
    /// For the command's descriptor 1.
    pub fn stdout(&self) -> RawFd {
        self.stdout.as_raw_fd()
    }

    /// For the command's descriptor 2.
    pub fn stderr(&self) -> RawFd {
        self.stderr.as_raw_fd()
    }
}

/// The pipes of one command.
#[derive(Debug)]
pub struct PipePair {
    /// From its descriptor 1.
    pub stdout: OutputPipe,
    /// From its descriptor 2.
    pub stderr: OutputPipe,
}

impl PipePair {
    /// Two pipes and their writing ends.
    pub fn new() -> std::io::Result<(Self, WriterPair)> {
        let (stdout, stdout_writer) = OutputPipe::new()?;
        let (stderr, stderr_writer) = OutputPipe::new()?;
        let writers = WriterPair { stdout: stdout_writer, stderr: stderr_writer };
        Ok((Self { stdout, stderr }, writers))
    }

    /// Whether nobody can write any more.
    pub fn ended(&self) -> bool {
        self.stdout.ended && self.stderr.ended
    }
}

impl OutputPipe {
    /// A pipe, and its writing end.
    pub fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok((Self { reader: watch(reader)?, ended: false }, writer))
    }

    /// Waits until there is something to read, or the pipe ends, and appends what there is to `into`.
    /// Once it has ended, it never comes back.
    pub async fn read(&mut self, into: &mut Vec<u8>) {
        while !self.ended {
            let Ok(mut guard) = self.reader.readable().await else { break };
            let before = into.len();
            match drain(guard.get_inner(), into) {
                ReadState::Empty => guard.clear_ready(),
                ReadState::More => {}
                ReadState::Ended => self.ended = true,
            }
            if self.ended || into.len() > before {
                return;
            }
        }
        if self.ended {
            std::future::pending::<()>().await;
        }
        self.ended = true;
    }

    /// Appends to `into` what the pipe holds now.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        while !self.ended {
            match drain(self.reader.get_ref(), into) {
                ReadState::Empty => return,
                ReadState::More => {}
                ReadState::Ended => self.ended = true,
            }
        }
    }

    /// Whether nobody can write any more.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// Reads until nothing is left for now. A read error ends the pipe: there is nothing more to show.
fn drain(reader: &OwnedFd, into: &mut Vec<u8>) -> ReadState {
    loop {
        into.reserve(if into.is_empty() { FIRST_BYTES } else { CHUNK_BYTES });
        match rustix::io::read(reader, rustix::buffer::spare_capacity(into)) {
            Ok(0) => return ReadState::Ended,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return ReadState::Empty,
            Err(_) => return ReadState::Ended,
        }
        if into.len() >= CHUNK_BYTES {
            return ReadState::More;
        }
    }
}
