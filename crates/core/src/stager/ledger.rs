//! Which node has which state of which file, and how much the copies on each node take. Books only.
//!
//! A file here is a task's file with all its secondary files: the state, the places and the bytes
//! are those of the whole. It *stays on* the nodes that made it, and on home once it is staged out;
//! elsewhere are *copies*, which count against the node's bound, and go least recently used first.
//! A copy that a task reads is pinned. A task is let in with all its inputs or not at all, so tasks
//! that wait for room hold none. A copy that is being staged in has its room from the moment its
//! first reader is let in until it has arrived, or is neither pinned nor on its way any more. What a
//! disk may hold beside that is *astray*: the node is to remove it, as it counts for nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::fact::Places;
use crate::ids::{NodeId, TaskId};

/// What tells one state of a task's file, with all that goes with it, from another.
pub trait FileState: Clone + Eq {
    /// What all of it takes.
    fn bytes(&self) -> u64;

    /// Whether nothing goes with the task's file.
    fn is_alone(&self) -> bool;

    /// Whether who has this has `other`, too.
    fn covers(&self, other: &Self) -> bool;

    /// Whether the task's file itself is in the same state, whatever goes with it.
    fn is_same_file(&self, other: &Self) -> bool;

    /// Whether the task's file itself is another one than in `earlier`, and no older.
    fn supersedes(&self, earlier: &Self) -> bool;
}

/// What a task's inputs mean for its node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission<S> {
    /// There is room, and it is taken.
    Granted {
        /// What is not there yet.
        missing: Vec<TaskId>,
        /// What has to go first.
        evicted: Vec<(TaskId, S)>,
        /// What the task has waited for before, and no task waits for now.
        needless: Vec<TaskId>,
    },
    /// Later, when others have read theirs.
    Wait,
    /// Never.
    TooLarge {
        /// What its inputs take together.
        needed_bytes: u64,
        /// What there may be.
        limit_bytes: u64,
    },
}

/// The files, and the copies on each node.
#[derive(Debug)]
pub struct Ledger<S> {
    files: BTreeMap<TaskId, Entry<S>>,
    nodes: BTreeMap<NodeId, Cache<S>>,
    /// Counts uses, for their order.
    uses: u64,
}

impl<S> Default for Ledger<S> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), nodes: BTreeMap::new(), uses: 0 }
    }
}

#[derive(Debug)]
struct Entry<S> {
    state: S,
    /// The nodes that it stays on.
    stays_on: BTreeSet<NodeId>,
}

/// The copies on a node.
#[derive(Debug)]
struct Cache<S> {
    limit_bytes: u64,
    used_bytes: u64,
    copies: BTreeMap<TaskId, Copy<S>>,
    /// There may be more room than before.
    has_more_room: bool,
    /// What each task that was let in reads, of copies and of what stays here.
    readers: BTreeMap<TaskId, Vec<TaskId>>,
    /// What may be on the disk, and is no longer a copy.
    astray: Vec<(TaskId, S)>,
}

impl<S> Default for Cache<S> {
    fn default() -> Self {
        Self {
            limit_bytes: u64::MAX,
            used_bytes: 0,
            copies: BTreeMap::new(),
            has_more_room: false,
            readers: BTreeMap::new(),
            astray: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Copy<S> {
    state: S,
    /// It is there; until then it has its room, and is to be staged in.
    is_there: bool,
    /// What the disk may have in its place until then: one of these.
    in_place: Vec<S>,
    pins: u32,
    last_use: u64,
}

impl<S> Copy<S> {
    /// No task reads it or waits for it.
    fn is_idle(&self) -> bool {
        self.is_there && self.pins == 0
    }
}

impl<S: FileState> Cache<S> {
    /// Has a copy, or room for one, in place of any other.
    fn insert(&mut self, id: TaskId, state: S, is_there: bool) {
        let before = self.take(id).filter(|_| !is_there);
        let in_place =
            before.map(|copy| if copy.is_there { vec![copy.state] } else { copy.in_place });
        let in_place = in_place.unwrap_or_default();
        self.used_bytes += state.bytes();
        let reads = |files: &&Vec<TaskId>| files.contains(&id);
        let pins = u32::try_from(self.readers.values().filter(reads).count()).unwrap_or(u32::MAX);
        self.copies.insert(id, Copy { state, is_there, in_place, pins, last_use: 0 });
    }

    /// A copy no longer counts; what the disk has in its place is astray.
    fn remove(&mut self, id: TaskId) -> Option<Copy<S>> {
        let mut removed = self.take(id);
        let in_place = removed.as_mut().map(|copy| mem::take(&mut copy.in_place));
        self.astray.extend(in_place.into_iter().flatten().map(|state| (id, state)));
        removed
    }

    fn take(&mut self, id: TaskId) -> Option<Copy<S>> {
        let removed = self.copies.remove(&id);
        self.has_more_room |= removed.is_some();
        self.used_bytes -= removed.as_ref().map_or(0, |copy| copy.state.bytes());
        removed
    }

    /// Removes idle copies, the one that was not used for the longest time first, until all fit.
    fn evict(&mut self) -> Vec<(TaskId, S)> {
        let mut evicted = Vec::new();
        while self.used_bytes > self.limit_bytes {
            let idle = self.copies.iter().filter(|(_, copy)| copy.is_idle());
            let oldest = idle.min_by_key(|(id, copy)| (copy.last_use, **id)).map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            let state = self.remove(oldest).map(|copy| copy.state);
            evicted.extend(state.map(|state| (oldest, state)));
        }
        evicted
    }

    /// Returns those of the copies that no task waits for now.
    fn unpin(&mut self, pinned: &[TaskId]) -> Vec<TaskId> {
        let mut needless = Vec::new();
        for id in pinned {
            if let Some(copy) = self.copies.get_mut(id) {
                debug_assert!(copy.pins > 0, "each reader unpins what it has pinned, once");
                copy.pins = copy.pins.saturating_sub(1);
                self.has_more_room |= copy.is_idle();
                if copy.pins == 0 && !copy.is_there {
                    needless.push(*id);
                }
            }
        }
        needless
    }
}

impl<S: FileState> Ledger<S> {
    /// Bounds the copies on a node.
    pub(super) fn set_limit(&mut self, node: NodeId, bytes: u64) {
        self.nodes.entry(node).or_default().limit_bytes = bytes;
    }

    /// Whether there may be more room on a node than when this was asked last.
    pub(super) fn take_more_room(&mut self, node: NodeId) -> bool {
        self.nodes.get_mut(&node).is_some_and(|cache| mem::take(&mut cache.has_more_room))
    }

    /// The stager asks again who stands in line on a node.
    pub(super) fn note_more_room(&mut self, node: NodeId) {
        self.nodes.entry(node).or_default().has_more_room = true;
    }

    /// The state of a file that counts, if any is known.
    pub fn state(&self, id: TaskId) -> Option<&S> {
        self.files.get(&id).map(|file| &file.state)
    }

    /// A file was made, or found, in this state, and stays there. Copies of another state count no
    /// more: those that are idle are given back, to be removed.
    pub(super) fn settle(&mut self, id: TaskId, node: NodeId, state: S) -> Vec<(NodeId, S)> {
        let mut stale = Vec::new();
        if let Some(cache) = self.nodes.get_mut(&node) {
            // It is no longer a copy, and has replaced what was in its place.
            cache.take(id);
            cache.has_more_room = true;
        }
        let new = || Entry { state: state.clone(), stays_on: BTreeSet::new() };
        let entry = self.files.entry(id).or_insert_with(new);
        if entry.state != state {
            entry.state = state;
            entry.stays_on.clear();
            for (other, cache) in &mut self.nodes {
                // Whoever wants the file may need less now.
                cache.has_more_room = true;
                if cache.copies.get(&id).is_some_and(Copy::is_idle)
                    && let Some(copy) = cache.remove(id)
                {
                    stale.push((*other, copy.state));
                }
            }
        }
        entry.stays_on.insert(node);
        stale
    }

    /// A file, and each copy that was whole, is in `state` from now on: part of it is another task's.
    pub(super) fn restate(&mut self, id: TaskId, state: &S) {
        let Some(entry) = self.files.get_mut(&id) else { return };
        let before = mem::replace(&mut entry.state, state.clone());
        for cache in self.nodes.values_mut() {
            if let Some(copy) = cache.copies.get_mut(&id).filter(|copy| copy.state == before) {
                copy.state = state.clone();
                cache.has_more_room = true;
                cache.used_bytes = cache.used_bytes - before.bytes() + state.bytes();
            }
        }
    }

    /// A copy from before was found, in the state that counts.
    pub(super) fn found_copy(&mut self, id: TaskId, node: NodeId) {
        let Some(state) = self.state(id).filter(|_| !self.has(id, node)).cloned() else { return };
        let cache = self.nodes.entry(node).or_default();
        cache.insert(id, state, true);
    }

    /// Whether a node has a file in the state that counts.
    pub fn has(&self, id: TaskId, node: NodeId) -> bool {
        self.files.get(&id).is_some_and(|entry| {
            entry.stays_on.contains(&node) || self.has_copy(id, node, &entry.state)
        })
    }

    /// Whether it stays there: it was made there, or staged out.
    pub fn stays_on(&self, id: TaskId, node: NodeId) -> bool {
        self.files.get(&id).is_some_and(|entry| entry.stays_on.contains(&node))
    }

    /// Whether nodes have it in the state that counts, and it does not stay on this one.
    pub fn is_elsewhere(&self, id: TaskId, node: NodeId) -> bool {
        !self.stays_on(id, node) && !self.nodes_with(id).is_empty()
    }

    fn has_copy(&self, id: TaskId, node: NodeId, state: &S) -> bool {
        let copy = self.nodes.get(&node).and_then(|cache| cache.copies.get(&id));
        copy.is_some_and(|copy| copy.is_there && copy.state == *state)
    }

    /// All nodes that have a file in the state that counts.
    pub fn nodes_with(&self, id: TaskId) -> Vec<NodeId> {
        let Some(entry) = self.files.get(&id) else { return Vec::new() };
        let mut nodes = entry.stays_on.clone();
        nodes.extend(self.nodes.keys().filter(|node| self.has_copy(id, **node, &entry.state)));
        nodes.into_iter().collect()
    }

    /// The same for the scheduler.
    pub fn places(&self, id: TaskId) -> Places {
        match self.nodes_with(id).as_slice() {
            [] => Places::Unknown,
            [node] => Places::One(*node),
            nodes => Places::Many(nodes.into()),
        }
    }

    /// The same of a file that was somewhere: once no node has it, it is to be made again.
    pub fn places_left(&self, id: TaskId) -> Places {
        match self.places(id) {
            Places::Unknown => Places::Nowhere,
            places => places,
        }
    }

    /// Every file that is on a node.
    pub fn files_on(&self, node: NodeId) -> impl Iterator<Item = (TaskId, &S)> {
        let held = self.files.iter().filter(move |(id, _)| self.has(**id, node));
        held.map(|(id, entry)| (*id, &entry.state))
    }

    /// What copies on a node take and are to take, and what of that is pinned or on its way.
    #[cfg(test)]
    pub(super) fn cached_bytes(&self, node: NodeId) -> (u64, u64) {
        let Some(cache) = self.nodes.get(&node) else { return (0, 0) };
        let held = cache.copies.values().filter(|copy| !copy.is_idle());
        (cache.used_bytes, held.map(|copy| copy.state.bytes()).sum())
    }

    /// A task is about to read `inputs`, each named once, on a node; what it has read there before it
    /// needs only if it is among them.
    pub(super) fn admit(
        &mut self,
        node: NodeId,
        reader: TaskId,
        inputs: &[TaskId],
    ) -> Admission<S> {
        self.uses += 1;
        let wanted: BTreeMap<TaskId, S> = inputs
            .iter()
            .filter_map(|id| Some((*id, self.files.get(id)?)))
            .filter(|(_, entry)| !entry.stays_on.contains(&node))
            .map(|(id, entry)| (id, entry.state.clone()))
            .collect();
        let cache = self.nodes.entry(node).or_default();
        let own_bytes: u64 = wanted.values().map(FileState::bytes).sum();
        let is_held =
            |(id, copy): &(&TaskId, &Copy<S>)| !copy.is_idle() && !wanted.contains_key(id);
        let held = cache.copies.iter().filter(is_held);
        let held_bytes: u64 = held.map(|(_, copy)| copy.state.bytes()).sum();
        if own_bytes > cache.limit_bytes {
            return Admission::TooLarge { needed_bytes: own_bytes, limit_bytes: cache.limit_bytes };
        }
        if own_bytes.saturating_add(held_bytes) > cache.limit_bytes {
            return Admission::Wait;
        }
        let mut missing = Vec::new();
        for (id, state) in &wanted {
            if cache.copies.get(id).is_none_or(|copy| copy.state != *state) {
                // A copy of an older state that is read at this moment is replaced under its reader, as on one machine.
                cache.insert(*id, state.clone(), false);
            }
            let copy = cache.copies.get_mut(id).expect("put there above");
            copy.pins += 1;
            copy.last_use = self.uses;
            if !copy.is_there {
                missing.push(*id);
            }
        }
        let before = cache.readers.insert(reader, inputs.to_vec());
        let needless = cache.unpin(&before.unwrap_or_default());
        Admission::Granted { missing, evicted: cache.evict(), needless }
    }

    /// A copy has arrived.
    pub(super) fn arrived(&mut self, id: TaskId, node: NodeId, state: &S) {
        let cache = self.nodes.entry(node).or_default();
        if let Some(copy) = cache.copies.get_mut(&id).filter(|copy| copy.state == *state) {
            (copy.is_there, copy.in_place) = (true, Vec::new());
            cache.has_more_room |= copy.is_idle();
        }
    }

    /// The disk of a node may have a file in a state that does not count as a copy: no task waited any longer for
    /// what was on its way.
    pub(super) fn may_have(&mut self, id: TaskId, node: NodeId, state: S) {
        let cache = self.nodes.entry(node).or_default();
        match cache.copies.get_mut(&id) {
            Some(copy) if !copy.is_there => {
                copy.in_place.retain(|other| *other != state);
                copy.in_place.push(state);
            }
            _ => cache.astray.push((id, state)),
        }
    }

    /// The disk of a node has a file in a state that does not count as a copy: it arrived when another one was
    /// wanted.
    pub(super) fn has_other(&mut self, id: TaskId, node: NodeId, state: S) {
        let cache = self.nodes.entry(node).or_default();
        match cache.copies.get_mut(&id) {
            Some(copy) if !copy.is_there => copy.in_place = vec![state],
            _ => cache.astray.push((id, state)),
        }
    }

    /// What a disk may have in place of a copy that is to come is astray: it need not wait for that.
    pub(super) fn displace(&mut self, id: TaskId, node: NodeId) {
        let Some(cache) = self.nodes.get_mut(&node) else { return };
        let in_place = cache.copies.get_mut(&id).map(|copy| mem::take(&mut copy.in_place));
        cache.astray.extend(in_place.into_iter().flatten().map(|state| (id, state)));
    }

    /// Whether a node is to remove a file that counts for nothing.
    pub(super) fn is_astray(&self, id: TaskId, node: NodeId) -> bool {
        let mut astray = self.nodes.get(&node).into_iter().flat_map(|cache| &cache.astray);
        astray.any(|(file, state)| *file == id && self.is_stray(id, state, node))
    }

    fn is_stray(&self, id: TaskId, state: &S, node: NodeId) -> bool {
        // Else it was made there, or found there, in the meantime.
        self.state(id) != Some(state) || !self.has(id, node)
    }

    /// Nodes whose disks may have what is astray.
    pub(super) fn nodes_with_strays(&self) -> Vec<NodeId> {
        let strayed = self.nodes.iter().filter(|(_, cache)| !cache.astray.is_empty());
        strayed.map(|(node, _)| *node).collect()
    }

    /// What is astray on a node, to be removed there.
    pub(super) fn take_strays(&mut self, node: NodeId) -> Vec<(TaskId, S)> {
        let strays = self.nodes.get_mut(&node).map(|cache| mem::take(&mut cache.astray));
        let mut strays = strays.unwrap_or_default();
        strays.retain(|(id, state)| self.is_stray(*id, state, node));
        strays
    }

    /// A file is not on its way to a node: unless somebody waits for it, it has no room there.
    pub(super) fn not_arriving(&mut self, id: TaskId, node: NodeId) {
        let Some(cache) = self.nodes.get_mut(&node) else { return };
        if cache.copies.get(&id).is_some_and(|copy| !copy.is_there && copy.pins == 0) {
            cache.remove(id);
        }
    }

    /// A task has stopped reading. Returns what no task waits for now.
    pub(super) fn release(&mut self, node: NodeId, reader: TaskId) -> Vec<TaskId> {
        let Some(cache) = self.nodes.get_mut(&node) else { return Vec::new() };
        let pinned = cache.readers.remove(&reader).unwrap_or_default();
        cache.unpin(&pinned)
    }

    /// Whether a task was let in on a node, though it may read nothing.
    pub(super) fn is_reader(&self, id: TaskId, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|cache| cache.readers.contains_key(&id))
    }

    /// What a task reads on a node.
    pub(super) fn pinned_by(&self, reader: TaskId, node: NodeId) -> &[TaskId] {
        let cache = self.nodes.get(&node);
        cache.and_then(|cache| cache.readers.get(&reader)).map_or(&[], Vec::as_slice)
    }

    /// Nothing runs on a node now, and nothing is being staged in.
    pub(super) fn empty_hands(&mut self, node: NodeId) {
        let Some(cache) = self.nodes.get_mut(&node) else { return };
        cache.readers.clear();
        let pending = cache.copies.iter().filter(|(_, copy)| !copy.is_there).map(|(id, _)| *id);
        for id in pending.collect::<Vec<_>>() {
            cache.remove(id);
        }
        cache.copies.values_mut().for_each(|copy| copy.pins = 0);
    }

    /// What a node has no longer counts.
    pub(super) fn forget_all(&mut self, node: NodeId) {
        for entry in self.files.values_mut() {
            entry.stays_on.remove(&node);
        }
        if let Some(cache) = self.nodes.get_mut(&node) {
            for id in cache.copies.keys().copied().collect::<Vec<_>>() {
                let copy = cache.remove(id).filter(|copy| copy.is_there);
                cache.astray.extend(copy.map(|copy| (id, copy.state)));
            }
        }
    }

    /// A node has not got a file that it was thought to have.
    pub(super) fn forget(&mut self, id: TaskId, node: NodeId) {
        if let Some(entry) = self.files.get_mut(&id) {
            entry.stays_on.remove(&node);
        }
        if let Some(cache) = self.nodes.get_mut(&node)
            && let Some(copy) = cache.copies.get_mut(&id)
        {
            copy.is_there = false;
            if copy.pins == 0 {
                cache.remove(id);
            }
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
