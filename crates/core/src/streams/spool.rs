//! What a spool looks like, and whether it is whole: pieces, each behind its length and checksum, and a last one that
//! says how many bytes there are.
//!
//! A piece: its length (u32, little endian), its checksum, the bytes. The last: the length 0xffffffff, the checksum of
//! the total, the total (u64). Files, and how checksums are made, are the shell's.

/// Maximum bytes of a piece.
pub const SPOOL_PIECE_BYTES: usize = 64 << 10;
/// Bytes of a checksum.
pub const SPOOL_SUM_BYTES: usize = 16;
/// What stands before a piece: its length and its checksum.
pub const SPOOL_HEAD_BYTES: usize = 4 + SPOOL_SUM_BYTES;

/// A checksum.
pub type SpoolSum = [u8; SPOOL_SUM_BYTES];

/// In place of a length: the last piece.
const LAST: u32 = u32::MAX;

/// A spool that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolDamaged;

/// What stands before a piece.
#[derive(Clone, Copy, Debug)]
pub struct SpoolHead {
    length: u32,
    sum: SpoolSum,
}

impl SpoolHead {
    /// Of a piece with this checksum.
    ///
    /// # Panics
    ///
    /// With more bytes than a piece has.
    pub fn of_piece(bytes: usize, sum: SpoolSum) -> Self {
        assert!(bytes <= SPOOL_PIECE_BYTES, "a piece is short");
        Self { length: u32::try_from(bytes).expect("a piece is short"), sum }
    }

    /// Of the total, with its checksum.
    pub fn of_end(sum: SpoolSum) -> Self {
        Self { length: LAST, sum }
    }

    /// As it is written.
    pub fn to_bytes(self) -> [u8; SPOOL_HEAD_BYTES] {
        let mut bytes = [0; SPOOL_HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..].copy_from_slice(&self.sum);
        bytes
    }

    /// As it was written.
    pub fn from_bytes(bytes: &[u8; SPOOL_HEAD_BYTES]) -> Self {
        let (length, rest) = bytes.split_at(4);
        let mut sum = [0; SPOOL_SUM_BYTES];
        sum.copy_from_slice(rest);
        Self { length: u32::from_le_bytes(length.try_into().expect("four bytes")), sum }
    }

    /// Bytes of what follows.
    pub fn body_bytes(&self) -> Result<usize, SpoolDamaged> {
        match self.length {
            LAST => Ok(8),
            length if length as usize <= SPOOL_PIECE_BYTES => Ok(length as usize),
            _ => Err(SpoolDamaged),
        }
    }
}

/// A spool that is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpoolCheck {
    total: u64,
    ended: bool,
}

impl SpoolCheck {
    /// Whether the last piece was read.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// What follows a head was read, and has this checksum. True: it was the last piece, and nothing is given out of
    /// it.
    pub fn on_body(
        &mut self,
        head: SpoolHead,
        body: &[u8],
        sum: SpoolSum,
    ) -> Result<bool, SpoolDamaged> {
        if sum != head.sum {
            return Err(SpoolDamaged);
        }
        if head.length != LAST {
            self.total += body.len() as u64;
            return Ok(false);
        }
        if *body != self.total.to_le_bytes() {
            return Err(SpoolDamaged);
        }
        self.ended = true;
        Ok(true)
    }
}
