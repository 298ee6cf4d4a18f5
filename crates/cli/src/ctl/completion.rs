//! What may come next on a command line of `rakudactl`. The completions of the shells (share/) ask it with `rakudactl
//! __complete POSITION WORD...`; clap answers from the words that `--help` tells, what is recorded here adds the
//! names of runs and tasks, values that are files are found from the folder in which the shell is, and the words of
//! `bench` are its runner's. How a shell shows it is the shell's business.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _, complete,
};
use rakuda_record::words::command_line;

use super::base_folder::BaseFolder;
use super::bench::Bench;

/// The word by which shells ask.
pub const WORD: &str = "__complete";
/// What holds the workers of a round, as the front checks it.
const GATES: [&str; 5] = ["auto", "preload", "exec", "call", "none"];
/// What `--rerun-on` compares, as the front checks it.
const COMPARED: [&str; 4] = ["command", "inputs", "content", "env"];
/// Workloads of the simulator that are no files and no runs.
const WORKLOADS: [&str; 4] = ["faults", "copyfile", "montage", "layers"];
/// Maximum size of a journal that is read for the names of its tasks: some 100,000 tasks, in some tenths of a second.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Prints a line for each word that may stand at the position: the word, and after a tab what it
/// is. Says nothing of what went wrong: it would be in the middle of the user's command line.
pub fn run(command: Command, words: &[OsString]) -> ExitCode {
    let [position, words @ ..] = words else { return ExitCode::from(super::USAGE) };
    let Some(position) = position.to_str().and_then(|position| position.parse::<usize>().ok())
    else {
        return ExitCode::from(super::USAGE);
    };
    if let Some(bench) = bench_at(words, position) {
        let base = Asked { words: words[..bench].to_vec() }.base();
        return Bench::complete(&base, position - bench - 1, &words[bench + 1..]);
    }
    let mut words = words.to_vec();
    // The word to be completed may still be empty.
    words.resize(words.len().max(position + 1), OsString::new());
    let folder = here();
    let asked = Asked { words: words.clone() };
    let option = words[position].as_encoded_bytes().starts_with(b"-");
    let mut command = asked.teach(command);
    let Ok(candidates) = complete(&mut command, words, position, Some(&folder)) else {
        return ExitCode::FAILURE;
    };
    // Options are offered to those who have begun to type one: else they would stand among the names of tasks.
    let wanted = |candidate: &&CompletionCandidate| {
        option || !candidate.get_value().as_encoded_bytes().starts_with(b"-")
    };
    let lines: String = candidates.iter().filter(wanted).filter_map(line).collect();
    let _ = std::io::stdout().write_all(lines.as_bytes());
    ExitCode::SUCCESS
}

/// Where `bench` stands before the position, as the question that is asked: its words are its runner's.
fn bench_at(words: &[OsString], position: usize) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at).filter(|_| at < position)?.to_str()?;
        at += match word {
            "bench" => return Some(at),
            "-C" | "--directory" => 2,
            _ if word.starts_with('-') => 1,
            _ => return None,
        };
    }
}

/// Names that are no text, and those with line ends, no shell could take.
fn line(candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str().filter(|value| !value.contains(['\n', '\t']))?;
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.lines().next().unwrap_or_default();
    Some(if help.is_empty() { format!("{value}\n") } else { format!("{value}\t{help}\n") })
}

/// The command line as it stands.
#[derive(Clone)]
struct Asked {
    words: Vec<OsString>,
}

impl Asked {
    /// The command, whose arguments called RUN, TASK and TARGET know what is recorded.
    fn teach(&self, command: Command) -> Command {
        command.mut_subcommands(|question| question.mut_args(|arg| self.teach_arg(arg)))
    }

    fn teach_arg(&self, arg: Arg) -> Arg {
        let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let asked = self.clone();
        let words = |words: &'static [&'static str]| {
            ArgValueCompleter::new(move |word: &OsStr| {
                let known = words.iter().map(CompletionCandidate::new);
                known.filter(|known| begins(known, word)).collect()
            })
        };
        if arg.get_id() == "attempt" {
            return arg.add(words(&["last"]));
        }
        if arg.get_id() == "rerun_on" {
            return arg.add(ArgValueCompleter::new(|word: &OsStr| listed(&COMPARED, word)));
        }
        match name.as_deref() {
            Some("GATE") => arg.add(words(&GATES)),
            Some("WORKLOAD") => arg.add(ArgValueCompleter::new(move |word: &OsStr| {
                let made = WORKLOADS.iter().map(CompletionCandidate::new);
                let mut known: Vec<_> = made.filter(|made| begins(made, word)).collect();
                known.extend(asked.runs(word));
                known
            })),
            // Those of clap's type for paths are known as such, these are text to it.
            Some("FILE" | "FILE,..." | "CONF" | "INVITATION") => {
                arg.add(ArgValueCompleter::new(|word: &OsStr| files(word)))
            }
            Some("DIR") => arg.add(ArgValueCompleter::new(|word: &OsStr| {
                PathCompleter::dir().current_dir(here()).complete(word)
            })),
            Some("RUN" | "RUN2") => {
                arg.add(ArgValueCompleter::new(move |word: &OsStr| asked.runs(word)))
            }
            Some("TASK" | "TARGET") => {
                arg.add(ArgValueCompleter::new(move |word: &OsStr| asked.tasks(word)))
            }
            _ => arg,
        }
    }

    fn runs(&self, word: &OsStr) -> Vec<CompletionCandidate> {
        let folders = self.base().records().ok().and_then(|records| records.folders().ok());
        let last = CompletionCandidate::new("last").help(Some("the newest run".into()));
        let runs = folders.unwrap_or_default().into_iter().map(|folder| {
            let words = folder.first().map(|started| command_line(&started.command_line));
            CompletionCandidate::new(folder.run).help(words.map(Into::into))
        });
        let runs = std::iter::once(last).chain(runs).filter(|run| begins(run, word));
        runs.chain(named_files(word)).collect()
    }

    /// The tasks of the run that the command line names, else of the last.
    fn tasks(&self, word: &OsStr) -> Vec<CompletionCandidate> {
        let name = self.value_of(&["--run"]).and_then(OsStr::to_str).unwrap_or("last");
        let Ok(folder) = self.base().run_folder(name) else { return Vec::new() };
        let bytes = fs::metadata(&folder.journal).map_or(u64::MAX, |metadata| metadata.len());
        if bytes > JOURNAL_BYTES_MAX {
            return Vec::new();
        }
        let Ok(run) = folder.read_without_commands() else { return Vec::new() };
        let tasks = run
            .tasks
            .iter()
            .flatten()
            .map(|task| CompletionCandidate::new(task.defined.name.as_os_str().to_owned()));
        tasks.filter(|task| begins(task, word)).collect()
    }

    fn base(&self) -> BaseFolder {
        BaseFolder::new(self.value_of(&["-C", "--directory"]).map(PathBuf::from))
    }

    /// The word after one of the options, or after its `=`.
    fn value_of(&self, options: &[&str]) -> Option<&OsStr> {
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else { continue };
            if options.contains(&text) {
                return words.next().map(OsString::as_os_str);
            }
            let given = options.iter().find_map(|option| {
                text.strip_prefix(option).and_then(|rest| rest.strip_prefix('='))
            });
            if let Some(value) = given {
                return Some(OsStr::new(value));
            }
        }
        None
    }
}

/// Where relative names start.
fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

/// Files and folders whose names begin so.
fn files(word: &OsStr) -> Vec<CompletionCandidate> {
    PathCompleter::any().current_dir(here()).complete(word)
}

/// The same where the word may be another one, too: once it has begun.
fn named_files(word: &OsStr) -> Vec<CompletionCandidate> {
    if word.is_empty() { Vec::new() } else { files(word) }
}

/// The words that may stand after the last comma and do not stand before it, each with all before it.
fn listed(known: &[&str], word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let (before, begun) = word.split_at(word.rfind(',').map_or(0, |comma| comma + 1));
    let fits =
        |known: &&&str| known.starts_with(begun) && !before.split(',').any(|word| word == **known);
    known
        .iter()
        .filter(fits)
        .map(|known| CompletionCandidate::new(format!("{before}{known}")))
        .collect()
}

fn begins(candidate: &CompletionCandidate, word: &OsStr) -> bool {
    candidate.get_value().as_encoded_bytes().starts_with(word.as_encoded_bytes())
}
