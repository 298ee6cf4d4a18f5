//! How a record ends: with the run, or before it, when it cannot be written.
//!
//! It does not know why the run ends.

use rakuda_core::Now;
use rakuda_proto::journal::{JournalEvent, RunEnded, RunOutcome};
use rakuda_record::history::{RunSummary, SUMMARY_VERSION};

use super::output_log::OutputLog;
use super::{Record, Totals, at, lines, prune};
use crate::HubError;

impl Record {
    /// Stops recording, after a write failed and the user learnt of it. What was torn is cut off; it and the ends of
    /// attempts that go on are written when the run ends, if that can be done then.
    pub fn disable(&mut self, now_ns: i64) {
        self.enabled = false;
        self.executing = false;
        self.broken = true;
        self.output = OutputLog::default();
        self.cut_torn_line();
        self.note_failed(now_ns);
    }

    /// Marks for later runs that this run's journal is not complete.
    pub(super) fn note_failed(&mut self, now_ns: i64) {
        if let Some(open) = &mut self.open {
            open.marker.note_failed(now_ns);
        }
    }

    fn cut_torn_line(&self) {
        if let Some(open) = &self.open {
            // Where that fails, too, the journal has a torn last line, which readers skip.
            let _ = open.journal.set_len(open.journal_bytes);
        }
    }

    /// Ends the record. By now this hub has settled the targets of all attempts itself: what the
    /// journal leaves open as it could not be written is no matter for the next run, only what is
    /// unfinished and could not be noted is.
    pub fn finish(&mut self, how: RunOutcome, now: Now) -> Result<(), HubError> {
        let time_ns = now.journal_ns();
        if self.executing || self.broken {
            let Totals { executed, done, not_needed, failed, abandoned } = self.totals;
            let operations = self.metadata_operations;
            let ended = RunEnded {
                time_ns,
                how,
                executed,
                done,
                not_needed,
                failed,
                abandoned,
                metadata_operations: operations.map(|operations| operations.all),
                run_file_system_operations: operations.map(|operations| operations.run),
            };
            lines::event(&mut self.pending, &JournalEvent::RunEnded(ended));
        }
        if self.broken {
            return self.finish_broken();
        }
        let written = self.flush();
        if written.is_err() && !self.pending.is_empty() {
            self.disable(now.wall_ns());
            return self.finish_broken().and(written);
        }
        self.remove_spools();
        let Some(open) = self.open.take() else { return written };
        let root = self.root();
        if !self.is_unsettled() {
            open.marker.remove(&root).map_err(at(&root.join("running")))?;
        }
        if self.enabled {
            let folder = self.project.find(&open.folder);
            let path = folder.join(RunSummary::FILE);
            self.summary(how, time_ns).write(&folder).map_err(at(&path))?;
        }
        written?;
        // Where that fails, the list is only longer than it need be.
        let _ = self.unfinished.tidy(&root);
        prune::prune(&root, &self.started.run, self.limits).map_err(at(&root))
    }

    /// Ends a record that could not be written for a while. The user knows of the journal.
    fn finish_broken(&mut self) -> Result<(), HubError> {
        // Where that fails, the journal must not say that the run has ended: the next one is to
        // look after what it leaves open.
        self.write_unfinished()?;
        self.cut_torn_line();
        if self.write_journal().is_err() {
            self.cut_torn_line();
        }
        let root = self.root();
        match self.open.take() {
            Some(open) => open.marker.remove(&root).map_err(at(&root.join("running"))),
            None => Ok(()),
        }
    }

    fn summary(&self, how: RunOutcome, ended_ns: i64) -> RunSummary {
        RunSummary {
            version: SUMMARY_VERSION,
            run: self.started.run.clone(),
            how,
            started_ns: self.started.time_ns,
            ended_ns,
            policy: self.started.policy.clone(),
            cores: self.started.cores,
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            executed: self.totals.executed,
            done: self.totals.done,
            not_needed: self.totals.not_needed,
            failed: self.totals.failed,
            abandoned: self.totals.abandoned,
            rules: self.durations.rules(),
        }
    }
}
