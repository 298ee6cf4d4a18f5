//! The hub: drives the scheduler core with real files, real processes and the front.
//!
//! A thin shell around `rakuda_core::Scheduler`: every message, exit and fact becomes an event, every output an
//! effect. It holds the names and paths that the core does not know, and decides nothing itself.

mod agents;
mod answers;
mod cluster;
mod control;
mod core_time;
mod data_link;
mod deadlock;
mod error;
mod facts;
mod failed_files;
mod failures;
mod front_link;
mod group_losses;
mod guard;
mod hub;
mod inputs;
mod leases;
mod membership;
mod messages;
mod names;
mod newcomers;
mod notes;
mod outputs;
mod plan;
mod printer;
mod progress;
mod project;
mod questions;
mod reach;
pub mod record;
mod replacement;
mod requirements;
mod rerun;
mod screen;
mod settings;
mod staging;
mod stopping;
mod targets;
mod times;
mod vouching;

pub use agents::{AgentPort, Node};
pub use cluster::{hosts_to_reach, lead, program_name};
pub use data_link::{DataConnection, DataDial, Dialled};
pub use error::HubError;
pub use failed_files::{Fate, remove_failed_files};
pub use guard::Guard;
pub use hub::{RunEnding, run, run_with};
pub use settings::RunSettings;
