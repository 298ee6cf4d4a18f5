//! What agents are asked about files, and what follows from their answers: what a target is after
//! its action, whether inputs that another node made are to be seen yet, and how much of a task's
//! input is in memory when it starts.
//!
//! A probe goes to the node where the task runs, since that machine's view counts. A node that is
//! lost answers nothing: what waits for it goes on with what the hub sees itself, or ends with the
//! node.

pub(crate) mod state;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_agent::residency;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::files::Search;
use rakuda_core::{Event, Input, NodeId, Policy, TaskId, TaskKind};
use rakuda_proto::Text;
use rakuda_proto::cluster::{FromAgent, Operations, ToAgent};
use rakuda_proto::files::FileVersion;
use rakuda_proto::journal::FileIdentity;
use rakuda_record::folder::FOLDER;

use crate::attempts::state::RunningAttempt;
use crate::facts::identity_of;
use crate::hub::Hub;
use crate::secondary::Around;
use crate::staging::HeldFile;
use state::{FileProbe, TargetLook};

impl Hub {
    fn ask(&mut self, node: NodeId, probe: FileProbe, message: impl FnOnce(u32) -> ToAgent) {
        let number = self.file_probes.next;
        self.file_probes.next = number.wrapping_add(1);
        self.file_probes.open.insert(number, (node, probe));
        let message = message(number);
        if node == LOCAL_NODE {
            self.file_probes.inspector.ask(&self.settings.directory, message);
        } else {
            self.agents.node(node).port.ask(message);
        }
    }

    /// Asks about the inputs of an attempt that begins; to be called when it is among those that run.
    pub(crate) fn ask_about_inputs(&mut self, id: TaskId) {
        let Some((node, number)) =
            self.run.attempts().acting(id).map(|attempt| (attempt.node(), attempt.number()))
        else {
            return;
        };
        let placed = self.placed_bytes(id, node);
        let is_staged = self.staging.is_some();
        let mut vouched = Vec::new();
        for input in self.run.scheduler().inputs(id) {
            let Some(task) = self.run.scheduler().task(input) else { continue };
            if task.kind != TaskKind::File || task.modified_ns.is_none() {
                continue;
            }
            if let Some(identity) = self.inputs.vouched_elsewhere(input, node) {
                vouched.push((Text(self.path_of(input)), identity));
            }
        }
        if let Some(details) = self.run.details_mut(id) {
            details.inputs = placed;
        }
        if is_staged {
            // What is in memory is measured when they are there.
            return;
        }
        let gone = self.target_put_away(id, node);
        if !vouched.is_empty() || gone.is_some() {
            self.tell(Input::InputsAwaited { id });
            let files = vouched.clone();
            let limit_ms = self.visible_ms();
            let probe = FileProbe::Visibility { id, number, vouched };
            self.ask(node, probe, |probe| ToAgent::Expect { probe, files, gone, limit_ms });
            // What is in memory is measured when they are seen: the node need not look at them for that, too.
            return;
        }
        self.ask_about_residency(id);
    }

    /// The target of an attempt on another machine, when it is missing since this machine, or a run
    /// before, has put away what was there.
    fn target_put_away(&mut self, id: TaskId, node: NodeId) -> Option<Text> {
        let attempt = self.run.attempts().acting(id)?;
        let is_missing = self.names.is_path(id) && attempt.details.before.is_none();
        if node == LOCAL_NODE || !is_missing {
            return None;
        }
        let (again, target) = (attempt.number() > 1, attempt.details.target.clone());
        let root = self.start_directory.join(FOLDER);
        let put_away = again || self.failed_files().has(&root, &target);
        put_away.then(|| Text(self.path_of(id)))
    }

    /// Asks what of the inputs of an attempt is in its node's memory.
    pub(crate) fn ask_about_residency(&mut self, id: TaskId) {
        let Some((node, number)) =
            self.run.attempts().acting(id).map(|attempt| (attempt.node(), attempt.number()))
        else {
            return;
        };
        let inputs = self.run.scheduler().inputs(id);
        let inputs = inputs.filter_map(|input| Some((input, self.file_of(input)?)));
        let (measured, files): (Vec<TaskId>, Vec<_>) = inputs.take(residency::FILES_MAX).unzip();
        self.information.page_caches.note(node, measured.iter().copied());
        // What an agent elsewhere cannot tell it says itself.
        if !files.is_empty() && (node != LOCAL_NODE || self.file_probes.own_residency) {
            let probe = FileProbe::Residency { id, number, inputs: measured };
            self.ask(node, probe, |probe| ToAgent::AskResident { probe, files });
        }
    }

    /// A file that is there and has something in it, as the agents are to call it.
    fn file_of(&self, id: TaskId) -> Option<(Text, FileVersion)> {
        let task = self.run.scheduler().task(id)?;
        let modified_ns = task.modified_ns.filter(|_| task.kind == TaskKind::File)?;
        let version = FileVersion { bytes: task.bytes, modified_ns };
        (task.bytes > 0).then(|| (Text(self.path_of(id)), version))
    }

    /// Values of a node are wanted: now and then it is asked what of the files that its tasks have used is in memory.
    pub(crate) fn ask_page_cache(&mut self, node: NodeId) {
        let Some(files) = self.information.page_caches.due(node, self.now.time) else { return };
        let files: Vec<_> = files.into_iter().filter_map(|id| self.file_of(id)).collect();
        if files.is_empty() || node == LOCAL_NODE && !self.file_probes.own_residency {
            let unknown = vec![None; files.len()];
            return self.on_page_cache(node, &unknown);
        }
        self.ask(node, FileProbe::PageCache, |probe| ToAgent::AskResident { probe, files });
    }

    fn on_page_cache(&mut self, node: NodeId, files: &[Option<(u64, u64)>]) {
        self.information.page_caches.answered(node);
        let name = self.agents.node(node).name.to_display();
        let row = self.information.row(node, &name);
        self.information.set_page_cache(row, files, self.now.time);
        self.on_information(node);
    }

    /// Asks a node which of these files, called `paths` there, it has.
    pub(crate) fn ask_about_holdings(
        &mut self,
        node: NodeId,
        files: Vec<HeldFile>,
        paths: Vec<Text>,
    ) {
        let probe = FileProbe::Holdings { files };
        self.ask(node, probe, |probe| ToAgent::Look { probe, paths });
    }

    /// Asks a node for an answer, whatever it says; `on_heard_of` follows, also when it is lost.
    pub(crate) fn ask_for_life(&mut self, node: NodeId) {
        let paths = Vec::new();
        self.ask(node, FileProbe::Life, |probe| ToAgent::Look { probe, paths });
    }

    /// The first command of an attempt is about to start: from now on counts what is written beside
    /// its target, where nodes share no file system. The probe goes before the command on the
    /// same link, and is answered before the command is begun.
    pub(crate) fn ask_for_time(&mut self, id: TaskId) {
        let Some(attempt) = self.run.attempts().acting(id) else { return };
        let (node, number) = (attempt.node(), attempt.number());
        let is_new = attempt.details.began_there_ns.is_none() && self.files.guesses_outputs(id);
        if is_new && self.is_staged_target(id) {
            let probe = FileProbe::Time { id, number };
            self.ask(node, probe, |probe| ToAgent::TellTime { probe });
        }
    }

    /// A task's file as the agents are to call it: relative to the run's folder, or absolute when
    /// the Rakefile has moved.
    fn path_of(&self, id: TaskId) -> Vec<u8> {
        let name = self.names.name(id);
        if !self.moved {
            return name.to_vec();
        }
        self.settings.directory.join(OsStr::from_bytes(name)).into_os_string().into_vec()
    }

    /// What a node is to be asked when an action has ended well: what its target is, on another machine, and what is
    /// beside it. `None`: nothing.
    pub(crate) fn target_look(&mut self, id: TaskId) -> Option<TargetLook> {
        let attempt = self.run.attempts().get(id)?;
        if self.settings.config.dry_run || !self.names.is_path(id) {
            return None;
        }
        let made_there = self.is_made_there(id, attempt);
        self.information.page_caches.note(attempt.node(), [id]);
        let node = if made_there { attempt.node() } else { LOCAL_NODE };
        let since_ns = attempt.details.began_there_ns.filter(|_| made_there);
        let mut target = attempt.details.target.clone();
        let searches = self.files.searches(id, target.as_os_str().as_bytes(), since_ns.is_some());
        if node == LOCAL_NODE {
            if searches.is_empty() {
                return None;
            }
            target = self.record.project().find(&target);
        }
        let path = Text(target.into_os_string().into_vec());
        Some(TargetLook { node, path, searches, since_ns })
    }

    /// An action has ended well: asks about its target.
    pub(crate) fn ask_about_target(&mut self, id: TaskId) {
        let look = self.run.details_mut(id).and_then(|details| details.look.take());
        let Some(TargetLook { node, path, searches, since_ns }) = look else { return };
        let each = searches.iter().map(|search| self.search_on(node, search, since_ns));
        let asked: Vec<_> = each.collect();
        self.ask(node, FileProbe::Target { id, searches }, |probe| {
            if asked.is_empty() {
                ToAgent::Look { probe, paths: vec![path] }
            } else {
                ToAgent::LookAround { probe, path, searches: asked }
            }
        });
    }

    /// An action has failed that may be tried again: ends what its commands have left behind, as far as it is known to
    /// be theirs, so that it writes nothing while the next attempt does.
    pub(crate) fn ask_to_end_left(&mut self, id: TaskId) {
        let Some(node) = self.run.attempts().get(id).map(RunningAttempt::node) else { return };
        let details = self.run.details_mut(id);
        let begun = details.map(|details| std::mem::take(&mut details.begun));
        let commands = begun.unwrap_or_default();
        let left = FileProbe::Left { id };
        self.ask(node, left, |probe| ToAgent::EndLeft { probe, commands });
    }

    /// There will be no next attempt: the node's answer, which may take long when that hangs, no longer matters.
    pub(crate) fn forget_left(&mut self, id: TaskId) {
        let is_left =
            |probe: &FileProbe| matches!(probe, FileProbe::Left { id: left } if *left == id);
        self.file_probes.open.retain(|_, (_, probe)| !is_left(probe));
    }

    /// Looks at the target of an attempt from here, which its node cannot any more.
    pub(crate) fn look_here(&mut self, id: TaskId) {
        if let Some(searches) = self.file_probes.forget_target(id) {
            self.look_around_here(id, &searches);
        }
    }

    fn look_around_here(&mut self, id: TaskId, searches: &[Search]) {
        let Some(attempt) = self.run.attempts().get(id) else { return };
        let path = self.record.project().find(&attempt.details.target);
        let look = |search| self.search_here(&path, search);
        let (found, more): (_, Vec<bool>) = searches.iter().map(look).unzip();
        let (target, more) = (identity_of(&path), more.contains(&true));
        self.on_looked_around(id, LOCAL_NODE, searches, Around { target, found, more });
    }

    /// Takes the answer of an agent.
    pub(crate) fn on_answer(&mut self, answer: FromAgent) {
        match answer {
            FromAgent::Looked { probe, files, operations } => {
                self.file_probes.operations += self.foreign(probe, operations);
                match self.file_probes.open.remove(&probe) {
                    Some((node, FileProbe::Target { id, searches })) => {
                        let target = files.into_iter().next().flatten();
                        let around = Around { target, ..Around::default() };
                        self.on_looked_around(id, node, &searches, around);
                    }
                    Some((node, FileProbe::Holdings { files: held })) => {
                        self.on_holdings(node, held, &files);
                    }
                    Some((node, FileProbe::Life)) => self.on_heard_of(node),
                    _ => {}
                }
            }
            FromAgent::Seen { probe, wrong, operations } => {
                self.file_probes.operations += self.foreign(probe, operations);
                if let Some((node, FileProbe::Visibility { id, number, vouched })) =
                    self.file_probes.open.remove(&probe)
                {
                    let wrong =
                        wrong.map(|(path, seen)| self.describe_unseen(node, &path, seen, &vouched));
                    if wrong.is_none() && self.run.attempts().acting_as(id, number).is_some() {
                        self.ask_about_residency(id);
                    }
                    self.on_inputs_seen(id, number, wrong);
                }
            }
            FromAgent::LookedAround { probe, target, found, more, operations } => {
                self.file_probes.operations += self.foreign(probe, operations);
                if let Some((node, FileProbe::Target { id, searches })) =
                    self.file_probes.open.remove(&probe)
                {
                    let around = Around { target, found, more };
                    self.on_looked_around(id, node, &searches, around);
                }
            }
            FromAgent::Time { probe, now_ns } => {
                if let Some((_, FileProbe::Time { id, number })) =
                    self.file_probes.open.remove(&probe)
                    && self.run.attempts().acting_as(id, number).is_some()
                    && let Some(details) = self.run.details_mut(id)
                {
                    details.began_there_ns.get_or_insert(now_ns);
                }
            }
            FromAgent::Resident { probe, files } => {
                match self.file_probes.open.remove(&probe) {
                    Some((node, FileProbe::Residency { id, number, inputs })) => {
                        self.on_residency(id, number, node, &inputs, &files);
                    }
                    Some((node, FileProbe::PageCache)) => self.on_page_cache(node, &files),
                    _ => {}
                }
            }
            FromAgent::LeftEnded { probe, .. } => {
                if let Some((_, FileProbe::Left { id })) = self.file_probes.open.remove(&probe) {
                    self.tell(Input::LeftEnded { id });
                }
            }
            FromAgent::Ready { .. }
            | FromAgent::Event(_)
            | FromAgent::Signalled { .. }
            | FromAgent::AllEnded { .. }
            // Only a leader says it, to who has its own link.
            | FromAgent::Beats { .. } => {}
        }
    }

    /// What of the inputs of an attempt was in its node's memory: for the record, and for the policy that goes by it.
    fn on_residency(
        &mut self,
        id: TaskId,
        number: u32,
        node: NodeId,
        inputs: &[TaskId],
        files: &[Option<(u64, u64)>],
    ) {
        let measured = || inputs.iter().zip(files).filter_map(|(id, file)| Some((*id, (*file)?)));
        if self.run.attempts().acting_as(id, number).is_some()
            && let Some(details) = self.run.details_mut(id)
        {
            for (_, (in_memory, bytes)) in measured() {
                details.inputs.measured_bytes += bytes;
                details.inputs.resident_bytes += in_memory;
            }
        }
        if self.settings.config.policy == Policy::Cached {
            for (id, (bytes, _)) in measured() {
                self.event(Event::CacheMeasured { id, node, bytes });
            }
        }
    }

    /// Calls of this process are counted where they are made.
    fn foreign(&self, probe: u32, operations: Operations) -> Operations {
        let asked = self.file_probes.open.get(&probe);
        let foreign = asked.filter(|(node, _)| *node != LOCAL_NODE);
        foreign.map_or(Operations::default(), |_| operations)
    }

    /// Maximum time until a node sees what another one has made.
    pub(crate) fn visible_ms(&self) -> u32 {
        self.settings.cluster.as_ref().map_or(0, |cluster| cluster.visible_ms)
    }

    fn describe_unseen(
        &self,
        node: NodeId,
        path: &Text,
        seen: Option<FileIdentity>,
        vouched: &[(Text, FileIdentity)],
    ) -> Text {
        let state = |file: &FileIdentity| {
            format!("{} bytes, modified at {} ns", file.bytes, file.modified_ns)
        };
        let expected = vouched.iter().find(|(name, _)| name == path).map(|(_, file)| state(file));
        let seen = seen.map_or_else(|| "no such file".to_owned(), |file| state(&file));
        Text::from(format!(
            "node {} does not see {} as it was made, after {} s: expected {}, found {seen}; see whether the nodes share this folder, and raise VISIBLE_WITHIN if it takes longer",
            self.agents.node(node).name.to_display(),
            path.to_display(),
            f64::from(self.visible_ms()) / 1000.0,
            expected.unwrap_or_default(),
        ))
    }

    /// No more answers come from a node, or, when the run ends, from any: then the hub looks itself at what ended well.
    pub(crate) fn answer_for(&mut self, lost: Option<NodeId>) {
        let of_lost = |node: &NodeId| lost.is_none_or(|lost| lost == *node);
        let open = std::mem::take(&mut self.file_probes.open);
        let (gone, kept) = open.into_iter().partition(|(_, (node, _))| of_lost(node));
        self.file_probes.open = kept;
        let gone: BTreeMap<u32, (NodeId, FileProbe)> = gone;
        for (node, probe) in gone.into_values() {
            match probe {
                FileProbe::PageCache => self.information.page_caches.answered(node),
                FileProbe::Target { id, searches } if self.staging.is_none() => {
                    self.look_around_here(id, &searches);
                }
                // Whatever is left there goes with the run.
                FileProbe::Left { id } if lost.is_none() => self.tell(Input::LeftEnded { id }),
                // At its end the run settles targets. Attempts go with a node.
                FileProbe::Target { .. }
                | FileProbe::Left { .. }
                | FileProbe::Time { .. }
                | FileProbe::Visibility { .. }
                | FileProbe::Life
                | FileProbe::Holdings { .. }
                | FileProbe::Residency { .. } => {}
            }
        }
    }
}
