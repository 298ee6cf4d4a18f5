//! The scheduler core: decides which tasks run, where and when.
//!
//! Pure: [`Scheduler::handle`] takes an event and says what is to be done. It opens no path, starts no
//! process and reads no clock; no I/O, no hash order, no float time. Equal events give equal outputs.
//! The specification is `docs/design/scheduling.md`.
//!
//! Map, from the outside in:
//!
//! - the interface: `event` (events, outputs), `config`, `requirement` (what tasks need, what nodes
//!   have), `fact`, `time`, `ids`
//! - the coordinator: `scheduler`. In its folder are its handlers: `activate` (definitions,
//!   activation), `progress` (deciding, settling), `attempt` (actions, nodes), `kept` (cores of
//!   actions that ended), `lineage` (files that were lost), `health` (nodes on which actions fail),
//!   `halt` (failures, stop, ends of invocations), `dispatch` (what starts where), `gangs` (tasks
//!   that begin together), `serial_order` (rake's order with `-j 1`)
//! - its parts, in the same folder: `graph` and `task` (arenas), `rank`, `decide` (rake's rule),
//!   `checks` (facts asked for), `locality` (candidate nodes), `learned` with `level` and
//!   `residency` (what policies go by), `ready`, `queue`, `victims` (ready tasks by policy),
//!   `fleet`, `node`, `running` (capacity), `invocation`, `lost_files`, `id_set`
//! - who looks at it, there too: `view`, `explain`, `forecast`, `stuck` (whether anything can still
//!   happen), and `invariants` (what always holds between two events)
//! - `run`: the parts of a run as one machine, which hub and simulator drive
//! - beside the scheduler: `attempts` (the life of attempts, leases on cores), `nodes` (the life of
//!   nodes), `files` (which files go along; knows names), `reach` (files that no file server hands
//!   out, and failures that may be due to that), `stager` (files staged in and out, where nodes share
//!   no file system), `streams` (tasks joined through stdin and stdout),
//!   `sync` (rounds of commands that begin at one instant, clocks of nodes), `stopping` (signals for
//!   what has to end, and the last steps of a run)
//! - shared: `suitability` (nodes that suit a requirement which chooses), `random`
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod attempts;
mod config;
mod event;
mod fact;
pub mod files;
mod ids;
mod nodes;
mod random;
mod reach;
mod requirement;
mod run;
mod scheduler;
pub mod stager;
mod stopping;
pub mod streams;
mod suitability;
pub mod sync;
mod time;

pub use attempts::{
    Aborting, Attempt, AttemptEffect, Attempts, Held, InputGate, NextAttempt, Prepared, Refusal,
    State as AttemptState, total_ns,
};
pub use config::{Config, FailurePolicy, LOSSES_PER_NODE, Policy};
pub use event::{ActionOutcome, Event, Output, Oversubscribe, Settled, TaskKind};
pub use fact::{Fact, Places};
pub use ids::{
    GangId, HostId, Id, InvocationId, NodeId, RequirementId, ResourceId, RuleId, TaskId,
};
pub use nodes::{IdleNodes, NodeEffect, NodeInput, NodeLimits, NodeOrigin, NodeState, Nodes};
pub use reach::{
    FilePlaces, KnownPlaces, Reach, ReachEffect, ReachInput, ReachView, ReachWarning, Reachability,
    files_behind,
};
pub use requirement::{Capacity, Choice, Devices, LargestNodes, Requirement, WaitsForSize};
pub use run::{ActionEnding, Effect, Input, PlacesAwaited, Run};
pub use scheduler::Scheduler;
pub use scheduler::explain::Room;
pub use scheduler::gangs::{GangPhase, GangView};
pub use scheduler::stuck::{Calm, Stuck, UnderWay};
pub use scheduler::task::{Reason, TaskState};
pub use scheduler::view::counts::Counts;
pub use scheduler::view::{NodeView, TaskView};
pub use stopping::{
    Shutdown, ShutdownStep, Signal, StopEffect, StopHow, StopSettings, Stopping, Wait,
};
pub use suitability::{NodeRank, Suits};
pub use time::{FileTime, Now, Time, Timestamp};
