//! One node: what it has, what is free, what runs there.
//!
//! Does not choose tasks, and knows no queue.

use crate::ids::{NodeId, RequirementId, ResourceId, TaskId};
use crate::requirement::{Capacity, Devices, Requirement};
use crate::scheduler::running::Running;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Maximum number of times for each core of a node that other tasks may pass over a head. One more reserves the node.
const PASSED_PER_CORE: u32 = 16;

/// What a requirement asks of one node, after what no node can give was cut to what the largest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) cores: u32,
    pub(crate) memory_bytes: u64,
}

/// A running action's share of its node.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) need: Need,
    pub(crate) devices: Devices,
    pub(crate) started: Time,
    /// Its action waits for an invocation, and all of its share counts as free: if it kept memory
    /// or devices, what it waits for might wait for these.
    pub(crate) suspended: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) joined: bool,
    /// Nothing starts there, because actions failed.
    pub(crate) drained: bool,
    /// When it is taken away, if that is known.
    pub(crate) ends: Option<Time>,
    pub(crate) capacity: Capacity,
    /// Below 0 by `lookahead`, and while a caller that took its cores back runs beside those that had them meanwhile.
    pub(crate) cores_free: i64,
    /// Tasks of one core that may start beyond the cores.
    pub(crate) lookahead: u32,
    /// Below 0 as `cores_free`.
    pub(crate) memory_bytes_free: i128,
    /// Device numbers that no share has but suspended ones, for each `ResourceId`.
    devices_free: Vec<BTreeSet<u32>>,
    pub(crate) running: Running,
    /// Shares of tasks that have ended, which nothing else has yet (`kept.rs`); never suspended.
    kept: Running,
    /// Shares that a gang has before it begins, and those of tasks that run on several nodes on all
    /// nodes but their home; never suspended.
    held: Running,
    /// This many tasks of the gang that is next wait for room here: nothing else starts.
    pub(crate) awaited: u32,
    /// Number of shares in `running` that are suspended.
    pub(crate) suspended: u32,
    /// Only tasks with this requirement start here.
    pub(crate) reserved_for: Option<RequirementId>,
    /// How often something else started while a head with this requirement did not fit.
    passed: BTreeMap<RequirementId, u32>,
}

impl Node {
    pub(crate) fn join(&mut self, capacity: Capacity) {
        let numbers = |count: &u32| (0..*count).collect();
        *self = Self {
            joined: true,
            cores_free: i64::from(capacity.cores),
            memory_bytes_free: i128::from(capacity.memory_bytes),
            devices_free: capacity.resources.iter().map(numbers).collect(),
            capacity,
            ..Self::default()
        };
    }

    /// Whether tasks may start there.
    pub(crate) fn is_in_use(&self) -> bool {
        self.joined && !self.drained
    }

    /// Whether it is there and has the devices, whatever runs, and drained or not.
    pub(crate) fn has_devices(&self, requirement: &Requirement) -> bool {
        let count = |id: ResourceId| self.capacity.resources.get(id.0 as usize).copied();
        let mut wanted = requirement.resources.iter();
        self.joined && wanted.all(|(id, wanted)| *wanted <= count(*id).unwrap_or(0))
    }

    /// Whether it could run such a task if nothing else ran.
    pub(crate) fn could_fit(&self, requirement: &Requirement, need: Need) -> bool {
        self.is_in_use()
            && need.cores <= self.capacity.cores
            && need.memory_bytes <= self.capacity.memory_bytes
            && self.has_devices(requirement)
    }

    /// Whether it can run such a task now.
    pub(crate) fn fits(&self, id: RequirementId, requirement: &Requirement, need: Need) -> bool {
        let devices_free = |resource: ResourceId| {
            self.devices_free.get(resource.0 as usize).map_or(0, BTreeSet::len)
        };
        self.is_in_use()
            && i64::from(need.cores) <= self.cores_free + self.lookahead_for(need)
            && i128::from(need.memory_bytes) <= self.memory_bytes_free.max(0)
            && requirement.resources.iter().all(|(id, count)| *count as usize <= devices_free(*id))
            && self.reservation().is_none_or(|reserved_for| reserved_for == id)
            && (self.awaited == 0 || self.suspended > 0 || self.reserved_for == Some(id))
    }

    /// Whether a task of a gang has room now: really, and not only because actions are begun early.
    pub(crate) fn has_room(&self, requirement: &Requirement, need: Need) -> bool {
        self.is_in_use() && self.awaited == 0 && self.has_free(requirement, need)
    }

    /// The same for one that has begun here, also where nothing else may begin any more, or room is awaited.
    pub(crate) fn has_free(&self, requirement: &Requirement, need: Need) -> bool {
        let devices_free = self.devices_free_counts();
        let free = |id: ResourceId| devices_free.get(id.0 as usize).copied().unwrap_or(0);
        i64::from(need.cores) <= self.cores_free.max(0)
            && i128::from(need.memory_bytes) <= self.memory_bytes_free.max(0)
            && requirement.resources.iter().all(|(id, count)| *count as usize <= free(*id))
            && self.reservation().is_none()
    }

    /// Free devices, by resource.
    pub(crate) fn devices_free_counts(&self) -> Vec<usize> {
        self.devices_free.iter().map(BTreeSet::len).collect()
    }

    /// Only a task of one core is begun early, and not beside one that has the node for itself.
    fn lookahead_for(&self, need: Need) -> i64 {
        let node_cores = self.capacity.cores;
        if self.lookahead == 0 || need.cores != 1 {
            return 0;
        }
        let takes_all = |share: &Share| node_cores > 1 && share.need.cores >= node_cores;
        if self.shares().any(takes_all) { 0 } else { i64::from(self.lookahead) }
    }

    /// Of what runs, and those that are kept or held.
    fn shares(&self) -> impl Iterator<Item = &Share> {
        self.running.shares().chain(self.kept.shares()).chain(self.held.shares())
    }

    /// The reservation in force: none while a caller waits here, because what it waits for may need this node.
    pub(crate) fn reservation(&self) -> Option<RequirementId> {
        self.reserved_for.filter(|_| self.suspended == 0)
    }

    /// Takes a share and gives out the lowest free device numbers.
    pub(crate) fn take(
        &mut self,
        id: TaskId,
        requirement: &Requirement,
        need: Need,
        now: Time,
    ) -> Devices {
        let share = self.share(requirement, need, now);
        let devices = share.devices.clone();
        self.running.insert(id, share);
        devices
    }

    fn share(&mut self, requirement: &Requirement, need: Need, now: Time) -> Share {
        let mut devices = Devices::default();
        for &(resource, count) in &requirement.resources {
            let free = &self.devices_free[resource.0 as usize];
            let numbers: Vec<u32> = free.iter().copied().take(count as usize).collect();
            assert!(numbers.len() == count as usize, "the devices were free");
            devices.0.push((resource, numbers));
        }
        self.occupy(need, &devices);
        Share { need, devices, started: now, suspended: false }
    }

    /// Takes a share for a task of a gang that has not begun, or for its part here.
    pub(crate) fn hold(&mut self, id: TaskId, requirement: &Requirement, need: Need, now: Time) {
        let share = self.share(requirement, need, now);
        self.held.insert(id, share);
    }

    /// As `hold`, with nothing of the node.
    pub(crate) fn hold_nothing(&mut self, id: TaskId, now: Time) {
        let need = Need { cores: 0, memory_bytes: 0 };
        let devices = Devices::default();
        self.held.insert(id, Share { need, devices, started: now, suspended: false });
    }

    /// Makes a share of what was held with nothing, and may have begun since.
    pub(crate) fn fill(
        &mut self,
        id: TaskId,
        requirement: &Requirement,
        need: Need,
        now: Time,
    ) -> Devices {
        let filled = self.share(requirement, need, now);
        let devices = filled.devices.clone();
        let share = self.running.get_mut(id).or_else(|| self.held.get_mut(id));
        *share.expect("it was held with nothing") = filled;
        devices
    }

    /// Gives back a share that was held.
    pub(crate) fn release_held(&mut self, id: TaskId) {
        let share = self.held.remove(id).expect("its share was held");
        self.vacate(share.need, &share.devices);
    }

    /// The task of a share that was held begins here.
    pub(crate) fn begin_held(&mut self, id: TaskId, now: Time) -> Devices {
        let mut share = self.held.remove(id).expect("its share was held");
        share.started = now;
        let devices = share.devices.clone();
        self.running.insert(id, share);
        devices
    }

    /// The tasks whose shares are held here.
    pub(crate) fn held_by(&self) -> Vec<TaskId> {
        self.held.ids()
    }

    /// What a task has here while it runs, or is held for it.
    pub(crate) fn need_of(&self, id: TaskId) -> Option<Need> {
        self.running.get(id).or_else(|| self.held.get(id)).map(|share| share.need)
    }

    fn occupy(&mut self, need: Need, devices: &Devices) {
        self.cores_free -= i64::from(need.cores);
        self.memory_bytes_free -= i128::from(need.memory_bytes);
        for (resource, numbers) in &devices.0 {
            let free = &mut self.devices_free[resource.0 as usize];
            free.retain(|number| !numbers.contains(number));
        }
    }

    /// The inverse of `occupy`, for a share that is no longer among the active ones: a device that
    /// another one has too stays taken.
    fn vacate(&mut self, need: Need, devices: &Devices) {
        self.cores_free += i64::from(need.cores);
        self.memory_bytes_free += i128::from(need.memory_bytes);
        for (resource, numbers) in &devices.0 {
            let active = self.shares().filter(|share| !share.suspended);
            let others = active.flat_map(|share| &share.devices.0).filter(|(id, _)| id == resource);
            let taken: BTreeSet<u32> = others.flat_map(|(_, numbers)| numbers).copied().collect();
            let vacant = numbers.iter().copied().filter(|number| !taken.contains(number));
            self.devices_free[resource.0 as usize].extend(vacant);
        }
    }

    /// Gives back the share of `id`; since when it had it.
    pub(crate) fn release(&mut self, id: TaskId) -> Time {
        let share = self.running.remove(id).expect("a running task has a share");
        if share.suspended {
            self.suspended -= 1;
        } else {
            self.vacate(share.need, &share.devices);
        }
        share.started
    }

    /// Since when `id` has its share.
    pub(crate) fn started(&self, id: TaskId) -> Time {
        self.running.get(id).expect("a running task has a share").started
    }

    /// Takes `id` from what runs, but nothing of its share becomes free.
    pub(crate) fn keep(&mut self, id: TaskId) {
        let share = self.running.remove(id).expect("a running task has a share");
        assert!(!share.suspended, "a share that others use is kept");
        self.kept.insert(id, share);
    }

    /// Frees the share of `id` that was kept.
    pub(crate) fn release_kept(&mut self, id: TaskId) {
        let share = self.kept.remove(id).expect("its share was kept");
        self.vacate(share.need, &share.devices);
    }

    /// Whether anything has a share of it, or had one that was kept, or is to have one.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.kept.is_empty() && self.held.is_empty()
    }

    /// Frees or takes back the share of a caller.
    pub(crate) fn set_suspended(&mut self, id: TaskId, suspended: bool) {
        let share = self.running.get_mut(id).expect("a caller runs");
        assert!(share.suspended != suspended, "a caller waits twice");
        share.suspended = suspended;
        let (need, devices) = (share.need, share.devices.clone());
        if suspended {
            self.vacate(need, &devices);
            self.suspended += 1;
        } else {
            self.occupy(need, &devices);
            self.suspended -= 1;
        }
    }

    /// Notes that other tasks passed over a head with requirement `id`; whether that was once too often.
    pub(crate) fn pass_over(&mut self, id: RequirementId) -> bool {
        let passed = self.passed.entry(id).or_insert(0);
        *passed += 1;
        *passed > PASSED_PER_CORE.saturating_mul(self.capacity.cores)
    }

    pub(crate) fn forget_passed(&mut self, id: RequirementId) {
        if !self.passed.is_empty() {
            self.passed.remove(&id);
        }
    }

    /// What is free, counted anew from what runs.
    pub(crate) fn check_invariants(&self, id: NodeId) {
        assert!(self.joined || self.is_empty(), "something runs on lost {id:?}");
        let active = || self.shares().filter(|share| !share.suspended);
        let suspended = self.running.shares().filter(|share| share.suspended).count();
        assert_eq!(self.suspended as usize, suspended, "suspended on {id:?}");
        if !self.joined {
            return;
        }
        let cores: i64 = active().map(|share| i64::from(share.need.cores)).sum();
        assert_eq!(self.cores_free + cores, i64::from(self.capacity.cores), "cores of {id:?}");
        let memory_bytes: i128 = active().map(|share| i128::from(share.need.memory_bytes)).sum();
        let all = i128::from(self.capacity.memory_bytes);
        assert_eq!(self.memory_bytes_free + memory_bytes, all, "memory of {id:?}");
        for (resource, free) in self.devices_free.iter().enumerate() {
            let devices = active().flat_map(|share| &share.devices.0);
            let taken = devices.filter(|(id, _)| id.0 as usize == resource);
            let taken: BTreeSet<u32> = taken.flat_map(|(_, numbers)| numbers).copied().collect();
            assert!(taken.is_disjoint(free), "devices {resource} of {id:?}");
            let all: BTreeSet<u32> = (0..self.capacity.resources[resource]).collect();
            assert_eq!(&taken | free, all, "devices {resource} of {id:?}");
        }
    }
}
