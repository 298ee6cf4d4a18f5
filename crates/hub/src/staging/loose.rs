//! Files that Ruby code of an action or the words of a command name, and no task does: brought to this machine when Ruby code looks for them, to
//! the action's node when it has written them or a command names them.
//!
//! Of these nothing is remembered: they belong to one attempt. A file of another task is brought as an input is.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rakuda_agent::files::version_of;
use rakuda_core::{NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::front::{FrontMessage, HubMessage};

use super::hosts::FileHosts;
use super::named::names_in;
use super::relay::{Place, change, look, relay};
use super::transfers::{Kind, Moved};
use super::{inputs::Waiting, normalized};
use crate::error::HubError;
use crate::hub::{Hub, LOCAL_NODE, PendingCommand};
use crate::questions::Sight;

/// What became of a question of the front.
type Outcome = Result<&'static str, String>;

const HERE: &str = "here";
const FILE: &str = "file";
const FOLDER: &str = "folder";
const DONE: &str = "done";
const NOWHERE: &str = "nowhere";

impl Hub {
    /// Ruby code of an action names a file.
    pub(crate) fn on_file_named(&mut self, message: FrontMessage) -> Result<(), HubError> {
        match message {
            FrontMessage::FetchFile(request, task, path) => {
                self.fetch_file(request, self.known(task)?, &path);
            }
            FrontMessage::LookForFile(request, task, path) => {
                self.look_for_file(request, self.known(task)?, &path);
            }
            FrontMessage::ChangeFile(request, task, path, to) => {
                self.change_file(request, self.known(task)?, &path, to);
            }
            FrontMessage::FileWritten(task, path) => self.note_written(self.known(task)?, &path),
            _ => unreachable!("the caller passes on no other message"),
        }
        Ok(())
    }

    /// Ruby code of an action looks for a file.
    fn fetch_file(&mut self, request: u32, task: TaskId, path: &Text) {
        if self.is_pending(task, path) {
            // What the action has written here since its last command is the younger one.
            self.answer_file(request, Ok(HERE));
            return;
        }
        if !self.fetch_of_other(request, task, path) {
            self.ask_own_node(request, task, path, |hosts, there, here| async move {
                fetch(&hosts, there, here).await
            });
        }
    }

    /// It asks whether there is such a file.
    fn look_for_file(&mut self, request: u32, task: TaskId, path: &Text) {
        if self.is_pending(task, path) {
            self.answer_file(request, Ok(HERE));
            return;
        }
        let here = normalized(path.as_path());
        if self.held_elsewhere(&here, task).is_some() {
            self.answer_file(request, Ok(FILE));
            return;
        }
        self.ask_own_node(request, task, path, |hosts, there, _| async move {
            let found = look(&hosts, &there).await?;
            Ok(found.map_or(NOWHERE, |(_, is_folder)| if is_folder { FOLDER } else { FILE }))
        });
    }

    /// It renames a file, or removes it.
    fn change_file(&mut self, request: u32, task: TaskId, path: &Text, to: Option<Text>) {
        if self.is_pending(task, path) {
            self.answer_file(request, Ok(NOWHERE));
            return;
        }
        if self.fetch_of_other(request, task, path) {
            return;
        }
        let node = self.running.get(&task).map_or(LOCAL_NODE, |attempt| attempt.node);
        let to = to.map(|to| self.path_on(node, &normalized(to.as_path())));
        self.ask_own_node(request, task, path, |hosts, there, _| async move {
            let changed = change(&hosts, &there, to).await?;
            Ok(if changed { DONE } else { NOWHERE })
        });
    }

    /// Has a file brought here that belongs to another task and is elsewhere; whether there is such a one.
    fn fetch_of_other(&mut self, request: u32, task: TaskId, path: &Text) -> bool {
        let here = normalized(path.as_path());
        let Some(node) = self.held_elsewhere(&here, task) else { return false };
        let target = self.staging.as_ref().and_then(|staging| {
            let id = staging.by_path.get(here.as_os_str().as_bytes()).copied()?;
            let state = staging.ledger.state(id)?;
            state.companions.is_empty().then_some(id)
        });
        if let Some(id) = target {
            if let Some(staging) = &mut self.staging {
                staging.fetches.entry(id).or_default().push(request);
            }
            self.bring(id, LOCAL_NODE);
            self.pump_transfers();
        } else {
            // Alone: what goes with it would be brought in vain. So it is not in the books.
            self.ask_node(request, node, &here, |hosts, there, here| async move {
                fetch(&hosts, there, here).await
            });
        }
        true
    }

    /// Asks the node of the action's commands with `ask`, if any ran.
    fn ask_own_node<F: Future<Output = Outcome> + 'static>(
        &mut self,
        request: u32,
        task: TaskId,
        path: &Text,
        ask: impl FnOnce(Rc<FileHosts>, Place, Place) -> F,
    ) {
        let here = normalized(path.as_path());
        let ran_there = |attempt: &&crate::hub::RunningAttempt| {
            attempt.node != LOCAL_NODE && !matches!(attempt.sight, Sight::Unstaged)
        };
        let node = self.running.get(&task).filter(ran_there).map(|attempt| attempt.node);
        let Some(node) = node.filter(|_| self.is_staged(&here)) else {
            self.answer_file(request, Ok(NOWHERE));
            return;
        };
        self.ask_node(request, node, &here, ask);
    }

    fn ask_node<F: Future<Output = Outcome> + 'static>(
        &mut self,
        request: u32,
        node: NodeId,
        here: &Path,
        ask: impl FnOnce(Rc<FileHosts>, Place, Place) -> F,
    ) {
        let there = Place { node, path: self.path_on(node, here) };
        let here = Place { node: LOCAL_NODE, path: self.path_on(LOCAL_NODE, here) };
        let Some(staging) = &self.staging else { return };
        let asking = ask(Rc::clone(&staging.hosts), there, here);
        let reports = staging.reports.clone();
        tokio::task::spawn_local(async move {
            let outcome = asking.await;
            let _ = reports.send(Moved(Kind::Found { request, outcome }));
        });
    }

    /// Tells the front what became of a file.
    pub(super) fn answer_file(&mut self, request: u32, outcome: Outcome) {
        let (word, error) = match outcome {
            Ok(word) => (word, None),
            Err(why) => (NOWHERE, Some(Text::from(format!("failed to {why}")))),
        };
        self.link.push(&HubMessage::FileFetched(request, word.to_owned(), error));
        self.flush_urgent = true;
    }

    /// Those who look for a task's file are told.
    pub(super) fn answer_fetches(&mut self, id: TaskId, error: Option<&str>) {
        let fetches = self.staging.as_mut().and_then(|staging| staging.fetches.remove(&id));
        for request in fetches.unwrap_or_default() {
            let outcome = error.map_or(Ok(HERE), |why| Err(format!("have the file: {why}")));
            self.answer_file(request, outcome);
        }
    }

    /// Ruby code of an action has written a file: its next command is to find it.
    fn note_written(&mut self, task: TaskId, path: &Text) {
        let here = normalized(path.as_path());
        if self.is_staged(&here)
            && let Some(staging) = &mut self.staging
        {
            staging.written.entry(task).or_default().insert(here);
        }
    }

    /// A command of an action is about to start: what its words name is to be on its node.
    pub(crate) fn note_named(&mut self, task: TaskId, command: &PendingCommand) {
        let node = self.running.get(&task).map(|attempt| attempt.node);
        let Some(node) = node.filter(|node| *node != LOCAL_NODE && self.staging.is_some()) else {
            return;
        };
        let options = command.options.as_deref();
        let own = self.home_path(task);
        let mut folders = BTreeSet::new();
        for path in names_in(&command.program, options, &self.settings.directory) {
            if !self.is_staged(&path) || path == self.start_directory {
                continue;
            }
            if let Some(folder) = path.parent() {
                folders.insert(folder.to_path_buf());
            }
            if path == own {
                continue;
            }
            let is_folder = path.is_dir();
            let mut files = self.files_below(&path, &own);
            let Some(staging) = &mut self.staging else { return };
            let owner = staging.owner_of(&path).filter(|id| *id != task && !is_folder);
            let owner = owner.filter(|id| staging.ledger.version(*id).is_some());
            files.extend(owner);
            files.retain(|id| !staging.ledger.has(*id, node));
            if !files.is_empty() {
                staging.named.entry(task).or_default().extend(files);
            }
            if is_folder {
                folders.insert(path);
            } else if owner.is_none()
                && let Some(version) = version_of(&path)
            {
                let sent = staging.sent.entry(node).or_default();
                if sent.insert(path.clone(), version) != Some(version) {
                    staging.written.entry(task).or_default().insert(path);
                }
            }
        }
        folders.retain(|folder| folder.is_dir());
        let folders = folders.iter().map(|folder| self.path_on(node, folder)).collect();
        self.make_folders(node, folders);
    }

    fn is_pending(&self, task: TaskId, path: &Text) -> bool {
        let written = self.staging.as_ref().and_then(|staging| staging.written.get(&task));
        written.is_some_and(|written| written.contains(&normalized(path.as_path())))
    }

    /// Whether a command of an action has to wait for what its Ruby code has written.
    pub(crate) fn has_written(&self, task: TaskId) -> bool {
        self.staging.as_ref().is_some_and(|staging| {
            staging.written.contains_key(&task) || staging.named.contains_key(&task)
        })
    }

    /// Brings what an action has written to its node; how many files are on their way.
    pub(super) fn send_written(&mut self, task: TaskId, node: NodeId, number: u32) -> u32 {
        let written = self.staging.as_mut().and_then(|staging| staging.written.remove(&task));
        let mut count = 0;
        for here in written.unwrap_or_default() {
            let Some(version) = version_of(&here).filter(|_| node != LOCAL_NODE) else { continue };
            if here.is_dir() {
                self.make_folders(node, vec![self.path_on(node, &here)]);
                continue;
            }
            let place = |node| Place { node, path: self.path_on(node, &here) };
            let (source, target) = (place(LOCAL_NODE), place(node));
            let Some(staging) = &self.staging else { continue };
            let moving = relay(Rc::clone(&staging.hosts), source, target, version);
            let reports = staging.reports.clone();
            tokio::task::spawn_local(async move {
                let result = moving.await.map_err(|failure| failure.reason);
                let _ = reports.send(Moved(Kind::Sent { task, number, path: here, result }));
            });
            count += 1;
        }
        count
    }

    /// What an action has written is on its node, or cannot be.
    pub(super) fn on_sent(
        &mut self,
        task: TaskId,
        number: u32,
        path: &Path,
        result: Result<(), String>,
    ) {
        let Some(staging) = &mut self.staging else { return };
        let Some(waiting) = staging.waiting.get_mut(&task) else { return };
        if waiting.number != number {
            return;
        }
        let node = waiting.node;
        match result {
            Ok(()) => {
                waiting.sent_left = waiting.sent_left.saturating_sub(1);
                if Waiting::is_over(waiting) {
                    staging.waiting.remove(&task);
                    self.on_inputs_there(task, number);
                }
            }
            Err(reason) => {
                if let Some(sent) = staging.sent.get_mut(&node) {
                    sent.remove(path);
                }
                let why = format!(
                    "cannot bring {} to {}: failed to {reason}",
                    path.display(),
                    self.staging_name(node)
                );
                self.release_inputs(task, node);
                self.on_sight(task, number, Some(Text::from(why)));
            }
        }
    }
}

/// Brings a file here, if it is there and not the same.
async fn fetch(hosts: &Rc<FileHosts>, there: Place, here: Place) -> Outcome {
    match look(hosts, &there).await? {
        None => Ok(NOWHERE),
        Some((_, true)) => {
            let folder = here.path.as_path();
            let made = std::fs::create_dir_all(folder);
            made.map(|()| HERE).map_err(|error| format!("make {}: {error}", folder.display()))
        }
        Some((version, false)) if version_of(here.path.as_path()) == Some(version) => Ok(HERE),
        Some((version, false)) => {
            let moved = relay(Rc::clone(hosts), there, here, version).await;
            moved.map(|()| HERE).map_err(|failure| failure.reason)
        }
    }
}
