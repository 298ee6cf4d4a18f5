//! Which program this is: its version, commit and machine type.

/// Of all crates, and of the front.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// For people, after the name of the program: `0.1.0 (commit eed5e6a6c4ed, x86_64-unknown-linux-gnu)`.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("RAKUDA_COMMIT"),
    ", ",
    env!("RAKUDA_TARGET"),
    ")"
);
