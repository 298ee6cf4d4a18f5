//! One round: what it is to be, where its workers stand, and what came of it.
//!
//! Times are ns by the hub's clock, but for what gates note, which is by the clock of their node until it is compared.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::clock::Offset;
use super::clocks::Clocks;
use super::margin::{Margins, NodeNow, SEEN_BEFORE_NS, Taken};
use crate::ids::NodeId;
use crate::time::Time;

/// What a round is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundSpec {
    /// Number of commands that begin together, at least 1.
    pub workers: u32,
    /// Timeout for a worker to wait at its gate, from being handed over, ns.
    pub ready_ns_max: u64,
    /// Time from the instant to SIGTERM for workers that have not ended by then, ns.
    pub stop_after_ns: Option<u64>,
    /// No worker waits for another.
    pub is_plain: bool,
}

/// What a worker's gate has noted, ns by the clock of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// It saw the instant.
    pub woke_ns: i64,
    /// It stopped sleeping.
    pub spun_ns: i64,
    /// It went on.
    pub start_ns: i64,
    /// The worker's offset: it was to go on this long after the instant.
    pub offset_ns: i64,
    /// It was to spin before that, as its node has a core for each worker: a worker that still slept then was late.
    pub spins: bool,
    /// The others waited for it, and it has begun with all of them: then it was not late.
    pub has_met: bool,
    /// The processor on which it went on.
    pub cpu: i32,
}

/// Why a round does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The worker's task has ended without a command.
    Left(u32),
    /// The worker's command was over before all were ready.
    EndedEarly(u32),
    /// The worker's command did not come to the gate in time.
    NotReady(u32),
    /// The node of the worker was lost.
    NodeLost(u32, NodeId),
    /// The node did not say what time it is.
    NoClock(NodeId),
    /// The run is stopping, or starts nothing more.
    Stopping,
}

/// How a worker was late, by the clock of its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// It learnt the instant this many ns after it was to begin; below 0: before that, but too late all the same.
    Told(i64),
    /// It slept this many ns beyond that.
    Slept(i64),
}

impl Lateness {
    /// Time after the worker was to begin, ns; below 0: before.
    pub fn by_ns(self) -> i64 {
        let (Self::Told(ns) | Self::Slept(ns)) = self;
        ns
    }
}

/// One worker of a round that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerResult {
    /// Its number.
    pub worker: u32,
    /// Where it ran; `None` if it was never handed over.
    pub node: Option<NodeId>,
    /// When it began, ns after the round's first start; `None` if it did not, or did not say.
    pub start_ns: Option<i64>,
    /// When it was over, likewise.
    pub end_ns: Option<i64>,
    /// How it was late; `None` if it was not.
    pub late: Option<Lateness>,
    /// The processor on which it began; negative: not known.
    pub cpu: i32,
}

/// The clock of a node with workers of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// The node.
    pub node: NodeId,
    /// How far it was ahead at the instant, as was known before the round: the node learnt the instant by this.
    pub before: Option<Offset>,
    /// The same, as is known after the round: starts are compared by this.
    pub after: Option<Offset>,
    /// By the exchange with the shortest round trip: that, and how far the clock is behind by the paper's formula.
    pub best: Option<(i64, i64)>,
    /// How often an exchange contradicted those before it since the instant was decided.
    pub contradictions: u32,
}

/// What came of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundResult {
    /// Why it was given up.
    pub fault: Option<Fault>,
    /// The instant of the round.
    pub t0: Option<Time>,
    /// From the decision to it.
    pub margin_ns: u64,
    /// Last start minus first start, each less the worker's own offset; only when every worker has said when it began.
    pub lag_ns: Option<u64>,
    /// First start minus the instant, each less the worker's own offset; likewise. It can be below 0, by what clocks
    /// are off.
    pub begun_after_ns: Option<i64>,
    /// Last end minus first start; likewise.
    pub span_ns: Option<u64>,
    /// Maximum error between the starts of two workers: the sum of the two largest bounds of clocks.
    pub clock_bound_ns: u64,
    /// Workers that were late.
    pub late: u32,
    /// All workers, by number.
    pub workers: Vec<WorkerResult>,
    /// The clocks of their nodes, by number.
    pub clocks: Vec<NodeClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerState {
    /// Its command has not come.
    Awaited,
    /// It was handed to an agent.
    Prepared(Time),
    /// It waits, or runs.
    Ready,
    /// Its command is over.
    Over,
    /// Its command will not come.
    Left,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    pub state: WorkerState,
    /// Where its command was handed over.
    pub node: Option<NodeId>,
    /// What its gate has noted, and when the hub learnt of it.
    passed: Option<(Passed, Time)>,
    /// When the hub learnt of its end, and how long it had run.
    ended: Option<(Time, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Some worker does not wait yet.
    Gathering,
    /// All wait; some clock was asked. Until when the round waits for it.
    Timing(Time),
    /// All know the instant: when it was decided, and the instant.
    Committed(Time, Time),
    /// It will not begin.
    GivenUp(Fault),
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub spec: RoundSpec,
    pub phase: Phase,
    pub workers: Vec<Worker>,
    /// The stop was sent, or is not wanted.
    pub is_stopped: bool,
    /// What was known of the clocks of its nodes when these learnt the instant.
    pub told: BTreeMap<NodeId, Offset>,
    /// How often exchanges with a node had contradicted one another until then.
    pub contradicted: BTreeMap<NodeId, u32>,
    /// All workers are over; clocks are asked once more. Until when the round waits for them.
    pub closing: Option<Time>,
}

impl Worker {
    pub fn pass(&mut self, now: Time, passed: Passed) {
        self.passed = Some((passed, now));
    }

    pub fn end(&mut self, now: Time, ran_ns: u64) {
        self.state = WorkerState::Over;
        self.ended = Some((now, ran_ns));
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state, WorkerState::Over | WorkerState::Left)
    }
}

impl Round {
    pub fn new(spec: RoundSpec) -> Self {
        let worker = Worker { state: WorkerState::Awaited, node: None, passed: None, ended: None };
        Self {
            spec,
            phase: Phase::Gathering,
            workers: (0..spec.workers).map(|_| worker).collect(),
            is_stopped: spec.stop_after_ns.is_none(),
            told: BTreeMap::new(),
            contradicted: BTreeMap::new(),
            closing: None,
        }
    }

    /// Whether it may still begin, and be given up.
    pub fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Gathering | Phase::Timing(_)) && !self.spec.is_plain
    }

    /// Nodes with workers, each once, in order.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.workers.iter().filter_map(|it| it.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    pub fn has_workers_on(&self, node: NodeId) -> bool {
        self.workers.iter().any(|it| it.node == Some(node))
    }

    pub fn has_running_workers_on(&self, node: NodeId) -> bool {
        self.workers.iter().any(|it| it.node == Some(node) && !it.is_over())
    }

    pub fn t0(&self) -> Option<Time> {
        match self.phase {
            Phase::Committed(_, t0) => Some(t0),
            Phase::Gathering | Phase::Timing(_) | Phase::GivenUp(_) => None,
        }
    }

    pub fn stop_time(&self) -> Option<Time> {
        let after_ns = self.spec.stop_after_ns.filter(|_| !self.is_stopped)?;
        Some(Time(self.t0()?.0.saturating_add(after_ns)))
    }

    /// Workers that do not wait yet, and until when they may.
    pub fn ready_times(&self) -> impl Iterator<Item = (u32, Time)> {
        let gathers = self.phase == Phase::Gathering && !self.spec.is_plain;
        self.workers.iter().zip(0..).filter_map(move |(it, number)| match it.state {
            WorkerState::Prepared(since) if gathers => {
                Some((number, Time(since.0.saturating_add(self.spec.ready_ns_max))))
            }
            _ => None,
        })
    }

    /// Until when clocks are waited for before the instant is decided.
    pub fn timing_until(&self) -> Option<Time> {
        match self.phase {
            Phase::Timing(until) => Some(until),
            Phase::Gathering | Phase::Committed(..) | Phase::GivenUp(_) => None,
        }
    }

    pub fn due(&self) -> Option<Time> {
        let ready = self.ready_times().map(|(_, time)| time).min();
        let others = [self.stop_time(), self.timing_until(), self.closing];
        ready.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// From the decision to the instant.
    pub fn margin_ns(&self, margins: &Margins, clocks: &Clocks) -> u64 {
        margins.of(self.spec.workers, self.nodes().into_iter().map(|node| node_now(node, clocks)))
    }

    /// Hands what it needed to `margins`, for each node all of whose workers have said when they saw the instant.
    pub fn teach(&self, margins: &mut Margins, clocks: &Clocks) {
        let Phase::Committed(decided, t0) = self.phase else { return };
        for (node, told) in &self.told {
            let here = || self.workers.iter().filter(|it| it.node == Some(*node));
            let seen_ns = here().map(|it| Some(it.passed?.0.woke_ns));
            let Some(seen_ns) = seen_ns.reduce(|one, other| Some(one?.max(other?))).flatten()
            else {
                continue;
            };
            // Its clock may show this much less than the node was sent.
            let needed_ns = seen_ns - told.ahead_ns + told.bound_ns - signed(decided);
            let taken = Taken {
                workers: self.spec.workers,
                needed_ns: u64::try_from(needed_ns).unwrap_or(0),
                margin_ns: t0.0 - decided.0,
                is_late: here().any(|it| self.lateness(it).is_some()),
            };
            margins.learn(node_now(*node, clocks), taken);
        }
    }

    /// How far the worker's clock was ahead when it began: as was known before the round, or as is known now.
    fn offset_of(&self, worker: &Worker, clocks: &Clocks, before: bool) -> Option<Offset> {
        let node = worker.node?;
        let moment = self.t0().or_else(|| worker.passed.map(|(_, heard)| heard))?;
        let told = self.told.get(&node).copied();
        let now = || clocks.at(node, signed(moment));
        if before { told.or_else(now) } else { now().or(told) }
    }

    /// When a worker has gone through its gate, ns by the hub's clock, as far as is known yet.
    pub fn started_ns(&self, worker: u32, clocks: &Clocks) -> Option<i64> {
        let worker = self.workers.get(worker as usize)?;
        let (passed, _) = worker.passed?;
        Some(passed.start_ns - self.offset_of(worker, clocks, true)?.ahead_ns)
    }

    /// How the worker was late, by the clock of its own node, in which the node got the instant: errors between clocks
    /// make no worker late.
    fn lateness(&self, worker: &Worker) -> Option<Lateness> {
        let told = self.told.get(&worker.node?)?;
        let (passed, _) = worker.passed?;
        let due_ns = signed(self.t0()?) + told.ahead_ns + passed.offset_ns;
        if passed.woke_ns > due_ns - SEEN_BEFORE_NS.cast_signed() {
            return Some(Lateness::Told(passed.woke_ns - due_ns));
        }
        let overslept = passed.spins && !passed.has_met && passed.spun_ns > due_ns;
        overslept.then_some(Lateness::Slept(passed.spun_ns - due_ns))
    }

    pub fn result(&self, clocks: &Clocks) -> RoundResult {
        let (fault, margin_ns) = match self.phase {
            Phase::Gathering | Phase::Timing(_) => (None, 0),
            Phase::Committed(decided, t0) => (None, t0.0 - decided.0),
            Phase::GivenUp(fault) => (Some(fault), 0),
        };
        // Of each worker: when it began by the hub's clock, and how far it was to begin after the others.
        let start = |it: &Worker| {
            let (passed, _) = it.passed?;
            Some((passed.start_ns - self.offset_of(it, clocks, false)?.ahead_ns, passed.offset_ns))
        };
        let end = |it: &Worker| {
            let (heard, ran_ns) = it.ended?;
            Some(start(it).map_or(signed(heard), |(start_ns, _)| {
                start_ns.saturating_add(i64::try_from(ran_ns).unwrap_or(i64::MAX))
            }))
        };
        let starts: Vec<_> = self.workers.iter().filter_map(start).collect();
        let all_began = starts.len() == self.workers.len();
        let between = |first: Option<i64>, last: Option<i64>| {
            let span = last?.saturating_sub(first?);
            all_began.then(|| u64::try_from(span).unwrap_or(0))
        };
        let due = || starts.iter().map(|(start_ns, offset_ns)| start_ns - offset_ns);
        let first_ns = starts.iter().map(|(start_ns, _)| *start_ns).min();
        let last_ns = self.workers.iter().filter_map(end).max();
        let workers: Vec<WorkerResult> = (0..)
            .zip(&self.workers)
            .map(|(worker, it)| WorkerResult {
                worker,
                node: it.node,
                start_ns: start(it).zip(first_ns).map(|((start_ns, _), first)| start_ns - first),
                end_ns: end(it).zip(first_ns).map(|(end_ns, first)| end_ns - first),
                late: self.lateness(it),
                cpu: it.passed.map_or(-1, |(passed, _)| passed.cpu),
            })
            .collect();
        let clocks = self.node_clocks(clocks);
        RoundResult {
            fault,
            t0: self.t0(),
            margin_ns,
            lag_ns: between(due().min(), due().max()),
            begun_after_ns: due()
                .min()
                .zip(self.t0())
                .filter(|_| all_began)
                .map(|(first, t0)| first - signed(t0)),
            span_ns: between(first_ns, last_ns),
            clock_bound_ns: bound_between(&clocks),
            late: u32::try_from(workers.iter().filter(|it| it.late.is_some()).count())
                .unwrap_or(u32::MAX),
            workers,
            clocks,
        }
    }

    /// What is known of the clock of each node, at the instant or, where there is none, when its workers began.
    fn node_clocks(&self, clocks: &Clocks) -> Vec<NodeClock> {
        let known = |node: NodeId| {
            let worker = self.workers.iter().find(|it| it.node == Some(node))?;
            let best = clocks.best(node);
            let before = self.contradicted.get(&node).copied();
            Some(NodeClock {
                node,
                before: self.told.get(&node).copied(),
                after: self.offset_of(worker, clocks, false),
                best: best.map(|it| (it.round_trip_ns(), it.paper_difference_ns())),
                contradictions: before
                    .map_or(0, |before| clocks.contradictions(node).saturating_sub(before)),
            })
        };
        self.nodes().into_iter().filter_map(known).collect()
    }
}

fn node_now(node: NodeId, clocks: &Clocks) -> NodeNow {
    NodeNow { node, round_trip_ns_max: clocks.round_trip_ns_max(node) }
}

/// What starts on two nodes are off by at most, one against the other. On one node all read one clock.
fn bound_between(clocks: &[NodeClock]) -> u64 {
    let mut bounds: Vec<i64> = clocks.iter().filter_map(|it| Some(it.after?.bound_ns)).collect();
    bounds.sort_unstable();
    match bounds.as_slice() {
        [.., second, first] => u64::try_from(first + second).unwrap_or(0),
        _ => 0,
    }
}

pub(super) fn signed(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
