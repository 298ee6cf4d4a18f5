//! What follows from each input, with a real scheduler, and random lives.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::config::Config;
use crate::event::{ActionOutcome, Output, TaskKind};
use crate::fact::Fact;
use crate::ids::{InvocationId, RequirementId};
use crate::random::Random;
use crate::requirement::{Capacity, Requirement};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
const SECOND_NS: u64 = 1_000_000_000;

/// Where the shell takes files to be.
#[derive(Default)]
struct Known(BTreeMap<TaskId, NodeId>);

impl FilePlaces for Known {
    fn places_of(&self, id: TaskId) -> Places {
        self.0.get(&id).map_or(Places::Unknown, |node| Places::One(*node))
    }

    fn known(&self) -> impl Iterator<Item = TaskId> {
        self.0.keys().copied()
    }
}

/// Does what effects say, and keeps them.
struct Shell {
    part: Reachability,
    scheduler: Scheduler,
    known: Known,
    now_ns: u64,
    tasks: u32,
    /// Files that are there.
    made: BTreeSet<TaskId>,
    running: BTreeMap<TaskId, (u32, NodeId)>,
    /// Ends of attempts, and whether there will be another one.
    failed: Vec<(TaskId, bool)>,
    started: Vec<TaskId>,
    over: bool,
}

type Scheduler = crate::scheduler::Scheduler;

fn requirement(allowed_nodes: Option<Vec<NodeId>>) -> Requirement {
    Requirement { allowed_nodes, ..Requirement::default() }
}

impl Shell {
    /// Three nodes of four cores. No failure that counts is tried again.
    fn new() -> Self {
        Self::with(Reachability::new(true))
    }

    fn with(part: Reachability) -> Self {
        let config =
            Config { files_on_nodes: true, files_apart: true, retry: 0, ..Config::default() };
        let mut shell = Self {
            part,
            scheduler: Scheduler::new(config),
            known: Known::default(),
            now_ns: 1000 * SECOND_NS,
            tasks: 0,
            made: BTreeSet::new(),
            running: BTreeMap::new(),
            failed: Vec::new(),
            started: Vec::new(),
            over: false,
        };
        let id = RequirementId(0);
        shell.event(Event::RequirementDefined { id, requirement: requirement(None) });
        let id = RequirementId(1);
        let on_two = requirement(Some(vec![NodeId(2)]));
        shell.event(Event::RequirementDefined { id, requirement: on_two });
        for node in 0..3 {
            let capacity = Capacity { cores: 4, ..Capacity::default() };
            shell.event(Event::NodeJoined { id: NodeId(node), capacity, files_kept: true });
        }
        shell
    }

    fn event(&mut self, event: Event<'_>) {
        let mut out = Vec::new();
        self.scheduler.handle(Time(self.now_ns), event, &mut out);
        self.scheduler.check_invariants();
        for output in out {
            match output {
                Output::StartAction { id, attempt, node, .. } => {
                    self.running.insert(id, (attempt, node));
                    self.started.push(id);
                    // Its shell has removed the name of what is out of reach.
                    self.tell(ReachInput::MakingBegan { id });
                    self.known.0.remove(&id);
                }
                Output::GatherFact { id } => self.gather(id),
                Output::AttemptFailed { id, retried, .. } => self.failed.push((id, retried)),
                Output::InputLost { id } => {
                    self.tell(ReachInput::InputAwaited { id });
                }
                Output::InvocationEnded { .. } => self.over = true,
                _ => {}
            }
        }
    }

    fn gather(&mut self, id: TaskId) {
        let modified_ns = self.made.contains(&id).then_some(i128::from(1 + id.0));
        let places = if self.part.is_lost(id) { Places::Nowhere } else { self.known.places_of(id) };
        self.event(Event::FactGathered { id, fact: Fact { modified_ns, bytes: 1, places } });
    }

    fn file(&mut self, prerequisites: &[TaskId]) -> TaskId {
        self.file_with(prerequisites, 0)
    }

    fn file_with(&mut self, prerequisites: &[TaskId], requirement: u32) -> TaskId {
        let id = TaskId(self.tasks);
        self.tasks += 1;
        self.event(Event::TaskDefined {
            id,
            kind: TaskKind::File,
            has_action: !prerequisites.is_empty(),
            deferred: false,
            requirement: RequirementId(requirement),
            prerequisites,
        });
        if prerequisites.is_empty() {
            self.made.insert(id);
        }
        self.gather(id);
        id
    }

    fn invoke(&mut self, tasks: &[TaskId]) {
        let id = InvocationId(0);
        self.event(Event::InvocationStarted { id, tasks, caller: None });
    }

    /// An action ends well; its file is on `node`, as far as the shell knows.
    fn make(&mut self, id: TaskId, node: u32) {
        self.made.insert(id);
        self.known.0.insert(id, NodeId(node));
        self.end(id, ActionOutcome::Succeeded);
    }

    fn end(&mut self, id: TaskId, outcome: ActionOutcome) {
        let (attempt, _) = self.running.remove(&id).unwrap();
        self.event(Event::ActionEnded { id, attempt, outcome, run_ns: None });
    }

    /// An action fails: what follows in the part.
    fn fail(&mut self, id: TaskId) -> Vec<ReachEffect> {
        let (_, node) = self.running[&id];
        let began = Time(self.now_ns - SECOND_NS);
        let input = ReachInput::ActionFailed { id, node, began, told_to_end: false };
        let effects = self.tell(input);
        if !effects.contains(&ReachEffect::Attribute { id }) {
            self.end(id, ActionOutcome::Failed);
        }
        effects
    }

    fn step(&mut self, input: ReachInput) -> Vec<ReachEffect> {
        let mut effects = Vec::new();
        let view = ReachView { scheduler: &self.scheduler, places: &self.known };
        self.part.handle(Time(self.now_ns), input, &view, &mut effects);
        effects
    }

    fn tell(&mut self, input: ReachInput) -> Vec<ReachEffect> {
        let mut all = Vec::new();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for effect in self.step(input) {
                match effect.clone() {
                    ReachEffect::PassOn { id } => self.end(id, ActionOutcome::Failed),
                    ReachEffect::Event(event) => self.event(event),
                    ReachEffect::HandedOut { id, hosts } => {
                        self.known.0.insert(id, NodeId(hosts[0].0));
                    }
                    ReachEffect::Back { files } => {
                        let files = files.into_iter().map(|id| (id, self.known.places_of(id)));
                        let files = files.collect();
                        self.event(Event::FilesFound { files });
                    }
                    ReachEffect::FreeName { id } => {
                        self.known.0.remove(&id);
                        self.made.remove(&id);
                    }
                    ReachEffect::Continue => {
                        assert!(next.is_none());
                        next = Some(ReachInput::Continued);
                        continue;
                    }
                    ReachEffect::Ask { .. }
                    | ReachEffect::Attribute { .. }
                    | ReachEffect::Warn(_) => {}
                }
                all.push(effect);
            }
        }
        all
    }

    fn answer(
        &mut self,
        round: u32,
        files: &[(TaskId, Reach)],
        unresponsive: &[(HostId, TaskId)],
    ) -> Vec<ReachEffect> {
        let (files, unresponsive) = (files.to_vec(), unresponsive.iter().copied().collect());
        self.tell(ReachInput::Answered { round, files, unresponsive })
    }

    fn pass(&mut self, seconds: u64) -> Vec<ReachEffect> {
        self.now_ns += seconds * SECOND_NS;
        self.tell(ReachInput::TimeCame)
    }
}

fn ask(round: u32, files: &[TaskId]) -> ReachEffect {
    ReachEffect::Ask { round, files: files.to_vec() }
}

fn on(host: HostId) -> Reach {
    Reach::Hosts(vec![host])
}

fn handed_out(id: TaskId, host: HostId) -> ReachEffect {
    ReachEffect::HandedOut { id, hosts: vec![host] }
}

fn back(files: &[TaskId]) -> ReachEffect {
    ReachEffect::Back { files: files.to_vec() }
}

fn out_of_reach(files: &[TaskId], unresponsive: &[HostId]) -> ReachEffect {
    let (files, unresponsive) = (files.to_vec(), unresponsive.to_vec());
    ReachEffect::Warn(ReachWarning::OutOfReach { files, unresponsive })
}

fn deferred(id: TaskId, unresponsive: &[HostId]) -> ReachEffect {
    ReachEffect::Warn(ReachWarning::FailureDeferred { id, unresponsive: unresponsive.to_vec() })
}

fn nowhere(id: TaskId) -> ReachEffect {
    super::out_of_reach(id)
}

fn uncharged(id: TaskId) -> ReachEffect {
    ReachEffect::Event(Event::FailureUncharged { id })
}

fn lacked(id: TaskId, input: TaskId) -> ReachEffect {
    ReachEffect::Event(Event::InputLacked { id, input })
}

fn pass_on(id: TaskId) -> ReachEffect {
    ReachEffect::PassOn { id }
}

fn attribute(id: TaskId) -> ReachEffect {
    ReachEffect::Attribute { id }
}

/// `source`, which nothing makes, on node 2; `mid` of it on node 0, `half` of that on node 1, and `end` of that runs.
fn chain() -> (Shell, [TaskId; 4]) {
    chain_with(Shell::new(), 0)
}

fn chain_with(mut shell: Shell, requirement: u32) -> (Shell, [TaskId; 4]) {
    let source = shell.file(&[]);
    shell.known.0.insert(source, NodeId(2));
    let mid = shell.file_with(&[source], requirement);
    let half = shell.file(&[mid]);
    let end = shell.file(&[half]);
    shell.invoke(&[end]);
    shell.make(mid, 0);
    shell.make(half, 1);
    assert_eq!(shell.started, [mid, half, end]);
    (shell, [source, mid, half, end])
}

#[test]
fn failed_action_waits_for_its_inputs_what_lies_behind_them_and_a_file_of_each_node() {
    let (mut shell, [source, mid, half, end]) = chain();
    assert_eq!(shell.fail(end), [attribute(end), ask(1, &[source, mid, half])]);
    assert_eq!(shell.failed, []);
    let out = shell.answer(1, &[(source, on(A)), (mid, on(A)), (half, on(B))], &[]);
    let found = [handed_out(source, A), handed_out(mid, A)];
    assert_eq!(out[..2], found);
    assert_eq!(out[2..], [handed_out(half, B), pass_on(end)]);
    assert_eq!(shell.failed, [(end, false)], "it counts");
}

#[test]
fn failure_over_an_input_out_of_reach_is_passed_on_after_that_is_told() {
    let (mut shell, [_, _, half, end]) = chain();
    shell.fail(end);
    let out = shell.answer(1, &[(half, Reach::Nowhere)], &[(B, half)]);
    // Not in full at first: what lies behind is asked about before.
    assert_eq!(out[..2], [out_of_reach(&[half], &[B]), nowhere(half)]);
    let ReachEffect::Ask { round: 2, .. } = out[2] else { panic!("{out:?}") };
    assert_eq!(shell.failed, []);
    let out = shell.answer(2, &[], &[(B, half)]);
    assert_eq!(out, [pass_on(end)]);
    assert_eq!(shell.failed, [(end, true)], "it used up no retry");
    assert_eq!(shell.started.last(), Some(&half), "it is made again");
}

#[test]
fn file_behind_the_inputs_is_told_before_the_failure_that_lacked_it() {
    let (mut shell, [_, mid, _, end]) = chain();
    shell.fail(end);
    shell.answer(1, &[(mid, Reach::Nowhere)], &[(A, mid)]);
    let out = shell.answer(2, &[], &[(A, mid)]);
    assert_eq!(out, [lacked(end, mid), pass_on(end)]);
    assert_eq!(shell.failed, [(end, true)]);
    assert_eq!(shell.started.last(), Some(&mid));
}

#[test]
fn file_that_was_out_of_reach_before_the_action_began_is_told_when_it_is_being_made_again() {
    let (mut shell, [source, mid, half, end]) = chain();
    shell.tell(ReachInput::HeldByNone { id: mid });
    shell.now_ns += 5 * SECOND_NS;
    assert_eq!(shell.fail(end), [attribute(end), ask(1, &[source, mid, half])]);
    let out = shell.tell(ReachInput::MakingBegan { id: mid });
    assert_eq!(out, [ReachEffect::FreeName { id: mid }]);
    let out = shell.answer(1, &[(half, on(B))], &[]);
    assert_eq!(out, [handed_out(half, B), lacked(end, mid), pass_on(end)]);
    assert_eq!(shell.failed, [(end, true)], "it used up no retry");
}

#[test]
fn file_that_was_out_of_reach_before_the_action_began_is_told_when_it_is_back() {
    let (mut shell, [source, mid, half, end]) = chain();
    shell.tell(ReachInput::HeldByNone { id: mid });
    shell.now_ns += 5 * SECOND_NS;
    assert_eq!(shell.fail(end), [attribute(end), ask(1, &[source, mid, half])]);
    let out = shell.answer(1, &[(mid, on(A)), (half, on(B))], &[]);
    let found = [handed_out(mid, A), handed_out(half, B), back(&[mid])];
    assert_eq!(out[..3], found);
    assert_eq!(out[3..], [lacked(end, mid), pass_on(end)]);
    assert_eq!(shell.failed, [(end, true)], "it used up no retry");
}

#[test]
fn file_that_was_back_before_the_action_began_says_nothing() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.tell(ReachInput::HeldByNone { id: mid });
    shell.tell(ReachInput::NodeJoined { id: NodeId(0) });
    let out = shell.answer(1, &[(mid, on(A))], &[]);
    assert_eq!(out, [handed_out(mid, A), back(&[mid])]);
    shell.now_ns += 5 * SECOND_NS;
    shell.fail(end);
    let out = shell.answer(2, &[(half, on(B))], &[]);
    assert_eq!(out, [handed_out(half, B), pass_on(end)]);
    assert_eq!(shell.failed, [(end, false)], "it counts");
}

#[test]
fn lost_file_that_no_node_can_make_is_left_out() {
    let (mut shell, [_, mid, _, end]) = chain_with(Shell::new(), 1);
    shell.event(Event::NodeLost { id: NodeId(2) });
    shell.fail(end);
    shell.answer(1, &[(mid, Reach::Nowhere)], &[(A, mid)]);
    let out = shell.answer(2, &[], &[(A, mid)]);
    assert_eq!(out, [deferred(end, &[A])], "it waits for the host and not for the file");
}

#[test]
fn failure_while_a_host_is_unresponsive_waits_until_it_answers_and_does_not_count() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.fail(end);
    // Another host hands it out: nothing is out of reach.
    shell.answer(1, &[(mid, on(B)), (half, on(B))], &[(A, mid)]);
    let out = shell.answer(2, &[(mid, on(B)), (half, on(B))], &[(A, mid)]);
    assert_eq!(out[2..], [deferred(end, &[A])]);
    assert_eq!(shell.part.waits_for(end), Some(vec![A]));
    assert_eq!(shell.pass(4), [], "it is not time");
    assert_eq!(shell.pass(1), [ask(3, &[mid])]);
    assert_eq!(shell.answer(3, &[(mid, on(B))], &[(A, mid)])[1..], []);
    assert_eq!(shell.pass(5), [ask(4, &[mid])]);
    let out = shell.answer(4, &[(mid, on(A))], &[]);
    assert_eq!(out[1..], [uncharged(end), pass_on(end)]);
    assert_eq!(shell.failed, [(end, true)]);
    assert_eq!(shell.part.waits_for(end), None);
    assert_eq!(shell.part.due_ns(), None);
}

#[test]
fn task_is_uncharged_three_times_at_most() {
    let (mut shell, [_, mid, half, end]) = chain();
    let mut round = 0;
    for time in 0..4 {
        // Each time counts by itself, and is over when the host answers.
        let unresponsive = [(A, mid)];
        shell.fail(end);
        round += 1;
        let out = shell.answer(round, &[(mid, on(B)), (half, on(B))], &unresponsive);
        if time == 0 {
            // It was not asked in full.
            round += 1;
            shell.answer(round, &[(mid, on(B)), (half, on(B))], &unresponsive);
        } else if time == 3 {
            assert_eq!(out.last(), Some(&pass_on(end)));
            break;
        }
        shell.pass(5);
        round += 1;
        let out = shell.answer(round, &[(mid, on(A))], &[]);
        assert_eq!(out[1..], [uncharged(end), pass_on(end)], "{time}");
        shell.now_ns += SECOND_NS;
    }
    let expected = [(end, true), (end, true), (end, true), (end, false)];
    assert_eq!(shell.failed, expected);
}

#[test]
fn host_that_is_unresponsive_for_200_seconds_uncharges_once_more_and_then_never() {
    let (mut shell, [_, mid, half, end]) = chain();
    let unresponsive = [(A, mid)];
    shell.fail(end);
    shell.answer(1, &[(mid, on(B)), (half, on(B))], &unresponsive);
    shell.answer(2, &[(mid, on(B)), (half, on(B))], &unresponsive);
    let mut round = 2;
    for _ in 0..39 {
        shell.pass(5);
        round += 1;
        assert_eq!(shell.answer(round, &[(mid, on(B))], &unresponsive).len(), 1);
    }
    shell.pass(5);
    let out = shell.answer(round + 1, &[(mid, on(B))], &unresponsive);
    assert_eq!(out[1..], [uncharged(end), pass_on(end)]);
    shell.now_ns += 10 * SECOND_NS;
    shell.fail(end);
    let out = shell.answer(round + 2, &[(mid, on(B)), (half, on(B))], &unresponsive);
    assert_eq!(out.last(), Some(&pass_on(end)));
    assert_eq!(shell.failed, [(end, true), (end, false)]);
}

#[test]
fn failure_does_not_count_that_comes_after_a_host_was_unresponsive_while_it_ran() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.tell(ReachInput::NodeLost { id: NodeId(0) });
    shell.answer(1, &[(mid, on(A))], &[]);
    assert_eq!(shell.fail(end)[0], attribute(end));
    let out = shell.answer(2, &[(mid, on(A)), (half, on(B))], &[]);
    assert_eq!(out[2..], [uncharged(end), pass_on(end)]);
}

#[test]
fn one_round_is_under_way_at_a_time() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    shell.known.0.insert(source, NodeId(0));
    let (one, two) = (shell.file(&[source]), shell.file(&[source]));
    shell.invoke(&[one, two]);
    assert_eq!(shell.fail(one), [attribute(one), ask(1, &[source])]);
    assert_eq!(shell.fail(two), [attribute(two)]);
    assert_eq!(shell.tell(ReachInput::NodeJoined { id: NodeId(1) }), []);
    assert_eq!(shell.part.due_ns(), None);
    assert_eq!(shell.answer(2, &[], &[]), [], "nobody has asked that");
    let out = shell.answer(1, &[(source, on(A))], &[]);
    assert_eq!(out, [handed_out(source, A), pass_on(one), ask(2, &[source])]);
    let out = shell.answer(1, &[(source, Reach::Nowhere)], &[]);
    assert_eq!(out, [], "it has been answered");
}

#[test]
fn failure_whose_invocation_ends_by_another_one_is_passed_on_and_waits_for_nothing() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    shell.known.0.insert(source, NodeId(0));
    let (one, two) = (shell.file(&[source]), shell.file(&[source]));
    shell.invoke(&[one, two]);
    shell.fail(one);
    shell.tell(ReachInput::Unanswered { round: 1 });
    assert_eq!(shell.failed, [(one, false)]);
    shell.fail(two);
    let out = shell.answer(2, &[(source, on(B))], &[(A, source)]);
    assert_eq!(out[1..], [ask(3, &[source])], "in full now");
    let out = shell.answer(3, &[(source, on(B))], &[(A, source)]);
    assert_eq!(out[1..], [pass_on(two)]);
}

#[test]
fn what_cannot_be_found_out_is_said_once_and_failures_count() {
    let (mut shell, [.., end]) = chain();
    shell.fail(end);
    let out = shell.tell(ReachInput::Unanswered { round: 1 });
    assert_eq!(out, [ReachEffect::Warn(ReachWarning::CannotAsk), pass_on(end)]);
    assert_eq!(shell.failed, [(end, false)]);
    let (mut shell, [_, mid, _, end]) = chain();
    shell.tell(ReachInput::NodeLost { id: NodeId(0) });
    shell.tell(ReachInput::Unanswered { round: 1 });
    shell.fail(end);
    shell.pass(2);
    let out = shell.tell(ReachInput::Unanswered { round: 2 });
    assert_eq!(out, [uncharged(end), pass_on(end)], "{mid:?}: an agent was lost meanwhile");
}

#[test]
fn of_a_lost_node_some_files_are_asked_about_and_all_once_one_is_out_of_reach() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let files: Vec<TaskId> = (0..20).map(|_| shell.file(&[source])).collect();
    shell.invoke(&files);
    while let Some(id) = shell.running.keys().next().copied() {
        shell.make(id, 1);
    }
    let out = shell.tell(ReachInput::NodeLost { id: NodeId(1) });
    assert_eq!(out, [ask(1, &files[..SAMPLE])]);
    let out = shell.answer(1, &[(files[0], on(A)), (files[3], Reach::Nowhere)], &[]);
    let ReachEffect::Ask { round: 2, files: rest } = out.last().unwrap() else { panic!("{out:?}") };
    assert_eq!(rest.len(), 18, "those that are neither out of reach nor found elsewhere");
    assert!(!rest.contains(&files[3]) && !rest.contains(&files[0]));
    assert_eq!(shell.answer(2, &[(files[4], Reach::Nowhere)], &[]).len(), 2, "they were searched");
    let out = shell.tell(ReachInput::NodeJoined { id: NodeId(2) });
    assert_eq!(out, [ask(3, &[files[3], files[4]])]);
    let out = shell.answer(3, &[(files[3], on(B)), (files[4], Reach::Unknown)], &[]);
    assert_eq!(out, [handed_out(files[3], B), back(&[files[3]])]);
    assert!(!shell.part.is_lost(files[3]) && shell.part.is_lost(files[4]));
}

/// Twenty files on node 1, the first two of which are being made again.
fn made_again_in_part() -> (Shell, Vec<TaskId>) {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let files: Vec<TaskId> = (0..20).map(|_| shell.file(&[source])).collect();
    let other = shell.file(&[source]);
    let both = shell.file(&[files[0], files[1], other]);
    shell.invoke(&[&files[..], &[both]].concat());
    while let Some(id) = shell.running.keys().copied().find(|id| *id != both) {
        shell.make(id, 1);
    }
    shell.known.0.insert(other, NodeId(0));
    for id in &files[..2] {
        shell.made.remove(id);
        shell.event(Event::PlacesFound { id: *id, places: Places::Nowhere });
    }
    shell.end(both, ActionOutcome::Failed);
    assert!(shell.running.keys().eq(&files[..2]), "{:?}", shell.running);
    (shell, files)
}

#[test]
fn what_is_being_made_again_tells_nothing_of_a_lost_node_and_another_file_does() {
    let (mut shell, files) = made_again_in_part();
    let out = shell.tell(ReachInput::NodeLost { id: NodeId(1) });
    assert_eq!(out, [ask(1, &files[2..2 + SAMPLE])]);
}

#[test]
fn unresponsive_host_is_found_though_its_first_file_is_being_made_again() {
    let (mut shell, files) = made_again_in_part();
    let failed = files[1];
    shell.tell(ReachInput::MakingBegan { id: failed });
    let out = shell.fail(failed);
    let asked = out.iter().find_map(|effect| match effect {
        ReachEffect::Ask { files, .. } => Some(files.clone()),
        _ => None,
    });
    assert!(asked.is_some_and(|asked| asked.contains(&files[2])), "{out:?}");
}

/// Its disk may have gone while it was away.
#[test]
fn node_that_was_lost_is_asked_about_its_files_when_it_comes_again() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let target = shell.file(&[source]);
    shell.invoke(&[target]);
    shell.make(target, 1);
    assert_eq!(shell.tell(ReachInput::NodeLost { id: NodeId(1) }), [ask(1, &[target])]);
    assert_eq!(shell.answer(1, &[(target, on(B))], &[]), [handed_out(target, B)]);
    assert_eq!(shell.tell(ReachInput::NodeJoined { id: NodeId(1) }), [ask(2, &[target])]);
    let out = shell.answer(2, &[(target, Reach::Nowhere)], &[]);
    assert_eq!(out, [out_of_reach(&[target], &[]), nowhere(target)]);
    assert_eq!(shell.tell(ReachInput::NodeJoined { id: NodeId(1) }), [ask(3, &[target])]);
}

#[test]
fn node_that_was_not_lost_is_not_asked_about_when_it_comes() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let target = shell.file(&[source]);
    shell.invoke(&[target]);
    shell.make(target, 1);
    assert_eq!(shell.tell(ReachInput::NodeJoined { id: NodeId(1) }), []);
}

#[test]
fn input_that_nothing_makes_is_asked_about_until_it_is_back_or_60_seconds_are_over() {
    for is_back in [true, false] {
        let mut shell = Shell::new();
        let source = shell.file(&[]);
        let end = shell.file(&[source]);
        assert_eq!(shell.tell(ReachInput::HeldByNone { id: source }), [nowhere(source)]);
        assert_eq!(shell.tell(ReachInput::HeldByNone { id: source }), []);
        shell.invoke(&[end]);
        assert_eq!(shell.started, []);
        assert_eq!(shell.pass(5), [ask(1, &[source])]);
        assert_eq!(shell.answer(1, &[(source, Reach::Nowhere)], &[]), []);
        if is_back {
            assert_eq!(shell.pass(5), [ask(2, &[source])]);
            let out = shell.answer(2, &[(source, on(A))], &[]);
            assert_eq!(out, [handed_out(source, A), back(&[source])]);
            assert_eq!((shell.started, shell.part.due_ns()), (vec![end], None));
            continue;
        }
        assert_eq!(shell.pass(54), [ask(2, &[source])]);
        assert_eq!(shell.answer(2, &[(source, Reach::Nowhere)], &[]), []);
        assert_eq!(shell.pass(5), [ask(3, &[source])]);
        let out = shell.answer(3, &[(source, Reach::Nowhere)], &[]);
        let (id, wait_ns) = (source, WAIT_NS);
        let warning = ReachEffect::Warn(ReachWarning::InputGivenUp { id, wait_ns });
        assert_eq!(out, [warning, ReachEffect::Event(Event::FileGivenUp { id })]);
        assert!(shell.over);
    }
}

#[test]
fn waiting_for_an_input_is_told() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    shell.tell(ReachInput::HeldByNone { id: source });
    let out = shell.tell(ReachInput::InputAwaited { id: source });
    let (id, wait_ns) = (source, WAIT_NS);
    assert_eq!(out, [ReachEffect::Warn(ReachWarning::InputAwaited { id, wait_ns })]);
}

#[test]
fn input_that_is_back_before_the_shell_says_that_it_is_waited_for_is_not_given_up() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    shell.tell(ReachInput::HeldByNone { id: source });
    shell.tell(ReachInput::NodeJoined { id: NodeId(0) });
    let out = shell.answer(1, &[(source, on(A))], &[]);
    assert_eq!(out, [handed_out(source, A), back(&[source])]);
    assert_eq!(shell.tell(ReachInput::InputAwaited { id: source }), []);
    assert_eq!(shell.part.due_ns(), None);
}

#[test]
fn input_that_only_the_scheduler_takes_for_lost_is_told_as_soon_as_hosts_hand_it_out() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let end = shell.file(&[source]);
    shell.event(Event::PlacesFound { id: source, places: Places::Nowhere });
    shell.invoke(&[end]);
    assert_eq!(shell.pass(5), [ask(1, &[source])]);
    let out = shell.answer(1, &[(source, on(A))], &[]);
    assert_eq!(out, [handed_out(source, A), back(&[source])]);
    assert_eq!((shell.started, shell.part.due_ns()), (vec![end], None));
}

#[test]
fn failures_that_were_wanted_are_not_looked_into() {
    for is_stopping in [true, false] {
        let (mut shell, [_, mid, _, end]) = chain();
        if is_stopping {
            shell.tell(ReachInput::StopRequested);
            assert_eq!(shell.tell(ReachInput::NodeLost { id: NodeId(0) }), [], "{mid:?}");
        }
        let (node, began) = (NodeId(0), Time(0));
        let told_to_end = !is_stopping;
        let input = ReachInput::ActionFailed { id: end, node, began, told_to_end };
        assert_eq!(shell.tell(input), []);
    }
}

#[test]
fn failures_on_a_node_that_is_lost_go_with_it() {
    let (mut shell, [_, mid, _, end]) = chain();
    let (_, node) = shell.running[&end];
    shell.fail(end);
    assert_eq!(shell.part.take_failures_on(NodeId(node.0 + 1)), []);
    assert_eq!(shell.part.take_failures_on(node), [end]);
    assert_eq!(shell.part.take_failures_on(node), []);
    let out = shell.answer(1, &[(mid, on(A))], &[]);
    assert_eq!(out, [handed_out(mid, A)]);
}

#[test]
fn failure_of_an_action_that_is_to_end_is_passed_on_at_once_and_once() {
    let (mut shell, [_, mid, _, end]) = chain();
    shell.fail(end);
    assert_eq!(shell.tell(ReachInput::FailedTold { id: end }), [pass_on(end)]);
    assert_eq!(shell.answer(1, &[(mid, on(A))], &[]), [handed_out(mid, A)]);
}

#[test]
fn name_of_a_lost_file_is_made_free_before_it_is_made_again_and_another_file_tells_of_its_host() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.known.0.insert(half, NodeId(0));
    shell.fail(end);
    shell.answer(1, &[(mid, Reach::Nowhere), (half, on(A))], &[(A, mid)]);
    assert_eq!(
        shell.tell(ReachInput::MakingBegan { id: mid }),
        [ReachEffect::FreeName { id: mid }]
    );
    assert_eq!(shell.tell(ReachInput::MakingBegan { id: mid }), []);
    assert_eq!(shell.part.unresponsive.files().collect::<Vec<_>>(), [half]);
}

#[test]
fn files_that_are_back_are_told_together_when_all_have_been_noted() {
    let mut shell = Shell::new();
    let files: Vec<TaskId> = (0..3).map(|_| shell.file(&[])).collect();
    for id in &files {
        shell.tell(ReachInput::HeldByNone { id: *id });
    }
    shell.tell(ReachInput::NodeJoined { id: NodeId(0) });
    let out = shell.answer(1, &files.iter().map(|id| (*id, on(A))).collect::<Vec<_>>(), &[]);
    let noted = files.iter().map(|id| handed_out(*id, A));
    assert_eq!(out, noted.chain([back(&files)]).collect::<Vec<_>>());
}

#[test]
fn catalogue_without_a_file_says_nothing_of_an_unresponsive_host_and_another_file_is_asked_about() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.known.0.insert(half, NodeId(0));
    shell.fail(end);
    let found = [(mid, on(B)), (half, on(A))];
    shell.answer(1, &found, &[(A, mid)]);
    // Elsewhere, too: it is not out of reach.
    shell.known.0.insert(mid, NodeId(0));
    shell.answer(2, &found, &[(A, mid)]);
    assert_eq!(shell.part.waits_for(end), Some(vec![A]));
    shell.known.0.insert(mid, NodeId(0));
    assert_eq!(shell.pass(5), [ask(3, &[mid])]);
    assert_eq!(shell.answer(3, &[(mid, Reach::Unknown)], &[]), []);
    assert_eq!(shell.part.waits_for(end), Some(vec![A]), "it may be unresponsive still");
    assert_eq!(shell.pass(5), [ask(4, &[half])]);
    let out = shell.answer(4, &[(half, on(A))], &[]);
    assert_eq!(out, [handed_out(half, A), uncharged(end), pass_on(end)]);
}

#[test]
fn failure_that_no_file_tells_of_waits_for_200_seconds_and_no_longer() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.fail(end);
    shell.answer(1, &[(mid, Reach::Nowhere), (half, on(B))], &[(A, mid)]);
    shell.tell(ReachInput::MakingBegan { id: mid });
    shell.part.lost_until_ns.clear();
    let out = shell.answer(2, &[(half, on(B))], &[]);
    assert_eq!(out[1..], [deferred(end, &[A])]);
    assert_eq!(shell.part.unresponsive.files().count(), 0);
    for _ in 0..39 {
        assert_eq!(shell.pass(5), []);
    }
    assert_eq!(shell.pass(5), [uncharged(end), pass_on(end)]);
    assert_eq!(shell.part.due_ns(), None);
}

#[test]
fn answer_about_a_file_whose_making_began_since_says_nothing() {
    let (mut shell, [_, mid, half, end]) = chain();
    shell.fail(end);
    shell.answer(1, &[(mid, Reach::Nowhere), (half, on(B))], &[(A, mid)]);
    let out = shell.answer(2, &[(half, on(B))], &[(A, mid)]);
    assert_eq!(out[1..], [lacked(end, mid), pass_on(end)]);
    assert_eq!(shell.started.last(), Some(&mid), "it is being made again");
    shell.part.wanted.insert(mid);
    assert_eq!(shell.tell(ReachInput::NodeLost { id: NodeId(1) }), [ask(3, &[half])]);
    shell.make(mid, 2);
    shell.tell(ReachInput::MakingBegan { id: half });
    assert_eq!(shell.answer(3, &[(half, Reach::Nowhere)], &[]), []);
    assert!(!shell.part.is_lost(half));
}

#[test]
fn run_that_is_over_passes_all_failures_on_and_asks_nothing() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    shell.known.0.insert(source, NodeId(0));
    let [one, two, three] = [0; 3].map(|_| shell.file(&[source]));
    shell.invoke(&[one, two, three]);
    shell.fail(one);
    shell.answer(1, &[(source, on(B))], &[(A, source)]);
    shell.answer(2, &[(source, on(B))], &[(A, source)]);
    assert!(shell.part.waits_for(one).is_some());
    shell.fail(two);
    shell.fail(three);
    let out = shell.tell(ReachInput::RunEnded);
    assert_eq!(out, [pass_on(two), pass_on(three), pass_on(one)]);
    assert_eq!(shell.answer(3, &[(source, Reach::Nowhere)], &[]), []);
    assert_eq!((shell.pass(5), shell.part.due_ns()), (vec![], None));
}

#[test]
fn where_no_servers_are_nothing_is_held() {
    let (mut shell, [.., mid, _, end]) = chain_with(Shell::with(Reachability::new(false)), 0);
    assert_eq!(shell.tell(ReachInput::HeldByNone { id: mid }), []);
    assert_eq!(shell.tell(ReachInput::InputAwaited { id: mid }), []);
    assert_eq!(shell.tell(ReachInput::NodeLost { id: NodeId(0) }), []);
    assert_eq!((shell.pass(100), shell.part.due_ns()), (vec![], None));
    assert_eq!(shell.fail(end), []);
    assert_eq!(shell.failed, [(end, false)]);
}

#[test]
fn action_that_reads_nothing_is_held_only_where_files_are_known() {
    let mut shell = Shell::new();
    let source = shell.file(&[]);
    let other = shell.file(&[source]);
    let plain = TaskId(shell.tasks);
    shell.tasks += 1;
    shell.event(Event::TaskDefined {
        id: plain,
        kind: TaskKind::Plain,
        has_action: true,
        deferred: false,
        requirement: RequirementId(0),
        prerequisites: &[],
    });
    shell.invoke(&[plain, other]);
    let input =
        |began| ReachInput::ActionFailed { id: plain, node: NodeId(0), began, told_to_end: false };
    assert_eq!(shell.step(input(Time(0))), []);
    shell.make(other, 1);
    assert_eq!(shell.step(input(Time(0))), [attribute(plain), ask(1, &[other])]);
}

/// Whatever comes in whatever order: rounds do not overlap, a failure that is held is passed on
/// once, and what makes it uncharged goes before.
#[test]
fn random_lives_keep_the_rules() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut below = |bound: u32| u32::try_from(random.below(bound.into())).unwrap();
        let (mut shell, files) = chain();
        let [.., end] = files;
        let (mut open, mut round, mut held) = (false, 0, false);
        for _ in 0..60 {
            if shell.over {
                break;
            }
            shell.now_ns += u64::from(below(20)) * SECOND_NS;
            let file = files[below(4) as usize];
            let reach = |number| match number {
                0 => Reach::Nowhere,
                1 => Reach::Unknown,
                _ => on(A),
            };
            let effects = match below(7) {
                0 if shell.running.contains_key(&end) && !held => shell.fail(end),
                1 => {
                    let id = NodeId(below(3));
                    let taken = shell.part.take_failures_on(id);
                    assert!(taken.is_empty() || held && taken == [end]);
                    if !taken.is_empty() {
                        held = false;
                        shell.end(end, ActionOutcome::GivenBack);
                    }
                    shell.tell(ReachInput::NodeLost { id })
                }
                2 => shell.tell(ReachInput::NodeJoined { id: NodeId(below(3)) }),
                3 | 4 if open => {
                    open = false;
                    let answers: Vec<_> = files.iter().map(|id| (*id, reach(below(6)))).collect();
                    let unresponsive = [(A, file)];
                    let unresponsive = &unresponsive[..below(2) as usize];
                    shell.answer(round, &answers, unresponsive)
                }
                5 if open => {
                    open = false;
                    shell.tell(ReachInput::Unanswered { round })
                }
                6 if shell.running.keys().next().is_some_and(|id| *id != end) => {
                    let id = *shell.running.keys().next().unwrap();
                    shell.make(id, below(3));
                    vec![]
                }
                _ => shell.tell(ReachInput::TimeCame),
            };
            for (index, effect) in effects.iter().enumerate() {
                match effect {
                    ReachEffect::Ask { round: number, .. } => {
                        assert!(!open, "seed {seed}: two rounds at a time");
                        assert_eq!(*number, round + 1);
                        (open, round) = (true, *number);
                    }
                    ReachEffect::Attribute { id } => {
                        assert!(!held && *id == end, "seed {seed}: held twice");
                        held = true;
                    }
                    ReachEffect::PassOn { id } => {
                        assert!(held && *id == end, "seed {seed}: passed on twice");
                        held = false;
                    }
                    ReachEffect::Event(
                        Event::FailureUncharged { .. } | Event::InputLacked { .. },
                    ) => {
                        let rest = &effects[index..];
                        assert!(rest.contains(&pass_on(end)), "seed {seed}: {effects:?}");
                    }
                    _ => {}
                }
            }
            assert!(!open || shell.part.due_ns().is_none(), "seed {seed}");
        }
        let out = shell.tell(ReachInput::RunEnded);
        assert_eq!(out.contains(&pass_on(end)), held, "seed {seed}: a failure is left");
    }
}
