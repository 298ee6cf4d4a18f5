//! The end of a run whose front has become another program: an action, or the Rakefile itself, has called `exec`.
//!
//! As with rake, that program then is what the user has started, and its end is the end of all. It
//! does not know what it executes.

use rakuda_agent::processes;
use rakuda_core::Settled;
use rakuda_proto::journal::{Outcome, RunOutcome};

use crate::agents::Reports;
use crate::facts::identity_of;
use crate::guard::Ends;
use crate::hub::{Hub, RunEnding};
use crate::notes::AttemptNote;
use crate::targets::TargetEnding;

impl Hub {
    /// Whether the front, which has closed its end of the link, goes on as another program.
    pub(crate) fn is_replaced(&self) -> bool {
        self.front.is_some_and(processes::goes_on)
    }

    /// The front has become another program (exec). The attempts whose Ruby code ran end as that
    /// program ends; all others are ended.
    pub(crate) async fn replaced(&mut self, reports: &mut Reports, ends: &mut Ends) -> RunEnding {
        self.front_gone = true;
        self.hide_progress();
        let _ = self.printer.flush();
        let replaced = self.run.take_in_code();
        self.end_attempts(reports).await;
        self.agents.signal_all(libc::SIGKILL);
        self.close_agents(false).await;
        self.write_record();
        let status = tokio::select! {
            status = self.guard.front_ended() => status,
            () = ends.come() => libc::SIGKILL,
        };
        self.tick();
        let outcome = if status == 0 { Outcome::Done } else { Outcome::Failed };
        for (id, attempt) in replaced {
            let mut settled = TargetEnding::Untouched;
            let is_made = self.names.is_path(id) && self.settings.record;
            if is_made && outcome != Outcome::Done {
                settled = self.settle_attempt(id, &attempt);
            }
            let after = if is_made { identity_of(&attempt.details.target) } else { None };
            let note = AttemptNote { outcome, message: b"", retried: false, after, settled };
            self.note_attempt_ended(id, &attempt, &note);
            let is_done = outcome == Outcome::Done;
            self.note_settled(id, if is_done { Settled::Executed } else { Settled::Failed });
        }
        // No front is left to learn that the record cannot be written.
        let _ = self.note_end(match outcome {
            Outcome::Done => RunOutcome::Done,
            _ => RunOutcome::Failed,
        });
        self.ending()
    }
}
