//! What this machine sees of files: looks at them, and waits until it sees them as they are known to be.
//!
//! Another client of a shared file system may have looked at a name before the file was there, and remembers that for a
//! while (NFS: up to a minute; gfarm2fs: a second). So a look that matters asks the server: it demands attributes that
//! are not remembered, and where they are not as they should be it opens the file besides, which makes NFS ask for the
//! name, too. It knows files only; the hub knows where a vouched state comes from.

use std::path::Path;
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::file_time::file_ns;
use rakuda_proto::journal::FileIdentity;
use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, major, minor, open, statat, statx,
};
use rustix::io::Errno;

use crate::{clock, operations};

/// Time before the second look; each further one waits twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Maximum time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum time for which a client may remember a name, or attributes, after another one has removed the file.
const REMEMBERED_MAX: Duration = Duration::from_secs(5);
/// Unit of times in some file systems, ns.
const COARSE_NS: i128 = 1_000_000_000;

/// What a look tells of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub identity: FileIdentity,
    /// Of its file system, of the file itself where the name is that of a symbolic link.
    pub device: (u32, u32),
    /// No folder, device, pipe or socket.
    pub is_regular: bool,
}

/// Looks at `path` now. `None`: there is nothing (a dangling link is nothing, as for rake).
pub fn identity_of(path: &Path) -> Option<FileIdentity> {
    Some(look(path, AtFlags::empty())?.identity)
}

/// The same with all that a look tells.
pub(crate) fn seen_of(path: &Path) -> Option<Seen> {
    look(path, AtFlags::empty())
}

/// The same, as its server has it now: another client may have made it after it was looked for here.
pub fn identity_now(path: &Path) -> Option<FileIdentity> {
    ask_about_folder(path);
    Some(look(path, AtFlags::STATX_FORCE_SYNC)?.identity)
}

/// A folder may be remembered without a file that is in it; opening it makes NFS ask.
fn ask_about_folder(path: &Path) {
    if let Some(folder) = path.parent() {
        operations::count(folder, 1);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ = open(folder, flags, Mode::empty());
    }
}

/// The same for a name within an open folder. The caller counts the call.
pub fn identity_in(folder: impl AsFd, name: impl rustix::path::Arg + Copy) -> Option<FileIdentity> {
    Some(look_at(folder, name, AtFlags::empty())?.identity)
}

fn look(path: &Path, how: AtFlags) -> Option<Seen> {
    operations::count(path, 1);
    look_at(CWD, path, how)
}

fn look_at(folder: impl AsFd, name: impl rustix::path::Arg + Copy, how: AtFlags) -> Option<Seen> {
    let times = StatxFlags::MTIME | StatxFlags::CTIME;
    let flags = times | StatxFlags::SIZE | StatxFlags::INO | StatxFlags::TYPE;
    let stat = match statx(&folder, name, how, flags) {
        Err(Errno::NOSYS) => return look_without_statx(folder, name, how),
        answer => answer.ok()?,
    };
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    Some(Seen {
        identity: FileIdentity {
            modified_ns: file_ns(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed_ns: file_ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            bytes: stat.stx_size,
            inode: stat.stx_ino,
        },
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        is_regular: kind == FileType::RegularFile,
    })
}

/// The same before Linux 4.11, which has no way of demanding attributes that are not remembered.
fn look_without_statx(
    folder: impl AsFd,
    name: impl rustix::path::Arg,
    how: AtFlags,
) -> Option<Seen> {
    let stat = statat(folder, name, how & AtFlags::EMPTY_PATH).ok()?;
    let ns = |nsec: u64| u32::try_from(nsec).unwrap_or(0);
    Some(Seen {
        identity: FileIdentity {
            modified_ns: file_ns(stat.st_mtime, ns(stat.st_mtime_nsec)),
            changed_ns: file_ns(stat.st_ctime, ns(stat.st_ctime_nsec)),
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
        },
        device: (major(stat.st_dev), minor(stat.st_dev)),
        is_regular: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
    })
}

/// Looks at `path` as its server has it now. The name may be remembered as that of another file, or
/// of none; so a file that is not seen as it was `vouched` for is opened, too.
fn revalidated(path: &Path, vouched: &FileIdentity) -> Option<Seen> {
    let seen = look(path, AtFlags::STATX_FORCE_SYNC);
    if is_as_vouched(seen.map(|seen| seen.identity), vouched) {
        return seen;
    }
    operations::count(path, 1);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(file) => {
            operations::count(path, 1);
            look_at(&file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC)
        }
        // It may be there and not be ours to read.
        Err(Errno::ACCESS) => look(path, AtFlags::STATX_FORCE_SYNC),
        Err(_) => {
            ask_about_folder(path);
            None
        }
    }
}

/// Whether a file that was vouched for is seen in that state or a later one. Inode and change time
/// are each client's own affair, and not compared.
pub fn is_as_vouched(seen: Option<FileIdentity>, vouched: &FileIdentity) -> bool {
    let Some(seen) = seen else { return false };
    let same_time = seen.modified_ns == vouched.modified_ns
        || seen.modified_ns == vouched.modified_ns - vouched.modified_ns.rem_euclid(COARSE_NS);
    seen.modified_ns > vouched.modified_ns || same_time && seen.bytes == vouched.bytes
}

/// Looks again and again, with longer and longer pauses, up to a limit.
struct Patience {
    start_ns: u64,
    limit: Duration,
    pause: Duration,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { start_ns: clock::monotonic_ns(), limit, pause: FIRST_PAUSE }
    }

    /// Waits until the next look is due. `false`: the limit is reached, and there is none.
    async fn goes_on(&mut self) -> bool {
        let waited = Duration::from_nanos(clock::monotonic_ns() - self.start_ns);
        if waited >= self.limit {
            return false;
        }
        tokio::time::sleep(self.pause.min(self.limit.saturating_sub(waited))).await;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        true
    }
}

/// Waits until all `files` are seen as they were vouched for, at most `limit`, and calls `on_seen` for each. Returns
/// the first one that was not, and what was seen of it last.
pub(crate) async fn expect(
    base: &Path,
    files: &[(Text, FileIdentity)],
    limit: Duration,
    mut on_seen: impl FnMut(&Path, Seen),
) -> Option<(Text, Option<FileIdentity>)> {
    let mut patience = Patience::new(limit);
    let mut left = files;
    while let Some(((name, vouched), rest)) = left.split_first() {
        let path = base.join(name.as_path());
        let (asked, expected) = (path.clone(), *vouched);
        // A client that hangs must hold up nothing but this.
        let looking = tokio::task::spawn_blocking(move || revalidated(&asked, &expected));
        let found = looking.await.ok().flatten();
        let seen = found.map(|found| found.identity);
        if is_as_vouched(seen, vouched) {
            if let Some(found) = found {
                on_seen(&path, found);
            }
            left = rest;
            continue;
        }
        if !patience.goes_on().await {
            return Some((name.clone(), seen));
        }
    }
    None
}

/// Waits until a name that another client has removed is free here, too, at most `limit`, and no
/// longer than a client remembers names. A kernel that remembers it opens what is no more instead
/// of making it anew, and the open fails. gfarm2fs remembers attributes for a second besides, so
/// what it says of the file is no proof that it is there.
pub async fn wait_until_gone(path: &Path, limit: Duration) {
    let mut patience = Patience::new(limit.min(REMEMBERED_MAX));
    loop {
        let path = path.to_path_buf();
        let is_known = tokio::task::spawn_blocking(move || is_known(&path)).await.unwrap_or(false);
        if !is_known || !patience.goes_on().await {
            return;
        }
    }
}

/// Whether the kernel finds a name, perhaps one that its server does not know any more.
fn is_known(path: &Path) -> bool {
    operations::count(path, 2);
    // This call asks no server while the kernel remembers the name; the second one makes it ask.
    let known = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    if let Ok(file) = &known {
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let _ = statx(file, c"", how, StatxFlags::INO);
    }
    known.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(modified_ns: i128, bytes: u64) -> FileIdentity {
        FileIdentity { modified_ns, changed_ns: 0, bytes, inode: 0 }
    }

    #[test]
    fn older_or_smaller_is_not_as_vouched_and_later_is() {
        let vouched = identity(5_500_000_000, 10);
        assert!(!is_as_vouched(None, &vouched));
        assert!(is_as_vouched(Some(identity(5_500_000_000, 10)), &vouched));
        assert!(!is_as_vouched(Some(identity(5_500_000_000, 4)), &vouched));
        assert!(!is_as_vouched(Some(identity(5_400_000_000, 10)), &vouched));
        assert!(is_as_vouched(Some(identity(6_000_000_000, 4)), &vouched), "changed since");
        assert!(is_as_vouched(Some(identity(5_000_000_000, 10)), &vouched), "whole seconds only");
    }

    #[test]
    fn without_statx_the_same_is_seen() {
        let path = std::env::temp_dir().join(format!("rakuda-statx-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let same = |name: &Path, how| (look_at(CWD, name, how), look_without_statx(CWD, name, how));
        let (file, old) = same(&path, AtFlags::STATX_FORCE_SYNC);
        assert!(file.is_some_and(|seen| seen.identity.bytes == 3 && seen.is_regular));
        assert_eq!(file, old);
        let (folder, old) = same(Path::new("/"), AtFlags::empty());
        assert!(folder.is_some_and(|seen| !seen.is_regular));
        assert_eq!(folder, old);
        let opened = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        assert_eq!(look_without_statx(&opened, c"", how), file);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(same(&path, AtFlags::empty()), (None, None));
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_file_that_comes_late_is_waited_for() {
        let path = std::env::temp_dir().join(format!("rakuda-late-{}", std::process::id()));
        let files = [(Text::from(path.to_string_lossy().into_owned()), identity(1, 3))];
        let wrong = block_on(async {
            let (waiting, ()) = tokio::join!(
                expect(Path::new("/"), &files, Duration::from_secs(30), |_, _| {}),
                async {
                    // The first look is over when this is run: it has found nothing.
                    tokio::time::sleep(FIRST_PAUSE).await;
                    std::fs::write(&path, "abc").unwrap();
                }
            );
            waiting
        });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(wrong, None);
    }

    /// What only a remembered name shows is tested on the testbed (test/cluster/gfarm/visibility_test.rb).
    #[test]
    fn a_name_that_is_free_is_not_waited_for_and_one_that_is_taken_for_no_longer_than_the_limit() {
        let path = std::env::temp_dir().join(format!("rakuda-gone-{}", std::process::id()));
        block_on(wait_until_gone(&path, Duration::MAX));
        std::fs::write(&path, "abc").unwrap();
        block_on(wait_until_gone(&path, Duration::from_millis(1)));
        assert!(path.exists(), "it is only looked at");
        block_on(async {
            tokio::join!(wait_until_gone(&path, Duration::MAX), async {
                tokio::time::sleep(FIRST_PAUSE).await;
                std::fs::remove_file(&path).unwrap();
            })
        });
    }

    #[test]
    fn a_file_that_does_not_come_is_named_with_what_was_seen() {
        let path = std::env::temp_dir().join(format!("rakuda-old-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let seen = identity_of(&path);
        let there = Text::from(path.to_string_lossy().into_owned());
        let old = FileIdentity { modified_ns: seen.unwrap().modified_ns + 1, ..seen.unwrap() };
        let files = [(there.clone(), seen.unwrap()), (there.clone(), old)];
        let mut found = Vec::new();
        let note = |path: &Path, seen: Seen| found.push((path.to_path_buf(), seen.identity));
        let wrong = block_on(expect(Path::new("/"), &files, Duration::from_millis(1), note));
        let missing = [(Text::from("nowhere".to_owned()), old)];
        let none = block_on(expect(Path::new("/nonexistent"), &missing, Duration::ZERO, |_, _| {}));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found, [(path, seen.unwrap())], "as it was vouched for first");
        assert_eq!(wrong, Some((there, seen)));
        assert_eq!(none, Some((Text::from("nowhere".to_owned()), None)));
    }
}
