//! The information service of a machine: threads that sample, programs that provide, and the one HTTP server of Rakuda
//! (docs/design/information.md).
//!
//! What values, expressions and answers are is `rakuda_info`'s. Here are the clock, the threads,
//! the processes and the sockets. A query is answered from memory on one thread; nothing that can
//! hang runs there.

mod client;
mod external;
mod following;
mod freshness;
pub mod http;
mod nvml;
mod registration;
mod sampling;
mod service;
mod sources;
mod teller;
mod token;

pub use client::{Client, ClientError};
pub use following::{Follower, News};
pub use freshness::Freshness;
pub use registration::Registration;
pub use sampling::{Finding, Machine};
pub use service::{
    Service, ServiceConfig, ServiceError, host_name, now, pass, sample_into, sample_once,
};
pub use teller::Teller;
pub use token::{Token, TokenError};
