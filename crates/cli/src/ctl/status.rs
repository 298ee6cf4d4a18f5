//! `rakudactl status`: how far the runs are that are going on.

use std::io::Write;

use clap::Args;
use rakuda_record::folder::FolderError;
use rakuda_record::report::format::bytes;
use serde_json::{Value, json};

use super::base_folder::BaseFolder;
use super::which_run::RunArgument;
use super::{Status as Ending, live};

/// Maximum number of streams that are named.
const STREAMS_MAX: usize = 20;

/// Says how far the runs are that are going on here.
#[derive(Args)]
pub struct Status {
    /// Ask only the run whose name begins with RUN, or the `last` that goes on.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Asks and prints.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Ending> {
        let asked =
            live::ask(base, self.run_argument.or(self.run.as_deref()), &json!({"ask": "status"}));
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

/// Whether no run is going on, or the folder has never had one.
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
    let streams = run["streams"].as_array().map_or(&[][..], Vec::as_slice);
    for stream in streams.iter().take(STREAMS_MAX) {
        let count = |name: &str| stream[name].as_u64().unwrap_or(0);
        let (name, records) = (super::explain::text(&stream["stream"]), count("records"));
        let of = if stream["live"] == true { "" } else { " of the writers that run now" };
        writeln!(out, "  stream {name}: {}, {records} records so far{of}", bytes(count("bytes")))?;
    }
    if streams.len() > STREAMS_MAX {
        writeln!(out, "  ({} more streams)", streams.len() - STREAMS_MAX)?;
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
    fn streams_are_told_with_what_went_in_so_far() {
        let stream = |name: &str, live| json!({"stream": name, "bytes": 1_500_000, "records": 7, "live": live});
        let mut all = vec![stream("lines", true), stream("sums", false)];
        all.extend((0..20).map(|_| stream("more", true)));
        let mut out = Vec::new();
        print(&json!({"run": "r", "streams": all}), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "  stream lines: 1.50 MB, 7 records so far");
        let of = "  stream sums: 1.50 MB, 7 records so far of the writers that run now";
        assert_eq!((lines[1], lines[20]), (of, "  (2 more streams)"));
    }

    #[test]
    fn running_tasks_that_the_hub_does_not_list_are_counted() {
        assert!(lines(57).ends_with("\n  (37 more)\n"), "{}", lines(57));
        assert!(!lines(20).contains("more"), "{}", lines(20));
    }
}
