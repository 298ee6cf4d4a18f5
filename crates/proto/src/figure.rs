//! A number that a program has printed. It is finite; what it measures, and in which unit, nobody here knows.

use serde::{Deserialize, Serialize};

/// Two are equal when they print alike, so that messages with them can be compared.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figure(pub f64);

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Figure {}
