//! Transfers: what is to be moved to which node, from where, and how many are under way at a time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::input::{MoveFailure, StagerEffect};
use super::ledger::{FileState, Ledger};
use super::suspicions::GaveUp;
use crate::ids::{NodeId, TaskId};

/// Maximum number of transfers from and to a node at a time.
const UNDER_WAY_MAX: u32 = 4;
/// Maximum number of transfers from and to home at a time.
const UNDER_WAY_MAX_HOME: u32 = 8;

/// A file that is being moved to a node, or is to be.
#[derive(Debug)]
struct Transfer<S> {
    /// As it is moved, or is to be.
    state: S,
    /// Sources that have failed.
    tried: BTreeSet<NodeId>,
    /// The last reason, after "failed to".
    reason: String,
    running: Option<Running>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    number: u32,
    from: NodeId,
}

#[derive(Debug)]
struct Removal<S> {
    node: NodeId,
    files: Vec<(TaskId, S)>,
}

/// What disks may have when transfers and removals have been stopped.
#[derive(Debug)]
pub(super) struct Stopped<S> {
    /// Files that were on their way, and where to: some of them may have arrived.
    pub moved: Vec<(TaskId, NodeId, S)>,
    /// Files that were to be removed from the node.
    pub kept: Vec<(TaskId, S)>,
}

/// A transfer that has ended, well or not.
#[derive(Debug)]
pub(super) struct Ended<S> {
    pub file: TaskId,
    pub from: NodeId,
    pub to: NodeId,
    /// As it was moved.
    pub state: S,
}

/// Transfers that are wanted or under way, and removals.
#[derive(Debug)]
pub(super) struct Transfers<S> {
    home: NodeId,
    wanted: BTreeMap<(TaskId, NodeId), Transfer<S>>,
    /// By number: those that are under way.
    running: BTreeMap<u32, (TaskId, NodeId)>,
    /// Begun so far.
    count: u32,
    /// How many are under way from and to each node.
    under_way: BTreeMap<NodeId, u32>,
    /// By number: on which node each removal is under way, and of what.
    removals: BTreeMap<u32, Removal<S>>,
    /// Removals so far.
    removal_count: u32,
}

impl<S: FileState> Transfers<S> {
    pub fn new(home: NodeId) -> Self {
        Self {
            home,
            wanted: BTreeMap::new(),
            running: BTreeMap::new(),
            count: 0,
            under_way: BTreeMap::new(),
            removals: BTreeMap::new(),
            removal_count: 0,
        }
    }

    /// Whether a file is on its way to a node, or is to be.
    pub fn is_wanted(&self, file: TaskId, to: NodeId) -> bool {
        self.wanted.contains_key(&(file, to))
    }

    /// Whether a file is on its way to a node.
    pub fn is_under_way(&self, file: TaskId, to: NodeId) -> bool {
        self.wanted.get(&(file, to)).is_some_and(|transfer| transfer.running.is_some())
    }

    /// A file is to be moved to a node, unless it is on its way.
    pub fn want(&mut self, file: TaskId, to: NodeId, ledger: &Ledger<S>) {
        let Some(state) = ledger.state(file) else { return };
        self.wanted.entry((file, to)).or_insert_with(|| Transfer {
            state: state.clone(),
            tried: BTreeSet::new(),
            reason: "find a node that has it".into(),
            running: None,
        });
    }

    /// What was given up is wanted again, from other sources than those that failed.
    pub fn want_again(&mut self, file: TaskId, to: NodeId, gave_up: GaveUp, ledger: &Ledger<S>) {
        self.want(file, to, ledger);
        if let Some(transfer) = self.wanted.get_mut(&(file, to)) {
            (transfer.tried, transfer.reason) = (gave_up.tried, gave_up.reason);
        }
    }

    /// Those that have not begun.
    pub fn idle(&self) -> Vec<(TaskId, NodeId)> {
        let idle = self.wanted.iter().filter(|(_, transfer)| transfer.running.is_none());
        idle.map(|(key, _)| *key).collect()
    }

    /// Whether a transfer to a node may begin now.
    pub fn may_begin(&self, to: NodeId) -> bool {
        self.has_capacity(to) && !self.removals.values().any(|removal| removal.node == to)
    }

    fn has_capacity(&self, node: NodeId) -> bool {
        let most = if node == self.home { UNDER_WAY_MAX_HOME } else { UNDER_WAY_MAX };
        self.busy(node) < most
    }

    fn busy(&self, node: NodeId) -> u32 {
        self.under_way.get(&node).copied().unwrap_or(0)
    }

    /// Begins one from the source that has the least to do, if any may hand out one more; an error
    /// when no source is left.
    pub fn begin(
        &mut self,
        file: TaskId,
        to: NodeId,
        sources: &[NodeId],
        state: S,
    ) -> Result<Option<StagerEffect<S>>, ()> {
        let Some(transfer) = self.wanted.get_mut(&(file, to)) else { return Ok(None) };
        if transfer.state != state {
            // What could not hand out another state may have this one.
            transfer.tried.clear();
        }
        let transfer = &*transfer;
        let is_left = |node: &&NodeId| **node != to && !transfer.tried.contains(node);
        let left: Vec<NodeId> = sources.iter().filter(is_left).copied().collect();
        if left.is_empty() {
            return Err(());
        }
        let free = left.into_iter().filter(|node| self.has_capacity(*node));
        let Some(from) = free.min_by_key(|node| (self.busy(*node), *node)) else { return Ok(None) };
        self.count += 1;
        let number = self.count;
        self.running.insert(number, (file, to));
        for node in [from, to] {
            *self.under_way.entry(node).or_default() += 1;
        }
        if let Some(transfer) = self.wanted.get_mut(&(file, to)) {
            transfer.state = state.clone();
            transfer.running = Some(Running { number, from });
        }
        Ok(Some(StagerEffect::Move { transfer: number, file, state, from, to }))
    }

    /// A transfer is under way no more; nothing if it was cancelled.
    pub fn ended(&mut self, number: u32) -> Option<Ended<S>> {
        let (file, to) = *self.running.get(&number)?;
        let transfer = self.wanted.get_mut(&(file, to))?;
        let (state, Running { from, .. }) = (transfer.state.clone(), transfer.running?);
        self.stop(file, to);
        Some(Ended { file, from, to, state })
    }

    /// It has failed.
    pub fn failed(&mut self, file: TaskId, from: NodeId, to: NodeId, failure: MoveFailure) {
        if let Some(transfer) = self.wanted.get_mut(&(file, to)) {
            transfer.reason = failure.reason;
            if failure.at_source {
                transfer.tried.insert(from);
            }
        }
    }

    /// What was wanted is there.
    pub fn done(&mut self, file: TaskId, to: NodeId) {
        self.wanted.remove(&(file, to));
    }

    /// What was wanted cannot be had.
    pub fn give_up(&mut self, file: TaskId, to: NodeId) -> Option<GaveUp> {
        let Transfer { tried, reason, .. } = self.wanted.remove(&(file, to))?;
        Some(GaveUp { tried, reason })
    }

    /// Drops a transfer that no task wants now, if it is not under way; whether that is so.
    pub fn drop_idle(&mut self, file: TaskId, to: NodeId) -> bool {
        let transfer = self.wanted.get(&(file, to));
        let is_idle = transfer.is_none_or(|transfer| transfer.running.is_none());
        if is_idle {
            self.wanted.remove(&(file, to));
        }
        is_idle
    }

    /// Drops a transfer that no task wants now, and cancels it if it is under way.
    pub fn drop_one(&mut self, file: TaskId, to: NodeId, out: &mut Vec<StagerEffect<S>>) {
        out.extend(self.stop(file, to).map(|transfer| StagerEffect::Cancel { transfer }));
        self.wanted.remove(&(file, to));
    }

    /// Copies are being removed from a node: the number of that.
    pub fn removing(&mut self, node: NodeId, files: Vec<(TaskId, S)>) -> u32 {
        self.removal_count += 1;
        self.removals.insert(self.removal_count, Removal { node, files });
        self.removal_count
    }

    /// A removal is over: where it was, and of what. Nothing, if it was stopped.
    pub fn removed(&mut self, removal: u32) -> Option<(NodeId, Vec<(TaskId, S)>)> {
        self.removals.remove(&removal).map(|removal| (removal.node, removal.files))
    }

    /// Whether a file is being removed from a node.
    pub fn is_removing(&self, file: TaskId, node: NodeId) -> bool {
        let mut on_it = self.removals.values().filter(|removal| removal.node == node);
        on_it.any(|removal| removal.files.iter().any(|(other, _)| *other == file))
    }

    /// A node is gone: transfers to it stop, and what came from it is to come from elsewhere.
    pub fn lose(&mut self, node: NodeId, out: &mut Vec<StagerEffect<S>>) -> Stopped<S> {
        let mut stopped = Stopped { moved: Vec::new(), kept: Vec::new() };
        let is_its = |(_, to): &(TaskId, NodeId), transfer: &Transfer<S>| {
            *to == node || transfer.running.is_some_and(|running| running.from == node)
        };
        let its = self.wanted.iter().filter(|(key, transfer)| is_its(key, transfer));
        for (file, to) in its.map(|(key, _)| *key).collect::<Vec<_>>() {
            let number = self.stop(file, to);
            out.extend(number.map(|transfer| StagerEffect::Cancel { transfer }));
            if let Some(transfer) = self.wanted.get_mut(&(file, to)) {
                stopped.moved.extend(number.map(|_| (file, to, transfer.state.clone())));
                transfer.reason = "keep the connection: the node was lost".into();
            }
        }
        self.wanted.retain(|(_, to), _| *to != node);
        let on_it = self.removals.iter().filter(|(_, removal)| removal.node == node);
        for number in on_it.map(|(number, _)| *number).collect::<Vec<_>>() {
            let removal = self.removals.remove(&number);
            stopped.kept.extend(removal.into_iter().flat_map(|removal| removal.files));
            out.push(StagerEffect::StopRemoval { removal: number });
        }
        stopped
    }

    /// Takes one from those that are under way; its number.
    fn stop(&mut self, file: TaskId, to: NodeId) -> Option<u32> {
        let running = self.wanted.get_mut(&(file, to))?.running.take()?;
        self.running.remove(&running.number);
        for node in [running.from, to] {
            if let Some(count) = self.under_way.get_mut(&node) {
                *count -= 1;
            }
        }
        Some(running.number)
    }
}
