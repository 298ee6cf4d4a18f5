//! Counts the system calls on metadata of files that this process makes for its tasks: looks
//! (statx, access), opens of files and folders to look at them, and listings. A rename or a removal
//! of a failed target counts too.
//!
//! The calls on the file system of the run's folder are counted apart, since those are what the users of a file server
//! share. Which file system a call is on follows from the name that it is made with, and from what was mounted when the
//! run's folder was entered: asking the kernel each time would cost a call for each call. So a call through a symbolic
//! link counts where the link lies.
//!
//! One counter for the process, as the calls are made by several threads: a count has the calls of all of them. Opens
//! of pipes, of /proc, of the record's own files and what libraries do by themselves are not counted.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use rakuda_proto::cluster::Operations;

use crate::mounts;

/// On all file systems, and on that of the run's folder.
static ALL: AtomicU64 = AtomicU64::new(0);
static RUN: AtomicU64 = AtomicU64::new(0);

/// `None`: no folder was entered, and no call counts as one on its file system.
static FILE_SYSTEMS: RwLock<Option<FileSystems>> = RwLock::new(None);

/// What is mounted, as far as it matters for the run's folder.
#[derive(Debug)]
struct FileSystems {
    /// Where relative names start.
    folder: PathBuf,
    /// Mount points, the longest first, and whether that is the file system of the run's folder.
    mounted: Vec<(PathBuf, bool)>,
}

impl FileSystems {
    /// By the kernel's table of mounts, and the device of `/`. One file system may be mounted in
    /// several places; its device tells that it is one. In a chroot, the table may have no line of
    /// `/` itself.
    fn new(folder: &Path, table: &[u8], root: &[u8]) -> Self {
        let mut found: Vec<(PathBuf, &[u8])> = mounts::mounted_devices(table).collect();
        // What was mounted last on the same place covers the others.
        found.reverse();
        if !found.is_empty() && !found.iter().any(|(point, _)| point == Path::new("/")) {
            found.push((PathBuf::from("/"), root));
        }
        found.sort_by_key(|(point, _)| std::cmp::Reverse(point.as_os_str().len()));
        let device = found.iter().find(|(point, _)| is_below(folder, point));
        let device = device.map(|(_, device)| device.to_vec());
        let mounted =
            found.into_iter().map(|(point, of)| (point, device.as_deref() == Some(of))).collect();
        Self { folder: folder.to_path_buf(), mounted }
    }

    fn is_of_run(&self, path: &Path) -> bool {
        let path = if path.is_absolute() && !has_parents(path) {
            path
        } else {
            &without_parents(&self.folder.join(path))
        };
        let mount = self.mounted.iter().find(|(point, _)| is_below(path, point));
        mount.is_some_and(|(_, is_of_run)| *is_of_run)
    }
}

/// As bytes, since this is asked for each call, and names of the kernel's table have no `.` and no slash at their ends.
fn is_below(path: &Path, point: &Path) -> bool {
    let (path, point) = (path.as_os_str().as_bytes(), point.as_os_str().as_bytes());
    let rest = path.strip_prefix(point);
    point == b"/" || rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

fn has_parents(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(component);
        }
    }
    plain
}

/// Names the run's folder, as this machine has it. From now on the calls on its file system are counted apart.
pub fn enter(folder: &Path) {
    // Without the table all calls are on some file system, and none is known to be on the run's.
    let table = std::fs::read(mounts::TABLE).unwrap_or_default();
    let known = FileSystems::new(folder, &table, mounts::device_of(Path::new("/")).as_bytes());
    *FILE_SYSTEMS.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
}

/// Counts `calls` calls about `path`; a relative name starts at the run's folder.
pub fn count(path: &Path, calls: u64) {
    ALL.fetch_add(calls, Ordering::Relaxed);
    let known = FILE_SYSTEMS.read().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_some_and(|known| known.is_of_run(path)) {
        RUN.fetch_add(calls, Ordering::Relaxed);
    }
}

/// Calls since the process started.
pub fn total() -> Operations {
    Operations { all: ALL.load(Ordering::Relaxed), run: RUN.load(Ordering::Relaxed) }
}

/// Calls since [`take`] was called last: for an agent elsewhere, that reports them bit by bit.
pub fn take() -> Operations {
    static TAKEN_ALL: AtomicU64 = AtomicU64::new(0);
    static TAKEN_RUN: AtomicU64 = AtomicU64::new(0);
    let now = total();
    let since = |taken: &AtomicU64, now| now - taken.swap(now, Ordering::Relaxed).min(now);
    Operations { all: since(&TAKEN_ALL, now.all), run: since(&TAKEN_RUN, now.run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 254:0 / / rw - ext4 /dev/vda rw\n\
        30 21 0:52 / /data rw - nfs4 server:/data rw\n\
        31 21 0:52 /user /user rw - nfs4 server:/data/user rw\n\
        32 30 0:53 / /data/scratch rw - tmpfs tmpfs rw\n\
        33 32 0:52 /x /data/scratch/back rw - nfs4 server:/data/x rw\n";

    #[test]
    fn calls_are_told_apart_by_the_longest_mount_point_before_their_name() {
        let known = FileSystems::new(Path::new("/data/project"), TABLE, b"");
        for path in [
            "a",
            "./a",
            "sub/a",
            "/data",
            "/data/x",
            "/user/u/a",
            "/data/scratch/back/a",
            "../../user",
        ] {
            assert!(known.is_of_run(Path::new(path)), "{path}");
        }
        for path in
            ["/", "/usr/bin/cp", "/database/a", "/data/scratch", "/data/scratch/a", "../../tmp/a"]
        {
            assert!(!known.is_of_run(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn what_is_mounted_last_covers_what_was_mounted_there_before() {
        let table = [TABLE, b"40 30 0:60 / /data rw - ext4 /dev/vdb rw\n"].concat();
        let known = FileSystems::new(Path::new("/data/project"), &table, b"");
        assert!(known.is_of_run(Path::new("a")) && !known.is_of_run(Path::new("/user/u")));
    }

    #[test]
    fn the_root_of_a_chroot_is_no_mount_and_has_its_device_all_the_same() {
        let table: &[u8] = b"50 21 0:5 / /proc rw - proc proc rw\n\
            51 21 254:0 /data /data rw - ext4 /dev/vda rw\n";
        let known = FileSystems::new(Path::new("/tmp/project"), table, b"254:0");
        for path in ["a", "/", "/usr/bin/cp", "/data/a"] {
            assert!(known.is_of_run(Path::new(path)), "{path}");
        }
        assert!(!known.is_of_run(Path::new("/proc/1")));
        let known = FileSystems::new(Path::new("/data/u"), table, b"254:1");
        assert!(known.is_of_run(Path::new("a")) && !known.is_of_run(Path::new("/tmp/a")));
    }

    #[test]
    fn nothing_is_of_the_run_where_nothing_is_known_to_be_mounted() {
        let nothing = FileSystems::new(Path::new(""), b"", b"254:0");
        assert!(!nothing.is_of_run(Path::new("/")));
    }
}
