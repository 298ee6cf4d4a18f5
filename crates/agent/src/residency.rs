//! How much of a file is in this machine's memory: cachestat(2), Linux 6.5 and later.
//!
//! It neither reads the file nor brings it into memory. What the kernel does not tell is not known: on older kernels,
//! for files that this process neither owns nor may write (a rule of Linux 6.16 and later), and for what is no regular
//! file. mincore(2) does not help: it needs the same right, and a mapping besides. Files of gfarm2fs are looked for
//! where `spool` says; of other FUSE file systems nothing is known, since most drop a file from memory when it is
//! opened. It knows nothing of tasks.
#![allow(unsafe_code, reason = "cachestat(2) has no safe wrapper yet")]

use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;
use rustix::fs::{Mode, OFlags, open, statfs};
use rustix::io::Errno;

use crate::seen::SeenFiles;
use crate::visibility::{Seen, seen_of};
use crate::{operations, spool};

/// Maximum files of one task that are measured. A task with more of them is known by the first ones only.
pub const FILES_MAX: usize = 64;

/// The system call's number, the same on all architectures that Rust has but alpha.
const CACHESTAT: libc::c_long = 451;

/// The kind of file system of which statfs(2) says so. To open a file there may drop it from memory.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// As the kernel has it; 0, 0 is the whole file.
#[repr(C)]
#[derive(Default)]
struct Range {
    offset: u64,
    length: u64,
}

/// As the kernel has it: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether this kernel can tell.
pub fn is_known() -> bool {
    let (range, mut pages) = (Range::default(), Pages::default());
    // SAFETY: both structures are as the kernel expects them and live through the call; the descriptor is none.
    let result = unsafe { libc::syscall(CACHESTAT, -1, &raw const range, &raw mut pages, 0) };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

/// Bytes of `path` that are in memory, and its bytes in all. `None`: not known, or there is no such file. What was seen
/// of the file, or of one in the same folder, is not asked for again.
fn of(path: &Path, version: FileVersion, files: &mut SeenFiles) -> Option<(u64, u64)> {
    if let Some(seen) = files.of(path, version) {
        return of_seen(path, seen, files);
    }
    if path.parent().and_then(|folder| files.is_fuse_in(folder)) == Some(false) {
        match pages_of_plain(path, OFlags::NOFOLLOW) {
            // A link may lead to any file system.
            Err(Errno::LOOP) => {}
            found => return share_of(found.ok()?, version.bytes),
        }
    }
    let seen = seen_of(path)?;
    files.note(path, seen);
    of_seen(path, seen, files)
}

fn of_seen(path: &Path, seen: Seen, files: &mut SeenFiles) -> Option<(u64, u64)> {
    if !seen.is_regular {
        return None;
    }
    let is_fuse = files.is_fuse(seen.device, || {
        operations::count(path, 1);
        Some(statfs(path).ok()?.f_type == FUSE)
    });
    if is_fuse? { spool::of(&seen.identity) } else { of_plain(path, seen.identity.bytes) }
}

/// The same for a file of `bytes` that is not behind FUSE.
pub(crate) fn of_plain(path: &Path, bytes: u64) -> Option<(u64, u64)> {
    share_of(pages_of_plain(path, OFlags::empty()).ok()?, bytes)
}

/// The number of pages in memory. `None`: not known.
fn pages_of_plain(path: &Path, how: OFlags) -> Result<Option<u64>, Errno> {
    operations::count(path, 1);
    // These keep the call from waiting for the other end of a pipe, and from getting a terminal.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags | how, Mode::empty())?;
    // A folder refuses to be read, and what has no end to be read from a place; neither asks its server for anything.
    rustix::io::pread(&file, &mut [0_u8; 0], 0)?;
    Ok(pages_of(&file))
}

fn share_of(pages: Option<u64>, bytes: u64) -> Option<(u64, u64)> {
    let in_memory = pages?.saturating_mul(rustix::param::page_size() as u64);
    Some((in_memory.min(bytes), bytes))
}

/// The same for several files, relative names starting at `base`; of at most [`FILES_MAX`], the others are not known.
pub(crate) fn of_all(
    base: &Path,
    asked: &[(Text, FileVersion)],
    files: &mut SeenFiles,
) -> Vec<Option<(u64, u64)>> {
    let mut measured = |(index, (path, version)): (usize, &(Text, FileVersion))| {
        (index < FILES_MAX).then(|| of(&base.join(path.as_path()), *version, files)).flatten()
    };
    asked.iter().enumerate().map(&mut measured).collect()
}

fn pages_of(file: impl AsFd) -> Option<u64> {
    let (range, mut pages) = (Range::default(), Pages::default());
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: both structures are as the kernel expects them and live through the call, as does the descriptor.
    let result =
        unsafe { libc::syscall(CACHESTAT, descriptor, &raw const range, &raw mut pages, 0) };
    (result == 0).then_some(pages.cached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// The question to a node that has seen nothing yet; the hub knows the file as it is.
    fn of_unseen(path: &Path) -> Option<(u64, u64)> {
        let known = seen_of(path).map(|seen| seen.identity);
        let version = known.map_or(FileVersion { bytes: 1, modified_ns: 1 }, |file| FileVersion {
            bytes: file.bytes,
            modified_ns: file.modified_ns,
        });
        of(path, version, &mut SeenFiles::default())
    }

    /// Not in memory alone, as /tmp may be.
    fn scratch() -> std::path::PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A file of `pages` pages on the file system of this test's folder.
    fn written(name: &str, pages: usize) -> std::path::PathBuf {
        let path = scratch().join(format!("{name}-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&vec![7; pages * rustix::param::page_size()]).unwrap();
        file.sync_all().unwrap();
        path
    }

    #[test]
    fn what_was_written_is_in_memory_until_the_kernel_is_told_to_drop_it() {
        if !is_known() {
            eprintln!("not tried: this kernel has no cachestat(2)");
            return;
        }
        let path = written("residency-drop", 16);
        let bytes = 16 * rustix::param::page_size() as u64;
        assert_eq!(of_unseen(&path), Some((bytes, bytes)));
        let file = std::fs::File::open(&path).unwrap();
        // Pages that the kernel is just moving stay.
        let dropped = (0..100).find_map(|_| {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            of_unseen(&path).filter(|(in_memory, _)| *in_memory == 0)
        });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(dropped, Some((0, bytes)));
    }

    #[test]
    fn what_is_no_regular_file_is_not_known() {
        for path in ["/dev/null", "/", "/nonexistent/file"] {
            assert_eq!(of_unseen(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_file_in_a_folder_that_is_known_is_opened_and_nothing_more_unless_it_is_a_link() {
        if !is_known() {
            eprintln!("not tried: this kernel has no cachestat(2)");
            return;
        }
        let folder = scratch().join(format!("residency-known-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("folder")).unwrap();
        let page = vec![7; rustix::param::page_size()];
        for name in ["first", "second"] {
            std::fs::write(folder.join(name), &page).unwrap();
        }
        std::os::unix::fs::symlink("first", folder.join("link")).unwrap();
        let bytes = page.len() as u64;
        // Not the state of any of them: nothing is taken from what was seen of the file itself.
        let version = FileVersion { bytes, modified_ns: 0 };
        let mut files = SeenFiles::default();
        let mut ask = |name: &str| of(&folder.join(name), version, &mut files);
        let found = ["first", "second", "link", "folder", "none"].map(&mut ask);
        let seen = ["first", "second", "link"]
            .map(|name| files.of(&folder.join(name), version_of(&folder.join(name))).is_some());
        std::fs::remove_dir_all(&folder).unwrap();
        let whole = Some((bytes, bytes));
        assert_eq!(found, [whole, whole, whole, None, None]);
        assert_eq!(seen, [true, false, true], "the second one was not looked at");
    }

    fn version_of(path: &Path) -> FileVersion {
        let seen = seen_of(path).unwrap().identity;
        FileVersion { bytes: seen.bytes, modified_ns: seen.modified_ns }
    }

    #[test]
    fn no_more_files_are_measured_than_stated() {
        let path = written("residency-many", 1);
        let asked = (Text::from(path.to_string_lossy().into_owned()), version_of(&path));
        let asked = vec![asked; FILES_MAX + 3];
        let found = of_all(Path::new("/"), &asked, &mut SeenFiles::default());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.len(), FILES_MAX + 3);
        assert!(found[FILES_MAX..].iter().all(Option::is_none));
        assert_eq!(found[0].is_some(), is_known());
    }
}
