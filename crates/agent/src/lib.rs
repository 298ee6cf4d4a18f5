//! The agent: starts commands on its node, watches them, and reports.
//!
//! It knows processes, pipes and signals. It does not know tasks, prerequisites or files, and
//! never decides what runs: requests come in, events go out ([`rakuda_proto::agent`]).

pub mod clock;
mod commands;
mod launch;
mod lookup;
mod pipes;
pub mod processes;
mod program;
mod readiness;
pub mod spawn;

pub use commands::{Agent, AgentConfig, StdinSource};
pub use spawn::{EnvironmentBlock, SpawnError};
