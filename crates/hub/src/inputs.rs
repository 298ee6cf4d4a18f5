//! Where the inputs of tasks are: the nodes that made them in this run come first, then the file system's catalogue.
//!
//! With one node there is nothing to know. The catalogue is asked in bulk before tasks are activated; what is found out
//! later counts for tasks that are not queued yet. How long an invocation waits for it, and which nodes are candidates,
//! the core decides.

pub(crate) mod state;

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::{
    Event, FilePlaces, Input, InvocationId, NodeId, Places, PlacesAwaited, TaskId, TaskKind,
};
use rakuda_locate::{Hosts, Located, Locator, gfarm_mount};
use rakuda_proto::journal::InputBytes;
use tokio::sync::mpsc::unbounded_channel;

use crate::hub::Hub;
use state::Catalogue;

/// Maximum number of files that are looked up without asking whether anything will read them.
const FEW: usize = 256;

impl Hub {
    /// Finds out whether places can be known in this run.
    pub(crate) fn open_catalogue(&mut self) {
        self.inputs.several = self.agents.len() > 1 || self.settings.cluster.is_some();
        let is_spare = !self.run.nodes().is_up(LOCAL_NODE);
        self.inputs.places.set_spare(is_spare.then_some(LOCAL_NODE));
        if !self.inputs.several || !self.settings.config.locality || self.staging.is_some() {
            return;
        }
        let Some(mount) = gfarm_mount(&self.settings.directory) else { return };
        let mut hosts = Hosts::default();
        // The hub's own node has a second number when it is among the hosts.
        for (id, place) in self.agents.places().filter(|(id, _)| *id != LOCAL_NODE) {
            hosts.add(id.0, &place.node.name.0);
        }
        if self.run.nodes().is_up(LOCAL_NODE) {
            hosts.add(LOCAL_NODE.0, &self.agents.node(LOCAL_NODE).name.0);
        }
        let (sender, answers) = unbounded_channel();
        let locator = Locator::new(sender);
        self.inputs.catalogue = Some(Catalogue { locator, answers, mount, hosts, open: 0 });
    }

    /// The facts of these were gathered: those that exist may have to be looked up.
    pub(crate) fn note_gathered(&mut self, ids: &[TaskId]) {
        if self.inputs.catalogue.is_some() {
            self.inputs.unlocated.extend_from_slice(ids);
        }
    }

    /// Asks where files are that tasks will read.
    fn locate_inputs(&mut self) {
        let unlocated = std::mem::take(&mut self.inputs.unlocated);
        let Some(catalogue) = &mut self.inputs.catalogue else { return };
        let scheduler = self.run.scheduler();
        let mut wanted: Vec<TaskId> = unlocated
            .into_iter()
            .filter(|id| {
                scheduler
                    .task(*id)
                    .is_some_and(|task| task.kind == TaskKind::File && task.bytes > 0)
            })
            .collect();
        if wanted.len() > FEW {
            let now = self.now;
            let runs = scheduler.forecast(now);
            let mut is_read = vec![false; runs.len()];
            for id in scheduler.task_ids().filter(|id| runs[id.0 as usize]) {
                scheduler.inputs(id).for_each(|input| is_read[input.0 as usize] = true);
            }
            wanted.retain(|id| is_read[id.0 as usize] && !runs[id.0 as usize]);
        }
        let directory = &self.settings.directory;
        let names = &self.names;
        let question = |id: TaskId| {
            let file = directory.join(OsStr::from_bytes(names.name(id)));
            let path = catalogue.mount.path_of(&file)?;
            Some((id.0, path.into_os_string().into_vec()))
        };
        let questions: Vec<_> = wanted.into_iter().filter_map(question).collect();
        if catalogue.locator.works() {
            catalogue.open += questions.len();
            catalogue.locator.ask(questions);
        }
    }

    /// Takes what the catalogue has answered.
    pub(crate) fn on_located(&mut self, located: Located) {
        match located {
            Located::Hosts { id, hosts } => {
                let id = TaskId(id);
                if !self.inputs.places.is_made(id) {
                    self.take_located(id, hosts.as_deref());
                }
                let catalogue = self.inputs.catalogue.as_mut().expect("it has answered");
                catalogue.open = catalogue.open.saturating_sub(1);
                if catalogue.open == 0 {
                    self.note_places_awaited();
                }
            }
            Located::Failed { reason } => {
                self.warn(&format!(
                    "cannot ask Gfarm where files are (failed to {reason}); going on with where this run makes files"
                ));
                if let Some(catalogue) = &mut self.inputs.catalogue {
                    catalogue.open = 0;
                }
                self.release_invocation();
            }
        }
    }

    /// The catalogue's first answer about a file; `None`: it does not know it.
    fn take_located(&mut self, id: TaskId, hosts: Option<&[Vec<u8>]>) {
        let places = match hosts {
            None => return,
            Some([]) if self.on_held_by_none(id) => return,
            Some(hosts) => self.inputs.set_found(id, hosts),
        };
        if places != Places::Unknown {
            self.event(Event::PlacesFound { id, places });
        }
    }

    /// Begins an invocation that waits for places, whatever is known of them.
    pub(crate) fn release_invocation(&mut self) {
        if self.run.holds_invocation() {
            self.tell(Input::HeldInvocationDue);
        }
    }

    /// Asks for tasks, and for the places of what they read.
    pub(crate) fn want_invocation(
        &mut self,
        id: InvocationId,
        tasks: Vec<TaskId>,
        caller: Option<TaskId>,
    ) {
        self.locate_inputs();
        let awaited = self.places_awaited();
        let nodes_hold_files = self.inputs.catalogue.is_some();
        self.tell(Input::InvocationWanted { id, tasks, caller, awaited, nodes_hold_files });
    }

    /// What is awaited about places may have changed.
    pub(crate) fn note_places_awaited(&mut self) {
        if self.run.holds_invocation() {
            let awaited = self.places_awaited();
            self.tell(Input::PlacesAwaited(awaited));
        }
    }

    fn places_awaited(&self) -> PlacesAwaited {
        let is_open = |catalogue: &Catalogue| catalogue.open > 0;
        PlacesAwaited {
            catalogue: self.inputs.catalogue.as_ref().is_some_and(is_open),
            holdings: self.waits_for_nodes(),
        }
    }

    /// A node is there: files of the catalogue may be on it.
    pub(crate) fn match_hosts(&mut self) {
        for (id, places) in self.inputs.match_hosts() {
            self.event(Event::PlacesFound { id, places });
        }
    }

    /// The nodes that hold a task's file.
    pub(crate) fn places_of(&self, id: TaskId) -> Places {
        self.staged_places(id).unwrap_or_else(|| self.inputs.places_of(id))
    }

    /// Bytes of a task's input whose place is known, and those that are on `node`.
    pub(crate) fn placed_bytes(&self, id: TaskId, node: NodeId) -> InputBytes {
        let mut sum = InputBytes::default();
        if !self.inputs.several {
            return sum;
        }
        for input in self.run.scheduler().inputs(id) {
            let places = self.places_of(input);
            let task = self.run.scheduler().task(input);
            let bytes = task.map_or(0, |task| task.bytes.saturating_add(task.secondary_bytes));
            if !places.as_slice().is_empty() {
                sum.placed_bytes += bytes;
                sum.local_bytes += if places.as_slice().contains(&node) { bytes } else { 0 };
            }
        }
        sum
    }
}
