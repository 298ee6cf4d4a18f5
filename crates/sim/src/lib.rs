//! Runs workflows in virtual time: the hub's own scheduler, on a cluster that is made of numbers.
//!
//! The model, its equations and what it leaves out stand in `docs/design/simulator.md`. No clock,
//! no thread, no process, no hash order; times are ns, sizes bytes. Equal workload, settings and
//! seed give equal logs.
//!
//! Map, from the outside in:
//!
//! - what runs: `workload`, `workloads` (copyfile, montage, WfFormat, recorded runs, ...), `plan`
//!   (a workload as the scheduler sees it)
//! - the run: `simulation` (the driver of the scheduler; `attempts` in its folder: what a task does
//!   on its node), `queue`, `log`
//! - the cluster: `cluster` (its description), `world` (machines and files), `flows` and `share`
//!   (transfers), `cache` (memory)
//! - `faults`: runs in which things die, many of them, to see that the scheduler keeps its word
//! - what came out: `outcome`, `bound`

mod bound;
mod cache;
mod cluster;
mod experiment;
pub mod faults;
mod flows;
mod ids;
mod log;
mod outcome;
mod plan;
mod plot;
mod queue;
mod random;
mod share;
mod simulation;
mod units;
mod workload;
pub mod workloads;
mod world;

pub use bound::{Bound, lower_bound};
pub use cluster::{Cluster, FileSystem, NODES_MAX_MIN, Rates, Sharing};
pub use experiment::{Cell, CellResult, Experiment, LocalShare, Spread, file_system_name};
pub use ids::{FileId, RuleId};
pub use log::Log;
pub use outcome::{Outcome, Share, TaskRecord};
pub use plot::{curves_svg, running_tasks, scaling_svg};
pub use rakuda_core::{FailurePolicy, Policy};
pub use simulation::{Settings, Simulation};
pub use units::{GIB, MIB, SECOND_NS};
pub use workload::{Compute, TaskSpec, Workload, WorkloadError};
