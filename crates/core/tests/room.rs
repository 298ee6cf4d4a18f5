//! Attempts and the stager together, on one node with few cores and little room: commands, code that wants cores, and
//! actions that wait for tasks that they invoke; one life from each seed. Nobody waits for ever, a command begins with
//! its inputs there, and copies stay within the bound.
//!
//! The shell is as small as can be: what is on its way arrives, and nothing fails.

use std::collections::{BTreeMap, VecDeque};

use rakuda_core::stager::{FileState, Stager, StagerEffect, StagerInput};
use rakuda_core::{
    Attempt, AttemptEffect, Attempts, Devices, InvocationId, NextAttempt, NodeId, TaskId, Time,
};

const HOME: NodeId = NodeId(0);
const NODE: NodeId = NodeId(1);
const FILES: u32 = 6;

/// A file of so many bytes, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes(u64);

impl FileState for Bytes {
    fn bytes(&self) -> u64 {
        self.0
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self == other
    }

    fn supersedes(&self, _: &Self) -> bool {
        false
    }
}

/// What a thread of an action does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Command,
    /// Code starts a process of its own, for which it wants the cores.
    Code,
    /// Code writes something that the next command reads.
    Change,
    Invoke(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Command(u32),
    Lease,
    Invocation(InvocationId),
}

#[derive(Debug)]
struct Thread {
    steps: VecDeque<Step>,
    waits: Wait,
}

impl Thread {
    fn is_over(&self) -> bool {
        self.steps.is_empty() && self.waits == Wait::Nothing
    }
}

#[derive(Debug)]
struct Task {
    inputs: Vec<TaskId>,
    threads: Vec<Thread>,
    caller: Option<InvocationId>,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Begin(u32),
    Step(u32, usize),
    End(u32),
    Exit(u32),
    Moved(u32),
    Removed(u32),
}

struct World {
    random: u64,
    cores: u32,
    limit_bytes: u64,
    attempts: Attempts<(), u32>,
    stager: Stager<Bytes>,
    /// What the stager has decided and is not done yet, and whether it is being done.
    effects: VecDeque<StagerEffect<Bytes>>,
    performs: bool,
    tasks: BTreeMap<u32, Task>,
    /// Tasks that are to begin.
    ready: Vec<u32>,
    /// Commands that run, and whose.
    running: BTreeMap<u32, u32>,
    transfers: Vec<u32>,
    removals: Vec<u32>,
    commands: u32,
    invocations: u32,
    now: u64,
    /// Inputs that found no room, inputs that a caller has left.
    seen: [u32; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: seed,
            cores: 1,
            limit_bytes: 0,
            attempts: Attempts::default(),
            stager: Stager::new(HOME),
            effects: VecDeque::new(),
            performs: false,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            running: BTreeMap::new(),
            transfers: Vec::new(),
            removals: Vec::new(),
            commands: 0,
            invocations: 0,
            now: 0,
            seen: [0; 2],
        };
        world.cores = 1 + world.below(2);
        for _ in 0..2 + world.below(4) {
            let task = world.plan(0);
            world.ready.push(task);
        }
        let needed = |task: &Task| task.inputs.iter().map(|file| bytes_of(*file)).sum::<u64>();
        let most = world.tasks.values().map(needed).max().unwrap_or(0);
        world.limit_bytes = most + u64::from(world.below(3));
        world.attempts.set_cores(HOME, 0);
        world.attempts.set_cores(NODE, world.cores);
        world.stager.set_limit(NODE, world.limit_bytes);
        for file in (0..FILES).map(TaskId) {
            let state = Bytes(bytes_of(file));
            world.stage(StagerInput::Settled { file, node: HOME, state });
        }
        world
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.random >> 33) % u64::from(bound)).unwrap()
    }

    /// Plans a task, with those that it invokes: its number.
    fn plan(&mut self, depth: u32) -> u32 {
        let mut inputs: Vec<TaskId> =
            (0..=self.below(3)).map(|_| TaskId(self.below(FILES))).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let mut threads = Vec::new();
        for _ in 0..=self.below(2) {
            let mut steps = VecDeque::new();
            for _ in 0..=self.below(4) {
                let step = match self.below(6) {
                    0..=2 => Step::Command,
                    3 => Step::Code,
                    4 => Step::Change,
                    _ if depth < 2 => Step::Invoke(self.plan(depth + 1)),
                    _ => Step::Command,
                };
                steps.push_back(step);
            }
            threads.push(Thread { steps, waits: Wait::Nothing });
        }
        // Files have the first numbers.
        let number = 100 + u32::try_from(self.tasks.len()).unwrap();
        self.tasks.insert(number, Task { inputs, threads, caller: None });
        number
    }

    fn stage(&mut self, input: StagerInput<Bytes>) {
        let mut out = Vec::new();
        self.stager.handle(input, |_| true, &mut out);
        self.effects.extend(out);
        if std::mem::replace(&mut self.performs, true) {
            return;
        }
        while let Some(effect) = self.effects.pop_front() {
            self.perform_for_stager(effect);
        }
        self.performs = false;
    }

    fn perform_for_stager(&mut self, effect: StagerEffect<Bytes>) {
        match effect {
            StagerEffect::Admitted { id, .. } => {
                self.stage(StagerInput::OwnFilesSent { id, count: 0 });
            }
            StagerEffect::NoRoom { id, attempt } => {
                self.seen[0] += 1;
                self.attempts.inputs_held_up(id, attempt, Time(self.now).into());
            }
            StagerEffect::InputsThere { id, attempt } => {
                self.tell(|attempts, out| attempts.inputs_ready(id, attempt, out));
            }
            StagerEffect::AskAgain { id, node, .. } => {
                if self.attempts.acting(id).is_some() {
                    self.want_inputs(id);
                } else {
                    self.stage(StagerInput::Released { id, node });
                }
            }
            StagerEffect::Move { transfer, .. } => self.transfers.push(transfer),
            StagerEffect::Cancel { transfer } => self.transfers.retain(|one| *one != transfer),
            StagerEffect::Remove { removal, .. } => self.removals.push(removal),
            StagerEffect::Arrived { .. } => {}
            other => panic!("nothing fails: {other:?}"),
        }
    }

    fn want_inputs(&mut self, id: TaskId) {
        let (files, reads) = (self.tasks[&id.0].inputs.clone(), self.runs_command(id));
        let (attempt, node, beside, joined) = (1, NODE, Vec::new(), None);
        self.stage(StagerInput::InputsWanted { id, attempt, node, files, reads, beside, joined });
    }

    fn runs_command(&self, id: TaskId) -> bool {
        self.running.values().any(|task| *task == id.0)
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Attempts<(), u32>, &mut Vec<AttemptEffect<u32>>)) {
        let mut out = Vec::new();
        tell(&mut self.attempts, &mut out);
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: AttemptEffect<u32>) {
        match effect {
            AttemptEffect::Leased { id } => self.wake(id.0, |waits| waits == Wait::Lease),
            AttemptEffect::Start { id, command, .. } => {
                for file in &self.tasks[&id.0].inputs {
                    let has = self.stager.ledger().has(*file, NODE);
                    assert!(has, "{id:?} begins without {file:?}");
                }
                self.running.insert(command, id.0);
            }
            AttemptEffect::StageIn { id } => self.want_inputs(id),
            AttemptEffect::ReleaseInputs { id } => {
                self.seen[1] += 1;
                assert!(!self.runs_command(id), "a command of {id:?} reads its inputs");
                self.stage(StagerInput::Released { id, node: NODE });
            }
            other => panic!("nothing fails: {other:?}"),
        }
    }

    /// Threads of a task that wait for this go on.
    fn wake(&mut self, task: u32, is_it: impl Fn(Wait) -> bool) {
        let Some(task) = self.tasks.get_mut(&task) else { return };
        for thread in task.threads.iter_mut().filter(|thread| is_it(thread.waits)) {
            thread.waits = Wait::Nothing;
        }
    }

    fn happenings(&self) -> Vec<Happening> {
        let mut all: Vec<Happening> = Vec::new();
        let all_acting = self.attempts.all_acting();
        let busy = all_acting.filter(|(_, attempt)| !Attempt::is_suspended(attempt)).count();
        if busy < self.cores as usize {
            all.extend(self.ready.iter().map(|task| Happening::Begin(*task)));
        }
        for (id, _) in self.attempts.all_acting() {
            let threads = &self.tasks[&id.0].threads;
            if threads.iter().all(Thread::is_over) {
                all.push(Happening::End(id.0));
            }
            for (index, thread) in threads.iter().enumerate() {
                if !thread.is_over() && thread.waits == Wait::Nothing {
                    all.push(Happening::Step(id.0, index));
                }
            }
        }
        all.extend(self.running.keys().map(|command| Happening::Exit(*command)));
        all.extend(self.transfers.iter().map(|transfer| Happening::Moved(*transfer)));
        all.extend(self.removals.iter().map(|removal| Happening::Removed(*removal)));
        all
    }

    fn take(&mut self, happening: Happening) {
        let now = Time(self.now).into();
        match happening {
            Happening::Begin(task) => {
                self.ready.retain(|one| *one != task);
                let next = NextAttempt { number: 1, node: NODE, devices: Devices::default() };
                self.attempts.begin(TaskId(task), &next, 1, now, true, ());
            }
            Happening::Step(task, thread) => self.step(task, thread),
            Happening::End(task) => {
                let id = TaskId(task);
                self.attempts.end_action(id, None, now);
                self.attempts.take(id).expect("it acts");
                self.stage(StagerInput::Released { id, node: NODE });
                let caller = self.tasks.remove(&task).expect("it is planned").caller;
                if let Some(invocation) = caller {
                    self.attempts.resume(invocation, now);
                    let waits = Wait::Invocation(invocation);
                    let callers: Vec<u32> = self.tasks.keys().copied().collect();
                    for task in callers {
                        self.wake(task, |it| it == waits);
                    }
                }
            }
            Happening::Exit(command) => {
                let task = self.running.remove(&command).expect("it runs");
                let id = TaskId(task);
                self.tell(|attempts, out| attempts.command_ended(id, now, out));
                if !self.runs_command(id) {
                    self.stage(StagerInput::ReadsNoMore { id, node: NODE });
                }
                self.wake(task, |waits| waits == Wait::Command(command));
            }
            Happening::Moved(transfer) => {
                self.transfers.retain(|one| *one != transfer);
                self.stage(StagerInput::Moved { transfer, result: Ok(()) });
            }
            Happening::Removed(removal) => {
                self.removals.retain(|one| *one != removal);
                self.stage(StagerInput::Removed { removal });
            }
        }
    }

    fn step(&mut self, task: u32, thread: usize) {
        let (id, now) = (TaskId(task), Time(self.now).into());
        let own = &mut self.tasks.get_mut(&task).expect("it acts").threads[thread];
        match own.steps.pop_front().expect("it is not over") {
            Step::Command => {
                self.commands += 1;
                let command = self.commands;
                own.waits = Wait::Command(command);
                self.tell(|attempts, out| {
                    assert_eq!(attempts.want_command(id, command, out), None);
                });
            }
            Step::Code => {
                own.waits = Wait::Lease;
                self.tell(|attempts, out| attempts.want_lease(id, out));
            }
            Step::Change => self.attempts.inputs_changed(id),
            Step::Invoke(called) => {
                self.invocations += 1;
                let invocation = InvocationId(self.invocations);
                own.waits = Wait::Invocation(invocation);
                self.tasks.get_mut(&called).expect("it is planned").caller = Some(invocation);
                self.ready.push(called);
                self.tell(|attempts, out| attempts.suspend(invocation, id, now, out));
            }
        }
    }

    fn grant(&mut self) {
        loop {
            let mut out = Vec::new();
            self.attempts.grant(Time(self.now).into(), &mut out);
            if out.is_empty() {
                return;
            }
            for effect in out {
                self.perform(effect);
            }
        }
    }

    fn run(&mut self) {
        loop {
            self.now += 1;
            let all = self.happenings();
            if all.is_empty() {
                break;
            }
            let index = self.below(u32::try_from(all.len()).unwrap());
            self.take(all[index as usize]);
            self.grant();
            let copies = self.stager.ledger().files_on(NODE).map(|(_, state)| state.0);
            assert!(copies.sum::<u64>() <= self.limit_bytes, "copies take more than they may");
        }
        assert!(self.tasks.is_empty(), "for ever: {:?} {:?}", self.tasks, self.attempts);
    }
}

fn bytes_of(file: TaskId) -> u64 {
    1 + u64::from(file.0 % 3)
}

#[test]
fn whoever_waits_for_room_or_cores_has_both_in_the_end() {
    let mut seen = [0; 2];
    for seed in 0..4_000 {
        let mut world = World::new(seed);
        world.run();
        seen.iter_mut().zip(world.seen).for_each(|(all, one)| *all += one);
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}
