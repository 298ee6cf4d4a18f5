//! Which tasks run: rake's rule, with what it takes to find out.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, started};
use expect_test::expect;
use rakuda_core::{Config, Policy, Reason, RequirementId, TaskId, TaskKind, Timestamp};

fn one_node(config: Config) -> Script {
    let mut script = Script::new(config);
    script.node(0, 1);
    script.text();
    script
}

fn fifo() -> Config {
    Config { policy: Policy::Fifo, ..Config::default() }
}

#[test]
fn an_up_to_date_run_asks_and_starts_nothing() {
    let mut script = one_node(fifo());
    let source = script.file(Some(1), &[]);
    let object = script.file(Some(2), &[source]);
    script.file(Some(3), &[object]);
    script.invoke(&[2]);
    expect![[r#"
        invocation 0 of [2]
            0 not needed
            1 not needed
            2 not needed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_newer_source_rebuilds_all_that_depends_on_it() {
    let mut script = one_node(fifo());
    let source = script.file(Some(5), &[]);
    let object = script.file(Some(2), &[source]);
    script.file(Some(3), &[object]);
    script.invoke(&[2]);
    script.ok(1);
    script.fact(1, Some(1020));
    script.fact(2, Some(3));
    script.ok(2);
    script.fact(2, Some(1030));
    expect![[r#"
        invocation 0 of [2]
            0 not needed
            start 1 on node 0
        action 1 succeeded
            look at file 1
        file 1 is of 1020
            1 executed
            look at file 2
        file 2 is of 3
            start 2 on node 0
        action 2 succeeded
            look at file 2
        file 2 is of 1030
            2 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
    assert_eq!(script.scheduler.task(TaskId(1)).map(|task| task.reason), Some(Reason::OutOfDate));
}

#[test]
fn the_newest_of_all_transitive_prerequisites_counts() {
    // As rake 13 has it: 2 is rebuilt because of 0, although 1 is a directory and hides its own time.
    let mut script = one_node(fifo());
    let source = script.file(Some(5), &[]);
    let directory = script.define(TaskKind::Directory, false, RequirementId(0), &[source]);
    script.fact(directory, Some(9));
    script.file(Some(3), &[directory]);
    script.text();
    script.invoke(&[2]);
    expect![[r#"
        invocation 0 of [2]
            0 not needed
            1 not needed
            start 2 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_disturbed_file_and_its_sources_are_looked_at_again() {
    let mut script = one_node(fifo());
    let plain = script.plain(&[]);
    let source = script.file(Some(5), &[plain]);
    script.file(Some(9), &[source]);
    script.invoke(&[2]);
    script.ok(plain);
    script.fact(source, Some(5));
    script.ok(source);
    script.fact(source, None);
    script.fact(2, Some(9));
    expect![[r#"
        invocation 0 of [2]
            start 0 on node 0
        action 0 succeeded
            0 executed
            look at file 1
        file 1 is of 5
            start 1 on node 0
        action 1 succeeded
            look at file 1
        file 1 is missing
            target 1 missing
            1 executed
            look at file 2
        file 2 is of 9
            start 2 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn serial_runs_in_rakes_order_and_looks_at_files_when_their_turn_comes() {
    let mut script = Script::new(Config { policy: Policy::Serial, ..Config::default() });
    script.node(0, 8);
    script.text();
    let first = script.plain(&[]);
    let source = script.file(Some(5), &[]);
    let target = script.file(Some(9), &[source]);
    let last = script.plain(&[]);
    let all = script.plain(&[first, target, last]);
    script.invoke(&[all]);
    // What nobody has asked for does not bring another one's turn on.
    script.fact(target, Some(9));
    script.ok(first);
    script.fact(source, Some(5));
    script.fact(target, Some(9));
    script.ok(last);
    script.ok(all);
    expect![[r#"
        invocation 0 of [4]
            start 0 on node 0
        file 2 is of 9
        action 0 succeeded
            0 executed
            look at file 1
        file 1 is of 5
            1 not needed
            look at file 2
        file 2 is of 9
            2 not needed
            start 3 on node 0
        action 3 succeeded
            3 executed
            start 4 on node 0
        action 4 succeeded
            4 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn an_asked_task_is_asked_again_after_its_action_for_its_new_timestamp() {
    let mut script = one_node(fifo());
    let asked = script.define(TaskKind::Asked, false, RequirementId(0), &[]);
    let file = script.file(Some(9), &[asked]);
    script.invoke(&[file]);
    script.answer(asked, true, Timestamp::At(3.into()));
    script.ok(asked);
    script.answer(asked, false, Timestamp::At(20.into()));
    script.fact(file, Some(9));
    expect![[r#"
        invocation 0 of [1]
            ask 0
        task 0 is needed, At(3)
            start 0 on node 0
        action 0 succeeded
            ask 0
        task 0 is not needed, At(20)
            0 executed
            look at file 1
        file 1 is of 9
            start 1 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_file_without_a_fact_is_looked_at_before_it_is_decided() {
    let mut script = one_node(fifo());
    let file = script.define(TaskKind::File, false, RequirementId(0), &[]);
    script.invoke(&[file]);
    script.fact(file, Some(4));
    expect![[r#"
        invocation 0 of [0]
            look at file 0
        file 0 is of 4
            0 not needed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_dry_run_starts_actions_but_looks_at_nothing_afterwards() {
    let mut script = one_node(Config { dry_run: true, ..fifo() });
    let source = script.file(None, &[]);
    script.file(Some(9), &[source]);
    script.invoke(&[1]);
    script.ok(0);
    script.ok(1);
    expect![[r#"
        invocation 0 of [1]
            start 0 on node 0
        action 0 succeeded
            0 executed
            start 1 on node 0
        action 1 succeeded
            1 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn in_a_dry_run_what_would_be_made_is_newer_than_its_dependents() {
    let mut script = one_node(Config { dry_run: true, ..fifo() });
    let source = script.file(Some(9), &[]);
    let made = script.file(Some(5), &[source]);
    let last = script.file(Some(20), &[made]);
    script.text();
    script.invoke(&[last]);
    script.ok(made);
    script.ok(last);
    expect![[r#"
        invocation 0 of [2]
            0 not needed
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 2 on node 0
        action 2 succeeded
            2 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
    let view = script.scheduler.task(TaskId(made)).unwrap();
    assert_eq!((view.modified_ns, view.timestamp), (Some(5), Timestamp::Now));
}

#[test]
fn a_file_that_is_up_to_date_runs_all_the_same_when_it_was_made_otherwise() {
    let mut script = one_node(Config { compares: true, ..fifo() });
    let same = script.file(Some(9), &[]);
    let other = script.file(Some(9), &[]);
    let missing = script.file(None, &[]);
    script.text();
    script.invoke(&[same, other, missing]);
    script.compared(same, false);
    script.compared(other, true);
    expect![[r#"
        invocation 0 of [0, 1, 2]
            compare 0
            compare 1
            start 2 on node 0
        file 0 was made the same
            0 not needed
        file 1 was made otherwise
    "#]]
    .assert_eq(&script.text());
    let reasons = [same, other].map(|id| script.scheduler.task(TaskId(id)).unwrap().reason);
    assert_eq!(reasons, [Reason::UpToDate, Reason::Demanded]);
}

#[test]
fn a_comparison_that_was_asked_for_before_a_prerequisite_was_added_counts_no_more() {
    let mut script = one_node(Config { compares: true, ..fifo() });
    let file = script.file(Some(9), &[]);
    script.text();
    script.invoke(&[file]);
    let late = script.file(Some(3), &[]);
    script.add(file, &[late]);
    script.compared(file, true);
    script.compared(late, false);
    script.compared(file, false);
    expect![[r#"
        invocation 0 of [0]
            compare 0
        task 0 also needs [1]
            compare 1
        file 0 was made otherwise
        file 1 was made the same
            1 not needed
            compare 0
        file 0 was made the same
            0 not needed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_comparison_of_a_stopped_invocation_gives_the_file_back() {
    let mut script = one_node(Config { compares: true, ..fifo() });
    let file = script.file(Some(9), &[]);
    script.text();
    script.invoke(&[file]);
    script.stop(false);
    script.compared(file, true);
    expect![[r#"
        invocation 0 of [0]
            compare 0
        stop
        file 0 was made otherwise
            invocation 0 ended, failed [], abandoned [0]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_deferred_task_is_resolved_when_what_precedes_it_is_settled_and_does_not_count_it() {
    let mut script = one_node(fifo());
    let before = script.plain(&[]);
    let deferred = script.define(TaskKind::File, true, RequirementId(0), &[before]);
    script.fact(deferred, Some(9));
    script.text();
    script.invoke(&[deferred]);
    script.ok(before);
    let found = script.file(Some(3), &[]);
    script.add(deferred, &[found]);
    script.resolved(deferred, true);
    expect![[r#"
        invocation 0 of [1]
            start 0 on node 0
        action 0 succeeded
            0 executed
            resolve 1
        task 1 also needs [2]
        task 1 is resolved
            2 not needed
            1 not needed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn serial_runs_what_a_resolution_found_before_anything_else() {
    let mut script = one_node(Config { policy: Policy::Serial, ..Config::default() });
    let deferred = script.define(TaskKind::Plain, true, RequirementId(0), &[]);
    let between = script.plain(&[]);
    let last = script.plain(&[]);
    script.invoke(&[deferred, between, last]);
    script.add(deferred, &[last]);
    script.resolved(deferred, true);
    script.ok(last);
    script.ok(deferred);
    expect![[r#"
        invocation 0 of [0, 1, 2]
            resolve 0
        task 0 also needs [2]
        task 0 is resolved
            start 2 on node 0
        action 2 succeeded
            2 executed
            start 0 on node 0
        action 0 succeeded
            0 executed
            start 1 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_that_cannot_be_resolved_fails_without_a_retry() {
    let mut script = one_node(Config { retry: 3, ..fifo() });
    let deferred = script.define(TaskKind::File, true, RequirementId(0), &[]);
    let all = script.plain(&[deferred]);
    script.invoke(&[all]);
    script.resolved(deferred, false);
    expect![[r#"
        invocation 0 of [1]
            resolve 0
        task 0 is not resolved
            0 failed
            1 abandoned
            invocation 0 ended, failed [0], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn prerequisites_added_to_a_queued_task_take_it_back() {
    let mut script = Script::new(fifo());
    let first = script.plain(&[]);
    script.invoke(&[first]);
    let second = script.plain(&[]);
    script.add(first, &[second]);
    script.node(0, 4);
    script.ok(second);
    script.ok(first);
    expect![[r#"
        invocation 0 of [0]
        task 0 also needs [1]
        node 0 joins with 4 cores
            start 1 on node 0
        action 1 succeeded
            1 executed
            start 0 on node 0
        action 0 succeeded
            0 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_prerequisite_that_is_done_leaves_a_queued_task_in_its_queue() {
    let mut script = one_node(fifo());
    let done = script.plain(&[]);
    script.invoke(&[done]);
    script.ok(done);
    let (busy, task) = (script.plain(&[]), script.plain(&[]));
    assert_eq!(started(&script.invoke(&[busy, task])), [busy]);
    assert!(script.add(task, &[done]).is_empty());
    assert_eq!(started(&script.ok(busy)), [task]);
}

#[test]
fn a_prerequisite_that_a_stopped_invocation_gave_back_is_made_when_it_is_added() {
    let mut script = one_node(fifo());
    let (first, given_back) = (script.plain(&[]), script.plain(&[]));
    script.invoke(&[first, given_back]);
    script.fail(first);
    let (busy, task) = (script.plain(&[]), script.plain(&[]));
    assert_eq!(started(&script.invoke(&[busy, task])), [busy]);
    assert!(script.add(task, &[given_back]).is_empty());
    assert_eq!(started(&script.ok(busy)), [given_back]);
    assert_eq!(started(&script.ok(given_back)), [task]);
}

#[test]
fn an_answer_that_comes_after_prerequisites_were_added_is_asked_for_again() {
    let mut script = one_node(fifo());
    let asked = script.define(TaskKind::Asked, false, RequirementId(0), &[]);
    let file = script.define(TaskKind::File, false, RequirementId(0), &[]);
    script.invoke(&[asked, file]);
    let (second, third) = (script.plain(&[]), script.plain(&[]));
    script.add(asked, &[second]);
    script.add(file, &[third]);
    script.ok(second);
    script.answer(asked, true, Timestamp::Now);
    script.ok(third);
    script.fact(file, None);
    script.fact(file, Some(1));
    script.answer(asked, false, Timestamp::Early);
    expect![[r#"
        invocation 0 of [0, 1]
            ask 0
            look at file 1
        task 0 also needs [2]
            start 2 on node 0
        task 1 also needs [3]
        action 2 succeeded
            2 executed
            ask 0
            start 3 on node 0
        task 0 is needed, Now
        action 3 succeeded
            3 executed
            look at file 1
        file 1 is missing
        file 1 is of 1
            start 1 on node 0
        task 0 is not needed, Early
            0 not needed
    "#]]
    .assert_eq(&script.text());
}
