//! One stream in one place: what its writers print is merged, and each reader gets all of it.
//!
//! The shell reads into the buffers that `space` hands out and writes what `pending` shows; all else is decided here.
//! Knows no descriptors: the shell reports a pipe that ends or breaks. Nor does it know where spilled bytes lie: the
//! shell keeps them, in order, and gives them back when it is asked to.

mod edge;
mod handing;

use alloc::vec::Vec;

use super::record::{Cutter, RecordKind};
use super::ring::{Cursor, Ring};
use super::spill::Loaded;
use super::stall::Still;

/// Bytes of a writer's buffer, and so the maximum of one read.
pub const READ_BYTES: usize = 128 << 10;
/// Maximum bytes of a writer's buffer, while a record is longer than `READ_BYTES`.
pub const CARRY_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes that wait for readers, where nothing else is asked for.
pub const WINDOW_BYTES: usize = 4 << 20;
/// Minimum window, bytes: one record of the largest size that is kept whole, and one read.
pub const WINDOW_BYTES_MIN: usize = 2 << 20;

/// What becomes of writers when all readers have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClose {
    /// Their pipes are closed, so that they get SIGPIPE.
    Sigpipe,
    /// What they still write is read, counted and dropped.
    Drain,
}

/// The settings of a stream.
#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    /// What a record is.
    pub record: RecordKind,
    /// Maximum bytes that wait for readers, by capacity.
    pub window: usize,
    /// What happens when all readers have left.
    pub on_close: OnClose,
    /// Bytes that a slow reader has not read are spilled, where they would hold up a faster one.
    pub spills: bool,
    /// Writers are read one after the other: all of each comes before anything of the next.
    pub in_turn: bool,
}

impl Default for FlowSettings {
    fn default() -> Self {
        let (record, on_close) = (RecordKind::Line, OnClose::Sigpipe);
        Self { record, window: WINDOW_BYTES, on_close, spills: false, in_turn: false }
    }
}

/// Bytes and records of one end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Of a writer: that went into the stream. Of a reader: that were put into its pipe.
    pub bytes: u64,
    /// Records of these that have ended. Of `Raw`: 0.
    pub records: u64,
    /// Of a writer: a separator was added to its last record. Of a reader: it left before the end.
    pub is_special: bool,
    /// Of a writer: bytes that it wrote besides, and that were read and dropped, as all readers had left.
    pub dropped: u64,
}

/// What is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A writer has ended well, and its last record of a fixed size lacks bytes.
    Torn {
        /// The writer.
        writer: usize,
        /// Bytes of that record.
        bytes: u64,
    },
    /// A reader at its end did not get what writers wrote: a fault of the engine.
    Differs {
        /// The reader.
        reader: usize,
        /// The account it should have.
        expected: Account,
        /// The account it has.
        found: Account,
    },
}

/// Where a writer is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterState {
    /// Its pipe is open.
    Open,
    /// Nothing can write any more; whether it ended well is not known.
    Closed,
    /// It has ended badly.
    Failed,
}

#[derive(Debug)]
struct Writer {
    state: WriterState,
    /// It has ended well. Something that it left behind may still write.
    ended: bool,
    /// What was read and has not gone on: less than a record, or what must wait for its turn.
    buffer: Vec<u8>,
    /// Bytes of it in which no record ends.
    looked_at: usize,
    cutter: Cutter,
    /// Its buffer holds what could not go on, for want of room or of its turn.
    waits: bool,
    /// It comes from a tree in which all readers had left, so parts of its records were dropped there. This stream
    /// learns of that later.
    is_unread: bool,
    account: Account,
}

impl Writer {
    /// What has not gone on goes nowhere.
    fn drop_buffer(&mut self) {
        let dropped = self.buffer.len() as u64;
        self.account.bytes -= dropped;
        self.account.dropped += dropped;
        self.buffer.clear();
        self.looked_at = 0;
    }

    fn is_done(&self) -> bool {
        self.state == WriterState::Closed && self.ended && self.buffer.is_empty() && !self.waits
    }
}

/// Where a reader is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderState {
    /// There is more for it, or may come.
    Open,
    /// It has read all: its pipe is to be closed.
    AtEnd,
    /// It does not read any more.
    Left,
}

#[derive(Debug)]
struct Reader {
    state: ReaderState,
    place: Cursor,
    account: Account,
    /// What came back of that which was spilled before it has read it.
    loaded: Loaded,
}

/// One stream.
#[derive(Debug)]
pub struct Flow {
    settings: FlowSettings,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    ring: Ring,
    /// The writer whose long record passes in pieces.
    exclusive: Option<usize>,
    /// A writer has ended badly: no reader will see an end.
    aborted: bool,
    /// No more can be spilled for now.
    spill_is_full: bool,
    faults: Vec<Fault>,
    /// A byte came or went since the last question.
    has_moved: bool,
}

impl Flow {
    /// A stream with this many writers and readers; at least one of each.
    ///
    /// # Panics
    ///
    /// With several writers of raw bytes, or a record size of 0: the caller refuses these.
    pub fn new(settings: FlowSettings, writers: usize, readers: usize) -> Self {
        assert!(writers > 0 && readers > 0, "a stream has two ends");
        assert!(settings.record != RecordKind::Raw || writers == 1, "raw bytes cannot be merged");
        assert!(settings.record != RecordKind::Fixed(0), "a record has bytes");
        let mut ring = Ring::new(READ_BYTES);
        let writer = |_| Writer {
            state: WriterState::Open,
            ended: false,
            buffer: ring.buffer(),
            looked_at: 0,
            cutter: Cutter::new(settings.record),
            waits: false,
            is_unread: false,
            account: Account::default(),
        };
        let writers = (0..writers).map(writer).collect();
        let reader = |_| Reader {
            state: ReaderState::Open,
            place: Cursor::default(),
            account: Account::default(),
            loaded: Loaded::default(),
        };
        let readers = (0..readers).map(reader).collect();
        let window = settings.window.max(WINDOW_BYTES_MIN);
        let settings = FlowSettings { window, ..settings };
        Self {
            settings,
            writers,
            readers,
            ring,
            exclusive: None,
            aborted: false,
            spill_is_full: false,
            faults: Vec::new(),
            has_moved: false,
        }
    }

    /// Whether a writer is to be read from now.
    pub fn wants(&self, writer: usize) -> bool {
        let one = &self.writers[writer];
        if one.state != WriterState::Open || !self.is_turn_of(writer) {
            return false;
        }
        if self.is_abandoned() {
            return self.settings.on_close == OnClose::Drain;
        }
        one.buffer.len() < CARRY_BYTES_MAX && self.has_room(writer)
    }

    /// Whether the writers before this one have nothing more to pass on, where that counts.
    fn is_turn_of(&self, writer: usize) -> bool {
        !self.settings.in_turn || self.writers[..writer].iter().all(Writer::is_done)
    }

    /// Where to read a writer's bytes to: appended, as far as there is spare capacity.
    pub fn space(&mut self, writer: usize) -> &mut Vec<u8> {
        let buffer = &mut self.writers[writer].buffer;
        if buffer.len() == buffer.capacity() {
            // Twice as much each time, so that a long record is copied only a few times.
            let capacity = (buffer.capacity() * 2).clamp(READ_BYTES, CARRY_BYTES_MAX);
            buffer.reserve_exact(capacity.saturating_sub(buffer.len()));
        }
        buffer
    }

    /// Notes that bytes were appended to a writer's space.
    pub fn on_read(&mut self, writer: usize, bytes: usize) {
        self.writers[writer].account.bytes += bytes as u64;
        self.has_moved = true;
        if self.is_abandoned() {
            return self.writers[writer].drop_buffer();
        }
        self.pass_on(writer);
    }

    /// Lets whole records of a writer go on, if it is its turn and there is room; then the last
    /// record of one whose pipe is closed.
    fn pass_on(&mut self, writer: usize) {
        if !self.may_pass(writer) {
            self.writers[writer].waits = true;
            return;
        }
        let one = &mut self.writers[writer];
        one.waits = false;
        let cut = one.cutter.cut(&one.buffer, one.looked_at);
        if cut.whole > 0 {
            one.account.records += cut.records;
            one.cutter.passed_whole();
            self.ring.take(&mut one.buffer, cut.whole, cut.records);
            if self.exclusive == Some(writer) {
                self.exclusive = None;
                // Its next long record must not come before what the others have.
                self.retry_others(writer);
            }
        }
        let one = &mut self.writers[writer];
        one.looked_at = one.buffer.len();
        if one.buffer.len() >= CARRY_BYTES_MAX && self.exclusive.is_none() {
            self.exclusive = Some(writer);
        }
        self.pass_piece(writer);
        self.finish(writer);
    }

    /// What a writer has of a long record goes on without its end.
    fn pass_piece(&mut self, writer: usize) {
        let is_empty = self.writers[writer].buffer.is_empty();
        if self.exclusive != Some(writer) || is_empty || !self.has_room(writer) {
            return;
        }
        let one = &mut self.writers[writer];
        let piece = one.buffer.len();
        one.cutter.passed_piece(piece);
        one.looked_at = 0;
        self.ring.take(&mut one.buffer, piece, 0);
    }

    /// Whether what a writer has may go on now.
    fn may_pass(&self, writer: usize) -> bool {
        self.exclusive.is_none_or(|holder| holder == writer) && self.has_room(writer)
    }

    /// Whether what a writer has fits into the window, in the worst case as chunks of its own.
    fn has_room(&self, writer: usize) -> bool {
        let incoming = READ_BYTES.max(self.writers[writer].buffer.capacity());
        self.ring.held_bytes() + incoming <= self.settings.window
    }

    /// There is room again, or the stream is free again: writers that waited go on.
    fn retry_others(&mut self, but: usize) {
        for other in 0..self.writers.len() {
            if other != but && self.writers[other].waits {
                self.pass_on(other);
            }
        }
    }

    /// No process holds a writer's pipe any more.
    pub fn on_writer_closed(&mut self, writer: usize) {
        if self.writers[writer].state == WriterState::Open {
            self.writers[writer].state = WriterState::Closed;
        }
        self.pass_on(writer);
        self.look_for_ends();
    }

    /// A writer's task has ended. The writer is done once that is known and its pipe is closed.
    pub fn on_writer_ended(&mut self, writer: usize, well: bool) {
        let one = &mut self.writers[writer];
        if well {
            one.ended = true;
            if one.state == WriterState::Closed && one.waits {
                self.pass_on(writer);
            }
        } else {
            one.state = WriterState::Failed;
            self.aborted = true;
        }
        self.look_for_ends();
    }

    /// The last record of a writer whose pipe is closed goes on, with a separator if it lacks one.
    fn finish(&mut self, writer: usize) {
        if self.writers[writer].state != WriterState::Closed {
            return;
        }
        if !self.may_pass(writer) {
            self.writers[writer].waits = true;
            return;
        }
        let abandoned = self.is_abandoned();
        let one = &mut self.writers[writer];
        if !abandoned && one.cutter.is_within(one.buffer.len()) {
            if one.is_unread {
                one.drop_buffer();
            } else if let Some(separator) = self.settings.record.separator() {
                let held = one.buffer.len();
                self.ring.take(&mut one.buffer, held, 0);
                self.ring.append(&[separator], 1);
                one.account.records += 1;
                one.account.is_special = true;
            } else {
                let RecordKind::Fixed(size) = self.settings.record else {
                    unreachable!("raw bytes have no records")
                };
                if !one.ended {
                    // Of one that fails nothing else is to be said.
                    one.waits = true;
                    return;
                }
                let bytes = one.account.bytes % u64::from(size);
                self.faults.push(Fault::Torn { writer, bytes });
                self.aborted = true;
                one.state = WriterState::Failed;
                one.buffer.clear();
            }
            one.cutter.passed_whole();
            one.looked_at = 0;
        }
        let buffer = core::mem::take(&mut one.buffer);
        self.ring.give_back(buffer);
        if self.exclusive == Some(writer) {
            self.exclusive = None;
            self.retry_others(writer);
        }
    }

    /// The pieces that a reader has not got, the next one first. For a reader behind what is in memory: the loaded
    /// ones.
    pub fn pending(&self, reader: usize) -> impl Iterator<Item = &[u8]> {
        let one = &self.readers[reader];
        let open = one.state == ReaderState::Open;
        let is_behind = self.ring.is_gone(one.place);
        let loaded = one.loaded.after(one.place.within());
        let loaded = Some(loaded).filter(|piece| open && is_behind && !piece.is_empty());
        let ring = (open && !is_behind).then(|| self.ring.pending(one.place));
        loaded.into_iter().chain(ring.into_iter().flatten())
    }

    /// Whether there is something for a reader, be it spilled.
    pub fn has_pending(&self, reader: usize) -> bool {
        self.is_behind(reader) || self.pending(reader).next().is_some()
    }

    /// Notes that this many of the pending bytes are in a reader's pipe.
    pub fn on_written(&mut self, reader: usize, bytes: usize) {
        let one = &mut self.readers[reader];
        one.account.bytes += bytes as u64;
        self.has_moved = true;
        if !self.ring.is_gone(one.place) {
            one.account.records += self.ring.advance(&mut one.place, bytes);
        } else if one.place.read_of(bytes, one.loaded.len()) {
            let stays = self.ring.is_gone(one.place);
            one.account.records += one.loaded.finish(stays);
        }
        self.release();
    }

    /// What to spill, so that writers can go on and a slow reader holds up no faster one: bytes, and how many records
    /// end in them. At least one reader has read it.
    pub fn to_spill(&self) -> Option<(&[u8], u64)> {
        if !self.settings.spills || self.spill_is_full || self.aborted {
            return None;
        }
        let is_stopped = |writer: usize| {
            self.writers[writer].state != WriterState::Failed
                && !self.writers[writer].is_done()
                && !self.has_room(writer)
        };
        let mut open = self.readers.iter().filter(|one| one.state == ReaderState::Open);
        let is_gap = open.any(|one| self.ring.has_passed_oldest(one.place));
        if !is_gap || !(0..self.writers.len()).any(is_stopped) {
            return None;
        }
        self.ring.oldest()
    }

    /// The piece was spilled and can be loaded. Returns the readers that continue with it later; those that were behind
    /// already have it after what they have not loaded.
    pub fn on_spilled(&mut self) -> Vec<usize> {
        let mut behind = Vec::new();
        let (bytes, records) = self.ring.oldest().expect("it was shown");
        for (number, one) in self.readers.iter_mut().enumerate() {
            let Some(within) = self.ring.within_oldest(one.place) else { continue };
            if one.state != ReaderState::Open {
                continue;
            }
            if within == bytes.len() {
                one.place.read_of(0, within);
                one.account.records += records;
            } else {
                one.loaded.expect(self.settings.record.count(&bytes[..within], 0));
                behind.push(number);
            }
        }
        self.ring.forget_oldest();
        self.retry_others(usize::MAX);
        self.look_for_ends();
        behind
    }

    /// Nothing more can be spilled: writers wait for the slowest reader until there is room.
    pub fn on_spill_full(&mut self) {
        self.spill_is_full = true;
    }

    /// More can be spilled again.
    pub fn on_spill_room(&mut self) {
        self.spill_is_full = false;
    }

    /// Whether a reader goes on with what was spilled.
    pub fn is_behind(&self, reader: usize) -> bool {
        let one = &self.readers[reader];
        one.state == ReaderState::Open && self.ring.is_gone(one.place)
    }

    /// Whether what comes next for a reader is to be loaded.
    pub fn wants_load(&self, reader: usize) -> bool {
        self.is_behind(reader) && self.readers[reader].loaded.len() == 0
    }

    /// The empty buffer into which the next spilled piece of a reader is to be loaded.
    pub fn load_space(&mut self, reader: usize) -> &mut Vec<u8> {
        self.readers[reader].loaded.space()
    }

    /// A whole piece was loaded, as it was spilled.
    pub fn on_loaded(&mut self, reader: usize, records: u64) {
        self.readers[reader].loaded.on_loaded(records);
    }

    /// A reader on another host does not read any more. When all is on its way there it is at its end here, and has not
    /// taken all.
    pub fn on_reader_elsewhere_left(&mut self, reader: usize) {
        if self.readers[reader].state == ReaderState::AtEnd {
            self.readers[reader].account.is_special = true;
        }
        self.on_reader_left(reader);
    }

    /// A reader does not read any more.
    pub fn on_reader_left(&mut self, reader: usize) {
        if self.readers[reader].state != ReaderState::Open {
            return;
        }
        self.close_account(reader);
        self.readers[reader].state = ReaderState::Left;
        self.readers[reader].account.is_special = true;
        self.readers[reader].loaded = Loaded::default();
        self.release();
        if self.is_abandoned() {
            self.abandon();
        }
    }

    /// Drops what waits, as nothing will read it.
    fn abandon(&mut self) {
        self.exclusive = None;
        for writer in &mut self.writers {
            writer.drop_buffer();
            writer.waits = false;
        }
    }

    /// Lets go of what all have read: writers that waited for room go on, and the last one may be done then.
    fn release(&mut self) {
        if self.free() {
            self.retry_others(usize::MAX);
        }
        self.look_for_ends();
    }

    /// Lets go of what all have read; whether there is more room.
    fn free(&mut self) -> bool {
        let open = self.readers.iter().filter(|reader| reader.state == ReaderState::Open);
        let slowest = open.map(|reader| reader.place).min();
        let held = self.ring.held_bytes();
        self.ring.release(slowest);
        self.ring.held_bytes() < held
    }

    /// Readers that have got all of a stream that has ended are at their end.
    fn look_for_ends(&mut self) {
        if self.aborted || !self.writers.iter().all(Writer::is_done) {
            return;
        }
        let mut expected = Account::default();
        for Writer { account, .. } in &self.writers {
            expected.bytes += account.bytes + u64::from(account.is_special);
            expected.records += account.records;
        }
        for reader in 0..self.readers.len() {
            let one = &self.readers[reader];
            let is_at_end = !self.ring.is_gone(one.place) && self.ring.is_at_end(one.place);
            if one.state != ReaderState::Open || !is_at_end {
                continue;
            }
            self.close_account(reader);
            let one = &mut self.readers[reader];
            one.state = ReaderState::AtEnd;
            let found = one.account;
            if found != expected {
                self.faults.push(Fault::Differs { reader, expected, found });
            }
        }
        // No writer waits any more.
        self.free();
    }

    /// Counts the records of the chunk in which a reader has stopped.
    fn close_account(&mut self, reader: usize) {
        self.readers[reader].account.records += self.records_begun(reader);
    }

    /// Records that a reader has got of the chunk in which it is.
    fn records_begun(&self, reader: usize) -> u64 {
        let one = &self.readers[reader];
        let kind = self.settings.record;
        let is_behind = self.ring.is_gone(one.place);
        let (bytes, all) = if is_behind { (&[][..], None) } else { self.ring.within(one.place) };
        match (all, kind) {
            (Some(records), _) => records,
            (None, RecordKind::Fixed(size)) => {
                one.account.bytes / u64::from(size) - one.account.records
            }
            (None, kind) if is_behind => one.loaded.records_before(kind, one.place.within()),
            (None, kind) => kind.count(bytes, 0),
        }
    }

    /// Where a reader is in its life.
    pub fn reader_state(&self, reader: usize) -> ReaderState {
        self.readers[reader].state
    }

    /// Whether all readers have left before the end.
    pub fn is_abandoned(&self) -> bool {
        self.readers.iter().all(|reader| reader.state == ReaderState::Left)
    }

    /// Whether the writers' pipes are to be closed, so that a task that writes gets SIGPIPE.
    pub fn breaks_pipes(&self) -> bool {
        self.is_abandoned() && self.settings.on_close == OnClose::Sigpipe
    }

    /// Whether a writer's task has ended well, be its pipe open or not.
    pub fn has_ended(&self, writer: usize) -> bool {
        self.writers[writer].ended
    }

    /// Whether a writer has ended badly.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Whether all writers are done, and every reader is at its end or has left.
    pub fn is_over(&self) -> bool {
        let read = self.readers.iter().all(|reader| reader.state != ReaderState::Open);
        let ended = |writer: &Writer| writer.ended && writer.state == WriterState::Closed;
        read && self.writers.iter().all(ended)
    }

    /// Whether writers wait because readers do not read.
    pub fn is_full(&self) -> bool {
        let open = |writer: usize| self.writers[writer].state == WriterState::Open;
        let mut writers = (0..self.writers.len()).filter(|writer| open(*writer)).peekable();
        writers.peek().is_some() && writers.all(|writer| !self.wants(writer))
    }

    /// How it is here while nothing moves.
    pub fn still(&self) -> Still {
        if self.is_over() || self.is_abandoned() {
            Still::Over
        } else if self.is_full() {
            Still::Full
        } else if (0..self.readers.len()).any(|reader| self.has_pending(reader)) {
            Still::Unread
        } else {
            Still::Empty
        }
    }

    /// Whether any byte came or went since the last call.
    pub fn take_moved(&mut self) -> bool {
        core::mem::take(&mut self.has_moved)
    }

    /// Bytes of memory that it takes, by capacity.
    pub fn memory_bytes(&self) -> usize {
        let buffers = self.writers.iter().map(|writer| writer.buffer.capacity()).sum::<usize>();
        let loaded = self.readers.iter().map(|reader| reader.loaded.capacity()).sum::<usize>();
        self.ring.held_bytes() + self.ring.spare_bytes() + buffers + loaded
    }

    /// The account of a writer.
    pub fn written(&self, writer: usize) -> Account {
        self.writers[writer].account
    }

    /// The account of a reader; complete when it is at its end or has left.
    pub fn read(&self, reader: usize) -> Account {
        self.readers[reader].account
    }

    /// The account of a reader by now.
    pub fn read_so_far(&self, reader: usize) -> Account {
        let mut account = self.read(reader);
        if self.reader_state(reader) == ReaderState::Open {
            account.records += self.records_begun(reader);
        }
        account
    }

    /// What is wrong.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}
