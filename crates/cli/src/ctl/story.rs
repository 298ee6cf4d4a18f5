//! `rakudactl story`: all that happened to a task, in order. crates/record knows what that was;
//! this puts it into lines, or JSON.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use rakuda_proto::journal::{NodeChosen, Outcome, RunOutcome, TargetFate, TaskKind, TaskOutcome};
use rakuda_proto::{Text, memory};
use rakuda_record::find::find_task;
use rakuda_record::folder::RunFolder;
use rakuda_record::printable::{printable, shown};
use rakuda_record::report::format;
use rakuda_record::story::{Happening, Story as Told, What, story};
use rakuda_record::words::{command_line, duration_in_words, env_remark, reason_in_words};

use super::base_folder::{BaseFolder, complain_of_damage, task_name, task_number};
use super::story_json::to_json;
use super::which_run::RunArgument;
use super::{Status, text};

/// Tells all that happened to a task, in order.
#[derive(Args)]
#[command(
    after_help = "Example: what happened to mosaic.fits in the last run, and in all runs\n    rakudactl story mosaic.fits\n    rakudactl story mosaic.fits --all-runs\n\n\
    The first column is seconds since the run began, the second the time of day (UTC)."
)]
pub struct Story {
    /// The name of the task.
    #[arg(value_name = "TASK")]
    task: OsString,

    /// The run.
    #[arg(long, value_name = "RUN", default_value = "last", conflicts_with = "all_runs")]
    run: String,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Every run that has the task, the oldest first.
    #[arg(long, conflicts_with = "argument")]
    all_runs: bool,

    /// Print JSON: an object, with --all-runs one a line for each run.
    #[arg(long)]
    json: bool,
}

impl Story {
    /// Prints it.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        let name = task_name(&self.task);
        if !self.all_runs {
            let folder = base.run_folder(self.run_argument.instead_of(&self.run))?;
            let mut run = folder.read_without_commands()?;
            complain_of_damage(&folder, &run);
            let number = task_number(&folder, &run, &name)?;
            self.tell(&folder, &mut run, number, out)?;
            return Ok(Status::Good);
        }
        let mut told = false;
        for folder in base.records()?.folders()?.iter().rev() {
            // A run that is removed meanwhile, or of another version, has no story to tell.
            let Ok(mut run) = folder.read_without_commands() else { continue };
            if let Some(number) = find_task(&run, &name) {
                if told && !self.json {
                    writeln!(out)?;
                }
                self.tell(folder, &mut run, number, out)?;
                told = true;
            }
        }
        if !told {
            anyhow::bail!("no run has a task {}", shown(&name));
        }
        Ok(Status::Good)
    }

    fn tell(
        &self,
        folder: &RunFolder,
        run: &mut rakuda_record::Run,
        number: u32,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        folder.add_commands_of(run, number)?;
        let told = story(run, number).expect("the number is of this run");
        if self.json {
            serde_json::to_writer(&mut *out, &to_json(&folder.run, run.started.time_ns, &told))?;
            writeln!(out)?;
            return Ok(());
        }
        print(folder, run.started.time_ns, &told, out)?;
        Ok(())
    }
}

fn print(
    folder: &RunFolder,
    start_ns: i64,
    story: &Told,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let kind = match story.kind {
        TaskKind::Plain => "task",
        TaskKind::File => "file",
        TaskKind::Directory => "directory",
        TaskKind::Asked => "task of a class of its own",
    };
    let fate = story.fate.word().replace('_', " ");
    writeln!(out, "{} in run {}: {fate}", shown(&story.task), folder.run)?;
    write!(out, "  {kind}")?;
    // Of what `directory` made the kind says it.
    if let Some(location) = story.location.as_ref().filter(|place| place.0 != kind.as_bytes()) {
        write!(out, ", defined at {}", shown(location))?;
    }
    writeln!(out)?;
    for (what, names) in
        [("prerequisites", &story.prerequisites), ("order-only", &story.order_only)]
    {
        if !names.is_empty() {
            writeln!(out, "  {what}: {}", text::some_of(names))?;
        }
    }
    let is_stop = |happening: &Happening| matches!(happening.what, What::StopRequested { .. });
    let stopped = story.happenings.iter().any(is_stop);
    for happening in &story.happenings {
        let since = text::since(start_ns, happening.time_ns);
        let time = text::time_of_day(happening.time_ns);
        for line in lines(&happening.what, stopped) {
            writeln!(out, "  {since:>10}  {time}  {line}")?;
        }
    }
    Ok(())
}

fn chosen_in_words(chosen: &NodeChosen) -> String {
    let value = |(name, value): (&String, &String)| match value.as_str() {
        "" => format!("{} undefined", printable(name.as_bytes())),
        value => format!("{} {}", printable(name.as_bytes()), printable(value.as_bytes())),
    };
    let values: Vec<String> = chosen.values.iter().map(value).collect();
    let part = |word: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        Some(format!("{word} {}", printable(text.as_bytes())))
    };
    let asked = [part("where", &chosen.condition), part("prefer", &chosen.prefer)];
    let asked: Vec<String> = asked.into_iter().flatten().collect();
    format!("  chosen: {} ({})", values.join(", "), asked.join(", "))
}

/// `stopped`: somebody asked the run to stop.
fn lines(what: &What, stopped: bool) -> Vec<String> {
    match what {
        What::Ready { after } => {
            vec![format!("{} was done: nothing was missing any more", shown(after))]
        }
        What::AttemptStarted { attempt, node, cores, reasons, after } => {
            let cores = text::count(*cores as usize, "core");
            let node = shown(node);
            let mut lines = vec![format!("attempt {attempt} began on {node} with {cores}")];
            // What the reasons say then, as that its target is missing, is what the attempt before has left behind.
            if let Some((before, outcome)) = after {
                lines.push(format!(
                    "  why: attempt {before} {}",
                    outcome_in_words(*outcome, stopped)
                ));
                return lines;
            }
            lines
                .extend(reasons.iter().map(|reason| format!("  why: {}", reason_in_words(reason))));
            lines
        }
        What::NodeChosen(chosen) => vec![chosen_in_words(chosen)],
        What::CommandStarted { words, directory, env, .. } => {
            let line = match words {
                Ok(words) => command_line(words),
                Err(line) => shown(line),
            };
            let place = directory.as_ref().map(|directory| format!("(in {}) ", shown(directory)));
            let remark = env_remark(env.as_deref());
            vec![format!("  $ {}{line}{remark}", place.unwrap_or_default())]
        }
        What::CommandEnded(ended) => {
            if let Some(error) = &ended.error {
                if error.0.starts_with(rakuda_proto::agent::BOUND_EXCEEDED.as_bytes()) {
                    return vec![format!("    {}", shown(error))];
                }
                return vec![format!("    could not be started: {}", shown(error))];
            }
            let ns = |ns: u64| duration_in_words(i64::try_from(ns).unwrap_or(i64::MAX));
            let memory = ended.rss_bytes().map(memory::measured);
            let memory = memory.map(|size| format!("memory {size}, ")).unwrap_or_default();
            vec![format!(
                "    {} after {}; CPU {}, {memory}read {}, wrote {}",
                text::wait_status(ended.status),
                ns(ended.wall_ns),
                ns((ended.user_us + ended.system_us).saturating_mul(1000)),
                format::bytes(ended.read_bytes),
                format::bytes(ended.write_bytes)
            )]
        }
        What::FileStaged { .. } => vec![file_staged(what)],
        What::AttemptEnded { .. } => vec![attempt_ended(what, stopped)],
        What::Settled { how, because } => vec![match how {
            TaskOutcome::Executed => "counts as executed: what it stands for was".to_owned(),
            TaskOutcome::NotNeeded => "was up to date".to_owned(),
            TaskOutcome::Failed => "failed".to_owned(),
            TaskOutcome::NotReached => "was not reached".to_owned(),
            TaskOutcome::Abandoned if because.is_empty() => {
                "was abandoned, as what runs together with it came to nothing".to_owned()
            }
            TaskOutcome::Abandoned => format!("was not run, because of {}", text::some_of(because)),
        }],
        What::DependentStarted { task } => vec![format!("then {} began", shown(task))],
        What::MoreDependents { count } => {
            vec![format!("then {count} more that need it began")]
        }
        What::NodeLost { node } => vec![format!("{} was lost", shown(node))],
        What::Blamed { nodes } => vec![format!(
            "failed: it was lost with {} different nodes ({}) and is suspected of taking them down",
            nodes.len(),
            nodes.iter().map(shown).collect::<Vec<_>>().join(", ")
        )],
        What::Reopened => {
            vec!["its file went with a lost node and is needed: to be made again".to_owned()]
        }
        What::InputLost => {
            vec![
                "its file went with a lost node, and nothing makes it: what needs it waits"
                    .to_owned(),
            ]
        }
        What::StopRequested { how } => vec![format!("the run was asked to stop ({how})")],
        What::RunEnded { how } => vec![match how {
            None => "so far".to_owned(),
            Some(RunOutcome::Recovered) => {
                "a later run found that this one had been cut off".to_owned()
            }
            Some(RunOutcome::Done | RunOutcome::Failed) => "the run ended".to_owned(),
            Some(RunOutcome::Stopped) => "the run was stopped".to_owned(),
        }],
    }
}

fn file_staged(what: &What) -> String {
    let What::FileStaged { file, secondary, from, to, bytes: sent, took_ns } = what else {
        return String::new();
    };
    let place = |name: &Option<Text>| name.as_ref().map_or("rakuda's machine".into(), shown);
    let (name, beside) = match file {
        Some(file) => (shown(file), "  "),
        None => ("its file".to_owned(), ""),
    };
    let with = match secondary {
        0 => String::new(),
        count => format!(", {} beside it", text::count(*count as usize, "file")),
    };
    let took = duration_in_words(i64::try_from(*took_ns).unwrap_or(i64::MAX));
    let (from, to, size) = (place(from), place(to), format::bytes(*sent));
    format!("{beside}{name} was copied from {from} to {to}{with}: {size} in {took}")
}

/// After its number.
fn outcome_in_words(outcome: Outcome, stopped: bool) -> &'static str {
    match outcome {
        Outcome::Done => "was done",
        Outcome::Failed => "failed",
        Outcome::Exited => "called exit",
        Outcome::Aborted if stopped => "was ended, as the run was to stop",
        Outcome::Aborted => "was ended because of others",
        Outcome::GivenBack => "was given back: it had been begun early",
        Outcome::Lost => "was lost with its node",
    }
}

fn attempt_ended(what: &What, stopped: bool) -> String {
    let What::AttemptEnded {
        attempt,
        outcome,
        message,
        retried,
        took_ns,
        bytes,
        target,
        secondary,
    } = what
    else {
        return String::new();
    };
    let took = duration_in_words(i64::try_from(*took_ns).unwrap_or(i64::MAX));
    let outcome = outcome_in_words(*outcome, stopped);
    let mut line = format!("attempt {attempt} {outcome} after {took}");
    if let Some(message) = message {
        line.extend([": ", &shown(message)]);
    }
    if let Some(target_bytes) = bytes {
        line.extend(["; its target has ", &format::bytes(*target_bytes)]);
    }
    if *secondary > 0 {
        line.extend([", with ", &text::count(*secondary as usize, "file"), " beside it"]);
    }
    line += match target {
        None => "",
        Some(TargetFate::Renamed) => "; its target was renamed (NAME._fail_)",
        Some(TargetFate::Deleted) => "; its target was deleted",
        Some(TargetFate::Left) => "; its target was left as it was",
        Some(TargetFate::Stuck) => "; its target could not be moved away",
    };
    if *retried {
        line += "; there will be another attempt";
    }
    line
}
