//! Tasks that begin together: all or none, in all that may become of them.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, placed, started};
use expect_test::expect;
use rakuda_core::streams::{Said, StreamEnds, Volume};
use rakuda_core::{
    ActionOutcome, Capacity, Choice, Config, Event, FailurePolicy, GangId, GangPhase, NodeId,
    Output, Policy, Reason, Requirement, RequirementId, ResourceId, Settled, Suits, TaskId,
    TaskKind, TaskState, Timestamp,
};
use std::collections::BTreeMap;

fn fifo() -> Config {
    Config { policy: Policy::Fifo, ..Config::default() }
}

fn script(nodes: &[u32]) -> Script {
    let mut script = Script::new(fifo());
    for (node, cores) in (0..).zip(nodes) {
        script.node(node, *cores);
    }
    script.text();
    script
}

#[test]
fn all_begin_when_all_fit_and_are_settled_when_all_have_ended() {
    let mut script = script(&[2]);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let after = script.plain(&[first]);
    script.gang(&[first, second], false);
    script.invoke(&[after]);
    script.ok(first);
    script.ok(second);
    script.ok(after);
    expect![[r#"
        invocation 0 of [2]
            gang 0 begins
            start 0 on node 0
            start 1 on node 0
        action 0 succeeded
        action 1 succeeded
            0 executed
            1 executed
            start 2 on node 0
        action 2 succeeded
            2 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_gang_is_due_from_when_it_could_begin_until_it_has_ended() {
    let mut script = script(&[4]);
    let two = script.requirement(Requirement { cores: 2, ..Requirement::default() });
    let (busy, before) = (script.plain(&[]), script.plain(&[]));
    let first = script.define(TaskKind::Plain, false, two, &[]);
    let second = script.define(TaskKind::Plain, false, two, &[before]);
    script.gang(&[first, second], false);
    assert_eq!(script.scheduler.gangs_len(), 1);
    script.invoke(&[busy, second]);
    assert!(!script.scheduler.is_gang_due(), "one of its tasks is not ready");
    script.ok(before);
    assert!(script.scheduler.is_gang_due(), "it waits for room");
    script.ok(busy);
    assert!(script.scheduler.is_gang_due(), "it runs");
    let cores = |task, node| script.scheduler.cores_held(TaskId(task), NodeId(node));
    assert_eq!((cores(first, 0), cores(busy, 0), cores(first, 1)), (Some(2), None, None));
    script.ok(first);
    script.ok(second);
    assert!(!script.scheduler.is_gang_due(), "it has ended");
}

#[test]
fn a_gang_waits_until_each_of_its_tasks_is_decided() {
    let mut script = script(&[4]);
    let before = script.plain(&[]);
    let (first, second) = (script.plain(&[]), script.plain(&[before]));
    script.gang(&[first, second], false);
    assert_eq!(started(&script.invoke(&[second])), [before]);
    assert_eq!(script.scheduler.gang_of(TaskId(first)).unwrap().phase, GangPhase::Mustering);
    assert_eq!(started(&script.ok(before)), [first, second]);
}

#[test]
fn one_that_is_up_to_date_runs_when_another_is_needed_and_none_does_if_none_is() {
    let mut script = script(&[2]);
    let (old, new) = (script.file(Some(1), &[]), script.file(None, &[]));
    script.gang(&[old, new], false);
    assert_eq!(started(&script.invoke(&[old])), [old, new]);
    let (one, other) = (script.file(Some(1), &[]), script.file(Some(2), &[]));
    script.gang(&[one, other], false);
    script.text();
    script.invoke(&[one]);
    expect![[r#"
        invocation 1 of [2]
            2 not needed
            3 not needed
            invocation 1 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn slots_are_kept_for_the_oldest_gang_while_small_tasks_go_on_elsewhere() {
    let mut script = script(&[2, 2]);
    let small: Vec<u32> = (0..12).map(|_| script.plain(&[])).collect();
    script.invoke(&small);
    let gang: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    script.gang(&gang, false);
    script.invoke(&gang);
    let mut begun = Vec::new();
    for (ended, task) in (1..).zip(&small) {
        begun = started(&script.ok(*task));
        if begun.contains(&gang[0]) {
            assert_eq!(ended, 3, "each slot that became free was kept");
            break;
        }
        let view = script.scheduler.gang_of(TaskId(gang[0])).unwrap();
        assert_eq!((begun.len(), view.slots_kept), (0, ended));
    }
    assert_eq!(begun, gang);
}

#[test]
fn a_gang_that_needs_a_whole_node_gets_one_although_small_tasks_never_end_all_at_once() {
    let mut script = script(&[2, 2]);
    let whole = script.requirement(Requirement { exclusive: true, ..Requirement::default() });
    let small: Vec<u32> = (0..40).map(|_| script.plain(&[])).collect();
    let mut running = started(&script.invoke(&small));
    let large = script.define(TaskKind::Plain, false, whole, &[]);
    let one = script.plain(&[]);
    script.gang(&[one, large], false);
    script.invoke(&[one]);
    let mut ended = 0;
    while script.scheduler.gang_of(TaskId(one)).unwrap().phase != GangPhase::Begun {
        let oldest = running.remove(0);
        running.extend(started(&script.ok(oldest)));
        ended += 1;
        assert!(ended < 8, "it is starved");
    }
}

#[test]
fn what_ends_before_the_gang_can_begin_runs_on_slots_that_are_kept() {
    let mut script = script(&[1, 1]);
    let class = |script: &mut Script, run_ns| {
        let requirement = script.requirement(Requirement::default());
        script.send("", Event::DurationExpected { requirement, run_ns });
        requirement
    };
    let (long, short) = (class(&mut script, 1000), class(&mut script, 100));
    let define = |script: &mut Script, of| script.define(TaskKind::Plain, false, of, &[]);
    let (busy, first) = (define(&mut script, long), define(&mut script, short));
    assert_eq!(started(&script.invoke(&[busy, first])), [busy, first]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    assert!(started(&script.ok(first)).is_empty(), "one slot is kept");
    let (small, large, unknown) =
        (define(&mut script, short), define(&mut script, long), script.plain(&[]));
    assert_eq!(placed(&script.invoke(&[small, large, unknown])), [(small, 1)]);
    let kept = |script: &Script| script.scheduler.gang_of(TaskId(gang[0])).unwrap().slots_kept;
    assert_eq!(kept(&script), 0, "the only slot is lent");
    assert!(started(&script.ok(small)).is_empty(), "it is kept again");
    assert_eq!(kept(&script), 1);
    assert_eq!(started(&script.ok(busy)), gang);
}

#[test]
fn gang_begins_where_cores_are_free_when_others_run_on_the_first_node() {
    let mut script = script(&[2, 2]);
    let first = script.requirement(Requirement {
        allowed_nodes: Some([NodeId(0)].into()),
        ..Requirement::default()
    });
    let busy = [(); 2].map(|()| script.define(TaskKind::Plain, false, first, &[]));
    assert_eq!(placed(&script.invoke(&busy)), busy.map(|task| (task, 0)));
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    assert_eq!(placed(&script.invoke(&gang)), gang.map(|task| (task, 1)));
}

#[test]
fn members_of_a_gang_go_where_each_has_the_cores_that_it_needs() {
    let mut script = script(&[1, 2]);
    let two = script.requirement(Requirement { cores: 2, ..Requirement::default() });
    let wide = script.define(TaskKind::Plain, false, two, &[]);
    let one = script.plain(&[]);
    script.gang(&[one, wide], false);
    assert_eq!(placed(&script.invoke(&[one])), [(one, 0), (wide, 1)]);
}

#[test]
fn a_younger_gang_begins_beside_what_is_kept() {
    let mut script = script(&[1, 1, 1, 1]);
    let busy = [script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let large: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    let small: Vec<u32> = (0..2).map(|_| script.plain(&[])).collect();
    script.gang(&large, false);
    script.gang(&small, false);
    script.invoke(&large);
    assert!(started(&script.invoke(&small)).is_empty(), "both slots are kept");
    script.ok(busy[0]);
    assert_eq!(started(&script.ok(busy[1])), large);
}

#[test]
fn a_failure_ends_the_others_and_all_run_again() {
    let mut script = Script::new(Config { retry: 1, ..fifo() });
    script.node(0, 3);
    let gang: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    script.gang(&gang, false);
    script.text();
    script.invoke(&gang);
    script.ok(gang[0]);
    script.fail(gang[1]);
    script.end(gang[2], ActionOutcome::Failed);
    for task in &gang {
        script.ok(*task);
    }
    expect![[r#"
        invocation 0 of [0, 1, 2]
            gang 0 begins
            start 0 on node 0
            start 1 on node 0
            start 2 on node 0
        action 0 succeeded
        action 1 failed
            attempt 1 of 1 failed, retried
            abort 2
        action 2 failed
            attempt 1 of 2 failed, retried
            gang 0 begins
            start 0 on node 0, attempt 2
            start 1 on node 0, attempt 2
            start 2 on node 0, attempt 2
        action 0 succeeded
        action 1 succeeded
        action 2 succeeded
            0 executed
            1 executed
            2 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_is_tried_again_waits_for_a_task_without_action_whose_gang_runs_again() {
    let mut script = Script::new(Config { retry: 1, ..fifo() });
    script.node(0, 2);
    let bare = script.asked_bare();
    let member = script.plain(&[]);
    let after = script.plain(&[bare]);
    script.gang(&[bare, member], false);
    script.invoke(&[member, after]);
    script.answer(bare, false, Timestamp::At(1.into()));
    script.text();
    script.fail(member);
    script.fail(after);
    script.answer(bare, false, Timestamp::At(1.into()));
    expect![[r#"
        action 1 failed
            attempt 1 of 1 failed, retried
            0 open again
            ask 0
        action 2 failed
            attempt 1 of 2 failed, retried
        task 0 is not needed, At(1)
            gang 0 begins
            0 executed
            start 1 on node 0, attempt 2
            start 2 on node 0, attempt 2
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn the_last_failure_fails_one_and_abandons_the_others_and_what_needs_them() {
    let mut script = Script::new(Config { failure: FailurePolicy::Continue, ..fifo() });
    script.node(0, 3);
    let gang: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    let after = script.plain(&[gang[0]]);
    script.gang(&gang, false);
    script.text();
    script.invoke(&[after]);
    script.ok(gang[0]);
    script.fail(gang[1]);
    script.end(gang[2], ActionOutcome::Failed);
    expect![[r#"
        invocation 0 of [3]
            gang 0 begins
            start 0 on node 0
            start 1 on node 0
            start 2 on node 0
        action 0 succeeded
        action 1 failed
            attempt 1 of 1 failed, given up
            1 failed
            abort 2
            0 abandoned
            3 abandoned
        action 2 failed
            attempt 1 of 2 failed, given up
            2 abandoned
            invocation 0 ended, failed [1], abandoned [0, 3, 2]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_was_printed_and_is_no_good_fails_a_task_whose_action_had_ended_well() {
    let mut script = Script::new(Config { retry: 1, failure: FailurePolicy::Continue, ..fifo() });
    script.node(0, 2);
    let (writer, reader) = (script.plain(&[]), script.plain(&[]));
    let after = script.plain(&[reader]);
    script.joined(&[writer, reader], true);
    script.invoke(&[after]);
    script.text();
    // Ignored of whoever runs still.
    assert_eq!(script.scheduler.spoilable_on(TaskId(writer)), None);
    assert_eq!(script.spoil(writer), []);
    script.ok(writer);
    assert_eq!(script.scheduler.spoilable_on(TaskId(writer)), Some(NodeId(0)));
    assert_eq!(script.scheduler.spoilable_on(TaskId(reader)), None);
    script.spoil(writer);
    assert_eq!(script.scheduler.spoilable_on(TaskId(writer)), None, "its gang does not go on");
    script.fail(reader);
    script.ok(writer);
    script.spoil(writer);
    script.fail(reader);
    expect![[r#"
        output of 0 is spoilt
        action 0 succeeded
        output of 0 is spoilt
            attempt 1 of 0 failed, retried
            abort 1
        action 1 failed
            attempt 1 of 1 failed, retried
            gang 0 begins
            start 0 on node 0, attempt 2
            start 1 on node 0, attempt 2
        action 0 succeeded
        output of 0 is spoilt
            attempt 2 of 0 failed, given up
            0 failed
            abort 1
        action 1 failed
            attempt 2 of 1 failed, given up
            1 abandoned
            2 abandoned
            invocation 0 ended, failed [0], abandoned [1, 2]
    "#]]
    .assert_eq(&script.text());
    let not_run = |failed: u32| {
        let has_run = |id| id != TaskId(after);
        script.scheduler.abandoned_because_of(TaskId(failed), 5, 100, has_run)
    };
    assert_eq!(not_run(writer), (1, vec![TaskId(after)]), "over the gang, and without who ran");
    assert_eq!(script.spoil(writer), []);
}

#[test]
fn what_is_ended_with_its_gang_may_run_again_if_the_gang_does() {
    for retry in [0, 1] {
        let mut script = Script::new(Config { retry, ..fifo() });
        script.node(0, 2);
        let gang = [script.plain(&[]), script.plain(&[])];
        script.gang(&gang, false);
        script.invoke(&gang);
        script.fail(gang[0]);
        assert_eq!(script.scheduler.may_run_again(TaskId(gang[1])), retry == 1);
    }
}

#[test]
fn a_lost_node_ends_a_gang_and_it_runs_again_without_a_retry() {
    let mut script = script(&[1, 1]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    script.lose(1);
    script.end(gang[0], ActionOutcome::Failed);
    script.come_back(1, 1, true);
    script.ok(gang[0]);
    script.ok(gang[1]);
    expect![[r#"
        invocation 0 of [0, 1]
            gang 0 begins
            start 0 on node 0
            start 1 on node 1
        node 1 is lost
            attempt 1 of 1 lost with node 1, runs again
            abort 0
        action 0 failed
            attempt 1 of 0 failed, retried
            gang 0 needs 2 slots of 1
        node 1 joins again with its files
            gang 0 begins
            start 0 on node 0, attempt 2
            start 1 on node 1, attempt 2
        action 0 succeeded
        action 1 succeeded
            0 executed
            1 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_is_lost_while_its_failed_gang_is_ended_does_not_run_again() {
    let mut script = Script::new(Config { failure: FailurePolicy::Continue, ..fifo() });
    (0..2).for_each(|node| drop(script.node(node, 1)));
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    script.fail(gang[0]);
    script.text();
    script.lose(1);
    expect![[r#"
        node 1 is lost
            attempt 1 of 1 lost with node 1, not again
            1 abandoned
            invocation 0 ended, failed [0], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_gang_one_of_whose_actions_is_given_back_begins_again() {
    let mut script = script(&[2]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    script.text();
    script.end(gang[0], ActionOutcome::GivenBack);
    script.fail(gang[1]);
    expect![[r#"
        action 0 givenback
            abort 1
        action 1 failed
            attempt 1 of 1 failed, retried
            gang 0 begins
            start 0 on node 0
            start 1 on node 0, attempt 2
    "#]]
    .assert_eq(&script.text());
}

/// Whether what failed is tried again.
fn is_retried(out: &[Output]) -> bool {
    let is_retried =
        |output: &Output| matches!(output, Output::AttemptFailed { retried: true, .. });
    out.iter().any(is_retried)
}

/// One retry, and an action that is given back first: it is tried twice, and not three times.
#[test]
fn an_action_of_a_gang_that_is_given_back_has_no_retry_more_than_others() {
    for failing in 0..2 {
        let mut script = Script::new(Config { retry: 1, ..fifo() });
        script.node(0, 2);
        let gang = [script.plain(&[]), script.plain(&[])];
        script.gang(&gang, false);
        script.invoke(&gang);
        script.end(gang[0], ActionOutcome::GivenBack);
        assert!(is_retried(&script.fail(gang[1])), "it was ended for the other one");
        let (one, other) = (gang[failing], gang[1 - failing]);
        assert!(is_retried(&script.fail(one)), "{}", script.text());
        script.fail(other);
        assert!(!is_retried(&script.fail(one)), "{}", script.text());
    }
}

#[test]
fn a_failure_uses_up_a_retry_though_another_action_of_the_gang_is_given_back_meanwhile() {
    let mut script = Script::new(Config { retry: 1, ..fifo() });
    script.node(0, 2);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    assert!(is_retried(&script.fail(gang[1])));
    assert_eq!(started(&script.end(gang[0], ActionOutcome::GivenBack)), gang);
    assert!(!is_retried(&script.fail(gang[1])), "{}", script.text());
    let mut script = Script::new(Config { retry: 1, ..fifo() });
    script.node(0, 2);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.by_turns(&gang, false);
    script.invoke(&gang);
    script.turn(gang[1]);
    assert!(is_retried(&script.fail(gang[1])));
    assert_eq!(started(&script.end(gang[0], ActionOutcome::GivenBack)), gang);
    for is_first in [true, false] {
        script.turn(gang[0]);
        assert_eq!(is_retried(&script.fail(gang[0])), is_first, "{}", script.text());
        script.end(gang[1], ActionOutcome::NotBegun);
    }
}

#[test]
fn a_reader_of_a_file_that_is_made_again_with_its_gang_is_uncharged() {
    let mut script = Script::new(Config { retry: 0, files_on_nodes: true, ..fifo() });
    script.node(0, 4);
    let long = script.plain(&[]);
    let (kept, lost) = (script.file(None, &[]), script.file(None, &[]));
    let (reader, after) = (script.file(None, &[kept]), script.file(None, &[lost, long]));
    script.gang(&[kept, lost], false);
    script.invoke(&[reader, after]);
    script.node(1, 1);
    script.ok(kept);
    script.ok(lost);
    script.found(kept, 1000, 0);
    script.found(lost, 1001, 1);
    script.fact(reader, None);
    script.text();
    script.lose(1);
    script.fail(reader);
    expect![[r#"
        node 1 is lost
            2 open again
            1 open again
            gang 0 begins
            start 1 on node 0, attempt 2
            start 2 on node 0, attempt 2
        action 3 failed
            attempt 1 of 3 failed, retried
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn too_many_tasks_are_told_with_their_number_and_fail_when_refused() {
    let mut script = script(&[2]);
    let wide = script.requirement(Requirement { cores: 2, ..Requirement::default() });
    let gang = [script.define(TaskKind::Plain, false, wide, &[]), script.plain(&[])];
    let other = script.plain(&[]);
    script.gang(&gang, false);
    script.invoke(&[gang[0], other]);
    script.refuse(0);
    script.ok(other);
    expect![[r#"
        invocation 0 of [0, 2]
            gang 0 needs 3 slots of 2
            start 2 on node 0
        gang 0 is refused
            gang 0 fails: 3 slots of 2
            0 failed
            1 abandoned
        action 2 succeeded
            2 executed
            invocation 0 ended, failed [0], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_node_that_comes_makes_room_for_a_gang_that_was_too_large() {
    let mut script = script(&[1]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    assert!(started(&script.invoke(&gang)).is_empty());
    assert_eq!(placed(&script.node(1, 1)), [(gang[0], 0), (gang[1], 1)]);
}

#[test]
fn joined_tasks_go_to_one_node_where_they_fit_and_are_spread_evenly_where_they_do_not() {
    let mut script = script(&[2, 4, 4]);
    let small: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    script.joined(&small, true);
    assert_eq!(placed(&script.invoke(&small)), [(small[0], 1), (small[1], 1), (small[2], 1)]);
    for task in small {
        script.ok(task);
    }
    let large: Vec<u32> = (0..5).map(|_| script.plain(&[])).collect();
    script.joined(&large, true);
    let nodes: Vec<u32> = placed(&script.invoke(&large)).iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes, [1, 2, 0, 1, 2]);
}

/// What `writers` print `readers` read.
fn stream(writers: &[u32], readers: &[u32]) -> StreamEnds {
    let ids = |tasks: &[u32]| tasks.iter().copied().map(TaskId).collect();
    StreamEnds { writers: ids(writers), readers: ids(readers) }
}

#[test]
fn what_a_task_upstream_depends_on_makes_a_file_of_its_component_out_of_date() {
    // When the source, what is made of it and the file at the end were modified; whether that is out of date.
    let cases = [
        ([Some(1), Some(2), Some(3)], false),
        ([Some(1), Some(3), Some(3)], false),
        ([Some(1), Some(4), Some(5)], false),
        ([Some(1), Some(4), Some(3)], true),
        ([Some(4), Some(2), Some(3)], true),
        ([Some(1), None, Some(3)], true),
    ];
    for (modified, runs) in cases {
        let mut script = script(&[4]);
        let source = script.source(modified[0]);
        let input = script.file(modified[1], &[source]);
        let (writer, between) = (script.plain(&[input]), script.plain(&[]));
        let file = script.file(modified[2], &[]);
        // In the order in which nothing flows.
        let streams = [stream(&[between], &[file]), stream(&[writer], &[between])];
        script.joined_by(&[writer, between, file], &streams);
        let mut begun = started(&script.invoke(&[file]));
        if begun == [input] {
            script.ok(input);
            begun = started(&script.fact(input, Some(9)));
        }
        assert_eq!(begun, if runs { vec![writer, between, file] } else { vec![] }, "{modified:?}");
        let reason = script.scheduler.task(TaskId(file)).unwrap().reason;
        assert_eq!(reason, if runs { Reason::OutOfDate } else { Reason::UpToDate });
    }
}

#[test]
fn what_only_tasks_downstream_depend_on_makes_no_file_out_of_date() {
    let mut script = script(&[4]);
    let input = script.source(Some(9));
    let (writer, file, reader) =
        (script.plain(&[]), script.file(Some(3), &[]), script.plain(&[input]));
    let streams = [stream(&[writer], &[file]), stream(&[file], &[reader])];
    script.joined_by(&[writer, file, reader], &streams);
    assert!(started(&script.invoke(&[file])).is_empty());
}

#[test]
fn a_task_that_always_runs_makes_files_of_whoever_reads_from_its_dependents_out_of_date() {
    for cyclic in [false, true] {
        let mut script = script(&[4]);
        let before = script.plain(&[]);
        let (writer, file) = (script.plain(&[before]), script.file(Some(3), &[]));
        let back = cyclic.then(|| stream(&[file], &[writer]));
        let streams: Vec<_> = [stream(&[writer], &[file])].into_iter().chain(back).collect();
        script.joined_by(&[writer, file], &streams);
        assert_eq!(started(&script.invoke(&[file])), [before]);
        assert_eq!(started(&script.ok(before)), [writer, file]);
    }
}

#[test]
fn an_input_of_a_writer_is_looked_at_again_when_actions_have_run_before_it() {
    let mut script = script(&[4]);
    let input = script.source(Some(1));
    let before = script.plain(&[]);
    let after = script.plain(&[before]);
    let (writer, file) = (script.plain(&[input, after]), script.file(Some(3), &[]));
    script.joined_by(&[writer, file], &[stream(&[writer], &[file])]);
    script.invoke(&[file]);
    script.ok(before);
    let asked = script.ok(after);
    assert!(asked.contains(&Output::GatherFact { id: TaskId(input) }), "{asked:?}");
}

#[test]
fn joined_tasks_go_by_what_is_said_of_computing_and_traffic() {
    let mut script = script(&[2, 2]);
    let at = |outputs: Vec<Output>| -> Vec<u32> {
        let mut places = placed(&outputs);
        places.sort_unstable();
        places.iter().map(|(_, node)| *node).collect()
    };
    let rate = |bytes| Said { output: Some(Volume::PerSecond(bytes)), ..Said::default() };
    let tasks: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    let [a, b, c, d] = tasks[..] else { panic!() };
    // d prints much for a, and a little goes on to b and c.
    let streams = [stream(&[d], &[a]), stream(&[a], &[b, c])];
    let gang = script.joined(&tasks, true);
    script.weigh(
        gang,
        &streams,
        &BTreeMap::from([(TaskId(d), rate(1 << 30)), (TaskId(a), rate(1))]),
    );
    assert_eq!(at(script.invoke(&tasks)), [0, 1, 1, 0]);
    for task in tasks {
        script.ok(task);
    }
    // More than there is room for, of which one computes as much as all others: it has a node for itself.
    let tasks: Vec<u32> = (0..5).map(|_| script.plain(&[])).collect();
    let costs = tasks.iter().map(|task| {
        let cost_milli = Some(if *task == tasks[4] { 4_000 } else { 1_000 });
        (TaskId(*task), Said { cost_milli, ..Said::default() })
    });
    let gang = script.joined(&tasks, true);
    script.weigh(gang, &[stream(&tasks[..4], &tasks[4..])], &costs.collect());
    assert!(started(&script.invoke(&tasks)).is_empty());
    assert_eq!(at(script.share(gang)), [1, 1, 1, 1, 0]);
}

#[test]
fn joined_tasks_that_may_not_be_spread_wait_for_a_node_that_has_room_for_all() {
    let mut script = script(&[1, 1]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.joined(&gang, false);
    assert!(started(&script.invoke(&gang)).is_empty());
    assert_eq!(placed(&script.node(2, 2)), [(gang[0], 2), (gang[1], 2)]);
}

/// The tasks that have their share from now on, each with the numbers of its devices.
fn turns(out: &[Output]) -> Vec<(u32, Vec<u32>)> {
    let turn = |output: &Output| match output {
        Output::TurnTaken { id, devices, .. } => {
            Some((id.0, devices.0.iter().flat_map(|(_, numbers)| numbers.clone()).collect()))
        }
        _ => None,
    };
    out.iter().filter_map(turn).collect()
}

#[test]
fn an_action_that_invokes_a_task_of_its_own_gang_fails_its_gang_at_once() {
    // It invokes the other one itself; over a prerequisite; or over an action that it waits for.
    for how in 0..3 {
        for other_has_ended in [false, true] {
            let mut script = script(&[4]);
            let (caller, other) = (script.plain(&[]), script.plain(&[]));
            let after = script.plain(&[other]);
            let between = script.plain(&[]);
            script.gang(&[caller, other], false);
            script.invoke(&[after]);
            if other_has_ended {
                script.ok(other);
            }
            let out = match how {
                0 => script.invoke_from(&[other], Some(caller)),
                1 => script.invoke_from(&[after], Some(caller)),
                _ => {
                    script.invoke_from(&[between], Some(caller));
                    script.invoke_from(&[other], Some(between))
                }
            };
            let told =
                Output::GangEntangled { id: GangId(0), task: TaskId(caller), on: TaskId(other) };
            assert!(out.contains(&told), "{out:?}");
            assert!(out.contains(&Output::AbortAction { id: TaskId(caller) }), "{out:?}");
            let mut last = script.fail(caller);
            if !other_has_ended {
                last.extend(script.fail(other));
            }
            last.extend(script.ok(between));
            let is_over = |output: &Output| {
                matches!(output, Output::InvocationEnded { id, failed, .. }
                    if id.0 == 0 && failed.contains(&TaskId(caller)))
            };
            assert!(last.iter().any(is_over), "{last:?}");
            let state = |id| script.scheduler.task(TaskId(id)).unwrap().state;
            assert_eq!(state(caller), TaskState::Settled(Settled::Failed));
            assert_eq!(state(other), TaskState::Settled(Settled::Abandoned));
        }
    }
}

#[test]
fn of_tasks_that_run_by_turns_each_has_its_own_retries() {
    let mut script = Script::new(Config { retry: 1, ..fifo() });
    script.node(0, 2);
    let gang: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    script.by_turns(&gang, false);
    assert_eq!(started(&script.invoke(&gang)), gang);
    let retries = |out: &[Output]| -> Vec<bool> {
        let failed = out.iter().filter_map(|output| match output {
            Output::AttemptFailed { retried, .. } => Some(*retried),
            _ => None,
        });
        failed.collect()
    };
    for failing in &gang {
        script.turn(*failing);
        assert_eq!(retries(&script.fail(*failing)), [true]);
        // Of the others none has had its turn.
        let others = gang.iter().filter(|other| *other != failing);
        let ends = others.map(|other| script.end(*other, ActionOutcome::NotBegun));
        let out: Vec<Output> = ends.flatten().collect();
        assert_eq!((started(&out), retries(&out)), (gang.clone(), vec![]), "after {failing}");
    }
    script.turn(gang[0]);
    assert_eq!(retries(&script.fail(gang[0])), [false]);
    for other in &gang[1..] {
        script.end(*other, ActionOutcome::NotBegun);
        let state = script.scheduler.task(TaskId(*other)).unwrap().state;
        assert_eq!(state, TaskState::Settled(Settled::Abandoned));
    }
}

#[test]
fn an_action_of_a_gang_may_invoke_what_is_in_no_gang_or_in_another() {
    let mut script = script(&[4]);
    let (caller, other) = (script.plain(&[]), script.plain(&[]));
    let (one, two) = (script.plain(&[]), script.plain(&[]));
    script.gang(&[caller, other], false);
    script.gang(&[one, two], false);
    assert_eq!(started(&script.invoke(&[caller])).len(), 4);
    script.invoke_from(&[one], Some(caller));
    script.ok(one);
    script.ok(two);
    script.ok(caller);
    script.ok(other);
    let state = script.scheduler.task(TaskId(caller)).unwrap().state;
    assert_eq!(state, TaskState::Settled(Settled::Executed));
}

#[test]
fn tasks_that_run_by_turns_have_their_shares_from_their_turn_on() {
    let mut script = script(&[2]);
    let gang: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    script.by_turns(&gang, false);
    let others: Vec<u32> = (0..5).map(|_| script.plain(&[])).collect();
    let begun = script.invoke(&[&gang[..], &others[..]].concat());
    // Three of the gang hold nothing, and two others have the cores.
    assert_eq!(started(&begun), [0, 1, 2, 3, 4]);
    let both = |out: Vec<Output>| (turns(&out), started(&out));
    let none = || (vec![], vec![]);
    assert_eq!(both(script.turn(0)), none());
    assert_eq!(both(script.turn(1)), none());
    // Who has its turn comes before what is ready.
    assert_eq!(both(script.ok(3)), (vec![(0, vec![])], vec![]));
    assert_eq!(both(script.ok(4)), (vec![(1, vec![])], vec![]));
    assert_eq!(both(script.ok(0)), (vec![], vec![5]));
    assert_eq!(both(script.turn(2)), none());
    assert_eq!(both(script.ok(1)), (vec![(2, vec![])], vec![]));
    assert_eq!(both(script.ok(5)), (vec![], vec![6]));
    assert_eq!(both(script.ok(2)), (vec![], vec![7]));
}

#[test]
fn tasks_that_run_by_turns_have_the_only_device_one_after_the_other() {
    let mut script = Script::new(fifo());
    let resources = vec![(ResourceId(0), 1)];
    let device = script.requirement(Requirement { resources, cores: 1, ..Requirement::default() });
    let capacity = Capacity { cores: 4, resources: vec![1], ..Capacity::default() };
    script.node_with(0, capacity);
    let mut define = || script.define(TaskKind::Plain, false, device, &[]);
    let gang = [define(), define()];
    script.by_turns(&gang, false);
    assert_eq!(started(&script.invoke(&gang)), gang);
    assert_eq!(turns(&script.turn(gang[0])), [(gang[0], vec![0])]);
    assert!(turns(&script.turn(gang[1])).is_empty());
    assert_eq!(turns(&script.ok(gang[0])), [(gang[1], vec![0])]);
}

#[test]
fn a_turn_comes_before_a_gang_that_has_not_begun_and_is_forgotten_with_its_attempt() {
    let mut script = script(&[2, 2]);
    let gang: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    script.by_turns(&gang, true);
    assert_eq!(placed(&script.invoke(&gang)), [(0, 0), (1, 1), (2, 0), (3, 1)]);
    let busy: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    let mut runs = placed(&script.invoke(&busy));
    runs.sort_by_key(|(_, node)| *node);
    assert_eq!(runs.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let late: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    script.gang(&late, false);
    assert!(started(&script.invoke(&late)).is_empty());
    for member in [0, 1] {
        assert!(turns(&script.turn(member)).is_empty());
    }
    assert_eq!(turns(&script.ok(runs[0].0)), [(0, vec![])]);
    // The late gang keeps this core: nothing starts.
    assert!(started(&script.ok(runs[1].0)).is_empty());
    // What ran on the lost node has both cores of the other one, and the gang begins anew.
    let mut again = started(&script.lose(1));
    again.extend(started(&script.fail(0)));
    again.sort_unstable();
    let mut lost = [runs[2].0, runs[3].0];
    lost.sort_unstable();
    assert_eq!(again, lost);
    assert_eq!(started(&script.fail(2)), gang);
    assert!(turns(&script.turn(0)).is_empty());
    assert_eq!(turns(&script.ok(again[0])), [(0, vec![])]);
}

#[test]
fn a_gang_that_was_too_large_shares_cores_when_it_is_told_so() {
    let mut script = script(&[1, 1]);
    let gang: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    script.joined(&gang, true);
    assert!(started(&script.invoke(&gang)).is_empty());
    let nodes: Vec<u32> = placed(&script.share(0)).iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes, [0, 1, 0, 1]);
}

#[test]
fn more_tasks_than_slots_are_spread_evenly_where_that_is_wanted() {
    let mut script = script(&[2, 1]);
    let gang: Vec<u32> = (0..6).map(|_| script.plain(&[])).collect();
    script.gang(&gang, true);
    script.invoke(&gang);
    expect![[r#"
        invocation 0 of [0, 1, 2, 3, 4, 5]
            gang 0 begins, oversubscribed
            start 0 on node 0
            start 1 on node 0
            start 2 on node 1
            start 3 on node 0
            start 4 on node 0
            start 5 on node 1
    "#]]
    .assert_eq(&script.text());
    let cores = |script: &Script, node| {
        script.scheduler.node(rakuda_core::NodeId(node)).map(|node| node.cores_free)
    };
    assert_eq!((cores(&script, 0), cores(&script, 1)), (Some(0), Some(0)));
    for task in gang {
        script.ok(task);
    }
    assert_eq!((cores(&script, 0), cores(&script, 1)), (Some(2), Some(1)));
}

#[test]
fn tasks_that_need_one_another_are_named() {
    let mut script = script(&[4]);
    let first = script.plain(&[]);
    let between = script.plain(&[first]);
    let last = script.plain(&[between]);
    script.gang(&[first, last], false);
    script.invoke(&[last]);
    expect![[r#"
        invocation 0 of [2]
            gang 0: 2 needs 0
            2 failed
            0 abandoned
            1 abandoned
            invocation 0 ended, failed [2], abandoned [0, 1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn gangs_that_wait_for_one_another_are_named() {
    let mut script = script(&[4]);
    let (a, b) = (script.plain(&[]), script.plain(&[]));
    let (c, d) = (script.plain(&[a]), script.plain(&[b]));
    script.gang(&[a, d], false);
    script.gang(&[b, c], false);
    script.invoke(&[c, d]);
    expect![[r#"
        invocation 0 of [2, 3]
            gang 0: 3 needs 0
            3 failed
            gang 1: 2 needs 1
            2 failed
            0 abandoned
            1 abandoned
            invocation 0 ended, failed [3, 2], abandoned [0, 1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn prerequisites_that_come_later_are_looked_at_when_nothing_goes_on() {
    let mut script = script(&[4]);
    let (first, busy) = (script.plain(&[]), script.plain(&[]));
    let late = script.define(TaskKind::Plain, true, RequirementId(0), &[busy]);
    script.gang(&[first, late], false);
    script.invoke(&[late]);
    script.ok(busy);
    script.add(late, &[first]);
    script.text();
    script.resolved(late, true);
    expect![[r#"
        task 2 is resolved
            gang 0: 2 needs 0
            2 failed
            0 abandoned
            invocation 0 ended, failed [2], abandoned [0]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_on_several_nodes_has_its_share_of_each_until_it_ends() {
    let mut script = script(&[2, 2, 2]);
    let wide = Requirement { nodes: 2, cores: 2, ..Requirement::default() };
    let wide = script.requirement(wide);
    let task = script.define(TaskKind::Plain, false, wide, &[]);
    script.gang(&[task], false);
    assert_eq!(placed(&script.invoke(&[task])), [(task, 0)]);
    let small: Vec<u32> = (0..3).map(|_| script.plain(&[])).collect();
    let nodes: Vec<u32> = script.scheduler.nodes_of(TaskId(task)).iter().map(|id| id.0).collect();
    assert_eq!(nodes, [0, 1]);
    assert_eq!(placed(&script.invoke(&small)), [(small[0], 2), (small[1], 2)]);
    assert_eq!(placed(&script.ok(task)), [(small[2], 0)]);
}

#[test]
fn a_task_on_several_nodes_runs_again_when_one_of_them_is_lost() {
    let mut script = script(&[1, 1]);
    let wide = script.requirement(Requirement { nodes: 2, ..Requirement::default() });
    let task = script.define(TaskKind::Plain, false, wide, &[]);
    script.gang(&[task], false);
    script.invoke(&[task]);
    script.text();
    script.lose(1);
    script.end(task, ActionOutcome::Failed);
    script.come_back(1, 1, true);
    expect![[r#"
        node 1 is lost
            abort 0
        action 0 failed
            attempt 1 of 0 failed, retried
            gang 0 needs 2 slots of 1
        node 1 joins again with its files
            gang 0 begins
            start 0 on node 0, attempt 2
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_on_several_nodes_whose_home_is_lost_runs_again_without_a_retry_when_it_has_enough() {
    let mut script = Script::new(Config { retry: 0, ..fifo() });
    (0..2).for_each(|node| drop(script.node(node, 1)));
    let wide = script.requirement(Requirement { nodes: 2, ..Requirement::default() });
    let task = script.define(TaskKind::Plain, false, wide, &[]);
    script.gang(&[task], false);
    script.invoke(&[task]);
    let nodes_of = |script: &Script| -> Vec<u32> {
        script.scheduler.nodes_of(TaskId(task)).iter().map(|id| id.0).collect()
    };
    assert_eq!(nodes_of(&script), [0, 1]);
    script.text();
    script.lose(0);
    let small = script.plain(&[]);
    script.invoke(&[small]);
    script.node(2, 1);
    script.ok(small);
    assert_eq!(nodes_of(&script), [1, 2]);
    script.ok(task);
    expect![[r#"
        node 0 is lost
            attempt 1 of 0 lost with node 0, runs again
            gang 0 needs 2 slots of 1
        invocation 1 of [1]
            start 1 on node 1
        node 2 joins with 1 cores
        action 1 succeeded
            1 executed
            invocation 1 ended well
            gang 0 begins
            start 0 on node 1, attempt 2
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn with_one_action_at_a_time_a_gang_shares_the_core_or_is_too_large() {
    for oversubscribe in [false, true] {
        let mut script = Script::new(Config { policy: Policy::Serial, ..Config::default() });
        script.node(0, 1);
        let gang = [script.plain(&[]), script.plain(&[])];
        let after = script.plain(&[gang[1]]);
        script.gang(&gang, oversubscribe);
        let begun = started(&script.invoke(&[after]));
        if oversubscribe {
            assert_eq!(begun, gang);
            script.ok(gang[0]);
            assert_eq!(started(&script.ok(gang[1])), [after]);
        } else {
            assert!(begun.is_empty());
            assert!(script.text().contains("gang 0 needs 2 slots of 1"));
        }
    }
}

#[test]
fn a_stop_gives_a_gang_back_that_has_not_begun_and_a_later_invocation_takes_all_of_it() {
    let mut script = Script::new(Config { failure: FailurePolicy::Wait, ..fifo() });
    script.node(0, 2);
    let (bad, slow) = (script.plain(&[]), script.plain(&[]));
    let gang = [script.plain(&[]), script.plain(&[slow])];
    script.gang(&gang, false);
    script.invoke(&[bad, gang[0]]);
    script.fail(bad);
    script.ok(slow);
    assert_eq!(script.scheduler.gang_of(TaskId(gang[0])).unwrap().phase, GangPhase::Mustering);
    assert_eq!(started(&script.invoke(&[gang[1]])), gang);
}

#[test]
fn no_slot_is_kept_while_an_action_waits_for_an_invocation() {
    let mut script = script(&[1, 1]);
    let (caller, busy) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[caller, busy]);
    let gang = [script.plain(&[]), script.plain(&[])];
    script.gang(&gang, false);
    script.invoke(&gang);
    let called = script.plain(&[]);
    assert_eq!(started(&script.invoke_from(&[called], Some(caller))), [called]);
    script.ok(called);
    script.ok(caller);
    assert_eq!(started(&script.ok(busy)), gang);
}

#[test]
fn a_gang_that_chooses_its_nodes_waits_until_one_suits() {
    let mut script = script(&[1, 1, 1]);
    let choice = Some(Choice { used_up: false });
    let choosy = script.requirement(Requirement { choice, ..Requirement::default() });
    let [one, other] = [0; 2].map(|_| script.define(TaskKind::Plain, false, choosy, &[]));
    script.gang(&[one, other], false);
    let plain = [0; 3].map(|_| script.plain(&[]));
    // For a gang that waits for more than room nothing is kept.
    let started = placed(&script.invoke(&[one, plain[0], plain[1], plain[2]]));
    assert_eq!(started.len(), 3);
    for task in plain {
        script.ok(task);
    }
    let suit = |script: &mut Script, node| suit(script, choosy, &[(node, u32::MAX)]);
    assert_eq!(suit(&mut script, 2), [], "one of two has room");
    assert_eq!(suit(&mut script, 1), [(one, 1), (other, 2)]);
}

/// Says that nodes suit, and how many tasks each suits at once.
fn suit(script: &mut Script, requirement: RequirementId, nodes: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let suits = |at_once| Some(Suits { rank: 0, at_once });
    let nodes: Vec<_> = nodes.iter().map(|(node, most)| (NodeId(*node), suits(*most))).collect();
    placed(&script.send("nodes suit", Event::NodesSuit { requirement, nodes: &nodes }))
}

#[test]
fn a_gang_puts_no_more_of_its_tasks_on_a_node_than_that_suits_at_once() {
    let mut script = script(&[4, 4]);
    let choice = Some(Choice { used_up: true });
    let choosy = script.requirement(Requirement { choice, ..Requirement::default() });
    let gang = [0; 3].map(|_| script.define(TaskKind::Plain, false, choosy, &[]));
    script.gang(&gang, false);
    assert_eq!(placed(&script.invoke(&gang)), []);
    assert_eq!(suit(&mut script, choosy, &[(0, 1), (1, 1)]), [], "three tasks, two at once");
    assert_eq!(
        suit(&mut script, choosy, &[(1, 2)]),
        [(gang[0], 0), (gang[1], 1), (gang[2], 1)],
        "the first node has four slots, and suits one"
    );
}

/// A gang of three that chooses its nodes. Two slots are held for it; the third is that of the task.
fn partly_held() -> (Script, RequirementId, u32) {
    let mut script = script(&[2, 1]);
    let choice = Some(Choice { used_up: false });
    let choosy = script.requirement(Requirement { choice, ..Requirement::default() });
    let busy = script.plain(&[]);
    script.invoke(&[busy]);
    let gang = [0; 3].map(|_| script.define(TaskKind::Plain, false, choosy, &[]));
    script.gang(&gang, false);
    script.invoke(&gang);
    suit(&mut script, choosy, &[(0, 2), (1, 1)]);
    (script, choosy, busy)
}

#[test]
fn what_is_held_for_a_gang_is_given_back_when_the_node_suits_fewer() {
    let (mut script, choosy, busy) = partly_held();
    assert_eq!(suit(&mut script, choosy, &[(0, 1)]), []);
    assert_eq!(started(&script.ok(busy)), [], "room for all, but the first node suits one");
    let begun = suit(&mut script, choosy, &[(0, 2)]);
    assert_eq!(begun.len(), 3, "{begun:?}");
}

#[test]
fn what_is_held_for_a_gang_is_given_back_when_the_node_suits_no_more() {
    let (mut script, choosy, _) = partly_held();
    let kept = |script: &Script| script.scheduler.gang(GangId(0)).slots_kept;
    assert_eq!(kept(&script), 2);
    let nodes = &[(NodeId(0), None)];
    script.send("it suits no more", Event::NodesSuit { requirement: choosy, nodes });
    assert_eq!(kept(&script), 0, "it waits for more than room");
}

#[test]
fn nothing_is_begun_early_once_a_gang_could_begin() {
    let mut script = script(&[2]);
    script.send("early", Event::LookaheadSet { id: NodeId(0), actions: 2 });
    let busy = [0; 4].map(|_| script.plain(&[]));
    assert_eq!(started(&script.invoke(&busy)), busy, "two on cores, two early");
    let gang = [0; 2].map(|_| script.plain(&[]));
    script.gang(&gang, false);
    let late = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[gang[0], late])), []);
    for task in &busy[..3] {
        assert_eq!(started(&script.ok(*task)), []);
    }
    assert_eq!(started(&script.ok(busy[3])), gang);
    assert_eq!(started(&script.ok(gang[0])), [late]);
}

#[test]
fn what_runs_on_one_node_takes_the_one_that_suits_all_of_it() {
    let mut script = script(&[2, 2]);
    let choice = Some(Choice { used_up: true });
    let choosy = script.requirement(Requirement { choice, ..Requirement::default() });
    let gang = [0; 2].map(|_| script.define(TaskKind::Plain, false, choosy, &[]));
    script.joined(&gang, false);
    assert_eq!(placed(&script.invoke(&gang)), []);
    assert_eq!(suit(&mut script, choosy, &[(0, 1), (1, 1)]), []);
    assert_eq!(suit(&mut script, choosy, &[(1, 2)]), [(gang[0], 1), (gang[1], 1)]);
}

#[test]
fn a_task_that_chooses_no_node_counts_beside_one_of_its_gang_that_does() {
    let mut script = script(&[2, 2]);
    let choice = Some(Choice { used_up: true });
    let choosy = script.requirement(Requirement { choice, ..Requirement::default() });
    let one = script.define(TaskKind::Plain, false, choosy, &[]);
    let plain = script.plain(&[]);
    script.gang(&[one, plain], false);
    assert_eq!(placed(&script.invoke(&[one])), []);
    let begun = suit(&mut script, choosy, &[(0, 1)]);
    assert_eq!(begun, [(one, 0), (plain, 1)]);
}
