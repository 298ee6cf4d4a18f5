//! The last bytes of what one attempt printed, in bounded memory.

/// Minimum number of bytes that are kept, if there were as many; the maximum is twice that.
const TAIL_BYTES: usize = 4096;

/// The end of a stream of bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    /// Takes bytes, and forgets those that are too old.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        if self.0.len() + bytes.len() > 2 * TAIL_BYTES {
            let kept = TAIL_BYTES.saturating_sub(bytes.len());
            self.0.drain(..self.0.len().saturating_sub(kept));
        }
        self.0.extend_from_slice(bytes);
    }

    /// The last lines, without line ends.
    pub fn lines(&self, count: usize) -> Vec<&[u8]> {
        let text = self.0.strip_suffix(b"\n").unwrap_or(&self.0);
        if text.is_empty() {
            return Vec::new();
        }
        let mut lines: Vec<&[u8]> = text.rsplit(|byte| *byte == b'\n').take(count).collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_order() {
        let mut tail = Tail::default();
        assert!(tail.lines(5).is_empty());
        tail.push(b"one\ntwo\nth");
        tail.push(b"ree\n");
        assert_eq!(tail.lines(2), [b"two".as_slice(), b"three"]);
        assert_eq!(tail.lines(9).len(), 3);
    }

    #[test]
    fn a_flood_takes_bounded_memory() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
            assert!(tail.0.len() <= 2 * TAIL_BYTES);
        }
        assert_eq!(tail.lines(1), [b"line 99999"]);
        tail.push(&vec![b'x'; 1 << 20]);
        assert!(tail.0.len() <= 2 * TAIL_BYTES);
    }
}
