//! When each attempt used cores, and which; when each process ran. Times are made consistent here once, so that tables
//! and plots agree.
//!
//! An action may be begun before a core is free for it. So an attempt counts from the moment at which enough of its node's
//! cores are free, at the latest from its first command. Attempts that were given back do not count.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rakuda_proto::journal::Outcome;

use crate::run::{Attempt, Run};
use crate::summary::groups::Groups;

/// Cores of one attempt beyond this are not drawn as lanes of their own.
const LANES_OF_ONE_MAX: u32 = 1024;
/// Lanes of one node that are taken at a time; beyond that, each attempt takes one. Only a journal that was made up has more.
const LANES_TAKEN_MAX: usize = 1 << 22;

/// How an attempt ended, for pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Well.
    Done,
    /// With a failure, for good.
    Failed,
    /// With a failure, and another attempt was to follow.
    Retried,
    /// It was ended because of others, or its node was lost.
    Aborted,
    /// The journal does not tell its end.
    Open,
}

/// One attempt that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its task.
    pub task: u32,
    /// Index into the task's attempts.
    pub attempt: u32,
    /// Where.
    pub node: u32,
    /// The first of its lanes: core slots of its node, counted from 0.
    pub lane: u32,
    /// How many cores it had.
    pub cores: u32,
    /// Its group.
    pub group: u32,
    /// From when on it had them, ns since 1970.
    pub start_ns: i64,
    /// Until when, ns since 1970; of an open one the time of the last event.
    pub end_ns: i64,
    /// How it ended.
    pub ending: Ending,
}

impl Span {
    /// How long it took.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }
}

/// One process: a command, or an action that started none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// From when, ns since 1970.
    pub start_ns: i64,
    /// Until when.
    pub end_ns: i64,
    /// From when on no earlier process of the same attempt ran: what counts for the use of cores.
    pub alone_ns: i64,
    /// Cores of its attempt.
    pub cores: u32,
    /// Where.
    pub node: u32,
    /// Group of its task.
    pub group: u32,
}

/// The attempts that count, by start.
pub fn spans(run: &Run, groups: &Groups) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for task in run.tasks.iter().flatten() {
        for (index, attempt) in task.attempts.iter().enumerate() {
            let number = task.defined.task;
            spans.extend(span(run, attempt, number, index as u32, groups.of_task(number)));
        }
    }
    spans.sort_by_key(|span| (span.start_ns, span.task, span.attempt));
    delay_early_ones(run, &mut spans);
    spans.sort_by_key(|span| (span.start_ns, span.task, span.attempt));
    give_lanes(run, &mut spans);
    spans
}

fn span(run: &Run, attempt: &Attempt, task: u32, index: u32, group: u32) -> Option<Span> {
    let ending = match &attempt.ended {
        None => Ending::Open,
        Some(ended) => match ended.outcome {
            Outcome::GivenBack => return None,
            Outcome::Done => Ending::Done,
            Outcome::Aborted | Outcome::Lost if !ended.retried => Ending::Aborted,
            _ if ended.retried => Ending::Retried,
            _ => Ending::Failed,
        },
    };
    let start_ns = attempt.started.time_ns;
    let end_ns = attempt.ended.as_ref().map_or(run.last_ns, |ended| ended.time_ns).max(start_ns);
    let (node, cores) = (attempt.started.node, attempt.started.cores);
    Some(Span { task, attempt: index, node, lane: 0, cores, group, start_ns, end_ns, ending })
}

fn first_command_ns(run: &Run, span: &Span) -> Option<i64> {
    let task = run.tasks[span.task as usize].as_ref()?;
    let first = *task.attempts[span.attempt as usize].commands.first()?;
    Some(run.commands.get(first as usize)?.as_ref()?.started.time_ns)
}

/// Cores of a node; those that did not say when they joined have as many as the run.
pub fn cores_of(run: &Run, node: u32) -> u32 {
    run.nodes.get(node as usize).map_or(run.started.cores, |node| node.joined.cores).max(1)
}

/// Moves the start of attempts that were begun while their node's cores were all in use.
fn delay_early_ones(run: &Run, spans: &mut [Span]) {
    let mut nodes: Vec<BinaryHeap<Reverse<i64>>> = Vec::new();
    for span in spans {
        let node = span.node as usize;
        while nodes.len() <= node.min(run.nodes.len()) {
            let cores = cores_of(run, nodes.len() as u32);
            nodes.push((0..cores).map(|_| Reverse(i64::MIN)).collect());
        }
        let index = node.min(nodes.len() - 1);
        let free = &mut nodes[index];
        let wanted = (span.cores.max(1) as usize).min(free.len());
        let free_ns = (0..wanted).filter_map(|_| free.pop()).map(|Reverse(ns)| ns).max();
        let latest = first_command_ns(run, span).unwrap_or(span.end_ns).min(span.end_ns);
        span.start_ns = free_ns.unwrap_or(i64::MIN).clamp(span.start_ns, latest.max(span.start_ns));
        free.extend((0..wanted).map(|_| Reverse(span.end_ns)));
    }
}

/// The lanes of one node: the lowest free one is taken first.
#[derive(Debug, Default)]
struct Lanes {
    free: BTreeSet<u32>,
    taken: BinaryHeap<Reverse<(i64, u32)>>,
    count: u32,
}

/// Gives each attempt the lowest lanes that are free at its start. More lanes than cores come up when a caller lends its cores
/// to what it waits for.
fn give_lanes(run: &Run, spans: &mut [Span]) {
    let mut nodes: Vec<Lanes> = Vec::new();
    for span in spans {
        let node = (span.node as usize).min(run.nodes.len());
        if nodes.len() <= node {
            nodes.resize_with(node + 1, Lanes::default);
        }
        span.lane = nodes[node].take(span);
    }
}

impl Lanes {
    /// The first of the lanes for this attempt, which are neighbours.
    fn take(&mut self, span: &Span) -> u32 {
        while let Some(&Reverse((end_ns, lane))) = self.taken.peek()
            && end_ns <= span.start_ns
        {
            self.taken.pop();
            self.free.insert(lane);
        }
        let most = if self.taken.len() < LANES_TAKEN_MAX { LANES_OF_ONE_MAX } else { 1 };
        let wanted = span.cores.clamp(1, most);
        let first = self.neighbours(wanted);
        self.count = self.count.max(first + wanted);
        for lane in first..first + wanted {
            self.free.remove(&lane);
            self.taken.push(Reverse((span.end_ns.max(span.start_ns + 1), lane)));
        }
        first
    }

    /// The lowest free lanes side by side; the last free ones and new ones when there are not enough.
    fn neighbours(&mut self, wanted: u32) -> u32 {
        let (mut first, mut length) = (self.count, 0);
        for &lane in &self.free {
            if length > 0 && lane == first + length {
                length += 1;
            } else {
                (first, length) = (lane, 1);
            }
            if length == wanted {
                return first;
            }
        }
        if length > 0 && first + length == self.count { first } else { self.count }
    }
}

/// All processes of the attempts that count, in no order.
pub fn processes(run: &Run, spans: &[Span]) -> Vec<Process> {
    let mut waits: Vec<(u32, i64, i64)> = run
        .invocations
        .iter()
        .filter_map(|asked| {
            Some((asked.caller?, asked.started_ns, asked.ended_ns.unwrap_or(run.last_ns)))
        })
        .collect();
    waits.sort_unstable();
    let mut processes = Vec::with_capacity(spans.len());
    for span in spans {
        let before = processes.len();
        add_commands(run, span, &mut processes);
        if processes.len() == before {
            add_action(span, &waits, &mut processes);
        }
    }
    processes
}

fn add_commands(run: &Run, span: &Span, processes: &mut Vec<Process>) {
    let Some(task) = &run.tasks[span.task as usize] else { return };
    let mut taken_ns = i64::MIN;
    for &number in &task.attempts[span.attempt as usize].commands {
        let Some(Some(command)) = run.commands.get(number as usize) else { continue };
        let started_ns = command.started.time_ns;
        let (start_ns, end_ns) = match &command.ended {
            Some(ended) => {
                let wall_ns = i64::try_from(ended.wall_ns).unwrap_or(i64::MAX);
                (ended.time_ns.saturating_sub(wall_ns).max(started_ns), ended.time_ns)
            }
            None => (started_ns, span.end_ns.max(started_ns)),
        };
        let alone_ns = start_ns.max(taken_ns).min(end_ns);
        taken_ns = taken_ns.max(end_ns);
        let Span { cores, node, group, .. } = *span;
        processes.push(Process { start_ns, end_ns, alone_ns, cores, node, group });
    }
}

/// An action without commands counts itself, but for the times at which it waited for an invocation of its own.
fn add_action(span: &Span, waits: &[(u32, i64, i64)], processes: &mut Vec<Process>) {
    let Span { cores, node, group, .. } = *span;
    let mut add = |start_ns: i64, end_ns: i64| {
        if start_ns < end_ns {
            processes.push(Process { start_ns, end_ns, alone_ns: start_ns, cores, node, group });
        }
    };
    let mut from_ns = span.start_ns;
    let first = waits.partition_point(|wait| wait.0 < span.task);
    for &(_, start_ns, end_ns) in waits[first..].iter().take_while(|wait| wait.0 == span.task) {
        if end_ns > span.start_ns && start_ns < span.end_ns {
            add(from_ns, start_ns);
            from_ns = from_ns.max(end_ns);
        }
    }
    add(from_ns, span.end_ns);
}
