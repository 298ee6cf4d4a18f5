//! `rakudactl`: answers questions about runs. Here are its words, its exit statuses and how it
//! complains; each subcommand has a file. What a run *was* is found out in crates/record; these
//! files ask it, and print.

mod base_folder;
mod bench;
mod clean;
mod completion;
mod explain;
mod export;
mod feed;
mod follow;
mod join;
mod journal_tasks;
mod leftovers;
mod live;
mod live_nodes;
mod log;
mod manual;
mod nodes;
mod overview;
mod provide;
mod recorded_why;
mod report;
mod run_below;
mod runs;
mod seeds;
mod set_attr;
mod sim;
mod sim_sizes;
mod status;
mod story;
mod story_json;
mod sync;
mod text;
mod top;
mod ui;
mod waiting;
mod which_run;
mod why;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rakuda_record::folder::FolderError;

use base_folder::BaseFolder;

/// Exit status when something asked for failed or is not valid.
const FAILED: u8 = 1;
/// Exit status when the words make no sense.
const USAGE: u8 = 2;
/// Exit status when there is no such run.
const NO_RUN: u8 = 3;

/// How a subcommand ended that could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is as it should be.
    Good,
    /// The answer is no: not valid, not found.
    Failed,
}

/// The answer could not be given because of the words of the command line; ends with status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

#[derive(Parser)]
#[command(
    name = "rakudactl",
    bin_name = "rakudactl",
    version = crate::version::long(),
    about = "Answers questions about the runs of rakuda: what happened, why, and how long it took.",
    after_help = "RUN is the name of a run as `rakudactl runs` prints it, a beginning of it that no other run has, `last` (the \
                  default), or the path of a run's folder or journal.\n\n\
                  Exit status: 0 good, 1 failed or not valid, 2 usage, 3 no such run.",
    infer_subcommands = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Ctl {
    /// Look for runs from the folder DIR, and above it, instead of the current one.
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    directory: Option<PathBuf>,

    #[command(subcommand)]
    question: CtlQuestion,
}

/// The subcommands, in the order of the manual page; `--help` has them in groups ([`overview`]).
#[derive(Subcommand)]
enum CtlQuestion {
    Runs(runs::Runs),
    Story(story::Story),
    Log(log::Log),
    Why(why::Why),
    Status(status::Status),
    Top(top::Top),
    Ui(ui::Ui),
    Nodes(nodes::Nodes),
    SetAttr(set_attr::SetAttr),
    Provide(provide::Provide),
    Explain(explain::Explain),
    Join(join::Join),
    Report(report::Report),
    Export(export::Export),
    Sim(sim::Sim),
    Bench(bench::Bench),
    Sync(sync::Sync),
    Clean(clean::Clean),
}

impl CtlQuestion {
    fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        match self {
            Self::Runs(runs) => runs.answer(base, out),
            Self::Story(story) => story.answer(base, out),
            Self::Log(log) => log.answer(base, out),
            Self::Why(why) => why.answer(base, out),
            Self::Status(status) => status.answer(base, out),
            Self::Top(top) => top.answer(base, out),
            Self::Ui(ui) => ui.answer(base, out),
            Self::Nodes(nodes) => nodes.answer(base, out),
            Self::SetAttr(set_attr) => set_attr.answer(base, out),
            Self::Provide(provide) => provide.answer(base, out),
            Self::Explain(explain) => explain.answer(base, out),
            Self::Join(join) => join.answer(base, out),
            Self::Report(report) => report.answer(base, out),
            Self::Export(export) => export.answer(base, out),
            Self::Sync(sync) => sync.answer(base, out),
            Self::Sim(sim) => sim.answer(base, out),
            Self::Bench(bench) => bench.answer(base),
            Self::Clean(clean) => clean.answer(base, out),
        }
    }
}

/// Does what the words say; they begin with the program's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|word| word == completion::WORD) {
        return completion::run(Ctl::command(), &words[2..]);
    }
    let matches = overview::grouped(Ctl::command()).try_get_matches_from(&words);
    let ctl = match matches.and_then(|matches| Ctl::from_arg_matches(&matches)) {
        Ok(ctl) => ctl,
        Err(error) => return explain_usage(&error, &words),
    };
    let base = BaseFolder::new(ctl.directory);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let answer = ctl.question.answer(&base, &mut out);
    let answer = answer.and_then(|status| Ok(out.flush().map(|()| status)?));
    // What could not be flushed because nobody reads it is not worth a second try.
    let _ = out.into_parts();
    match answer {
        Ok(Status::Good) => ExitCode::SUCCESS,
        Ok(Status::Failed) => ExitCode::from(FAILED),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            crate::complain(&format!("rakudactl: {}\n", crate::failure::of_question(&error)));
            ExitCode::from(status_of(&error))
        }
    }
}

/// The manual page rakudactl(1).
pub fn manual() -> ExitCode {
    match manual::write(Ctl::command(), &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Help and version are no errors; usage errors are one line.
fn explain_usage(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let text = error.to_string();
    if !error.use_stderr() {
        return crate::print(&text);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        crate::complain(&text);
        return ExitCode::from(USAGE);
    }
    let line = in_words_of_people(&one_line(&text));
    crate::complain(&format!("rakudactl: {line}; `{} --help` explains\n", command_of(words)));
    ExitCode::from(USAGE)
}

/// The program with the first word that is one of its commands: clap does not tell of each error what it is of.
fn command_of(words: &[OsString]) -> String {
    let all = Ctl::command();
    let known = |word: &OsString| Some(all.find_subcommand(word)?.get_name().to_owned());
    let command = words.iter().skip(1).find_map(known);
    command.map_or_else(|| "rakudactl".to_owned(), |name| format!("rakudactl {name}"))
}

/// Replaces the words of programmers for what is no number, or too large.
fn in_words_of_people(line: &str) -> String {
    let line = line.replace("invalid digit found in string", "expected a whole number");
    let Some((before, range)) = line.split_once(" is not in ") else { return line };
    let (Some((from, to)), Some((before, _))) = (range.split_once("..="), before.rsplit_once(": "))
    else {
        return line;
    };
    format!("{before}: expected a whole number from {from} to {to}")
}

/// What clap says, without the usage after it.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // What begins with a hyphen is meant as an option: that it may be a value, too, would only mislead.
    let lines: Vec<&str> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.starts_with("tip: to pass"))
        .collect();
    let line = lines.join("; ").replace(":; ", ": ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

fn status_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<UsageError>().is_some() {
        return USAGE;
    }
    if error.downcast_ref::<live::NoLiveRun>().is_some() {
        return NO_RUN;
    }
    match error.downcast_ref::<FolderError>() {
        Some(FolderError::Ambiguous { .. }) => USAGE,
        Some(
            FolderError::NoRecords(_) | FolderError::NoRuns(_) | FolderError::NoSuchRun { .. },
        ) => NO_RUN,
        Some(
            FolderError::Io { .. }
            | FolderError::Read { .. }
            | FolderError::NoStart(_)
            | FolderError::Empty(_),
        )
        | None => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_are_one_line() {
        let error = Ctl::try_parse_from(["rakudactl", "story"]).err().unwrap();
        let expected = "the following required arguments were not provided: <TASK>";
        assert_eq!(one_line(&error.to_string()), expected);
    }

    #[test]
    fn an_option_that_is_none_is_not_said_to_be_a_value() {
        let error = Ctl::try_parse_from(["rakudactl", "report", "--rnu=last"]).err().unwrap();
        let line = one_line(&error.to_string());
        assert!(
            line.starts_with("unexpected argument '--rnu' found") && !line.contains("as a value"),
            "{line}"
        );
        let error = Ctl::try_parse_from(["rakudactl", "report", "--txet"]).err().unwrap();
        let line = one_line(&error.to_string());
        assert!(line.contains("'--text'"), "what it may have been meant for: {line}");
    }

    #[test]
    fn usage_errors_name_the_help_that_explains_and_speak_of_numbers_plainly() {
        let said = |words: &[&str]| {
            let words: Vec<OsString> =
                ["rakudactl"].iter().chain(words).map(OsString::from).collect();
            let text = Ctl::try_parse_from(&words).err().unwrap().to_string();
            (in_words_of_people(&one_line(&text)), command_of(&words))
        };
        let told = |line: &str, command: &str| (line.to_owned(), command.to_owned());
        assert_eq!(
            said(&["runs", "-n", "x"]),
            told("invalid value 'x' for '--number <N>': expected a whole number", "rakudactl runs")
        );
        assert_eq!(
            said(&["sim", "last", "--nodes", "0"]),
            told(
                "invalid value '0' for '--nodes <N>': expected a whole number from 1 to 100000",
                "rakudactl sim"
            )
        );
        assert_eq!(said(&["set-attr", "n"]).1, "rakudactl set-attr");
        assert_eq!(said(&["nosuch"]).1, "rakudactl");
    }

    /// Those of `set-attr`, `join` and `sim` are other words.
    #[test]
    fn a_run_is_an_argument_and_an_option_but_not_both() {
        let questions: [(&[&str], &str); 10] = [
            (&["story", "a"], "--all-runs"),
            (&["log", "a"], "--run=b"),
            (&["why", "a"], "--rakefile=R"),
            (&["status"], "--run=b"),
            (&["top"], "--run=b"),
            (&["nodes"], "--service=http://a"),
            (&["explain", "a"], "--run=b"),
            (&["ui"], "--run=b"),
            (&["report"], "--run=b"),
            (&["export", "dot"], "--run=b"),
        ];
        for (words, other) in questions {
            let parsed =
                |more: &[&str]| Ctl::try_parse_from([&["rakudactl"], words, more].concat()).is_ok();
            assert!(
                parsed(&["last"]) && parsed(&["--run", "last"]) && parsed(&["--run=last"]),
                "{words:?}"
            );
            assert!(!parsed(&["last", "--run", "last"]) && !parsed(&["last", "more"]), "{words:?}");
            assert!(!parsed(&["last", other]), "{words:?} {other}");
        }
    }
}
