//! Nodes elsewhere: which there are, how their agents are started, and what carries messages to them (docs/design/clusters.md).
//!
//! `hosts`, `hosts_toml` and `ranges` read host files; `ssh` starts an agent on a host; `nodes` follows the life of each
//! node and `leaders` that of each leader of a group, `way` how a host is reached; `leader` is what runs on a leader's host;
//! `remote` is the hub's end of an agent, `thread` what all the others live on, and `line` a node's link there. Nodes whose agents come by themselves: `guests` lets them in, `slurm` asks for allocations,
//! `allocation` and `steps` start agents in them, `template` runs a command line that starts them, and `tool` asks the batch system's programs;
//! `watched` is any program that is started to be talked to.
//! What a node's coming and going means for tasks is told in `membership`.

mod allocation;
mod data;
mod guests;
mod hosts;
mod hosts_toml;
mod leader;
mod leaders;
mod line;
mod nodes;
mod plan;
mod program;
mod ranges;
mod remote;
mod slurm;
mod ssh;
mod steps;
mod template;
mod thread;
mod tool;
mod watched;
mod way;

pub use hosts::hosts_to_reach;
pub use leader::lead;
pub use plan::{ClusterPlan, Origin};
pub use program::program_name;
pub use thread::start;
