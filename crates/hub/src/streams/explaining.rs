//! The state of the streams of one task, for a user who asks what it does: how much went through, which processes still
//! hold the stdout of a writer that has ended, and what had gone through when an attempt of all came to nothing.

use rakuda_core::TaskId;
use rakuda_proto::Text;
use rakuda_proto::front::StreamDefinition;
use rakuda_proto::streams::{EndAccount, StdoutHolder, StreamAccount};
use serde_json::{Value, json};

use super::interrupted::of_task;
use super::state::Component;
use crate::hub::Hub;

/// Maximum number of writers that are listed.
const WRITERS_MAX: usize = 20;

impl Hub {
    /// The state of each stream of a task.
    pub(crate) fn streams_in_json(&self, id: TaskId) -> Vec<Value> {
        let Some(component) = self.streams.component_of(id) else { return Vec::new() };
        let streams = component.streams.iter();
        streams.filter_map(|stream| self.stream_in_json(id, component, stream)).collect()
    }

    fn stream_in_json(
        &self,
        id: TaskId,
        component: &Component,
        stream: &StreamDefinition,
    ) -> Option<Value> {
        let does = match (stream.writers.contains(&id.0), stream.readers.contains(&id.0)) {
            (true, _) => "writes",
            (_, true) => "reads",
            (false, false) => return None,
        };
        let name = stream.name.to_display();
        let mut answer = json!({"stream": name, "does": does});
        if let Some(passing) = self.streams.passing().into_iter().find(|one| one.name == name) {
            answer["bytes"] = passing.bytes.into();
            answer["records"] = passing.records.into();
        }
        let writers = stream.writers.iter().take(WRITERS_MAX);
        let held: Vec<Value> =
            writers.filter_map(|writer| self.held_in_json(component, TaskId(*writer))).collect();
        if !held.is_empty() {
            answer["held"] = held.into();
        }
        let before = component.interrupted.iter().filter(|account| account.name == stream.name);
        if let Some(before) = interrupted_in_json(before, id) {
            answer["interrupted"] = before;
        }
        Some(answer)
    }

    /// A writer that has ended and whose stdout is held.
    fn held_in_json(&self, component: &Component, writer: TaskId) -> Option<Value> {
        let opening = self.streams.open.get(component.opening_of.get(&writer)?)?;
        let holders = opening.held_by.get(&writer)?;
        let node = opening.node_of.get(&writer)?;
        let process = |holder: &StdoutHolder| json!({"process": holder.process, "command": Text::to_display(&holder.command)});
        let processes: Vec<Value> = holders.iter().map(process).collect();
        let node = self.agents.node(*node).name.to_display();
        Some(json!({"task": self.display_name(writer), "node": node, "processes": processes}))
    }
}

/// What all writers had written, and what went through the end of a task; `None` if no node has reported anything.
fn interrupted_in_json<'a>(
    accounts: impl Iterator<Item = &'a StreamAccount>,
    id: TaskId,
) -> Option<Value> {
    let accounts: Vec<&StreamAccount> = accounts.collect();
    let writers = || accounts.iter().flat_map(|account| &account.writers);
    let bytes = |account: &EndAccount| account.bytes + u64::from(account.is_special);
    let mut answer = json!({
        "bytes": writers().map(bytes).sum::<u64>(),
        "records": writers().map(|account| account.records).sum::<u64>(),
    });
    let own = accounts.iter().find_map(|account| {
        of_task(&account.writers, id).or_else(|| of_task(&account.readers, id))
    });
    if let Some(own) = own {
        answer["own_bytes"] = own.bytes.into();
        answer["own_records"] = own.records.into();
    }
    (!accounts.is_empty()).then_some(answer)
}
