//! JUnit's XML, as continuous integration shows it: a test case for each task that was attempted or was to be.
//!
//! There is no one schema; what is written is what GitLab, Jenkins and GitHub's actions read:
//! names, seconds, `failure`, `error` and `skipped`. Output of commands comes from outside, as
//! tails by task.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use rakuda_proto::journal::{Outcome, RunOutcome, TaskOutcome};

use super::names::iso_time;
use super::workflow::{Workflow, attempts, failure, outcome};
use crate::report::failures::{line, line_with_env};
use crate::summary::task_rows::telling_command;
use crate::{Attempt, Run, Task};

/// How a message begins of a command that did not end well; status or signal follow, and the command in brackets.
const COMMAND_FAILED: &str = "Command failed with ";

/// Of a run that failed without a task that did: the journal does not have the error.
const FAILED_OUTSIDE: &str =
    "the run ended with an error outside of its tasks, which rakuda has printed";

/// How a test case ended.
enum Verdict {
    Good,
    /// The element that says it, and why.
    Bad(&'static str, String),
}

/// One task.
struct Case<'a> {
    task: &'a Task,
    /// Run time of the last attempt that counts.
    took_ns: u64,
    verdict: Verdict,
}

/// Numbers of the tasks whose last output is worth reading, ascending.
pub fn failed(run: &Run) -> Vec<u32> {
    let failed = |case: &Case| {
        matches!(case.verdict, Verdict::Bad("failure" | "error", _))
            .then_some(case.task.defined.task)
    };
    let mut failed: Vec<u32> = cases(run).iter().filter_map(failed).collect();
    failed.sort_unstable();
    failed
}

/// Tasks that failed or were cut off, and why.
pub(super) fn failures(run: &Run) -> Vec<(&Task, String)> {
    let mut found = Vec::new();
    for case in cases(run) {
        if let Verdict::Bad("failure" | "error", why) = case.verdict {
            found.push((case.task, why));
        }
    }
    found
}

/// Writes a run. `tails` has the last lines that tasks have printed, by number.
///
/// # Errors
/// When writing fails.
pub fn write(run: &Run, tails: &BTreeMap<u32, String>, out: &mut dyn Write) -> io::Result<()> {
    let cases = cases(run);
    let count = |element: &str| {
        let bad = |case: &&Case| matches!(&case.verdict, Verdict::Bad(name, _) if *name == element);
        cases.iter().filter(bad).count()
    };
    // Readers of the file take a run without failed cases for a good one.
    let failed_outside = run.ended.as_ref().is_some_and(|ended| ended.how == RunOutcome::Failed)
        && count("failure") + count("error") == 0;
    let counts = format!(
        r#"tests="{}" failures="{}" errors="{}" skipped="{}" time="{}""#,
        cases.len() + usize::from(failed_outside),
        count("failure"),
        count("error") + usize::from(failed_outside),
        count("skipped"),
        seconds(u64::try_from(run.last_ns - run.started.time_ns).unwrap_or(0)),
    );
    let name = attribute(&run.started.run);
    let timestamp = iso_time(run.started.time_ns);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rakuda\" {counts}>\n  \
         <testsuite name=\"{name}\" timestamp=\"{timestamp}\" {counts}>\n"
    );
    for case in &cases {
        write_case(run, case, tails, &mut text);
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    if failed_outside {
        let place = attribute(&run.started.rakefile.to_display());
        writeln!(
            text,
            "    <testcase name=\"rakuda\" classname=\"{place}\" time=\"0.000\">\n      \
             <error message=\"{FAILED_OUTSIDE}\"/>\n    </testcase>"
        )
        .expect("writing to a string succeeds");
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    out.write_all(text.as_bytes())
}

fn write_case(run: &Run, case: &Case, tails: &BTreeMap<u32, String>, text: &mut String) {
    let defined = &case.task.defined;
    let class = run.location(case.task).map_or_else(String::new, |place| place.to_display());
    let class = if class.is_empty() { run.started.rakefile.to_display() } else { class };
    let head = format!(
        r#"    <testcase name="{}" classname="{}" time="{}""#,
        attribute(&defined.name.to_display()),
        attribute(&class),
        seconds(case.took_ns)
    );
    text.push_str(&head);
    let Verdict::Bad(element, why) = &case.verdict else {
        text.push_str("/>\n");
        return;
    };
    text.push_str(">\n");
    let last = attempts(case.task).next_back();
    if let Some(attempt) = last {
        let node = attribute(&run.node_name(attempt.started.node).to_display());
        let number = attempt.started.attempt;
        write!(
            text,
            "      <properties>\n        <property name=\"node\" value=\"{node}\"/>\n        \
             <property name=\"attempt\" value=\"{number}\"/>\n      </properties>\n"
        )
        .expect("writing to a string succeeds");
    }
    let command = last.filter(|_| *element != "skipped");
    let command = command.and_then(|attempt| telling_command(run, attempt)).map(line_with_env);
    let command = command.map(|line| format!("command: {line}"));
    let tail = tails.get(&defined.task).map(String::as_str);
    let body: Vec<&str> = command.as_deref().into_iter().chain(tail).collect();
    let why = attribute(why);
    let end = if body.is_empty() {
        "/>\n".to_owned()
    } else {
        format!(">{}</{element}>\n", content(&body.join("\n")))
    };
    writeln!(text, "      <{element} message=\"{why}\"{end}    </testcase>")
        .expect("writing to a string succeeds");
}

/// Rake's message cuts the command after some 40 letters: here it is whole, with why it could not be started.
fn whole(run: &Run, attempt: &Attempt, why: String) -> String {
    let Some(command) = telling_command(run, attempt) else { return why };
    let Some((status, _)) = why.split_once(": [").filter(|_| why.starts_with(COMMAND_FAILED))
    else {
        return why;
    };
    let ended = command.ended.as_ref();
    let error = ended.and_then(|ended| ended.error.as_ref()).map(rakuda_proto::Text::to_display);
    let error = error.map_or_else(String::new, |error| format!("{error}: "));
    format!("{status}: {error}{}", line(command))
}

/// Those that ran or were to run, parents before children.
fn cases(run: &Run) -> Vec<Case<'_>> {
    let tasks = Workflow::of(run).steps.into_iter().map(|step| step.task as usize);
    tasks.filter_map(|task| run.tasks[task].as_deref()).filter_map(|task| case(run, task)).collect()
}

/// `None`: a group, which is no case.
fn case<'a>(run: &Run, task: &'a Task) -> Option<Case<'a>> {
    let Some(last) = attempts(task).next_back() else {
        let settled = task.settled.as_ref().filter(|_| task.defined.action)?;
        let verdict = match settled.how {
            TaskOutcome::Failed => {
                Verdict::Bad("failure", "its prerequisites could not be made".into())
            }
            TaskOutcome::Abandoned => Verdict::Bad("skipped", because(run, &settled.because)),
            TaskOutcome::NotReached => {
                Verdict::Bad("skipped", "the run ended before its turn".into())
            }
            TaskOutcome::Executed | TaskOutcome::NotNeeded => return None,
        };
        return Some(Case { task, took_ns: 0, verdict });
    };
    let element = match outcome(last) {
        Some(Outcome::Failed | Outcome::Exited) => "failure",
        Some(Outcome::Aborted) => "skipped",
        Some(Outcome::Lost) | None => "error",
        Some(Outcome::Done | Outcome::GivenBack) => "",
    };
    let verdict = match failure(run, last) {
        Some(why) => {
            let made = attempts(task).count();
            let after = if made > 1 { format!(" (after {made} attempts)") } else { String::new() };
            Verdict::Bad(element, format!("{}{after}", whole(run, last, why)))
        }
        None => Verdict::Good,
    };
    Some(Case { task, took_ns: last.run_ns(run), verdict })
}

fn because(run: &Run, tasks: &[u32]) -> String {
    if tasks.is_empty() {
        return "abandoned, as what runs together with it came to nothing".to_owned();
    }
    let names: Vec<String> = tasks.iter().map(|task| run.task_name(*task).to_display()).collect();
    format!("not run because of {}", names.join(", "))
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

fn attribute(text: &str) -> String {
    content(text).replace('"', "&quot;").replace('\n', "&#10;").replace('\t', "&#9;")
}

/// XML has no form for most control characters: `U+FFFD` stands for them.
fn content(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '\n' | '\t' => written.push(letter),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => written.push('\u{fffd}'),
            _ => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Builder, everything, task, with_environments};
    use super::*;

    #[test]
    fn tasks_are_cases_with_what_became_of_them() {
        let run = everything();
        assert_eq!(failed(&run), [4, 6]);
        let tails = BTreeMap::from([(4, "half of it\n<\x1b[31moops>".to_owned())]);
        let mut out = Vec::new();
        write(&run, &tails, &mut out).unwrap();
        let counts = r#"tests="5" failures="1" errors="1" skipped="1" time="0.110""#;
        let unknown = char::REPLACEMENT_CHARACTER;
        let expected = format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="rakuda" {counts}>
  <testsuite name="20261121-233200.000-7" timestamp="2026-11-21T23:32:00.000+00:00" {counts}>
    <testcase name="out/a x" classname="Rakefile:3" time="0.040"/>
    <testcase name="out/b" classname="Rakefile:3" time="0.083"/>
    <testcase name="c" classname="Rakefile:7" time="0.005">
      <properties>
        <property name="node" value="n1"/>
        <property name="attempt" value="1"/>
      </properties>
      <failure message="Command failed with status (3)">half of it
&lt;{unknown}[31moops&gt;</failure>
    </testcase>
    <testcase name="d" classname="Rakefile:7" time="0.000">
      <skipped message="not run because of c"/>
    </testcase>
    <testcase name="e{unknown}&quot;\&#10;" classname="Rakefile:7" time="0.012">
      <properties>
        <property name="node" value="n1"/>
        <property name="attempt" value="1"/>
      </properties>
      <error message="cut off: the journal does not have its end"/>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    fn one_task() -> Builder {
        let mut builder = Builder::new();
        builder.define([task(1, "a", 0, &[])]);
        builder.begin(1, 1, 1, 10);
        builder
    }

    fn written(run: &Run) -> String {
        let mut out = Vec::new();
        write(run, &BTreeMap::new(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn run_that_failed_without_a_failed_task_is_an_error() {
        let mut builder = one_task();
        builder.end(1, Outcome::Done, 20, None);
        builder.finish(RunOutcome::Failed, 30);
        let written = written(&builder.run);
        let counts = r#"tests="2" failures="0" errors="1" skipped="0""#;
        assert_eq!(written.matches(counts).count(), 2, "{written}");
        assert_eq!(written.matches("<testcase ").count(), 2, "{written}");
        let case = "<testcase name=\"rakuda\" classname=\"Rakefile\" time=\"0.000\">\n      \
                    <error message=\"the run ended with an error outside of its tasks";
        assert!(written.contains(case), "{written}");
        assert!(!self::written(&everything()).contains("name=\"rakuda\" classname"));
    }

    #[test]
    fn attempt_of_a_run_that_goes_on_was_not_cut_off() {
        let mut run = one_task().run;
        run.seen_alive(run.last_ns + 2_000_000_000);
        let written = written(&run);
        assert!(written.contains("time=\"2.000\">"), "{written}");
        assert!(written.contains("<error message=\"goes on: the run has not ended yet\"/>"));
    }

    #[test]
    fn a_command_that_a_signal_ended_is_whole_too() {
        let run = with_environments();
        let attempt = attempts(run.tasks[2].as_ref().unwrap()).next_back().unwrap();
        let why = "Command failed with signal 9 (SIGKILL): [fit --long-option...]".to_owned();
        let line = "fit --long-option-of-a-program-with-many-words out/a 'two words'";
        let told = whole(&run, attempt, why);
        assert!(told.starts_with("Command failed with signal 9 (SIGKILL): "), "{told}");
        assert!(told.ends_with(line), "{told}");
        assert_eq!(whole(&run, attempt, "boom: [x]".into()), "boom: [x]");
    }

    #[test]
    fn a_failure_has_its_command_as_a_whole() {
        let mut out = Vec::new();
        let tails = BTreeMap::from([(2, "no such package".to_owned())]);
        write(&with_environments(), &tails, &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        let line = "fit --long-option-of-a-program-with-many-words out/a 'two words'";
        let why = "needs env: conda env.yml: cannot be made (/c/x.log), on n1";
        let message = format!("message=\"Command failed with status (125): {why}: {line}\"");
        let body = format!(">command: {line}  # env: conda env.yml\nno such package</failure>");
        assert!(written.contains(&message), "{written}");
        assert!(written.contains(&body), "{written}");
    }
}
