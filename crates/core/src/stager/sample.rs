//! What tests take for the state of a file.

use super::FileState;

/// A version, and the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub u32, pub u64);

impl FileState for State {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self == other
    }

    fn supersedes(&self, earlier: &Self) -> bool {
        self != earlier && self.0 >= earlier.0
    }
}
