//! The agent: starts commands on its node, watches them, and reports.
//!
//! It knows processes, pipes and signals, and looks at files when asked. It does not know tasks or prerequisites, and
//! never decides what runs: requests come in, events go out ([`rakuda_proto::agent`]).

pub mod beside;
pub mod clock;
mod commands;
mod control_groups;
pub mod cores;
pub mod files;
mod going;
mod helper;
pub mod inspector;
mod launch;
pub mod limits;
mod lookup;
pub mod memory;
pub mod mounts;
pub mod operations;
mod pipes;
pub mod processes;
mod program;
mod readiness;
pub mod remote;
pub mod residency;
mod run_folder;
pub mod signals;
pub mod spawn;
mod spool;
pub mod trees;
pub mod visibility;
mod worker;

pub use commands::{Agent, AgentConfig, StdinSource};
pub use helper::{Helper, HelperProcess};
pub use spawn::{EnvironmentBlock, SpawnError};
