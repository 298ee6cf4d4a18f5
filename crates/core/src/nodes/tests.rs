//! Each step in the life of a node, and what is no step.

use alloc::vec;

use super::NodeState::{Away, Drained, Failed, Gone, Leaving, Lost, Spare, Starting, Up};
use super::{NodeEffect, NodeInput, NodeLimits, NodeOrigin, NodeState, Nodes};
use crate::ids::NodeId;
use crate::time::Time;
use alloc::vec::Vec;

const ID: NodeId = NodeId(0);
const LIMITS: NodeLimits =
    NodeLimits { start_ns: Some(20), unresponsive_ns: Some(10), away_ns: Some(40) };
const AGAIN: NodeInput = NodeInput::LinkDown { incarnation: 1, again: true };
const FOR_EVER: NodeInput = NodeInput::LinkDown { incarnation: 1, again: false };

/// One node, and its clock.
struct Life {
    nodes: Nodes,
    now: u64,
}

impl Life {
    fn new(origin: NodeOrigin, limits: NodeLimits) -> Self {
        let mut life = Self { nodes: Nodes::default(), now: 0 };
        assert!(life.tell(NodeInput::Known { origin, limits }).is_empty());
        life
    }

    /// A node that came here by the shortest way, with link 1 if it has had one.
    fn at(state: NodeState) -> Self {
        let up = NodeInput::LinkUp { incarnation: 1 };
        let failed = NodeInput::StartFailed { again: false };
        let (origin, way) = match state {
            Spare => (NodeOrigin::Own { takes_tasks: false }, vec![]),
            Starting => (NodeOrigin::Awaited, vec![]),
            Up => (NodeOrigin::Awaited, vec![up]),
            Drained => (NodeOrigin::Awaited, vec![up, NodeInput::Drain]),
            Away => (NodeOrigin::Awaited, vec![up, AGAIN]),
            Lost => (NodeOrigin::Awaited, vec![up, FOR_EVER]),
            Failed => (NodeOrigin::Awaited, vec![failed]),
            Leaving => (NodeOrigin::Awaited, vec![up, NodeInput::LetGo]),
            Gone => (NodeOrigin::Awaited, vec![up, NodeInput::LetGo, NodeInput::Farewell]),
        };
        let mut life = Self::new(origin, LIMITS);
        for input in way {
            life.tell(input);
        }
        assert_eq!(life.nodes.state(ID), state);
        life
    }

    fn tell(&mut self, input: NodeInput) -> Vec<NodeEffect> {
        let mut out = Vec::new();
        self.nodes.handle(Time(self.now), ID, input, &mut out);
        out
    }

    fn wait_until(&mut self, now: u64) -> Vec<NodeEffect> {
        self.now = now;
        let mut out = Vec::new();
        self.nodes.take_due(Time(now), &mut out);
        out
    }
}

const ALL: [NodeState; 9] = [Spare, Starting, Up, Drained, Away, Lost, Failed, Leaving, Gone];

/// Tells the input in each state; all states that are not among `steps` stay, and say nothing.
fn check(input: NodeInput, steps: &[(NodeState, NodeState, Option<NodeEffect>)]) {
    for from in ALL {
        let mut life = Life::at(from);
        let effects = life.tell(input);
        let step = steps.iter().find(|step| step.0 == from);
        let (to, effect) = step.map_or((from, None), |step| (step.1, step.2));
        let expected: Vec<NodeEffect> = effect.into_iter().collect();
        assert_eq!((life.nodes.state(ID), effects), (to, expected), "{from:?} {input:?}");
    }
}

#[test]
fn the_run_counts_on_agents_of_nodes_that_are_up_or_drained() {
    let states = [Spare, Starting, Up, Drained, Away, Lost, Failed, Leaving, Gone];
    let there = states.map(|state| {
        let nodes = Life::at(state).nodes;
        assert_eq!(nodes.link(ID).is_some(), nodes.is_there(ID), "{state:?}");
        assert_eq!(nodes.is_up(ID), state == Up, "{state:?}");
        assert!(nodes.states().eq([(ID, state)]));
        nodes.is_there(ID)
    });
    assert_eq!(there, [false, false, true, true, false, false, false, false, false]);
}

#[test]
fn link_brings_up_what_is_not_there_and_trusts_the_files_of_what_was_waited_for() {
    let welcome = |is_back, files_kept| Some(NodeEffect::Welcome { id: ID, is_back, files_kept });
    check(
        NodeInput::LinkUp { incarnation: 2 },
        &[
            (Starting, Up, welcome(false, true)),
            (Away, Up, welcome(true, true)),
            (Lost, Up, welcome(true, false)),
            (Failed, Up, welcome(false, false)),
        ],
    );
}

#[test]
fn end_of_its_link_loses_a_node_for_a_while_or_for_ever() {
    let lose = Some(NodeEffect::Lose { id: ID });
    check(AGAIN, &[(Up, Away, lose), (Drained, Away, lose)]);
    check(FOR_EVER, &[(Up, Lost, lose), (Drained, Lost, lose)]);
}

#[test]
fn start_that_failed_counts_only_when_it_was_the_last_try() {
    check(NodeInput::StartFailed { again: true }, &[]);
    let steps = [
        (Starting, Failed, Some(NodeEffect::Miss { id: ID })),
        (Away, Lost, Some(NodeEffect::GiveUp { id: ID })),
    ];
    check(NodeInput::StartFailed { again: false }, &steps);
}

#[test]
fn node_that_takes_tasks_may_be_let_go_and_drained() {
    check(NodeInput::LetGo, &[(Up, Leaving, None)]);
    check(NodeInput::Farewell, &[(Leaving, Gone, Some(NodeEffect::Gone { id: ID }))]);
    // A node that is lost before this is heard of comes back all the same.
    check(NodeInput::Drain, &[(Up, Drained, None)]);
    check(NodeInput::TakeBack, &[(Drained, Up, None)]);
}

#[test]
fn earlier_link_says_nothing_more() {
    let mut life = Life::at(Away);
    life.tell(NodeInput::LinkUp { incarnation: 2 });
    assert!(life.nodes.is_current(ID, 2) && !life.nodes.is_current(ID, 1));
    assert_eq!((life.tell(AGAIN), life.nodes.link(ID)), (vec![], Some(2)));
    life.now = 5;
    life.tell(NodeInput::Heard { incarnation: 1 });
    assert_eq!(life.nodes.due(), Some(Time(11)));
    life.tell(NodeInput::Heard { incarnation: 2 });
    assert_eq!(life.nodes.due(), Some(Time(16)));
}

#[test]
fn last_word_over_a_link_that_has_ended_makes_no_node_wait_longer() {
    let mut life = Life::at(Away);
    life.now = 5;
    life.tell(NodeInput::Heard { incarnation: 1 });
    assert_eq!(life.nodes.due(), Some(Time(41)));
}

#[test]
fn what_came_late_does_not_make_a_node_wait_less() {
    let mut life = Life::at(Up);
    for now in [7, 3] {
        life.now = now;
        life.tell(NodeInput::Heard { incarnation: 1 });
    }
    assert_eq!(life.nodes.due(), Some(Time(18)));
}

#[test]
fn of_several_nodes_the_one_that_is_due_first_is_lost_first() {
    let mut nodes = Nodes::default();
    let mut out = Vec::new();
    for (number, start_ns) in (0..).zip([30, 10, 20]) {
        let limits = NodeLimits { start_ns: Some(start_ns), ..NodeLimits::default() };
        let known = NodeInput::Known { origin: NodeOrigin::Awaited, limits };
        nodes.handle(Time(0), NodeId(number), known, &mut out);
    }
    assert_eq!(nodes.due(), Some(Time(11)));
    (0..4).for_each(|_| nodes.take_due(Time(25), &mut out));
    let [second, third] = [1, 2].map(|id| NodeEffect::Lose { id: NodeId(id) });
    assert_eq!(out, [second, third]);
    assert_eq!(nodes.due(), Some(Time(31)));
}

#[test]
fn node_is_lost_when_it_was_not_heard_for_too_long_and_given_up_later() {
    let mut life = Life::at(Up);
    life.now = 7;
    life.tell(NodeInput::Heard { incarnation: 1 });
    assert_eq!(life.wait_until(17), []);
    assert_eq!(life.wait_until(18), [NodeEffect::Lose { id: ID }]);
    assert_eq!((life.nodes.state(ID), life.nodes.link(ID)), (Away, None));
    // From the last word, not from when it was missed.
    assert_eq!(life.wait_until(47), []);
    assert_eq!(life.wait_until(48), [NodeEffect::GiveUp { id: ID }]);
    assert_eq!((life.nodes.state(ID), life.nodes.due()), (Lost, None));
}

#[test]
fn node_that_never_comes_is_lost_after_the_timeout_for_its_start() {
    let mut life = Life::at(Starting);
    assert_eq!(life.wait_until(20), []);
    assert_eq!(life.wait_until(21), [NodeEffect::Lose { id: ID }]);
    assert_eq!(life.nodes.state(ID), Away);
}

#[test]
fn links_that_time_nodes_themselves_leave_nothing_due() {
    for origin in [NodeOrigin::Own { takes_tasks: true }, NodeOrigin::Awaited] {
        let mut life = Life::new(origin, NodeLimits::default());
        life.tell(NodeInput::LinkUp { incarnation: 1 });
        assert_eq!((life.nodes.state(ID), life.nodes.due()), (Up, None));
        life.tell(AGAIN);
        assert_eq!(life.nodes.due(), None);
        assert_eq!(life.wait_until(u64::MAX), []);
    }
}

#[test]
fn run_has_nodes_left_while_one_is_there_or_may_come() {
    for state in ALL {
        let mut life = Life::at(state);
        let is_left = matches!(state, Starting | Up | Drained | Away);
        assert_eq!(life.nodes.is_any_left(), is_left, "{state:?}");
        assert_eq!(life.nodes.is_any_coming(), matches!(state, Starting | Away), "{state:?}");
        assert!(!life.nodes.is_expecting());
        life.nodes.set_expecting(true);
        assert!(life.nodes.is_any_left() && life.nodes.is_expecting(), "{state:?}");
    }
}
