//! Which files go along with a task's command and with its target, beyond those that are tasks' own.
//!
//! One policy with one owner, [`FilePolicy`]: it decides from names, from what the Rakefile
//! declares, and from what others have seen. It touches no file, and knows neither nodes nor
//! transfers. The hub and the agents ask it and act (docs/design/staging.md).

mod names;
mod pattern;
mod policy;
#[cfg(test)]
mod tests;

pub use names::{absolute, begins_as, folder_and_name, is_left_over, names_in};
pub use pattern::{Matching, matches_glob};
pub use policy::{Claim, Declaration, FilePolicy, Kept, Search, Seen, Undeclared};

/// Maximum number of guessed secondary files of one target.
pub const GUESSED_MAX: usize = 100;
/// Maximum number of files that one declared pattern may match.
pub const MATCHES_MAX: usize = 10_000;
