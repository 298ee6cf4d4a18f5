//! Synchronised starts: rounds of commands that begin at one instant, the clocks of nodes, and the statistics of lags
//! (docs/design/synchronised-start.md).
//!
//! It knows no task, no name and no scheduler: a round has workers by number, and times are the shell's.

pub mod clock;
pub mod clocks;
mod margin;
mod round;
pub mod rounds;
pub mod statistics;
