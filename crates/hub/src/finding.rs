//! Looks for tasks that have not begun, by words of their names: the journal has all others.
//!
//! It works in pieces, so that a search does not hold up a run of a million tasks.

use rakuda_core::{TaskId, TaskState};
use serde_json::{Value, json};

use crate::hub::Hub;

/// Maximum number of tasks that are looked at for one answer.
const STEPS_MAX: usize = 20_000;
/// Maximum number of tasks that one answer names.
const FOUND_MAX: usize = 200;

impl Hub {
    /// Those from number `from` on whose names hold all `words`, in any case; `next`: where to go on.
    pub(crate) fn find_waiting(&self, question: &Value) -> Value {
        let words = question["words"].as_array().map_or(&[][..], Vec::as_slice);
        let words: Vec<String> =
            words.iter().filter_map(|word| Some(word.as_str()?.to_lowercase())).collect();
        let from = question["from"].as_u64().map_or(0, |from| usize::try_from(from).unwrap_or(0));
        let len = self.run.scheduler().tasks_len();
        let mut found = Vec::new();
        let mut next = from;
        while next < len && next - from < STEPS_MAX && found.len() < FOUND_MAX {
            let id = TaskId(u32::try_from(next).expect("numbers of tasks are u32"));
            next += 1;
            if self.is_to_come(id) && self.has_words(id, &words) {
                found.push(json!({
                    "number": id.0,
                    "task": self.display_name(id),
                    "state": self.state_word(id),
                    "place": self.record.location_of(id).map(rakuda_proto::Text::to_display),
                }));
            }
        }
        json!({"run": self.record.run(), "tasks": found, "next": (next < len).then_some(next)})
    }

    /// Whether it has an action that may run yet, and none that has begun.
    fn is_to_come(&self, id: TaskId) -> bool {
        let Some(task) = self.run.scheduler().task(id) else { return false };
        task.has_action
            && task.attempt == 0
            && match task.state {
                TaskState::Defined
                | TaskState::Waiting { .. }
                | TaskState::Resolving
                | TaskState::Asking
                | TaskState::Checking { .. }
                | TaskState::Comparing
                | TaskState::Ready
                | TaskState::Mustered => true,
                TaskState::Lost
                | TaskState::Inspecting
                | TaskState::AwaitingPeers { .. }
                | TaskState::Running { .. }
                | TaskState::Settled(_) => false,
            }
    }

    fn has_words(&self, id: TaskId, words: &[String]) -> bool {
        let name = self.names.name(id);
        if words.is_empty() {
            return !name.is_empty();
        }
        let name = String::from_utf8_lossy(name).to_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    }
}
