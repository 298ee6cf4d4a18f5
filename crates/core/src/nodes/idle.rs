//! Nodes that run nothing, and how long they have.
//!
//! The shell says which nodes may be let go, which of them run nothing, and how many actions have ended well on each: a
//! node that has run one between two looks was not idle in between.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::NodeId;
use crate::time::Time;

/// Number of looks within the time that a node may be idle.
const LOOKS: u64 = 10;

/// Minimum time between two looks, ns.
const LOOK_NS_MIN: u64 = 50_000_000;

/// The nodes of a run that may be let go, and since when they run nothing.
#[derive(Debug, Default)]
pub struct IdleNodes {
    /// By node that ran nothing at the last look: since when, and how many actions had ended well there.
    since: BTreeMap<NodeId, (Time, u32)>,
    /// When the next look is due; `None` as long as no node may be let go.
    due: Option<Time>,
}

impl IdleNodes {
    /// A node has come that may be let go when it has been idle for `limit_ns`.
    pub fn on_node_added(&mut self, now: Time, limit_ns: u64) {
        self.due.get_or_insert(Time(now.0.saturating_add(limit_ns)));
    }

    /// When the next look is due.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Looks at the nodes that may be let go: each with the number of actions that have ended well there, or `None` if
    /// it runs something. Returns those that have been idle for `limit_ns`, in the order of their numbers.
    pub fn look(
        &mut self,
        now: Time,
        limit_ns: u64,
        nodes: impl IntoIterator<Item = (NodeId, Option<u32>)>,
    ) -> Vec<NodeId> {
        self.due = Some(Time(now.0.saturating_add((limit_ns / LOOKS).max(LOOK_NS_MIN))));
        let before = core::mem::take(&mut self.since);
        for (id, done) in nodes {
            let Some(done) = done else { continue };
            let same = before.get(&id).filter(|(_, then)| *then == done);
            self.since.insert(id, same.copied().unwrap_or((now, done)));
        }
        let is_over = |(since, _): &(Time, u32)| now.0.saturating_sub(since.0) >= limit_ns;
        let idle = self.since.iter().filter(|(_, since)| is_over(since));
        idle.map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const LIMIT_NS: u64 = 1_000_000_000;
    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    #[test]
    fn looks_are_due_once_a_node_may_be_let_go() {
        let mut idle = IdleNodes::default();
        assert_eq!(idle.due(), None);
        idle.on_node_added(Time(5), LIMIT_NS);
        idle.on_node_added(Time(7), LIMIT_NS);
        assert_eq!(idle.due(), Some(Time(5 + LIMIT_NS)), "the first one counts");
        idle.look(Time(6 + LIMIT_NS), LIMIT_NS, []);
        assert_eq!(idle.due(), Some(Time(6 + LIMIT_NS + LIMIT_NS / 10)));
        idle.look(Time(0), 100, []);
        assert_eq!(idle.due(), Some(Time(50_000_000)), "no more often than that");
    }

    #[test]
    fn a_node_is_idle_when_it_has_run_nothing_for_the_whole_time() {
        let mut idle = IdleNodes::default();
        let mut look = |ns, nodes: [(NodeId, Option<u32>); 2]| idle.look(Time(ns), 10, nodes);
        assert_eq!(look(100, [(ONE, Some(3)), (TWO, Some(0))]), []);
        assert_eq!(look(109, [(ONE, Some(3)), (TWO, Some(0))]), []);
        assert_eq!(look(110, [(ONE, Some(3)), (TWO, None)]), [ONE]);
        assert_eq!(look(111, [(ONE, Some(4)), (TWO, Some(0))]), [], "both have run something");
        assert_eq!(look(121, [(ONE, Some(4)), (TWO, Some(0))]), vec![ONE, TWO]);
    }

    #[test]
    fn a_node_that_was_let_go_begins_anew_when_it_comes_back() {
        let mut idle = IdleNodes::default();
        assert_eq!(idle.look(Time(0), 10, [(ONE, Some(0))]), []);
        assert_eq!(idle.look(Time(5), 10, []), []);
        assert_eq!(idle.look(Time(10), 10, [(ONE, Some(0))]), []);
        assert_eq!(idle.look(Time(20), 10, [(ONE, Some(0))]), [ONE]);
    }
}
