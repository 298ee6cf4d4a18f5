//! What slow readers of a stream have not read, kept in files until they have: pieces in order, each with
//! its checksum. Nothing is given out that does not match.
//!
//! A file has no name from the moment when it is made, so nothing is left of it when its process is
//! gone, however that ends. A file is let go of when all readers that are behind have passed it.
//! There is a cap, and room is left on the file system. Beyond either nothing is taken: the writers wait.
//!
//! A piece: its length (u32, little endian), its records (u64), 16 bytes of the BLAKE3 hash of the
//! bytes, the bytes. Its length and records are in memory nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::spool::{LOOK_BYTES, SUM_BYTES, Sum, damage, lacks_room, sum, without_name};

/// Bytes in front of those of a piece.
const HEAD_BYTES: usize = 4 + 8 + SUM_BYTES;
/// Maximum bytes of a piece: those of a writer's buffer.
const PIECE_BYTES_MAX: usize = rakuda_core::streams::CARRY_BYTES_MAX;
/// Number of files of a full spill; another one may have been begun.
const SEGMENTS: u64 = 16;

/// One file.
#[derive(Debug)]
struct Segment {
    file: File,
    /// Where it begins in all that was spilled, in bytes with heads.
    begin: u64,
    /// Bytes in it.
    length: u64,
}

impl Segment {
    fn create(folder: &Path, begin: u64) -> io::Result<Self> {
        Ok(Self { file: without_name(folder)?, begin, length: 0 })
    }

    fn end(&self) -> u64 {
        self.begin + self.length
    }
}

/// The files of one stream.
#[derive(Debug)]
pub(super) struct Spill {
    folder: PathBuf,
    bytes_max: u64,
    segments: VecDeque<Segment>,
    /// Where each reader is that is behind.
    places: BTreeMap<usize, u64>,
    /// Bytes that were spilled, without heads.
    pub bytes: u64,
    /// The most that the files had at one time.
    pub held_bytes_max: u64,
}

impl Spill {
    /// Without files, which come when something is spilled.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        let (segments, places) = (VecDeque::new(), BTreeMap::new());
        Self { folder, bytes_max, segments, places, bytes: 0, held_bytes_max: 0 }
    }

    /// Bytes in the files.
    fn held_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Where the next piece goes.
    fn end(&self) -> u64 {
        self.segments.back().map_or(0, Segment::end)
    }

    /// Keeps a piece, and returns where it is. `None`: there is no room for it now.
    pub fn append(&mut self, bytes: &[u8], records: u64) -> io::Result<Option<u64>> {
        assert!(bytes.len() <= PIECE_BYTES_MAX, "a piece is no longer than a writer's buffer");
        let length = (HEAD_BYTES + bytes.len()) as u64;
        if self.held_bytes() + length > self.bytes_max {
            return Ok(None);
        }
        let place = self.end();
        match self.write(bytes, records) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // What was written of it is written over.
            Err(error) if is_full(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        self.bytes += bytes.len() as u64;
        self.held_bytes_max = self.held_bytes_max.max(self.held_bytes());
        Ok(Some(place))
    }

    /// Writes a piece behind the last one. `false`: the file system is to keep the room that it has.
    fn write(&mut self, bytes: &[u8], records: u64) -> io::Result<bool> {
        let segment_bytes = LOOK_BYTES.max(self.bytes_max / SEGMENTS);
        if self.segments.back().is_none_or(|last| last.length >= segment_bytes) {
            let segment = Segment::create(&self.folder, self.end())?;
            if lacks_room(&segment.file) {
                return Ok(false);
            }
            self.segments.push_back(segment);
        }
        let last = self.segments.back_mut().expect("there is one");
        let total = last.length + (HEAD_BYTES + bytes.len()) as u64;
        if total / LOOK_BYTES > last.length / LOOK_BYTES && lacks_room(&last.file) {
            return Ok(false);
        }
        let mut head = [0; HEAD_BYTES];
        let size = u32::try_from(bytes.len()).expect("a piece is short");
        head[..4].copy_from_slice(&size.to_le_bytes());
        head[4..12].copy_from_slice(&records.to_le_bytes());
        head[12..].copy_from_slice(&sum(bytes));
        last.file.write_all_at(&head, last.length)?;
        last.file.write_all_at(bytes, last.length + HEAD_BYTES as u64)?;
        last.length = total;
        Ok(true)
    }

    /// A reader goes on with what was kept there.
    pub fn begin(&mut self, reader: usize, place: u64) {
        self.places.insert(reader, place);
    }

    /// Reads the next piece of a reader into an empty buffer, and returns the number of its records.
    pub fn read(&mut self, reader: usize, into: &mut Vec<u8>) -> io::Result<u64> {
        let place = self.places.get_mut(&reader).expect("it is behind");
        let holds = |segment: &&Segment| segment.begin <= *place && *place < segment.end();
        let segment = self.segments.iter().find(holds).ok_or_else(damage)?;
        let at = *place - segment.begin;
        let mut head = [0; HEAD_BYTES];
        segment.file.read_exact_at(&mut head, at)?;
        let (size, rest) = head.split_at(4);
        let (records, expected) = rest.split_at(8);
        let size = u32::from_le_bytes(size.try_into().expect("four bytes")) as usize;
        let records = u64::from_le_bytes(records.try_into().expect("eight bytes"));
        if size == 0 || size > PIECE_BYTES_MAX {
            return Err(damage());
        }
        into.reserve_exact(size);
        into.resize(size, 0);
        segment.file.read_exact_at(into, at + HEAD_BYTES as u64)?;
        if Sum::try_from(expected).ok() != Some(sum(into)) {
            return Err(damage());
        }
        *place += (HEAD_BYTES + size) as u64;
        Ok(records)
    }

    /// Drops what no reader needs any more. `is_behind`: whether a reader is to have what was kept for it. `true`:
    /// there is room again.
    pub fn release(&mut self, is_behind: impl Fn(usize) -> bool) -> bool {
        self.places.retain(|reader, _| is_behind(*reader));
        let first = self.places.values().min().copied();
        let mut freed = false;
        while let Some(segment) = self.segments.front() {
            // The last one stays while somebody may come to its end.
            if first.is_some_and(|place| segment.end() > place || self.segments.len() == 1) {
                break;
            }
            self.segments.pop_front();
            freed = true;
        }
        freed
    }
}

/// Whether nothing can be written for want of room.
fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| full.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_folder(name: &str, test: impl FnOnce(&Path)) {
        let folder = format!("rakuda-spill-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        test(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn next(spill: &mut Spill, reader: usize) -> io::Result<(Vec<u8>, u64)> {
        let mut bytes = Vec::new();
        let records = spill.read(reader, &mut bytes)?;
        Ok((bytes, records))
    }

    #[test]
    fn pieces_come_back_in_order_to_each_reader_from_where_it_fell_behind() {
        with_folder("order", |folder| {
            let mut spill = Spill::new(folder.to_path_buf(), 1 << 30);
            let piece = |number: u8| vec![number; 1_000 * usize::from(number) + 1];
            for number in 0..20 {
                let place = spill.append(&piece(number), u64::from(number)).unwrap().unwrap();
                if number == 0 || number == 7 {
                    spill.begin(usize::from(number), place);
                }
            }
            // There is nothing to be found where they lie.
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
            for (reader, first) in [(7, 7), (0, 0)] {
                for number in first..20 {
                    let expected = (piece(number), u64::from(number));
                    assert_eq!(next(&mut spill, reader).unwrap(), expected);
                }
            }
            assert!(spill.release(|_| false) && spill.held_bytes() == 0);
            assert_eq!(spill.bytes, 190_020);
        });
    }

    #[test]
    fn files_are_let_go_of_when_the_last_reader_has_passed_them_and_then_there_is_room() {
        with_folder("room", |folder| {
            let cap = 40 << 20;
            let mut spill = Spill::new(folder.to_path_buf(), cap);
            let piece = vec![b'x'; 1 << 20];
            let mut pieces = 0;
            while let Some(place) = spill.append(&piece, 1).unwrap() {
                if pieces == 0 {
                    spill.begin(0, place);
                    spill.begin(1, place);
                }
                pieces += 1;
            }
            assert_eq!((pieces, spill.segments.len()), (39, 3));
            assert!(!spill.release(|_| true) && spill.held_bytes_max <= cap);
            for _ in 0..20 {
                next(&mut spill, 0).unwrap();
            }
            assert!(!spill.release(|_| true), "the other one is at the beginning");
            // It has left.
            assert!(spill.release(|reader| reader == 0));
            assert_eq!(spill.segments.len(), 2);
            assert!(spill.append(&piece, 1).unwrap().is_some());
            for _ in 20..40 {
                assert_eq!(next(&mut spill, 0).unwrap(), (piece.clone(), 1));
            }
        });
    }

    #[test]
    fn a_byte_that_differs_is_seen() {
        with_folder("damage", |folder| {
            let mut spill = Spill::new(folder.to_path_buf(), 1 << 30);
            let place = spill.append(b"0123456789", 1).unwrap().unwrap();
            spill.segments[0].file.write_all_at(b"x", HEAD_BYTES as u64 + 3).unwrap();
            spill.begin(0, place);
            assert!(next(&mut spill, 0).is_err());
        });
    }
}
