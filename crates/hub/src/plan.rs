//! The plan that `-n` shows: which tasks would run and why, described when the dry run has settled them all.
//!
//! It decides nothing and starts nothing: the scheduler has gone through all decisions by then, without actions.

mod by_rule;
mod cut_off;
mod document;
mod reasons;
pub(crate) mod task;

use std::path::Path;

use rakuda_core::{Settled, TaskId, TaskState};
use rakuda_proto::Text;
use rakuda_proto::front::{HubMessage, PlanFormat};
use rakuda_record::folder::{FOLDER, Records};
use rakuda_record::forecast::PlannedWork;
use rakuda_record::history::Durations;

use crate::hub::Hub;
use crate::plan::document::Document;
use crate::plan::task::PlannedTask;
use crate::rerun::state::Change;
pub(crate) use cut_off::targets as targets_cut_off;
pub(crate) use reasons::{Evidence, REASONS_MAX};

/// Maximum bytes of one message.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum bytes of the newest run's journal up to which it is searched for exact targets.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;

impl Hub {
    /// Sends the plan to the front, in the form that it has asked for.
    pub(crate) fn describe_plan(&mut self, format: PlanFormat) {
        let document = self.plan();
        let bytes = match format {
            PlanFormat::Json => document.json(),
            PlanFormat::Short => document.short_text().into_bytes(),
            PlanFormat::Text => document.text().into_bytes(),
        };
        let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
        if pieces.peek().is_none() {
            self.link.push(&HubMessage::Plan(Text::default(), true));
        }
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            self.link.push(&HubMessage::Plan(Text(piece.to_vec()), last));
        }
        self.flush_urgent = true;
    }

    fn plan(&self) -> Document {
        let now = self.now;
        let build_all = self.settings.config.build_all;
        let evidence =
            Evidence { scheduler: self.run.scheduler(), names: &self.names, now, build_all };
        let durations = durations_of(&self.settings.directory);
        let tasks =
            self.run.scheduler().task_ids().map(|id| self.planned(evidence, &durations, id));
        Document::new(tasks.collect(), &self.plan_barriers, self.settings.cores_known())
            .with_streams(self.planned_streams())
    }

    /// The gang in which a task would begin with others.
    fn planned_gang(&self, id: TaskId) -> Option<u32> {
        let gang = self.run.scheduler().gang_of(id).filter(|gang| gang.tasks.len() > 1)?;
        (!self.streams.runs_by_turns(id)).then_some(gang.id.0)
    }

    fn planned(&self, evidence: Evidence<'_>, durations: &Durations, id: TaskId) -> PlannedTask {
        let view = self.run.scheduler().task(id);
        let action = view.is_some_and(|task| task.has_action);
        let executed = view.is_some_and(|task| task.state == TaskState::Settled(Settled::Executed));
        let name = Text(self.names.name(id).to_vec());
        let unfinished = executed && self.is_unfinished(&name.0);
        let told = |reason| Change { reason, detail: None };
        let reasons = if executed { evidence.reasons(id, unfinished) } else { Vec::new() };
        let mut reasons: Vec<Change> = reasons.into_iter().map(told).collect();
        if executed {
            reasons.extend_from_slice(self.changes_of(id));
        }
        let runs = executed && action && !name.0.is_empty();
        let rule = self.record.location_of(id).cloned();
        let duration =
            if runs { durations.estimate(&name, self.record.known_rule(id)) } else { None };
        // A task that was deferred may wait for others that got their numbers later; the forecast does without those.
        let waits_for = self.run.scheduler().prerequisites(id).chain(self.streams.sources_of(id));
        let prerequisites = waits_for.filter(|other| *other < id);
        let prerequisites = prerequisites.map(|id| id.0).collect();
        let work = PlannedWork {
            runs,
            duration,
            cores: self.cores_on(id, rakuda_cluster::LOCAL_NODE),
            prerequisites,
            gang: self.planned_gang(id),
            shared_milli: duration.map_or(0, |_| durations.shared_milli(&name)),
        };
        PlannedTask { target: name, action, reasons, rule, work }
    }

    /// Whether a target is there but was left unfinished by an earlier attempt.
    pub(crate) fn is_unfinished(&self, name: &[u8]) -> bool {
        self.record.is_unfinished(name) || self.cut_off_targets.contains(name)
    }
}

/// How long tasks took in earlier runs: those of the newest run by name, the others by kind. What
/// cannot be read is not known.
fn durations_of(directory: &Path) -> Durations {
    let records = Records { root: directory.join(FOLDER) };
    let mut durations = Durations::of_summaries(&records).unwrap_or_default();
    let newest = records.folders().unwrap_or_default().into_iter().next();
    let is_small = |path: &Path| path.metadata().is_ok_and(|file| file.len() <= JOURNAL_BYTES_MAX);
    if let Some(newest) = newest.filter(|newest| is_small(&newest.journal)) {
        // What was read before an error is as good as the rest.
        let _ = durations.add_targets(&newest, |_| true);
    }
    durations
}
