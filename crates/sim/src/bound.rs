//! What no schedule can be faster than, on a given cluster.
//!
//! Valid for every policy and every placement in this model: each part assumes the best of everything else.

use crate::cluster::{Cluster, FileSystem};
use crate::plan::{Plan, Planned};
use crate::units::{SECOND_PS, cost_ps, transfer_ns};
use crate::workload::{TaskSpec, Workload, WorkloadError};

/// Lower bounds of the makespan, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The longest chain of tasks.
    pub critical_path_ns: u64,
    /// All core time over all cores.
    pub work_ns: u64,
    /// All bytes over all disks, or over the server's disk and link.
    pub bytes_ns: u64,
}

impl Bound {
    /// The greatest of them.
    pub fn ns(&self) -> u64 {
        self.critical_path_ns.max(self.work_ns).max(self.bytes_ns)
    }
}

/// The lower bounds of a workload.
///
/// # Errors
/// When the workload makes no sense.
pub fn lower_bound(
    workload: &Workload,
    cluster: &Cluster,
    seed: u64,
) -> Result<Bound, WorkloadError> {
    let plan = Plan::new(workload)?;
    let mut bound = Bound::default();
    let mut ends = vec![0_u64; plan.planned.len()];
    let mut core_ns = 0_u128;
    for id in plan.ids() {
        let before = plan.prerequisites(id).iter().map(|id| ends[id.0 as usize]).max();
        let mut end = before.unwrap_or(0);
        if let Planned::Task(number) = plan.what(id) {
            let spec = &workload.tasks[number as usize];
            let ns = shortest_ns(workload, cluster, spec, seed, number);
            // The message of its end, the look at its file, and the message of the next start take time.
            end += ns
                + 2 * cluster.dispatch_ns
                + cluster.fact_ns * u64::from(!spec.outputs.is_empty());
            let cores = spec.cores.clamp(1, cluster.cores.max(1));
            core_ns += u128::from(ns) * u128::from(cores);
        }
        ends[id.0 as usize] = end;
    }
    bound.critical_path_ns = ends.last().copied().unwrap_or(0);
    let work = core_ns / u128::from(cluster.cores_all().max(1));
    bound.work_ns = u64::try_from(work).unwrap_or(u64::MAX);
    bound.bytes_ns = bytes_ns(workload, cluster, &plan);
    Ok(bound)
}

/// The time of a task that has the cluster to itself, its inputs in memory.
pub(crate) fn shortest_ns(
    workload: &Workload,
    cluster: &Cluster,
    spec: &TaskSpec,
    seed: u64,
    number: u32,
) -> u64 {
    let rates = &cluster.rates;
    let bytes = |files: &[crate::FileId]| files.iter().map(|file| workload.bytes(*file)).sum();
    let read = transfer_ns(bytes(&spec.inputs), rates.local_cached_read);
    let fastest = if cluster.write_back { rates.local_cached_read } else { rates.local_write };
    let write = transfer_ns(bytes(&spec.outputs), fastest);
    let drawn = u128::from(spec.compute.draw_ns(seed, number));
    let compute = drawn * u128::from(cluster.compute_percent) / 100;
    let compute = u64::try_from(compute).unwrap_or(u64::MAX);
    if spec.overlapped { read.max(compute).max(write) } else { read + compute + write }
}

/// The minimum time for which the disks are busy.
fn bytes_ns(workload: &Workload, cluster: &Cluster, plan: &Plan) -> u64 {
    let inputs: u128 = plan.inputs().map(|file| u128::from(workload.bytes(file))).sum();
    let outputs = workload.tasks.iter().flat_map(|task| &task.outputs);
    let written: u128 = outputs.map(|file| u128::from(workload.bytes(*file))).sum();
    // With write-back the run need not wait for the disks.
    let written_to_disk = if cluster.write_back { 0 } else { written };
    let rates = &cluster.rates;
    let writing_ps = written_to_disk * u128::from(cost_ps(rates.local_write));
    let reading_ps = inputs * u128::from(cost_ps(rates.local_disk_read));
    let busy_ps =
        if cluster.duplex_disks { writing_ps.max(reading_ps) } else { writing_ps + reading_ps };
    let (disks, link_ps) = match cluster.file_system {
        FileSystem::Nfs => (1, inputs.max(written) * u128::from(cost_ps(cluster.link))),
        FileSystem::Gfarm | FileSystem::Local => (u128::from(cluster.nodes.max(1)), 0),
    };
    let ps_in_ns = u128::from(SECOND_PS / crate::units::SECOND_NS);
    let ns = (busy_ps / disks).max(link_ps) / ps_in_ns;
    u64::try_from(ns).unwrap_or(u64::MAX)
}
