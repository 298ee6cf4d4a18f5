//! What follows from what between the parts.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::{ActionEnding, Effect, Input, PlacesAwaited, Run};
use crate::attempts::{AttemptEffect, NextAttempt, Refusal, State};
use crate::config::{Config, FailurePolicy};
use crate::event::{ActionOutcome, Event, Output, Oversubscribe, TaskKind};
use crate::fact::{Fact, Places};
use crate::ids::{GangId, InvocationId, NodeId, RequirementId, TaskId};
use crate::nodes::{NodeEffect, NodeInput, NodeLimits, NodeOrigin, NodeState};
use crate::reach::{FilePlaces, ReachEffect};
use crate::requirement::{Capacity, Requirement, WaitsForSize};
use crate::stager::HOLDINGS_LIMIT_NS;
use crate::stopping::{Signal, StopEffect, StopHow, StopSettings};
use crate::time::{Now, Time};

const FIRST: TaskId = TaskId(0);
const SECOND: TaskId = TaskId(1);
/// It has started no command.
const FAILED: ActionEnding = ActionEnding::Failed { started: false };
const STOPS: StopSettings = StopSettings { grace_ns: 100, first: Signal::Interrupt };

struct NoFiles;

impl FilePlaces for NoFiles {
    fn places_of(&self, _: TaskId) -> Places {
        Places::Unknown
    }

    fn known(&self) -> impl Iterator<Item = TaskId> {
        core::iter::empty()
    }
}

/// A shell that begins nothing by itself.
struct Shell {
    run: Run<(), u32>,
    now: u64,
}

impl Shell {
    /// Plain tasks, none of which needs another, and nodes with one core each.
    fn new(config: Config, tasks: u32, nodes: u32) -> Self {
        let mut shell = Self { run: Run::new(config, false, STOPS), now: 0 };
        let requirement = Requirement::default();
        shell.tell(Input::Event(Event::RequirementDefined { id: RequirementId(0), requirement }));
        for id in (0..tasks).map(TaskId) {
            shell.tell(Input::Event(Event::TaskDefined {
                id,
                kind: TaskKind::Plain,
                has_action: true,
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &[],
            }));
        }
        for id in (0..nodes).map(NodeId) {
            let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
            shell.node(id, NodeInput::Known { origin, limits });
            shell.node(id, NodeInput::LinkUp { incarnation: 1 });
            shell.join(id);
        }
        shell
    }

    fn tell(&mut self, input: Input<'_, u32>) -> Vec<Effect<u32>> {
        self.now += 1;
        let mut out = Vec::new();
        self.run.handle(self.now(), input, &NoFiles, &mut out);
        self.run.scheduler().check_invariants();
        out
    }

    fn node(&mut self, id: NodeId, input: NodeInput) -> Vec<Effect<u32>> {
        self.tell(Input::Node { id, input })
    }

    fn now(&self) -> Now {
        Time(self.now).into()
    }

    fn join(&mut self, id: NodeId) -> Vec<Effect<u32>> {
        self.tell(Input::CoresSet { node: id, cores: 1 });
        let capacity = Capacity { cores: 1, ..Capacity::default() };
        self.tell(Input::Event(Event::NodeJoined { id, capacity, files_kept: false }))
    }

    fn invoke(&mut self, tasks: &[TaskId]) -> Vec<Effect<u32>> {
        self.tell(Input::Event(Event::InvocationStarted {
            id: InvocationId(0),
            tasks,
            caller: None,
        }))
    }

    /// Has the first two tasks begin together.
    fn define_gang(&mut self, oversubscribe: Oversubscribe) {
        let (id, tasks) = (GangId(0), &[FIRST, SECOND]);
        self.tell(Input::Event(Event::GangDefined { id, tasks, oversubscribe }));
    }

    /// Invokes the first task, and begins its first attempt.
    fn begin_first(&mut self) -> NextAttempt {
        let effects = self.invoke(&[FIRST]);
        let begun = self.begin_all(&effects);
        let [(FIRST, first)] = &begun[..] else { panic!("{effects:?}") };
        first.clone()
    }

    /// Begins what is wanted; returns it.
    fn begin_all(&mut self, effects: &[Effect<u32>]) -> Vec<(TaskId, NextAttempt)> {
        let starts = starts(effects);
        for (id, start) in &starts {
            self.run.begin(self.now(), *id, start, 1, false, ());
        }
        starts
    }
}

fn starts(effects: &[Effect<u32>]) -> Vec<(TaskId, NextAttempt)> {
    let start = |effect: &Effect<u32>| match effect {
        Effect::Output(Output::StartAction { id, attempt, node, devices }) => {
            Some((*id, NextAttempt { number: *attempt, node: *node, devices: devices.clone() }))
        }
        _ => None,
    };
    effects.iter().filter_map(start).collect()
}

fn held(effects: &[Effect<u32>]) -> Vec<TaskId> {
    let held = |effect: &Effect<u32>| match effect {
        Effect::StartHeld { id, .. } => Some(*id),
        _ => None,
    };
    effects.iter().filter_map(held).collect()
}

fn ends(effects: &[Effect<u32>]) -> usize {
    let is_end =
        |effect: &&Effect<u32>| matches!(effect, Effect::Output(Output::InvocationEnded { .. }));
    effects.iter().filter(is_end).count()
}

fn held_ends(effects: &[Effect<u32>]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::EndHeld { .. })).count()
}

#[test]
fn the_next_attempt_waits_until_the_last_one_is_unwound() {
    let mut shell = Shell::new(Config::default(), 1, 2);
    let first = shell.begin_first();
    let effects = shell.tell(Input::NodeLost { id: first.node });
    let unwinds = |effect: &Effect<u32>| {
        matches!(effect, Effect::Attempt(AttemptEffect::Unwind { id: FIRST }))
    };
    assert!(effects.first().is_some_and(unwinds), "{effects:?}");
    assert_eq!((held(&effects), starts(&effects)), (vec![FIRST], vec![]));
    let mut effects = Vec::new();
    let attempt = shell.run.take_unwound(FIRST, &mut effects).expect("it is unwound");
    assert!(matches!(attempt.state(), State::Unwinding { rerun: true, .. }));
    let [(_, next)] = &starts(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(next.number, first.number + 1);
    assert_ne!(next.node, first.node);
    assert!(shell.run.is_wanted(FIRST, next.number));
    assert!(shell.run.take_unwound(FIRST, &mut effects).is_none());
}

#[test]
fn what_was_placed_on_a_node_that_has_gone_since_is_not_begun() {
    let mut shell = Shell::new(Config::default(), 1, 2);
    let effects = shell.invoke(&[FIRST]);
    let [(id, first)] = &starts(&effects)[..] else { panic!("{effects:?}") };
    assert!(shell.run.is_wanted(*id, first.number));
    // It has not been begun: nothing is to be unwound, and the next one need not wait.
    let effects = shell.tell(Input::NodeLost { id: first.node });
    let [(_, next)] = &starts(&effects)[..] else { panic!("{effects:?}") };
    assert!(!shell.run.is_wanted(*id, first.number));
    assert!(shell.run.is_wanted(*id, next.number));
    assert_eq!(held(&effects), []);
}

#[test]
fn an_invocation_ends_when_all_on_lost_nodes_is_unwound() {
    let config = Config { failure: FailurePolicy::Wait, ..Config::default() };
    let mut shell = Shell::new(config, 2, 2);
    let effects = shell.invoke(&[FIRST, SECOND]);
    let begun = shell.begin_all(&effects);
    let [(lost, there), (failed, other)] = &begun[..] else { panic!("{effects:?}") };
    // The invocation starts nothing more, so what is lost is not begun again.
    shell.tell(Input::ActionEnded { id: *failed, ending: FAILED, code: None });
    shell.run.take(*failed);
    let (attempt, outcome) = (other.number, ActionOutcome::Failed);
    let effects = shell.tell(Input::Event(Event::ActionEnded {
        id: *failed,
        attempt,
        outcome,
        run_ns: None,
    }));
    assert_eq!(ends(&effects), 0);
    let effects = shell.tell(Input::NodeLost { id: there.node });
    assert_eq!((ends(&effects), held_ends(&effects)), (0, 1), "{effects:?}");
    let mut effects = Vec::new();
    shell.run.take_unwound(*lost, &mut effects);
    assert_eq!((ends(&effects), held_ends(&effects)), (1, 0), "{effects:?}");
}

#[test]
fn an_attempt_that_waits_for_the_last_one_can_be_aborted() {
    let mut shell = Shell::new(Config::default(), 1, 2);
    let first = shell.begin_first();
    let effects = shell.tell(Input::NodeLost { id: first.node });
    assert_eq!(held(&effects), [FIRST]);
    let effects = shell.tell(Input::Abort { id: FIRST });
    let failed =
        |effect: &Effect<u32>| matches!(effect, Effect::Output(Output::AttemptFailed { .. }));
    assert!(effects.iter().any(failed), "{effects:?}");
    let mut effects = Vec::new();
    shell.run.take_unwound(FIRST, &mut effects);
    assert_eq!(starts(&effects), []);
}

#[test]
fn what_follows_the_end_of_an_action_goes_by_how_it_ended() {
    let config = Config { retry: 1, ..Config::default() };
    let left = ActionEnding::Failed { started: true };
    let after = |ending, stops| {
        let mut shell = Shell::new(config.clone(), 1, 1);
        shell.begin_first();
        if stops {
            shell.tell(Input::Stop { how: StopHow::Gently, by_user: true, commands: &[] });
        }
        let effects = shell.tell(Input::ActionEnded { id: FIRST, ending, code: None });
        let state = shell.run.attempts().get(FIRST).map(|attempt| attempt.state().clone());
        (format!("{effects:?}"), state.expect("it was not taken"))
    };
    let finish = |outcome| format!("[Finish {{ id: TaskId(0), outcome: {outcome} }}]");
    let succeeded = |looks| ActionEnding::Succeeded { looks };
    let look = "[Look { id: TaskId(0) }]".to_owned();
    assert_eq!(after(succeeded(true), false), (look, State::Inspecting));
    assert_eq!(after(succeeded(false), false), (finish("Succeeded"), State::Acting));
    assert_eq!(after(ActionEnding::Exited, false), (finish("Exited"), State::Acting));
    assert_eq!(after(FAILED, false), (finish("Failed"), State::Acting));
    let end = "[EndLeft { id: TaskId(0) }]".to_owned();
    assert_eq!(after(left, false), (end, State::Clearing));
    assert_eq!(after(left, true), (finish("Failed"), State::Acting), "no attempt follows");
}

#[test]
fn a_failed_attempt_ends_when_nothing_of_it_is_left() {
    let mut shell = Shell::new(Config { retry: 1, ..Config::default() }, 1, 1);
    shell.begin_first();
    assert!(shell.tell(Input::LeftEnded { id: FIRST }).is_empty(), "nobody has asked");
    let ending = ActionEnding::Failed { started: true };
    shell.tell(Input::ActionEnded { id: FIRST, ending, code: None });
    assert!(shell.tell(Input::ActionEnded { id: FIRST, ending, code: None }).is_empty());
    let effects = shell.tell(Input::LeftEnded { id: FIRST });
    let outcome = ActionOutcome::Failed;
    assert!(
        matches!(effects[..], [Effect::Finish { id: FIRST, outcome: ended }] if ended == outcome)
    );
}

#[test]
fn no_command_starts_when_the_run_ends() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.begin_first();
    shell.tell(Input::Stop { how: StopHow::Gently, by_user: true, commands: &[] });
    let effects = shell.tell(Input::CommandWanted { id: FIRST, command: 7 });
    let [Effect::Attempt(AttemptEffect::Refuse { command: 7, why, .. })] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(why, Refusal::Aborted);
}

#[test]
fn a_failure_that_is_looked_into_goes_with_its_node() {
    let mut shell = Shell::new(Config::default(), 1, 2);
    let first = shell.begin_first();
    shell.run.attempts.end_action(FIRST, None, shell.now());
    shell.run.attempts.attribute(FIRST);
    let effects = shell.tell(Input::NodeLost { id: first.node });
    let lost = |effect: &Effect<u32>| matches!(effect, Effect::FailureLost { .. });
    assert!(effects.iter().any(lost), "{effects:?}");
    let mut effects = Vec::new();
    let attempt = shell.run.take_unwound(FIRST, &mut effects).expect("it went with its node");
    assert!(matches!(attempt.state(), State::Unwinding { rerun: true, .. }));
    assert_eq!(starts(&effects).len(), 1);
}

#[test]
fn a_failure_whose_leftovers_are_ended_goes_with_its_node() {
    let mut shell = Shell::new(Config { retry: 1, ..Config::default() }, 1, 2);
    let first = shell.begin_first();
    let ending = ActionEnding::Failed { started: true };
    shell.tell(Input::ActionEnded { id: FIRST, ending, code: None });
    let effects = shell.tell(Input::NodeLost { id: first.node });
    let lost = |effect: &Effect<u32>| matches!(effect, Effect::FailureLost { id: FIRST });
    assert!(effects.iter().any(lost), "{effects:?}");
    assert!(shell.tell(Input::LeftEnded { id: FIRST }).is_empty(), "it is too late");
    let mut effects = Vec::new();
    assert!(shell.run.take_unwound(FIRST, &mut effects).is_some());
    assert_eq!(starts(&effects).len(), 1);
}

#[test]
fn a_failure_that_is_looked_into_is_passed_on_when_the_action_is_to_end() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.begin_first();
    shell.run.attempts.end_action(FIRST, None, shell.now());
    shell.run.attempts.attribute(FIRST);
    let effects = shell.tell(Input::Abort { id: FIRST });
    assert!(
        matches!(effects[..], [Effect::Reach(ReachEffect::PassOn { id: FIRST })]),
        "{effects:?}"
    );
}

#[test]
fn rakes_now_is_the_clock_that_files_are_stamped_with() {
    // A file needs a plain task, whose time is now. The machine's clock was set back since the journal's began.
    let runs = |modified_ns: i128| {
        let file = TaskId(1);
        let mut shell = Shell::new(Config::default(), 1, 1);
        shell.tell(Input::Event(Event::TaskDefined {
            id: file,
            kind: TaskKind::File,
            has_action: true,
            deferred: false,
            requirement: RequirementId(0),
            prerequisites: &[FIRST],
        }));
        let effects = shell.invoke(&[file]);
        shell.begin_all(&effects);
        shell.run.take(FIRST);
        let outcome = ActionOutcome::Succeeded;
        let ended = Event::ActionEnded { id: FIRST, attempt: 1, outcome, run_ns: None };
        shell.tell(Input::Event(ended));
        let fact = Fact { modified_ns: Some(modified_ns), bytes: 0, places: Places::Unknown };
        let gathered = Input::Event(Event::FactGathered { id: file, fact });
        let mut effects = Vec::new();
        let now = Now { time: Time(1000), wall: 60.into() };
        shell.run.handle(now, gathered, &NoFiles, &mut effects);
        !starts(&effects).is_empty()
    };
    assert!(runs(59));
    assert!(!runs(60));
}

#[test]
fn commands_of_attempts_that_have_ended_are_of_nobody() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    let effects = shell.tell(Input::CommandWanted { id: FIRST, command: 7 });
    assert!(matches!(effects[..], [Effect::StartUnowned { id: FIRST, command: 7 }]), "{effects:?}");
    let first = shell.begin_first();
    let effects = shell.tell(Input::CommandWanted { id: FIRST, command: 8 });
    assert!(
        matches!(effects[..], [Effect::Attempt(AttemptEffect::Start { command: 8, .. })]),
        "{effects:?}"
    );
    // Of an earlier attempt: the core of this one is not given away.
    shell.tell(Input::CommandEnded { id: FIRST, attempt: first.number + 1 });
    assert!(shell.run.attempts().get(FIRST).is_some_and(crate::attempts::Attempt::holds_lease));
    let other = Input::CommandWithdrawn { node: first.node, id: SECOND, attempt: 1, command: 9 };
    let effects = shell.tell(other);
    assert!(matches!(effects[..], [Effect::DropUnowned { id: SECOND, command: 9 }]), "{effects:?}");
}

#[test]
fn actions_begun_early_are_taken_back_when_a_task_has_failed_for_good() {
    for (failure, aborted) in [(FailurePolicy::Wait, true), (FailurePolicy::Continue, false)] {
        let config = Config { failure, ..Config::default() };
        let mut shell = Shell::new(config, 2, 1);
        let effects = shell.invoke(&[FIRST, SECOND]);
        let [(running, start)] = &shell.begin_all(&effects)[..] else { panic!("{effects:?}") };
        // The only core is in use: this one has none.
        let early = if *running == FIRST { SECOND } else { FIRST };
        assert!(!shell.run.begin(shell.now(), early, start, 1, false, ()));
        let effects = shell.tell(Input::TaskGivenUp { id: *running });
        let is_abort = |effect: &Effect<u32>| matches!(effect, Effect::Attempt(AttemptEffect::Abort { id }) if *id == early);
        assert_eq!(effects.iter().any(is_abort), aborted, "{failure:?}: {effects:?}");
    }
}

#[test]
fn a_retry_that_is_delayed_is_wanted_when_its_time_has_come() {
    let mut shell = Shell::new(Config { retry: 1, ..Config::default() }, 0, 1);
    let (requirement, id) = (RequirementId(1), FIRST);
    let delayed = Requirement { retry_delay_ns: 100, ..Requirement::default() };
    shell.tell(Input::Event(Event::RequirementDefined { id: requirement, requirement: delayed }));
    shell.tell(Input::Event(Event::TaskDefined {
        id,
        kind: TaskKind::Plain,
        has_action: true,
        deferred: false,
        requirement,
        prerequisites: &[],
    }));
    let first = shell.begin_first();
    assert_eq!(shell.run.due_ns(), None);
    shell.tell(Input::ActionEnded { id, ending: FAILED, code: None });
    shell.run.take(id);
    let (attempt, outcome) = (first.number, ActionOutcome::Failed);
    let ended = Event::ActionEnded { id, attempt, outcome, run_ns: None };
    let effects = shell.tell(Input::Event(ended));
    assert_eq!(starts(&effects), []);
    assert_eq!(shell.run.due_ns(), Some(shell.now + 100));
    assert_eq!(starts(&shell.tell(Input::TimeCame)), []);
    shell.now += 100;
    let effects = shell.tell(Input::TimeCame);
    let [(_, next)] = &starts(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((next.number, shell.run.due_ns()), (2, None));
}

#[test]
fn what_waits_on_a_node_that_goes_is_refused() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    let first = shell.begin_first();
    shell.tell(Input::InputsAwaited { id: FIRST });
    assert!(shell.tell(Input::CommandWanted { id: FIRST, command: 3 }).is_empty());
    let effects = shell.tell(Input::NodeLost { id: first.node });
    let refused = |effect: &Effect<u32>| {
        let why = Refusal::NodeLost;
        matches!(effect, Effect::Attempt(AttemptEffect::Refuse { command: 3, why: is, .. }) if *is == why)
    };
    assert!(effects.iter().any(refused), "{effects:?}");
}

#[test]
fn node_that_is_given_up_when_it_is_lost_is_waited_for_by_no_task() {
    for again in [true, false] {
        let mut shell = Shell::new(Config::default(), 1, 2);
        let first = shell.begin_first();
        let id = first.node;
        let effects = shell.node(id, NodeInput::LinkDown { incarnation: 1, again });
        // The shell ends first what it looks at there.
        let [Effect::Node(NodeEffect::Lose { .. })] = effects[..] else { panic!("{effects:?}") };
        assert!(shell.run.is_wanted(FIRST, first.number));
        shell.tell(Input::NodeLost { id });
        assert!(!shell.run.is_wanted(FIRST, first.number));
        let is_given_up = shell.run.scheduler.lost_files.given_up.contains(&id);
        assert_eq!(is_given_up, !again, "{effects:?}");
        shell.node(id, NodeInput::LinkUp { incarnation: 2 });
        let files = &shell.run.scheduler.lost_files;
        assert!(!files.given_up.contains(&id), "what is found there counts");
        assert!(files.away.contains(&id), "it has not joined");
    }
}

#[test]
fn node_that_is_let_go_gets_no_tasks() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.node(NodeId(0), NodeInput::LetGo);
    assert_eq!(starts(&shell.invoke(&[FIRST])), []);
    let effects = shell.node(NodeId(0), NodeInput::Farewell);
    assert!(matches!(effects[..], [Effect::Node(NodeEffect::Gone { .. })]), "{effects:?}");
}

#[test]
fn shell_ends_what_it_looks_at_on_a_node_before_the_rest_that_is_due() {
    let mut shell = Shell::new(Config::default(), 0, 0);
    let limits = NodeLimits { start_ns: Some(10), away_ns: Some(30), ..NodeLimits::default() };
    let id = NodeId(0);
    shell.node(id, NodeInput::Known { origin: NodeOrigin::Awaited, limits });
    let known = shell.now;
    assert_eq!(shell.run.due_ns(), Some(known + 11));
    shell.now += 100;
    let effects = shell.tell(Input::TimeCame);
    assert!(matches!(effects[..], [Effect::Node(NodeEffect::Lose { .. })]), "{effects:?}");
    assert_eq!(shell.run.due_ns(), Some(known + 31));
    shell.tell(Input::NodeLost { id });
    let effects = shell.tell(Input::TimeCame);
    assert!(
        matches!(effects[..], [Effect::Node(NodeEffect::GiveUp { .. }), Effect::NodesGone]),
        "{effects:?}"
    );
    assert_eq!((shell.run.nodes().state(id), shell.run.due_ns()), (NodeState::Lost, None));
}

#[test]
fn target_that_a_lost_node_was_to_look_at_is_looked_at_from_here_or_goes_with_it() {
    // Files on a shared file system; on nodes; in Gfarm, whose hosts are other servers.
    for (on_nodes, apart) in [(false, false), (true, false), (true, true)] {
        let config = Config { files_on_nodes: on_nodes, files_apart: apart, ..Config::default() };
        let mut shell = Shell::new(config, 2, 2);
        let effects = shell.invoke(&[FIRST, SECOND]);
        let begun = shell.begin_all(&effects);
        for (id, _) in &begun {
            let ending = ActionEnding::Succeeded { looks: true };
            shell.tell(Input::ActionEnded { id: *id, ending, code: None });
        }
        let [(task, start), _] = &begun[..] else { panic!("{effects:?}") };
        let down = NodeInput::LinkDown { incarnation: 1, again: true };
        let effects = shell.node(start.node, down);
        let is_expected = match effects[..] {
            [Effect::LookHere { id }, Effect::Node(NodeEffect::Lose { .. })] => {
                id == *task && (!on_nodes || apart)
            }
            [Effect::TargetLost { id }, Effect::Node(NodeEffect::Lose { .. })] => {
                id == *task && on_nodes && !apart
            }
            _ => false,
        };
        assert!(is_expected, "{on_nodes} {apart} {effects:?}");
    }
}

fn is_end(effect: &Effect<u32>) -> bool {
    matches!(effect, Effect::NodesGone)
}

#[test]
fn run_that_no_node_is_left_for_ends_when_the_loss_was_told() {
    let mut shell = Shell::new(Config::default(), 1, 2);
    let (first, last) = (NodeId(0), NodeId(1));
    let down = |again| NodeInput::LinkDown { incarnation: 1, again };
    shell.node(first, down(false));
    shell.tell(Input::NodeLost { id: first });
    assert!(!shell.tell(Input::LossTold).iter().any(is_end), "one is left");
    shell.node(last, down(true));
    shell.tell(Input::NodeLost { id: last });
    assert!(!shell.tell(Input::LossTold).iter().any(is_end), "one may come back");
    let effects = shell.node(last, NodeInput::StartFailed { again: false });
    let given_up = Effect::<u32>::Node(NodeEffect::GiveUp { id: last });
    assert_eq!(format!("{effects:?}"), format!("[{given_up:?}, NodesGone]"));
    shell.tell(Input::Stop { how: StopHow::Gently, by_user: false, commands: &[] });
    assert!(!shell.tell(Input::LossTold).iter().any(is_end), "it ends already");
    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.node(first, down(false));
    assert!(!shell.tell(Input::NodeLost { id: first }).iter().any(is_end), "it was not told");
    assert!(shell.tell(Input::LossTold).iter().any(is_end));
}

#[test]
fn run_waits_for_nodes_that_are_expected() {
    let mut shell = Shell::new(Config::default(), 1, 0);
    assert!(!shell.tell(Input::NodesExpected(true)).iter().any(is_end));
    assert!(!shell.run.wants_nodes(), "nothing is to run");
    shell.invoke(&[FIRST]);
    assert!(shell.run.wants_nodes());
    assert!(shell.tell(Input::NodesExpected(false)).iter().any(is_end));
    assert!(!shell.run.wants_nodes());
}

#[test]
fn nodes_are_wanted_for_a_gang_and_for_what_waits_for_them() {
    let mut shell = with_large_gang(Oversubscribe::Never);
    assert!(!shell.run.wants_nodes(), "none are to be had");
    shell.tell(Input::NodesExpected(true));
    assert_eq!(shell.run.scheduler().queued(), 0);
    assert!(shell.run.wants_nodes());
    let mut shell = Shell::new(Config::default(), 1, 0);
    shell.tell(Input::NodesExpected(true));
    assert!(!want(&mut shell, CATALOGUE, false) && !shell.run.wants_nodes());
    assert!(want(&mut shell, KNOWN, true) && shell.run.holds_invocation(), "the one before begins");
    assert!(shell.run.wants_nodes());
}

/// Two tasks that begin together, and one node with one core; another one starts.
fn with_large_gang(oversubscribe: Oversubscribe) -> Shell {
    let mut shell = Shell::new(Config::default(), 2, 1);
    shell.node(
        NodeId(1),
        NodeInput::Known { origin: NodeOrigin::Awaited, limits: NodeLimits::default() },
    );
    shell.define_gang(oversubscribe);
    let effects = shell.invoke(&[FIRST, SECOND]);
    let waits = |effect: &Effect<u32>| {
        matches!(effect, Effect::Output(Output::GangTooLarge { slots: 2, slots_there: 1, .. }))
    };
    assert!(effects.iter().any(waits), "{effects:?}");
    assert_eq!(starts(&effects), []);
    shell
}

fn refusals(effects: &[Effect<u32>]) -> usize {
    let is_refused = |effect: &&Effect<u32>| {
        let refused = Output::GangRefused { id: GangId(0), slots: 2, slots_there: 1 };
        matches!(effect, Effect::Output(output) if *output == refused)
    };
    effects.iter().filter(is_refused).count()
}

#[test]
fn large_gang_is_refused_when_no_more_nodes_come_and_told_before_it_fails() {
    let mut shell = with_large_gang(Oversubscribe::Never);
    let effects = shell.node(NodeId(1), NodeInput::StartFailed { again: false });
    assert_eq!(refusals(&effects), 1, "{effects:?}");
    let is_refusal = |effect: &Effect<u32>| refusals(core::slice::from_ref(effect)) == 1;
    let refused = effects.iter().position(is_refusal);
    let end = Effect::<u32>::Output(Output::InvocationEnded {
        id: InvocationId(0),
        failed: vec![FIRST],
        abandoned: vec![SECOND],
    });
    let ended = effects.iter().position(|effect| format!("{effect:?}") == format!("{end:?}"));
    assert!(refused.is_some() && refused < ended, "{effects:?}");
    assert_eq!(refusals(&shell.tell(Input::LossTold)), 0, "once");
}

#[test]
fn large_gang_shares_cores_when_no_more_nodes_come_if_it_may() {
    let mut shell = with_large_gang(Oversubscribe::WhenNoneComes);
    assert_eq!(starts(&shell.tell(Input::LossTold)), [], "one may come");
    shell.tell(Input::NodesExpected(true));
    let effects = shell.node(NodeId(1), NodeInput::StartFailed { again: false });
    assert_eq!((refusals(&effects), starts(&effects)), (0, vec![]), "others may");
    let effects = shell.tell(Input::NodesExpected(false));
    assert_eq!((refusals(&effects), starts(&effects).len()), (0, 2), "{effects:?}");
    let mut shell = with_large_gang(Oversubscribe::WhenNoneComes);
    let effects = shell.node(NodeId(1), NodeInput::StartFailed { again: false });
    assert_eq!((refusals(&effects), starts(&effects).len()), (0, 2), "{effects:?}");
}

#[test]
fn large_gang_is_refused_when_the_node_that_comes_goes_before_it_joins() {
    let mut shell = with_large_gang(Oversubscribe::Never);
    let id = NodeId(1);
    shell.node(id, NodeInput::LinkUp { incarnation: 1 });
    let down = NodeInput::LinkDown { incarnation: 1, again: false };
    assert_eq!(refusals(&shell.node(id, down)), 0);
    shell.tell(Input::NodeLost { id });
    assert_eq!(refusals(&shell.tell(Input::LossTold)), 1);
}

#[test]
fn gang_is_refused_after_what_has_failed_before() {
    // Two nodes with a core each; the second one goes for good while both tasks run.
    let mut shell = Shell::new(Config { retry: 1, ..Config::default() }, 2, 2);
    shell.define_gang(Oversubscribe::Never);
    let effects = shell.invoke(&[FIRST, SECOND]);
    let begun = shell.begin_all(&effects);
    let [_, (lost, start)] = &begun[..] else { panic!("{effects:?}") };
    let (left, gone) = (if *lost == FIRST { SECOND } else { FIRST }, start.node);
    shell.node(gone, NodeInput::LinkDown { incarnation: 1, again: false });
    shell.tell(Input::NodeLost { id: gone });
    shell.tell(Input::LossTold);
    shell.run.take_unwound(*lost, &mut Vec::new());
    shell.tell(Input::ActionEnded { id: left, ending: FAILED, code: None });
    shell.run.take(left);
    let ended =
        Event::ActionEnded { id: left, attempt: 1, outcome: ActionOutcome::Failed, run_ns: None };
    let effects = shell.tell(Input::Event(ended));
    let place = |is_it: fn(&Output) -> bool| {
        let of = |effect: &Effect<u32>| matches!(effect, Effect::Output(output) if is_it(output));
        effects.iter().position(of).unwrap_or_else(|| panic!("{effects:?}"))
    };
    let failed = place(|output| matches!(output, Output::AttemptFailed { .. }));
    let refused = place(|output| matches!(output, Output::GangRefused { .. }));
    let settled = place(|output| matches!(output, Output::TaskSettled { .. }));
    assert!(failed < refused && refused < settled, "{effects:?}");
}

#[test]
fn run_does_not_end_over_a_gang_before_the_loss_of_its_last_node_is_told() {
    let mut shell = Shell::new(Config::default(), 2, 1);
    shell.define_gang(Oversubscribe::Never);
    shell.node(NodeId(0), NodeInput::LinkDown { incarnation: 1, again: false });
    let effects = shell.invoke(&[FIRST, SECOND]);
    let waits =
        |effect: &Effect<u32>| matches!(effect, Effect::Output(Output::GangTooLarge { .. }));
    assert!(effects.iter().any(waits) && !effects.iter().any(is_end), "{effects:?}");
    shell.tell(Input::NodeLost { id: NodeId(0) });
    assert!(shell.tell(Input::LossTold).iter().any(is_end));
}

#[test]
fn large_gang_begins_on_the_node_that_comes() {
    let mut shell = with_large_gang(Oversubscribe::Never);
    shell.node(NodeId(1), NodeInput::LinkUp { incarnation: 1 });
    assert_eq!(refusals(&shell.tell(Input::LossTold)), 0, "it has not said what it has");
    let effects = shell.join(NodeId(1));
    assert_eq!((refusals(&effects), starts(&effects).len()), (0, 2), "{effects:?}");
}

#[test]
fn large_gang_is_refused_at_once_where_no_node_comes() {
    let mut shell = Shell::new(Config::default(), 2, 1);
    shell.define_gang(Oversubscribe::Never);
    assert_eq!(refusals(&shell.invoke(&[FIRST, SECOND])), 1);
}

/// Asks for the first task where nodes have file servers; whether it begins at once.
fn want(shell: &mut Shell, awaited: PlacesAwaited, nodes_hold_files: bool) -> bool {
    let id = InvocationId(0);
    let wanted =
        Input::InvocationWanted { id, tasks: vec![FIRST], caller: None, awaited, nodes_hold_files };
    begins(&shell.tell(wanted))
}

fn begins(effects: &[Effect<u32>]) -> bool {
    let begins = |effect: &Effect<u32>| matches!(effect, Effect::Invoke { caller: None, .. });
    let count = effects.iter().filter(|effect| begins(effect)).count();
    assert!(count < 2, "{effects:?}");
    count == 1
}

const KNOWN: PlacesAwaited = PlacesAwaited { catalogue: false, holdings: false };
/// Such a task waits for a node that has all its cores.
const WHOLE: WaitsForSize = WaitsForSize { cores: true, memory: false };
const CATALOGUE: PlacesAwaited = PlacesAwaited { catalogue: true, holdings: false };
const HOLDINGS: PlacesAwaited = PlacesAwaited { catalogue: false, holdings: true };

#[test]
fn invocation_waits_for_what_is_awaited_about_places() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    assert!(want(&mut shell, KNOWN, false) && !shell.run.holds_invocation());
    for awaited in [CATALOGUE, HOLDINGS] {
        assert!(!want(&mut shell, awaited, false) && shell.run.holds_invocation());
        assert!(!begins(&shell.tell(Input::PlacesAwaited(awaited))));
        assert!(begins(&shell.tell(Input::PlacesAwaited(KNOWN))));
        assert!(!shell.run.holds_invocation());
        assert!(!begins(&shell.tell(Input::PlacesAwaited(KNOWN))), "once");
        assert!(!want(&mut shell, awaited, false));
        assert!(begins(&shell.tell(Input::HeldInvocationDue)));
        assert!(!begins(&shell.tell(Input::HeldInvocationDue)), "once");
    }
    assert!(!want(&mut shell, CATALOGUE, false));
    let (id, tasks) = (InvocationId(1), vec![SECOND]);
    let (awaited, nodes_hold_files) = (CATALOGUE, false);
    let next = Input::InvocationWanted { id, tasks, caller: None, awaited, nodes_hold_files };
    assert!(begins(&shell.tell(next)), "the one before begins first");
    assert!(shell.run.holds_invocation());
    let config = Config { dry_run: true, ..Config::default() };
    assert!(want(&mut Shell::new(config, 1, 1), HOLDINGS, true), "a dry run waits for nothing");
}

#[test]
fn invocation_waits_no_longer_than_the_limit() {
    for (awaited, limit_ns) in [(CATALOGUE, 2_000_000_000), (HOLDINGS, HOLDINGS_LIMIT_NS)] {
        let mut shell = Shell::new(Config::default(), 1, 1);
        assert!(!want(&mut shell, awaited, false));
        let due_ns = shell.now + limit_ns;
        assert_eq!(shell.run.due_ns(), Some(due_ns));
        shell.now = due_ns - 2;
        assert!(!begins(&shell.tell(Input::TimeCame)));
        assert!(begins(&shell.tell(Input::TimeCame)));
        assert_eq!(shell.run.due_ns(), None);
    }
}

#[test]
fn invocation_waits_for_the_first_node_where_nodes_hold_files() {
    let start = |shell: &mut Shell| {
        let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
        shell.node(NodeId(0), NodeInput::Known { origin, limits });
        // A task that will run.
        let (id, tasks) = (InvocationId(0), &[SECOND]);
        shell.tell(Input::Event(Event::InvocationStarted { id, tasks, caller: None }));
    };
    let mut shell = Shell::new(Config::default(), 2, 0);
    start(&mut shell);
    assert!(want(&mut shell, KNOWN, false), "they do not");
    assert!(!want(&mut shell, KNOWN, true));
    assert!(!begins(&shell.tell(Input::PlacesAwaited(KNOWN))), "it starts");
    // Without any node, it would only stand in the queue.
    shell.now = shell.run.due_ns().unwrap();
    assert!(!begins(&shell.tell(Input::TimeCame)));
    assert_eq!(shell.run.due_ns(), Some(shell.now + 2_000_000_000));
    shell.node(NodeId(0), NodeInput::LinkUp { incarnation: 1 });
    shell.join(NodeId(0));
    assert!(begins(&shell.tell(Input::PlacesAwaited(KNOWN))), "all are there");
    // What needs none goes on without any.
    let mut shell = Shell::new(Config::default(), 2, 0);
    start(&mut shell);
    assert!(!want(&mut shell, CATALOGUE, false));
    shell.now = shell.run.due_ns().unwrap();
    assert!(begins(&shell.tell(Input::TimeCame)));
    // One is up, another one starts: the wait is that long, and no longer.
    let mut shell = Shell::new(Config::default(), 2, 0);
    start(&mut shell);
    let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
    shell.node(NodeId(1), NodeInput::Known { origin, limits });
    shell.node(NodeId(1), NodeInput::LinkUp { incarnation: 1 });
    assert!(!want(&mut shell, KNOWN, true));
    shell.now = shell.run.due_ns().unwrap();
    assert!(begins(&shell.tell(Input::TimeCame)));
}

#[test]
fn caller_that_is_gone_when_its_invocation_begins_waits_for_nothing() {
    let callers = |effects: &[Effect<u32>]| {
        let caller = |effect: &Effect<u32>| match effect {
            Effect::Invoke { caller, .. } => Some(*caller),
            _ => None,
        };
        effects.iter().find_map(caller)
    };
    for is_lost in [false, true] {
        let mut shell = Shell::new(Config::default(), 1, 1);
        shell.begin_first();
        let (id, tasks, caller) = (InvocationId(1), Vec::new(), Some(FIRST));
        let (awaited, nodes_hold_files) = (CATALOGUE, false);
        let wanted = Input::InvocationWanted { id, tasks, caller, awaited, nodes_hold_files };
        assert_eq!(callers(&shell.tell(wanted)), None);
        if is_lost {
            shell.node(NodeId(0), NodeInput::LinkDown { incarnation: 1, again: true });
            shell.tell(Input::NodeLost { id: NodeId(0) });
        }
        let expected = if is_lost { None } else { Some(FIRST) };
        assert_eq!(callers(&shell.tell(Input::HeldInvocationDue)), Some(expected));
    }
}

#[test]
fn what_is_left_for_nothing_is_all_that_is_ready() {
    let mut shell = Shell::new(Config::default(), 2, 0);
    shell.tell(Input::NodesExpected(true));
    let nowhere = [RequirementId(0)].into();
    assert_eq!(shell.run.left_for_nothing(&nowhere), None, "nothing is ready");
    shell.invoke(&[FIRST, SECOND]);
    assert_eq!(shell.run.left_for_nothing(&nowhere), Some(vec![FIRST, SECOND]));
    assert_eq!(shell.run.left_for_nothing(&[].into()), None);
    assert_eq!(shell.run.left_for_nothing(&[RequirementId(1)].into()), None);
    let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
    shell.node(NodeId(0), NodeInput::Known { origin, limits });
    assert_eq!(shell.run.left_for_nothing(&nowhere), None, "a node starts");
}

#[test]
fn nothing_is_left_while_anything_can_still_happen() {
    let nowhere = [RequirementId(1)].into();
    let define = |shell: &mut Shell, id: u32, kind| {
        shell.tell(Input::Event(Event::TaskDefined {
            id: TaskId(id),
            kind,
            has_action: true,
            deferred: false,
            requirement: RequirementId(1),
            prerequisites: &[],
        }));
    };
    let mut shell = Shell::new(Config::default(), 1, 1);
    let requirement = Requirement { cores: 2, waits_for_size: WHOLE, ..Requirement::default() };
    shell.tell(Input::Event(Event::RequirementDefined { id: RequirementId(1), requirement }));
    define(&mut shell, 1, TaskKind::Plain);
    let effects = shell.invoke(&[FIRST, SECOND]);
    let [(FIRST, first)] = &starts(&effects)[..] else { panic!("{effects:?}") };
    shell.run.begin(shell.now(), FIRST, first, 1, false, ());
    assert_eq!(shell.run.left_for_nothing(&nowhere), None, "one runs");
    shell.tell(Input::ActionEnded { id: FIRST, ending: FAILED, code: None });
    shell.run.take(FIRST);
    assert_eq!(
        shell.run.left_for_nothing(&nowhere),
        None,
        "the scheduler has not heard of its end"
    );
    let outcome = ActionOutcome::Succeeded;
    let ended = Event::ActionEnded { id: FIRST, attempt: 1, outcome, run_ns: None };
    shell.tell(Input::Event(ended));
    assert_eq!(shell.run.left_for_nothing(&nowhere), Some(vec![SECOND]));
    define(&mut shell, 2, TaskKind::File);
    assert_eq!(shell.run.left_for_nothing(&nowhere), Some(vec![SECOND]), "nobody wants it");
    let (id, tasks) = (InvocationId(1), &[TaskId(2)]);
    shell.tell(Input::Event(Event::InvocationStarted { id, tasks, caller: None }));
    assert_eq!(shell.run.left_for_nothing(&nowhere), None, "one is decided");
    let fact = Fact { modified_ns: None, bytes: 0, places: Places::Unknown };
    shell.tell(Input::Event(Event::FactGathered { id: TaskId(2), fact }));
    assert_eq!(shell.run.left_for_nothing(&nowhere), Some(vec![SECOND, TaskId(2)]));
}

#[test]
fn what_is_ready_for_nothing_lacks_what_nothing_makes_any_more() {
    let lacking = [RequirementId(1)].into();
    let define = |shell: &mut Shell| {
        let requirement = Requirement { cores: 2, waits_for_size: WHOLE, ..Requirement::default() };
        shell.tell(Input::Event(Event::RequirementDefined { id: RequirementId(1), requirement }));
        shell.tell(Input::Event(Event::TaskDefined {
            id: SECOND,
            kind: TaskKind::Plain,
            has_action: true,
            deferred: false,
            requirement: RequirementId(1),
            prerequisites: &[],
        }));
    };
    let mut shell = Shell::new(Config::default(), 1, 1);
    define(&mut shell);
    assert_eq!(shell.run.ready_for_nothing(&lacking), None, "nothing is ready");
    let effects = shell.invoke(&[FIRST, SECOND]);
    shell.begin_all(&effects);
    assert_eq!(shell.run.ready_for_nothing(&lacking), None, "one runs, and may make it");
    shell.tell(Input::ActionEnded { id: FIRST, ending: FAILED, code: None });
    shell.run.take(FIRST);
    let outcome = ActionOutcome::Succeeded;
    let ended = Event::ActionEnded { id: FIRST, attempt: 1, outcome, run_ns: None };
    shell.tell(Input::Event(ended));
    assert_eq!(shell.run.ready_for_nothing(&lacking), Some(lacking.clone()));
    assert_eq!(shell.run.ready_for_nothing(&[].into()), None);
    let (id, tasks) = (InvocationId(1), &[TaskId(2)]);
    shell.tell(Input::Event(Event::TaskDefined {
        id: TaskId(2),
        kind: TaskKind::File,
        has_action: true,
        deferred: false,
        requirement: RequirementId(1),
        prerequisites: &[],
    }));
    shell.tell(Input::Event(Event::InvocationStarted { id, tasks, caller: None }));
    assert_eq!(shell.run.ready_for_nothing(&lacking), None, "one is decided, and may run");
    let fact = Fact { modified_ns: None, bytes: 0, places: Places::Unknown };
    shell.tell(Input::Event(Event::FactGathered { id: TaskId(2), fact }));
    assert_eq!(shell.run.ready_for_nothing(&lacking), Some(lacking.clone()));
    shell.tell(Input::Stop { how: StopHow::Gently, by_user: true, commands: &[] });
    assert_eq!(shell.run.ready_for_nothing(&lacking), None, "nothing starts any more");

    // Another one that is ready may start when a node comes, unless it is in a gang with one that lacks something.
    for is_gang in [false, true] {
        let mut shell = Shell::new(Config::default(), 1, 0);
        define(&mut shell);
        if is_gang {
            let (id, tasks) = (GangId(0), &[FIRST, SECOND]);
            let oversubscribe = Oversubscribe::Never;
            shell.tell(Input::Event(Event::GangDefined { id, tasks, oversubscribe }));
        }
        shell.tell(Input::NodesExpected(true));
        shell.invoke(&[FIRST, SECOND]);
        let expected = is_gang.then(|| lacking.clone());
        assert_eq!(shell.run.ready_for_nothing(&lacking), expected, "gang: {is_gang}");
    }
}

fn refused_sizes(effects: &[Effect<u32>]) -> Vec<(RequirementId, u32)> {
    let refused = |effect: &Effect<u32>| match effect {
        Effect::SizeRefused { requirement, most } => Some((*requirement, most.cores)),
        _ => None,
    };
    effects.iter().filter_map(refused).collect()
}

/// Has tasks that must have two cores, and may run on `allowed_nodes` only.
fn want_size(shell: &mut Shell, allowed_nodes: Option<Vec<NodeId>>) -> Vec<(RequirementId, u32)> {
    let requirement = RequirementId(1);
    let size =
        Requirement { cores: 2, allowed_nodes, waits_for_size: WHOLE, ..Requirement::default() };
    shell.tell(Input::Event(Event::RequirementDefined { id: requirement, requirement: size }));
    refused_sizes(&shell.tell(Input::SizeWanted { requirement }))
}

fn join_with(shell: &mut Shell, id: NodeId, cores: u32) -> Vec<Effect<u32>> {
    shell.tell(Input::CoresSet { node: id, cores });
    let capacity = Capacity { cores, ..Capacity::default() };
    let joined = shell.tell(Input::Event(Event::NodeJoined { id, capacity, files_kept: false }));
    assert_eq!(refused_sizes(&joined), [], "the shell has not noted it");
    shell.tell(Input::JoinNoted)
}

#[test]
fn size_that_no_node_has_is_refused_once_no_node_comes_any_more() {
    let refused = [(RequirementId(1), 1)];
    let mut shell = Shell::new(Config::default(), 1, 1);
    assert_eq!(want_size(&mut shell, None), refused, "all are there");
    assert_eq!(refused_sizes(&shell.tell(Input::NodesExpected(false))), [], "once");

    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.tell(Input::NodesExpected(true));
    assert_eq!(want_size(&mut shell, None), [], "more may appear");
    assert_eq!(refused_sizes(&shell.tell(Input::NodesExpected(false))), refused);

    // One starts, and is up before it has said what it has.
    for cores in [1, 2] {
        let mut shell = Shell::new(Config::default(), 1, 1);
        let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
        shell.node(NodeId(1), NodeInput::Known { origin, limits });
        assert_eq!(want_size(&mut shell, None), []);
        let up = shell.node(NodeId(1), NodeInput::LinkUp { incarnation: 1 });
        assert_eq!(refused_sizes(&up), []);
        let joined = refused_sizes(&join_with(&mut shell, NodeId(1), cores));
        assert_eq!(joined.len(), usize::from(cores == 1), "{cores} cores");
    }
}

#[test]
fn size_counts_on_nodes_on_which_tasks_may_start() {
    // One node has one core, the other one two.
    let config = Config { drain_after: 1, failure: FailurePolicy::Continue, ..Config::default() };
    for is_drained in [false, true] {
        let mut shell = Shell::new(config.clone(), 3, 1);
        let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
        shell.node(NodeId(1), NodeInput::Known { origin, limits });
        shell.node(NodeId(1), NodeInput::LinkUp { incarnation: 1 });
        join_with(&mut shell, NodeId(1), 2);
        let effects = shell.invoke(&[FIRST, SECOND, TaskId(2)]);
        for (id, next) in shell.begin_all(&effects) {
            shell.run.take(id);
            let fails = is_drained && next.node == NodeId(1);
            let outcome = if fails { ActionOutcome::Failed } else { ActionOutcome::Succeeded };
            let ended = Event::ActionEnded { id, attempt: 1, outcome, run_ns: None };
            shell.tell(Input::Event(ended));
        }
        assert_eq!(shell.run.nodes().state(NodeId(1)) == NodeState::Drained, is_drained);
        let refused = if is_drained { vec![(RequirementId(1), 1)] } else { Vec::new() };
        assert_eq!(want_size(&mut shell, None), refused);
    }
}

#[test]
fn size_counts_on_nodes_that_may_run_such_a_task() {
    for (allowed, is_refused) in [(NodeId(0), true), (NodeId(1), false)] {
        let mut shell = Shell::new(Config::default(), 1, 1);
        let (origin, limits) = (NodeOrigin::Awaited, NodeLimits::default());
        shell.node(NodeId(1), NodeInput::Known { origin, limits });
        shell.node(NodeId(1), NodeInput::LinkUp { incarnation: 1 });
        join_with(&mut shell, NodeId(1), 2);
        let refused = want_size(&mut shell, Some(vec![allowed]));
        assert_eq!(!refused.is_empty(), is_refused, "{allowed:?}");
    }
}

fn stops(effects: &[Effect<u32>]) -> Vec<StopEffect> {
    let stop = |effect: &Effect<u32>| match effect {
        Effect::Stop(effect) => Some(*effect),
        _ => None,
    };
    effects.iter().filter_map(stop).collect()
}

#[test]
fn stop_is_noted_before_commands_are_told_and_tells_them_once() {
    let mut shell = Shell::new(Config::default(), 1, 1);
    shell.begin_first();
    shell.tell(Input::CommandWanted { id: FIRST, command: 3 });
    let stop = Input::Stop { how: StopHow::Gently, by_user: true, commands: &[3] };
    let effects = shell.tell(stop);
    assert!(matches!(effects[0], Effect::Stop(StopEffect::Begin { .. })), "{effects:?}");
    let told = StopEffect::Send { command: 3, signal: Signal::Interrupt };
    assert_eq!(stops(&effects)[1..], [told]);
    let aborts =
        |effect: &Effect<u32>| matches!(effect, Effect::Output(Output::AbortAction { id: FIRST }));
    assert!(effects.iter().any(aborts), "{effects:?}");
    // Its attempt asks for no signal of its own.
    let effects = shell.tell(Input::Abort { id: FIRST });
    let signals =
        |effect: &Effect<u32>| matches!(effect, Effect::Attempt(AttemptEffect::Signal { .. }));
    assert!(!effects.iter().any(signals), "{effects:?}");
    assert_eq!(shell.run.due_ns(), Some(shell.now - 1 + 100));
    shell.now += 100;
    let sterner = StopEffect::Send { command: 3, signal: Signal::Terminate };
    assert_eq!(stops(&shell.tell(Input::TimeCame)), [sterner]);
    let effects = shell.tell(Input::Stop { how: StopHow::AtOnce, by_user: true, commands: &[3] });
    let killed = StopEffect::Send { command: 3, signal: Signal::Kill };
    let begun = StopEffect::Begin { how: StopHow::AtOnce };
    assert_eq!(stops(&effects), [begun, killed, StopEffect::KillAll]);
    let again = Input::Stop { how: StopHow::Gently, by_user: true, commands: &[3] };
    assert!(shell.tell(again).is_empty());
}
