//! `rakudactl nodes`: where the runs that are going on run.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::{Status as Ending, live};

/// Lists the nodes of the runs that are going on here.
#[derive(Args)]
pub struct Nodes {
    /// Ask only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Nodes {
    /// Asks and prints.
    pub fn answer(&self, place: &Place, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let runs = live::ask(place, self.run.as_deref(), &json!({"ask": "status"}))?;
        if self.json {
            let only = |run: &Value| json!({"run": run["run"], "nodes": run["nodes"]});
            let runs: Vec<Value> = runs.iter().map(only).collect();
            writeln!(out, "{}", json!({"version": 1, "runs": runs}))?;
            return Ok(Ending::Good);
        }
        for run in &runs {
            writeln!(out, "{}:", run["run"].as_str().unwrap_or("?"))?;
            print(run["nodes"].as_array().map_or(&[][..], Vec::as_slice), out)?;
        }
        Ok(Ending::Good)
    }
}

fn print(nodes: &[Value], out: &mut dyn Write) -> std::io::Result<()> {
    let name = |node: &Value| node["node"].as_str().unwrap_or("?").to_owned();
    let width = nodes.iter().map(|node| name(node).chars().count()).max().unwrap_or(0);
    for node in nodes {
        let word = |name: &str| node[name].as_u64().unwrap_or(0);
        write!(
            out,
            "  {:width$}  {:8}  {:>3} {}, {} running, {} done",
            name(node),
            node["state"].as_str().unwrap_or("?"),
            word("cores"),
            if word("cores") == 1 { "core" } else { "cores" },
            word("running"),
            word("done")
        )?;
        if let Some(group) = node["group"].as_str() {
            write!(out, ", group {group}")?;
        }
        if let Some(leader) = node["leader"].as_str() {
            write!(out, ", leader {leader}")?;
        }
        if let Some(seconds) = node["ends_in_s"].as_u64() {
            write!(out, ", ends in {seconds} s")?;
        }
        match node["why"].as_str() {
            Some(why) => writeln!(out, ": {why}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}
