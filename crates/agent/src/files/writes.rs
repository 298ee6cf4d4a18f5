//! Which files are being written at this moment.
//!
//! A file that has come whole gets its name even if nothing waits for it any more. A removal, or another write, waits
//! until that has been done or given up: else the file would come afterwards.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tokio::sync::Notify;

/// The files that are being written.
#[derive(Default)]
pub(super) struct Writes {
    paths: RefCell<BTreeSet<PathBuf>>,
    /// One has ended.
    ended: Notify,
}

/// A file that is being written until this is dropped.
pub(super) struct Write<'a> {
    writes: &'a Writes,
    path: PathBuf,
}

impl Writes {
    /// Waits until nobody else writes this one.
    pub async fn begin(&self, path: &Path) -> Write<'_> {
        self.over([path].into_iter()).await;
        self.paths.borrow_mut().insert(path.to_path_buf());
        Write { writes: self, path: path.to_path_buf() }
    }

    /// Waits until none of these is being written.
    pub async fn over<'a>(&self, paths: impl Iterator<Item = &'a Path> + Clone) {
        loop {
            let ended = self.ended.notified();
            if !paths.clone().any(|path| self.paths.borrow().contains(path)) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.writes.paths.borrow_mut().remove(&self.path);
        self.writes.ended.notify_waiters();
    }
}
