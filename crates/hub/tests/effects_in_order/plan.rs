//! What a case stands for: tasks, how their commands end, a node elsewhere and what becomes of it, and when the user
//! stops the run.

use std::collections::BTreeSet;

use proptest::prelude::*;

/// A status of wait(2).
const FAILED: i32 = 1 << 8;
/// A node that is so far away has commands sent to it early, however long they take on this machine.
const FAR_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub struct Task {
    pub prerequisites: Vec<u32>,
    /// The last of them makes the file, if there is one; else the action does, here.
    pub commands: u32,
    pub is_file: bool,
}

/// A second node.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// It shares no file system with the hub.
    pub stages: bool,
    /// How long messages take there and back, as the node says.
    pub trip_ns: u64,
    /// It comes after so many turns of the loop.
    pub late: u32,
    pub lost: Option<Loss>,
}

/// The node is gone.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// It has taken so many requests.
    pub after: u32,
    /// It comes again.
    pub again: bool,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub tasks: Vec<Task>,
    /// Of commands by their numbers, again and again. One that fails ends its action.
    pub statuses: Vec<i32>,
    pub retry: u32,
    /// The user stops the run when the front has heard of so many things.
    pub stop_after: Option<u32>,
    /// And does so once more when it has heard of as many again.
    pub kill: bool,
    pub far: Option<Far>,
}

impl Plan {
    pub fn stages(&self) -> bool {
        self.far.is_some_and(|far| far.stages)
    }

    /// Tasks on which none depends.
    pub fn asked_for(&self) -> Vec<u32> {
        let needed: BTreeSet<u32> =
            self.tasks.iter().flat_map(|task| task.prerequisites.iter().copied()).collect();
        self.numbers().filter(|number| !needed.contains(number)).collect()
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        0..u32::try_from(self.tasks.len()).expect("there are few")
    }

    /// The files that the commands of a task read, also those behind plain tasks.
    pub fn files_of(&self, task: u32) -> BTreeSet<u32> {
        let (mut files, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut walk = self.tasks[task as usize].prerequisites.clone();
        while let Some(next) = walk.pop() {
            let task = &self.tasks[next as usize];
            if task.is_file {
                files.insert(next);
            } else if seen.insert(next) {
                walk.extend(&task.prerequisites);
            }
        }
        files
    }
}

fn tasks(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Task>> {
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    prop::collection::vec((picks, 0..4_u32, any::<bool>()), count).prop_map(|tasks| {
        let whole =
            |(number, (picks, commands, is_file)): (usize, (Vec<prop::sample::Index>, _, _))| {
                let before = picks.iter().filter(|_| number > 0).map(|pick| pick.index(number));
                let before: BTreeSet<u32> = before.map(|one| u32::try_from(one).unwrap()).collect();
                Task { prerequisites: before.into_iter().collect(), commands, is_file }
            };
        tasks.into_iter().enumerate().map(whole).collect()
    })
}

/// One of so many commands fails.
fn statuses(one_of: u32) -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(prop_oneof![one_of - 1 => Just(0), 1 => Just(FAILED)], 1..30)
}

fn far() -> impl Strategy<Value = Far> {
    let lost = (0..60_u32, any::<bool>()).prop_map(|(after, again)| Loss { after, again });
    let trip_ns = prop_oneof![Just(0), Just(FAR_NS)];
    (any::<bool>(), trip_ns, 0..20_u32, prop::option::of(lost))
        .prop_map(|(stages, trip_ns, late, lost)| Far { stages, trip_ns, late, lost })
}

/// One node.
fn alone() -> impl Strategy<Value = Plan> {
    let stop_after = prop::option::of(0..60_u32);
    (tasks(1..24), statuses(7), 0..3_u32, stop_after, any::<bool>()).prop_map(
        |(tasks, statuses, retry, stop_after, kill)| Plan {
            tasks,
            statuses,
            retry,
            stop_after,
            kill,
            far: None,
        },
    )
}

/// Two nodes, and so many tasks that some begin early on the second one.
fn beside_far() -> impl Strategy<Value = Plan> {
    let stop_after = prop::option::weighted(0.3, 0..150_u32);
    (tasks(1..60), statuses(40), 0..3_u32, stop_after, any::<bool>(), far()).prop_map(
        |(tasks, statuses, retry, stop_after, kill, far)| Plan {
            tasks,
            statuses,
            retry,
            stop_after,
            kill,
            far: Some(far),
        },
    )
}

pub fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![1 => alone(), 2 => beside_far()]
}
