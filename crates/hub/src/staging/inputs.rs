//! The inputs of an attempt, staged in to its node before its first command starts.
//!
//! It begins with the first command, not with the action: what an action does in Ruby alone happens
//! on this machine, and stages nothing in.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rakuda_agent::files::version_of;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::{MATCHES_MAX, Search};
use rakuda_core::stager::{JoinedSet, StagerInput};
use rakuda_core::{NodeId, TaskId, TaskKind, TaskState};
use rakuda_proto::Text;
use rakuda_proto::cluster::ToAgent;

use crate::attempts::state::RunningAttempt;
use crate::hub::Hub;

/// What an attempt needs on its node.
#[derive(Debug, Default)]
struct Needs {
    files: Vec<TaskId>,
    folders: Vec<Text>,
}

/// What an input turned out to be.
#[derive(Debug, PartialEq, Eq)]
enum Added {
    Nothing,
    File,
    Folder,
}

impl Hub {
    /// The first command of an attempt is about to start: its inputs are to be on its node.
    pub(crate) fn stage_inputs(&mut self, id: TaskId) {
        let Some(attempt) = self.run.attempts().acting(id) else { return };
        let (node, number) = (attempt.node(), attempt.number());
        match self.needs(id, node) {
            Ok(Needs { files, folders }) => {
                self.make_folders(node, folders);
                let reads = self.runs_command(id);
                let (beside, joined) = (self.read_beside(id, node), self.joined_to(id));
                self.stage(StagerInput::InputsWanted {
                    id,
                    attempt: number,
                    node,
                    files,
                    reads,
                    beside,
                    joined,
                });
            }
            Err(why) => self.give_inputs_up(id, number, node, why),
        }
    }

    /// What is read there by tasks that streams join to this one. They hear what is wrong with theirs when they ask.
    fn read_beside(&mut self, id: TaskId, node: NodeId) -> Vec<TaskId> {
        let mut files = Vec::new();
        for peer in self.joined_there(id, node) {
            files.extend(self.needs(peer, node).unwrap_or_default().files);
        }
        files
    }

    /// Tasks on a node that streams join to this one: none ends before all have begun.
    pub(super) fn joined_there(&self, id: TaskId, node: NodeId) -> Vec<TaskId> {
        if self.streams.ends_of(id).is_none() {
            return Vec::new();
        }
        let gang = self.run.scheduler().gang_of(id).map_or(&[][..], |gang| gang.tasks);
        let acts_there = |peer: &TaskId| {
            let attempt = self.run.attempts().acting(*peer);
            *peer != id && attempt.is_some_and(|attempt: &RunningAttempt| attempt.node() == node)
        };
        gang.iter().copied().filter(acts_there).collect()
    }

    /// Tasks on all nodes that streams join to this one and that have not ended. None over spools: there a task reads
    /// what others have left.
    fn joined_to(&self, id: TaskId) -> Option<JoinedSet> {
        let (opening, _) = self.streams.ends_of(id)?;
        let scheduler = self.run.scheduler();
        let gang = scheduler.gang_of(id)?;
        let runs = |task: &TaskId| {
            let is_open = self.streams.ends_of(*task).is_some_and(|(its, _)| its == opening);
            let state = scheduler.task(*task).map(|task| task.state);
            is_open && matches!(state, Some(TaskState::Running { .. }))
        };
        let tasks = gang.tasks.iter().copied().filter(runs).collect();
        Some(JoinedSet { gang: gang.id, tasks })
    }

    fn runs_command(&self, id: TaskId) -> bool {
        self.commands.values().any(|command| command.task == Some(id))
    }

    /// A command of an attempt has ended: another one that waits for room keeps none.
    pub(crate) fn note_read(&mut self, id: TaskId) {
        if self.staging.is_none() || self.runs_command(id) {
            return;
        }
        if let Some(node) = self.run.attempts().acting(id).map(RunningAttempt::node) {
            self.stage(StagerInput::ReadsNoMore { id, node });
        }
    }

    /// The files that a task reads, also those behind plain tasks and in folders, and the folders
    /// that have to be there.
    fn needs(&mut self, id: TaskId, node: NodeId) -> Result<Needs, String> {
        let mut needs = Needs::default();
        let target = self.home_path(id);
        if self.names.is_path(id)
            && let Some(folder) = target.parent()
        {
            self.add_folder(&mut needs, node, folder);
        }
        let mut walk: Vec<TaskId> = self.run.scheduler().inputs(id).collect();
        let undeclared =
            self.staging.as_ref().and_then(|staging| staging.undeclared_inputs.get(&id));
        walk.extend(undeclared.into_iter().flatten());
        let mut seen = BTreeSet::new();
        while let Some(input) = walk.pop() {
            if !seen.insert(input) {
                continue;
            }
            match self.run.scheduler().task(input).map(|task| task.kind) {
                Some(TaskKind::Plain) => walk.extend(self.run.scheduler().inputs(input)),
                Some(TaskKind::Directory) => {
                    let folder = self.home_path(input);
                    self.add_folder(&mut needs, node, &folder);
                    walk.extend(self.files_below(&folder, &target));
                }
                Some(TaskKind::File | TaskKind::Asked) => {
                    let added = self.add_file(&mut needs, node, input)?;
                    let folder = (added == Added::Folder).then(|| self.home_path(input));
                    walk.extend(folder.iter().flat_map(|at| self.files_below(at, &target)));
                }
                None => {}
            }
        }
        self.add_declared(&mut needs, id, node)?;
        Ok(needs)
    }

    /// What `needs inputs:` of a task names: files of tasks, known secondary files, and what lies
    /// in the run's folder here.
    fn add_declared(&mut self, needs: &mut Needs, id: TaskId, node: NodeId) -> Result<(), String> {
        let path_of = |file: &TaskId| self.home_path(*file).into_os_string().into_encoded_bytes();
        let anchors: Vec<Vec<u8>> = needs.files.iter().map(path_of).collect();
        let declared: Vec<_> = self.files.inputs(id, &anchors).collect();
        let declared: Vec<_> =
            declared.into_iter().map(|(text, all)| (text.to_vec(), all)).collect();
        for (pattern, all) in declared {
            let mut is_there = false;
            for files in all {
                let owners = self.files.owners(&files, |owner, path| self.keeps(owner, path));
                is_there |= !owners.is_empty();
                let others = owners.into_iter().filter(|owner| *owner != id);
                needs.files.extend(others);
                let folder = files.folder.clone();
                let search = Search::Matching { pattern: pattern.clone(), files };
                let (found, more) = self.search_here(Path::new("/"), &search);
                if more {
                    return Err(self.undue(
                        id,
                        &pattern,
                        &format!("more than {MATCHES_MAX} files match"),
                        "choose a narrower pattern",
                    ));
                }
                for (Text(name), _) in found {
                    is_there = true;
                    let path = [&folder[..], b"/", &name].concat();
                    let keeps = |owner, path: &[u8]| self.keeps(owner, path);
                    if self.files.owner_of(&path, keeps).is_none() {
                        self.send_to(id, node, &path);
                    }
                }
            }
            if !is_there {
                let hint = "correct it, or let a prerequisite make the file";
                return Err(self.undue(id, &pattern, "no file matches", hint));
            }
        }
        needs.files.sort_unstable();
        needs.files.dedup();
        Ok(())
    }

    /// What is wrong with a pattern of `needs inputs:`, and what to do.
    fn undue(&self, id: TaskId, pattern: &[u8], wrong: &str, hint: &str) -> String {
        let (pattern, place) = (String::from_utf8_lossy(pattern), self.needs_place(id));
        format!(
            "cannot stage in what {} reads: {wrong} {pattern:?} (inputs, {place}); {hint}",
            self.display_name(id)
        )
    }

    fn add_folder(&self, needs: &mut Needs, node: NodeId, folder: &Path) {
        if self.is_staged(folder) {
            needs.folders.push(self.path_on(node, folder));
        }
    }

    /// The files of tasks below a folder, as far as they have been made. None when `target` lies
    /// there, too: then the folder is named because it has to be there.
    fn files_below(&self, folder: &Path, target: &Path) -> Vec<TaskId> {
        let Some(staging) = &self.staging else { return Vec::new() };
        let (folder, target) = (folder.as_os_str().as_bytes(), target.as_os_str().as_bytes());
        let is_file = |id: &TaskId| {
            let kind = self.run.scheduler().task(*id).map(|task| task.kind);
            kind != Some(TaskKind::Directory) && staging.stager.ledger().state(*id).is_some()
        };
        self.files.tasks_below(folder, target).filter(is_file).collect()
    }

    fn add_file(
        &mut self,
        needs: &mut Needs,
        node: NodeId,
        input: TaskId,
    ) -> Result<Added, String> {
        let here = self.home_path(input);
        if !self.is_staged(&here) {
            let name = self.names.name(input);
            if name.starts_with(b"/") {
                return Ok(Added::Nothing);
            }
            return Err(format!(
                "cannot copy {} to {}: it lies outside of the run's folder {}; put it there, or give its whole name and have it on all nodes",
                self.display_name(input),
                self.staging_name(node),
                self.start_directory.display()
            ));
        }
        let Some(staging) = &mut self.staging else { return Ok(Added::Nothing) };
        let at_home = staging.stager.ledger().stays_on(input, LOCAL_NODE);
        if staging.stager.ledger().state(input).is_some() && !at_home {
            needs.files.push(input);
            return Ok(Added::File);
        }
        // Ruby code may have changed it since it was looked at.
        let found = std::fs::metadata(&here).ok();
        if found.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            self.add_folder(needs, node, &here);
            return Ok(Added::Folder);
        }
        let Some(version) = version_of(&here) else { return Ok(Added::Nothing) };
        self.settle_file(input, LOCAL_NODE, version);
        needs.files.push(input);
        Ok(Added::File)
    }

    /// Has folders made that are not known to be there. What is asked of the agent next comes after that.
    pub(super) fn make_folders(&mut self, node: NodeId, folders: Vec<Text>) {
        let Some(staging) = self.staging.as_mut().filter(|_| node != LOCAL_NODE) else { return };
        let made = staging.folders.entry(node).or_default();
        let paths: Vec<Text> =
            folders.into_iter().filter(|folder| made.insert(folder.0.clone())).collect();
        if !paths.is_empty() {
            self.agents.node(node).port.ask(ToAgent::MakeFolders { paths });
        }
    }

    /// An attempt reads nothing for now: others may have the room.
    pub(crate) fn leave_room(&mut self, id: TaskId) {
        if let Some(node) = self.run.attempts().acting(id).map(RunningAttempt::node) {
            self.stage(StagerInput::Released { id, node });
        }
    }

    /// An attempt has stopped reading: others may have the room.
    pub(crate) fn release_inputs(&mut self, id: TaskId, node: NodeId) {
        self.forget_written(id);
        self.stage(StagerInput::Released { id, node });
    }

    /// The inputs of a command cannot all be staged in. What another command of the attempt reads stays.
    pub(super) fn give_inputs_up(&mut self, id: TaskId, attempt: u32, node: NodeId, why: String) {
        self.forget_written(id);
        let reads = self.runs_command(id);
        self.stage(StagerInput::Refused { id, node, reads });
        self.on_inputs_seen(id, attempt, Some(Text::from(why)));
    }

    /// What was to be staged in for an attempt, and has not been, no longer is.
    pub(super) fn forget_written(&mut self, id: TaskId) {
        let Some(staging) = &mut self.staging else { return };
        staging.written.remove(&id);
        staging.undeclared_inputs.remove(&id);
    }
}
