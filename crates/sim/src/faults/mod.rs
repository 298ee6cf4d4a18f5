//! Runs in which things die: the hub's scheduler, a hub around it, agents and links made of
//! messages, and faults drawn from the seed.
//!
//! Not the model of `simulation`: how long a transfer takes is drawn, and nothing shares a disk,
//! because here the order of events matters and no figure comes out. After a time nothing goes wrong any more,
//! and then the workflow must finish. What must hold stands in `docs/design/simulator.md`; a broken
//! rule panics.
//!
//! - `scenario`: what a seed stands for; `truth`: what really is on disks, and runs
//! - `chaos`: the queue and the links; `messages`: what goes over them; `hub`, `agent`: what happens at both
//!   ends; `injector`: what goes wrong
//! - `attempts`: what the hub does for `rakuda_core::Attempts`; `results`, `endings`: how they end;
//!   `rules`: what must hold of them
//! - `staging`: what the hub does for `rakuda_core::stager`; `sets`: what streams join; `transfers`: data links and
//!   disks
//! - `gfarm`: file servers and their catalogue; `reach`: what the hub does for
//!   `rakuda_core::Reachability`; `causes`: what failures were due to, and which of them may count
//! - `front`: actions, from the first command to the end
//! - `swarm`: many seeds

mod agent;
mod attempts;
mod causes;
mod chaos;
mod endings;
mod front;
mod gfarm;
mod hub;
mod injector;
mod messages;
mod reach;
mod results;
mod rules;
mod scenario;
mod sets;
mod staging;
mod swarm;
mod transfers;
mod truth;

pub use chaos::{Counts, Run, run_seed};
pub use swarm::{Failure, Finish, Swarm, check_seed, swarm};
