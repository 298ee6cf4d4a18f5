//! What a task costs the scheduler, by numbers of tasks and nodes: files in layers, each made of
//! two of the layer before, that lie where they were made. An action ends in an order drawn from a
//! seed; its file is looked at; what it made ready starts.
//!
//! The scheduler alone: no process, no message, no clock inside.
//! `cargo bench -p rakuda-core --bench scale`; medians of five rounds, with minimum and maximum.
//! One row alone: `-- TASKS NODES CORES`, and a fourth number gives the rounds.
#![allow(clippy::print_stdout, reason = "a table is what it is for")]

use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, Fact, InvocationId, NodeId, Output, Places,
    Requirement, RequirementId, Scheduler, TaskId, TaskKind, Time,
};
use std::time::Instant;

const LAYERS: u32 = 4;
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
struct Setting {
    tasks: u32,
    nodes: u32,
    cores: u32,
}

/// A small generator (`xorshift64*`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        usize::try_from(mixed).expect("32 bits") % bound
    }
}

#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn clock() -> Instant {
    Instant::now()
}

/// When and where a file was made, if it was.
type Made = Option<(i64, NodeId)>;

fn fact_of(made: Made) -> Fact {
    let places = made.map_or(Places::Unknown, |(_, node)| Places::One(node));
    Fact { modified_ns: made.map(|(at, _)| i128::from(at)), bytes: 1_000_000, places }
}

/// A scheduler with all nodes and tasks, before the invocation; the wanted task; what is known of files.
fn defined(setting: Setting, random: &mut Random) -> (Scheduler, TaskId, Vec<Made>) {
    let mut scheduler = Scheduler::new(Config::default());
    let mut out = Vec::new();
    let requirement = RequirementId(0);
    let event = Event::RequirementDefined { id: requirement, requirement: Requirement::default() };
    scheduler.handle(Time(0), event, &mut out);
    for node in 0..setting.nodes {
        let capacity = Capacity { cores: setting.cores, ..Capacity::default() };
        scheduler.handle(
            Time(0),
            Event::NodeJoined { id: NodeId(node), capacity, files_kept: false },
            &mut out,
        );
    }
    let width = setting.tasks / LAYERS;
    let mut made = Vec::new();
    let mut define = |id: u32, kind, prerequisites: &[TaskId]| {
        let has_action = id >= width && kind == TaskKind::File;
        let event = Event::TaskDefined {
            id: TaskId(id),
            kind,
            has_action,
            deferred: false,
            requirement,
            prerequisites,
        };
        scheduler.handle(Time(0), event, &mut out);
        if kind == TaskKind::File {
            let node = random.below(setting.nodes as usize);
            let node = NodeId(u32::try_from(node).expect("few nodes"));
            made.push((!has_action).then_some((1, node)));
            let fact = fact_of(made[id as usize]);
            let event = Event::FactGathered { id: TaskId(id), fact };
            scheduler.handle(Time(0), event, &mut out);
        }
    };
    // The first layer are inputs.
    for position in 0..width {
        define(position, TaskKind::File, &[]);
    }
    for layer in 1..=LAYERS {
        for position in 0..width {
            let before = |position: u32| TaskId((layer - 1) * width + position % width);
            let prerequisites = [before(position), before(position + 1)];
            define(layer * width + position, TaskKind::File, &prerequisites);
        }
    }
    let wanted = (LAYERS + 1) * width;
    let last: Vec<TaskId> = (LAYERS * width..wanted).map(TaskId).collect();
    define(wanted, TaskKind::Plain, &last);
    (scheduler, TaskId(wanted), made)
}

/// ns a task, from the invocation to its end.
fn round(setting: Setting) -> u128 {
    let mut random = Random(7);
    let (mut scheduler, wanted, mut made) = defined(setting, &mut random);
    let mut out = Vec::new();
    let begin = clock();
    let event = Event::InvocationStarted { id: InvocationId(0), tasks: &[wanted], caller: None };
    scheduler.handle(Time(0), event, &mut out);
    let mut running: Vec<(TaskId, NodeId)> = Vec::new();
    let mut asked = Vec::new();
    for now in 2_i64.. {
        for output in out.drain(..) {
            match output {
                Output::StartAction { id, node, .. } => running.push((id, node)),
                Output::GatherFact { id } => asked.push(id),
                _ => {}
            }
        }
        if let Some(id) = asked.pop() {
            let event = Event::FactGathered { id, fact: fact_of(made[id.0 as usize]) };
            scheduler.handle(Time(now.cast_unsigned()), event, &mut out);
        } else if !running.is_empty() {
            let (id, node) = running.swap_remove(random.below(running.len()));
            made[id.0 as usize] = Some((now, node));
            let event = Event::ActionEnded {
                id,
                attempt: 1,
                outcome: ActionOutcome::Succeeded,
                run_ns: None,
            };
            scheduler.handle(Time(now.cast_unsigned()), event, &mut out);
        } else {
            break;
        }
    }
    let took = begin.elapsed();
    assert_eq!(scheduler.counts().executed, setting.tasks as usize / 4 * 4 + 1);
    took.as_nanos() / u128::from(setting.tasks)
}

fn row(setting: Setting, rounds: usize) {
    let mut took: Vec<u128> = (0..rounds).map(|_| round(setting)).collect();
    took.sort_unstable();
    let Setting { tasks, nodes, cores } = setting;
    let (least, middle, most) = (took[0], took[rounds / 2], took[rounds - 1]);
    println!("| {tasks} | {nodes} | {cores} | {middle} [{least}, {most}] |");
}

fn main() {
    println!("| tasks | nodes | cores of each | ns a task, median [least, most] |");
    println!("|---|---|---|---|");
    let given: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if let [tasks, nodes, cores, rounds @ ..] = given.as_slice() {
        let rounds = rounds.first().map_or(ROUNDS, |rounds| *rounds as usize).max(1);
        row(Setting { tasks: *tasks, nodes: *nodes, cores: *cores }, rounds);
        return;
    }
    for tasks in [10_000, 100_000, 1_000_000] {
        for nodes in [10, 100, 1_000, 10_000] {
            row(Setting { tasks, nodes, cores: 64 }, ROUNDS);
        }
    }
    // As many cores in all: what more nodes cost when not more runs at a time.
    for nodes in [10, 100, 1_000, 10_000] {
        row(Setting { tasks: 1_000_000, nodes, cores: 100_000 / nodes }, ROUNDS);
    }
}
