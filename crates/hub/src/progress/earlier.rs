//! Durations of earlier runs, read by a thread of its own: a slow disk does not keep the hub from its work.
//!
//! It does not know what they are good for.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rakuda_record::folder::Records;
use rakuda_record::history::{Durations, RunSummary};

/// Timeout for the durations at the first look: they are mostly there sooner, and the first thing shown is right at
/// once.
const PATIENCE: Duration = Duration::from_millis(10);

/// Timeout for the time of each target, which journals have.
const LONG_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of runs of which the times of targets are read; the newer ones count.
const TARGETS_OF_RUNS: usize = 3;

/// What is being read.
#[derive(Debug)]
pub(crate) struct EarlierRuns {
    /// `None`: the durations have been handed out, or there are none.
    coming: Option<Receiver<Durations>>,
    patience: Duration,
}

impl EarlierRuns {
    /// Begins to read what is kept for `directory`.
    pub fn look(directory: &Path) -> Self {
        Self::read(directory, PATIENCE, |records| Durations::of_summaries(records).ok())
    }

    /// The same, and of the newest runs that ended the time of each target. The first look waits for that longer.
    pub fn look_closely(directory: &Path) -> Self {
        Self::read(directory, LONG_PATIENCE, |records| {
            let mut durations = Durations::of_summaries(records).ok()?;
            let folders = records.folders().ok()?;
            let ended = folders.iter().filter(|folder| RunSummary::read(&folder.path).is_some());
            let newest: Vec<_> = ended.take(TARGETS_OF_RUNS).collect();
            for folder in newest.into_iter().rev() {
                // What a journal does not tell its summary does.
                let _ = durations.add_targets(folder, |_| true);
            }
            Some(durations)
        })
    }

    fn read(
        directory: &Path,
        patience: Duration,
        read: impl FnOnce(&Records) -> Option<Durations> + Send + 'static,
    ) -> Self {
        let directory = directory.to_path_buf();
        let (sender, coming) = channel();
        let read = move || {
            let records = Records::find(&directory).ok();
            if let Some(durations) = records.and_then(|records| read(&records)) {
                // The run may be over meanwhile.
                let _ = sender.send(durations);
            }
        };
        let thread = thread::Builder::new().name("earlier runs".to_owned()).spawn(read);
        Self { coming: thread.is_ok().then_some(coming), patience }
    }

    /// The durations, once, when they have been read.
    pub fn durations(&mut self) -> Option<Durations> {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        let patience = std::mem::take(&mut self.patience);
        match self.coming.as_ref()?.recv_timeout(patience) {
            Err(Timeout) => None,
            result => {
                self.coming = None;
                result.ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_late_is_handed_out_when_it_comes_and_once() {
        let (sender, coming) = channel();
        let mut earlier = EarlierRuns { coming: Some(coming), patience: Duration::ZERO };
        assert!(earlier.durations().is_none());
        sender.send(Durations::default()).unwrap();
        assert!(earlier.durations().is_some());
        assert!(earlier.durations().is_none());
    }

    #[test]
    fn a_folder_without_runs_has_nothing_to_tell() {
        let mut earlier = EarlierRuns::look(Path::new("/nowhere/at/all"));
        earlier.patience = Duration::from_secs(60);
        assert!(earlier.durations().is_none());
        assert!(earlier.coming.is_none());
    }
}
