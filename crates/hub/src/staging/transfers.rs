//! Transfers: from where each file is brought, and how many are under way. One that fails is tried
//! from another node that has the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_core::{Event, NodeId, TaskId};
use rakuda_proto::front::FileAnswer;
use rakuda_proto::journal::{FileStaged, JournalEvent};
use tokio::task::AbortHandle;

use super::beside;
use super::ledger::State;
use super::relay::{Carried, Failure, Part, Place, relay_all, remove};
use crate::hub::{Hub, LOCAL_NODE};

/// Transfers from or to a node at a time, and from or to this machine.
const UNDER_WAY_MAX: u32 = 4;
const UNDER_WAY_MAX_HOME: u32 = 8;

/// A file that is being brought to a node, or is to be.
#[derive(Debug)]
pub(super) struct Transfer {
    state: State,
    /// Where it failed from.
    tried: BTreeSet<NodeId>,
    /// The last reason.
    why: String,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    from: NodeId,
    /// By the monotonic clock.
    started_ns: u64,
    task: AbortHandle,
}

/// What a transfer, or a removal, came to.
#[derive(Debug)]
pub(crate) struct Moved(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    File {
        id: TaskId,
        from: NodeId,
        to: NodeId,
        result: Result<Carried, Failure>,
    },
    /// A target that Ruby code has made here, to what commands have written beside it.
    Followed {
        id: TaskId,
        number: u32,
        result: Result<(), Failure>,
    },
    Removed(NodeId),
    /// What the front has asked for.
    Found {
        request: u32,
        outcome: Result<FileAnswer, String>,
    },
    /// What an action has written.
    Sent {
        task: TaskId,
        number: u32,
        path: PathBuf,
        result: Result<(), String>,
    },
}

impl Hub {
    /// Has a file brought to a node, unless it is on its way.
    pub(super) fn bring(&mut self, id: TaskId, to: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        let Some(state) = staging.ledger.state(id) else { return };
        staging.transfers.entry((id, to)).or_insert_with(|| Transfer {
            state,
            tried: BTreeSet::new(),
            why: "find a node that has it".into(),
            running: None,
        });
    }

    /// Starts what may be started.
    pub(crate) fn pump_transfers(&mut self) {
        let Some(staging) = &self.staging else { return };
        let idle = |(_, transfer): &(_, &Transfer)| transfer.running.is_none();
        let idle: Vec<(TaskId, NodeId)> =
            staging.transfers.iter().filter(idle).map(|(key, _)| *key).collect();
        for (id, to) in idle {
            let Some(staging) = &self.staging else { return };
            let sources = self.sources(id, to);
            let is_free = |node: NodeId| {
                let most = if node == LOCAL_NODE { UNDER_WAY_MAX_HOME } else { UNDER_WAY_MAX };
                staging.under_way.get(&node).copied().unwrap_or(0) < most
            };
            if sources.is_empty() {
                self.on_not_brought(id, to);
                continue;
            }
            if !is_free(to) || staging.removals.contains_key(&to) {
                continue;
            }
            let busy = |node: &NodeId| staging.under_way.get(node).copied().unwrap_or(0);
            let free = sources.into_iter().filter(|node| is_free(*node));
            if let Some(from) = free.min_by_key(|node| (busy(node), *node)) {
                self.start_transfer(id, from, to);
            }
        }
    }

    /// Nodes that a file can be brought from.
    fn sources(&self, id: TaskId, to: NodeId) -> Vec<NodeId> {
        let Some(staging) = &self.staging else { return Vec::new() };
        let Some(transfer) = staging.transfers.get(&(id, to)) else { return Vec::new() };
        let mut nodes = staging.ledger.nodes_with(id);
        nodes.retain(|node| {
            self.is_within_reach(*node) && *node != to && !transfer.tried.contains(node)
        });
        nodes
    }

    /// Whether the files of a node can be got at.
    pub(super) fn is_within_reach(&self, node: NodeId) -> bool {
        node == LOCAL_NODE || self.run.nodes().is_there(node)
    }

    fn start_transfer(&mut self, id: TaskId, from: NodeId, to: NodeId) {
        let here = self.home_path(id);
        let place = |node, here: &Path| Place { node, path: self.path_on(node, here) };
        let part =
            |here: &Path, version| Part { from: place(from, here), to: place(to, here), version };
        let Some(staging) = &self.staging else { return };
        let Some(transfer) = staging.transfers.get(&(id, to)) else { return };
        let file = part(&here, transfer.state.version);
        let secondary = transfer.state.secondary.iter();
        let secondary = secondary.map(|(name, version)| part(&beside(&here, name), *version));
        let moving = relay_all(Rc::clone(&staging.hosts), file, secondary.collect());
        let Some(staging) = &mut self.staging else { return };
        let Some(transfer) = staging.transfers.get_mut(&(id, to)) else { return };
        let reports = staging.reports.clone();
        let task = tokio::task::spawn_local(async move {
            let result = moving.await;
            // The hub is gone only when the run is over.
            let _ = reports.send(Moved(Kind::File { id, from, to, result }));
        });
        let started_ns = self.now.time.0;
        transfer.running = Some(Running { from, started_ns, task: task.abort_handle() });
        *staging.under_way.entry(from).or_default() += 1;
        *staging.under_way.entry(to).or_default() += 1;
    }

    /// Takes what a transfer came to.
    pub(crate) fn on_moved(&mut self, moved: Moved) {
        match moved.0 {
            Kind::Removed(node) => {
                if let Some(staging) = &mut self.staging
                    && let Some(count) = staging.removals.get_mut(&node)
                {
                    *count -= 1;
                    if *count == 0 {
                        staging.removals.remove(&node);
                    }
                }
            }
            Kind::File { id, from, to, result } => self.on_file_moved(id, from, to, result),
            Kind::Followed { id, number, result } => {
                self.on_followed(id, number, result.map_err(|failure| failure.reason));
            }
            Kind::Found { request, outcome } => self.answer_file(request, outcome),
            Kind::Sent { task, number, path, result } => self.on_sent(task, number, &path, result),
        }
        self.pump_transfers();
    }

    fn on_file_moved(
        &mut self,
        id: TaskId,
        from: NodeId,
        to: NodeId,
        result: Result<Carried, Failure>,
    ) {
        let Some(staging) = &mut self.staging else { return };
        let Some(transfer) = staging.transfers.get_mut(&(id, to)) else { return };
        // The report of one that was ended meanwhile.
        let Some(running) = transfer.running.take_if(|running| running.from == from) else {
            return;
        };
        let state = transfer.state.clone();
        if let Err(failure) = &result {
            transfer.why.clone_from(&failure.reason);
            if failure.at_source {
                transfer.tried.insert(from);
            }
        }
        staging.leave(from, to);
        let carried = match result {
            Ok(carried) => carried,
            Err(failure) => {
                if !failure.at_source {
                    // Another source would do no better.
                    self.on_not_brought(id, to);
                }
                return;
            }
        };
        staging.transfers.remove(&(id, to));
        if let Some(now) = staging.ledger.state(id).filter(|now| state.covers(now)) {
            if to == LOCAL_NODE {
                staging.ledger.settle(id, LOCAL_NODE, now.version);
            } else {
                staging.ledger.arrived(id, to, &now);
            }
            let places = staging.ledger.places(id);
            self.event(Event::PlacesFound { id, places });
            self.remember(id, to, &now, false);
        }
        let took_ns = self.now.time.0.saturating_sub(running.started_ns);
        let bytes = state.version.bytes.saturating_add(carried.bytes);
        let companions = carried.secondary;
        let (time_ns, task) = (self.now.journal_ns(), id.0);
        let (from, to_node) = (from.0, to.0);
        let staged = FileStaged { time_ns, task, from, to: to_node, companions, bytes, took_ns };
        let event = JournalEvent::FileStaged(staged);
        self.record.about_task(self.run.scheduler(), &self.names, id, &event);
        self.forget_program_like(id);
        self.on_brought(id, to);
    }

    /// A file is on a node now: what waits for that goes on.
    fn on_brought(&mut self, id: TaskId, to: NodeId) {
        self.on_input_brought(id, to);
        if to == LOCAL_NODE {
            self.on_came_home(id);
        }
    }

    /// A file cannot be brought: what waits for it fails, unless that is because a node is gone.
    fn on_not_brought(&mut self, id: TaskId, to: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        let Some(transfer) = staging.transfers.remove(&(id, to)) else { return };
        staging.ledger.not_arrived(id, to);
        let nodes = transfer.tried.iter().copied().chain(staging.ledger.nodes_with(id));
        let mut nodes: BTreeSet<NodeId> = nodes.filter(|node| *node != to).collect();
        let names = nodes.iter().map(|node| self.staging_name(*node)).collect::<Vec<_>>();
        let why = format!(
            "cannot bring {} from {} to {}: failed to {}",
            self.display_name(id),
            if names.is_empty() { "where it was".to_owned() } else { names.join(" or ") },
            self.staging_name(to),
            transfer.why
        );
        nodes.insert(to);
        self.doubt(id, to, why, &nodes);
    }

    /// A node in messages about files.
    pub(super) fn staging_name(&self, node: NodeId) -> String {
        match node {
            LOCAL_NODE => "this machine".into(),
            node => format!("node {}", self.agents.node(node).name.to_display()),
        }
    }

    /// Removes copies from a node.
    pub(super) fn remove_copies(&mut self, node: NodeId, files: &[(TaskId, State)]) {
        if files.is_empty() || !self.run.nodes().is_there(node) {
            return;
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
        *staging.removals.entry(node).or_default() += 1;
        let (hosts, reports) = (Rc::clone(&staging.hosts), staging.reports.clone());
        tokio::task::spawn_local(async move {
            remove(hosts, node, named).await;
            let _ = reports.send(Moved(Kind::Removed(node)));
        });
        for (id, _) in files {
            self.tell_places(*id);
        }
    }

    /// Where a file is has changed.
    pub(super) fn tell_places(&mut self, id: TaskId) {
        if let Some(staging) = &self.staging {
            let places = staging.ledger.places(id);
            self.event(Event::PlacesFound { id, places });
        }
    }

    /// A node is gone: what was being brought there is not any more, and what came from there comes
    /// from elsewhere, or not at all.
    pub(super) fn end_transfers_of(&mut self, node: NodeId) {
        let Some(staging) = &mut self.staging else { return };
        let mut ended = Vec::new();
        for ((id, to), transfer) in &mut staging.transfers {
            let concerned = *to == node
                || transfer.running.as_ref().is_some_and(|running| running.from == node);
            if concerned && let Some(running) = transfer.running.take() {
                running.task.abort();
                transfer.why = "keep the connection: the node was lost".into();
                ended.push((running.from, *to));
            }
            let _ = id;
        }
        staging.transfers.retain(|(_, to), _| *to != node);
        for (from, to) in ended {
            staging.leave(from, to);
        }
        staging.removals.remove(&node);
    }
}

impl super::Staging {
    fn leave(&mut self, from: NodeId, to: NodeId) {
        for node in [from, to] {
            if let Some(count) = self.under_way.get_mut(&node) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// The run is over: nothing is moved any more.
    pub(crate) fn end(&mut self) {
        for transfer in std::mem::take(&mut self.transfers).into_values() {
            if let Some(running) = transfer.running {
                running.task.abort();
            }
        }
        self.hosts.remove_all();
    }
}
