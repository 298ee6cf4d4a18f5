//! Plots as SVG: axes, colours, escaping. Each plot has a file.
//!
//! Elements carry classes, not colours: a page gives them colours for light and dark; a picture of
//! its own gets [`STYLE`].

mod clocks;
pub mod drawing;
mod fitting;
mod gantt;
mod round_axes;
mod rounds;
mod rule_graph;
mod rules;
mod running;

pub use drawing::{colour_class, document, escape, inline};
pub use gantt::{Cells, Rows, gantt, places};
pub use rounds::{round_pictures, round_plots};
pub use rule_graph::rule_graph;
pub use rules::{rule_axis, rule_plot, rules};
pub use running::{running, running_scaled, top_of};
