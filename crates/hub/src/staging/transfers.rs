//! Files on their way: each transfer and each removal is a task of its own, whose report the loop
//! takes in. What is moved when `rakuda_core::stager` decides.

use std::path::Path;
use std::rc::Rc;

use rakuda_cluster::LOCAL_NODE;
use rakuda_core::stager::{MoveFailure, StagerInput};
use rakuda_core::{Event, NodeId, TaskId};

use super::paths::beside;
use super::relay::{Carried, Failure, FileOnNode, Part, relay_all, remove};
use super::state::State;
use super::under_way::{Kind, Moved, Moving};
use crate::hub::Hub;

impl Hub {
    /// Whether the files of a node can be got at.
    pub(super) fn is_within_reach(&self, node: NodeId) -> bool {
        node == LOCAL_NODE || self.run.nodes().is_there(node)
    }

    pub(super) fn start_transfer(
        &mut self,
        transfer: u32,
        file: TaskId,
        state: &State,
        from: NodeId,
        to: NodeId,
    ) {
        let here = self.home_path(file);
        let place = |node, here: &Path| FileOnNode { node, path: self.path_on(node, here) };
        let part =
            |here: &Path, version| Part { from: place(from, here), to: place(to, here), version };
        let whole = part(&here, state.version);
        let secondary = state.secondary.iter();
        let secondary = secondary.map(|(name, version)| part(&beside(&here, name), *version));
        let secondary = secondary.collect();
        let Some(staging) = &mut self.staging else { return };
        let moving = relay_all(Rc::clone(&staging.hosts), whole, secondary);
        let reports = staging.reports.clone();
        let task = tokio::task::spawn_local(async move {
            let result = moving.await;
            // The hub is gone only when the run is over.
            let _ = reports.send(Moved(Kind::File { transfer, result }));
        });
        let started_ns = self.now.time.0;
        let moving = Moving { started_ns, task: task.abort_handle(), carried: None };
        staging.moves.insert(transfer, moving);
    }

    pub(super) fn cancel_transfer(&mut self, transfer: u32) {
        let moving = self.staging.as_mut().and_then(|staging| staging.moves.remove(&transfer));
        if let Some(moving) = moving {
            moving.task.abort();
        }
    }

    /// Takes what a transfer came to.
    pub(crate) fn on_moved(&mut self, moved: Moved) {
        match moved.0 {
            Kind::Removed(removal) => self.on_removed(removal),
            Kind::File { transfer, result } => self.on_file_moved(transfer, result),
            Kind::Followed { id, number, result } => {
                self.on_followed(id, number, result.map_err(|failure| failure.reason));
            }
            Kind::Found { request, outcome } => self.answer_file(request, outcome),
            Kind::Sent { node, path, version, result } => {
                self.on_sent(node, path, version, &result);
            }
        }
    }

    fn on_file_moved(&mut self, transfer: u32, result: Result<Carried, Failure>) {
        let Some(staging) = &mut self.staging else { return };
        let result = match result {
            Ok(carried) => {
                if let Some(moving) = staging.moves.get_mut(&transfer) {
                    moving.carried = Some(carried);
                }
                Ok(())
            }
            Err(Failure { at_source, reason, .. }) => {
                staging.moves.remove(&transfer);
                Err(MoveFailure { at_source, reason })
            }
        };
        self.stage(StagerInput::Moved { transfer, result });
    }

    /// A node in messages about files.
    pub(super) fn staging_name(&self, node: NodeId) -> String {
        match node {
            LOCAL_NODE => "this machine".into(),
            node => format!("node {}", self.agents.node(node).name.to_display()),
        }
    }

    fn on_removed(&mut self, removal: u32) {
        if let Some(staging) = &mut self.staging {
            staging.removals.remove(&removal);
        }
        self.stage(StagerInput::Removed { removal });
    }

    /// What still waits for a data link removes nothing when it has one.
    pub(super) fn stop_removal(&mut self, removal: u32) {
        let stopped = self.staging.as_mut().and_then(|staging| staging.removals.remove(&removal));
        if let Some(task) = stopped {
            task.abort();
        }
    }

    /// Removes copies from a node.
    pub(super) fn remove_copies(&mut self, removal: u32, node: NodeId, files: &[(TaskId, State)]) {
        if !self.run.nodes().is_there(node) {
            return self.stage(StagerInput::Removed { removal });
        }
        let mut named = Vec::new();
        for (id, state) in files {
            let here = self.home_path(*id);
            named.push((self.path_on(node, &here), state.version));
            for (name, version) in state.secondary.iter() {
                named.push((self.path_on(node, &beside(&here, name)), *version));
            }
        }
        let Some(staging) = &mut self.staging else { return };
        let (hosts, reports) = (Rc::clone(&staging.hosts), staging.reports.clone());
        let task = tokio::task::spawn_local(async move {
            remove(hosts, node, named).await;
            let _ = reports.send(Moved(Kind::Removed(removal)));
        });
        staging.removals.insert(removal, task.abort_handle());
    }

    /// Where a file is has changed.
    pub(super) fn tell_places(&mut self, id: TaskId) {
        let Some(staging) = &self.staging else { return };
        let places = staging.stager.ledger().places_left(id);
        self.event(Event::PlacesFound { id, places });
    }
}

impl super::Staging {
    /// The run is over: nothing more is moved.
    pub(crate) fn end(&mut self) {
        for moving in std::mem::take(&mut self.moves).into_values() {
            moving.task.abort();
        }
        self.hosts.remove_all();
    }
}
