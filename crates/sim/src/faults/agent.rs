//! The agents: processes from start to end, heartbeats, and what is done when the hub is not heard.
//!
//! An agent holds a lease: it counts from the moment at which it sent what the hub says it has heard last, so the agent gives up before the hub
//! does, whichever direction of the link has failed. Who minds the lease is not held up when the agent stalls.

use std::collections::{BTreeMap, VecDeque};

use rakuda_core::ActionOutcome;

use super::chaos::{Chaos, Ended, Happening, Order, Report};
use super::truth::SERVER;
use crate::units::SECOND_NS;

/// So long after it sent what the hub has heard last, an agent ends all that runs. Less than the hub's `SILENCE_NS` by more than a tick.
pub(crate) const LEASE_NS: u64 = 4 * SECOND_NS;

#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// The machine is there.
    pub(crate) up: bool,
    /// Whether its disk is as it was when the hub last knew it.
    pub(crate) disk_kept: bool,
    /// 0: none.
    pub(crate) session: u64,
    /// Sessions that it has ended: tells a `Hello` that was said twice from a new one.
    incarnation: u64,
    lease_ns: u64,
    running: BTreeMap<u32, Process>,
    untold: Vec<Ended>,
    pub(crate) stalled: bool,
    /// What came while it stalled.
    inbox: VecDeque<Happening>,
}

#[derive(Clone, Debug)]
struct Process {
    attempt: u32,
    life: u64,
    serial: u64,
    outcome: ActionOutcome,
    content: Option<u64>,
}

impl Agent {
    pub(crate) fn new() -> Self {
        Self {
            up: true,
            disk_kept: true,
            session: 0,
            incarnation: 0,
            lease_ns: 0,
            running: BTreeMap::new(),
            untold: Vec::new(),
            stalled: false,
            inbox: VecDeque::new(),
        }
    }
}

impl Chaos {
    fn agent(&mut self, node: u32) -> &mut Agent {
        &mut self.agents[node as usize]
    }

    /// Where a node writes.
    pub(crate) fn place_of(&self, node: u32) -> u32 {
        if self.scenario.shared { SERVER } else { node }
    }

    pub(crate) fn tick_agent(&mut self, node: u32) {
        let now = self.now;
        let agent = self.agent(node);
        if !agent.up {
            return;
        }
        if agent.session != 0 && now > agent.lease_ns {
            self.end_session(node);
            self.count("leases run out");
        }
        let agent = self.agent(node);
        if agent.stalled {
            return;
        }
        if agent.session == 0 {
            let (files_kept, untold) = (agent.disk_kept, agent.untold.clone());
            let incarnation = agent.incarnation;
            self.send_report(node, Report::Hello { incarnation, files_kept, untold });
        } else {
            self.send_report(node, Report::Pong);
        }
    }

    /// Ends all that runs, because the hub may have given it to others.
    fn end_session(&mut self, node: u32) {
        self.note(format_args!("node {node} ends its session"));
        self.agent(node).session = 0;
        self.agent(node).incarnation += 1;
        for task in std::mem::take(&mut self.agent(node).running).into_keys() {
            self.truth.end(task);
        }
    }

    pub(crate) fn on_order(&mut self, node: u32, session: u64, order: Order) {
        let agent = self.agent(node);
        if !agent.up {
            return;
        }
        if agent.stalled {
            agent.inbox.push_back(Happening::ToAgent { node, session, order });
            return;
        }
        if let Order::Welcome { session, incarnation, files_kept, heard_ns } = order {
            let is_late = heard_ns + LEASE_NS < self.now;
            let agent = self.agent(node);
            if agent.session != 0 || agent.incarnation != incarnation || is_late {
                return;
            }
            agent.session = session;
            agent.lease_ns = heard_ns + LEASE_NS;
            agent.untold.clear();
            agent.disk_kept = true;
            if !files_kept {
                self.truth.wipe(node);
            }
            return;
        }
        if agent.session != session || session == 0 {
            return;
        }
        match order {
            Order::Welcome { .. } => unreachable!("handled above"),
            Order::Ping { heard_ns } => {
                agent.lease_ns = agent.lease_ns.max(heard_ns + LEASE_NS);
            }
            Order::Start { task, attempt, life, inputs } => {
                self.begin(node, task, attempt, life, &inputs);
            }
            Order::Abort { task, attempt } => {
                let is_it = |process: &Process| process.attempt == attempt;
                if self.agent(node).running.get(&task).is_some_and(is_it) {
                    self.finish(node, task, ActionOutcome::Failed, None);
                }
            }
        }
    }

    fn begin(&mut self, node: u32, task: u32, attempt: u32, life: u64, inputs: &[(u32, u32)]) {
        self.truth.begin(task, node);
        let place = self.place_of(node);
        self.truth.write(task, place, None);
        let is_there = |place: u32| place == SERVER || self.agents[place as usize].up;
        let read = |(file, place): &(u32, u32)| {
            is_there(*place).then(|| self.truth.read(*file, *place)).flatten()
        };
        let read: Option<Vec<u64>> = inputs.iter().map(read).collect();
        let mut run_ns = self.scenario.jobs[task as usize].run_ns;
        let mut hangs = false;
        let (outcome, content) = match read {
            None => {
                self.count("inputs not found");
                run_ns /= 10;
                (ActionOutcome::Failed, None)
            }
            Some(_) if self.troubles[task as usize] > 0 && !self.heals() => {
                self.troubles[task as usize] -= 1;
                hangs = self.random.below(3) == 0;
                self.count(if hangs { "tasks that hang" } else { "tasks that fail" });
                (ActionOutcome::Failed, None)
            }
            Some(read) => (ActionOutcome::Succeeded, Some(super::truth::content(task, &read))),
        };
        self.serials += 1;
        let serial = self.serials;
        let process = Process { attempt, life, serial, outcome, content };
        self.agent(node).running.insert(task, process);
        if !hangs {
            self.queue.push(self.now + run_ns, Happening::Done { node, task, serial });
        }
    }

    pub(crate) fn on_done(&mut self, node: u32, task: u32, serial: u64) {
        let process = self.agents[node as usize].running.get(&task);
        let Some(process) = process.filter(|process| process.serial == serial) else {
            return;
        };
        let (outcome, content) = (process.outcome, process.content);
        self.finish(node, task, outcome, content);
    }

    /// A process has ended; the hub is told, at once or when it can be.
    fn finish(&mut self, node: u32, task: u32, outcome: ActionOutcome, content: Option<u64>) {
        let process = self.agent(node).running.remove(&task).expect("it runs");
        self.truth.end(task);
        let place = self.place_of(node);
        if content.is_some() {
            self.truth.write(task, place, content);
        }
        let Process { attempt, life, .. } = process;
        let ended = Ended { life, task, attempt, outcome, content };
        // Kept until the next session too: a report on a link that breaks may be lost.
        self.agent(node).untold.push(ended.clone());
        if self.agent(node).stalled {
            let session = self.agent(node).session;
            let (sent_ns, report) = (self.now, Report::Ended(ended));
            let late = Happening::ToHub { node, session, sent_ns, report };
            self.agent(node).inbox.push_back(late);
        } else {
            self.send_report(node, Report::Ended(ended));
        }
    }

    pub(crate) fn on_agent_goes_on(&mut self, node: u32) {
        self.agent(node).stalled = false;
        for happening in std::mem::take(&mut self.agent(node).inbox) {
            match happening {
                Happening::ToAgent { node, session, order } => self.on_order(node, session, order),
                Happening::ToHub { session, report, .. } => {
                    if session == self.agent(node).session {
                        self.send_report(node, report);
                    }
                }
                _ => unreachable!("only messages are kept"),
            }
        }
    }

    pub(crate) fn on_machine_down(&mut self, node: u32, disk_kept: bool) {
        self.end_session(node);
        let agent = self.agent(node);
        agent.up = false;
        agent.stalled = false;
        agent.disk_kept &= disk_kept;
        agent.untold.clear();
        agent.inbox.clear();
        if !disk_kept {
            self.truth.wipe(node);
        }
    }

    pub(crate) fn on_machine_up(&mut self, node: u32) {
        self.agent(node).up = true;
        self.note(format_args!("node {node} is up"));
    }
}
