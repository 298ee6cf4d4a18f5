//! Which tasks and rules the journal has defined, and the lines that define those it is about to name.
//!
//! A task is defined when it is first named, after all that it needs, down to what was up to date
//! and below which nothing ran. The walk has a stack of its own. It reads the scheduler and changes
//! nothing in it.

use std::collections::BTreeMap;

use rakuda_core::{Scheduler, Settled, TaskId, TaskKind as CoreKind, TaskState};
use rakuda_proto::Text;
use rakuda_proto::journal::{JournalEvent, RuleDefined, TaskKind};
use rakuda_record::history::KnownRule;

use super::lines;
use crate::names::Names;

/// Maximum bytes of a parameter's value; longer ones are noted as a digest.
const VALUE_BYTES_MAX: usize = 200;

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

/// The tasks and rules that the journal knows, and those that it does not know yet.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// By task; those beyond its end are unknown.
    progress: Vec<Progress>,
    /// How many the journal knows.
    tasks_defined: usize,
    /// By task: where its action stands; 0: not known.
    rule_of: Vec<u32>,
    /// By number less one; `true` if the journal knows it.
    rules: Vec<(RuleDefined, bool)>,
    /// By number less one: names and values, as the journal has them.
    parameters: Vec<Vec<(Text, Text)>>,
    /// Of tasks that have some: their number.
    parameters_of: BTreeMap<u32, u32>,
    /// Reused: tasks to look at, and those whose prerequisites are done (`true`).
    stack: Vec<(TaskId, bool)>,
}

impl Definitions {
    /// The next rule. Numbers count from 1, and are the front's.
    pub fn add_rule(&mut self, location: Text, source: Option<String>) {
        let rule = u32::try_from(self.rules.len() + 1).expect("fewer than 2^32 rules");
        self.rules.push((RuleDefined { rule, location, source, text: None }, false));
    }

    /// The next list of parameters. Numbers count from 1, and are the front's.
    pub fn add_parameters(&mut self, list: Vec<(Text, Text)>) {
        self.parameters.push(list.into_iter().map(|(name, value)| (name, noted(value))).collect());
    }

    /// How many lists of parameters there are.
    pub fn parameters_len(&self) -> usize {
        self.parameters.len()
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.rules.len()
    }

    /// How many tasks the journal knows.
    pub fn tasks_defined(&self) -> usize {
        self.tasks_defined
    }

    /// The next task has this rule and these parameters; 0: none.
    pub fn add_task(&mut self, rule: u32, parameters: u32) {
        if parameters > 0 {
            let task = u32::try_from(self.rule_of.len()).expect("numbers of tasks are u32");
            self.parameters_of.insert(task, parameters);
        }
        self.rule_of.push(rule);
    }

    /// Where the action of a task stands; 0: not known.
    pub fn rule_of(&self, id: TaskId) -> u32 {
        self.rule_of.get(id.0 as usize).copied().unwrap_or(0)
    }

    /// Digest of the source of the actions of a rule's tasks, when that is known.
    pub fn source(&self, rule: u32) -> Option<&str> {
        let index = (rule as usize).checked_sub(1)?;
        self.rules.get(index)?.0.source.as_deref()
    }

    /// Names and values of what a task's action depends on by declaration, as the journal has them.
    pub fn parameters(&self, id: TaskId) -> &[(Text, Text)] {
        let number = self.parameters_of.get(&id.0).and_then(|number| number.checked_sub(1));
        number.and_then(|index| self.parameters.get(index as usize)).map_or(&[], Vec::as_slice)
    }

    /// The rule, as other runs know it.
    pub fn known_rule(&self, rule: u32) -> Option<KnownRule<'_>> {
        let (rule, _) = self.rules.get((rule as usize).checked_sub(1)?)?;
        Some(KnownRule { location: &rule.location, source: rule.source.as_deref() })
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
            params: self.parameters(id),
        };
        let listed = |wanted_order_only: bool| {
            let all = scheduler.prerequisite_edges(id).filter(move |_| !up_to_date);
            all.filter(move |(_, order_only)| *order_only == wanted_order_only).map(|(id, _)| id.0)
        };
        lines::task_defined(out, &definition, listed(false), listed(true));
    }
}

/// A value as the journal has it. No value of a Rakefile has the form of a digest: strings have quotes.
fn noted(value: Text) -> Text {
    if value.0.len() <= VALUE_BYTES_MAX {
        return value;
    }
    let digest = &blake3::hash(&value.0).to_hex()[..32];
    Text::from(&format!("{} bytes, blake3 {digest}", value.0.len())[..])
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
            definitions.add_task(u32::from(!needed.is_empty()), 0);
            let prerequisites: Vec<_> = needed.iter().copied().map(TaskId).collect();
            tell(Event::TaskDefined {
                id,
                kind: CoreKind::File,
                has_action: !needed.is_empty(),
                deferred: false,
                requirement: RequirementId(0),
                prerequisites: &prerequisites,
            });
            let fact = Fact {
                modified_ns: modified_ns.map(i128::from),
                bytes: 10,
                places: Places::Unknown,
            };
            tell(Event::FactGathered { id, fact });
        }
        let last = TaskId(u32::try_from(files.len() - 1).unwrap());
        tell(Event::InvocationStarted { id: InvocationId(0), tasks: &[last], caller: None });
        (scheduler, names, definitions)
    }

    fn defined(out: &[u8]) -> Vec<String> {
        let mut told = Vec::new();
        let each = |event| {
            told.push(match event {
                JournalEvent::RuleDefined(rule) => format!("rule {}", rule.location.to_display()),
                JournalEvent::TaskDefined(task) => {
                    let end = if task.up_to_date { " up to date" } else { "" };
                    format!("{} {:?}{end}", task.name.to_display(), task.prerequisites)
                }
                other => panic!("{other:?}"),
            });
        };
        let skipped = rakuda_record::reader::read_events(out, each).unwrap();
        assert_eq!(skipped, rakuda_record::reader::Skipped::default());
        told
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
    fn a_long_value_is_noted_as_a_digest_of_all_of_it() {
        let mut definitions = Definitions::default();
        let value =
            |length: usize, end: &str| Text::from(&format!("{}{end}", "x".repeat(length))[..]);
        for value in [value(199, "a"), value(200, "a"), value(200, "b")] {
            definitions.add_parameters(vec![(Text::from("n"), value)]);
        }
        for parameters in [1, 2, 3, 2, 0] {
            definitions.add_task(0, parameters);
        }
        let of = |task| definitions.parameters(TaskId(task));
        assert_eq!(of(0)[0].1, value(199, "a"));
        assert!(of(1)[0].1.to_display().starts_with("201 bytes, blake3 "), "{:?}", of(1));
        assert_ne!(of(1), of(2));
        assert_eq!(of(1), of(3));
        assert_eq!(of(4), []);
        assert_eq!(of(5), []);
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
