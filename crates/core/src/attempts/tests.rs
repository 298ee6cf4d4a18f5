//! Attempts from their beginning to their end, with numbers for commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice::from_ref;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::requirement::Devices;

type Commands = Attempts<(), u32>;
type Effects = Vec<AttemptEffect<u32>>;

const NODE: NodeId = NodeId(0);
const OTHER: NodeId = NodeId(1);

fn at(ns: u64) -> Now {
    crate::time::Time(ns).into()
}

fn next(number: u32, node: NodeId) -> NextAttempt {
    NextAttempt { number, node, devices: Devices::default() }
}

fn nodes(cores: u32) -> Commands {
    let mut attempts = Commands::default();
    attempts.set_cores(NODE, cores);
    attempts.set_cores(OTHER, cores);
    attempts
}

fn begin(attempts: &mut Commands, id: u32, unstaged: bool) -> bool {
    attempts.begin(TaskId(id), &next(1, NODE), 1, at(0), unstaged, ())
}

/// Runs actions of this length on a node, one after the other.
fn run_some(attempts: &mut Commands, node: NodeId, took_ns: u64) {
    for id in (0..20).map(TaskId) {
        attempts.begin(id, &next(1, node), 1, at(0), false, ());
        attempts.end_action(id, None, at(took_ns));
        attempts.take(id).unwrap();
    }
}

/// Two nodes of two cores, on the first of which actions are begun early, as short ones were seen there.
fn looking_ahead() -> Commands {
    let mut attempts = nodes(2);
    run_some(&mut attempts, NODE, 0);
    assert_eq!(attempts.take_lookahead(), [(NODE, 16)]);
    attempts
}

fn does(act: impl FnOnce(&mut Effects)) -> Effects {
    let mut out = Effects::new();
    act(&mut out);
    out
}

/// Wants a command of an attempt that has not ended: what follows.
fn want(attempts: &mut Commands, id: u32, command: u32) -> Effects {
    does(|out| assert_eq!(attempts.want_command(TaskId(id), command, out), None))
}

fn start(id: u32, command: u32) -> AttemptEffect<u32> {
    AttemptEffect::Start { id: TaskId(id), command, frees_core: false }
}

fn leased(id: u32) -> AttemptEffect<u32> {
    AttemptEffect::Leased { id: TaskId(id) }
}

fn refuse(id: u32, command: u32, why: Refusal) -> AttemptEffect<u32> {
    AttemptEffect::Refuse { id: TaskId(id), command, why }
}

#[test]
fn commands_of_an_attempt_with_a_lease_start_at_once() {
    let mut attempts = nodes(1);
    assert!(begin(&mut attempts, 7, false));
    let out = does(|out| assert_eq!(attempts.want_command(TaskId(7), 1, out), None));
    assert_eq!(out, [start(7, 1)]);
    assert!(attempts.acting(TaskId(7)).unwrap().ran_command());
    attempts.command_ended(TaskId(7), at(1), &mut Vec::new());
    assert!(attempts.acting(TaskId(7)).unwrap().holds_lease(), "nobody waits for its core");
}

#[test]
fn an_attempt_that_is_begun_early_has_its_first_lease_when_a_core_is_free() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, true);
    let early = attempts.get(TaskId(100)).unwrap();
    assert!(!early.had_lease() && !early.ran_command() && !early.is_prepared());
    assert_eq!(early.inputs(), InputGate::Unstaged { before: false });
    want(&mut attempts, 100, 1);
    let stage = AttemptEffect::StageIn { id: TaskId(100) };
    assert_eq!(does(|out| attempts.grant(at(1), out)), [stage]);
    let leased = attempts.get(TaskId(100)).unwrap();
    assert!(leased.had_lease() && !leased.ran_command() && !leased.waits_for_room());
    assert_eq!(leased.inputs(), InputGate::Pending { changed: false, held_up: false });
    assert!(leased.was_staged_for());
    attempts.inputs_held_up(TaskId(100), 1, at(2));
    assert!(attempts.get(TaskId(100)).unwrap().waits_for_room());
}

#[test]
fn an_attempt_has_run_for_as_long_as_it_has_held_its_cores() {
    let mut attempts = looking_ahead();
    for id in 100..103 {
        begin(&mut attempts, id, false);
        want(&mut attempts, id, id);
    }
    let ran_ns = |attempts: &Commands, now| {
        attempts.ran_ns(TaskId(100), attempts.get(TaskId(100)).unwrap(), at(now))
    };
    attempts.grant(at(1), &mut Vec::new());
    assert_eq!(ran_ns(&attempts, 2), 1);
    attempts.command_ended(TaskId(100), at(3), &mut Vec::new());
    attempts.grant(at(3), &mut Vec::new());
    assert_eq!(ran_ns(&attempts, 5), 2, "another one has its core");
    want(&mut attempts, 100, 7);
    attempts.command_ended(TaskId(101), at(6), &mut Vec::new());
    attempts.grant(at(6), &mut Vec::new());
    assert_eq!(ran_ns(&attempts, 9), 5);
}

#[test]
fn a_command_of_no_attempt_is_given_back() {
    let mut attempts = nodes(1);
    assert_eq!(does(|out| assert_eq!(attempts.want_command(TaskId(7), 1, out), Some(1))), []);
}

#[test]
fn commands_without_a_lease_wait_in_line_and_start_in_order() {
    let mut attempts = looking_ahead();
    for id in 100..104 {
        assert!(!begin(&mut attempts, id, false));
        let out = does(|out| {
            attempts.want_command(TaskId(id), 2 * id, out);
            attempts.want_command(TaskId(id), 2 * id + 1, out);
        });
        assert_eq!(out, []);
    }
    let out = does(|out| attempts.grant(at(1), out));
    assert_eq!(out, [start(100, 200), start(100, 201), start(101, 202), start(101, 203)]);
    assert_eq!(does(|out| attempts.command_ended(TaskId(100), at(2), out)), []);
    assert_eq!(does(|out| attempts.grant(at(2), out)), [], "one of its commands still runs");
    attempts.command_ended(TaskId(100), at(3), &mut Vec::new());
    assert!(!attempts.acting(TaskId(100)).unwrap().holds_lease(), "it has passed it on");
    assert_eq!(does(|out| attempts.grant(at(3), out)), [start(102, 204), start(102, 205)]);
    assert_eq!(attempts.acting(TaskId(100)).unwrap().held(), [(1, 3)]);
}

#[test]
fn code_that_wants_its_cores_waits_for_them() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    assert_eq!(does(|out| attempts.want_lease(TaskId(100), out)), []);
    let leased = [AttemptEffect::Leased { id: TaskId(100) }];
    assert_eq!(does(|out| attempts.grant(at(1), out)), leased);
    assert_eq!(does(|out| attempts.want_lease(TaskId(100), out)), leased, "it has them");
}

#[test]
fn a_caller_lends_its_cores_and_starts_what_has_waited() {
    let mut attempts = looking_ahead();
    for id in 100..103 {
        begin(&mut attempts, id, false);
        attempts.want_command(TaskId(id), id, &mut Vec::new());
    }
    attempts.grant(at(1), &mut Vec::new());
    let third = InvocationId(3);
    assert_eq!(does(|out| attempts.suspend(third, TaskId(102), at(2), out)), [start(102, 102)]);
    let (first, second) = (InvocationId(1), InvocationId(2));
    attempts.suspend(first, TaskId(100), at(2), &mut Vec::new());
    attempts.suspend(second, TaskId(100), at(3), &mut Vec::new());
    assert!(attempts.is_called(first) && attempts.is_called(second));
    assert_eq!(attempts.acting(TaskId(100)).unwrap().held(), [(1, 2)]);
    assert_eq!(want(&mut attempts, 100, 5), [start(100, 5)]);
    attempts.resume(first, at(4));
    assert!(attempts.acting(TaskId(100)).unwrap().is_suspended(), "the other one is not over");
    attempts.resume(second, at(5));
    assert!(attempts.acting(TaskId(100)).unwrap().holds_lease());
    assert!(!attempts.is_called(second));
}

#[test]
fn a_caller_that_has_ended_leaves_nothing_to_its_next_attempt() {
    let mut attempts = nodes(1);
    let (first, second) = (InvocationId(1), InvocationId(2));
    begin(&mut attempts, 7, false);
    attempts.suspend(first, TaskId(7), at(1), &mut Vec::new());
    attempts.end_action(TaskId(7), None, at(2));
    attempts.take(TaskId(7));
    begin(&mut attempts, 7, false);
    attempts.suspend(second, TaskId(7), at(3), &mut Vec::new());
    attempts.resume(first, at(4));
    assert!(attempts.acting(TaskId(7)).unwrap().is_suspended(), "it waits for the second");
    attempts.resume(second, at(5));
    assert!(attempts.acting(TaskId(7)).unwrap().holds_lease());
}

#[test]
fn a_caller_whose_command_has_ended_waits_for_its_invocation_still() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, false);
    attempts.suspend(InvocationId(1), TaskId(100), at(1), &mut Vec::new());
    assert_eq!(want(&mut attempts, 100, 5), [start(100, 5)]);
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    assert!(attempts.acting(TaskId(100)).unwrap().is_suspended());
}

#[test]
fn a_caller_that_goes_on_has_its_cores_again_and_others_wait_for_them() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, false);
    attempts.suspend(InvocationId(1), TaskId(100), at(1), &mut Vec::new());
    assert!(begin(&mut attempts, 101, false), "its core is free");
    want(&mut attempts, 101, 5);
    assert!(!begin(&mut attempts, 102, false));
    want(&mut attempts, 102, 6);
    attempts.resume(InvocationId(1), at(2));
    attempts.command_ended(TaskId(101), at(3), &mut Vec::new());
    assert_eq!(does(|out| attempts.grant(at(3), out)), [], "there is one core");
    attempts.end_action(TaskId(100), None, at(4));
    assert_eq!(does(|out| attempts.grant(at(4), out)), [start(102, 6)]);
}

#[test]
fn no_caller_is_left_on_a_lost_node() {
    let mut attempts = nodes(1);
    let (lost, stays) = (InvocationId(1), InvocationId(2));
    begin(&mut attempts, 7, false);
    attempts.begin(TaskId(8), &next(1, OTHER), 1, at(0), false, ());
    attempts.suspend(lost, TaskId(7), at(1), &mut Vec::new());
    attempts.suspend(stays, TaskId(8), at(1), &mut Vec::new());
    attempts.lose_node(NODE, at(2), &mut Vec::new());
    assert!(!attempts.is_called(lost) && attempts.is_called(stays));
}

#[test]
fn inputs_are_staged_once_and_again_when_they_have_changed() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 7, true);
    assert!(!attempts.get(TaskId(7)).unwrap().was_staged_for());
    let stage = AttemptEffect::StageIn { id: TaskId(7) };
    assert_eq!(want(&mut attempts, 7, 1), from_ref(&stage));
    assert_eq!(want(&mut attempts, 7, 2), [], "it is under way");
    attempts.inputs_changed(TaskId(7));
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(7), 1, out)), from_ref(&stage));
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(7), 2, out)), [], "another attempt's");
    let both = [start(7, 1), start(7, 2)];
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(7), 1, out)), both);
    attempts.inputs_changed(TaskId(7));
    assert_eq!(want(&mut attempts, 7, 3), [stage]);
    let refused = [refuse(7, 3, Refusal::Inputs)];
    assert_eq!(does(|out| attempts.inputs_refused(TaskId(7), 1, out)), refused);
    attempts.inputs_changed(TaskId(7));
    let refused = [refuse(7, 4, Refusal::Inputs)];
    assert_eq!(want(&mut attempts, 7, 4), refused, "for good");
}

#[test]
fn an_attempt_whose_inputs_have_come_and_that_wants_nothing_yet_stands_in_no_line() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    attempts.await_inputs(TaskId(100));
    attempts.inputs_ready(TaskId(100), 1, &mut Vec::new());
    assert_eq!(does(|out| attempts.grant(at(1), out)), []);
    assert!(!attempts.get(TaskId(100)).unwrap().had_lease());
}

#[test]
fn a_command_passes_both_gates() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    attempts.await_inputs(TaskId(100));
    attempts.want_command(TaskId(100), 1, &mut Vec::new());
    let ready = does(|out| attempts.inputs_ready(TaskId(100), 1, out));
    assert_eq!(ready, [], "it stands in line for a lease");
    assert_eq!(does(|out| attempts.grant(at(1), out)), [start(100, 1)]);
}

#[test]
fn a_command_without_room_for_its_inputs_gives_its_cores_away_until_it_has_it() {
    let mut attempts = nodes(1);
    assert!(begin(&mut attempts, 100, true));
    let stage = AttemptEffect::StageIn { id: TaskId(100) };
    assert_eq!(want(&mut attempts, 100, 1), from_ref(&stage));
    assert!(!begin(&mut attempts, 101, false));
    assert_eq!(want(&mut attempts, 101, 2), []);
    assert_eq!(does(|out| attempts.grant(at(1), out)), [], "there is one core");
    attempts.inputs_held_up(TaskId(100), 2, at(1));
    assert!(attempts.get(TaskId(100)).unwrap().holds_lease(), "that was another attempt");
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    assert_eq!(want(&mut attempts, 100, 3), [], "it waits for room, and for no core");
    assert_eq!(does(|out| attempts.grant(at(1), out)), [start(101, 2)]);
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(100), 1, out)), []);
    assert_eq!(does(|out| attempts.grant(at(2), out)), [], "now it stands in line");
    does(|out| attempts.command_ended(TaskId(101), at(3), out));
    assert_eq!(does(|out| attempts.grant(at(3), out)), [start(100, 1), start(100, 3)]);
}

#[test]
fn code_that_wants_cores_waits_while_a_command_beside_it_waits_for_room() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, true);
    want(&mut attempts, 100, 1);
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    assert_eq!(does(|out| attempts.want_lease(TaskId(100), out)), []);
    assert_eq!(want(&mut attempts, 100, 2), []);
    assert_eq!(does(|out| attempts.grant(at(2), out)), [], "who has the room may need the core");
    assert!(begin(&mut attempts, 101, true), "the core is free");
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(100), 1, out)), []);
    assert_eq!(does(|out| attempts.grant(at(3), out)), [], "now it stands in line");
    attempts.end_action(TaskId(101), None, at(4));
    let granted = does(|out| attempts.grant(at(4), out));
    assert_eq!(granted, [leased(100), start(100, 1), start(100, 2)]);
}

#[test]
fn code_that_waits_with_a_command_for_room_has_cores_when_the_inputs_cannot_be_had() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, true);
    want(&mut attempts, 100, 1);
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    attempts.want_lease(TaskId(100), &mut Vec::new());
    let refused = [refuse(100, 1, Refusal::Inputs)];
    assert_eq!(does(|out| attempts.inputs_refused(TaskId(100), 1, out)), refused);
    assert_eq!(does(|out| attempts.grant(at(2), out)), [leased(100)]);
}

#[test]
fn code_that_waits_for_room_goes_on_when_its_action_waits_for_an_invocation() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, true);
    want(&mut attempts, 100, 1);
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    attempts.want_lease(TaskId(100), &mut Vec::new());
    let suspended = does(|out| attempts.suspend(InvocationId(1), TaskId(100), at(2), out));
    assert_eq!(suspended, [leased(100)]);
}

#[test]
fn a_caller_leaves_the_room_of_its_inputs_to_what_it_invokes() {
    let mut attempts = nodes(1);
    let (first, second) = (InvocationId(1), InvocationId(2));
    let release = AttemptEffect::ReleaseInputs { id: TaskId(100) };
    let stage = AttemptEffect::StageIn { id: TaskId(100) };
    begin(&mut attempts, 100, true);
    want(&mut attempts, 100, 1);
    attempts.inputs_ready(TaskId(100), 1, &mut Vec::new());
    let suspended = does(|out| attempts.suspend(first, TaskId(100), at(1), out));
    assert_eq!(suspended, [], "a command reads them");
    let ended = does(|out| attempts.command_ended(TaskId(100), at(2), out));
    assert_eq!(ended, from_ref(&release));
    assert_eq!(want(&mut attempts, 100, 2), from_ref(&stage), "they are staged in anew");
    let suspended = does(|out| attempts.suspend(second, TaskId(100), at(3), out));
    assert_eq!(suspended, [], "a command waits for them");
    attempts.resume(first, at(4));
    attempts.resume(second, at(4));
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(100), 1, out)), [start(100, 2)]);
    assert_eq!(does(|out| attempts.command_ended(TaskId(100), at(5), out)), [], "it goes on");
    let suspended = does(|out| attempts.suspend(first, TaskId(100), at(6), out));
    assert_eq!(suspended, [release]);
}

#[test]
fn a_caller_keeps_inputs_that_a_command_is_to_read_at_its_node_or_that_all_nodes_see() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, false);
    want(&mut attempts, 100, 1);
    attempts.command_ended(TaskId(100), at(1), &mut Vec::new());
    assert_eq!(
        does(|out| attempts.suspend(InvocationId(1), TaskId(100), at(2), out)),
        [],
        "nothing was staged in"
    );
    let mut attempts = looking_ahead();
    attempts.set_trip(NODE, 20_000_000);
    for id in 100..103 {
        begin(&mut attempts, id, id == 100);
        want(&mut attempts, id, id);
    }
    attempts.grant(at(1), &mut Vec::new());
    attempts.inputs_ready(TaskId(100), 1, &mut Vec::new());
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    attempts.grant(at(2), &mut Vec::new());
    want(&mut attempts, 100, 200);
    let prepare = AttemptEffect::Prepare { id: TaskId(100), command: 200, freed: 0 };
    assert_eq!(does(|out| attempts.prepare(|_, _| true, out)), [prepare]);
    let suspended = does(|out| attempts.suspend(InvocationId(1), TaskId(100), at(3), out));
    assert_eq!(suspended, [], "one is at its node");
    does(|out| attempts.command_begun(NODE, TaskId(100), 1, at(4), out));
    let ended = does(|out| attempts.command_ended(TaskId(100), at(5), out));
    assert_eq!(ended, [AttemptEffect::ReleaseInputs { id: TaskId(100) }]);
}

#[test]
fn a_command_without_room_gives_cores_away_when_the_one_beside_it_has_ended() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 100, false);
    assert_eq!(want(&mut attempts, 100, 1), [start(100, 1)]);
    attempts.inputs_changed(TaskId(100));
    let stage = AttemptEffect::StageIn { id: TaskId(100) };
    assert_eq!(want(&mut attempts, 100, 2), from_ref(&stage));
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    assert!(attempts.get(TaskId(100)).unwrap().holds_lease(), "a command runs");
    does(|out| attempts.command_ended(TaskId(100), at(2), out));
    assert!(!attempts.get(TaskId(100)).unwrap().holds_lease());
    assert_eq!(does(|out| attempts.grant(at(2), out)), [], "it stands in no line");
    assert_eq!(does(|out| attempts.inputs_refused(TaskId(100), 1, out)).len(), 1);
}

#[test]
fn a_command_that_waits_for_its_inputs_keeps_the_cores_of_one_that_has_ended() {
    let mut attempts = looking_ahead();
    for id in 100..103 {
        begin(&mut attempts, id, false);
        want(&mut attempts, id, id);
    }
    attempts.grant(at(1), &mut Vec::new());
    attempts.inputs_changed(TaskId(100));
    want(&mut attempts, 100, 5);
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    assert_eq!(does(|out| attempts.grant(at(2), out)), [], "another one waits for a core");
    assert_eq!(does(|out| attempts.inputs_ready(TaskId(100), 1, out)), [start(100, 5)]);
    assert!(attempts.acting(TaskId(100)).unwrap().holds_lease());
}

#[test]
fn an_aborted_action_ends_after_its_commands() {
    let mut attempts = looking_ahead();
    for id in 100..103 {
        begin(&mut attempts, id, false);
        attempts.want_command(TaskId(id), id, &mut Vec::new());
    }
    attempts.grant(at(1), &mut Vec::new());
    let mut aborting = None;
    let out = does(|out| aborting = attempts.abort(TaskId(100), true, out));
    assert_eq!(
        (aborting, out.as_slice()),
        (Some(Aborting::UnderWay), &[AttemptEffect::Signal { id: TaskId(100) }][..])
    );
    assert_eq!(*attempts.get(TaskId(100)).unwrap().state(), State::Aborting);
    let abort = AttemptEffect::Abort { id: TaskId(100) };
    assert_eq!(does(|out| attempts.command_ended(TaskId(100), at(2), out)), [abort]);
    let out = does(|out| {
        attempts.abort(TaskId(102), true, out);
    });
    let (refused, abort) =
        (refuse(102, 102, Refusal::Aborted), AttemptEffect::Abort { id: TaskId(102) });
    assert_eq!(out, [refused, abort], "none of its commands runs");
    assert!(attempts.get(TaskId(102)).unwrap().is_aborted());
}

#[test]
fn no_command_starts_while_those_of_its_action_are_being_ended() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 7, false);
    want(&mut attempts, 7, 1);
    attempts.abort(TaskId(7), true, &mut Vec::new());
    assert_eq!(want(&mut attempts, 7, 2), [refuse(7, 2, Refusal::Aborted)]);
    attempts.command_ended(TaskId(7), at(1), &mut Vec::new());
    assert_eq!(want(&mut attempts, 7, 3), [start(7, 3)], "its code cleans up");
}

#[test]
fn an_action_that_was_stopped_before_it_had_a_core_stands_in_no_line() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    attempts.abort(TaskId(100), true, &mut Vec::new());
    assert_eq!(want(&mut attempts, 100, 1), [refuse(100, 1, Refusal::Aborted)]);
    assert_eq!(does(|out| attempts.grant(at(1), out)), []);
}

#[test]
fn what_was_begun_early_without_a_core_is_given_back() {
    let mut attempts = looking_ahead();
    for id in 100..103 {
        begin(&mut attempts, id, false);
        attempts.want_command(TaskId(id), id, &mut Vec::new());
    }
    attempts.grant(at(1), &mut Vec::new());
    assert_eq!(attempts.give_back_early(|id| id == TaskId(101)), []);
    assert_eq!(attempts.give_back_early(|_| true), [TaskId(102)]);
    assert!(!attempts.get(TaskId(101)).unwrap().is_given_back());
    attempts.abort(TaskId(102), true, &mut Vec::new());
    attempts.end_action(TaskId(102), None, at(2));
    assert!(attempts.take(TaskId(102)).unwrap().is_given_back());
}

#[test]
fn what_has_waited_for_an_invocation_is_not_given_back_after_that() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    attempts.suspend(InvocationId(1), TaskId(100), at(1), &mut Vec::new());
    attempts.resume(InvocationId(1), at(2));
    assert!(attempts.acting(TaskId(100)).unwrap().holds_lease());
    assert_eq!(attempts.give_back_early(|_| true), []);
}

#[test]
fn the_end_of_an_action_gives_up_its_cores_and_counts_code_that_had_none() {
    let mut attempts = looking_ahead();
    begin(&mut attempts, 100, false);
    attempts.end_action(TaskId(100), Some((3, 99)), at(8));
    assert_eq!(attempts.get(TaskId(100)).unwrap().held(), [(3, 8)]);
    attempts.inspect(TaskId(100));
    assert!(attempts.acting(TaskId(100)).is_none());
    assert_eq!(attempts.all_acting().count(), 0);
    attempts.stage_out(TaskId(100));
    assert_eq!(*attempts.get(TaskId(100)).unwrap().state(), State::StagingOut);
    assert_eq!(attempts.take(TaskId(100)).unwrap().number(), 1);
}

#[test]
fn actions_of_a_lost_node_are_unwound_before_the_next_attempt_begins() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 7, true);
    attempts.want_command(TaskId(7), 1, &mut Vec::new());
    attempts.begin(TaskId(8), &next(1, OTHER), 1, at(0), false, ());
    let out = does(|out| attempts.lose_node(NODE, at(5), out));
    assert_eq!(out, [AttemptEffect::Unwind { id: TaskId(7) }, refuse(7, 1, Refusal::NodeLost)]);
    assert!(attempts.is_unwinding(TaskId(7)) && attempts.is_any_unwinding());
    assert!(!attempts.is_unwinding(TaskId(8)));
    let out = want(&mut attempts, 7, 2);
    assert_eq!(out, [refuse(7, 2, Refusal::NodeLost)]);
    assert!(!attempts.hold_start(TaskId(8), &next(2, OTHER)), "nothing keeps it");
    assert!(attempts.hold_start(TaskId(7), &next(2, OTHER)));
    attempts.on_attempt_lost(TaskId(7), 1, true);
    let begun_next = State::Unwinding { next: Some(next(2, OTHER)), rerun: true };
    assert_eq!(*attempts.take(TaskId(7)).unwrap().state(), begun_next);
    assert!(!attempts.is_any_unwinding());
}

#[test]
fn what_was_to_begin_early_and_begins_when_that_is_over_has_no_more_cores_than_there_are() {
    let mut attempts = looking_ahead();
    attempts.begin(TaskId(7), &next(1, OTHER), 1, at(0), false, ());
    attempts.lose_node(OTHER, at(1), &mut Vec::new());
    assert!(attempts.hold_start(TaskId(7), &next(2, NODE)));
    for id in 100..110 {
        begin(&mut attempts, id, false);
        want(&mut attempts, id, id);
    }
    attempts.grant(at(1), &mut Vec::new());
    for id in 100..108 {
        attempts.end_action(TaskId(id), None, at(100_000_000 * u64::from(id - 98)));
        attempts.grant(at(100_000_000 * u64::from(id - 98)), &mut Vec::new());
    }
    assert_eq!(attempts.take_lookahead(), [(NODE, 0)]);
    attempts.take(TaskId(7));
    assert!(
        !attempts.begin(TaskId(7), &next(2, NODE), 1, at(u64::MAX), false, ()),
        "two others have them"
    );
}

#[test]
fn the_next_attempt_of_one_that_is_unwound_may_be_lost_or_aborted_before_it_begins() {
    let mut attempts = nodes(1);
    for id in [7, 8] {
        attempts.begin(TaskId(id), &next(1, NODE), 1, at(0), false, ());
    }
    attempts.lose_node(NODE, at(5), &mut Vec::new());
    attempts.hold_start(TaskId(7), &next(2, OTHER));
    attempts.on_attempt_lost(TaskId(7), 2, false);
    let lost = State::Unwinding { next: None, rerun: false };
    assert_eq!(*attempts.get(TaskId(7)).unwrap().state(), lost);
    attempts.hold_start(TaskId(8), &next(2, OTHER));
    let mut aborting = None;
    assert_eq!(does(|out| aborting = attempts.abort(TaskId(8), true, out)), []);
    assert_eq!(aborting, Some(Aborting::NotBegun(2)));
    assert_eq!(attempts.abort(TaskId(8), true, &mut Vec::new()), None, "there is none any more");
}

#[test]
fn a_failure_that_is_looked_into_ends_with_its_node_or_its_task() {
    let mut attempts = nodes(2);
    for id in [7, 8] {
        begin(&mut attempts, id, false);
        attempts.end_action(TaskId(id), None, at(1));
        attempts.attribute(TaskId(id));
    }
    assert_eq!(attempts.abort(TaskId(7), true, &mut Vec::new()), Some(Aborting::Failed));
    assert!(attempts.take(TaskId(7)).unwrap().is_aborted());
    assert_eq!(does(|out| attempts.lose_node(NODE, at(2), out)), [], "its action has ended");
    attempts.lose_failed(TaskId(8));
    assert!(attempts.is_unwinding(TaskId(8)));
}

#[test]
fn all_are_taken_at_the_end_with_the_time_that_they_held_cores() {
    let mut attempts = nodes(2);
    begin(&mut attempts, 7, false);
    begin(&mut attempts, 8, false);
    attempts.want_command(TaskId(8), 1, &mut Vec::new());
    let code: Vec<TaskId> = attempts.take_in_code().into_keys().collect();
    assert_eq!(code, [TaskId(7)], "the other one runs a command");
    let all = attempts.take_all(at(9));
    assert_eq!(all[&TaskId(8)].held(), [(0, 9)]);
    assert_eq!(attempts.all().count(), 0);
}

#[test]
fn an_attempt_is_found_by_its_task_and_its_number() {
    let mut attempts = nodes(2);
    begin(&mut attempts, 7, false);
    assert!(attempts.acting_as(TaskId(7), 1).is_some());
    assert!(attempts.acting_as(TaskId(7), 2).is_none());
    assert!(attempts.details_mut(TaskId(7)).is_some());
    assert!(attempts.details_mut(TaskId(8)).is_none());
    attempts.begin(TaskId(8), &next(3, OTHER), 2, at(7), false, ());
    let other = attempts.get(TaskId(8)).unwrap();
    assert_eq!((other.number(), other.cores(), other.began()), (3, 2, at(7)));
}

#[test]
fn what_is_left_of_a_failed_attempt_is_ended_before_its_failure_is_looked_into() {
    let mut attempts = nodes(1);
    begin(&mut attempts, 7, false);
    attempts.end_action(TaskId(7), None, at(1));
    attempts.clear(TaskId(7));
    assert_eq!(*attempts.get(TaskId(7)).unwrap().state(), State::Clearing);
    attempts.attribute(TaskId(7));
    assert_eq!(*attempts.get(TaskId(7)).unwrap().state(), State::Attributing);
}

#[test]
fn beside_a_gang_actions_have_their_cores_at_once_on_all_nodes() {
    let mut attempts = looking_ahead();
    assert!(!begin(&mut attempts, 100, false), "it is begun early");
    attempts.hold_lookahead(true);
    assert!(begin(&mut attempts, 101, false));
    attempts.hold_lookahead(false);
    assert_eq!(attempts.take_lookahead(), [(NODE, 16)]);
}

#[test]
fn beside_a_gang_nothing_is_begun_early_on_a_node_that_comes() {
    let mut attempts = nodes(2);
    attempts.hold_lookahead(true);
    attempts.set_cores(OTHER, 2);
    run_some(&mut attempts, OTHER, 0);
    assert_eq!(attempts.take_lookahead(), []);
    attempts.hold_lookahead(false);
    assert_eq!(attempts.take_lookahead(), [(OTHER, 16)]);
}

#[test]
fn once_a_task_needs_more_than_a_core_nothing_is_begun_early_on_any_node() {
    let mut attempts = looking_ahead();
    attempts.disable_lookahead();
    assert_eq!(attempts.take_lookahead(), [(NODE, 0)]);
    assert!(begin(&mut attempts, 100, false), "it has its core at once");
    attempts.set_cores(OTHER, 2);
    run_some(&mut attempts, OTHER, 0);
    assert_eq!(attempts.take_lookahead(), []);
}

#[test]
fn a_node_is_well_supplied_when_enough_commands_wait_for_its_cores() {
    let mut attempts = looking_ahead();
    for id in 100..108 {
        assert!(!attempts.is_well_supplied(NODE));
        begin(&mut attempts, id, false);
        want(&mut attempts, id, id);
    }
    assert!(attempts.is_well_supplied(NODE) && !attempts.is_well_supplied(OTHER));
}

#[test]
fn a_node_whose_cores_are_set_anew_is_as_far_as_it_was() {
    for (trip_ns, ahead) in [(0, None), (20_000_000, Some((NODE, 16)))] {
        let mut attempts = nodes(2);
        attempts.set_trip(NODE, trip_ns);
        attempts.set_cores(NODE, 2);
        run_some(&mut attempts, NODE, 15_000_000);
        assert_eq!(attempts.take_lookahead().first().copied(), ahead, "{trip_ns} ns away");
    }
}

/// As [`looking_ahead`], on a node that is far.
fn far() -> Commands {
    let mut attempts = looking_ahead();
    attempts.set_trip(NODE, 20_000_000);
    for id in 100..104 {
        begin(&mut attempts, id, false);
        want(&mut attempts, id, id);
    }
    assert_eq!(does(|out| attempts.grant(at(1), out)), [start_there(100), start_there(101)]);
    attempts
}

/// A command whose end frees its core for one that is prepared.
fn start_there(id: u32) -> AttemptEffect<u32> {
    AttemptEffect::Start { id: TaskId(id), command: id, frees_core: true }
}

fn prepare(id: u32) -> AttemptEffect<u32> {
    AttemptEffect::Prepare { id: TaskId(id), command: id, freed: 0 }
}

#[test]
fn commands_go_to_a_far_node_before_they_may_run_when_their_inputs_are_there() {
    let mut attempts = far();
    attempts.inputs_changed(TaskId(102));
    assert_eq!(
        does(|out| attempts.prepare(|_, _| true, out)),
        [],
        "the first in line waits for its inputs"
    );
    let mut attempts = far();
    assert_eq!(does(|out| attempts.prepare(|_, _| true, out)), [prepare(102), prepare(103)]);
    assert!(attempts.get(TaskId(102)).unwrap().is_prepared());
}

#[test]
fn a_command_that_may_not_go_ahead_yet_goes_when_it_may() {
    let mut attempts = far();
    assert_eq!(does(|out| attempts.prepare(|_, _| false, out)), []);
    let both = [prepare(102), prepare(103)];
    assert_eq!(does(|out| attempts.prepare(|_, _| true, out)), both);
}

#[test]
fn no_command_goes_ahead_of_code_that_waits_for_its_core() {
    let mut attempts = far();
    attempts.want_lease(TaskId(102), &mut Vec::new());
    assert_eq!(does(|out| attempts.prepare(|_, _| true, out)), []);
}

#[test]
fn what_runs_code_alone_has_no_command_anywhere() {
    let mut attempts = far();
    attempts.prepare(|id, _| id == TaskId(102), &mut Vec::new());
    begin(&mut attempts, 104, false);
    let in_code = |id| attempts.get(TaskId(id)).unwrap().is_in_code();
    let [runs, prepared, waits, code] = [100, 102, 103, 104].map(in_code);
    assert!(!runs && !prepared && !waits && code);
}

#[test]
fn a_command_beside_one_that_frees_its_core_waits_until_the_node_keeps_that() {
    let mut attempts = far();
    assert_eq!(want(&mut attempts, 100, 5), [AttemptEffect::KeepCore { id: TaskId(100) }]);
    assert_eq!(want(&mut attempts, 100, 6), [], "the node has been asked");
    assert_eq!(
        does(|out| attempts.core_kept(TaskId(100), 2, at(2), out)),
        [],
        "of another attempt"
    );
    let both = [start(100, 5), start(100, 6)];
    assert_eq!(does(|out| attempts.core_kept(TaskId(100), 1, at(2), out)), both);
}

#[test]
fn of_commands_that_have_waited_together_the_first_starts_and_its_node_is_to_keep_the_core() {
    let mut attempts = looking_ahead();
    attempts.set_trip(NODE, 20_000_000);
    begin(&mut attempts, 100, false);
    want(&mut attempts, 100, 100);
    want(&mut attempts, 100, 5);
    let keep = AttemptEffect::KeepCore { id: TaskId(100) };
    assert_eq!(does(|out| attempts.grant(at(1), out)), [start_there(100), keep]);
    assert_eq!(does(|out| attempts.core_kept(TaskId(100), 1, at(2), out)), [start(100, 5)]);
}

#[test]
fn a_prepared_command_that_begins_has_the_core_and_frees_it_at_its_end() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(102), 1, at(2), out)), []);
    let begun = attempts.acting(TaskId(102)).unwrap();
    assert!(begun.holds_lease() && begun.had_lease() && begun.ran_command());
    assert_eq!(want(&mut attempts, 102, 5), [AttemptEffect::KeepCore { id: TaskId(102) }]);
    // Of an earlier attempt: this one's is at its node still.
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(103), 2, at(2), out)), []);
    assert!(attempts.acting(TaskId(103)).unwrap().is_prepared());
    assert!(!attempts.has_cores(TaskId(103)));
}

#[test]
fn a_prepared_command_whose_code_waits_too_lets_it_go_on_when_it_begins() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    assert_eq!(does(|out| attempts.want_lease(TaskId(102), out)), []);
    let leased = AttemptEffect::Leased { id: TaskId(102) };
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(102), 1, at(2), out)), [leased]);
}

#[test]
fn an_aborted_action_asks_once_for_its_prepared_command_and_ends_when_it_has_that() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    let mut abort = |id| {
        does(|out| {
            attempts.abort(TaskId(id), true, out);
        })
    };
    for id in [102, 103] {
        assert_eq!(abort(id), [AttemptEffect::Withdraw { id: TaskId(id) }]);
        assert_eq!(abort(id), []);
    }
    let mut withdraw = |number| {
        let mut left = None;
        let out = does(|out| {
            left = attempts.command_withdrawn(NODE, TaskId(102), number, 102, out);
        });
        (left, out)
    };
    assert_eq!(withdraw(2), (Some(102), vec![]), "of another attempt");
    let ends = vec![refuse(102, 102, Refusal::Aborted), AttemptEffect::Abort { id: TaskId(102) }];
    assert_eq!(withdraw(1), (None, ends));
    // The node had begun this one before it was asked.
    let signal = AttemptEffect::Signal { id: TaskId(103) };
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(103), 1, at(2), out)), [signal]);
}

#[test]
fn a_core_that_goes_to_a_prepared_command_is_no_longer_that_of_the_action_before() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    assert_eq!(attempts.passed_on(NODE), 0);
    attempts.core_freed(NODE, TaskId(100), 1, at(2));
    let freed = attempts.acting(TaskId(100)).unwrap();
    assert_eq!((freed.holds_lease(), freed.held()), (false, &[(1, 2)][..]));
}

#[test]
fn a_command_beside_one_whose_core_has_gone_to_another_stands_in_line() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    want(&mut attempts, 100, 5);
    attempts.core_freed(NODE, TaskId(100), 1, at(2));
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    for id in [102, 103] {
        attempts.command_begun(NODE, TaskId(id), 1, at(3), &mut Vec::new());
    }
    for id in 101..104 {
        attempts.end_action(TaskId(id), None, at(4));
    }
    let there = AttemptEffect::Start { id: TaskId(100), command: 5, frees_core: true };
    assert_eq!(does(|out| attempts.grant(at(4), out)), [there]);
}

#[test]
fn a_command_without_room_stands_in_no_line_when_the_core_beside_it_has_gone_to_another() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    attempts.await_inputs(TaskId(100));
    want(&mut attempts, 100, 5);
    attempts.inputs_held_up(TaskId(100), 1, at(1));
    attempts.core_freed(NODE, TaskId(100), 1, at(2));
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    attempts.end_action(TaskId(101), None, at(3));
    let release = AttemptEffect::Release { node: NODE };
    assert_eq!(does(|out| attempts.grant(at(3), out)), [release], "the core is the other one's");
    for id in [102, 103] {
        attempts.command_begun(NODE, TaskId(id), 1, at(4), &mut Vec::new());
        attempts.end_action(TaskId(id), None, at(5));
    }
    assert_eq!(does(|out| attempts.grant(at(5), out)), [], "there is room for it nowhere");
    attempts.inputs_ready(TaskId(100), 1, &mut Vec::new());
    let there = AttemptEffect::Start { id: TaskId(100), command: 5, frees_core: true };
    assert_eq!(does(|out| attempts.grant(at(6), out)), [there]);
}

#[test]
fn while_callers_use_more_cores_than_there_are_no_command_frees_its_core() {
    let mut attempts = looking_ahead();
    attempts.set_trip(NODE, 20_000_000);
    for id in 100..103 {
        begin(&mut attempts, id, false);
    }
    attempts.want_lease(TaskId(100), &mut Vec::new());
    assert_eq!(does(|out| attempts.grant(at(1), out)), [leased(100)]);
    attempts.suspend(InvocationId(1), TaskId(100), at(2), &mut Vec::new());
    for id in [101, 102] {
        want(&mut attempts, id, id);
    }
    assert_eq!(does(|out| attempts.grant(at(3), out)), [start_there(101), start_there(102)]);
    attempts.resume(InvocationId(1), at(4));
    assert_eq!(want(&mut attempts, 100, 5), [start(100, 5)], "three use two cores");
    attempts.command_ended(TaskId(100), at(5), &mut Vec::new());
    attempts.end_action(TaskId(101), None, at(5));
    assert_eq!(want(&mut attempts, 100, 100), [start_there(100)]);
}

#[test]
fn a_caller_whose_node_would_give_its_core_away_lends_it_when_the_node_does_not() {
    let keep = AttemptEffect::KeepCore { id: TaskId(100) };
    let call = |attempts: &mut Commands| {
        let called = does(|out| attempts.suspend(InvocationId(1), TaskId(100), at(2), out));
        assert_eq!(called, from_ref(&keep));
        assert!(attempts.has_cores(TaskId(100)));
    };
    let mut kept = far();
    call(&mut kept);
    assert_eq!(does(|out| kept.grant(at(3), out)), [], "the node may give it to another one");
    assert_eq!(does(|out| kept.core_kept(TaskId(100), 1, at(4), out)), []);
    assert!(!kept.has_cores(TaskId(100)));
    assert_eq!(does(|out| kept.grant(at(4), out)), [start_there(102)]);
    assert_eq!(kept.get(TaskId(100)).unwrap().held(), [(1, 4)]);
    let mut ended = far();
    call(&mut ended);
    ended.command_ended(TaskId(100), at(3), &mut Vec::new());
    assert_eq!(does(|out| ended.grant(at(3), out)), [start_there(102)]);
    let mut given = far();
    given.prepare(|_, _| true, &mut Vec::new());
    call(&mut given);
    given.core_freed(NODE, TaskId(100), 1, at(3));
    given.command_ended(TaskId(100), at(3), &mut Vec::new());
    assert_eq!(given.passed_on(NODE), 1);
    assert_eq!(does(|out| given.grant(at(3), out)), [], "it was given away once");
    assert!(given.get(TaskId(100)).unwrap().is_suspended());
}

#[test]
fn a_caller_that_goes_on_before_it_has_lent_its_core_has_it_still() {
    let mut attempts = far();
    attempts.suspend(InvocationId(1), TaskId(100), at(2), &mut Vec::new());
    attempts.suspend(InvocationId(2), TaskId(100), at(2), &mut Vec::new());
    assert!(attempts.has_cores(TaskId(100)));
    attempts.resume(InvocationId(1), at(3));
    attempts.resume(InvocationId(2), at(3));
    assert!(attempts.get(TaskId(100)).unwrap().holds_lease());
    assert_eq!(want(&mut attempts, 100, 5), [], "its node has been asked");
    assert_eq!(does(|out| attempts.core_kept(TaskId(100), 1, at(4), out)), [start(100, 5)]);
    attempts.end_action(TaskId(100), None, at(5));
    assert_eq!(does(|out| attempts.grant(at(5), out)), [start_there(102)], "it had one core");
}

#[test]
fn what_a_caller_has_sent_ahead_has_the_core_on_which_it_begins() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    let called = does(|out| attempts.suspend(InvocationId(1), TaskId(102), at(2), out));
    assert_eq!(called, []);
    assert!(!attempts.get(TaskId(102)).unwrap().is_in_code(), "its command is at its node");
    attempts.core_freed(NODE, TaskId(100), 1, at(3));
    attempts.end_action(TaskId(100), None, at(3));
    let keep = AttemptEffect::KeepCore { id: TaskId(102) };
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(102), 1, at(4), out)), [keep]);
    let caller = attempts.get(TaskId(102)).unwrap();
    assert!(caller.is_suspended() && attempts.has_cores(TaskId(102)));
    assert_eq!(does(|out| attempts.grant(at(4), out)), [], "both cores are used");
    attempts.core_kept(TaskId(102), 1, at(5), &mut Vec::new());
    let release = AttemptEffect::Release { node: NODE };
    assert_eq!(does(|out| attempts.grant(at(5), out)), [release], "it is the other one's");
}

#[test]
fn what_has_begun_for_a_caller_that_has_its_cores_again_uses_one_of_them() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    attempts.suspend(InvocationId(1), TaskId(102), at(2), &mut Vec::new());
    attempts.core_freed(NODE, TaskId(100), 1, at(3));
    attempts.end_action(TaskId(100), None, at(3));
    attempts.resume(InvocationId(1), at(3));
    attempts.command_begun(NODE, TaskId(102), 1, at(4), &mut Vec::new());
    assert_eq!(attempts.passed_on(NODE), 0);
    let keep = AttemptEffect::KeepCore { id: TaskId(102) };
    assert_eq!(want(&mut attempts, 102, 5), [keep], "its node gives the core away at its end");
    attempts.end_action(TaskId(102), None, at(5));
    let release = AttemptEffect::Release { node: NODE };
    assert_eq!(does(|out| attempts.grant(at(5), out)), [release], "one core was its");
}

#[test]
fn a_caller_that_goes_on_takes_no_core_from_what_it_has_sent_ahead() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    attempts.suspend(InvocationId(1), TaskId(102), at(2), &mut Vec::new());
    attempts.resume(InvocationId(1), at(3));
    let caller = attempts.get(TaskId(102)).unwrap();
    assert!(caller.is_prepared() && caller.had_lease() && !attempts.has_cores(TaskId(102)));
    assert_eq!(want(&mut attempts, 102, 5), [], "it has one at its node");
    attempts.end_action(TaskId(101), None, at(4));
    let release = AttemptEffect::Release { node: NODE };
    assert_eq!(does(|out| attempts.grant(at(4), out)), [release], "a core is free");
    let keep = AttemptEffect::KeepCore { id: TaskId(102) };
    assert_eq!(does(|out| attempts.command_begun(NODE, TaskId(102), 1, at(5), out)), [keep]);
    assert!(attempts.get(TaskId(102)).unwrap().holds_lease());
    assert_eq!(does(|out| attempts.core_kept(TaskId(102), 1, at(6), out)), [start(102, 5)]);
}

#[test]
fn a_caller_whose_last_command_has_ended_sends_no_second_one_ahead() {
    let sends_ahead = |attempts: &mut Commands| {
        attempts.prepare(|_, _| true, &mut Vec::new());
        attempts.suspend(InvocationId(1), TaskId(102), at(2), &mut Vec::new());
        assert_eq!(want(attempts, 102, 5), [start(102, 5)]);
    };
    let waits_for_that = |attempts: &mut Commands| {
        assert!(attempts.get(TaskId(102)).unwrap().is_prepared());
        assert!(!attempts.has_cores(TaskId(102)));
        assert_eq!(want(attempts, 102, 7), []);
        assert_eq!(does(|out| attempts.prepare(|_, _| true, out)), []);
    };
    let mut passes_on = far();
    sends_ahead(&mut passes_on);
    passes_on.resume(InvocationId(1), at(3));
    assert!(passes_on.has_cores(TaskId(102)), "a command of it runs");
    passes_on.command_ended(TaskId(102), at(4), &mut Vec::new());
    waits_for_that(&mut passes_on);

    let mut has_no_room = far();
    sends_ahead(&mut has_no_room);
    has_no_room.inputs_changed(TaskId(102));
    let stage = AttemptEffect::StageIn { id: TaskId(102) };
    assert_eq!(want(&mut has_no_room, 102, 6), [stage]);
    has_no_room.inputs_held_up(TaskId(102), 1, at(3));
    has_no_room.resume(InvocationId(1), at(3));
    has_no_room.command_ended(TaskId(102), at(4), &mut Vec::new());
    has_no_room.inputs_ready(TaskId(102), 1, &mut Vec::new());
    waits_for_that(&mut has_no_room);

    let mut frees = far();
    frees.end_action(TaskId(103), None, at(1));
    sends_ahead(&mut frees);
    frees.core_freed(NODE, TaskId(100), 1, at(3));
    frees.end_action(TaskId(100), None, at(3));
    frees.resume(InvocationId(1), at(3));
    frees.command_ended(TaskId(102), at(4), &mut Vec::new());
    frees.end_action(TaskId(101), None, at(4));
    assert!(frees.has_cores(TaskId(102)), "what is at its node has a core there");
    let there = AttemptEffect::Start { id: TaskId(102), command: 6, frees_core: true };
    assert_eq!(want(&mut frees, 102, 6), [there]);
    begin(&mut frees, 104, false);
    want(&mut frees, 104, 104);
    let ahead = AttemptEffect::Prepare { id: TaskId(104), command: 104, freed: 1 };
    assert_eq!(does(|out| frees.prepare(|_, _| true, out)), [ahead]);
    frees.core_freed(NODE, TaskId(102), 1, at(5));
    frees.command_ended(TaskId(102), at(5), &mut Vec::new());
    waits_for_that(&mut frees);
}

#[test]
fn an_aborted_caller_asks_for_what_it_has_sent_ahead_and_ends_when_it_has_that() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    attempts.suspend(InvocationId(1), TaskId(102), at(2), &mut Vec::new());
    assert_eq!(want(&mut attempts, 102, 5), [start(102, 5)], "it needs no core");
    let aborted = does(|out| assert!(attempts.abort(TaskId(102), true, out).is_some()));
    let id = TaskId(102);
    assert_eq!(aborted, [AttemptEffect::Withdraw { id }, AttemptEffect::Signal { id }]);
    assert_eq!(does(|out| attempts.command_ended(id, at(3), out)), [], "one is at its node");
    let ends = [refuse(102, 102, Refusal::Aborted), AttemptEffect::Abort { id }];
    assert_eq!(
        does(|out| assert_eq!(attempts.command_withdrawn(NODE, id, 1, 102, out), None)),
        ends
    );
}

#[test]
fn a_node_begins_what_it_holds_back_when_a_core_is_free_that_the_hub_did_not_know() {
    let mut there = Prepared::<u32, ()>::default();
    assert_eq!(there.core_freed(), None);
    assert_eq!(there.prepare(1, (), 1), None, "the hub had heard of that core");
    assert_eq!(there.core_freed(), Some((1, ())));
    assert_eq!(there.core_freed(), None);
    assert_eq!(there.prepare(2, (), 2), Some((2, ())), "of the third it had not");
    for id in 3..6 {
        assert_eq!(there.prepare(id, (), 3), None);
    }
    assert_eq!([there.withdraw(&3), there.withdraw(&3)], [Some(()), None]);
    assert_eq!(there.release(), Some((4, ())));
    assert_eq!(there.withdraw_all(), [(5, ())]);
    assert_eq!(there.release(), None);
}

#[test]
fn a_command_that_a_node_gives_back_stands_first_in_line_again() {
    let mut attempts = far();
    attempts.prepare(|_, _| true, &mut Vec::new());
    let out =
        does(|out| assert_eq!(attempts.command_withdrawn(NODE, TaskId(102), 1, 102, out), None));
    assert_eq!(out, []);
    attempts.core_freed(NODE, TaskId(100), 1, at(2));
    attempts.command_ended(TaskId(100), at(2), &mut Vec::new());
    assert_eq!(attempts.passed_on(NODE), 1, "the node gives its core to the other one");
    assert_eq!(does(|out| attempts.grant(at(2), out)), []);
    attempts.core_freed(NODE, TaskId(101), 1, at(3));
    attempts.command_ended(TaskId(101), at(3), &mut Vec::new());
    assert_eq!(does(|out| attempts.grant(at(3), out)), [start_there(102)]);
}

/// Whatever comes in any order: no more cores are leased than there are but for callers that go on,
/// no command is lost or started twice, and nothing is left at the end.
#[test]
fn random_lives_lose_no_command_and_no_core() {
    for seed in 0..400_u64 {
        random_life(seed);
    }
}

fn random_life(seed: u64) {
    let mut random = crate::random::Random::new(seed);
    let mut below = |bound: u128| u32::try_from(random.below(bound)).unwrap();
    let looks_ahead = below(2) == 0;
    let mut attempts = if looks_ahead { looking_ahead() } else { nodes(2) };
    let (mut asked, mut invocations, mut seen) = (0_u32, 0_u32, Vec::new());
    // They have their cores whatever runs.
    let mut resumed = BTreeSet::new();
    for step in 1..160_u64 {
        let (id, now) = (TaskId(below(6)), at(step));
        let mut out = Effects::new();
        match below(16) {
            0 | 1 if attempts.get(id).is_none() => {
                let node = NodeId(below(2));
                let busy = attempts.all_acting().filter(|(_, one)| one.node() == node).count();
                // The scheduler starts no more.
                if busy < 2 || looks_ahead && node == NODE {
                    attempts.begin(id, &next(1, node), 1, now, below(2) == 0, ());
                    resumed.remove(&id);
                }
            }
            2..=4 if attempts.acting(id).is_some() => {
                asked += 1;
                assert_eq!(attempts.want_command(id, asked, &mut out), None);
            }
            5 => attempts.inputs_ready(id, 1, &mut out),
            12 => attempts.inputs_held_up(id, 1, now),
            13 => attempts.want_lease(id, &mut out),
            14 => {
                invocations += 1;
                attempts.suspend(InvocationId(invocations), id, now, &mut out);
            }
            15 => {
                let is_suspended =
                    |(id, one): (TaskId, &Attempt<_, _>)| one.is_suspended().then_some(id);
                let before: Vec<TaskId> = attempts.all().filter_map(is_suspended).collect();
                let late = below(8);
                attempts.resume(InvocationId((invocations + 1).saturating_sub(late)), now);
                let goes_on = |id: &TaskId| attempts.get(*id).is_some_and(Attempt::holds_lease);
                resumed.extend(before.into_iter().filter(goes_on));
            }
            6 => attempts.inputs_changed(id),
            7 => attempts.grant(now, &mut out),
            8 => attempts.command_ended(id, now, &mut out),
            9 => {
                attempts.abort(id, true, &mut out);
            }
            10 if attempts.acting(id).is_some_and(Attempt::is_in_code) => {
                attempts.end_action(id, None, now);
                attempts.take(id);
            }
            11 if below(6) == 0 => attempts.lose_node(NodeId(below(2)), now, &mut out),
            _ if attempts.is_unwinding(id) => drop(attempts.take(id)),
            _ => {}
        }
        for effect in out {
            match effect {
                AttemptEffect::Start { command, .. } | AttemptEffect::Refuse { command, .. } => {
                    seen.push(command);
                }
                _ => {}
            }
        }
        for node in [NODE, OTHER] {
            let leased = attempts.all().filter(|(_, one)| one.node() == node && one.holds_lease());
            let leased = leased.filter(|(id, _)| !resumed.contains(id));
            assert!(leased.count() <= 2, "seed {seed}, step {step}");
        }
        let waits = |one: &Attempt<_, _>| one.waits_for_room() && one.commands == 0;
        for (id, one) in attempts.all().filter(|(_, one)| waits(one) && !one.is_aborted()) {
            assert!(!one.holds_lease(), "{id:?} keeps its core, seed {seed}, step {step}");
        }
    }
    let left = attempts.take_all(at(1000));
    seen.extend(left.values().flat_map(Attempt::gated));
    seen.sort_unstable();
    assert_eq!(seen, (1..=asked).collect::<Vec<_>>(), "seed {seed}");
    let held: u64 = left.values().map(|attempt| total_ns(attempt.held())).sum();
    assert!(held <= 4 * 1000, "seed {seed}");
}

/// A hub and a node far away, with messages under way in both directions.
struct Far {
    attempts: Commands,
    random: crate::random::Random,
    now: u64,
    cores: u32,
    to_node: VecDeque<(u64, ToNode)>,
    to_hub: VecDeque<(u64, ToHub)>,
    node: Prepared<u32, ()>,
    /// Commands that run there: the task of each, and whether it frees its core.
    running: BTreeMap<u32, (u32, bool)>,
    owners: BTreeMap<u32, u32>,
    /// What each task still does: commands one after the other, and how many run beside each.
    left: BTreeMap<u32, Vec<u32>>,
    /// Commands of a task that have not ended, as the front sees them.
    open: BTreeMap<u32, u32>,
    asked: u32,
    begun: BTreeSet<u32>,
    /// Invocations that actions wait for, and how many there were.
    calls: VecDeque<(InvocationId, u32)>,
    invocations: u32,
    calls_some: bool,
    /// Some actions are aborted.
    aborts_some: bool,
    /// They have their cores again whatever runs.
    resumed: BTreeSet<u32>,
    seen: [u32; 4],
}

#[derive(Clone, Copy, Debug)]
enum ToNode {
    Start(u32, bool),
    Prepare(u32, u64),
    Release,
    Withdraw(u32),
    Keep(u32),
    Signal(u32),
}

#[derive(Clone, Copy, Debug)]
enum ToHub {
    Begun(u32),
    Withdrawn(u32),
    Kept(u32),
    Exited(u32, bool),
}

impl Far {
    fn new(seed: u64) -> Self {
        let mut random = crate::random::Random::new(seed);
        let cores = 1 + u32::try_from(random.below(3)).unwrap();
        let mut attempts = nodes(cores);
        for id in 1000..1020 {
            begin(&mut attempts, id, false);
            attempts.end_action(TaskId(id), None, at(0));
            attempts.take(TaskId(id)).unwrap();
        }
        attempts.set_trip(NODE, 20_000_000);
        assert!(attempts.take_lookahead().iter().any(|(node, _)| *node == NODE));
        Self {
            attempts,
            random,
            now: 1,
            cores,
            to_node: VecDeque::new(),
            to_hub: VecDeque::new(),
            node: Prepared::default(),
            running: BTreeMap::new(),
            owners: BTreeMap::new(),
            left: BTreeMap::new(),
            open: BTreeMap::new(),
            asked: 0,
            begun: BTreeSet::new(),
            calls: VecDeque::new(),
            invocations: 0,
            calls_some: false,
            aborts_some: false,
            resumed: BTreeSet::new(),
            seen: [0; 4],
        }
    }

    fn below(&mut self, bound: u128) -> u32 {
        u32::try_from(self.random.below(bound)).unwrap()
    }

    fn say_to_node(&mut self, message: ToNode) {
        let at = self.now + u64::from(self.below(20));
        let at = at.max(self.to_node.back().map_or(0, |(at, _)| *at));
        self.to_node.push_back((at, message));
    }

    fn say_to_hub(&mut self, message: ToHub) {
        let at = self.now + u64::from(self.below(20));
        let at = at.max(self.to_hub.back().map_or(0, |(at, _)| *at));
        self.to_hub.push_back((at, message));
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Commands, &mut Effects)) {
        let mut out = Effects::new();
        tell(&mut self.attempts, &mut out);
        for effect in out {
            match effect {
                AttemptEffect::Start { command, frees_core, .. } => {
                    self.say_to_node(ToNode::Start(command, frees_core));
                }
                AttemptEffect::Prepare { command, freed, .. } => {
                    self.seen[0] += 1;
                    self.say_to_node(ToNode::Prepare(command, freed));
                }
                AttemptEffect::Release { .. } => self.say_to_node(ToNode::Release),
                AttemptEffect::Withdraw { id } => {
                    self.seen[1] += 1;
                    self.tell_node_of(id.0, ToNode::Withdraw);
                }
                AttemptEffect::KeepCore { id } => {
                    self.seen[2] += 1;
                    self.tell_node_of(id.0, ToNode::Keep);
                }
                AttemptEffect::Signal { id } => {
                    self.tell_node_of(id.0, ToNode::Signal);
                }
                AttemptEffect::Refuse { id, command, .. } => {
                    self.owners.remove(&command);
                    self.command_over(id.0);
                }
                AttemptEffect::Abort { id } => self.end(id.0),
                AttemptEffect::Leased { .. }
                | AttemptEffect::StageIn { .. }
                | AttemptEffect::ReleaseInputs { .. }
                | AttemptEffect::Unwind { .. } => {}
            }
        }
    }

    fn tell_node_of(&mut self, task: u32, message: impl Fn(u32) -> ToNode) {
        let own = self.owners.iter().filter(|(_, owner)| **owner == task);
        let own: Vec<u32> = own.map(|(command, _)| *command).collect();
        for command in own {
            self.say_to_node(message(command));
        }
    }

    fn end(&mut self, task: u32) {
        self.left.remove(&task);
        self.open.remove(&task);
        self.attempts.end_action(TaskId(task), None, at(self.now));
        self.attempts.take(TaskId(task)).unwrap();
    }

    /// The front goes on with an action.
    fn command_over(&mut self, task: u32) {
        let Some(open) = self.open.get_mut(&task) else { return };
        *open -= 1;
    }

    fn step_front(&mut self, task: u32) {
        if self.open.get(&task) != Some(&0) {
            return;
        }
        let Some(beside) = self.left.get_mut(&task).and_then(Vec::pop) else {
            return self.end(task);
        };
        for _ in 0..=beside {
            self.asked += 1;
            let command = self.asked;
            self.owners.insert(command, task);
            *self.open.get_mut(&task).unwrap() += 1;
            self.tell(|attempts, out| {
                assert_eq!(attempts.want_command(TaskId(task), command, out), None);
            });
        }
    }

    fn begin_there(&mut self, command: u32, frees_core: bool) {
        assert!(self.begun.insert(command), "command {command} begins twice");
        self.running.insert(command, (self.owners[&command], frees_core));
        let needs_one = |(task, frees_core): &&(u32, bool)| {
            let lends = self.attempts.get(TaskId(*task)).is_some_and(Attempt::is_suspended);
            !self.resumed.contains(task) && (!lends || *frees_core)
        };
        let tasks = self.running.values().filter(needs_one).map(|(task, _)| *task);
        let tasks: BTreeSet<u32> = tasks.collect();
        assert!(tasks.len() <= self.cores as usize, "{} cores run {tasks:?}", self.cores);
    }

    fn begin_prepared(&mut self, next: Option<(u32, ())>) {
        let Some((command, ())) = next else { return };
        self.begin_there(command, true);
        self.say_to_hub(ToHub::Begun(command));
    }

    fn exit(&mut self, command: u32, well: bool) {
        let (_, frees_core) = self.running.remove(&command).unwrap();
        let freed = frees_core && well;
        self.say_to_hub(ToHub::Exited(command, freed));
        if freed {
            let next = self.node.core_freed();
            self.begin_prepared(next);
        }
    }

    fn on_node(&mut self, message: ToNode) {
        match message {
            ToNode::Start(command, frees_core) => self.begin_there(command, frees_core),
            ToNode::Prepare(command, freed) => {
                let next = self.node.prepare(command, (), freed);
                self.begin_prepared(next);
            }
            ToNode::Release => {
                let next = self.node.release();
                self.begin_prepared(next);
            }
            ToNode::Withdraw(command) => {
                if self.node.withdraw(&command).is_some() {
                    self.say_to_hub(ToHub::Withdrawn(command));
                }
            }
            ToNode::Keep(command) => {
                let running = self.running.get_mut(&command);
                if let Some((_, frees_core)) = running.filter(|(_, frees_core)| *frees_core) {
                    *frees_core = false;
                    self.say_to_hub(ToHub::Kept(command));
                }
            }
            ToNode::Signal(command) => {
                if self.running.contains_key(&command) {
                    self.exit(command, false);
                }
            }
        }
    }

    fn on_hub(&mut self, message: ToHub) {
        let now = at(self.now);
        match message {
            ToHub::Begun(command) => {
                let id = TaskId(self.owners[&command]);
                self.tell(|attempts, out| attempts.command_begun(NODE, id, 1, now, out));
            }
            ToHub::Withdrawn(command) => {
                let id = TaskId(self.owners[&command]);
                self.tell(|attempts, out| {
                    let left = attempts.command_withdrawn(NODE, id, 1, command, out);
                    assert_eq!(left, None);
                });
            }
            ToHub::Kept(command) => {
                let id = TaskId(self.owners[&command]);
                self.tell(|attempts, out| attempts.core_kept(id, 1, now, out));
            }
            ToHub::Exited(command, freed) => {
                let id = TaskId(self.owners.remove(&command).unwrap());
                if freed {
                    self.attempts.core_freed(NODE, id, 1, now);
                }
                self.command_over(id.0);
                self.tell(|attempts, out| attempts.command_ended(id, now, out));
            }
        }
    }

    /// An action waits for an invocation, or one is over.
    fn call(&mut self, task: u32) {
        let now = at(self.now);
        if self.attempts.acting(TaskId(task)).is_some_and(|one| !one.is_aborted()) {
            self.seen[3] += 1;
            self.invocations += 1;
            let invocation = InvocationId(self.invocations);
            self.calls.push_back((invocation, task));
            self.tell(|attempts, out| attempts.suspend(invocation, TaskId(task), now, out));
        }
    }

    fn end_call(&mut self) {
        let Some((invocation, task)) = self.calls.pop_front() else { return };
        self.attempts.resume(invocation, at(self.now));
        if self.attempts.get(TaskId(task)).is_some_and(Attempt::holds_lease) {
            self.resumed.insert(task);
        }
    }

    fn run(&mut self) {
        let tasks = 30;
        let mut next_task = 0;
        while next_task < tasks || !self.left.is_empty() {
            self.now += 1;
            assert!(self.now < 100_000, "it stands still: {:?}", self.attempts);
            if self.to_node.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, message) = self.to_node.pop_front().unwrap();
                self.on_node(message);
            }
            if self.to_hub.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, message) = self.to_hub.pop_front().unwrap();
                self.on_hub(message);
            }
            if next_task < tasks && self.left.len() < 3 * self.cores as usize {
                let commands = (0..=self.below(2)).map(|_| self.below(3) / 2).collect();
                let (id, now) = (TaskId(next_task), at(self.now));
                self.attempts.begin(id, &next(1, NODE), 1, now, false, ());
                self.left.insert(next_task, commands);
                self.open.insert(next_task, 0);
                next_task += 1;
            }
            let acting: Vec<u32> = self.left.keys().copied().collect();
            for task in acting {
                if self.below(4) == 0 && self.left.contains_key(&task) {
                    self.step_front(task);
                }
            }
            if self.aborts_some && self.below(50) == 0 {
                let id = TaskId(self.below(u128::from(tasks)));
                if self.attempts.acting(id).is_some() {
                    self.tell(|attempts, out| {
                        attempts.abort(id, true, out);
                    });
                }
            }
            if self.calls_some && self.below(30) == 0 {
                let task = self.below(u128::from(tasks));
                self.call(task);
            }
            if self.below(20) == 0 {
                self.end_call();
            }
            if !self.running.is_empty() && self.below(10) == 0 {
                let index = self.below(self.running.len() as u128) as usize;
                let command = *self.running.keys().nth(index).unwrap();
                let well = self.below(8) > 0;
                self.exit(command, well);
            }
            let now = at(self.now);
            self.tell(|attempts, out| attempts.grant(now, out));
            self.tell(|attempts, out| attempts.prepare(|_, _| true, out));
        }
        assert!(self.running.is_empty() && self.owners.is_empty(), "{:?}", self.owners);
    }
}

/// However messages overtake what happens: no more runs on the node than it has cores, no command begins twice, and
/// none waits for ever, also where no action is told to end.
#[test]
fn prepared_commands_use_each_core_once() {
    let mut seen = [0; 4];
    for seed in 0..4_000 {
        let mut far = Far::new(seed);
        far.calls_some = seed % 2 == 1;
        far.aborts_some = seed % 4 < 2;
        far.run();
        seen.iter_mut().zip(far.seen).for_each(|(all, one)| *all += one);
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}
