//! Ending what runs: gently first, then not.
//!
//! One ladder of signals for each command that has to go: SIGINT (a user's Ctrl-C) or SIGTERM (a
//! failure with FAILURE_TERMINATION=kill), after a grace SIGTERM, after another SIGKILL.

use std::time::Duration;

use rakuda_agent::signals;
use rakuda_cluster::{NodeEvent, NodeReport};
use rakuda_core::{AttemptState, Event, Input, ReachInput, TaskId};
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::StopHow;
use rakuda_proto::journal::{Outcome, RunOutcome};

use crate::agents::Reports;
use crate::hub::{Hub, LOCAL_NODE, RunEnding};
use crate::notes::AttemptNote;
use crate::targets::TargetEnding;

/// How long commands have to end when the front was killed, ms.
const FRONT_LOST_GRACE_MS: u64 = 1000;
/// How long a node elsewhere has to tell of its commands' end after SIGKILL, ms.
const SILENT_NODE_MS: u64 = 3000;
/// After the last signal.
const GIVE_UP: i32 = -1;
/// How long agents elsewhere have to end, ms.
const CLOSING_MS: u64 = 2000;
/// How long an allocation may take to be given back, ms.
const RELEASING_MS: u64 = 10_000;
/// How often it is looked whether they have, ms.
const CLOSING_STEP_MS: u64 = 5;

/// Signals still to come, and whether the run as a whole is ending.
#[derive(Debug)]
pub(crate) struct Stopping {
    grace_ns: u64,
    how: Option<StopHow>,
    by_user: bool,
    /// When, whom, with what.
    ladder: Vec<(u64, CommandId, i32)>,
}

/// A run that is to end, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoppingView {
    /// The signal that comes next, and in how many ns, while a command does not end.
    pub next: Option<(&'static str, u64)>,
    /// Another Ctrl-C would kill at once.
    pub can_kill: bool,
}

impl Stopping {
    pub fn new(grace_ms: u64) -> Self {
        Self { grace_ns: grace_ms * 1_000_000, how: None, by_user: false, ladder: Vec::new() }
    }

    /// The user has asked to stop: nothing more starts.
    pub fn is_stopping(&self) -> bool {
        self.how.is_some()
    }

    /// Whether the user did, and not an error of the hub's own.
    pub fn by_user(&self) -> bool {
        self.by_user
    }

    /// When `on_deadline` is due.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.ladder.iter().map(|(deadline, ..)| *deadline).min()
    }

    /// What comes next when commands do not end: the signal's name and in how long; none: nothing
    /// was sent yet or the last one was.
    pub fn next_step(&self, now_ns: u64) -> Option<(&'static str, u64)> {
        let (deadline_ns, _, signal) = self.ladder.iter().min_by_key(|(deadline, ..)| *deadline)?;
        let name = if *signal == libc::SIGKILL { "SIGKILL" } else { "SIGTERM" };
        Some((name, deadline_ns.saturating_sub(now_ns)))
    }

    /// What the display and answers say about the end that is near; none: no one wants the run to end.
    pub fn view(&self, now_ns: u64) -> Option<StoppingView> {
        self.is_stopping().then(|| StoppingView {
            next: self.next_step(now_ns),
            can_kill: self.by_user && self.how != Some(StopHow::Kill),
        })
    }

    fn first_signal(&self) -> i32 {
        match self.how {
            None => libc::SIGTERM,
            // Commands of a run in a script's background ignore SIGINT, as the run itself does.
            Some(StopHow::Interrupt) if signals::is_ignored(libc::SIGINT) => libc::SIGTERM,
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
    pub(crate) fn stop_for_user(&mut self, how: StopHow) {
        self.stopping.by_user = true;
        self.stop(how);
    }

    /// The run is to end.
    pub(crate) fn stop(&mut self, how: StopHow) {
        if self.stopping.how == Some(StopHow::Kill) {
            return;
        }
        self.stopping.how = Some(how);
        self.note_stop(match how {
            StopHow::Interrupt => "interrupt",
            StopHow::Kill => "kill",
        });
        self.stopping.ladder.clear();
        self.flush_due_ns = None;
        self.progress.show_soon(self.now.time.0);
        self.tell(Input::Reach(ReachInput::StopRequested));
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
        // Those of a run that is stopped are told in one go.
        let signals = !self.stopping.is_stopping();
        self.tell(Input::Abort { id, signals });
    }

    /// Tells the commands of an attempt to end.
    pub(crate) fn signal_commands_of(&mut self, id: TaskId) {
        let own = self.commands.iter().filter(|(_, command)| command.task == Some(id));
        let commands: Vec<_> = own.map(|(command, _)| *command).collect();
        for command in commands {
            self.send_signal(command, self.stopping.first_signal());
        }
    }

    /// Sends a signal to a command's process group, once.
    pub(crate) fn signal(&mut self, command: CommandId, signal: i32) {
        // Also when the command itself is over: its process group may have more members.
        // Then every agent is told: its number is known to one at most.
        if let Some(running) = self.commands.get_mut(&command)
            && let Some(prepared) = &mut running.prepared
        {
            return prepared.signals.push(signal);
        }
        let node = self.commands.get(&command).map(|running| running.node);
        // After its start, which may not have been passed on yet.
        self.requests.push((node, AgentRequest::Signal { command, signal }));
    }

    /// Sends a signal, and the sterner ones after it when that does not help.
    fn send_signal(&mut self, command: CommandId, signal: i32) {
        self.signal(command, signal);
        if let Some(next) = next_signal(signal) {
            let deadline = self.now.time.0 + self.stopping.grace_ns;
            self.stopping.ladder.push((deadline, command, next));
        } else if self.stopping.is_stopping() {
            let deadline = self.now.time.0 + SILENT_NODE_MS * 1_000_000;
            self.stopping.ladder.push((deadline, command, GIVE_UP));
        }
    }

    /// A node elsewhere whose file system hangs cannot even kill: when the run is to end, it is waited for no longer.
    fn give_up_node_of(&mut self, command: CommandId) {
        let Some(node) = self.commands.get(&command).map(|running| running.node) else { return };
        if node != LOCAL_NODE
            && let Some(incarnation) = self.run.nodes().link(node)
        {
            self.agents.node(node).port.give_up();
            self.on_link_down(node, incarnation, "its commands do not end".to_owned(), false);
        }
    }

    /// Sends the signals that are due.
    pub(crate) fn on_deadline(&mut self) {
        if self.inputs.due_ns().is_some_and(|due_ns| due_ns <= self.now.time.0) {
            self.on_held_long();
        }
        self.let_idle_nodes_go();
        self.tell_due_losses();
        self.tell(Input::TimeCame);
        let now = self.now.time.0;
        let due = |(deadline, ..): &mut (u64, CommandId, i32)| *deadline <= now;
        let due: Vec<_> = self.stopping.ladder.extract_if(.., due).collect();
        for (_, command, signal) in due {
            if signal == GIVE_UP {
                self.give_up_node_of(command);
            } else {
                self.send_signal(command, signal);
            }
        }
    }

    /// The front has said goodbye. Whether the run was stopped, by the user or by what ended the
    /// front; then nothing may be left of it.
    pub(crate) async fn end_run(&mut self, reports: &mut Reports) -> bool {
        let stopped =
            self.stopping.is_stopping() || self.run.attempts().all_acting().next().is_some();
        self.end_attempts(reports).await;
        if stopped || self.stopping.next_deadline_ns().is_some() {
            // Groups whose leader was ended, but not all members.
            let mut left = self.agents.signal_all(libc::SIGTERM);
            for _ in 0..20 {
                if left == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(FRONT_LOST_GRACE_MS / 20)).await;
                left = self.agents.signal_all(0);
            }
            self.agents.signal_all(libc::SIGKILL);
        }
        stopped
    }

    /// The front is gone: ends all that runs, also what commands have left behind.
    pub(crate) async fn cut_off(&mut self, reports: &mut Reports) -> RunEnding {
        self.front_gone = true;
        self.hide_progress();
        // Where it cannot be written to, there is no display either.
        let _ = self.printer.flush();
        self.end_attempts(reports).await;
        self.agents.signal_all(libc::SIGKILL);
        self.close_agents(true).await;
        // Nobody is left who could be told that the record cannot be written.
        let _ = self.note_end(RunOutcome::Stopped);
        RunEnding::CutOff
    }

    /// Ends the commands that still run, within a second, and settles the targets of attempts
    /// that did not come to their end.
    pub(crate) async fn end_attempts(&mut self, reports: &mut Reports) {
        self.signal_commands(libc::SIGTERM);
        let killed_at = tokio::time::sleep(Duration::from_millis(FRONT_LOST_GRACE_MS));
        let silent_at =
            tokio::time::sleep(Duration::from_millis(FRONT_LOST_GRACE_MS + SILENT_NODE_MS));
        tokio::pin!(killed_at, silent_at);
        let (mut killed, mut gave_up) = (false, false);
        while self.agents.unreported() > 0 {
            tokio::select! {
                report = reports.recv() => self.note_last_report(report),
                () = &mut killed_at, if !killed => {
                    killed = true;
                    self.signal_commands(libc::SIGKILL);
                }
                () = &mut silent_at, if !gave_up => {
                    gave_up = true;
                    self.agents.give_up_silent();
                }
            }
        }
        while let Some(report) = reports.try_recv() {
            self.note_last_report(report);
        }
        self.tick();
        self.answer_for(None);
        self.tell(Input::Reach(ReachInput::RunEnded));
        for (id, attempt) in self.run.take_all(self.now) {
            if matches!(attempt.state(), AttemptState::Unwinding { .. }) {
                self.note_lost_attempt(id, &attempt);
                continue;
            }
            let mut settled = TargetEnding::Untouched;
            if self.names.is_path(id) && self.settings.record {
                settled = self.settle_attempt(id, &attempt);
                self.put_away_there(id, &attempt);
            }
            let (outcome, message) = (Outcome::Aborted, b"".as_slice());
            let note = AttemptNote { outcome, message, retried: false, after: None, settled };
            self.note_attempt_ended(id, &attempt, &note);
        }
        if self.settings.record {
            self.settle_gang_targets();
        }
    }

    /// The end of a command that nobody waits for any more.
    fn note_last_report(&mut self, report: NodeReport) {
        self.tick();
        self.agents.note(&report);
        if let NodeEvent::Agent(AgentEvent::CommandExited {
            command, status, error, usage, ..
        }) = report.event
        {
            let time_ns = self.now.journal_ns();
            self.record.command_ended(time_ns, command.0, status, error.as_ref(), &usage);
        }
    }

    /// Ends the agents elsewhere, and does not wait long for those that hang. Where nothing of the
    /// run may be left, or attempts did not end well, they first kill all that was started below
    /// them, and then put away what that has made of targets since.
    pub(crate) async fn close_agents(&mut self, nothing_left: bool) {
        if let Some(staging) = &mut self.staging {
            staging.end();
        }
        let mut steps = 0..CLOSING_MS / CLOSING_STEP_MS;
        if nothing_left || self.record.is_unsettled() {
            self.agents.end_all();
            while !self.agents.have_ended_all() && steps.next().is_some() {
                tokio::time::sleep(Duration::from_millis(CLOSING_STEP_MS)).await;
            }
            self.agents.give_up_unended();
            self.put_away_again();
        }
        self.agents.close();
        while !self.agents.are_closed() && steps.next().is_some() {
            tokio::time::sleep(Duration::from_millis(CLOSING_STEP_MS)).await;
        }
        if !self.agents.are_closed() {
            self.agents.give_up();
        }
        for _ in 0..RELEASING_MS / CLOSING_STEP_MS {
            if self.agents.is_source_closed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(CLOSING_STEP_MS)).await;
        }
        self.tick();
    }

    /// Ends what runs, at once: nothing waits for the record any more. What has not been started never is.
    fn signal_commands(&mut self, signal: i32) {
        self.requests.clear();
        for (command, running) in &self.commands {
            let request = AgentRequest::Signal { command: *command, signal };
            self.agents.handle(running.node, request);
        }
    }
}
