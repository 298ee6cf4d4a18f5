//! Nodes that come and go: what they have of earlier runs, or of this one, is asked before they
//! take tasks, and counts only when it is as it was.

use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::StagerInput;
use rakuda_core::{Event, Fact, NodeId, NodeState, Places, TaskId, TaskState};
use rakuda_proto::cluster::NodeFacts;
use rakuda_proto::files::FileVersion;
use rakuda_proto::journal::FileIdentity;

use super::paths::{beside, named};
use super::state::State;
use super::state::version_in;
use super::under_way::HeldFile;
use crate::facts::fact_of;
use crate::hub::Hub;

impl Hub {
    /// A node is there: its files can be got at, and what it should have is asked for. Whether
    /// there is an answer to wait for.
    pub(crate) fn hold_node(&mut self, id: NodeId, facts: &NodeFacts) -> bool {
        let Some(dial) = self.agents.node(id).port.data() else { return false };
        let Some(staging) = &mut self.staging else { return false };
        staging.hosts.add(id, Rc::clone(&dial));
        let limit = match staging.settings.cache_bytes {
            0 => facts.scratch_bytes_free / 2,
            bytes => bytes,
        };
        staging.stager.set_limit(id, limit);
        let files = self.files_expected_on(id);
        if files.is_empty() {
            return false;
        }
        let mut paths = Vec::new();
        for file in &files {
            let here = named(&self.settings.directory, &file.name);
            paths.push(self.path_on(id, &here));
            let secondary = file.state.secondary.iter();
            paths.extend(secondary.map(|(name, _)| self.path_on(id, &beside(&here, name))));
        }
        if let Some(staging) = &mut self.staging {
            staging.memory.asked.insert(id);
        }
        self.ask_about_holdings(id, files, paths);
        true
    }

    /// What a node should have: by earlier runs, and by this one.
    fn files_expected_on(&self, id: NodeId) -> Vec<HeldFile> {
        let Some(staging) = &self.staging else { return Vec::new() };
        let ledger = staging.stager.ledger();
        let held = |(file, state): (TaskId, &State)| HeldFile {
            name: self.names.name(file).to_vec(),
            id: Some(file),
            state: state.clone(),
            copy: !ledger.is_home(file, id),
        };
        let mut files: Vec<HeldFile> = ledger.files_on(id).map(held).collect();
        if staging.joined.contains(&id) {
            return files;
        }
        let node = &self.agents.node(id).name.0;
        for (name, known) in &staging.memory.known {
            let copy = !known.homes.contains(node);
            if !copy || known.copies.contains(node) {
                let state = known.state.clone();
                files.push(HeldFile { name: name.clone(), id: None, state, copy });
            }
        }
        files
    }

    /// A node has said what of its files is there.
    pub(crate) fn on_holdings(
        &mut self,
        id: NodeId,
        files: Vec<HeldFile>,
        found: &[Option<FileIdentity>],
    ) {
        let joined_before =
            self.staging.as_ref().is_some_and(|staging| staging.joined.contains(&id));
        let mut there = Vec::new();
        let mut found = found.iter().map(|found| found.as_ref().map(version_in));
        for file in files {
            let mut is = |version| found.next().flatten() == Some(version);
            // All answers are taken, also when the first is no.
            let mut is_whole = is(file.state.version);
            for (_, version) in file.state.secondary.iter() {
                is_whole &= is(*version);
            }
            if is_whole {
                there.push(file);
            } else {
                self.forget_held(id, &file);
            }
        }
        if let Some(staging) = &mut self.staging {
            staging.memory.asked.remove(&id);
        }
        if !joined_before {
            for file in there {
                self.confirm(id, file);
            }
        }
        // The scheduler knows by now what is not there any more: the rest need not be made again.
        self.join_node(id, true);
        self.check_held_invocation();
    }

    fn task_of(&self, file: &HeldFile) -> Option<TaskId> {
        let by_name = || self.staging.as_ref()?.memory.tasks.get(&file.name).copied();
        file.id.or_else(by_name)
    }

    fn forget_held(&mut self, node: NodeId, file: &HeldFile) {
        let Some(task) = self.task_of(file) else { return };
        if let Some(staging) = &mut self.staging {
            staging.stager.forget(task, node);
        }
        self.tell_places(task);
    }

    /// A file of an earlier run is still where it was.
    fn confirm(&mut self, node: NodeId, file: HeldFile) {
        let task = self.task_of(&file);
        let Some(staging) = &mut self.staging else { return };
        match task {
            Some(id) => self.use_earlier(id, node, &file.state, file.copy),
            None => {
                staging.memory.confirmed.entry(file.name).or_default().push((node, file.copy));
            }
        }
    }

    /// What is here, and what is there of an earlier run: the younger one counts.
    fn use_earlier(&mut self, id: TaskId, node: NodeId, state: &State, copy: bool) {
        let version = state.version;
        if self.is_unfinished(self.names.name(id)) {
            return;
        }
        let Some(task) = self.run.scheduler().task(id) else { return };
        let is_open = matches!(task.state, TaskState::Defined | TaskState::Waiting { .. });
        let Some(staging) = self.staging.as_mut().filter(|_| is_open) else { return };
        let here = staging.version(id);
        if here.is_some_and(|here| here != version && here.modified_ns >= version.modified_ns) {
            return;
        }
        let ledger = staging.stager.ledger();
        if copy && ledger.state(id) == Some(state) {
            staging.stager.found_copy(id, node);
        } else {
            let was_here = ledger.is_home(id, LOCAL_NODE) && here == Some(version);
            self.stage(StagerInput::Settled { file: id, node, state: state.clone() });
            let target = self.home_path(id);
            if was_here && !self.is_alone_here(id, state) {
                self.settle_file(id, LOCAL_NODE, version);
            }
            let secondary = state.secondary.iter().map(|(name, _)| beside(&target, name));
            let paths = secondary.map(|path| path.into_os_string().into_encoded_bytes());
            self.files.know_secondary(id, paths);
        }
        let Some(places) = self.staged_places(id) else { return };
        if here == Some(version) {
            self.event(Event::PlacesFound { id, places });
        } else {
            let FileVersion { bytes, modified_ns } = version;
            let fact = Fact { modified_ns: Some(modified_ns), bytes, places };
            self.event(Event::FactGathered { id, fact });
        }
    }

    /// A file was looked for on this machine, in bulk.
    pub(crate) fn place_here(&mut self, id: TaskId, fact: &mut Fact) {
        if self.lacks_secondary_here(id) {
            *fact = fact_of(None, Places::Unknown);
        } else if let Some(modified_ns) = fact.modified_ns.filter(|_| self.staging.is_some()) {
            let version = FileVersion { bytes: fact.bytes, modified_ns };
            self.settle_file(id, LOCAL_NODE, version);
            fact.places = self.staged_places(id).unwrap_or_default();
        }
    }

    /// The files of these tasks were looked for on this machine.
    pub(crate) fn note_files_here(&mut self, ids: &[TaskId]) {
        if self.staging.is_none() {
            return;
        }
        for id in ids {
            let path = self.home_path(*id).into_os_string().into_encoded_bytes();
            let name = self.names.name(*id);
            let Some(staging) = &mut self.staging else { return };
            self.files.name_task(*id, path);
            let Some(known) = staging.memory.known.get(name) else { continue };
            let state = known.state.clone();
            staging.memory.tasks.insert(name.to_vec(), *id);
            for (node, copy) in staging.memory.confirmed.remove(name).unwrap_or_default() {
                self.use_earlier(*id, node, &state, copy);
            }
        }
    }

    /// Whether files that are missing here may be on nodes that have not said so yet.
    pub(crate) fn waits_for_nodes(&self) -> bool {
        let Some(staging) = &self.staging else { return false };
        let silent: Vec<&[u8]> = self
            .agents
            .places()
            .filter(|(id, _)| {
                *id != LOCAL_NODE
                    && (self.run.nodes().state(*id).is_coming() && !staging.joined.contains(id)
                        || staging.memory.asked.contains(id))
            })
            .map(|(_, place)| place.node.name.0.as_slice())
            .collect();
        if silent.is_empty() {
            return false;
        }
        staging.memory.tasks.iter().any(|(name, id)| {
            staging.memory.known.get(name).is_some_and(|known| {
                staging.version(*id) != Some(known.state.version)
                    && known.homes.iter().any(|home| silent.contains(&home.as_slice()))
            })
        })
    }

    /// A node takes tasks from now on.
    pub(crate) fn note_joined(&mut self, id: NodeId) {
        if let Some(staging) = &mut self.staging {
            staging.joined.insert(id);
        }
    }

    /// A node is gone.
    pub(crate) fn lose_staging(&mut self, id: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        staging.hosts.remove(id);
        staging.memory.asked.remove(&id);
        staging.folders.remove(&id);
        staging.sent.remove(&id);
        self.stage(StagerInput::NodeLost { id });
    }

    /// All others know that a node is gone.
    pub(crate) fn on_loss_told(&mut self, id: NodeId) {
        self.stage(StagerInput::LossTold { id });
        if self.run.nodes().state(id) == NodeState::Lost {
            self.forget_given_up(id);
        }
    }

    /// A node is not waited for any more.
    pub(crate) fn forget_given_up(&mut self, id: NodeId) {
        self.stage(StagerInput::NodeGivenUp { id });
    }

    /// A node has answered what it was asked for a sign of life.
    pub(crate) fn on_heard_of(&mut self, id: NodeId) {
        self.stage(StagerInput::Alive { id });
    }

    /// Notes for later runs that a node has a file.
    pub(super) fn remember(&mut self, id: TaskId, node: NodeId, state: &State, made: bool) {
        if node == LOCAL_NODE {
            return;
        }
        let host = self.agents.node(node).name.0.clone();
        let name = self.names.name(id);
        let Some(staging) = &mut self.staging else { return };
        if let Err(error) = staging.memory.note(name, &host, state, !made) {
            staging.memory.disable();
            self.warn(&format!(
                "cannot write into .rakuda ({error}): the next run will not know what nodes have of this one"
            ));
        }
    }
}
