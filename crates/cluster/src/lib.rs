//! Nodes elsewhere: which there are, how their agents are started, and what carries messages to
//! them (docs/design/clusters.md).
//!
//! The hub hands [`start`] a [`ClusterConfig`], and has from then on a port to each node
//! ([`AgentPort`]), reports of what happens to them ([`NodeReport`]), and connections to their
//! files ([`DataDial`]). What a node's coming and going means for tasks is not known here: there
//! are no tasks, attempts or files of a plan in this crate, and nothing of the hub.
//!
//! Inside: `hosts`, `hosts_toml` and `ranges` read host files, `plan` understands the settings;
//! `ssh` starts an agent on a host and brings it the `program`; `nodes` follows the life of each
//! node and `leaders` that of each leader of a group, `route` how a host is reached, and `launcher`
//! is what that takes; `leader` is what runs on a leader's host. All lives are on one `thread`:
//! `remote` is the hub's end of an agent, `calls` what it asks, `connection` a node's link on that
//! thread, `data` its data links and `far_data` the hub's end of these. Nodes whose agents dial in:
//! `origins` begins the `search` for them, `listener` lets them in, an `agent_slot` waits for those
//! of a node; `slurm` asks for allocations, `allocation` and `steps` start agents in them,
//! `template` runs a command line that starts them, and `tool` asks the batch system's programs;
//! `watched` is any program that is started to be talked to.

mod agent_slot;
mod allocation;
mod calls;
mod connection;
mod context;
mod data;
mod data_dial;
mod error;
mod far_data;
mod hosts;
mod hosts_toml;
mod launcher;
mod leader;
mod leaders;
mod listener;
mod nodes;
mod origins;
mod plan;
mod port;
mod program;
mod ranges;
mod remote;
mod reports;
mod route;
mod search;
mod slurm;
mod ssh;
mod steps;
mod template;
mod thread;
mod tool;
mod watched;

pub use context::ClusterConfig;
pub use data_dial::{DataConnection, DataDial, Dialled};
pub use error::ClusterError;
pub use hosts::{HostFileError, hosts_to_reach};
pub use leader::lead;
pub use plan::ClusterPlan;
pub use port::{AgentPort, LOCAL_NODE, Newcomer, Node, NodeSource};
pub use program::{other_machines, program_name};
pub use reports::{NodeEvent, NodeReport, ReportReceiver, ReportSender, report_channel};
pub use thread::{Elsewhere, start};
