//! Nodes that come and go: what they have of earlier runs, or of this one, is asked before they
//! take tasks. What they are asked, and what of the answer counts, `rakuda_core::stager` decides.

use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::{Answer, Found, StagerInput};
use rakuda_core::{Event, Fact, NodeId, NodeState, Places, TaskId};
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
        let (node, names) = (&self.agents.node(id).name.0, &self.names);
        let name = |file| names.name(file).to_vec();
        let files = staging.memory.earlier.ask(id, node, staging.stager.ledger(), name);
        if files.is_empty() {
            return false;
        }
        let mut paths = Vec::new();
        for file in &files {
            let here = named(&self.settings.directory, &file.file);
            paths.push(self.path_on(id, &here));
            let secondary = file.state.secondary.iter();
            paths.extend(secondary.map(|(name, _)| self.path_on(id, &beside(&here, name))));
        }
        self.ask_about_holdings(id, files, paths);
        true
    }

    /// A node has said what of its files is there.
    pub(crate) fn on_holdings(
        &mut self,
        id: NodeId,
        files: Vec<HeldFile>,
        found: &[Option<FileIdentity>],
    ) {
        let mut found = found.iter().map(|found| found.as_ref().map(version_in));
        let whole = |file: HeldFile| {
            let mut is = |version| found.next().flatten() == Some(version);
            // All answers are taken, also when the first is no.
            let mut is_whole = is(file.state.version);
            for (_, version) in file.state.secondary.iter() {
                is_whole &= is(*version);
            }
            (file, is_whole)
        };
        let files = files.into_iter().map(whole).collect();
        let Some(staging) = &mut self.staging else { return };
        let Answer { gone, found } = staging.memory.earlier.answered(id, files);
        for task in &gone {
            staging.stager.forget(*task, id);
        }
        for task in gone {
            self.tell_places(task);
        }
        for found in found {
            self.use_earlier(&found);
        }
        // The scheduler knows by now what is gone: the rest need not be made again.
        self.join_node(id, true);
        self.note_places_awaited();
    }

    /// A file of an earlier run is still where it was.
    fn use_earlier(&mut self, found: &Found<State>) {
        let Found { task: id, node, state, .. } = found;
        let (id, node, version) = (*id, *node, state.version);
        if self.is_unfinished(self.names.name(id)) {
            return;
        }
        let Some(task) = self.run.scheduler().task(id) else { return };
        let Some(staging) = &mut self.staging else { return };
        let was_at_home = staging.stager.ledger().stays_on(id, LOCAL_NODE);
        let Some(counting) = staging.stager.take_earlier(found, task.state) else { return };
        if counting.settles {
            self.stage(StagerInput::Settled { file: id, node, state: state.clone() });
            let target = self.home_path(id);
            if was_at_home && counting.is_same_file && !self.is_alone_here(id, state) {
                self.settle_file(id, LOCAL_NODE, version);
            }
            let secondary = state.secondary.iter().map(|(name, _)| beside(&target, name));
            let paths = secondary.map(|path| path.into_os_string().into_encoded_bytes());
            self.files.know_secondary(id, paths);
        }
        let Some(places) = self.staged_places(id) else { return };
        if counting.is_same_file {
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
            if !staging.memory.earlier.known().contains_key(name) {
                continue;
            }
            for found in staging.memory.earlier.define(&name.to_vec(), *id) {
                self.use_earlier(&found);
            }
        }
    }

    /// Whether files that are missing here may be on nodes that have not said so yet.
    pub(crate) fn waits_for_nodes(&self) -> bool {
        let Some(staging) = &self.staging else { return false };
        let nodes = self.run.nodes();
        let names = self.agents.places().map(|(id, place)| (id, &place.node.name.0));
        let all = names.map(|(id, name)| (id, nodes.state(id), name));
        let is_unfinished = |id| self.is_unfinished(self.names.name(id));
        let ledger = staging.stager.ledger();
        staging.memory.earlier.is_waited_for(ledger, LOCAL_NODE, all, is_unfinished)
    }

    /// A node takes tasks from now on.
    pub(crate) fn note_joined(&mut self, id: NodeId) {
        if let Some(staging) = &mut self.staging {
            staging.memory.earlier.join(id);
        }
    }

    /// A node is gone. What was made there and is not staged out yet has replaced the states that other nodes have,
    /// in the stager's books: so the scheduler must not take these for the target when the attempt is lost.
    pub(crate) fn lose_staging(&mut self, id: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        let replaced = staging.stage_out.made_on(id);
        staging.hosts.remove(id);
        staging.memory.earlier.lose(id);
        staging.folders.remove(&id);
        staging.sent.remove(&id);
        self.stage(StagerInput::NodeLost { id });
        for id in replaced {
            self.event(Event::PlacesFound { id, places: Places::Nowhere });
        }
    }

    /// All others know that a node is gone.
    pub(crate) fn on_loss_told(&mut self, id: NodeId) {
        self.stage(StagerInput::LossTold { id });
        if self.run.nodes().state(id) == NodeState::Lost {
            self.forget_given_up(id);
        }
    }

    /// A node is no longer waited for.
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
