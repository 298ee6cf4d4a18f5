//! How large an expression may be.

/// Maximum length of an expression, bytes.
pub const BYTES_MAX: usize = 4096;
/// Maximum depth of parentheses, signs and calls.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of operators with two sides that are no comparisons.
pub const OPERATORS_MAX: usize = 200;
