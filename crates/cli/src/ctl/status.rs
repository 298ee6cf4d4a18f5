//! `rakudactl status`: how far the runs are that are going on.

use std::io::Write;

use clap::Args;
use rakuda_record::folder::FolderError;
use serde_json::{Value, json};

use super::place::Place;
use super::{Status as Ending, live};

/// Says how far the runs are that are going on here.
#[derive(Args)]
pub struct Status {
    /// Ask only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Asks and prints.
    pub fn answer(&self, place: &Place, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let asked = live::ask(place, self.run.as_deref(), &json!({"ask": "status"}));
        if self.json && asked.as_ref().is_err_and(is_nothing_there) {
            // A program reads an empty list; the exit status and the line on stderr are the same.
            writeln!(out, "{}", json!({"version": 1, "runs": []}))?;
            out.flush()?;
        }
        let runs = asked?;
        if self.json {
            writeln!(out, "{}", json!({"version": 1, "runs": runs}))?;
            return Ok(Ending::Good);
        }
        for run in &runs {
            print(run, out)?;
        }
        Ok(Ending::Good)
    }
}

/// Whether no run is going on, or none has ever been here.
fn is_nothing_there(error: &anyhow::Error) -> bool {
    error.is::<live::NoLiveRun>() || matches!(error.downcast_ref(), Some(FolderError::NoRecords(_)))
}

fn print(run: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    let word = |name: &str| run[name].as_u64().unwrap_or(0);
    write!(
        out,
        "{}: {}/{} done, {} running, {} queued, {} failed, {:.1}/s",
        run["run"].as_str().unwrap_or("?"),
        word("done"),
        word("total"),
        word("running"),
        word("queued"),
        word("failed"),
        run["rate_per_s"].as_f64().unwrap_or(0.0)
    )?;
    if run["stopping"] == true {
        write!(out, ", stopping")?;
        let next = &run["next_signal"];
        if let (Some(name), Some(in_s)) = (next["name"].as_str(), next["in_s"].as_f64()) {
            write!(out, ": {name} in {in_s:.0} s")?;
        }
    } else if let Some(left) = run["left"].as_object() {
        let seconds = |name: &str| left.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        if left.get("unknown_tasks").and_then(Value::as_u64).unwrap_or(0) > 0 {
            write!(out, ", at least {:.0} s left", seconds("low_s"))?;
        } else {
            write!(
                out,
                ", {:.0} s left ({:.0} to {:.0} s)",
                seconds("s"),
                seconds("low_s"),
                seconds("high_s")
            )?;
        }
    }
    writeln!(out)?;
    let tasks = run["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    for task in tasks {
        super::explain::print_running(task, "  ", out)?;
    }
    let others = word("running").saturating_sub(tasks.len() as u64);
    if others > 0 {
        writeln!(out, "  ({others} more)")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(running: usize) -> String {
        let task = |number: usize| json!({"task": format!("t{number}"), "elapsed_s": 1.0});
        let tasks: Vec<Value> = (0..running.min(20)).map(task).collect();
        let mut out = Vec::new();
        print(&json!({"run": "r", "running": running, "tasks": tasks}), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn running_tasks_that_the_hub_does_not_list_are_counted() {
        assert!(lines(57).ends_with("\n  (37 more)\n"), "{}", lines(57));
        assert!(!lines(20).contains("more"), "{}", lines(20));
    }
}
