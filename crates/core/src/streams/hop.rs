//! One edge of a stream between two hosts: the words that go over it, and how much may be under way
//! (docs/design/streams.md, Hops).
//!
//! The sender is a reader of the stream on its host, the receiver a writer of it on the other. Whole records go one
//! after the other, so the receiver cuts them again as it does a program's output. Knows no sockets: the shell hands in
//! what came, and takes what is to be written.

use alloc::vec::Vec;

use super::meter::LineMeter;
use crate::Time;

/// Bytes of the window that an edge begins with: the maximum that a receiver holds, and so that a sender may have sent
/// and no reader's host has taken.
pub const HOP_WINDOW_BYTES: usize = 1 << 20;
/// Maximum bytes of a window: 160 MB/s with a round trip of 100 ms.
pub const HOP_WINDOW_BYTES_MAX: usize = 16 << 20;
/// Minimum time over which a rate is taken, ns: shorter ones see bursts.
const RATE_NS_MIN: u64 = 10_000_000;
/// Maximum bytes of one piece.
const PIECE_BYTES_MAX: usize = 128 << 10;
/// Bytes that are taken before the sender gets credit for them.
const GRANT_BYTES: usize = HOP_WINDOW_BYTES / 4;

/// A piece of records follows: its length, u32.
const DATA: u8 = 1;
/// All is sent: bytes and records, u64 each.
const END: u8 = 2;
/// The sender may send this many bytes more: u64.
const CREDIT: u8 = 3;
/// Nothing there reads any more.
const LEFT: u8 = 4;
/// The receiver took all, and the accounts agree.
const DONE: u8 = 5;
/// Asks for an answer, from which the receiver knows the round trip.
const PROBE: u8 = 6;
/// The answer. None comes behind `END`: nothing may lie unread where the receiver closes.
const ECHO: u8 = 7;
/// As `DATA`; since the piece before, the sender was never short of bytes that it might send.
const MORE: u8 = 8;

/// Bytes of the numbers behind a word, which are little endian; `None` if there is no such word.
fn body_bytes(kind: u8) -> Option<usize> {
    match kind {
        DATA | MORE => Some(4),
        END => Some(16),
        CREDIT => Some(8),
        LEFT | DONE | PROBE | ECHO => Some(0),
        _ => None,
    }
}

/// What is wrong with the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopError {
    /// It says what is not allowed now.
    Broken,
    /// It ended before it said that it had sent, or taken, all.
    EndsEarly,
    /// It sent another number of bytes than it says.
    Differs {
        /// The number that it says.
        said: u64,
        /// The number that came.
        came: u64,
    },
}

/// A word, its numbers, and the bytes behind it.
type Word<'b> = (u8, [u64; 2], &'b [u8]);

/// Takes words out of bytes as they come.
#[derive(Debug, Default)]
struct Words {
    /// The beginning of a word.
    begun: Vec<u8>,
}

impl Words {
    /// The next word, with what is left of `bytes` behind it.
    fn next<'b>(&mut self, mut bytes: &'b [u8]) -> Result<Option<Word<'b>>, HopError> {
        loop {
            if let Some(kind) = self.begun.first().copied() {
                let wanted = 1 + body_bytes(kind).ok_or(HopError::Broken)?;
                let more = (wanted - self.begun.len()).min(bytes.len());
                self.begun.extend_from_slice(&bytes[..more]);
                bytes = &bytes[more..];
                if self.begun.len() < wanted {
                    return Ok(None);
                }
                let mut numbers = [0; 2];
                for (number, part) in numbers.iter_mut().zip(self.begun[1..].chunks(8)) {
                    let mut whole = [0; 8];
                    whole[..part.len()].copy_from_slice(part);
                    *number = u64::from_le_bytes(whole);
                }
                self.begun.clear();
                return Ok(Some((kind, numbers, bytes)));
            }
            let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
            self.begun.push(*kind);
            bytes = rest;
        }
    }
}

/// Bytes on their way out.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// Number of these that are written.
    gone: usize,
}

impl Outgoing {
    fn left(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    fn on_written(&mut self, bytes: usize) {
        self.gone += bytes;
        assert!(self.gone <= self.bytes.len(), "no more is written than there is");
        if self.gone == self.bytes.len() {
            self.bytes.clear();
            self.gone = 0;
        }
    }

    fn say(&mut self, kind: u8, numbers: &[u64]) {
        self.bytes.push(kind);
        for number in numbers {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Where a sender is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderState {
    /// More may come.
    Open,
    /// All is sent; whether the other side took it is not known.
    Ending,
    /// The other side has taken all.
    Done,
    /// The other side has left.
    Left,
}

/// The writing end of an edge.
#[derive(Debug)]
pub struct HopSender {
    state: SenderState,
    /// Bytes that may still be sent.
    credit: usize,
    /// There was nothing to send since the last piece, though it might have been.
    is_short: bool,
    out: Outgoing,
    words: Words,
    sent: u64,
}

impl Default for HopSender {
    fn default() -> Self {
        Self {
            state: SenderState::Open,
            credit: HOP_WINDOW_BYTES,
            is_short: true,
            out: Outgoing::default(),
            words: Words::default(),
            sent: 0,
        }
    }
}

impl HopSender {
    /// Bytes that it would take now.
    pub fn room(&self) -> usize {
        let is_free = self.state == SenderState::Open && self.out.left().is_empty();
        if is_free { self.credit.min(PIECE_BYTES_MAX) } else { 0 }
    }

    /// Takes bytes as one piece, as far as there is room. Returns how many.
    pub fn take<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]>) -> usize {
        let room = self.room();
        if room == 0 {
            return 0;
        }
        let kind = if self.is_short { DATA } else { MORE };
        self.out.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
        let mut taken = 0;
        for piece in pieces {
            let piece = &piece[..piece.len().min(room - taken)];
            self.out.bytes.extend_from_slice(piece);
            taken += piece.len();
            if taken == room {
                break;
            }
        }
        self.is_short = taken == 0;
        if taken == 0 {
            self.out.bytes.clear();
            return 0;
        }
        let length = u32::try_from(taken).expect("a piece is short");
        self.out.bytes[1..5].copy_from_slice(&length.to_le_bytes());
        self.credit -= taken;
        self.sent += taken as u64;
        taken
    }

    /// Ends the edge: it has taken all bytes, with this many records.
    pub fn finish(&mut self, records: u64) {
        if self.state == SenderState::Open {
            self.state = SenderState::Ending;
            self.out.say(END, &[self.sent, records]);
        }
    }

    /// The bytes to write.
    pub fn to_write(&self) -> &[u8] {
        self.out.left()
    }

    /// Notes that this many of them are written.
    pub fn on_written(&mut self, bytes: usize) {
        self.out.on_written(bytes);
    }

    /// Takes in bytes from the other side.
    pub fn on_received(&mut self, mut bytes: &[u8]) -> Result<(), HopError> {
        while let Some((kind, [number, _], rest)) = self.words.next(bytes)? {
            bytes = rest;
            match (kind, self.state) {
                (_, SenderState::Left | SenderState::Done) => return Err(HopError::Broken),
                (CREDIT, _) => {
                    let more = usize::try_from(number).map_err(|_| HopError::Broken)?;
                    self.credit = self.credit.saturating_add(more);
                    if self.credit > HOP_WINDOW_BYTES_MAX {
                        return Err(HopError::Broken);
                    }
                }
                (PROBE, SenderState::Open) => self.out.say(ECHO, &[]),
                (PROBE, SenderState::Ending) => {}
                (LEFT, _) => self.state = SenderState::Left,
                (DONE, SenderState::Ending) => self.state = SenderState::Done,
                _ => return Err(HopError::Broken),
            }
        }
        Ok(())
    }

    /// Nothing more comes from the other side.
    pub fn on_closed(&self) -> Result<(), HopError> {
        match self.state {
            SenderState::Done | SenderState::Left => Ok(()),
            SenderState::Open | SenderState::Ending => Err(HopError::EndsEarly),
        }
    }

    /// Where it is in its life.
    pub fn state(&self) -> SenderState {
        self.state
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.out.bytes.capacity()
    }
}

/// Where a receiver is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverState {
    /// More may come.
    Open,
    /// All came; the number of records.
    Ended(u64),
    /// It has sent `DONE`.
    Done,
    /// It has sent `LEFT`; what still comes is dropped.
    Left,
    /// The other side has gone after that.
    Gone,
}

/// How much may be under way, from the rate and the round trip of an edge.
///
/// The window becomes 2 x rate x round trip. While it holds up the sender, the rate is window / round
/// trip, so it doubles with each answer. It never gets smaller: what is under way cannot be taken
/// back, and a rate that is low once, because the sender had nothing, says nothing of the line.
#[derive(Debug)]
struct Window {
    bytes: usize,
    now: Time,
    /// When the probe was sent that has no answer.
    probed: Option<Time>,
    /// The shortest round trip; others waited behind data. `None`: none is known.
    round_trip_ns: Option<u64>,
    /// Since when bytes are counted. `None`: from the first probe on.
    since: Option<Time>,
    /// Bytes taken since then.
    taken: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bytes: HOP_WINDOW_BYTES,
            now: Time(0),
            probed: None,
            round_trip_ns: None,
            since: None,
            taken: 0,
        }
    }
}

impl Window {
    /// Whether a probe is to be sent now.
    fn probes(&mut self) -> bool {
        let is_due = self.probed.is_none() && self.bytes < HOP_WINDOW_BYTES_MAX;
        if is_due {
            self.probed = Some(self.now);
            if self.since.is_none() {
                self.since = Some(self.now);
                self.taken = 0;
            }
        }
        is_due
    }

    /// Maximum bytes a second that the window lets through with some room to spare. `None`: no round trip is known.
    fn bound(&self) -> Option<u64> {
        let bytes = self.bytes as u128 * 3 / 4 * 1_000_000_000;
        let rate = bytes / u128::from(self.round_trip_ns?.max(1));
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// An answer came. Returns by how many bytes the window has grown; `None` if there was no question.
    fn on_echo(&mut self) -> Option<usize> {
        let sample = self.now.0.saturating_sub(self.probed.take()?.0);
        let round_trip = self.round_trip_ns.map_or(sample, |shortest| shortest.min(sample));
        self.round_trip_ns = Some(round_trip);
        let elapsed = self.now.0.saturating_sub(self.since?.0);
        if elapsed < RATE_NS_MIN {
            return Some(0);
        }
        // One time follows on the other, so that no burst falls between two.
        self.since = Some(self.now);
        let taken = core::mem::take(&mut self.taken);
        let wanted = 2 * u128::from(taken) * u128::from(round_trip) / u128::from(elapsed);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(HOP_WINDOW_BYTES_MAX);
        let more = wanted.saturating_sub(self.bytes);
        self.bytes += more;
        Some(more)
    }
}

/// The reading end of an edge.
#[derive(Debug)]
pub struct HopReceiver {
    state: ReceiverState,
    /// Bytes that came; the first `taken` of them are taken already.
    held: Vec<u8>,
    taken: usize,
    /// Bytes of the present piece that have not come.
    piece_left: usize,
    /// Bytes that may still come.
    credit: usize,
    /// Bytes taken for which no credit was given yet.
    owed: usize,
    came: u64,
    window: Window,
    meter: LineMeter,
    words: Words,
    out: Outgoing,
}

impl Default for HopReceiver {
    fn default() -> Self {
        Self {
            state: ReceiverState::Open,
            held: Vec::new(),
            taken: 0,
            piece_left: 0,
            credit: HOP_WINDOW_BYTES,
            owed: 0,
            came: 0,
            window: Window::default(),
            meter: LineMeter::default(),
            words: Words::default(),
            out: Outgoing::default(),
        }
    }
}

impl HopReceiver {
    /// Sets the time. Without a clock the window stays as it is.
    pub fn on_time(&mut self, now: Time) {
        self.window.now = now;
    }

    /// Bytes that may be under way.
    pub fn window_bytes(&self) -> usize {
        self.window.bytes
    }

    /// Takes in bytes from the other side.
    pub fn on_received(&mut self, mut bytes: &[u8]) -> Result<(), HopError> {
        loop {
            if self.piece_left > 0 {
                let some = self.piece_left.min(bytes.len());
                if self.state == ReceiverState::Open {
                    self.held.extend_from_slice(&bytes[..some]);
                }
                self.piece_left -= some;
                self.came += some as u64;
                self.meter.on_bytes(self.window.now, some as u64, self.window.bound());
                bytes = &bytes[some..];
                if self.piece_left > 0 {
                    return Ok(());
                }
            }
            let Some((kind, [first, records], rest)) = self.words.next(bytes)? else {
                return Ok(());
            };
            bytes = rest;
            match (kind, self.state) {
                (DATA | MORE, ReceiverState::Open | ReceiverState::Left) => {
                    let length = usize::try_from(first).map_err(|_| HopError::Broken)?;
                    if length == 0 || length > self.credit {
                        return Err(HopError::Broken);
                    }
                    self.credit -= length;
                    self.piece_left = length;
                    self.meter_piece(kind == MORE);
                }
                (END, ReceiverState::Open) if first == self.came => {
                    self.state = ReceiverState::Ended(records);
                }
                (END, ReceiverState::Open) => {
                    return Err(HopError::Differs { said: first, came: self.came });
                }
                (END, ReceiverState::Left) => {}
                (ECHO, ReceiverState::Open | ReceiverState::Left) => {
                    let more = self.window.on_echo().ok_or(HopError::Broken)?;
                    if more > 0 {
                        let round_trip_ns = self.window.round_trip_ns.unwrap_or(0);
                        self.meter.on_widened(self.window.now, round_trip_ns);
                    }
                    if more > 0 && self.state == ReceiverState::Open {
                        self.out.say(CREDIT, &[more as u64]);
                        self.credit += more;
                    }
                }
                _ => return Err(HopError::Broken),
            }
        }
    }

    /// A piece begins; `follows`: the sender was never short since the one before.
    fn meter_piece(&mut self, follows: bool) {
        // A window that is half full is held up by readers, not by the line.
        let is_taken = self.pending().len() <= self.window.bytes / 2;
        if self.state != ReceiverState::Open || !is_taken {
            self.meter.on_held_up();
        } else if !follows || !self.meter.is_running() {
            self.meter.on_begun(self.window.now, self.window.bound());
        }
    }

    /// Bytes a second that the line carried, as seen since the last call.
    pub fn take_line_rate(&mut self) -> Option<u64> {
        self.meter.take_rate()
    }

    /// Nothing more comes from the other side.
    pub fn on_closed(&mut self) -> Result<(), HopError> {
        match self.state {
            ReceiverState::Done => Ok(()),
            ReceiverState::Left | ReceiverState::Gone => {
                self.state = ReceiverState::Gone;
                Ok(())
            }
            ReceiverState::Open | ReceiverState::Ended(_) => Err(HopError::EndsEarly),
        }
    }

    /// The bytes that came and were not taken.
    pub fn pending(&self) -> &[u8] {
        &self.held[self.taken..]
    }

    /// Notes that this many of them were taken.
    pub fn on_taken(&mut self, bytes: usize) {
        self.taken += bytes;
        assert!(self.taken <= self.held.len(), "no more is taken than there is");
        if self.taken == self.held.len() {
            self.held.clear();
            self.taken = 0;
        } else if self.taken >= self.window.bytes / 4 {
            self.held.drain(..self.taken);
            self.taken = 0;
        }
        self.owed += bytes;
        self.window.taken += bytes as u64;
        if self.owed >= GRANT_BYTES && self.state == ReceiverState::Open {
            self.out.say(CREDIT, &[self.owed as u64]);
            self.credit += self.owed;
            self.owed = 0;
            if self.window.probes() {
                self.out.say(PROBE, &[]);
            }
        }
    }

    /// The sender's number of records, once all came and was taken.
    pub fn ended(&self) -> Option<u64> {
        match self.state {
            ReceiverState::Ended(records) if self.pending().is_empty() => Some(records),
            ReceiverState::Open
            | ReceiverState::Ended(_)
            | ReceiverState::Done
            | ReceiverState::Left
            | ReceiverState::Gone => None,
        }
    }

    /// Sends `DONE`: the accounts agree.
    pub fn finish(&mut self) {
        if matches!(self.state, ReceiverState::Ended(_)) {
            self.state = ReceiverState::Done;
            self.out.say(DONE, &[]);
        }
    }

    /// Sends `LEFT`: nothing reads here any more.
    pub fn leave(&mut self) {
        if matches!(self.state, ReceiverState::Open | ReceiverState::Ended(_)) {
            self.state = ReceiverState::Left;
            self.held = Vec::new();
            self.taken = 0;
            self.out.say(LEFT, &[]);
        }
    }

    /// The bytes to write.
    pub fn to_write(&self) -> &[u8] {
        self.out.left()
    }

    /// Notes that this many of them are written.
    pub fn on_written(&mut self, bytes: usize) {
        self.out.on_written(bytes);
    }

    /// Whether the connection is of no use any more.
    pub fn is_over(&self) -> bool {
        match self.state {
            ReceiverState::Done => self.out.left().is_empty(),
            ReceiverState::Gone => true,
            ReceiverState::Open | ReceiverState::Ended(_) | ReceiverState::Left => false,
        }
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.held.capacity() + self.out.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(sender: &mut HopSender, receiver: &mut HopReceiver) {
        let bytes = sender.to_write().to_vec();
        sender.on_written(bytes.len());
        receiver.on_received(&bytes).unwrap();
        let bytes = receiver.to_write().to_vec();
        receiver.on_written(bytes.len());
        sender.on_received(&bytes).unwrap();
    }

    #[test]
    fn more_than_the_window_is_not_sent_before_it_is_taken() {
        let (mut sender, mut receiver) = (HopSender::default(), HopReceiver::default());
        let bytes = [7; 4096];
        let mut sent = 0;
        loop {
            let taken = sender.take([&bytes[..]].into_iter());
            if taken == 0 {
                break;
            }
            sent += taken;
            pass(&mut sender, &mut receiver);
        }
        assert_eq!(sent, HOP_WINDOW_BYTES);
        assert_eq!(receiver.pending().len(), sent);
        receiver.on_taken(GRANT_BYTES);
        pass(&mut sender, &mut receiver);
        // The answer to the probe goes first.
        pass(&mut sender, &mut receiver);
        assert!(sender.room() > 0);
    }

    #[test]
    fn who_says_what_is_not_allowed_is_found_out() {
        let mut receiver = HopReceiver::default();
        assert_eq!(receiver.on_received(&[DONE]), Err(HopError::Broken));
        let mut receiver = HopReceiver::default();
        assert_eq!(receiver.on_received(&[9]), Err(HopError::Broken));
        let mut receiver = HopReceiver::default();
        let mut end = alloc::vec![END];
        end.extend_from_slice(&3_u64.to_le_bytes());
        end.extend_from_slice(&1_u64.to_le_bytes());
        assert_eq!(receiver.on_received(&end), Err(HopError::Differs { said: 3, came: 0 }));
        let mut sender = HopSender::default();
        assert_eq!(sender.on_received(&[DONE]), Err(HopError::Broken));
        assert_eq!(sender.on_closed(), Err(HopError::EndsEarly));
        let mut credit = alloc::vec![CREDIT];
        credit.extend_from_slice(&(HOP_WINDOW_BYTES_MAX as u64).to_le_bytes());
        assert_eq!(sender.on_received(&credit), Err(HopError::Broken));
        let mut flood = alloc::vec![DATA];
        flood.extend_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(HopReceiver::default().on_received(&flood), Err(HopError::Broken));
    }

    /// A line: its one-way delay, and bytes a millisecond that it and a reader take.
    struct VirtualLine {
        delay_ms: u64,
        wire: usize,
        reader: usize,
    }

    /// Bytes that a reader has got after this time, and the window then.
    fn carried(line: &VirtualLine, milliseconds: u64) -> (usize, usize) {
        use alloc::collections::VecDeque;

        let (mut sender, mut receiver) = (HopSender::default(), HopReceiver::default());
        let piece = alloc::vec![7; PIECE_BYTES_MAX];
        let mut there: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
        let mut back: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
        let mut got = 0;
        for now in 0..milliseconds {
            receiver.on_time(Time(now * 1_000_000));
            while back.front().is_some_and(|(due, _)| *due <= now) {
                sender.on_received(&back.pop_front().unwrap().1).unwrap();
            }
            let mut free = line.wire;
            while free > 0 {
                sender.take([&piece[..]].into_iter());
                let bytes = sender.to_write();
                let bytes = bytes[..bytes.len().min(free)].to_vec();
                if bytes.is_empty() {
                    break;
                }
                free -= bytes.len();
                sender.on_written(bytes.len());
                there.push_back((now + line.delay_ms, bytes));
            }
            while there.front().is_some_and(|(due, _)| *due <= now) {
                receiver.on_received(&there.pop_front().unwrap().1).unwrap();
            }
            let some = receiver.pending().len().min(line.reader);
            receiver.on_taken(some);
            got += some;
            assert!(receiver.pending().len() <= receiver.window_bytes());
            let bytes = receiver.to_write().to_vec();
            receiver.on_written(bytes.len());
            back.push_back((now + line.delay_ms, bytes));
        }
        (got, receiver.window_bytes())
    }

    #[test]
    fn a_long_line_is_filled() {
        // 100 MB/s with a round trip of 50 ms: 1 MiB under way would be 21 MB/s.
        let line = VirtualLine { delay_ms: 25, wire: 100_000, reader: usize::MAX };
        let (got, window) = carried(&line, 3_000);
        assert!(got > 250_000_000, "{got}");
        assert!((5_000_000..=HOP_WINDOW_BYTES_MAX).contains(&window), "{window}");
    }

    #[test]
    fn a_line_longer_than_any_window_is_used_as_far_as_the_largest_goes() {
        let line = VirtualLine { delay_ms: 100, wire: 1_000_000, reader: usize::MAX };
        let (got, window) = carried(&line, 5_000);
        assert_eq!(window, HOP_WINDOW_BYTES_MAX);
        assert!(got > 4 * 5 * HOP_WINDOW_BYTES_MAX / 2, "{got}");
    }

    #[test]
    fn the_window_of_a_short_line_and_of_a_slow_reader_stays() {
        let short = VirtualLine { delay_ms: 1, wire: 100_000, reader: usize::MAX };
        assert_eq!(carried(&short, 1_000).1, HOP_WINDOW_BYTES);
        let slow = VirtualLine { delay_ms: 25, wire: 100_000, reader: 1_000 };
        assert_eq!(carried(&slow, 3_000).1, HOP_WINDOW_BYTES);
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_found_out() {
        assert_eq!(HopReceiver::default().on_received(&[ECHO]), Err(HopError::Broken));
    }

    #[test]
    fn nothing_is_answered_behind_the_end() {
        let mut sender = HopSender::default();
        sender.finish(0);
        let bytes = sender.to_write().len();
        sender.on_received(&[PROBE]).unwrap();
        assert_eq!(sender.to_write().len(), bytes);
    }
}
