//! What a later run knows from earlier ones: how long tasks take ([`Durations`]), and what a
//! target's last good attempt was like. It reads summaries and journals, and does not know what is
//! decided with it.

mod durations;
mod last;
pub(crate) mod summary;

pub use durations::{Basis, DurationTable, Durations, Estimate, KnownRule, pattern_of};
pub use last::{HISTORY, LastRecord, LastRecords};
pub use summary::{RuleSummary, RunSummary, SUMMARY_VERSION};
