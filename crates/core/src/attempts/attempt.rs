//! One attempt: its states, the gates before its commands, and its lease.
//!
//! Only [`Attempts`](super::Attempts) changes an attempt; shells read it, and keep in `details`
//! what the core has no word for.

use alloc::vec::Vec;

use super::core_time::Held;
use crate::ids::NodeId;
use crate::requirement::Devices;
use crate::time::Now;

/// An attempt from its beginning to its end. `C` is a command of the shell that has not started,
/// `D` what the shell keeps with the attempt.
#[derive(Debug)]
pub struct Attempt<D, C> {
    pub(super) number: u32,
    pub(super) node: NodeId,
    pub(super) cores: u32,
    pub(super) began: Now,
    /// When it held its cores, without the time since it got those that it has now.
    pub(super) held: Vec<Held>,
    pub(super) lease: Lease,
    pub(super) had_lease: bool,
    pub(super) inputs: InputGate,
    /// What its commands read is staged in.
    pub(super) is_staged: bool,
    /// Commands that wait at a gate, in order.
    pub(super) gated: Vec<C>,
    /// Commands that run.
    pub(super) commands: u32,
    pub(super) ran_command: bool,
    /// A command of it has been sent to its node and has not begun, as far as is known.
    pub(super) sent_ahead: bool,
    pub(super) core_at_end: CoreAtEnd,
    pub(super) fate: Fate,
    pub(super) state: State,
    /// What the shell keeps with it.
    pub details: D,
}

/// What an attempt does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its action runs.
    Acting,
    /// Its action is to be aborted when its last command has ended.
    Aborting,
    /// Its action ended well; its node looks at the target.
    Inspecting,
    /// Its action ended well; its target is being staged out.
    StagingOut,
    /// Its action failed; what its commands left behind is ended before the next attempt.
    Clearing,
    /// Its action failed; the shell finds out whether the task is to blame.
    Attributing,
    /// Its node is gone, and its action has not ended yet.
    Unwinding {
        /// The attempt that is to begin after that.
        next: Option<NextAttempt>,
        /// Another attempt follows.
        rerun: bool,
    },
}

/// An attempt that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextAttempt {
    /// From 1.
    pub number: u32,
    /// The node on which it is to run.
    pub node: NodeId,
    /// The devices that it alone may use there.
    pub devices: Devices,
}

/// Whether an attempt has its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// It was begun early, or has passed its lease on between two commands, and needs none now. No command of it waits
    /// at its node; nor with `Deferred` and `Wanted`.
    None,
    /// Its code waits for a lease, but its node has no room for what its commands read. It stands in line when there is
    /// room: the attempts that have the room may be waiting for these cores.
    Deferred,
    /// It stands in line; `by_code`: its own code waits for that.
    Wanted { by_code: bool },
    /// Its command is at its node, and begins there when a core is free; `by_code`: its own code waits for that, too.
    Prepared { by_code: bool },
    /// It has them.
    Held,
    /// It has lent them to this many invocations, and waits for those; what it starts meanwhile needs none. If the node
    /// would give the core of its running command to another one, it lends the core when the node keeps it, or when the
    /// command has ended.
    Lent(u32),
}

/// Whether commands may start, as far as the files that they read go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputGate {
    /// They may.
    #[default]
    Open,
    /// The shell must stage files in before the next command; `before`: it did for an earlier command.
    Unstaged {
        /// An earlier command of this attempt had its files staged in.
        before: bool,
    },
    /// The shell stages them in.
    Pending {
        /// More files have to be staged in when this is over.
        changed: bool,
        /// The node has no room for them yet.
        held_up: bool,
    },
    /// They never may: the files cannot be had.
    Refused,
}

/// What the node does with the core of an attempt's command when that ends well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CoreAtEnd {
    /// The attempt keeps it.
    #[default]
    Kept,
    /// Its only command runs, or one that was sent ahead, and the node gives the core to another one.
    Freed,
    /// As `Freed`, unless the command still runs when the node reads that it is to keep the core. Another command of
    /// the action waits for the answer.
    KeepAsked,
}

/// Why an attempt is to end, if it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    #[default]
    Own,
    /// The scheduler or the user wants it to end.
    Aborted,
    /// It was begun early and counts as not begun, because something else failed.
    GivenBack,
}

impl<D, C> Attempt<D, C> {
    /// From 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The node on which it runs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Cores that it needs there.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// When it began.
    pub fn began(&self) -> Now {
        self.began
    }

    /// When it held its cores, so far; without the time since it got those that it has now.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// What it does now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether its action runs.
    pub fn is_acting(&self) -> bool {
        matches!(self.state, State::Acting | State::Aborting)
    }

    /// Whether it is to end (`Fate::Aborted`).
    pub fn is_aborted(&self) -> bool {
        self.fate != Fate::Own
    }

    /// Whether no more commands of it start, as it is to end. The front may still ask for some after it has learnt of
    /// that: code that cleans up.
    pub(super) fn starts_no_more(&self) -> bool {
        self.state == State::Aborting
            || self.is_aborted() && !self.had_lease && !self.is_suspended()
    }

    /// Whether it counts as not begun, should it not end well.
    pub fn is_given_back(&self) -> bool {
        self.fate == Fate::GivenBack
    }

    /// Whether it has had a lease at any time.
    pub fn had_lease(&self) -> bool {
        self.had_lease
    }

    /// Whether it waits for invocations, and has lent its cores to them.
    pub fn is_suspended(&self) -> bool {
        matches!(self.lease, Lease::Lent(_))
    }

    /// Its lease while another attempt has its cores.
    pub(super) fn without_cores(&self) -> Lease {
        if self.sent_ahead { Lease::Prepared { by_code: false } } else { Lease::None }
    }

    /// Whether it has its cores now.
    pub fn holds_lease(&self) -> bool {
        self.lease == Lease::Held
    }

    /// Whether a command of it has been started: what it has made was made on its node.
    pub fn ran_command(&self) -> bool {
        self.ran_command
    }

    /// Whether it was about to start a command at any time: files may have been staged in.
    pub fn was_staged_for(&self) -> bool {
        self.inputs != InputGate::Unstaged { before: false }
    }

    /// Whether its commands may start, as far as files go.
    pub fn inputs(&self) -> InputGate {
        self.inputs
    }

    /// Whether there is no room on its node yet for what its commands read.
    pub fn waits_for_room(&self) -> bool {
        matches!(self.inputs, InputGate::Pending { held_up: true, .. })
    }

    /// Whether its node gives the core of its command to another one when that ends.
    pub(super) fn frees_core(&self) -> bool {
        self.core_at_end != CoreAtEnd::Kept
    }

    /// Commands that wait at a gate.
    pub fn gated(&self) -> &[C] {
        &self.gated
    }

    /// Whether no command of it runs, or waits to.
    pub fn is_in_code(&self) -> bool {
        self.commands == 0 && self.gated.is_empty() && !self.sent_ahead
    }

    /// Whether a command of it is at its node that has not begun, as far as is known.
    pub fn is_prepared(&self) -> bool {
        matches!(self.lease, Lease::Prepared { .. })
    }
}
