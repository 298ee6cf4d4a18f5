//! When each attempt used cores, and which; when each process ran. Times are made consistent here once, so that tables
//! and plots agree.
//!
//! `held` says when an attempt had its cores. Attempts that were given back do not count.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rakuda_proto::journal::Outcome;

use crate::run::held::{Held, total_ns};
use crate::run::{Attempt, Run};
use crate::summary::groups::Groups;

/// Maximum number of lanes that the cores of one attempt have.
const LANES_OF_ONE_MAX: u32 = 1024;
/// Maximum number of lanes of one node that are taken at a time. Beyond that, each attempt takes one. Only a journal
/// that was made up has more.
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
    /// Where; of one that has several nodes, where its commands started.
    pub node: u32,
    /// The first lane that it had: core slots of its node, counted from 0.
    pub lane: u32,
    /// How many cores it had, on all of its nodes together.
    pub cores: u32,
    /// Its group.
    pub group: u32,
    /// When it first had them, ns since 1970; of one that never had any the time of its end.
    pub start_ns: i64,
    /// When it last had them, ns since 1970; of an open one the time of the last event.
    pub end_ns: i64,
    /// How long it had them: its run time.
    pub run_ns: i64,
    /// How it ended.
    pub ending: Ending,
}

/// A time in which an attempt had lanes of a node that are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index of the attempt among the spans.
    pub span: u32,
    /// Whose lanes.
    pub node: u32,
    /// The first of the lanes.
    pub lane: u32,
    /// How many.
    pub cores: u32,
    /// From when, ns since 1970.
    pub start_ns: i64,
    /// Until when; the same for an attempt that never had a core.
    pub end_ns: i64,
}

impl Span {
    /// Its run time.
    pub fn duration_ns(&self) -> i64 {
        self.run_ns
    }
}

/// One process: a command, or an action without commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// From when, ns since 1970.
    pub start_ns: i64,
    /// Until when.
    pub end_ns: i64,
    /// Group of its task.
    pub group: u32,
}

/// Cores of a node that are in use by a process: those of its attempt there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Whose.
    pub node: u32,
    /// How many.
    pub cores: u32,
    /// How long the attempt had them while the process ran and no earlier process of the attempt did.
    pub used_ns: i64,
}

impl Use {
    /// Time weighed with the cores, s.
    pub fn core_s(&self) -> f64 {
        self.used_ns as f64 / 1e9 * f64::from(self.cores)
    }
}

/// The attempts that count, by start, and when each had which lanes, by start.
pub fn spans(run: &Run, groups: &Groups) -> (Vec<Span>, Vec<Piece>) {
    let mut spans: Vec<Span> = Vec::new();
    for task in run.tasks.iter().flatten() {
        for (index, attempt) in task.attempts.iter().enumerate() {
            let number = task.defined.task;
            spans.extend(span(run, attempt, number, index as u32, groups.of_task(number)));
        }
    }
    spans.sort_by_key(|span| (span.start_ns, span.task, span.attempt));
    let pieces = give_lanes(run, &mut spans);
    (spans, pieces)
}

fn span(run: &Run, attempt: &Attempt, task: u32, index: u32, group: u32) -> Option<Span> {
    let ending = match &attempt.ended {
        None => Ending::Open,
        Some(_) if !attempt.counts() => return None,
        Some(ended) => match ended.outcome {
            Outcome::Done => Ending::Done,
            Outcome::Aborted | Outcome::Lost if !ended.retried => Ending::Aborted,
            _ if ended.retried => Ending::Retried,
            _ => Ending::Failed,
        },
    };
    let held = attempt.held(run);
    let (start_ns, end_ns) = attempt.span(run, &held);
    let run_ns = i64::try_from(total_ns(&held)).unwrap_or(i64::MAX);
    let (node, cores) = (attempt.started.node, attempt.started.cores_in_all());
    Some(Span {
        task,
        attempt: index,
        node,
        lane: 0,
        cores,
        group,
        start_ns,
        end_ns,
        run_ns,
        ending,
    })
}

fn attempt_of<'a>(run: &'a Run, span: &Span) -> Option<&'a Attempt> {
    run.tasks[span.task as usize].as_ref()?.attempts.get(span.attempt as usize)
}

/// The lanes of one node: the lowest free one is taken first.
#[derive(Debug, Default)]
struct Lanes {
    free: BTreeSet<u32>,
    taken: BinaryHeap<Reverse<(i64, u32)>>,
    count: u32,
}

/// Gives each attempt the lowest lanes that are free while it has cores.
fn give_lanes(run: &Run, spans: &mut [Span]) -> Vec<Piece> {
    let mut times: Vec<(Held, u32, (u32, u32))> = Vec::with_capacity(spans.len());
    for (span, number) in spans.iter().zip(0..) {
        let Some(attempt) = attempt_of(run, span) else { continue };
        let mut held = attempt.held(run);
        if held.is_empty() {
            held.push((span.end_ns, span.end_ns));
        }
        for share in attempt.started.shares() {
            times.extend(held.iter().map(|time| (*time, number, share)));
        }
    }
    let order =
        |(time, number, (node, _)): &(Held, u32, (u32, u32))| (time.0, *number, time.1, *node);
    times.sort_unstable_by_key(order);
    let mut nodes: Vec<Lanes> = Vec::new();
    let mut pieces: Vec<Piece> = Vec::with_capacity(times.len());
    for ((start_ns, end_ns), number, (of_node, cores)) in times {
        let span = &mut spans[number as usize];
        let node = (of_node as usize).min(run.nodes.len());
        if nodes.len() <= node {
            nodes.resize_with(node + 1, Lanes::default);
        }
        let there = run.nodes.get(node).map_or(run.started.cores, |node| node.joined.cores);
        let runs = nodes[node].take(cores, there, (start_ns, end_ns));
        if start_ns == span.start_ns && of_node == span.node {
            span.lane = runs.first().map_or(0, |(lane, _)| *lane);
        }
        let piece =
            |(lane, cores)| Piece { span: number, node: of_node, lane, cores, start_ns, end_ns };
        pieces.extend(runs.into_iter().map(piece));
    }
    pieces
}

impl Lanes {
    /// Lanes for a time: neighbours where the cores that are there have room for that, else the lowest free ones; first
    /// and number of each run of neighbours. What takes no time takes no lane away.
    fn take(&mut self, cores: u32, there: u32, (start_ns, end_ns): Held) -> Vec<(u32, u32)> {
        while let Some(&Reverse((free_ns, lane))) = self.taken.peek()
            && free_ns <= start_ns
        {
            self.taken.pop();
            self.free.insert(lane);
        }
        let most = if self.taken.len() < LANES_TAKEN_MAX { LANES_OF_ONE_MAX } else { 1 };
        let wanted = cores.clamp(1, most.min(there.max(1)));
        if start_ns == end_ns {
            let lane = self.free.first().copied().unwrap_or(0);
            return vec![(lane, 1)];
        }
        let mut missing = wanted.saturating_sub(self.free.len() as u32);
        while missing > 0 && self.count + missing > there.max(1) {
            // More than there are cores: times that overlap by what clocks differ. What ends first gives way.
            let Some(Reverse((_, lane))) = self.taken.pop() else { break };
            self.free.insert(lane);
            missing = wanted.saturating_sub(self.free.len() as u32);
        }
        self.free.extend(self.count..self.count + missing);
        self.count += missing;
        let runs = self.neighbours(wanted).or_else(|| self.add_neighbours(wanted, there));
        let runs = runs.unwrap_or_else(|| self.lowest(wanted));
        for lane in runs.iter().flat_map(|(first, length)| *first..first + length) {
            self.free.remove(&lane);
            self.taken.push(Reverse((end_ns, lane)));
        }
        runs
    }

    /// The lowest free lanes side by side.
    fn neighbours(&self, wanted: u32) -> Option<Vec<(u32, u32)>> {
        let (mut first, mut length) = (0, 0);
        for &lane in &self.free {
            if length > 0 && lane == first + length {
                length += 1;
            } else {
                (first, length) = (lane, 1);
            }
            if length == wanted {
                return Some(vec![(first, wanted)]);
            }
        }
        None
    }

    /// The last free lanes and new ones after them. `None`: `there` lanes are not enough.
    fn add_neighbours(&mut self, wanted: u32, there: u32) -> Option<Vec<(u32, u32)>> {
        let last_free = (0..self.count).rev().take_while(|lane| self.free.contains(lane)).count();
        let end = (self.count - last_free as u32).checked_add(wanted)?;
        if end > there {
            return None;
        }
        self.free.extend(self.count..end);
        self.count = end;
        self.neighbours(wanted)
    }

    fn lowest(&self, wanted: u32) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &lane in self.free.iter().take(wanted as usize) {
            match runs.last_mut() {
                Some((first, length)) if lane == *first + *length => *length += 1,
                _ => runs.push((lane, 1)),
            }
        }
        runs
    }
}

/// All processes of the attempts that count, and the cores that these use, in no order.
pub fn processes(run: &Run, spans: &[Span]) -> (Vec<Process>, Vec<Use>) {
    let mut processes = Vec::with_capacity(spans.len());
    let mut uses = Vec::with_capacity(spans.len());
    for span in spans {
        let Some(attempt) = attempt_of(run, span) else { continue };
        let held = attempt.held(run);
        let mut times = commands(run, span, attempt, &held);
        if times.is_empty() {
            // Its action started none: it counts itself.
            times = held.into_iter().map(|time| (time, time.1 - time.0)).collect();
        }
        for ((start_ns, end_ns), used_ns) in times {
            processes.push(Process { start_ns, end_ns, group: span.group });
            let shares = attempt.started.shares();
            uses.extend(shares.map(|(node, cores)| Use { node, cores, used_ns }));
        }
    }
    (processes, uses)
}

/// When each command of an attempt ran, and how long of this the attempt had its cores and no earlier one ran.
fn commands(run: &Run, span: &Span, attempt: &Attempt, held: &[Held]) -> Vec<(Held, i64)> {
    let mut taken_ns = i64::MIN;
    let mut times = Vec::with_capacity(attempt.commands.len());
    for &number in &attempt.commands {
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
        let common = |(from, to): &Held| ((*to).min(end_ns) - (*from).max(alone_ns)).max(0);
        times.push(((start_ns, end_ns), held.iter().map(common).sum()));
    }
    times
}
