//! What is in files: blake3 of their contents, worked out by threads, each state of a file once.
//!
//! It does not know which file is whose prerequisite, nor what follows from a difference.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rakuda_proto::file_time::{changed_ns, modified_ns};
use rakuda_proto::journal::FileIdentity;

/// Maximum number of threads that read files: two keep a disk busy.
const THREADS_MAX: usize = 2;
/// Maximum bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Which state of a file, in order.
type Key = (u64, u64, i128, i128);

fn key_of(identity: &FileIdentity) -> Key {
    (identity.inode, identity.bytes, identity.modified_ns, identity.changed_ns)
}

/// Digests of files.
#[derive(Debug)]
pub struct Contents {
    shared: Arc<Shared>,
    threads: usize,
    /// Maximum bytes of a file whose content is compared; for larger ones size and time decide.
    bytes_max: u64,
}

/// What is known of the content of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Digest {
    /// It is being read.
    NotYet,
    /// It could not be read, or was not in that state any more.
    Unreadable,
    Is(String),
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a file comes in, or one is done.
    changed: Condvar,
    /// Notified when one is done, for the hub's loop.
    done: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(PathBuf, Key)>,
    /// Keys in `queue`, and of those being read.
    open: BTreeSet<Key>,
    /// The digests; `None` if the file could not be read.
    digests: BTreeMap<Key, Option<String>>,
}

impl Shared {
    /// What a thread that panicked has left is as good as ever: a key is inserted or is not.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    pub fn new(bytes_max: u64) -> Self {
        Self { shared: Arc::default(), threads: 0, bytes_max }
    }

    /// Sees to it that the digest of this state of a file will be known.
    pub fn want(&mut self, path: &Path, identity: &FileIdentity) {
        if identity.bytes > self.bytes_max {
            return;
        }
        let key = key_of(identity);
        let mut state = self.shared.state();
        if state.digests.contains_key(&key) || !state.open.insert(key) {
            return;
        }
        state.queue.push_back((path.to_path_buf(), key));
        drop(state);
        if self.threads < THREADS_MAX {
            self.threads += 1;
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || work(&shared));
        }
        self.shared.changed.notify_all();
    }

    /// The digest of a state that was wanted.
    pub fn digest(&self, identity: &FileIdentity) -> Digest {
        if identity.bytes > self.bytes_max {
            return Digest::Is(by_size_and_time(identity));
        }
        match self.shared.state().digests.get(&key_of(identity)) {
            None => Digest::NotYet,
            Some(None) => Digest::Unreadable,
            Some(Some(digest)) => Digest::Is(digest.clone()),
        }
    }

    /// As [`Self::digest`], waiting until it is known.
    #[cfg(test)]
    fn wait_for(&self, identity: &FileIdentity) -> Digest {
        let mut state = self.shared.state();
        while state.open.contains(&key_of(identity)) {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.digest(identity)
    }

    /// Waits until some digest has become known.
    pub async fn some_done(&self) {
        self.shared.done.notified().await;
    }
}

fn by_size_and_time(identity: &FileIdentity) -> String {
    format!("large-{}-{}", identity.bytes, identity.modified_ns)
}

/// A thread's work; it ends with the process.
fn work(shared: &Shared) {
    let mut state = shared.state();
    loop {
        let Some((path, key)) = state.queue.pop_front() else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        let digest = digest_of(&path, key);
        state = shared.state();
        state.open.remove(&key);
        state.digests.insert(key, digest);
        shared.changed.notify_all();
        shared.done.notify_one();
    }
}

/// The digest of a regular file, if it is in the state `key` before it is read, and after. What
/// else may be there (a pipe without a writer) is not even opened.
fn digest_of(path: &Path, key: Key) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    // It may have become a pipe meanwhile.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).ok()?;
    if state_of(&file)? != key {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).ok()? {
            0 => break,
            bytes => hasher.update(&piece[..bytes]),
        };
    }
    (state_of(&file)? == key).then(|| short_hex(&hasher.finalize()))
}

/// The state of an open file; `None` if it is not a regular one.
fn state_of(file: &File) -> Option<Key> {
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((found.ino(), found.len(), modified_ns(&found), changed_ns(&found)))
}

/// A digest as it is noted.
pub fn short_hex(hash: &blake3::Hash) -> String {
    hash.as_bytes()[..16].iter().fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the record keeps of a prerequisite: the digest, and which state of the file it is of.
pub fn note(digest: &str, identity: &FileIdentity) -> String {
    let FileIdentity { modified_ns, changed_ns, bytes, inode } = identity;
    format!("{digest} {bytes} {modified_ns} {changed_ns} {inode}")
}

/// What a note of the record says of a file as it is now.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the very state of the file that was noted.
    Same,
    /// Its size differs, so its content does.
    Changed,
    /// Its content has to be compared with this digest.
    Unsure(String),
}

/// Compares a file with what was noted of it.
pub fn compare(noted: &str, now: &FileIdentity) -> Verdict {
    let mut words = noted.split(' ');
    let digest = words.next().unwrap_or_default().to_owned();
    let bytes = words.next().and_then(|word| word.parse::<u64>().ok());
    let rest: Vec<&str> = words.collect();
    let state = format!("{} {} {}", now.modified_ns, now.changed_ns, now.inode);
    match bytes {
        Some(bytes) if bytes != now.bytes => Verdict::Changed,
        Some(_) if rest.join(" ") == state => Verdict::Same,
        _ => Verdict::Unsure(digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::identity_of;

    fn in_folder(name: &str, test: impl FnOnce(&Path)) {
        let folder = std::env::temp_dir().join(format!("rakuda-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        test(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn equal_contents_have_equal_digests_and_others_have_others() {
        in_folder("contents", |folder| {
            let mut contents = Contents::new(1 << 20);
            let digests = [("a", "same"), ("b", "same"), ("c", "other")].map(|(name, text)| {
                let path = folder.join(name);
                std::fs::write(&path, text).unwrap();
                let identity = identity_of(&path).unwrap();
                contents.want(&path, &identity);
                contents.wait_for(&identity)
            });
            assert_eq!(digests[0], Digest::Is(short_hex(&blake3::hash(b"same"))));
            assert!(digests[0] == digests[1] && digests[1] != digests[2]);
        });
    }

    #[test]
    fn a_large_file_is_not_read_and_one_that_is_gone_has_no_digest() {
        in_folder("large", |folder| {
            let mut contents = Contents::new(3);
            let path = folder.join("a");
            std::fs::write(&path, "four").unwrap();
            let large = identity_of(&path).unwrap();
            contents.want(&path, &large);
            let modified_ns = large.modified_ns;
            assert_eq!(contents.digest(&large), Digest::Is(format!("large-4-{modified_ns}")));
            let gone = FileIdentity { bytes: 1, ..large };
            contents.want(&folder.join("none"), &gone);
            assert_eq!(contents.wait_for(&gone), Digest::Unreadable);
        });
    }

    #[test]
    fn a_state_that_the_file_is_not_in_any_more_has_no_digest() {
        in_folder("changed", |folder| {
            let mut contents = Contents::new(1 << 20);
            let path = folder.join("a");
            std::fs::write(&path, "before").unwrap();
            let before = identity_of(&path).unwrap();
            std::fs::write(folder.join("b"), "other!").unwrap();
            std::fs::rename(folder.join("b"), &path).unwrap();
            contents.want(&path, &before);
            assert_eq!(contents.wait_for(&before), Digest::Unreadable);
        });
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        in_folder("pipe", |folder| {
            let mut contents = Contents::new(1 << 20);
            let path = folder.join("a");
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
            let pipe = identity_of(&path).unwrap();
            contents.want(&path, &pipe);
            assert_eq!(contents.wait_for(&pipe), Digest::Unreadable);
        });
    }

    #[test]
    fn a_noted_state_is_known_again_without_reading() {
        let identity = FileIdentity { modified_ns: 1, changed_ns: 2, bytes: 3, inode: 4 };
        let noted = note("d1", &identity);
        assert_eq!(compare(&noted, &identity), Verdict::Same);
        let touched = FileIdentity { changed_ns: 9, ..identity };
        assert_eq!(compare(&noted, &touched), Verdict::Unsure("d1".into()));
        assert_eq!(compare(&noted, &FileIdentity { bytes: 9, ..touched }), Verdict::Changed);
        assert_eq!(compare("d1", &identity), Verdict::Unsure("d1".into()));
    }
}
