//! Bytes that wait for the slowest reader: chunks in order, each reader with a place in them.
//!
//! Knows no records but their number in a chunk, and does not limit what goes in: the caller asks `held_bytes` first.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Maximum bytes of a piece that is appended to the last chunk; larger ones become chunks themselves.
const SMALL_BYTES: usize = 16 << 10;
/// Maximum number of buffers that are kept for the next chunks.
const SPARE_MAX: usize = 16;

/// Some bytes, and how many records end in them.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    records: u64,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    /// Number of the chunk, from the first that there ever was.
    chunk: u64,
    /// Bytes of it that are read.
    within: usize,
}

impl Cursor {
    /// Bytes of its chunk that are read.
    pub fn within(self) -> usize {
        self.within
    }

    /// Reads `bytes` more of its chunk, which has `length`; whether that is all of it.
    pub fn read_of(&mut self, bytes: usize, length: usize) -> bool {
        self.within += bytes;
        assert!(self.within <= length, "a reader reads no more than there is");
        if self.within < length {
            return false;
        }
        *self = Self { chunk: self.chunk + 1, within: 0 };
        true
    }
}

/// The chunks.
#[derive(Debug)]
pub(super) struct Ring {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk that is still there.
    first: u64,
    /// The sum of the chunks' capacities.
    held_bytes: usize,
    /// Empty buffers of `buffer_bytes` each.
    spare: Vec<Vec<u8>>,
    /// Capacity of a buffer.
    buffer_bytes: usize,
}

impl Ring {
    pub fn new(buffer_bytes: usize) -> Self {
        Self { chunks: VecDeque::new(), first: 0, held_bytes: 0, spare: Vec::new(), buffer_bytes }
    }

    /// What the chunks take in memory.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What buffers take that are kept for later.
    pub fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::capacity).sum()
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.buffer_bytes))
    }

    /// Keeps a buffer for later, if it is of the common size.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == self.buffer_bytes && self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Takes the first `whole` bytes out of a writer's buffer; what is left stays in it.
    pub fn take(&mut self, buffer: &mut Vec<u8>, whole: usize, records: u64) {
        if whole <= SMALL_BYTES {
            self.append(&buffer[..whole], records);
            let left = buffer.len() - whole;
            buffer.copy_within(whole.., 0);
            buffer.truncate(left);
            return;
        }
        let tail = buffer.len() - whole;
        let mut next =
            if tail < self.buffer_bytes { self.buffer() } else { Vec::with_capacity(tail) };
        next.extend_from_slice(&buffer[whole..]);
        let mut bytes = core::mem::replace(buffer, next);
        bytes.truncate(whole);
        self.push(Chunk { bytes, records });
    }

    /// Appends a few bytes.
    pub fn append(&mut self, bytes: &[u8], records: u64) {
        let fits = |chunk: &&mut Chunk| chunk.bytes.capacity() - chunk.bytes.len() >= bytes.len();
        if let Some(chunk) = self.chunks.back_mut().filter(fits) {
            chunk.bytes.extend_from_slice(bytes);
            chunk.records += records;
            return;
        }
        let mut buffer = self.buffer();
        buffer.extend_from_slice(bytes);
        self.push(Chunk { bytes: buffer, records });
    }

    fn push(&mut self, chunk: Chunk) {
        self.held_bytes += chunk.bytes.capacity();
        self.chunks.push_back(chunk);
    }

    /// The pieces that a reader has not read, the next one first.
    pub fn pending(&self, place: Cursor) -> impl Iterator<Item = &[u8]> {
        let skipped = usize::try_from(place.chunk - self.first).expect("chunks fit in memory");
        let pieces = self.chunks.iter().skip(skipped).enumerate();
        let rest = move |(number, chunk): (usize, &Chunk)| {
            if number == 0 { place.within.min(chunk.bytes.len()) } else { 0 }
        };
        pieces
            .map(move |(number, chunk)| &chunk.bytes[rest((number, chunk))..])
            .filter(|piece| !piece.is_empty())
    }

    /// Whether what a reader reads next was let go of before it has read it.
    pub fn is_gone(&self, place: Cursor) -> bool {
        place.chunk < self.first
    }

    /// The oldest chunk, and how many records end in it.
    pub fn oldest(&self) -> Option<(&[u8], u64)> {
        self.chunks.front().map(|chunk| (&chunk.bytes[..], chunk.records))
    }

    /// Bytes of the oldest chunk that a reader has read; `None` if it reads another one.
    pub fn within_oldest(&self, place: Cursor) -> Option<usize> {
        (place.chunk == self.first).then_some(place.within)
    }

    /// Whether a reader has read the oldest chunk, and so has another one after it.
    pub fn has_passed_oldest(&self, place: Cursor) -> bool {
        place.chunk > self.first
    }

    /// Lets go of the oldest chunk, whether readers have read it or not.
    pub fn forget_oldest(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.held_bytes -= chunk.bytes.capacity();
            self.first += 1;
            self.give_back(chunk.bytes);
        }
    }

    /// Whether a reader has read all.
    pub fn is_at_end(&self, place: Cursor) -> bool {
        self.pending(place).next().is_none()
    }

    /// Moves a reader by this many bytes. Returns how many records end in the chunks that it has left.
    pub fn advance(&self, place: &mut Cursor, mut bytes: usize) -> u64 {
        let mut records = 0;
        loop {
            let number = usize::try_from(place.chunk - self.first).expect("chunks fit in memory");
            let Some(chunk) = self.chunks.get(number) else {
                assert!(bytes == 0, "a reader reads no more than there is");
                return records;
            };
            let left = chunk.bytes.len() - place.within;
            if bytes < left || number + 1 == self.chunks.len() {
                assert!(bytes <= left, "a reader reads no more than there is");
                place.within += bytes;
                return records;
            }
            bytes -= left;
            records += chunk.records;
            *place = Cursor { chunk: place.chunk + 1, within: 0 };
        }
    }

    /// The bytes of a reader's chunk that it has read, and the records of the chunk when that is all of it.
    pub fn within(&self, place: Cursor) -> (&[u8], Option<u64>) {
        let number = usize::try_from(place.chunk - self.first).expect("chunks fit in memory");
        let Some(chunk) = self.chunks.get(number) else { return (&[], None) };
        let all = (place.within == chunk.bytes.len()).then_some(chunk.records);
        (&chunk.bytes[..place.within], all)
    }

    /// Lets go of what all readers have passed: `slowest` is the least of their places. Without
    /// readers (`None`) all goes.
    pub fn release(&mut self, slowest: Option<Cursor>) {
        while !self.chunks.is_empty() {
            let passed = slowest.is_none_or(|place| place.chunk > self.first);
            if !passed {
                // The last chunk stays until it is full: what comes is appended to it.
                return;
            }
            self.forget_oldest();
        }
    }
}
