//! Performs what the core wants done.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rakuda_core::{
    ActionOutcome, Event, Input, InvocationId, NextAttempt, NodeId, Output, Places, ReachInput,
    Settled, TaskId,
};
use rakuda_proto::front::{HubMessage, SettledHow};
use rakuda_proto::journal::FileIdentity;

use crate::attempts::state::AttemptDetails;
use crate::facts::{self, fact_of, identity_of};
use crate::fresh_looks::Look;
use crate::hub::Hub;
use crate::progress::state::Ending;
use crate::requirements::devices_by_name;

impl Hub {
    /// Does all that the core wants.
    pub(crate) fn perform_all(&mut self) {
        loop {
            while let Some(output) = self.outputs.pop_front() {
                self.perform(output);
                self.look_at_many();
            }
            self.begin_turns();
            if self.outputs.is_empty() {
                return;
            }
        }
    }

    /// Looks at many files together that the core wants to know next, so that many of those that are missing cost no
    /// call each.
    fn look_at_many(&mut self) {
        let wanted = |output: &Output| match output {
            Output::GatherFact { id } => Some(*id),
            _ => None,
        };
        let is_wanted = |output: Option<&Output>| output.and_then(wanted).is_some();
        // Most outputs are of other kinds, and files are mostly asked for one by one.
        if self.staging.is_some() || !is_wanted(self.outputs.get(facts::LISTED_FROM - 1)) {
            return;
        }
        let ids: Vec<TaskId> = self.outputs.iter().map_while(wanted).collect();
        if ids.len() < facts::LISTED_FROM {
            return;
        }
        self.outputs.drain(..ids.len());
        let found = facts::identities(&self.names, &ids, &self.directory_now());
        let found: BTreeMap<TaskId, Option<FileIdentity>> = found.into_iter().collect();
        for id in ids {
            let seen = found.get(&id).copied().map(Look);
            self.gather_fact(id, seen);
        }
    }

    /// Does one thing that the core wants.
    fn perform(&mut self, output: Output) {
        match output {
            Output::GatherFact { id } => self.gather_fact(id, None),
            Output::AskNeeded { id } => self.link.push(&HubMessage::AskNeeded { task: id.0 }),
            Output::CompareRecord { id } => self.compare_record(id),
            Output::Resolve { id } => self.link.push(&HubMessage::Resolve { task: id.0 }),
            Output::StartAction { id, attempt, .. }
                if self.settings.config.dry_run && !self.own_way.contains(&id) =>
            {
                // Nothing is done, and the front is not asked.
                let outcome = ActionOutcome::Succeeded;
                self.event(Event::ActionEnded { id, attempt, outcome, run_ns: None });
            }
            // Its node may have gone since it was placed.
            Output::StartAction { id, attempt, .. } if !self.run.is_wanted(id, attempt) => {}
            Output::StartAction { id, attempt: number, node, devices } => {
                // A task that waits for its turn has nothing of its node yet.
                if !self.streams.runs_by_turns(id) {
                    self.note_claim(id, node);
                }
                let start = NextAttempt { number, node, devices };
                if !self.defer_for_streams(id, &start) {
                    self.start_action(id, &start);
                }
            }
            // Its node may have gone meanwhile.
            Output::TurnTaken { id, attempt, .. } if !self.run.is_wanted(id, attempt) => {}
            Output::TurnTaken { id, devices, .. } => self.on_turn_taken(id, devices),
            Output::GangStarted { id, oversubscribed } => self.note_gang(id, oversubscribed),
            Output::GangRefused { id, slots, slots_there } => {
                self.refuse_gang(id, slots, slots_there);
            }
            Output::GangEntangled { task, on, .. } => self.tell_entangled(task, on),
            Output::AbortAction { id } => {
                if !self.drop_deferred(id) {
                    self.abort_action(id);
                }
            }
            Output::AttemptFailed { id, attempt, retried } => {
                self.link.push(&HubMessage::AttemptFailed(id.0, attempt, retried));
                if !retried {
                    self.tell(Input::TaskGivenUp { id });
                }
            }
            // The run waits for the next attempt, and for nodes.
            Output::RetryDelayed { .. } | Output::GangTooLarge { .. } => {}
            Output::TaskBlamed { id, nodes } => self.tell_blamed(id, &nodes),
            Output::NodeDrained { id, failures } => self.drain_node(id, failures),
            Output::NodeTakenBack { id } => self.take_back_node(id),
            Output::NowhereToRun { requirement } => self.tell_nowhere(requirement),
            Output::AttemptLost { id, .. } => {
                self.choosing.on_ended(id);
                self.on_stream_member_lost(id);
            }
            Output::TaskReopened { id } => self.note_reopened(id),
            Output::InputLost { id } => {
                self.note_input_lost(id);
                self.tell(Input::Reach(ReachInput::InputAwaited { id }));
            }
            // A file without a name is never there.
            Output::TargetMissing { id } if self.names.name(id).is_empty() => {}
            Output::TargetMissing { id } => {
                self.link.push(&HubMessage::TargetMissing { task: id.0 });
            }
            Output::TaskSettled { id, how } => {
                self.note_settled(id, how);
                self.settle_gang_target(id, how.is_well());
                if how.is_well() {
                    self.on_settled_elsewhere(id);
                }
                let task = self.run.scheduler().task(id);
                let ending = Ending {
                    settled: how,
                    has_action: task.is_some_and(|task| task.has_action),
                    acted: self.has_run(id),
                    aborted: self.failures.is_aborted(id),
                };
                self.progress.on_settled(id, self.record.rule_of(id), ending);
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
                // An action that has waited for it has its cores again.
                self.touch_all();
                if let Some(Output::InvocationEnded { id, failed, abandoned }) =
                    self.hold_for_stage_out(ending)
                {
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
        if self.settings.config.dry_run && !self.run.attempts().is_called(id) {
            self.plan_barriers.push(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        }
        self.tell_losses();
        failed.extend(self.take_not_staged_out());
        self.tell(Input::InvocationOver { id });
        self.progress.note_invocation_ended(self.now.time.0);
        self.note_invocation_ended(id, &failed, &abandoned);
        self.tell_without_record();
        self.any_failed |= !failed.is_empty() || !abandoned.is_empty();
        let numbers = |tasks: Vec<TaskId>| tasks.into_iter().map(|id| id.0).collect();
        self.link.push(&HubMessage::InvocationEnded(id.0, numbers(failed), numbers(abandoned)));
    }

    /// Reports to the core what a file is: as it was `seen` just now, or as it is looked at here.
    fn gather_fact(&mut self, id: TaskId, seen: Option<Look>) {
        let name = self.names.name(id);
        let just_seen = self.just_seen.take().filter(|(seen, _)| *seen == id);
        let mut looked = None;
        let identity = match just_seen {
            _ if self.is_unfinished(name) && !self.gang_targets.contains(id) => None,
            None if self.lacks_secondary_here(id) && self.known_elsewhere(id).is_none() => None,
            Some((_, identity)) => identity,
            None => {
                let known = self.known_elsewhere(id);
                let look = || identity_of(Path::new(OsStr::from_bytes(name)));
                known.or_else(|| *looked.insert(seen.map_or_else(look, |Look(seen)| seen)))
            }
        };
        if let Some(looked) = looked
            && !self.moved
        {
            self.fresh_looks.note(id, self.now.time.0, looked);
        }
        if just_seen.is_none() {
            self.note_here(id, identity);
        }
        let lost = self.run.reach().is_lost(id);
        let places = if lost { Places::Nowhere } else { self.places_of(id) };
        self.event(Event::FactGathered { id, fact: fact_of(identity, places) });
    }

    /// Cores of a node that a task's action keeps busy there.
    pub(crate) fn cores_on(&self, id: TaskId, node: NodeId) -> u32 {
        if let Some(cores) = self.gang_cores_on(id, node) {
            return cores;
        }
        let cores = self.requirement_cores[self.requirement_of[id.0 as usize] as usize];
        cores.min(self.agents.node(node).capacity.cores)
    }

    pub(crate) fn start_action(&mut self, id: TaskId, start: &NextAttempt) {
        let NextAttempt { number, node, devices } = start;
        let is_path = self.names.is_path(id);
        let name = OsStr::from_bytes(self.names.name(id));
        let target = if is_path { self.directory_now().join(name) } else { PathBuf::new() };
        let is_free = self.make_room_for(id, &target);
        let just_seen = self.fresh_looks.take(id, self.now.time.0).filter(|_| *number == 1);
        let before = match just_seen {
            _ if !is_path || is_free => None,
            Some(Look(seen)) => seen,
            None => identity_of(&target),
        };
        self.look_at_inputs(id);
        let cores = self.cores_on(id, *node);
        let details = AttemptDetails { target, before, ..AttemptDetails::default() };
        let unstaged = self.staging.is_some();
        let leased = self.run.begin(self.now, id, start, cores, unstaged, details);
        self.note_attempt(id);
        self.open_streams_for(id, start.node);
        self.ask_about_inputs(id);
        let devices = devices_by_name(devices, &self.settings.resources);
        let node = self.agents.node(*node).name.clone();
        self.link.push(&HubMessage::RunAction(id.0, *number, node, devices, leased));
    }
}
