//! The hub's loop: waits for the front, the agent, a signal or a deadline, lets `messages`, `outputs`
//! and `stopping` act, and writes: first the record, then what commands printed, then the front's messages.

use rakuda_cluster::NodeReport;
use rakuda_locate::Located;
use rakuda_proto::Text;
use rakuda_proto::front::{FrontMessage, HubMessage, StopHow};
use rakuda_proto::journal::RunOutcome;

use crate::HubError;
use crate::agents::Reports;
use crate::attempts::state::PendingCommand;
use crate::control::{Control, ControlQuestion, next_question};
use crate::guard::Ends;
use crate::hub::{Hub, RunEnding, sleep};
use crate::information::state::{Heard, next_heard};
use crate::reach::state::RoundAnswer;
use crate::rerun::state::Rerun;
use crate::staging::{Moved, next_moved};
use crate::streams::{NotJoined, next_not_joined};

/// Maximum time that messages to the front wait for others, ns.
const FLUSH_DELAY_NS: u64 = 2_000_000;
/// Interval between tries to write output whose reader does not read, ns.
const OUTPUT_RETRY_NS: u64 = 20_000_000;
/// Maximum number of reports that are handled before effects are let out: nodes may report without end.
const REPORTS_AT_ONCE: usize = 256;

/// What the loop waits for.
enum Arrival {
    /// SIGTERM.
    Terminate,
    /// Something is due.
    Deadline,
    /// A report of a node or its agent.
    Report(NodeReport),
    /// The front's link has something to read, or has failed.
    FrontReady(Result<(), HubError>),
    /// The front's process is gone.
    FrontEnded,
    /// Files were staged in or out, or could not be.
    Moved(Moved),
    /// Two hosts between which a stream leads could not be joined.
    NotJoined(NotJoined),
    /// The catalogue has answered.
    Located(Located),
    /// A round of questions about files in Gfarm is over.
    Reached(RoundAnswer),
    /// Digests that something waited for are known.
    Contents,
    /// This machine was sampled.
    Heard(Heard),
    /// A person has asked something.
    Asked(ControlQuestion),
}

impl Hub {
    pub(crate) async fn serve(
        &mut self,
        messages: &mut Vec<FrontMessage>,
        reports: &mut Reports,
        ends: &mut Ends,
    ) -> Result<RunEnding, HubError> {
        loop {
            self.drain();
            // A round that is over is noted when clocks are known after it, which takes a moment.
            // Nor is what had gone through streams that were closed before their end.
            let is_closing = self.streams.closing_due_ns().is_some();
            if self.goodbye && !self.sync.is_closing() && !is_closing {
                self.hide_progress();
                // Commands that nothing waits for any more must not outlive the run.
                let stopped = self.end_run(reports).await;
                self.tick();
                if self.front_failed {
                    self.print_summary();
                } else if !stopped && !self.any_failed && !self.output_lost {
                    self.print_farewell();
                }
                self.printer.flush_patiently().await;
                self.close_agents(stopped).await;
                let how = match self.any_failed || self.front_failed {
                    _ if stopped => RunOutcome::Stopped,
                    true => RunOutcome::Failed,
                    false => RunOutcome::Done,
                };
                if let Err(error) = self.note_end(how) {
                    self.warn(&format!("failed to {error}"));
                    self.link.flush();
                }
                return Ok(if stopped { RunEnding::Stopped } else { self.ending() });
            }
            if self.front_gone && !self.goodbye {
                return Ok(self.cut_off(reports).await);
            }
            let behind = self.output_retry_ns.is_some();
            let wait = self.next_deadline_ns().map(|deadline_ns| self.until(deadline_ns));
            let arrival = tokio::select! {
                // In this order: reports may come without end, and the first two are rare.
                biased;
                () = ends.come() => Arrival::Terminate,
                () = sleep(wait) => Arrival::Deadline,
                report = reports.recv(), if !behind => Arrival::Report(report),
                ready = self.link.ready() => Arrival::FrontReady(ready),
                // Its end of the link may be held by a process that it has forked.
                _ = self.guard.front_ended(), if !self.guard.has_told() => Arrival::FrontEnded,
                moved = next_moved(&mut self.staging) => Arrival::Moved(moved),
                told = next_not_joined(&mut self.streams) => Arrival::NotJoined(told),
                located = self.inputs.located() => Arrival::Located(located),
                reached = self.reach.answered() => Arrival::Reached(reached),
                () = some_content(self.rerun.as_ref()) => Arrival::Contents,
                heard = next_heard(&mut self.information) => Arrival::Heard(heard),
                question = next_question(&mut self.control) => Arrival::Asked(question),
            };
            self.tick();
            match arrival {
                Arrival::Terminate => {
                    self.note_stop("terminate");
                    return Ok(self.cut_off(reports).await);
                }
                Arrival::Deadline => self.on_deadline(),
                Arrival::Report(report) => self.on_report(report),
                Arrival::FrontReady(ready) => {
                    ready?;
                    let open = self.hear_front(messages)?;
                    if !open && !self.goodbye {
                        return Ok(if self.is_replaced() {
                            self.replaced(reports, ends).await
                        } else {
                            self.cut_off(reports).await
                        });
                    }
                }
                Arrival::FrontEnded => {
                    // What the front has said before.
                    self.hear_front(messages)?;
                    self.front_gone |= !self.goodbye;
                }
                Arrival::Moved(moved) => self.on_moved(moved),
                Arrival::NotJoined(told) => self.on_not_joined(told),
                Arrival::Located(located) => self.on_located(located),
                Arrival::Reached(reached) => self.on_reached(reached),
                Arrival::Contents => self.on_contents(),
                Arrival::Heard(heard) => self.on_heard(heard),
                Arrival::Asked((question, answer)) => {
                    // The client that has asked may be gone again.
                    let _ = answer.send(self.answer(&question));
                }
            }
            let at_once = if behind { 0 } else { REPORTS_AT_ONCE };
            for _ in 0..at_once {
                let Some(report) = reports.try_recv() else { break };
                // Effects come before the next report, which may be about just these.
                self.perform_all();
                self.tick();
                self.on_report(report);
            }
            // What follows from it is decided and noted now, however long that took.
            self.tick();
        }
    }

    /// When something is due next.
    fn next_deadline_ns(&self) -> Option<u64> {
        let behind = self.output_retry_ns.is_some();
        let deadlines = [
            self.group_losses.due_ns(),
            self.newcomers.due_ns(),
            self.run.due_ns(),
            self.sync.due_ns(),
            self.streams.closing_due_ns(),
            self.flush_due_ns,
            self.output_retry_ns,
            self.progress_due_ns().filter(|_| !behind),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handles what the front has sent; whether it may send more.
    fn hear_front(&mut self, messages: &mut Vec<FrontMessage>) -> Result<bool, HubError> {
        let open = self.link.receive(messages)?;
        for message in messages.drain(..) {
            self.perform_all();
            self.tick();
            self.on_message(message)?;
        }
        Ok(open)
    }

    /// Does all that the core wants, then lets the effects out: record, output, messages.
    fn drain(&mut self) {
        loop {
            self.perform_all();
            if !self.grant_leases() && !self.tell_suiting() {
                self.check_time_left();
                if self.outputs.is_empty() {
                    break;
                }
            }
        }
        self.check_rounds();
        self.write_record();
        self.pass_requests_on();
        self.forget_environments();
        self.open_control();
        self.write_invitation();
        self.tell_nothing_left();
        if self.run.wants_nodes() {
            self.agents.want_nodes();
        }
        self.show_progress();
        match self.printer.flush() {
            Ok(true) => self.set_output_behind(false),
            // What the front learns of an action must not overtake what its command wrote.
            Ok(false) => return self.set_output_behind(true),
            Err(error) => self.on_output_lost(error),
        }
        self.flush_link();
    }

    pub(crate) fn write_record(&mut self) {
        self.note_clock();
        if let Err(error) = self.record.flush() {
            self.record.disable(self.now.wall_ns());
            self.warn(&format!(
                "failed to {error}; going on without a record: if this run is cut off, what it makes from now on is made again"
            ));
        }
        for run in self.record.take_other_runs() {
            self.warn(&format!(
                "another run ({run}) is going on in this folder; targets that both make are not safe"
            ));
        }
    }

    /// Lets the agents do what is noted in the record.
    fn pass_requests_on(&mut self) {
        for (node, request) in self.requests.drain(..) {
            match node {
                Some(node) => self.agents.handle(node, request),
                None => self.agents.handle_all(&request),
            }
        }
    }

    /// Opens the socket for questions, as the run is in the record now. Without one it runs all the same.
    fn open_control(&mut self) {
        if !self.control_tried && self.record.folder_if_open().is_some() {
            self.control_tried = true;
            self.control = Control::open(&self.record.running_folder(), self.record.run()).ok();
        }
    }

    /// The reader of our stdout or stderr is too slow: commands are not read either, so that nothing piles up, and the
    /// front gets no messages until it has caught up.
    fn set_output_behind(&mut self, behind: bool) {
        if behind != self.output_retry_ns.is_some() {
            self.agents.pause_output(behind);
        }
        self.output_retry_ns = behind.then(|| self.now.time.0 + OUTPUT_RETRY_NS);
    }

    /// The reader is gone or the disk is full: as with rake, the run ends.
    fn on_output_lost(&mut self, error: rustix::io::Errno) {
        self.printer.discard();
        self.set_output_behind(false);
        if !std::mem::replace(&mut self.output_lost, true) {
            let reason = Text::from(std::io::Error::from(error).to_string());
            self.link.push(&HubMessage::OutputLost { reason });
            self.any_failed = true;
            self.stop(StopHow::Interrupt);
            self.perform_all();
            self.write_record();
            self.pass_requests_on();
        }
    }

    /// Forgets environments that the front has given up, once no command that waits needs one of them.
    fn forget_environments(&mut self) {
        let Some(below) = self.environments_below else { return };
        let needs = |pending: &PendingCommand| {
            pending.options.as_ref().is_some_and(|options| options.environment < below)
        };
        if !self.run.attempts().all().flat_map(|(_, attempt)| attempt.gated()).any(needs) {
            self.agents.forget_environments(below);
            self.environments_below = None;
        }
    }

    /// Sends what the front is to know; while every node has enough to go on with, not at once, so
    /// that the front wakes up seldom and handles many messages each time.
    fn flush_link(&mut self) {
        if !self.link.has_messages() || self.goodbye {
            self.flush_due_ns = None;
        } else if !self.flush_urgent && self.is_well_supplied() {
            let now_ns = self.now.time.0;
            let due_ns = *self.flush_due_ns.get_or_insert(now_ns + FLUSH_DELAY_NS);
            if now_ns < due_ns {
                return;
            }
        }
        self.flush_due_ns = None;
        self.flush_urgent = false;
        self.front_gone |= !self.link.flush();
    }

    /// Whether every node that takes tasks has enough to go on with.
    fn is_well_supplied(&self) -> bool {
        let up = self.agents.places().filter(|(id, _)| self.run.nodes().is_up(*id));
        up.into_iter().all(|(id, _)| self.run.attempts().is_well_supplied(id))
    }
}

/// Waits until something may go on that waits for contents; for ever if nothing does.
async fn some_content(rerun: Option<&Rerun>) {
    match rerun.filter(|rerun| rerun.is_waiting()) {
        Some(rerun) => rerun.some_content().await,
        None => std::future::pending().await,
    }
}
