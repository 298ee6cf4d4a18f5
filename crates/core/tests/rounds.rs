//! Rounds of synchronised starts over virtual links, one life from each seed: links are cut and resumed, agents die or
//! stall, a leader or the hub dies, clocks are stepped, programs end early or never come to their gate. No worker goes
//! through its gate twice, or without all others being there; none stays at a gate; every round ends, and says what
//! came of it in truth; what a fault does not concern goes on.
//!
//! The agents here do what `crates/agent/src/gate.rs` does, and the hub what `crates/hub/src/sync.rs` does.
//! `PROPTEST_CASES=400000 cargo test --release -p rakuda-core --test rounds` lives so many lives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::test_runner::Config as RunnerConfig;
use rakuda_core::sync::clock::Exchange;
use rakuda_core::sync::rounds::{Fault, Passed, RoundEffect, RoundResult, RoundSpec, Rounds};
use rakuda_core::{NodeId, Time};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// A link that is cut for longer is given up by the hub; by the agent a little before or after that.
const CUT_NS_MAX: u64 = 8 * SECOND;
const READY_NS_MAX: u64 = 3 * SECOND;
/// Workers stop sleeping so long before the instant.
const SPIN_NS: u64 = 100 * US;
/// Maximum number of events of a life: more of them are a loop.
const EVENTS_MAX: usize = 200_000;

/// A small generator, so that one number decides a life.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % bound.max(1)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn number(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }

    fn signed(&mut self, most: u64) -> i64 {
        i64::try_from(self.below(2 * most)).unwrap() - i64::try_from(most).unwrap()
    }
}

/// What a worker's program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// Comes to its gate after so long, and runs for so long.
    Runs(u64, u64),
    /// Ends before its gate.
    EndsEarly(u64),
    /// Never comes to its gate.
    Hangs,
}

/// What the hub and an agent say to one another.
#[derive(Clone, Copy, Debug)]
enum Message {
    Start(Command, Program),
    Commit(u32, i64),
    Kill(Command),
    Close(u32),
    AskTime(u64),
    Ready(Command),
    Passed(Command, Passed),
    Exited(Command, u64),
    TellTime(u64, i64),
}

impl Message {
    /// Of the time lane: nothing of that is sent again.
    fn is_of_time(self) -> bool {
        matches!(self, Message::AskTime(_) | Message::TellTime(..))
    }
}

/// A worker of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Command {
    round: u32,
    worker: u32,
}

/// Where a process is. Times are the hub's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// On its way to the gate.
    Comes,
    /// At it; if it has seen the instant, when.
    Waits(Option<u64>),
    /// Through it since then.
    Runs(u64),
    Over,
}

#[derive(Default)]
struct Direction {
    /// In order, with the time at which each is there.
    under_way: VecDeque<(u64, Message)>,
}

struct Node {
    /// Of its clock: how far it is ahead, and drifts.
    ahead_ns: i64,
    drift_ppb: i64,
    out_ns: u64,
    back_ns: u64,
    /// It is reached through the leader.
    has_leader: bool,
    /// The link is cut since then.
    cut: Option<u64>,
    /// The agent was ended, or has ended itself.
    is_dead: bool,
    /// The hub knows it no more.
    is_lost: bool,
    /// Its agent does nothing before then.
    stalls_until: u64,
    out: Direction,
    back: Direction,
    /// By the command: what it does, and where it is.
    processes: BTreeMap<Command, (Program, Process)>,
    /// The instants that the agent has heard of.
    instants: BTreeMap<u32, i64>,
    /// Questions for the time that the hub has not had answered.
    wanted: u32,
}

impl Node {
    fn shows(&self, here_ns: u64) -> i64 {
        let here_ns = i64::try_from(here_ns).unwrap();
        let drifted = i128::from(here_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        here_ns + self.ahead_ns + i64::try_from(drifted).unwrap()
    }

    /// How long it is until its clock shows that; at most: it drifts by less than one in a thousand.
    fn left_ns(&self, here_ns: u64, there_ns: i64) -> u64 {
        let left_ns = u64::try_from(there_ns - self.shows(here_ns)).unwrap_or(0);
        left_ns + left_ns / 1_000
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disaster {
    Cut(usize, u64),
    AgentDies(usize),
    AgentStalls(usize, u64),
    LeaderDies,
    HubDies,
    ClockSteps(usize, i64),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Deliver(usize),
    /// A process comes to its gate, or ends.
    Step(usize, Command),
    Begin(u32),
    HandOver(Command),
    Happen(Disaster),
    Resume(usize, u64),
    /// The agent, or the hub, gives the link up, if it is still cut since then.
    AgentGivesUp(usize, u64),
    HubGivesUp(usize, u64),
    Tick,
}

/// The rounds of one statement, one after the other.
#[derive(Default)]
struct Series {
    workers: u32,
    /// Rounds that are still to be.
    left: u32,
    /// A worker's task has failed: no more of them.
    is_abandoned: bool,
    ended: u32,
}

struct World {
    dice: Dice,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    rounds: Rounds,
    nodes: Vec<Node>,
    hub_dead: bool,
    series: Vec<Series>,
    /// Of each round: its series, and where its workers are.
    placed: BTreeMap<u32, (usize, Vec<usize>)>,
    /// Commands that the hub knows and that are not over, and where.
    commands: BTreeMap<Command, usize>,
    /// Workers whose action ends without a command.
    leavers: BTreeSet<Command>,
    programs: BTreeMap<Command, Program>,
    committed: BTreeMap<u32, u64>,
    starts: BTreeMap<Command, u64>,
    late: BTreeSet<Command>,
    results: BTreeMap<u32, RoundResult>,
    /// Nodes with whom something was amiss, so that they may be late, or tell no time.
    disturbed: BTreeSet<usize>,
    stepped: BTreeSet<usize>,
    happened: Vec<Disaster>,
    log: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let count = 1 + dice.number(5);
        let is_far = dice.one_in(3);
        let trip_ns = if is_far { 20 * MS } else { 300 * US };
        let nodes: Vec<Node> = (0..count)
            .map(|number| Node {
                ahead_ns: if number == 0 { 0 } else { dice.signed(100_000 * SECOND) },
                drift_ppb: if number == 0 { 0 } else { dice.signed(250_000) },
                out_ns: if number == 0 { 0 } else { 1 + dice.below(trip_ns) },
                back_ns: if number == 0 { 0 } else { 1 + dice.below(trip_ns) },
                has_leader: number > 2,
                cut: None,
                is_dead: false,
                is_lost: false,
                stalls_until: 0,
                out: Direction::default(),
                back: Direction::default(),
                processes: BTreeMap::new(),
                instants: BTreeMap::new(),
                wanted: 0,
            })
            .collect();
        let mut world = Self {
            now: SECOND,
            events: BTreeMap::new(),
            next_event: 0,
            rounds: Rounds::default(),
            nodes,
            hub_dead: false,
            series: Vec::new(),
            placed: BTreeMap::new(),
            commands: BTreeMap::new(),
            leavers: BTreeSet::new(),
            programs: BTreeMap::new(),
            committed: BTreeMap::new(),
            starts: BTreeMap::new(),
            late: BTreeSet::new(),
            results: BTreeMap::new(),
            disturbed: BTreeSet::new(),
            stepped: BTreeSet::new(),
            happened: Vec::new(),
            log: Vec::new(),
            dice,
        };
        world.rounds.set_exact_clock(NodeId(0), 0);
        for number in 0..=world.dice.below(2) {
            let workers = 1 + u32::try_from(world.dice.below(7)).unwrap();
            let left = 2 + u32::try_from(world.dice.below(4)).unwrap();
            world.series.push(Series { workers, left, ..Series::default() });
            world.at(world.now + number * 3 * MS, Event::Begin(u32::try_from(number).unwrap()));
        }
        world.plan_disasters();
        world
    }

    /// None in one life of six; at any moment of the time that the rounds take.
    fn plan_disasters(&mut self) {
        if self.dice.one_in(6) {
            return;
        }
        for _ in 0..=self.dice.below(3) {
            let within_ns = if self.dice.one_in(2) { SECOND } else { 60 * MS };
            let when = self.now + self.dice.below(within_ns);
            let node = self.dice.number(self.nodes.len());
            let disaster = match self.dice.below(12) {
                0..3 => Disaster::Cut(node, self.dice.below(2 * CUT_NS_MAX)),
                3..5 => Disaster::AgentDies(node),
                5..8 => Disaster::AgentStalls(node, self.dice.below(5 * SECOND)),
                8 => Disaster::LeaderDies,
                9 => Disaster::HubDies,
                _ => Disaster::ClockSteps(node, self.dice.signed(SECOND)),
            };
            self.at(when, Event::Happen(disaster));
        }
    }

    fn at(&mut self, when: u64, event: Event) {
        self.events.insert((when.max(self.now), self.next_event), event);
        self.next_event += 1;
    }

    fn live(&mut self) {
        for _ in 0..EVENTS_MAX {
            let Some(((when, _), event)) = self.events.pop_first() else { return };
            self.now = when;
            self.log.push(format!("{when} {event:?}"));
            self.handle(event);
            if let Some(due) = self.rounds.due().filter(|_| !self.hub_dead) {
                let is_planned = |(key, event): (&(u64, u64), &Event)| {
                    key.0 <= due.0 && matches!(event, Event::Tick)
                };
                if !self.events.iter().any(is_planned) {
                    self.at(due.0, Event::Tick);
                }
            }
        }
        panic!("it does not end");
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver(node) => self.deliver(node),
            Event::Step(node, command) => self.step(node, command),
            Event::Begin(series) => self.begin(series as usize),
            Event::HandOver(command) => self.hand_over(command),
            Event::Happen(disaster) => self.happen(disaster),
            Event::Resume(node, since) => self.resume(node, since),
            Event::AgentGivesUp(node, since) if self.nodes[node].cut == Some(since) => {
                self.end_agent(node);
            }
            Event::HubGivesUp(node, since) if self.nodes[node].cut == Some(since) => {
                self.lose(node);
            }
            Event::Tick if !self.hub_dead => self.tell(Rounds::tick),
            Event::AgentGivesUp(..) | Event::HubGivesUp(..) | Event::Tick => {}
        }
    }

    // The hub.

    fn tell(&mut self, tell: impl FnOnce(&mut Rounds, Time, &mut Vec<RoundEffect>)) {
        let mut effects = Vec::new();
        tell(&mut self.rounds, Time(self.now), &mut effects);
        for effect in effects {
            self.log.push(format!("  {effect:?}"));
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: RoundEffect) {
        match effect {
            RoundEffect::Measure { node, exchanges } => {
                let node = node.0 as usize;
                if !self.nodes[node].is_lost {
                    self.nodes[node].wanted = self.nodes[node].wanted.max(exchanges);
                    self.ask_time(node);
                }
            }
            RoundEffect::Commit { round, t0, nodes } => {
                assert!(self.committed.insert(round, t0.0).is_none(), "decided twice");
                for (node, t0_ns) in nodes {
                    self.send(node.0 as usize, Message::Commit(round, t0_ns));
                }
            }
            RoundEffect::GiveUp { round, fault } => {
                assert!(
                    !self.committed.contains_key(&round),
                    "given up after the instant was told"
                );
                self.check_fault(round, fault);
                let (first, last) =
                    (Command { round, worker: 0 }, Command { round, worker: u32::MAX });
                let here: Vec<_> =
                    self.commands.range(first..=last).map(|(it, node)| (*it, *node)).collect();
                for (command, node) in here {
                    self.send(node, Message::Kill(command));
                }
            }
            RoundEffect::Stop { .. } => unreachable!("no round has a common stop"),
            RoundEffect::Ended { round, result } => self.end(round, result),
        }
    }

    /// What is said to be at fault is.
    fn check_fault(&self, round: u32, fault: Fault) {
        let (_, nodes) = &self.placed[&round];
        let program = |worker| self.programs.get(&Command { round, worker });
        let is_disturbed = |worker: u32| self.disturbed.contains(&nodes[worker as usize]);
        let is_so = match fault {
            Fault::Left(worker) => self.leavers.contains(&Command { round, worker }),
            Fault::EndedEarly(worker) => {
                matches!(program(worker), Some(Program::EndsEarly(_))) || is_disturbed(worker)
            }
            Fault::NotReady(worker) => {
                program(worker) == Some(&Program::Hangs) || is_disturbed(worker)
            }
            Fault::NodeLost(worker, node) => {
                nodes[worker as usize] == node.0 as usize && self.nodes[node.0 as usize].is_lost
            }
            Fault::NoClock(node) => self.disturbed.contains(&(node.0 as usize)),
            Fault::Stopping => false,
        };
        assert!(is_so, "{fault:?} of round {round}");
    }

    fn begin(&mut self, series: usize) {
        let alive: Vec<usize> =
            (0..self.nodes.len()).filter(|node| !self.nodes[*node].is_lost).collect();
        let Series { workers, left, is_abandoned, .. } = self.series[series];
        if self.hub_dead || alive.is_empty() || left == 0 || is_abandoned {
            return;
        }
        let round = u32::try_from(self.placed.len()).unwrap();
        let nodes: Vec<usize> =
            (0..workers).map(|worker| alive[worker as usize % alive.len()]).collect();
        self.placed.insert(round, (series, nodes));
        let spec =
            RoundSpec { workers, ready_ns_max: READY_NS_MAX, stop_after_ns: None, is_plain: false };
        self.rounds.define(round, spec);
        for worker in 0..workers {
            let command = Command { round, worker };
            let when = self.now + self.dice.below(MS);
            if self.dice.one_in(150) {
                self.leavers.insert(command);
            }
            self.at(when, Event::HandOver(command));
        }
    }

    fn hand_over(&mut self, command: Command) {
        let Command { round, worker } = command;
        if self.hub_dead {
            return;
        }
        let node = self.placed[&round].1[worker as usize];
        // One that is not taken ends, and its worker leaves; so does one whose node is not there any more.
        let is_lost = self.nodes[node].is_lost;
        if self.leavers.contains(&command) || is_lost || !self.rounds.takes(round, worker) {
            if is_lost {
                self.leavers.insert(command);
            }
            return self.tell(|rounds, now, out| rounds.left(now, round, worker, out));
        }
        let (come, run) = (self.dice.below(30 * MS), self.dice.below(40 * MS));
        let program = match self.dice.below(300) {
            0 => Program::Hangs,
            1..3 => Program::EndsEarly(come),
            _ => Program::Runs(come, run),
        };
        self.programs.insert(command, program);
        self.commands.insert(command, node);
        let there = NodeId(u32::try_from(node).unwrap());
        self.tell(|rounds, now, out| rounds.prepared(now, round, worker, there, out));
        self.send(node, Message::Start(command, program));
    }

    fn end(&mut self, round: u32, result: RoundResult) {
        let (series, nodes) = self.placed[&round].clone();
        for node in nodes.into_iter().collect::<BTreeSet<_>>() {
            self.send(node, Message::Close(round));
        }
        let is_whole = result.lag_ns.is_some();
        let it = &mut self.series[series];
        match result.fault {
            // The gang has lost a node: it runs again, as does one that had begun.
            Some(Fault::NodeLost(..) | Fault::NoClock(_)) => {}
            Some(Fault::Left(worker))
                if self.nodes[self.placed[&round].1[worker as usize]].is_lost => {}
            Some(_) => it.is_abandoned = true,
            None if is_whole => {
                it.left -= 1;
                it.ended += 1;
            }
            None => {}
        }
        assert!(self.results.insert(round, result).is_none(), "it ends twice");
        let pause = self.dice.below(2 * MS);
        self.at(self.now + pause, Event::Begin(u32::try_from(series).unwrap()));
    }

    fn lose(&mut self, node: usize) {
        if self.hub_dead || self.nodes[node].is_lost {
            return;
        }
        self.nodes[node].is_lost = true;
        self.nodes[node].wanted = 0;
        self.disturbed.insert(node);
        self.commands.retain(|_, at| *at != node);
        let lost = NodeId(u32::try_from(node).unwrap());
        self.tell(|rounds, now, out| rounds.node_lost(now, lost, out));
    }

    fn ask_time(&mut self, node: usize) {
        let asks = |(_, message): &(u64, Message)| message.is_of_time();
        let it = &self.nodes[node];
        let is_under_way = it.out.under_way.iter().chain(&it.back.under_way).any(asks);
        if it.wanted > 0 && it.cut.is_none() && !is_under_way {
            self.send(node, Message::AskTime(self.now));
        }
    }

    fn on_message(&mut self, node: usize, message: Message) {
        match message {
            Message::Ready(Command { round, worker }) => {
                self.tell(|rounds, now, out| rounds.ready(now, round, worker, out));
            }
            Message::Passed(Command { round, worker }, passed) => {
                self.rounds.passed(Time(self.now), round, worker, passed);
            }
            Message::Exited(command, ran_ns) => {
                let Command { round, worker } = command;
                if self.commands.remove(&command).is_some() {
                    self.tell(|rounds, now, out| rounds.over(now, round, worker, ran_ns, out));
                }
            }
            Message::TellTime(sent_ns, there_ns) => {
                let here = |ns: u64| i64::try_from(ns).unwrap();
                let exchange = Exchange {
                    sent_ns: here(sent_ns),
                    there_received_ns: there_ns,
                    there_sent_ns: there_ns,
                    received_ns: here(self.now),
                };
                self.nodes[node].wanted -= 1;
                let there = NodeId(u32::try_from(node).unwrap());
                self.tell(|rounds, now, out| rounds.exchanged(now, there, exchange, out));
                self.ask_time(node);
            }
            other => unreachable!("{other:?}"),
        }
    }

    // The links.

    fn send(&mut self, node: usize, message: Message) {
        let delay_ns = self.nodes[node].out_ns + self.dice.below(20 * US);
        let when = self.now + delay_ns;
        Self::push(&mut self.nodes[node].out, when, message);
        self.at(when, Event::Deliver(node));
    }

    fn report(&mut self, node: usize, message: Message) {
        if self.nodes[node].is_dead {
            return;
        }
        let delay_ns = self.nodes[node].back_ns + self.dice.below(20 * US);
        let when = self.now.max(self.nodes[node].stalls_until) + delay_ns;
        Self::push(&mut self.nodes[node].back, when, message);
        self.at(when, Event::Deliver(node));
    }

    fn push(direction: &mut Direction, when: u64, message: Message) {
        let last = direction.under_way.back().map_or(0, |(when, _)| *when);
        direction.under_way.push_back((when.max(last), message));
    }

    fn deliver(&mut self, node: usize) {
        loop {
            let it = &mut self.nodes[node];
            let (now, is_cut) = (self.now, it.cut.is_some());
            let is_there = |queue: &VecDeque<(u64, Message)>| {
                !is_cut && queue.front().is_some_and(|(when, _)| *when <= now)
            };
            if is_there(&it.out.under_way) && !it.is_dead && it.stalls_until > now {
                let until = it.stalls_until;
                self.at(until, Event::Deliver(node));
            } else if is_there(&it.out.under_way) {
                let message = it.out.under_way.pop_front().map(|(_, message)| message).unwrap();
                if !it.is_dead {
                    self.agent_takes(node, message);
                }
                continue;
            }
            let it = &mut self.nodes[node];
            if !is_there(&it.back.under_way) {
                return;
            }
            let message = it.back.under_way.pop_front().map(|(_, message)| message).unwrap();
            if !self.hub_dead && !it.is_lost {
                self.on_message(node, message);
            }
        }
    }

    /// All that was not taken is sent again; who was given up is told so.
    fn resume(&mut self, node: usize, since: u64) {
        let it = &mut self.nodes[node];
        if it.cut != Some(since) {
            return;
        }
        it.cut = None;
        let (there, here) = (self.now + it.out_ns, self.now + it.back_ns);
        for (direction, when) in [(&mut it.out, there), (&mut it.back, here)] {
            direction.under_way.iter_mut().for_each(|(at, _)| *at = (*at).max(when));
        }
        let last = it.out.under_way.back().into_iter().chain(it.back.under_way.back());
        let times: Vec<u64> = last.map(|(when, _)| *when).chain([there, here]).collect();
        let is_over = it.is_lost || self.hub_dead;
        for when in times {
            self.at(when, Event::Deliver(node));
        }
        if is_over {
            self.end_agent(node);
        } else if self.nodes[node].is_dead {
            self.lose(node);
        } else {
            self.ask_time(node);
        }
    }

    // Agents, and what runs there.

    fn agent_takes(&mut self, node: usize, message: Message) {
        match message {
            Message::Start(command, program) => {
                let former = self.nodes[node].processes.insert(command, (program, Process::Comes));
                assert!(former.is_none(), "{command:?} is started twice");
                match program {
                    Program::Runs(come_ns, _) | Program::EndsEarly(come_ns) => {
                        self.at(self.now + come_ns, Event::Step(node, command));
                    }
                    Program::Hangs => {}
                }
            }
            Message::Commit(round, t0_ns) => {
                self.nodes[node].instants.insert(round, t0_ns);
                self.wake(node, round);
            }
            Message::Kill(command) => self.end_process(node, command),
            Message::Close(round) => {
                let here = self.nodes[node].processes.iter();
                let waits = |it: &Process| matches!(it, Process::Comes | Process::Waits(_));
                let held: Vec<Command> = here
                    .filter(|(command, (_, it))| command.round == round && waits(it))
                    .map(|(command, _)| *command)
                    .collect();
                for command in held {
                    self.end_process(node, command);
                }
            }
            Message::AskTime(sent_ns) => {
                let there_ns = self.nodes[node].shows(self.now);
                self.report(node, Message::TellTime(sent_ns, there_ns));
            }
            other => unreachable!("{other:?}"),
        }
    }

    /// Those who wait see the instant, one after the other.
    fn wake(&mut self, node: usize, round: u32) {
        let mut when = self.now;
        let commands: Vec<Command> = self.nodes[node].processes.keys().copied().collect();
        for command in commands.into_iter().filter(|command| command.round == round) {
            if let Some((_, it @ Process::Waits(None))) =
                self.nodes[node].processes.get_mut(&command)
            {
                when += 20 * US;
                *it = Process::Waits(Some(when));
                let t0_ns = self.nodes[node].instants[&round];
                let left_ns = self.nodes[node].left_ns(when, t0_ns);
                self.at(when + left_ns, Event::Step(node, command));
            }
        }
    }

    fn step(&mut self, node: usize, command: Command) {
        let now = self.now;
        let Some((program, process)) = self.nodes[node].processes.get(&command).copied() else {
            return;
        };
        match (process, program) {
            (Process::Comes, Program::EndsEarly(_)) => self.end_process(node, command),
            (Process::Comes, _) => {
                self.set(node, command, Process::Waits(None));
                self.report(node, Message::Ready(command));
            }
            (Process::Waits(Some(woke)), Program::Runs(_, run_ns)) if woke <= now => {
                let t0_ns = self.nodes[node].instants[&command.round];
                let left_ns = self.nodes[node].left_ns(now, t0_ns);
                if left_ns > 0 {
                    self.at(now + left_ns, Event::Step(node, command));
                    return;
                }
                self.set(node, command, Process::Runs(now));
                self.pass(node, command, woke, t0_ns);
                self.at(now + run_ns, Event::Step(node, command));
            }
            (Process::Runs(since), Program::Runs(_, run_ns)) if since + run_ns <= now => {
                self.end_process(node, command);
            }
            _ => {}
        }
    }

    fn pass(&mut self, node: usize, command: Command, woke: u64, t0_ns: i64) {
        let now = self.now;
        assert!(self.committed.contains_key(&command.round), "{command:?} began by itself");
        assert!(self.starts.insert(command, now).is_none(), "{command:?} ran twice");
        let it = &self.nodes[node];
        let woke_ns = it.shows(woke);
        let start_ns = it.shows(now);
        let spun_ns = woke_ns.max(t0_ns - i64::try_from(SPIN_NS).unwrap());
        if woke_ns > t0_ns - 1_000_000 || spun_ns > t0_ns {
            self.late.insert(command);
        }
        let passed = Passed { woke_ns, spun_ns, start_ns, offset_ns: 0, spins: true, cpu: 0 };
        self.report(node, Message::Passed(command, passed));
    }

    fn set(&mut self, node: usize, command: Command, to: Process) {
        if let Some((_, process)) = self.nodes[node].processes.get_mut(&command) {
            *process = to;
        }
    }

    fn end_process(&mut self, node: usize, command: Command) {
        let Some((_, process)) = self.nodes[node].processes.get(&command).copied() else { return };
        if process != Process::Over {
            self.set(node, command, Process::Over);
            let ran_ns = if let Process::Runs(since) = process { self.now - since } else { 0 };
            self.report(node, Message::Exited(command, ran_ns));
        }
    }

    /// Its end closes all gates there, and what runs ends with it.
    fn end_agent(&mut self, node: usize) {
        self.nodes[node].is_dead = true;
        self.nodes[node].processes.values_mut().for_each(|(_, process)| *process = Process::Over);
    }

    fn happen(&mut self, disaster: Disaster) {
        self.happened.push(disaster);
        match disaster {
            Disaster::Cut(node, for_ns) if node > 0 => self.cut(node, for_ns),
            Disaster::AgentDies(node) if node > 0 => self.kill_agent(node),
            Disaster::AgentStalls(node, for_ns) if node > 0 => {
                self.disturbed.insert(node);
                let it = &mut self.nodes[node];
                it.stalls_until = self.now + for_ns;
                // What it has said already is on its way.
                self.at(self.now + for_ns, Event::Deliver(node));
            }
            Disaster::LeaderDies => {
                let behind = (0..self.nodes.len()).filter(|node| self.nodes[*node].has_leader);
                behind.collect::<Vec<_>>().into_iter().for_each(|node| self.kill_agent(node));
            }
            Disaster::HubDies => {
                self.hub_dead = true;
                for node in 0..self.nodes.len() {
                    // Its own agent is a part of it; others see the end of the link, or that nothing comes.
                    self.end_agent_soon(node);
                }
            }
            Disaster::ClockSteps(node, by_ns) if node > 0 => {
                self.nodes[node].ahead_ns += by_ns;
                self.stepped.insert(node);
                self.disturbed.insert(node);
                // Who sleeps until the instant looks anew.
                let here = self.nodes[node].processes.iter();
                let sleep = here.filter(|(_, (_, it))| matches!(it, Process::Waits(Some(_))));
                let commands: Vec<Command> = sleep.map(|(command, _)| *command).collect();
                for command in commands {
                    self.at(self.now + 100 * US, Event::Step(node, command));
                }
            }
            // The hub's own machine has no link.
            Disaster::Cut(..)
            | Disaster::AgentDies(_)
            | Disaster::AgentStalls(..)
            | Disaster::ClockSteps(..) => {}
        }
    }

    fn cut(&mut self, node: usize, for_ns: u64) {
        self.disturbed.insert(node);
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.cut.is_some() || it.is_lost {
            return;
        }
        it.cut = Some(now);
        it.out.under_way.retain(|(_, message)| !message.is_of_time());
        it.back.under_way.retain(|(_, message)| !message.is_of_time());
        let agent_ns = CUT_NS_MAX - SECOND + self.dice.below(2 * SECOND);
        self.at(now + agent_ns, Event::AgentGivesUp(node, now));
        self.at(now + CUT_NS_MAX, Event::HubGivesUp(node, now));
        self.at(now + for_ns, Event::Resume(node, now));
    }

    /// The hub sees the end of the link; where that is cut, it has to wait.
    fn kill_agent(&mut self, node: usize) {
        self.disturbed.insert(node);
        self.end_agent(node);
        self.cut(node, self.nodes[node].back_ns);
    }

    fn end_agent_soon(&mut self, node: usize) {
        if node == 0 {
            return self.end_agent(node);
        }
        let now = self.now;
        let for_ns = if self.dice.one_in(2) { self.nodes[node].out_ns } else { CUT_NS_MAX };
        if self.nodes[node].cut.is_none() {
            self.nodes[node].cut = Some(now);
            self.at(now + for_ns, Event::AgentGivesUp(node, now));
        }
    }

    // What must hold in the end.

    fn check(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            for (command, (_, process)) in &node.processes {
                assert_eq!(*process, Process::Over, "{command:?} is left on node {number}");
            }
        }
        if self.hub_dead {
            return;
        }
        assert_eq!((self.rounds.due(), self.rounds.is_closing()), (None, false));
        assert_eq!(self.commands, BTreeMap::new(), "not over for the hub");
        for round in self.placed.keys() {
            let result = self.results.get(round);
            self.check_result(
                *round,
                result.unwrap_or_else(|| panic!("round {round} does not end")),
            );
        }
        for series in &self.series {
            let has_nodes = self.nodes.iter().any(|node| !node.is_lost);
            assert!(series.left == 0 || series.is_abandoned || !has_nodes, "rounds are missing");
        }
    }

    fn check_result(&self, round: u32, result: &RoundResult) {
        let (series, nodes) = &self.placed[&round];
        assert_eq!(result.workers.len(), self.series[*series].workers as usize);
        assert_ne!(result.fault.is_some(), result.t0.is_some(), "it begins, or says why not");
        let is_any = |set: &BTreeSet<usize>| nodes.iter().any(|node| set.contains(node));
        let starts = nodes.iter().zip(0..).map(|(_, worker)| Command { round, worker });
        let starts: Vec<Option<&u64>> = starts.map(|command| self.starts.get(&command)).collect();
        if result.fault.is_some() {
            assert_eq!((result.lag_ns, result.late), (None, 0));
            assert!(starts.iter().all(Option::is_none), "some began in a round that did not");
            return;
        }
        for (it, truth) in result.workers.iter().zip(&starts) {
            assert!(it.start_ns.is_none() || truth.is_some(), "it is said to have begun");
            if it.start_ns.is_some() {
                assert_eq!(it.is_late, self.late.contains(&Command { round, worker: it.worker }));
            }
        }
        if !is_any(&self.disturbed) {
            assert!(result.lag_ns.is_some(), "nothing was amiss with the nodes of round {round}");
            assert_eq!(result.late, 0, "the margin was too short");
        }
        if let Some(lag_ns) = result.lag_ns.filter(|_| !is_any(&self.stepped)) {
            let times = || starts.iter().flatten().copied();
            let truth_ns = times().max().unwrap() - times().min().unwrap();
            let off_ns = lag_ns.abs_diff(truth_ns);
            // A start is moved by what its clock drifts between the instant and it: after a cut, seconds.
            let drift_ns = truth_ns / 1_000 + 20 * US;
            assert!(off_ns <= result.clock_bound_ns + drift_ns, "{lag_ns} {truth_ns} {result:?}");
        }
    }
}

/// Says which seed it was when a check fails.
struct Seed<'w>(u64, &'w mut World);

impl Drop for Seed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\n{}", self.0, self.1.log.join("\n"));
        }
    }
}

fn live(seed: u64) -> World {
    let mut world = World::new(seed);
    let it = Seed(seed, &mut world);
    it.1.live();
    it.1.check();
    drop(it);
    world
}

/// What a disaster is, or a fault, without whom it concerns.
fn kind(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn rounds_end_whatever_happens_and_no_worker_runs_twice_or_is_left_at_its_gate() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let lives = u64::from(RunnerConfig::default().cases) * 4;
    for seed in 0..lives {
        let world = live(seed);
        for name in world.happened.iter().map(kind) {
            *seen.entry(name).or_default() += 1;
        }
        for result in world.results.values() {
            let name = result.fault.as_ref().map_or("Began".to_owned(), kind);
            *seen.entry(name).or_default() += 1;
            *seen.entry("Late".to_owned()).or_default() += u32::from(result.late > 0);
            let is_torn = result.fault.is_none() && result.lag_ns.is_none();
            *seen.entry("Torn".to_owned()).or_default() += u32::from(is_torn);
            let contradicts = result.clocks.iter().any(|clock| clock.contradictions > 0);
            *seen.entry("Contradicted".to_owned()).or_default() += u32::from(contradicts);
        }
        if seed % 16 == 0 {
            assert_eq!(world.log, live(seed).log, "seed {seed} lives two lives");
        }
    }
    // Each kind of trouble came, and each way in which a round can end.
    for name in [
        "Cut",
        "AgentDies",
        "AgentStalls",
        "LeaderDies",
        "HubDies",
        "ClockSteps",
        "Began",
        "Left",
        "EndedEarly",
        "NotReady",
        "NodeLost",
        "Late",
        "Torn",
        "Contradicted",
    ] {
        assert!(
            seen.get(name).is_some_and(|times| *times > 0),
            "no {name} in {lives} lives: {seen:?}"
        );
    }
}
