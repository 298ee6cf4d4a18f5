//! One run: reports to the scheduler what happens and does what it says, as the hub does, in virtual time.
//!
//! What a task does on its node is in `attempts`. Decides nothing about order: that is the scheduler's.

mod attempts;

use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, Fact, FailurePolicy, InvocationId, NodeId, Output,
    Places, Policy, Requirement, RequirementId, RuleId, Scheduler, TaskId, TaskKind, Time,
};

use self::attempts::Attempt;
use crate::bound::shortest_ns;
use crate::cluster::Cluster;
use crate::ids::{FileId, MachineId};
use crate::log::Log;
use crate::outcome::{Outcome, TaskRecord};
use crate::plan::{Plan, Planned};
use crate::queue::EventQueue;
use crate::units::SECOND_NS;
use crate::workload::{Workload, WorkloadError};
use crate::world::{Owner, World};

/// The virtual clock's first reading: after the inputs' times, which are after 1970.
const START_NS: u64 = 1_000 * SECOND_NS;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster that it runs on.
    pub cluster: Cluster,
    /// The order in queues.
    pub policy: Policy,
    /// Whether tasks are queued where their input is.
    pub locality: bool,
    /// Whether idle nodes take from others.
    pub stealing: bool,
    /// What a failed task means.
    pub failure: FailurePolicy,
    /// Attempts after the first.
    pub retry: u32,
    /// The seed of everything that is random.
    pub seed: u64,
    /// Whether the scheduler knows beforehand how long each task takes, as after an earlier run.
    pub known_times: bool,
    /// Whether the scheduler's invariants are checked after every event (slow).
    pub check: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster: Cluster::default(),
            policy: Policy::LifoHrf,
            locality: true,
            stealing: true,
            failure: FailurePolicy::Wait,
            retry: 0,
            seed: 1,
            known_times: false,
            check: false,
        }
    }
}

/// Something that will happen at a time.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The message to start reached the node.
    Started { id: TaskId, serial: u64 },
    /// A task has computed.
    Computed { id: TaskId, serial: u64 },
    /// The message that a task has ended reached the hub.
    Reported { id: TaskId, serial: u64, outcome: ActionOutcome },
    /// The look at a task's file is over.
    FactAsked { id: TaskId },
}

/// A run that goes on.
pub struct Simulation<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) settings: Settings,
    pub(crate) plan: Plan,
    pub(crate) world: World,
    pub(crate) queue: EventQueue<Happening>,
    pub(crate) now: u64,
    /// Attempts under way, by the scheduler's number.
    pub(crate) attempts: Vec<Option<Box<Attempt>>>,
    /// Starts so far: tells a message about an attempt that is no more from one about this.
    pub(crate) serials: u64,
    pub(crate) outcome: Outcome,
    scheduler: Scheduler,
    outputs: Vec<Output>,
    log: Log,
    requirements: Vec<(u32, u64)>,
    /// Reads a clock, to measure what the scheduler takes.
    clock: Option<fn() -> u64>,
    ended: bool,
}

impl<'a> Simulation<'a> {
    /// Makes a run and does everything up to the invocation.
    ///
    /// # Errors
    /// When the workload makes no sense.
    pub fn new(
        workload: &'a Workload,
        settings: Settings,
        log: Log,
    ) -> Result<Self, WorkloadError> {
        let plan = Plan::new(workload)?;
        let config = Config {
            policy: settings.policy,
            failure: settings.failure,
            retry: settings.retry,
            locality: settings.locality,
            stealing: settings.stealing,
            seed: settings.seed,
            ..Config::default()
        };
        let mut world = World::new(&settings.cluster, &workload.files);
        let inputs: Vec<FileId> = plan.inputs().collect();
        world.place_inputs(&inputs, SECOND_NS, settings.seed);
        let attempts = (0..plan.planned.len()).map(|_| None).collect();
        let outcome = Outcome::new(workload.tasks.len(), &settings.cluster);
        let mut simulation = Self {
            workload,
            settings,
            plan,
            world,
            queue: EventQueue::default(),
            now: START_NS,
            attempts,
            serials: 0,
            outcome,
            scheduler: Scheduler::new(config),
            outputs: Vec::new(),
            log,
            requirements: Vec::new(),
            clock: None,
            ended: false,
        };
        simulation.join_nodes();
        simulation.define();
        Ok(simulation)
    }

    /// Measures with this clock (ns) what the scheduler takes from now on. Nothing else depends on it.
    pub fn measure(&mut self, clock: fn() -> u64) {
        self.clock = Some(clock);
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// When nothing is left to happen and the run has not ended: the scheduler has forgotten something.
    pub fn run(mut self) -> (Outcome, Log) {
        let wanted = [self.plan.wanted()];
        let id = InvocationId(0);
        self.tell(Event::InvocationStarted { id, tasks: &wanted, caller: None });
        while self.step() {}
        assert!(self.ended, "nothing is left to happen: {:?}", self.scheduler.counts());
        self.outcome.makespan_ns = self.now - START_NS;
        (self.outcome, self.log)
    }

    /// Lets the next thing happen; whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        self.world.flows.settle(self.now);
        let queued = self.queue.next_ns();
        let transfer = self.world.flows.next_ns();
        let (Some(next_ns), false) = (queued.into_iter().chain(transfer).min(), self.ended) else {
            return false;
        };
        self.now = next_ns;
        if queued == Some(next_ns) {
            let (_, happening) = self.queue.pop().expect("it has an event at this time");
            self.on_happening(&happening);
        } else {
            let flow = self.world.flows.next().expect("a transfer ends at this time");
            match self.world.owner(flow) {
                Owner::Read(id) => self.on_read(id),
                Owner::Write(id) => self.on_written(id),
                Owner::Flush(machine) => self.world.end_flush(self.now, flow, machine),
            }
        }
        true
    }

    fn on_happening(&mut self, happening: &Happening) {
        match *happening {
            Happening::Started { id, serial } => self.on_started(id, serial),
            Happening::Computed { id, serial } => self.on_computed(id, serial),
            Happening::Reported { id, serial, outcome } => self.on_reported(id, serial, outcome),
            Happening::FactAsked { id } => {
                let fact = self.fact(id);
                self.tell(Event::FactGathered { id, fact });
            }
        }
    }

    fn on_reported(&mut self, id: TaskId, serial: u64, outcome: ActionOutcome) {
        let place = &mut self.attempts[id.0 as usize];
        if place.as_ref().is_some_and(|attempt| attempt.serial == serial) {
            *place = None;
            self.note(format_args!("ended {} {outcome:?}", id.0));
            let attempt = self.scheduler.task(id).map_or(0, |task| task.attempt);
            self.tell(Event::ActionEnded { id, attempt, outcome, run_ns: None });
        }
    }

    pub(crate) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        self.log.note(self.now - START_NS, line);
    }

    /// The time since the invocation.
    pub(crate) fn since_start_ns(&self) -> u64 {
        self.now - START_NS
    }

    fn join_nodes(&mut self) {
        for node in 0..self.settings.cluster.nodes {
            let cluster = &self.settings.cluster;
            let capacity = Capacity {
                cores: cluster.cores,
                memory_bytes: cluster.memory_bytes.saturating_sub(cluster.system_bytes),
                cache_bytes: cluster.memory_bytes.saturating_sub(cluster.system_bytes),
                resources: Vec::new(),
            };
            self.tell(Event::NodeJoined { id: NodeId(node), capacity, files_kept: false });
        }
    }

    /// Defines all tasks for the scheduler, with what is known of their files.
    fn define(&mut self) {
        for id in self.plan.ids() {
            let planned = self.plan.what(id);
            let (kind, has_action, needs) = match planned {
                Planned::Input(_) => (TaskKind::File, false, (1, 0)),
                Planned::Wanted => (TaskKind::Plain, false, (1, 0)),
                Planned::Task(task) => {
                    let spec = &self.workload.tasks[task as usize];
                    let kind =
                        if spec.outputs.is_empty() { TaskKind::Plain } else { TaskKind::File };
                    (kind, true, (spec.cores.max(1), spec.memory_bytes))
                }
            };
            let requirement = self.requirement(needs);
            let prerequisites: Vec<TaskId> = self.plan.prerequisites(id).to_vec();
            let prerequisites = prerequisites.as_slice();
            let deferred = false;
            self.tell(Event::TaskDefined {
                id,
                kind,
                has_action,
                deferred,
                requirement,
                prerequisites,
            });
            if let Planned::Task(task) = planned {
                let rule = self.workload.tasks[task as usize].rule;
                self.tell(Event::RuleGiven { id, rule: RuleId(rule.0) });
                if self.settings.known_times {
                    let run_ns = self.expected_ns(task);
                    self.tell(Event::TimeExpected { id, run_ns });
                }
            }
            if kind == TaskKind::File {
                let fact = self.fact(id);
                self.tell(Event::FactGathered { id, fact });
            }
        }
    }

    /// How long a task takes when it has its node to itself and its input in memory.
    fn expected_ns(&self, task: u32) -> u64 {
        let spec = &self.workload.tasks[task as usize];
        shortest_ns(self.workload, &self.settings.cluster, spec, self.settings.seed, task)
    }

    fn requirement(&mut self, needs: (u32, u64)) -> RequirementId {
        if let Some(known) = self.requirements.iter().position(|other| *other == needs) {
            return RequirementId(known as u32);
        }
        let id = RequirementId(self.requirements.len() as u32);
        self.requirements.push(needs);
        let (cores, memory_bytes) = needs;
        let requirement = Requirement { cores, memory_bytes, ..Requirement::default() };
        self.tell(Event::RequirementDefined { id, requirement });
        id
    }

    /// What is known of the file of a task now.
    fn fact(&self, id: TaskId) -> Fact {
        let one;
        let files = match self.plan.what(id) {
            Planned::Input(file) => {
                one = [file];
                one.as_slice()
            }
            Planned::Task(task) => self.workload.tasks[task as usize].outputs.as_slice(),
            Planned::Wanted => &[],
        };
        let missing = files.iter().any(|file| self.world.modified_ns(*file).is_none());
        let (Some(first), false) = (files.first(), missing) else {
            return Fact { modified_ns: None, bytes: 0, places: Places::Unknown };
        };
        let modified_ns = self.world.modified_ns(*first).map(i128::from);
        let bytes = files.iter().map(|file| self.world.bytes(*file)).sum();
        Fact { modified_ns, bytes, places: self.world.places(*first) }
    }

    /// Hands an event in, and does what comes of it.
    fn tell(&mut self, event: Event<'_>) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let before_ns = self.clock.map(|clock| clock());
        self.scheduler.handle(Time(self.now), event, &mut outputs);
        if let (Some(clock), Some(before_ns)) = (self.clock, before_ns) {
            self.outcome.scheduler_ns += clock() - before_ns;
        }
        if self.settings.check {
            self.scheduler.check_invariants();
        }
        for output in outputs.drain(..) {
            self.act(output);
        }
        self.outputs = outputs;
    }

    fn act(&mut self, output: Output) {
        let cluster = &self.settings.cluster;
        match output {
            Output::StartAction { id, attempt, node, .. } => {
                self.serials += 1;
                let serial = self.serials;
                let arrival = self.now + cluster.dispatch_ns;
                self.queue.push(arrival, Happening::Started { id, serial });
                let Planned::Task(task) = self.plan.what(id) else {
                    unreachable!("only tasks have actions");
                };
                let record = Attempt::new(task, MachineId(node.0), serial);
                self.attempts[id.0 as usize] = Some(Box::new(record));
                self.note(format_args!("start {} attempt {attempt} node {}", id.0, node.0));
            }
            Output::GatherFact { id } => {
                self.queue.push(self.now + cluster.fact_ns, Happening::FactAsked { id });
            }
            Output::AbortAction { id } => self.abort(id),
            Output::AttemptFailed { id, retried, .. } => {
                self.outcome.attempts_failed += 1;
                self.note(format_args!("failed {} retried {retried}", id.0));
                self.remove_outputs(id);
            }
            Output::RetryDelayed { .. }
            | Output::AttemptLost { .. }
            | Output::TaskBlamed { .. }
            | Output::TaskReopened { .. }
            | Output::InputLost { .. }
            | Output::NodeDrained { .. }
            | Output::NodeTakenBack { .. } => unreachable!("no node is lost, and no action fails"),
            Output::NowhereToRun { requirement } => {
                self.note(format_args!("nowhere {}", requirement.0));
            }
            Output::TargetMissing { id } => self.note(format_args!("missing {}", id.0)),
            Output::TaskSettled { id, how } => {
                self.note(format_args!("settled {} {how:?}", id.0));
            }
            Output::InvocationEnded { failed, abandoned, .. } => {
                self.note(format_args!("over {} {}", failed.len(), abandoned.len()));
                self.outcome.tasks_failed = failed.len() as u64;
                self.outcome.tasks_abandoned = abandoned.len() as u64;
                self.ended = true;
            }
            Output::GangStarted { id, .. }
            | Output::GangTooLarge { id, .. }
            | Output::GangRefused { id, .. }
            | Output::GangEntangled { id, .. } => {
                unreachable!("no gang is defined: {id:?}")
            }
            Output::TurnTaken { id, .. } => unreachable!("no gang is defined: {id:?}"),
            Output::AskNeeded { id } | Output::CompareRecord { id } | Output::Resolve { id } => {
                unreachable!("{id:?} is neither deferred nor of a class of its own")
            }
        }
    }

    fn remove_outputs(&mut self, id: TaskId) {
        if let Planned::Task(task) = self.plan.what(id) {
            for file in &self.workload.tasks[task as usize].outputs {
                self.world.remove(*file);
            }
        }
    }

    /// A task has done all that it had to.
    pub(crate) fn record(&mut self, task: u32, record: TaskRecord) {
        self.outcome.tasks[task as usize] = Some(record);
    }
}
