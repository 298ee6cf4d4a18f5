//! Why a task runs or would run, by the scheduler's decision: which prerequisites are to blame, and by how much.
//!
//! It decides nothing: the core does. It does not know the reasons of `--rerun-on`, of which the core only gets the
//! result.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rakuda_core::{Now, Reason as Decision, Scheduler, TaskId, TaskKind, TaskView, Timestamp};
use rakuda_proto::Text;
use rakuda_proto::journal::{Reason, ReasonKind};

use crate::names::Names;

/// Maximum number of reasons that are given for a task.
pub const REASONS_MAX: usize = 8;
/// Maximum number of tasks that are looked at to find what below a task is newer.
const VISITS_MAX: usize = 1000;

/// What the reasons are taken from.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub scheduler: &'a Scheduler,
    pub names: &'a Names,
    /// With which *now* is compared.
    pub now: Now,
    /// `-B`.
    pub build_all: bool,
}

impl Evidence<'_> {
    /// Why a settled task runs or would run, the most telling reason first; empty if it does not. `unfinished`: its
    /// target is there, but no attempt finished it.
    pub fn reasons(self, id: TaskId, unfinished: bool) -> Vec<Reason> {
        let Some(task) = self.scheduler.task(id) else { return Vec::new() };
        if !task.has_action {
            return self.below_an_alias(id);
        }
        match task.reason {
            Decision::Undecided
            | Decision::UpToDate
            | Decision::AnsweredNotNeeded
            | Decision::Unresolved
            | Decision::Demanded => Vec::new(),
            Decision::AlwaysRuns => vec![plain(ReasonKind::Always)],
            Decision::BuildAll => vec![plain(ReasonKind::Forced)],
            Decision::AnsweredNeeded => vec![plain(ReasonKind::Class)],
            Decision::Missing if unfinished => vec![self.about(ReasonKind::Unfinished, id)],
            Decision::Missing => vec![self.about(ReasonKind::Missing, id)],
            Decision::GangRuns => vec![plain(ReasonKind::Gang)],
            Decision::Lost => vec![self.about(ReasonKind::Lost, id)],
            Decision::OutOfDate if self.build_all => {
                let mut reasons = vec![plain(ReasonKind::Forced)];
                reasons.extend(self.newer(id, task));
                reasons.truncate(REASONS_MAX);
                reasons
            }
            Decision::OutOfDate => self.newer(id, task),
        }
    }

    /// A task without an action stands for others: those of them that run.
    fn below_an_alias(self, id: TaskId) -> Vec<Reason> {
        let ran = |id: &TaskId| self.scheduler.task(*id).is_some_and(|task| task.ran);
        let inputs = self.scheduler.inputs(id).filter(ran);
        inputs.take(REASONS_MAX).map(|id| self.about(ReasonKind::Runs, id)).collect()
    }

    /// Prerequisites that are newer than a file, or will be, those of tasks upstream of it among them; where none is,
    /// those further down.
    fn newer(self, id: TaskId, task: TaskView) -> Vec<Reason> {
        let Some(modified_ns) = task.modified_ns else { return Vec::new() };
        let mut layer = self.scheduler.inputs_through_streams(id);
        let mut seen: BTreeSet<TaskId> = BTreeSet::new();
        while !layer.is_empty() && seen.len() < VISITS_MAX {
            let mut found: Vec<Reason> = Vec::new();
            let mut deeper = Vec::new();
            for input in layer {
                if !seen.insert(input) || seen.len() > VISITS_MAX {
                    continue;
                }
                found.extend(self.newer_than(input, modified_ns));
                if self.scheduler.below_is_after(input, modified_ns, self.now) {
                    deeper.extend(self.scheduler.inputs(input));
                }
            }
            if !found.is_empty() {
                found.sort_by_key(|reason| {
                    (reason.kind != ReasonKind::Newer, Reverse(reason.by_ns))
                });
                found.truncate(REASONS_MAX);
                return found;
            }
            layer = deeper;
        }
        Vec::new()
    }

    fn newer_than(self, id: TaskId, modified_ns: i128) -> Option<Reason> {
        let task = self.scheduler.task(id)?;
        let would_run = task.ran && task.kind != TaskKind::Directory;
        let is_after = match task.timestamp {
            Timestamp::Early => false,
            Timestamp::At(time) => time.ns() > modified_ns,
            Timestamp::Late => true,
            Timestamp::Now => self.now.wall.ns() > modified_ns,
        };
        let on_disk = task.modified_ns.filter(|ns| *ns > modified_ns);
        match (is_after, on_disk) {
            (false, _) => None,
            (true, Some(ns)) if task.kind == TaskKind::File => {
                Some(Reason { by_ns: Some(ns - modified_ns), ..self.about(ReasonKind::Newer, id) })
            }
            (true, _) if would_run => Some(self.about(ReasonKind::Runs, id)),
            (true, _) => Some(self.about(ReasonKind::Newer, id)),
        }
    }

    fn about(self, kind: ReasonKind, id: TaskId) -> Reason {
        Reason { kind, path: Some(Text(self.names.name(id).to_vec())), by_ns: None }
    }
}

fn plain(kind: ReasonKind) -> Reason {
    Reason { kind, path: None, by_ns: None }
}
