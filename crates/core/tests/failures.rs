//! Failures, retries, stops, invocations within invocations.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, placed, started};
use expect_test::expect;
use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, FailurePolicy, NodeId, Output, Places, Policy,
    Requirement, RequirementId, ResourceId, Settled, TaskId, TaskKind, TaskState, Time, Timestamp,
};

fn script(failure: FailurePolicy, cores: u32) -> Script {
    let mut script = Script::new(Config { policy: Policy::Fifo, failure, ..Config::default() });
    script.node(0, cores);
    script.text();
    script
}

#[test]
fn wait_starts_nothing_more_and_lets_go_on_what_runs() {
    let mut script = script(FailurePolicy::Wait, 2);
    let (first, second, third) = (script.plain(&[]), script.plain(&[]), script.plain(&[]));
    let last = script.plain(&[first, second, third]);
    script.invoke(&[last]);
    script.fail(first);
    script.ok(second);
    expect![[r#"
        invocation 0 of [3]
            start 0 on node 0
            start 1 on node 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            3 abandoned
        action 1 succeeded
            1 executed
            invocation 0 ended, failed [0], abandoned [3]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn kill_aborts_what_runs() {
    let mut script = script(FailurePolicy::Kill, 2);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let last = script.plain(&[first, second]);
    script.invoke(&[last]);
    script.fail(first);
    script.fail(second);
    expect![[r#"
        invocation 0 of [2]
            start 0 on node 0
            start 1 on node 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            2 abandoned
            abort 1
        action 1 failed
            attempt 1 of 1 failed, given up
            1 failed
            invocation 0 ended, failed [0, 1], abandoned [2]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn continue_runs_all_that_does_not_depend_on_the_failed_task() {
    let mut script = script(FailurePolicy::Continue, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let (third, fourth) = (script.plain(&[first]), script.plain(&[second]));
    let last = script.plain(&[third, fourth]);
    script.invoke(&[last]);
    script.fail(first);
    script.ok(second);
    script.ok(fourth);
    expect![[r#"
        invocation 0 of [4]
            start 0 on node 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            2 abandoned
            4 abandoned
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 3 on node 0
        action 3 succeeded
            3 executed
            invocation 0 ended, failed [0], abandoned [2, 4]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_failed_attempt_is_retried_while_attempts_remain() {
    let mut script = script(FailurePolicy::Wait, 1);
    let twice = script.requirement(Requirement { retry: Some(1), ..Requirement::default() });
    let task = script.define(TaskKind::Plain, false, twice, &[]);
    script.invoke(&[task]);
    script.fail(task);
    script.fail(task);
    expect![[r#"
        invocation 0 of [0]
            start 0 on node 0
        action 0 failed
            attempt 1 of 0 failed, retried
            start 0 on node 0, attempt 2
        action 0 failed
            attempt 2 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_has_failed_is_tried_again_without_another_question() {
    let mut script = Script::new(Config { retry: 1, ..Config::default() });
    script.node(0, 1);
    let task = script.define(TaskKind::Asked, false, RequirementId(0), &[]);
    script.invoke(&[task]);
    assert_eq!(started(&script.answer(task, true, Timestamp::At(1.into()))), [task]);
    assert_eq!(started(&script.fail(task)), [task]);
}

#[test]
fn a_failed_attempt_is_followed_by_one_that_needs_more() {
    let mut script = Script::new(Config { policy: Policy::Fifo, ..Config::default() });
    script.node_with(0, Capacity { cores: 2, memory_bytes: 100, ..Capacity::default() });
    let more = Requirement { retry: Some(2), memory_bytes: 80, ..Requirement::default() };
    let more = script.requirement(more);
    let first = Requirement {
        retry: Some(2),
        memory_bytes: 20,
        after_failure: Some(more),
        ..Requirement::default()
    };
    let first = script.requirement(first);
    let half = script.requirement(Requirement { memory_bytes: 50, ..Requirement::default() });
    let task = script.define(TaskKind::Plain, false, first, &[]);
    let other = script.define(TaskKind::Plain, false, half, &[]);
    script.text();
    script.invoke(&[task, other]);
    script.fail(task);
    script.ok(other);
    script.fail(task);
    script.ok(task);
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
            start 1 on node 0
        action 0 failed
            attempt 1 of 0 failed, retried
        action 1 succeeded
            1 executed
            start 0 on node 0, attempt 2
        action 0 failed
            attempt 2 of 0 failed, retried
            start 0 on node 0, attempt 3
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_delayed_attempt_is_in_no_queue_until_its_time_has_come() {
    let mut script = script(FailurePolicy::Wait, 1);
    let delayed = Requirement { retry: Some(2), retry_delay_ns: 5, ..Requirement::default() };
    let delayed = script.requirement(delayed);
    let task = script.define(TaskKind::Plain, false, delayed, &[]);
    let other = script.plain(&[]);
    script.text();
    script.invoke(&[task, other]);
    script.fail(task);
    script.ok(other);
    let due = |attempt| Event::RetryDue { id: TaskId(task), attempt };
    script.send("the delay is over", due(1));
    script.send("again", due(1));
    script.fail(task);
    script.send("the first delay is told late", due(1));
    script.stop(false);
    script.send("after the stop", due(2));
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
        action 0 failed
            attempt 1 of 0 failed, retried
            attempt 2 of 0 in 5 ns
            start 1 on node 0
        action 1 succeeded
            1 executed
        the delay is over
            start 0 on node 0, attempt 2
        again
        action 0 failed
            attempt 2 of 0 failed, retried
            attempt 3 of 0 in 5 ns
        the first delay is told late
        stop
            invocation 0 ended, failed [], abandoned [0]
        after the stop
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_lost_node_requeues_its_running_tasks_without_counting_an_attempt() {
    let mut script = script(FailurePolicy::Wait, 1);
    let task = script.plain(&[]);
    script.invoke(&[task]);
    script.lose(0);
    script.node(1, 1);
    script.ok(task);
    expect![[r#"
        invocation 0 of [0]
            start 0 on node 0
        node 0 is lost
            attempt 1 of 0 lost with node 0, runs again
        node 1 joins with 1 cores
            start 0 on node 1, attempt 2
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_runs_may_run_again_while_attempts_that_count_remain() {
    let mut script = Script::new(Config { retry: 1, ..Config::default() });
    script.node(0, 1);
    let task = script.plain(&[]);
    let may_run_again = |script: &Script| script.scheduler.may_run_again(TaskId(task));
    assert!(!may_run_again(&script), "no invocation wants it");
    script.invoke(&[task]);
    script.lose(0);
    script.node(1, 1);
    assert!(may_run_again(&script));
    script.fail(task);
    assert_eq!(script.scheduler.task(TaskId(task)).unwrap().attempt, 3);
    assert!(!may_run_again(&script), "the loss did not count, the failure did");
}

#[test]
fn what_may_turn_out_to_be_uncharged_may_run_again() {
    let mut script = Script::new(Config { files_on_nodes: true, retry: 0, ..Config::default() });
    script.node(0, 1);
    let task = script.plain(&[]);
    script.invoke(&[task]);
    assert!(script.scheduler.may_run_again(TaskId(task)));
}

#[test]
fn a_task_that_is_lost_again_and_again_with_the_same_node_is_taken_to_be_the_reason() {
    let config = Config { blame_after: 2, retry: 0, ..Config::default() };
    let mut script = Script::new(config);
    script.node(0, 1);
    let task = script.plain(&[]);
    script.invoke(&[task]);
    for _ in 0..5 {
        script.lose(0);
        script.come_back(0, 1, true);
    }
    script.text();
    script.lose(0);
    expect![[r#"
        node 0 is lost
            attempt 6 of 0 lost with node 0, not again
            0 blamed for nodes [0]
            0 failed
            invocation 0 ended, failed [0], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_that_is_lost_with_different_nodes_is_taken_to_be_the_reason() {
    let mut script = Script::new(Config { blame_after: 2, ..Config::default() });
    script.node(0, 1);
    let task = script.plain(&[]);
    script.invoke(&[task]);
    script.lose(0);
    script.node(1, 1);
    script.text();
    script.lose(1);
    expect![[r#"
        node 1 is lost
            attempt 2 of 0 lost with node 1, not again
            0 blamed for nodes [0, 1]
            0 failed
            invocation 0 ended, failed [0], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn where_no_task_is_blamed_one_that_is_lost_runs_again_however_often() {
    let mut script = Script::new(Config { blame_after: 0, ..Config::default() });
    script.node(0, 1);
    let task = script.plain(&[]);
    script.invoke(&[task]);
    for _ in 0..20 {
        script.lose(0);
        assert_eq!(started(&script.come_back(0, 1, true)), [task]);
    }
}

#[test]
fn what_is_lost_when_its_invocation_has_been_stopped_does_not_run_again() {
    let mut script = script(FailurePolicy::Wait, 1);
    script.node(1, 1);
    let tasks = [script.plain(&[]), script.plain(&[])];
    let begun = placed(&script.invoke(&tasks));
    let [(failed, _), (lost, node)] = begun[..] else { panic!("{begun:?}") };
    script.fail(failed);
    let out = script.lose(node);
    let (id, node) = (TaskId(lost), NodeId(node));
    assert!(out.contains(&Output::AttemptLost { id, attempt: 1, node, rerun: false }), "{out:?}");
    assert_eq!(started(&script.come_back(node.0, 1, true)), []);
}

/// Whoever looks for it finds nothing: it was not made, or went with its node before anybody saw it.
#[test]
fn a_target_that_is_missing_is_made_again_if_its_node_was_lost_meanwhile() {
    for (lost, again) in [(0, true), (1, false)] {
        let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
        script.node(0, 1);
        let made = script.file(None, &[]);
        script.invoke(&[made]);
        script.ok(made);
        script.node(1, 1);
        script.node(2, 1);
        script.lose(lost);
        let out = script.fact(made, None);
        let is_missing = out.contains(&Output::TargetMissing { id: TaskId(made) });
        assert_eq!((started(&out) == [made], is_missing), (again, !again), "{out:?}");
    }
}

#[test]
fn an_exit_ends_what_runs_only_where_a_failure_does() {
    for (failure, aborts) in [
        (FailurePolicy::Kill, true),
        (FailurePolicy::Wait, false),
        (FailurePolicy::Continue, false),
    ] {
        let mut script = script(failure, 2);
        let (first, second) = (script.plain(&[]), script.plain(&[]));
        script.invoke(&[first, second]);
        let out = script.end(first, ActionOutcome::Exited);
        let abort = Output::AbortAction { id: TaskId(second) };
        assert_eq!(out.contains(&abort), aborts, "{failure:?}: {out:?}");
    }
}

#[test]
fn only_what_fails_by_itself_speaks_against_its_node() {
    for (outcome, aborted, drained) in [
        (ActionOutcome::Failed, false, true),
        (ActionOutcome::Failed, true, false),
        (ActionOutcome::Exited, false, false),
    ] {
        let config = Config { policy: Policy::Fifo, drain_after: 1, ..Config::default() };
        let mut script = Script::new(config);
        script.node(0, 1);
        script.node(1, 1);
        let (well, badly) = (script.plain(&[]), script.plain(&[]));
        script.invoke(&[well, badly]);
        script.ok(well);
        if aborted {
            script.stop(true);
        }
        let out = script.end(badly, outcome);
        let drains = |output: &Output| matches!(output, Output::NodeDrained { .. });
        assert_eq!(out.iter().any(drains), drained, "{outcome:?}, {aborted}: {out:?}");
    }
}

#[test]
fn an_exit_stops_every_invocation_and_is_not_retried() {
    let mut script = Script::new(Config { retry: 5, policy: Policy::Fifo, ..Config::default() });
    script.node(0, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[first]);
    script.invoke(&[second]);
    script.end(first, ActionOutcome::Exited);
    script.invoke(&[second]);
    expect![[r#"
        node 0 joins with 1 cores
        invocation 0 of [0]
            start 0 on node 0
        invocation 1 of [1]
        action 0 exited
            attempt 1 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned []
            invocation 1 ended, failed [], abandoned [1]
        invocation 2 of [1]
            invocation 2 ended, failed [], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_caller_gives_its_core_to_the_invocation_that_it_waits_for() {
    let mut script = script(FailurePolicy::Wait, 1);
    let caller = script.plain(&[]);
    let other = script.plain(&[]);
    script.invoke(&[caller, other]);
    let inner = script.plain(&[]);
    script.invoke_from(&[inner], Some(caller));
    script.ok(other);
    script.ok(inner);
    script.ok(caller);
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
        invocation 1 of [2] from 0
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 2 on node 0
        action 2 succeeded
            2 executed
            invocation 1 ended well
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_caller_that_takes_its_core_back_oversubscribes_for_a_moment() {
    let mut script = script(FailurePolicy::Wait, 1);
    let (caller, other, third) = (script.plain(&[]), script.plain(&[]), script.plain(&[]));
    script.invoke(&[caller, other, third]);
    let file = script.define(TaskKind::File, false, RequirementId(0), &[]);
    script.invoke_from(&[file], Some(caller));
    script.fact(file, Some(1));
    assert_eq!(script.scheduler.node(NodeId(0)).map(|node| node.cores_free), Some(-1));
    script.ok(other);
    script.ok(caller);
    expect![[r#"
        invocation 0 of [0, 1, 2]
            start 0 on node 0
        invocation 1 of [3] from 0
            look at file 3
            start 1 on node 0
        file 3 is of 1
            3 not needed
            invocation 1 ended well
        action 1 succeeded
            1 executed
        action 0 succeeded
            0 executed
            start 2 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_caller_lends_its_memory_and_devices_to_what_it_waits_for() {
    let mut script = Script::new(Config::default());
    let resources = vec![(ResourceId(0), 1)];
    let requirement = Requirement { memory_bytes: 6, resources, ..Requirement::default() };
    let large = script.requirement(requirement);
    script.node_with(
        0,
        Capacity { cores: 1, memory_bytes: 10, resources: vec![1], ..Capacity::default() },
    );
    let caller = script.define(TaskKind::Plain, false, large, &[]);
    script.invoke(&[caller]);
    let inner = script.define(TaskKind::Plain, false, large, &[]);
    script.invoke_from(&[inner], Some(caller));
    script.ok(inner);
    script.ok(caller);
    expect![[r#"
        node 0 joins with 1 cores
        invocation 0 of [0]
            start 0 on node 0, devices 0: [0]
        invocation 1 of [1] from 0
            start 1 on node 0, devices 0: [0]
        action 1 succeeded
            1 executed
            invocation 1 ended well
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn an_invocation_waits_for_wanted_tasks_of_another() {
    let mut script = script(FailurePolicy::Wait, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[first, second]);
    script.invoke(&[first]);
    script.ok(first);
    script.ok(second);
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
        invocation 1 of [0]
        action 0 succeeded
            0 executed
            invocation 1 ended well
            start 1 on node 0
        action 1 succeeded
            1 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn an_invocation_of_a_task_that_failed_before_names_the_one_to_blame() {
    let mut script = script(FailurePolicy::Wait, 1);
    let first = script.plain(&[]);
    let second = script.plain(&[first]);
    script.invoke(&[second]);
    script.fail(first);
    script.invoke(&[second]);
    let third = script.plain(&[second]);
    script.invoke(&[third]);
    expect![[r#"
        invocation 0 of [1]
            start 0 on node 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            1 abandoned
            invocation 0 ended, failed [0], abandoned [1]
        invocation 1 of [1]
            invocation 1 ended, failed [0], abandoned [1]
        invocation 2 of [2]
            2 abandoned
            invocation 2 ended, failed [0], abandoned [2, 1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_that_a_stopped_invocation_never_started_can_be_wanted_again() {
    let mut script = script(FailurePolicy::Wait, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let third = script.plain(&[second]);
    script.invoke(&[first, third]);
    script.fail(first);
    script.invoke(&[third]);
    script.ok(second);
    script.ok(third);
    expect![[r#"
        invocation 0 of [0, 2]
            start 0 on node 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned [2]
        invocation 1 of [2]
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 2 on node 0
        action 2 succeeded
            2 executed
            invocation 1 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_that_another_invocation_needs_outlives_the_stop_of_its_own() {
    let mut script = script(FailurePolicy::Wait, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let third = script.plain(&[second]);
    script.invoke(&[first, third]);
    script.invoke(&[third]);
    script.fail(first);
    script.ok(second);
    script.ok(third);
    expect![[r#"
        invocation 0 of [0, 2]
            start 0 on node 0
        invocation 1 of [2]
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned [2]
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 2 on node 0
        action 2 succeeded
            2 executed
            invocation 1 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn what_goes_on_after_the_stop_of_its_invocation_belongs_to_the_next_that_wants_it() {
    let mut script = Script::new(Config { failure: FailurePolicy::Wait, ..Config::default() });
    script.node(0, 2);
    let tried_twice = script.requirement(Requirement { retry: Some(1), ..Requirement::default() });
    let first = script.plain(&[]);
    let second = script.define(TaskKind::Plain, false, tried_twice, &[]);
    script.invoke(&[first, second]);
    script.fail(first);
    script.text();
    script.invoke(&[second]);
    script.fail(second);
    script.ok(second);
    expect![[r#"
        invocation 1 of [1]
            invocation 0 ended, failed [0], abandoned [1]
        action 1 failed
            attempt 1 of 1 failed, retried
            start 1 on node 0, attempt 2
        action 1 succeeded
            1 executed
            invocation 1 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_kill_reaches_the_invocations_that_aborted_actions_wait_for() {
    let mut script = script(FailurePolicy::Kill, 2);
    let (caller, other) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[caller, other]);
    let inner = script.plain(&[]);
    script.invoke_from(&[inner], Some(caller));
    script.fail(other);
    script.fail(inner);
    script.fail(caller);
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
            start 1 on node 0
        invocation 1 of [2] from 0
            start 2 on node 0
        action 1 failed
            attempt 1 of 1 failed, given up
            1 failed
            abort 0
            abort 2
        action 2 failed
            attempt 1 of 2 failed, given up
            2 failed
            invocation 1 ended, failed [2], abandoned []
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [1, 0], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_stop_ends_every_invocation_when_nothing_runs_any_more() {
    let mut script = script(FailurePolicy::Continue, 1);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[first, second]);
    script.stop(false);
    script.stop(true);
    script.fail(first);
    expect![[r#"
        invocation 0 of [0, 1]
            start 0 on node 0
        stop
        kill
            abort 0
        action 0 failed
            attempt 1 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_target_that_its_action_did_not_make_is_missing_and_later_than_any_time() {
    let mut script = script(FailurePolicy::Wait, 1);
    let first = script.file(None, &[]);
    let second = script.file(Some(5000), &[first]);
    script.invoke(&[second]);
    script.ok(first);
    script.fact(first, None);
    script.fact(second, Some(5000));
    expect![[r#"
        invocation 0 of [1]
            start 0 on node 0
        action 0 succeeded
            look at file 0
        file 0 is missing
            target 0 missing
            0 executed
            look at file 1
        file 1 is of 5000
            start 1 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_reader_elsewhere_is_uncharged_when_its_input_is_opened_again_for_a_lost_attempt() {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(0, 1);
    script.node(1, 1);
    let made = script.file(None, &[]);
    let readers = [script.file(None, &[made]), script.file(None, &[made])];
    script.invoke(&readers);
    script.ok(made);
    script.found(made, 1010, 0);
    for id in readers {
        script.fact(id, None);
    }
    let on_one = TaskState::Running { node: NodeId(1) };
    let is_there = |id: &u32| script.scheduler.task(TaskId(*id)).unwrap().state == on_one;
    let elsewhere = readers.into_iter().find(is_there).unwrap();
    let out = script.lose(0);
    assert!(out.contains(&Output::TaskReopened { id: TaskId(made) }), "{out:?}");
    script.come_back(0, 1, true);
    let out = script.fail(elsewhere);
    let (id, attempt) = (TaskId(elsewhere), 1);
    assert!(out.contains(&Output::AttemptFailed { id, attempt, retried: true }), "{out:?}");
}

/// Nothing is away any more by then, and nothing is open again.
#[test]
fn a_reader_does_not_run_again_when_its_input_was_opened_again_and_has_failed() {
    let failure = FailurePolicy::Continue;
    let mut script = Script::new(Config { failure, files_on_nodes: true, ..Config::default() });
    for node in 0..3 {
        script.node(node, 1);
    }
    let made = script.file(None, &[]);
    let other = script.plain(&[]);
    let readers = [script.file(None, &[made]), script.file(None, &[made])];
    script.invoke(&[other, readers[0], readers[1]]);
    script.ok(made);
    script.found(made, 1010, 0);
    for id in readers {
        script.fact(id, None);
    }
    let state = |script: &Script, id: u32| script.scheduler.task(TaskId(id)).unwrap().state;
    let runs_on = |id: u32| match state(&script, id) {
        TaskState::Running { node } => node.0,
        state => panic!("{state:?}"),
    };
    let elsewhere = readers.into_iter().find(|id| runs_on(*id) != 0).unwrap();
    script.lose(0);
    script.ok(other);
    let runs = state(&script, made);
    assert!(matches!(runs, TaskState::Running { .. }), "{runs:?}: {}", script.text());
    script.come_back(0, 1, true);
    script.fail(made);
    assert_eq!(state(&script, made), TaskState::Settled(Settled::Failed));
    script.fail(elsewhere);
    let abandoned = TaskState::Settled(Settled::Abandoned);
    assert_eq!(state(&script, elsewhere), abandoned, "{}", script.text());
}

/// Nobody makes it, only a node that is lost had it, and that node comes back without it.
#[test]
fn what_nothing_makes_and_nobody_has_any_more_is_not_waited_for() {
    for is_decided_before in [true, false] {
        let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
        script.node(0, 1);
        script.node(1, 1);
        let input = script.source(Some(5));
        let end = script.file(None, &[input]);
        script.found(input, 5, 0);
        let gone = Event::PlacesFound { id: TaskId(input), places: Places::Nowhere };
        script.lose(0);
        script.text();
        if is_decided_before {
            let out = script.invoke(&[end]);
            let lost = Output::InputLost { id: TaskId(input) };
            assert!(out.contains(&lost), "it may come back with its node: {out:?}");
            script.send("it is nowhere", gone);
        } else {
            script.send("it is nowhere", gone);
            script.invoke(&[end]);
        }
        script.come_back(0, 1, true);
        let states = [input, end].map(|id| script.scheduler.task(TaskId(id)).unwrap().state);
        let expected = [Settled::Failed, Settled::Abandoned].map(TaskState::Settled);
        assert_eq!(states, expected, "{}", script.text());
    }
}

/// Its node is given up, and before it is made again a node comes that has a copy.
#[test]
fn what_nobody_had_any_more_and_comes_to_light_is_not_made_again() {
    for found in [Places::One(NodeId(2)), Places::Many([NodeId(1), NodeId(2)].into())] {
        let policy = Policy::Fifo;
        let mut script = Script::new(Config { policy, files_on_nodes: true, ..Config::default() });
        script.node(0, 1);
        script.node(1, 1);
        let made = script.file(None, &[]);
        let slow = script.plain(&[made]);
        let end = script.plain(&[made, slow]);
        script.invoke(&[end]);
        script.ok(made);
        script.found(made, 1010, 0);
        let node = NodeId(1);
        let other = script.plain(&[]);
        script.invoke(&[other]);
        assert_eq!(
            script.scheduler.task(TaskId(other)).unwrap().state,
            TaskState::Running { node }
        );
        script.lose(0);
        script.give_up(0);
        let is_made = |script: &Script| script.scheduler.task(TaskId(made)).unwrap().state;
        assert_eq!(is_made(&script), TaskState::Ready);
        let id = TaskId(made);
        script.send("nowhere", Event::PlacesFound { id, places: Places::Nowhere });
        script.send("unknown", Event::PlacesFound { id, places: Places::Unknown });
        assert_eq!(is_made(&script), TaskState::Ready);
        script.send("found", Event::PlacesFound { id, places: found });
        assert_eq!(is_made(&script), TaskState::Settled(Settled::NotNeeded), "{}", script.text());
    }
}

/// A shell that was started anew gives a node up that has not joined yet, and hears what it has when it comes.
#[test]
fn what_lies_on_a_node_that_was_given_up_counts_when_it_is_found_as_that_comes() {
    for is_heard in [true, false] {
        let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
        let made = script.file(None, &[]);
        script.lose(0);
        script.give_up(0);
        if is_heard {
            script.send("node 0 comes", Event::NodeCame { id: NodeId(0) });
        }
        script.found(made, 1010, 0);
        script.come_back(0, 1, true);
        let out = script.invoke(&[made]);
        let settled = Output::TaskSettled { id: TaskId(made), how: Settled::NotNeeded };
        assert_eq!(out.contains(&settled), is_heard, "{}", script.text());
        assert_eq!(started(&out).contains(&made), !is_heard);
    }
}

#[test]
fn what_waits_for_a_source_goes_on_when_its_node_comes_back() {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(0, 1);
    script.node(1, 1);
    let input = script.source(Some(5));
    let reader = script.plain(&[input]);
    script.found(input, 5, 0);
    script.lose(0);
    let out = script.invoke(&[reader]);
    assert!(out.contains(&Output::InputLost { id: TaskId(input) }), "{out:?}");
    assert_eq!(started(&script.come_back(0, 1, true)), [reader], "{}", script.text());
}

/// It is found on a node that was given up, and that comes back later without a word about its files.
#[test]
fn what_nothing_makes_and_was_found_on_a_node_that_was_given_up_is_not_there() {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(1, 1);
    let input = script.source(Some(5));
    let end = script.file(None, &[input]);
    script.lose(0);
    script.give_up(0);
    script.found(input, 5, 0);
    script.come_back(0, 1, true);
    script.invoke(&[end]);
    let states = [input, end].map(|id| script.scheduler.task(TaskId(id)).unwrap().state);
    let expected = [Settled::Failed, Settled::Abandoned].map(TaskState::Settled);
    assert_eq!(states, expected, "{}", script.text());
}

#[test]
fn what_comes_and_goes_before_it_has_joined_has_nothing_when_it_is_given_up_again() {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(1, 1);
    let made = script.file(None, &[]);
    script.lose(0);
    script.give_up(0);
    script.send("node 0 comes", Event::NodeCame { id: NodeId(0) });
    script.found(made, 1010, 0);
    script.lose(0);
    script.give_up(0);
    assert_eq!(started(&script.invoke(&[made])), [made], "{}", script.text());
}

#[test]
fn what_a_reopened_task_needs_is_brought_back_when_a_stopped_invocation_had_given_it_back() {
    let mut script = Script::new(Config {
        policy: Policy::Fifo,
        failure: FailurePolicy::Wait,
        files_on_nodes: true,
        ..Config::default()
    });
    script.node(0, 1);
    let inner = script.file(None, &[]);
    let outer = script.file(None, &[inner]);
    script.invoke(&[outer]);
    script.ok(inner);
    script.found(inner, 1010, 0);
    script.fact(outer, None);
    script.ok(outer);
    script.found(outer, 1020, 0);
    let bad = script.plain(&[]);
    let last = script.plain(&[inner, bad]);
    script.node(1, 1);
    script.invoke(&[last]);
    script.lose(0);
    script.fail(bad);
    script.text();
    script.invoke(&[outer]);
    expect![[r#"
        invocation 2 of [1]
            1 open again
            start 0 on node 1, attempt 2
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_drained_node_is_used_again_when_the_others_are_taken_away_too_soon() {
    let mut script =
        Script::new(Config { policy: Policy::Fifo, retry: 1, drain_after: 1, ..Config::default() });
    script.node(0, 1);
    script.node(1, 1);
    let (well, badly) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[well, badly]);
    script.ok(well);
    let waits = script.plain(&[]);
    let also = script.plain(&[]);
    script.invoke(&[waits, also]);
    script.fail(badly);
    let (requirement, run_ns) = (RequirementId(0), 1_000);
    script.send("tasks take 1000", Event::DurationExpected { requirement, run_ns });
    script.text();
    script.send("node 0 ends at 1", Event::NodeEnds { id: NodeId(0), at: Time(1) });
    expect![[r#"
        node 0 ends at 1
            node 1 taken back
            start 3 on node 1
    "#]]
    .assert_eq(&script.text());
}

/// Three nodes of one core, the first drained over this task's failure. The others did well, and each runs a task.
fn one_drained(capacities: [Capacity; 3]) -> (Script, u32, [u32; 2]) {
    let mut script =
        Script::new(Config { policy: Policy::Fifo, retry: 1, drain_after: 1, ..Config::default() });
    for (node, capacity) in (0..).zip(capacities) {
        script.node_with(node, Capacity { cores: 1, ..capacity });
    }
    let tasks = [0; 3].map(|_| script.plain(&[]));
    let begun = placed(&script.invoke(&tasks));
    assert_eq!(begun, [(tasks[0], 0), (tasks[1], 1), (tasks[2], 2)]);
    script.ok(tasks[1]);
    script.ok(tasks[2]);
    let running = [0; 2].map(|_| script.plain(&[]));
    assert_eq!(placed(&script.invoke(&running)), [(running[0], 1), (running[1], 2)]);
    let drained = script.fail(tasks[0]);
    assert!(drained.contains(&Output::NodeDrained { id: NodeId(0), failures: 1 }), "{drained:?}");
    (script, tasks[0], running)
}

#[test]
fn a_failure_on_a_node_that_is_drained_over_it_uses_up_no_retry() {
    let (mut script, task, running) = one_drained([(); 3].map(|()| Capacity::default()));
    let view = script.scheduler.task(TaskId(task)).expect("it was defined");
    assert_eq!((view.attempt, view.uncounted), (1, 1));
    assert_eq!(placed(&script.ok(running[0])), [(task, 1)]);
}

#[test]
fn a_drained_node_is_not_used_while_others_can_run_everything() {
    let (mut script, task, running) = one_drained([(); 3].map(|()| Capacity::default()));
    assert_eq!(placed(&script.lose(1)), [], "the third is left");
    assert_eq!(placed(&script.ok(running[1])), [(task, 2)]);
    script.text();
    script.lose(2);
    expect![[r#"
        node 2 is lost
            attempt 2 of 0 lost with node 2, runs again
            node 0 taken back
            start 3 on node 0, attempt 2
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_drained_node_is_not_used_again_for_what_it_has_no_devices_for() {
    let with = Capacity { resources: vec![1], ..Capacity::default() };
    let (mut script, ..) = one_drained([Capacity::default(), with, Capacity::default()]);
    let resources = vec![(ResourceId(0), 1)];
    let device = script.requirement(Requirement { resources, ..Requirement::default() });
    let task = script.define(TaskKind::Plain, false, device, &[]);
    script.invoke(&[task]);
    let out = script.lose(1);
    assert!(out.contains(&Output::NowhereToRun { requirement: device }), "{out:?}");
    assert!(!out.contains(&Output::NodeTakenBack { id: NodeId(0) }), "{out:?}");
}

#[test]
fn a_task_that_a_stopped_invocation_shares_goes_to_the_owner_of_what_depends_on_it() {
    let mut script = script(FailurePolicy::Wait, 1);
    let (first, shared) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[first, shared]);
    let other = script.plain(&[shared]);
    script.invoke(&[other]);
    assert_eq!(started(&script.fail(first)), [shared]);
    assert_eq!(started(&script.ok(shared)), [other]);
    script.text();
    script.ok(other);
    expect![[r#"
        action 2 succeeded
            2 executed
            invocation 1 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_caller_that_ends_before_what_it_waits_for_takes_no_other_callers_share() {
    let mut script = script(FailurePolicy::Continue, 2);
    let callers = [script.plain(&[]), script.plain(&[])];
    script.invoke(&callers);
    let inner = callers.map(|caller| {
        let inner = script.plain(&[]);
        assert_eq!(started(&script.invoke_from(&[inner], Some(caller))), [inner]);
        inner
    });
    let free = |script: &Script| script.scheduler.node(NodeId(0)).map(|node| node.cores_free);
    assert_eq!(free(&script), Some(0), "both have lent their cores");
    script.fail(callers[0]);
    assert_eq!(free(&script), Some(0), "its core is used by what it has invoked");
    script.ok(inner[1]);
    assert_eq!(free(&script), Some(0), "the other one has its core again");
    script.ok(inner[0]);
    assert_eq!(free(&script), Some(1));
    script.ok(callers[1]);
    assert_eq!(free(&script), Some(2));
}

#[test]
fn an_action_that_is_given_back_begins_again_as_the_same_attempt() {
    let mut script = script(FailurePolicy::Wait, 1);
    let id = script.plain(&[]);
    script.invoke(&[id]);
    script.end(id, ActionOutcome::GivenBack);
    script.ok(id);
    expect![[r#"
        invocation 0 of [0]
            start 0 on node 0
        action 0 givenback
            start 0 on node 0
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

/// A file that went with its node is made again elsewhere, comes back with the node meanwhile or not, and the action
/// that makes it again is given back before it has begun.
fn given_back_while_its_file(comes_back: bool) -> String {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(0, 1);
    let made = script.file(None, &[]);
    let reader = script.file(None, &[made]);
    script.invoke(&[reader]);
    script.ok(made);
    script.found(made, 1010, 0);
    script.fact(reader, None);
    script.node(1, 1);
    script.lose(0);
    script.text();
    if comes_back {
        script.come_back(0, 1, true);
    }
    script.end(made, ActionOutcome::GivenBack);
    script.text()
}

#[test]
fn what_is_to_be_made_again_and_has_come_back_is_not_made() {
    expect![[r#"
        node 0 joins again with its files
        action 0 givenback
            0 not needed
            look at file 1
    "#]]
    .assert_eq(&given_back_while_its_file(true));
    expect![[r#"
        action 0 givenback
            start 0 on node 1, attempt 2
    "#]]
    .assert_eq(&given_back_while_its_file(false));
}

#[test]
fn what_was_out_of_reach_from_the_first_and_has_come_back_is_not_made() {
    let mut script = Script::new(Config { files_on_nodes: true, ..Config::default() });
    script.node(0, 1);
    script.node(1, 1);
    let made = script.file(None, &[]);
    let reader = script.file(None, &[made]);
    script.found(made, 5, 0);
    script.lose(0);
    assert_eq!(started(&script.invoke(&[reader])), [made]);
    script.come_back(0, 1, true);
    let out = script.end(made, ActionOutcome::GivenBack);
    let (id, how) = (TaskId(made), Settled::NotNeeded);
    assert!(out.contains(&Output::TaskSettled { id, how }), "{out:?}");
    assert!(!started(&out).contains(&made), "{out:?}");
}
