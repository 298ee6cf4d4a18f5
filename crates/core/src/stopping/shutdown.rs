//! The last steps of a run, of which no part may be left.
//!
//! Each has its own timeout, after which the next one begins whatever has come of it. The shell asks for the next step
//! whenever the event it waits for may have come, and at [`Shutdown::due`].

use alloc::vec::Vec;

use super::{Signal, UNRESPONSIVE_NODE_NS};
use crate::time::Time;

/// Timeout for the end of commands after SIGTERM, ns: nothing depends on what they do.
const COMMANDS_NS: u64 = 1_000_000_000;
/// Interval between looks whether process groups have ended, ns.
const GROUPS_STEP_NS: u64 = COMMANDS_NS / 20;
/// Timeout for the end of agents elsewhere, with all that was started below them, ns.
const AGENTS_NS: u64 = 2_000_000_000;
/// Timeout for the release of what nodes were taken from, such as an allocation, ns.
const RELEASE_NS: u64 = 10_000_000_000;
/// Interval between looks whether agents have ended, ns.
const AGENTS_STEP_NS: u64 = 5_000_000;

/// The event that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The end of each command is reported.
    Reports,
    /// No process group is left.
    Groups,
    /// The agents have ended what was ever started below them.
    Below,
    /// The agents have ended.
    Agents,
    /// What nodes were taken from is given back.
    Release,
}

/// What the shell is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownStep {
    /// Send this signal to each command that runs.
    SignalCommands(Signal),
    /// Wait no longer for agents that still owe the end of a command.
    GiveUpUnresponsive,
    /// Send this signal to each process group.
    SignalGroups(Signal),
    /// Agents elsewhere end all that was ever started below them.
    EndBelow,
    /// Wait no longer for agents that have not, and put away what was written meanwhile.
    GiveUpUnended,
    /// Agents elsewhere end.
    Close,
    /// Wait no longer for them.
    GiveUp,
}

/// The steps in which the commands, process groups or agents of a run are ended.
#[derive(Debug)]
pub struct Shutdown {
    waits: Wait,
    /// The first step; `None` once it is done.
    first: Option<ShutdownStep>,
    /// When the shell looks again, if no report comes.
    look: Option<Time>,
    /// Time between two looks, ns.
    step_ns: u64,
    /// When the shell waits no longer.
    until: Option<Time>,
    /// SIGKILL was sent.
    killed: bool,
    /// Until when agents have time.
    agents_until: Time,
}

impl Shutdown {
    /// The steps that end commands that still run.
    pub fn of_commands(now: Time) -> Self {
        let first = ShutdownStep::SignalCommands(Signal::Terminate);
        Self::new(now, Wait::Reports, first, 0, COMMANDS_NS)
    }

    /// The steps that end process groups whose leaders have ended, but not all members.
    pub fn of_groups(now: Time) -> Self {
        let first = ShutdownStep::SignalGroups(Signal::Terminate);
        Self::new(now, Wait::Groups, first, GROUPS_STEP_NS, COMMANDS_NS)
    }

    /// The steps that end the agents elsewhere. `nothing_left`: they first end all that was started below them.
    pub fn of_agents(now: Time, nothing_left: bool) -> Self {
        let (waits, first) = if nothing_left {
            (Wait::Below, ShutdownStep::EndBelow)
        } else {
            (Wait::Agents, ShutdownStep::Close)
        };
        Self::new(now, waits, first, AGENTS_STEP_NS, AGENTS_NS)
    }

    fn new(now: Time, waits: Wait, first: ShutdownStep, step_ns: u64, limit_ns: u64) -> Self {
        let until = Time(now.0 + limit_ns);
        Self {
            waits,
            first: Some(first),
            look: None,
            step_ns,
            until: Some(until),
            killed: false,
            agents_until: until,
        }
    }

    /// The event that the current step waits for.
    pub fn waits(&self) -> Wait {
        self.waits
    }

    /// When the next step is due, unless the event comes before.
    pub fn due(&self) -> Option<Time> {
        self.look.into_iter().chain(self.until).min()
    }

    /// Takes the next step if it is due; whether this is over. `has_come`: the event it waits for has come.
    pub fn step(&mut self, now: Time, has_come: bool, out: &mut Vec<ShutdownStep>) -> bool {
        if let Some(first) = self.first.take() {
            out.push(first);
            // That alone may have been enough.
            self.look = Some(now);
            return false;
        }
        self.look = (self.step_ns > 0).then(|| Time(now.0 + self.step_ns));
        let is_late = self.until.is_some_and(|until| until <= now);
        if !has_come && !is_late {
            return false;
        }
        match self.waits {
            Wait::Reports if has_come => true,
            Wait::Reports if !self.killed => {
                self.killed = true;
                self.until = Some(Time(now.0 + UNRESPONSIVE_NODE_NS));
                out.push(ShutdownStep::SignalCommands(Signal::Kill));
                false
            }
            Wait::Reports => {
                // Then all ends that are owed are reported as lost.
                self.until = None;
                out.push(ShutdownStep::GiveUpUnresponsive);
                false
            }
            Wait::Groups => {
                out.push(ShutdownStep::SignalGroups(Signal::Kill));
                true
            }
            Wait::Below => {
                out.extend([ShutdownStep::GiveUpUnended, ShutdownStep::Close]);
                self.wait_for(Wait::Agents, self.agents_until, now)
            }
            Wait::Agents => {
                if !has_come {
                    out.push(ShutdownStep::GiveUp);
                }
                self.wait_for(Wait::Release, Time(now.0 + RELEASE_NS), now)
            }
            Wait::Release => true,
        }
    }

    fn wait_for(&mut self, waits: Wait, until: Time, now: Time) -> bool {
        self.waits = waits;
        self.until = Some(until);
        self.look = Some(now);
        false
    }
}
