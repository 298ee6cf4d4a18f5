//! The driver: what happens next, and the links between hub and agents.
//!
//! Messages of one link stay in order; those of different links overtake each other. A link that is
//! cut keeps what is sent and delivers it when it is back, as a link does that numbers what it
//! sends; what belongs to a session that is over is dropped at its end.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rakuda_core::StopHow;

use super::agent::state::Agent;
use super::front::state::Front;
use super::gfarm::state::Gfarm;
use super::hub::Hub;
use super::messages::{Happening, Order, Report};
use super::scenario::Scenario;
use super::staging::state::DataLink;
use super::truth::{SERVER, Truth, content};
use crate::log::Log;
use crate::queue::EventQueue;
use crate::random::{Purpose, Random};
use crate::units::SECOND_NS;

/// Maximum time until a run ends once things have stopped going wrong.
const PATIENCE_NS: u64 = 100_000 * SECOND_NS;
const MILLISECOND_NS: u64 = 1_000_000;

/// How often something was injected, or seen.
pub type Counts = BTreeMap<&'static str, u64>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) cut: bool,
    /// Factor by which messages take longer.
    pub(crate) slowness: u64,
    /// When the last message arrives, to the agent and to the hub.
    last_ns: [u64; 2],
    held: VecDeque<Happening>,
}

pub(crate) struct Chaos {
    pub(crate) scenario: Scenario,
    pub(crate) now: u64,
    pub(crate) queue: EventQueue<Happening>,
    pub(crate) links: Vec<Link>,
    pub(crate) agents: Vec<Agent>,
    /// Of each node, and of home.
    pub(crate) data: Vec<DataLink>,
    pub(crate) hub: Hub,
    pub(crate) front: Front,
    pub(crate) truth: Truth,
    pub(crate) gfarm: Gfarm,
    pub(crate) random: Random,
    pub(crate) counts: Counts,
    /// What is in each file when it is well.
    pub(crate) expected: Vec<u64>,
    /// Attempts that are still to fail or hang.
    pub(crate) troubles: Vec<u32>,
    /// Commands so far.
    pub(crate) serials: u32,
    /// When the last of all messages sent so far arrives.
    arrival_ns_max: u64,
    pub(crate) ended: bool,
    pub(crate) log: Log,
}

/// A run of a seed.
pub struct Run {
    /// What was injected and seen, and how often.
    pub counts: Counts,
    /// What happened, as far as the run came.
    pub log: Log,
    /// What happened that must not, if anything did.
    pub failure: Option<String>,
}

/// Runs a seed to its end, or to the first thing that must not happen: a check here or in the
/// scheduler that panics, or no end.
pub fn run_seed(seed: u64, log: Log) -> Run {
    let mut chaos = Chaos::new(Scenario::draw(seed), seed, log);
    let result = catch_unwind(AssertUnwindSafe(|| chaos.run()));
    let failure = result.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "it panicked".to_owned())
    });
    Run { counts: chaos.counts, log: chaos.log, failure }
}

impl Chaos {
    fn run(&mut self) {
        self.start_hub();
        self.queue.push(0, Happening::Tick);
        self.queue.push(self.scenario.between_ns, Happening::Fault);
        if self.scenario.leaders > 0 {
            self.queue.push(2 * self.scenario.between_ns, Happening::LeaderDies);
        }
        if let Some((at_ns, again_ns)) = self.scenario.stop {
            self.queue.push(at_ns, Happening::UserStops(StopHow::Gently));
            if let Some(again_ns) = again_ns {
                self.queue.push(at_ns + again_ns, Happening::UserStops(StopHow::AtOnce));
            }
        }
        while !self.ended {
            let (now, happening) = self.queue.pop().expect("a clock ticks");
            self.now = now;
            let is_late = now > self.scenario.heals_ns + PATIENCE_NS;
            assert!(!is_late, "the workflow does not finish: {:?}", self.hub.counts());
            self.take(happening);
        }
    }

    fn new(scenario: Scenario, seed: u64, log: Log) -> Self {
        let mut expected: Vec<u64> = Vec::new();
        let mut truth = Truth::default();
        let mut gfarm = Gfarm::new(scenario.gfarm.map_or(0, |gfarm| gfarm.hosts));
        for (id, plan) in (0..).zip(&scenario.tasks) {
            let inputs: Vec<u64> = plan.inputs.iter().map(|i| expected[*i as usize]).collect();
            expected.push(content(id, &inputs));
            if !plan.has_action {
                let place = if scenario.shared { SERVER } else { plan.place };
                truth.write(id, place, Some(expected[id as usize]), 1);
                gfarm.add(id, place);
            }
        }
        let nodes = scenario.cores.len();
        Self {
            links: (0..nodes).map(|_| Link { slowness: 1, ..Link::default() }).collect(),
            agents: (0..nodes).map(|_| Agent::new()).collect(),
            data: vec![DataLink::default(); nodes + 1],
            hub: Hub::new(&scenario),
            front: Front::default(),
            now: 0,
            queue: EventQueue::default(),
            truth,
            gfarm,
            random: Random::new(seed, Purpose::Faults),
            counts: Counts::new(),
            expected,
            troubles: scenario.tasks.iter().map(|plan| plan.troubles).collect(),
            serials: 0,
            arrival_ns_max: 0,
            ended: false,
            scenario,
            log,
        }
    }

    pub(crate) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        self.log.note(self.now, line);
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn heals(&self) -> bool {
        self.now >= self.scenario.heals_ns
    }

    fn take(&mut self, happening: Happening) {
        let may_free_cores = !matches!(
            &happening,
            Happening::ToAgent { .. }
                | Happening::Done { .. }
                | Happening::ToFront { .. }
                | Happening::FrontStep { .. }
                | Happening::ToHub { report: Report::Pong, .. }
        );
        match happening {
            Happening::ToAgent { node, session, order } => self.on_order(node, session, order),
            Happening::ToHub { node, session, sent_ns, report } => {
                self.on_report(node, session, sent_ns, report);
            }
            Happening::Done { node, command } => self.on_done(node, command),
            Happening::ToFront { life, task, what } => self.on_front(life, task, &what),
            Happening::FrontStep { life, task, attempt, unwound } => {
                self.on_front_step(life, (task, attempt), unwound);
            }
            Happening::FromFront { life, task, what } => self.on_from_front(life, task, &what),
            Happening::Later { life, task, attempt, what } => {
                self.on_later(life, task, attempt, &what);
            }
            Happening::Looked { id, life } => self.on_looked(id, life),
            Happening::Tick => {
                self.tick_hub();
                for node in 0..self.agents.len() as u32 {
                    self.tick_agent(node);
                }
                self.queue.push(self.now + SECOND_NS, Happening::Tick);
            }
            Happening::Fault => self.inject(),
            Happening::LeaderDies => self.kill_leader(),
            Happening::UserStops(how) => self.stop_by_user(how),
            Happening::HubUp => self.start_hub(),
            Happening::Invoked { life } => self.on_invoked(life),
            Happening::MachineUp { node } => self.on_machine_up(node),
            Happening::LinkUp { node } => self.on_link_up(node),
            Happening::LinkFast { node } => self.links[node as usize].slowness = 1,
            Happening::AgentGoesOn { node } => self.on_agent_goes_on(node),
            Happening::Gfarm(what) => self.on_gfarm(what),
            Happening::Data(what) => self.on_data(what),
        }
        self.perform_outputs();
        if may_free_cores {
            self.settle_leases();
        }
    }

    pub(crate) fn send_order(&mut self, node: u32, session: u64, order: Order) {
        self.send(node, 0, Happening::ToAgent { node, session, order });
    }

    pub(crate) fn send_report(&mut self, node: u32, report: Report) {
        let session = self.agents[node as usize].session;
        let sent_ns = self.now;
        self.send(node, 1, Happening::ToHub { node, session, sent_ns, report });
    }

    fn send(&mut self, node: u32, direction: usize, happening: Happening) {
        let delay = MILLISECOND_NS / 10 + self.random.below(5 * MILLISECOND_NS);
        let delay = if self.scenario.short { delay / 4 } else { delay };
        let link = &mut self.links[node as usize];
        if link.cut {
            link.held.push_back(happening);
            self.count("messages held by a cut link");
            return;
        }
        let arrival = (self.now + delay * link.slowness).max(link.last_ns[direction] + 1);
        link.last_ns[direction] = arrival;
        if link.slowness > 1 {
            self.count("messages on a slow link");
        }
        if arrival < self.arrival_ns_max {
            self.count("messages that overtake one of another link");
        }
        self.arrival_ns_max = self.arrival_ns_max.max(arrival);
        self.queue.push(arrival, happening);
    }

    fn on_link_up(&mut self, node: u32) {
        self.links[node as usize].cut = false;
        for happening in std::mem::take(&mut self.links[node as usize].held) {
            let direction = usize::from(matches!(happening, Happening::ToHub { .. }));
            self.send(node, direction, happening);
        }
    }
}
