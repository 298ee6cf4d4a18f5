//! Actions of a gang that wait for an invocation which needs a task of the same gang: neither could ever end.
//!
//! Knows calls that wait for one another over gangs only; of all others the front's own code is in charge.

use super::GangPhase;
use crate::event::{Output, Settled};
use crate::ids::{GangId, TaskId};
use crate::scheduler::Scheduler;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Scheduler {
    /// Fails gangs in which an action waits for its own gang.
    pub(crate) fn check_calls(&mut self, out: &mut Vec<Output>) {
        let callers = self.invocations.callers.keys();
        let in_gangs = callers.filter_map(|task| Some((*task, self.gangs.of(*task)?)));
        for (task, id) in in_gangs.collect::<Vec<_>>() {
            if self.gangs.all[id].phase == GangPhase::Begun
                && let Some(on) = self.called_peer(task, id)
            {
                out.push(Output::GangEntangled { id, task, on });
                self.gangs.all[id].culprit = Some(task);
                self.fail_gang_of(task);
            }
        }
    }

    /// A task of a gang that another one of it has called: over prerequisites that are not settled, gangs of these, and
    /// what they call themselves.
    fn called_peer(&self, caller: TaskId, id: GangId) -> Option<TaskId> {
        let mut walk: Vec<TaskId> = self.called_by(caller).collect();
        let (mut seen, mut gangs) = (BTreeSet::new(), BTreeSet::new());
        while let Some(task) = walk.pop() {
            if self.graph.tasks[task].is_settled() || !seen.insert(task) {
                continue;
            }
            let gang = self.gangs.of(task);
            if gang == Some(id) {
                return Some(task);
            }
            if let Some(gang) = gang.filter(|gang| gangs.insert(*gang)) {
                walk.extend(&self.gangs.all[gang].members);
            }
            walk.extend(self.missing_prerequisites(task));
            if self.invocations.callers.contains_key(&task) {
                walk.extend(self.called_by(task));
            }
        }
        None
    }

    /// What the action of a task waits for.
    fn called_by(&self, caller: TaskId) -> impl Iterator<Item = TaskId> {
        let live = self.invocations.live.iter().map(|id| &self.invocations.all[*id]);
        let called = live.filter(move |invocation| invocation.caller == Some(caller));
        called.flat_map(|invocation| invocation.wanted.iter().copied())
    }

    /// How a task ends whose gang has failed for good.
    pub(crate) fn end_in_failed_gang(&self, id: TaskId) -> Settled {
        let gang = self.gangs.of(id).map(|gang| &self.gangs.all[gang]);
        if gang.is_some_and(|gang| gang.culprit == Some(id)) {
            Settled::Failed
        } else {
            Settled::Abandoned
        }
    }
}
