//! Which tasks belong together: those whose actions stand at the same place of the Rakefile. And what to call them.
//!
//! It does not know times. A task without a place is grouped by its program.

use std::collections::BTreeMap;

use crate::run::{Run, Task};
use crate::summary::programs::program_of;

/// First commands that are looked at for one group.
const COMMANDS_LOOKED_AT: usize = 1000;

/// Tasks of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// `Rakefile:12`; none: not recorded.
    pub location: Option<String>,
    /// The most frequent program of the tasks' first commands; none: they start no command.
    pub program: Option<String>,
    /// blake3 of the action's text, of the last rule of this place.
    pub text: Option<String>,
}

impl Group {
    /// `mProjectPP (Rakefile:12)`.
    pub fn label(&self) -> String {
        let program = self.program.as_deref().unwrap_or("(ruby)");
        match &self.location {
            Some(location) => format!("{program} ({location})"),
            None => program.to_owned(),
        }
    }
}

/// The groups of a run.
#[derive(Debug, Default)]
pub struct Groups {
    /// By number, in the order in which they were first met.
    pub list: Vec<Group>,
    /// By task's number: which group. Only for tasks with attempts.
    pub of_task: Vec<u32>,
}

/// What groups tasks: the place, else the program.
type Key<'a> = (Option<&'a [u8]>, Option<String>);

impl Groups {
    /// Of all tasks that were attempted.
    pub fn of(run: &Run) -> Self {
        let mut groups = Self { list: Vec::new(), of_task: vec![0; run.tasks.len()] };
        let mut numbers: BTreeMap<Key, u32> = BTreeMap::new();
        let mut programs: Vec<Programs> = Vec::new();
        for task in run.tasks.iter().flatten().filter(|task| !task.attempts.is_empty()) {
            let rule = task.defined.rule.and_then(|rule| run.rules.get(rule as usize)?.as_ref());
            let key = match rule {
                Some(rule) => (Some(&rule.location.0[..]), None),
                None => (None, first_program(run, task)),
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                programs.push(Programs::default());
                groups.list.push(Group {
                    location: rule.map(|rule| rule.location.to_display()),
                    ..Group::default()
                });
                groups.list.len() as u32 - 1
            });
            groups.of_task[task.defined.task as usize] = number;
            let group = &mut groups.list[number as usize];
            group.text = rule.and_then(|rule| rule.text.clone()).or(group.text.take());
            programs[number as usize].look_at(run, task);
        }
        for (group, programs) in groups.list.iter_mut().zip(programs) {
            group.program = programs.most_frequent();
        }
        groups
    }

    /// The group of a task that was attempted.
    pub fn of_task(&self, task: u32) -> u32 {
        self.of_task[task as usize]
    }
}

/// How often each program was the first.
#[derive(Debug, Default)]
struct Programs {
    counts: BTreeMap<String, usize>,
    looked_at: usize,
}

impl Programs {
    fn look_at(&mut self, run: &Run, task: &Task) {
        if self.looked_at < COMMANDS_LOOKED_AT
            && let Some(program) = first_program(run, task)
        {
            self.looked_at += 1;
            *self.counts.entry(program).or_default() += 1;
        }
    }

    fn most_frequent(self) -> Option<String> {
        self.counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(program, _)| program)
    }
}

/// The program of the first command of a task that has any.
fn first_program(run: &Run, task: &Task) -> Option<String> {
    let commands = task.attempts.iter().flat_map(|attempt| &attempt.commands);
    commands
        .filter_map(|&number| run.commands.get(number as usize)?.as_ref())
        .find_map(|command| program_of(&command.started))
}
