//! The hub: drives the scheduler core with real files, real processes and the front.
//!
//! A thin shell around `rakuda_core::Scheduler`: every message, exit and fact becomes an event, every output an
//! effect. It holds the names and paths that the core does not know, and decides nothing itself.

mod agents;
mod error;
mod facts;
mod front_link;
mod hub;
mod leases;
mod messages;
mod names;
mod outputs;
mod printer;
pub mod record;
mod requirements;
mod settings;
mod stopping;
mod targets;

pub use agents::{AgentPort, Node};
pub use error::HubError;
pub use hub::{RunEnding, run, run_with};
pub use settings::RunSettings;
