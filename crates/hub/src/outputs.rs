//! What the core wants done, done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rakuda_agent::clock;
use rakuda_core::{
    Devices, Event, FailurePolicy, InvocationId, NodeId, Output, Places, Settled, TaskId,
};
use rakuda_proto::Text;
use rakuda_proto::front::{HubMessage, SettledHow};

use crate::facts::{fact_of, identity_of};
use crate::hub::{Hub, RunningAttempt};
use crate::record::JournalEvent;
use crate::requirements::devices_by_name;

impl Hub {
    /// Does one thing that the core wants.
    pub(crate) fn perform(&mut self, output: Output) {
        match output {
            Output::GatherFact { id } => self.gather_fact(id),
            Output::AskNeeded { id } => self.link.push(&HubMessage::AskNeeded { task: id.0 }),
            Output::Resolve { id } => self.link.push(&HubMessage::Resolve { task: id.0 }),
            Output::StartAction { id, attempt, node, devices } => {
                self.start_action(id, attempt, node, &devices);
            }
            Output::AbortAction { id } => self.abort_action(id),
            Output::AttemptFailed { id, attempt, retried } => {
                self.link.push(&HubMessage::AttemptFailed(id.0, attempt, retried));
                if !retried {
                    self.give_back_early_ones(id);
                }
            }
            Output::TargetMissing { id } => {
                self.link.push(&HubMessage::TargetMissing { task: id.0 });
            }
            Output::TaskSettled { id, how } => {
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
            Output::InvocationEnded { id, failed, abandoned } => {
                self.resume_caller(id);
                self.any_failed |= !failed.is_empty() || !abandoned.is_empty();
                let numbers = |tasks: Vec<TaskId>| tasks.into_iter().map(|id| id.0).collect();
                self.link.push(&HubMessage::InvocationEnded(
                    id.0,
                    numbers(failed),
                    numbers(abandoned),
                ));
            }
        }
    }

    fn gather_fact(&mut self, id: TaskId) {
        let name = self.names.name(id);
        let identity = if self.record.is_unfinished(name) {
            None
        } else {
            identity_of(Path::new(OsStr::from_bytes(name)))
        };
        self.event(Event::FactGathered { id, fact: fact_of(identity, Places::Unknown) });
    }

    /// Cores that a task's action keeps busy.
    pub(crate) fn cores_of(&self, id: TaskId) -> u32 {
        self.requirement_cores[self.requirement_of[id.0 as usize] as usize]
    }

    /// The action of `caller` waits for an invocation: others may use its cores.
    pub(crate) fn suspend_caller(&mut self, invocation: InvocationId, caller: TaskId) {
        if let Some(attempt) = self.running.get_mut(&caller) {
            attempt.suspended += 1;
            self.callers.insert(invocation, caller);
            let leases = &mut self.leases[attempt.node.0 as usize];
            leases.end(caller, false, clock::monotonic_ns());
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
        let cores = self.cores_of(caller);
        if let Some(attempt) = self.running.get_mut(&caller) {
            attempt.suspended -= 1;
            if attempt.suspended > 0 {
                return;
            }
            let leases = &mut self.leases[attempt.node.0 as usize];
            leases.take_back(caller, cores, clock::monotonic_ns());
        }
    }

    /// Hands free leases to actions that wait for one; whether the core was told something.
    pub(crate) fn grant_leases(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        let mut told = false;
        for index in 0..self.leases.len() {
            while let Some(id) = self.leases[index].grant(now_ns) {
                let Some(attempt) = self.running.get_mut(&id) else {
                    self.leases[index].end(id, false, now_ns);
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

    fn start_action(&mut self, id: TaskId, attempt: u32, node: NodeId, devices: &Devices) {
        let is_path = self.names.is_path(id);
        let mut name = Text(self.names.name(id).to_vec());
        let target =
            if is_path { self.settings.directory.join(name.as_path()) } else { PathBuf::new() };
        let before = if is_path { identity_of(&target) } else { None };
        if is_path && self.moved {
            name = Text(target.clone().into_os_string().into_encoded_bytes());
        }
        self.record.push(&JournalEvent::AttemptStarted {
            time_ns: clock::wall_ns(),
            task: id.0,
            attempt,
            name,
            is_path,
            before,
        });
        let cores = self.cores_of(id);
        let leased = self.leases[node.0 as usize].begin(id, cores, clock::monotonic_ns());
        let running = RunningAttempt {
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
            abort_pending: false,
        };
        self.running.insert(id, running);
        let devices = devices_by_name(devices, &self.settings.resources);
        let node = self.agents.node(node).name.clone();
        self.link.push(&HubMessage::RunAction(id.0, attempt, node, devices, leased));
    }
}
