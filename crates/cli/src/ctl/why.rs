//! `rakudactl why`: why a target would run now, or would not. Asks `rakuda --plan=json`, which goes
//! through all decisions without running anything, and picks what leads to the target. It decides
//! nothing itself.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::Context as _;
use clap::Args;
use rakuda_proto::Text;
use rakuda_proto::journal::{Reason, ReasonKind};
use rakuda_record::printable::{printable, shown};
use rakuda_record::words::reason_in_words;
use serde::{Deserialize, Serialize};

use super::base_folder::{BaseFolder, task_name};
use super::which_run::RunArgument;
use super::{Status, recorded_why};

/// Maximum number of tasks in an answer when one reason leads to the next.
const LINES_MAX: usize = 20;

/// Says why a target would run now, or would not.
#[derive(Args)]
#[command(
    after_help = "Example: with the options of a run after `--`\n    rakudactl why app -- -f build.rake DEBUG=1\n\n\
    The front is `rakuda` beside this program, or what RAKUDA_FRONT names, or the one in PATH."
)]
pub struct Why {
    /// The target or task.
    #[arg(value_name = "TARGET")]
    target: OsString,

    /// Read this Rakefile.
    #[arg(short = 'f', long = "rakefile", value_name = "FILE", conflicts_with = "argument")]
    rakefile: Option<OsString>,

    /// Say why it ran in the recorded run RUN, or why it did not, instead.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["rakefile", "rerun_on", "options"])]
    run: Option<String>,

    #[command(flatten)]
    run_argument: RunArgument,

    /// Compare with earlier runs, too: command, inputs, content, env.
    #[arg(long, value_name = "WHAT", conflicts_with = "argument")]
    rerun_on: Option<OsString>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Further options and VARIABLE=VALUE for rakuda.
    #[arg(last = true, value_name = "OPTION", conflicts_with = "argument")]
    options: Vec<OsString>,
}

/// What `rakuda --plan=json` prints, as far as it is of use here.
#[derive(Deserialize)]
struct Plan {
    tasks: Vec<PlannedTask>,
}

#[derive(Deserialize)]
struct PlannedTask {
    target: Text,
    would_run: bool,
    action: bool,
    reasons: Vec<PlannedReason>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct PlannedReason {
    kind: ReasonKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    target: &'a Text,
    would_run: bool,
    reasons: &'a [PlannedReason],
}

impl Why {
    /// Prints the answer.
    pub fn answer(&self, base: &BaseFolder, out: &mut dyn Write) -> anyhow::Result<Status> {
        if let Some(run) = self.run_argument.or(self.run.as_deref()) {
            return recorded_why::answer(base, &task_name(&self.target), run, self.json, out);
        }
        let output = self.ask(base.directory())?;
        if !output.status.success() {
            // It has said on stderr what is wrong.
            return Ok(Status::Failed);
        }
        let plan: Plan = serde_json::from_slice(&output.stdout)
            .context("understand what `rakuda --plan=json` printed")?;
        let Some(task) = plan.find(self.target.as_bytes()) else {
            anyhow::bail!("{} is not in the plan", self.target.to_string_lossy());
        };
        if self.json {
            let Some(PlannedTask { target, would_run, reasons, .. }) = plan.tasks.get(task) else {
                return Ok(Status::Failed);
            };
            let answer = Answer { version: 1, target, would_run: *would_run, reasons };
            serde_json::to_writer(&mut *out, &answer)?;
            writeln!(out)?;
        } else {
            out.write_all(plan.explain(task).as_bytes())?;
        }
        Ok(Status::Good)
    }

    fn ask(&self, directory: &Path) -> anyhow::Result<Output> {
        let front = front();
        #[expect(
            clippy::disallowed_methods,
            reason = "this asks a question of its own; it is no command of a run"
        )]
        let mut command = std::process::Command::new(&front);
        command.args(["--plan=json", "-q"]).current_dir(directory).stdin(Stdio::null());
        command.stderr(Stdio::inherit());
        if let Some(rakefile) = &self.rakefile {
            command.arg("-f").arg(rakefile);
        }
        if let Some(what) = &self.rerun_on {
            command.arg("--rerun-on").arg(what);
        }
        command.args(&self.options).arg("--").arg(&self.target);
        command.output().with_context(|| format!("start {}", front.display()))
    }
}

/// `RAKUDA_FRONT`, or `rakuda` beside this program, or the one in PATH.
pub fn front() -> PathBuf {
    if let Some(named) = std::env::var_os("RAKUDA_FRONT").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let own = std::env::current_exe().unwrap_or_default();
    let folders = own.ancestors().skip(1).take(4);
    let near = folders.flat_map(|folder| [folder.join("rakuda"), folder.join("bin/rakuda")]);
    near.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("rakuda"))
}

impl Plan {
    /// The position of the target that was asked for: what has its name, else what the plan leads to.
    fn find(&self, target: &[u8]) -> Option<usize> {
        let name = target.split(|byte| *byte == b'[').next().unwrap_or(target);
        let called = |name: &[u8]| self.tasks.iter().rposition(|task| task.target.0 == name);
        called(target).or_else(|| called(name)).or_else(|| self.tasks.len().checked_sub(1))
    }

    /// The task, and below it those that it would run because of, down to what has no such reason.
    fn explain(&self, task: usize) -> String {
        let mut places: HashMap<&OsStr, usize> = HashMap::new();
        for (place, task) in self.tasks.iter().enumerate() {
            places.insert(task.target.as_os_str(), place);
        }
        let mut text = String::new();
        let (mut lines, mut left_out) = (0, 0);
        let mut seen = BTreeSet::from([task]);
        let mut stack = vec![(task, 0)];
        while let Some((place, depth)) = stack.pop() {
            if lines == LINES_MAX {
                left_out += 1;
                continue;
            }
            lines += 1;
            let task = &self.tasks[place];
            // Deep chains stay within the screen.
            text.push_str(&"  ".repeat(depth.min(10)));
            text.push_str(&task.in_words());
            text.push('\n');
            let causes = task.reasons.iter().filter(|reason| reason.kind == ReasonKind::Runs);
            let causes: Vec<usize> = causes
                .filter_map(|reason| places.get(reason.path.as_ref()?.as_os_str()).copied())
                .filter(|cause| seen.insert(*cause))
                .collect();
            stack.extend(causes.into_iter().rev().map(|cause| (cause, depth + 1)));
        }
        if left_out > 0 {
            text.push_str("(and more, which are left out here; `rakuda -n` names them all)\n");
        }
        text
    }
}

impl PlannedTask {
    fn in_words(&self) -> String {
        let name = shown(&self.target);
        let reasons: Vec<String> = self.reasons.iter().map(PlannedReason::in_words).collect();
        let reasons = reasons.join("; ");
        match (self.would_run, self.action) {
            (true, _) => format!("{name} would run: {reasons}"),
            (false, true) => format!("{name} would not run: it is up to date"),
            (false, false) if self.reasons.is_empty() => {
                format!(
                    "{name} would not run: it has no action, and nothing that it needs would run"
                )
            }
            (false, false) => format!("{name} has no action of its own: {reasons}"),
        }
    }
}

impl PlannedReason {
    fn in_words(&self) -> String {
        #[expect(clippy::cast_possible_truncation, reason = "a difference of times, in ns")]
        let by_ns = self.by_s.map(|seconds| (seconds * 1e9) as i128);
        let text = reason_in_words(&Reason { kind: self.kind, path: self.path.clone(), by_ns });
        match &self.detail {
            Some(detail) => format!("{text} ({})", printable(detail.as_bytes())),
            None => text,
        }
    }
}
