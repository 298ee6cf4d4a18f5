//! What a dry run would start, for random graphs, against a naive model: rake's rule over the transitive closure, with
//! every action done at once; and here and there a file that was made otherwise than it would be now.

mod common;

use common::{Script, started};
use proptest::prelude::*;
use rakuda_core::{Config, Event, Output, Policy, RequirementId, TaskId, TaskKind};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
struct Planned {
    kind: TaskKind,
    has_action: bool,
    modified: Option<i64>,
    demanded: bool,
    prerequisites: Vec<u32>,
}

fn planned(index: u32) -> impl Strategy<Value = Planned> {
    let kind = prop_oneof![
        1 => Just(TaskKind::Plain),
        8 => Just(TaskKind::File),
        1 => Just(TaskKind::Directory)
    ];
    let action = proptest::bool::weighted(0.8);
    let modified = proptest::option::weighted(0.85, 1..9_i64);
    (kind, action, modified, proptest::bool::weighted(0.1), any::<u64>(), any::<u64>()).prop_map(
        move |(kind, has_action, modified, demanded, one, other)| Planned {
            kind,
            has_action,
            modified,
            demanded,
            prerequisites: (0..index).filter(|bit| (one & other) >> bit & 1 == 1).collect(),
        },
    )
}

/// Everything that a task needs, directly or not.
fn closure(tasks: &[Planned], of: u32) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    let mut stack = tasks[of as usize].prerequisites.clone();
    while let Some(id) = stack.pop() {
        if seen.insert(id) {
            stack.extend(&tasks[id as usize].prerequisites);
        }
    }
    seen
}

/// Which tasks need to run, and of those, which have anything to run.
fn model(tasks: &[Planned]) -> Vec<u32> {
    const NOW: i64 = 1_000_000;
    let mut ran: Vec<u32> = Vec::new();
    for (id, task) in (0..).zip(tasks) {
        let timestamp = |other: u32| {
            let task = &tasks[other as usize];
            match task.kind {
                TaskKind::Plain => NOW,
                TaskKind::Directory => i64::MIN,
                _ if ran.contains(&other) => NOW,
                _ => task.modified.unwrap_or(i64::MAX),
            }
        };
        let needed = match (task.kind, task.modified) {
            (TaskKind::Plain, _) | (_, None) => true,
            (TaskKind::Directory, Some(_)) => false,
            (_, Some(modified)) => {
                task.demanded || closure(tasks, id).into_iter().any(|p| timestamp(p) > modified)
            }
        };
        if needed && task.has_action {
            ran.push(id);
        }
    }
    ran
}

/// The files that are to be compared with the record, in order.
fn compared(out: &[Output]) -> Vec<u32> {
    let compare = |output: &Output| match output {
        Output::CompareRecord { id } => Some(id.0),
        _ => None,
    };
    out.iter().filter_map(compare).collect()
}

fn dry_run(tasks: &[Planned], policy: Policy) -> Vec<u32> {
    let mut script =
        Script::new(Config { dry_run: true, compares: true, policy, ..Config::default() });
    script.node(0, 3);
    for (id, task) in (0..).zip(tasks) {
        let prerequisites = common::ids(&task.prerequisites);
        script.send(
            "",
            Event::TaskDefined {
                id: TaskId(id),
                kind: task.kind,
                has_action: task.has_action,
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &prerequisites,
            },
        );
        if task.kind != TaskKind::Plain {
            script.fact(id, task.modified);
        }
    }
    let all: Vec<u32> = (0..).zip(tasks).map(|(id, _)| id).collect();
    let mut waiting: Vec<Output> = script.invoke(&all);
    let mut ran = Vec::new();
    loop {
        let (now, compared) = (started(&waiting), compared(&waiting));
        waiting.clear();
        if now.is_empty() && compared.is_empty() {
            break;
        }
        for id in compared {
            waiting.extend(script.compared(id, tasks[id as usize].demanded));
        }
        for id in now {
            ran.push(id);
            waiting.extend(script.ok(id));
        }
    }
    ran.sort_unstable();
    ran
}

proptest! {
    #[test]
    fn a_dry_run_starts_what_a_run_would_whose_actions_all_make_their_files(
        tasks in (1..20_u32).prop_flat_map(|len| (0..len).map(planned).collect::<Vec<_>>()),
        serial in any::<bool>(),
    ) {
        let policy = if serial { Policy::Serial } else { Policy::LifoHrf };
        prop_assert_eq!(dry_run(&tasks, policy), model(&tasks));
    }
}
