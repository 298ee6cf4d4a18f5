//! Which node has which state of which file, and how much the copies on each node take. Books only:
//! no file is touched here.
//!
//! A file here is a task's file with all its secondary: the state, the places and the bytes are
//! those of the whole. It is *at home* on the nodes that it was made on or brought to for good;
//! elsewhere are *copies*, which count against the node's bound, and go least recently used first.
//! A copy that a running task reads is pinned. A task is let in with all its inputs or not at all,
//! so tasks that wait for room hold none.

use std::collections::{BTreeMap, BTreeSet};

use std::rc::Rc;

use rakuda_core::{NodeId, Places, TaskId};
use rakuda_proto::Text;
use rakuda_proto::files::FileVersion;

/// What a task's inputs mean for its node.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// There is room, and it is taken.
    Granted {
        /// What has to be brought.
        missing: Vec<TaskId>,
        /// What has to go first.
        evicted: Vec<TaskId>,
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

/// A file that goes with a task's file: what that one's folder calls it, and its state.
pub type Secondary = (Text, FileVersion);

/// A task's file with what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Of the task's file itself.
    pub version: FileVersion,
    /// By name.
    pub secondary: Rc<[Secondary]>,
}

impl State {
    /// Whether who has this has `other`, too: it may have lost secondary files to other tasks since.
    pub fn covers(&self, other: &Self) -> bool {
        let mut wanted = other.secondary.iter();
        self.version == other.version && wanted.all(|one| self.secondary.contains(one))
    }

    /// What all of it takes.
    fn bytes(&self) -> u64 {
        let beside: u64 = self.secondary.iter().map(|(_, version)| version.bytes).sum();
        self.version.bytes.saturating_add(beside)
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct Ledger {
    files: BTreeMap<TaskId, Entry>,
    nodes: BTreeMap<NodeId, Cache>,
    /// Counts uses, for their order.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Where it stays.
    homes: BTreeSet<NodeId>,
}

/// The copies on a node.
#[derive(Debug)]
struct Cache {
    limit_bytes: u64,
    used_bytes: u64,
    copies: BTreeMap<TaskId, Copy>,
    /// What each task that was let in has pinned.
    readers: BTreeMap<TaskId, Vec<TaskId>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            limit_bytes: u64::MAX,
            used_bytes: 0,
            copies: BTreeMap::new(),
            readers: BTreeMap::new(),
        }
    }
}

#[derive(Debug)]
struct Copy {
    state: State,
    /// It is there; until then it is being brought.
    is_there: bool,
    pins: u32,
    last_use: u64,
}

impl Cache {
    #[cfg(test)]
    fn pinned_bytes(&self) -> u64 {
        let pinned = self.copies.values().filter(|copy| copy.pins > 0);
        pinned.map(|copy| copy.state.bytes()).sum()
    }

    fn remove(&mut self, id: TaskId) -> bool {
        let removed = self.copies.remove(&id);
        self.used_bytes -= removed.as_ref().map_or(0, |copy| copy.state.bytes());
        removed.is_some()
    }

    /// The copy that was not used for the longest time and that nobody reads.
    fn oldest(&self) -> Option<TaskId> {
        let free = self.copies.iter().filter(|(_, copy)| copy.pins == 0 && copy.is_there);
        free.min_by_key(|(id, copy)| (copy.last_use, **id)).map(|(id, _)| *id)
    }
}

impl Ledger {
    /// Bounds the copies on a node.
    pub fn set_limit(&mut self, node: NodeId, bytes: u64) {
        self.nodes.entry(node).or_default().limit_bytes = bytes;
    }

    /// The state of a file that counts, if any is known.
    pub fn version(&self, id: TaskId) -> Option<FileVersion> {
        self.files.get(&id).map(|file| file.state.version)
    }

    /// The same with its secondary files.
    pub fn state(&self, id: TaskId) -> Option<State> {
        self.files.get(&id).map(|file| file.state.clone())
    }

    /// A file was made, or found, in this state, and stays there; without secondary files, unless
    /// it was in this state before. Copies of another state are none any more; what nobody reads of
    /// them is given back, to be removed.
    pub fn settle(&mut self, id: TaskId, node: NodeId, version: FileVersion) -> Vec<NodeId> {
        match self.files.get_mut(&id) {
            Some(entry) if entry.state.version == version => {
                entry.homes.insert(node);
                Vec::new()
            }
            _ => self.settle_all(id, node, State { version, secondary: Rc::default() }),
        }
    }

    /// The same with its secondary files.
    pub fn settle_all(&mut self, id: TaskId, node: NodeId, state: State) -> Vec<NodeId> {
        let mut stale = Vec::new();
        let new = || Entry { state: state.clone(), homes: BTreeSet::new() };
        let entry = self.files.entry(id).or_insert_with(new);
        if entry.state != state {
            entry.state = state;
            entry.homes.clear();
            for (other, cache) in &mut self.nodes {
                let idle =
                    cache.copies.get(&id).is_some_and(|copy| copy.pins == 0 && copy.is_there);
                if idle && cache.remove(id) && *other != node {
                    stale.push(*other);
                }
            }
        }
        entry.homes.insert(node);
        stale
    }

    /// A secondary file is another task's from now on. Where the rest is, it stays.
    pub fn drop_secondary(&mut self, id: TaskId, is_it: impl Fn(&Text) -> bool) {
        let Some(entry) = self.files.get_mut(&id) else { return };
        let before = entry.state.clone();
        let rest = before.secondary.iter().filter(|(name, _)| !is_it(name));
        entry.state.secondary = rest.cloned().collect();
        for cache in self.nodes.values_mut() {
            if let Some(copy) = cache.copies.get_mut(&id).filter(|copy| copy.state == before) {
                copy.state = entry.state.clone();
                cache.used_bytes -= before.bytes() - entry.state.bytes();
            }
        }
    }

    /// A file is not there any more.
    pub fn drop_home(&mut self, id: TaskId, node: NodeId) {
        if let Some(entry) = self.files.get_mut(&id) {
            entry.homes.remove(&node);
        }
    }

    /// A copy from before was found, in the state that counts.
    pub fn found_copy(&mut self, id: TaskId, node: NodeId) {
        let Some(state) = self.state(id).filter(|_| !self.has(id, node)) else { return };
        let cache = self.nodes.entry(node).or_default();
        cache.remove(id);
        cache.used_bytes += state.bytes();
        let copy = Copy { state, is_there: true, pins: 0, last_use: 0 };
        cache.copies.insert(id, copy);
    }

    /// Whether a node has a file as it is to be.
    pub fn has(&self, id: TaskId, node: NodeId) -> bool {
        self.files.get(&id).is_some_and(|entry| {
            entry.homes.contains(&node) || self.has_copy(id, node, &entry.state)
        })
    }

    /// Whether it was made there or stays there.
    pub fn is_home(&self, id: TaskId, node: NodeId) -> bool {
        self.files.get(&id).is_some_and(|entry| entry.homes.contains(&node))
    }

    fn has_copy(&self, id: TaskId, node: NodeId, state: &State) -> bool {
        let copy = self.nodes.get(&node).and_then(|cache| cache.copies.get(&id));
        copy.is_some_and(|copy| copy.is_there && copy.state == *state)
    }

    /// All nodes that have a file as it is to be.
    pub fn nodes_with(&self, id: TaskId) -> Vec<NodeId> {
        let Some(entry) = self.files.get(&id) else { return Vec::new() };
        let mut nodes = entry.homes.clone();
        nodes.extend(self.nodes.keys().filter(|node| self.has_copy(id, **node, &entry.state)));
        nodes.into_iter().collect()
    }

    /// The same for the core.
    pub fn places(&self, id: TaskId) -> Places {
        match self.nodes_with(id).as_slice() {
            [] => Places::Unknown,
            [node] => Places::One(*node),
            nodes => Places::Many(nodes.into()),
        }
    }

    /// Every file that is on a node, and whether it stays there.
    pub fn files_on(&self, node: NodeId) -> Vec<(TaskId, State)> {
        let held = self.files.iter().filter(|(id, _)| self.has(**id, node));
        held.map(|(id, entry)| (*id, entry.state.clone())).collect()
    }

    /// A task is about to read `inputs` on a node.
    pub fn admit(&mut self, node: NodeId, reader: TaskId, inputs: &[TaskId]) -> Admission {
        self.uses += 1;
        let wanted: Vec<(TaskId, State)> = inputs
            .iter()
            .filter_map(|id| Some((*id, self.files.get(id)?)))
            .filter(|(_, entry)| !entry.homes.contains(&node))
            .map(|(id, entry)| (id, entry.state.clone()))
            .collect();
        let cache = self.nodes.entry(node).or_default();
        let of_state = |cache: &Cache, id: &TaskId, state: &State| {
            cache.copies.get(id).is_some_and(|copy| copy.state == *state)
        };
        let own_bytes: u64 = wanted.iter().map(|(_, state)| state.bytes()).sum();
        let others_bytes: u64 = {
            let own: BTreeSet<TaskId> = wanted.iter().map(|(id, _)| *id).collect();
            let others =
                cache.copies.iter().filter(|(id, copy)| copy.pins > 0 && !own.contains(id));
            others.map(|(_, copy)| copy.state.bytes()).sum()
        };
        if own_bytes.saturating_add(others_bytes) > cache.limit_bytes {
            if others_bytes > 0 {
                return Admission::Wait;
            }
            return Admission::TooLarge { needed_bytes: own_bytes, limit_bytes: cache.limit_bytes };
        }
        let (mut missing, mut pinned) = (Vec::new(), Vec::new());
        for (id, state) in &wanted {
            if !of_state(cache, id, state) {
                // A copy of an older state that is read at this moment is replaced under its reader, as on one machine.
                let pins = cache.copies.get(id).map_or(0, |copy| copy.pins);
                cache.remove(*id);
                cache.used_bytes += state.bytes();
                let copy = Copy { state: state.clone(), is_there: false, pins, last_use: 0 };
                cache.copies.insert(*id, copy);
            }
            let copy = cache.copies.get_mut(id).expect("put there above");
            copy.pins += 1;
            copy.last_use = self.uses;
            if !copy.is_there {
                missing.push(*id);
            }
            pinned.push(*id);
        }
        if let Some(before) = cache.readers.insert(reader, pinned) {
            unpin(cache, &before);
        }
        let mut evicted = Vec::new();
        while cache.used_bytes > cache.limit_bytes {
            let oldest = cache.oldest().expect("what is pinned fits");
            cache.remove(oldest);
            evicted.push(oldest);
        }
        Admission::Granted { missing, evicted }
    }

    /// A file was brought.
    pub fn arrived(&mut self, id: TaskId, node: NodeId, state: &State) {
        let cache = self.nodes.entry(node).or_default();
        if let Some(copy) = cache.copies.get_mut(&id).filter(|copy| copy.state == *state) {
            copy.is_there = true;
        }
    }

    /// It was not, and will not be.
    pub fn not_arrived(&mut self, id: TaskId, node: NodeId) {
        let cache = self.nodes.entry(node).or_default();
        if cache.copies.get(&id).is_some_and(|copy| !copy.is_there) {
            cache.remove(id);
        }
    }

    /// A task reads nothing any more.
    pub fn release(&mut self, node: NodeId, reader: TaskId) {
        if let Some(cache) = self.nodes.get_mut(&node)
            && let Some(pinned) = cache.readers.remove(&reader)
        {
            unpin(cache, &pinned);
        }
    }

    /// Nothing runs on a node any more, and nothing is being brought there.
    pub fn empty_hands(&mut self, node: NodeId) {
        let Some(cache) = self.nodes.get_mut(&node) else { return };
        cache.readers.clear();
        let coming: Vec<TaskId> =
            cache.copies.iter().filter(|(_, copy)| !copy.is_there).map(|(id, _)| *id).collect();
        for id in coming {
            cache.remove(id);
        }
        cache.copies.values_mut().for_each(|copy| copy.pins = 0);
    }

    /// A node has not got a file that it was thought to have.
    pub fn forget(&mut self, id: TaskId, node: NodeId) {
        self.drop_home(id, node);
        if let Some(cache) = self.nodes.get_mut(&node) {
            cache.remove(id);
        }
    }

    /// What copies on a node take, and what of that is pinned.
    #[cfg(test)]
    pub fn cached_bytes(&self, node: NodeId) -> (u64, u64) {
        let cache = self.nodes.get(&node);
        cache.map_or((0, 0), |cache| (cache.used_bytes, cache.pinned_bytes()))
    }
}

fn unpin(cache: &mut Cache, pinned: &[TaskId]) {
    for id in pinned {
        if let Some(copy) = cache.copies.get_mut(id) {
            copy.pins = copy.pins.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
