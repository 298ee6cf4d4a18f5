//! Which tasks and rules the journal has defined, and the lines that define those it is about to name.
//!
//! A task is defined when it is first named, after all that it needs, down to what was up to date and below which nothing ran. The walk
//! has a stack of its own. It reads the scheduler and changes nothing in it.

use rakuda_core::{Scheduler, Settled, TaskId, TaskKind as CoreKind, TaskState};
use rakuda_proto::Text;
use rakuda_proto::journal::{JournalEvent, RuleDefined, TaskKind};

use super::lines;
use crate::names::Names;

/// How far the definition of a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The journal does not know it.
    Unknown,
    /// It stands on the stack, and what it needs is being defined.
    Begun,
    /// The journal knows it.
    Defined,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// By task; those beyond its end are unknown.
    progress: Vec<Progress>,
    /// How many the journal knows.
    tasks_defined: usize,
    /// By task: where its action stands; 0: not known.
    rule_of: Vec<u32>,
    /// By number less one; `true`: the journal knows it.
    rules: Vec<(RuleDefined, bool)>,
    /// Reused: tasks to look at, and those whose prerequisites are done (`true`).
    stack: Vec<(TaskId, bool)>,
}

impl Definitions {
    /// The next rule. Numbers count from 1, and are the front's.
    pub fn add_rule(&mut self, location: Text, text: Option<String>) {
        let rule = u32::try_from(self.rules.len() + 1).expect("fewer than 2^32 rules");
        self.rules.push((RuleDefined { rule, location, text }, false));
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.rules.len()
    }

    /// How many tasks the journal knows.
    pub fn tasks_defined(&self) -> usize {
        self.tasks_defined
    }

    /// The next task has this rule.
    pub fn add_task(&mut self, rule: u32) {
        self.rule_of.push(rule);
    }

    /// Where the action of a task stands; 0: not known.
    pub fn rule_of(&self, id: TaskId) -> u32 {
        self.rule_of.get(id.0 as usize).copied().unwrap_or(0)
    }

    /// Digest of the source text of the action of a rule's tasks, when that is known.
    pub fn text(&self, rule: u32) -> Option<&str> {
        let index = (rule as usize).checked_sub(1)?;
        self.rules.get(index)?.0.text.as_deref()
    }

    /// Where the action of a rule's tasks stands.
    pub fn location(&self, rule: u32) -> Option<&Text> {
        let index = (rule as usize).checked_sub(1)?;
        self.rules.get(index).map(|(rule, _)| &rule.location)
    }

    /// Adds the definitions that are missing of `id` and of what it needs.
    pub fn define(&mut self, out: &mut Vec<u8>, scheduler: &Scheduler, names: &Names, id: TaskId) {
        if self.progress.len() < names.len() {
            self.progress.resize(names.len(), Progress::Unknown);
        }
        if self.progress[id.0 as usize] == Progress::Defined {
            return;
        }
        self.stack.push((id, false));
        while let Some((id, needs_defined)) = self.stack.pop() {
            let progress = &mut self.progress[id.0 as usize];
            match (*progress, needs_defined) {
                (Progress::Unknown, false) if is_up_to_date(scheduler, id) => {
                    *progress = Progress::Defined;
                    self.write(out, scheduler, names, id, true);
                }
                (Progress::Unknown, false) => {
                    *progress = Progress::Begun;
                    self.stack.push((id, true));
                    let begin = self.stack.len();
                    let needed = scheduler.prerequisites(id).map(|needed| (needed, false));
                    let progress = &self.progress;
                    let unknown = |needed: &(TaskId, bool)| {
                        progress[needed.0.0 as usize] == Progress::Unknown
                    };
                    self.stack.extend(needed.filter(unknown));
                    // The first prerequisite comes first.
                    self.stack[begin..].reverse();
                }
                (_, true) => {
                    *progress = Progress::Defined;
                    self.write(out, scheduler, names, id, false);
                }
                (Progress::Begun | Progress::Defined, false) => {}
            }
        }
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        scheduler: &Scheduler,
        names: &Names,
        id: TaskId,
        up_to_date: bool,
    ) {
        let Some(task) = scheduler.task(id) else { return };
        self.tasks_defined += 1;
        let rule = self.rule_of(id);
        if let Some((definition, defined @ false)) =
            (rule as usize).checked_sub(1).and_then(|index| self.rules.get_mut(index))
        {
            *defined = true;
            lines::event(out, &JournalEvent::RuleDefined(definition.clone()));
        }
        // A file that this run makes has its size in the end of its attempt.
        let settled = matches!(task.state, TaskState::Settled(_));
        let is_file = task.kind == CoreKind::File && settled && !task.ran;
        let definition = lines::Definition {
            task: id.0,
            name: names.name(id),
            kind: match task.kind {
                CoreKind::Plain => TaskKind::Plain,
                CoreKind::File => TaskKind::File,
                CoreKind::Directory => TaskKind::Directory,
                CoreKind::Asked => TaskKind::Asked,
            },
            rule,
            action: task.has_action,
            up_to_date,
            bytes: scheduler.file_bytes(id).filter(|_| is_file),
        };
        let listed = |wanted_order_only: bool| {
            let all = scheduler.prerequisite_edges(id).filter(move |_| !up_to_date);
            all.filter(move |(_, order_only)| *order_only == wanted_order_only).map(|(id, _)| id.0)
        };
        lines::task_defined(out, &definition, listed(false), listed(true));
    }
}

/// Whether a task was up to date, and nothing below it ran.
fn is_up_to_date(scheduler: &Scheduler, id: TaskId) -> bool {
    scheduler
        .task(id)
        .is_some_and(|task| task.state == TaskState::Settled(Settled::NotNeeded) && !task.disturbed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rakuda_core::{
        Config, Event, Fact, InvocationId, Places, Requirement, RequirementId, Time,
    };

    /// Files by their times (none: missing) and prerequisites; the last one is invoked.
    fn world(files: &[(Option<i64>, Vec<u32>)]) -> (Scheduler, Names, Definitions) {
        let mut scheduler = Scheduler::new(Config::default());
        let (mut names, mut definitions) = (Names::default(), Definitions::default());
        let mut out = Vec::new();
        let mut tell = |event: Event<'_>| scheduler.handle(Time(0), event, &mut out);
        let requirement = Requirement::default();
        tell(Event::RequirementDefined { id: RequirementId(0), requirement });
        definitions.add_rule(Text::from("Rakefile:1"), None);
        for (number, (modified_ns, needed)) in (0..).zip(files) {
            let id = TaskId(number);
            names.push(format!("f{number}").as_bytes(), true);
            definitions.add_task(u32::from(!needed.is_empty()));
            let prerequisites: Vec<_> = needed.iter().copied().map(TaskId).collect();
            tell(Event::TaskDefined {
                id,
                kind: CoreKind::File,
                has_action: !needed.is_empty(),
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &prerequisites,
            });
            let fact = Fact { modified_ns: *modified_ns, bytes: 10, places: Places::Unknown };
            tell(Event::FactGathered { id, fact });
        }
        let last = TaskId(u32::try_from(files.len() - 1).unwrap());
        tell(Event::InvocationStarted { id: InvocationId(0), tasks: &[last], caller: None });
        (scheduler, names, definitions)
    }

    fn defined(out: &[u8]) -> Vec<String> {
        out.split_inclusive(|byte| *byte == b'\n')
            .map(|line| match serde_json::from_slice(line).unwrap() {
                JournalEvent::RuleDefined(rule) => format!("rule {}", rule.location.to_display()),
                JournalEvent::TaskDefined(task) => {
                    let end = if task.up_to_date { " up to date" } else { "" };
                    format!("{} {:?}{end}", task.name.to_display(), task.prerequisites)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_task_is_defined_after_what_it_needs_down_to_what_was_up_to_date() {
        let files = [(Some(1), vec![]), (Some(2), vec![0]), (Some(1), vec![]), (None, vec![2, 1])];
        let (scheduler, names, mut definitions) = world(&files);
        let mut out = Vec::new();
        definitions.define(&mut out, &scheduler, &names, TaskId(3));
        let expected = ["f2 [] up to date", "rule Rakefile:1", "f1 [] up to date", "f3 [2, 1]"];
        assert_eq!(defined(&out), expected, "f0 lies below what was up to date");
        let before = out.len();
        definitions.define(&mut out, &scheduler, &names, TaskId(3));
        assert_eq!(out.len(), before, "each is defined once");
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_tasks_needs_no_deep_stack() {
        let files: Vec<_> =
            (0..100_000).map(|n: u32| (None, n.checked_sub(1).into_iter().collect())).collect();
        let (scheduler, names, mut definitions) = world(&files);
        let mut out = Vec::new();
        definitions.define(&mut out, &scheduler, &names, TaskId(99_999));
        let lines = defined(&out);
        assert_eq!(lines.len(), 100_001);
        assert_eq!(lines[0], "f0 []");
        assert_eq!(lines[100_000], "f99999 [99998]");
    }
}
