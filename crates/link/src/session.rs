//! One side of a link, as a state machine: what is numbered, kept, acknowledged, dropped as seen before, and
//! when the other side counts as gone. Pure: times come in, bytes go out; it knows no connection.
//!
//! A session outlives connections. What was sent and not acknowledged is kept; after a reconnection
//! ([`Session::reconnect`]) it goes out again from where the other side says that it stands.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, DataFrame, Frame, FrameError, Kind};
use crate::state_lane::StateLane;

/// Nanoseconds from any fixed moment.
pub type Nanoseconds = u64;

/// Maximum bytes of a message. A longer one cannot be sent.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of a message that shares a frame. A longer one is cut into frames of their own.
const PART_BYTES: usize = 4 << 20;
/// Bytes with which a frame of messages is closed.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes after which no more frames are handed to a connection at a time. One frame is handed over in any case.
const FILL_BYTES: usize = 1 << 20;
/// Maximum time before what was taken is acknowledged.
const ACK_DELAY_NS: u64 = 50_000_000;
/// Bytes after which what was taken is acknowledged at once.
const ACK_BYTES: usize = 1 << 20;
/// Number of beats that may be lost before the silence limit.
const BEATS_IN_SILENCE: u64 = 5;

/// Settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Silence after which the other side counts as gone.
    pub silence_ns: u64,
    /// With more than this unacknowledged the sender is to pause (see [`Session::is_full`]).
    pub window_bytes: usize,
    /// With more than this unacknowledged the other side counts as gone.
    pub unacked_bytes: usize,
}

impl Limits {
    /// Maximum unacknowledged bytes before the sender pauses, `WINDOW` of `docs/design/clusters.md`: what control waits
    /// behind, and what a line of 1 Gbit/s carries in a round trip of 34 ms.
    pub const WINDOW_BYTES: usize = 4 << 20;
    /// Maximum unacknowledged bytes before the other side counts as gone, `UNACKED` of `docs/design/clusters.md`.
    pub const UNACKED_BYTES: usize = 256 << 20;

    /// With a silence in milliseconds; 0 counts as 1.
    pub fn with_silence_ms(silence_ms: u32) -> Self {
        let silence_ns = u64::from(silence_ms.max(1)) * 1_000_000;
        Self { silence_ns, window_bytes: Self::WINDOW_BYTES, unacked_bytes: Self::UNACKED_BYTES }
    }
}

/// Why a link cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The bytes are no frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Not allowed at this point.
    #[error("got a frame of kind {0:?}, which has no place here")]
    Unexpected(Kind),
    /// Frames are missing.
    #[error("got frame {got} where {expected} was due")]
    Gap {
        /// The next in order.
        expected: u64,
        /// What came.
        got: u64,
    },
    /// It acknowledges, or says it has received, what it cannot have.
    #[error("was told that frame {got} was received; {low} to {high} can have been")]
    WrongAck {
        /// What it says.
        got: u64,
        /// What it had said before.
        low: u64,
        /// The last one sent.
        high: u64,
    },
    /// Not a message.
    #[error("decode a message: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
    /// A message in pieces is too long.
    #[error("got a message of more than {MESSAGE_BYTES_MAX} bytes")]
    MessageTooLong,
    /// Nothing was heard.
    #[error("heard nothing for {} ms", silence_ns / 1_000_000)]
    Silent {
        /// The limit.
        silence_ns: u64,
    },
    /// It does not take what is sent, by far.
    #[error("has {bytes} bytes that were not taken; the limit is {limit}")]
    Behind {
        /// Not acknowledged.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A message of ours is over [`MESSAGE_BYTES_MAX`].
    #[error("was to send a message of {bytes} bytes; the limit is {MESSAGE_BYTES_MAX}")]
    CannotSend {
        /// Its length.
        bytes: usize,
    },
}

/// What a frame meant for the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It goes on.
    Frame,
    /// The other side has ended it, and says why (or nothing).
    Bye(String),
}

/// One side of a link that takes messages `In`.
#[derive(Debug)]
pub struct Session<In> {
    limits: Limits,
    /// The last number that was given.
    numbered: u64,
    /// The last number handed to the present connection.
    written: u64,
    /// Numbers up to this were acknowledged; those after it are in `kept`.
    acked: u64,
    /// Whole frames, in order, from `acked` + 1.
    kept: VecDeque<Vec<u8>>,
    /// Of `kept`.
    kept_bytes: usize,
    /// Messages that have no number yet.
    batch: DataFrame,
    /// The last number taken.
    taken: u64,
    /// Since when, and how much, taken bytes wait to be acknowledged.
    owed: Option<(Nanoseconds, usize)>,
    /// Pieces of a message so far.
    pieces: Vec<u8>,
    /// The leader of the other side's group answers for its states and beats: it makes none of its own, gets none of
    /// ours, and was last heard then, as the leader says.
    carried_heard_ns: Option<Nanoseconds>,
    /// When anything was last heard, and last said.
    heard_ns: Nanoseconds,
    said_ns: Nanoseconds,
    /// The end that is to be said, and whether it was.
    bye: Option<(String, bool)>,
    /// Beside the messages: what may be lost.
    state: StateLane,
    /// What went wrong while sending.
    failed: Option<SessionError>,
    incoming: PhantomData<fn() -> In>,
}

impl<In: DeserializeOwned> Session<In> {
    /// A new one.
    pub fn new(limits: Limits, now: Nanoseconds) -> Self {
        Self {
            limits,
            numbered: 0,
            written: 0,
            acked: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            batch: DataFrame::for_messages(),
            taken: 0,
            owed: None,
            pieces: Vec::new(),
            carried_heard_ns: None,
            heard_ns: now,
            said_ns: now,
            bye: None,
            state: StateLane::default(),
            failed: None,
            incoming: PhantomData,
        }
    }

    /// Other limits from now on: the agent learns them from its welcome.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// From now on a leader answers for states and beats of this link.
    pub fn be_carried(&mut self) {
        self.carried_heard_ns.get_or_insert(0);
    }

    /// The leader says when the other side was last heard there. A later word counts, also when it names an earlier
    /// time.
    pub fn on_carried(&mut self, heard_ns: Nanoseconds) {
        if let Some(before) = &mut self.carried_heard_ns {
            *before = heard_ns;
        }
    }

    /// The last data frame that was taken: for hello and welcome.
    pub fn received(&self) -> u64 {
        self.taken
    }

    /// Begins on a connection whose other side has taken everything up to `peer_received`.
    pub fn reconnect(&mut self, now: Nanoseconds, peer_received: u64) -> Result<(), SessionError> {
        self.acknowledge(peer_received)?;
        self.written = self.acked;
        self.owed = None;
        self.state.reconnect();
        self.heard_ns = now;
        self.said_ns = now;
        Ok(())
    }

    /// There is a newer state to send; [`Session::fill_state`] asks for it.
    pub fn offer_state(&mut self) {
        self.state.offer();
    }

    /// Appends to `out`, behind what [`Session::fill`] has put there, the newest state that `take` gives, when one is
    /// offered and the other side has dealt with the one before.
    pub fn fill_state(
        &mut self,
        now: Nanoseconds,
        out: &mut Vec<u8>,
        take: impl FnOnce() -> Option<Vec<u8>>,
    ) {
        if self.bye.is_some() || !self.state.is_due() {
            return;
        }
        let before = out.len();
        self.state.fill(out, take);
        if out.len() > before {
            self.said_ns = now;
        }
    }

    /// A state that has come; once. The next comes after [`Session::settle_state`].
    pub fn arrived_state(&mut self) -> Option<Vec<u8>> {
        self.state.arrived()
    }

    /// The state that came last was dealt with.
    pub fn settle_state(&mut self) {
        self.state.settle();
    }

    /// Takes a message for sending.
    pub fn send<Out: Serialize>(&mut self, message: &Out) {
        let write = |out: &mut Vec<u8>| {
            rmp_serde::encode::write(out, message).expect("plain data into memory always encodes");
        };
        if let Err(long) = self.batch.push(PART_BYTES, write) {
            self.send_in_parts(&long);
        } else if self.batch.len() >= BATCH_BYTES {
            self.close_batch();
        }
        let (bytes, limit) = (self.unacked_bytes(), self.limits.unacked_bytes);
        if bytes > limit {
            self.failed.get_or_insert(SessionError::Behind { bytes, limit });
        }
    }

    fn send_in_parts(&mut self, message: &[u8]) {
        if message.len() > MESSAGE_BYTES_MAX {
            let bytes = message.len();
            self.failed.get_or_insert(SessionError::CannotSend { bytes });
            return;
        }
        self.close_batch();
        let mut pieces = message.chunks(PART_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            self.keep(DataFrame::for_part(pieces.peek().is_none(), piece));
        }
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            let batch = std::mem::replace(&mut self.batch, DataFrame::for_messages());
            self.keep(batch);
        }
    }

    fn keep(&mut self, frame: DataFrame) {
        self.numbered += 1;
        let frame = frame.finish(self.numbered);
        self.kept_bytes += frame.len();
        self.kept.push_back(frame);
    }

    /// The last that is to be said, after all messages.
    pub fn say_bye(&mut self, why: &str) {
        self.bye.get_or_insert((why.to_owned(), false));
    }

    /// Whether bye was handed to the connection.
    pub fn said_bye(&self) -> bool {
        self.bye.as_ref().is_some_and(|(_, said)| *said)
    }

    /// Bytes that were sent, or wait to be, and have not been acknowledged.
    pub fn unacked_bytes(&self) -> usize {
        self.kept_bytes + if self.batch.is_empty() { 0 } else { self.batch.len() }
    }

    /// More is unacknowledged than the window holds: make no more.
    pub fn is_full(&self) -> bool {
        self.unacked_bytes() > self.limits.window_bytes
    }

    /// There is room again in the window, as much as half of it.
    pub fn has_room(&self) -> bool {
        self.unacked_bytes() <= self.limits.window_bytes / 2
    }

    /// Appends to `out` what the connection is to write now; nothing when there is nothing to say yet. With `little`
    /// that is no more than one frame of data: what follows it need not wait for long.
    pub fn fill(
        &mut self,
        now: Nanoseconds,
        little: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.close_batch();
        let before = out.len();
        let room = if little { 1 } else { FILL_BYTES };
        while self.written < self.numbered && out.len() - before < room {
            let index = usize::try_from(self.written - self.acked).expect("kept frames fit memory");
            out.extend_from_slice(&self.kept[index]);
            self.written += 1;
        }
        let due = |(since, bytes)| now >= since + ACK_DELAY_NS || bytes >= ACK_BYTES;
        if self.owed.is_some() && (out.len() > before || self.owed.is_some_and(due)) {
            frame::encode_ack(out, self.taken);
            self.owed = None;
        }
        if let Some((why, said @ false)) = &mut self.bye
            && self.written == self.numbered
        {
            frame::encode(out, Kind::Bye, why.as_bytes());
            *said = true;
        }
        if out.len() == before && now >= self.beat_deadline() {
            frame::encode(out, Kind::Beat, b"");
        }
        if out.len() > before {
            self.said_ns = now;
        }
        Ok(())
    }

    fn beat_ns(&self) -> u64 {
        self.limits.silence_ns / BEATS_IN_SILENCE
    }

    fn beat_deadline(&self) -> Nanoseconds {
        match self.carried_heard_ns {
            Some(_) => u64::MAX,
            None => self.said_ns + self.beat_ns(),
        }
    }

    /// When [`Session::fill`] or [`Session::check_silence`] has something to do although nothing has happened.
    pub fn deadline(&self) -> Nanoseconds {
        let beat = self.beat_deadline();
        let ack = self.owed.map_or(u64::MAX, |(since, _)| since + ACK_DELAY_NS);
        self.silence_deadline().min(beat).min(ack)
    }

    /// When the other side counts as gone.
    pub fn silence_deadline(&self) -> Nanoseconds {
        self.heard_ns.max(self.carried_heard_ns.unwrap_or(0)) + self.limits.silence_ns
    }

    /// Whether the other side has been silent for too long.
    pub fn check_silence(&self, now: Nanoseconds) -> Result<(), SessionError> {
        let silence_ns = self.limits.silence_ns;
        if now >= self.silence_deadline() {
            return Err(SessionError::Silent { silence_ns });
        }
        Ok(())
    }

    /// Bytes of any kind have arrived: the other side is there, even while a long frame is under way.
    pub fn on_bytes(&mut self, now: Nanoseconds) {
        self.heard_ns = now;
    }

    /// Takes a frame; its messages are appended to `messages`.
    pub fn on_frame(
        &mut self,
        now: Nanoseconds,
        frame: Frame<'_>,
        messages: &mut Vec<In>,
    ) -> Result<Taken, SessionError> {
        match frame {
            Frame::Data { sequence, body } => {
                if self.is_new(now, sequence, body.len())? {
                    if !self.pieces.is_empty() {
                        return Err(SessionError::Unexpected(Kind::Data));
                    }
                    for message in frame::split_messages(body) {
                        messages.push(rmp_serde::from_slice(message?)?);
                    }
                }
            }
            Frame::Part { sequence, last, body } => {
                if self.is_new(now, sequence, body.len())? {
                    self.take_piece(last, body, messages)?;
                }
            }
            Frame::Ack(sequence) => self.acknowledge(sequence)?,
            Frame::Beat => {}
            Frame::State(body) => self.state.on_state(body)?,
            Frame::StateTaken => self.state.on_taken()?,
            Frame::Bye(why) => return Ok(Taken::Bye(String::from_utf8_lossy(why).into_owned())),
            Frame::Hello(_)
            | Frame::Welcome(_)
            | Frame::Refused(_)
            | Frame::AskTime(_)
            | Frame::TellTime(_) => {
                return Err(SessionError::Unexpected(frame.kind()));
            }
        }
        Ok(Taken::Frame)
    }

    /// Counts a numbered frame; `false` for one that was taken before.
    fn is_new(
        &mut self,
        now: Nanoseconds,
        sequence: u64,
        bytes: usize,
    ) -> Result<bool, SessionError> {
        let expected = self.taken + 1;
        if sequence > expected || sequence == 0 {
            return Err(SessionError::Gap { expected, got: sequence });
        }
        let (since, before) = self.owed.unwrap_or((now, 0));
        self.owed = Some((since, before + bytes));
        self.taken = self.taken.max(sequence);
        Ok(sequence == expected)
    }

    fn take_piece(
        &mut self,
        last: bool,
        body: &[u8],
        messages: &mut Vec<In>,
    ) -> Result<(), SessionError> {
        if self.pieces.len() + body.len() > MESSAGE_BYTES_MAX {
            return Err(SessionError::MessageTooLong);
        }
        self.pieces.extend_from_slice(body);
        if last {
            let message = std::mem::take(&mut self.pieces);
            messages.push(rmp_serde::from_slice(&message)?);
        }
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u64) -> Result<(), SessionError> {
        if sequence < self.acked || sequence > self.written {
            let (low, high) = (self.acked, self.written);
            return Err(SessionError::WrongAck { got: sequence, low, high });
        }
        while self.acked < sequence {
            let frame = self.kept.pop_front().expect("every number after `acked` is kept");
            self.kept_bytes -= frame.len();
            self.acked += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
