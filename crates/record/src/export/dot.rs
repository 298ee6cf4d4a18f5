//! Graphviz: the graph of a run's tasks, or of its rules, in the dot language.
//!
//! Text only: Graphviz itself is not known here. Any bytes may be in names; what dot or UTF-8 would
//! not take is escaped or replaced.

mod rules;
mod tasks;

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use crate::Run;

/// What the nodes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Of {
    /// Tasks that ran or were to run, and the files that they started from.
    #[default]
    Tasks,
    /// Rules: tasks of one action together.
    Rules,
}

/// Maximum number of tasks that make a useful picture. Nobody can read one of more, and `dot` takes minutes for it.
pub const TASKS_ADVISED: usize = 1000;

/// Writes a graph. The answer is the number of its nodes.
///
/// # Errors
/// When writing fails.
pub fn write(run: &Run, of: Of, out: impl Write) -> io::Result<usize> {
    let mut graph = Graph::default();
    let nodes = match of {
        Of::Tasks => tasks::draw(run, &mut graph),
        Of::Rules => rules::draw(run, &mut graph),
    };
    let mut out = BufWriter::new(out);
    writeln!(out, "digraph {} {{", quoted(&run.started.run))?;
    writeln!(out, "  graph [rankdir=LR, fontname=\"sans-serif\", compound=true];")?;
    writeln!(out, "  node [fontname=\"sans-serif\", fontsize=10, style=filled, fillcolor=white];")?;
    writeln!(out, "  edge [color=\"#606060\", fontname=\"sans-serif\", fontsize=9];")?;
    out.write_all(graph.text.as_bytes())?;
    writeln!(out, "}}")?;
    out.flush()?;
    Ok(nodes)
}

/// Statements of a graph.
#[derive(Default)]
struct Graph {
    text: String,
    depth: usize,
}

impl Graph {
    fn line(&mut self, statement: &str) {
        let indent = 2 * (self.depth + 1);
        writeln!(self.text, "{:indent$}{statement}", "").expect("writing to a string succeeds");
    }

    fn node(&mut self, id: &str, label: &str, more: &str) {
        let comma = if more.is_empty() { "" } else { ", " };
        self.line(&format!("{id} [label={}{comma}{more}];", quoted(label)));
    }

    fn edge(&mut self, from: &str, to: &str, label: &str) {
        let label =
            if label.is_empty() { String::new() } else { format!(" [label={}]", quoted(label)) };
        self.line(&format!("{from} -> {to}{label};"));
    }

    fn open_cluster(&mut self, number: usize, label: &str) {
        self.line(&format!("subgraph cluster_{number} {{"));
        self.depth += 1;
        self.line(&format!("label={}; color=\"#b0b0b0\"; style=rounded;", quoted(label)));
    }

    fn close_cluster(&mut self) {
        self.depth -= 1;
        self.line("}");
    }
}

/// A string of dot: quotes and backslashes escaped, control characters as spaces, line feeds as `\n`.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            character if character.is_control() => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A light colour for each rule, as hue, saturation and value: hues a golden section apart, so that
/// the next rule's is far.
fn fill(rule: Option<u32>) -> String {
    match rule {
        None => "fillcolor=\"#e8e8e8\"".into(),
        Some(rule) => {
            let hue = (u64::from(rule) * 618 + 90) % 1000;
            format!("fillcolor=\"0.{hue:03} 0.25 0.97\"")
        }
    }
}

/// The border of what failed.
const FAILED: &str = "color=\"#c00000\", penwidth=2.5";
/// The border of what was not run, or not to its end.
const NOT_RUN: &str = "color=\"#909090\", style=\"filled,dashed\"";

/// The look of a stream; `broken`: what went in did not all come out.
fn stream_shape(broken: bool) -> String {
    let border = if broken { format!(", {FAILED}") } else { String::new() };
    format!("shape=cds, fillcolor=\"#d8e8f8\"{border}")
}

#[cfg(test)]
#[path = "dot_tests.rs"]
mod tests;
