//! Targets that a run has made, as its last line names them.

use rakuda_record::printable::{cut_middle, printable};

/// Maximum number of targets that are named; of more only the number is shown.
const NAMES_MAX: usize = 3;
/// Maximum columns of a name.
const NAME_COLUMNS: usize = 40;

/// Targets that were made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The first [`NAMES_MAX`].
    names: Vec<String>,
    count: usize,
}

impl Made {
    pub(super) fn add(&mut self, name: &[u8]) {
        self.count += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(cut_middle(&printable(name), NAME_COLUMNS));
        }
    }

    pub(super) fn words(&self) -> String {
        match self.count {
            0 => String::new(),
            count if count > self.names.len() => format!("; made {count} targets"),
            _ => format!("; made {}", self.names.join(", ")),
        }
    }
}
