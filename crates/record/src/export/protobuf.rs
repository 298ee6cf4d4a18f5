//! The wire format of Protocol Buffers, the part that a trace needs: varints, fixed 64-bit numbers,
//! bytes and nested messages.
//!
//! It knows field numbers only as arguments: which message has which field is its callers' affair.

/// One message under construction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// How a field's value is laid out.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: Wire) {
        self.varint(u64::from(field) << 3 | wire as u64);
    }

    /// `uint64`, `uint32`, `bool` or an enum.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, Wire::Varint);
        self.varint(value);
        self
    }

    /// `int64`: negative numbers take ten bytes.
    pub(super) fn signed(&mut self, field: u32, value: i64) -> &mut Self {
        self.number(field, value.cast_unsigned())
    }

    /// `fixed64`.
    pub(super) fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, Wire::Fixed64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// `string` or `bytes`.
    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.raw(field, text.as_bytes())
    }

    /// A nested message.
    pub(super) fn message(&mut self, field: u32, message: &Self) -> &mut Self {
        self.raw(field, &message.bytes)
    }

    fn raw(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, Wire::Bytes);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// What is to be written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_specification_shows() {
        let mut inner = Message::default();
        inner.number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let mut outer = Message::default();
        outer.message(3, &inner).text(2, "testing");
        assert_eq!(outer.bytes()[..5], [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(outer.bytes()[5..], *b"\x12\x07testing");
    }

    #[test]
    fn large_and_negative_numbers_keep_all_their_bits() {
        let mut message = Message::default();
        message.signed(1, -2).fixed(47, 0x0102_0304_0506_0708).number(99, u64::MAX);
        let mut expected = vec![0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        expected.extend([0xf9, 0x02, 8, 7, 6, 5, 4, 3, 2, 1]);
        expected.extend([0x98, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(message.bytes(), expected);
    }
}
