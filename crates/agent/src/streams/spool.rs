//! What went into a stream, kept in a file, as `rakuda_core::streams` says that a spool looks. Nothing is given out
//! that does not match its checksum.
//!
//! A spool has a cap, and leaves room on its file system: nobody reads while it is written, so nobody
//! could leave early and end its writer.
//!
//! A checksum is 16 bytes of the BLAKE3 hash.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rakuda_core::streams::{
    SPOOL_HEAD_BYTES, SPOOL_PIECE_BYTES as PIECE_BYTES, SpoolCheck, SpoolDamaged, SpoolHead,
};
pub(super) use rakuda_core::streams::{SPOOL_SUM_BYTES as SUM_BYTES, SpoolSum as Sum};
use rakuda_proto::Text;

/// The checksum of some bytes.
pub(super) fn sum(bytes: &[u8]) -> Sum {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..SUM_BYTES]);
    sum
}

/// Maximum bytes of a spool where the stream has no `spool_max:`.
const SPOOL_BYTES_MAX: u64 = 4 << 30;
/// Bytes between two looks at how much room there is.
pub(super) const LOOK_BYTES: u64 = 16 << 20;
/// Minimum bytes that stay free, or a twentieth of a small file system.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// Why a spool may not grow beyond its `total` bytes; `free`: bytes on its file system, and of how many.
fn refusal(total: u64, bytes_max: u64, free: Option<(u64, u64)>) -> Option<String> {
    let hint = "run it live (replay: :gang and more than one job)";
    if total > bytes_max {
        return Some(format!(
            "its spool would have more than {bytes_max} bytes, the most that `spool_max:` allows; \
             give the stream a larger one, or {hint}"
        ));
    }
    let (free, kept) = lack(free?)?;
    Some(format!(
        "its spool of {total} bytes leaves {free} bytes free where {kept} are to stay; \
         free some, or {hint}"
    ))
}

/// Bytes that are free on a file system of `size` bytes, and those that are to stay free. `None`: enough are free.
fn lack((free, size): (u64, u64)) -> Option<(u64, u64)> {
    let kept = FREE_BYTES_MIN.min(size / 20);
    (free < kept).then_some((free, kept))
}

/// Whether a file may not grow, for the sake of its file system.
pub(super) fn lacks_room(file: &File) -> bool {
    room_at(file).and_then(lack).is_some()
}

/// Bytes that are free where a file is, and all there are.
fn room_at(file: &File) -> Option<(u64, u64)> {
    let found = rustix::fs::fstatvfs(file).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some((bytes(found.f_bavail), bytes(found.f_blocks)))
}

/// Where kept spools are.
const KEPT_FOLDER: &str = "/var/tmp";

/// Spools of a node that shares no folder with others, by their names. They are files without a name: nothing is left
/// of them, however the agent ends.
#[derive(Debug, Default)]
pub(super) struct KeptSpools(BTreeMap<Text, File>);

impl KeptSpools {
    /// An empty spool, in place of any that was there.
    pub fn create(&mut self, name: &Text, bytes_max: u64) -> io::Result<SpoolWriter> {
        let path = name.as_path();
        if !is_kept(path) {
            return SpoolWriter::create(path, bytes_max);
        }
        let file = without_name(Path::new(KEPT_FOLDER))?;
        let writer = SpoolWriter::of(file.try_clone()?, bytes_max);
        self.0.insert(name.clone(), file);
        Ok(writer)
    }

    /// Reads a spool from its beginning.
    pub fn read(&self, name: &Text) -> SpoolReader {
        let kept = self.0.get(name);
        // That is opened for itself, and so has a place of its own.
        let path = kept.map(|file| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
        let file = path.and_then(|path| File::open(path).ok());
        SpoolReader { file: file.map(buffered), ..SpoolReader::new(name.as_path()) }
    }

    /// Nobody reads these any more.
    pub fn forget(&mut self, names: &[Text]) {
        for name in names {
            let path = name.as_path();
            match self.0.remove(name) {
                Some(file) => drop(file),
                None if is_kept(path) => {}
                // What is left goes with the run.
                None => drop(std::fs::remove_file(path)),
            }
        }
    }
}

/// A file that goes with the last process that has it open.
pub(super) fn without_name(folder: &Path) -> io::Result<File> {
    /// Keeps the names of two files of a process apart until they have none.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    std::fs::create_dir_all(folder)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("rakuda-{}-{number}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn is_kept(path: &Path) -> bool {
    path.parent().is_none_or(|folder| folder.as_os_str().is_empty())
}

fn buffered(file: File) -> BufReader<File> {
    BufReader::with_capacity(2 * PIECE_BYTES, file)
}

/// Writes a spool.
#[derive(Debug)]
pub(super) struct SpoolWriter {
    file: BufWriter<File>,
    total: u64,
    bytes_max: u64,
}

impl SpoolWriter {
    /// An empty one, in place of any that was there; `bytes_max`: 0 for the usual ones.
    pub fn create(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Self::of(file, bytes_max))
    }

    /// Into an empty file.
    fn of(file: File, bytes_max: u64) -> Self {
        let file = BufWriter::with_capacity(2 * PIECE_BYTES, file);
        let bytes_max = if bytes_max == 0 { SPOOL_BYTES_MAX } else { bytes_max };
        Self { file, total: 0, bytes_max }
    }

    /// Appends some of the bytes, and returns how many.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let total = self.total + piece.len() as u64;
        let is_due = total / LOOK_BYTES > self.total / LOOK_BYTES;
        let free = if is_due { room_at(self.file.get_ref()) } else { None };
        if let Some(why) = refusal(total, self.bytes_max, free) {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        self.file.write_all(&SpoolHead::of_piece(piece.len(), sum(piece)).to_bytes())?;
        self.file.write_all(piece)?;
        self.total = total;
        Ok(piece.len())
    }

    /// Nothing more will come.
    pub fn finish(&mut self) -> io::Result<()> {
        let total = self.total.to_le_bytes();
        self.file.write_all(&SpoolHead::of_end(sum(&total)).to_bytes())?;
        self.file.write_all(&total)?;
        self.file.flush()
    }
}

/// Reads a spool.
#[derive(Debug)]
pub(super) struct SpoolReader {
    /// Opened when its turn has come.
    file: Option<BufReader<File>>,
    path: PathBuf,
    /// A piece that has been checked.
    piece: Vec<u8>,
    /// Bytes of it that were given out.
    given: usize,
    check: SpoolCheck,
}

impl SpoolReader {
    /// At its beginning.
    pub fn new(path: &Path) -> Self {
        let (path, piece) = (path.to_path_buf(), Vec::new());
        Self { file: None, path, piece, given: 0, check: SpoolCheck::default() }
    }

    /// Its file, as the hub calls it.
    pub fn name(&self) -> Text {
        Text(self.path.as_os_str().as_bytes().to_vec())
    }

    /// Appends bytes to `into`, as far as it has room, and returns how many: 0 at the end.
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
        if self.check.is_ended() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(buffered(File::open(&self.path)?)),
        };
        let mut head = [0; SPOOL_HEAD_BYTES];
        file.read_exact(&mut head)?;
        let head = SpoolHead::from_bytes(&head);
        self.piece.resize(head.body_bytes().map_err(|SpoolDamaged| damage())?, 0);
        file.read_exact(&mut self.piece)?;
        let is_last = self.check.on_body(head, &self.piece, sum(&self.piece));
        if is_last.map_err(|SpoolDamaged| damage())? {
            self.piece.clear();
        }
        Ok(())
    }
}

pub(super) fn damage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "does not match its checksum")
}

/// Whether a spool is not what was written, where it could not be read.
pub(super) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        _ if error.raw_os_error() == Some(libc::EMFILE) => {
            format!("cannot be opened: {error}, and {}", files_allowed())
        }
        io::ErrorKind::UnexpectedEof => "ends early".to_owned(),
        io::ErrorKind::NotFound => "is not there".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("the spool {} {what}", path.display()))
}

/// What to say besides where a file could not be opened for want of descriptors.
pub(super) fn files_allowed() -> String {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.map_or_else(|| "any number".to_owned(), |files| files.to_string());
    format!("`ulimit -n` allows {files}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> PathBuf {
        let folder = format!("rakuda-spool-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(folder).join("spool");
        let mut writer = SpoolWriter::create(&path, 0).unwrap();
        let mut left = bytes;
        while !left.is_empty() {
            let taken = writer.write(left).unwrap();
            left = &left[taken..];
        }
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut reader = SpoolReader::new(path);
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
    fn a_spool_grows_to_its_cap_and_leaves_room_where_it_is() {
        let folder = format!("rakuda-spool-cap-{}", std::process::id());
        let path = std::env::temp_dir().join(folder).join("spool");
        let mut writer = SpoolWriter::create(&path, 100_000).unwrap();
        assert_eq!(writer.write(&vec![0; 65_536]).unwrap(), 65_536);
        assert_eq!(writer.write(&vec![0; 34_464]).unwrap(), 34_464);
        let error = writer.write(&[0]).unwrap_err().to_string();
        assert!(error.starts_with("its spool would have more than 100000 bytes"), "{error}");
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(refusal(10, 100, Some((256 * mib, 100 * gib))), None);
        assert!(
            refusal(10, 100, Some((255 * mib, 100 * gib))).unwrap().contains("268435456 are to")
        );
        assert_eq!(refusal(10, 100, Some((50 * mib, gib / 2))), None);
        assert!(refusal(10, 100, Some((25 * mib, gib / 2))).is_some());
    }

    #[test]
    fn any_byte_that_differs_and_any_that_lacks_is_seen() {
        let path = written("damaged", b"0123456789");
        let good = std::fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert!(is_damage(&read(&path).unwrap_err()), "byte {place}");
            std::fs::write(&path, &good[..place]).unwrap();
            let error = read(&path).unwrap_err();
            assert!(is_damage(&error) && error.to_string().ends_with("ends early"), "{error}");
        }
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let error = read(&path).unwrap_err();
        assert!(is_damage(&error) && error.to_string().ends_with("is not there"), "{error}");
    }

    #[test]
    fn a_kept_spool_is_read_as_often_as_wanted_and_has_no_name() {
        let mut kept = KeptSpools::default();
        let name = Text::from("0-1-2");
        let mut writer = kept.create(&name, 0).unwrap();
        assert_eq!(writer.write(b"some bytes").unwrap(), 10);
        writer.finish().unwrap();
        drop(writer);
        for _ in 0..2 {
            let mut bytes = Vec::with_capacity(100);
            let mut reader = kept.read(&name);
            assert_eq!((reader.read(&mut bytes).unwrap(), &bytes[..]), (10, &b"some bytes"[..]));
            assert_eq!(reader.read(&mut bytes).unwrap(), 0);
        }
        assert!(!Path::new("0-1-2").exists() && !Path::new(KEPT_FOLDER).join("0-1-2").exists());
        kept.forget(std::slice::from_ref(&name));
        let error = kept.read(&name).read(&mut Vec::with_capacity(100)).unwrap_err();
        assert!(
            is_damage(&error) && error.to_string() == "the spool 0-1-2 is not there",
            "{error}"
        );
    }

    #[test]
    fn a_file_goes_that_nobody_reads_any_more() {
        let path = written("forgotten", b"0123456789");
        KeptSpools::default().forget(&[Text::from(path.to_str().unwrap())]);
        assert!(!path.exists());
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_keeps_a_spool_from_being_read_is_no_damage() {
        let folder = std::env::temp_dir();
        assert!(!is_damage(&read(&folder).unwrap_err()));
        let error = named(&folder, &io::Error::from_raw_os_error(libc::EMFILE));
        assert!(!is_damage(&error) && error.to_string().contains("`ulimit -n` allows "), "{error}");
    }
}
