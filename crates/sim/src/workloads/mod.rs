//! Where workflows come from: made up (`copyfile`, `montage`, `layers`), instances of WfCommons (`wfformat`), runs of
//! Rakuda (`recorded`).
//!
//! Each gives a `Workload` and knows nothing of what happens to it.

mod copyfile;
mod layers;
mod montage;
mod recorded;
mod to_wfformat;
mod wfformat;

pub use copyfile::copyfile;
pub use layers::layers;
pub use montage::montage;
pub use recorded::{RecordedTimes, recorded};
pub use to_wfformat::to_wfformat;
pub use wfformat::wfformat;
