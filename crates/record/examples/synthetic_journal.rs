//! Writes the journal of a run that never was: a graph of a given shape and size, executed in
//! virtual time by a greedy scheduler. For measurements and tests at sizes that nobody wants to
//! run.
//!
//! usage: synthetic_journal TASKS [--shape layers|wide|chain|tree] [--rules N] [--seed N] [--cores N] [--nodes N]
//!                          [--failures PERCENT] [--cut] [--into DIR] [--runs N]
//!
//! TASKS is the number of tasks with an action; about a hundred source files come on top. `--cut`
//! leaves out what was running at about nine tenths of the run, as when the machine fails. The
//! journal goes to stdout, or with `--into` into `DIR/.rakuda/runs/`, `--runs` of them, with their
//! summaries. Equal words give equal bytes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rakuda_proto::Text;
use rakuda_proto::journal::{
    AttemptEnded, AttemptStarted, CommandEnded, CommandStarted, FileIdentity, InvocationEnded,
    InvocationStarted, JOURNAL_VERSION, JournalEvent, NodeJoined, Outcome, Reason, ReasonKind,
    RuleDefined, RunEnded, RunOutcome, RunStarted, TargetFate, TaskDefined, TaskKind, TaskOutcome,
    TaskSettled,
};
use rakuda_record::history::{DurationTable, KnownRule, RunSummary};

const SOURCES: u32 = 100;
/// 2026-01-01 00:00:00 UTC.
const START_NS: i64 = 1_767_225_600_000_000_000;
const MILLISECOND: i64 = 1_000_000;

struct Options {
    tasks: u32,
    shape: String,
    rules: u32,
    seed: u64,
    cores: u32,
    nodes: u32,
    failures: u64,
    cut: bool,
    into: Option<String>,
    runs: u32,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            tasks: 0,
            shape: "layers".into(),
            rules: 8,
            seed: 0,
            cores: 16,
            nodes: 1,
            failures: 0,
            cut: false,
            into: None,
            runs: 1,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--shape" => options.shape = value()?,
                "--rules" => options.rules = number(&value()?)?,
                "--seed" => options.seed = number(&value()?)?,
                "--cores" => options.cores = number(&value()?)?,
                "--nodes" => options.nodes = number(&value()?)?,
                "--failures" => options.failures = number(&value()?)?,
                "--cut" => options.cut = true,
                "--into" => options.into = Some(value()?),
                "--runs" => options.runs = number(&value()?)?,
                tasks => options.tasks = number(tasks)?,
            }
        }
        if options.tasks == 0 || options.rules == 0 || options.nodes == 0 || options.cores == 0 {
            return Err("TASKS, rules, nodes and cores must be at least 1".into());
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Task numbers: sources first, then tasks in the order of the graph, so that a prerequisite's is smaller.
struct Graph {
    names: Vec<Text>,
    rules: Vec<u32>,
    prerequisites: Vec<Vec<u32>>,
    dependents: Vec<Vec<u32>>,
}

impl Graph {
    fn new(options: &Options, random: &mut Random) -> Self {
        let count = (SOURCES + options.tasks) as usize;
        let mut graph = Self {
            names: Vec::with_capacity(count),
            rules: vec![0; count],
            prerequisites: vec![Vec::new(); count],
            dependents: vec![Vec::new(); count],
        };
        for source in 0..SOURCES {
            graph.names.push(format!("raw/source_{source:03}.fits").into());
        }
        let width = (options.tasks / options.rules).max(1);
        for index in 0..options.tasks {
            let task = SOURCES + index;
            let (rule, prerequisites) = match options.shape.as_str() {
                "wide" => (index % options.rules, Vec::new()),
                "chain" => (index % options.rules, Vec::from_iter((index > 0).then(|| task - 1))),
                "tree" => tree(options, index),
                _ => layer(options, width, index, random),
            };
            let prerequisites = if prerequisites.is_empty() {
                vec![u32::try_from(random.below(u64::from(SOURCES))).expect("below 100")]
            } else {
                prerequisites
            };
            graph.rules[task as usize] = rule;
            graph.names.push(format!("step{rule}/result_{index:07}.fits").into());
            for prerequisite in &prerequisites {
                graph.dependents[*prerequisite as usize].push(task);
            }
            graph.prerequisites[task as usize] = prerequisites;
        }
        graph
    }
}

/// Rules one after the other, each file made from the same one of the layer before and up to two
/// others of it; the last task takes all of the last layer.
fn layer(options: &Options, width: u32, index: u32, random: &mut Random) -> (u32, Vec<u32>) {
    let rule = (index / width).min(options.rules - 1);
    if index + 1 == options.tasks && index > width {
        return (rule, (index - width..index).map(|index| SOURCES + index).collect());
    }
    if rule == 0 {
        return (0, Vec::new());
    }
    let mut prerequisites = vec![index - width];
    for _ in 0..random.below(3) {
        let place = u32::try_from(random.below(u64::from(width))).expect("below a u32");
        prerequisites.push((rule - 1) * width + place);
    }
    prerequisites.sort_unstable();
    prerequisites.dedup();
    (rule, prerequisites.into_iter().map(|index| SOURCES + index).collect())
}

/// Two into one, until one is left.
fn tree(options: &Options, index: u32) -> (u32, Vec<u32>) {
    let leaves = options.tasks.div_ceil(2);
    if index < leaves {
        return (0, Vec::new());
    }
    let first = 2 * (index - leaves);
    (1 % options.rules, vec![SOURCES + first, SOURCES + (first + 1).min(index - 1)])
}

/// What an attempt will be, when its time comes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    ends_ns: i64,
    task: u32,
    node: u32,
    command: u32,
    attempt: u32,
    started_ns: i64,
}

struct Execution<'a, W: Write> {
    options: &'a Options,
    graph: &'a Graph,
    random: Random,
    out: W,
    now_ns: i64,
    defined: Vec<bool>,
    rules_defined: Vec<bool>,
    /// Prerequisites that are not settled.
    missing: Vec<u32>,
    failed: Vec<bool>,
    ready: VecDeque<(u32, u32)>,
    free: Vec<u32>,
    running: BinaryHeap<Reverse<Running>>,
    commands: u32,
    counts: [u32; 3],
    durations: DurationTable,
}

impl<W: Write> Execution<'_, W> {
    fn put(&mut self, event: &JournalEvent) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")
    }

    fn run(mut self, name: &str) -> io::Result<RunSummary> {
        self.begin(name)?;
        for task in 0..SOURCES {
            self.settle(task, true)?;
        }
        let end = self.options.tasks / 10 * 9;
        while self.start_what_can()? {
            if self.options.cut && self.counts[0] >= end {
                self.out.flush()?;
                return Ok(self.summary(name, RunOutcome::Recovered));
            }
            let Some(Reverse(running)) = self.running.pop() else { break };
            self.now_ns = self.now_ns.max(running.ends_ns);
            self.end(&running)?;
        }
        let time_ns = self.now_ns;
        let [executed, failed, abandoned] = self.counts;
        let ended = InvocationEnded { time_ns, invocation: 0, failed, abandoned };
        self.put(&JournalEvent::InvocationEnded(ended))?;
        let how = if failed == 0 { RunOutcome::Done } else { RunOutcome::Failed };
        let not_needed = SOURCES;
        let ended = RunEnded {
            time_ns,
            how,
            executed,
            done: Some(executed),
            not_needed,
            failed,
            abandoned,
            metadata_operations: None,
            run_file_system_operations: None,
        };
        self.put(&JournalEvent::RunEnded(ended))?;
        self.out.flush()?;
        Ok(self.summary(name, how))
    }

    fn begin(&mut self, name: &str) -> io::Result<()> {
        let Options { cores, nodes, seed, .. } = *self.options;
        self.put(&JournalEvent::RunStarted(RunStarted {
            version: JOURNAL_VERSION,
            time_ns: self.now_ns,
            run: name.into(),
            rakuda: env!("CARGO_PKG_VERSION").into(),
            directory: "/data/synthetic".into(),
            rakefile: "Rakefile".into(),
            command_line: vec!["-j".into(), (cores * nodes).to_string().into()],
            host: "node0".into(),
            cores: cores * nodes,
            policy: "lifo_hrf".into(),
            failure: "continue".into(),
            failed_target: "rename".into(),
            retry: 1,
            seed,
            ..RunStarted::default()
        }))?;
        for node in 0..nodes {
            let name = format!("node{node}").into();
            let (time_ns, memory_bytes) = (self.now_ns, 64 << 30);
            let joined = NodeJoined { time_ns, node, name, cores, memory_bytes, group: None };
            self.put(&JournalEvent::NodeJoined(joined))?;
        }
        let tasks = vec![self.graph.names.last().expect("there are sources").clone()];
        let started =
            InvocationStarted { time_ns: self.now_ns, invocation: 0, tasks, caller: None };
        self.put(&JournalEvent::InvocationStarted(started))
    }

    fn start_what_can(&mut self) -> io::Result<bool> {
        while let Some((task, attempt)) = self.ready.pop_front() {
            let Some(node) = self.free.iter().position(|free| *free > 0) else {
                self.ready.push_front((task, attempt));
                break;
            };
            self.free[node] -= 1;
            self.start(task, attempt, u32::try_from(node).expect("few nodes"))?;
        }
        Ok(!self.running.is_empty())
    }

    fn define(&mut self, task: u32) -> io::Result<()> {
        let index = task as usize;
        if std::mem::replace(&mut self.defined[index], true) {
            return Ok(());
        }
        for place in 0..self.graph.prerequisites[index].len() {
            let prerequisite = self.graph.prerequisites[index][place];
            if !self.defined[prerequisite as usize] {
                self.define(prerequisite)?;
            }
        }
        let source = task < SOURCES;
        let rule = self.graph.rules[index];
        if !source && !std::mem::replace(&mut self.rules_defined[rule as usize], true) {
            let location = format!("Rakefile:{}", 10 + 4 * rule).into();
            let source = Some(format!("{:032x}", Random(u64::from(rule)).next()));
            let defined = RuleDefined { rule, location, source, text: None };
            self.put(&JournalEvent::RuleDefined(defined))?;
        }
        let defined = TaskDefined {
            task,
            name: self.graph.names[index].clone(),
            kind: TaskKind::File,
            rule: (!source).then_some(rule),
            prerequisites: self.graph.prerequisites[index].clone(),
            action: !source,
            up_to_date: source,
            bytes: source.then_some(2 << 20),
            ..TaskDefined::default()
        };
        self.put(&JournalEvent::TaskDefined(defined))
    }

    fn start(&mut self, task: u32, attempt: u32, node: u32) -> io::Result<()> {
        self.define(task)?;
        self.now_ns += 20_000;
        let name = &self.graph.names[task as usize];
        let first = self.graph.prerequisites[task as usize].first();
        let first = first.map(|task| self.graph.names[*task as usize].clone());
        let newer = first.clone().filter(|_| task.is_multiple_of(10));
        let reason = match newer {
            Some(path) => {
                Reason { kind: ReasonKind::Newer, path: Some(path), by_ns: Some(3_600_000_000_000) }
            }
            None => Reason { kind: ReasonKind::Missing, path: Some(name.clone()), by_ns: None },
        };
        let words = vec![
            format!("step{}", self.graph.rules[task as usize]).into(),
            "-o".into(),
            name.clone(),
            first.unwrap_or_default(),
        ];
        let started_ns = self.now_ns;
        self.put(&JournalEvent::AttemptStarted(AttemptStarted {
            time_ns: started_ns,
            task,
            attempt,
            node,
            cores: 1,
            elsewhere: Vec::new(),
            memory_bytes: None,
            early: false,
            reasons: vec![reason],
            before: None,
            target: None,
        }))?;
        let command = self.commands;
        self.commands += 1;
        self.put(&JournalEvent::CommandStarted(CommandStarted {
            time_ns: started_ns + 10_000,
            command,
            task: Some(task),
            words: Some(words),
            line: None,
            directory: None,
            env: None,
        }))?;
        let ends_ns = started_ns + self.duration(self.graph.rules[task as usize]);
        let running = Running { ends_ns, task, node, command, attempt, started_ns };
        self.running.push(Reverse(running));
        Ok(())
    }

    /// Each rule has its usual time, some ten to some hundred milliseconds; one task in a hundred
    /// takes ten times as long.
    fn duration(&mut self, rule: u32) -> i64 {
        let usual = 10 + Random(u64::from(rule) + 77).below(300);
        let spread = usual / 2 + self.random.below(usual);
        let spread = if self.random.below(100) == 0 { spread * 10 } else { spread };
        i64::try_from(spread).expect("small") * MILLISECOND
            + i64::try_from(self.random.below(1_000_000)).expect("small")
    }

    fn end(&mut self, running: &Running) -> io::Result<()> {
        let Running { task, node, command, attempt, .. } = *running;
        self.free[node as usize] += 1;
        let wall_ns = u64::try_from(running.ends_ns - running.started_ns).expect("positive");
        // Half of the second attempts are no better.
        let likely = if attempt == 1 { self.options.failures } else { 50 };
        let bad = self.random.below(100) < likely;
        let read_bytes = self.random.below(512) * 4096;
        self.put(&JournalEvent::CommandEnded(CommandEnded {
            time_ns: self.now_ns,
            command,
            status: if bad { 1 << 8 } else { 0 },
            error: None,
            wall_ns,
            user_us: wall_ns / 1250,
            system_us: wall_ns / 10_000,
            rss_kib_max: 4096 + wall_ns / 100_000,
            read_bytes,
            write_bytes: 1 << 20,
        }))?;
        let retried = bad && attempt == 1;
        let after = FileIdentity {
            modified_ns: (self.now_ns - 100_000).into(),
            changed_ns: (self.now_ns - 100_000).into(),
            bytes: 1_000_000 + self.random.below(100_000),
            inode: u64::from(task) + 1_000_000,
        };
        self.put(&JournalEvent::AttemptEnded(AttemptEnded {
            time_ns: self.now_ns + 50_000,
            task,
            outcome: if bad { Outcome::Failed } else { Outcome::Done },
            message: bad.then(|| "Command failed with status (1)".into()),
            retried,
            after: (!bad).then_some(after),
            target: bad.then_some(TargetFate::Renamed),
            secondary: Vec::new(),
            contents: Vec::new(),
            inputs: None,
            held_ns: None,
        }))?;
        self.now_ns += 60_000;
        if retried {
            self.ready.push_front((task, 2));
            return Ok(());
        }
        if bad {
            self.fail(task, TaskOutcome::Failed, Vec::new())?;
            self.counts[1] += 1;
        } else {
            let rule = self.graph.rules[task as usize];
            let location = format!("Rakefile:{}", 10 + 4 * rule).into();
            let known = KnownRule { location: &location, source: None };
            self.durations.add(Some(known), &self.graph.names[task as usize], wall_ns);
            self.counts[0] += 1;
        }
        self.settle(task, !bad)
    }

    fn fail(&mut self, task: u32, how: TaskOutcome, because: Vec<u32>) -> io::Result<()> {
        self.define(task)?;
        let time_ns = self.now_ns;
        self.put(&JournalEvent::TaskSettled(TaskSettled { time_ns, task, how, because }))
    }

    /// Tells the dependents, and theirs when they are abandoned.
    fn settle(&mut self, task: u32, good: bool) -> io::Result<()> {
        let graph = self.graph;
        let mut settled = VecDeque::from([(task, good)]);
        while let Some((task, good)) = settled.pop_front() {
            self.failed[task as usize] = !good;
            for dependent in &graph.dependents[task as usize] {
                let index = *dependent as usize;
                self.missing[index] -= 1;
                if self.missing[index] > 0 {
                    continue;
                }
                let because = graph.prerequisites[index].iter().copied();
                let because: Vec<u32> =
                    because.filter(|task| self.failed[*task as usize]).collect();
                if because.is_empty() {
                    self.ready.push_back((*dependent, 1));
                } else {
                    self.fail(*dependent, TaskOutcome::Abandoned, because)?;
                    self.counts[2] += 1;
                    settled.push_back((*dependent, false));
                }
            }
        }
        Ok(())
    }

    fn summary(&self, name: &str, how: RunOutcome) -> RunSummary {
        RunSummary {
            version: 1,
            run: name.into(),
            how,
            started_ns: START_NS,
            ended_ns: self.now_ns,
            policy: "lifo_hrf".into(),
            cores: self.options.cores * self.options.nodes,
            nodes: self.options.nodes,
            executed: self.counts[0],
            done: Some(self.counts[0]),
            not_needed: SOURCES,
            failed: self.counts[1],
            abandoned: self.counts[2],
            rules: self.durations.rules(),
        }
    }
}

fn execute(options: &Options, seed: u64, name: &str, out: impl Write) -> io::Result<RunSummary> {
    let mut random = Random(seed);
    let graph = Graph::new(options, &mut random);
    let count = graph.names.len();
    let missing = graph.prerequisites.iter().map(|list| u32::try_from(list.len()).expect("few"));
    let execution = Execution {
        options,
        random,
        out: BufWriter::with_capacity(1 << 16, out),
        now_ns: START_NS,
        defined: vec![false; count],
        rules_defined: vec![false; options.rules as usize],
        missing: missing.collect(),
        failed: vec![false; count],
        ready: VecDeque::new(),
        free: vec![options.cores; options.nodes as usize],
        running: BinaryHeap::new(),
        commands: 0,
        counts: [0; 3],
        durations: DurationTable::default(),
        graph: &graph,
    };
    execution.run(name)
}

fn main() -> io::Result<()> {
    let options = Options::parse(std::env::args().skip(1)).map_err(io::Error::other)?;
    let Some(into) = &options.into else {
        execute(&options, options.seed, "20260101-000000.000-1", io::stdout().lock())?;
        return Ok(());
    };
    for run in 0..options.runs {
        let name = format!("20260101-{:02}{:02}{:02}.000-1", run / 3600, run / 60 % 60, run % 60);
        let folder = Path::new(into).join(".rakuda/runs").join(&name);
        fs::create_dir_all(&folder)?;
        let journal = File::create(folder.join("journal.jsonl"))?;
        let summary = execute(&options, options.seed + u64::from(run), &name, journal)?;
        if !options.cut {
            summary.write(&folder)?;
        }
    }
    Ok(())
}
