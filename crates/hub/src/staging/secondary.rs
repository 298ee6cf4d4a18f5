//! The books of secondary files: what goes with a target, and goes where that goes (docs/design/staging.md).
//!
//! Whose a file is that was found beside a target, `rakuda_core::files` decides.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rakuda_agent::files::version_of;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::absolute;
use rakuda_core::{Input, NodeId, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;

use super::COPY_HINT;
use super::paths::{beside, named};
use super::relay::{FileOnNode, Part, relay};
use super::state::State;
use super::state::version_in;
use super::under_way::{Destination, Followed, Kind, Moved};
use crate::hub::Hub;
use crate::secondary::Files;

impl Hub {
    /// Whether what is written beside a task's target may go with it.
    pub(crate) fn is_staged_target(&self, id: TaskId) -> bool {
        let is_file = self.run.scheduler().task(id).is_some_and(|task| task.kind == TaskKind::File);
        self.staging.is_some() && is_file && self.is_staged(&self.home_path(id))
    }

    /// The state of a task's file with what of these files is its own.
    pub(super) fn claim(
        &mut self,
        id: TaskId,
        node: NodeId,
        version: FileVersion,
        found: Files,
    ) -> State {
        let target = self.home_path(id);
        let Some(staging) = &mut self.staging else {
            return State { version, secondary: Rc::default() };
        };
        // A target that the action has not touched has those that it had. What is declared is there, or is none.
        let ledger = staging.stager.ledger();
        let before = ledger.state(id).filter(|before| before.version == version);
        let before = before.filter(|_| ledger.has(id, node));
        let before = before.filter(|_| !self.files.declares_outputs(id));
        let before = before.map(|before| before.secondary.to_vec()).unwrap_or_default();
        let kept = before.into_iter().map(|(Text(name), version)| (name, version)).collect();
        let (directory, names) = (&self.settings.directory, &self.names);
        let is_at = |owner: TaskId, name: &Text, path: &[u8]| {
            beside(&named(directory, names.name(owner)), name).as_os_str().as_bytes() == path
        };
        let has = |owner: TaskId, path: &[u8], version: FileVersion| {
            ledger.state(owner).is_some_and(|state| {
                let mut files = state.secondary.iter();
                files.any(|(name, is)| *is == version && is_at(owner, name, path))
            })
        };
        let found = found.into_iter().collect();
        let claim = self.files.claim(id, target.as_os_str().as_bytes(), kept, found, has);
        for (owner, path) in claim.taken {
            let Some(before) = staging.stager.ledger().state(owner) else { continue };
            let rest = before.secondary.iter().filter(|(name, _)| !is_at(owner, name, &path));
            let state = State { version: before.version, secondary: rest.cloned().collect() };
            staging.stager.restate(owner, &state);
        }
        let files = claim.files.into_iter().map(|(name, version)| (Text(name), version));
        let state = State { version, secondary: files.collect() };
        let folder = target.parent().unwrap_or(&target).as_os_str().as_bytes();
        let all = state.secondary.iter();
        self.note_secondary(id, &all.map(|(name, is)| (absolute(folder, &name.0), *is)).collect());
        state
    }

    /// Whether a task still has this file, as its own or as a secondary one.
    pub(super) fn keeps(&self, id: TaskId, path: &[u8]) -> bool {
        let state = self.staging.as_ref().and_then(|staging| staging.stager.ledger().state(id));
        let is_file =
            self.run.scheduler().task(id).is_some_and(|task| task.kind != TaskKind::Directory);
        is_file
            && state.is_some_and(|state| {
                let target = self.home_path(id);
                let is = |name: &Text| beside(&target, name).as_os_str().as_bytes() == path;
                target.as_os_str().as_bytes() == path
                    || state.secondary.iter().any(|(name, _)| is(name))
            })
    }

    /// Whether a file that is here in this state lacks what goes with it.
    pub(super) fn is_alone_here(&self, id: TaskId, state: &State) -> bool {
        let target = self.home_path(id);
        let mut secondary = state.secondary.iter();
        secondary.any(|(name, version)| version_of(&beside(&target, name)) != Some(*version))
    }

    /// Whether a task's file, if it is here, lacks what is known to go with it: then it does not count as here.
    pub(crate) fn lacks_secondary_here(&self, id: TaskId) -> bool {
        let Some(staging) = &self.staging else { return false };
        let known = staging.stager.ledger().state(id).cloned();
        let known = known.filter(|state| !state.secondary.is_empty());
        let known = known.or_else(|| staging.memory.state(self.names.name(id)));
        known.is_some_and(|state| {
            version_of(&self.home_path(id)) == Some(state.version) && self.is_alone_here(id, &state)
        })
    }

    /// Where a file is found that belongs to another task, as its target with secondary files or as
    /// one of these, and is not here.
    pub(super) fn held_elsewhere(&self, path: &Path, task: TaskId) -> Option<NodeId> {
        let staging = self.staging.as_ref()?;
        let owner =
            self.files.owner_of(path.as_os_str().as_bytes(), |id, path| self.keeps(id, path));
        let owner = owner.filter(|owner| *owner != task)?;
        let ledger = staging.stager.ledger();
        if ledger.stays_on(owner, LOCAL_NODE) {
            return None;
        }
        let mut nodes = ledger.nodes_with(owner);
        nodes.retain(|node| *node != LOCAL_NODE);
        let near = nodes.iter().find(|node| self.is_within_reach(**node));
        near.or(nodes.first()).copied()
    }

    /// Ruby code has made these of a target and its secondary files here, and commands the others
    /// on their node: these go there, and the task is settled then.
    pub(super) fn follow(&mut self, id: TaskId, whole: Followed, files: Files) {
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let (node, number) = (whole.node, attempt.number());
        let part = |(path, version): (Vec<u8>, FileVersion)| {
            let here = named(Path::new("/"), &path);
            let place = |node| FileOnNode { node, path: self.path_on(node, &here) };
            Part { from: place(LOCAL_NODE), to: place(node), version }
        };
        let parts: Vec<Part> = files.into_iter().map(part).collect();
        let Some(staging) = &mut self.staging else { return };
        let (hosts, reports) = (Rc::clone(&staging.hosts), staging.reports.clone());
        tokio::task::spawn_local(async move {
            let mut result = Ok(());
            for Part { from, to, version } in parts {
                if result.is_ok() {
                    result = relay(Rc::clone(&hosts), from, to, version).await;
                }
            }
            let _ = reports.send(Moved(Kind::Followed { id, number, result }));
        });
        staging.stage_out.follows(id, node, Destination::Followed(whole));
        self.tell(Input::StagingOut { id });
    }

    /// It is there, or cannot be.
    pub(super) fn on_followed(&mut self, id: TaskId, number: u32, result: Result<(), String>) {
        let Some(staging) = &mut self.staging else { return };
        let is_it = self.run.attempts().get(id).is_some_and(|attempt| attempt.number() == number);
        // Else it is the report of an attempt that was lost meanwhile.
        let taken = staging.stage_out.take_made(id, |way| is_it && !way.is_home());
        let Some((_, Destination::Followed(followed))) = taken else { return };
        if let Err(why) = result {
            let name = self.display_name(id);
            let why = format!(
                "cannot copy {name} to {}: failed to {why}; {COPY_HINT}",
                self.staging_name(followed.node)
            );
            self.finish_not_staged(id, &why);
            self.release_endings();
            return;
        }
        let Followed { node, seen, state } = followed;
        debug_assert_eq!(version_in(&seen), state.version);
        self.settle_made(id, node, seen, &state);
    }
}
