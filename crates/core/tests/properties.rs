//! Random plans, policies, failures, retries, lost nodes and files, walltimes, late reports and
//! nested invocations, in part against a naive model.
//!
//! More cases than usual: `PROPTEST_CASES=20000 cargo test -p rakuda-core --test properties`.

use proptest::prelude::*;
use rakuda_core::streams::StreamEnds;
use rakuda_core::{
    ActionOutcome, Capacity, Choice, Config, Event, Fact, FailurePolicy, GangId, InvocationId,
    NodeId, Output, Oversubscribe, Places, Policy, Requirement, RequirementId, ResourceId,
    Scheduler, Settled, Suits, TaskId, TaskKind, Time, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const NODES: u32 = 3;
/// Later than every file before the run.
const START: u64 = 1_000;
const RETRIES: u32 = 1;

#[derive(Clone, Debug)]
struct Plan {
    tasks: Vec<TaskPlan>,
    config: Config,
    /// What happens next, whenever there is a choice.
    choices: Vec<u16>,
    /// Tasks that a second invocation wants.
    second: Vec<u32>,
    losses: bool,
    /// Whether lost nodes come back without their files, if files lie on nodes.
    disks_lost: bool,
    stop: Option<bool>,
    /// Tasks that begin together, and whether there may be more of them than slots.
    gangs: Vec<(Vec<u32>, bool)>,
    /// Which of them run by turns.
    by_turns: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
struct TaskPlan {
    kind: TaskKind,
    has_action: bool,
    /// Of a file or directory before the run; or what an asked task answers.
    modified: Option<i64>,
    prerequisites: Vec<u32>,
    /// Known at the start of a deferred task: waited for only.
    order_only: Option<Vec<u32>>,
    requirement: u32,
    /// Attempts that fail.
    failures: u32,
    place: Option<u32>,
    bytes: u64,
    /// Its action invokes these.
    calls: Option<Vec<u32>>,
}

fn at(ns: i64) -> Timestamp {
    Timestamp::At(i128::from(ns).into())
}

fn requirements() -> Vec<Requirement> {
    let one = Requirement::default();
    vec![
        one.clone(),
        Requirement { cores: 2, reserve: true, ..one.clone() },
        Requirement { exclusive: true, steal: false, ..one.clone() },
        Requirement { cores: 99, ..one.clone() },
        Requirement { resources: vec![(ResourceId(0), 1)], memory_bytes: 6, ..one.clone() },
        Requirement { allowed_nodes: Some(vec![NodeId(1)]), retry: Some(RETRIES), ..one.clone() },
        Requirement { choice: Some(Choice { used_up: true }), ..one.clone() },
        Requirement { choice: Some(Choice { used_up: false }), locality: false, ..one },
    ]
}

fn capacity(node: u32) -> Capacity {
    Capacity { cores: 1 + node, memory_bytes: 10, cache_bytes: 6, resources: vec![2] }
}

fn bits(mask: u64, below: usize) -> Vec<u32> {
    (0..below.min(64))
        .filter(|bit| mask >> bit & 1 == 1)
        .map(|bit| u32::try_from(bit).unwrap())
        .collect()
}

fn task_plan(index: usize) -> impl Strategy<Value = TaskPlan> {
    let kind = prop_oneof![
        2 => Just(TaskKind::Plain),
        5 => Just(TaskKind::File),
        1 => Just(TaskKind::Directory),
        1 => Just(TaskKind::Asked)
    ];
    let sparse = (any::<u64>(), any::<u64>()).prop_map(|(one, other)| one & other);
    let very_sparse = (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c)| a & b & c);
    let calls = proptest::option::weighted(0.15, very_sparse.clone());
    let place = proptest::option::of(0..NODES);
    let failures = prop_oneof![6 => Just(0_u32), 1 => Just(1_u32), 1 => Just(2_u32)];
    let order_only = proptest::option::weighted(0.1, sparse.clone());
    let shape = (sparse, order_only, calls);
    let facts = (proptest::option::weighted(0.8, 1..9_i64), place, 0..5_u64);
    let rest = (proptest::bool::weighted(0.9), prop_oneof![3 => Just(0), 3 => 0..8_u32], failures);
    (kind, shape, facts, rest).prop_map(
        move |(
            kind,
            (mask, order_only, calls),
            (modified, place, bytes),
            (has_action, requirement, failures),
        )| {
            TaskPlan {
                kind,
                has_action,
                modified,
                prerequisites: bits(mask, index),
                order_only: order_only.map(|mask| bits(mask, index)),
                requirement,
                failures,
                place,
                bytes,
                calls: calls.map(|mask| bits(mask, index)),
            }
        },
    )
}

fn plan(failing: bool) -> impl Strategy<Value = Plan> {
    let tasks = (1..24_usize).prop_flat_map(|len| (0..len).map(task_plan).collect::<Vec<_>>());
    let policy = prop_oneof![
        Just(Policy::Fifo),
        Just(Policy::Lifo),
        Just(Policy::LifoHrf),
        Just(Policy::RankHrf),
        Just(Policy::Cached),
        Just(Policy::LifoHlfet),
        Just(Policy::Serial)
    ];
    let failure = prop_oneof![
        Just(FailurePolicy::Wait),
        Just(FailurePolicy::Kill),
        Just(FailurePolicy::Continue)
    ];
    let flags = (
        (any::<bool>(), any::<bool>()),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        proptest::bool::weighted(0.1),
        0..4_u32,
    );
    let stop = proptest::option::weighted(0.1, any::<bool>());
    let choices = proptest::collection::vec(any::<u16>(), 0..300);
    (tasks, policy, failure, flags, stop, choices, any::<u64>()).prop_map(
        move |(
            mut tasks,
            policy,
            failure,
            ((locality, stealing), (losses, on_nodes, disks_lost), build_all, limit),
            stop,
            choices,
            seed,
        )| {
            let failure = if failing { failure } else { FailurePolicy::Continue };
            if !failing {
                for task in &mut tasks {
                    // An action whose call fails is a failure of its own, which the model leaves out.
                    if task.failures > RETRIES {
                        task.calls = None;
                    }
                }
            }
            let second = bits(seed, tasks.len());
            Plan {
                tasks,
                config: Config {
                    policy,
                    failure,
                    retry: RETRIES,
                    build_all,
                    dry_run: false,
                    compares: seed % 2 == 0,
                    locality,
                    stealing,
                    // The model below knows nothing of these: there a loss changes nothing in what comes out.
                    files_on_nodes: failing && on_nodes,
                    files_apart: false,
                    blame_after: if failing { limit } else { 0 },
                    drain_after: if failing { limit } else { 0 },
                    seed,
                },
                choices,
                second,
                losses,
                disks_lost,
                stop: stop.filter(|_| failing),
                gangs: Vec::new(),
                by_turns: BTreeSet::new(),
            }
        },
    )
}

/// A plan with gangs.
fn plan_with_gangs() -> impl Strategy<Value = Plan> {
    let gangs = proptest::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..4);
    (plan(true), gangs).prop_map(|(mut plan, masks)| {
        let mut taken = BTreeSet::new();
        for (one, other, oversubscribe) in masks {
            let members = bits(one & other, plan.tasks.len());
            let free: Vec<u32> = members.into_iter().filter(|id| taken.insert(*id)).collect();
            if !free.is_empty() {
                if other % 3 == 0 {
                    plan.by_turns.insert(u32::try_from(plan.gangs.len()).unwrap());
                }
                plan.gangs.push((free, oversubscribe));
            }
        }
        // An action that waits for its own gang, through whatever, waits forever.
        let reaches_gang: Vec<bool> = (0..plan.tasks.len()).fold(Vec::new(), |mut reaches, id| {
            let task = &plan.tasks[id];
            let lists = task.prerequisites.iter().chain(task.order_only.iter().flatten());
            let mut all = lists.chain(task.calls.iter().flatten());
            let own = taken.contains(&u32::try_from(id).unwrap());
            let hit = own || all.any(|id| reaches[*id as usize]);
            reaches.push(hit);
            reaches
        });
        for task in &mut plan.tasks {
            let called = task.calls.iter().flatten();
            if called.clone().any(|id| reaches_gang[*id as usize]) {
                task.calls = None;
            }
        }
        plan
    })
}

/// A shell that answers in random order and watches that the rules are kept.
struct World<'a> {
    plan: &'a Plan,
    scheduler: Scheduler,
    now: u64,
    modified: Vec<Option<i64>>,
    /// Where files lie, if they lie on nodes.
    places: Vec<Option<u32>>,
    answered: Vec<Timestamp>,
    failures_left: Vec<u32>,
    real: Vec<Vec<u32>>,
    pending: Vec<Pending>,
    running: BTreeMap<u32, Running>,
    joined: BTreeSet<u32>,
    /// Nodes that were there and are not.
    away: BTreeSet<u32>,
    given_up: BTreeSet<u32>,
    /// Nodes on which nothing starts, because actions failed.
    drained: BTreeSet<u32>,
    /// Tasks that were opened again once: what ran then goes on.
    reopened: BTreeSet<u32>,
    ends: BTreeMap<u32, u64>,
    expected: BTreeMap<u32, u64>,
    /// Requirement and node: it suits, so many tasks of a gang at once.
    suiting: BTreeMap<(u32, u32), u32>,
    /// The same when the last gang began.
    suiting_gang: BTreeMap<(u32, u32), u32>,
    /// Of the last gang that began, by node: so many tasks, and so many that it suits at once.
    gang_on: BTreeMap<u32, (u32, u32)>,
    settled: BTreeMap<u32, Settled>,
    runs: Vec<u32>,
    /// The last attempt of each.
    attempts: Vec<u32>,
    invocations: u32,
    ended: BTreeSet<u32>,
    /// Tasks of gangs.
    members: BTreeMap<u32, u32>,
    /// Those whose gang has just begun, and whose action is to start next.
    beginning: BTreeSet<u32>,
    /// The gang that has just begun has more tasks than slots.
    oversubscribed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pending {
    Gather(u32),
    Ask(u32),
    Compare(u32),
    Resolve(u32),
    /// A gang that is too large.
    Refuse(u32),
    /// Whoever a task by turns waits for is done: task and attempt.
    Turn(u32, u32),
    /// The end of an attempt: task and attempt.
    End(u32, u32),
    /// The same, of one that was lost.
    Late(u32, u32),
}

#[derive(Debug)]
struct Running {
    node: u32,
    cores: u32,
    devices: Vec<u32>,
    waits_for: Option<u32>,
    aborted: bool,
    /// There are more tasks than slots: it shares cores.
    oversubscribed: bool,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let tasks = &plan.tasks;
        Self {
            plan,
            scheduler: Scheduler::new(plan.config.clone()),
            now: START,
            modified: tasks.iter().map(|task| task.modified).collect(),
            places: tasks.iter().map(|task| task.place).collect(),
            answered: tasks.iter().map(|task| at(task.modified.unwrap_or(0))).collect(),
            failures_left: tasks.iter().map(|task| task.failures).collect(),
            real: tasks
                .iter()
                .map(
                    |task| {
                        if task.order_only.is_some() { vec![] } else { task.prerequisites.clone() }
                    },
                )
                .collect(),
            pending: Vec::new(),
            running: BTreeMap::new(),
            joined: BTreeSet::new(),
            away: BTreeSet::new(),
            given_up: BTreeSet::new(),
            drained: BTreeSet::new(),
            reopened: BTreeSet::new(),
            ends: BTreeMap::new(),
            expected: BTreeMap::new(),
            suiting: BTreeMap::new(),
            suiting_gang: BTreeMap::new(),
            gang_on: BTreeMap::new(),
            settled: BTreeMap::new(),
            runs: vec![0; tasks.len()],
            attempts: vec![0; tasks.len()],
            invocations: 0,
            ended: BTreeSet::new(),
            members: (0..)
                .zip(&plan.gangs)
                .flat_map(|(gang, (members, _))| members.iter().map(move |id| (*id, gang)))
                .collect(),
            beginning: BTreeSet::new(),
            oversubscribed: false,
        }
    }

    fn send(&mut self, event: Event<'_>) {
        self.now += 1;
        let mut out = Vec::new();
        self.scheduler.handle(Time(self.now), event, &mut out);
        self.scheduler.check_invariants();
        let mut calls = VecDeque::new();
        for output in out {
            self.take(output, &mut calls);
        }
        assert!(self.beginning.is_empty(), "only a part of a gang was begun");
        // A caller may come back while another action runs after a loss (a task was queued again),
        // and after a stop (its invocation need not wait for a wanted task that belongs to
        // another).
        let calm = !self.plan.losses
            && self.plan.stop.is_none()
            && self.plan.gangs.is_empty()
            && self.plan.config.failure == FailurePolicy::Continue;
        if self.plan.config.policy == Policy::Serial && calm && calls.is_empty() {
            assert!(self.active() <= 1, "two at once");
        }
        while let Some(caller) = calls.pop_front() {
            let Some(running) = self.running.get_mut(&caller) else {
                continue;
            };
            running.waits_for = Some(self.invocations);
            let wanted = self.plan.tasks[caller as usize].calls.clone().unwrap();
            self.invoke(&wanted, Some(caller));
        }
    }

    fn active(&self) -> usize {
        self.running.values().filter(|running| running.waits_for.is_none()).count()
    }

    fn invoke(&mut self, tasks: &[u32], caller: Option<u32>) {
        let id = InvocationId(self.invocations);
        self.invocations += 1;
        let tasks: Vec<TaskId> = tasks.iter().copied().map(TaskId).collect();
        let caller = caller.map(TaskId);
        self.send(Event::InvocationStarted { id, tasks: &tasks, caller });
    }

    fn take(&mut self, output: Output, calls: &mut VecDeque<u32>) {
        match output {
            Output::GatherFact { id } => self.pending.push(Pending::Gather(id.0)),
            Output::AskNeeded { id } => self.pending.push(Pending::Ask(id.0)),
            Output::CompareRecord { id } => self.pending.push(Pending::Compare(id.0)),
            Output::Resolve { id } => self.pending.push(Pending::Resolve(id.0)),
            Output::StartAction { id, attempt, node, devices } => {
                self.take_start(id.0, attempt, node.0, &devices.0, calls);
            }
            Output::TurnTaken { id, attempt, devices } => {
                self.take_turn(id, attempt, &devices.0, calls);
            }
            Output::AbortAction { id } => self.take_abort(id.0),
            Output::GangStarted { id, oversubscribed } => {
                let (members, may) = &self.plan.gangs[id.0 as usize];
                assert!(*may || !oversubscribed, "{id:?} may not");
                let acts = |id: &&u32| self.plan.tasks[**id as usize].has_action;
                self.beginning.extend(members.iter().filter(acts));
                self.suiting_gang = self.suiting.clone();
                self.gang_on.clear();
                self.oversubscribed = oversubscribed;
            }
            Output::GangTooLarge { id, slots, .. } => {
                assert!(slots > 0);
                self.pending.push(Pending::Refuse(id.0));
            }
            Output::GangRefused { slots, .. } => assert!(slots > 0),
            Output::GangEntangled { id, task, on } => {
                let members = &self.plan.gangs[id.0 as usize].0;
                assert!(members.contains(&task.0) && members.contains(&on.0));
            }
            Output::AttemptFailed { .. } | Output::NowhereToRun { .. } => {}
            Output::RetryDelayed { .. } => unreachable!("no requirement has a delay"),
            Output::AttemptLost { id, attempt, node, .. } => {
                assert!(!self.joined.contains(&node.0), "lost with a node that is there");
                assert_eq!(attempt, self.attempts[id.0 as usize]);
            }
            Output::TaskBlamed { nodes, .. } => {
                assert!((1..=self.plan.config.blame_after as usize).contains(&nodes.len()));
            }
            Output::TaskReopened { id } => {
                self.reopened.insert(id.0);
                let before = self.settled.remove(&id.0);
                assert!(before.is_some_and(Settled::is_well), "{id:?} was not well");
                let in_gang = self.members.contains_key(&id.0);
                assert!(in_gang || self.is_out_of_reach(id.0), "{id:?} is there");
            }
            Output::InputLost { id } => {
                assert!(self.is_out_of_reach(id.0), "{id:?} is there");
                assert!(!self.plan.tasks[id.0 as usize].has_action);
            }
            Output::NodeDrained { id, .. } => {
                assert!(self.joined.contains(&id.0), "{id:?} is not there");
                assert!(self.drained.insert(id.0), "{id:?} is drained");
                assert!(self.drained.len() < self.joined.len(), "{id:?} was the last");
            }
            Output::NodeTakenBack { id } => assert!(self.drained.remove(&id.0)),
            Output::TargetMissing { .. } => panic!("all actions make their file"),
            Output::TaskSettled { id, how } => {
                let before = self.settled.insert(id.0, how);
                assert_eq!(before, None, "{id:?} settled twice");
                let waits_for = self.prerequisites_of(id.0);
                if how.is_well() {
                    let is_well = |p: &u32| self.settled.get(p).is_some_and(|how| how.is_well());
                    let mut waits_for = waits_for.iter();
                    assert!(waits_for.all(|p| is_well(p) || self.reopened.contains(p)));
                }
            }
            Output::InvocationEnded { id, failed, abandoned } => {
                assert!(self.ended.insert(id.0), "ended twice");
                for id in failed {
                    assert_eq!(self.settled.get(&id.0), Some(&Settled::Failed));
                }
                for id in abandoned {
                    assert!(
                        !self
                            .settled
                            .get(&id.0)
                            .is_some_and(|how| how.is_well() || *how == Settled::Failed)
                            || self.plan.stop.is_some()
                    );
                }
                for running in self.running.values_mut() {
                    if running.waits_for == Some(id.0) {
                        running.waits_for = None;
                    }
                }
            }
        }
    }

    fn take_start(
        &mut self,
        id: u32,
        attempt: u32,
        node: u32,
        devices: &[(ResourceId, Vec<u32>)],
        calls: &mut VecDeque<u32>,
    ) {
        let in_gang = self.members.contains_key(&id);
        assert_eq!(self.beginning.remove(&id), in_gang, "{id} alone");
        let by_turns = self.runs_by_turns(id);
        self.check_start(id, node, devices);
        let uncounted = in_gang || self.plan.losses || self.plan.config.drain_after > 0;
        assert!(uncounted || (1..=RETRIES + 1).contains(&attempt), "attempt {attempt}");
        assert!(attempt > self.attempts[id as usize], "{id}: {attempt} once more");
        self.attempts[id as usize] = attempt;
        if by_turns {
            self.pending.push(Pending::Turn(id, attempt));
        } else {
            self.expect_end(id, attempt, calls);
        }
    }

    /// It has all that it needs: it ends some time, and may invoke others before.
    fn expect_end(&mut self, id: u32, attempt: u32, calls: &mut VecDeque<u32>) {
        self.pending.push(Pending::End(id, attempt));
        if self.plan.tasks[id as usize].calls.is_some() {
            calls.push_back(id);
        }
    }

    fn take_turn(
        &mut self,
        id: TaskId,
        attempt: u32,
        devices: &[(ResourceId, Vec<u32>)],
        calls: &mut VecDeque<u32>,
    ) {
        assert_eq!(attempt, self.attempts[id.0 as usize]);
        let mut running = self.running.remove(&id.0).expect("it was begun");
        assert!(running.cores == 0 && !running.aborted, "{id:?} has its share");
        let node = running.node;
        running.cores = self.scheduler.cores_held(id, NodeId(node)).expect("it is there");
        running.devices = devices.iter().flat_map(|(_, numbers)| numbers.clone()).collect();
        self.check_room(node, running.cores, &running.devices);
        self.use_up(node);
        self.running.insert(id.0, running);
        self.expect_end(id.0, attempt, calls);
    }

    fn take_abort(&mut self, id: u32) {
        let running = self.running.get_mut(&id).expect("only what runs is aborted");
        assert!(!running.aborted, "aborted twice");
        running.aborted = true;
        // It may wait for room, and would never hear of any.
        let attempt = self.attempts[id as usize];
        let of_it = [Pending::Turn(id, attempt), Pending::End(id, attempt)];
        if !self.pending.iter().any(|pending| of_it.contains(pending)) {
            self.pending.push(Pending::End(id, attempt));
        }
    }

    fn is_out_of_reach(&self, id: u32) -> bool {
        let place = self.places[id as usize];
        let is_away = place.is_some_and(|node| self.away.contains(&node));
        self.plan.config.files_on_nodes && (is_away || self.modified[id as usize].is_none())
    }

    fn prerequisites_of(&self, id: u32) -> Vec<u32> {
        let order_only = self.plan.tasks[id as usize].order_only.iter().flatten();
        self.real[id as usize].iter().chain(order_only).copied().collect()
    }

    fn check_start(&mut self, id: u32, node: u32, devices: &[(ResourceId, Vec<u32>)]) {
        assert!(self.joined.contains(&node), "started on a lost node");
        assert!(!self.drained.contains(&node), "started on a node drained");
        for prerequisite in self.prerequisites_of(id) {
            assert!(self.settled[&prerequisite].is_well(), "{id} before {prerequisite}");
        }
        for &input in &self.real[id as usize] {
            let task = &self.plan.tasks[input as usize];
            let is_away = self.places[input as usize].is_some_and(|node| self.away.contains(&node));
            let is_lost = is_away
                && self.plan.config.files_on_nodes
                && self.modified[input as usize].is_some();
            // What is left out of the bulk scan may not be known.
            assert!(
                task.kind != TaskKind::File || !is_lost || task.bytes == 4,
                "{id} without {input}"
            );
        }
        let class = self.plan.tasks[id as usize].requirement;
        if let (Some(ends), Some(run_ns)) = (self.ends.get(&node), self.expected.get(&class)) {
            assert!(self.now.saturating_add(*run_ns) <= *ends, "{id} would not end in time");
        }
        let requirement = &requirements()[self.plan.tasks[id as usize].requirement as usize];
        let all = capacity(node).cores;
        // What is too large gets the largest node of those that are used, and do not end too soon.
        let counts = |node: &&u32| {
            let too_late = self.ends.get(node).is_some_and(|ends| {
                let expected = self.expected.get(&class).copied();
                expected.is_some_and(|run_ns| self.now.saturating_add(run_ns) > *ends)
            });
            !self.drained.contains(node) && !too_late
        };
        let used = self.joined.iter().filter(counts);
        let largest = used.map(|node| capacity(*node).cores).max().unwrap();
        let cores = if requirement.exclusive { all } else { requirement.cores.min(largest) };
        let devices: Vec<u32> = devices.iter().flat_map(|(_, numbers)| numbers.clone()).collect();
        let by_turns = self.runs_by_turns(id);
        let cores = if by_turns { 0 } else { cores };
        assert!(!by_turns || devices.is_empty(), "{id} has a device before its turn");
        self.check_room(node, cores, &devices);
        if let Some(nodes) = &requirement.allowed_nodes {
            assert!(nodes.contains(&NodeId(node)), "started where it must not");
        }
        // A gang is let in as one.
        let is_member = self.members.contains_key(&id);
        let suiting = if is_member { &self.suiting_gang } else { &self.suiting };
        let suits = requirement.choice.is_none() || suiting.contains_key(&(class, node));
        assert!(suits, "started where it does not suit");
        if is_member {
            let of_class = suiting.get(&(class, node)).copied();
            let at_once = requirement.choice.and(of_class).unwrap_or(u32::MAX);
            let (count, least) = self.gang_on.entry(node).or_insert((0, u32::MAX));
            (*count, *least) = (*count + 1, at_once.min(*least));
            assert!(count <= least, "{count} tasks of a gang where {least} fit");
        }
        if !by_turns {
            self.use_up(node);
        }
        let oversubscribed = self.oversubscribed && self.members.contains_key(&id);
        let running =
            Running { node, cores, devices, waits_for: None, aborted: false, oversubscribed };
        assert!(self.running.insert(id, running).is_none(), "{id} runs twice");
        if self.plan.config.policy == Policy::Serial && !oversubscribed && !by_turns {
            assert_eq!(self.active(), 1, "two at once");
        }
    }

    /// Something has begun on a node and has its share: it suits nobody any more until the shell says so again.
    fn use_up(&mut self, node: u32) {
        for (other, known) in (0..).zip(requirements()) {
            if known.choice.is_some_and(|choice| choice.used_up) {
                self.suiting.remove(&(other, node));
            }
        }
    }

    fn runs_by_turns(&self, id: u32) -> bool {
        self.members.get(&id).is_some_and(|gang| self.plan.by_turns.contains(gang))
    }

    /// What a task takes of a node is free there.
    fn check_room(&self, node: u32, cores: u32, devices: &[u32]) {
        let mut used = cores;
        let active = |other: &&Running| other.node == node && other.waits_for.is_none();
        for other in self.running.values().filter(active).filter(|other| !other.oversubscribed) {
            used += other.cores;
            let given_twice = devices.iter().any(|device| other.devices.contains(device));
            assert!(!given_twice, "device given twice");
        }
        let all = capacity(node).cores;
        let is_shared = self.oversubscribed || cores == 0;
        assert!(is_shared || used <= all, "{used} cores used of {all}");
        assert!(devices.iter().all(|device| *device < 2));
    }

    fn answer(&mut self, pending: Pending) {
        match pending {
            Pending::Turn(id, attempt) => {
                // One that was aborted ends without having had its turn, and so may any other.
                if self.running[&id].aborted || attempt % 3 == 2 {
                    self.answer(Pending::End(id, attempt));
                } else {
                    self.send(Event::TurnCame { id: TaskId(id) });
                }
            }
            Pending::Gather(id) => {
                let task = &self.plan.tasks[id as usize];
                let place = if self.plan.config.files_on_nodes {
                    self.places[id as usize]
                } else {
                    task.place
                };
                let places = place.map_or(Places::Unknown, |node| Places::One(NodeId(node)));
                // Of a file on a lost node it may be remembered where it is, or it is not found.
                let is_found = !self.is_out_of_reach(id) || self.now.is_multiple_of(2);
                let modified_ns = self.modified[id as usize].filter(|_| is_found).map(i128::from);
                let fact = Fact { modified_ns, bytes: task.bytes, places };
                self.send(Event::FactGathered { id: TaskId(id), fact });
            }
            Pending::Ask(id) => {
                let needed = self.plan.tasks[id as usize].modified.is_none();
                let timestamp = self.answered[id as usize];
                self.send(Event::NeededAnswered { id: TaskId(id), needed, timestamp });
            }
            Pending::Compare(id) => {
                // How a rerun is decided, `planned.rs` tests; here what may come in between counts.
                self.send(Event::RecordCompared { id: TaskId(id), rerun: false });
            }
            Pending::Resolve(id) => {
                let prerequisites = &self.plan.tasks[id as usize].prerequisites;
                let has_action = self.plan.tasks[id as usize].has_action;
                self.real[id as usize].clone_from(prerequisites);
                let tasks: Vec<TaskId> = prerequisites.iter().copied().map(TaskId).collect();
                self.send(Event::PrerequisitesAdded {
                    id: TaskId(id),
                    prerequisites: &tasks,
                    has_action,
                });
                self.send(Event::ResolveEnded { id: TaskId(id), found: true });
            }
            Pending::Refuse(id) => self.send(Event::GangRefused { id: GangId(id) }),
            Pending::Late(id, attempt) => {
                let outcome = ActionOutcome::Succeeded;
                self.send(Event::ActionEnded { id: TaskId(id), attempt, outcome, run_ns: None });
            }
            Pending::End(id, attempt) => {
                let running = self.running.remove(&id).unwrap();
                let index = id as usize;
                let waits = running.cores == 0 && self.runs_by_turns(id);
                let outcome = if running.aborted && waits && self.now.is_multiple_of(2) {
                    ActionOutcome::NotBegun
                } else if running.aborted {
                    ActionOutcome::Failed
                } else if self.failures_left[index] > 0 {
                    self.failures_left[index] -= 1;
                    ActionOutcome::Failed
                } else {
                    self.runs[index] += 1;
                    self.places[index] = Some(running.node);
                    self.modified[index] = Some(i64::try_from(self.now).unwrap());
                    self.answered[index] = at(i64::try_from(self.now).unwrap());
                    ActionOutcome::Succeeded
                };
                self.send(Event::ActionEnded { id: TaskId(id), attempt, outcome, run_ns: None });
            }
        }
    }

    fn lose(&mut self, node: u32) {
        self.joined.remove(&node);
        self.away.insert(node);
        self.drained.remove(&node);
        self.ends.remove(&node);
        let lost: Vec<u32> = self
            .running
            .iter()
            .filter(|(_, running)| running.node == node)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            self.running.remove(&id);
            // What became of it may be heard of long after.
            for pending in &mut self.pending {
                if let Pending::End(other, attempt) | Pending::Turn(other, attempt) = *pending
                    && other == id
                {
                    *pending = Pending::Late(id, attempt);
                }
            }
        }
        self.send(Event::NodeLost { id: NodeId(node) });
    }

    fn give_up(&mut self, node: u32) {
        self.given_up.insert(node);
        self.lose_files(node);
        self.send(Event::NodeGivenUp { id: NodeId(node) });
    }

    fn lose_files(&mut self, node: u32) {
        if !self.plan.config.files_on_nodes {
            return;
        }
        for (place, modified) in self.places.iter_mut().zip(&mut self.modified) {
            if *place == Some(node) {
                *place = None;
                *modified = None;
            }
        }
    }

    fn join(&mut self, node: u32) {
        self.joined.insert(node);
        let was_away = self.away.remove(&node);
        let files_kept = !(self.given_up.remove(&node) || was_away && self.plan.disks_lost);
        if was_away && !files_kept {
            self.lose_files(node);
        }
        self.send(Event::NodeJoined { id: NodeId(node), capacity: capacity(node), files_kept });
    }

    fn end_node(&mut self, node: u32, at: u64) {
        self.ends.insert(node, at);
        self.send(Event::NodeEnds { id: NodeId(node), at: Time(at) });
    }

    /// Bit 0 to 2: whether the node suits, the higher ones rank them and say how many tasks of a gang it suits at once.
    fn choose(&mut self, requirement: u32, bits: u32) {
        let rank = |node: u32| u64::from((bits >> 3) + node * bits) % 4;
        let at_once = |node: u32| if bits >> 5 == 0 { u32::MAX } else { 1 + (bits + node) % 3 };
        let suits = |node| Suits { rank: rank(node), at_once: at_once(node) };
        let news: Vec<(NodeId, Option<Suits>)> = (0..NODES)
            .map(|node| (NodeId(node), (bits >> node & 1 == 1).then(|| suits(node))))
            .collect();
        for (NodeId(node), suits) in &news {
            match suits {
                Some(suits) => drop(self.suiting.insert((requirement, *node), suits.at_once)),
                None => drop(self.suiting.remove(&(requirement, *node))),
            }
        }
        let requirement = RequirementId(requirement);
        self.send(Event::NodesSuit { requirement, nodes: &news });
    }

    fn expect_duration(&mut self, requirement: u32, run_ns: u64) {
        self.expected.insert(requirement, run_ns);
        self.send(Event::DurationExpected { requirement: RequirementId(requirement), run_ns });
    }

    fn define(&mut self) {
        for (index, requirement) in (0..).zip(requirements()) {
            self.send(Event::RequirementDefined { id: RequirementId(index), requirement });
        }
        for (index, task) in (0..).zip(&self.plan.tasks) {
            let known = task.order_only.as_ref().unwrap_or(&task.prerequisites);
            let prerequisites: Vec<TaskId> = known.iter().copied().map(TaskId).collect();
            self.send(Event::TaskDefined {
                id: TaskId(index),
                kind: task.kind,
                has_action: task.has_action,
                deferred: task.order_only.is_some(),
                requirement: RequirementId(task.requirement),
                prerequisites: &prerequisites,
            });
            // Some facts are left out of the bulk scan.
            if matches!(task.kind, TaskKind::File | TaskKind::Directory) && task.bytes != 4 {
                self.answer(Pending::Gather(index));
            }
        }
        for (index, (members, oversubscribe)) in (0..).zip(&self.plan.gangs) {
            let members: Vec<TaskId> = members.iter().copied().map(TaskId).collect();
            let tasks = members.as_slice();
            let oversubscribe =
                if *oversubscribe { Oversubscribe::Always } else { Oversubscribe::Never };
            self.send(Event::GangDefined { id: GangId(index), tasks, oversubscribe });
            if self.plan.by_turns.contains(&index) {
                // Each prints for the next one.
                let pairs = tasks.windows(2);
                let streams: Vec<StreamEnds> = pairs
                    .map(|pair| StreamEnds { writers: vec![pair[0]], readers: vec![pair[1]] })
                    .collect();
                self.send(Event::GangJoined {
                    id: GangId(index),
                    spread: true,
                    by_turns: true,
                    streams: &streams,
                });
            }
        }
    }

    /// What can be answered now: an action that waits for an invocation cannot end, an aborted one can.
    fn answerable(&self) -> Vec<usize> {
        let can = |pending: &Pending| match pending {
            Pending::End(id, _) => self.running[id].waits_for.is_none() || self.running[id].aborted,
            _ => true,
        };
        (0..self.pending.len()).filter(|index| can(&self.pending[*index])).collect()
    }

    fn run(&mut self) {
        self.define();
        let all: Vec<u32> = (0..u32::try_from(self.plan.tasks.len()).unwrap()).collect();
        self.invoke(&all[all.len() / 2..], None);
        let mut choices = self.plan.choices.clone().into_iter();
        let mut second = Some(self.plan.second.clone());
        let mut stop = self.plan.stop;
        loop {
            let choice = choices.next();
            let number = usize::from(choice.unwrap_or(0));
            let healing = choice.is_none();
            let node = u32::try_from(number / 16).unwrap() % NODES;
            if healing && let Some(missing) = (0..NODES).find(|node| !self.joined.contains(node)) {
                self.join(missing);
            } else if healing
                && let Some(node) =
                    self.ends.iter().find(|(_, at)| **at < u64::MAX).map(|(id, _)| *id)
            {
                self.end_node(node, u64::MAX);
            } else if !healing && number % 16 == 0 && !self.joined.contains(&node) {
                self.join(node);
            } else if !healing
                && number % 16 == 1
                && self.joined.contains(&node)
                && self.plan.losses
            {
                self.lose(node);
            } else if !healing && number % 16 == 4 && self.away.contains(&node) && number % 3 == 0 {
                if !self.given_up.contains(&node) {
                    self.give_up(node);
                }
            } else if !healing
                && number % 16 == 5
                && self.joined.contains(&node)
                && self.plan.losses
            {
                self.end_node(node, self.now + number as u64 / 64);
            } else if !healing && number % 16 == 6 {
                self.expect_duration(u32::try_from(number / 16 % 6).unwrap(), number as u64 / 512);
            } else if !healing && number % 16 == 7 {
                let bits = u32::try_from(number / 16).unwrap();
                self.choose(6 + bits % 2, bits / 2);
            } else if number % 16 == 2
                && number > 30_000
                && let Some(kill) = stop.take()
            {
                self.send(Event::StopRequested { kill });
            } else if (healing || number % 16 == 3)
                && let Some(tasks) = second.take()
            {
                self.invoke(&tasks, None);
            } else {
                let answerable = self.answerable();
                if answerable.is_empty() {
                    let all = (6..8).flat_map(|class| (0..NODES).map(move |node| (class, node)));
                    let all_fit = Some(&u32::MAX);
                    let missing = all.clone().find(|one| self.suiting.get(one) != all_fit);
                    match missing {
                        _ if !healing => {}
                        Some((class, _)) => self.choose(class, 7),
                        None => break,
                    }
                    continue;
                }
                let pending = self.pending.remove(answerable[number / 16 % answerable.len()]);
                self.answer(pending);
            }
        }
        assert!(self.pending.is_empty(), "left: {:?}", self.pending);
        assert_eq!(self.ended.len(), self.invocations as usize, "an invocation never ended");
    }
}

/// Rake's rule, task by task in order of their numbers.
fn model(plan: &Plan) -> Vec<Settled> {
    let late = i64::MAX;
    let mut settled: Vec<Settled> = Vec::new();
    let mut timestamps: Vec<i64> = Vec::new();
    let mut all: Vec<BTreeSet<u32>> = Vec::new();
    for task in &plan.tasks {
        let mut before: BTreeSet<u32> = task.prerequisites.iter().copied().collect();
        for prerequisite in &task.prerequisites {
            before.extend(&all[*prerequisite as usize]);
        }
        let newest = before.iter().map(|id| timestamps[*id as usize]).max().unwrap_or(i64::MIN);
        all.push(before);
        let waits_for = task.prerequisites.iter().chain(task.order_only.iter().flatten());
        let is_bad = |id: &u32| !settled[*id as usize].is_well();
        let needed = match task.kind {
            TaskKind::Plain => true,
            TaskKind::File => {
                task.modified.is_none_or(|modified| newest > modified || plan.config.build_all)
            }
            TaskKind::Directory | TaskKind::Asked => task.modified.is_none(),
        };
        let runs = needed && task.has_action;
        let retries = RETRIES;
        let how = if waits_for.clone().any(is_bad) {
            Settled::Abandoned
        } else if runs && task.failures > retries {
            Settled::Failed
        } else if needed {
            Settled::Executed
        } else {
            Settled::NotNeeded
        };
        settled.push(how);
        timestamps.push(match task.kind {
            TaskKind::Plain => late - 1,
            TaskKind::Directory => i64::MIN,
            TaskKind::Asked | TaskKind::File if runs => late - 1,
            TaskKind::File => task.modified.unwrap_or(late),
            TaskKind::Asked => task.modified.unwrap_or(0),
        });
    }
    settled
}

/// The tasks that the two invocations of the plan, and the calls of what runs, want, with all that these need.
fn reached(plan: &Plan, settled: &[Settled]) -> BTreeSet<u32> {
    let len = u32::try_from(plan.tasks.len()).unwrap();
    let mut walk: Vec<u32> = (0..len).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = walk.pop() {
        if reached.insert(id) {
            let task = &plan.tasks[id as usize];
            walk.extend(&task.prerequisites);
            if settled[id as usize] == Settled::Executed {
                walk.extend(task.calls.iter().flatten());
            }
        }
    }
    reached
}

proptest! {
    #[test]
    fn every_task_is_settled_once_as_in_the_naive_model(plan in plan(false)) {
        let mut world = World::new(&plan);
        world.run();
        let model = model(&plan);
        for id in reached(&plan, &model) {
            let how = model[id as usize];
            prop_assert_eq!(world.settled.get(&id), Some(&how), "task {}", id);
            let runs = how == Settled::Executed && plan.tasks[id as usize].has_action;
            prop_assert_eq!(world.runs[id as usize], u32::from(runs), "task {}", id);
        }
    }

    #[test]
    fn no_part_of_a_gang_begins_whatever_fails_or_is_lost(plan in plan_with_gangs()) {
        World::new(&plan).run();
    }

    #[test]
    fn whatever_fails_or_is_stopped_every_invocation_ends(plan in plan(true)) {
        World::new(&plan).run();
    }
}
