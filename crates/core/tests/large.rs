//! Plans that would break recursion or anything quadratic.

use rakuda_core::{
    ActionOutcome, Capacity, Config, Event, Fact, InvocationId, NodeId, Output, Places, Policy,
    Requirement, RequirementId, Scheduler, Settled, TaskId, TaskKind, Time,
};

fn scheduler(policy: Policy, out: &mut Vec<Output>) -> Scheduler {
    let mut scheduler = Scheduler::new(Config { policy, ..Config::default() });
    let requirement = Requirement::default();
    scheduler.handle(Time(0), Event::RequirementDefined { id: RequirementId(0), requirement }, out);
    let capacity = Capacity { cores: 2, ..Capacity::default() };
    scheduler.handle(
        Time(0),
        Event::NodeJoined { id: NodeId(0), capacity, files_kept: false },
        out,
    );
    scheduler
}

fn define(scheduler: &mut Scheduler, id: u32, kind: TaskKind, prerequisites: &[TaskId]) -> TaskId {
    let id = TaskId(id);
    let requirement = RequirementId(0);
    let mut out = Vec::new();
    let event = Event::TaskDefined {
        id,
        kind,
        has_action: true,
        deferred: false,
        requirement,
        prerequisites,
    };
    scheduler.handle(Time(0), event, &mut out);
    if kind == TaskKind::File {
        let fact = Fact { modified_ns: Some(1), bytes: 1, places: Places::Unknown };
        scheduler.handle(Time(0), Event::FactGathered { id, fact }, &mut out);
    }
    id
}

fn invoke(scheduler: &mut Scheduler, task: TaskId, out: &mut Vec<Output>) {
    let event = Event::InvocationStarted { id: InvocationId(0), tasks: &[task], caller: None };
    scheduler.handle(Time(0), event, out);
}

fn ends_well(out: &[Output]) -> bool {
    let well = |failed: &[TaskId], abandoned: &[TaskId]| failed.is_empty() && abandoned.is_empty();
    matches!(out.last(), Some(Output::InvocationEnded { failed, abandoned, .. }) if well(failed, abandoned))
}

#[test]
fn a_chain_a_million_deep_is_decided_in_one_event() {
    let mut out = Vec::new();
    let mut scheduler = scheduler(Policy::LifoHrf, &mut out);
    let mut last = define(&mut scheduler, 0, TaskKind::File, &[]);
    for id in 1..1_000_000 {
        last = define(&mut scheduler, id, TaskKind::File, &[last]);
    }
    invoke(&mut scheduler, last, &mut out);
    assert!(ends_well(&out));
    assert_eq!(scheduler.counts().not_needed, 1_000_000);
    assert_eq!(scheduler.task(TaskId(0)).map(|task| task.rank), Some(999_999));
    scheduler.check_invariants();
}

#[test]
fn a_failure_at_the_bottom_of_a_deep_chain_abandons_all_of_it() {
    let mut out = Vec::new();
    let mut scheduler = scheduler(Policy::Serial, &mut out);
    let mut last = define(&mut scheduler, 0, TaskKind::Plain, &[]);
    for id in 1..200_000 {
        last = define(&mut scheduler, id, TaskKind::Plain, &[last]);
    }
    invoke(&mut scheduler, last, &mut out);
    let event = Event::ActionEnded {
        id: TaskId(0),
        attempt: 1,
        outcome: ActionOutcome::Failed,
        run_ns: None,
    };
    scheduler.handle(Time(1), event, &mut out);
    assert_eq!(scheduler.counts().abandoned, 199_999);
    let Some(Output::InvocationEnded { failed, abandoned, .. }) = out.last() else {
        panic!("the invocation did not end");
    };
    assert_eq!((failed.len(), abandoned.len()), (1, 199_999));
    scheduler.check_invariants();
}

#[test]
fn a_task_with_a_hundred_thousand_prerequisites_runs_after_all_of_them() {
    for policy in Policy::ALL {
        let mut out = Vec::new();
        let mut scheduler = scheduler(policy, &mut out);
        let leaves: Vec<TaskId> =
            (0..100_000).map(|id| define(&mut scheduler, id, TaskKind::Plain, &[])).collect();
        let last = define(&mut scheduler, 100_000, TaskKind::Plain, &leaves);
        invoke(&mut scheduler, last, &mut out);
        let mut next = 0;
        let mut order = Vec::new();
        while let Some(output) = out.get(next) {
            next += 1;
            if let Output::StartAction { id, .. } = *output {
                order.push(id);
                let event = Event::ActionEnded {
                    id,
                    attempt: 1,
                    outcome: ActionOutcome::Succeeded,
                    run_ns: None,
                };
                scheduler.handle(Time(next as u64), event, &mut out);
            }
        }
        assert_eq!(order.len(), 100_001);
        assert_eq!(order.last(), Some(&last));
        assert!(ends_well(&out));
        assert!(out.contains(&Output::TaskSettled { id: last, how: Settled::Executed }));
        scheduler.check_invariants();
    }
}
