//! Random lives: files are made, read, changed, evicted and lost on three nodes, transfers and
//! removals end in any order, well or not. What disks hold is modelled beside the part.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use std::format;

use proptest::prelude::*;

use super::sample::State;
use super::*;

const HOME: NodeId = NodeId(0);
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const FILES: u32 = 8;
const LIMIT: u64 = 30;

#[derive(Debug)]
struct Task {
    node: NodeId,
    files: Vec<TaskId>,
    /// Files that it has written and that are on their way.
    own: u32,
    /// Versions from before it wanted them count no more.
    since: BTreeMap<TaskId, u32>,
    /// Its next command waits.
    waits: bool,
    /// What its command reads that runs.
    reads: Option<Vec<TaskId>>,
}

impl Task {
    fn is_reading(&self, file: TaskId) -> bool {
        self.reads.as_ref().is_some_and(|files| files.contains(&file))
    }
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    number: u32,
    file: TaskId,
    state: State,
    from: NodeId,
    to: NodeId,
}

/// Files that a node is removing.
struct Removal {
    number: u32,
    node: NodeId,
    files: Vec<(TaskId, State)>,
}

/// What tasks that streams join to this one read.
fn read_beside(id: TaskId) -> Vec<TaskId> {
    let file = TaskId(id.0 / 7 % FILES);
    if id.0.is_multiple_of(7) { [file].into() } else { Vec::new() }
}

struct World {
    stager: Stager<State>,
    there: BTreeSet<NodeId>,
    disks: BTreeMap<NodeId, BTreeMap<TaskId, State>>,
    tasks: BTreeMap<TaskId, Task>,
    transfers: Vec<Transfer>,
    removals: Vec<Removal>,
    asked: BTreeSet<NodeId>,
    staging_out: BTreeSet<TaskId>,
    /// Which versions were made where: these stay, and take no room.
    made: BTreeSet<(NodeId, u32)>,
    versions: u32,
    next_task: u32,
    /// What happened, for who reads a failure.
    ended: BTreeMap<&'static str, u32>,
    /// What is to be done, in order, also by what is answered meanwhile.
    effects: VecDeque<StagerEffect<State>>,
    performs: bool,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            stager: Stager::new(HOME),
            there: NODES.into(),
            disks: [HOME].into_iter().chain(NODES).map(|node| (node, BTreeMap::new())).collect(),
            tasks: BTreeMap::new(),
            transfers: Vec::new(),
            removals: Vec::new(),
            asked: BTreeSet::new(),
            staging_out: BTreeSet::new(),
            made: BTreeSet::new(),
            versions: 0,
            next_task: 100,
            ended: BTreeMap::new(),
            effects: VecDeque::new(),
            performs: false,
        };
        for node in NODES {
            world.stager.set_limit(node, LIMIT);
        }
        for file in 0..FILES {
            let place = [HOME, NODES[0], NODES[1], NODES[2]][file as usize % 4];
            world.make(TaskId(file), place, u64::from(file % 3 + 1) * 7);
        }
        world
    }

    fn handle(&mut self, input: StagerInput<State>) {
        let mut out = Vec::new();
        let there = self.there.clone();
        self.stager.handle(input, |node| there.contains(&node), &mut out);
        self.effects.extend(out);
        if !self.performs {
            self.performs = true;
            while let Some(effect) = self.effects.pop_front() {
                self.perform(effect);
            }
            self.performs = false;
        }
        for node in NODES {
            let (used, held) = self.stager.ledger().cached_bytes(node);
            assert!(held <= LIMIT, "{node:?} holds {held} of {LIMIT}");
            assert!(held <= used);
        }
    }

    fn perform(&mut self, effect: StagerEffect<State>) {
        match effect {
            StagerEffect::Admitted { id, .. } => {
                let count = u32::from(id.0.is_multiple_of(5));
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.own = count;
                }
                self.handle(StagerInput::OwnFilesSent { id, count });
            }
            StagerEffect::InputsThere { id, .. } => self.begin(id),
            StagerEffect::NoRoom { id, .. } => {
                assert!(self.tasks.get(&id).is_none_or(|task| task.waits), "{id:?} waits");
            }
            StagerEffect::TooLarge { id, needed_bytes, limit_bytes, .. } => {
                assert!(needed_bytes > limit_bytes);
                self.end(id, "too large");
            }
            StagerEffect::AskAgain { id, attempt, node } => {
                match self.tasks.get(&id).map(|task| (task.files.clone(), task.reads.is_some())) {
                    Some((files, reads)) => {
                        let beside = read_beside(id);
                        self.handle(StagerInput::InputsWanted {
                            id,
                            attempt,
                            node,
                            files,
                            reads,
                            beside,
                            joined: None,
                        });
                    }
                    None => self.handle(StagerInput::Released { id, node }),
                }
            }
            StagerEffect::Move { transfer: number, file, state, from, to } => {
                let is_same = |it: &&Transfer| (it.file, it.to) == (file, to);
                assert!(self.transfers.iter().find(is_same).is_none(), "once at a time");
                assert!(self.removals.iter().all(|removal| removal.node != to));
                assert!(from == HOME || self.there.contains(&from));
                assert!(to == HOME || self.there.contains(&to));
                self.transfers.push(Transfer { number, file, state, from, to });
                for node in [from, to] {
                    let its = self.transfers.iter().filter(|it| it.from == node || it.to == node);
                    assert!(its.count() <= if node == HOME { 8 } else { 4 });
                }
            }
            StagerEffect::Cancel { transfer } => {
                let at = self.transfers.iter().position(|it| it.number == transfer);
                let it = self.transfers.remove(at.expect("what is cancelled is under way"));
                let is_made = self.stager.ledger().stays_on(it.file, it.to);
                let is_whole = self.disks[&it.from].get(&it.file) == Some(&it.state);
                if transfer.is_multiple_of(2) && it.to != HOME && is_whole && !is_made {
                    // All of it was there before that was heard.
                    self.disks.get_mut(&it.to).expect("all have").insert(it.file, it.state);
                }
            }
            StagerEffect::Remove { removal, node, files, .. } => {
                for (file, state) in &files {
                    let reads = |task: &Task| task.node == node && task.is_reading(*file);
                    let is_now = self.stager.ledger().state(*file) == Some(state);
                    assert!(!is_now || !self.tasks.values().any(reads), "{file:?} is read");
                    assert!(!is_now || !self.stager.ledger().stays_on(*file, node));
                }
                self.removals.push(Removal { number: removal, node, files });
            }
            StagerEffect::StopRemoval { removal } => {
                let before = self.removals.len();
                self.removals.retain(|one| one.number != removal);
                assert_eq!(self.removals.len() + 1, before, "what is stopped is under way");
            }
            StagerEffect::AskForLife { node } => {
                self.asked.insert(node);
            }
            StagerEffect::Arrived { .. } => {}
            StagerEffect::StagedOut { file } => {
                self.staging_out.remove(&file);
            }
            StagerEffect::NotStaged { file, to, readers, .. } => {
                for (id, _) in readers {
                    self.end(id, "not staged in");
                }
                if to == HOME {
                    self.staging_out.remove(&file);
                }
            }
        }
    }

    /// All that a task reads is there, in a state that it was in since the task wanted it.
    fn begin(&mut self, id: TaskId) {
        let task = self.tasks.get_mut(&id).expect("the stager lets only tasks begin that wait");
        assert_eq!(task.own, 0);
        for file in &task.files {
            let is = self.disks[&task.node].get(file);
            let since = task.since[file];
            assert!(is.is_some_and(|is| is.0 >= since), "{id:?} lacks {file:?}: {is:?}, {since}");
        }
        task.reads = Some(task.files.clone());
        task.waits = false;
        *self.ended.entry("began").or_default() += 1;
    }

    fn end(&mut self, id: TaskId, how: &'static str) {
        if let Some(task) = self.tasks.remove(&id) {
            *self.ended.entry(how).or_default() += 1;
            self.handle(StagerInput::Released { id, node: task.node });
        }
    }

    fn make(&mut self, file: TaskId, node: NodeId, bytes: u64) {
        self.versions += 1;
        let state = State(self.versions, bytes);
        self.made.insert((node, self.versions));
        self.disks.get_mut(&node).expect("all have disks").insert(file, state);
        self.handle(StagerInput::Settled { file, node, state });
    }

    fn want(&mut self, id: TaskId, node: NodeId, files: Vec<TaskId>) {
        let ledger = self.stager.ledger();
        let since = files.iter().map(|file| (*file, ledger.state(*file).expect("made").0));
        let since = since.collect();
        let before = self.tasks.get(&id).and_then(|task| task.reads.clone());
        let before = before.filter(|_| id.0.is_multiple_of(2));
        let reads = before.is_some();
        let task = Task { node, files: files.clone(), own: 0, since, waits: true, reads: before };
        self.tasks.insert(id, task);
        let (beside, joined) = (read_beside(id), None);
        let wanted =
            StagerInput::InputsWanted { id, attempt: 1, node, files, reads, beside, joined };
        self.handle(wanted);
    }

    fn lose(&mut self, id: NodeId) {
        if !self.there.remove(&id) {
            return;
        }
        self.handle(StagerInput::NodeLost { id });
        assert!(self.transfers.iter().all(|it| it.from != id && it.to != id));
        self.tasks.retain(|_, task| task.node != id);
        assert!(self.removals.iter().all(|removal| removal.node != id));
        self.asked.remove(&id);
        self.handle(StagerInput::LossTold { id });
    }

    /// A node comes again, with its disk.
    fn join(&mut self, id: NodeId) {
        let held = self.stager.ledger().files_on(id).map(|(file, state)| (file, *state));
        for (file, state) in held.collect::<Vec<_>>() {
            if self.disks[&id].get(&file) != Some(&state) {
                self.stager.forget(file, id);
            }
        }
        self.there.insert(id);
    }

    fn finish_transfer(&mut self, at: usize, how: u8) {
        if self.transfers.is_empty() {
            return;
        }
        let it = self.transfers.remove(at % self.transfers.len());
        let is_whole = self.disks[&it.from].get(&it.file) == Some(&it.state);
        let failed = |at_source| Err(MoveFailure { at_source, reason: "fail".into() });
        let result = match how {
            0 => failed(false),
            1 => failed(true),
            _ if !is_whole => failed(true),
            _ => {
                self.disks.get_mut(&it.to).expect("all have").insert(it.file, it.state);
                Ok(())
            }
        };
        self.handle(StagerInput::Moved { transfer: it.number, result });
    }

    fn finish_removal(&mut self) {
        if self.removals.is_empty() {
            return;
        }
        let Removal { number, node, files } = self.removals.remove(0);
        let disk = self.disks.get_mut(&node).expect("all have disks");
        for (file, state) in files {
            if disk.get(&file) == Some(&state) {
                disk.remove(&file);
            }
        }
        self.handle(StagerInput::Removed { removal: number });
    }

    /// The command ends that runs while another one waits.
    fn end_other(&mut self, id: TaskId) {
        let task = self.tasks.get_mut(&id).filter(|task| task.waits && task.reads.is_some());
        if let Some(task) = task {
            task.reads = None;
            let node = task.node;
            self.handle(StagerInput::ReadsNoMore { id, node });
        }
    }

    fn nth_task(&self, at: u8) -> Option<TaskId> {
        self.tasks.keys().nth(usize::from(at) % self.tasks.len().max(1)).copied()
    }

    fn own_file_there(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.own > 0) else { return };
        if self.stager.is_waiting(id, 1) {
            task.own -= 1;
            self.handle(StagerInput::OwnFileThere { id, attempt: 1 });
        }
    }

    fn step(&mut self, (what, a, b): (u8, u8, u8)) {
        let file = TaskId(u32::from(a) % FILES);
        let node = NODES[usize::from(b) % 3];
        let some: BTreeSet<TaskId> =
            (0..=u32::from(a) % 3).map(|at| TaskId((u32::from(b) + 3 * at) % FILES)).collect();
        let some: Vec<TaskId> = some.into_iter().collect();
        match what {
            0..=3 => {
                let node = if a % 7 == 0 { HOME } else { NODES[usize::from(a) % 3] };
                if node == HOME || self.there.contains(&node) {
                    self.next_task += 1;
                    self.want(TaskId(self.next_task), node, some);
                }
            }
            4..=7 => self.finish_transfer(usize::from(a), b % 8),
            8 => self.finish_removal(),
            9 | 10 => {
                if let Some(id) = self.nth_task(a).filter(|id| self.tasks[id].reads.is_some()) {
                    self.end(id, "finished");
                }
            }
            11 => {
                if let Some(id) = self.nth_task(a) {
                    self.end(id, "aborted");
                }
            }
            12 => self.lose(node),
            13 => self.join(node),
            14 => {
                let at = if b % 4 == 0 || !self.there.contains(&node) { HOME } else { node };
                self.make(file, at, u64::from(b) % 25 + 1);
            }
            15 => {
                if let Some(id) = self.nth_task(a).filter(|id| self.tasks[id].reads.is_some()) {
                    let node = self.tasks[&id].node;
                    self.want(id, node, some);
                }
            }
            16 => {
                if !self.stager.ledger().stays_on(file, HOME) {
                    self.staging_out.insert(file);
                    self.handle(StagerInput::StageOutWanted { file });
                }
            }
            17 => {
                if let Some(id) = self.asked.pop_first() {
                    self.handle(StagerInput::Alive { id });
                }
            }
            18 => {
                if let Some(id) = self.nth_task(a) {
                    self.own_file_there(id);
                }
            }
            19 => {
                if let Some(id) = self.nth_task(a) {
                    self.end_other(id);
                }
            }
            _ => {
                if self.staging_out.remove(&file) {
                    self.handle(StagerInput::StageOutUnwanted { file });
                }
            }
        }
    }

    /// All that is under way ends well; nobody waits any more then.
    fn come_to_rest(&mut self) {
        // The stager knows that a node has come when it hears something.
        self.handle(StagerInput::Removed { removal: 0 });
        for _ in 0..10_000 {
            while !self.transfers.is_empty() {
                self.finish_transfer(0, 7);
            }
            while !self.removals.is_empty() {
                self.finish_removal();
            }
            while let Some(id) = self.asked.pop_first() {
                self.handle(StagerInput::Alive { id });
            }
            for id in self.tasks.keys().copied().collect::<Vec<_>>() {
                self.own_file_there(id);
                self.end_other(id);
            }
            let done = self.tasks.iter().filter(|(_, task)| task.reads.is_some());
            let done = done.map(|(id, _)| *id).next();
            let is_quiet = self.transfers.is_empty() && self.removals.is_empty();
            match done {
                Some(id) => self.end(id, "finished"),
                None if is_quiet && self.asked.is_empty() => break,
                None => {}
            }
        }
        let waiting: Vec<_> =
            self.tasks.iter().map(|(id, task)| format!("{id:?} {task:?}")).collect();
        assert_eq!(waiting, vec![""; 0], "for ever: {:?}", self.stager);
        assert!(self.staging_out.is_empty(), "{:?} are never staged out", self.staging_out);
        for node in NODES {
            let (_, held) = self.stager.ledger().cached_bytes(node);
            assert_eq!(held, 0, "nobody reads: {:?}", self.stager.ledger());
        }
        for node in &self.there {
            let is_copy = |is: &&State| !self.made.contains(&(*node, is.0));
            let bytes: u64 = self.disks[node].values().filter(is_copy).map(|is| is.1).sum();
            assert!(bytes <= LIMIT, "{node:?} has {bytes} of {LIMIT}: {:?}", self.stager);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_who_waits_is_told_and_nothing_that_is_read_goes(
        steps in prop::collection::vec((0_u8..21, any::<u8>(), any::<u8>()), 1..300)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.come_to_rest();
    }
}
