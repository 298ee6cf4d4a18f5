//! Waiting for a descriptor to become readable, or to have room for what is written.
#![allow(unsafe_code, reason = "tokio cannot see that an owned descriptor stays the same")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::spawn::Process;

/// Owners of one descriptor that never changes and is closed with them.
pub trait StableDescriptor: AsRawFd {}

impl StableDescriptor for OwnedFd {}
impl StableDescriptor for Rc<Process> {}

/// Registers `owner`'s descriptor with the runtime for reading, until the result is dropped.
pub fn watch<T: StableDescriptor>(owner: T) -> std::io::Result<AsyncFd<T>> {
    register(owner, Interest::READABLE)
}

/// The same for writing.
pub fn watch_room<T: StableDescriptor>(owner: T) -> std::io::Result<AsyncFd<T>> {
    register(owner, Interest::WRITABLE)
}

fn register<T: StableDescriptor>(owner: T, interest: Interest) -> std::io::Result<AsyncFd<T>> {
    // SAFETY: `StableDescriptor` promises that the descriptor is the same, open one as long as
    // the owner lives, and the `AsyncFd` keeps the owner.
    Ok(unsafe { AsyncFd::register_with_interest(owner, interest) }?)
}
