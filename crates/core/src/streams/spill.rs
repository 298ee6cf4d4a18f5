//! The spilled bytes that a slow reader gets back: one piece at a time.
//!
//! Knows neither where it comes from nor what lies before and after it.

use alloc::vec::Vec;

use super::record::RecordKind;

/// A piece of what was spilled.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    bytes: Vec<u8>,
    /// Records that end in it.
    records: u64,
    /// Records that ended in what its reader had read of it when it was spilled.
    seen: u64,
}

impl Loaded {
    /// Notes that the next piece was spilled when its reader had read a part in which this many records end.
    pub fn expect(&mut self, seen: u64) {
        self.seen = seen;
    }

    /// Bytes of the piece; 0 if there is none.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that it takes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The part that is not read; `within`: bytes that are.
    pub fn after(&self, within: usize) -> &[u8] {
        self.bytes.get(within..).unwrap_or_default()
    }

    /// The buffer for the bytes of a whole piece.
    pub fn space(&mut self) -> &mut Vec<u8> {
        assert!(self.bytes.is_empty(), "the piece before it is read");
        &mut self.bytes
    }

    /// The space has a whole piece.
    pub fn on_loaded(&mut self, records: u64) {
        assert!(!self.bytes.is_empty(), "a piece has bytes");
        self.records = records;
    }

    /// All of it is read; how many records end in it. `stays`: another piece follows.
    pub fn finish(&mut self, stays: bool) -> u64 {
        let records = self.records;
        self.bytes.clear();
        if !stays {
            self.bytes = Vec::new();
        }
        (self.records, self.seen) = (0, 0);
        records
    }

    /// Records that end in the part that is read.
    pub fn records_before(&self, kind: RecordKind, within: usize) -> u64 {
        match self.bytes.get(..within) {
            Some(read) => kind.count(read, 0),
            None => self.seen,
        }
    }
}
