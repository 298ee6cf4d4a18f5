//! Targets: where each was made, those that are staged out, and what waits for that.
//!
//! `rakuda_core::stager` decides which are staged out (`StageOut`). All others stay on the node that
//! made them until a task elsewhere needs them.

use std::collections::BTreeSet;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::{
    AroundHome, HomeTargetTo, MadeTarget, Outgoing, StagerInput, TwoTargets, WhichTarget,
};
use rakuda_core::{Input, NodeId, Output, Places, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::cluster::ToAgent;
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::{ActionOutcome, FailedTarget, HubMessage};
use rakuda_proto::journal::{FileIdentity, Outcome};

use super::Staging;
use super::state::{State, version_in};
use super::under_way::{Destination, Followed};
use crate::attempts::state::{AttemptDetails, RunningAttempt};
use crate::facts::identity_of;
use crate::hub::Hub;
use crate::notes::AttemptNote;
use crate::secondary::Files;
use crate::targets::TargetEnding;

impl Hub {
    /// Whether the target of an action that ended well is to be looked for on its node. What ran no
    /// command there was made here.
    pub(crate) fn is_made_there(&self, id: TaskId, attempt: &RunningAttempt) -> bool {
        if self.staging.is_none() {
            return attempt.ran_command();
        }
        let is_file = self.run.scheduler().task(id).is_some_and(|task| task.kind == TaskKind::File);
        is_file && attempt.was_staged_for()
    }

    /// An action has ended well, and its node has looked at the target and beside it: the task is
    /// settled now, or when the target is staged out. `strays`: those of the files beside it that
    /// Ruby code has written here, while commands ran there.
    pub(crate) fn take_target(
        &mut self,
        id: TaskId,
        node: NodeId,
        seen: Option<FileIdentity>,
        files: Files,
        strays: Files,
    ) {
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let AttemptDetails { target, before, .. } = &attempt.details;
        let here = self.staging.as_ref().and_then(|_| identity_of(target));
        let targets = TwoTargets {
            is_staged: self.staging.is_some(),
            home: here,
            is_home_changed: here != *before,
            there: seen,
        };
        match targets.which(|target| target.modified_ns) {
            WhichTarget::Seen(seen) => {
                self.note_secondary(id, &files);
                self.finish_well(id, seen);
            }
            WhichTarget::There(seen) => {
                let state = self.claim(id, node, version_in(&seen), files);
                self.put_together(id, Followed { node, seen, state }, strays);
            }
            WhichTarget::Home(here, seen) => {
                self.take_home_target(id, node, (here, seen), files, strays);
            }
        }
    }

    /// The target counts that is `here`, at home; `seen`: the one on the node of the commands.
    fn take_home_target(
        &mut self,
        id: TaskId,
        node: NodeId,
        (here, seen): (FileIdentity, Option<FileIdentity>),
        files: Files,
        mut strays: Files,
    ) {
        let version = version_in(&here);
        let state = self.claim(id, node, version, files);
        let around = AroundHome {
            has_secondary: !state.secondary.is_empty(),
            is_any_there: seen.is_some(),
            is_same_there: seen.is_some_and(|seen| version_in(&seen) == version),
            is_home_node: node == LOCAL_NODE,
        };
        match around.place() {
            HomeTargetTo::Stay { settles_there, settles_home } => {
                if settles_there {
                    self.settle_file(id, node, version);
                    self.remember(id, node, &state, true);
                }
                if settles_home {
                    self.settle_file(id, LOCAL_NODE, version);
                }
                self.finish_well(id, Some(here));
            }
            HomeTargetTo::Secondary { moves } => {
                if moves {
                    let path = self.home_path(id).into_os_string().into_encoded_bytes();
                    strays.insert(path, version);
                }
                self.put_together(id, Followed { node, seen: here, state }, strays);
            }
        }
    }

    fn put_together(&mut self, id: TaskId, whole: Followed, strays: Files) {
        if strays.is_empty() {
            self.settle_made(id, whole.node, whole.seen, &whole.state);
        } else {
            self.follow(id, whole, strays);
        }
    }

    /// The target is on a node with its secondary files: it stays there, or is staged out first.
    pub(super) fn settle_made(
        &mut self,
        id: TaskId,
        node: NodeId,
        seen: FileIdentity,
        state: &State,
    ) {
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let was_at_home = attempt.details.before.is_some();
        self.stage(StagerInput::Settled { file: id, node, state: state.clone() });
        self.remember(id, node, state, true);
        if self.sets_out(id, node, was_at_home, seen) {
            self.tell(Input::StagingOut { id });
            self.stage(StagerInput::StageOutWanted { file: id });
        } else {
            self.finish_well(id, Some(seen));
            self.release_endings();
        }
    }

    /// Whether a target that was made on a node is to be staged out.
    fn sets_out(
        &mut self,
        id: TaskId,
        node: NodeId,
        was_at_home: bool,
        seen: FileIdentity,
    ) -> bool {
        let is_staged = self.is_staged(&self.home_path(id));
        let Some(staging) = &mut self.staging else { return false };
        let made = MadeTarget { id, node, name: self.names.name(id), is_staged, was_at_home };
        staging.stage_out.made(&made, staging.stager.ledger(), Destination::Home(seen))
    }

    /// A file is in this state, and stays on this node; what goes with it is as it was, or nothing
    /// when this is another state.
    pub(super) fn settle_file(&mut self, id: TaskId, node: NodeId, version: FileVersion) {
        let Some(staging) = &self.staging else { return };
        let before = staging.stager.ledger().state(id);
        let state = before.filter(|before| before.version == version).cloned();
        let state = state.unwrap_or_else(|| State::alone(version));
        self.stage(StagerInput::Settled { file: id, node, state });
    }

    /// A file was seen on this machine, in its present state.
    pub(crate) fn note_here(&mut self, id: TaskId, seen: Option<FileIdentity>) {
        if let Some(identity) = seen.filter(|_| self.staging.is_some()) {
            let version = version_in(&identity);
            let known = self.staging.as_ref().and_then(|staging| staging.version(id));
            if known != Some(version) {
                self.settle_file(id, LOCAL_NODE, version);
            }
        }
    }

    /// The nodes that have a task's file, where nodes share no file system.
    pub(crate) fn staged_places(&self, id: TaskId) -> Option<Places> {
        self.staging.as_ref().map(|staging| staging.stager.ledger().places(id))
    }

    /// What is known of a file that is not on this machine.
    pub(crate) fn known_elsewhere(&self, id: TaskId) -> Option<FileIdentity> {
        let staging = self.staging.as_ref()?;
        let is_elsewhere = staging.stager.ledger().is_elsewhere(id, LOCAL_NODE);
        let version = staging.version(id).filter(|_| is_elsewhere)?;
        let (FileVersion { bytes, modified_ns }, changed_ns) = (version, version.modified_ns);
        Some(FileIdentity { modified_ns, changed_ns, bytes, inode: 0 })
    }

    /// These are asked for.
    pub(crate) fn request_stage_out(&mut self, tasks: &[TaskId], by_action: bool) {
        let Some(staging) = &mut self.staging else { return };
        let Staging { stage_out, stager, .. } = staging;
        let files = stage_out.request(tasks, by_action, self.run.scheduler(), stager.ledger());
        self.stage_out(files);
    }

    /// More prerequisites of a task are known now.
    pub(crate) fn want_added(&mut self, id: TaskId, added: &[TaskId]) {
        let Some(staging) = &mut self.staging else { return };
        let Staging { stage_out, stager, .. } = staging;
        let files = stage_out.request_added(id, added, self.run.scheduler(), stager.ledger());
        self.stage_out(files);
    }

    /// A task was settled. One that was not run may be elsewhere.
    pub(crate) fn on_settled_elsewhere(&mut self, id: TaskId) {
        let Some(staging) = &mut self.staging else { return };
        if staging.stage_out.settled(id, staging.stager.ledger()) {
            self.stage_out(vec![id]);
        }
    }

    fn stage_out(&mut self, files: Vec<TaskId>) {
        for file in files {
            self.stage(StagerInput::StageOutWanted { file });
        }
    }

    /// An invocation must not end while what it asked for is on its way; gives its end back when nothing is.
    pub(crate) fn hold_for_stage_out(&mut self, ending: Output) -> Option<Output> {
        match &mut self.staging {
            Some(staging) => staging.stage_out.hold(ending),
            None => Some(ending),
        }
    }

    pub(super) fn release_endings(&mut self) {
        if let Some(staging) = &mut self.staging {
            self.outputs.extend(staging.stage_out.take_endings());
        }
    }

    /// Targets that were asked for and could not be staged out.
    pub(crate) fn take_not_staged_out(&mut self) -> BTreeSet<TaskId> {
        let staging = self.staging.as_mut();
        staging.map(|staging| staging.stage_out.take_missed()).unwrap_or_default()
    }

    pub(super) fn on_staged_out(&mut self, id: TaskId) {
        let Some(staging) = &mut self.staging else { return };
        let outgoing = staging.stage_out.take(id, Destination::is_home);
        if let Some(Outgoing::Made { details: Destination::Home(seen), .. }) = outgoing {
            self.finish_well(id, Some(seen));
        }
        self.answer_fetches(id, None);
        self.release_endings();
    }

    pub(super) fn on_not_staged_out(&mut self, id: TaskId, why: &str) {
        self.answer_fetches(id, Some(why));
        let Some(staging) = &mut self.staging else { return };
        let Some(outgoing) = staging.stage_out.miss(id, Destination::is_home) else { return };
        let reason = Text::from(why.to_owned());
        self.link.push(&HubMessage::TargetNotStagedOut { task: id.0, reason });
        match outgoing {
            Outgoing::Made { .. } => self.finish_not_staged(id, why),
            Outgoing::Settled => self.warn(why),
        }
        self.release_endings();
    }

    /// What a failed attempt left on its node is put away there.
    pub(crate) fn put_away_there(&mut self, id: TaskId, attempt: &RunningAttempt) {
        if attempt.was_staged_for() && attempt.node() != LOCAL_NODE {
            self.put_away_at(id, attempt.node());
        }
    }

    /// The same of an attempt that had ended well: the books know what it has made.
    pub(crate) fn undo_there(&mut self, id: TaskId, node: NodeId) {
        if let Some(staging) = &mut self.staging {
            for holder in staging.stager.ledger().nodes_with(id) {
                staging.stager.forget(id, holder);
            }
        }
        self.put_away_at(id, node);
    }

    fn put_away_at(&mut self, id: TaskId, node: NodeId) {
        let policy = self.settings.failed_target;
        let here = self.home_path(id);
        if policy != FailedTarget::Leave
            && self.is_staged(&here)
            && let Some(staging) = &mut self.staging
        {
            staging.failed.insert((id, node));
            self.put_away_on(id, node);
        }
    }

    /// At the end of the run, when nothing is left on the nodes: does the same for all such attempts once more.
    pub(crate) fn put_away_again(&mut self) {
        let failed = self.staging.as_mut().map(|staging| std::mem::take(&mut staging.failed));
        for (id, node) in failed.unwrap_or_default() {
            self.put_away_on(id, node);
        }
    }

    /// What the books know of stays.
    fn put_away_on(&self, id: TaskId, node: NodeId) {
        let path = self.path_on(node, &self.home_path(id));
        let rename = self.settings.failed_target == FailedTarget::Rename;
        let knows = |staging: &&Staging| staging.stager.ledger().has(id, node);
        let unless = self.staging.as_ref().filter(knows).and_then(|staging| staging.version(id));
        self.agents.node(node).port.ask(ToAgent::PutAway { path, rename, unless });
    }

    /// An attempt whose action had ended well was lost with its node before its target was known or staged out.
    pub(crate) fn note_lost_target(&mut self, id: TaskId, reason: &str) {
        let Some(attempt) = self.run.take(id) else { return };
        let (outcome, settled) = (Outcome::Lost, TargetEnding::Untouched);
        let message = reason.as_bytes();
        let note = AttemptNote { outcome, message, retried: true, after: None, settled };
        self.note_attempt_ended(id, &attempt, &note);
    }

    /// Attempts whose targets are on their way from a node that is lost: these do not arrive.
    pub(crate) fn take_staging_out(&mut self, lost: NodeId) -> Vec<TaskId> {
        let Some(staging) = &mut self.staging else { return Vec::new() };
        let taken = staging.stage_out.lose(lost);
        for file in &taken {
            self.stage(StagerInput::StageOutUnwanted { file: *file });
        }
        taken
    }

    /// The target of an attempt is where it belongs.
    fn finish_well(&mut self, id: TaskId, seen: Option<FileIdentity>) {
        let Some(attempt) = self.run.take(id) else { return };
        self.finish_action(id, &attempt, ActionOutcome::Ok, &attempt.details.message, seen);
    }

    /// The target of an attempt cannot be moved to where it belongs.
    pub(super) fn finish_not_staged(&mut self, id: TaskId, why: &str) {
        let Some(attempt) = self.run.take(id) else { return };
        self.finish_action(id, &attempt, ActionOutcome::Failed, why.as_bytes(), None);
    }
}

impl Staging {
    /// The state of a task's file that counts, as far as it is known.
    pub(super) fn version(&self, id: TaskId) -> Option<FileVersion> {
        self.stager.ledger().state(id).map(|state| state.version)
    }
}
