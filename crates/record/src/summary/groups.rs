//! Which tasks belong together: those whose actions stand at the same place of the Rakefile. And what to call them.
//!
//! Places of one task each whose names are alike are one group ([`Alike`]).
//!
//! It does not know times. A task without a place is grouped by its program. A group is called after
//! what the names of its tasks have in common, since that is what its user has written.

use std::collections::BTreeMap;

use rakuda_proto::journal::TaskKind;

use crate::run::{Run, Task};
use crate::summary::alike::{Alike, Awaited};
use crate::summary::patterns::Pattern;
use crate::summary::programs::program_of;

/// Where rake defines the action of every `directory`; it has no place in the Rakefile.
const RAKES_OWN: &[u8] = b"rake/";
/// What stands for its place.
pub const DIRECTORY: &str = "directory";
/// Where the actions of `directory` stand, without the number of the line.
const RAKES_DIRECTORY: &[u8] = b"rake/dsl_definition.rb:";
/// Maximum number of first commands that are looked at for one group.
const COMMANDS_LOOKED_AT: usize = 1000;

/// Tasks of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// `Rakefile:12`, the first of several places. `None`: not recorded, or rake's own.
    pub location: Option<String>,
    /// Where it has several places: how many, and what they are known by together.
    pub places: Option<(usize, String)>,
    /// The most frequent program of the tasks' first commands. `None`: they start no command.
    pub program: Option<String>,
    /// What the tasks' names have in common, `map/*.bam`. `None`: nothing. Of all `directory` tasks that word.
    pub pattern: Option<String>,
    /// Another group has the same pattern.
    pub ambiguous: bool,
}

impl Group {
    /// What it is called: `map/*.bam`; with program and place, `map/*.bam (bwa, Rakefile:12)`, where
    /// another has that pattern, too, or its number of places; without a pattern by these, `bwa (Rakefile:12)`.
    pub fn label(&self) -> String {
        match (&self.pattern, self.ambiguous) {
            (Some(pattern), false) => pattern.clone(),
            (Some(pattern), true) if self.places.is_some() => {
                let places = self.places.as_ref().map_or(0, |(places, _)| *places);
                format!("{pattern} ({places} places)")
            }
            (Some(pattern), true) => {
                let told: Vec<String> = self.program.iter().cloned().chain(self.place()).collect();
                format!("{pattern} ({})", told.join(", "))
            }
            (None, _) => self.origin(),
        }
    }

    /// Its program and place, `bwa (Rakefile:12)`: what the label does not say.
    pub fn origin(&self) -> String {
        let program = self.program.as_deref().unwrap_or("(ruby)");
        match self.place() {
            Some(place) => format!("{program} ({place})"),
            None => program.to_owned(),
        }
    }

    /// What it is found by in another run: its place, or what several places have in common.
    pub fn known_by(&self) -> Option<&str> {
        self.places.as_ref().map(|(_, rule)| rule.as_str()).or(self.location.as_deref())
    }

    /// Its place, `Rakefile:12`, or the first and how many more.
    pub fn place(&self) -> Option<String> {
        let location = self.location.as_ref()?;
        let places = self.places.as_ref().map_or(1, |(places, _)| *places);
        Some(several(location, places))
    }
}

/// Words for `places` places, of which `first` is the first.
pub fn several(first: &str, places: usize) -> String {
    match places {
        0 | 1 => first.to_owned(),
        2 => format!("{first} and another place"),
        _ => format!("{first} and {} more places", places - 1),
    }
}

/// The groups of a run.
#[derive(Debug, Default)]
pub struct Groups {
    /// By number, in the order in which they were first met.
    pub list: Vec<Group>,
    /// By task's number: which group. Only for tasks with attempts.
    pub of_task: Vec<u32>,
    /// Which places are one group.
    pub alike: Alike,
}

/// What groups tasks: the place, else the program; of places that are one group what they are known by together.
type Key<'a> = (Option<&'a [u8]>, Option<String>);

impl Groups {
    /// Of all tasks that were attempted.
    pub fn of(run: &Run) -> Self {
        Self::of_live(run, &[])
    }

    /// Likewise, of a run that goes on. Its hub has said what is to come.
    pub fn of_live(run: &Run, awaited: &[Awaited]) -> Self {
        let alike = Alike::of(run, awaited);
        let mut groups = Self { list: Vec::new(), of_task: vec![0; run.tasks.len()], alike };
        let mut numbers: BTreeMap<Key, u32> = BTreeMap::new();
        let mut seen: Vec<(Programs, Pattern)> = Vec::new();
        for task in run.tasks.iter().flatten().filter(|task| !task.attempts.is_empty()) {
            let rule = task.defined.rule.and_then(|rule| run.rules.get(rule as usize)?.as_ref());
            let together = rule.filter(|_| !groups.alike.is_empty()).and_then(|rule| {
                groups.alike.rule_of(&rule.location.to_display()).map(str::to_owned)
            });
            let key = match rule {
                Some(_) if together.is_some() => (Some(&b""[..]), together.clone()),
                Some(rule) => (Some(&rule.location.0[..]), None),
                None => (None, first_program(run, task)),
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                let mut group = Group::default();
                match rule {
                    Some(rule) if is_rakes_own(task, &rule.location.0) => {
                        group.pattern = Some(DIRECTORY.to_owned());
                    }
                    Some(rule) => {
                        let first = together.as_ref().and_then(|it| groups.alike.first(it));
                        let first = first.and_then(|first| run.rules[first as usize].as_ref());
                        group.location = Some(first.unwrap_or(rule).location.to_display());
                    }
                    None => {}
                }
                group.places = together.map(|rule| (groups.alike.places(&rule), rule));
                seen.push(Default::default());
                groups.list.push(group);
                groups.list.len() as u32 - 1
            });
            groups.of_task[task.defined.task as usize] = number;
            let (programs, pattern) = &mut seen[number as usize];
            programs.look_at(run, task);
            pattern.add(&task.defined.name.to_display());
        }
        for (group, (programs, pattern)) in groups.list.iter_mut().zip(seen) {
            group.program = programs.most_frequent();
            group.pattern = group.pattern.take().or_else(|| pattern.text());
        }
        groups.tell_apart();
        groups
    }

    fn tell_apart(&mut self) {
        let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for group in &self.list {
            *counts.entry(group.pattern.clone()).or_default() += 1;
        }
        for group in &mut self.list {
            group.ambiguous = counts[&group.pattern] > 1;
        }
    }

    /// The group of a task that was attempted.
    pub fn of_task(&self, task: u32) -> u32 {
        self.of_task[task as usize]
    }
}

/// Whether a task is one that `directory` has made.
pub fn is_rakes_own(task: &Task, location: &[u8]) -> bool {
    task.defined.kind == TaskKind::Directory && location.starts_with(RAKES_OWN)
}

/// Whether the actions of `directory` stand there.
pub fn is_place_of_directories(location: &[u8]) -> bool {
    location.starts_with(RAKES_DIRECTORY)
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
pub(super) fn first_program(run: &Run, task: &Task) -> Option<String> {
    let commands = task.attempts.iter().flat_map(|attempt| &attempt.commands);
    commands
        .filter_map(|&number| run.commands.get(number as usize)?.as_ref())
        .find_map(|command| program_of(&command.started))
}
