//! A scheduler whose events and outputs are written down as text, invariants checked after every event.
#![allow(dead_code, reason = "each test file uses a part of it")]

use rakuda_core::streams::{Said, StreamEnds, Weights};
use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, Fact, GangId, InvocationId, NodeId, Output,
    Oversubscribe, Places, Requirement, RequirementId, ResourceId, Scheduler, Settled, TaskId,
    TaskKind, Time, Timestamp,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub struct Script {
    pub scheduler: Scheduler,
    now: u64,
    tasks: u32,
    requirements: u32,
    invocations: u32,
    gangs: u32,
    text: String,
}

pub fn ids(numbers: &[u32]) -> Vec<TaskId> {
    numbers.iter().copied().map(TaskId).collect()
}

impl Script {
    /// With requirement 0: one core.
    pub fn new(config: Config) -> Self {
        let scheduler = Scheduler::new(config);
        let mut script = Self {
            scheduler,
            now: 1000,
            tasks: 0,
            requirements: 0,
            invocations: 0,
            gangs: 0,
            text: String::new(),
        };
        script.requirement(Requirement::default());
        script
    }

    /// Hands in an event; its outputs are written down, and returned.
    pub fn send(&mut self, line: &str, event: Event<'_>) -> Vec<Output> {
        self.now += 10;
        let mut out = Vec::new();
        self.scheduler.handle(Time(self.now), event, &mut out);
        self.scheduler.check_invariants();
        writeln!(self.text, "{line}").expect("text takes text");
        for output in &out {
            writeln!(self.text, "    {}", describe(output)).expect("text takes text");
        }
        out
    }

    /// The time of the last event.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What was written down since the last time.
    pub fn text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn quietly(&mut self, event: Event<'_>) {
        let before = self.text.clone();
        let out = self.send("", event);
        assert!(out.is_empty(), "{out:?}");
        self.text = before;
    }

    pub fn requirement(&mut self, requirement: Requirement) -> RequirementId {
        let id = RequirementId(self.requirements);
        self.requirements += 1;
        self.quietly(Event::RequirementDefined { id, requirement });
        id
    }

    pub fn node(&mut self, id: u32, cores: u32) -> Vec<Output> {
        self.node_with(id, Capacity { cores, ..Capacity::default() })
    }

    pub fn node_with(&mut self, id: u32, capacity: Capacity) -> Vec<Output> {
        let line = format!("node {id} joins with {} cores", capacity.cores);
        self.send(&line, Event::NodeJoined { id: NodeId(id), capacity, files_kept: true })
    }

    pub fn lose(&mut self, id: u32) -> Vec<Output> {
        self.send(&format!("node {id} is lost"), Event::NodeLost { id: NodeId(id) })
    }

    pub fn define(
        &mut self,
        kind: TaskKind,
        deferred: bool,
        requirement: RequirementId,
        prerequisites: &[u32],
    ) -> u32 {
        self.define_with(kind, true, deferred, requirement, prerequisites)
    }

    fn define_with(
        &mut self,
        kind: TaskKind,
        has_action: bool,
        deferred: bool,
        requirement: RequirementId,
        prerequisites: &[u32],
    ) -> u32 {
        let id = self.tasks;
        self.tasks += 1;
        let prerequisites = &ids(prerequisites);
        self.quietly(Event::TaskDefined {
            id: TaskId(id),
            kind,
            has_action,
            deferred,
            requirement,
            prerequisites,
        });
        id
    }

    /// Tasks that begin together.
    pub fn gang(&mut self, tasks: &[u32], oversubscribe: bool) -> u32 {
        let id = self.gangs;
        self.gangs += 1;
        let tasks = &ids(tasks);
        let oversubscribe =
            if oversubscribe { Oversubscribe::Always } else { Oversubscribe::Never };
        self.quietly(Event::GangDefined { id: GangId(id), tasks, oversubscribe });
        id
    }

    /// Tasks that streams join; `spread`: they may go to several nodes.
    pub fn joined(&mut self, tasks: &[u32], spread: bool) -> u32 {
        let id = self.gang(tasks, false);
        self.quietly(Event::GangJoined { id: GangId(id), spread, by_turns: false, streams: &[] });
        id
    }

    /// Tasks that these streams join.
    pub fn joined_by(&mut self, tasks: &[u32], streams: &[StreamEnds]) -> u32 {
        let id = self.gang(tasks, false);
        self.quietly(Event::GangJoined { id: GangId(id), spread: true, by_turns: false, streams });
        id
    }

    /// Tasks that streams join over files.
    pub fn by_turns(&mut self, tasks: &[u32], spread: bool) -> u32 {
        let id = self.gang(tasks, true);
        self.quietly(Event::GangJoined { id: GangId(id), spread, by_turns: true, streams: &[] });
        id
    }

    /// The turn of a task has come.
    pub fn turn(&mut self, id: u32) -> Vec<Output> {
        self.send(&format!("turn of {id}"), Event::TurnCame { id: TaskId(id) })
    }

    /// What a task has printed is no good.
    pub fn spoil(&mut self, id: u32) -> Vec<Output> {
        self.send(&format!("output of {id} is spoilt"), Event::OutputSpoilt { id: TaskId(id) })
    }

    /// What is said of the tasks of a gang that streams join.
    pub fn weigh(&mut self, gang: u32, streams: &[StreamEnds], said: &BTreeMap<TaskId, Said>) {
        let weights = &Weights::of(streams, said);
        self.quietly(Event::GangWeighed { id: GangId(gang), weights });
    }

    pub fn share(&mut self, gang: u32) -> Vec<Output> {
        self.send(&format!("gang {gang} shares cores"), Event::GangShares { id: GangId(gang) })
    }

    pub fn refuse(&mut self, gang: u32) -> Vec<Output> {
        self.send(&format!("gang {gang} is refused"), Event::GangRefused { id: GangId(gang) })
    }

    pub fn plain(&mut self, prerequisites: &[u32]) -> u32 {
        self.define(TaskKind::Plain, false, RequirementId(0), prerequisites)
    }

    /// A task that only names others.
    pub fn bare(&mut self, prerequisites: &[u32]) -> u32 {
        self.define_with(TaskKind::Plain, false, false, RequirementId(0), prerequisites)
    }

    /// A task of a class of its own, without an action.
    pub fn asked_bare(&mut self) -> u32 {
        self.define_with(TaskKind::Asked, false, false, RequirementId(0), &[])
    }

    /// A file as the bulk scan found it: modified at `at`, or missing.
    pub fn file(&mut self, at: Option<i64>, prerequisites: &[u32]) -> u32 {
        let id = self.define(TaskKind::File, false, RequirementId(0), prerequisites);
        self.quietly(Event::FactGathered { id: TaskId(id), fact: fact(at) });
        id
    }

    /// A file that nothing makes, as the bulk scan found it.
    pub fn source(&mut self, at: Option<i64>) -> u32 {
        let id = self.define_with(TaskKind::File, false, false, RequirementId(0), &[]);
        self.quietly(Event::FactGathered { id: TaskId(id), fact: fact(at) });
        id
    }

    /// An up-to-date file of `bytes` on `nodes`.
    pub fn input(&mut self, bytes: u64, nodes: &[u32]) -> u32 {
        let id = self.define(TaskKind::File, false, RequirementId(0), &[]);
        let places = match nodes {
            [] => Places::Unknown,
            [node] => Places::One(NodeId(*node)),
            nodes => Places::Many(nodes.iter().copied().map(NodeId).collect()),
        };
        let fact = Fact { modified_ns: Some(1), bytes, places };
        self.quietly(Event::FactGathered { id: TaskId(id), fact });
        id
    }

    pub fn invoke(&mut self, tasks: &[u32]) -> Vec<Output> {
        self.invoke_from(tasks, None)
    }

    pub fn invoke_from(&mut self, tasks: &[u32], caller: Option<u32>) -> Vec<Output> {
        let id = InvocationId(self.invocations);
        self.invocations += 1;
        let from = caller.map_or(String::new(), |caller| format!(" from {caller}"));
        let line = format!("invocation {} of {tasks:?}{from}", id.0);
        let tasks = &ids(tasks);
        self.send(&line, Event::InvocationStarted { id, tasks, caller: caller.map(TaskId) })
    }

    pub fn end(&mut self, id: u32, outcome: ActionOutcome) -> Vec<Output> {
        let line = format!("action {id} {outcome:?}").to_lowercase();
        let attempt = self.scheduler.task(TaskId(id)).map_or(0, |task| task.attempt);
        self.send(&line, Event::ActionEnded { id: TaskId(id), attempt, outcome, run_ns: None })
    }

    /// A lost node comes back, with its files or without.
    pub fn come_back(&mut self, id: u32, cores: u32, files_kept: bool) -> Vec<Output> {
        let with = if files_kept { "with" } else { "without" };
        let line = format!("node {id} joins again {with} its files");
        let capacity = Capacity { cores, ..Capacity::default() };
        self.send(&line, Event::NodeJoined { id: NodeId(id), capacity, files_kept })
    }

    pub fn give_up(&mut self, id: u32) -> Vec<Output> {
        self.send(&format!("node {id} is given up"), Event::NodeGivenUp { id: NodeId(id) })
    }

    /// A file was found on a node.
    pub fn found(&mut self, id: u32, at: i64, node: u32) -> Vec<Output> {
        let fact =
            Fact { modified_ns: Some(at.into()), bytes: 1, places: Places::One(NodeId(node)) };
        let line = format!("file {id} is of {at} on node {node}");
        self.send(&line, Event::FactGathered { id: TaskId(id), fact })
    }

    pub fn ok(&mut self, id: u32) -> Vec<Output> {
        self.end(id, ActionOutcome::Succeeded)
    }

    pub fn fail(&mut self, id: u32) -> Vec<Output> {
        self.end(id, ActionOutcome::Failed)
    }

    pub fn fact(&mut self, id: u32, at: Option<i64>) -> Vec<Output> {
        let line = format!("file {id} is {}", at.map_or("missing".into(), |at| format!("of {at}")));
        self.send(&line, Event::FactGathered { id: TaskId(id), fact: fact(at) })
    }

    pub fn compared(&mut self, id: u32, rerun: bool) -> Vec<Output> {
        let line = format!("file {id} was made {}", if rerun { "otherwise" } else { "the same" });
        self.send(&line, Event::RecordCompared { id: TaskId(id), rerun })
    }

    pub fn answer(&mut self, id: u32, needed: bool, timestamp: Timestamp) -> Vec<Output> {
        let line =
            format!("task {id} is {}, {timestamp:?}", if needed { "needed" } else { "not needed" });
        self.send(&line, Event::NeededAnswered { id: TaskId(id), needed, timestamp })
    }

    pub fn add(&mut self, id: u32, prerequisites: &[u32]) -> Vec<Output> {
        let line = format!("task {id} also needs {prerequisites:?}");
        let prerequisites = &ids(prerequisites);
        self.send(
            &line,
            Event::PrerequisitesAdded { id: TaskId(id), prerequisites, has_action: true },
        )
    }

    pub fn resolved(&mut self, id: u32, found: bool) -> Vec<Output> {
        let line = format!("task {id} is {}", if found { "resolved" } else { "not resolved" });
        self.send(&line, Event::ResolveEnded { id: TaskId(id), found })
    }

    pub fn stop(&mut self, kill: bool) -> Vec<Output> {
        self.send(if kill { "kill" } else { "stop" }, Event::StopRequested { kill })
    }
}

pub fn fact(at: Option<i64>) -> Fact {
    Fact { modified_ns: at.map(i128::from), bytes: 1, places: Places::Unknown }
}

/// The tasks that were started, in order.
pub fn started(out: &[Output]) -> Vec<u32> {
    let start = |output: &Output| match output {
        Output::StartAction { id, .. } => Some(id.0),
        _ => None,
    };
    out.iter().filter_map(start).collect()
}

/// Task and node of what was started, in order.
pub fn placed(out: &[Output]) -> Vec<(u32, u32)> {
    let start = |output: &Output| match output {
        Output::StartAction { id, node, .. } => Some((id.0, node.0)),
        _ => None,
    };
    out.iter().filter_map(start).collect()
}

pub fn describe(output: &Output) -> String {
    let list = |tasks: &[TaskId]| tasks.iter().map(|id| id.0).collect::<Vec<_>>();
    match output {
        Output::GatherFact { id } => format!("look at file {}", id.0),
        Output::AskNeeded { id } => format!("ask {}", id.0),
        Output::CompareRecord { id } => format!("compare {}", id.0),
        Output::Resolve { id } => format!("resolve {}", id.0),
        Output::GangStarted { id, oversubscribed: false } => format!("gang {} begins", id.0),
        Output::GangStarted { id, oversubscribed: true } => {
            format!("gang {} begins, oversubscribed", id.0)
        }
        Output::GangTooLarge { id, slots, slots_there } => {
            format!("gang {} needs {slots} slots of {slots_there}", id.0)
        }
        Output::GangRefused { id, slots, slots_there } => {
            format!("gang {} fails: {slots} slots of {slots_there}", id.0)
        }
        Output::GangEntangled { id, task, on } => {
            format!("gang {}: {} needs {}", id.0, task.0, on.0)
        }
        Output::StartAction { id, attempt, node, devices } => {
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let with = devices.0.iter().map(|(ResourceId(id), n)| format!(", devices {id}: {n:?}"));
            format!("start {} on node {}{again}{}", id.0, node.0, with.collect::<String>())
        }
        Output::TurnTaken { id, devices, .. } => {
            let with = devices.0.iter().map(|(ResourceId(id), n)| format!(", devices {id}: {n:?}"));
            format!("{} has its turn{}", id.0, with.collect::<String>())
        }
        Output::AbortAction { id } => format!("abort {}", id.0),
        Output::AttemptFailed { id, attempt, retried } => {
            let next = if *retried { "retried" } else { "given up" };
            format!("attempt {attempt} of {} failed, {next}", id.0)
        }
        Output::RetryDelayed { id, attempt, delay_ns } => {
            format!("attempt {} of {} in {delay_ns} ns", attempt + 1, id.0)
        }
        Output::AttemptLost { id, attempt, node, rerun } => {
            let next = if *rerun { "runs again" } else { "not again" };
            format!("attempt {attempt} of {} lost with node {}, {next}", id.0, node.0)
        }
        Output::TaskBlamed { id, nodes } => {
            let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
            format!("{} blamed for nodes {nodes:?}", id.0)
        }
        Output::TaskReopened { id } => format!("{} open again", id.0),
        Output::InputLost { id } => format!("input {} lost", id.0),
        Output::NodeDrained { id, failures } => {
            format!("node {} drained after {failures} failures", id.0)
        }
        Output::NodeTakenBack { id } => format!("node {} taken back", id.0),
        Output::NowhereToRun { requirement } => format!("nowhere to run {}", requirement.0),
        Output::TargetMissing { id } => format!("target {} missing", id.0),
        Output::TaskSettled { id, how } => {
            let how = match how {
                Settled::Executed => "executed",
                Settled::NotNeeded => "not needed",
                Settled::Failed => "failed",
                Settled::Abandoned => "abandoned",
            };
            format!("{} {how}", id.0)
        }
        Output::InvocationEnded { id, failed, abandoned } => {
            if failed.is_empty() && abandoned.is_empty() {
                format!("invocation {} ended well", id.0)
            } else {
                let (failed, abandoned) = (list(failed), list(abandoned));
                format!("invocation {} ended, failed {failed:?}, abandoned {abandoned:?}", id.0)
            }
        }
    }
}
