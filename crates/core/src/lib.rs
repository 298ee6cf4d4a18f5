//! The scheduler core: decides which tasks run, where and when.
//!
//! Pure: [`Scheduler::handle`] takes an event and says what is to be done. No names, paths, processes, clocks or Ruby; no I/O, no
//! hash order, no float time. Equal events give equal outputs. The specification is `docs/design/scheduling.md`.
//!
//! Map, from the outside in:
//!
//! - the interface: `event` (events, outputs), `config`, `requirement` (what tasks need, what nodes have), `fact`, `time`, `ids`, `view`
//! - the coordinator: `scheduler`; its handlers: `activate` (definitions, activation), `progress` (deciding, settling), `attempt`
//!   (actions, nodes), `remake` (files that were lost), `health` (nodes on which actions fail), `halt` (failures, stop, ends of invocations), `dispatch` (what starts where), `turns` (rake's order for one job)
//! - the parts: `graph` and `task` (arenas), `rank`, `decide` (rake's rule), `checks` (facts asked for), `locality` (candidate nodes),
//!   `learned` with `level` and `residency` (what policies go by),
//!   `ready`, `queue`, `victims` (ready tasks by policy), `fleet`, `node`, `running` (capacity), `invocation`, `losses`, `random`, `id_set`
//! - `invariants`: what always holds between two events
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod activate;
mod attempt;
mod checks;
mod config;
mod decide;
mod dispatch;
mod event;
mod explain;
mod fact;
mod fleet;
mod forecast;
mod graph;
mod halt;
mod health;
mod id_set;
mod ids;
mod invariants;
mod invocation;
mod learned;
mod level;
mod locality;
mod losses;
mod node;
mod progress;
mod queue;
mod random;
mod rank;
mod ready;
mod remake;
mod requirement;
mod residency;
mod running;
mod scheduler;
mod task;
mod time;
mod turns;
mod victims;
mod view;

pub use config::{Config, FailurePolicy, Policy};
pub use event::{ActionOutcome, Event, Output, Settled, TaskKind};
pub use explain::Room;
pub use fact::{Fact, Places};
pub use ids::{Id, InvocationId, NodeId, RequirementId, ResourceId, RuleId, TaskId};
pub use requirement::{Capacity, Devices, Requirement};
pub use scheduler::Scheduler;
pub use task::{Reason, TaskState};
pub use time::{Time, Timestamp};
pub use view::{Counts, NodeView, TaskView};
