//! What went into a stream, kept in a file: pieces of up to 64 KiB, each with its checksum, and a
//! last one that says how much there is. Nothing is given out that does not match.
//!
//! A piece: its length (u32, little endian), 16 bytes of its BLAKE3 hash, the bytes. The last: the
//! length 0xffffffff, the hash of the total, the total (u64).

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Maximum bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a checksum.
const SUM_BYTES: usize = 16;
/// In place of a length: the last piece.
const LAST: u32 = u32::MAX;

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..SUM_BYTES]);
    sum
}

/// Writes a spool.
#[derive(Debug)]
pub(super) struct SpoolWriter {
    file: BufWriter<File>,
    total: u64,
}

impl SpoolWriter {
    /// An empty one, in place of any that was there.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Self { file: BufWriter::with_capacity(2 * PIECE_BYTES, file), total: 0 })
    }

    /// Appends some bytes; how many.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let length = u32::try_from(piece.len()).expect("a piece is short");
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&sum(piece))?;
        self.file.write_all(piece)?;
        self.total += piece.len() as u64;
        Ok(piece.len())
    }

    /// Nothing more will come.
    pub fn finish(&mut self) -> io::Result<()> {
        let total = self.total.to_le_bytes();
        self.file.write_all(&LAST.to_le_bytes())?;
        self.file.write_all(&sum(&total))?;
        self.file.write_all(&total)?;
        self.file.flush()
    }
}

/// Reads a spool.
#[derive(Debug)]
pub(super) struct SpoolReader {
    file: BufReader<File>,
    path: PathBuf,
    /// A piece that has been checked.
    piece: Vec<u8>,
    /// Bytes of it that were given out.
    given: usize,
    total: u64,
    ended: bool,
}

impl SpoolReader {
    /// At its beginning.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path).map_err(|error| named(path, &error))?;
        Ok(Self {
            file: BufReader::with_capacity(2 * PIECE_BYTES, file),
            path: path.to_path_buf(),
            piece: Vec::new(),
            given: 0,
            total: 0,
            ended: false,
        })
    }

    /// Appends bytes to `into`, as far as it has room; how many, 0 at the end.
    pub fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        if self.given == self.piece.len() {
            self.next_piece().map_err(|error| named(&self.path, &error))?;
        }
        let room = into.capacity() - into.len();
        let left = &self.piece[self.given..];
        let bytes = left.len().min(room);
        into.extend_from_slice(&left[..bytes]);
        self.given += bytes;
        Ok(bytes)
    }

    fn next_piece(&mut self) -> io::Result<()> {
        self.piece.clear();
        self.given = 0;
        if self.ended {
            return Ok(());
        }
        let (mut length, mut expected) = ([0; 4], [0; SUM_BYTES]);
        self.file.read_exact(&mut length)?;
        self.file.read_exact(&mut expected)?;
        let length = u32::from_le_bytes(length);
        let bytes = if length == LAST { 8 } else { length as usize };
        if bytes > PIECE_BYTES {
            return Err(damage());
        }
        self.piece.resize(bytes, 0);
        self.file.read_exact(&mut self.piece)?;
        if sum(&self.piece) != expected {
            return Err(damage());
        }
        if length != LAST {
            self.total += bytes as u64;
            return Ok(());
        }
        if self.piece != self.total.to_le_bytes() {
            return Err(damage());
        }
        self.piece.clear();
        self.ended = true;
        Ok(())
    }
}

fn damage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "does not match its checksum")
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "ends early".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("the spool {} {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> PathBuf {
        let folder = format!("rakuda-spool-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(folder).join("spool");
        let mut writer = SpoolWriter::create(&path).unwrap();
        let mut left = bytes;
        while !left.is_empty() {
            let taken = writer.write(left).unwrap();
            left = &left[taken..];
        }
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut reader = SpoolReader::open(path)?;
        let mut all = Vec::new();
        loop {
            let mut some = Vec::with_capacity(1000);
            if reader.read(&mut some)? == 0 {
                return Ok(all);
            }
            all.extend(some);
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        for length in [0, 1, 65_536, 200_000] {
            let path = written("read", &bytes[..length]);
            assert_eq!(read(&path).unwrap(), &bytes[..length]);
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn any_byte_that_differs_and_any_that_lacks_is_seen() {
        let path = written("damaged", b"0123456789");
        let good = std::fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert!(read(&path).is_err(), "byte {place}");
            std::fs::write(&path, &good[..place]).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.ends_with("ends early"), "{error}");
        }
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
