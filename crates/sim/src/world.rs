//! The machines of a cluster and the files on them: where a file lies, whether it is in memory,
//! which way a transfer takes.
//!
//! Does not know why a file is read, nor what comes after a transfer.

use std::collections::VecDeque;

use rakuda_core::{NodeId, Places, TaskId};

use crate::cache::PageCache;
use crate::cluster::{Cluster, FileSystem};
use crate::flows::{FlowPath, Flows};
use crate::ids::{ChannelId, FileId, FlowId, MachineId};
use crate::random::{Purpose, Random};
use crate::units::cost_ps;

/// What a transfer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Read(TaskId),
    Write(TaskId),
    /// Dirty pages of a machine.
    Flush(MachineId),
}

/// Where a file is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) machine: MachineId,
    pub(crate) cached: bool,
    pub(crate) local: bool,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) machine: MachineId,
    /// It reaches the disk later.
    pub(crate) dirty: bool,
}

#[derive(Clone, Debug)]
struct Machine {
    disk: ChannelId,
    /// What is written goes through: the same, or one of its own with duplex disks.
    disk_written: ChannelId,
    up: ChannelId,
    down: ChannelId,
    cache: PageCache,
    /// Memory that tasks use.
    used_bytes: u64,
    /// What has to reach the disk yet, the one that is under way first.
    dirty: VecDeque<u64>,
    dirty_bytes: u64,
}

#[derive(Clone, Debug)]
struct FileState {
    bytes: u64,
    /// When it was written; `None` if it does not exist.
    modified_ns: Option<u64>,
    /// Machines that hold it.
    places: Places,
}

/// Machines and files.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) flows: Flows,
    cluster: Cluster,
    machines: Vec<Machine>,
    switch: Option<ChannelId>,
    files: Vec<FileState>,
    owners: Vec<Owner>,
}

impl World {
    pub(crate) fn new(cluster: &Cluster, files: &[u64]) -> Self {
        let mut flows = Flows::new(cluster.sharing());
        let cache_bytes = cluster.memory_bytes.saturating_sub(cluster.system_bytes);
        let machine = |flows: &mut Flows| {
            let disk = flows.add_channel(cluster.disk_percent);
            let duplex = cluster.duplex_disks;
            Machine {
                disk,
                disk_written: if duplex { flows.add_channel(cluster.disk_percent) } else { disk },
                up: flows.add_channel(100),
                down: flows.add_channel(100),
                cache: PageCache::new(cache_bytes),
                used_bytes: 0,
                dirty: VecDeque::new(),
                dirty_bytes: 0,
            }
        };
        let machines = (0..cluster.machines()).map(|_| machine(&mut flows)).collect();
        let switch = cluster.switch.map(|_| flows.add_channel(100));
        let state =
            |bytes: &u64| FileState { bytes: *bytes, modified_ns: None, places: Places::Unknown };
        let files = files.iter().map(state).collect();
        Self { flows, cluster: cluster.clone(), machines, switch, files, owners: Vec::new() }
    }

    /// Deals the inputs of the workflow out to the nodes.
    pub(crate) fn place_inputs(&mut self, inputs: &[FileId], now: u64, seed: u64) {
        let mut order = inputs.to_vec();
        Random::new(seed, Purpose::Placement).shuffle(&mut order);
        for (position, file) in (0_u32..).zip(order) {
            let machine = match self.server() {
                Some(server) => server,
                None => MachineId(position % self.cluster.nodes),
            };
            let state = &mut self.files[file.index()];
            state.modified_ns = Some(now);
            state.places = Places::One(NodeId(machine.0));
        }
    }

    /// The machine that holds all files, if one does.
    fn server(&self) -> Option<MachineId> {
        (self.cluster.file_system == FileSystem::Nfs).then_some(MachineId(self.cluster.nodes))
    }

    pub(crate) fn bytes(&self, file: FileId) -> u64 {
        self.files[file.index()].bytes
    }

    pub(crate) fn modified_ns(&self, file: FileId) -> Option<u64> {
        self.files[file.index()].modified_ns
    }

    /// The nodes that hold a file, as the hub knows them: `Unknown` when one server holds all.
    pub(crate) fn places(&self, file: FileId) -> Places {
        match self.server() {
            Some(_) => Places::Unknown,
            None => self.files[file.index()].places.clone(),
        }
    }

    pub(crate) fn owner(&self, flow: FlowId) -> Owner {
        self.owners[flow.index()]
    }

    /// A task takes memory from the page cache.
    pub(crate) fn take_memory(&mut self, machine: MachineId, bytes: u64) {
        self.machines[machine.index()].used_bytes += bytes;
        self.fit_cache(machine);
    }

    /// And gives it back.
    pub(crate) fn free_memory(&mut self, machine: MachineId, bytes: u64) {
        self.machines[machine.index()].used_bytes -= bytes;
        self.fit_cache(machine);
    }

    fn fit_cache(&mut self, machine: MachineId) {
        let room = self.cluster.memory_bytes.saturating_sub(self.cluster.system_bytes);
        let machine = &mut self.machines[machine.index()];
        let room = room.saturating_sub(machine.used_bytes);
        if room != machine.cache.capacity() {
            machine.cache.set_capacity(room);
        }
    }

    /// Begins to read a file on a machine; `None` if no machine has it.
    pub(crate) fn begin_read(
        &mut self,
        now: u64,
        reader: MachineId,
        file: FileId,
        task: TaskId,
    ) -> Option<(FlowId, Origin)> {
        let origin = self.origin(reader, file)?;
        let (cap, path) = self.path_of_read(reader, origin);
        let bytes = self.bytes(file);
        Some((self.start(now, bytes, cap, path, Owner::Read(task)), origin))
    }

    fn origin(&self, reader: MachineId, file: FileId) -> Option<Origin> {
        let holds = |machine: MachineId| self.machines[machine.index()].cache.has(file);
        let state = &self.files[file.index()];
        state.modified_ns?;
        let places = state.places.as_slice();
        let keeps_copies = self.cluster.file_system == FileSystem::Nfs && holds(reader);
        if keeps_copies || places.contains(&NodeId(reader.0)) {
            return Some(Origin { machine: reader, cached: holds(reader), local: true });
        }
        let machines = || places.iter().map(|node| MachineId(node.0));
        let machine = machines().find(|machine| holds(*machine)).or_else(|| machines().next())?;
        Some(Origin { machine, cached: holds(machine), local: false })
    }

    fn path_of_read(&self, reader: MachineId, origin: Origin) -> (u64, FlowPath) {
        let rates = &self.cluster.rates;
        let holder = &self.machines[origin.machine.index()];
        let mut path = FlowPath::default();
        if !origin.cached {
            path = path.through(holder.disk, cost_ps(rates.local_disk_read));
        }
        if origin.local {
            let cap = if origin.cached { rates.local_cached_read } else { rates.local_disk_read };
            return (cap, path);
        }
        path = self.across(path, origin.machine, reader);
        if self.cluster.file_system == FileSystem::Local {
            let disk = self.machines[reader.index()].disk_written;
            path = path.through(disk, cost_ps(rates.local_write));
        }
        (if origin.cached { rates.remote_cached_read } else { rates.remote_disk_read }, path)
    }

    fn across(&self, path: FlowPath, from: MachineId, to: MachineId) -> FlowPath {
        let cost = cost_ps(self.cluster.link);
        let mut path = path.through(self.machines[from.index()].up, cost);
        if let (Some(switch), Some(bandwidth)) = (self.switch, self.cluster.switch) {
            path = path.through(switch, cost_ps(bandwidth));
        }
        path.through(self.machines[to.index()].down, cost)
    }

    /// A file has been read.
    pub(crate) fn end_read(
        &mut self,
        flow: FlowId,
        reader: MachineId,
        file: FileId,
        origin: Origin,
    ) {
        self.flows.stop(flow);
        let bytes = self.bytes(file);
        self.machines[origin.machine.index()].cache.touch(file, bytes);
        match self.cluster.file_system {
            FileSystem::Gfarm => {}
            FileSystem::Nfs => self.machines[reader.index()].cache.touch(file, bytes),
            FileSystem::Local => {
                self.machines[reader.index()].cache.touch(file, bytes);
                self.add_place(file, reader);
            }
        }
    }

    fn add_place(&mut self, file: FileId, machine: MachineId) {
        let node = NodeId(machine.0);
        let places = &mut self.files[file.index()].places;
        if !places.as_slice().contains(&node) {
            let mut nodes = places.as_slice().to_vec();
            nodes.push(node);
            *places = match nodes.as_slice() {
                [node] => Places::One(*node),
                nodes => Places::Many(nodes.into()),
            };
        }
    }

    /// Begins to write a file on a machine.
    pub(crate) fn begin_write(
        &mut self,
        now: u64,
        writer: MachineId,
        file: FileId,
        task: TaskId,
    ) -> (FlowId, Target) {
        let rates = self.cluster.rates;
        let bytes = self.bytes(file);
        let machine = self.server().unwrap_or(writer);
        let holder = &self.machines[machine.index()];
        let room = (holder.cache.capacity() / 5).saturating_sub(holder.dirty_bytes);
        let dirty = self.cluster.write_back && bytes <= room;
        let mut path = FlowPath::default();
        if machine != writer {
            path = self.across(path, writer, machine);
        }
        if !dirty {
            path = path.through(holder.disk_written, cost_ps(rates.local_write));
        }
        let cap = match (dirty, machine == writer) {
            (false, _) => rates.local_write,
            (true, true) => rates.local_cached_read,
            (true, false) => rates.remote_cached_read,
        };
        let flow = self.start(now, bytes, cap, path, Owner::Write(task));
        (flow, Target { machine, dirty })
    }

    /// A file has been written.
    pub(crate) fn end_write(
        &mut self,
        now: u64,
        flow: FlowId,
        writer: MachineId,
        file: FileId,
        target: Target,
    ) {
        self.flows.stop(flow);
        let bytes = self.bytes(file);
        let state = &mut self.files[file.index()];
        state.modified_ns = Some(now);
        state.places = Places::One(NodeId(target.machine.0));
        self.machines[target.machine.index()].cache.touch(file, bytes);
        if writer != target.machine {
            self.machines[writer.index()].cache.touch(file, bytes);
        }
        if target.dirty && bytes > 0 {
            let machine = &mut self.machines[target.machine.index()];
            machine.dirty_bytes += bytes;
            machine.dirty.push_back(bytes);
            if machine.dirty.len() == 1 {
                self.flush(now, target.machine);
            }
        }
    }

    fn flush(&mut self, now: u64, id: MachineId) {
        let machine = &self.machines[id.index()];
        if let Some(&bytes) = machine.dirty.front() {
            let rate = self.cluster.rates.local_write;
            let path = FlowPath::default().through(machine.disk_written, cost_ps(rate));
            self.start(now, bytes, rate, path, Owner::Flush(id));
        }
    }

    /// A dirty file has reached the disk.
    pub(crate) fn end_flush(&mut self, now: u64, flow: FlowId, id: MachineId) {
        self.flows.stop(flow);
        let machine = &mut self.machines[id.index()];
        let bytes = machine.dirty.pop_front().expect("what was written was dirty");
        machine.dirty_bytes -= bytes;
        self.flush(now, id);
    }

    /// A file is gone everywhere.
    pub(crate) fn remove(&mut self, file: FileId) {
        let state = &mut self.files[file.index()];
        state.modified_ns = None;
        let places = std::mem::take(&mut state.places);
        if self.server().is_some() {
            self.machines.iter_mut().for_each(|machine| machine.cache.forget(file));
        }
        for node in places.as_slice() {
            self.machines[node.0 as usize].cache.forget(file);
        }
    }

    fn start(&mut self, now: u64, bytes: u64, cap: u64, path: FlowPath, owner: Owner) -> FlowId {
        let id = self.flows.start(now, bytes, cap, path);
        if id.index() == self.owners.len() {
            self.owners.push(owner);
        } else {
            self.owners[id.index()] = owner;
        }
        id
    }
}
