//! What starts where: candidates, queues, stealing, capacity, reservations.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, placed, started};
use expect_test::expect;
use rakuda_core::{
    Capacity, Config, NodeId, Policy, Requirement, RequirementId, ResourceId, TaskId, TaskKind,
};

fn script(config: Config) -> Script {
    Script::new(config)
}

fn fifo() -> Config {
    Config { policy: Policy::Fifo, ..Config::default() }
}

#[test]
fn a_task_goes_to_the_node_that_holds_its_input() {
    let mut script = script(fifo());
    for node in 0..3 {
        script.node(node, 1);
    }
    let inputs = [script.input(10, &[2]), script.input(10, &[0]), script.input(10, &[1])];
    let wanted: Vec<u32> = inputs.iter().map(|input| script.plain(&[*input])).collect();
    let mut places = placed(&script.invoke(&wanted));
    places.sort_unstable();
    assert_eq!(places, [(3, 2), (4, 0), (5, 1)]);
}

#[test]
fn every_node_with_at_least_half_of_the_largest_sum_is_a_candidate() {
    let mut script = script(fifo());
    for node in 0..4 {
        script.node(node, 1);
    }
    let busy: Vec<u32> = (0..4).map(|_| script.plain(&[])).collect();
    script.invoke(&busy);
    let inputs = [
        script.input(6, &[0]),
        script.input(4, &[0, 1]),
        script.input(1, &[1, 2, 3]),
        script.input(4, &[3]),
    ];
    let task = script.plain(&inputs);
    script.invoke(&[task]);
    // Sums: 10, 5, 1, 5.
    let nodes = [NodeId(0), NodeId(1), NodeId(3)];
    assert_eq!(script.scheduler.candidate_nodes(TaskId(task)), nodes);
    assert_eq!(script.scheduler.queued(), 1);
    assert_eq!(placed(&script.ok(busy[1])), [(task, 1)]);
    for node in nodes {
        assert_eq!(script.scheduler.node(node).map(|node| node.queued), Some(0));
    }
}

#[test]
fn the_remote_queue_comes_before_stealing_and_after_the_own_queue() {
    let mut script = script(fifo());
    script.node(0, 1);
    script.node(1, 1);
    let busy = [script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let (here, there) = (script.input(1, &[0]), script.input(1, &[1]));
    let elsewhere = script.plain(&[there]);
    let remote = script.plain(&[]);
    let own = script.plain(&[here]);
    script.invoke(&[elsewhere, remote, own]);
    assert_eq!(started(&script.ok(busy[0])), [own]);
    assert_eq!(started(&script.ok(own)), [remote]);
    assert_eq!(started(&script.ok(remote)), [elsewhere]);
}

#[test]
fn a_thief_steals_from_the_longest_queue() {
    let mut script = script(fifo());
    for node in 0..3 {
        script.node(node, 1);
    }
    let busy = [script.plain(&[]), script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let inputs = [script.input(1, &[1]), script.input(1, &[2]), script.input(1, &[2])];
    let tasks: Vec<u32> = inputs.iter().map(|input| script.plain(&[*input])).collect();
    script.invoke(&tasks);
    assert_eq!(placed(&script.ok(busy[0])), [(tasks[1], 0)]);
}

#[test]
fn nothing_is_stolen_when_stealing_is_off_or_the_task_forbids_it() {
    for (stealing, steal) in [(false, true), (true, false)] {
        let mut script = script(Config { stealing, ..fifo() });
        script.node(0, 1);
        script.node(1, 1);
        let requirement = script.requirement(Requirement { steal, ..Requirement::default() });
        let there = script.input(1, &[1]);
        let tasks: Vec<u32> =
            (0..3).map(|_| script.define(TaskKind::Plain, false, requirement, &[there])).collect();
        assert_eq!(placed(&script.invoke(&tasks)), [(tasks[0], 1)]);
        assert_eq!(placed(&script.ok(tasks[0])), [(tasks[1], 1)]);
    }
}

#[test]
fn a_lost_node_gives_its_queue_to_the_others() {
    let mut script = script(Config { stealing: false, ..fifo() });
    script.node(0, 1);
    script.node(1, 1);
    let there = script.input(1, &[1]);
    let tasks = [script.plain(&[there]), script.plain(&[there])];
    script.invoke(&tasks);
    script.lose(1);
    expect![[r#"
        node 0 joins with 1 cores
        node 1 joins with 1 cores
        invocation 0 of [1, 2]
            0 not needed
            start 1 on node 1
        node 1 is lost
            start 2 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn devices_are_given_to_one_action_each_and_come_back() {
    let mut script = script(fifo());
    let resources = vec![(ResourceId(0), 2)];
    let two = script.requirement(Requirement { resources, ..Requirement::default() });
    script.node_with(0, Capacity { cores: 8, memory_bytes: 0, resources: vec![3] });
    let one = script
        .requirement(Requirement { resources: vec![(ResourceId(0), 1)], ..Requirement::default() });
    let tasks = [
        script.define(TaskKind::Plain, false, two, &[]),
        script.define(TaskKind::Plain, false, one, &[]),
        script.define(TaskKind::Plain, false, two, &[]),
    ];
    script.invoke(&tasks);
    script.ok(1);
    script.ok(0);
    expect![[r#"
        node 0 joins with 8 cores
        invocation 0 of [0, 1, 2]
            start 0 on node 0, devices 0: [0, 1]
            start 1 on node 0, devices 0: [2]
        action 1 succeeded
            1 executed
        action 0 succeeded
            0 executed
            start 2 on node 0, devices 0: [0, 1]
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn memory_and_exclusive_use_are_kept_apart() {
    let mut script = script(fifo());
    script.node_with(0, Capacity { cores: 4, memory_bytes: 10, resources: vec![] });
    let large = script.requirement(Requirement { memory_bytes: 6, ..Requirement::default() });
    let alone = script.requirement(Requirement { exclusive: true, ..Requirement::default() });
    let mut define = |requirement| script.define(TaskKind::Plain, false, requirement, &[]);
    let tasks = [define(large), define(large), define(alone)];
    assert_eq!(started(&script.invoke(&tasks)), [0]);
    assert_eq!(started(&script.ok(0)), [1]);
    assert_eq!(started(&script.ok(1)), [2]);
}

#[test]
fn a_task_larger_than_every_node_gets_the_whole_largest_one() {
    let mut script = script(fifo());
    script.node(0, 2);
    script.node(1, 3);
    let huge = script.requirement(Requirement { cores: 64, ..Requirement::default() });
    let tasks = [
        script.define(TaskKind::Plain, false, huge, &[]),
        script.define(TaskKind::Plain, false, huge, &[]),
    ];
    assert_eq!(placed(&script.invoke(&tasks)), [(0, 1)]);
    assert_eq!(script.scheduler.node(NodeId(1)).map(|node| node.cores_free), Some(0));
    assert_eq!(placed(&script.node(2, 16)), [(1, 2)]);
}

#[test]
fn a_head_that_does_not_fit_hides_no_other() {
    let mut script = script(fifo());
    script.node(0, 2);
    let wide = script.requirement(Requirement { cores: 2, ..Requirement::default() });
    let narrow = RequirementId(0);
    let mut define = |requirement| script.define(TaskKind::Plain, false, requirement, &[]);
    let tasks = [define(narrow), define(wide), define(narrow)];
    assert_eq!(started(&script.invoke(&tasks)), [0, 2]);
}

#[test]
fn a_head_passed_over_too_often_reserves_the_node() {
    let mut script = script(fifo());
    script.node(0, 2);
    let wide = script.requirement(Requirement { cores: 2, ..Requirement::default() });
    let first = script.plain(&[]);
    let wide = script.define(TaskKind::Plain, false, wide, &[]);
    let others: Vec<u32> = (0..60).map(|_| script.plain(&[])).collect();
    let all: Vec<u32> = [first, wide].into_iter().chain(others).collect();
    let mut running: std::collections::VecDeque<u32> = started(&script.invoke(&all)).into();
    let mut before = running.len();
    while let Some(id) = running.pop_front() {
        let more = started(&script.ok(id));
        if more.contains(&wide) {
            // 16 times 2 cores, and the one too often.
            assert_eq!(before, 33);
            return;
        }
        before += more.len();
        running.extend(more);
    }
    panic!("the wide task starved");
}

#[test]
fn a_task_that_reserves_is_not_passed_over() {
    let mut script = script(fifo());
    script.node(0, 2);
    let requirement = Requirement { cores: 2, reserve: true, ..Requirement::default() };
    let wide = script.requirement(requirement);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let wide = script.define(TaskKind::Plain, false, wide, &[]);
    let third = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[first, second, wide, third])), [first, second]);
    assert_eq!(started(&script.ok(first)), []);
    assert_eq!(started(&script.ok(second)), [wide]);
    assert_eq!(started(&script.ok(wide)), [third]);
}

#[test]
fn a_node_with_a_waiting_caller_is_not_reserved() {
    let mut script = script(fifo());
    script.node(0, 2);
    let requirement = Requirement { cores: 2, reserve: true, ..Requirement::default() };
    let wide = script.requirement(requirement);
    let caller = script.plain(&[]);
    script.invoke(&[caller]);
    let first = script.plain(&[]);
    assert_eq!(started(&script.invoke_from(&[first], Some(caller))), [first]);
    let wide = script.define(TaskKind::Plain, false, wide, &[]);
    let last = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[wide, last])), [last]);
}

#[test]
fn a_reservation_ends_when_its_task_is_taken_back() {
    let mut script = script(fifo());
    script.node(0, 2);
    let requirement = Requirement { cores: 2, reserve: true, ..Requirement::default() };
    let wide = script.requirement(requirement);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let wide = script.define(TaskKind::Plain, false, wide, &[]);
    let third = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[first, second, wide, third])), [first, second]);
    assert_eq!(started(&script.ok(first)), []);
    assert_eq!(started(&script.add(wide, &[second])), [third]);
}

#[test]
fn a_task_runs_only_where_it_is_allowed() {
    let mut script = script(fifo());
    script.node(0, 4);
    let requirement =
        Requirement { allowed_nodes: Some(vec![NodeId(1)]), ..Requirement::default() };
    let there = script.requirement(requirement);
    let task = script.define(TaskKind::Plain, false, there, &[]);
    assert_eq!(started(&script.invoke(&[task])), []);
    assert!(!script.scheduler.fits_some_node(there));
    assert_eq!(placed(&script.node(1, 1)), [(task, 1)]);
}

#[test]
fn ranks_count_up_from_the_wanted_task() {
    let mut script = script(fifo());
    let leaf = script.plain(&[]);
    let middle = script.plain(&[leaf]);
    let top = script.plain(&[middle, leaf]);
    script.invoke(&[top]);
    let ranks =
        [leaf, middle, top].map(|id| script.scheduler.task(TaskId(id)).map(|task| task.rank));
    assert_eq!(ranks, [Some(2), Some(1), Some(0)]);
}
