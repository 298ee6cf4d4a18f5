//! Ending what runs: gently first, then not.
//!
//! [`Stopping`] has one ladder of signals for each command that has to go, [`Shutdown`] the steps in which the last of
//! a run are ended. Both decide what comes when; the shell delivers it. The table of both is in
//! `docs/design/stopping.md`.

mod shutdown;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use shutdown::{Shutdown, ShutdownStep, Wait};

use crate::time::Time;

/// The signal that a command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// As the user's Ctrl-C.
    Interrupt,
    /// The request to end.
    Terminate,
    /// The forced end.
    Kill,
}

impl Signal {
    fn next(self) -> Option<Self> {
        match self {
            Self::Interrupt => Some(Self::Terminate),
            Self::Terminate => Some(Self::Kill),
            Self::Kill => None,
        }
    }
}

/// How a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopHow {
    /// Commands have the time to end by themselves.
    Gently,
    /// They have none.
    AtOnce,
}

/// How a run ends its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSettings {
    /// Timeout for the end of a command after a signal, ns.
    pub grace_ns: u64,
    /// The first signal to the commands of a run that is to end gently: `Interrupt`, or `Terminate` where they ignore
    /// that.
    pub first: Signal,
}

/// Timeout for the report of a command's end after SIGKILL, ns.
pub(super) const UNRESPONSIVE_NODE_NS: u64 = 3_000_000_000;

/// What the shell is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEffect {
    /// The run is to end from now on. The shell notes this before it ends anything.
    Begin {
        /// How the run is to end.
        how: StopHow,
    },
    /// Send a signal to the process group of a command.
    Send {
        /// The command, by the shell's number.
        command: u32,
        /// The signal.
        signal: Signal,
    },
    /// Kill all that runs, whatever has started it.
    KillAll,
    /// Wait no longer for the node of a command: it does not even kill.
    GiveUpNode {
        /// The command, by the shell's number.
        command: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Send(Signal),
    GiveUpNode,
}

/// Signals still to come, and whether the run as a whole is ending.
#[derive(Debug)]
pub struct Stopping {
    settings: StopSettings,
    how: Option<StopHow>,
    by_user: bool,
    /// The next rung of each command and its time, in the order in which the commands got their signals.
    ladder: Vec<(Time, u32, Rung)>,
}

impl Stopping {
    pub(crate) fn new(settings: StopSettings) -> Self {
        Self { settings, how: None, by_user: false, ladder: Vec::new() }
    }

    /// Whether the run is to end: nothing more starts.
    pub fn is_stopping(&self) -> bool {
        self.how.is_some()
    }

    /// Whether the user has asked for it.
    pub fn by_user(&self) -> bool {
        self.by_user
    }

    /// Whether the user may still ask for a faster end.
    pub fn can_kill(&self) -> bool {
        self.by_user && self.how != Some(StopHow::AtOnce)
    }

    /// When commands get their next signal.
    pub fn due(&self) -> Option<Time> {
        self.ladder.iter().map(|(due, ..)| *due).min()
    }

    /// The signal that comes next while commands do not end, and when.
    pub fn next_signal(&self) -> Option<(Time, Signal)> {
        let next = |(due, _, rung): &(Time, u32, Rung)| match rung {
            Rung::Send(signal) => Some((*due, *signal)),
            Rung::GiveUpNode => None,
        };
        self.ladder.iter().filter_map(next).min_by_key(|(due, _)| *due)
    }

    /// Begins to end the run; whether that is news. [`Self::end`] signals the commands.
    pub(crate) fn begin(&mut self, how: StopHow, by_user: bool) -> bool {
        self.by_user |= by_user;
        if self.how == Some(StopHow::AtOnce) {
            return false;
        }
        self.how = Some(how);
        self.ladder.clear();
        true
    }

    /// Sends commands their first signal.
    pub(crate) fn end(&mut self, now: Time, commands: &[u32], out: &mut Vec<StopEffect>) {
        let first = match self.how {
            // The failure of a task ends other tasks.
            None => Signal::Terminate,
            Some(StopHow::Gently) => self.settings.first,
            Some(StopHow::AtOnce) => Signal::Kill,
        };
        for command in commands {
            self.send(now, *command, first, out);
        }
    }

    /// Takes the steps that are due at `now`.
    pub(crate) fn take_due(&mut self, now: Time, out: &mut Vec<StopEffect>) {
        let due: Vec<_> = self.ladder.extract_if(.., |(due, ..)| *due <= now).collect();
        for (_, command, rung) in due {
            match rung {
                Rung::Send(signal) => self.send(now, command, signal, out),
                Rung::GiveUpNode => out.push(StopEffect::GiveUpNode { command }),
            }
        }
    }

    fn send(&mut self, now: Time, command: u32, signal: Signal, out: &mut Vec<StopEffect>) {
        out.push(StopEffect::Send { command, signal });
        let (after_ns, rung) = match signal.next() {
            Some(next) => (self.settings.grace_ns, Rung::Send(next)),
            // A node elsewhere whose file system hangs cannot even kill.
            None if self.is_stopping() => (UNRESPONSIVE_NODE_NS, Rung::GiveUpNode),
            None => return,
        };
        self.ladder.push((Time(now.0.saturating_add(after_ns)), command, rung));
    }
}
