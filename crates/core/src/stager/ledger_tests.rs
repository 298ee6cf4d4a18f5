//! The books: each file once per node, no more bytes than the bound, nothing removed that is read or is nowhere else.

use alloc::vec;

use super::*;

const HOME: NodeId = NodeId(0);
const NODE: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

/// Bytes of a file, and of its secondary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64, u64);

impl FileState for State {
    fn bytes(&self) -> u64 {
        self.0 + self.1
    }

    fn is_alone(&self) -> bool {
        self.1 == 0
    }

    fn covers(&self, other: &Self) -> bool {
        self.0 == other.0 && (other.1 == 0 || self.1 == other.1)
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn supersedes(&self, earlier: &Self) -> bool {
        self.0 > earlier.0
    }
}

/// A file without secondary files.
fn state(bytes: u64) -> State {
    State(bytes, 0)
}

fn ids<const N: usize>(numbers: [u32; N]) -> Vec<TaskId> {
    numbers.into_iter().map(TaskId).collect()
}

/// Files 0 to 9 of 10 bytes at home, and room for `limit` bytes on the node.
fn ledger(limit: u64) -> Ledger<State> {
    let mut ledger = Ledger::default();
    for number in 0..10 {
        assert_eq!(ledger.settle(TaskId(number), HOME, state(10)), []);
    }
    ledger.set_limit(NODE, limit);
    ledger
}

fn granted(missing: Vec<TaskId>, evicted: Vec<TaskId>) -> Admission<State> {
    let evicted = evicted.into_iter().map(|id| (id, state(10))).collect();
    Admission::Granted { missing, evicted, needless: Vec::new() }
}

#[test]
fn a_file_is_staged_in_once_and_then_there() {
    let mut ledger = ledger(100);
    let inputs = ids([1, 2]);
    assert_eq!(ledger.admit(NODE, TaskId(50), &inputs), granted(inputs.clone(), vec![]));
    let second = ledger.admit(NODE, TaskId(51), &inputs);
    assert_eq!(second, granted(inputs.clone(), vec![]), "still on its way: to be waited for");
    for id in &inputs {
        ledger.arrived(*id, NODE, &state(10));
    }
    assert_eq!(ledger.admit(NODE, TaskId(52), &inputs), granted(vec![], vec![]));
    assert_eq!(ledger.places(TaskId(1)), Places::Many([HOME, NODE].into()));
    assert_eq!(ledger.cached_bytes(NODE), (20, 20));
    for reader in ids([50, 51, 52]) {
        ledger.release(NODE, reader);
    }
    assert_eq!(ledger.cached_bytes(NODE), (20, 0));
}

#[test]
fn what_was_read_again_goes_after_what_was_not() {
    let mut ledger = ledger(30);
    for (reader, file) in [(50, 0), (51, 1), (52, 2), (53, 0)] {
        let reader = TaskId(reader);
        ledger.admit(NODE, reader, &ids([file]));
        ledger.arrived(TaskId(file), NODE, &state(10));
        ledger.release(NODE, reader);
    }
    let admitted = ledger.admit(NODE, TaskId(60), &ids([3]));
    assert_eq!(admitted, granted(ids([3]), ids([1])));
}

#[test]
fn what_was_not_used_longest_goes_first_and_never_what_is_read() {
    let mut ledger = ledger(30);
    for number in 0..3 {
        let file = TaskId(number);
        assert_eq!(ledger.admit(NODE, TaskId(50 + number), &[file]), granted(vec![file], vec![]));
        ledger.arrived(file, NODE, &state(10));
    }
    ledger.release(NODE, TaskId(51));
    ledger.release(NODE, TaskId(52));
    assert_eq!(ledger.admit(NODE, TaskId(60), &ids([3])), granted(ids([3]), ids([1])));
    ledger.release(NODE, TaskId(50));
    assert_eq!(ledger.admit(NODE, TaskId(61), &ids([0, 4])), granted(ids([4]), ids([2])));
    assert_eq!(ledger.cached_bytes(NODE), (30, 30));
}

#[test]
fn who_finds_no_room_waits_without_holding_any() {
    let mut ledger = ledger(30);
    assert_eq!(ledger.admit(NODE, TaskId(50), &ids([0, 1])), granted(ids([0, 1]), vec![]));
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([1, 2, 3])), Admission::Wait);
    assert_eq!(ledger.cached_bytes(NODE), (20, 20));
    ledger.release(NODE, TaskId(50));
    for id in ids([0, 1]) {
        ledger.arrived(id, NODE, &state(10));
    }
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([1, 2, 3])), granted(ids([2, 3]), ids([0])));
    let too_large = Admission::TooLarge { needed_bytes: 40, limit_bytes: 30 };
    ledger.release(NODE, TaskId(51));
    assert_eq!(ledger.admit(NODE, TaskId(52), &ids([1, 2, 3, 4])), too_large);
}

#[test]
fn what_was_made_on_a_node_takes_no_room_and_is_never_removed() {
    let mut ledger = ledger(10);
    ledger.settle(TaskId(20), NODE, state(1000));
    assert_eq!(ledger.admit(NODE, TaskId(50), &ids([20, 1])), granted(ids([1]), vec![]));
    assert_eq!(ledger.cached_bytes(NODE), (10, 10));
    ledger.arrived(TaskId(1), NODE, &state(10));
    ledger.release(NODE, TaskId(50));
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([2])), granted(ids([2]), ids([1])));
    assert!(ledger.stays_on(TaskId(20), NODE) && !ledger.has(TaskId(1), NODE));
}

#[test]
fn copies_of_an_older_state_do_not_count() {
    let mut ledger = ledger(100);
    assert_eq!(ledger.admit(NODE, TaskId(50), &ids([1])), granted(ids([1]), vec![]));
    ledger.arrived(TaskId(1), NODE, &state(10));
    ledger.release(NODE, TaskId(50));
    assert_eq!(ledger.settle(TaskId(1), OTHER, state(12)), [(NODE, state(10))]);
    assert_eq!(ledger.nodes_with(TaskId(1)), [OTHER]);
    assert_eq!(ledger.cached_bytes(NODE), (0, 0));
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([1])), granted(ids([1]), vec![]));
    ledger.arrived(TaskId(1), NODE, &state(10));
    assert!(!ledger.has(TaskId(1), NODE), "what arrived is the older one");
}

#[test]
fn what_does_not_arrive_has_no_room_once_nobody_waits_for_it() {
    let mut ledger = ledger(10);
    assert_eq!(ledger.admit(NODE, TaskId(50), &ids([1])), granted(ids([1]), vec![]));
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([1])), granted(ids([1]), vec![]));
    ledger.not_arriving(TaskId(1), NODE);
    assert_eq!(ledger.cached_bytes(NODE), (10, 10), "two wait for it");
    assert_eq!(ledger.release(NODE, TaskId(50)), []);
    assert_eq!(ledger.release(NODE, TaskId(51)), ids([1]), "nobody does");
    assert_eq!(ledger.admit(NODE, TaskId(52), &ids([2])), Admission::Wait, "it may be on its way");
    ledger.not_arriving(TaskId(1), NODE);
    assert_eq!(ledger.cached_bytes(NODE), (0, 0));
    assert_eq!(ledger.admit(NODE, TaskId(52), &ids([2])), granted(ids([2]), vec![]));
    ledger.empty_hands(NODE);
    assert_eq!(ledger.cached_bytes(NODE), (0, 0), "the node was lost");
}

#[test]
fn a_file_with_secondary_is_one_thing_in_state_place_and_bytes() {
    let mut ledger = ledger(100);
    let (file, whole) = (TaskId(20), State(10, 5));
    assert_eq!(ledger.settle(file, OTHER, whole), []);
    assert_eq!(ledger.admit(NODE, TaskId(50), &[file]), granted(vec![file], vec![]));
    assert_eq!(ledger.cached_bytes(NODE), (15, 15));
    ledger.arrived(file, NODE, &state(10));
    assert!(!ledger.has(file, NODE), "without its secondary file it is not there");
    ledger.arrived(file, NODE, &whole);
    assert!(ledger.has(file, NODE));
    ledger.release(NODE, TaskId(50));
    assert_eq!(ledger.settle(file, OTHER, state(11)), [(NODE, whole)]);
    assert_eq!(ledger.cached_bytes(NODE), (0, 0));
}

#[test]
fn a_part_that_another_task_has_written_goes_and_the_rest_stays() {
    let mut ledger = ledger(100);
    let file = TaskId(20);
    ledger.settle(file, OTHER, State(10, 5));
    ledger.admit(NODE, TaskId(50), &[file]);
    ledger.arrived(file, NODE, &State(10, 5));
    ledger.restate(file, &state(10));
    assert_eq!(ledger.state(file), Some(&state(10)));
    assert!(ledger.has(file, NODE) && ledger.stays_on(file, OTHER));
    assert_eq!(ledger.cached_bytes(NODE), (10, 10));
}

#[test]
fn a_file_that_is_made_where_a_copy_is_is_no_copy() {
    let mut ledger = ledger(10);
    ledger.admit(NODE, TaskId(50), &ids([1]));
    ledger.arrived(TaskId(1), NODE, &state(10));
    assert_eq!(ledger.settle(TaskId(1), NODE, state(10)), []);
    assert_eq!(ledger.cached_bytes(NODE), (0, 0));
    assert_eq!(ledger.release(NODE, TaskId(50)), []);
    assert_eq!(ledger.admit(NODE, TaskId(51), &ids([2])), granted(ids([2]), vec![]));
    assert!(ledger.has(TaskId(1), NODE), "it is not evicted");
}
