//! The socket to the front: frames in and out, never blocking the hub.
//!
//! What the socket does not take is kept and sent when it does, so the two sides can never wait
//! for each other.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rakuda_agent::readiness::{watch, watch_room};
use rakuda_proto::frame::{FrameReader, FrameWriter};
use rakuda_proto::front::{FrontMessage, HubMessage};
use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::HubError;

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Maximum bytes of a frame before it is closed, far below the limit of the protocol.
const FRAME_BYTES: usize = 1 << 20;

/// The hub's end of the link.
#[derive(Debug)]
pub struct FrontLink {
    /// Registered for reading alone: for writing, too, the kernel would wake the hub whenever the front has read.
    socket: AsyncFd<OwnedFd>,
    /// The same socket, registered for writing while it does not take all.
    room: Option<AsyncFd<OwnedFd>>,
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
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            socket: watch(stream.into())?,
            room: None,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            outgoing: Vec::new(),
            sent: 0,
            ended: false,
        })
    }

    /// Waits until the socket can be read, or written when something is left to send; for ever after its end.
    pub async fn ready(&self) -> Result<(), HubError> {
        if self.ended {
            return std::future::pending().await;
        }
        let ready = match &self.room {
            None => self.socket.readable().await.map(drop),
            Some(room) => tokio::select! {
                ready = self.socket.readable() => ready.map(drop),
                ready = room.writable() => ready.map(drop),
            },
        };
        ready.map_err(HubError::Link)
    }

    /// Appends the messages that have arrived to `messages`; `false` at the end of the stream.
    pub fn receive(&mut self, messages: &mut Vec<FrontMessage>) -> Result<bool, HubError> {
        let buffer = self.reader.buffer_mut();
        let read = self.socket.try_io(Interest::READABLE, |socket| {
            loop {
                buffer.reserve(READ_BYTES);
                match rustix::io::read(socket, rustix::buffer::spare_capacity(buffer)) {
                    Ok(0) => return Ok(()),
                    // A short read emptied the socket: spare the call that would say so.
                    Ok(bytes) if bytes < READ_BYTES => return Err(io::ErrorKind::WouldBlock.into()),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                    // However it broke: there is no front to talk to.
                    Err(_) => return Ok(()),
                }
            }
        });
        let open = read.is_err();
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
            match self.write() {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.room.is_some() || self.wait_for_room().is_ok();
                }
                Err(_) => return false,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        self.room = None;
        true
    }

    /// Writes what the socket takes at once; returns how many bytes that were.
    fn write(&self) -> io::Result<usize> {
        let rest = &self.outgoing[self.sent..];
        let write = |socket: &OwnedFd| Ok(rustix::net::send(socket, rest, SendFlags::NOSIGNAL)?);
        match &self.room {
            None => write(self.socket.get_ref()),
            Some(room) => room.try_io(Interest::WRITABLE, write),
        }
    }

    fn wait_for_room(&mut self) -> io::Result<()> {
        self.room = Some(watch_room(self.socket.get_ref().try_clone()?)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::Text;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use tokio::task::yield_now;

    fn pair() -> (FrontLink, UnixStream) {
        let (hub, front) = UnixStream::pair().unwrap();
        (FrontLink::new(hub).unwrap(), front)
    }

    /// Whether the link is ready by the next turn of the runtime.
    async fn is_ready(link: &FrontLink) -> bool {
        yield_now().await;
        tokio::select! {
            biased;
            ready = link.ready() => ready.is_ok(),
            () = yield_now() => false,
        }
    }

    #[tokio::test]
    async fn an_end_is_heard_once() {
        let (mut link, front) = pair();
        drop(front);
        link.ready().await.unwrap();
        assert!(!link.receive(&mut Vec::new()).unwrap());
        assert!(!is_ready(&link).await, "a loop that waits for it would spin");
    }

    #[tokio::test]
    async fn what_was_read_makes_it_ready_no_more() {
        let (mut link, mut front) = pair();
        let mut writer = FrameWriter::default();
        for _ in 0..2 {
            writer.push(&FrontMessage::Goodbye { failed: false });
            let mut frame = Vec::new();
            writer.finish(&mut frame);
            std::io::Write::write_all(&mut front, &frame).unwrap();
            link.ready().await.unwrap();
            let mut messages = Vec::new();
            assert!(link.receive(&mut messages).unwrap());
            assert_eq!(messages.len(), 1);
            assert!(!is_ready(&link).await, "nothing more has come");
        }
    }

    /// Of each descriptor that this process waits for, whether it waits for room there.
    fn waits_for_room() -> std::collections::BTreeMap<i32, bool> {
        let epolls = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let texts = epolls.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let row = |line: &String| {
            let mut words = line.strip_prefix("tfd:")?.split_whitespace();
            let descriptor = words.next()?.parse().ok()?;
            let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
            Some((descriptor, events & libc::EPOLLOUT.cast_unsigned() != 0))
        };
        lines.iter().filter_map(row).collect()
    }

    #[tokio::test]
    async fn the_kernel_is_asked_about_room_only_while_there_is_none() {
        let (mut link, mut front) = pair();
        let socket = link.socket.as_raw_fd();
        link.push(&HubMessage::Refused { reason: Text::from("no".to_owned()) });
        assert!(link.flush() && !link.has_messages());
        assert_eq!(waits_for_room().get(&socket), Some(&false));
        assert!(front.read(&mut [0; 1 << 10]).unwrap() > 0);
        assert!(!is_ready(&link).await);
        link.push(&HubMessage::Refused { reason: Text::from("a".repeat(4 << 20)) });
        assert!(link.flush() && link.has_messages());
        let room = link.room.as_ref().unwrap().as_raw_fd();
        assert_eq!(waits_for_room().get(&room), Some(&true));
        assert_eq!(waits_for_room().get(&socket), Some(&false));
    }

    #[tokio::test]
    async fn what_the_socket_does_not_take_goes_when_the_front_has_read() {
        const BYTES: usize = 4 << 20;
        let (mut link, mut front) = pair();
        link.push(&HubMessage::Refused { reason: Text::from("a".repeat(BYTES)) });
        assert!(link.flush() && link.has_messages());
        assert!(!is_ready(&link).await, "the front has read nothing");
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            front.read_to_end(&mut all).map(|_| all)
        });
        while link.has_messages() {
            link.ready().await.unwrap();
            assert!(link.flush());
        }
        drop(link);
        let mut reader = FrameReader::default();
        reader.buffer_mut().extend(reading.join().unwrap().unwrap());
        let mut messages: Vec<HubMessage> = Vec::new();
        reader.drain(&mut messages).unwrap();
        assert!(
            matches!(&messages[..], [HubMessage::Refused { reason }] if reason.0.len() == BYTES)
        );
    }
}
