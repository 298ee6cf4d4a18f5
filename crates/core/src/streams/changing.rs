//! How the routes of an opening change: nodes first make what the new routes need, and only when all have made it do
//! they switch. What keeps one change from being made keeps all routes as they are, for good: it would do so again.
//!
//! ```text
//! still -begin-> preparing -all prepared and connected: switch-> switching -all switched-> still
//!                preparing -something cannot be made: keep-> still, for good
//! ```
//!
//! It does not know what is cheaper ([`super::RouteWatch`]), nor what nodes make.

use alloc::collections::BTreeSet;

use crate::ids::NodeId;

/// Changes of the routes of an opening.
#[derive(Debug, Default)]
pub struct RouteChanges {
    phase: Phase,
    /// A change came to nothing.
    is_final: bool,
    /// Nodes over which nothing goes any more. They may have reported that all is over there.
    leaving: BTreeSet<NodeId>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Still,
    Preparing {
        change: NewPlaces,
        /// New edges that are not connected.
        unconnected: BTreeSet<u32>,
        /// Nodes that were asked to make what they need, and have not.
        unprepared: BTreeSet<NodeId>,
    },
    /// Nodes where something still goes the old way.
    Switching(BTreeSet<NodeId>),
}

/// What a change adds to an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPlaces {
    /// Edges from this number on are new.
    pub first: u32,
    /// The number of new edges.
    pub edges: u32,
    /// Nodes that have places of these streams, and make more.
    pub asked: BTreeSet<NodeId>,
    /// Nodes that have no other place of these streams.
    pub joining: BTreeSet<NodeId>,
}

/// What becomes of the report of a node that all is over there, or cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverThere {
    /// Routes stay as they were: what is to be taken back.
    pub kept: Option<NewPlaces>,
    /// The node would have joined a change that does not come: nothing else is wrong.
    pub is_forgiven: bool,
}

impl RouteChanges {
    /// Whether a change may begin.
    pub fn may_begin(&self) -> bool {
        !self.is_final && matches!(self.phase, Phase::Still)
    }

    /// Whether nothing goes over a node any more.
    pub fn is_leaving(&self, node: NodeId) -> bool {
        self.leaving.contains(&node)
    }

    /// Whether nothing goes over a node but what would after a change that has not come.
    pub fn is_joining(&self, node: NodeId) -> bool {
        matches!(&self.phase, Phase::Preparing { change, .. } if change.joining.contains(&node))
    }

    /// All nodes are asked to make what a change needs.
    pub fn begin(&mut self, change: NewPlaces) {
        for node in &change.joining {
            self.leaving.remove(node);
        }
        let unconnected = (change.first..change.first + change.edges).collect();
        let unprepared = change.asked.clone();
        self.phase = Phase::Preparing { change, unconnected, unprepared };
    }

    /// A node has made what it needs. True: all may switch.
    pub fn on_prepared(&mut self, node: NodeId) -> bool {
        if let Phase::Preparing { unprepared, .. } = &mut self.phase {
            unprepared.remove(&node);
        }
        self.is_ready()
    }

    /// Whether an edge belongs to a change that has not come.
    pub fn is_new_edge(&self, number: u32) -> bool {
        matches!(&self.phase, Phase::Preparing { change, .. } if number >= change.first)
    }

    /// An edge is connected. True: all may switch.
    pub fn on_connected(&mut self, number: u32) -> bool {
        if let Phase::Preparing { unconnected, .. } = &mut self.phase {
            unconnected.remove(&number);
        }
        self.is_ready()
    }

    fn is_ready(&self) -> bool {
        matches!(&self.phase, Phase::Preparing { unconnected, unprepared, .. }
            if unconnected.is_empty() && unprepared.is_empty())
    }

    /// All switch. `left`: the nodes over which nothing goes on the new routes, and whether each still has to report
    /// that all is over there. Gives the nodes that are to be told.
    pub fn switch(&mut self, left: impl IntoIterator<Item = (NodeId, bool)>) -> BTreeSet<NodeId> {
        let Some(change) = self.take_change() else { return BTreeSet::new() };
        let mut switching = change.asked.clone();
        for (node, has_to_report) in left {
            self.leaving.insert(node);
            if has_to_report {
                switching.insert(node);
            }
        }
        self.phase = Phase::Switching(switching);
        self.end_if_switched();
        change.asked
    }

    /// On a node nothing goes the old way any more.
    pub fn on_switched(&mut self, node: NodeId) {
        if let Phase::Switching(left) = &mut self.phase {
            left.remove(&node);
        }
        self.end_if_switched();
    }

    fn end_if_switched(&mut self) {
        if matches!(&self.phase, Phase::Switching(left) if left.is_empty()) {
            self.phase = Phase::Still;
        }
    }

    /// A node reports that all is over there, or cannot be.
    pub fn on_over(&mut self, node: NodeId) -> OverThere {
        let is_joining = self.is_joining(node);
        let kept = match &self.phase {
            Phase::Still => None,
            Phase::Switching(_) => {
                self.on_switched(node);
                None
            }
            Phase::Preparing { .. } if self.leaving.contains(&node) => None,
            Phase::Preparing { .. } => self.keep(),
        };
        OverThere { kept, is_forgiven: is_joining }
    }

    /// No route changes from now on. Gives what is to be taken back of a change that has not come; one to which nodes
    /// switch already goes on.
    pub fn keep(&mut self) -> Option<NewPlaces> {
        self.is_final = true;
        self.take_change()
    }

    /// Takes the change that is being prepared.
    fn take_change(&mut self) -> Option<NewPlaces> {
        match core::mem::take(&mut self.phase) {
            Phase::Preparing { change, .. } => Some(change),
            other => {
                self.phase = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: NodeId = NodeId(1);
    const ALSO: NodeId = NodeId(2);
    const NEW: NodeId = NodeId(3);

    /// Two nodes make more; a third one joins. There are two new edges.
    fn change() -> NewPlaces {
        NewPlaces { first: 4, edges: 2, asked: [OLD, ALSO].into(), joining: [NEW].into() }
    }

    fn preparing() -> RouteChanges {
        let mut changes = RouteChanges::default();
        changes.begin(change());
        changes
    }

    /// What has to be there before all switch: 0 and 1 are nodes, 4 and 5 are edges.
    fn tell(changes: &mut RouteChanges, part: u32) -> bool {
        match part {
            0 => changes.on_prepared(OLD),
            1 => changes.on_prepared(ALSO),
            edge => changes.on_connected(edge),
        }
    }

    #[test]
    fn all_switch_when_the_last_part_is_there_in_whatever_order() {
        let parts = [0, 1, 4, 5];
        for last in parts {
            let mut changes = preparing();
            assert!(!changes.may_begin(), "one change at a time");
            for part in parts.into_iter().filter(|part| *part != last) {
                assert!(!tell(&mut changes, part), "{part} before {last}");
                assert!(!tell(&mut changes, part), "told twice");
            }
            assert!(tell(&mut changes, last), "{last}");
        }
    }

    #[test]
    fn edges_of_before_are_no_part_of_a_change() {
        let mut changes = preparing();
        assert!(!changes.is_new_edge(3) && changes.is_new_edge(4));
        for part in [0, 1, 4] {
            tell(&mut changes, part);
        }
        assert!(!changes.on_connected(3), "one of before");
        assert!(changes.on_connected(5));
        assert!(changes.is_new_edge(5), "nothing has switched yet");
        changes.switch([]);
        assert!(!changes.is_new_edge(5), "it is one of all now");
    }

    #[test]
    fn a_change_ends_when_nothing_goes_the_old_way_anywhere() {
        let mut changes = preparing();
        for part in [0, 1, 4, 5] {
            tell(&mut changes, part);
        }
        let gone = NodeId(8);
        let told = changes.switch([(ALSO, true), (gone, true), (NodeId(9), false)]);
        assert_eq!(told, [OLD, ALSO].into(), "a node that only leaves is told nothing");
        for node in [ALSO, gone, NodeId(9)] {
            assert!(changes.is_leaving(node));
        }
        for node in [OLD, ALSO] {
            changes.on_switched(node);
            assert!(!changes.may_begin());
        }
        let over = OverThere { kept: None, is_forgiven: false };
        assert_eq!(changes.on_over(gone), over, "it has ended, as it was to");
        assert!(changes.may_begin(), "the next one may come");
        changes.begin(NewPlaces { joining: [gone].into(), ..change() });
        assert!(!changes.is_leaving(gone), "it is taken again");
    }

    #[test]
    fn a_change_for_which_nobody_has_to_switch_is_over_at_once() {
        let mut changes = RouteChanges::default();
        changes.begin(NewPlaces { asked: BTreeSet::new(), ..change() });
        assert!(!changes.on_connected(4) && changes.on_connected(5));
        assert_eq!(changes.switch([]), BTreeSet::new());
        assert!(changes.may_begin());
        assert_eq!(changes.switch([]), BTreeSet::new(), "there is none");
        assert!(changes.may_begin());
    }

    #[test]
    fn what_cannot_be_made_keeps_all_routes_for_good() {
        let mut changes = preparing();
        tell(&mut changes, 0);
        assert_eq!(changes.keep(), Some(change()));
        assert!(!changes.may_begin() && !changes.is_joining(NEW) && !changes.is_new_edge(4));
        assert_eq!(changes.keep(), None, "it was taken back");
        assert!(!tell(&mut changes, 1), "the rest comes too late");
    }

    #[test]
    fn what_has_begun_to_switch_is_not_taken_back() {
        let mut changes = preparing();
        changes.switch([]);
        assert!(!changes.is_joining(NEW), "something goes over it");
        assert_eq!(changes.keep(), None);
        for node in [OLD, ALSO] {
            changes.on_switched(node);
        }
        assert!(!changes.may_begin(), "no other one comes");
    }

    #[test]
    fn an_end_while_a_change_is_made_keeps_the_routes_unless_nothing_goes_there() {
        let mut changes = preparing();
        let joining = OverThere { kept: Some(change()), is_forgiven: true };
        assert_eq!(changes.on_over(NEW), joining);
        let member = OverThere { kept: Some(change()), is_forgiven: false };
        assert_eq!(preparing().on_over(OLD), member);

        let mut changes = preparing();
        changes.switch([(ALSO, true)]);
        for node in [OLD, ALSO] {
            changes.on_switched(node);
        }
        changes.begin(NewPlaces { asked: [OLD].into(), ..change() });
        let nothing = OverThere { kept: None, is_forgiven: false };
        assert_eq!(changes.on_over(ALSO), nothing, "it has left before");
        assert!(changes.is_new_edge(4), "the change goes on");
        assert_eq!(RouteChanges::default().on_over(OLD), nothing);
    }
}
