//! Undeclared inputs: files that the words of a command or Ruby code of an action name, and neither
//! a task nor `needs inputs:` does.
//!
//! They are staged in to the action's node before the command, and fetched to this machine when Ruby
//! code looks for them. Nothing of them is in the books: they belong to one attempt. A file of
//! another task is staged in as an input is. What words mean `rakuda_core::files` decides.

use std::collections::BTreeSet;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_agent::files::version_of;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::{Seen, names_in};
use rakuda_core::stager::StagerInput;
use rakuda_core::{Input, NodeId, TaskId};
use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;
use rakuda_proto::front::{FileAnswer, FrontMessage, HubMessage, Program, RedirectTarget};

use super::COPY_HINT;
use super::hosts::FileHosts;
use super::paths::named;
use super::relay::{FileOnNode, change, look, relay};
use super::under_way::{Kind, Moved};
use crate::attempts::state::{PendingCommand, RunningAttempt};
use crate::error::HubError;
use crate::hub::Hub;

/// What came of a request of the front.
type Outcome = Result<FileAnswer, String>;

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
            self.answer_file(request, Ok(FileAnswer::Here));
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
            self.answer_file(request, Ok(FileAnswer::Here));
            return;
        }
        let here = at(path);
        if self.held_elsewhere(&here, task).is_some() {
            self.answer_file(request, Ok(FileAnswer::File));
            return;
        }
        self.ask_own_node(request, task, path, |hosts, there, _| async move {
            let found = look(&hosts, &there).await?;
            Ok(found.map_or(FileAnswer::Nowhere, |(_, is_folder)| {
                if is_folder { FileAnswer::Folder } else { FileAnswer::File }
            }))
        });
    }

    /// It renames a file, or removes it.
    fn change_file(&mut self, request: u32, task: TaskId, path: &Text, to: Option<Text>) {
        if self.is_pending(task, path) {
            self.answer_file(request, Ok(FileAnswer::Nowhere));
            return;
        }
        if self.fetch_of_other(request, task, path) {
            return;
        }
        let node = self.run.attempts().acting(task).map_or(LOCAL_NODE, RunningAttempt::node);
        let to = to.map(|to| self.path_on(node, &at(&to)));
        self.ask_own_node(request, task, path, |hosts, there, _| async move {
            let changed = change(&hosts, &there, to).await?;
            Ok(if changed { FileAnswer::Done } else { FileAnswer::Nowhere })
        });
    }

    /// Has a file staged out that belongs to another task and is elsewhere; whether there is such a one.
    fn fetch_of_other(&mut self, request: u32, task: TaskId, path: &Text) -> bool {
        let here = at(path);
        let Some(node) = self.held_elsewhere(&here, task) else { return false };
        let target = self.staging.as_ref().and_then(|staging| {
            let id = self.files.task_at(here.as_os_str().as_bytes())?;
            let state = staging.stager.ledger().state(id)?;
            state.secondary.is_empty().then_some(id)
        });
        if let Some(id) = target {
            if let Some(staging) = &mut self.staging {
                staging.fetches.entry(id).or_default().push(request);
            }
            self.stage(StagerInput::StageOutWanted { file: id });
        } else {
            // Alone: what goes with it would be moved in vain. So it is not in the books.
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
        ask: impl FnOnce(Rc<FileHosts>, FileOnNode, FileOnNode) -> F,
    ) {
        let here = at(path);
        let ran_there =
            |attempt: &&RunningAttempt| attempt.node() != LOCAL_NODE && attempt.was_staged_for();
        let node = self.run.attempts().acting(task).filter(ran_there).map(RunningAttempt::node);
        let Some(node) = node.filter(|_| self.is_staged(&here)) else {
            self.answer_file(request, Ok(FileAnswer::Nowhere));
            return;
        };
        self.ask_node(request, node, &here, ask);
    }

    fn ask_node<F: Future<Output = Outcome> + 'static>(
        &mut self,
        request: u32,
        node: NodeId,
        here: &Path,
        ask: impl FnOnce(Rc<FileHosts>, FileOnNode, FileOnNode) -> F,
    ) {
        let there = FileOnNode { node, path: self.path_on(node, here) };
        let here = FileOnNode { node: LOCAL_NODE, path: self.path_on(LOCAL_NODE, here) };
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
        let (answer, error) = match outcome {
            Ok(answer) => (answer, None),
            Err(why) => (FileAnswer::Nowhere, Some(Text::from(format!("failed to {why}")))),
        };
        self.link.push(&HubMessage::FileFetched(request, answer, error));
        self.flush_urgent = true;
    }

    /// Answers those who look for a task's file.
    pub(super) fn answer_fetches(&mut self, id: TaskId, error: Option<&str>) {
        let fetches = self.staging.as_mut().and_then(|staging| staging.fetches.remove(&id));
        for request in fetches.unwrap_or_default() {
            let outcome =
                error.map_or(Ok(FileAnswer::Here), |why| Err(format!("have the file: {why}")));
            self.answer_file(request, outcome);
        }
    }

    /// Ruby code of an action has written a file: its next command is to find it.
    fn note_written(&mut self, task: TaskId, path: &Text) {
        let here = at(path);
        if self.is_staged(&here)
            && let Some(staging) = &mut self.staging
        {
            staging.written.entry(task).or_default().insert(here);
            self.tell(Input::InputsChanged { id: task });
        }
    }

    /// A command of an action is about to start: what its words name is to be on its node.
    pub(crate) fn note_undeclared_inputs(&mut self, task: TaskId, command: &PendingCommand) {
        let node = self.run.attempts().acting(task).map(RunningAttempt::node);
        let Some(node) = node.filter(|node| *node != LOCAL_NODE && self.staging.is_some()) else {
            return;
        };
        let mut names = self.files.names_to_look_at(task, words(command, &self.settings.directory));
        names.extend(self.read_by(command));
        let looked = names.into_iter().map(|path| (seen_at(&path), path));
        let looked: Vec<_> = looked.map(|(seen, path)| (path, seen)).collect();
        let own = self.home_path(task).into_os_string().into_encoded_bytes();
        let keeps = |id: TaskId, path: &[u8]| self.keeps(id, path);
        let needed = self.files.undeclared(task, &own, &looked, keeps);
        let Some(staging) = &mut self.staging else { return };
        let ledger = staging.stager.ledger();
        let is_missing = |id: &TaskId| ledger.state(*id).is_some() && !ledger.has(*id, node);
        let missing: Vec<TaskId> = needed.tasks.into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            staging.undeclared_inputs.entry(task).or_default().extend(missing);
            self.tell(Input::InputsChanged { id: task });
        }
        for path in needed.files {
            if self.send_to(task, node, &path) {
                self.tell(Input::InputsChanged { id: task });
            }
        }
        let folders = needed.folders.iter().map(|folder| named(Path::new("/"), folder));
        let folders = folders.filter(|folder| folder.is_dir());
        let folders = folders.map(|folder| self.path_on(node, &folder)).collect();
        self.make_folders(node, folders);
    }

    /// What a command reads of the run's folder, as the front says.
    fn read_by(&self, command: &PendingCommand) -> Vec<Vec<u8>> {
        let files = command.options.as_deref().map_or(&[][..], |options| &options.files);
        let names = files.iter().map(at).filter(|path| self.is_staged(path));
        names.map(|path| path.into_os_string().into_vec()).collect()
    }

    /// Has a file of this machine staged in before the next command of an action, unless it is there in this state;
    /// whether it is to be.
    pub(super) fn send_to(&mut self, task: TaskId, node: NodeId, path: &[u8]) -> bool {
        let path = named(Path::new("/"), path);
        let Some(version) = version_of(&path).filter(|_| node != LOCAL_NODE) else { return false };
        let Some(staging) = &mut self.staging else { return false };
        let sent = staging.sent.entry(node).or_default();
        let is_there = sent.get(&path) == Some(&version);
        !is_there && staging.written.entry(task).or_default().insert(path)
    }

    fn is_pending(&self, task: TaskId, path: &Text) -> bool {
        let written = self.staging.as_ref().and_then(|staging| staging.written.get(&task));
        written.is_some_and(|written| written.contains(&at(path)))
    }

    /// Stages in what an action has written; how many files are on their way.
    pub(super) fn send_written(&mut self, task: TaskId, node: NodeId, number: u32) -> u32 {
        let written = self.staging.as_mut().and_then(|staging| staging.written.remove(&task));
        let mut count = 0;
        for here in written.unwrap_or_default() {
            let Some(version) = version_of(&here).filter(|_| node != LOCAL_NODE) else { continue };
            if here.is_dir() {
                self.make_folders(node, vec![self.path_on(node, &here)]);
                continue;
            }
            let place = |node| FileOnNode { node, path: self.path_on(node, &here) };
            let (source, target) = (place(LOCAL_NODE), place(node));
            let Some(staging) = &mut self.staging else { continue };
            count += 1;
            let on_the_way = staging.on_the_way.entry((node, here.clone(), version));
            let waiting = on_the_way.or_default();
            waiting.push((task, number));
            if waiting.len() > 1 {
                continue;
            }
            let moving = relay(Rc::clone(&staging.hosts), source, target, version);
            let reports = staging.reports.clone();
            tokio::task::spawn_local(async move {
                let result = moving.await.map_err(|failure| failure.reason);
                let _ = reports.send(Moved(Kind::Sent { node, path: here, version, result }));
            });
        }
        count
    }

    /// What commands of this machine's files need is on their node, or cannot be.
    pub(super) fn on_sent(
        &mut self,
        node: NodeId,
        path: PathBuf,
        version: FileVersion,
        result: &Result<(), String>,
    ) {
        let Some(staging) = &mut self.staging else { return };
        let key = (node, path, version);
        let waiting = staging.on_the_way.remove(&key).unwrap_or_default();
        let (_, path, _) = key;
        let shown = path.display().to_string();
        let sent = staging.sent.entry(node).or_default();
        if result.is_ok() {
            sent.insert(path, version);
        }
        for (task, number) in waiting {
            self.on_sent_for(task, number, &shown, result.as_ref());
        }
    }

    fn on_sent_for(&mut self, task: TaskId, number: u32, path: &str, result: Result<&(), &String>) {
        let Some(staging) = &mut self.staging else { return };
        let Some(attempt) = self.run.attempts().acting_as(task, number) else { return };
        let node = attempt.node();
        match result {
            Ok(()) => self.stage(StagerInput::OwnFileThere { id: task, attempt: number }),
            Err(_) if !staging.stager.is_waiting(task, number) => {}
            Err(reason) => {
                let name = self.staging_name(node);
                let why = format!("cannot copy {path} to {name}: failed to {reason}; {COPY_HINT}");
                self.give_inputs_up(task, number, node, why);
            }
        }
    }
}

/// Absolute names in a command that may be files; relative ones start at its folder, or else at `base`.
fn words(command: &PendingCommand, base: &Path) -> BTreeSet<Vec<u8>> {
    let options = command.options.as_deref();
    let folder = options.and_then(|options| options.directory.as_ref());
    let base = folder.map_or_else(|| base.to_path_buf(), |folder| base.join(folder.as_path()));
    let base = base.as_os_str().as_bytes();
    let texts: Vec<&[u8]> = match &command.program {
        Program::Line(line) => [line.0.as_slice()].into(),
        Program::Words(words) => words.iter().map(|word| word.0.as_slice()).collect(),
    };
    let mut names = names_in(texts.into_iter(), base);
    for (_, target) in options.map_or(&[][..], |options| &options.redirects) {
        if let RedirectTarget::File(path, ..) = target {
            names.insert(rakuda_core::files::absolute(base, &path.0));
        }
    }
    names
}

fn seen_at(path: &[u8]) -> Seen {
    match std::fs::metadata(named(Path::new("/"), path)) {
        Ok(found) if found.is_dir() => Seen::Folder,
        Ok(_) => Seen::File,
        Err(_) => Seen::Nothing,
    }
}

/// A file of this machine that Ruby code names.
fn at(path: &Text) -> PathBuf {
    named(Path::new("/"), &path.0)
}

/// Fetches a file, if it is there and not the same.
async fn fetch(hosts: &Rc<FileHosts>, there: FileOnNode, here: FileOnNode) -> Outcome {
    match look(hosts, &there).await? {
        None => Ok(FileAnswer::Nowhere),
        Some((_, true)) => {
            let folder = here.path.as_path();
            let made = std::fs::create_dir_all(folder);
            made.map(|()| FileAnswer::Here)
                .map_err(|error| format!("make {}: {error}", folder.display()))
        }
        Some((version, false)) if version_of(here.path.as_path()) == Some(version) => {
            Ok(FileAnswer::Here)
        }
        Some((version, false)) => {
            let moved = relay(Rc::clone(hosts), there, here, version).await;
            moved.map(|()| FileAnswer::Here).map_err(|failure| failure.reason)
        }
    }
}
