//! A small run, written by hand as its journal would be, so that figures can be checked against a computation on paper.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rakuda_record::Run;
use rakuda_record::report::Report;
use rakuda_record::summary::Summary;

/// Begin of the run, ns since 1970.
pub const START_NS: i64 = 1_800_000_000_000_000_000;

/// Lines of a journal; times in seconds after [`START_NS`].
#[derive(Default)]
pub struct Journal {
    lines: String,
    commands: u32,
    attempts: BTreeMap<u32, u32>,
}

impl Journal {
    /// Adds a line: the fields of an event, with `time` in seconds.
    pub fn event(&mut self, event: &str, time_s: f64, fields: &str) {
        let time_ns = START_NS + (time_s * 1e9).round() as i64;
        let comma = if fields.is_empty() { "" } else { "," };
        let _ =
            writeln!(self.lines, "{{\"event\":\"{event}\",\"time_ns\":{time_ns}{comma}{fields}}}");
    }

    /// The lines that every run begins with.
    pub fn begin(cores: u32) -> Self {
        let mut journal = Self::default();
        journal.event(
            "run_started",
            -1.0,
            &format!(
                r#""version":2,"run":"20270115-080000.000-42","rakuda":"0.1.0","directory":"/data/sky","rakefile":"Rakefile","command_line":["-j","2"],"host":"argo","cores":{cores},"policy":"lifo_hrf","failure":"wait","failed_target":"rename","retry":1,"seed":7,"build_all":false"#
            ),
        );
        journal.node(0, "argo", cores);
        journal.event("invocation_started", 0.0, r#""invocation":0,"tasks":["all"]"#);
        journal
    }

    /// A node that was there from the start.
    pub fn node(&mut self, node: u32, name: &str, cores: u32) {
        let fields =
            format!(r#""node":{node},"name":"{name}","cores":{cores},"memory_bytes":1000000000"#);
        self.event("node_joined", -1.0, &fields);
    }

    /// A place of the Rakefile.
    pub fn rule(&mut self, rule: u32, location: &str) {
        let _ = writeln!(
            self.lines,
            "{{\"event\":\"rule_defined\",\"rule\":{rule},\"location\":\"{location}\"}}"
        );
    }

    /// A task; `fields` are those beside number and name.
    pub fn task(&mut self, task: u32, name: &str, fields: &str) {
        let name = serde_json::to_string(name).unwrap();
        let _ = writeln!(
            self.lines,
            "{{\"event\":\"task_defined\",\"task\":{task},\"name\":{name},{fields}}}"
        );
    }

    /// An attempt with one command that took all of its time.
    pub fn attempt(
        &mut self,
        task: u32,
        from_s: f64,
        to_s: f64,
        line: &str,
        command: &str,
        end: &str,
    ) {
        let attempt = self.attempts.entry(task).or_default();
        *attempt += 1;
        let fields = format!(r#""task":{task},"attempt":{attempt},"node":0,"cores":1"#);
        self.event("attempt_started", from_s, &fields);
        let number = self.commands;
        self.commands += 1;
        let line = serde_json::to_string(line).unwrap();
        let fields = format!(r#""command":{number},"task":{task},"line":{line}"#);
        self.event("command_started", from_s, &fields);
        let wall_ns = ((to_s - from_s) * 1e9).round() as i64;
        let fields = format!(r#""command":{number},"wall_ns":{wall_ns},{command}"#);
        self.event("command_ended", to_s, &fields);
        self.event("attempt_ended", to_s, &format!(r#""task":{task},{end}"#));
    }

    /// What was written so far.
    pub fn text(&self) -> &str {
        &self.lines
    }

    /// As it is read.
    pub fn run(&self) -> Run {
        let run = Run::read(self.lines.as_bytes()).unwrap();
        assert_eq!((run.skipped.damaged, run.skipped.unknown), (0, 0), "{}", self.lines);
        run
    }
}

/// Two cores; `b.out` and `c.out` from `a.src`, then `d.out`, which needs a second attempt, and `e.out`, which fails:
///
/// ```text
/// 0    1    2    3    4    5    6 s
/// b.out----|                            reads 400 of 1000 bytes
/// c.out---------|                       reads 0 of 1000
///           e.out---------|             reads 100 of 500, fails
///                 d.out|---------|      ready at 3, starts at 3.5, second attempt from 4
/// ```
pub fn small() -> Journal {
    let mut journal = Journal::begin(2);
    journal.rule(0, "Rakefile:3");
    journal.rule(1, "Rakefile:9");
    journal.task(0, "a.src", r#""kind":"file","bytes":1000,"action":false"#);
    journal.task(1, "b.out", r#""kind":"file","action":true,"rule":0,"prerequisites":[0]"#);
    journal.task(2, "c.out", r#""kind":"file","action":true,"rule":0,"prerequisites":[0]"#);
    journal.task(3, "middle", r#""kind":"plain","action":false,"prerequisites":[1,2]"#);
    journal.task(4, "d.out", r#""kind":"file","action":true,"rule":1,"prerequisites":[3]"#);
    journal.task(5, "e.out", r#""kind":"file","action":true,"rule":1,"prerequisites":[1]"#);
    journal.task(6, "all", r#""kind":"plain","action":true,"prerequisites":[4,5]"#);
    let good = r#""outcome":"done","after":{"modified_ns":1,"changed_ns":1,"bytes":500,"inode":1}"#;
    let used = r#""status":0,"user_us":1000000,"system_us":500000,"rss_kib_max":2000"#;
    journal.attempt(1, 0.0, 2.0, "proj a.src", &format!(r#"{used},"read_bytes":400"#), good);
    journal.attempt(
        2,
        0.0,
        3.0,
        "cd x && proj a.src",
        &format!(r#"{used},"write_bytes":50"#),
        good,
    );
    let settled = r#""task":3,"how":"executed""#;
    journal.event("task_settled", 3.0, settled);
    let failed = r#""outcome":"failed","message":"it broke","target":"renamed""#;
    journal.attempt(5, 2.0, 5.0, "sh -c 'fit e'", r#""status":256,"read_bytes":100"#, failed);
    journal.event("task_settled", 5.0, r#""task":5,"how":"failed""#);
    journal.attempt(4, 3.5, 4.0, "fit d", r#""status":9"#, &format!("{failed},\"retried\":true"));
    journal.attempt(4, 4.0, 6.0, "fit d", r#""status":0"#, good);
    journal.event("task_settled", 6.0, r#""task":6,"how":"abandoned","because":[5]"#);
    journal.event("invocation_ended", 6.0, r#""invocation":0,"failed":1,"abandoned":1"#);
    journal.event(
        "run_ended",
        6.5,
        r#""how":"failed","executed":4,"not_needed":1,"failed":1,"abandoned":1"#,
    );
    journal
}

/// Calls `check` with the report of a journal.
pub fn with_report(journal: &Journal, check: impl FnOnce(&Report)) {
    with_report_of(&journal.run(), check);
}

/// Calls `check` with the report of a run.
pub fn with_report_of(run: &Run, check: impl FnOnce(&Report)) {
    let summary = Summary::of(run);
    let tails = BTreeMap::from([(5, "no such star\n<b>".to_owned())]);
    check(&Report { run, summary: &summary, tails: &tails });
}
