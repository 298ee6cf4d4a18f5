//! What one table tells the table above it: attributes and nodes once, then numbers and values
//! (docs/design/information.md, Deltas).
//!
//! A [`Sender`] compares its table with what it has told, whenever it is asked; so nothing waits in
//! between, and what is told is the newest. A [`Receiver`] applies a frame whole or not at all,
//! whatever its bytes are. Neither knows what carries frames.

mod bytes;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{FrameError, Receiver};
pub use sender::Sender;

/// The first byte of a frame.
const VERSION: u8 = 1;
/// Maximum number of nodes of a session.
pub const NODES_MAX: usize = 65_536;
/// Maximum length of a frame, bytes: that of a link.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// How a value is written: the lowest bits before it.
mod tag {
    pub const INTEGER: u64 = 0;
    pub const HUNDREDTHS: u64 = 1;
    pub const SINGLE: u64 = 2;
    pub const DOUBLE: u64 = 3;
    pub const TEXT: u64 = 4;
    pub const UNDEFINED: u64 = 5;
    /// As it was told, but for what its threshold allows, and sampled anew.
    pub const SAME: u64 = 6;
    /// Undefined, and nobody will say it again.
    pub const FREE: u64 = 7;
    pub const BITS: u32 = 3;
}
