//! Runs a session over a connection: the shell around [`crate::session`].
//!
//! One future per connection does all: it reads, writes, and wakes at the session's deadline, so that a side that
//! cannot write still reads. The clock is tokio's, which tests can turn. It does not know what messages mean.

use std::cell::RefCell;

use rakuda_proto::cluster::AgentSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

use crate::frame::Decoder;
use crate::session::{Limits, Nanoseconds, Session, SessionError, Taken};

/// Room that is made for each read.
const READ_BYTES: usize = 64 << 10;

/// How a connection ended.
#[derive(Debug)]
pub enum Ending {
    /// The other side said bye, with a reason or none.
    Bye(String),
    /// This side said it, and all is written.
    SaidBye,
    /// The connection broke; another one may take its place.
    Broken(String),
    /// The other side broke the rules, or is silent, or takes nothing. No way back.
    Wrong(SessionError),
}

/// A link that may outlive its connections. Takes messages `In`.
#[derive(Debug)]
pub struct Link<In> {
    session: RefCell<Session<In>>,
    /// Where the session's time begins.
    start: Instant,
    /// There is something to write.
    wake: Notify,
    /// There is room again for what was held back.
    room: Notify,
}

impl<In: DeserializeOwned> Link<In> {
    /// One without a connection.
    pub fn new(limits: Limits) -> Self {
        #[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can turn")]
        let start = Instant::now();
        let session = RefCell::new(Session::new(limits, 0));
        Self { session, start, wake: Notify::new(), room: Notify::new() }
    }

    fn now(&self) -> Nanoseconds {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What the hub asks of this link.
    pub fn set_limits(&self, settings: &AgentSettings) {
        self.session.borrow_mut().set_limits(Limits::with_silence_ms(settings.silence_ms));
    }

    /// The last data frame that was taken.
    pub fn received(&self) -> u64 {
        self.session.borrow().received()
    }

    /// Sends a message, now or when there is a connection.
    pub fn send<Out: Serialize>(&self, message: &Out) {
        self.session.borrow_mut().send(message);
        self.wake.notify_one();
    }

    /// Ends the link once all is sent.
    pub fn say_bye(&self, why: &str) {
        self.session.borrow_mut().say_bye(why);
        self.wake.notify_one();
    }

    /// Whether more waits to be acknowledged than should.
    pub fn is_full(&self) -> bool {
        self.session.borrow().is_full()
    }

    /// Waits until there is room again.
    pub async fn room(&self) {
        while !self.session.borrow().has_room() {
            self.room.notified().await;
        }
    }

    /// Begins on a connection whose other side has taken everything up to `peer_received`.
    pub fn reconnect(&self, peer_received: u64) -> Result<(), SessionError> {
        let now = self.now();
        self.session.borrow_mut().reconnect(now, peer_received)
    }

    /// Runs over a connection until that ends.
    pub async fn serve(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        mut decoder: Decoder,
        mut on_message: impl FnMut(In),
    ) -> Ending {
        let mut out = Outgoing::default();
        loop {
            match self.take(&mut decoder, &mut on_message) {
                Ok(Taken::Frame) => {}
                Ok(Taken::Bye(why)) => return Ending::Bye(why),
                Err(error) => return Ending::Wrong(error),
            }
            if let Err(error) = self.refill(&mut out) {
                return Ending::Wrong(error);
            }
            if out.is_written() && self.session.borrow().said_bye() {
                return Ending::SaidBye;
            }
            let deadline = if out.is_written() {
                self.session.borrow().deadline()
            } else {
                // What else is due cannot be written yet.
                self.session.borrow().silence_deadline()
            };
            let deadline = self.start + Duration::from_nanos(deadline);
            decoder.buffer_mut().reserve(READ_BYTES);
            let step = tokio::select! {
                step = out.write(&mut writer), if !out.is_written() => step,
                read = reader.read_buf(decoder.buffer_mut()) => match read {
                    Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                    read => read.map(|_| self.session.borrow_mut().on_bytes(self.now())),
                },
                () = self.wake.notified(), if out.is_written() => Ok(()),
                () = sleep_until(deadline) => Ok(()),
            };
            match step {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ending::Broken("the connection was closed".into());
                }
                Err(error) => return Ending::Broken(error.to_string()),
                Ok(()) => {}
            }
        }
    }

    /// Takes all whole frames.
    fn take(
        &self,
        decoder: &mut Decoder,
        on_message: &mut impl FnMut(In),
    ) -> Result<Taken, SessionError> {
        let mut messages = Vec::new();
        let mut last = Taken::Frame;
        let now = self.now();
        while last == Taken::Frame
            && let Some(frame) = decoder.next_frame()?
        {
            let result = self.session.borrow_mut().on_frame(now, frame, &mut messages);
            // What came before a wrong frame was right.
            messages.drain(..).for_each(&mut *on_message);
            last = result?;
        }
        if self.session.borrow().has_room() {
            self.room.notify_waiters();
        }
        self.session.borrow().check_silence(now)?;
        Ok(last)
    }

    fn refill(&self, out: &mut Outgoing) -> Result<(), SessionError> {
        if !out.is_written() {
            return Ok(());
        }
        out.bytes.clear();
        out.written = 0;
        self.session.borrow_mut().fill(self.now(), &mut out.bytes)?;
        out.flushed = out.bytes.is_empty();
        Ok(())
    }
}

/// Bytes on their way into the connection.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    /// Of `bytes`.
    written: usize,
    /// Nothing waits below us (TLS keeps bytes of its own).
    flushed: bool,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { bytes: Vec::new(), written: 0, flushed: true }
    }
}

impl Outgoing {
    fn is_written(&self) -> bool {
        self.flushed
    }

    /// One step; nothing is lost when it is dropped before it has ended.
    async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        if self.written < self.bytes.len() {
            match writer.write(&self.bytes[self.written..]).await? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                bytes => self.written += bytes,
            }
        } else {
            writer.flush().await?;
            self.flushed = true;
        }
        Ok(())
    }
}
