//! Units, and the one place where they are converted.

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes of a gibibyte.
pub const GIB: u64 = 1 << 30;
/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// ps of itself that a channel has in a second.
pub(crate) const SECOND_PS: u64 = 1_000_000_000_000;

/// ps that a byte takes of a channel with this bandwidth (bytes/s).
pub(crate) fn cost_ps(bandwidth: u64) -> u64 {
    (SECOND_PS / bandwidth.max(1)).max(1)
}

/// The time that `bytes` take at `rate` bytes/s, rounded up.
pub(crate) fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    let ns = (u128::from(bytes) * u128::from(SECOND_NS)).div_ceil(u128::from(rate.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
