//! Scenarios where servers of their own hand files out (Gfarm): a lost node takes no file with it,
//! and what the shell finds out of reach is made again, or waited for.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, started};
use expect_test::expect;
use rakuda_core::{
    Config, Event, NodeId, Output, Places, Policy, Requirement, TaskId, TaskKind, TaskState,
};

fn script() -> Script {
    let config = Config { files_on_nodes: true, files_apart: true, ..Config::default() };
    let mut script = Script::new(config);
    script.node(0, 1);
    script.node(1, 1);
    script
}

/// A file that node 0 has, and one that is made of it.
fn chain(script: &mut Script) -> (u32, u32) {
    let made = script.file(None, &[]);
    let end = script.file(None, &[made]);
    script.invoke(&[end]);
    script.ok(made);
    script.found(made, 1010, 0);
    script.fact(end, None);
    (made, end)
}

fn places(script: &mut Script, id: u32, places: Places) -> Vec<Output> {
    let line = format!("file {id} is found at {places:?}");
    script.send(&line, Event::PlacesFound { id: TaskId(id), places })
}

#[test]
fn a_lost_node_takes_no_file_with_it() {
    let mut script = script();
    let (_, end) = chain(&mut script);
    script.text();
    let out = script.lose(0);
    assert_eq!(started(&out), [end], "it runs again on the other node, and nothing else does");
    expect![[r#"
        node 0 is lost
            attempt 1 of 1 lost with node 0, runs again
            start 1 on node 1, attempt 2
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_reader_that_failed_over_a_file_out_of_reach_runs_again_once_that_is_made_again() {
    let mut script = script();
    let (made, end) = chain(&mut script);
    script.text();
    places(&mut script, made, Places::Nowhere);
    script.fail(end);
    script.ok(made);
    script.found(made, 2000, 1);
    script.fact(end, None);
    script.ok(end);
    script.fact(end, Some(2010));
    expect![[r#"
        file 0 is found at Nowhere
        action 1 failed
            attempt 1 of 1 failed, retried
            0 open again
            start 0 on node 0, attempt 2
        action 0 succeeded
            look at file 0
        file 0 is of 2000 on node 1
            0 executed
            look at file 1
        file 1 is missing
            start 1 on node 1, attempt 2
        action 1 succeeded
            look at file 1
        file 1 is of 2010
            1 executed
            invocation 0 ended well
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_task_that_failed_over_a_file_behind_its_prerequisites_runs_again_once_that_is_made_again() {
    let mut script = script();
    let made = script.file(None, &[]);
    let group = script.bare(&[made]);
    let end = script.file(None, &[group]);
    script.invoke(&[end]);
    script.ok(made);
    script.found(made, 1010, 0);
    script.fact(end, None);
    script.text();
    places(&mut script, made, Places::Nowhere);
    for _ in 0..2 {
        let (id, input) = (TaskId(end), TaskId(made));
        script.send("it lacked the file", Event::InputLacked { id, input });
    }
    script.fail(end);
    script.ok(made);
    script.found(made, 2000, 1);
    script.fact(end, None);
    script.fail(end);
    expect![[r#"
        file 0 is found at Nowhere
        it lacked the file
        it lacked the file
        action 2 failed
            attempt 1 of 2 failed, retried
            0 open again
            start 0 on node 1, attempt 2
        action 0 succeeded
            look at file 0
        file 0 is of 2000 on node 1
            0 executed
            look at file 2
        file 2 is missing
            start 2 on node 1, attempt 2
        action 2 failed
            attempt 2 of 2 failed, given up
            2 failed
            invocation 0 ended, failed [2], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_failure_that_is_uncharged_uses_up_no_retry() {
    let mut script = script();
    let end = script.file(None, &[]);
    script.invoke(&[end]);
    script.text();
    for _ in 0..2 {
        script.send("it is uncharged", Event::FailureUncharged { id: TaskId(end) });
        script.fail(end);
    }
    script.fail(end);
    expect![[r#"
        it is uncharged
        action 0 failed
            attempt 1 of 0 failed, retried
            start 0 on node 0, attempt 2
        it is uncharged
        action 0 failed
            attempt 2 of 0 failed, retried
            start 0 on node 0, attempt 3
        action 0 failed
            attempt 3 of 0 failed, given up
            0 failed
            invocation 0 ended, failed [0], abandoned []
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn a_failure_that_is_uncharged_is_followed_at_once_by_an_attempt_that_needs_no_more() {
    let mut script = script();
    let retry = Some(1);
    let more = script.requirement(Requirement { retry, ..Requirement::default() });
    let (retry_delay_ns, after_failure) = (5, Some(more));
    let first = Requirement { retry, retry_delay_ns, after_failure, ..Requirement::default() };
    let first = script.requirement(first);
    let task = script.define(TaskKind::Plain, false, first, &[]);
    let id = TaskId(task);
    let requirement = |script: &Script| script.scheduler.task(id).unwrap().requirement;
    script.invoke(&[task]);
    script.send("it is uncharged", Event::FailureUncharged { id });
    assert_eq!(started(&script.fail(task)), [task]);
    assert_eq!(requirement(&script), first);
    let out = script.fail(task);
    assert!(out.contains(&Output::RetryDelayed { id, attempt: 2, delay_ns: 5 }), "{out:?}");
    assert_eq!(requirement(&script), more);
}

#[test]
fn a_file_that_is_handed_out_again_is_not_made_again() {
    let mut script = script();
    let busy = [script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let made = script.file(Some(5), &[]);
    let end = script.file(None, &[made]);
    script.invoke(&[end]);
    assert_eq!(script.scheduler.task(TaskId(end)).unwrap().state, TaskState::Ready);
    let out = places(&mut script, made, Places::Nowhere);
    assert_eq!(out, [Output::TaskReopened { id: TaskId(made) }], "its reader is queued");
    let out = places(&mut script, made, Places::One(NodeId(1)));
    assert!(
        out.iter().any(|output| matches!(output, Output::TaskSettled { id, .. } if id.0 == made))
    );
    assert_eq!(started(&script.ok(busy[1])), [end]);
}

#[test]
fn an_input_that_nothing_makes_is_waited_for_until_it_is_given_up() {
    let mut script = script();
    let id = TaskId(script.source(Some(5)));
    let end = script.file(None, &[id.0]);
    places(&mut script, id.0, Places::Nowhere);
    script.text();
    script.invoke(&[end]);
    script.send("it is given up", Event::FileGivenUp { id });
    expect![[r#"
        invocation 0 of [1]
            input 0 lost
        it is given up
            0 failed
            1 abandoned
            invocation 0 ended, failed [0], abandoned [1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn files_that_come_back_together_are_not_made_again_for_one_another() {
    let policy = Policy::Fifo;
    let config = Config { files_on_nodes: true, files_apart: true, policy, ..Config::default() };
    let mut script = Script::new(config);
    script.node(0, 1);
    script.node(1, 1);
    let first = script.file(None, &[]);
    let second = script.file(None, &[first]);
    let new = script.file(None, &[]);
    let end = script.file(None, &[second, new]);
    let long = script.plain(&[]);
    let after = script.plain(&[new, long]);
    script.invoke(&[end, after]);
    for (file, at) in [(first, 1000), (new, 1001), (second, 1002), (end, 1003)] {
        if file == second || file == end {
            script.fact(file, None);
        }
        script.ok(file);
        script.found(file, at, 0);
    }
    // What is left waits for `long`, and has `new` made again: it is newer than `end` now.
    places(&mut script, new, Places::Nowhere);
    script.ok(new);
    script.found(new, 2000, 0);
    let busy = script.plain(&[]);
    script.invoke(&[busy]);
    for file in [first, second, new, end] {
        places(&mut script, file, Places::Nowhere);
    }
    assert_eq!(script.scheduler.task(TaskId(new)).unwrap().state, TaskState::Ready);
    script.text();
    // With `new`, all that `end` waits for is there. It runs again, and reads `second`: that is back, too.
    let files = [first, second, new, end].map(|id| (TaskId(id), Places::One(NodeId(0))));
    script.send("all are back", Event::FilesFound { files: files.to_vec() });
    assert_eq!(started(&script.ok(busy)), [end]);
    expect![[r#"
        all are back
            2 not needed
        action 6 succeeded
            6 executed
            invocation 1 ended well
            start 3 on node 0, attempt 2
    "#]]
    .assert_eq(&script.text());
}
