//! What starts where: candidates, queues, stealing, capacity, reservations.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod common;

use common::{Script, placed, started};
use expect_test::expect;
use rakuda_core::{
    Capacity, Choice, Config, Event, NodeId, Places, Policy, Requirement, RequirementId,
    ResourceId, Suits, TaskId, TaskKind, Time, WaitsForSize,
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
fn places_that_are_found_before_a_task_is_ready_count() {
    let mut script = script(fifo());
    script.node(0, 1);
    script.node(1, 1);
    let first = script.plain(&[]);
    let input = script.input(10, &[0]);
    let task = script.plain(&[first, input]);
    script.invoke(&[task]);
    let missing = script.file(None, &[]);
    let found = Places::One(NodeId(1));
    script.send("found", Event::PlacesFound { id: TaskId(input), places: found.clone() });
    // What is not there is nowhere.
    script.send("found", Event::PlacesFound { id: TaskId(missing), places: found });
    assert_eq!(placed(&script.ok(first)), [(task, 1)]);
    assert_eq!(script.scheduler.task(TaskId(input)).map(|task| task.bytes), Some(10));
    assert_eq!(script.scheduler.task(TaskId(missing)).map(|task| task.bytes), Some(0));
}

#[test]
fn what_is_declared_to_lie_beside_an_input_counts_with_it() {
    let mut script = script(fifo());
    script.node(0, 1);
    script.node(1, 1);
    let (index, reads) = (script.input(0, &[1]), script.input(100, &[0]));
    let task = script.plain(&[index, reads]);
    script.send("found", Event::SecondaryFound { id: TaskId(index), bytes: 1000 });
    assert_eq!(placed(&script.invoke(&[task])), [(task, 1)]);
    let view = script.scheduler.task(TaskId(index)).expect("it was defined");
    assert_eq!((view.bytes, view.secondary_bytes), (0, 1000));
}

#[test]
fn empty_inputs_make_no_node_a_candidate() {
    let mut script = script(fifo());
    for node in 0..2 {
        script.node(node, 1);
    }
    let busy = [script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let input = script.input(0, &[1]);
    let task = script.plain(&[input]);
    script.invoke(&[task]);
    assert_eq!(script.scheduler.candidate_nodes(TaskId(task)), []);
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
    for node in nodes {
        assert_eq!(script.scheduler.node(node).map(|node| node.queued), Some(1));
    }
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
            attempt 1 of 1 lost with node 1, runs again
            start 2 on node 0
    "#]]
    .assert_eq(&script.text());
}

#[test]
fn devices_are_given_to_one_action_each_and_come_back() {
    let mut script = script(fifo());
    let resources = vec![(ResourceId(0), 2)];
    let two = script.requirement(Requirement { resources, ..Requirement::default() });
    script.node_with(
        0,
        Capacity { cores: 8, memory_bytes: 0, resources: vec![3], ..Capacity::default() },
    );
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
    script.node_with(0, Capacity { cores: 4, memory_bytes: 10, ..Capacity::default() });
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
fn a_task_with_more_memory_than_every_node_gets_that_of_the_largest_there_is() {
    let mut script = script(fifo());
    let node = |cores, memory_bytes| Capacity { cores, memory_bytes, ..Capacity::default() };
    script.node_with(0, node(4, 10));
    let huge = script.requirement(Requirement { memory_bytes: 100, ..Requirement::default() });
    script.node_with(1, node(2, 50));
    let tasks = [0; 4].map(|_| script.define(TaskKind::Plain, false, huge, &[]));
    assert_eq!(placed(&script.invoke(&tasks)), [(tasks[0], 1)], "the smaller one has too little");
    // With the largest one gone the other one is large enough.
    assert_eq!(placed(&script.lose(1)), [(tasks[1], 0)]);
    assert_eq!(placed(&script.node_with(2, node(1, 30))), [(tasks[2], 2)]);
    assert_eq!(placed(&script.ok(tasks[1])), [], "it is too small again");
    assert_eq!(placed(&script.ok(tasks[2])), [(tasks[3], 2)]);
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

/// Of tasks that take two cores, and for which nodes are kept free.
fn reserving(script: &mut Script) -> RequirementId {
    script.requirement(Requirement { cores: 2, reserve: true, ..Requirement::default() })
}

#[test]
fn a_task_that_reserves_is_not_passed_over() {
    let mut script = script(fifo());
    script.node(0, 2);
    let wide = reserving(&mut script);
    let (first, second) = (script.plain(&[]), script.plain(&[]));
    let wide = script.define(TaskKind::Plain, false, wide, &[]);
    let third = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[first, second, wide, third])), [first, second]);
    assert_eq!(started(&script.ok(first)), []);
    assert_eq!(started(&script.ok(second)), [wide]);
    assert_eq!(started(&script.ok(wide)), [third]);
}

#[test]
fn no_more_nodes_are_kept_free_than_there_are_tasks_for_them() {
    let mut script = script(fifo());
    script.node(0, 2);
    script.node(1, 2);
    let wide = reserving(&mut script);
    let running = [0; 4].map(|_| script.plain(&[]));
    let large = script.define(TaskKind::Plain, false, wide, &[]);
    let small = script.plain(&[]);
    let begun = placed(&script.invoke(&[&running[..], &[large, small]].concat()));
    let on = |node| begun.iter().find(|(_, at)| *at == node).expect("it is full").0;
    assert_eq!(placed(&script.ok(on(0))), [], "the node is kept");
    assert_eq!(placed(&script.ok(on(1))), [(small, 1)]);
}

#[test]
fn a_head_that_a_node_does_not_suit_is_not_passed_over_there() {
    let mut script = script(fifo());
    script.node(0, 2);
    let choice = Some(Choice::default());
    let wide = script.requirement(Requirement { cores: 2, choice, ..Requirement::default() });
    let large = script.define(TaskKind::Plain, false, wide, &[]);
    let running = [0; 2].map(|_| script.plain(&[]));
    script.invoke(&[running[0], running[1], large]);
    let mut running = running;
    for turn in 0..40 {
        let next = script.plain(&[]);
        assert_eq!(placed(&script.invoke(&[next])), []);
        assert_eq!(placed(&script.ok(running[turn % 2])), [(next, 0)]);
        running[turn % 2] = next;
    }
    // It suits from now on; whoever starts is the first to pass it over.
    suit(&mut script, wide, &[(0, Some(0))]);
    let next = script.plain(&[]);
    script.invoke(&[next]);
    assert_eq!(placed(&script.ok(running[0])), [(next, 0)]);
}

/// A node of two cores that ends at a time; tasks of a requirement that takes both are expected to run `run_ns`.
fn ending(at: u64, run_ns: u64) -> (Script, RequirementId) {
    let mut script = script(fifo());
    let wide = reserving(&mut script);
    script.node(0, 2);
    script.send("it ends", Event::NodeEnds { id: NodeId(0), at: Time(at) });
    let expected = Event::DurationExpected { requirement: wide, run_ns };
    script.send("so long", expected);
    (script, wide)
}

#[test]
fn a_task_starts_where_it_is_expected_to_have_ended_before_the_node_does() {
    // The invocation comes at 1070.
    for (run_ns, starts) in [(930, true), (931, false)] {
        let (mut script, wide) = ending(2000, run_ns);
        let task = script.define(TaskKind::Plain, false, wide, &[]);
        let begun = started(&script.invoke(&[task]));
        let now = script.now();
        assert_eq!((now + run_ns <= 2000, begun == [task]), (starts, starts), "{now}");
    }
}

#[test]
fn a_task_that_turns_out_to_be_short_starts_where_it_could_not_any_more() {
    let (mut script, wide) = ending(2000, 1900);
    let task = script.define(TaskKind::Plain, false, wide, &[]);
    assert_eq!(started(&script.invoke(&[task])), []);
    let expected = Event::DurationExpected { requirement: wide, run_ns: 100 };
    assert_eq!(started(&script.send("short", expected)), [task]);
}

#[test]
fn a_node_is_kept_free_for_a_task_until_it_ends_too_soon_for_that() {
    let (mut script, wide) = ending(2000, 700);
    let running = [0; 2].map(|_| script.plain(&[]));
    let large = script.define(TaskKind::Plain, false, wide, &[]);
    let small = script.plain(&[]);
    script.invoke(&[running[0], running[1], large, small]);
    assert_eq!(started(&script.ok(running[0])), [], "the node is kept");
    let mut begun = Vec::new();
    while script.now() <= 1300 {
        assert_eq!(begun, []);
        let any = Event::FailureUncharged { id: TaskId(running[1]) };
        begun = started(&script.send("time passes", any));
    }
    assert_eq!(begun, [small], "it would not have ended before the node");
}

/// Lets this many tasks begin early on node 0.
fn look_ahead(script: &mut Script, actions: u32) -> Vec<u32> {
    started(&script.send("early", Event::LookaheadSet { id: NodeId(0), actions }))
}

#[test]
fn tasks_of_one_core_begin_early_where_that_is_allowed() {
    for cores in [1, 2] {
        let mut script = script(fifo());
        script.node(0, cores);
        let tasks: Vec<u32> = (0..6).map(|_| script.plain(&[])).collect();
        let (on_cores, others) = tasks.split_at(cores as usize);
        assert_eq!(started(&script.invoke(&tasks)), on_cores);
        assert_eq!(look_ahead(&mut script, 2), others[..2]);
        assert_eq!(look_ahead(&mut script, 1), [], "no more than before");
        assert_eq!(started(&script.ok(tasks[0])), [], "one too many had begun");
        assert_eq!(started(&script.ok(tasks[1])), others[2..3]);
    }
}

#[test]
fn no_task_begins_early_with_several_cores_or_beside_one_that_has_all() {
    let mut script = script(fifo());
    script.node(0, 3);
    look_ahead(&mut script, 1);
    let mut of = |cores| script.requirement(Requirement { cores, ..Requirement::default() });
    let (wide, whole) = (of(2), of(3));
    let mut define = |requirement| script.define(TaskKind::Plain, false, requirement, &[]);
    let (first, second) = (define(wide), define(wide));
    assert_eq!(started(&script.invoke(&[first, second])), [first]);
    let small = [0; 2].map(|_| script.plain(&[]));
    assert_eq!(started(&script.invoke(&small)), small, "one of them early");
    for task in [small[0], small[1], first, second] {
        script.ok(task);
    }
    let all = script.define(TaskKind::Plain, false, whole, &[]);
    assert_eq!(started(&script.invoke(&[all])), [all]);
    let late = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[late])), []);
    assert_eq!(started(&script.ok(all)), [late]);
}

#[test]
fn a_node_with_a_waiting_caller_is_not_reserved() {
    let mut script = script(fifo());
    script.node(0, 2);
    let wide = reserving(&mut script);
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
    let wide = reserving(&mut script);
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
fn a_task_that_must_have_all_of_its_size_waits_for_a_node_that_is_so_large() {
    let mut script = script(fifo());
    script.node(0, 4);
    let large = Requirement { cores: 6, ..Requirement::default() };
    let waits_for_size = WaitsForSize { cores: true, memory: false };
    let whole = script.requirement(Requirement { waits_for_size, ..large.clone() });
    let cut = script.requirement(large);
    let tasks = [whole, cut].map(|of| script.define(TaskKind::Plain, false, of, &[]));
    assert_eq!(placed(&script.invoke(&tasks)), [(tasks[1], 0)]);
    assert!(!script.scheduler.fits_some_node(whole));
    assert_eq!(placed(&script.node(1, 5)), []);
    assert_eq!(placed(&script.node(2, 8)), [(tasks[0], 2)]);
}

#[test]
fn a_node_that_comes_later_may_be_allowed() {
    let mut script = script(fifo());
    script.node(0, 4);
    let none = Requirement { allowed_nodes: Some(Vec::new()), ..Requirement::default() };
    let nowhere = script.requirement(none);
    let task = script.define(TaskKind::Plain, false, nowhere, &[]);
    assert_eq!(started(&script.invoke(&[task])), []);
    let allowed = Event::NodeAllowed { requirement: nowhere, id: NodeId(2) };
    assert!(script.send("node 2 is allowed", allowed).is_empty());
    assert_eq!(placed(&script.node(1, 1)), []);
    assert_eq!(placed(&script.node(2, 1)), [(task, 2)]);
    assert!(script.scheduler.is_only_choice(NodeId(2)));
    assert!(!script.scheduler.is_only_choice(NodeId(1)));
}

fn choosing(script: &mut Script, used_up: bool) -> RequirementId {
    script.requirement(Requirement { choice: Some(Choice { used_up }), ..Requirement::default() })
}

fn suit(
    script: &mut Script,
    requirement: RequirementId,
    nodes: &[(u32, Option<u64>)],
) -> Vec<(u32, u32)> {
    let nodes = nodes.iter().map(|(node, rank)| (NodeId(*node), rank.map(Suits::ranked)));
    let nodes: Vec<_> = nodes.collect();
    placed(&script.send("nodes suit", Event::NodesSuit { requirement, nodes: &nodes }))
}

#[test]
fn a_task_that_chooses_waits_until_a_node_suits() {
    let mut script = script(fifo());
    script.node(0, 4);
    script.node(1, 4);
    let choosy = choosing(&mut script, false);
    let tasks = [0; 3].map(|_| script.define(TaskKind::Plain, false, choosy, &[]));
    let other = script.plain(&[]);
    assert_eq!(placed(&script.invoke(&[tasks[0], tasks[1], tasks[2], other])), [(other, 0)]);
    assert!(script.scheduler.fits_some_node(choosy), "a node may suit later");
    let room = script.scheduler.room(choosy, NodeId(1)).expect("it is there");
    assert!(room.possible && !room.suits);
    let started = suit(&mut script, choosy, &[(1, Some(0)), (7, Some(9))]);
    assert_eq!(started, [(tasks[0], 1), (tasks[1], 1), (tasks[2], 1)]);
    // What runs goes on, what comes later waits.
    assert_eq!(suit(&mut script, choosy, &[(1, None)]), []);
    let late = script.define(TaskKind::Plain, false, choosy, &[]);
    assert_eq!(placed(&script.invoke(&[late])), []);
    // What was said of a node that was not there yet holds when it comes.
    assert_eq!(placed(&script.node(7, 1)), [(late, 7)]);
}

#[test]
fn one_is_admitted_for_each_time_that_a_node_is_said_to_suit() {
    let mut script = script(fifo());
    script.node(0, 8);
    script.node(1, 8);
    let choosy = choosing(&mut script, true);
    let tasks: Vec<u32> =
        (0..5).map(|_| script.define(TaskKind::Plain, false, choosy, &[])).collect();
    script.invoke(&tasks);
    assert_eq!(
        suit(&mut script, choosy, &[(0, Some(0)), (1, Some(0))]),
        [(tasks[0], 0), (tasks[1], 1)]
    );
    assert_eq!(placed(&script.ok(tasks[0])), [], "that it has ended says nothing of the node");
    assert_eq!(suit(&mut script, choosy, &[(1, Some(0))]), [(tasks[2], 1)]);
    // Something else that is started there uses it up, too.
    let other = script.plain(&[]);
    assert_eq!(placed(&script.invoke(&[other])).len(), 1);
    assert_eq!(suit(&mut script, choosy, &[(0, Some(0))]), [(tasks[3], 0)]);
}

#[test]
fn of_nodes_with_room_the_preferred_one_comes_first() {
    let mut script = script(fifo());
    for node in 0..3 {
        script.node(node, 1);
    }
    let choosy = choosing(&mut script, false);
    suit(&mut script, choosy, &[(0, Some(1)), (1, Some(3)), (2, Some(2))]);
    let tasks: Vec<u32> =
        (0..5).map(|_| script.define(TaskKind::Plain, false, choosy, &[])).collect();
    let begun = placed(&script.invoke(&tasks));
    assert_eq!(begun, [(tasks[0], 1), (tasks[1], 2), (tasks[2], 0)]);
    // None is kept waiting for a better one.
    assert_eq!(placed(&script.ok(tasks[2])), [(tasks[3], 0)]);
    // All become free, and are ranked anew, at once.
    suit(&mut script, choosy, &[(0, None), (1, None), (2, None)]);
    for task in [0, 1, 3] {
        assert_eq!(placed(&script.ok(tasks[task])), []);
    }
    let late = script.define(TaskKind::Plain, false, choosy, &[]);
    script.invoke(&[late]);
    let ranks = [(0, Some(5)), (1, Some(6)), (2, Some(7))];
    assert_eq!(suit(&mut script, choosy, &ranks), [(tasks[4], 2), (late, 1)]);
}

#[test]
fn the_node_with_the_input_comes_before_the_preferred_one_unless_locality_is_off() {
    for locality in [true, false] {
        let mut script = script(fifo());
        script.node(0, 1);
        script.node(1, 1);
        let choice = Some(Choice::default());
        let choosy = script.requirement(Requirement { choice, locality, ..Requirement::default() });
        let input = script.input(10, &[0]);
        let task = script.define(TaskKind::Plain, false, choosy, &[input]);
        suit(&mut script, choosy, &[(0, Some(1)), (1, Some(2))]);
        let node = u32::from(!locality);
        assert_eq!(placed(&script.invoke(&[task])), [(task, node)]);
    }
}

#[test]
fn no_node_is_kept_free_for_a_task_that_it_does_not_suit() {
    let mut script = script(fifo());
    script.node(0, 2);
    let (choice, reserve) = (Some(Choice::default()), true);
    let wide = Requirement { cores: 2, choice, reserve, ..Requirement::default() };
    let wide = script.requirement(wide);
    let running = [0; 2].map(|_| script.plain(&[]));
    let large = script.define(TaskKind::Plain, false, wide, &[]);
    let small = [0; 2].map(|_| script.plain(&[]));
    script.invoke(&[running[0], running[1], large, small[0], small[1]]);
    assert_eq!(placed(&script.ok(running[0])), [(small[0], 0)]);
    assert_eq!(suit(&mut script, wide, &[(0, Some(0))]), []);
    assert_eq!(placed(&script.ok(running[1])), [], "the node is kept for it");
    assert_eq!(suit(&mut script, wide, &[(0, None)]), [(small[1], 0)]);
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

fn cached_node(script: &mut Script, id: u32, cache_bytes: u64) {
    script.node_with(id, Capacity { cores: 1, cache_bytes, ..Capacity::default() });
}

#[test]
fn with_cached_the_task_whose_input_is_in_memory_goes_first() {
    let mut script = script(Config { policy: Policy::Cached, ..Config::default() });
    cached_node(&mut script, 0, 20);
    let inputs = [script.input(10, &[0]), script.input(10, &[0]), script.input(10, &[0])];
    let first: Vec<u32> = inputs.iter().map(|input| script.plain(&[*input])).collect();
    assert_eq!(started(&script.invoke(&first)), [first[2]]);
    let again: Vec<u32> = [2, 0, 1].iter().map(|input| script.plain(&[inputs[*input]])).collect();
    script.invoke(&again);
    // Nothing was in memory before; now it is what the first task read, though two tasks are younger.
    assert_eq!(started(&script.ok(first[2])), [again[0]]);
    // By measurement another one: the model is put right.
    let measured =
        |input: u32, bytes| Event::CacheMeasured { id: TaskId(input), node: NodeId(0), bytes };
    script.send("gone", measured(inputs[2], 0));
    script.send("here", measured(inputs[0], 10));
    assert_eq!(started(&script.ok(again[0])), [again[1]]);
    assert_eq!(started(&script.ok(again[1])), [first[0]]);
}

#[test]
fn with_cached_a_file_on_a_server_is_read_where_it_is_in_memory() {
    let mut script = script(Config { policy: Policy::Cached, ..Config::default() });
    cached_node(&mut script, 0, 100);
    cached_node(&mut script, 1, 100);
    let busy = [script.plain(&[]), script.plain(&[])];
    script.invoke(&busy);
    let input = script.input(10, &[]);
    let event = Event::CacheMeasured { id: TaskId(input), node: NodeId(1), bytes: 10 };
    script.send("in memory", event);
    let reader = script.plain(&[input]);
    script.invoke(&[reader]);
    assert_eq!(script.scheduler.candidate_nodes(TaskId(reader)), [NodeId(1)]);
}

/// Starts with one core taken; the order in which the others start.
fn order_of(expected_ns: &[u64]) -> Vec<u32> {
    let mut script = script(Config { policy: Policy::LifoHlfet, ..Config::default() });
    script.node(0, 1);
    let tasks: Vec<u32> = expected_ns.iter().map(|_| script.plain(&[])).collect();
    for (task, run_ns) in tasks.iter().zip(expected_ns) {
        script.send("", Event::TimeExpected { id: TaskId(*task), run_ns: *run_ns });
    }
    let mut order = started(&script.invoke(&tasks));
    while order.len() < tasks.len() {
        order.extend(started(&script.ok(order[order.len() - 1])));
    }
    order
}

#[test]
fn with_lifo_hlfet_the_longest_way_goes_first_only_when_it_is_long_beside_the_work() {
    assert_eq!(order_of(&[5, 100, 7, 3])[..2], [1, 2]);
    let mut many = vec![100; 20];
    many[3] = 110;
    let order = order_of(&many);
    assert_eq!(order[..2], [19, 18], "last in, first out while there is much to do");
    let longest = order.iter().position(|task| *task == 3).unwrap();
    assert!((14..18).contains(&longest), "before the end, where it would have come: {order:?}");
}
