//! Messages between front, hub and agents, as plain data.
//!
//! One place for what crosses a process boundary: `front` (MessagePack, spoken with Ruby),
//! `agent` (hub and agent, in process today), `frame` (how messages are packed into a byte stream).
//! It does not know who sends what when: docs/design/protocol.md tells that.

pub mod agent;
pub mod frame;
pub mod front;
mod text;

pub use text::Text;
