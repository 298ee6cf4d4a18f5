//! The hub: drives the scheduler core with real files, real processes and the front.
//!
//! A thin shell around `rakuda_core::Scheduler`: every message, exit and fact becomes an event, every output an
//! effect. It holds the names and paths that the core does not know, and decides nothing itself.

mod agents;
mod attempts;
mod choosing;
mod ci;
mod control;
mod deadlock;
mod error;
mod facts;
mod failed_files;
mod failures;
mod file_probes;
mod finding;
mod fresh_looks;
mod front_link;
mod gangs;
mod group_losses;
mod guard;
mod hub;
mod information;
mod inputs;
mod membership;
mod messages;
mod names;
mod newcomers;
mod notes;
mod outputs;
mod page_cache;
mod plan;
mod printer;
mod program_names;
mod progress;
mod project;
mod reach;
pub mod record;
mod replacement;
mod requirements;
mod rerun;
mod round_remarks;
mod screen;
mod secondary;
mod serve;
mod settings;
mod sizes;
mod staging;
mod start;
mod status;
mod stopping;
mod streams;
mod sync;
mod targets;
mod times;
mod vouching;

pub use error::HubError;
pub use failed_files::{Fate, remove_failed_files};
pub use guard::Guard;
pub use hub::{Clock, RunEnding};
pub use settings::RunSettings;
pub use start::{run, run_among, run_by_clock, run_with};
