//! The form of a frame, and how large one may be.

/// The first byte of a frame.
pub(super) const VERSION: u8 = 1;
/// Maximum number of nodes of a session.
pub const NODES_MAX: usize = 65_536;
/// Maximum length of a frame, bytes: that of a link.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// How a value is written: the lowest bits before it.
pub(super) mod tag {
    pub const INTEGER: u64 = 0;
    pub const HUNDREDTHS: u64 = 1;
    pub const SINGLE: u64 = 2;
    pub const DOUBLE: u64 = 3;
    pub const TEXT: u64 = 4;
    pub const UNDEFINED: u64 = 5;
    /// The value as last sent, to within its threshold, sampled anew.
    pub const SAME: u64 = 6;
    /// Undefined, and no value of this kind will come again.
    pub const FREE: u64 = 7;
    pub const BITS: u32 = 3;
}
