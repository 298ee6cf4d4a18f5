//! Runs a session over a connection: the shell around [`crate::session`].
//!
//! One future per connection does all: it reads, writes, and wakes at the session's deadline, so that a side that
//! cannot write still reads. The other side counts as silent only when nothing is left to be read, since this process
//! may have stood still itself. The clock is tokio's, which tests can turn; that of the time lane is given. It does not
//! know what messages mean.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;

use rakuda_proto::cluster::AgentSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Duration, Instant, sleep_until};

use crate::frame::{Decoder, Frame};
use crate::session::{Limits, Nanoseconds, Session, SessionError, Taken};
use crate::time::{ClockExchange, TimeLane};

/// Room that is made for each read, bytes.
const READ_BYTES: usize = 64 << 10;

/// Reads the kernel's monotonic clock, ns.
pub type MachineClock = fn() -> i64;

/// What comes over a link.
#[derive(Debug)]
pub enum Came<In> {
    /// A message.
    Message(In),
    /// The answer to a question for the time.
    Exchange(ClockExchange),
    /// The newest state ([`Link::settle_state`] lets the next come).
    State(Vec<u8>),
}

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

/// What the state lane sends. The lane asks for the newest when it can be written, so nothing grows old while it waits.
pub trait StateSource {
    /// The other side knows nothing any more: the next state is a whole one.
    fn restart(&self);
    /// The newest, as far as the other side does not know it. `None`: it knows all.
    fn take(&self) -> Option<Vec<u8>>;
    /// The other side has dealt with what was taken last.
    fn on_taken(&self) {}
    /// Something has come from the other side.
    fn on_heard(&self) {}
}

/// The one source, once it is set.
#[derive(Default)]
struct Source(RefCell<Option<Rc<dyn StateSource>>>);

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.0.borrow().is_some())
    }
}

/// A link that may outlive its connections. Takes messages `In`.
#[derive(Debug)]
pub struct Link<In> {
    session: RefCell<Session<In>>,
    time: RefCell<TimeLane>,
    /// What the time lane is stamped with; without it nothing is asked or answered there.
    clock: Cell<Option<MachineClock>>,
    /// Where the session's time begins.
    start: Instant,
    /// There is something to write.
    wake: Notify,
    /// There is room again for what was held back.
    room: Notify,
    /// Of the state lane.
    source: Source,
}

impl<In: DeserializeOwned> Link<In> {
    /// One without a connection.
    pub fn new(limits: Limits) -> Self {
        #[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can turn")]
        let start = Instant::now();
        let session = RefCell::new(Session::new(limits, 0));
        Self {
            session,
            time: RefCell::default(),
            clock: Cell::new(None),
            start,
            wake: Notify::new(),
            room: Notify::new(),
            source: Source::default(),
        }
    }

    /// Sets the clock that answers the other side's questions for the time, and that its answers are compared with.
    pub fn set_clock(&self, clock: MachineClock) {
        self.clock.set(Some(clock));
    }

    /// Asks the other side `count` times what time it is there, each time when the answer before has come.
    pub fn ask_time(&self, count: u32) {
        self.time.borrow_mut().ask(count);
        self.wake.notify_one();
    }

    /// By the clock of the time lane.
    fn machine_ns(&self) -> Option<i64> {
        self.clock.get().map(|clock| clock())
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

    /// What the state lane tells from now on.
    pub fn set_state_source(&self, source: Rc<dyn StateSource>) {
        self.source.0.replace(Some(source));
    }

    /// Its source has something newer.
    pub fn offer_state(&self) {
        self.session.borrow_mut().offer_state();
        self.wake.notify_one();
    }

    /// The state that came last was dealt with: another may come.
    pub fn settle_state(&self) {
        self.session.borrow_mut().settle_state();
        self.wake.notify_one();
    }

    /// From now on the leader of a group answers for states and beats of this link.
    pub fn be_carried(&self) {
        self.session.borrow_mut().be_carried();
    }

    /// That leader has not heard the other side for `silent_ns`.
    pub fn on_carried(&self, silent_ns: Nanoseconds) {
        self.session.borrow_mut().on_carried(self.now().saturating_sub(silent_ns));
        if silent_ns > 0 {
            // It may be gone earlier than is waited for now.
            self.wake.notify_one();
        }
    }

    /// Begins on a connection whose other side has taken everything up to `peer_received`.
    pub fn reconnect(&self, peer_received: u64) -> Result<(), SessionError> {
        let now = self.now();
        self.time.borrow_mut().reconnect();
        if let Some(source) = &*self.source.0.borrow() {
            source.restart();
        }
        self.session.borrow_mut().reconnect(now, peer_received)
    }

    /// Runs over a connection until that ends. What comes is handed on; a state has to be settled.
    pub async fn serve(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        mut decoder: Decoder,
        mut on_came: impl FnMut(Came<In>),
    ) -> Ending {
        let mut out = Outgoing::default();
        // Why nothing can be written any more, and until when the other side is heard all the same.
        let mut unheard: Option<(std::io::Error, Nanoseconds)> = None;
        // When what is in the decoder was read.
        let mut read_ns = self.machine_ns();
        let mut has_looked = false;
        loop {
            let taken = self.take(&mut decoder, read_ns, &mut on_came);
            let state = self.session.borrow_mut().arrived_state();
            state.map(Came::State).into_iter().for_each(&mut on_came);
            match taken {
                Ok(Taken::Frame) => {}
                Ok(Taken::Bye(why)) => return Ending::Bye(why),
                Err(error) => return Ending::Wrong(error),
            }
            let silent = self.session.borrow().check_silence(self.now()).err();
            if let Some(silent) = silent {
                if has_looked {
                    return Ending::Wrong(silent);
                }
                // This process may have stood still itself, and not have read what came meanwhile.
                has_looked = true;
                yield_now().await;
                decoder.buffer_mut().reserve(READ_BYTES);
                let looked = tokio::select! {
                    biased;
                    read = reader.read_buf(decoder.buffer_mut()) => self.on_read(read, &mut read_ns),
                    () = ready(()) => Ok(()),
                };
                if let Err(error) = looked {
                    let written = unheard.as_ref().map(|(error, _)| error);
                    return Ending::Broken(why_broken(&error, written));
                }
                continue;
            }
            has_looked = false;
            match &unheard {
                Some((error, until)) if self.now() >= *until => {
                    return Ending::Broken(error.to_string());
                }
                Some(_) => {}
                None => {
                    if let Err(error) = self.refill(&mut out) {
                        return Ending::Wrong(error);
                    }
                }
            }
            if out.is_written() && self.session.borrow().said_bye() {
                return Ending::SaidBye;
            }
            let deadline = match &unheard {
                Some((_, until)) => *until,
                None if out.is_written() => self.session.borrow().deadline(),
                // What else is due cannot be written yet.
                None => self.session.borrow().silence_deadline(),
            };
            let deadline = self.start + Duration::from_nanos(deadline);
            decoder.buffer_mut().reserve(READ_BYTES);
            let step = tokio::select! {
                step = out.write(&mut writer), if !out.is_written() && unheard.is_none() => {
                    // What the other side said before it closed tells why, and may not have been read yet.
                    let until = self.session.borrow().silence_deadline();
                    unheard = step.err().map(|error| (error, until));
                    Ok(())
                }
                read = reader.read_buf(decoder.buffer_mut()) => self.on_read(read, &mut read_ns),
                () = self.wake.notified(), if out.is_written() => Ok(()),
                () = sleep_until(deadline) => Ok(()),
            };
            if let Err(error) = step {
                let written = unheard.as_ref().map(|(error, _)| error);
                return Ending::Broken(why_broken(&error, written));
            }
        }
    }

    fn on_read(
        &self,
        read: std::io::Result<usize>,
        read_ns: &mut Option<i64>,
    ) -> std::io::Result<()> {
        if read? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        *read_ns = self.machine_ns();
        self.session.borrow_mut().on_bytes(self.now());
        if let Some(source) = self.source() {
            source.on_heard();
        }
        Ok(())
    }

    fn source(&self) -> Option<Rc<dyn StateSource>> {
        self.source.0.borrow().clone()
    }

    /// Takes all whole frames.
    fn take(
        &self,
        decoder: &mut Decoder,
        read_ns: Option<i64>,
        on_came: &mut impl FnMut(Came<In>),
    ) -> Result<Taken, SessionError> {
        let mut messages = Vec::new();
        let mut last = Taken::Frame;
        let now = self.now();
        while last == Taken::Frame
            && let Some(frame) = decoder.next_frame()?
        {
            match (frame, read_ns) {
                (Frame::AskTime(asked_ns), Some(read_ns)) => {
                    self.time.borrow_mut().on_asked(asked_ns, read_ns);
                }
                (Frame::TellTime(times), Some(read_ns)) => {
                    let exchange = self.time.borrow_mut().on_told(times, read_ns);
                    exchange.map(Came::Exchange).into_iter().for_each(&mut *on_came);
                }
                (frame, _) => {
                    let is_taken = matches!(frame, Frame::StateTaken);
                    let result = self.session.borrow_mut().on_frame(now, frame, &mut messages);
                    // What came before a wrong frame was right.
                    messages.drain(..).map(Came::Message).for_each(&mut *on_came);
                    last = result?;
                    if is_taken && let Some(source) = self.source() {
                        source.on_taken();
                    }
                }
            }
        }
        if self.session.borrow().has_room() {
            self.room.notify_waiters();
        }
        Ok(last)
    }

    fn refill(&self, out: &mut Outgoing) -> Result<(), SessionError> {
        if !out.is_written() {
            return Ok(());
        }
        out.bytes.clear();
        out.written = 0;
        // First, and stamped last: what it is written behind is only what is being written already.
        let mut little = false;
        if let Some(clock) = self.clock.get() {
            let (mut time, now_ns) = (self.time.borrow_mut(), clock());
            little = time.is_busy(now_ns);
            time.fill(now_ns, &mut out.bytes);
        }
        let (mut session, now) = (self.session.borrow_mut(), self.now());
        session.fill(now, little, &mut out.bytes)?;
        let source = self.source();
        session.fill_state(now, &mut out.bytes, || source?.take());
        out.flushed = out.bytes.is_empty();
        Ok(())
    }
}

/// Why a connection broke: what came last is `read`, and `written` before that, if something was to be written.
fn why_broken(read: &std::io::Error, written: Option<&std::io::Error>) -> String {
    use std::io::ErrorKind::{BrokenPipe, UnexpectedEof};
    match written {
        _ if read.kind() != UnexpectedEof => read.to_string(),
        Some(written) if written.kind() != BrokenPipe => written.to_string(),
        _ => "the connection was closed".to_owned(),
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
