//! Cores whose tasks have ended, and which are not given away yet.

use crate::ids::{NodeId, TaskId};
use crate::scheduler::task::TaskState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Maximum number of looks for which one core is kept. This many tasks fill many cores, and each look takes the shell
/// time.
pub(super) const LOOKS_MAX: u32 = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// By the tasks that have ended; each waits for a look at least.
    pub(super) shares: BTreeMap<TaskId, KeptShare>,
    /// Tasks in a state with a look (`TaskState::is_look`) for which a share is kept, each with the key of that share.
    pub(super) looks: BTreeMap<TaskId, TaskId>,
    /// The one whose task has just ended, or has just got an answer: looks that begin now follow
    /// from that. None between events.
    pub(super) current: Option<(TaskId, KeptShare)>,
    /// Shares that wait for nothing more; none between events.
    pub(super) over: Vec<(TaskId, KeptShare)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KeptShare {
    pub(super) node: NodeId,
    /// How often its task is a value in `Kept::looks`.
    pub(super) looks: u32,
    /// The node has it among those that are kept; until the event is worked off it still has it among those that run.
    pub(super) is_put_by: bool,
}

impl Kept {
    /// Whether it matters that a look begins or is over; nearly always false where tasks have no dependents.
    #[inline]
    pub(crate) fn heeds_looks(&self) -> bool {
        self.current.is_some() || !self.looks.is_empty()
    }

    /// A task comes into a state with a look, or leaves it.
    pub(crate) fn on_look_changed(&mut self, id: TaskId, begins: bool) {
        if begins {
            self.on_look_begun(id);
        } else {
            self.on_look_over(id);
        }
    }

    /// A look at the file of a task, or at files of its prerequisites, is asked for.
    fn on_look_begun(&mut self, id: TaskId) {
        let Some((ended, share)) = &mut self.current else { return };
        let ended = *ended;
        if share.looks == LOOKS_MAX {
            self.over.extend(self.current.take());
            self.looks.retain(|_, other| *other != ended);
        } else {
            share.looks += 1;
            self.looks.insert(id, ended);
        }
    }

    /// All looks for a task have been answered, or it does not wait for them any more.
    fn on_look_over(&mut self, id: TaskId) {
        let Some(ended) = self.looks.remove(&id) else { return };
        if let Some((current, share)) = &mut self.current
            && *current == ended
        {
            share.looks -= 1;
            return;
        }
        let mut share = self.shares.remove(&ended).expect("a look has its share");
        share.looks -= 1;
        if let Some((other, share)) = self.current.replace((ended, share)) {
            self.displace(other, share);
        }
    }

    /// One event concerns two shares, which is rare: the first does not wait for what may still
    /// follow, nor if it is not put by yet.
    fn displace(&mut self, ended: TaskId, share: KeptShare) {
        if share.looks > 0 && share.is_put_by {
            self.shares.insert(ended, share);
        } else {
            self.looks.retain(|_, other| *other != ended);
            self.over.push((ended, share));
        }
    }

    pub(crate) fn check_invariants(&self, state: impl Fn(TaskId) -> TaskState) {
        assert!(self.current.is_none() && self.over.is_empty(), "cores are kept for nothing");
        for (id, ended) in &self.looks {
            assert!(state(*id).is_look(), "a core is kept for {id:?}");
            assert!(self.shares.contains_key(ended), "{id:?} has no core that is kept");
        }
        for (ended, share) in &self.shares {
            let looks = self.looks.values().filter(|other| *other == ended).count();
            assert!(looks > 0 && looks == share.looks as usize, "looks after {ended:?}");
        }
    }
}
