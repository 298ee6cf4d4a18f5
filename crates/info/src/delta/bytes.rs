//! Numbers and texts as bytes, and back. A reader never takes memory for what a length promises.

use super::receiver::FrameError;

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    let zigzag = (number << 1) ^ (number >> 63);
    put_varint(out, zigzag.cast_unsigned());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What is left of a frame.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(FrameError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, FrameError> {
        Ok(self.take(1)?[0])
    }

    pub fn double(&mut self) -> Result<f64, FrameError> {
        let bytes = self.take(8)?.try_into().expect("that many were taken");
        Ok(f64::from_le_bytes(bytes))
    }

    pub fn single(&mut self) -> Result<f32, FrameError> {
        let bytes = self.take(4)?.try_into().expect("that many were taken");
        Ok(f32::from_le_bytes(bytes))
    }

    pub fn varint(&mut self) -> Result<u64, FrameError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(FrameError::Bad("a number of more than 64 bits"))
    }

    pub fn signed(&mut self) -> Result<i64, FrameError> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// A number that is at most `max`.
    pub fn count(&mut self, max: usize, what: &'static str) -> Result<usize, FrameError> {
        let count = self.varint()?;
        usize::try_from(count).ok().filter(|count| *count <= max).ok_or(FrameError::Bad(what))
    }

    pub fn text(&mut self, max: usize, what: &'static str) -> Result<&'a str, FrameError> {
        let length = self.count(max, what)?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| FrameError::Bad("a text that is not UTF-8"))
    }
}
