//! Rounds of synchronised starts: what front and agents report of them goes to the core's machine, and what that wants
//! is done here (docs/design/synchronised-start.md). It only decides which task may have a round at all.

pub(crate) mod state;

use std::collections::{BTreeMap, BTreeSet};

use rakuda_agent::clock;
use rakuda_cluster::LOCAL_NODE;
use rakuda_core::sync::clock::{Exchange, Offset};
use rakuda_core::sync::rounds::{
    Fault, NodeClock, Passed, RoundEffect, RoundResult, RoundSpec, Rounds,
};
use rakuda_core::{Input, NodeId, TaskId, Time};
use rakuda_link::time::ClockExchange;
use rakuda_proto::Text;
use rakuda_proto::agent::{AgentRequest, CommandId, GateStamps, RoundStop};
use rakuda_proto::front::{
    CommandOptions, GateChoice, GateKind, HubMessage, RoundDefinition, RoundKind, Usage,
};
use rakuda_proto::journal::{CommandPrepared, JournalEvent, RoundClock, RoundEnded};

use crate::hub::Hub;
use crate::record::CommandStart;
use crate::round_remarks::{self, Remark};
use state::{ClockOfNode, OUTPUT_BYTES_MAX, Round, SyncRounds, clock_ahead_ns};

/// Interval between questions about the clock of a node whose values are wanted, ns.
const CLOCK_PERIOD_NS: u64 = 10_000_000_000;

/// Time that agents get to end workers that are to stop, beyond the grace period, ms; then the hub sends SIGTERM.
const STOP_FALLBACK_MS: u64 = 1000;

/// Time before the instant at which workers stop sleeping, ns.
const SPIN_NS: i64 = 100_000;

/// Wait status of a command that is not started, or is ended, as its round does not begin: as of a gate (75).
const NOT_BEGUN_STATUS: i32 = 75 << 8;

impl Hub {
    /// Defines a round that the front is about to begin.
    pub(crate) fn define_round(&mut self, id: u32, definition: RoundDefinition) {
        let name = definition.sync.to_display();
        let slots = self.settings.capacity.cores;
        let workers = definition.workers;
        let is_short = self.settings.cluster.is_none() && workers > slots;
        if is_short && !self.settings.oversubscribe {
            self.refuse_needs(&format!(
                "sync {name}: {workers} workers begin together, and there are {slots} slots: run it with -j {workers}, \
                 with fewer workers, or let them share slots (--oversubscribe)"
            ));
        }
        let round = Round {
            is_plain: definition.hold == GateChoice::None,
            gates: BTreeMap::new(),
            caches: BTreeMap::new(),
            offsets_ns: BTreeMap::new(),
            oversubscribed: false,
            failed: 0,
            outlived: 0,
            set_clocks_ns: BTreeMap::new(),
            trouble: None,
            why: None,
            definition,
        };
        let definition = &round.definition;
        self.sync.core.define(
            id,
            RoundSpec {
                workers,
                ready_ns_max: u64::from(definition.ready_ms) * 1_000_000,
                stop_after_ns: definition.stop_ms.map(|ms| {
                    (u64::from(ms) + self.settings.grace_ms + STOP_FALLBACK_MS) * 1_000_000
                }),
                is_plain: round.is_plain,
            },
        );
        self.sync.rounds.insert(id, round);
    }

    /// No command of this worker will come.
    pub(crate) fn leave_round(&mut self, id: u32, worker: u32) {
        self.tell_rounds(|core, now, out| core.left(now, id, worker, out));
    }

    /// A command will not be handed over: if it was that of a worker, no other comes of it.
    pub(crate) fn leave_round_of(&mut self, options: Option<&CommandOptions>) {
        if let Some(gate) = options.and_then(|options| options.gate.as_ref()) {
            self.leave_round(gate.round, gate.worker);
        }
    }

    /// Prepares a command of a round for the agent of a node; false: it is not handed over, and the front knows its
    /// end.
    pub(crate) fn prepare_worker(
        &mut self,
        command: CommandId,
        task: Option<TaskId>,
        node: NodeId,
        options: &mut CommandOptions,
    ) -> bool {
        let Some(gate) = &mut options.gate else { return true };
        let (id, worker) = (gate.round, gate.worker);
        if !self.sync.core.takes(id, worker) {
            let why = match self.sync.rounds.get(&id) {
                Some(Round { why: Some(why), .. }) => why.clone(),
                Some(_) => "this worker has had its command of the round".to_owned(),
                None => "the round is over".to_owned(),
            };
            if let Some(task) = task {
                self.sync.faults.insert(task, Text::from(why.clone()));
            }
            self.end_unstarted(command, NOT_BEGUN_STATUS, Text::from(why));
            self.leave_round(id, worker);
            return false;
        }
        let Some(round) = self.sync.rounds.get_mut(&id) else { return true };
        let gang = task.and_then(|task| self.run.scheduler().gang_of(task));
        round.oversubscribed |= gang.is_some_and(|gang| gang.oversubscribed);
        gate.hold = round.definition.hold;
        // A worker with more cores has them for its threads.
        let cores = task.and_then(|task| self.run.scheduler().cores_held(task, node));
        gate.pin = round.definition.pin && cores.is_none_or(|cores| cores <= 1);
        round.offsets_ns.insert(worker, gate.offset_ns);
        if !round.definition.collect.is_empty() {
            self.sync.outputs.insert(command, Vec::new());
        }
        self.sync.commands.insert(command, (id, worker));
        self.tell_rounds(|core, now, out| core.prepared(now, id, worker, node, out));
        let time_ns = self.now.journal_ns();
        let task = task.map(|id| id.0);
        let event = CommandPrepared { time_ns, command: command.0, task, round: id, worker };
        self.record.round(&JournalEvent::CommandPrepared(event));
        true
    }

    pub(crate) fn on_command_ready(&mut self, command: CommandId) {
        let Some((id, worker)) = self.sync.commands.get(&command).copied() else { return };
        self.tell_rounds(|core, now, out| core.ready(now, id, worker, out));
    }

    pub(crate) fn on_command_passed(
        &mut self,
        command: CommandId,
        gate: GateKind,
        stamps: &GateStamps,
    ) {
        let Some((id, worker)) = self.sync.commands.get(&command).copied() else { return };
        let Some(round) = self.sync.rounds.get_mut(&id) else { return };
        round.gates.insert(worker, gate);
        round.caches.extend(stamps.cache.map(|cache| (worker, cache)));
        let passed = Passed {
            woke_ns: stamps.woke_ns,
            spun_ns: stamps.spun_ns,
            start_ns: stamps.start_ns,
            offset_ns: round.offsets_ns.get(&worker).copied().unwrap_or(0),
            spins: stamps.spins,
            has_met: stamps.has_met,
            cpu: stamps.cpu,
        };
        self.sync.core.passed(self.now.time, id, worker, passed);
        let started_ns = self.sync.core.started_ns(id, worker);
        let started_ns = started_ns.unwrap_or_else(|| self.now.journal_ns());
        if let Some(running) = self.commands.get(&command) {
            self.record.command_started(&CommandStart {
                time_ns: started_ns,
                command: command.0,
                task: running.task,
                program: &running.program,
                env: running.env.as_deref(),
                directory: running.directory.as_ref(),
            });
        }
    }

    /// Notes that a command is over. Changes its status and reason, where its round is the cause.
    pub(crate) fn on_worker_exited(
        &mut self,
        command: CommandId,
        status: &mut i32,
        error: &mut Option<Text>,
        usage: &Usage,
        is_outlived: bool,
    ) {
        let Some((id, worker)) = self.sync.commands.remove(&command) else { return };
        self.tell_output(command, id, worker);
        if *status == libc::SIGTERM && self.sync.core.was_stopped(id) {
            // At the time that was set for all, but not by its agent.
            *status = 0;
        }
        if let Some(round) = self.sync.rounds.get_mut(&id) {
            round.failed += u32::from(*status != 0);
            round.outlived += u32::from(is_outlived);
            round.trouble.clone_from(error);
        }
        let ran_ns = usage.wall_ns;
        self.tell_rounds(|core, now, out| core.over(now, id, worker, ran_ns, out));
        let Some(Round { why: Some(why), .. }) = self.sync.rounds.get(&id) else { return };
        let why = Text::from(why.clone());
        if error.is_none()
            && (*status == 0 || *status == libc::SIGKILL || *status == NOT_BEGUN_STATUS)
        {
            *error = Some(why.clone());
            *status = NOT_BEGUN_STATUS;
        }
        if let Some(task) = self.commands.get(&command).and_then(|running| running.task) {
            self.sync.faults.insert(task, why);
        }
    }

    /// The wall clock of a node elsewhere was set while it had workers of rounds. The agent says so before it says that
    /// a worker is over. A round whose workers are over may still wait for clocks: nothing was set during it.
    pub(crate) fn on_clock_set(&mut self, node: NodeId, by_ns: i64) {
        if node == LOCAL_NODE {
            // That is noticed here without rounds, too.
            return;
        }
        let SyncRounds { core, rounds, .. } = &mut self.sync;
        for (_, round) in
            rounds.iter_mut().filter(|(id, _)| core.has_running_workers_on(**id, node))
        {
            let set_ns = round.set_clocks_ns.entry(node).or_default();
            *set_ns = set_ns.saturating_add(by_ns);
        }
        self.warn_of_set_clock(node, by_ns);
    }

    pub(crate) fn warn_of_set_clock(&mut self, node: NodeId, by_ns: i64) {
        let whose = match node {
            LOCAL_NODE => "this machine".to_owned(),
            _ => format!("node {}", self.agents.node(node).name.to_display()),
        };
        self.warn(&round_remarks::set_clock_words(&whose, by_ns));
    }

    /// Sends the front what a worker has printed, to look for figures in it.
    fn tell_output(&mut self, command: CommandId, round: u32, worker: u32) {
        let Some(mut bytes) = self.sync.outputs.remove(&command) else { return };
        if !self.goodbye {
            bytes.drain(..bytes.len().saturating_sub(OUTPUT_BYTES_MAX));
            self.link.push(&HubMessage::WorkerOutput(round, worker, Text(bytes)));
        }
    }

    /// A node elsewhere has said what time it is there.
    pub(crate) fn on_exchange(&mut self, node: NodeId, exchange: ClockExchange) {
        let here = |machine_ns| clock::journal_clock().at(machine_ns);
        let exchange = Exchange {
            sent_ns: here(exchange.sent_ns),
            there_received_ns: exchange.there_received_ns,
            there_sent_ns: exchange.there_sent_ns,
            received_ns: here(exchange.received_ns),
        };
        self.tell_rounds(|core, now, out| core.exchanged(now, node, exchange, out));
        let trip_ns = self.sync.core.clocks().best(node).map(Exchange::round_trip_ns);
        if let Some(trip_ns) = trip_ns.and_then(|ns| u64::try_from(ns).ok()) {
            self.tell(Input::TripMeasured { node, trip_ns });
        }
        if !self.sync.core.clocks().is_asked(node) {
            self.choosing.touch(node);
        }
    }

    /// How far away a node is, and its clock.
    pub(crate) fn clock_of_node(&self, node: NodeId) -> Option<ClockOfNode> {
        let here_ns = i64::try_from(self.now.time.0).unwrap_or(i64::MAX);
        let offset = self.sync.core.clocks().at(node, here_ns)?;
        let ahead_ns = offset.ahead_ns - clock_ahead_ns();
        let best = self.sync.core.clocks().best(node);
        let round_trip_ns = best.map_or(0, Exchange::round_trip_ns);
        Some(ClockOfNode { offset: Offset { ahead_ns, ..offset }, round_trip_ns })
    }

    /// Asks how far away a node is: that decides whether commands go there before they may run.
    pub(crate) fn ask_trip(&mut self, node: NodeId) {
        if node != LOCAL_NODE {
            self.tell_rounds(|core, _, out| core.measure_clock(node, out));
        }
    }

    /// Asks for a node's clock now and then, while values of it are wanted.
    pub(crate) fn ask_clock(&mut self, node: NodeId) {
        let is_known = self.sync.core.clocks().is_asked(node)
            || self.sync.core.clocks().is_known_since(node, self.now.time, CLOCK_PERIOD_NS);
        if !is_known {
            self.tell_rounds(|core, _, out| core.measure_clock(node, out));
        }
    }

    /// A node is gone, and the workers there with it: rounds that wait for them do not begin.
    pub(crate) fn lose_workers(&mut self, node: NodeId) {
        let Hub { sync, commands, .. } = self;
        let is_there =
            |command: &&CommandId| commands.get(command).is_some_and(|it| it.node == node);
        let lost: Vec<CommandId> = sync.commands.keys().filter(is_there).copied().collect();
        for command in lost {
            sync.outputs.remove(&command);
            let round = sync.commands.remove(&command).map(|(round, _)| round);
            if let Some(round) = round.and_then(|round| sync.rounds.get_mut(&round)) {
                round.failed += 1;
            }
        }
        self.tell_rounds(|core, now, out| core.node_lost(now, node, out));
    }

    /// What is due, and what follows when nothing more is started.
    pub(crate) fn check_rounds(&mut self) {
        if self.sync.rounds.is_empty() {
            return;
        }
        if self.run.stopping().is_stopping() || self.run.scheduler().starts_nothing_more() {
            self.tell_rounds(Rounds::stop);
        }
        self.tell_rounds(Rounds::tick);
        // Workers whose end the front knows.
        let SyncRounds { core, rounds, .. } = &mut self.sync;
        rounds.retain(|id, _| core.is_known(*id));
    }

    fn tell_rounds(&mut self, tell: impl FnOnce(&mut Rounds, Time, &mut Vec<RoundEffect>)) {
        let mut effects = Vec::new();
        tell(&mut self.sync.core, self.now.time, &mut effects);
        for effect in effects {
            match effect {
                RoundEffect::Measure { node, exchanges } => {
                    self.agents.node(node).port.ask_time(exchanges);
                }
                RoundEffect::Commit { round, nodes, patience_ns, .. } => {
                    self.commit_round(round, nodes, patience_ns);
                }
                RoundEffect::GiveUp { round, fault } => self.give_up_round(round, fault),
                RoundEffect::Stop { round } => self.signal_round(round, libc::SIGTERM),
                RoundEffect::Ended { round, result } => self.end_round(round, &result),
            }
        }
    }

    /// Sends each node the instant by its own clock.
    fn commit_round(&mut self, round: u32, nodes: Vec<(NodeId, i64)>, patience_ns: u64) {
        let stop_ms = self.sync.rounds.get(&round).and_then(|round| round.definition.stop_ms);
        let stop = stop_ms.map(|ms| RoundStop {
            after_ns: u64::from(ms) * 1_000_000,
            grace_ns: self.settings.grace_ms * 1_000_000,
        });
        let patience_ns = i64::try_from(patience_ns).unwrap_or(0);
        for (node, t0_ns) in nodes {
            let request =
                AgentRequest::CommitRound { round, t0_ns, spin_ns: SPIN_NS, patience_ns, stop };
            self.requests.push((Some(node), request));
        }
    }

    /// Where a worker is, for people; empty if there is one machine.
    fn place_of_worker(&self, node: Option<NodeId>) -> String {
        let node = node.filter(|_| self.settings.elsewhere);
        node.map_or(String::new(), |node| {
            format!(" on node {}", self.agents.node(node).name.to_display())
        })
    }

    fn give_up_round(&mut self, id: u32, fault: Fault) {
        self.signal_round(id, libc::SIGKILL);
        let name = |node: NodeId| self.agents.node(node).name.to_display();
        let places = match fault {
            Fault::EndedEarly(worker) | Fault::NotReady(worker) => {
                self.place_of_worker(self.sync.core.node_of(id, worker))
            }
            _ => String::new(),
        };
        let Some(round) = self.sync.rounds.get_mut(&id) else { return };
        let RoundDefinition { sync, number, ready_ms, .. } = &round.definition;
        let what = match fault {
            Fault::Left(worker) => {
                format!("worker {worker} ended without a command that the engine starts (sh)")
            }
            Fault::EndedEarly(worker) => {
                let why = round.trouble.as_ref().map(|why| format!(": {}", why.to_display()));
                format!(
                    "the command of worker {worker}{places} was over before all workers were ready{}",
                    why.unwrap_or_default()
                )
            }
            Fault::NotReady(worker) => format!(
                "the command of worker {worker}{places} did not come to its gate within {} s: a program that calls the gate itself has to do so in time (ready_within:)",
                f64::from(*ready_ms) / 1000.0
            ),
            Fault::NodeLost(worker, node) => {
                format!("node {} was lost, where worker {worker} was to begin", name(node))
            }
            Fault::NoClock(node) => {
                format!("node {} did not say what time it is there", name(node))
            }
            Fault::Stopping => "the run starts nothing more".to_owned(),
        };
        let why = format!("sync {}: round {number} did not begin: {what}", sync.to_display());
        round.why = Some(why.clone());
        if fault != Fault::Stopping {
            self.warn(&why);
        }
    }

    fn signal_round(&mut self, id: u32, signal: i32) {
        let commands = self.sync.commands.iter().filter(|(_, (round, _))| *round == id);
        let commands: Vec<CommandId> = commands.map(|(command, _)| *command).collect();
        for command in commands {
            self.signal(command, signal);
        }
    }

    fn end_round(&mut self, id: u32, result: &RoundResult) {
        let Some(round) = self.sync.rounds.get(&id) else { return };
        let definition = &round.definition;
        let mut gates: Vec<_> = round.gates.values().map(|gate| gate.word().to_owned()).collect();
        gates.sort_unstable();
        gates.dedup();
        let event = RoundEnded {
            time_ns: self.now.journal_ns(),
            round: id,
            sync: definition.sync.clone(),
            number: definition.number,
            parameter: definition.parameter.clone(),
            kind: definition.kind.word().to_owned(),
            repeat: definition.repeat,
            workers: definition.workers,
            gate: gates.join("+"),
            t0_ns: result.t0.and_then(|t0| i64::try_from(t0.0).ok()),
            margin_ns: result.margin_ns,
            lag_ns: result.lag_ns,
            begun_after_ns: result.begun_after_ns,
            span_ns: result.span_ns,
            clock_bound_ns: result.clock_bound_ns,
            late: result.late,
            failed: round.failed,
            outlived: round.outlived,
            fault: round.why.clone().map(Text::from),
            starts_ns: result.workers.iter().map(|worker| worker.start_ns).collect(),
            ends_ns: result.workers.iter().map(|worker| worker.end_ns).collect(),
            processors: result.workers.iter().map(|worker| worker.cpu).collect(),
            nodes: result.workers.iter().map(|worker| worker.node.map(|node| node.0)).collect(),
            clocks: result.clocks.iter().filter_map(|clock| self.clock_of(clock, round)).collect(),
            cache: round.cache(),
            oversubscribed: round.oversubscribed,
            collect: definition.collect.clone(),
        };
        self.record.round(&JournalEvent::RoundEnded(event));
        self.remark_on_round(id, result);
        if !self.goodbye {
            self.link.push(&HubMessage::RoundEnded(id, result.late, result.fault.is_some()));
        }
        let nodes = result.workers.iter().filter_map(|worker| worker.node);
        for node in nodes.collect::<BTreeSet<_>>() {
            self.requests.push((Some(node), AgentRequest::CloseRound { round: id }));
        }
    }

    /// Remarks on a round that began, while the run goes on.
    fn remark_on_round(&mut self, id: u32, result: &RoundResult) {
        let Some(round) = self.sync.rounds.get(&id).filter(|round| round.why.is_none()) else {
            return;
        };
        let RoundDefinition { sync, number, workers, kind, .. } = &round.definition;
        let sync = sync.to_display();
        let what = match kind {
            RoundKind::Null => " of programs that do nothing",
            RoundKind::Counted | RoundKind::WarmUp => "",
        };
        let head = format!("sync {sync}: round {number}{what}: ");
        let late = result.workers.iter().filter_map(|it| Some((it, it.late?)));
        let mut lines = Vec::new();
        if let Some((it, lateness)) = late.max_by_key(|(_, lateness)| lateness.by_ns()) {
            let place = self.place_of_worker(it.node);
            let latest = (it.worker, lateness);
            let words = round_remarks::late_words(*workers, result.late, latest, &place);
            lines.push((Remark::Late, words));
        }
        if round.outlived > 0 {
            let words = round_remarks::outlived_words(*workers, round.outlived);
            lines.push((Remark::Outlived, words));
        }
        for (remark, words) in lines {
            if let Some(count) = self.sync.remarks.count(&sync, remark) {
                self.warn(&format!("{head}{words}{}", round_remarks::count_words(count)));
            }
        }
    }

    /// A clock elsewhere against the kernel's here; `None` if it is that.
    fn clock_of(&self, clock: &NodeClock, round: &Round) -> Option<RoundClock> {
        let (round_trip_ns, paper_ns) = clock.best?;
        let here_ns = clock_ahead_ns();
        let bound = |ns: i64| u64::try_from(ns).ok();
        Some(RoundClock {
            node: clock.node.0,
            name: self.agents.node(clock.node).name.clone(),
            before_ns: clock.before.map(|it| it.ahead_ns - here_ns),
            before_bound_ns: clock.before.and_then(|it| bound(it.bound_ns)),
            ahead_ns: clock.after.map(|it| it.ahead_ns - here_ns),
            bound_ns: clock.after.and_then(|it| bound(it.bound_ns)),
            round_trip_ns: bound(round_trip_ns),
            paper_ns: Some(paper_ns + here_ns),
            contradictions: clock.contradictions,
            wall_set_ns: round.set_clocks_ns.get(&clock.node).copied().unwrap_or(0),
        })
    }
}
