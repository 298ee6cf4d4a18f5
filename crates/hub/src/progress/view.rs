//! How far a run is, as lines: those of the live display, and the one that is printed now and then
//! where there is no terminal. Pure.

use std::fmt::Write as _;

use crate::progress::duration::{rough_duration, whole_seconds};
use crate::progress::estimate::TimeLeft;
use crate::stopping::StoppingView;
use rakuda_record::printable::{cut, cut_middle, width};

/// Maximum number of running tasks that are shown.
pub(crate) const TASKS_MAX: usize = 4;
/// Maximum number of nodes that are named in a line for a log.
const NODES_MAX: usize = 4;
/// Maximum columns of a node's name.
const NODE_COLUMNS: usize = 16;
/// Maximum columns of a program's name.
const PROGRAM_COLUMNS: usize = 20;

const RED: &str = "\x1b[31m";
const FAINT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// A task that runs, fit to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Busy {
    pub name: String,
    /// The program of the command that runs; `None` while Ruby code runs.
    pub program: Option<String>,
    /// The node; `None` if there is only one.
    pub node: Option<String>,
    pub elapsed_ns: u64,
}

/// What is shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub done: usize,
    pub total: usize,
    pub running: usize,
    pub failed: usize,
    /// Tasks done in a second, lately.
    pub rate: f64,
    pub left: Option<TimeLeft>,
    /// How the run is to end, if it is: shown instead of rate and time left.
    pub stopping: Option<StoppingView>,
    /// The tasks that have run longest, the longest first.
    pub busy: Vec<Busy>,
    /// Where tasks run, each name once; empty when there is one node only.
    pub nodes: Vec<String>,
}

impl View {
    /// For a log: one line, with its line feed.
    pub fn plain_line(&self) -> String {
        format!("rakuda: {}\n", self.parts(false).join(", "))
    }

    /// For a terminal of this size: lines without line ends, none wider than it.
    pub fn lines(&self, columns: usize, rows: usize, colour: bool) -> Vec<String> {
        // The last column is left free: what happens after a character in it differs between terminals.
        let columns = columns.saturating_sub(1);
        let mut head = String::new();
        let mut taken = 0;
        for (index, part) in self.parts(true).iter().enumerate() {
            let part = if index == 0 { part.clone() } else { format!(", {part}") };
            let shown = if index == 0 { cut(&part, columns) } else { &part };
            if taken + width(shown) > columns {
                continue;
            }
            taken += width(shown);
            if colour && self.failed > 0 && shown.ends_with(" failed") {
                let _ = write!(head, "{RED}{shown}{PLAIN}");
            } else {
                head.push_str(shown);
            }
        }
        let mut lines = vec![head];
        let room = rows.saturating_sub(2).min(TASKS_MAX);
        lines.extend(self.busy.iter().take(room).map(|task| busy_line(task, columns, colour)));
        lines
    }

    fn parts(&self, live: bool) -> Vec<String> {
        let mut parts =
            vec![format!("{}/{} done", self.done, self.total), format!("{} running", self.running)];
        if !live {
            parts[1] += &on_nodes(&self.nodes);
        }
        if self.failed > 0 || !live {
            parts.push(format!("{} failed", self.failed));
        }
        if let Some(stopping) = self.stopping {
            parts.push(stopping_line(stopping));
            return parts;
        }
        parts.extend(rate(self.rate));
        parts.extend(self.left.as_ref().map(time_left));
        parts
    }
}

/// ` on host1, host2`, or how many there are.
fn on_nodes(nodes: &[String]) -> String {
    match nodes.len() {
        0 => String::new(),
        1..=NODES_MAX => format!(" on {}", nodes.join(", ")),
        count => format!(" on {count} nodes"),
    }
}

/// `stopping: SIGTERM in 4 s (Ctrl-C again kills)`.
fn stopping_line(stopping: StoppingView) -> String {
    let mut line = "stopping".to_owned();
    if let Some((signal, in_ns)) = stopping.next {
        let seconds = whole_seconds(in_ns.div_ceil(1_000_000_000));
        let _ = write!(line, ": {signal} in {seconds}");
    }
    if stopping.can_kill {
        line.push_str(" (Ctrl-C again kills)");
    }
    line
}

fn rate(per_second: f64) -> Option<String> {
    Some(match per_second {
        rate if rate >= 10.0 => format!("{rate:.0}/s"),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate if rate * 60.0 >= 1.0 => format!("{:.0}/min", rate * 60.0),
        rate if rate * 3600.0 >= 1.0 => format!("{:.0}/h", rate * 3600.0),
        _ => return None,
    })
}

fn time_left(left: &TimeLeft) -> String {
    let [middle, low, high] = [left.left_ns, left.low_ns, left.high_ns].map(rough_duration);
    if left.unknown > 0 {
        let tasks = if left.unknown == 1 { "task of a kind" } else { "tasks of kinds" };
        return format!("at least {low} left ({} {tasks} not seen before)", left.unknown);
    }
    if left.is_uncertain() && low != high {
        format!("{middle} left ({low} to {high})")
    } else {
        format!("{middle} left")
    }
}

fn busy_line(task: &Busy, columns: usize, colour: bool) -> String {
    let time = format!("{:>10}", whole_seconds(task.elapsed_ns / 1_000_000_000));
    let program = task.program.as_deref().map(|name| cut_middle(name, PROGRAM_COLUMNS));
    let node = task.node.as_deref().map(|name| cut_middle(name, NODE_COLUMNS));
    let behind = [program, node].into_iter().flatten();
    let program = behind.fold(String::new(), |line, name| line + "  " + &name);
    let room = columns.saturating_sub(width(&time) + 2 + width(&program));
    let line = format!("{time}  {}", cut_middle(&task.name, room));
    let line = cut(&line, columns);
    let rest = cut(&program, columns - width(line));
    if colour { format!("{line}{FAINT}{rest}{PLAIN}") } else { format!("{line}{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn view() -> View {
        let left_ns = 70 * SECOND;
        let left = TimeLeft { left_ns, low_ns: 50 * SECOND, high_ns: 120 * SECOND, unknown: 0 };
        View {
            done: 120,
            total: 2707,
            running: 8,
            failed: 0,
            rate: 35.2,
            left: Some(left),
            stopping: None,
            nodes: Vec::new(),
            busy: vec![
                Busy {
                    name: "out/b.dat".into(),
                    program: Some("gcc".into()),
                    node: None,
                    elapsed_ns: 72 * SECOND,
                },
                Busy {
                    name: "駱駝".repeat(30), program: None, node: None, elapsed_ns: 3 * SECOND
                },
            ],
        }
    }

    #[test]
    fn a_line_for_a_log_says_all_at_once() {
        let expected =
            "rakuda: 120/2707 done, 8 running, 0 failed, 35/s, 1 min 10 s left (50 s to 2 min)\n";
        assert_eq!(view().plain_line(), expected);
    }

    #[test]
    fn kinds_never_seen_are_owned_up_to() {
        let mut view = view();
        view.left = view.left.map(|left| TimeLeft { unknown: 40, low_ns: 120 * SECOND, ..left });
        let line = view.plain_line();
        assert!(
            line.ends_with("at least 2 min left (40 tasks of kinds not seen before)\n"),
            "{line}"
        );
        view.left = None;
        assert!(view.plain_line().ends_with("35/s\n"));
    }

    #[test]
    fn a_run_that_is_to_end_says_what_comes_next() {
        let next = Some(("SIGTERM", 3_200_000_000));
        let stopping = Some(StoppingView { next, can_kill: true });
        let view = View { stopping, ..view() };
        let head = &view.lines(100, 24, false)[0];
        let expected = "120/2707 done, 8 running, stopping: SIGTERM in 4 s (Ctrl-C again kills)";
        assert_eq!(head, expected);
        let stopping = Some(StoppingView { next: None, can_kill: false });
        assert!(View { stopping, ..view }.plain_line().ends_with("0 failed, stopping\n"));
    }

    #[test]
    fn slow_rates_are_told_by_the_minute_or_hour() {
        let told: Vec<_> = [120.4, 2.5, 0.2, 0.001, 0.0].into_iter().map(rate).collect();
        let expected = ["120/s", "2.5/s", "12/min", "4/h"].map(|text| Some(text.to_owned()));
        assert_eq!(told[..4], expected);
        assert_eq!(told[4], None);
    }

    #[test]
    fn the_display_has_a_line_for_each_of_the_longest_tasks() {
        let lines = view().lines(80, 24, false);
        assert_eq!(lines[0], "120/2707 done, 8 running, 35/s, 1 min 10 s left (50 s to 2 min)");
        assert_eq!(lines[1], "1 min 12 s  out/b.dat  gcc");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn with_several_nodes_it_is_told_where_tasks_run() {
        let mut view = view();
        view.busy[0].node = Some("host1".into());
        assert_eq!(view.lines(80, 24, false)[1], "1 min 12 s  out/b.dat  gcc  host1");
        view.nodes = ["host1", "host2"].map(str::to_owned).to_vec();
        let line = view.plain_line();
        assert!(
            line.starts_with("rakuda: 120/2707 done, 8 running on host1, host2, 0 failed"),
            "{line}"
        );
        view.nodes = vec!["n".into(); 5];
        assert!(view.plain_line().contains("8 running on 5 nodes, "));
        assert!(!view.lines(80, 24, false)[0].contains("nodes"), "the lines below say it");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_small_ones_get_few() {
        for columns in 1..100 {
            for line in view().lines(columns, 24, false) {
                assert!(width(&line) < columns.max(1), "{columns}: {line}");
            }
        }
        assert_eq!(view().lines(80, 3, false).len(), 2);
        assert_eq!(view().lines(80, 1, false).len(), 1);
    }

    #[test]
    fn colours_are_sparing() {
        let mut view = view();
        assert!(!view.lines(80, 24, true)[0].contains('\x1b'));
        view.failed = 2;
        assert!(view.lines(80, 24, true)[0].contains("\x1b[31m, 2 failed\x1b[0m"));
        assert!(!view.lines(80, 24, false).concat().contains('\x1b'));
    }
}
