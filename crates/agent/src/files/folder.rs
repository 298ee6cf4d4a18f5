//! The folder of a run that is a node's own, where nodes share no file system.
//!
//! It lies below one folder per user, which nobody else may write to. Only one agent at a time
//! works in it: two would take each other's files for their own.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::launch::own_environment;
use crate::mounts::mounted_below;

/// The mark of a folder in use.
const LOCK: &str = ".rakuda-agent";

/// What holds the folders of runs, in `scratch`.
pub const FOLDERS: &str = "files";

/// Why a folder cannot be a node's own.
#[derive(Debug, thiserror::Error)]
pub enum OwnFolderError {
    /// The system refuses.
    #[error("make the run's folder {} on this node: {source}", path.display())]
    Refused {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: std::io::Error,
    },
    /// Someone else could change what is in it.
    #[error("use {} on this node: it must be a folder of the user {user} that nobody else may write to (TMPDIR, or WORK_DIR)", path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// This user.
        user: u32,
    },
    /// Another agent works there.
    #[error("use {} on this node: another agent works in it; nodes that share this folder need --filesystem shared, and two runs two folders (WORK_DIR)", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
}

/// Below which the folders of runs lie.
pub fn scratch() -> PathBuf {
    let temporary = own_environment().into_iter().find(|(name, _)| name == "TMPDIR");
    let temporary = temporary.map(|(_, value)| PathBuf::from(value));
    let temporary = temporary.filter(|path| path.is_absolute());
    let user = rustix::process::getuid().as_raw();
    temporary.unwrap_or_else(|| PathBuf::from("/tmp")).join(format!("rakuda-{user}"))
}

/// Bytes that ordinary users may still write below `path`, or where it will be.
pub fn free_bytes(path: &Path) -> u64 {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    rustix::fs::statvfs(there).map_or(0, |found| found.f_bavail * found.f_frsize)
}

/// Makes the folder below which those of runs lie, where it is missing; nobody else may write to it.
pub fn make_scratch() -> Result<PathBuf, OwnFolderError> {
    let scratch = scratch();
    let refused = |source| OwnFolderError::Refused { path: scratch.clone(), source };
    let parent = scratch.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(refused)?;
    let made = DirBuilder::new().mode(0o700).create(&scratch);
    made.or_else(unless_there).map_err(refused)?;
    check(&scratch)?;
    Ok(scratch)
}

/// Makes the folder where it is missing, and marks it as in use. `Ok(None)`: another agent works
/// there at present, or it is being removed.
pub fn own_folder(path: &Path) -> Result<Option<OwnedFd>, OwnFolderError> {
    let refused = |source| OwnFolderError::Refused { path: path.to_path_buf(), source };
    if path.starts_with(scratch()) {
        make_scratch()?;
    }
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(refused);
    // It may be removed between two steps (`remove_unused`).
    let vanished = |error: &std::io::Error| {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) && !path.exists()
    };
    match made.and_then(|()| lock_in(path)) {
        Err(OwnFolderError::Refused { source, .. }) if vanished(&source) => Ok(None),
        other => other,
    }
}

/// Marks a folder that is there as in use.
fn lock_in(path: &Path) -> Result<Option<OwnedFd>, OwnFolderError> {
    let refused = |source| OwnFolderError::Refused { path: path.to_path_buf(), source };
    check(path)?;
    let lock = path.join(OsStr::new(LOCK));
    let lock = File::options().write(true).create(true).truncate(false).open(lock);
    let lock = lock.map_err(refused)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        // The process that had it locked has removed it.
        Ok(()) if lock.metadata().map_err(refused)?.nlink() == 0 => Ok(None),
        Ok(()) => Ok(Some(lock.into())),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(refused(error.into())),
    }
}

/// The folders of runs below `scratch` in which no agent works. Empty where others may have put them there.
pub fn unused(scratch: &Path) -> Vec<PathBuf> {
    let holder = scratch.join(FOLDERS);
    if check(scratch).and_then(|()| check(&holder)).is_err() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(holder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.retain(|path| matches!(lock_in(path), Ok(Some(_))));
    folders.sort_unstable();
    folders
}

/// Removes such a folder with all that is in it. An agent that has come meanwhile keeps it; one
/// that comes makes it anew.
pub fn remove_unused(path: &Path) -> std::io::Result<()> {
    // The folder that it is in, and `scratch`: others must not lead this elsewhere.
    for above in path.ancestors().skip(1).take(2) {
        check(above).map_err(std::io::Error::other)?;
    }
    let lock = lock_in(path).map_err(std::io::Error::other)?;
    let _lock = lock.ok_or(ErrorKind::ResourceBusy)?;
    check_nothing_mounted(path)?;
    // It is gone under its name at once, and not file by file.
    let aside = path.with_extension(std::process::id().to_string());
    std::fs::rename(path, &aside)?;
    std::fs::remove_dir_all(aside)
}

/// What is mounted in a folder would be emptied with it.
pub fn check_nothing_mounted(path: &Path) -> std::io::Result<()> {
    match mounted_below(path)? {
        None => Ok(()),
        Some(point) => {
            let why = format!("{} is mounted there: unmount it first", point.display());
            Err(std::io::Error::new(ErrorKind::ResourceBusy, why))
        }
    }
}

fn unless_there(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// Sees that a folder is this user's, itself and not by a symbolic link, and that nobody else may write to it.
pub fn check(path: &Path) -> Result<(), OwnFolderError> {
    let user = rustix::process::getuid().as_raw();
    let found = std::fs::symlink_metadata(path)
        .map_err(|source| OwnFolderError::Refused { path: path.to_path_buf(), source })?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(OwnFolderError::Unsafe { path: path.to_path_buf(), user })
}
