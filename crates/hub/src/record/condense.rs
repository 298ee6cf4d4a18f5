//! `history.jsonl`: the last record of each target of runs that are removed, and of each task that has printed into a
//! stream, so that reasons outlive them.
//!
//! Lines are those of the journals, unchanged: of each run its first line, then of each target
//! whose last record it is the definition (with its rule, and those of what it needs), its last
//! good attempt and that attempt's commands. Runs are in order of time, and numbers are each run's
//! own. It does not know when runs are removed; it is called by one run at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use rakuda_proto::journal::{JournalEvent, Outcome, TaskKind};
use rakuda_record::reader::{ReadError, Wanted, read_wanted};
use rakuda_record::regular::open_regular;

/// Targets that a newer run has a record of.
type Seen = BTreeSet<Vec<u8>>;

/// What is kept of one run: where lines of a file begin.
#[derive(Debug, Default)]
struct Kept {
    file: PathBuf,
    offsets: BTreeSet<u64>,
}

/// Adds the records of the journals, which are newer than the history and in order of time. A
/// reader sees the old history or the new one.
pub(super) fn condense(history: &Path, journals: &[PathBuf]) -> io::Result<()> {
    let mut seen = Seen::new();
    let mut kept = Vec::new();
    // The newest first: what it has need not be kept of older ones.
    for journal in journals.iter().rev() {
        match kept_of(journal, &mut seen, false) {
            // A journal that cannot be read any more must not keep its run for ever.
            Err(ReadError::Version { .. }) => {}
            read => kept.extend(read.map_err(|error| at(journal, &error))?),
        }
    }
    kept.extend(kept_of(history, &mut seen, true).map_err(|error| at(history, &error))?);
    let new = history.with_extension("jsonl.new");
    // A run that was killed left this file.
    let _ = fs::remove_file(&new);
    let mut out = BufWriter::new(File::create_new(&new)?);
    for kept in kept.iter().rev() {
        copy_lines(kept, &mut out)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(new, history)
}

/// The lines of one run about a task.
#[derive(Debug, Default)]
struct TaskLines {
    defined: u64,
    name: Vec<u8>,
    is_path: bool,
    /// It has printed into a stream: for files that others have made of it.
    prints: bool,
    rule: Option<u32>,
    needs: Vec<u32>,
    /// Attempt and commands that go on.
    open: Vec<u64>,
    /// Those of the last attempt that ended well, and its end.
    good: Vec<u64>,
}

/// One run as far as it has been read.
#[derive(Debug, Default)]
struct RunLines {
    started: Option<u64>,
    rules: BTreeMap<u32, u64>,
    tasks: BTreeMap<u32, TaskLines>,
}

impl RunLines {
    fn add(&mut self, event: JournalEvent, offset: u64) {
        match event {
            JournalEvent::RuleDefined(rule) => drop(self.rules.insert(rule.rule, offset)),
            JournalEvent::TaskDefined(task) => {
                let is_path = matches!(task.kind, TaskKind::File | TaskKind::Directory);
                let needs = [task.prerequisites, task.order_only].concat();
                let lines = TaskLines {
                    defined: offset,
                    name: task.name.0,
                    is_path,
                    rule: task.rule,
                    needs,
                    ..TaskLines::default()
                };
                self.tasks.insert(task.task, lines);
            }
            JournalEvent::StreamsOpened(opened) => {
                for writer in opened.streams.iter().flat_map(|stream| &stream.writers) {
                    if let Some(task) = self.tasks.get_mut(writer) {
                        task.prints = true;
                    }
                }
            }
            JournalEvent::AttemptStarted(attempt) => {
                if let Some(task) = self.tasks.get_mut(&attempt.task) {
                    task.open = vec![offset];
                }
            }
            JournalEvent::CommandStarted(command) => {
                if let Some(task) = command.task.and_then(|task| self.tasks.get_mut(&task)) {
                    task.open.push(offset);
                }
            }
            JournalEvent::AttemptEnded(attempt) => {
                if let Some(task) = self.tasks.get_mut(&attempt.task) {
                    task.open.push(offset);
                    let lines = std::mem::take(&mut task.open);
                    if attempt.outcome == Outcome::Done {
                        task.good = lines;
                    }
                }
            }
            _ => {}
        }
    }

    /// The lines of targets that are not `seen`; they are from now on. Attempts that were `kept` before are still.
    fn keep(self, file: &Path, seen: &mut Seen, kept: bool) -> Option<Kept> {
        let mut offsets = BTreeSet::new();
        let counts = |task: &&TaskLines| task.is_path || task.prints || kept;
        let targets = self.tasks.values().filter(|task| counts(task) && !task.good.is_empty());
        for task in targets {
            if !seen.insert(task.name.clone()) {
                continue;
            }
            offsets.extend(&task.good);
            let needed = task.needs.iter().filter_map(|number| self.tasks.get(number));
            for one in needed.chain([task]) {
                offsets.insert(one.defined);
                offsets.extend(one.rule.and_then(|rule| self.rules.get(&rule)));
            }
        }
        if offsets.is_empty() {
            return None;
        }
        offsets.extend(self.started);
        Some(Kept { file: file.to_path_buf(), offsets })
    }
}

/// What is kept of the runs in a journal (one) or a history (many), the newest first; `kept`: it is the history.
fn kept_of(file: &Path, seen: &mut Seen, kept: bool) -> Result<Vec<Kept>, ReadError> {
    let journal = match open_regular(file) {
        Ok(journal) => BufReader::with_capacity(1 << 18, journal),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let wanted = Wanted::RUN_STARTED
        .and(Wanted::RULE_DEFINED)
        .and(Wanted::TASK_DEFINED)
        .and(Wanted::STREAMS_OPENED)
        .and(Wanted::ATTEMPT_STARTED)
        .and(Wanted::COMMAND_STARTED)
        .and(Wanted::ATTEMPT_ENDED);
    let mut runs = vec![RunLines::default()];
    read_wanted(journal, wanted, |event, offset| {
        if let JournalEvent::RunStarted(_) = event {
            runs.push(RunLines { started: Some(offset), ..RunLines::default() });
        } else {
            runs.last_mut().expect("never empty").add(event, offset);
        }
    })?;
    Ok(runs.into_iter().rev().filter_map(|run| run.keep(file, seen, kept)).collect())
}

fn at(file: &Path, error: &ReadError) -> io::Error {
    let kind = match error {
        ReadError::Io(error) => error.kind(),
        ReadError::Version { .. } => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, format!("{}: {error}", file.display()))
}

fn copy_lines(kept: &Kept, out: &mut impl io::Write) -> io::Result<()> {
    let mut journal = BufReader::with_capacity(1 << 18, open_regular(&kept.file)?);
    let (mut offset, mut line) = (0, Vec::new());
    for wanted in &kept.offsets {
        journal.seek_relative(i64::try_from(wanted - offset).unwrap_or(i64::MAX))?;
        line.clear();
        journal.read_until(b'\n', &mut line)?;
        out.write_all(&line)?;
        offset = wanted + line.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(folder: &Path, run: &str, tasks: &[(&str, &str)]) -> PathBuf {
        let mut text = format!(
            "{{\"event\":\"run_started\",\"version\":2,\"run\":\"{run}\"}}\n\
             {{\"event\":\"rule_defined\",\"rule\":1,\"location\":\"Rakefile:1\"}}\n\
             {{\"event\":\"task_defined\",\"task\":0,\"name\":\"source\",\"kind\":\"file\",\"action\":false}}\n\
             {{\"event\":\"task_defined\",\"task\":1,\"name\":\"other\",\"kind\":\"file\",\"action\":false}}\n"
        );
        for (number, (name, outcome)) in (2..).zip(tasks) {
            let lines = format!(
                "{{\"event\":\"task_defined\",\"task\":{number},\"name\":\"{name}\",\"kind\":\"file\",\"rule\":1,\"prerequisites\":[0],\"action\":true}}\n\
                 {{\"event\":\"attempt_started\",\"time_ns\":1,\"task\":{number},\"attempt\":1,\"node\":0,\"cores\":1}}\n\
                 {{\"event\":\"command_started\",\"time_ns\":1,\"command\":{number},\"task\":{number},\"line\":\"make {name} in {run}\"}}\n\
                 {{\"event\":\"command_ended\",\"time_ns\":1,\"command\":{number}}}\n\
                 {{\"event\":\"attempt_ended\",\"time_ns\":1,\"task\":{number},\"outcome\":\"{outcome}\"}}\n"
            );
            text += &lines;
        }
        let path = folder.join(run);
        fs::write(&path, text).unwrap();
        path
    }

    /// What the history tells, in short.
    fn told(history: &Path) -> Vec<String> {
        let mut told = Vec::new();
        let file = BufReader::new(File::open(history).unwrap());
        let skipped = read_wanted(file, Wanted::ALL, |event, _| {
            told.push(match event {
                JournalEvent::RunStarted(run) => format!("run {}", run.run),
                JournalEvent::RuleDefined(_) => "rule".into(),
                JournalEvent::TaskDefined(task) => task.name.to_display(),
                JournalEvent::CommandStarted(command) => command.line.unwrap().to_display(),
                JournalEvent::AttemptStarted(_) => "(".into(),
                JournalEvent::AttemptEnded(_) => ")".into(),
                other => panic!("{other:?}"),
            });
        })
        .unwrap();
        assert_eq!(skipped, rakuda_record::reader::Skipped::default());
        told
    }

    #[test]
    fn the_last_good_record_of_each_target_is_kept() {
        let folder = std::env::temp_dir().join(format!("rakuda-condense-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let history = folder.join("history.jsonl");
        let first = journal(&folder, "1", &[("a", "done"), ("b", "done"), ("c", "failed")]);
        condense(&history, &[first]).unwrap();
        let one = ["run 1", "rule", "source"];
        let a = ["a", "(", "make a in 1", ")"];
        let b = ["b", "(", "make b in 1", ")"];
        assert_eq!(told(&history), [&one[..], &a, &b].concat(), "c has no good record");
        let second = journal(&folder, "2", &[("b", "done")]);
        let third = journal(&folder, "3", &[("b", "failed"), ("d", "done")]);
        condense(&history, &[second, third]).unwrap();
        let b = ["run 2", "rule", "source", "b", "(", "make b in 2", ")"];
        let d = ["run 3", "rule", "source", "d", "(", "make d in 3", ")"];
        assert_eq!(told(&history), [&one[..], &a, &b, &d].concat());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_history_that_cannot_be_read_is_not_replaced() {
        let folder = std::env::temp_dir().join(format!("rakuda-unread-{}", std::process::id()));
        fs::create_dir_all(folder.join("3")).unwrap();
        let history = folder.join("history.jsonl");
        let good = journal(&folder, "1", &[("a", "done")]);
        condense(&history, std::slice::from_ref(&good)).unwrap();
        let before = fs::read(&history).unwrap();
        let unreadable = condense(&history, &[good.clone(), folder.join("3")]).unwrap_err();
        assert!(unreadable.to_string().contains("/3: "), "{unreadable}");
        let later = r#"{"event":"run_started","version":99,"run":"2"}"#;
        fs::write(folder.join("2"), format!("{later}\n")).unwrap();
        condense(&history, &[folder.join("2")]).unwrap();
        assert_eq!(fs::read(&history).unwrap(), before, "of the other version nothing is kept");
        fs::write(&history, format!("{later}\n")).unwrap();
        assert!(condense(&history, &[good]).is_err());
        assert_eq!(fs::read_to_string(&history).unwrap(), format!("{later}\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
