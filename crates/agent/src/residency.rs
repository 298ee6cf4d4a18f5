//! How much of a file is in this machine's memory: cachestat(2), Linux 6.5 and later.
//!
//! It neither reads the file nor brings it into memory. What the kernel does not tell is not known: on older kernels, for files that this process
//! neither owns nor may write (a rule of Linux 6.16 and later), and for what is no regular file. mincore(2) is no way out: it asks for the same
//! right, and a mapping besides. Files of gfarm2fs are looked for where `spool` says; of other FUSE file systems nothing is known, since most drop a file from
//! memory when it is opened. It knows nothing of tasks.
#![allow(unsafe_code, reason = "cachestat(2) has no safe wrapper yet")]

use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use rakuda_proto::Text;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, statfs};

use crate::{operations, spool};

/// Files of one task that are measured; a task with more of them is known by the first ones only.
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

/// Bytes of `path` that are in memory, and its bytes in all; `None`: not known, or there is no such file.
pub fn of(path: &Path) -> Option<(u64, u64)> {
    operations::count(1);
    let file_system = statfs(path).ok()?;
    if file_system.f_type == FUSE {
        return spool::of(path);
    }
    of_plain(path)
}

/// The same for a file that is not behind FUSE.
pub(crate) fn of_plain(path: &Path) -> Option<(u64, u64)> {
    operations::count(2);
    // Not to wait for the other end of a pipe, and not to get a terminal.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let bytes = u64::try_from(stat.st_size).ok()?;
    let in_memory = pages_of(&file)?.saturating_mul(rustix::param::page_size() as u64);
    Some((in_memory.min(bytes), bytes))
}

/// The same for several files, relative names starting at `base`; of at most [`FILES_MAX`], the others are not known.
pub fn of_all(base: &Path, paths: &[Text]) -> Vec<Option<(u64, u64)>> {
    let measured = |(index, path): (usize, &Text)| {
        (index < FILES_MAX).then(|| of(&base.join(path.as_path()))).flatten()
    };
    paths.iter().enumerate().map(measured).collect()
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
        assert_eq!(of(&path), Some((bytes, bytes)));
        let file = std::fs::File::open(&path).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let dropped = of(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(dropped, Some((0, bytes)));
    }

    #[test]
    fn what_is_no_regular_file_is_not_known() {
        assert_eq!(of(Path::new("/dev/null")), None);
        assert_eq!(of(Path::new("/")), None);
        assert_eq!(of(Path::new("/nonexistent/file")), None);
    }

    #[test]
    fn no_more_files_are_measured_than_stated() {
        let path = written("residency-many", 1);
        let paths = vec![Text::from(path.to_string_lossy().into_owned()); FILES_MAX + 3];
        let found = of_all(Path::new("/"), &paths);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.len(), FILES_MAX + 3);
        assert!(found[FILES_MAX..].iter().all(Option::is_none));
        assert_eq!(found[0].is_some(), is_known());
    }
}
