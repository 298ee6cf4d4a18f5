//! Reads runs back: bytes of a journal to events ([`reader`]), events to a [`Run`], and from that what people ask.
//!
//! It writes nothing but what it is asked to render, starts no process and reads no clock. docs/reference/journal.md
//! says what each event means.

pub mod bounds;
pub mod calendar;
pub mod collected;
pub mod export;
pub mod find;
pub mod folder;
pub mod forecast;
pub mod history;
pub mod live;
pub mod marks;
pub mod output;
pub mod printable;
pub mod reader;
pub mod regular;
pub mod report;
mod run;
pub mod story;
pub mod summary;
pub mod sync;
pub mod unfinished;
pub mod why;
pub mod words;

pub use reader::ReadError;
pub use run::held;
pub use run::{Attempt, Command, Invocation, Node, Rule, Run, Task};
pub use unfinished::Unfinished;
