//! Failures that may not be the task's fault: held, asked about, deferred, and passed on, charged or uncharged.
//!
//! A failure is in one list at a time. It leaves them by `PassOn`, or with its node.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use super::unresponsive::UNCHARGED_NS;
use super::{AGAIN_NS, FilePlaces, ReachEffect, ReachView, ReachWarning, Reachability, Stage};
use crate::event::Event;
use crate::ids::{NodeId, TaskId};
use crate::time::Time;

/// An action that failed: perhaps it could not read its input, or not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    id: TaskId,
    /// Where it failed.
    node: NodeId,
    /// When its attempt began.
    began_ns: u64,
    /// Files that its inputs are made of, through any number of tasks: it may read them without naming them.
    behind: Vec<TaskId>,
    /// All of `behind` are asked about.
    in_full: bool,
}

/// The failures that wait, by what they wait for.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The next round is about them.
    held: Vec<Failure>,
    /// The round under way is about them, or has been; they are passed on in order.
    asked: VecDeque<Failure>,
    /// They may be due to an unresponsive host, and are passed on when that answers; each with the time since when.
    deferred: Vec<(u64, Failure)>,
}

impl Failures {
    pub fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn is_any_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    pub fn is_deferred(&self, id: TaskId) -> bool {
        self.deferred.iter().any(|(_, failure)| failure.id == id)
    }

    /// A round begins.
    pub fn ask_held(&mut self) {
        self.asked.extend(mem::take(&mut self.held));
    }

    /// The run is over: all are to be passed on.
    pub fn ask_all(&mut self) {
        self.ask_held();
        self.asked.extend(mem::take(&mut self.deferred).into_iter().map(|(_, failure)| failure));
    }

    pub fn forget(&mut self, id: TaskId) {
        self.held.retain(|failure| failure.id != id);
        self.asked.retain(|failure| failure.id != id);
        self.deferred.retain(|(_, failure)| failure.id != id);
    }

    pub fn take_on(&mut self, node: NodeId) -> Vec<TaskId> {
        let deferred = self.deferred.iter().map(|(_, failure)| failure);
        let all = self.asked.iter().chain(&self.held).chain(deferred);
        let ids: Vec<TaskId> = all.filter(|one| one.node == node).map(|one| one.id).collect();
        for id in &ids {
            self.forget(*id);
        }
        ids
    }
}

impl Reachability {
    /// An action failed: what it was to read is looked at first, if there is something to look at.
    pub(super) fn hold<P: FilePlaces>(
        &mut self,
        now: Time,
        (id, node, began): (TaskId, NodeId, Time),
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        let inputs: Vec<TaskId> =
            view.scheduler.inputs(id).filter(|input| view.is_kept(*input)).collect();
        let mut behind = super::files_behind(view.scheduler, id);
        behind.retain(|file| view.is_kept(*file));
        // It may have read nothing, and have had to write to an unresponsive host.
        let knows_any = view.places.known().next().is_some();
        if inputs.is_empty() && behind.is_empty() && !knows_any {
            return;
        }
        let in_full = self.is_in_trouble(now);
        let asked = if in_full { behind.clone() } else { view.one_of_each_place(&behind) };
        self.wanted.extend(inputs.into_iter().chain(asked));
        self.failures.held.push(Failure { id, node, began_ns: began.0, behind, in_full });
        out.push(ReachEffect::Attribute { id });
        self.ask_next(view, out);
    }

    /// After what was found out: a failure over a file that is out of reach does not count. One is
    /// passed on at a time: what comes of it may end the invocation of the next.
    pub(super) fn attribute_next<P: FilePlaces>(
        &mut self,
        now: Time,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        while let Some(failure) = self.failures.asked.pop_front() {
            if self.attribute(now, failure, view, out) {
                out.push(ReachEffect::Continue);
                return;
            }
        }
        if self.pass_deferred_on(now, view, out) {
            out.push(ReachEffect::Continue);
            return;
        }
        self.give_up_inputs(now, out);
        self.stage = Stage::Idle;
        self.ask_next(view, out);
    }

    /// Whether a failure that was asked about is passed on now.
    fn attribute<P: FilePlaces>(
        &mut self,
        now: Time,
        mut failure: Failure,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) -> bool {
        let id = failure.id;
        if !failure.in_full && self.is_in_trouble(now) {
            failure.in_full = true;
            self.wanted.extend(failure.behind.iter().copied());
            self.failures.held.push(failure);
            return false;
        }
        let lacked = self.tell_lacked(&failure, view, out);
        // Whatever it failed over, it will not be tried again: its invocation comes to its end.
        let is_halted = !view.scheduler.goes_on(id);
        if lacked || is_halted || !self.unresponsive.may_uncharge(id) {
            out.push(ReachEffect::PassOn { id });
        } else if self.unresponsive.is_young(now.0) {
            self.defer(now, failure, out);
            return false;
        } else if self.trouble_ns.is_some_and(|ns| ns >= failure.began_ns) {
            self.uncharge(id, out);
        } else {
            out.push(ReachEffect::PassOn { id });
        }
        true
    }

    /// The next attempt would fail in the same way, until the host answers or no longer gets new files.
    fn defer(&mut self, now: Time, failure: Failure, out: &mut Vec<ReachEffect>) {
        if !self.failures.is_any_deferred() {
            self.again_ns = now.0 + AGAIN_NS;
            let unresponsive = self.unresponsive.hosts().collect();
            let warning = ReachWarning::FailureDeferred { id: failure.id, unresponsive };
            out.push(ReachEffect::Warn(warning));
        }
        self.failures.deferred.push((now.0, failure));
    }

    /// Passes the first one on that need not wait any more: its host answers, or it has waited
    /// for long enough, or will not be tried again. Whether there is one.
    fn pass_deferred_on<P: FilePlaces>(
        &mut self,
        now: Time,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) -> bool {
        let is_over = !self.unresponsive.is_young(now.0);
        let is_halted = |failure: &Failure| !view.scheduler.goes_on(failure.id);
        let may_go = |(since_ns, failure): &(u64, Failure)| {
            is_halted(failure) || is_over || now.0.saturating_sub(*since_ns) >= UNCHARGED_NS
        };
        let Some(position) = self.failures.deferred.iter().position(may_go) else { return false };
        let (_, failure) = self.failures.deferred.remove(position);
        if is_halted(&failure) {
            out.push(ReachEffect::PassOn { id: failure.id });
        } else {
            self.uncharge(failure.id, out);
        }
        true
    }

    fn uncharge(&mut self, id: TaskId, out: &mut Vec<ReachEffect>) {
        self.unresponsive.uncharged(id);
        out.push(ReachEffect::Event(Event::FailureUncharged { id }));
        out.push(ReachEffect::PassOn { id });
    }

    /// What a failed action may have lacked without naming it; whether there is something. Where
    /// one of its inputs was out of reach, that is reason enough. It is a guess that it reads what
    /// lies behind its inputs: what no node can make now is left out, since the next attempt would
    /// wait for it.
    fn tell_lacked<P: FilePlaces>(
        &self,
        failure: &Failure,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) -> bool {
        let Failure { id, began_ns, behind, .. } = failure;
        let was_lost = |file: &TaskId| {
            self.lost_until_ns.get(file).is_some_and(|until_ns| until_ns > began_ns)
        };
        let is_lacked = |file: &TaskId| self.is_lost(*file) || was_lost(file);
        if view.scheduler.inputs(*id).any(|input| is_lacked(&input)) {
            return true;
        }
        let lacked =
            behind.iter().copied().filter(|file| is_lacked(file) && view.can_be_made(*file));
        let before = out.len();
        out.extend(lacked.map(|input| ReachEffect::Event(Event::InputLacked { id: *id, input })));
        out.len() > before
    }

    /// The run is over: passes one failure on.
    pub(super) fn pass_next_on<P: FilePlaces>(
        &mut self,
        view: &ReachView<'_, P>,
        out: &mut Vec<ReachEffect>,
    ) {
        if let Some(failure) = self.failures.asked.pop_front() {
            self.tell_lacked(&failure, view, out);
            out.push(ReachEffect::PassOn { id: failure.id });
            out.push(ReachEffect::Continue);
        }
    }
}
