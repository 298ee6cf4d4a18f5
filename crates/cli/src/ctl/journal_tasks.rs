//! Tasks of a run that goes on, as its journal has them: those that run beyond what a hub lists, those that have ended
//! last, and what did not run at all. Each list has only those that fit the words that the user looks for.
//!
//! It does not know how they are shown.

use std::collections::BTreeSet;

use rakuda_record::Run;
use rakuda_record::summary::outcomes::{Fate, fate};
use rakuda_record::summary::task_rows::exit_of;
use rakuda_record::words::command_line;
use rakuda_record::{Attempt, Command, Task};
use serde_json::{Value, json};

/// Maximum number of tasks that have ended in an answer, and of those that did not run.
const ENDED_MAX: usize = 100;

/// Words that a task must have, all of them, in its name, its command or the name of its node.
#[derive(Debug, Clone, Default)]
pub struct Words(Vec<String>);

impl Words {
    /// Of what a user has typed.
    pub fn of(typed: &str) -> Self {
        Self(typed.to_lowercase().split_whitespace().map(str::to_owned).collect())
    }

    /// There is no word, so all tasks fit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// They, with spaces between.
    pub fn text(&self) -> String {
        self.0.join(" ")
    }

    /// Whether they are all there.
    pub fn fit<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        if self.is_empty() {
            return true;
        }
        let text = texts.into_iter().collect::<Vec<_>>().join("\n").to_lowercase();
        self.0.iter().all(|word| text.contains(word))
    }
}

/// A task that does not run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRunning {
    /// Its name.
    pub name: String,
    /// Where its last attempt ran. Empty: it had none.
    pub node: String,
    /// How long that took, ns. `None`: it had none.
    pub took_ns: Option<u64>,
    /// `done`, how it failed, `up to date`, what it waits for.
    pub how: String,
    /// It failed.
    pub is_bad: bool,
}

/// Tasks that have ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The last first.
    pub tasks: Vec<NotRunning>,
    /// How many of all that fit are done.
    pub done: usize,
}

/// All tasks that run and that fit, in the form of a hub's list: first those that it lists.
pub fn running(run: &Run, told: &[Value], now_ns: i64, words: &Words) -> Vec<Value> {
    let listed: BTreeSet<&str> = told.iter().filter_map(|task| task["task"].as_str()).collect();
    let open = run.tasks.iter().flatten().filter_map(|task| {
        let last = task.attempts.last().filter(|last| last.ended.is_none())?;
        let name = task.defined.name.to_display();
        (!listed.contains(name.as_str())).then_some((last, name))
    });
    let mut others: Vec<(&Attempt, String)> = open.collect();
    others.sort_by_key(|(last, _)| (last.started.time_ns, last.started.task));
    let others = others.into_iter().map(|(last, name)| {
        #[expect(clippy::cast_precision_loss, reason = "seconds for people to read")]
        let elapsed_s = now_ns.saturating_sub(last.started.time_ns).max(0) as f64 / 1e9;
        let goes_on = commands(run, last).find(|command| command.ended.is_none());
        let lines: Vec<Value> =
            goes_on.map(|command| json!({"command": line(command)})).into_iter().collect();
        json!({"task": name, "node": node(run, last), "elapsed_s": elapsed_s, "commands": lines})
    });
    let fits = |task: &Value| {
        let commands = task["commands"].as_array().into_iter().flatten();
        let lines = commands.filter_map(|command| command["command"].as_str());
        words.fit(["task", "node"].iter().filter_map(|name| task[*name].as_str()).chain(lines))
    };
    told.iter().cloned().chain(others).filter(fits).collect()
}

/// Those that have ended and that fit, the last first.
pub fn ended(run: &Run, words: &Words) -> Ended {
    let mut found: Vec<(i64, &Task, &Attempt)> = Vec::new();
    for task in run.tasks.iter().flatten() {
        let Some(last) = task.attempts.last() else { continue };
        let Some(ended) = &last.ended else { continue };
        if matches!(fate(task), Fate::Ran | Fate::Failed) {
            found.push((ended.time_ns, task, last));
        }
    }
    let latest = |&(ended_ns, task, _): &(i64, &Task, &Attempt)| {
        (std::cmp::Reverse(ended_ns), task.defined.task)
    };
    if !words.is_empty() {
        found.retain(|(_, task, last)| fits(run, task, last, words));
    }
    let done = found.iter().filter(|(_, task, _)| fate(task) == Fate::Ran).count();
    if found.len() > ENDED_MAX {
        found.select_nth_unstable_by_key(ENDED_MAX, latest);
        found.truncate(ENDED_MAX);
    }
    found.sort_by_key(latest);
    let told = found.into_iter().map(|(_, task, last)| {
        let (name, node) = (task.defined.name.to_display(), node(run, last));
        let is_bad = fate(task) == Fate::Failed;
        let status = || commands(run, last).filter_map(exit_of).next_back();
        let how = if is_bad {
            status().unwrap_or_else(|| "failed".to_owned())
        } else {
            "done".to_owned()
        };
        NotRunning { name, node, took_ns: Some(last.run_ns(run)), how, is_bad }
    });
    Ended { tasks: told.collect(), done }
}

/// Those with an action that were settled without an attempt, and whose names fit: what was up to date, or not tried.
pub fn without_attempt(run: &Run, words: &Words) -> Vec<NotRunning> {
    let all = run.tasks.iter().flatten();
    let settled = all.filter(|task| {
        task.attempts.is_empty() && task.defined.action && fate(task) != Fate::NotStarted
    });
    let named = settled.map(|task| (task, task.defined.name.to_display()));
    let told = named.filter(|(_, name)| words.fit([name.as_str()])).map(|(task, name)| {
        let is_bad = fate(task) == Fate::Failed;
        let how = fate(task).word().to_owned();
        NotRunning { name, node: String::new(), took_ns: None, how, is_bad }
    });
    told.take(ENDED_MAX).collect()
}

/// Whether the words fit a task by its name, the node of an attempt, or the commands of the attempt.
pub fn fits(run: &Run, task: &Task, attempt: &Attempt, words: &Words) -> bool {
    if words.is_empty() {
        return true;
    }
    let (name, node) = (task.defined.name.to_display(), node(run, attempt));
    let lines: Vec<String> = commands(run, attempt).map(line).collect();
    let texts = [name.as_str(), node.as_str()].into_iter();
    words.fit(texts.chain(lines.iter().map(String::as_str)))
}

fn commands<'a>(
    run: &'a Run,
    attempt: &'a Attempt,
) -> impl DoubleEndedIterator<Item = &'a Command> {
    attempt.commands.iter().filter_map(|&number| run.commands.get(number as usize)?.as_ref())
}

fn node(run: &Run, attempt: &Attempt) -> String {
    let node = run.nodes.get(attempt.started.node as usize);
    node.map(|node| node.joined.name.to_display()).unwrap_or_default()
}

/// A command as one would type it.
fn line(command: &Command) -> String {
    match (&command.started.line, &command.started.words) {
        (Some(line), _) => line.to_display(),
        (None, Some(words)) => command_line(words),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use rakuda_record::reader::read_events;

    use super::*;

    /// Four that run, of which the hub lists one; two that have ended.
    fn run() -> Run {
        let mut lines = String::from(
            "{\"event\":\"run_started\",\"version\":2,\"time_ns\":1,\"run\":\"r\"}\n\
             {\"event\":\"node_joined\",\"time_ns\":1,\"node\":0,\"name\":\"host1\",\"cores\":8,\"memory_bytes\":0}\n",
        );
        for number in 0..6 {
            write!(lines,
                "{{\"event\":\"task_defined\",\"task\":{number},\"name\":\"map/s{number}\",\"kind\":\"file\",\"action\":true}}\n\
                 {{\"event\":\"attempt_started\",\"time_ns\":{0},\"task\":{number},\"attempt\":1,\"node\":0,\"cores\":1}}\n\
                 {{\"event\":\"command_started\",\"time_ns\":{0},\"command\":{number},\"task\":{number},\"line\":\"bwa ref{number}\"}}\n",
                10 - number
            ).unwrap();
        }
        for (number, status, outcome) in [(4, 0, "done"), (5, 768, "failed")] {
            write!(lines,
                "{{\"event\":\"command_ended\",\"time_ns\":2{number},\"command\":{number},\"status\":{status},\"wall_ns\":9,\"user_us\":0,\"system_us\":0,\"rss_kib_max\":0,\"read_bytes\":0,\"write_bytes\":0}}\n\
                 {{\"event\":\"attempt_ended\",\"time_ns\":2{number},\"task\":{number},\"outcome\":\"{outcome}\"}}\n"
            ).unwrap();
        }
        lines += "{\"event\":\"task_settled\",\"time_ns\":25,\"task\":5,\"how\":\"failed\"}\n";
        let mut run = Run::default();
        read_events(lines.as_bytes(), |event| run.add(event)).unwrap();
        run
    }

    #[test]
    fn running_tasks_that_a_hub_does_not_list_come_after_those_that_it_lists() {
        let told = [json!({"task": "map/s0", "node": "host1", "elapsed_s": 1.0, "commands": []})];
        let names = |typed: &str| -> Vec<String> {
            let found = running(&run(), &told, 2_000_000_010, &Words::of(typed));
            found.iter().map(|task| task["task"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(""), ["map/s0", "map/s3", "map/s2", "map/s1"]);
        assert_eq!(names("BWA s2"), ["map/s2"]);
        assert_eq!(names("host1 map"), ["map/s0", "map/s3", "map/s2", "map/s1"]);
        assert!(names("s5").is_empty(), "it has ended");
        let found = running(&run(), &told, 2_000_000_007, &Words::of("s3"));
        assert_eq!(found[0]["elapsed_s"], 2.0);
        assert_eq!(found[0]["commands"], json!([{"command": "bwa ref3"}]));
    }

    #[test]
    fn what_was_up_to_date_or_not_tried_is_found_by_name() {
        const SETTLED: &str = r#"{"event":"run_started","version":2,"time_ns":1,"run":"r"}
{"event":"task_defined","task":0,"name":"map/old","kind":"file","action":true,"up_to_date":true}
{"event":"task_defined","task":1,"name":"map/src","kind":"file","action":false,"up_to_date":true}
{"event":"task_defined","task":2,"name":"map/above","kind":"file","action":true}
{"event":"task_settled","time_ns":25,"task":2,"how":"abandoned"}
{"event":"task_defined","task":3,"name":"map/later","kind":"file","action":true}
"#;
        let mut run = Run::default();
        read_events(SETTLED.as_bytes(), |event| run.add(event)).unwrap();
        let found = |typed: &str| -> Vec<(String, String)> {
            let found = without_attempt(&run, &Words::of(typed));
            found.into_iter().map(|it| (it.name, it.how)).collect()
        };
        let told = |name: &str, how: &str| (name.to_owned(), how.to_owned());
        assert_eq!(found("MAP"), [told("map/old", "up to date"), told("map/above", "not run")]);
        assert_eq!(found("above").len(), 1);
    }

    #[test]
    fn what_has_ended_last_comes_first_with_how_it_ended() {
        let told: Vec<_> = ended(&run(), &Words::default())
            .tasks
            .into_iter()
            .map(|it| (it.name, it.how, it.is_bad))
            .collect();
        assert_eq!(
            told,
            [
                ("map/s5".to_owned(), "status 3".to_owned(), true),
                ("map/s4".to_owned(), "done".to_owned(), false),
            ]
        );
        let found = ended(&run(), &Words::of("ref4"));
        assert_eq!((found.tasks.len(), found.done), (1, 1));
        assert_eq!(ended(&run(), &Words::of("ref5")).done, 0, "it has failed");
    }
}
