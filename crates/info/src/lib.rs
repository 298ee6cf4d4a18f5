//! What is known of nodes: attributes with their values and the times of their samples, how they
//! travel, and how they are asked for (docs/design/information.md).
//!
//! Nothing here reads a clock, opens a socket or starts a thread: `now` comes in, answers go out.
//! The built-in providers read files below a folder that they are given, which need not be `/`. Of
//! tasks it knows what they claim (`choice`), of runs the names of what they say (`of_run`); a node is a name.

pub mod catalogue;
pub mod choice;
pub mod control_groups;
pub mod delta;
pub mod expression;
pub mod external;
pub mod format;
pub mod meminfo;
pub mod mounts;
pub mod of_run;
pub mod provider;
pub mod query;
pub mod registered;
pub mod registry;
pub mod table;
pub mod value;
mod words;

pub use expression::duration_ns;
pub use rakuda_core::Time;
