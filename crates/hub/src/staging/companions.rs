//! Companions: what the commands of an action have written beside its target, and goes where that goes (docs/design/staging.md).
//!
//! Which files are told of is the agent's rule (by folder, name and time); here is decided whose they are.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rakuda_agent::beside::{BESIDE_MAX, is_of_word};
use rakuda_agent::files::version_of;
use rakuda_core::{NodeId, TaskId, TaskKind};
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::ActionOutcome;

use super::ledger::{Companion, State};
use super::relay::{Place, relay};
use super::targets::Coming;
use super::transfers::{Kind, Moved};
use super::{Staging, targets::version_in};
use crate::hub::{Hub, LOCAL_NODE, RunningAttempt};

impl Hub {
    /// Whether what is written beside a task's target may go with it.
    pub(crate) fn is_staged_target(&self, id: TaskId) -> bool {
        let is_file = self.scheduler.task(id).is_some_and(|task| task.kind == TaskKind::File);
        self.staging.is_some() && is_file && self.is_staged(&self.home_path(id))
    }

    /// There is more beside a target than may go with it.
    pub(crate) fn warn_of_many_beside(&mut self, id: TaskId) {
        self.warn(&format!(
            "more than {BESIDE_MAX} files that its commands have written lie beside {} under names like its own: only the first {BESIDE_MAX} by name go with it to other nodes; give the others tasks, or put them into fewer files",
            self.display_name(id)
        ));
    }

    /// Of what was written beside a task's target, what is its own: no task's file, nor more like another task's, nor another's companion already.
    pub(super) fn claim(
        &mut self,
        id: TaskId,
        node: NodeId,
        version: FileVersion,
        beside: Vec<Companion>,
    ) -> State {
        let target = self.home_path(id);
        let Some(staging) = &mut self.staging else {
            return State { version, companions: Rc::default() };
        };
        // A target that the action has not touched has those that it had.
        let before = staging.ledger.state(id).filter(|before| before.version == version);
        let before = before.filter(|_| staging.ledger.has(id, node));
        let mut companions: Vec<Companion> =
            before.map(|before| before.companions.to_vec()).unwrap_or_default();
        for (name, version) in beside {
            let path = target.with_file_name(name.as_os_str());
            let owner = staging.beside.get(&path).copied().filter(|owner| *owner != id);
            let owned = |owner: &TaskId| {
                let state = staging.ledger.state(*owner);
                state.is_some_and(|state| state.companions.contains(&(name.clone(), version)))
            };
            if !staging.is_most_like(&path, &target) || owner.as_ref().is_some_and(owned) {
                continue;
            }
            if let Some(owner) = owner {
                staging.ledger.drop_companion(owner, &name);
            }
            staging.beside.insert(path, id);
            companions.retain(|(other, _)| *other != name);
            companions.push((name, version));
        }
        companions.sort_unstable();
        State { version, companions: companions.into() }
    }

    /// Whether a file that is here in this state lacks what goes with it.
    pub(super) fn is_alone_here(&self, id: TaskId, state: &State) -> bool {
        let target = self.home_path(id);
        let mut companions = state.companions.iter();
        companions.any(|(name, version)| {
            version_of(&target.with_file_name(name.as_os_str())) != Some(*version)
        })
    }

    /// Whether a task's file, if it is here, lacks what is known to go with it: then it does not count as here.
    pub(crate) fn lacks_companions_here(&self, id: TaskId) -> bool {
        let Some(staging) = &self.staging else { return false };
        let known = staging.ledger.state(id).filter(|state| !state.companions.is_empty());
        let known = known.or_else(|| staging.memory.state(self.names.name(id)));
        known.is_some_and(|state| {
            version_of(&self.home_path(id)) == Some(state.version) && self.is_alone_here(id, &state)
        })
    }

    /// Where a file is found that belongs to another task, as its target with companions or as a companion, and is not here.
    pub(super) fn held_elsewhere(&self, path: &Path, task: TaskId) -> Option<NodeId> {
        let staging = self.staging.as_ref()?;
        let owner = staging.owner_of(path).filter(|owner| *owner != task)?;
        if staging.ledger.is_home(owner, LOCAL_NODE) {
            return None;
        }
        let mut nodes = staging.ledger.nodes_with(owner);
        nodes.retain(|node| *node != LOCAL_NODE);
        let near = nodes.iter().find(|node| self.is_within_reach(**node));
        near.or(nodes.first()).copied()
    }

    /// Ruby code has made the target here, and commands have written beside it on their node: the target goes there, and its task is settled then.
    pub(super) fn follow(&mut self, id: TaskId, attempt: RunningAttempt, coming: Followed) {
        let node = attempt.node;
        let here = self.home_path(id);
        let place = |node| Place { node, path: self.path_on(node, &here) };
        let (from, to) = (place(LOCAL_NODE), place(node));
        let Some(staging) = &mut self.staging else { return };
        let moving = relay(Rc::clone(&staging.hosts), from, to, coming.state.version);
        let number = attempt.attempt;
        let reports = staging.reports.clone();
        tokio::task::spawn_local(async move {
            let result = moving.await;
            let _ = reports.send(Moved(Kind::Followed { id, number, result }));
        });
        let attempt = Box::new(attempt);
        staging.comings.insert(id, Coming::Followed { attempt, followed: coming });
    }

    /// It is there, or cannot be.
    pub(super) fn on_followed(&mut self, id: TaskId, number: u32, result: Result<(), String>) {
        let Some(staging) = &mut self.staging else { return };
        let (attempt, followed) = match staging.comings.remove(&id) {
            Some(Coming::Followed { attempt, followed }) if attempt.attempt == number => {
                (attempt, followed)
            }
            Some(other) => {
                // The report of an attempt that was lost meanwhile.
                staging.comings.insert(id, other);
                return;
            }
            None => return,
        };
        if let Err(why) = result {
            let name = self.display_name(id);
            let why = format!(
                "cannot bring {name} to {}: failed to {why}",
                self.staging_name(attempt.node)
            );
            self.finish_action(id, &attempt, ActionOutcome::Failed, why.as_bytes(), None);
            self.release_endings();
            return;
        }
        let Followed { message, seen, state } = followed;
        debug_assert_eq!(version_in(&seen), state.version);
        self.settle_made(id, *attempt, message, seen, &state);
    }
}

/// A target on its way to its companions.
#[derive(Debug)]
pub(super) struct Followed {
    /// Of the action.
    pub message: Vec<u8>,
    /// The target here.
    pub seen: rakuda_proto::journal::FileIdentity,
    pub state: State,
}

impl Staging {
    /// The task whose target or companion a file of this machine's name is.
    pub(super) fn owner_of(&self, path: &Path) -> Option<TaskId> {
        let task = self.by_path.get(path.as_os_str().as_bytes()).copied();
        task.or_else(|| {
            let owner = *self.beside.get(path)?;
            let state = self.ledger.state(owner)?;
            let mut names = state.companions.iter().map(|(name, _)| name.as_os_str());
            names.any(|name| Some(name) == path.file_name()).then_some(owner)
        })
    }

    /// Whether of all tasks' files whose companion `path` may be by its name none has a name that begins more like it than `target` has;
    /// and it is no task's file itself.
    fn is_most_like(&self, path: &Path, target: &Path) -> bool {
        let (Some(folder), Some(name), Some(own)) =
            (path.parent(), path.file_name(), target.file_name())
        else {
            return false;
        };
        let folder = [folder.as_os_str().as_bytes(), b"/"].concat();
        let (name, own) = (name.as_bytes(), common(own.as_bytes(), name.as_bytes()));
        let is_task = self.by_path.contains_key(path.as_os_str().as_bytes());
        !is_task && stems(name).all(|stem| self.likeness(&folder, stem, name) <= own)
    }

    /// How much of a name those tasks' files of a folder have in common with it that begin with `stem` up to their first dot; 0: none.
    fn likeness(&self, folder: &[u8], stem: &[u8], name: &[u8]) -> usize {
        let whole = [folder, stem].concat();
        let from = [&whole[..], b"."].concat();
        let is_beside = |path: &&Vec<u8>| !path[folder.len()..].contains(&b'/');
        let rivals = |from: &[u8]| self.by_path.range(from.to_vec()..).map(|(path, _)| path);
        let of_stem = |path: &&Vec<u8>| path.starts_with(&from);
        let own = [folder, name].concat();
        if !own.starts_with(&from) {
            let is_there = rivals(&from).take_while(of_stem).any(|path| is_beside(&path));
            let is_there = is_there || self.by_path.contains_key(&whole);
            return if is_there { stem.len() } else { 0 };
        }
        // In sorted order nobody is more like it than its neighbours; thousands may have one stem.
        let before = self.by_path.range(from.clone()..own.clone()).map(|(path, _)| path);
        let before = before.rev().find(is_beside);
        let after = rivals(&own).take_while(of_stem).find(is_beside);
        let neighbours = before.into_iter().chain(after);
        let likeness = neighbours.map(|path| common(&path[folder.len()..], name)).max();
        let exact = self.by_path.contains_key(&whole).then_some(stem.len());
        likeness.max(exact).unwrap_or(0)
    }
}

/// How many bytes two names begin with in common.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// What targets may begin with, up to their first dot, whose companion has this name.
fn stems(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let dot = name.iter().skip(1).position(|byte| *byte == b'.').map_or(name.len(), |dot| dot + 1);
    let ends = (1..=dot).filter(|end| name.get(*end).is_none_or(|byte| !is_of_word(*byte)));
    ends.map(|end| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_proto::front::StagingSettings;

    #[test]
    fn a_file_is_the_companion_of_the_target_whose_name_is_most_like_its_own() {
        let mut staging = Staging::new(StagingSettings::default(), None);
        let targets = [
            "a.fits",
            "a_1.fits",
            "b",
            "d.1.2.plane",
            "d.1.3.plane",
            "d.1.30.plane",
            "sub/a_area.x",
        ];
        for (number, name) in (0..).zip(targets) {
            staging.by_path.insert(format!("/run/{name}").into_bytes(), TaskId(number));
        }
        for (name, owner) in [
            ("a_area.fits", "a.fits"),
            ("a.hdr", "a.fits"),
            ("a_1_area.fits", "a_1.fits"),
            ("b.log", "b"),
            ("b_log", "b"),
            ("d.1.2_area.fits", "d.1.2.plane"),
            ("d.1.3.fits", "d.1.3.plane"),
            ("d.1.30.fits", "d.1.30.plane"),
            ("sub/a_area_2", "sub/a_area.x"),
        ] {
            let path = format!("/run/{name}");
            let is_of = |target: &&str| {
                let target = format!("/run/{target}");
                let (target, path) = (Path::new(&target), Path::new(&path));
                let (own, other) = (target.file_name().unwrap(), path.file_name().unwrap());
                let beside = target.parent() == path.parent();
                beside
                    && rakuda_agent::beside::begins_as(own, other)
                    && staging.is_most_like(path, target)
            };
            let owners: Vec<&str> = targets.into_iter().filter(is_of).collect();
            assert_eq!(owners, [owner], "of {name}");
        }
        let own = Path::new("/run/a.fits");
        assert!(!staging.is_most_like(Path::new("/run/a_1.fits"), own), "it is a task's own file");
    }
}
