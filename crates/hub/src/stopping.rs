//! Ending what runs: gently first, then not.
//!
//! One ladder of signals for each command that has to go: SIGINT (a user's Ctrl-C) or SIGTERM (a
//! failure with FAILURE_TERMINATION=kill), after a grace SIGTERM, after another SIGKILL.

use rakuda_agent::clock;
use rakuda_core::{Event, TaskId};
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::{HubMessage, StopHow};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::hub::{Hub, LOCAL_NODE, RunEnding};

/// How long commands have to end when the front was killed, ms.
const FRONT_LOST_GRACE_MS: u64 = 1000;

/// Signals still to come, and whether the run as a whole is ending.
#[derive(Debug)]
pub(crate) struct Stopping {
    grace_ns: u64,
    how: Option<StopHow>,
    /// When, whom, with what.
    ladder: Vec<(u64, CommandId, i32)>,
}

impl Stopping {
    pub fn new(grace_ms: u64) -> Self {
        Self { grace_ns: grace_ms * 1_000_000, how: None, ladder: Vec::new() }
    }

    /// The user has asked to stop: nothing more starts.
    pub fn is_stopping(&self) -> bool {
        self.how.is_some()
    }

    /// When `on_deadline` is due.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.ladder.iter().map(|(deadline, ..)| *deadline).min()
    }

    fn first_signal(&self) -> i32 {
        match self.how {
            None => libc::SIGTERM,
            Some(StopHow::Interrupt) => libc::SIGINT,
            Some(StopHow::Kill) => libc::SIGKILL,
        }
    }
}

fn next_signal(signal: i32) -> Option<i32> {
    match signal {
        libc::SIGINT => Some(libc::SIGTERM),
        libc::SIGTERM => Some(libc::SIGKILL),
        _ => None,
    }
}

impl Hub {
    /// The user wants the run to end.
    pub(crate) fn stop(&mut self, how: StopHow) {
        if self.stopping.how == Some(StopHow::Kill) {
            return;
        }
        self.stopping.how = Some(how);
        self.stopping.ladder.clear();
        self.flush_due_ns = None;
        self.event(Event::StopRequested { kill: true });
        // Also commands that no action waits for, and those whose action is being aborted.
        let commands: Vec<_> = self.commands.keys().copied().collect();
        for command in commands {
            self.send_signal(command, self.stopping.first_signal());
        }
        if how == StopHow::Kill {
            self.agents.signal_all(libc::SIGKILL);
        }
    }

    /// The core wants this action to end early. Its commands go first.
    pub(crate) fn abort_action(&mut self, id: TaskId) {
        let Some(attempt) = self.running.get_mut(&id) else {
            return;
        };
        let running = attempt.commands > 0;
        attempt.abort_pending = running;
        for pending in std::mem::take(&mut attempt.held_back) {
            self.refuse_command(pending.command);
        }
        if !running {
            self.link.push(&HubMessage::AbortAction { task: id.0 });
            return;
        }
        if self.stopping.is_stopping() {
            return;
        }
        let own = self.commands.iter().filter(|(_, command)| command.task == Some(id));
        let commands: Vec<_> = own.map(|(command, _)| *command).collect();
        for command in commands {
            self.send_signal(command, self.stopping.first_signal());
        }
    }

    /// Sends a signal to a command's process group, once.
    pub(crate) fn signal(&self, command: CommandId, signal: i32) {
        // Also when the command itself is over: its process group may have more members.
        let running = self.commands.get(&command);
        let node = running.map_or(LOCAL_NODE, |running| running.node);
        self.agents.handle(node, AgentRequest::Signal { command, signal });
    }

    /// Sends a signal, and the sterner ones after it when that does not help.
    fn send_signal(&mut self, command: CommandId, signal: i32) {
        self.signal(command, signal);
        if let Some(next) = next_signal(signal) {
            let deadline = clock::monotonic_ns() + self.stopping.grace_ns;
            self.stopping.ladder.push((deadline, command, next));
        }
    }

    /// Sends the signals that are due.
    pub(crate) fn on_deadline(&mut self) {
        let now = clock::monotonic_ns();
        let due = |(deadline, ..): &mut (u64, CommandId, i32)| *deadline <= now;
        let due: Vec<_> = self.stopping.ladder.extract_if(.., due).collect();
        for (_, command, signal) in due {
            self.send_signal(command, signal);
        }
    }

    /// The front has said goodbye. Whether the user had stopped the run; then nothing may be left of it.
    pub(crate) async fn end_run(
        &mut self,
        agent_events: &mut UnboundedReceiver<AgentEvent>,
    ) -> bool {
        self.end_attempts(agent_events).await;
        let stopped = self.stopping.is_stopping();
        if stopped || self.stopping.next_deadline_ns().is_some() {
            // Groups whose leader was ended, but not all members.
            let mut left = self.agents.signal_all(libc::SIGTERM);
            for _ in 0..20 {
                if left == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(FRONT_LOST_GRACE_MS / 20))
                    .await;
                left = self.agents.signal_all(0);
            }
            self.agents.signal_all(libc::SIGKILL);
        }
        stopped
    }

    /// The front is gone: ends all that runs, also what commands have left behind.
    pub(crate) async fn cut_off(
        &mut self,
        agent_events: &mut UnboundedReceiver<AgentEvent>,
    ) -> RunEnding {
        self.end_attempts(agent_events).await;
        self.agents.signal_all(libc::SIGKILL);
        // Nobody is left who could be told that the record cannot be written.
        let _ = self.record.finish("cut_off");
        RunEnding::CutOff
    }

    /// Ends the commands that still run, within a second, and settles the targets of attempts
    /// that did not come to their end.
    pub(crate) async fn end_attempts(&mut self, agent_events: &mut UnboundedReceiver<AgentEvent>) {
        self.signal_commands(libc::SIGTERM);
        let killed_at = tokio::time::sleep(std::time::Duration::from_millis(FRONT_LOST_GRACE_MS));
        tokio::pin!(killed_at);
        let mut killed = false;
        while self.agents.unreported() > 0 {
            tokio::select! {
                _ = agent_events.recv() => {}
                () = &mut killed_at, if !killed => {
                    killed = true;
                    self.signal_commands(libc::SIGKILL);
                }
            }
        }
        for (id, attempt) in std::mem::take(&mut self.running) {
            if self.names.is_path(id) && self.settings.record {
                self.settle_attempt(id, &attempt);
            }
        }
    }

    fn signal_commands(&self, signal: i32) {
        for command in self.commands.keys() {
            self.signal(*command, signal);
        }
    }
}
