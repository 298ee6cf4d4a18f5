//! Ending what runs: gently first, then not.
//!
//! [`Stopping`] has one ladder of signals for each command that has to go, [`Shutdown`] the steps in
//! which the last of a run are ended. Both decide what comes when; who is told, and how, is the
//! shell's business. The table of both is in `docs/design/stopping.md`.

mod shutdown;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use shutdown::{Shutdown, ShutdownStep, Wait};

use crate::time::Time;

/// What a command is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// As the user's Ctrl-C.
    Interrupt,
    /// To end.
    Terminate,
    /// It is ended.
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

/// By what a run ends its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSettings {
    /// Timeout for the end of a command after a signal, ns.
    pub grace_ns: u64,
    /// What commands of a run are told first that is to end gently. Where they ignore `Interrupt`, `Terminate`.
    pub first: Signal,
}

/// Timeout for the report of a command's end after SIGKILL, ns.
pub(super) const SILENT_NODE_NS: u64 = 3_000_000_000;

/// What the shell is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEffect {
    /// The run is to end from now on. To be noted before anything is told to end.
    Begin {
        /// How.
        how: StopHow,
    },
    /// A command is told something, with its process group.
    Send {
        /// Which, by the shell's number.
        command: u32,
        /// What.
        signal: Signal,
    },
    /// All that runs is ended, whoever has started it.
    KillAll,
    /// The node of a command does not even kill: it is waited for no longer.
    GiveUpNode {
        /// Of which command.
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
    /// In the order in which commands were told.
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

    /// When commands are told something next.
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

    /// The run is to end; whether that says something new. What the commands are told follows with [`Self::end`].
    pub(crate) fn begin(&mut self, how: StopHow, by_user: bool) -> bool {
        self.by_user |= by_user;
        if self.how == Some(StopHow::AtOnce) {
            return false;
        }
        self.how = Some(how);
        self.ladder.clear();
        true
    }

    /// Commands are to end.
    pub(crate) fn end(&mut self, now: Time, commands: &[u32], out: &mut Vec<StopEffect>) {
        let first = match self.how {
            // The failure of a task ends others.
            None => Signal::Terminate,
            Some(StopHow::Gently) => self.settings.first,
            Some(StopHow::AtOnce) => Signal::Kill,
        };
        for command in commands {
            self.send(now, *command, first, out);
        }
    }

    /// Some time has passed.
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
            None if self.is_stopping() => (SILENT_NODE_NS, Rung::GiveUpNode),
            None => return,
        };
        self.ladder.push((Time(now.0.saturating_add(after_ns)), command, rung));
    }
}
