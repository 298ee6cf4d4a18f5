//! Rounds of synchronised starts over virtual links, one life from each seed: links are cut and resumed, agents die or
//! stall, a leader or the hub dies, clocks are stepped, programs end early or never come to their gate. No worker goes
//! through its gate twice, or without all others being there; none stays at a gate; every round ends, and says what
//! came of it in truth; what a fault does not concern goes on.
//!
//! The agents here do what `crates/agent/src/gate.rs` does, and the hub what `crates/hub/src/sync.rs` does.
//! `PROPTEST_CASES=400000 cargo test --release -p rakuda-core --test rounds` lives so many lives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::test_runner::Config as RunnerConfig;
use rakuda_core::sync::rounds::{Fault, Passed, RoundEffect, RoundResult, RoundSpec, Rounds};
use rakuda_core::{NodeId, Time};

mod agents;
mod checks;
mod hub;
mod links;

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
    /// Comes to its gate after the first time, and runs for the second.
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
