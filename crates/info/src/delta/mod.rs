//! What one table tells the table above it: attributes and nodes once, then numbers and values
//! (docs/design/information.md, Deltas).
//!
//! A [`Sender`] compares its table with what it has sent, whenever it is asked; so nothing waits in between, and what
//! is sent is the newest. A [`Receiver`] applies a frame whole or not at all, whatever its bytes are. Neither knows
//! what carries frames.

mod bytes;
mod form;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use form::{FRAME_BYTES_MAX, NODES_MAX};
pub use receiver::{FrameError, Receiver};
pub use sender::Sender;
