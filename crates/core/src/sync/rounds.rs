//! The rounds of synchronised starts as one machine each: Gathering -> Timing -> Committed -> Closing -> Ended, or
//! GivenUp.
//!
//! The shell reports which command of which worker was handed over where, waits, has begun and is over, and what nodes
//! say of their clocks. The effects say which node to ask for the time, when a round's instant is, which workers are to
//! end, and what came of it. Times are ns by the hub's clock.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::clock::Exchange;
use super::clocks::Clocks;
use super::margin::Margins;
pub use super::round::{Fault, Lateness, NodeClock, Passed, RoundResult, RoundSpec, WorkerResult};
use super::round::{Phase, Round, Worker, WorkerState, signed};
use crate::ids::NodeId;
use crate::time::Time;

/// Timeout for clocks when all workers are ready, ns.
const TIMING_NS_MAX: u64 = 2_000_000_000;
/// Timeout for clocks when all workers are over, ns.
const CLOSING_NS_MAX: u64 = 1_000_000_000;
/// Maximum time beyond the instant that workers wait for others that are not on a processor, ns: some turns of other
/// programs there.
const PATIENCE_NS: u64 = 100_000_000;

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundEffect {
    /// Ask a node for the time: a burst of exchanges, one after the other.
    Measure {
        /// The node.
        node: NodeId,
        /// Number of exchanges.
        exchanges: u32,
    },
    /// Send the agents of the round the instant.
    Commit {
        /// The round.
        round: u32,
        /// The instant.
        t0: Time,
        /// The instant by the clock of each node with workers, ns.
        nodes: Vec<(NodeId, i64)>,
        /// Maximum time beyond it that workers wait for one another, ns; 0: they do not.
        patience_ns: u64,
    },
    /// End the workers that wait or come to wait.
    GiveUp {
        /// The round.
        round: u32,
        /// Why it does not begin.
        fault: Fault,
    },
    /// Send SIGTERM to the workers.
    Stop {
        /// The round.
        round: u32,
    },
    /// All workers are over.
    Ended {
        /// The round.
        round: u32,
        /// What came of it.
        result: RoundResult,
    },
}

/// All rounds that have not ended, the clocks of their nodes, and what former rounds have needed there.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// The rounds that have not ended, by number.
    open: BTreeMap<u32, Round>,
    clocks: Clocks,
    margins: Margins,
}

impl Rounds {
    /// Sets how far the clock of a node is ahead of the hub's, which is known exactly.
    pub fn set_exact_clock(&mut self, node: NodeId, ahead_ns: i64) {
        self.clocks.set_exact(node, ahead_ns);
    }

    /// A round that workers will come to.
    pub fn define(&mut self, id: u32, spec: RoundSpec) {
        let former = self.open.insert(id, Round::new(spec));
        assert!(former.is_none(), "a round is defined once");
    }

    /// Whether a command of this worker may be handed over: the round is known, was not given up, and waits for it.
    pub fn takes(&self, id: u32, worker: u32) -> bool {
        let Some(round) = self.open.get(&id) else { return false };
        let awaited = round.workers.get(worker as usize);
        round.phase == Phase::Gathering
            && awaited.is_some_and(|it| it.state == WorkerState::Awaited)
    }

    /// Why a round was given up.
    pub fn fault(&self, id: u32) -> Option<Fault> {
        match self.open.get(&id)?.phase {
            Phase::GivenUp(fault) => Some(fault),
            Phase::Gathering | Phase::Timing(_) | Phase::Committed(..) => None,
        }
    }

    /// The worker's command was handed to the agent of a node, whose clock is asked for while it comes to its gate.
    pub fn prepared(
        &mut self,
        now: Time,
        id: u32,
        worker: u32,
        node: NodeId,
        out: &mut Vec<RoundEffect>,
    ) {
        let Some(it) = self.worker(id, worker) else { return };
        it.state = WorkerState::Prepared(now);
        it.node = Some(node);
        if !self.clocks.is_fresh(now, node) {
            self.clocks.measure(node, out);
        }
    }

    /// A worker waits at its gate.
    pub fn ready(&mut self, now: Time, id: u32, worker: u32, out: &mut Vec<RoundEffect>) {
        let Some(it) = self.worker(id, worker) else { return };
        if !matches!(it.state, WorkerState::Prepared(_)) {
            return;
        }
        it.state = WorkerState::Ready;
        let Some(round) = self.open.get_mut(&id) else { return };
        let all_ready = round.workers.iter().all(|it| it.state == WorkerState::Ready);
        if all_ready && round.phase == Phase::Gathering && !round.spec.is_plain {
            round.phase = Phase::Timing(Time(now.0.saturating_add(TIMING_NS_MAX)));
            for node in round.nodes() {
                if !self.clocks.is_fresh(now, node) {
                    self.clocks.measure(node, out);
                }
            }
            self.commit_if_timed(now, id, out);
        }
    }

    /// What is known of clocks.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Asks a node for the time, for others than rounds.
    pub fn measure_clock(&mut self, node: NodeId, out: &mut Vec<RoundEffect>) {
        self.clocks.measure(node, out);
    }

    /// A node has answered with its time.
    pub fn exchanged(
        &mut self,
        now: Time,
        node: NodeId,
        exchange: Exchange,
        out: &mut Vec<RoundEffect>,
    ) {
        self.clocks.exchanged(now, node, exchange);
        if self.clocks.is_asked(node) {
            return;
        }
        for id in self.with_workers_on(node) {
            self.commit_if_timed(now, id, out);
            self.close_if_timed(id, out);
        }
    }

    /// A node is gone, with its workers and its clock.
    pub fn node_lost(&mut self, now: Time, node: NodeId, out: &mut Vec<RoundEffect>) {
        self.clocks.lose(node);
        self.margins.lose(node);
        for id in self.with_workers_on(node) {
            let Some(round) = self.open.get_mut(&id) else { continue };
            let mut first = None;
            for (it, worker) in round.workers.iter_mut().zip(0..) {
                if it.node == Some(node) && !it.is_over() {
                    it.state = WorkerState::Over;
                    first = first.or(Some(worker));
                }
            }
            if let Some(worker) = first {
                self.give_up(id, Fault::NodeLost(worker, node), out);
                self.end_if_over(now, id, out);
            }
            self.close_if_timed(id, out);
        }
    }

    /// A worker has gone through its gate.
    pub fn passed(&mut self, now: Time, id: u32, worker: u32, passed: Passed) {
        if let Some(it) = self.worker(id, worker) {
            it.pass(now, passed);
        }
    }

    /// The command of a worker is over, and has run this long since its gate.
    pub fn over(
        &mut self,
        now: Time,
        id: u32,
        worker: u32,
        ran_ns: u64,
        out: &mut Vec<RoundEffect>,
    ) {
        let Some(it) = self.worker(id, worker) else { return };
        it.end(now, ran_ns);
        self.give_up(id, Fault::EndedEarly(worker), out);
        self.end_if_over(now, id, out);
    }

    /// No command of a worker will come.
    pub fn left(&mut self, now: Time, id: u32, worker: u32, out: &mut Vec<RoundEffect>) {
        let Some(it) = self.worker(id, worker) else { return };
        if it.state != WorkerState::Awaited {
            return;
        }
        it.state = WorkerState::Left;
        self.give_up(id, Fault::Left(worker), out);
        self.end_if_over(now, id, out);
    }

    /// Nothing more is started: rounds whose workers have not all come never begin.
    pub fn stop(&mut self, now: Time, out: &mut Vec<RoundEffect>) {
        let lacks = |round: &Round| round.workers.iter().any(|it| it.state == WorkerState::Awaited);
        let lacking = self.open.iter().filter(|(_, round)| lacks(round));
        let ids: Vec<u32> = lacking.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(round) = self.open.get_mut(&id) {
                let awaited =
                    round.workers.iter_mut().filter(|it| it.state == WorkerState::Awaited);
                awaited.for_each(|it| it.state = WorkerState::Left);
            }
            self.give_up(id, Fault::Stopping, out);
            self.end_if_over(now, id, out);
        }
    }

    /// When [`Self::tick`] is to be called next.
    pub fn due(&self) -> Option<Time> {
        self.open.values().filter_map(Round::due).min()
    }

    /// Does what is due now.
    pub fn tick(&mut self, now: Time, out: &mut Vec<RoundEffect>) {
        let ids: Vec<u32> = self.open.keys().copied().collect();
        for id in ids {
            let Some(round) = self.open.get_mut(&id) else { continue };
            if round.stop_time().is_some_and(|time| time <= now) {
                round.is_stopped = true;
                out.push(RoundEffect::Stop { round: id });
            }
            let overdue = round.ready_times().find(|(_, time)| *time <= now);
            if round.closing.is_some_and(|time| time <= now) {
                self.end(id, out);
            } else if round.timing_until().is_some_and(|time| time <= now) {
                self.commit(now, id, out);
            } else if let Some((worker, _)) = overdue {
                self.give_up(id, Fault::NotReady(worker), out);
            }
        }
    }

    /// Whether all of a round is over, and clocks alone are waited for.
    pub fn is_closing(&self) -> bool {
        self.open.values().any(|round| round.closing.is_some())
    }

    /// When a worker has gone through its gate, ns by the hub's clock.
    pub fn started_ns(&self, id: u32, worker: u32) -> Option<i64> {
        self.open.get(&id)?.started_ns(worker, &self.clocks)
    }

    /// Where the command of a worker was handed over.
    pub fn node_of(&self, id: u32, worker: u32) -> Option<NodeId> {
        self.open.get(&id)?.workers.get(worker as usize)?.node
    }

    /// Whether a command of the round was handed to that node and is not over.
    pub fn has_running_workers_on(&self, id: u32, node: NodeId) -> bool {
        self.open.get(&id).is_some_and(|round| round.has_running_workers_on(node))
    }

    /// Whether a round has not ended.
    pub fn is_known(&self, id: u32) -> bool {
        self.open.contains_key(&id)
    }

    /// Whether the workers of a round were stopped by its own time.
    pub fn was_stopped(&self, id: u32) -> bool {
        self.open
            .get(&id)
            .is_some_and(|round| round.is_stopped && round.spec.stop_after_ns.is_some())
    }

    fn worker(&mut self, id: u32, worker: u32) -> Option<&mut Worker> {
        self.open.get_mut(&id)?.workers.get_mut(worker as usize)
    }

    fn with_workers_on(&self, node: NodeId) -> Vec<u32> {
        self.open
            .iter()
            .filter(|(_, round)| round.has_workers_on(node))
            .map(|(id, _)| *id)
            .collect()
    }

    fn is_any_asked(&self, id: u32) -> bool {
        let nodes = self.open.get(&id).map(Round::nodes).unwrap_or_default();
        nodes.into_iter().any(|node| self.clocks.is_asked(node))
    }

    /// Commits a round once its clocks are known. It does not wait for a burst that an earlier round began where the
    /// clock is known well enough without.
    fn commit_if_timed(&mut self, now: Time, id: u32, out: &mut Vec<RoundEffect>) {
        let Some(round) = self.open.get(&id) else { return };
        let mut nodes = round.nodes().into_iter();
        if matches!(round.phase, Phase::Timing(_))
            && nodes.all(|node| !self.clocks.is_asked(node) || self.clocks.is_fresh(now, node))
        {
            self.commit(now, id, out);
        }
    }

    /// Decides the instant with what is known of the clocks.
    fn commit(&mut self, now: Time, id: u32, out: &mut Vec<RoundEffect>) {
        let Some(round) = self.open.get_mut(&id) else { return };
        let t0 = Time(now.0 + round.margin_ns(&self.margins, &self.clocks));
        let mut nodes = Vec::new();
        for node in round.nodes() {
            let Some(offset) = self.clocks.at(node, signed(t0)) else {
                return self.give_up(id, Fault::NoClock(node), out);
            };
            round.told.insert(node, offset);
            round.contradicted.insert(node, self.clocks.contradictions(node));
            nodes.push((node, signed(t0) + offset.ahead_ns));
        }
        round.phase = Phase::Committed(now, t0);
        // Workers elsewhere would not wait for them.
        let patience_ns = if nodes.len() == 1 { PATIENCE_NS } else { 0 };
        out.push(RoundEffect::Commit { round: id, t0, nodes, patience_ns });
    }

    /// Gives up a round, unless it has begun; one in which no worker waits need not be given up.
    fn give_up(&mut self, id: u32, fault: Fault, out: &mut Vec<RoundEffect>) {
        let Some(round) = self.open.get_mut(&id) else { return };
        if round.is_pending() {
            round.phase = Phase::GivenUp(fault);
            out.push(RoundEffect::GiveUp { round: id, fault });
        }
    }

    /// When all are over the clocks are asked once more, so that they are known on both sides of the round.
    fn end_if_over(&mut self, now: Time, id: u32, out: &mut Vec<RoundEffect>) {
        let Some(round) = self.open.get_mut(&id) else { return };
        if round.closing.is_some() || !round.workers.iter().all(Worker::is_over) {
            return;
        }
        if matches!(round.phase, Phase::GivenUp(_)) {
            return self.end(id, out);
        }
        round.teach(&mut self.margins, &self.clocks);
        round.closing = Some(Time(now.0.saturating_add(CLOSING_NS_MAX)));
        for node in round.nodes() {
            // A lost node says no more.
            if self.clocks.at(node, signed(now)).is_some() {
                self.clocks.measure(node, out);
            }
        }
        self.close_if_timed(id, out);
    }

    fn close_if_timed(&mut self, id: u32, out: &mut Vec<RoundEffect>) {
        let is_closing = self.open.get(&id).is_some_and(|round| round.closing.is_some());
        if is_closing && !self.is_any_asked(id) {
            self.end(id, out);
        }
    }

    fn end(&mut self, id: u32, out: &mut Vec<RoundEffect>) {
        if let Some(round) = self.open.remove(&id) {
            out.push(RoundEffect::Ended { round: id, result: round.result(&self.clocks) });
        }
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod node_tests;
#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
