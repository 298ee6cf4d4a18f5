//! Ending what runs, as the core decides it: signals, process groups, agents.
//!
//! `rakuda_core::Stopping` decides what comes when, and at the end of a run `rakuda_core::Shutdown`.

use rakuda_agent::{processes, signals, trees};
use rakuda_cluster::LOCAL_NODE;
use rakuda_cluster::{NodeEvent, NodeReport};
use rakuda_core::{
    AttemptState, Input, ReachInput, Shutdown, ShutdownStep, Signal, StopEffect,
    StopHow as CoreStopHow, StopSettings, Stopping, TaskId, Wait,
};
use rakuda_proto::agent::{AgentEvent, AgentRequest, CommandId};
use rakuda_proto::front::StopHow;
use rakuda_proto::journal::{Outcome, RunOutcome};

use crate::agents::Reports;
use crate::hub::{Hub, RunEnding, sleep};
use crate::notes::AttemptNote;
use crate::settings::RunSettings;
use crate::targets::TargetEnding;

/// A run that is to end, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoppingView {
    /// The signal that comes next, and in how many ns, while a command does not end.
    pub next: Option<(&'static str, u64)>,
    /// Another Ctrl-C would kill at once.
    pub can_kill: bool,
}

impl StoppingView {
    /// What the display and answers say about the end that is near; `None` if the run is not to end.
    pub fn of(stopping: &Stopping, now_ns: u64) -> Option<Self> {
        let next = |(due, signal): (rakuda_core::Time, Signal)| {
            (name_of(signal), due.0.saturating_sub(now_ns))
        };
        stopping
            .is_stopping()
            .then(|| Self { next: stopping.next_signal().map(next), can_kill: stopping.can_kill() })
    }
}

/// How a run ends its commands.
pub(crate) fn stop_settings(settings: &RunSettings) -> StopSettings {
    // Commands of a run in a script's background ignore SIGINT, as the run itself does.
    let ignored = signals::is_ignored(libc::SIGINT);
    let first = if ignored { Signal::Terminate } else { Signal::Interrupt };
    StopSettings { grace_ns: settings.grace_ms * 1_000_000, first }
}

fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Interrupt => "SIGINT",
        Signal::Terminate => "SIGTERM",
        Signal::Kill => "SIGKILL",
    }
}

fn number_of(signal: Signal) -> i32 {
    match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    }
}

impl Hub {
    /// The user wants the run to end.
    pub(crate) fn stop_for_user(&mut self, how: StopHow) {
        self.tell_stop(how, true);
    }

    /// The run is to end.
    pub(crate) fn stop(&mut self, how: StopHow) {
        self.tell_stop(how, false);
    }

    fn tell_stop(&mut self, how: StopHow, by_user: bool) {
        let how = match how {
            StopHow::Interrupt => CoreStopHow::Gently,
            StopHow::Kill => CoreStopHow::AtOnce,
        };
        // Also commands that no action waits for, and those whose action is being aborted.
        let commands: Vec<u32> = self.commands.keys().map(|command| command.0).collect();
        self.tell(Input::Stop { how, by_user, commands: &commands });
    }

    pub(crate) fn perform_for_stop(&mut self, effect: StopEffect) {
        match effect {
            StopEffect::Begin { how } => {
                self.note_stop(match how {
                    CoreStopHow::Gently => "interrupt",
                    CoreStopHow::AtOnce => "kill",
                });
                self.flush_due_ns = None;
                self.progress.show_soon(self.now.time.0);
            }
            StopEffect::Send { command, signal } => {
                self.signal(CommandId(command), number_of(signal));
            }
            StopEffect::KillAll => {
                self.agents.signal_all(libc::SIGKILL);
            }
            StopEffect::GiveUpNode { command } => self.give_up_node_of(CommandId(command)),
        }
    }

    /// Ends an action early, as the core wants. Its commands go first.
    pub(crate) fn abort_action(&mut self, id: TaskId) {
        self.tell(Input::Abort { id });
    }

    /// Signals the commands of an attempt that is to end.
    pub(crate) fn signal_commands_of(&mut self, id: TaskId) {
        let own = self.commands.iter().filter(|(_, command)| command.task == Some(id));
        let commands: Vec<u32> = own.map(|(command, _)| command.0).collect();
        self.tell(Input::CommandsToEnd { commands: &commands });
    }

    /// Sends a signal to a command's process group, once.
    pub(crate) fn signal(&mut self, command: CommandId, signal: i32) {
        // Also when the command itself is over: its process group may have more members. Then every agent gets the
        // signal: only one, at most, knows the command's number.
        if let Some(running) = self.commands.get_mut(&command)
            && let Some(prepared) = &mut running.prepared
        {
            return prepared.signals.push(signal);
        }
        let node = self.commands.get(&command).map(|running| running.node);
        // After its start, which may not have been passed on yet.
        self.requests.push((node, AgentRequest::Signal { command, signal }));
    }

    /// A node elsewhere whose file system hangs cannot even kill: when the run is to end, it waits for that node no
    /// longer.
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
        self.note_interrupted(false);
        self.let_idle_nodes_go();
        self.tell_due_losses();
        self.tell(Input::TimeCame);
    }

    /// The front has said goodbye. Whether the run was stopped, by the user or by what ended the
    /// front; then nothing may be left of it.
    pub(crate) async fn end_run(&mut self, reports: &mut Reports) -> bool {
        let stopped =
            self.run.stopping().is_stopping() || self.run.attempts().all_acting().next().is_some();
        self.end_attempts(reports).await;
        if stopped || self.run.stopping().due().is_some() {
            self.shut_down(Shutdown::of_groups(self.now.time), None).await;
        }
        stopped
    }

    /// The front is gone: ends all that runs, also what commands have left behind.
    pub(crate) async fn cut_off(&mut self, reports: &mut Reports) -> RunEnding {
        self.front_gone = true;
        self.hide_progress();
        // If it cannot be written to, there is no display either.
        let _ = self.printer.flush();
        self.end_attempts(reports).await;
        self.agents.signal_all(libc::SIGKILL);
        self.close_agents(true).await;
        self.end_what_is_left();
        // No front is left to learn that the record cannot be written.
        let _ = self.note_end(RunOutcome::Stopped);
        RunEnding::CutOff
    }

    /// What commands have left stands below this process. Whether its guard will live to end that cannot be known: one
    /// that was killed stays this process's parent until it has let go of its memory and its files. Without a guard
    /// also what Ruby had started ends, by the mark. The next run waits for the mark of this one, which is free when
    /// the record is closed, and would kill this process then.
    fn end_what_is_left(&self) {
        if self.guard.was_above() {
            trees::kill_all_below(&[]);
        }
        if self.guard.is_gone()
            && let Some(mark) = processes::own_mark()
        {
            processes::kill_marked(&mark, self.front.as_slice());
        }
    }

    /// Ends the commands that still run, within a second, and settles the targets of attempts
    /// that did not come to their end.
    pub(crate) async fn end_attempts(&mut self, reports: &mut Reports) {
        self.shut_down(Shutdown::of_commands(self.now.time), Some(&mut *reports)).await;
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

    /// Notes the end of a command that nothing waits for any more.
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
        let nothing_left = nothing_left || self.record.is_unsettled();
        self.shut_down(Shutdown::of_agents(self.now.time, nothing_left), None).await;
    }

    /// Takes the last steps of a run as they become due. Handles reports as long as `reports` are given.
    async fn shut_down(&mut self, mut shutdown: Shutdown, mut reports: Option<&mut Reports>) {
        loop {
            self.tick();
            let has_come = self.has_come(shutdown.waits());
            let mut steps = Vec::new();
            let is_over = shutdown.step(self.now.time, has_come, &mut steps);
            for step in steps {
                self.perform_step(step);
            }
            if is_over {
                return;
            }
            let wait = shutdown.due().map(|due| self.until(due.0));
            let report = async {
                match &mut reports {
                    Some(reports) => reports.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = report => self.note_last_report(report),
                () = sleep(wait) => {}
            }
        }
    }

    fn has_come(&self, what: Wait) -> bool {
        match what {
            Wait::Reports => self.agents.unreported() == 0,
            Wait::Groups => self.agents.signal_all(0) == 0,
            Wait::Below => self.agents.have_ended_all(),
            Wait::Agents => self.agents.are_closed(),
            Wait::Release => self.agents.is_source_closed(),
        }
    }

    fn perform_step(&mut self, step: ShutdownStep) {
        match step {
            ShutdownStep::SignalCommands(signal) => self.signal_commands(number_of(signal)),
            ShutdownStep::GiveUpUnresponsive => self.agents.give_up_unresponsive(),
            ShutdownStep::SignalGroups(signal) => {
                self.agents.signal_all(number_of(signal));
            }
            ShutdownStep::EndBelow => self.agents.end_all(),
            ShutdownStep::GiveUpUnended => {
                self.agents.give_up_unended();
                self.put_away_again();
            }
            ShutdownStep::Close => self.agents.close(),
            ShutdownStep::GiveUp => self.agents.give_up(),
        }
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
