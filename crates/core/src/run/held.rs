//! An invocation that waits until it is known where its inputs lie.
//!
//! The file system's catalogue was asked, or nodes were that may have files of earlier runs; or nodes whose file
//! servers hold files are still being started, and the first of them is not to take the tasks of the others. Each of
//! these waits has a limit.

use alloc::vec::Vec;

use crate::ids::{InvocationId, TaskId};
use crate::nodes::{NodeState, Nodes};
use crate::stager::HOLDINGS_LIMIT_NS;
use crate::time::Time;

/// Timeout for the catalogue's answer, and for a node to come once there is one, ns.
const LOCATED_WITHIN_NS: u64 = 2_000_000_000;

/// What the shell has asked about where files lie, and has no answer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacesAwaited {
    /// The file system's catalogue.
    pub catalogue: bool,
    /// Nodes that may have files of earlier runs, which are missing here.
    pub holdings: bool,
}

impl PlacesAwaited {
    fn is_any(self) -> bool {
        self.catalogue || self.holdings
    }
}

/// Tasks that are asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub id: InvocationId,
    pub tasks: Vec<TaskId>,
    pub caller: Option<TaskId>,
}

/// What is asked for and waits.
#[derive(Clone, Debug)]
pub(super) struct Held {
    wanted: Wanted,
    awaited: PlacesAwaited,
    /// It waits for nodes that are being started, too.
    needs_nodes: bool,
    /// When it goes on whatever is known.
    until: Time,
}

impl Held {
    /// Holds an invocation if there is anything to wait for; returns it if not. `needs_nodes`: nodes that hold files
    /// are being started, and some task will run on one.
    pub fn hold(
        now: Time,
        wanted: Wanted,
        awaited: PlacesAwaited,
        needs_nodes: bool,
    ) -> Result<Self, Wanted> {
        if !awaited.is_any() && !needs_nodes {
            return Err(wanted);
        }
        let limit_ns = if awaited.holdings { HOLDINGS_LIMIT_NS } else { LOCATED_WITHIN_NS };
        let until = Time(now.0.saturating_add(limit_ns));
        Ok(Self { wanted, awaited, needs_nodes, until })
    }

    /// When it has waited long enough.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Whether it has work for nodes that do not run yet.
    pub fn needs_nodes(&self) -> bool {
        self.needs_nodes
    }

    pub fn set_awaited(&mut self, awaited: PlacesAwaited) {
        self.awaited = awaited;
    }

    /// Whether there is anything left to wait for.
    pub fn waits(&self, nodes: &Nodes) -> bool {
        self.awaited.is_any() || self.needs_nodes && is_any_starting(nodes)
    }

    /// Whether it goes on at `now` whatever is known. Not without any node: its tasks would only stand in the queue
    /// from which the first node takes them.
    pub fn is_over(&mut self, now: Time, nodes: &Nodes) -> bool {
        if now < self.until {
            return false;
        }
        let is_any_up = nodes.states().any(|(_, state)| state == NodeState::Up);
        if self.needs_nodes && !is_any_up && is_any_starting(nodes) {
            self.until = Time(now.0.saturating_add(LOCATED_WITHIN_NS));
            return false;
        }
        true
    }

    pub fn into_wanted(self) -> Wanted {
        self.wanted
    }
}

/// Whether nodes are on their way that have not been there yet.
pub(super) fn is_any_starting(nodes: &Nodes) -> bool {
    nodes.is_expecting() || nodes.states().any(|(_, state)| state == NodeState::Starting)
}
