//! Gangs: tasks that are placed all or none, begin together, and are one retry unit. Their books.
//!
//! The life of a gang is in `life.rs`; `calls.rs` finds actions that wait for their own gang; `places.rs` decides where
//! its tasks go, and `backfill.rs` what small tasks may do with slots that are kept. `turns.rs` has tasks that run by
//! turns, and `upstream.rs` what streams make out of date. Empty, and without cost, where no gang is defined. The
//! contract is `docs/design/gangs.md`.

mod backfill;
mod calls;
mod life;
mod places;
mod turns;
mod upstream;

use crate::event::Oversubscribe;
use crate::ids::{GangId, IdVec, NodeId, TaskId};
use crate::scheduler::Scheduler;
use crate::scheduler::node::Need;
use crate::scheduler::task::TaskState;
use crate::streams::{StreamEnds, Weights};
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Where a gang stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangPhase {
    /// Some of its tasks are not decided, or none is activated; or all have ended well.
    Mustering,
    /// All are decided, and one at least is needed: it waits for room.
    Waiting,
    /// All were begun.
    Begun,
    /// One did not end well, or its node was lost: the others are being ended, and all run again.
    Breaking,
    /// One failed for good: none of the others starts, or counts as done.
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct Gang {
    /// As given, each once.
    members: Vec<TaskId>,
    oversubscribe: Oversubscribe,
    phase: GangPhase,
    /// Members in the state `Mustered`.
    mustered: usize,
    /// Members in the state `Running`.
    running: usize,
    /// Members that are settled well.
    settled: usize,
    /// Its place among those that wait; counts only in the phase `Waiting`.
    age: u64,
    /// Where its members go, while it is the one that slots are kept for; and while it runs.
    slots: Vec<Slot>,
    /// `GangTooLarge` went out, and no node has come since.
    too_large: bool,
    /// Its plan has more tasks than slots.
    oversubscribed: bool,
    /// The action that waits for its own gang, which has failed because of it, until that action has ended.
    culprit: Option<TaskId>,
    /// Of one that runs by turns: members that have failed by themselves in the attempts under way.
    at_fault: BTreeSet<TaskId>,
    /// Members whose actions were given back in the attempts under way. They have made no attempt.
    given_back: BTreeSet<TaskId>,
    /// The attempts under way use up no retry.
    uncharged: bool,
    /// Streams join its tasks: all of them run on one node, and run only if one that makes a file
    /// is needed, or none makes one.
    joined: bool,
    /// The streams that join its tasks; empty for a gang that is not joined.
    streams: Vec<StreamEnds>,
    /// Where they do not fit on one node, they may go to several.
    spread: bool,
    /// Its tasks run by turns: each takes its share when its turn comes.
    by_turns: bool,
    /// What each task takes whose turn has not come; only in a gang that runs by turns.
    shares: BTreeMap<TaskId, Vec<(NodeId, Need)>>,
    /// What the Rakefile says of its tasks; empty for a gang that is not joined.
    weights: Weights,
    /// When it can begin at the earliest, by the times that were known when it got its plan; `None` if they were not.
    begins: Option<Time>,
}

/// Room for one member on one node.
#[derive(Clone, Copy, Debug)]
struct Slot {
    member: TaskId,
    node: NodeId,
    need: Need,
    /// The node holds the share for it; if not, it is awaited there.
    held: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Gangs {
    all: IdVec<GangId, Gang>,
    of: BTreeMap<TaskId, GangId>,
    /// Those in the phase `Waiting`, the oldest first.
    waiting: BTreeSet<(u64, GangId)>,
    /// Tasks of gangs that run.
    running: usize,
    /// Gangs that were waiting so far.
    ages: u64,
    /// The one of `waiting` whose slots are kept; only it has any.
    holder: Option<GangId>,
    /// Some gang runs by turns.
    any_by_turns: bool,
    /// Turns that have come and for which there was no room, in the order in which they came.
    turns: Vec<turns::Turn>,
    /// Not looked at yet whether their members need one another.
    unchecked: Vec<GangId>,
    /// Some of `unchecked` may have been activated.
    check_due: bool,
    /// Prerequisites were added since that was looked at for the others.
    recheck: bool,
    /// Something changed that is not a share: a gang has begun to wait, or nodes came or went.
    fresh: bool,
}

impl Gangs {
    /// The gang of a task.
    pub(crate) fn of(&self, id: TaskId) -> Option<GangId> {
        if self.of.is_empty() { None } else { self.of.get(&id).copied() }
    }

    /// All tasks of the gang of a task; empty if it is in none.
    pub(crate) fn peers(&self, id: TaskId) -> &[TaskId] {
        self.of(id).map_or(&[], |gang| &self.all[gang].members)
    }

    /// Whether some gang is ready that could run on the nodes that are there.
    pub(crate) fn any_next(&self) -> bool {
        self.waiting.iter().any(|(_, id)| !self.all[*id].too_large)
    }

    /// Tasks were activated: gangs that were not looked at are.
    pub(crate) fn activated(&mut self) {
        self.check_due = !self.unchecked.is_empty();
    }

    pub(crate) fn prerequisites_added(&mut self) {
        self.recheck |= self.all.len() > 0;
    }

    pub(crate) fn on_state_changed(&mut self, id: GangId, before: TaskState, after: TaskState) {
        let gang = &mut self.all[id];
        for (state, enters) in [(before, false), (after, true)] {
            let count = match state {
                TaskState::Mustered => &mut gang.mustered,
                TaskState::Running { .. } => &mut gang.running,
                TaskState::Settled(how) if how.is_well() => &mut gang.settled,
                TaskState::Settled(_)
                | TaskState::Defined
                | TaskState::Waiting { .. }
                | TaskState::Resolving
                | TaskState::Asking
                | TaskState::Comparing
                | TaskState::Checking { .. }
                | TaskState::Ready
                | TaskState::AwaitingPeers { .. }
                | TaskState::Lost
                | TaskState::Inspecting => continue,
            };
            *count = if enters { *count + 1 } else { *count - 1 };
        }
        let runs = |state| usize::from(matches!(state, TaskState::Running { .. }));
        self.running = self.running + runs(after) - runs(before);
    }
}

/// What a shell may know of a gang, such as why it has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangView<'a> {
    /// Its number.
    pub id: GangId,
    /// Where it stands.
    pub phase: GangPhase,
    /// All its tasks.
    pub tasks: &'a [TaskId],
    /// Cores that its tasks need together.
    pub slots: u64,
    /// Cores that are kept for it so far.
    pub slots_kept: u64,
    /// Gangs that wait for longer.
    pub older: usize,
    /// The nodes that are there could not run it if nothing else ran.
    pub too_large: bool,
    /// Whether it may run with more tasks than slots.
    pub oversubscribe: Oversubscribe,
    /// It runs, or is to run, with more tasks than slots.
    pub oversubscribed: bool,
}

impl Scheduler {
    /// The gang of a task, if it is in one.
    pub fn gang_of(&self, id: TaskId) -> Option<GangView<'_>> {
        self.gangs.of(id).map(|gang| self.gang(gang))
    }

    /// A gang.
    ///
    /// # Panics
    /// When it was not defined.
    pub fn gang(&self, id: GangId) -> GangView<'_> {
        let gang = &self.gangs.all[id];
        let held = gang.slots.iter().filter(|slot| slot.held);
        let older = match gang.phase {
            GangPhase::Waiting => self.gangs.waiting.range(..(gang.age, id)).count(),
            GangPhase::Mustering | GangPhase::Begun | GangPhase::Breaking | GangPhase::Failed => 0,
        };
        GangView {
            id,
            phase: gang.phase,
            tasks: &gang.members,
            slots: self.gang_cores(id),
            slots_kept: held.map(|slot| u64::from(slot.need.cores)).sum(),
            older,
            too_large: gang.too_large,
            oversubscribe: gang.oversubscribe,
            oversubscribed: gang.oversubscribed,
        }
    }

    /// Gangs defined so far; the number of the next.
    pub fn gangs_len(&self) -> usize {
        self.gangs.all.len()
    }

    /// Whether a gang runs, or is ready to. Then nothing may be begun early: what a gang has, it has alone.
    pub fn is_gang_due(&self) -> bool {
        self.gangs.running > 0 || !self.gangs.waiting.is_empty()
    }

    /// Cores that a task of a gang has on a node; `None` if it has no share there.
    pub fn cores_held(&self, id: TaskId, node: NodeId) -> Option<u32> {
        self.fleet.nodes.get(node)?.need_of(id).map(|need| need.cores)
    }

    /// The nodes of a running task that needs several at once, its home first; else of any running task its node.
    pub fn nodes_of(&self, id: TaskId) -> Vec<NodeId> {
        let TaskState::Running { node: home } = self.graph.tasks[id].state else {
            return Vec::new();
        };
        let gang = self.gangs.of(id).map(|gang| &self.gangs.all[gang]);
        let slots = gang.into_iter().flat_map(|gang| &gang.slots);
        let others = slots.filter(|slot| slot.member == id && slot.node != home);
        core::iter::once(home).chain(others.map(|slot| slot.node)).collect()
    }

    /// Panics when the books of gangs do not agree with the tasks, or a part of a gang has begun.
    pub(crate) fn check_gangs(&self) {
        assert!(self.pending.gangs.is_empty(), "a gang was not looked at");
        let running: usize = self.gangs.all.iter().map(|(_, gang)| gang.running).sum();
        assert_eq!(self.gangs.running, running, "running tasks of gangs");
        for (id, gang) in self.gangs.all.iter() {
            let states = || gang.members.iter().map(|id| self.graph.tasks[*id].state);
            let mustered = states().filter(|state| *state == TaskState::Mustered).count();
            let runs = |state: &TaskState| matches!(state, TaskState::Running { .. });
            let running = states().filter(runs).count();
            let well =
                |state: &TaskState| matches!(state, TaskState::Settled(how) if how.is_well());
            assert_eq!(mustered, gang.mustered, "mustered of {id:?}");
            assert_eq!(running, gang.running, "running of {id:?}");
            assert_eq!(states().filter(well).count(), gang.settled, "settled of {id:?}");
            let waits = self.gangs.waiting.contains(&(gang.age, id));
            assert_eq!(waits, gang.phase == GangPhase::Waiting, "{id:?} waits");
            let has_slots = self.gangs.holder == Some(id) || running > 0;
            assert!(has_slots || gang.slots.is_empty(), "{id:?} keeps slots for nothing");
            let awaits = |state| matches!(state, TaskState::AwaitingPeers { .. });
            match gang.phase {
                GangPhase::Mustering => {
                    assert_eq!(running, 0, "a part of {id:?} was begun");
                    assert!(mustered < gang.members.len(), "{id:?} was forgotten");
                    assert!(!states().any(awaits), "a task of {id:?} awaits nobody");
                }
                GangPhase::Waiting => {
                    assert_eq!(mustered, gang.members.len(), "{id:?} is not ready");
                }
                GangPhase::Begun => {
                    assert!(running > 0, "{id:?} has ended");
                    let begun = states().all(|state| runs(&state) || awaits(state) || well(&state));
                    assert!(begun, "only a part of {id:?} was begun");
                }
                GangPhase::Breaking => {
                    assert!(running > 0, "{id:?} was not begun again");
                    for member in &gang.members {
                        let task = &self.graph.tasks[*member];
                        assert!(!runs(&task.state) || task.aborted, "{member:?} goes on");
                    }
                }
                GangPhase::Failed => {
                    assert_eq!(mustered, 0, "a task of {id:?} waits in vain");
                    assert!(!states().any(awaits), "a task of {id:?} awaits nobody");
                }
            }
        }
        self.check_slots();
    }

    fn check_slots(&self) {
        let mut held = BTreeSet::new();
        let mut awaited: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (_, gang) in self.gangs.all.iter() {
            for slot in &gang.slots {
                if slot.held {
                    held.insert((slot.node, slot.member));
                } else {
                    *awaited.entry(slot.node).or_default() += 1;
                }
            }
        }
        for node in self.gangs.turns.iter().flat_map(|turn| &turn.awaited) {
            *awaited.entry(*node).or_default() += 1;
        }
        for (id, node) in self.fleet.nodes.iter() {
            assert_eq!(node.awaited, awaited.get(&id).copied().unwrap_or(0), "awaited on {id:?}");
            for task in node.held_by() {
                assert!(held.remove(&(id, task)), "{id:?} holds a share for {task:?}");
            }
        }
        assert!(held.is_empty(), "{held:?} are not held");
    }
}
