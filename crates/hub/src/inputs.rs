//! Where the inputs of tasks are: the nodes that made them in this run come first, then the file system's catalogue.
//!
//! With one node there is nothing to know. The catalogue is asked in bulk before tasks are
//! activated, and never waited for longer than `LOCATED_WITHIN`; what is found out later counts for
//! tasks that are not queued yet. It decides nothing: candidates are the core's business.

pub(crate) mod state;

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::HOLDINGS_LIMIT_NS;
use rakuda_core::{Event, FilePlaces, InvocationId, NodeId, NodeState, Places, TaskId, TaskKind};
use rakuda_locate::{Hosts, Located, Locator, gfarm_mount};
use rakuda_proto::journal::InputBytes;
use tokio::sync::mpsc::unbounded_channel;

use crate::hub::Hub;
use state::{Catalogue, HeldInvocation};

/// Timeout for the catalogue's answer, ns; tasks start without it then.
const LOCATED_WITHIN_NS: u64 = 2_000_000_000;

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

    /// Asks where files are that tasks will read; whether there are answers to wait for.
    pub(crate) fn locate_inputs(&mut self) -> bool {
        let unlocated = std::mem::take(&mut self.inputs.unlocated);
        let Some(catalogue) = &mut self.inputs.catalogue else { return false };
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
        catalogue.open > 0
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
                    self.check_held_invocation();
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

    /// Starts what waits for places, whatever is known of them.
    pub(crate) fn release_invocation(&mut self) {
        if let Some(held) = self.inputs.held.take() {
            self.invoke(held.id, &held.tasks, held.caller);
        }
    }

    /// Wanted now, or as soon as it is known where the input is.
    pub(crate) fn invoke_located(
        &mut self,
        id: InvocationId,
        tasks: Vec<TaskId>,
        caller: Option<TaskId>,
    ) {
        let waits_for_nodes = self.waits_for_nodes();
        let locates = self.locate_inputs();
        let needs_nodes = self.waits_for_hosts() && self.will_run_any();
        if self.settings.config.dry_run || !(locates || waits_for_nodes || needs_nodes) {
            self.invoke(id, &tasks, caller);
            return;
        }
        let limit_ns = if waits_for_nodes { HOLDINGS_LIMIT_NS } else { LOCATED_WITHIN_NS };
        let due_ns = self.now.time.0 + limit_ns;
        self.inputs.held = Some(HeldInvocation { id, tasks, caller, due_ns, needs_nodes });
    }

    /// Whether nodes are on their way that hold files: the first of them is not to take the others' tasks.
    fn waits_for_hosts(&self) -> bool {
        let comes = |state: NodeState| state == NodeState::Starting;
        self.inputs.catalogue.is_some()
            && (self.run.nodes().is_expecting()
                || self.run.nodes().states().any(|(_, state)| comes(state)))
    }

    fn will_run_any(&self) -> bool {
        let now = self.now;
        self.run.scheduler().forecast(now).into_iter().any(|runs| runs)
    }

    /// What is held goes on when nothing is waited for any more.
    pub(crate) fn check_held_invocation(&mut self) {
        let asks = self.inputs.catalogue.as_ref().is_some_and(|catalogue| catalogue.open > 0);
        let Some(held) = &self.inputs.held else { return };
        let lacks_nodes = held.needs_nodes && self.waits_for_hosts();
        if !asks && !self.waits_for_nodes() && !lacks_nodes {
            self.release_invocation();
        }
    }

    /// Tasks have been held for long enough. But until a node is there, they would only stand in the queue for all of
    /// them.
    pub(crate) fn on_held_long(&mut self) {
        let none_is_up = !self.agents.places().any(|(id, _)| self.run.nodes().is_up(id));
        let waits_on = none_is_up && self.waits_for_hosts();
        match &mut self.inputs.held {
            Some(held) if held.needs_nodes && waits_on => {
                held.due_ns = self.now.time.0 + LOCATED_WITHIN_NS;
            }
            Some(_) | None => self.release_invocation(),
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
