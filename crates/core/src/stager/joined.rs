//! Random lives of sets of tasks that streams join, and of tasks of no set, on nodes with little
//! room. No task of a set ends before all of its set have begun; all end all the same, also when
//! sets break, and when nodes are lost.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::sample::State;
use super::*;
use crate::ids::GangId;

const HOME: NodeId = NodeId(0);
const NODES: u32 = 4;
const FILES: u32 = 10;
const LIMIT: u64 = 40;

/// A task: of which set, where it runs, what it reads, and whether any command of it does.
#[derive(Clone, Debug)]
struct Plan {
    set: Option<GangId>,
    node: NodeId,
    files: BTreeSet<TaskId>,
    asks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not asked yet.
    Idle,
    Waiting,
    Begun,
    Ended,
}

struct World {
    stager: Stager<State>,
    tasks: BTreeMap<TaskId, (Plan, Phase)>,
    transfers: Vec<u32>,
    effects: VecDeque<StagerEffect<State>>,
    performs: bool,
    /// How often sets may still break, and nodes be lost.
    troubles: u32,
}

impl World {
    fn new(plans: Vec<Plan>) -> Self {
        let numbered = (100..).map(TaskId).zip(plans);
        let mut world = Self {
            stager: Stager::new(HOME),
            tasks: numbered.map(|(id, plan)| (id, (plan, Phase::Idle))).collect(),
            transfers: Vec::new(),
            effects: VecDeque::new(),
            performs: false,
            troubles: 5,
        };
        for node in 1..=NODES {
            world.stager.set_limit(NodeId(node), LIMIT);
        }
        for file in (0..FILES).map(TaskId) {
            world.handle(StagerInput::Settled { file, node: HOME, state: State(1, 10) });
        }
        world
    }

    fn handle(&mut self, input: StagerInput<State>) {
        let mut out = Vec::new();
        self.stager.handle(input, |_| true, &mut out);
        self.effects.extend(out);
        if self.performs {
            return;
        }
        self.performs = true;
        while let Some(effect) = self.effects.pop_front() {
            self.perform(effect);
        }
        self.performs = false;
        for node in (1..=NODES).map(NodeId) {
            let (_, held) = self.stager.ledger().cached_bytes(node);
            assert!(held <= LIMIT, "{node:?} holds {held} of {LIMIT}");
        }
    }

    fn perform(&mut self, effect: StagerEffect<State>) {
        match effect {
            StagerEffect::Admitted { id, .. } => {
                self.handle(StagerInput::OwnFilesSent { id, count: 0 });
            }
            StagerEffect::InputsThere { id, .. } => self.set_phase(id, Phase::Begun),
            StagerEffect::AskAgain { id, node, .. } => {
                if self.tasks[&id].1 == Phase::Waiting {
                    self.ask(id);
                } else {
                    self.handle(StagerInput::Released { id, node });
                }
            }
            StagerEffect::Move { transfer, .. } => self.transfers.push(transfer),
            StagerEffect::Cancel { transfer } => self.transfers.retain(|one| *one != transfer),
            StagerEffect::Remove { removal, .. } => self.handle(StagerInput::Removed { removal }),
            StagerEffect::NoRoom { .. }
            | StagerEffect::Arrived { .. }
            | StagerEffect::StagedOut { .. } => {}
            other => panic!("nothing calls for {other:?}"),
        }
    }

    fn set_phase(&mut self, id: TaskId, phase: Phase) {
        self.tasks.get_mut(&id).expect("the stager tells only tasks that wait").1 = phase;
    }

    /// Those of a set that have not ended.
    fn open(&self, set: GangId) -> impl Iterator<Item = (TaskId, &Plan)> {
        let of_set = self.tasks.iter().filter(move |(_, (plan, _))| plan.set == Some(set));
        let open = of_set.filter(|(_, (_, phase))| *phase != Phase::Ended);
        open.map(|(id, (plan, _))| (*id, plan))
    }

    /// A command of a task is about to start.
    fn ask(&mut self, id: TaskId) {
        let Plan { set, node, files, .. } = self.tasks[&id].0.clone();
        self.set_phase(id, Phase::Waiting);
        let joined =
            set.map(|gang| JoinedSet { gang, tasks: self.open(gang).map(|(id, _)| id).collect() });
        let there = set.into_iter().flat_map(|set| self.open(set));
        let there = there.filter(|(peer, plan)| *peer != id && plan.node == node);
        let beside = there.flat_map(|(_, plan)| plan.files.iter().copied()).collect();
        self.handle(StagerInput::InputsWanted {
            id,
            attempt: 1,
            node,
            files: files.into_iter().collect(),
            reads: false,
            beside,
            joined,
        });
    }

    fn ids(&self, phase: Phase) -> Vec<TaskId> {
        let those = self.tasks.iter().filter(|(_, (_, is))| *is == phase);
        those.map(|(id, _)| *id).collect()
    }

    /// Tasks that may end: all of their set that start commands have begun.
    fn done(&self) -> Vec<TaskId> {
        let is_open = |id: &TaskId| self.tasks[id].0.asks;
        let waiting = [self.ids(Phase::Idle), self.ids(Phase::Waiting)].concat().into_iter();
        let open: BTreeSet<Option<GangId>> =
            waiting.filter(is_open).map(|id| self.tasks[&id].0.set).collect();
        let idle = self.ids(Phase::Idle).into_iter().filter(|id| !is_open(id));
        let begun = self.ids(Phase::Begun).into_iter().filter(|id| {
            let set = self.tasks[id].0.set;
            set.is_none() || !open.contains(&set)
        });
        begun.chain(idle).collect()
    }

    fn end(&mut self, id: TaskId, phase: Phase) {
        self.set_phase(id, phase);
        let node = self.tasks[&id].0.node;
        self.handle(StagerInput::Released { id, node });
    }

    /// One of a set has failed: all of it that have begun end, and run once more.
    fn break_set(&mut self, set: GangId) {
        let all = self.tasks.iter().filter(|(_, (plan, _))| plan.set == Some(set));
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end(id, Phase::Idle);
        }
    }

    fn lose(&mut self, id: NodeId) {
        self.handle(StagerInput::NodeLost { id });
        let there = self.tasks.iter().filter(|(_, (plan, phase))| {
            plan.node == id && (plan.set.is_some() || *phase != Phase::Ended)
        });
        let there: Vec<(TaskId, Option<GangId>)> =
            there.map(|(task, (plan, _))| (*task, plan.set)).collect();
        for (task, _) in &there {
            self.end(*task, Phase::Idle);
        }
        self.handle(StagerInput::LossTold { id });
        let sets: BTreeSet<GangId> = there.into_iter().filter_map(|(_, set)| set).collect();
        for set in sets {
            self.break_set(set);
        }
    }

    /// One thing happens; false: nothing can, but trouble.
    fn step(&mut self, what: u8, pick: u8) -> bool {
        let nth = |all: &[TaskId]| all.get(usize::from(pick) % all.len().max(1)).copied();
        let idle: Vec<TaskId> =
            self.ids(Phase::Idle).into_iter().filter(|id| self.tasks[id].0.asks).collect();
        let (begun, done) = (self.ids(Phase::Begun), self.done());
        match (what % 6, nth(&idle), nth(&begun), nth(&done)) {
            (1, _, _, Some(id)) => self.end(id, Phase::Ended),
            (0, Some(id), ..) | (2, _, Some(id), _) => self.ask(id),
            (3, _, Some(id), _) if self.troubles > 0 => {
                self.troubles -= 1;
                match self.tasks[&id].0.set {
                    Some(set) if pick.is_multiple_of(2) => self.break_set(set),
                    _ => self.lose(self.tasks[&id].0.node),
                }
            }
            _ if !self.transfers.is_empty() => {
                let at = usize::from(pick) % self.transfers.len();
                let transfer = self.transfers.remove(at);
                self.handle(StagerInput::Moved { transfer, result: Ok(()) });
            }
            (_, Some(id), ..) => self.ask(id),
            (_, None, _, Some(id)) => self.end(id, Phase::Ended),
            (_, None, _, None) => return false,
        }
        true
    }
}

/// Sets whose tasks fit together on each node, and tasks of none, in any order.
fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let files = prop::collection::btree_set((0..FILES).prop_map(TaskId), 0..4);
    let plan = ((1..=NODES).prop_map(NodeId), files, 0..8_u8);
    let set = prop::collection::vec(plan, 1..5);
    let all = prop::collection::vec((any::<bool>(), set), 1..7).prop_map(|sets| {
        let mut plans = vec![];
        for (gang, (is_set, all)) in (0..).map(GangId).zip(sets) {
            let mut read: BTreeMap<NodeId, BTreeSet<TaskId>> = BTreeMap::new();
            for (node, files, asks) in all {
                let there = read.entry(node).or_default();
                if !is_set || there.union(&files).count() as u64 * 10 <= LIMIT {
                    there.extend(&files);
                    let (set, asks) = (is_set.then_some(gang), !is_set || asks > 0);
                    plans.push(Plan { set, node, files, asks });
                }
            }
        }
        plans
    });
    all.prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_set_waits_for_ever(
        plans in plans(),
        steps in prop::collection::vec((any::<u8>(), any::<u8>()), 0..300),
    ) {
        let mut world = World::new(plans);
        for (what, pick) in steps {
            world.step(what, pick);
        }
        while world.step(0, 0) {}
        let ended = world.ids(Phase::Ended).len();
        prop_assert_eq!(ended, world.tasks.len(), "they wait: {:?}", world.tasks);
        for node in (1..=NODES).map(NodeId) {
            let (_, held) = world.stager.ledger().cached_bytes(node);
            prop_assert_eq!(held, 0, "nobody reads on {:?}", node);
        }
    }
}
