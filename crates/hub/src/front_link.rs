//! The socket to the front: frames in and out, never blocking the hub.
//!
//! What the socket does not take is kept and sent when it does, so the two sides can never wait
//! for each other.

use std::io::ErrorKind;

use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{FrontMessage, HubMessage};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::HubError;

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Maximum bytes of a frame before it is closed, far below the limit of the protocol.
const FRAME_BYTES: usize = 1 << 20;

/// The hub's end of the link.
#[derive(Debug)]
pub struct FrontLink {
    stream: UnixStream,
    reader: FrameReader,
    writer: FrameWriter,
    /// Bytes of finished frames that the socket has not taken, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The end of the stream was read: the socket stays ready, and nothing more comes.
    ended: bool,
}

impl FrontLink {
    /// Around a connected socket.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            outgoing: Vec::new(),
            sent: 0,
            ended: false,
        }
    }

    /// Waits until the socket can be read, or written when something is left to send; for ever after its end.
    pub async fn ready(&self) -> Result<(), HubError> {
        if self.ended {
            return std::future::pending().await;
        }
        let interest = if self.outgoing.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        self.stream.ready(interest).await.map(drop).map_err(HubError::Link)
    }

    /// Appends the messages that have arrived to `messages`; `false` at the end of the stream.
    pub fn receive(&mut self, messages: &mut Vec<FrontMessage>) -> Result<bool, HubError> {
        let mut open = true;
        loop {
            let buffer = self.reader.buffer_mut();
            buffer.reserve(READ_BYTES);
            match self.stream.try_read_buf(buffer) {
                Ok(0) => {
                    open = false;
                    break;
                }
                // A short read emptied the socket: spare the call that would say so.
                Ok(bytes) if bytes < READ_BYTES => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // However it broke: there is no front to talk to.
                Err(_) => {
                    open = false;
                    break;
                }
            }
        }
        self.ended = !open;
        self.reader.drain(messages)?;
        Ok(open)
    }

    /// Adds a message to what will be sent.
    pub fn push(&mut self, message: &HubMessage) {
        self.writer.push(message);
        if self.writer.len() > FRAME_BYTES {
            self.writer.finish(&mut self.outgoing);
        }
    }

    /// Whether a message waits to be sent.
    pub fn has_messages(&self) -> bool {
        !self.writer.is_empty() || !self.outgoing.is_empty()
    }

    /// Sends as much as the socket takes. `false`: the front is gone.
    pub fn flush(&mut self) -> bool {
        if !self.writer.is_empty() {
            self.writer.finish(&mut self.outgoing);
        }
        while self.sent < self.outgoing.len() {
            match self.stream.try_write(&self.outgoing[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_heard_once() {
        let (hub, front) = UnixStream::pair().unwrap();
        let mut link = FrontLink::new(hub);
        drop(front);
        link.ready().await.unwrap();
        assert!(!link.receive(&mut Vec::new()).unwrap());
        tokio::select! {
            biased;
            _ = link.ready() => panic!("a loop that waits for it would spin"),
            () = tokio::task::yield_now() => {}
        }
    }
}
