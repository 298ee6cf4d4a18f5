//! The owner of all that decides which files go along: declarations, the names of tasks' files, and which target owns
//! what was written beside it.
//!
//! Where files are, and in which state, the callers know.

use super::names::{begins_as, common, folder_and_name, is_below, relative, stems};
use super::pattern::Matching;
use crate::ids::TaskId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What `needs` says of the files of some tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// What their commands write besides the target; `None`: it is guessed.
    pub outputs: Option<Vec<Vec<u8>>>,
    /// What their commands read besides the prerequisites; `None`: it is guessed.
    pub inputs: Option<Vec<Vec<u8>>>,
    /// `FILE:LINE` of the statement.
    pub place: Vec<u8>,
}

/// What to look for after an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// Files in the target's folder that are named like it, and were written since the first command.
    LikeTarget,
    /// Files that a pattern of the declaration names.
    Matching {
        /// The pattern, as it was declared.
        pattern: Vec<u8>,
        /// What it means.
        files: Matching,
    },
}

/// What a name in a command turned out to be, on the machine of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is no such file.
    Nothing,
    /// A folder.
    Folder,
    /// A file.
    File,
}

/// What a command needs on its node besides the prerequisites of its task.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Undeclared {
    /// Files of tasks, with their secondary files.
    pub tasks: BTreeSet<TaskId>,
    /// Files of this machine that are no task's.
    pub files: Vec<Vec<u8>>,
    /// Folders, as far as they are there.
    pub folders: BTreeSet<Vec<u8>>,
}

/// A file that goes with a target: what the target's folder calls it, and its state.
pub type Kept<V> = (Vec<u8>, V);

/// What goes with a target from now on.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim<V> {
    /// The files, by name.
    pub files: Vec<Kept<V>>,
    /// What other targets lose by this claim.
    pub taken: Vec<(TaskId, Vec<u8>)>,
}

/// Which files go along with commands and targets, for one run.
#[derive(Debug)]
pub struct FilePolicy {
    /// The run's folder, absolute.
    root: Vec<u8>,
    guesses: bool,
    /// The declarations, by number less one.
    declared: Vec<Declaration>,
    /// The number of the declaration of each task that has one.
    declared_by: BTreeMap<TaskId, u32>,
    /// Tasks by the names of their files.
    by_path: BTreeMap<Vec<u8>, TaskId>,
    /// Tasks by the names of their secondary files. Some may be out of date; the keeper of their states knows.
    secondary: BTreeMap<Vec<u8>, TaskId>,
}

impl FilePolicy {
    /// Makes a policy for the run's folder. `guesses`: whether files of tasks that declare nothing are guessed.
    pub fn new(root: &[u8], guesses: bool) -> Self {
        let root = super::absolute(b"/", root);
        let (by_path, secondary) = (BTreeMap::new(), BTreeMap::new());
        let (declared, declared_by) = (Vec::new(), BTreeMap::new());
        Self { root, guesses, declared, declared_by, by_path, secondary }
    }

    /// The next declaration. Numbers count from 1, and are the front's.
    pub fn declare(&mut self, declaration: Declaration) {
        self.declared.push(declaration);
    }

    /// Number of declarations.
    pub fn declarations(&self) -> usize {
        self.declared.len()
    }

    /// Gives a task its declaration; 0: it has none.
    pub fn add_task(&mut self, id: TaskId, declaration: u32) {
        if declaration > 0 {
            self.declared_by.insert(id, declaration);
        }
    }

    /// The declaration of a task.
    pub fn declaration(&self, id: TaskId) -> Option<&Declaration> {
        let index = (*self.declared_by.get(&id)? as usize).checked_sub(1)?;
        self.declared.get(index)
    }

    /// A task's file has this name.
    pub fn name_task(&mut self, id: TaskId, path: Vec<u8>) {
        self.by_path.insert(path, id);
    }

    /// The task whose file has this name.
    pub fn task_at(&self, path: &[u8]) -> Option<TaskId> {
        self.by_path.get(path).copied()
    }

    /// Tasks whose files lie below a folder. None when `target` lies there, too: then the command names the folder only
    /// because it must exist.
    pub fn tasks_below(&self, folder: &[u8], target: &[u8]) -> impl Iterator<Item = TaskId> {
        let named = target != folder && !is_below(target, folder);
        let from = named.then(|| [folder, b"/"].concat());
        from.into_iter().flat_map(|from| {
            let below = self.by_path.range(from.clone()..);
            below.take_while(move |(path, _)| path.starts_with(&from)).map(|(_, id)| *id)
        })
    }

    /// The task whose file, or whose secondary file, has this name; `keeps` says whether a task
    /// still has such a secondary file.
    pub fn owner_of(
        &self,
        path: &[u8],
        keeps: impl FnOnce(TaskId, &[u8]) -> bool,
    ) -> Option<TaskId> {
        self.task_at(path)
            .or_else(|| self.secondary.get(path).copied().filter(|owner| keeps(*owner, path)))
    }

    /// Whether something is to be looked for after an action of a task that guesses nothing.
    pub fn declares_outputs(&self, id: TaskId) -> bool {
        let outputs = self.declaration(id).and_then(|declared| declared.outputs.as_ref());
        outputs.is_some_and(|patterns| !patterns.is_empty())
    }

    /// Whether what is written beside the target of a task is guessed.
    pub fn guesses_outputs(&self, id: TaskId) -> bool {
        let outputs = self.declaration(id).map(|declared| declared.outputs.is_some());
        !outputs.unwrap_or(false) && self.guesses
    }

    fn guesses_inputs(&self, id: TaskId) -> bool {
        let inputs = self.declaration(id).map(|declared| declared.inputs.is_some());
        !inputs.unwrap_or(false) && self.guesses
    }

    /// What to look for after an action of this task; `guess`: whether there is anything to guess with.
    pub fn searches(&self, id: TaskId, target: &[u8], guess: bool) -> Vec<Search> {
        let outputs = self.declaration(id).and_then(|declared| declared.outputs.as_ref());
        let Some(patterns) = outputs else {
            let guess = guess && self.guesses_outputs(id);
            return guess.then_some(Search::LikeTarget).into_iter().collect();
        };
        let mut searches = Vec::new();
        for pattern in patterns {
            let meant = Matching::of(pattern, &self.root, core::iter::once(target));
            let search = |files| Search::Matching { pattern: pattern.clone(), files };
            searches.extend(meant.into_iter().map(search));
        }
        searches
    }

    /// What a task declares to read, beside these prerequisites.
    pub fn inputs<'a>(
        &'a self,
        id: TaskId,
        prerequisites: &'a [Vec<u8>],
    ) -> impl Iterator<Item = (&'a [u8], Vec<Matching>)> {
        let inputs = self.declaration(id).and_then(|declared| declared.inputs.as_deref());
        inputs.unwrap_or_default().iter().map(|pattern| {
            let anchors = prerequisites.iter().map(Vec::as_slice);
            (pattern.as_slice(), Matching::of(pattern, &self.root, anchors))
        })
    }

    /// Tasks whose file, or whose secondary file, is among these, as far as they are known to have them.
    pub fn owners(
        &self,
        files: &Matching,
        keeps: impl Fn(TaskId, &[u8]) -> bool,
    ) -> BTreeSet<TaskId> {
        let from = [&files.folder[..], b"/", &files.prefix].concat();
        let named = |(path, id): (&Vec<u8>, &TaskId)| {
            let (folder, name) = folder_and_name(path);
            (folder == files.folder && files.has(name) && keeps(*id, path)).then_some(*id)
        };
        let of = |known: &BTreeMap<Vec<u8>, TaskId>| -> Vec<TaskId> {
            let range = known.range(from.clone()..).take_while(|(path, _)| path.starts_with(&from));
            range.filter_map(named).collect()
        };
        of(&self.by_path).into_iter().chain(of(&self.secondary)).collect()
    }

    /// Which of the names in a command of this task are to be looked at.
    pub fn names_to_look_at(&self, id: TaskId, mut names: BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
        names.retain(|path| self.guesses_inputs(id) && is_below(path, &self.root));
        names
    }

    /// What of these names a command needs on its node, now that they have been looked at; `keeps`
    /// as for `owner_of`, of all files.
    pub fn undeclared(
        &self,
        id: TaskId,
        target: &[u8],
        names: &[(Vec<u8>, Seen)],
        keeps: impl Fn(TaskId, &[u8]) -> bool,
    ) -> Undeclared {
        let mut needed = Undeclared::default();
        for (path, seen) in names {
            needed.folders.insert(folder_and_name(path).0.to_vec());
            if path == target {
                continue;
            }
            needed.tasks.extend(self.tasks_below(path, target));
            if *seen == Seen::Folder {
                needed.folders.insert(path.clone());
                continue;
            }
            let owner = self.owner_of(path, &keeps).filter(|owner| *owner != id);
            match owner.filter(|owner| keeps(*owner, path)) {
                Some(owner) => drop(needed.tasks.insert(owner)),
                None if *seen == Seen::File => needed.files.push(path.clone()),
                None => {}
            }
        }
        needed
    }

    /// Of what was found beside a target, what is its own: no task's file, nor another's in this
    /// state already, nor, when it was guessed, more like another target. `kept`: what it had
    /// before, and has still. `has`: whether a task has a secondary file in this state.
    pub fn claim<V: Copy + Ord>(
        &mut self,
        id: TaskId,
        target: &[u8],
        kept: Vec<Kept<V>>,
        found: Vec<(Vec<u8>, V)>,
        has: impl Fn(TaskId, &[u8], V) -> bool,
    ) -> Claim<V> {
        let (folder, _) = folder_and_name(target);
        let declared = self.declares_outputs(id);
        let mut files: BTreeMap<Vec<u8>, V> = kept.into_iter().collect();
        let mut taken = Vec::new();
        for (path, state) in found {
            let owner = self.secondary.get(&path).copied().filter(|owner| *owner != id);
            let is_own = path != target && !self.by_path.contains_key(&path);
            // A declaration outweighs a guess, and what was there first another declaration.
            let yields = |owner: TaskId| !declared || self.declares_outputs(owner);
            let is_others = owner.is_some_and(|one| yields(one) && has(one, &path, state));
            if !is_own || is_others || !declared && !self.is_most_like(&path, target) {
                continue;
            }
            taken.extend(owner.map(|owner| (owner, path.clone())));
            files.insert(relative(folder, &path), state);
            self.secondary.insert(path, id);
        }
        Claim { files: files.into_iter().collect(), taken }
    }

    /// These were a task's secondary files before.
    pub fn know_secondary(&mut self, id: TaskId, paths: impl Iterator<Item = Vec<u8>>) {
        self.secondary.extend(paths.map(|path| (path, id)));
    }

    /// Whether of all tasks' files whose secondary file `path` may be by its name none has a name
    /// that begins more like it than `target` has.
    pub(super) fn is_most_like(&self, path: &[u8], target: &[u8]) -> bool {
        let ((folder, name), (_, own)) = (folder_and_name(path), folder_and_name(target));
        let folder = [folder, b"/"].concat();
        let most = common(own, name);
        begins_as(own, name) && stems(name).all(|stem| self.likeness(&folder, stem, name) <= most)
    }

    /// How much of a name those tasks' files of a folder have in common with it that begin with
    /// `stem` up to their first dot; 0: none.
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
        // In sorted order its neighbours are most like it; thousands may have one stem.
        let before = self.by_path.range(from.clone()..own.clone()).map(|(path, _)| path);
        let before = before.rev().find(is_beside);
        let after = rivals(&own).take_while(of_stem).find(is_beside);
        let neighbours = before.into_iter().chain(after);
        let likeness = neighbours.map(|path| common(&path[folder.len()..], name)).max();
        let exact = self.by_path.contains_key(&whole).then_some(stem.len());
        likeness.max(exact).unwrap_or(0)
    }
}
