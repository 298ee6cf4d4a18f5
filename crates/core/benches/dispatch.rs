//! Dispatches per second: one action ends, the next starts, with 10^3 and with 10^6 tasks queued.
//!
//! Plain tasks without a process: the scheduler alone. `cargo bench -p rakuda-core`; medians of
//! five rounds, with minimum and maximum.
#![allow(clippy::print_stdout, reason = "a table is what it is for")]

use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, Fact, InvocationId, NodeId, Output, Places, Policy,
    Requirement, RequirementId, Scheduler, TaskId, TaskKind, Time,
};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// Measured per round, and added to the tasks: at least half of the queued tasks are there all the time, on average.
const DISPATCHES: u32 = 100_000;

/// What the queued tasks look like.
#[derive(Clone, Copy)]
enum Input {
    /// Independent ones, in the remote queue.
    None,
    /// Each with a file on one of the nodes.
    OnNodes,
}

struct Setting {
    policy: Policy,
    nodes: u32,
    cores: u32,
    queued: u32,
    input: Input,
}

#[allow(clippy::disallowed_methods, reason = "the one place of this crate that measures time")]
fn clock() -> Instant {
    Instant::now()
}

fn send(scheduler: &mut Scheduler, now: u64, event: Event<'_>, out: &mut Vec<Output>) {
    scheduler.handle(Time(now), event, out);
}

fn define(
    scheduler: &mut Scheduler,
    setting: &Setting,
    tasks: u32,
    out: &mut Vec<Output>,
) -> Vec<TaskId> {
    let mut wanted = Vec::new();
    let mut next = 0;
    let mut task =
        |scheduler: &mut Scheduler, kind, prerequisites: &[TaskId], out: &mut Vec<Output>| {
            let id = TaskId(next);
            next += 1;
            let requirement = RequirementId(0);
            let event = Event::TaskDefined {
                id,
                kind,
                has_action: true,
                deferred: false,
                requirement,
                prerequisites,
            };
            send(scheduler, 0, event, out);
            id
        };
    let inputs: Vec<TaskId> = match setting.input {
        Input::None => Vec::new(),
        Input::OnNodes => {
            (0..setting.nodes).map(|_| task(scheduler, TaskKind::File, &[], out)).collect()
        }
    };
    for (node, id) in (0..).zip(&inputs) {
        let fact = Fact { modified_ns: Some(1), bytes: 1, places: Places::One(NodeId(node)) };
        send(scheduler, 0, Event::FactGathered { id: *id, fact }, out);
    }
    // Those beyond the queued ones follow others, so that each end makes a task ready; this gives ranks too.
    for index in 0..tasks {
        let mut prerequisites = Vec::new();
        if let Some(before) = index.checked_sub(setting.queued) {
            prerequisites.push(wanted[before as usize]);
        }
        if !inputs.is_empty() {
            prerequisites.push(inputs[index as usize % inputs.len()]);
        }
        wanted.push(task(scheduler, TaskKind::Plain, &prerequisites, out));
    }
    wanted
}

/// Starts with everything queued, then ends and starts actions.
fn round(setting: &Setting) -> (Duration, Duration) {
    let config = Config { policy: setting.policy, ..Config::default() };
    let mut scheduler = Scheduler::new(config);
    let mut out = Vec::new();
    let requirement = Requirement::default();
    send(
        &mut scheduler,
        0,
        Event::RequirementDefined { id: RequirementId(0), requirement },
        &mut out,
    );
    let begin = clock();
    let wanted = define(&mut scheduler, setting, setting.queued + DISPATCHES, &mut out);
    let started = Event::InvocationStarted { id: InvocationId(0), tasks: &wanted, caller: None };
    send(&mut scheduler, 0, started, &mut out);
    for node in 0..setting.nodes {
        let capacity = Capacity { cores: setting.cores, ..Capacity::default() };
        send(
            &mut scheduler,
            0,
            Event::NodeJoined { id: NodeId(node), capacity, files_kept: false },
            &mut out,
        );
    }
    let setup = begin.elapsed();
    let mut running: std::collections::VecDeque<TaskId> = started_in(&out).collect();
    let begin = clock();
    for step in 0..u64::from(DISPATCHES) {
        out.clear();
        let id = running.pop_front().expect("something runs");
        let event =
            Event::ActionEnded { id, attempt: 1, outcome: ActionOutcome::Succeeded, run_ns: None };
        send(&mut scheduler, 1_000 * step, event, &mut out);
        running.extend(started_in(&out));
    }
    let took = begin.elapsed();
    assert!(scheduler.counts().settled() >= DISPATCHES as usize, "something was not done");
    (took / DISPATCHES, setup)
}

fn started_in(out: &[Output]) -> impl Iterator<Item = TaskId> {
    out.iter().filter_map(|output| match output {
        Output::StartAction { id, .. } => Some(*id),
        _ => None,
    })
}

fn main() {
    println!(
        "dispatches per second (action ends, next starts), median [min, max] of {ROUNDS} rounds; set-up: median per task"
    );
    println!("| policy | nodes x cores | input | 10^3 queued | 10^6 queued | set-up |");
    println!("|---|---|---|---|---|---|");
    let policies = [Policy::Fifo, Policy::Lifo, Policy::LifoHrf, Policy::RankHrf, Policy::Serial];
    for policy in policies {
        for (nodes, cores) in [(1, 2), (100, 1)] {
            for (input, name) in [(Input::None, "none"), (Input::OnNodes, "on nodes")] {
                let mut cells = Vec::new();
                let mut setup_ns = 0;
                for queued in [1_000, 1_000_000] {
                    let setting = Setting { policy, nodes, cores, queued, input };
                    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(&setting)).collect();
                    rounds.sort_unstable();
                    let rate = |round: usize| 1_000_000 / rounds[round].0.as_nanos().max(1);
                    let (low, middle, high) = (rate(ROUNDS - 1), rate(ROUNDS / 2), rate(0));
                    cells.push(format!("{middle}k [{low}k, {high}k]"));
                    setup_ns = rounds[ROUNDS / 2].1.as_nanos() / u128::from(queued + DISPATCHES);
                }
                let cells = cells.join(" | ");
                println!("| {policy:?} | {nodes} x {cores} | {name} | {cells} | {setup_ns} ns |");
            }
        }
    }
}
