//! What the core wants done, done.

use std::path::Path;

use rakuda_agent::clock;
use rakuda_core::{Devices, Event, NodeId, Output, Places, Settled, TaskId};
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
            Output::StartAction {
                id,
                attempt,
                node,
                devices,
            } => {
                self.start_action(id, attempt, node, &devices);
            }
            Output::AbortAction { id } => self.abort_action(id),
            Output::AttemptFailed {
                id,
                attempt,
                retried,
            } => {
                self.link
                    .push(&HubMessage::AttemptFailed(id.0, attempt, retried));
            }
            Output::TargetMissing { id } => {
                self.link.push(&HubMessage::TargetMissing { task: id.0 })
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
            Output::InvocationEnded {
                id,
                failed,
                abandoned,
            } => {
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
            identity_of(Path::new(Text(name.to_vec()).as_os_str()))
        };
        self.event(Event::FactGathered {
            id,
            fact: fact_of(identity, Places::Unknown),
        });
    }

    fn start_action(&mut self, id: TaskId, attempt: u32, node: NodeId, devices: &Devices) {
        let is_path = self.names.is_path(id);
        let name = Text(self.names.name(id).to_vec());
        let before = if is_path {
            identity_of(name.as_path())
        } else {
            None
        };
        self.record.push(&JournalEvent::AttemptStarted {
            time_ns: clock::wall_ns(),
            task: id.0,
            attempt,
            name,
            is_path,
            before,
        });
        let running = RunningAttempt {
            node,
            before,
            commands: 0,
            abort_pending: false,
        };
        self.running.insert(id, running);
        let devices = devices_by_name(devices, &self.settings.resources);
        let node = self.agents.node(node).name.clone();
        self.link
            .push(&HubMessage::RunAction(id.0, attempt, node, devices));
    }
}
