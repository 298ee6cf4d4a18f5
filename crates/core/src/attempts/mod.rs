//! The life of attempts, from their beginning to their end: one owner, one map, one function
//! through which states change.
//!
//! An action is begun by the shell and runs in the front. What it asks for (commands, cores for its own code) passes
//! the gates here: a lease on cores of its node, and inputs that are in place. What follows its end (looking at the
//! target, staging it out, finding out whose fault a failure is) are states, too; so is the time between the loss of
//! a node and the end of the action in the front. `docs/design/attempts.md` describes the states and the ways between
//! them.
//!
//! Pure: the shell says what happened, and does what the effects say, in their order.

mod attempt;
mod by_node;
mod core_time;
mod leases;
mod prepared;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

pub use attempt::{Attempt, InputGate, NextAttempt, State};
pub use core_time::{Held, total_ns};
pub use prepared::Prepared;

use crate::ids::{InvocationId, NodeId, TaskId};
use crate::time::Now;
use attempt::{CoreAtEnd, Fate, Lease};
use by_node::LeasesByNode;
use leases::Leases;

/// What the shell is to do for attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEffect<C> {
    /// The action's own code may go on: it has its cores.
    Leased {
        /// The task.
        id: TaskId,
    },
    /// Start a command.
    Start {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
        /// Its node is to give the core to a prepared command when this one has ended well.
        frees_core: bool,
    },
    /// Send a command to its node, where it begins when a core is free. [`Attempts::command_begun`] or
    /// [`Attempts::command_withdrawn`] reports what became of it.
    Prepare {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
        /// How many freed cores of the node the hub knew of.
        freed: u64,
    },
    /// Give a free core to a prepared command.
    Release {
        /// The node.
        node: NodeId,
    },
    /// Ask for a prepared command back.
    Withdraw {
        /// The task.
        id: TaskId,
    },
    /// Ask a node not to free the core of the command that runs; answer [`Attempts::core_kept`]. No answer comes once
    /// the command has ended.
    KeepCore {
        /// The task.
        id: TaskId,
    },
    /// Do not start a command: for the action it has ended.
    Refuse {
        /// The task.
        id: TaskId,
        /// The command.
        command: C,
        /// Why it is not started.
        why: Refusal,
    },
    /// Stage in what the next command reads; answer [`Attempts::inputs_ready`] or [`Attempts::inputs_refused`].
    StageIn {
        /// The task.
        id: TaskId,
    },
    /// Release the room of an action's inputs: it waits for an invocation, and its commands read nothing meanwhile.
    ReleaseInputs {
        /// The task.
        id: TaskId,
    },
    /// Have the front abort the action. Its end is still expected.
    Abort {
        /// The task.
        id: TaskId,
    },
    /// Send a signal to the commands of an action; `Abort` follows when they have ended.
    Signal {
        /// The task.
        id: TaskId,
    },
    /// Have the front unwind an action whose node is gone. Its end is still expected.
    Unwind {
        /// The task.
        id: TaskId,
    },
}

/// Why a command is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its action is to end.
    Aborted,
    /// What it reads cannot be had.
    Inputs,
    /// Its node is gone.
    NodeLost,
}

/// How far the end of an action is that the core wants ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborting {
    /// The action runs; its end follows.
    UnderWay,
    /// The action had failed before, which is passed on now (state `Clearing` or `Attributing`). No end follows.
    Failed,
    /// The action had not begun, and never will. The number of its attempt.
    NotBegun(u32),
}

/// All attempts of a run that have not ended, and the leases on the cores of its nodes.
#[derive(Debug)]
pub struct Attempts<D, C> {
    /// By task, each of which has one attempt at most.
    tasks: BTreeMap<TaskId, Attempt<D, C>>,
    /// By node.
    leases: LeasesByNode,
    /// No node begins actions early: a task of this run needs more than one plain core.
    lookahead_off: bool,
    /// No node begins actions early while a gang runs or is ready to.
    lookahead_held: bool,
    /// The task whose action waits for an invocation.
    callers: BTreeMap<InvocationId, TaskId>,
    /// Number of attempts that are being unwound.
    unwinding: usize,
}

impl<D, C> Default for Attempts<D, C> {
    fn default() -> Self {
        Self {
            tasks: BTreeMap::new(),
            leases: LeasesByNode::default(),
            lookahead_off: false,
            lookahead_held: false,
            callers: BTreeMap::new(),
            unwinding: 0,
        }
    }
}

/// Nodes and their leases.
impl<D, C> Attempts<D, C> {
    /// Sets the cores of a node, which may be the next number. None of its attempts holds any.
    pub fn set_cores(&mut self, node: NodeId, cores: u32) {
        let mut leases = Leases::new(cores);
        if self.lookahead_off {
            leases.disable();
        }
        leases.hold_lookahead(self.lookahead_held);
        leases.set_trip(self.leases.get(node).map_or(0, Leases::trip_ns));
        self.leases.set(node, leases);
    }

    /// Sets how long a message takes to a node and back. It decides whether commands go there before they may run.
    pub fn set_trip(&mut self, node: NodeId, trip_ns: u64) {
        self.leases_of(node).set_trip(trip_ns);
    }

    /// Ends the lookahead for the rest of the run: a task needs more than one plain core.
    pub fn disable_lookahead(&mut self) {
        self.lookahead_off = true;
        self.leases.iter_mut().for_each(Leases::disable);
    }

    /// Whether a gang runs or is ready to: nothing is begun early meanwhile. Actions that were begun early stay begun,
    /// and stand in line for the cores that the gang leaves.
    pub fn hold_lookahead(&mut self, held: bool) {
        if self.lookahead_held != held {
            self.lookahead_held = held;
            self.leases.iter_mut().for_each(|leases| leases.hold_lookahead(held));
        }
    }

    /// Cores of a node that are on their way from one command to a prepared one.
    pub fn passed_on(&self, node: NodeId) -> u32 {
        self.leases[node].owed()
    }

    /// Whether enough commands wait for the cores of a node that messages to the front may be delayed.
    pub fn is_well_supplied(&self, node: NodeId) -> bool {
        self.leases[node].is_well_supplied()
    }

    /// Takes the nodes whose lookahead has changed, each with the new number.
    pub fn take_lookahead(&mut self) -> Vec<(NodeId, u32)> {
        self.leases.take_lookahead()
    }

    fn leases_of(&mut self, node: NodeId) -> &mut Leases {
        &mut self.leases[node]
    }
}

/// What the attempts are.
impl<D, C> Attempts<D, C> {
    /// The attempt of a task, whatever it does.
    pub fn get(&self, id: TaskId) -> Option<&Attempt<D, C>> {
        self.tasks.get(&id)
    }

    /// What the shell keeps with the attempt of a task.
    pub fn details_mut(&mut self, id: TaskId) -> Option<&mut D> {
        self.tasks.get_mut(&id).map(|attempt| &mut attempt.details)
    }

    /// The attempt of a task, if its action runs.
    pub fn acting(&self, id: TaskId) -> Option<&Attempt<D, C>> {
        self.get(id).filter(|attempt| attempt.is_acting())
    }

    /// The attempt of a task, if its action runs and the attempt has this number.
    pub fn acting_as(&self, id: TaskId, number: u32) -> Option<&Attempt<D, C>> {
        self.acting(id).filter(|attempt| attempt.number == number)
    }

    /// All attempts whose actions run.
    pub fn all_acting(&self) -> impl Iterator<Item = (TaskId, &Attempt<D, C>)> {
        let all = self.tasks.iter().map(|(id, attempt)| (*id, attempt));
        all.filter(|(_, attempt)| attempt.is_acting())
    }

    /// All attempts.
    pub fn all(&self) -> impl Iterator<Item = (TaskId, &Attempt<D, C>)> {
        self.tasks.iter().map(|(id, attempt)| (*id, attempt))
    }

    /// Whether the node of a task's attempt is gone, and its action has not ended yet.
    pub fn is_unwinding(&self, id: TaskId) -> bool {
        self.get(id).is_some_and(|attempt| matches!(attempt.state, State::Unwinding { .. }))
    }

    /// Whether an attempt has cores of its node: it has a lease, or is a caller that has yet to lend them.
    pub fn has_cores(&self, id: TaskId) -> bool {
        self.get(id).is_some_and(|attempt| self.leases[attempt.node].holds(id))
    }

    /// Whether any attempt is being unwound: the front has not ended its action yet.
    pub fn is_any_unwinding(&self) -> bool {
        self.unwinding > 0
    }

    /// Whether the action of a task waits for this invocation.
    pub fn is_called(&self, invocation: InvocationId) -> bool {
        self.callers.contains_key(&invocation)
    }

    /// How long an attempt has held its cores so far, ns.
    pub fn ran_ns(&self, id: TaskId, attempt: &Attempt<D, C>, now: Now) -> u64 {
        let since_ns = self.leases[attempt.node].held_since_ns(id);
        let since = since_ns.map_or(0, |since_ns| total_ns(&[(since_ns, now.journal_ns())]));
        total_ns(&attempt.held) + since
    }
}

/// Beginning and ending.
impl<D, C> Attempts<D, C> {
    /// Begins an action; whether it has a lease at once. `unstaged`: what its commands read must be staged in first.
    pub fn begin(
        &mut self,
        id: TaskId,
        NextAttempt { number, node, .. }: &NextAttempt,
        cores: u32,
        now: Now,
        unstaged: bool,
        details: D,
    ) -> bool {
        let leased = self.leases_of(*node).begin(id, cores, now);
        let attempt = Attempt {
            number: *number,
            node: *node,
            cores,
            began: now,
            held: Vec::new(),
            lease: if leased { Lease::Held } else { Lease::None },
            had_lease: leased,
            inputs: if unstaged { InputGate::Unstaged { before: false } } else { InputGate::Open },
            is_staged: unstaged,
            gated: Vec::new(),
            commands: 0,
            ran_command: false,
            sent_ahead: false,
            core_at_end: CoreAtEnd::Kept,
            fate: Fate::Own,
            state: State::Acting,
            details,
        };
        let before = self.tasks.insert(id, attempt);
        debug_assert!(before.is_none(), "an attempt of {id:?} has not ended");
        leased
    }

    /// The only place where the state of an attempt changes.
    fn advance(&mut self, id: TaskId, to: State) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        let is_way = match (&attempt.state, &to) {
            (State::Acting | State::Aborting, State::Acting | State::Aborting)
            | (State::Acting, State::Inspecting | State::StagingOut | State::Clearing)
            | (State::Acting | State::Clearing, State::Attributing)
            | (State::Inspecting, State::StagingOut)
            | (
                State::Acting | State::Aborting | State::Clearing | State::Attributing,
                State::Unwinding { .. },
            ) => true,
            (from, to) => from == to,
        };
        debug_assert!(is_way, "{id:?} cannot go from {:?} to {to:?}", attempt.state);
        self.unwinding += usize::from(matches!(to, State::Unwinding { .. }));
        self.unwinding -= usize::from(matches!(attempt.state, State::Unwinding { .. }));
        attempt.state = to;
    }

    /// Ends the action of an attempt: it gives up its cores and stands in no line. `code`: when its code ran, if it
    /// never wanted a lease. The shell decides what follows, with [`Attempts::inspect`], [`Attempts::stage_out`],
    /// [`Attempts::attribute`] or [`Attempts::take`]. Does nothing to an attempt that is being unwound or has ended.
    pub fn end_action(&mut self, id: TaskId, code: Option<Held>, now: Now) {
        let Some(attempt) = self.tasks.get_mut(&id).filter(|attempt| attempt.is_acting()) else {
            return;
        };
        let leases = &mut self.leases[attempt.node];
        if let Some((from_ns, to_ns)) = code.filter(|_| !attempt.had_lease) {
            let ran = (from_ns.max(attempt.began.journal_ns()), to_ns.min(now.journal_ns()));
            attempt.held.extend(leases.claim(ran));
        }
        attempt.held.extend(leases.end(id, true, now));
        if matches!(mem::replace(&mut attempt.lease, Lease::None), Lease::Lent(_)) {
            // The next attempt does not wait for the invocations of this one.
            self.callers.retain(|_, caller| *caller != id);
        }
        self.advance(id, State::Acting);
    }

    /// The node of an attempt looks at its target.
    pub fn inspect(&mut self, id: TaskId) {
        self.advance(id, State::Inspecting);
    }

    /// The target of an attempt is being staged out.
    pub fn stage_out(&mut self, id: TaskId) {
        self.advance(id, State::StagingOut);
    }

    /// What the commands of a failed attempt left behind is ended before the next one.
    pub fn clear(&mut self, id: TaskId) {
        self.advance(id, State::Clearing);
    }

    /// The shell finds out the cause of an attempt's failure.
    pub fn attribute(&mut self, id: TaskId) {
        self.advance(id, State::Attributing);
    }

    /// Takes an attempt that has ended, for the shell to note.
    pub fn take(&mut self, id: TaskId) -> Option<Attempt<D, C>> {
        let attempt = self.tasks.remove(&id)?;
        self.unwinding -= usize::from(matches!(attempt.state, State::Unwinding { .. }));
        Some(attempt)
    }

    /// Takes all attempts when the run is over, with the time that they have held their cores.
    pub fn take_all(&mut self, now: Now) -> BTreeMap<TaskId, Attempt<D, C>> {
        self.callers.clear();
        self.unwinding = 0;
        let mut attempts = mem::take(&mut self.tasks);
        for (id, attempt) in &mut attempts {
            attempt.held.extend(self.leases[attempt.node].end(*id, false, now));
            attempt.lease = Lease::None;
            if let State::Unwinding { rerun, .. } = &mut attempt.state {
                *rerun = false;
            }
        }
        attempts
    }

    /// Takes the attempts whose actions run code of their own, and no command.
    pub fn take_in_code(&mut self) -> BTreeMap<TaskId, Attempt<D, C>> {
        let is_in_code = |(_, attempt): &(TaskId, &Attempt<D, C>)| attempt.is_in_code();
        let ids: Vec<TaskId> = self.all_acting().filter(is_in_code).map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.take(id)?))).collect()
    }
}

/// The gates before commands and code.
impl<D, C> Attempts<D, C> {
    /// The code of an action wants its cores.
    pub fn want_lease(&mut self, id: TaskId, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        let waits_for_room = attempt.waits_for_room();
        match attempt.state {
            // No end of an action that nobody waits for may be held up.
            State::Unwinding { .. } => out.push(AttemptEffect::Leased { id }),
            State::Inspecting | State::StagingOut | State::Clearing | State::Attributing => {}
            State::Acting | State::Aborting => match &mut attempt.lease {
                Lease::Held | Lease::Lent(_) => out.push(AttemptEffect::Leased { id }),
                Lease::Wanted { by_code } | Lease::Prepared { by_code } => *by_code = true,
                Lease::Deferred => {}
                Lease::None if waits_for_room => attempt.lease = Lease::Deferred,
                Lease::None => self.stand_in_line(id, true),
            },
        }
    }

    fn stand_in_line(&mut self, id: TaskId, by_code: bool) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        let by_code = match attempt.lease {
            Lease::None => by_code,
            Lease::Deferred => true,
            Lease::Wanted { .. } | Lease::Prepared { .. } | Lease::Held | Lease::Lent(_) => return,
        };
        attempt.lease = Lease::Wanted { by_code };
        self.leases[attempt.node].want(id, attempt.cores, attempt.had_lease);
    }

    /// An action wants a command started. A task without an acting attempt has none that could wait: the shell gets the
    /// command back.
    pub fn want_command(
        &mut self,
        id: TaskId,
        command: C,
        out: &mut Vec<AttemptEffect<C>>,
    ) -> Option<C> {
        let Some(attempt) = self.tasks.get_mut(&id) else { return Some(command) };
        match attempt.state {
            State::Unwinding { .. } => {
                out.push(AttemptEffect::Refuse { id, command, why: Refusal::NodeLost });
            }
            State::Inspecting | State::StagingOut | State::Clearing | State::Attributing => {
                return Some(command);
            }
            // Its commands are being ended, or it was stopped before it had a core: the front asked before it knew.
            State::Acting | State::Aborting if attempt.starts_no_more() => {
                out.push(AttemptEffect::Refuse { id, command, why: Refusal::Aborted });
            }
            State::Acting | State::Aborting => match attempt.lease {
                Lease::Held | Lease::Lent(_) if attempt.frees_core() => {
                    attempt.gated.push(command);
                    self.keep_core(id, out);
                }
                Lease::Held | Lease::Lent(_) => self.pass_inputs(id, command, out),
                Lease::Deferred => attempt.gated.push(command),
                Lease::None if attempt.waits_for_room() => attempt.gated.push(command),
                Lease::None | Lease::Wanted { .. } | Lease::Prepared { .. } => {
                    attempt.gated.push(command);
                    self.stand_in_line(id, false);
                }
            },
        }
        None
    }

    /// The gate of inputs, after that of the lease.
    fn pass_inputs(&mut self, id: TaskId, command: C, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        match attempt.inputs {
            InputGate::Open => {
                // This command runs alone.
                let passes = self.leases[attempt.node].passes_cores();
                let frees_core = passes && attempt.commands == 0 && attempt.lease == Lease::Held;
                attempt.core_at_end = if frees_core { CoreAtEnd::Freed } else { CoreAtEnd::Kept };
                attempt.commands += 1;
                attempt.ran_command = true;
                out.push(AttemptEffect::Start { id, command, frees_core });
            }
            InputGate::Unstaged { .. } => {
                attempt.inputs = InputGate::Pending { changed: false, held_up: false };
                attempt.gated.push(command);
                out.push(AttemptEffect::StageIn { id });
            }
            InputGate::Pending { .. } => attempt.gated.push(command),
            InputGate::Refused => {
                out.push(AttemptEffect::Refuse { id, command, why: Refusal::Inputs });
            }
        }
    }

    /// Lets the commands of an attempt wait until its node sees its inputs.
    pub fn await_inputs(&mut self, id: TaskId) {
        if let Some(attempt) = self.tasks.get_mut(&id) {
            let held_up = attempt.waits_for_room();
            attempt.inputs = InputGate::Pending { changed: false, held_up };
        }
    }

    /// The next command of an attempt is to find something more on its node.
    pub fn inputs_changed(&mut self, id: TaskId) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        match &mut attempt.inputs {
            InputGate::Open => attempt.inputs = InputGate::Unstaged { before: true },
            InputGate::Pending { changed, .. } => *changed = true,
            InputGate::Unstaged { .. } | InputGate::Refused => {}
        }
    }

    /// The inputs of an attempt's commands are in place.
    pub fn inputs_ready(&mut self, id: TaskId, number: u32, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.attempt_mut(id, number) else { return };
        attempt.inputs = match attempt.inputs {
            InputGate::Pending { changed: true, .. } => InputGate::Unstaged { before: true },
            InputGate::Pending { changed: false, .. } => InputGate::Open,
            other => other,
        };
        match attempt.lease {
            Lease::Held | Lease::Lent(_) => self.release_gated(id, out),
            Lease::None if attempt.gated.is_empty() => {}
            // It has given its cores to others meanwhile.
            Lease::None | Lease::Deferred => self.stand_in_line(id, false),
            Lease::Wanted { .. } | Lease::Prepared { .. } => {}
        }
        self.release_inputs(id, out);
    }

    /// The node has no room yet for what commands of an attempt read. While it waits others use its cores: the attempts
    /// that have the room may be waiting for just these.
    pub fn inputs_held_up(&mut self, id: TaskId, number: u32, now: Now) {
        let Some(attempt) = self.attempt_mut(id, number) else { return };
        if let InputGate::Pending { held_up, .. } = &mut attempt.inputs {
            *held_up = true;
        }
        self.give_cores_away(id, now);
    }

    fn give_cores_away(&mut self, id: TaskId, now: Now) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        if attempt.waits_for_room() && attempt.commands == 0 && attempt.lease == Lease::Held {
            attempt.held.extend(self.leases[attempt.node].end(id, false, now));
            attempt.lease = attempt.without_cores();
        }
    }

    /// The inputs of an attempt's commands cannot be had.
    pub fn inputs_refused(&mut self, id: TaskId, number: u32, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.attempt_mut(id, number) else { return };
        attempt.inputs = InputGate::Refused;
        let is_deferred = attempt.lease == Lease::Deferred;
        self.release_gated(id, out);
        if is_deferred {
            self.stand_in_line(id, true);
        }
    }

    fn attempt_mut(&mut self, id: TaskId, number: u32) -> Option<&mut Attempt<D, C>> {
        let attempt = self.tasks.get_mut(&id)?;
        (attempt.is_acting() && attempt.number == number).then_some(attempt)
    }

    /// Takes commands that have waited to the gate of inputs, in order.
    fn release_gated(&mut self, id: TaskId, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        if attempt.frees_core() && !attempt.gated.is_empty() {
            return self.keep_core(id, out);
        }
        let mut gated = mem::take(&mut attempt.gated).into_iter();
        while let Some(command) = gated.next() {
            self.pass_inputs(id, command, out);
            let Some(attempt) = self.tasks.get_mut(&id) else { return };
            if attempt.frees_core() && gated.len() > 0 {
                attempt.gated.extend(gated);
                return self.keep_core(id, out);
            }
        }
    }

    /// Asks the node to keep the core of a command: another one of the same action is to run beside it.
    fn keep_core(&mut self, id: TaskId, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        if attempt.core_at_end == CoreAtEnd::Freed {
            attempt.core_at_end = CoreAtEnd::KeepAsked;
            out.push(AttemptEffect::KeepCore { id });
        }
    }

    /// Hands free cores to the attempts that stand in line.
    pub fn grant(&mut self, now: Now, out: &mut Vec<AttemptEffect<C>>) {
        while let Some(node) = self.leases.next_to_grant() {
            if self.leases[node].may_release() {
                self.leases[node].release_prepared();
                out.push(AttemptEffect::Release { node });
            } else if self.leases[node].may_grant()
                && let Some(id) = self.leases[node].grant(now)
            {
                let attempt = self.tasks.get_mut(&id).filter(|attempt| attempt.is_acting());
                let Some(attempt) = attempt else {
                    self.leases[node].end(id, false, now);
                    continue;
                };
                if attempt.lease == (Lease::Wanted { by_code: true }) {
                    out.push(AttemptEffect::Leased { id });
                }
                attempt.lease = Lease::Held;
                attempt.had_lease = true;
                self.release_gated(id, out);
            }
        }
    }

    /// Sends commands of attempts that stand in line to their nodes, where they begin as soon as a core is free: the
    /// commands that `may` be sent.
    pub fn prepare(&mut self, may: impl Fn(TaskId, &C) -> bool, out: &mut Vec<AttemptEffect<C>>) {
        // Nodes whose first in line may not go yet: that may change without a change of the leases.
        let mut later = Vec::new();
        while let Some(node) = self.leases.next_to_prepare() {
            let Some(id) = self.leases[node].next_to_prepare() else { continue };
            let Some(command) = self.take_prepared(id, &may) else {
                later.push(node);
                continue;
            };
            let freed = self.leases[node].prepare();
            out.push(AttemptEffect::Prepare { id, command, freed });
        }
        self.leases.prepare_later(&later);
    }

    /// Takes the command of an attempt that stands in line, if it is to go to its node before it may run.
    fn take_prepared(&mut self, id: TaskId, may: &impl Fn(TaskId, &C) -> bool) -> Option<C> {
        let attempt = self.tasks.get_mut(&id).filter(|attempt| {
            let is_wanted = attempt.lease == Lease::Wanted { by_code: false };
            let is_ready = attempt.inputs == InputGate::Open && !attempt.is_aborted();
            attempt.state == State::Acting && is_wanted && is_ready
        })?;
        let [command] = &attempt.gated[..] else { return None };
        if !may(id, command) {
            return None;
        }
        let command = attempt.gated.pop()?;
        attempt.lease = Lease::Prepared { by_code: false };
        attempt.sent_ahead = true;
        Some(command)
    }

    /// A prepared command has begun at its node. Its attempt may have ended.
    pub fn command_begun(
        &mut self,
        node: NodeId,
        id: TaskId,
        number: u32,
        now: Now,
        out: &mut Vec<AttemptEffect<C>>,
    ) {
        let attempt = self.tasks.get_mut(&id);
        let attempt = attempt.filter(|attempt| attempt.is_acting() && attempt.number == number);
        let leases = &mut self.leases[node];
        // A caller, too, has the core on which its command runs, and lends it later.
        let holds = attempt.is_some() && !leases.holds(id);
        leases.begun(id, number, holds, now);
        let Some(attempt) = attempt else { return };
        attempt.commands += 1;
        attempt.ran_command = true;
        attempt.sent_ahead = false;
        if attempt.core_at_end == CoreAtEnd::Kept {
            attempt.core_at_end = CoreAtEnd::Freed;
        }
        let runs_alone = attempt.commands == 1;
        let (is_lent, by_code) = match attempt.lease {
            Lease::Prepared { by_code } | Lease::Wanted { by_code } => (false, by_code),
            Lease::Deferred => (false, true),
            Lease::None | Lease::Held => (false, false),
            Lease::Lent(_) => (true, false),
        };
        if !is_lent {
            attempt.lease = Lease::Held;
            attempt.had_lease = true;
        }
        if is_lent || !runs_alone {
            self.keep_core(id, out);
        }
        if by_code {
            out.push(AttemptEffect::Leased { id });
        }
        let Some(attempt) = self.tasks.get(&id) else { return };
        if attempt.state == State::Aborting {
            out.push(AttemptEffect::Signal { id });
        }
        self.release_gated(id, out);
    }

    /// A node has given a prepared command back: it has not begun, and stands in line again. Returned here if its
    /// attempt has ended.
    pub fn command_withdrawn(
        &mut self,
        node: NodeId,
        id: TaskId,
        number: u32,
        command: C,
        out: &mut Vec<AttemptEffect<C>>,
    ) -> Option<C> {
        self.leases[node].withdrawn(id, number);
        let attempt = self.tasks.get_mut(&id);
        let attempt = attempt.filter(|attempt| attempt.is_acting() && attempt.number == number);
        let Some(attempt) = attempt else { return Some(command) };
        attempt.sent_ahead = false;
        let by_code = match attempt.lease {
            Lease::Prepared { by_code } => {
                attempt.lease = Lease::None;
                by_code
            }
            Lease::None | Lease::Deferred | Lease::Wanted { .. } | Lease::Held | Lease::Lent(_) => {
                false
            }
        };
        if attempt.starts_no_more() {
            out.push(AttemptEffect::Refuse { id, command, why: Refusal::Aborted });
            if by_code {
                out.push(AttemptEffect::Leased { id });
            }
            if attempt.state == State::Aborting && attempt.commands == 0 {
                self.advance(id, State::Acting);
                out.push(AttemptEffect::Abort { id });
            }
            return None;
        }
        attempt.gated.insert(0, command);
        if attempt.lease == Lease::None {
            attempt.lease = Lease::Wanted { by_code };
            self.leases[node].want(id, attempt.cores, true);
        } else {
            self.release_gated(id, out);
        }
        None
    }

    /// A node keeps the core of an action when its command has ended: other commands of the action may start.
    pub fn core_kept(
        &mut self,
        id: TaskId,
        number: u32,
        now: Now,
        out: &mut Vec<AttemptEffect<C>>,
    ) {
        let Some(attempt) = self.attempt_mut(id, number) else { return };
        attempt.core_at_end = CoreAtEnd::Kept;
        self.lend(id, now);
        self.release_gated(id, out);
    }

    /// Lends the core that a caller has kept for a command.
    fn lend(&mut self, id: TaskId, now: Now) {
        let Some(attempt) = self.tasks.get_mut(&id).filter(|attempt| attempt.is_suspended()) else {
            return;
        };
        attempt.held.extend(self.leases[attempt.node].end(id, false, now));
    }

    /// A node has freed the core of a command that has ended well, as [`Attempts::command_ended`] says next. A prepared
    /// command has the core, if there is one.
    pub fn core_freed(&mut self, node: NodeId, id: TaskId, number: u32, now: Now) {
        let (passed, held) = self.leases[node].core_freed(id, now);
        let Some(attempt) = self.attempt_mut(id, number) else { return };
        attempt.core_at_end = CoreAtEnd::Kept;
        attempt.held.extend(held);
        if !passed || attempt.lease != Lease::Held {
            return;
        }
        if attempt.commands > 1 {
            // A caller sent it ahead, and has its cores again: its other commands run on, whatever runs.
            let cores = attempt.cores;
            self.leases[node].take_back(id, cores, now);
        } else {
            attempt.lease = attempt.without_cores();
        }
    }

    /// A command of an attempt has ended. After the last one, others may use the cores.
    pub fn command_ended(&mut self, id: TaskId, now: Now, out: &mut Vec<AttemptEffect<C>>) {
        let attempt = self.tasks.get_mut(&id).filter(|attempt| attempt.is_acting());
        let Some(attempt) = attempt else { return };
        attempt.commands = attempt.commands.saturating_sub(1);
        if attempt.commands > 0 {
            let has_cores = matches!(attempt.lease, Lease::Held | Lease::Lent(_));
            if has_cores && attempt.inputs == InputGate::Open {
                // They waited for the answer whether its core goes to another command.
                self.release_gated(id, out);
            }
            return;
        }
        attempt.core_at_end = CoreAtEnd::Kept;
        self.lend(id, now);
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        if attempt.gated.is_empty() {
            let leases = &mut self.leases[attempt.node];
            attempt.held.extend(leases.pass_on(id, now));
            if attempt.lease == Lease::Held && !leases.holds(id) {
                attempt.lease = attempt.without_cores();
            }
        } else {
            match attempt.lease {
                Lease::None if attempt.waits_for_room() => {}
                // Another attempt has its cores.
                Lease::None => self.stand_in_line(id, false),
                // A command that still waits for its inputs is to start on these cores.
                Lease::Held | Lease::Lent(_) => self.release_gated(id, out),
                Lease::Deferred | Lease::Wanted { .. } | Lease::Prepared { .. } => {}
            }
            self.give_cores_away(id, now);
        }
        let is_over = |attempt: &Attempt<D, C>| !attempt.sent_ahead && attempt.commands == 0;
        let ends = |attempt: &Attempt<D, C>| attempt.state == State::Aborting && is_over(attempt);
        if self.tasks.get(&id).is_some_and(ends) {
            self.advance(id, State::Acting);
            out.push(AttemptEffect::Abort { id });
        }
        self.release_inputs(id, out);
    }

    /// Releases the inputs of an attempt whose action waits for an invocation, and of which no command runs or waits:
    /// what it has invoked may be waiting for their room. They are staged in anew for the next command.
    fn release_inputs(&mut self, id: TaskId, out: &mut Vec<AttemptEffect<C>>) {
        let Some(attempt) = self.tasks.get_mut(&id) else { return };
        let is_idle = attempt.commands == 0 && attempt.gated.is_empty() && !attempt.sent_ahead;
        let has_some = match attempt.inputs {
            InputGate::Open | InputGate::Unstaged { before: true } => attempt.is_staged,
            InputGate::Unstaged { before: false }
            | InputGate::Pending { .. }
            | InputGate::Refused => false,
        };
        if is_idle && has_some && attempt.is_suspended() {
            attempt.inputs = InputGate::Unstaged { before: true };
            out.push(AttemptEffect::ReleaseInputs { id });
        }
    }

    /// The action of `caller` waits for an invocation: others may use its cores, and what it starts
    /// meanwhile needs none.
    pub fn suspend(
        &mut self,
        invocation: InvocationId,
        caller: TaskId,
        now: Now,
        out: &mut Vec<AttemptEffect<C>>,
    ) {
        let attempt = self.tasks.get_mut(&caller).filter(|attempt| attempt.is_acting());
        let Some(attempt) = attempt else { return };
        self.callers.insert(invocation, caller);
        // The node would give the core to another command beside those that it is lent to.
        let keeps = attempt.frees_core();
        if !keeps && !attempt.is_suspended() {
            attempt.held.extend(self.leases[attempt.node].end(caller, false, now));
        }
        let before = match attempt.lease {
            Lease::Lent(count) => count,
            Lease::Deferred
            | Lease::Wanted { by_code: true }
            | Lease::Prepared { by_code: true } => {
                // Its other threads do not wait for a core that it has given up.
                out.push(AttemptEffect::Leased { id: caller });
                0
            }
            Lease::None
            | Lease::Wanted { by_code: false }
            | Lease::Prepared { by_code: false }
            | Lease::Held => 0,
        };
        attempt.lease = Lease::Lent(before + 1);
        if keeps {
            self.keep_core(caller, out);
        }
        self.release_gated(caller, out);
        self.release_inputs(caller, out);
    }

    /// An invocation is over: the action that has waited for it has its cores again, whatever runs. An action whose
    /// only command waits at its node for a core has the core on which that begins: the others may be all in use.
    pub fn resume(&mut self, invocation: InvocationId, now: Now) {
        let Some(caller) = self.callers.remove(&invocation) else { return };
        let Some(attempt) = self.tasks.get_mut(&caller) else { return };
        match attempt.lease {
            Lease::Lent(count) if count > 1 => attempt.lease = Lease::Lent(count - 1),
            Lease::Lent(_) => {
                attempt.had_lease = true;
                if attempt.commands == 0 && attempt.sent_ahead {
                    attempt.lease = attempt.without_cores();
                    return;
                }
                attempt.lease = Lease::Held;
                let leases = &mut self.leases[attempt.node];
                if !leases.holds(caller) {
                    leases.take_back(caller, attempt.cores, now);
                }
                self.give_cores_away(caller, now);
            }
            Lease::None
            | Lease::Deferred
            | Lease::Wanted { .. }
            | Lease::Prepared { .. }
            | Lease::Held => {}
        }
    }
}

/// Ending early, and losing nodes.
impl<D, C> Attempts<D, C> {
    /// Ends an action, as the core wants. `signals`: its commands get signals first; else they have got them already.
    pub fn abort(
        &mut self,
        id: TaskId,
        signals: bool,
        out: &mut Vec<AttemptEffect<C>>,
    ) -> Option<Aborting> {
        let attempt = self.tasks.get_mut(&id)?;
        match &mut attempt.state {
            State::Unwinding { next, .. } => {
                next.take().map(|next| Aborting::NotBegun(next.number))
            }
            State::Inspecting | State::StagingOut => None,
            State::Clearing | State::Attributing => {
                attempt.fate = attempt.fate.max(Fate::Aborted);
                Some(Aborting::Failed)
            }
            State::Acting | State::Aborting => {
                attempt.fate = attempt.fate.max(Fate::Aborted);
                let why = Refusal::Aborted;
                let refuse = |command| AttemptEffect::Refuse { id, command, why };
                out.extend(mem::take(&mut attempt.gated).into_iter().map(refuse));
                let (sent_ahead, runs) = (attempt.sent_ahead, attempt.commands > 0);
                if sent_ahead && self.leases[attempt.node].withdraw(id, attempt.number) {
                    out.push(AttemptEffect::Withdraw { id });
                }
                if runs && signals {
                    out.push(AttemptEffect::Signal { id });
                }
                if sent_ahead || runs {
                    self.advance(id, State::Aborting);
                } else {
                    out.push(AttemptEffect::Abort { id });
                }
                Some(Aborting::UnderWay)
            }
        }
    }

    /// Marks the attempts among `of` that were begun early and have had no core yet as not begun. The shell must abort
    /// each of them.
    pub fn give_back_early(&mut self, of: impl Fn(TaskId) -> bool) -> Vec<TaskId> {
        let mut early = Vec::new();
        for (id, attempt) in &mut self.tasks {
            let unused = attempt.is_acting() && !attempt.had_lease && !attempt.is_suspended();
            if unused && of(*id) {
                attempt.fate = Fate::GivenBack;
                early.push(*id);
            }
        }
        early
    }

    /// A node is gone: its actions are unwound, and commands that they have not started never start.
    pub fn lose_node(&mut self, node: NodeId, now: Now, out: &mut Vec<AttemptEffect<C>>) {
        let is_there = |(_, attempt): &(TaskId, &Attempt<D, C>)| attempt.node == node;
        let lost: Vec<TaskId> = self.all_acting().filter(is_there).map(|(id, _)| id).collect();
        for id in lost.iter().copied() {
            let Some(attempt) = self.tasks.get_mut(&id) else { continue };
            attempt.held.extend(self.leases[node].end(id, false, now));
            attempt.lease = Lease::None;
            out.push(AttemptEffect::Unwind { id });
            let why = Refusal::NodeLost;
            let refuse = |command| AttemptEffect::Refuse { id, command, why };
            out.extend(mem::take(&mut attempt.gated).into_iter().map(refuse));
            self.advance(id, State::Unwinding { next: None, rerun: true });
        }
        self.callers.retain(|_, caller| !lost.contains(caller));
    }

    /// Marks a failed action, whose node is gone, as lost: for the core it went with the node.
    pub fn lose_failed(&mut self, id: TaskId) {
        self.advance(id, State::Unwinding { next: None, rerun: true });
    }

    /// Begins the next attempt of a task; whether it waits until the last one is unwound.
    pub fn hold_start(&mut self, id: TaskId, start: &NextAttempt) -> bool {
        let attempt = self.tasks.get_mut(&id);
        if let Some(Attempt { state: State::Unwinding { next, .. }, .. }) = attempt {
            *next = Some(start.clone());
            return true;
        }
        false
    }

    /// The core decides what follows a lost attempt. A next attempt that had to wait has not begun.
    pub fn on_attempt_lost(&mut self, id: TaskId, number: u32, again: bool) {
        let attempt = self.tasks.get_mut(&id);
        if let Some(Attempt { state: State::Unwinding { next, rerun }, .. }) = attempt {
            next.take_if(|next| next.number == number);
            *rerun = again;
        }
    }
}
