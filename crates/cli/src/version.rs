//! Which program this is: its version, commit and machine type, and the types for which others lie beside it.

use std::sync::LazyLock;

/// Of all crates, and of the front.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// For people, after the name of the program: `0.1.0 (commit eed5e6a6c4ed, x86_64-unknown-linux-gnu)`; where engines
/// for hosts of other machine types lie beside it, `...-gnu; for hosts also aarch64, riscv64)`.
static LONG: LazyLock<String> = LazyLock::new(|| in_words(&rakuda_cluster::other_machines()));

/// The version, commit and machine types, in words for people.
pub fn long() -> &'static str {
    &LONG
}

fn in_words(others: &[String]) -> String {
    let own = concat!(
        env!("CARGO_PKG_VERSION"),
        " (commit ",
        env!("RAKUDA_COMMIT"),
        ", ",
        env!("RAKUDA_TARGET")
    );
    match others {
        [] => format!("{own})"),
        others => format!("{own}; for hosts also {})", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_for_other_machine_types_are_named() {
        assert!(in_words(&[]).ends_with(concat!(env!("RAKUDA_TARGET"), ")")));
        let both = in_words(&["aarch64".to_owned(), "riscv64".to_owned()]);
        assert!(both.ends_with("; for hosts also aarch64, riscv64)"), "{both}");
    }
}
