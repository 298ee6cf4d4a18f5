//! What this machine sees of files: looks at them, and waits until it sees them as they are known to be.
//!
//! Another client of a shared file system may have looked at a name before the file was there, and remembers that for a while (NFS: up to a
//! minute; gfarm2fs: a second). So a look that matters asks the server: it opens the file, which makes NFS ask, and demands attributes that are
//! not remembered, which makes FUSE ask. It knows files only; who vouched for what is the hub's business.

use std::path::Path;
use std::time::Duration;

use rakuda_proto::Text;
use rakuda_proto::journal::FileIdentity;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};

use crate::{clock, operations};

/// Time before the second look; each further one waits twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// No longer than that.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Some file systems keep times in units of so many ns only.
const COARSE_NS: i64 = 1_000_000_000;

/// Looks at `path` now. `None`: there is nothing (a dangling link is nothing, as for rake).
pub fn identity_of(path: &Path) -> Option<FileIdentity> {
    identity_at(CWD, path, AtFlags::empty())
}

/// The same for a name within an open folder.
pub fn identity_in(folder: impl AsFd, name: impl rustix::path::Arg) -> Option<FileIdentity> {
    identity_at(folder, name, AtFlags::empty())
}

fn identity_at(
    folder: impl AsFd,
    name: impl rustix::path::Arg,
    how: AtFlags,
) -> Option<FileIdentity> {
    operations::count(1);
    let flags = StatxFlags::MTIME | StatxFlags::CTIME | StatxFlags::SIZE | StatxFlags::INO;
    let stat = statx(folder, name, how, flags).ok()?;
    let ns = |seconds: i64, ns: u32| seconds.saturating_mul(1_000_000_000) + i64::from(ns);
    Some(FileIdentity {
        modified_ns: ns(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        changed_ns: ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        bytes: stat.stx_size,
        inode: stat.stx_ino,
    })
}

/// Looks at `path` as its server has it now.
fn revalidated(path: &Path) -> Option<FileIdentity> {
    operations::count(1);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(file) => {
            let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
            identity_at(&file, c"", how)
        }
        // It may be there and not be ours to read.
        Err(rustix::io::Errno::ACCESS) => identity_at(CWD, path, AtFlags::STATX_FORCE_SYNC),
        Err(_) => {
            // Its folder may be remembered without it; opening that makes NFS ask.
            if let Some(folder) = path.parent() {
                operations::count(1);
                let _ = open(
                    folder,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                );
            }
            None
        }
    }
}

/// Whether a file that was vouched for is seen in that state or a later one. Inode and change time are each client's own affair, and not compared.
pub fn is_as_vouched(seen: Option<FileIdentity>, vouched: &FileIdentity) -> bool {
    let Some(seen) = seen else { return false };
    let same_time = seen.modified_ns == vouched.modified_ns
        || seen.modified_ns == vouched.modified_ns - vouched.modified_ns.rem_euclid(COARSE_NS);
    seen.modified_ns > vouched.modified_ns || same_time && seen.bytes == vouched.bytes
}

/// Waits until all `files` are seen as they were vouched for, at most `limit`. The first one that was not, and what was seen last.
pub async fn expect(
    base: &Path,
    files: &[(Text, FileIdentity)],
    limit: Duration,
) -> Option<(Text, Option<FileIdentity>)> {
    let start_ns = clock::monotonic_ns();
    let mut pause = FIRST_PAUSE;
    let mut left = files;
    while let Some(((name, vouched), rest)) = left.split_first() {
        let path = base.join(name.as_path());
        // A client that hangs must hold up nothing but this.
        let seen = tokio::task::spawn_blocking(move || revalidated(&path)).await.ok().flatten();
        if is_as_vouched(seen, vouched) {
            left = rest;
            continue;
        }
        let waited = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        if waited >= limit {
            return Some((name.clone(), seen));
        }
        tokio::time::sleep(pause.min(limit.saturating_sub(waited))).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(modified_ns: i64, bytes: u64) -> FileIdentity {
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
            let (waiting, ()) =
                tokio::join!(expect(Path::new("/"), &files, Duration::from_secs(30)), async {
                    // The first look is over when this is run: it has found nothing.
                    tokio::time::sleep(FIRST_PAUSE).await;
                    std::fs::write(&path, "abc").unwrap();
                });
            waiting
        });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(wrong, None);
    }

    #[test]
    fn a_file_that_does_not_come_is_named_with_what_was_seen() {
        let path = std::env::temp_dir().join(format!("rakuda-old-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let seen = identity_of(&path);
        let there = Text::from(path.to_string_lossy().into_owned());
        let old = FileIdentity { modified_ns: seen.unwrap().modified_ns + 1, ..seen.unwrap() };
        let files = [(there.clone(), seen.unwrap()), (there.clone(), old)];
        let wrong = block_on(expect(Path::new("/"), &files, Duration::from_millis(1)));
        let missing = [(Text::from("nowhere".to_owned()), old)];
        let none = block_on(expect(Path::new("/nonexistent"), &missing, Duration::ZERO));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(wrong, Some((there, seen)));
        assert_eq!(none, Some((Text::from("nowhere".to_owned()), None)));
    }
}
