//! Where workflows come from: made up (`copyfile`, `montage`, `layers`), instances of WfCommons (`wfformat`), runs of
//! Rakuda (`recorded`).
//!
//! Each gives a `Workload` and knows nothing of what happens to it.

mod copyfile;
mod layers;
mod montage;
mod recorded;
mod wfformat;

pub use copyfile::copyfile;
pub use layers::layers;
pub use montage::montage;
pub use recorded::{RecordedTimes, recorded};
pub use wfformat::wfformat;
