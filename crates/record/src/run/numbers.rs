//! What the numbers in a run stand for: tasks, nodes, places of files, rules.
//!
//! It finds no task by its name: `find` does.

use rakuda_proto::Text;

use super::{Run, Task};
use crate::summary::groups::{DIRECTORY, is_rakes_own};

impl Run {
    /// The task of that number, when the journal tells anything of it.
    pub fn task(&self, number: u32) -> Option<&Task> {
        self.tasks.get(number as usize)?.as_deref()
    }

    /// Its name; of an unknown number, that.
    pub fn task_name(&self, number: u32) -> Text {
        self.task(number)
            .map_or_else(|| format!("task {number}").into(), |task| task.defined.name.clone())
    }

    /// The name of a node; of an unknown number, that.
    pub fn node_name(&self, number: u32) -> Text {
        self.nodes
            .get(number as usize)
            .map_or_else(|| format!("node {number}").into(), |node| node.joined.name.clone())
    }

    /// Name of a node that had a file: the machine of the hub has one only when it takes part.
    pub fn place_name(&self, number: u32) -> Option<Text> {
        let name = self.node_name(number);
        let takes_part = self.nodes.get(number as usize).is_some_and(|node| node.joined.cores > 0);
        (number != 0 || takes_part).then_some(name)
    }

    /// Whether a node had nothing for tasks, and ran none: the hub's machine when there are others,
    /// or a number of which nothing was heard.
    pub fn is_spare(&self, number: u32) -> bool {
        let no_cores = self.nodes.get(number as usize).is_none_or(|node| node.joined.cores == 0);
        let mut attempts = self.tasks.iter().flatten().flat_map(|task| &task.attempts);
        no_cores && !attempts.any(|attempt| attempt.started.node == number)
    }

    /// How many nodes had something for tasks.
    pub fn nodes_used(&self) -> usize {
        self.nodes.iter().filter(|node| node.joined.cores > 0).count()
    }

    /// Where its action stands, `Rakefile:12`; of what `directory` has made that word, since rake's own
    /// action has no place in the Rakefile. None: not recorded.
    pub fn location(&self, task: &Task) -> Option<Text> {
        let rule = self.rules.get(task.defined.rule? as usize)?.as_ref()?;
        let is_rakes_own = is_rakes_own(task, &rule.location.0);
        Some(if is_rakes_own { DIRECTORY.into() } else { rule.location.clone() })
    }
}
