//! Messages between front, hub and agents, as plain data.
//!
//! One place for what crosses a process boundary: `front` (MessagePack, spoken with Ruby), `agent` (hub and agent),
//! `cluster` (what comes to that when the agent is elsewhere), `journal` (what a run leaves behind), `streams` (hub and
//! agent on streams), `frame` (how messages are packed into a byte stream). Beside them `memory`: how bytes of memory
//! are printed. It does not know which side sends what when: docs/design/protocol.md says that.

pub mod agent;
pub mod cluster;
mod figure;
pub mod file_time;
pub mod files;
pub mod frame;
pub mod front;
pub mod journal;
pub mod memory;
pub mod streams;
mod text;

pub use figure::Figure;
pub use text::Text;
