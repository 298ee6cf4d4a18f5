//! The hub: the scheduler, what is told to it and what it says, the journal, sessions with agents.
//!
//! Starts anew from its journal alone. Checks at each step that no effect is taken twice and nothing is made that is there.

use std::collections::{BTreeMap, BTreeSet};

use rakuda_core::{
    ActionOutcome, Capacity, Config, Counts, Event, Fact, InvocationId, NodeId, Output, Places,
    Requirement, RequirementId, Scheduler, Settled, TaskId, TaskKind, TaskState, Time,
};

use super::chaos::{Chaos, Ended, Happening, Order, Report};
use super::scenario::Scenario;
use super::truth::SERVER;
use crate::units::SECOND_NS;

/// A node that was not heard for so long is lost.
const SILENCE_NS: u64 = 8 * SECOND_NS;
/// An action that runs longer is ended.
const TIMEOUT_NS: u64 = 60 * SECOND_NS;
const LOOK_NS: u64 = 100_000;

/// What the journal says of a task whose action ended well.
#[derive(Clone, Copy, Debug)]
struct Made {
    place: u32,
    modified_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// 0: none.
    session: u64,
    /// Of the `Hello` that it began with.
    incarnation: u64,
    heard_ns: u64,
    /// When the agent sent what was heard last.
    sent_ns: u64,
    /// The scheduler was told that it is lost.
    lost: bool,
    given_up: bool,
}

/// The failure of an action whose inputs lie on nodes that may be lost: it counts only when they have been heard of.
#[derive(Clone, Debug)]
struct Doubt {
    ended: Ended,
    node: u32,
    since_ns: u64,
    waits_for: BTreeSet<u32>,
}

pub(crate) struct Hub {
    up: bool,
    /// How often it was started.
    life: u64,
    scheduler: Scheduler,
    /// No node joins before: what the last hub started has ended by then.
    opens_ns: u64,
    peers: Vec<Peer>,
    sessions: u64,
    running: BTreeMap<u32, (u32, u32, u64)>,
    doubts: Vec<Doubt>,
    /// The journal: files that were made and those that the workflow starts from; and attempts that have not ended.
    made: BTreeMap<u32, Made>,
    open: BTreeSet<u32>,
}

impl Hub {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut made = BTreeMap::new();
        for (id, job) in (0..).zip(&scenario.jobs) {
            if !job.has_action {
                let place = if scenario.shared { SERVER } else { job.place };
                made.insert(id, Made { place, modified_ns: 1 });
            }
        }
        Self {
            up: false,
            life: 0,
            scheduler: Scheduler::new(Config::default()),
            opens_ns: 0,
            peers: vec![Peer::default(); scenario.cores.len()],
            sessions: 0,
            running: BTreeMap::new(),
            doubts: Vec::new(),
            made,
            open: BTreeSet::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }
}

impl Chaos {
    /// A hub begins, with what the journal says.
    pub(crate) fn start_hub(&mut self) {
        let hub = &mut self.hub;
        hub.up = true;
        hub.life += 1;
        hub.scheduler = Scheduler::new(self.scenario.config.clone());
        hub.opens_ns = if hub.life == 1 { 0 } else { self.now + SILENCE_NS };
        for peer in &mut hub.peers {
            *peer = Peer { heard_ns: hub.opens_ns, given_up: peer.given_up, ..Peer::default() };
        }
        hub.running.clear();
        hub.doubts.clear();
        // Targets of attempts that did not end are not taken as good.
        for task in std::mem::take(&mut hub.open) {
            hub.made.remove(&task);
        }
        self.note(format_args!("hub starts"));
        if self.hub.life > 1 {
            // What the journal places on nodes is out of reach until they have joined.
            for node in 0..self.hub.peers.len() as u32 {
                self.hub.peers[node as usize].lost = true;
                self.tell(Event::NodeLost { id: NodeId(node) });
            }
        }
        self.define();
    }

    pub(crate) fn stop_hub(&mut self) {
        self.hub.up = false;
        self.note(format_args!("hub stops"));
    }

    fn define(&mut self) {
        let requirement = Requirement::default();
        self.tell(Event::RequirementDefined { id: RequirementId(0), requirement });
        let mut wanted: BTreeSet<u32> = (0..self.scenario.jobs.len() as u32).collect();
        for index in 0..self.scenario.jobs.len() {
            let job = self.scenario.jobs[index].clone();
            let id = TaskId(index as u32);
            let prerequisites: Vec<TaskId> = job.inputs.iter().copied().map(TaskId).collect();
            job.inputs.iter().for_each(|input| {
                wanted.remove(input);
            });
            self.tell(Event::TaskDefined {
                id,
                kind: TaskKind::File,
                has_action: job.has_action,
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &prerequisites,
            });
            let fact = self.fact(index as u32);
            self.tell(Event::FactGathered { id, fact });
        }
        let wanted: Vec<TaskId> = wanted.into_iter().map(TaskId).collect();
        self.tell(Event::InvocationStarted { id: InvocationId(0), tasks: &wanted, caller: None });
    }

    /// What the hub knows of a file.
    fn fact(&self, task: u32) -> Fact {
        let Some(made) = self.hub.made.get(&task) else {
            return Fact { modified_ns: None, bytes: 0, places: Places::Unknown };
        };
        let places = match made.place {
            SERVER => Places::Unknown,
            node => Places::One(NodeId(node)),
        };
        Fact { modified_ns: Some(made.modified_ns.cast_signed()), bytes: 1, places }
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut outputs = Vec::new();
        self.hub.scheduler.handle(Time(self.now), event, &mut outputs);
        self.hub.scheduler.check_invariants();
        for output in outputs {
            self.act(output);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::StartAction { id, attempt, node, .. } => self.start(id.0, attempt, node.0),
            Output::GatherFact { id } => {
                let life = self.hub.life;
                self.queue.push(self.now + LOOK_NS, Happening::Looked { id, life });
            }
            Output::AttemptFailed { id, retried, .. } => {
                self.note(format_args!("failed {} retried {retried}", id.0));
            }
            Output::AttemptLost { id, node, .. } => {
                self.note(format_args!("lost {} node {}", id.0, node.0));
                self.count("attempts lost");
                self.hub.running.remove(&id.0);
            }
            Output::TaskReopened { id } => {
                self.note(format_args!("again {}", id.0));
                self.count("tasks made again");
            }
            Output::InputLost { id } => {
                self.note(format_args!("waits for {}", id.0));
                self.count("inputs waited for");
            }
            Output::NodeSetAside { id, .. } => {
                self.note(format_args!("node {} set aside", id.0));
                self.count("nodes set aside");
            }
            Output::NodeTakenBack { id } => self.note(format_args!("node {} taken back", id.0)),
            Output::TaskSettled { id, how } => {
                self.note(format_args!("settled {} {how:?}", id.0));
                if how != Settled::Executed {
                    // What an earlier attempt elsewhere left does not matter: the file is as it was.
                    self.hub.open.remove(&id.0);
                }
            }
            Output::InvocationEnded { failed, abandoned, .. } => {
                assert!(failed.is_empty(), "tasks failed: {failed:?}, abandoned {abandoned:?}");
                assert!(abandoned.is_empty(), "tasks abandoned: {abandoned:?}");
                self.check_end();
                self.ended = true;
            }
            Output::AbortAction { .. }
            | Output::TaskBlamed { .. }
            | Output::NowhereToRun { .. }
            | Output::TargetMissing { .. }
            | Output::AskNeeded { .. }
            | Output::CompareRecord { .. }
            | Output::Resolve { .. } => panic!("nothing calls for {output:?}"),
        }
    }

    fn start(&mut self, task: u32, attempt: u32, node: u32) {
        self.check_needed(task);
        self.note(format_args!("start {task} attempt {attempt} node {node}"));
        self.hub.open.insert(task);
        // Its old file is overwritten from now on.
        let place = self.place_of(node);
        if self.hub.made.get(&task).is_some_and(|made| made.place == place) {
            self.hub.made.remove(&task);
        }
        self.hub.running.insert(task, (node, attempt, self.now));
        let inputs = self.scenario.jobs[task as usize].inputs.clone();
        let place = |input: u32| (input, self.hub.made.get(&input).map_or(SERVER, |m| m.place));
        let inputs = inputs.into_iter().map(place).collect();
        let (session, life) = (self.hub.peers[node as usize].session, self.hub.life);
        self.send_order(node, session, Order::Start { task, attempt, life, inputs });
    }

    /// A file that is there, and newer than all that it is made from, is not made once more.
    fn check_needed(&self, task: u32) {
        let Some(made) = self.hub.made.get(&task) else { return };
        let is_there = made.place == SERVER || self.hub.peers[made.place as usize].session != 0;
        let mut walk = self.scenario.jobs[task as usize].inputs.clone();
        let mut newest = 0;
        while let Some(input) = walk.pop() {
            newest = newest.max(self.hub.made.get(&input).map_or(u64::MAX, |m| m.modified_ns));
            walk.extend(&self.scenario.jobs[input as usize].inputs);
        }
        assert!(!is_there || newest > made.modified_ns, "task {task} is done, and starts again");
    }

    /// Every target is whole and as it should be, unless the machine that has it has died since the hub last heard of it.
    fn check_end(&mut self) {
        let mut is_target = vec![true; self.scenario.jobs.len()];
        for job in &self.scenario.jobs {
            job.inputs.iter().for_each(|input| is_target[*input as usize] = false);
        }
        for task in (0..is_target.len() as u32).filter(|task| is_target[*task as usize]) {
            let made = self.hub.made.get(&task).copied();
            let made = made.unwrap_or_else(|| panic!("target {task} was not made"));
            if made.place != SERVER {
                let Peer { session, lost, .. } = self.hub.peers[made.place as usize];
                assert!(!lost, "target {task} is on a lost node");
                if session == 0 || self.agents[made.place as usize].session != session {
                    self.count("ends before a loss was noticed");
                    continue;
                }
            }
            let content = self.truth.read(task, made.place);
            assert_eq!(content, Some(self.expected[task as usize]), "target {task} is lost");
        }
    }

    pub(crate) fn on_looked(&mut self, id: TaskId, life: u64) {
        if self.hub.up && life == self.hub.life {
            let fact = self.fact(id.0);
            self.tell(Event::FactGathered { id, fact });
        }
    }

    pub(crate) fn tick_hub(&mut self) {
        if !self.hub.up {
            return;
        }
        for node in 0..self.hub.peers.len() as u32 {
            let peer = &self.hub.peers[node as usize];
            let is_silent = self.now > peer.heard_ns + SILENCE_NS;
            if peer.session != 0 && !is_silent {
                let (session, heard_ns) = (peer.session, peer.sent_ns);
                self.send_order(node, session, Order::Ping { heard_ns });
            } else if is_silent && !peer.lost {
                self.lose(node);
            }
            let peer = &self.hub.peers[node as usize];
            let holds_inputs = self.scenario.jobs.iter().any(|j| !j.has_action && j.place == node);
            // Most are waited for; inputs always, for nothing makes them.
            if peer.lost
                && !peer.given_up
                && !holds_inputs
                && self.now > peer.heard_ns + 40 * SECOND_NS
            {
                self.give_up(node);
            }
        }
        let late = |(_, (_, _, begun)): &(&u32, &(u32, u32, u64))| self.now > *begun + TIMEOUT_NS;
        let late = self.hub.running.iter().filter(late);
        let late: Vec<(u32, u32, u32)> = late.map(|(id, (node, n, _))| (*id, *node, *n)).collect();
        for (task, node, attempt) in late {
            self.count("timeouts");
            let session = self.hub.peers[node as usize].session;
            self.send_order(node, session, Order::Abort { task, attempt });
        }
    }

    fn lose(&mut self, node: u32) {
        self.note(format_args!("node {node} is lost"));
        self.count("nodes lost");
        let peer = &mut self.hub.peers[node as usize];
        peer.session = 0;
        peer.lost = true;
        self.tell(Event::NodeLost { id: NodeId(node) });
        self.heard_of(node, u64::MAX);
    }

    fn give_up(&mut self, node: u32) {
        self.note(format_args!("node {node} is given up"));
        self.count("nodes given up");
        self.hub.peers[node as usize].given_up = true;
        self.forget_files(node);
        self.tell(Event::NodeGivenUp { id: NodeId(node) });
    }

    fn forget_files(&mut self, node: u32) {
        self.hub.made.retain(|_, made| made.place != node);
    }

    pub(crate) fn on_report(&mut self, node: u32, session: u64, sent_ns: u64, report: Report) {
        if !self.hub.up {
            return;
        }
        if let Report::Hello { incarnation, files_kept, untold } = report {
            let peer = &self.hub.peers[node as usize];
            let is_known = peer.session != 0 && peer.incarnation == incarnation;
            if self.now >= self.hub.opens_ns && !is_known {
                self.join(node, sent_ns, incarnation, files_kept, untold);
            }
            return;
        }
        let now = self.now;
        let peer = &mut self.hub.peers[node as usize];
        if peer.session != session || session == 0 {
            if matches!(report, Report::Ended(_)) {
                self.count("reports of old sessions");
            }
            return;
        }
        peer.heard_ns = now;
        peer.sent_ns = sent_ns;
        self.heard_of(node, sent_ns);
        match report {
            Report::Ended(ended) => self.on_ended(node, ended),
            Report::Pong => {}
            Report::Hello { .. } => unreachable!("handled above"),
        }
    }

    /// An agent begins a session. Whatever was left of the last one is over.
    fn join(
        &mut self,
        node: u32,
        sent_ns: u64,
        incarnation: u64,
        files_kept: bool,
        untold: Vec<Ended>,
    ) {
        if self.hub.peers[node as usize].session != 0 {
            self.count("sessions begun anew");
            self.lose(node);
        }
        let now = self.now;
        self.hub.sessions += 1;
        let session = self.hub.sessions;
        let peer = &mut self.hub.peers[node as usize];
        let files_kept = files_kept && !peer.given_up;
        let given_up = false;
        *peer = Peer { session, incarnation, heard_ns: now, sent_ns, lost: false, given_up };
        self.note(format_args!("node {node} joins kept {files_kept}"));
        if !files_kept {
            self.forget_files(node);
        }
        self.send_order(
            node,
            session,
            Order::Welcome { session, incarnation, files_kept, heard_ns: sent_ns },
        );
        let cores = self.scenario.cores[node as usize];
        // A file has one byte: memory for a few of them.
        let capacity = Capacity { cores, cache_bytes: 2 * u64::from(cores), ..Capacity::default() };
        let life = self.hub.life;
        self.tell(Event::NodeJoined { id: NodeId(node), capacity, files_kept });
        for ended in untold {
            if ended.life == life && !self.ended {
                self.count("late reports");
                self.on_ended(node, ended);
            }
        }
    }

    fn on_ended(&mut self, node: u32, ended: Ended) {
        let inputs = &self.scenario.jobs[ended.task as usize].inputs;
        let places = inputs.iter().filter_map(|input| self.hub.made.get(input));
        let places: BTreeSet<u32> = places.map(|made| made.place).collect();
        let others = places.into_iter().filter(|place| *place != SERVER && *place != node);
        let waits_for: BTreeSet<u32> =
            others.filter(|other| !self.hub.peers[*other as usize].lost).collect();
        if ended.outcome == ActionOutcome::Failed && !waits_for.is_empty() {
            self.hub.doubts.push(Doubt { ended, node, since_ns: self.now, waits_for });
        } else {
            self.pass_on(node, &ended);
        }
    }

    /// A node was heard that sent this then, or is lost: failures that waited for that are clear.
    fn heard_of(&mut self, node: u32, sent_ns: u64) {
        for doubt in self.hub.doubts.iter_mut().filter(|doubt| doubt.since_ns < sent_ns) {
            doubt.waits_for.remove(&node);
        }
        let doubts = std::mem::take(&mut self.hub.doubts);
        let (clear, left) = doubts.into_iter().partition(|doubt| doubt.waits_for.is_empty());
        self.hub.doubts = left;
        for Doubt { ended, node, .. } in clear {
            self.pass_on(node, &ended);
        }
    }

    fn pass_on(&mut self, node: u32, ended: &Ended) {
        let Ended { task, attempt, outcome, content, .. } = *ended;
        let id = TaskId(task);
        let before = self.hub.scheduler.task(id).expect("it was defined");
        let runs = before.state == TaskState::Running { node: NodeId(node) };
        let is_current = runs && before.attempt == attempt;
        self.note(format_args!("ended {task} attempt {attempt} {outcome:?} taken {is_current}"));
        if is_current {
            self.hub.running.remove(&task);
            if outcome == ActionOutcome::Succeeded {
                let expected = self.expected[task as usize];
                assert_eq!(content, Some(expected), "task {task} read what it should not");
                let made = Made { place: self.place_of(node), modified_ns: self.now };
                self.hub.made.insert(task, made);
                self.hub.open.remove(&task);
                self.count("effects taken");
            }
        } else {
            self.count("ends not taken");
        }
        self.tell(Event::ActionEnded { id, attempt, outcome, run_ns: None });
        let after = self.hub.scheduler.task(id).expect("it was defined");
        assert!(is_current || after.state == before.state, "an old end of task {task} was taken");
    }
}
