//! Where records end in the bytes of one writer.
//!
//! Knows no buffers: it is shown what has come since the last time, and says how much of it can go on.

use memchr::{memchr_iter, memrchr};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Ends with a newline.
    Line,
    /// Ends with a zero byte.
    Nul,
    /// Has this many bytes; not 0.
    Fixed(u32),
    /// Any bytes: there are no records, so the stream can have only one writer.
    Raw,
}

impl RecordKind {
    /// The byte that ends a record.
    pub fn separator(self) -> Option<u8> {
        match self {
            Self::Line => Some(b'\n'),
            Self::Nul => Some(0),
            Self::Fixed(_) | Self::Raw => None,
        }
    }

    /// How many records end in `bytes`, which begin `within` bytes after the beginning of one.
    pub fn count(self, bytes: &[u8], within: u64) -> u64 {
        match self {
            Self::Line | Self::Nul => {
                let separator = self.separator().unwrap_or_default();
                memchr_iter(separator, bytes).count() as u64
            }
            Self::Fixed(size) => (within + bytes.len() as u64) / u64::from(size),
            Self::Raw => 0,
        }
    }
}

/// What of some bytes can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the beginning that end with the end of a record.
    pub whole: usize,
    /// Records that end in them.
    pub records: u64,
}

/// Finds the ends of one writer's records.
#[derive(Clone, Copy, Debug)]
pub struct Cutter {
    kind: RecordKind,
    /// Bytes of the record at the front that have already gone on in pieces; less than a record's size.
    gone: u64,
}

impl Cutter {
    /// At the beginning of a record.
    pub fn new(kind: RecordKind) -> Self {
        Self { kind, gone: 0 }
    }

    /// Looks at what a writer's buffer holds, of which the first `looked_at` bytes are known to
    /// hold no end of a record.
    pub fn cut(&self, bytes: &[u8], looked_at: usize) -> Cut {
        match self.kind {
            RecordKind::Line | RecordKind::Nul => {
                let separator = self.kind.separator().unwrap_or_default();
                let new = &bytes[looked_at..];
                match memrchr(separator, new) {
                    None => Cut { whole: 0, records: 0 },
                    Some(last) => {
                        let records = memchr_iter(separator, &new[..=last]).count() as u64;
                        Cut { whole: looked_at + last + 1, records }
                    }
                }
            }
            RecordKind::Fixed(size) => {
                let size = u64::from(size);
                let records = (self.gone + bytes.len() as u64) / size;
                let whole = (records * size).saturating_sub(self.gone);
                let whole = usize::try_from(whole).expect("not more than there is");
                Cut { whole, records }
            }
            RecordKind::Raw => Cut { whole: bytes.len(), records: 0 },
        }
    }

    /// Whole records have gone on: the next bytes begin one.
    pub fn passed_whole(&mut self) {
        self.gone = 0;
    }

    /// A piece of a record without its end has gone on.
    pub fn passed_piece(&mut self, bytes: usize) {
        self.gone += bytes as u64;
    }

    /// Whether a record is begun, `held` bytes of which have not gone on.
    pub fn is_within(&self, held: usize) -> bool {
        match self.kind {
            RecordKind::Line | RecordKind::Nul | RecordKind::Fixed(_) => self.gone > 0 || held > 0,
            RecordKind::Raw => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_last_newline() {
        let cutter = Cutter::new(RecordKind::Line);
        assert_eq!(cutter.cut(b"a\nbc\nd", 0), Cut { whole: 5, records: 2 });
        assert_eq!(cutter.cut(b"abc", 0), Cut { whole: 0, records: 0 });
        assert_eq!(cutter.cut(b"abc\n", 3), Cut { whole: 4, records: 1 });
        assert_eq!(Cutter::new(RecordKind::Nul).cut(b"a\n\0b", 0), Cut { whole: 3, records: 1 });
    }

    #[test]
    fn records_of_a_fixed_size_are_counted_from_the_pieces_that_have_gone() {
        let mut cutter = Cutter::new(RecordKind::Fixed(4));
        assert_eq!(cutter.cut(b"abcdefghi", 0), Cut { whole: 8, records: 2 });
        cutter.passed_piece(3);
        assert_eq!(cutter.cut(b"de", 0), Cut { whole: 1, records: 1 });
        assert!(cutter.is_within(0));
        cutter.passed_whole();
        assert!(!cutter.is_within(0));
    }

    #[test]
    fn raw_bytes_all_go_on_and_are_no_records() {
        assert_eq!(Cutter::new(RecordKind::Raw).cut(b"abc", 0), Cut { whole: 3, records: 0 });
        assert!(!Cutter::new(RecordKind::Raw).is_within(2));
    }
}
