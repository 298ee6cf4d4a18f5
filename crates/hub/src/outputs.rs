//! What the core wants done, done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rakuda_core::{
    ActionOutcome, Devices, Event, FailurePolicy, InvocationId, NodeId, Output, Places, Settled,
    TaskId,
};
use rakuda_proto::front::{HubMessage, SettledHow};
use rakuda_proto::journal::InputBytes;

use crate::core_time::Now;
use crate::facts::{fact_of, identity_of};
use crate::failures::Tail;
use crate::hub::{Hub, RunningAttempt};
use crate::questions::Sight;
use crate::requirements::devices_by_name;

impl Hub {
    /// Does one thing that the core wants.
    pub(crate) fn perform(&mut self, output: Output) {
        match output {
            Output::GatherFact { id } => self.gather_fact(id),
            Output::AskNeeded { id } => self.link.push(&HubMessage::AskNeeded { task: id.0 }),
            Output::CompareRecord { id } => self.compare_record(id),
            Output::Resolve { id } => self.link.push(&HubMessage::Resolve { task: id.0 }),
            Output::StartAction { id, attempt, .. }
                if self.settings.config.dry_run && !self.own_way.contains(&id) =>
            {
                // Nobody is asked: nothing is done.
                let outcome = ActionOutcome::Succeeded;
                self.event(Event::ActionEnded { id, attempt, outcome, run_ns: None });
            }
            Output::StartAction { id, attempt, node, devices } => {
                if !self.unwindings.hold_start(id, (attempt, node, devices.clone())) {
                    self.start_action(id, attempt, node, &devices);
                }
            }
            Output::AbortAction { id } => self.abort_action(id),
            Output::AttemptFailed { id, attempt, retried } => {
                self.link.push(&HubMessage::AttemptFailed(id.0, attempt, retried));
                if !retried {
                    self.give_back_early_ones(id);
                }
            }
            Output::TaskBlamed { id, nodes } => self.tell_blamed(id, &nodes),
            Output::NodeSetAside { id, failures } => self.set_aside(id, failures),
            Output::NodeTakenBack { id } => self.take_back_node(id),
            Output::NowhereToRun { requirement } => self.tell_nowhere(requirement),
            Output::AttemptLost { id, attempt, rerun, .. } => {
                self.unwindings.on_attempt_lost(id, attempt, rerun);
            }
            Output::TaskReopened { id } => self.note_reopened(id),
            Output::InputLost { id } => {
                self.note_input_lost(id);
                self.await_input(id);
            }
            // A file without a name is never there.
            Output::TargetMissing { id } if self.names.name(id).is_empty() => {}
            Output::TargetMissing { id } => {
                self.link.push(&HubMessage::TargetMissing { task: id.0 });
            }
            Output::TaskSettled { id, how } => {
                self.note_settled(id, how);
                if how.is_well() {
                    self.on_settled_elsewhere(id);
                }
                let attempts = self.scheduler.task(id).map_or(0, |task| task.attempt);
                let aborted = self.failures.is_aborted(id);
                self.progress.on_settled(id, how, attempts > 0, aborted);
                if how == Settled::Failed {
                    self.tell_failure(id);
                }
                let how = match how {
                    Settled::Executed => SettledHow::Executed,
                    Settled::NotNeeded => SettledHow::NotNeeded,
                    Settled::Failed => SettledHow::Failed,
                    Settled::Abandoned => SettledHow::Abandoned,
                };
                if self.settings.trace {
                    self.link.push(&HubMessage::TaskSettled(id.0, how));
                }
            }
            ending @ Output::InvocationEnded { .. } => {
                let ending = self.unwindings.hold_ending(ending);
                let ending = ending.and_then(|ending| self.hold_for_comings(ending));
                if let Some(Output::InvocationEnded { id, failed, abandoned }) = ending {
                    self.end_invocation(id, failed, abandoned);
                }
            }
        }
    }

    fn end_invocation(
        &mut self,
        id: InvocationId,
        mut failed: Vec<TaskId>,
        abandoned: Vec<TaskId>,
    ) {
        if self.settings.config.dry_run && !self.callers.contains_key(&id) {
            self.plan_turns.push(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        }
        self.tell_losses();
        failed.extend(self.take_not_brought());
        self.resume_caller(id);
        self.note_invocation_ended(id, &failed, &abandoned);
        self.tell_without_record();
        self.any_failed |= !failed.is_empty() || !abandoned.is_empty();
        let numbers = |tasks: Vec<TaskId>| tasks.into_iter().map(|id| id.0).collect();
        self.link.push(&HubMessage::InvocationEnded(id.0, numbers(failed), numbers(abandoned)));
    }

    fn gather_fact(&mut self, id: TaskId) {
        let name = self.names.name(id);
        let just_seen = self.just_seen.take().filter(|(seen, _)| *seen == id);
        let identity = match just_seen {
            _ if self.is_unfinished(name) => None,
            None if self.lacks_companions_here(id) && self.known_elsewhere(id).is_none() => None,
            Some((_, identity)) => identity,
            None => {
                let known = self.known_elsewhere(id);
                known.or_else(|| identity_of(Path::new(OsStr::from_bytes(name))))
            }
        };
        if just_seen.is_none() {
            self.note_here(id, identity);
        }
        let lost = self.reach.is_lost(id);
        let places = if lost { Places::Nowhere } else { self.places_of(id) };
        self.event(Event::FactGathered { id, fact: fact_of(identity, places) });
    }

    /// Cores of a node that a task's action keeps busy there.
    pub(crate) fn cores_on(&self, id: TaskId, node: NodeId) -> u32 {
        let cores = self.requirement_cores[self.requirement_of[id.0 as usize] as usize];
        cores.min(self.agents.node(node).capacity.cores)
    }

    /// The action of `caller` waits for an invocation: others may use its cores.
    pub(crate) fn suspend_caller(&mut self, invocation: InvocationId, caller: TaskId) {
        if let Some(attempt) = self.running.get_mut(&caller) {
            attempt.suspended += 1;
            self.callers.insert(invocation, caller);
            let leases = &mut self.leases[attempt.node.0 as usize];
            attempt.held.extend(leases.end(caller, false, Now::read()));
            // Its other threads do not wait for a core that it has given up.
            attempt.in_line = false;
            if std::mem::take(&mut attempt.lease_wanted) {
                self.link.push(&HubMessage::Leased { task: caller.0 });
            }
            for pending in std::mem::take(&mut attempt.held_back) {
                self.start_pending(Some(caller), pending);
            }
        }
    }

    /// A task has failed for good: where nothing more of its invocation may start, actions that were only begun
    /// early, and have had no core yet, are taken back.
    fn give_back_early_ones(&mut self, failed: TaskId) {
        if self.settings.config.failure == FailurePolicy::Continue {
            return;
        }
        let owner = |hub: &Self, id| hub.scheduler.task(id).and_then(|task| task.invocation);
        let of_failed = owner(self, failed);
        let is_early = |(id, attempt): &(&TaskId, &RunningAttempt)| {
            !attempt.had_lease && attempt.suspended == 0 && owner(self, **id) == of_failed
        };
        let early: Vec<TaskId> = self.running.iter().filter(is_early).map(|(id, _)| *id).collect();
        for id in early {
            if let Some(attempt) = self.running.get_mut(&id) {
                attempt.given_back = true;
            }
            self.abort_action(id);
        }
    }

    fn resume_caller(&mut self, invocation: InvocationId) {
        let Some(caller) = self.callers.remove(&invocation) else {
            return;
        };
        let Some(node) = self.running.get(&caller).map(|attempt| attempt.node) else { return };
        let cores = self.cores_on(caller, node);
        if let Some(attempt) = self.running.get_mut(&caller) {
            attempt.suspended -= 1;
            if attempt.suspended > 0 {
                return;
            }
            let leases = &mut self.leases[attempt.node.0 as usize];
            leases.take_back(caller, cores, Now::read());
        }
    }

    /// Hands free leases to actions that wait for one; whether the core was told something.
    pub(crate) fn grant_leases(&mut self) -> bool {
        let now = Now::read();
        let mut told = false;
        for index in 0..self.leases.len() {
            while let Some(id) = self.leases[index].grant(now) {
                let Some(attempt) = self.running.get_mut(&id) else {
                    self.leases[index].end(id, false, now);
                    continue;
                };
                if std::mem::take(&mut attempt.lease_wanted) {
                    self.link.push(&HubMessage::Leased { task: id.0 });
                }
                attempt.in_line = false;
                attempt.had_lease = true;
                for pending in std::mem::take(&mut attempt.held_back) {
                    self.start_pending(Some(id), pending);
                }
            }
            if let Some(actions) = self.leases[index].new_lookahead() {
                let id = NodeId(u32::try_from(index).expect("few nodes"));
                self.event(Event::LookaheadSet { id, actions });
                told = true;
            }
        }
        told
    }

    pub(crate) fn start_action(
        &mut self,
        id: TaskId,
        attempt: u32,
        node: NodeId,
        devices: &Devices,
    ) {
        let is_path = self.names.is_path(id);
        let name = OsStr::from_bytes(self.names.name(id));
        let target = if is_path { self.directory_now().join(name) } else { PathBuf::new() };
        let is_free = self.make_room_for(id, &target);
        let before = if is_path && !is_free { identity_of(&target) } else { None };
        self.look_at_inputs(id);
        let cores = self.cores_on(id, node);
        let now = Now::read();
        let leased = self.leases[node.0 as usize].begin(id, cores, now);
        let running = RunningAttempt {
            ran: false,
            attempt,
            started_ns: now.monotonic_ns,
            began_ns: now.wall_ns,
            held: Vec::new(),
            tail: Tail::default(),
            failed_command: None,
            node,
            target,
            before,
            commands: 0,
            held_back: Vec::new(),
            lease_wanted: false,
            in_line: false,
            had_lease: leased,
            suspended: 0,
            given_back: false,
            aborted: false,
            abort_pending: false,
            inputs: InputBytes::default(),
            sight: Sight::Clear,
            began_there_ns: None,
        };
        self.note_attempt(id, &running);
        self.running.insert(id, running);
        self.ask_about_inputs(id);
        let devices = devices_by_name(devices, &self.settings.resources);
        let node = self.agents.node(node).name.clone();
        self.link.push(&HubMessage::RunAction(id.0, attempt, node, devices, leased));
    }
}
