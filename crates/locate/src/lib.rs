//! Which hosts hold a file, as the file system's own catalogue says: Gfarm's, through libgfarm.
//!
//! libgfarm is loaded at run time, in processes of their own (`rakudad locate`): it is not made for
//! several threads, waits for minutes when the catalogue does not answer, writes to stderr, and
//! ends its process where it sees no other way. None of this must reach the hub. It does not know
//! tasks; its caller numbers the questions.

mod conversation;
mod gfarm;
mod hosts;
mod locator;
mod mount;
pub mod private_mount;
mod process;
mod reach;
mod serve;

pub use hosts::Hosts;
pub use locator::{Located, Locator};
pub use mount::{GfarmMount, gfarm_mount};
pub use reach::{Reach, Reached, reach};
pub use serve::{WORD, serve};
