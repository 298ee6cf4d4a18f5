//! Locks between runs in one folder: files beside what they guard, which stay.
//!
//! It does not know what is done under them.

use std::fs::File;
use std::io;
use std::path::Path;

use rakuda_record::regular::open_to_append;
use rustix::fs::{FlockOperation, flock};

/// Held until it is dropped, or this process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Waits for the lock and takes it.
pub(super) fn wait_for(path: &Path) -> io::Result<Lock> {
    take(path, FlockOperation::LockExclusive)
}

/// Takes the lock if it is free; else `None`.
pub(super) fn try_for(path: &Path) -> io::Result<Option<Lock>> {
    match take(path, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

fn take(path: &Path, operation: FlockOperation) -> io::Result<Lock> {
    // Open for writing: NFS locks nothing else for one alone.
    let file = open_to_append(path, 0o666)?;
    rustix::io::retry_on_intr(|| flock(&file, operation))?;
    Ok(Lock { _file: file })
}
