//! The core of a task that has ended is given away when it is decided what that makes ready.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, placed};
use expect_test::expect;
use rakuda_core::{
    Config, Event, Fact, NodeId, Output, Places, Policy, RequirementId, TaskId, TaskKind,
};

fn lifo() -> Config {
    Config { policy: Policy::Lifo, locality: false, ..Config::default() }
}

/// Chains of two files, `firsts` and `seconds`; nodes of one core, each with the first task of a
/// chain, and some of these left.
struct Chains {
    script: Script,
    firsts: Vec<u32>,
    seconds: Vec<u32>,
}

fn chains(config: Config, nodes: u32, count: u32) -> Chains {
    let mut script = Script::new(config);
    let firsts: Vec<u32> = (0..count).map(|_| script.file(None, &[])).collect();
    let seconds: Vec<u32> = firsts.iter().map(|first| script.file(None, &[*first])).collect();
    for node in 0..nodes {
        script.node(node, 1);
    }
    script.invoke(&seconds);
    script.text();
    Chains { script, firsts, seconds }
}

/// The task that runs on a node.
fn on_node(script: &Script, node: u32) -> Option<u32> {
    script.scheduler.running_on(NodeId(node)).next().map(|id| id.0)
}

#[test]
fn a_node_goes_on_with_what_reads_the_file_that_it_has_just_made() {
    let Chains { mut script, firsts, seconds } = chains(lifo(), 2, 3);
    let ended = on_node(&script, 1).unwrap();
    assert_eq!(ended, firsts[1]);
    script.ok(ended);
    assert_eq!(script.scheduler.node(NodeId(1)).map(|node| node.cores_free), Some(0));
    script.fact(ended, Some(1010));
    script.fact(seconds[1], None);
    expect![[r#"
        action 1 succeeded
            look at file 1
        file 1 is of 1010
            1 executed
            look at file 4
        file 4 is missing
            start 4 on node 1
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn two_nodes_whose_tasks_end_together_each_go_on_with_their_own_file() {
    let Chains { mut script, firsts, seconds } = chains(lifo(), 2, 4);
    let ended = [on_node(&script, 0).unwrap(), on_node(&script, 1).unwrap()];
    for first in ended {
        assert_eq!(placed(&script.ok(first)), []);
    }
    for first in ended {
        assert_eq!(placed(&script.fact(first, Some(1010))), []);
    }
    for (node, first) in (0..).zip(ended) {
        let second = seconds[firsts.iter().position(|other| *other == first).unwrap()];
        assert_eq!(placed(&script.fact(second, None)), [(second, node)]);
    }
}

#[test]
fn a_core_whose_task_makes_nothing_ready_is_given_away_at_once() {
    let mut script = Script::new(lifo());
    let files: Vec<u32> = (0..4).map(|_| script.file(None, &[])).collect();
    let all = script.file(None, &files);
    script.node(0, 1);
    script.node(1, 1);
    script.invoke(&[all]);
    let first = on_node(&script, 0).unwrap();
    let out = script.ok(first);
    assert_eq!(placed(&out).len(), 1, "its dependent misses others: {out:?}");
}

#[test]
fn on_the_only_node_no_core_is_kept() {
    let Chains { mut script, .. } = chains(lifo(), 1, 3);
    let first = on_node(&script, 0).unwrap();
    assert_eq!(placed(&script.ok(first)).len(), 1);
}

#[test]
fn a_core_waits_for_no_answer_of_ruby() {
    let mut script = Script::new(lifo());
    let firsts: Vec<u32> = (0..3).map(|_| script.file(None, &[])).collect();
    let mut second =
        |first: &u32| script.define(TaskKind::Asked, false, RequirementId(0), &[*first]);
    let seconds: Vec<u32> = firsts.iter().map(&mut second).collect();
    script.node(0, 1);
    script.node(1, 1);
    script.invoke(&seconds);
    let first = on_node(&script, 0).unwrap();
    assert_eq!(placed(&script.ok(first)), []);
    let out = script.fact(first, Some(1010));
    assert!(out.iter().any(|output| matches!(output, Output::AskNeeded { .. })), "{out:?}");
    assert_eq!(placed(&out).len(), 1, "{out:?}");
}

#[test]
fn a_task_that_leads_on_through_one_that_only_names_it_keeps_its_core_too() {
    let mut script = Script::new(lifo());
    let firsts: Vec<u32> = (0..3).map(|_| script.file(None, &[])).collect();
    let names: Vec<u32> = firsts.iter().map(|first| script.bare(&[*first])).collect();
    let seconds: Vec<u32> = names.iter().map(|name| script.file(None, &[*name])).collect();
    script.node(0, 1);
    script.node(1, 1);
    script.invoke(&seconds);
    let first = on_node(&script, 1).unwrap();
    script.ok(first);
    assert_eq!(placed(&script.fact(first, Some(1010))), []);
    let second = seconds[firsts.iter().position(|other| *other == first).unwrap()];
    assert_eq!(placed(&script.fact(second, None)), [(second, 1)]);
}

#[test]
fn a_core_is_not_kept_for_more_looks_than_64() {
    for (count, starts) in [(64, 0), (65, 1)] {
        let mut script = Script::new(Config { policy: Policy::Fifo, ..lifo() });
        let first = script.file(None, &[]);
        let others = [script.file(None, &[]), script.file(None, &[])];
        let mut wanted: Vec<u32> = (0..count).map(|_| script.file(None, &[first])).collect();
        wanted.extend(others);
        script.node(0, 1);
        script.node(1, 1);
        script.invoke(&wanted);
        script.ok(first);
        assert_eq!(script.scheduler.queued(), 1);
        let out = script.fact(first, Some(1010));
        assert_eq!(placed(&out).len(), starts, "{count} looks");
    }
}

#[test]
fn a_core_that_is_kept_goes_with_its_node_and_comes_back_free() {
    let Chains { mut script, firsts, seconds } = chains(lifo(), 2, 3);
    let ended = on_node(&script, 1).unwrap();
    script.ok(ended);
    let out = script.lose(1);
    assert!(!out.iter().any(|output| matches!(output, Output::AttemptLost { .. })), "{out:?}");
    assert_eq!(placed(&script.node(1, 1)).len(), 1, "the last of {firsts:?}");
    // Nothing is given away once more when the answers come.
    assert_eq!(placed(&script.fact(ended, Some(1010))), []);
    assert_eq!(placed(&script.fact(seconds[1], None)), []);
    assert_eq!(script.scheduler.node(NodeId(1)).map(|node| node.cores_free), Some(0));
}

#[test]
fn a_stop_gives_a_kept_core_back() {
    let Chains { mut script, seconds, .. } = chains(lifo(), 2, 3);
    let ended = on_node(&script, 1).unwrap();
    script.ok(ended);
    script.fact(ended, Some(1010));
    script.stop(false);
    script.fact(seconds[1], None);
    assert_eq!(script.scheduler.node(NodeId(1)).map(|node| node.cores_free), Some(1));
}

#[test]
fn what_is_made_again_while_its_core_is_kept_gives_that_core_back() {
    let config = Config { files_on_nodes: true, files_apart: true, ..lifo() };
    let Chains { mut script, firsts, seconds } = chains(config, 2, 2);
    let ended = on_node(&script, 1).unwrap();
    script.ok(ended);
    script.found(ended, 1010, 1);
    let id = TaskId(ended);
    script.send("out of reach", Event::PlacesFound { id, places: rakuda_core::Places::Nowhere });
    let second = seconds[firsts.iter().position(|other| *other == ended).unwrap()];
    // What needs it is decided only now.
    assert_eq!(placed(&script.fact(second, None)), [(ended, 1)]);
}

/// It would take at once what is queued for the node that has the input.
#[test]
fn no_core_is_kept_while_another_node_has_nothing_to_do() {
    let mut script = Script::new(Config { policy: Policy::Lifo, ..Config::default() });
    let gather = script.define(TaskKind::Plain, false, RequirementId(0), &[]);
    let sources: Vec<u32> = (0..2).map(|_| script.source(Some(1))).collect();
    let files: Vec<u32> =
        sources.iter().map(|source| script.file(None, &[*source, gather])).collect();
    script.node(0, 1);
    script.node(1, 1);
    script.invoke(&files);
    assert_eq!(on_node(&script, 0), Some(gather));
    let mut out = script.ok(gather);
    for ((node, source), file) in (0..).zip(&sources).zip(&files) {
        let places = Places::One(NodeId(node));
        let fact = Fact { modified_ns: Some(1), bytes: 1, places };
        out.extend(script.send("", Event::FactGathered { id: TaskId(*source), fact }));
        out.extend(script.fact(*file, None));
    }
    let wanted: Vec<(u32, u32)> = files.iter().copied().zip(0..).collect();
    let mut starts = placed(&out);
    starts.sort_unstable();
    assert_eq!(starts, wanted);
}
