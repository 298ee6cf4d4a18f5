//! The agent: starts commands on its node, watches them, and reports.
//!
//! It knows processes, pipes and signals, and looks at files when asked. It does not know tasks or prerequisites, and
//! never decides what runs: requests come in, events go out ([`rakuda_proto::agent`]).

mod bounds;
pub mod clock;
mod command_thread;
mod commands;
pub mod cores;
pub mod files;
mod gate;
mod helper;
pub mod hosts_file;
mod informing;
pub mod inspector;
mod launch;
pub mod limits;
mod lookup;
pub mod memory;
mod memory_groups;
pub mod mounts;
pub mod operations;
pub mod orphans;
mod pipes;
pub mod processes;
mod processors;
mod program;
pub mod programs;
pub mod providers;
pub mod readiness;
pub mod remote;
pub mod residency;
mod round_stops;
mod run_folder;
pub mod secondary;
mod seen;
mod shutdown;
pub mod signals;
pub mod spawn;
mod spool;
mod stamps;
mod streams;
pub mod supervisor;
pub mod trees;
pub mod visibility;

pub use commands::{Agent, AgentConfig, StdinSource};
pub use helper::{Helper, HelperProcess};
pub use informing::{Inform, Sampled};
pub use program::name_in_path;
pub use spawn::{EnvironmentBlock, SpawnError};
