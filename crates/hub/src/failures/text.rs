//! The lines at the end of a run that failed or was stopped. Pure: from a [`Summary`] to text.

use std::fmt::Write as _;

use rakuda_record::printable::{cut_middle, printable};

use crate::failures::state::Cause;
use crate::progress::duration::duration;

/// Maximum number of failed tasks that are shown one by one.
pub(crate) const TASKS_MAX: usize = 10;
/// Maximum columns of a line of output or of a command.
const COLUMNS_MAX: usize = 400;

/// Before and after the name of what failed, where colours are allowed.
const RED: &str = "\x1b[31;1m";
const PLAIN: &str = "\x1b[0m";

/// The name of what failed.
pub(crate) fn red(name: &str, colour: bool) -> String {
    if colour { format!("{RED}{name}{PLAIN}") } else { name.to_owned() }
}

/// One failed task.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedTask {
    pub name: String,
    pub node: String,
    pub attempt: u32,
    /// Attempts that it could have.
    pub attempts: u32,
    pub took_ns: u64,
    pub cause: Option<Cause>,
    /// What may be behind it, and what to do.
    pub hint: Option<String>,
    /// The last lines that it printed; `None` if its output was not read.
    pub output: Option<Vec<String>>,
    /// What its commands ran in, with `needs env:`.
    pub environment: Option<String>,
    /// What was done with its target, as `renamed to x._fail_`.
    pub target: Option<String>,
    /// The first of the tasks that were not run because of it.
    pub not_run: Vec<String>,
    pub not_run_count: usize,
}

/// A run that did not end well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    pub stopped: bool,
    /// Tasks that failed by themselves, the first [`TASKS_MAX`].
    pub tasks: Vec<FailedTask>,
    pub failed: usize,
    /// Number of tasks that were aborted because of others.
    pub aborted: usize,
    /// Number of tasks that depend on a failed one.
    pub not_run: usize,
    /// Number of tasks that would have run, and depend on none.
    pub not_started: usize,
    pub done: usize,
    /// The file with all output of the run, as the user may name it; `None` if nothing was recorded.
    pub log: Option<String>,
    /// The line that starts it again.
    pub resume: String,
    /// Whether that runs everything again, also what is done.
    pub again: bool,
    /// Whether names of what failed are red.
    pub colour: bool,
}

/// How a task has failed, in half a line: `after 1.2 s on host1: exit status 3: ./make b`.
pub(crate) fn ending(took_ns: u64, node: Option<&str>, cause: Option<&Cause>) -> String {
    let mut text = format!("after {}", duration(took_ns));
    if let Some(node) = node {
        let _ = write!(text, " on {node}");
    }
    if let Some(cause) = cause {
        let how = match cause {
            Cause::Command { line, .. } => format!("{}: {line}", how_ended(cause)),
            Cause::Exception(line) => one_line(line),
            Cause::Lost(nodes) => format!("it {}", super::blame(nodes)),
        };
        let _ = write!(text, ": {}", cut_middle(&how, COLUMNS_MAX));
    }
    text
}

/// Of a command.
fn how_ended(cause: &Cause) -> String {
    match cause {
        Cause::Command { error: Some(error), .. }
            if error.starts_with(rakuda_proto::agent::BOUND_EXCEEDED.as_bytes()) =>
        {
            printable(error)
        }
        Cause::Command { error: Some(error), .. } if !error.starts_with(b"find the command") => {
            format!("could not be started: {}", printable(error))
        }
        Cause::Command { status, .. } => super::status::describe_status(*status),
        Cause::Exception(_) | Cause::Lost(_) => String::new(),
    }
}

fn one_line(line: &[u8]) -> String {
    let line: Vec<u8> = line.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    printable(&line)
}

impl Summary {
    /// The block, line feeds included.
    pub fn text(&self) -> String {
        let mut text = self.headline();
        for task in &self.tasks {
            self.describe(task, &mut text);
        }
        let more = self.failed.saturating_sub(self.tasks.len());
        if more > 0 {
            let _ = writeln!(text, "and {more} more failed: rakudactl report");
        }
        let what = if self.again { "run it again" } else { "resume" };
        let _ = writeln!(text, "to {what}: {}", self.resume);
        text
    }

    fn headline(&self) -> String {
        if self.stopped && self.failed == 0 {
            let total = self.done + self.aborted + self.not_run + self.not_started;
            return format!("== rakuda: stopped: {}/{total} done ==\n", self.done);
        }
        let mut parts = Vec::new();
        if self.stopped {
            parts.push("stopped".to_owned());
        }
        parts.push(format!("{} failed", self.failed));
        if self.aborted > 0 {
            parts.push(format!("{} aborted", self.aborted));
        }
        if self.not_run > 0 {
            let because = if self.failed == 1 { "it" } else { "them" };
            parts.push(format!("{} not run because of {because}", self.not_run));
        }
        if self.not_started > 0 {
            parts.push(format!("{} not started", self.not_started));
        }
        parts.push(format!("{} done", self.done));
        format!("== rakuda: {} ==\n", parts.join(", "))
    }

    fn describe(&self, task: &FailedTask, text: &mut String) {
        let _ = write!(text, "{}: failed", red(&task.name, self.colour));
        if task.attempt > 0 {
            let _ = write!(text, " after {} on {}", duration(task.took_ns), task.node);
        }
        // Attempts that were lost use up none of those that it could have.
        if task.attempts > 1 && !matches!(task.cause, Some(Cause::Lost(_))) {
            let _ = write!(text, " (attempt {} of {})", task.attempt, task.attempts);
        }
        text.push('\n');
        match &task.cause {
            Some(cause @ Cause::Command { line, .. }) => {
                let _ = writeln!(text, "  command: {}", cut_middle(line, COLUMNS_MAX));
                let _ = writeln!(text, "  {}", how_ended(cause));
            }
            Some(Cause::Exception(line)) => {
                let _ = writeln!(text, "  error: {}", cut_middle(&printable(line), COLUMNS_MAX));
            }
            Some(Cause::Lost(nodes)) => {
                let _ = writeln!(text, "  it {}", super::blame(nodes));
            }
            None => {}
        }
        if let Some(hint) = &task.hint {
            let _ = writeln!(text, "  {hint}");
        }
        if let Some(environment) = &task.environment {
            let _ = writeln!(text, "  in the environment: {environment}");
        }
        self.describe_output(task, text);
        if let Some(target) = &task.target {
            let _ = writeln!(text, "  its target was {target}");
        }
        if task.not_run_count > 0 {
            let mut names = task.not_run.join(", ");
            let more = task.not_run_count - task.not_run.len();
            if more > 0 {
                let _ = write!(names, " and {more} more");
            }
            let _ = writeln!(text, "  not run because of it: {names}");
        }
    }

    fn describe_output(&self, task: &FailedTask, text: &mut String) {
        if task.attempt == 0 {
            return;
        }
        match &task.output {
            None => text.push_str(
                "  its output was printed as it came, and is not kept (--output line keeps it)\n",
            ),
            Some(lines) => {
                if !lines.is_empty() {
                    text.push_str("  the end of its output:\n");
                }
                for line in lines {
                    let _ = writeln!(text, "    {}", cut_middle(line, COLUMNS_MAX));
                }
                if let Some(log) = &self.log
                    && !lines.is_empty()
                {
                    let name = super::resume::quoted(&task.name);
                    let _ = writeln!(text, "  all of it: rakudactl log {name} ({log})");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_task() -> FailedTask {
        FailedTask {
            name: "out/b.dat".into(),
            node: "n1".into(),
            attempt: 2,
            attempts: 3,
            took_ns: 1_240_000_000,
            cause: Some(Cause::Command {
                line: "./make b 'two words'".into(),
                status: 9,
                error: None,
            }),
            hint: None,
            output: Some(vec!["one".into(), "two".into()]),
            environment: Some("module gcc/12".into()),
            target: Some("renamed to out/b.dat._fail_".into()),
            not_run: vec!["x".into(), "y".into()],
            not_run_count: 4,
        }
    }

    #[test]
    fn a_failure_is_told_with_all_that_one_needs_next() {
        let summary = Summary {
            tasks: vec![failed_task()],
            failed: 1,
            not_run: 4,
            not_started: 7,
            done: 12,
            log: Some(".rakuda/runs/R/output.log".into()),
            resume: "rakuda -j4".into(),
            ..Summary::default()
        };
        let expected = "\
== rakuda: 1 failed, 4 not run because of it, 7 not started, 12 done ==
out/b.dat: failed after 1.2 s on n1 (attempt 2 of 3)
  command: ./make b 'two words'
  signal 9 (SIGKILL)
  in the environment: module gcc/12
  the end of its output:
    one
    two
  all of it: rakudactl log out/b.dat (.rakuda/runs/R/output.log)
  its target was renamed to out/b.dat._fail_
  not run because of it: x, y and 2 more
to resume: rakuda -j4
";
        assert_eq!(summary.text(), expected);
    }

    #[test]
    fn names_are_red_where_colours_are_allowed_and_nothing_else_is() {
        let summary = Summary { tasks: vec![failed_task()], failed: 1, ..Summary::default() };
        let plain = summary.text();
        assert!(!plain.contains('\x1b'), "{plain:?}");
        let coloured = Summary { colour: true, ..summary }.text();
        assert!(
            coloured.contains("\n\x1b[31;1mout/b.dat\x1b[0m: failed after 1.2 s"),
            "{coloured:?}"
        );
        assert_eq!(coloured.replace(RED, "").replace(PLAIN, ""), plain);
        assert_eq!(coloured.matches('\x1b').count(), 2, "{coloured:?}");
    }

    #[test]
    fn a_task_that_took_nodes_down_is_told_with_their_names() {
        let cause = Some(Cause::Lost(["n1", "n2", "n3"].map(str::to_owned).to_vec()));
        let task = FailedTask { cause, environment: None, ..failed_task() };
        let text = Summary { tasks: vec![task], failed: 1, ..Summary::default() }.text();
        let expected = "\
out/b.dat: failed after 1.2 s on n1
  it was lost with 3 different nodes (n1, n2, n3) and is suspected of taking them down
  the end of its output:
";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn without_a_record_no_log_is_named_and_without_ears_no_output() {
        let quiet = FailedTask { output: None, target: None, not_run_count: 0, ..failed_task() };
        let summary = Summary { tasks: vec![quiet], failed: 1, ..Summary::default() };
        let text = summary.text();
        assert!(
            text.contains(
                "  its output was printed as it came, and is not kept (--output line keeps it)\n"
            ),
            "{text}"
        );
        assert!(!text.contains("rakudactl log"), "{text}");
    }

    #[test]
    fn a_run_that_was_stopped_is_told_in_two_lines() {
        let summary = Summary {
            stopped: true,
            aborted: 2,
            done: 5,
            not_started: 3,
            resume: "rakuda all".into(),
            ..Summary::default()
        };
        let expected = "== rakuda: stopped: 5/10 done ==\nto resume: rakuda all\n";
        assert_eq!(summary.text(), expected);
        let again = Summary { again: true, ..summary };
        assert_eq!(again.text(), expected.replace("resume", "run it again"));
    }

    #[test]
    fn a_failure_among_others_is_told_in_half_a_line() {
        let told = |cause: Cause| ending(1_240_000_000, None, Some(&cause));
        let line = "./make b ./test b".into();
        let command = Cause::Command { line, status: 3 << 8, error: None };
        assert_eq!(told(command), "after 1.2 s: exit status 3: ./make b ./test b");
        let boom = Cause::Exception(b"boom (Rakefile:3)".to_vec());
        assert_eq!(told(boom), "after 1.2 s: boom (Rakefile:3)");
        assert_eq!(ending(2_000_000, Some("host1"), None), "after 2 ms on host1");
    }

    #[test]
    fn many_failures_are_counted_and_not_all_told() {
        let summary = Summary { tasks: vec![failed_task()], failed: 5, ..Summary::default() };
        let text = summary.text();
        assert!(text.starts_with("== rakuda: 5 failed, 0 done ==\n"), "{text}");
        assert!(text.contains("and 4 more failed: rakudactl report\n"), "{text}");
    }

    #[test]
    fn an_exception_is_told_with_its_place() {
        let cause = Some(Cause::Exception(b"boom (Rakefile:3)".to_vec()));
        let task = FailedTask { cause, ..failed_task() };
        let summary = Summary { tasks: vec![task], failed: 1, ..Summary::default() };
        assert!(summary.text().contains("  error: boom (Rakefile:3)\n"), "{}", summary.text());
    }
}
