//! What a plan is made of: tasks that would run or not, and what would go from one to the other.

use rakuda_proto::Text;
use rakuda_record::forecast::PlannedWork;
use serde::Serialize;

use crate::rerun::state::Change;

/// One task of the plan.
#[derive(Debug)]
pub struct PlannedTask {
    pub target: Text,
    /// Whether it has an action.
    pub action: bool,
    pub reasons: Vec<Change>,
    /// The place of its action.
    pub rule: Option<Text>,
    pub work: PlannedWork,
}

/// What would go from task to task.
#[derive(Debug, Serialize)]
pub struct PlannedStream {
    /// Its name in the Rakefile.
    pub name: Text,
    /// Names of the tasks that write.
    pub from: Vec<Text>,
    /// Names of the tasks that read.
    pub to: Vec<Text>,
    /// The tasks would run at the same time; if not, one after the other.
    pub live: bool,
}
