//! Single steps: what follows from what.

use alloc::vec;

use super::sample::State;
use super::*;
use crate::event::Settled;
use crate::fact::Places;
use crate::ids::GangId;

const HOME: NodeId = NodeId(0);
const NODE: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

type Effect = StagerEffect<State>;

/// Files 0 to 4 of 20 bytes at home, and room for 50 bytes on each node.
struct Bed(Stager<State>);

impl Bed {
    fn new() -> Self {
        let mut bed = Self(Stager::new(HOME));
        for node in [NODE, OTHER] {
            bed.0.set_limit(node, 50);
        }
        for file in 0..5 {
            assert_eq!(bed.settled(file, HOME, State(1, 20)), []);
        }
        bed
    }

    fn tell(&mut self, input: StagerInput<State>) -> Vec<Effect> {
        let mut out = Vec::new();
        self.0.handle(input, |_| true, &mut out);
        out
    }

    /// The same while `NODE` is not there.
    fn tell_without(&mut self, input: StagerInput<State>) -> Vec<Effect> {
        let mut out = Vec::new();
        self.0.handle(input, |node| node != NODE, &mut out);
        out
    }

    fn lose(&mut self) -> Vec<Effect> {
        let mut out = self.tell_without(StagerInput::NodeLost { id: NODE });
        out.extend(self.tell_without(StagerInput::LossTold { id: NODE }));
        out
    }

    fn settled(&mut self, file: u32, node: NodeId, state: State) -> Vec<Effect> {
        self.tell(StagerInput::Settled { file: TaskId(file), node, state })
    }

    /// A command of task `id` wants these on `NODE`, and has written nothing itself.
    fn wants(&mut self, id: u32, files: &[u32], reads: bool) -> Vec<Effect> {
        self.wants_beside(id, files, reads, &[])
    }

    /// The same of one that streams join to others, which read `beside`.
    fn wants_beside(&mut self, id: u32, files: &[u32], reads: bool, beside: &[u32]) -> Vec<Effect> {
        let tasks = |ids: &[u32]| ids.iter().map(|id| TaskId(*id)).collect();
        let (id, files, beside) = (TaskId(id), tasks(files), tasks(beside));
        self.ask(id, NODE, files, reads, beside, None)
    }

    /// A command of a task wants these. Streams join tasks 10 to 19, 20 to 29 and so on; of its set `set` have not
    /// ended.
    fn wants_of(&mut self, set: &[u32], id: u32, node: NodeId, files: &[u32]) -> Vec<Effect> {
        let tasks = |ids: &[u32]| ids.iter().map(|id| TaskId(*id)).collect();
        let joined = JoinedSet { gang: GangId(id / 10), tasks: tasks(set) };
        self.ask(TaskId(id), node, tasks(files), false, Vec::new(), Some(joined))
    }

    fn ask(
        &mut self,
        id: TaskId,
        node: NodeId,
        files: Vec<TaskId>,
        reads: bool,
        beside: Vec<TaskId>,
        joined: Option<JoinedSet>,
    ) -> Vec<Effect> {
        let attempt = 1;
        let mut out = self.tell(StagerInput::InputsWanted {
            id,
            attempt,
            node,
            files,
            reads,
            beside,
            joined,
        });
        if out.contains(&Effect::Admitted { id, attempt, node }) {
            out.extend(self.tell(StagerInput::OwnFilesSent { id, count: 0 }));
        }
        out
    }

    fn moved(&mut self, transfer: u32) -> Vec<Effect> {
        self.tell(StagerInput::Moved { transfer, result: Ok(()) })
    }

    fn failed(&mut self, transfer: u32) -> Vec<Effect> {
        let failure = MoveFailure { at_source: true, reason: "read it".into() };
        self.tell(StagerInput::Moved { transfer, result: Err(failure) })
    }

    fn released(&mut self, id: u32) -> Vec<Effect> {
        self.released_on(NODE, id)
    }

    fn released_on(&mut self, node: NodeId, id: u32) -> Vec<Effect> {
        self.tell(StagerInput::Released { id: TaskId(id), node })
    }
}

/// The numbers of the transfers that begin, each with its file.
fn moves(effects: &[Effect]) -> Vec<(u32, u32)> {
    let begun = effects.iter().filter_map(|effect| match effect {
        Effect::Move { transfer, file, .. } => Some((*transfer, file.0)),
        _ => None,
    });
    begun.collect()
}

fn there(id: u32) -> Effect {
    Effect::InputsThere { id: TaskId(id), attempt: 1 }
}

fn ask_again(id: u32) -> Effect {
    ask_again_on(NODE, id)
}

fn ask_again_on(node: NodeId, id: u32) -> Effect {
    Effect::AskAgain { id: TaskId(id), attempt: 1, node }
}

fn is_let_in(effects: &[Effect], id: u32) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::Admitted { id: TaskId(own), .. } if *own == id))
}

/// Those that are asked, in order.
fn asked(effects: &[Effect]) -> Vec<u32> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::AskAgain { id, .. } => Some(id.0),
        _ => None,
    });
    asked.collect()
}

fn no_room(id: u32) -> Effect {
    Effect::NoRoom { id: TaskId(id), attempt: 1 }
}

fn removes(removal: u32, node: NodeId, files: Vec<(TaskId, State)>, counted: bool) -> Effect {
    Effect::Remove { removal, node, files, counted }
}

#[test]
fn what_was_given_up_on_its_way_has_its_room_until_it_has_come() {
    let mut bed = Bed::new();
    assert_eq!(moves(&bed.wants(10, &[0, 1], false)), [(1, 0), (2, 1)]);
    assert_eq!(bed.released(10), []);
    assert_eq!(bed.wants(11, &[2], false), [no_room(11)], "and nothing to evict");
    assert!(bed.moved(1).contains(&ask_again(11)), "a copy that nobody reads may go");
    let admitted = bed.wants(11, &[2], false);
    let evicted = [(TaskId(0), State(1, 20))].into();
    assert!(admitted.contains(&removes(1, NODE, evicted, true)));
    assert_eq!(moves(&admitted), [], "not before that is done");
    assert_eq!(moves(&bed.tell(StagerInput::Removed { removal: 1 })), [(3, 2)]);
}

#[test]
fn what_was_given_up_on_its_way_leaves_its_room_when_it_cannot_come() {
    let mut bed = Bed::new();
    assert_eq!(moves(&bed.wants(10, &[0, 1], false)), [(1, 0), (2, 1)]);
    assert_eq!(bed.released(10), []);
    assert_eq!(bed.wants(11, &[2], false), [no_room(11)]);
    assert!(bed.failed(1).contains(&ask_again(11)));
}

#[test]
fn two_that_want_more_do_not_wait_for_one_another() {
    let mut bed = Bed::new();
    for (id, file) in [(10, 0), (11, 1)] {
        let (transfer, _) = moves(&bed.wants(id, &[file], false))[0];
        assert!(bed.moved(transfer).contains(&there(id)));
    }
    assert_eq!(bed.wants(10, &[0, 2], true), [no_room(10)], "its first command runs, and reads");
    assert_eq!(bed.wants(11, &[1, 3], true), [no_room(11)]);
    let ended = bed.tell(StagerInput::ReadsNoMore { id: TaskId(10), node: NODE });
    assert_eq!(ended, [ask_again(10)]);
    assert_eq!(bed.wants(10, &[0, 2], false), [no_room(10)], "the other one still reads");
    let ended = bed.tell(StagerInput::ReadsNoMore { id: TaskId(11), node: NODE });
    assert_eq!(ended, [ask_again(10)]);
    let admitted = bed.wants(10, &[0, 2], false);
    assert!(admitted.contains(&Effect::Admitted { id: TaskId(10), attempt: 1, node: NODE }));
}

#[test]
fn tasks_that_streams_join_are_let_in_together() {
    let mut bed = Bed::new();
    let wanted = bed.wants_beside(10, &[0], false, &[1]);
    assert_eq!(moves(&wanted), [(1, 0), (2, 1)], "what the other one reads is staged in, too");
    assert!(bed.moved(1).contains(&there(10)), "it does not wait for that");
    assert_eq!(bed.wants_beside(20, &[2], false, &[3]), [no_room(20)], "nor is 2 alone let in");
    let wanted = bed.wants_beside(11, &[1], false, &[0]);
    assert!(wanted.contains(&Effect::Admitted { id: TaskId(11), attempt: 1, node: NODE }));
    bed.released(10);
    assert!(bed.moved(2).contains(&there(11)));
    assert_eq!(bed.wants_beside(20, &[2], false, &[3]), [no_room(20)], "11 reads what 10 read");
    assert_eq!(bed.released(11), [ask_again(20)]);
    assert_eq!(moves(&bed.wants_beside(20, &[2], false, &[3])), [], "others are removed first");
}

#[test]
fn a_second_command_does_not_wait_for_what_joined_tasks_read_either() {
    let mut bed = Bed::new();
    bed.wants_beside(10, &[0], false, &[1]);
    assert!(bed.moved(1).contains(&there(10)));
    let wanted = bed.wants_beside(10, &[0], true, &[1]);
    assert!(wanted.contains(&there(10)), "{wanted:?}");
}

#[test]
fn what_does_not_fit_beside_what_others_read_at_the_same_time_is_too_large() {
    let mut bed = Bed::new();
    let wanted = bed.wants_beside(10, &[0, 1], false, &[1, 2]);
    let (id, attempt, node) = (TaskId(10), 1, NODE);
    let (needed_bytes, limit_bytes) = (60, 50);
    let too_large = Effect::TooLarge { id, attempt, node, needed_bytes, limit_bytes };
    assert_eq!(wanted, [too_large]);
}

#[test]
fn a_set_of_which_nobody_is_in_waits_until_all_of_another_one_are() {
    let mut bed = Bed::new();
    let (one, two) = ([10, 11], [20, 21]);
    assert!(is_let_in(&bed.wants_of(&one, 10, NODE, &[0, 1]), 10));
    assert_eq!(bed.wants_of(&two, 21, OTHER, &[2, 3]), [no_room(21)], "there is room, but for 11");
    assert_eq!(bed.wants_of(&two, 20, NODE, &[2, 3]), [no_room(20)]);
    let last = bed.wants_of(&one, 11, OTHER, &[0, 1]);
    assert!(is_let_in(&last, 11));
    assert_eq!(asked(&last), [21, 20], "their turn may have come");
    assert_eq!(bed.wants_of(&two, 21, OTHER, &[2, 3]), [no_room(21)]);
    assert_eq!(bed.wants_of(&two, 20, NODE, &[2, 3]), [no_room(20)]);
    for transfer in [1, 2, 3, 4] {
        bed.moved(transfer);
    }
    assert_eq!(bed.released(10), [ask_again(20)]);
    let first = bed.wants_of(&two, 20, NODE, &[2, 3]);
    assert!(is_let_in(&first, 20));
    assert_eq!(asked(&first), [21]);
    assert_eq!(bed.wants_of(&two, 21, OTHER, &[2, 3]), [no_room(21)], "11 still reads");
    assert_eq!(bed.released_on(OTHER, 11), [ask_again_on(OTHER, 21)]);
    assert!(is_let_in(&bed.wants_of(&two, 21, OTHER, &[2, 3]), 21));
}

#[test]
fn a_task_of_a_set_comes_before_one_that_stood_in_line_sooner() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants(30, &[3], false), 30));
    assert!(is_let_in(&bed.wants(31, &[4], false), 31));
    let set = [10, 11];
    assert_eq!(bed.wants(32, &[1, 2], false), [no_room(32)]);
    assert_eq!(bed.wants_of(&set, 11, NODE, &[1]), [no_room(11)]);
    bed.moved(1);
    bed.moved(2);
    assert_eq!(bed.released(30), [ask_again(32)]);
    assert_eq!(bed.wants(32, &[1, 2], false), [no_room(32)], "31 still reads");
    let first = bed.wants_of(&set, 10, NODE, &[0]);
    assert!(is_let_in(&first, 10), "it fits");
    assert_eq!(asked(&first), [11], "who waits for it is let in before 32");
    assert_eq!(bed.wants(33, &[0], false), [no_room(33)], "there is room, but for 11");
    assert_eq!(bed.wants_of(&set, 11, NODE, &[1]), [no_room(11)]);
    assert_eq!(bed.released(31), [ask_again(11)]);
    let last = bed.wants_of(&set, 11, NODE, &[1]);
    assert!(is_let_in(&last, 11));
    assert_eq!(asked(&last), [32]);
    assert_eq!(bed.wants(32, &[1, 2], false), [no_room(32)]);
    assert!(is_let_in(&bed.wants(34, &[0], false), 34), "as one may when 32 does not fit");
}

#[test]
fn where_no_task_of_the_set_stands_in_line_others_are_let_in() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, OTHER, &[0]), 10));
    assert_eq!(bed.wants_of(&[20, 21], 20, NODE, &[1]), [no_room(20)]);
    assert!(is_let_in(&bed.wants(30, &[2], false), 30), "also before those of another set");
    assert_eq!(bed.wants(31, &[3, 4], false), [no_room(31)]);
    assert!(bed.moved(2).contains(&there(30)));
    assert_eq!(bed.released(30), [ask_again(31)], "20 is held back");
}

#[test]
fn a_task_without_inputs_is_let_in_like_its_set() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[]), 10));
    assert_eq!(bed.wants_of(&[20, 21], 20, NODE, &[]), [no_room(20)], "11 is not in yet");
    let last = bed.wants_of(&[10, 11], 11, HOME, &[]);
    assert!(is_let_in(&last, 11), "at home, too");
    assert_eq!(asked(&last), [20]);
    assert!(is_let_in(&bed.wants_of(&[20, 21], 20, NODE, &[]), 20));
}

#[test]
fn a_task_that_ends_or_waits_for_an_invocation_before_it_wants_inputs_is_not_waited_for() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11, 12], 10, NODE, &[0]), 10));
    assert_eq!(bed.wants_of(&[20], 20, NODE, &[1]), [no_room(20)]);
    assert_eq!(bed.released_on(OTHER, 11), []);
    assert_eq!(bed.released_on(HOME, 12), [ask_again(20)]);
    assert!(is_let_in(&bed.wants_of(&[20], 20, NODE, &[1]), 20));
}

#[test]
fn a_set_whose_tasks_are_ended_lets_others_be_let_in() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, OTHER, &[0]), 10));
    bed.wants(30, &[3, 4], false);
    assert_eq!(bed.wants_of(&[10, 11], 11, NODE, &[0]), [no_room(11)]);
    assert_eq!(bed.wants_of(&[20, 21], 20, OTHER, &[1]), [no_room(20)]);
    assert_eq!(asked(&bed.released_on(OTHER, 10)), [20, 11], "11 is still to be told to end");
    assert!(is_let_in(&bed.wants_of(&[20, 21], 20, OTHER, &[1]), 20));
    bed.released(11);
    assert_eq!(bed.wants_of(&[10, 11], 10, OTHER, &[0]), [no_room(10)], "once more, after 21");
    assert!(is_let_in(&bed.wants_of(&[20, 21], 21, OTHER, &[1]), 21));
}

#[test]
fn a_set_that_has_lost_its_node_does_not_hold_others_back() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0]), 10));
    assert_eq!(bed.wants_of(&[20, 21], 20, OTHER, &[1]), [no_room(20)]);
    assert_eq!(asked(&bed.lose()), [20], "11 is ended, too");
    assert!(is_let_in(&bed.wants_of(&[20, 21], 20, OTHER, &[1]), 20));
}

#[test]
fn what_a_task_of_a_set_reads_again_is_there_for_it_whoever_waits() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0, 1]), 10));
    bed.moved(1);
    bed.moved(2);
    bed.wants(30, &[3], false);
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0, 1]), 10), "its next command");
    bed.wants_of(&[10, 11], 11, OTHER, &[2]);
    let more = bed.wants_of(&[10, 11], 10, NODE, &[0, 1, 2]);
    assert!(matches!(more[..], [Effect::TooLarge { .. }, ..]), "never: {more:?}");
}

#[test]
fn what_changes_for_a_task_of_a_set_keeps_its_room() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0, 1]), 10));
    assert!(is_let_in(&bed.wants_of(&[10, 11], 11, OTHER, &[2]), 11));
    assert_eq!(bed.wants(30, &[3], false), [no_room(30)]);
    let changed = bed.settled(0, HOME, State(2, 20));
    assert_eq!(asked(&changed), [10]);
    assert_eq!(bed.wants(31, &[3], false), [no_room(31)]);
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0, 1]), 10));
}

#[test]
fn those_of_a_set_that_do_not_fit_on_a_node_together_are_too_large() {
    let mut bed = Bed::new();
    assert!(is_let_in(&bed.wants_of(&[10, 11], 10, NODE, &[0, 1]), 10));
    let other = bed.wants_of(&[10, 11], 11, NODE, &[1, 2]);
    assert!(matches!(other[..], [Effect::TooLarge { needed_bytes: 60, .. }, ..]), "{other:?}");
}

#[test]
fn what_is_made_where_it_is_being_staged_in_is_not_overwritten() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    assert_eq!(moves(&bed.tell(StagerInput::StageOutWanted { file: TaskId(7) })), [(1, 7)]);
    let made = bed.settled(7, HOME, State(2, 6));
    let came = Effect::StagedOut { file: TaskId(7) };
    assert_eq!(made, [Effect::Cancel { transfer: 1 }, came]);
    assert_eq!(bed.moved(1), [], "its report is none");
}

#[test]
fn who_waits_for_what_changes_waits_for_the_new_one() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    assert_eq!(moves(&bed.wants(10, &[0, 7], false)), [(1, 0), (2, 7)]);
    assert!(!bed.moved(2).contains(&there(10)));
    let changed = bed.settled(7, OTHER, State(2, 6));
    assert!(changed.contains(&ask_again(10)), "{changed:?}");
    assert!(changed.contains(&no_room(10)), "it has none until it has asked");
    assert_eq!(moves(&bed.wants(10, &[0, 7], false)), [(3, 7)]);
    assert!(!bed.moved(3).contains(&there(10)));
    assert!(bed.moved(1).contains(&there(10)));
}

#[test]
fn who_lacks_a_file_is_told_when_all_concerned_have_answered() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    assert_eq!(moves(&bed.wants(10, &[7], false)), [(1, 7)]);
    let asked = [NODE, OTHER].map(|node| Effect::AskForLife { node });
    assert_eq!(bed.failed(1), asked);
    assert_eq!(bed.tell(StagerInput::Alive { id: NODE }), []);
    let (reason, readers) = ("read it".into(), vec![(TaskId(10), 1)]);
    let from = vec![OTHER];
    let told = Effect::NotStaged { file: TaskId(7), to: NODE, from, reason, readers };
    assert_eq!(bed.tell(StagerInput::Alive { id: OTHER }), [told]);
}

#[test]
fn who_lacks_a_file_that_has_come_to_another_node_meanwhile_has_it_from_there() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    bed.failed(1);
    assert_eq!(bed.settled(7, HOME, State(1, 5)), []);
    assert_eq!(bed.tell(StagerInput::Alive { id: NODE }), []);
    let (file, state, from, to) = (TaskId(7), State(1, 5), HOME, NODE);
    let begun = Effect::Move { transfer: 2, file, state, from, to };
    assert_eq!(bed.tell(StagerInput::Alive { id: OTHER }), [begun]);
    let asked = [NODE, OTHER].map(|node| Effect::AskForLife { node });
    assert_eq!(bed.failed(2), asked, "the first one is not tried once more");
    bed.tell(StagerInput::Alive { id: NODE });
    let told = bed.tell(StagerInput::Alive { id: OTHER });
    assert!(matches!(told[..], [Effect::NotStaged { .. }]), "{told:?}");
}

#[test]
fn a_full_disk_is_not_tried_again_from_elsewhere() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    let failure = MoveFailure { at_source: false, reason: "write it".into() };
    bed.tell(StagerInput::Moved { transfer: 1, result: Err(failure) });
    assert_eq!(bed.settled(7, HOME, State(1, 5)), []);
    bed.tell(StagerInput::Alive { id: NODE });
    let told = bed.tell(StagerInput::Alive { id: OTHER });
    assert!(matches!(told[..], [Effect::NotStaged { .. }]), "{told:?}");
}

#[test]
fn what_need_not_be_staged_out_any_more_is_not_tried_again() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.tell(StagerInput::StageOutWanted { file: TaskId(7) });
    assert_eq!(bed.failed(1), [Effect::AskForLife { node: OTHER }]);
    assert_eq!(bed.settled(7, NODE, State(1, 5)), []);
    assert_eq!(bed.tell(StagerInput::StageOutUnwanted { file: TaskId(7) }), []);
    assert_eq!(bed.tell(StagerInput::Alive { id: OTHER }), []);
}

#[test]
fn who_has_not_got_an_older_state_any_more_is_asked_for_the_new_one() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    assert_eq!(bed.settled(7, OTHER, State(2, 6)), [no_room(10), ask_again(10)]);
    assert_eq!(moves(&bed.wants(10, &[7], false)), [], "the older one is still on its way");
    assert_eq!(moves(&bed.failed(1)), [(2, 7)]);
    assert!(bed.moved(2).contains(&there(10)));
}

#[test]
fn what_is_made_on_a_node_waits_until_nothing_older_can_come_there() {
    let mut bed = Bed::new();
    let admitted = Effect::Admitted { id: TaskId(7), attempt: 1, node: NODE };
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    assert_eq!(bed.wants(7, &[0], false), [no_room(7)], "it is on its way");
    let lost = bed.tell(StagerInput::NodeLost { id: OTHER });
    assert_eq!(lost, [Effect::Cancel { transfer: 1 }, ask_again(7)]);
    assert_eq!(bed.wants(7, &[0], false), [no_room(7)], "it may have come all the same");
    assert_eq!(bed.released(10), [ask_again(7)]);
    assert_eq!(bed.wants(7, &[0], false), [no_room(7)], "nor does it matter who waits for it");
    let files = [(TaskId(7), State(1, 5))].into();
    let told = bed.tell(StagerInput::LossTold { id: OTHER });
    assert_eq!(told, [removes(1, NODE, files, false)]);
    assert_eq!(bed.wants(7, &[0], false), [no_room(7)], "it is not removed yet");
    let removed = bed.tell(StagerInput::Removed { removal: 1 });
    assert_eq!(removed, [ask_again(7)]);
    assert!(bed.wants(7, &[0], false).contains(&admitted));
    assert_eq!(bed.wants(7, &[0], true), [admitted], "its next command goes on");
}

#[test]
fn what_is_made_on_a_node_waits_until_what_is_on_its_way_has_come() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    assert_eq!(bed.wants(7, &[], false), [no_room(7)]);
    assert!(bed.moved(1).contains(&ask_again(7)));
    assert_eq!(bed.wants(7, &[], false).len(), 2, "it is let in, and has all that it reads");
}

#[test]
fn nobody_is_told_of_a_file_that_is_on_its_way_again() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    bed.failed(1);
    assert_eq!(moves(&bed.wants(11, &[7], false)), [(2, 7)]);
    for id in [NODE, OTHER] {
        assert_eq!(bed.tell(StagerInput::Alive { id }), []);
    }
    let arrived = bed.moved(2);
    assert!(arrived.contains(&there(10)) && arrived.contains(&there(11)), "{arrived:?}");
}

#[test]
fn nothing_begins_between_a_loss_and_its_being_told() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    bed.wants(10, &[7], false);
    let lost = bed.tell(StagerInput::NodeLost { id: OTHER });
    assert_eq!(lost, [Effect::Cancel { transfer: 1 }]);
    assert_eq!(bed.released(12), []);
    let mut out = Vec::new();
    bed.0.handle(StagerInput::LossTold { id: OTHER }, |node| node != OTHER, &mut out);
    assert_eq!(out, [Effect::AskForLife { node: NODE }], "there is no other source");
}

#[test]
fn a_node_that_is_lost_removes_nothing_any_more_and_does_when_it_is_back() {
    let mut bed = Bed::new();
    bed.wants(10, &[0, 1], false);
    bed.moved(1);
    bed.moved(2);
    bed.released(10);
    let admitted = bed.wants(11, &[2], false);
    assert!(admitted.iter().any(|effect| matches!(effect, Effect::Remove { removal: 1, .. })));
    assert_eq!(bed.lose(), [Effect::StopRemoval { removal: 1 }]);
    let wanted = bed.wants(12, &[0], false);
    let files = [(TaskId(0), State(1, 20))].into();
    assert!(wanted.contains(&removes(2, NODE, files, false)), "the scheduler knows of it");
    assert_eq!(moves(&wanted), []);
    assert_eq!(bed.tell(StagerInput::Removed { removal: 1 }), [], "told late");
    assert_eq!(moves(&bed.tell(StagerInput::Removed { removal: 2 })), [(3, 0)]);
}

#[test]
fn what_a_command_reads_stays_when_another_one_of_its_attempt_is_refused_its_inputs() {
    let refused = StagerInput::Refused { id: TaskId(10), node: NODE, reads: true };
    let not_staged = |bed: &mut Bed| {
        bed.failed(2);
        let told = bed.tell(StagerInput::Alive { id: NODE });
        assert!(matches!(told[..], [Effect::NotStaged { .. }]), "{told:?}");
    };
    let ways: [&dyn Fn(&mut Bed); 2] =
        [&|bed| assert_eq!(bed.tell(refused.clone()), []), &not_staged];
    for refuse in ways {
        let mut bed = Bed::new();
        bed.wants(10, &[0], false);
        bed.moved(1);
        assert_eq!(moves(&bed.wants(10, &[1], true)), [(2, 1)]);
        refuse(&mut bed);
        assert_eq!(bed.wants(11, &[2], false), [no_room(11)], "the first is read");
        assert!(bed.released(10).contains(&ask_again(11)));
    }
}

#[test]
fn what_may_have_come_to_a_node_when_it_was_lost_is_removed_there() {
    let mut bed = Bed::new();
    bed.wants(10, &[0, 1], false);
    bed.moved(1);
    let (one, two) = ((TaskId(0), State(1, 20)), (TaskId(1), State(1, 20)));
    assert_eq!(bed.lose(), [Effect::Cancel { transfer: 2 }]);
    assert_eq!(bed.released(99), [removes(1, NODE, [two].into(), false)]);
    bed.tell(StagerInput::Removed { removal: 1 });
    bed.lose();
    assert_eq!(bed.tell_without(StagerInput::NodeGivenUp { id: NODE }), []);
    assert_eq!(bed.released(99), [removes(2, NODE, [one].into(), false)], "it counts no more");
    assert_eq!(bed.released(99), [], "once");
}

#[test]
fn what_was_to_be_replaced_on_a_node_that_was_lost_is_removed_there_too() {
    let mut bed = Bed::new();
    bed.wants(10, &[0], false);
    bed.moved(1);
    bed.settled(0, HOME, State(2, 20));
    assert_eq!(moves(&bed.wants(11, &[0], false)), [(2, 0)]);
    assert_eq!(bed.lose(), [Effect::Cancel { transfer: 2 }]);
    let either = [State(1, 20), State(2, 20)].map(|state| (TaskId(0), state)).into();
    assert_eq!(bed.released(99), [removes(1, NODE, either, false)]);
}

#[test]
fn what_is_replaced_before_its_successor_has_come_is_removed() {
    let mut bed = Bed::new();
    bed.wants(10, &[0], false);
    bed.moved(1);
    bed.settled(0, HOME, State(2, 20));
    assert_eq!(moves(&bed.wants(11, &[0], false)), [(2, 0)], "another one reads the old state");
    assert_eq!(bed.released(11), [], "it is on its way");
    bed.failed(2);
    let ended = bed.released(10);
    assert_eq!(ended, [removes(1, NODE, [(TaskId(0), State(1, 20))].into(), false)]);
}

#[test]
fn what_comes_when_another_state_counts_is_removed_unless_it_is_replaced() {
    let mut bed = Bed::new();
    bed.wants(10, &[0], false);
    let changed = bed.settled(0, HOME, State(2, 20));
    assert_eq!(changed, [no_room(10), ask_again(10)]);
    bed.released(10);
    let came = bed.moved(1);
    assert!(came.contains(&removes(1, NODE, [(TaskId(0), State(1, 20))].into(), false)));
}

#[test]
fn what_comes_as_it_is_now_when_only_an_older_state_had_room_is_removed() {
    let mut bed = Bed::new();
    bed.settled(7, OTHER, State(1, 5));
    assert_eq!(moves(&bed.wants(10, &[7], false)), [(1, 7)]);
    bed.settled(7, HOME, State(2, 5));
    bed.released(10);
    let lost = bed.tell(StagerInput::NodeLost { id: OTHER });
    assert_eq!(lost, [Effect::Cancel { transfer: 1 }]);
    let told = bed.tell(StagerInput::LossTold { id: OTHER });
    assert_eq!(moves(&told), [(2, 7)], "nobody waits for it any more");
    let removed = removes(1, NODE, [(TaskId(7), State(2, 5))].into(), false);
    assert!(bed.moved(2).contains(&removed));
}

#[test]
fn a_copy_of_another_state_on_a_node_that_is_away_is_removed_when_it_is_back() {
    let mut bed = Bed::new();
    bed.wants(10, &[0], false);
    bed.moved(1);
    bed.lose();
    let settled = StagerInput::Settled { file: TaskId(0), node: HOME, state: State(2, 20) };
    assert_eq!(bed.tell_without(settled), []);
    let files = [(TaskId(0), State(1, 20))].into();
    assert_eq!(bed.released(99), [removes(1, NODE, files, false)]);
}

#[test]
fn what_is_found_or_made_again_where_it_was_astray_stays() {
    let mut bed = Bed::new();
    bed.wants(10, &[0, 1], false);
    bed.moved(1);
    bed.moved(2);
    bed.lose();
    bed.tell_without(StagerInput::NodeGivenUp { id: NODE });
    bed.0.found_copy(TaskId(0), NODE);
    let settled = StagerInput::Settled { file: TaskId(1), node: NODE, state: State(1, 20) };
    assert_eq!(bed.tell(settled), []);
}

#[test]
fn what_lay_on_a_node_that_is_given_up_counts_no_more_when_it_comes_again() {
    let mut bed = Bed::new();
    bed.settled(7, NODE, State(1, 5));
    bed.wants(10, &[0], false);
    bed.moved(1);
    bed.tell(StagerInput::NodeLost { id: NODE });
    bed.tell(StagerInput::LossTold { id: NODE });
    assert!(bed.0.ledger().has(TaskId(7), NODE), "it may come back with it");
    bed.tell(StagerInput::NodeGivenUp { id: NODE });
    assert_eq!(bed.0.ledger().files_on(NODE).count(), 0);
    assert_eq!(bed.0.ledger().places_left(TaskId(7)), Places::Nowhere);
    assert_eq!(bed.0.ledger().places_left(TaskId(0)), Places::One(HOME));
}

const FILE: TaskId = TaskId(7);

/// A file at home, in its third version.
fn with_file() -> Stager<State> {
    let mut bed = Bed::new();
    bed.settled(FILE.0, HOME, State(3, 10));
    bed.0
}

fn found(state: State, copy: bool) -> Found<State> {
    Found { task: FILE, node: NODE, state, copy }
}

#[test]
fn the_younger_one_counts_while_its_task_is_undecided() {
    let open = TaskState::Defined;
    let mut stager = with_file();
    let counting = |settles, is_same_file| Some(Counting { settles, is_same_file });
    let mut take = |state, copy, task: TaskState| stager.take_earlier(&found(state, copy), task);
    assert_eq!(take(State(4, 10), false, TaskState::Settled(Settled::NotNeeded)), None);
    assert_eq!(take(State(4, 10), true, open), counting(true, false));
    assert_eq!(take(State(3, 10), false, open), counting(true, true));
    assert_eq!(take(State(3, 10), true, open), counting(false, true));
    assert_eq!(take(State(2, 10), false, open), None);
    assert_eq!(stager.ledger().nodes_with(FILE), [HOME, NODE]);
    let mut nothing = Stager::new(HOME);
    let taken = nothing.take_earlier(&found(State(1, 10), true), open);
    assert_eq!(taken, counting(true, false));
}

#[test]
fn an_older_copy_is_astray() {
    let mut stager = with_file();
    assert_eq!(stager.take_earlier(&found(State(2, 10), true), TaskState::Defined), None);
    assert_eq!(stager.ledger.nodes_with_strays(), [NODE]);
    let mut stager = with_file();
    stager.take_earlier(&found(State(2, 10), false), TaskState::Defined);
    assert_eq!(stager.ledger.nodes_with_strays(), [], "what stayed there is not removed");
}
