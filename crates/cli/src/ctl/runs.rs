//! `rakudactl runs`: which runs there are. It reads summaries and the ends of journals only, so
//! that it is quick after long runs.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use rakuda_proto::Text;
use rakuda_proto::journal::{RunEnded, RunStarted};
use rakuda_record::folder::{FolderError, RunFolder, RunState};
use rakuda_record::words::command_line;
use serde::Serialize;

use super::base_folder::BaseFolder;
use super::{Status, text};

/// Lists the runs that were recorded here, the newest first.
#[derive(Args)]
#[command(after_help = "Example: the last five runs\n    rakudactl runs -n 5\n\n\
    A state is running, done, failed, stopped (by Ctrl-C or a signal), cut off (killed, or the machine failed), moved (the \
    folder of -L is not where it was) or unreadable. Done, failed and not run \
    count tasks with an action, as the last line of a run does. Took is the time of the whole run, with planning; the \
    last line of a run and the report tell its makespan. Times are UTC.")]
pub struct Runs {
    /// List only the N newest.
    #[arg(short = 'n', long = "number", value_name = "N")]
    number: Option<usize>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    version: u32,
    runs: Vec<Row>,
}

/// One run. What its files do not tell is left out.
#[derive(Serialize)]
struct Row {
    run: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_needed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    abandoned: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<u32>,
    command_line: Vec<Text>,
    journal: String,
}

impl Runs {
    /// Prints the list.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let records = base.records()?;
        let folders =
            records.folders_and_links().with_context(|| records.root.display().to_string())?;
        let rows = folders.iter().take(self.number.unwrap_or(usize::MAX)).map(row);
        if self.json {
            serde_json::to_writer(&mut *out, &Listing { version: 1, runs: rows.collect() })?;
            writeln!(out)?;
            return Ok(Status::Good);
        }
        writeln!(
            out,
            "{:<32} {:<8} {:>19} {:>12} {:>8} {:>6} {:>7} {:<9} {:>5}  command",
            "run", "state", "started (UTC)", "took", "done", "failed", "not run", "policy", "cores"
        )?;
        for row in rows {
            print(&row, out)?;
        }
        Ok(Status::Good)
    }
}

fn row(folder: &RunFolder) -> Row {
    let (first, state, ended) = look(folder).unwrap_or_else(|error| {
        crate::complain(&format!("rakudactl: {error}\n"));
        (None, "unreadable", None)
    });
    // A run that was cut off ended when nobody looked; its last line was written by a later one.
    let cut = state == RunState::CutOff.word();
    let counts = ended.as_ref().filter(|_| !cut);
    Row {
        run: folder.run.clone(),
        state,
        started_ns: first.as_ref().map(|first| first.time_ns),
        ended_ns: counts.map(|ended| ended.time_ns),
        executed: counts.map(|ended| ended.executed),
        done: counts.and_then(|ended| ended.done),
        not_needed: counts.map(|ended| ended.not_needed),
        failed: counts.map(|ended| ended.failed),
        abandoned: counts.map(|ended| ended.abandoned),
        policy: first.as_ref().map(|first| first.policy.clone()),
        cores: first.as_ref().map(|first| first.cores),
        command_line: first.map(|first| first.command_line).unwrap_or_default(),
        journal: folder.journal.display().to_string(),
    }
}

/// The first line, the state, and the last line when that ends the run.
fn look(
    folder: &RunFolder,
) -> Result<(Option<RunStarted>, &'static str, Option<RunEnded>), FolderError> {
    let unreadable = |cause| FolderError::Read { path: folder.journal.clone(), cause };
    let (state, ended) = folder.state().map_err(unreadable)?;
    if state == RunState::Moved {
        return Ok((None, state.word(), None));
    }
    let first = folder.read_first().map_err(unreadable)?;
    if first.is_none() && matches!(state, RunState::Ended(_)) {
        return Err(FolderError::NoStart(folder.journal.clone()));
    }
    Ok((first, state.word(), ended))
}

fn print(row: &Row, out: &mut dyn Write) -> std::io::Result<()> {
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let took = match (row.started_ns, row.ended_ns) {
        (Some(start), Some(end)) => text::between(start, end),
        _ => "-".to_owned(),
    };
    let words = if row.state == RunState::Moved.word() {
        "(its folder is gone)".to_owned()
    } else {
        command_line(&row.command_line)
    };
    writeln!(
        out,
        "{:<32} {:<8} {:>19} {:>12} {:>8} {:>6} {:>7} {:<9} {:>5}  {}",
        row.run,
        row.state,
        row.started_ns.map_or("-".to_owned(), text::date),
        took,
        number(row.done),
        number(row.failed),
        number(row.abandoned),
        row.policy.as_deref().unwrap_or("-"),
        number(row.cores),
        words
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const START: &str = r#"{"event":"run_started","version":2,"time_ns":1,"run":"ID"}"#;
    const END: &str = r#"{"event":"run_ended","time_ns":9,"how":"done","executed":1,"not_needed":0,"failed":0,"abandoned":0}"#;

    #[test]
    fn damaged_journals_are_not_listed_as_done_nor_reported_on() {
        let root = std::env::temp_dir().join(format!("rakudactl-runs-{}", std::process::id()));
        let folder = root.join(".rakuda/runs/ID");
        fs::create_dir_all(&folder).unwrap();
        let base = BaseFolder::new(Some(root.clone()));
        let state_of = |journal: &str| {
            fs::write(folder.join("journal.jsonl"), journal).unwrap();
            let folders = base.records().unwrap().folders().unwrap();
            (row(&folders[0]).state, base.read_run("last").map(drop))
        };
        let later = START.replace("\"version\":2", "\"version\":99");
        let (state, read) = state_of(&format!("{later}\n{END}\n"));
        assert_eq!(state, "unreadable");
        let message = format!("{:#}", anyhow::Error::new(read.unwrap_err()));
        assert_eq!(message.matches("version 99").count(), 1, "{message}");
        let (state, read) = state_of(&format!("{END}\n"));
        assert!(state == "unreadable" && matches!(read, Err(FolderError::NoStart(_))));
        let (state, read) = state_of("");
        assert!(state == "cut off" && matches!(read, Err(FolderError::Empty(_))));
        let (state, read) = state_of(&format!("{START}\n{END}\n"));
        assert!(state == "done" && read.is_ok());
        // What may not be read, or is no file at all, is still listed.
        fs::remove_file(folder.join("journal.jsonl")).unwrap();
        fs::create_dir(folder.join("journal.jsonl")).unwrap();
        let folders = base.records().unwrap().folders().unwrap();
        assert_eq!(row(&folders[0]).state, "unreadable");
        fs::remove_dir_all(&root).unwrap();
    }
}
