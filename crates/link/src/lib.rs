//! Links: what carries messages between the hub and an agent elsewhere, over any stream of bytes.
//!
//! [`frame`], [`session`] and [`time`] are pure: bytes and times in, bytes and messages out. [`io`] runs a session over
//! a connection; [`hub`] and [`agent`] are its two ends. Over TCP, [`credentials`] say what may connect, [`gate`] lets
//! them in, and [`tcp`] dials. Through the leader of a host group, links of many agents go over one connection:
//! [`mux`], with [`relay`] at the head of each; the leader answers for their states and beats: [`sieve`], [`group`].
//! Data links carry files: [`content`] says what goes over one of their channels. [`peers`] connects hosts of a run
//! with one another. None of them knows what the messages mean, starts anything, or knows what launched the other side.
//! `docs/design/clusters.md` describes the format.

pub mod agent;
pub mod content;
pub mod credentials;
pub mod frame;
pub mod gate;
mod greeting;
pub mod group;
pub mod hub;
pub mod invitation;
pub mod io;
pub mod mux;
pub mod peers;
pub mod private_file;
pub mod relay;
pub mod session;
pub mod sieve;
mod state_lane;
pub mod stdio;
pub mod tcp;
pub mod time;
