//! Why a task has not started: what it waits for in the end, who comes before it, what a node has for it.

mod common;

use common::{Script, started};
use rakuda_core::{
    Capacity, Config, Event, FailurePolicy, NodeId, Policy, Requirement, RequirementId, ResourceId,
    TaskId, TaskKind, TaskState, Time, WaitsForSize,
};

fn script(policy: Policy) -> Script {
    Script::new(Config { policy, ..Config::default() })
}

/// How many ready tasks come before each of these.
fn before(script: &Script, tasks: &[u32]) -> Vec<usize> {
    tasks.iter().map(|id| script.scheduler.ready_before(TaskId(*id))).collect()
}

/// The task that runs on the only core there is.
fn running(script: &mut Script) -> u32 {
    script.node(0, 1);
    let running = script.plain(&[]);
    assert_eq!(started(&script.invoke(&[running])), [running]);
    running
}

/// Tasks that are ready in this order, while the first runs, and the second waits for that.
fn ready(script: &mut Script, count: u32) -> Vec<u32> {
    let running = running(script);
    let waiting = script.plain(&[running]);
    script.invoke(&[waiting]);
    let tasks: Vec<u32> = (0..count).map(|_| script.plain(&[])).collect();
    for task in &tasks {
        assert_eq!(started(&script.invoke(&[*task])), []);
    }
    tasks
}

#[test]
fn who_comes_before_a_ready_task_is_who_starts_before_it() {
    for (policy, expected) in [(Policy::Fifo, [0, 1, 2]), (Policy::Lifo, [2, 1, 0])] {
        let mut script = script(policy);
        let tasks = ready(&mut script, 3);
        assert_eq!(before(&script, &tasks), expected, "{policy:?}");
        let mut order = started(&script.ok(0));
        while order.len() < 4 {
            order.extend(started(&script.ok(order[order.len() - 1])));
        }
        order.retain(|id| tasks.contains(id));
        let place = |id: &u32| order.iter().position(|other| other == id).expect("all start");
        assert_eq!(tasks.iter().map(place).collect::<Vec<_>>(), expected, "{policy:?}");
    }
}

#[test]
fn of_tasks_with_ranks_the_highest_comes_first_and_then_the_last() {
    for policy in [Policy::LifoHrf, Policy::RankHrf] {
        let mut script = script(policy);
        running(&mut script);
        let (low, deep, last) = (script.plain(&[]), script.plain(&[]), script.plain(&[]));
        let top = script.plain(&[deep]);
        script.invoke(&[low, top, last]);
        assert_eq!(before(&script, &[deep, last, low]), [0, 1, 2], "{policy:?}");
    }
}

#[test]
fn of_tasks_with_times_the_longest_way_comes_first() {
    let mut script = script(Policy::LifoHlfet);
    running(&mut script);
    let tasks = [0; 3].map(|_| script.plain(&[]));
    for (task, run_ns) in tasks.iter().zip([7, 100, 3]) {
        script.send("", Event::TimeExpected { id: TaskId(*task), run_ns });
    }
    script.invoke(&tasks);
    assert_eq!(before(&script, &tasks), [1, 0, 2]);
}

#[test]
fn of_tasks_that_read_files_the_one_with_most_of_it_in_memory_comes_first() {
    let mut script = script(Policy::Cached);
    for node in 0..2 {
        script.node_with(node, Capacity { cores: 1, cache_bytes: 100, ..Capacity::default() });
    }
    let running = [script.plain(&[]), script.plain(&[])];
    script.invoke(&running);
    let inputs = [0; 3].map(|_| script.input(10, &[0, 1]));
    let tasks = inputs.map(|input| script.plain(&[input]));
    for (input, node, bytes) in [(0, 1, 5), (1, 0, 10)] {
        let (id, node) = (TaskId(inputs[input]), NodeId(node));
        script.send("in memory", Event::CacheMeasured { id, node, bytes });
    }
    script.invoke(&tasks);
    assert_eq!(before(&script, &tasks), [1, 0, 2]);
}

/// What a task waits for in the end: at most `count_max`, after a look at `steps` tasks.
fn roots(script: &Script, id: u32, count_max: usize, steps: usize) -> Vec<u32> {
    script.scheduler.roots(TaskId(id), count_max, steps).iter().map(|id| id.0).collect()
}

#[test]
fn what_a_task_waits_for_in_the_end_waits_for_nothing() {
    let mut script = script(Policy::Fifo);
    script.node(0, 1);
    let (done, third, fourth) = (script.plain(&[]), script.plain(&[]), script.plain(&[]));
    let first = script.plain(&[done, third]);
    let second = script.plain(&[third, fourth]);
    let top = script.plain(&[first, second]);
    script.invoke(&[top]);
    script.ok(done);
    assert_eq!(roots(&script, top, 9, 99), [third, fourth]);
    assert_eq!(roots(&script, first, 9, 99), [third]);
    assert_eq!(roots(&script, third, 9, 99), [], "it waits for no task");
    assert_eq!(roots(&script, top, 1, 99), [third], "as many as are asked for");
    // It looks at itself, the first, the second and the third, and then at no more.
    assert_eq!(roots(&script, top, 9, 4), [third]);
    assert_eq!(roots(&script, top, 9, 3), []);
}

#[test]
fn a_node_that_is_kept_free_for_others_is_said_to_be() {
    let mut script = script(Policy::Fifo);
    script.node(0, 2);
    let wide =
        script.requirement(Requirement { cores: 2, reserve: true, ..Requirement::default() });
    let running = [0; 2].map(|_| script.plain(&[]));
    let large = script.define(TaskKind::Plain, false, wide, &[]);
    script.invoke(&[running[0], running[1], large]);
    script.ok(running[0]);
    let room = |requirement| script.scheduler.room(requirement, NodeId(0)).expect("it is there");
    let (narrow, wide) = (room(RequirementId(0)), room(wide));
    assert!(narrow.reserved && !wide.reserved);
    assert_eq!((narrow.cores, narrow.cores_free), (1, 1));
    assert_eq!((wide.cores, wide.cores_free, wide.exclusive), (2, 1, false));
    assert_eq!(script.scheduler.room(RequirementId(0), NodeId(1)), None);
}

#[test]
fn a_node_is_possible_where_it_is_allowed_and_large_enough() {
    let mut script = script(Policy::Fifo);
    let capacity =
        Capacity { cores: 4, memory_bytes: 10, resources: vec![2], ..Capacity::default() };
    script.node_with(0, capacity);
    let mut possible = |requirement: Requirement| {
        let id = script.requirement(requirement);
        let room = script.scheduler.room(id, NodeId(0)).expect("it is there");
        (room.allowed, room.possible)
    };
    let waits_for_size = WaitsForSize { cores: true, memory: true };
    let whole = Requirement { waits_for_size, ..Requirement::default() };
    assert_eq!(possible(Requirement { cores: 4, memory_bytes: 10, ..whole.clone() }), (true, true));
    assert_eq!(possible(Requirement { cores: 5, ..whole.clone() }), (true, false));
    assert_eq!(possible(Requirement { memory_bytes: 11, ..whole.clone() }), (true, false));
    let elsewhere = Some(vec![NodeId(1)]);
    assert_eq!(possible(Requirement { allowed_nodes: elsewhere, ..whole }), (false, false));
    for (count, there) in [(2, true), (3, false)] {
        let resources = vec![(ResourceId(0), count)];
        assert_eq!(possible(Requirement { resources, ..Requirement::default() }), (true, there));
    }
    assert_eq!(script.scheduler.devices_free(NodeId(0)), [2]);
}

/// How many of the tasks with an action were abandoned over the first one, and the first of them.
fn abandoned(script: &Script, count_max: usize, steps: usize, ran: &[u32]) -> (usize, Vec<u32>) {
    let has_run = |id: TaskId| ran.contains(&id.0);
    let (count, first) =
        script.scheduler.abandoned_because_of(TaskId(0), count_max, steps, has_run);
    (count, first.iter().map(|id| id.0).collect())
}

#[test]
fn what_a_failed_task_took_along_is_all_that_depends_on_it() {
    let config = Config { failure: FailurePolicy::Continue, ..Config::default() };
    let mut script = Script::new(config);
    script.node(0, 2);
    let first = script.plain(&[]);
    let second = script.plain(&[first]);
    let named = script.bare(&[second]);
    let third = script.plain(&[named]);
    let other = script.plain(&[]);
    let after_other = script.plain(&[other]);
    script.invoke(&[third, after_other]);
    assert_eq!(abandoned(&script, 9, 99, &[]), (0, vec![]), "nothing has failed");
    script.fail(first);
    assert_eq!(abandoned(&script, 9, 99, &[]), (2, vec![second, third]), "one has no action");
    assert_eq!(abandoned(&script, 1, 99, &[]), (2, vec![second]), "the first few");
    assert_eq!(abandoned(&script, 9, 99, &[second]), (1, vec![third]));
    assert_eq!(abandoned(&script, 9, 3, &[]), (2, vec![second, third]));
    assert_eq!(abandoned(&script, 9, 2, &[]), (1, vec![second]), "no more are looked at");
}

#[test]
fn a_task_that_waits_for_its_gang_runs_if_it_was_decided_so() {
    let mut script = Script::new(Config { compares: true, ..Config::default() });
    script.node(0, 4);
    let before = [0; 2].map(|_| script.plain(&[]));
    let files = [0; 2].map(|_| script.file(Some(5), &[]));
    for (before, file) in before.iter().zip(files) {
        let peer = script.plain(&[*before]);
        script.gang(&[file, peer], false);
    }
    script.invoke(&files);
    script.compared(files[0], false);
    script.compared(files[1], true);
    let state = |id: u32| script.scheduler.task(TaskId(id)).map(|task| task.state);
    assert_eq!(files.map(state), [Some(TaskState::Mustered); 2]);
    let forecast = script.scheduler.forecast(Time(script.now()).into());
    // What is up to date may run with its gang, but is not counted before.
    assert_eq!(files.map(|id| forecast[id as usize]), [false, true]);
}
