//! Places of a Rakefile with one task each whose names are alike, taken as one rule. A Rakefile that a program has
//! written has a line for each file, where its user would have written a rule; no table of a thousand rules tells more.
//!
//! It knows names alone, so that a rule is the same from the first task to the last. It does not know programs, times,
//! or what rules are called.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{Run, Task};
use crate::summary::groups::is_rakes_own;

/// Minimum number of places that are taken as one rule. Fewer are read one by one.
const PLACES_MIN: usize = 10;

/// A place of which nothing may have begun, as a hub has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// `Rakefile:12`.
    pub place: String,
    /// All its tasks that run, ran, or are to run.
    pub total: usize,
    /// What their names have in common: of one task its name.
    pub pattern: Option<String>,
}

/// Which places are taken as one rule.
#[derive(Debug, Default)]
pub struct Alike {
    /// Of each of these places what its rule is known by, `out/*.txt`.
    rule_of: BTreeMap<String, String>,
    /// Of each such rule its places.
    places: BTreeMap<String, usize>,
    /// Of each such rule the first of them in the Rakefile, by number.
    first: BTreeMap<String, u32>,
}

impl Alike {
    /// Those of a run, of whose places that have not begun `awaited` tells.
    pub fn of(run: &Run, awaited: &[Awaited]) -> Self {
        let tasks = tasks_by_place(run);
        let many: BTreeSet<&str> =
            awaited.iter().filter(|it| it.total > 1).map(|it| it.place.as_str()).collect();
        let mut singles: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (place, (count, task)) in &tasks {
            if *count == 1
                && !many.contains(place.as_str())
                && let Some(shape) = shape(&task.defined.name.to_display())
            {
                singles.entry(shape).or_default().push(place.clone());
            }
        }
        for it in awaited.iter().filter(|it| it.total == 1 && !tasks.contains_key(&it.place)) {
            if let Some(shape) = it.pattern.as_deref().and_then(shape) {
                singles.entry(shape).or_default().push(it.place.clone());
            }
        }
        let mut alike = Self::default();
        for (shape, places) in singles.into_iter().filter(|(_, it)| it.len() >= PLACES_MIN) {
            alike.places.insert(shape.clone(), places.len());
            alike.rule_of.extend(places.into_iter().map(|place| (place, shape.clone())));
        }
        alike.note_first(run);
        alike
    }

    fn note_first(&mut self, run: &Run) {
        if self.is_empty() {
            return;
        }
        for (rule, number) in run.rules.iter().zip(0..) {
            let place = rule.as_ref().map(|rule| rule.location.to_display());
            if let Some(together) = place.and_then(|place| self.rule_of.get(&place)) {
                self.first.entry(together.clone()).or_insert(number);
            }
        }
    }

    /// What the rule of a place is known by, where that is one of several places.
    pub fn rule_of(&self, place: &str) -> Option<&str> {
        self.rule_of.get(place).map(String::as_str)
    }

    /// Whether each place is a rule.
    pub fn is_empty(&self) -> bool {
        self.rule_of.is_empty()
    }

    /// The first place of this rule.
    pub fn first(&self, rule: &str) -> Option<u32> {
        self.first.get(rule).copied()
    }

    /// How many places this rule has.
    pub fn places(&self, rule: &str) -> usize {
        self.places.get(rule).copied().unwrap_or(0)
    }
}

/// How many tasks have their action at each place, and one of them; but for what rake itself defines.
fn tasks_by_place(run: &Run) -> BTreeMap<String, (usize, &Task)> {
    let mut by_rule: Vec<Option<(usize, &Task)>> = vec![None; run.rules.len()];
    for task in run.tasks.iter().flatten() {
        let rule = task.defined.rule.and_then(|rule| by_rule.get_mut(rule as usize));
        if let Some(found) = rule {
            found.get_or_insert((0, task)).0 += 1;
        }
    }
    let mut by_place: BTreeMap<String, (usize, &Task)> = BTreeMap::new();
    for (rule, found) in run.rules.iter().zip(by_rule) {
        let (Some(rule), Some((count, task))) = (rule, found) else { continue };
        if !is_rakes_own(task, &rule.location.0) {
            by_place.entry(rule.location.to_display()).or_insert((0, task)).0 += count;
        }
    }
    by_place
}

/// What names that are alike have in common: the folder and the extensions of a file, `out/*.sorted.bam`; of a name
/// without extension all but its numbers, `o/*`. `None`: it has neither, and is like no other.
fn shape(name: &str) -> Option<String> {
    let (folder, file) = name.split_at(name.rfind('/').map_or(0, |slash| slash + 1));
    let mut parts: Vec<&str> = file.split('.').collect();
    let is_extension =
        |part: &&&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let count = parts.iter().skip(1).rev().take_while(is_extension).count();
    if count == 0 || parts[0].is_empty() {
        return Some(without_numbers(name)).filter(|shape| shape != name);
    }
    let extensions = parts.split_off(parts.len() - count);
    Some(format!("{}*.{}", without_numbers(folder), extensions.join(".")))
}

fn without_numbers(name: &str) -> String {
    let mut kept = String::new();
    for letter in name.chars() {
        match letter {
            '0'..='9' if kept.ends_with('*') => {}
            '0'..='9' => kept.push('*'),
            letter => kept.push(letter),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::reader::read_events;

    /// A place for each task with its program. `None`: it was not begun.
    fn run(tasks: &[(String, Option<&str>)]) -> Run {
        let mut lines =
            String::from("{\"event\":\"run_started\",\"version\":2,\"time_ns\":1,\"run\":\"r\"}\n");
        for (number, (name, program)) in tasks.iter().enumerate() {
            write!(lines,
                "{{\"event\":\"rule_defined\",\"rule\":{number},\"location\":\"Rakefile:{number}\"}}\n\
                 {{\"event\":\"task_defined\",\"task\":{number},\"name\":\"{name}\",\"kind\":\"file\",\"action\":true,\"rule\":{number}}}\n"
            ).unwrap();
            if let Some(program) = program {
                write!(lines,
                    "{{\"event\":\"attempt_started\",\"time_ns\":1,\"task\":{number},\"attempt\":1,\"node\":0,\"cores\":1}}\n\
                     {{\"event\":\"command_started\",\"time_ns\":1,\"command\":{number},\"task\":{number},\"line\":\"{program} x\"}}\n"
                ).unwrap();
            }
        }
        let mut run = Run::default();
        read_events(lines.as_bytes(), |event| run.add(event)).unwrap();
        run
    }

    fn named(
        count: usize,
        name: impl Fn(usize) -> String,
        program: Option<&str>,
    ) -> Vec<(String, Option<&str>)> {
        (0..count).map(|number| (name(number), program)).collect()
    }

    #[test]
    fn names_are_alike_by_folder_and_extension_or_but_for_their_numbers() {
        let shape_of = |name| shape(name).unwrap_or_default();
        assert_eq!(shape_of("o/17"), "o/*");
        assert_eq!(shape_of("rule17:x"), "rule*:x");
        assert_eq!(shape_of("out/SRR17_b.fq.gz"), "out/*.fq.gz");
        assert_eq!(shape_of("out/s1.2.sorted.bam"), "out/*.sorted.bam");
        assert_eq!(shape_of("out/v1.7z"), "out/v*.*z");
        assert_eq!(shape_of("run12/a/main.o"), "run*/a/*.o");
        assert_eq!(shape_of("main.o"), "*.o");
        assert_eq!(shape("clean"), None);
        assert_eq!(shape(".profile"), None);
        assert_eq!(shape("a/b."), None);
    }

    #[test]
    fn places_are_one_rule_from_ten_on() {
        for (count, rule) in [(PLACES_MIN - 1, None), (PLACES_MIN, Some("o/*"))] {
            let alike =
                Alike::of(&run(&named(count, |number| format!("o/{number}"), Some("cp"))), &[]);
            assert_eq!(alike.rule_of("Rakefile:3"), rule);
            assert_eq!(alike.places("o/*"), rule.map_or(0, |_| count));
        }
    }

    #[test]
    fn rules_are_the_same_from_the_first_task_to_the_last() {
        let name = |number| format!("o/{number}.txt");
        let (early, late) = (named(24, name, None), {
            let mut tasks = named(12, name, Some("cp"));
            tasks.extend(named(12, |number| name(number + 12), Some("gzip")));
            tasks
        });
        for tasks in [early, late] {
            let alike = Alike::of(&run(&tasks), &[]);
            let all =
                (0..24).all(|place| alike.rule_of(&format!("Rakefile:{place}")) == Some("o/*.txt"));
            assert!(all && alike.places("o/*.txt") == 24);
        }
    }

    #[test]
    fn places_of_more_tasks_are_rules_of_their_own() {
        let mut tasks = named(12, |number| format!("o/{number}.txt"), Some("cp"));
        tasks.push(("clean".to_owned(), None));
        let mut run = run(&tasks);
        assert_eq!(Alike::of(&run, &[]).rule_of("Rakefile:12"), None);
        let second = r#"{"event":"task_defined","task":13,"name":"o/17.txt","kind":"file","action":true,"rule":0}"#;
        read_events(format!("{second}\n").as_bytes(), |event| run.add(event)).unwrap();
        assert_eq!(Alike::of(&run, &[]).rule_of("Rakefile:0"), None);
        assert_eq!(Alike::of(&run, &[]).places("o/*.txt"), 11);
    }

    #[test]
    fn they_are_one_rule_in_tables_and_in_the_graph() {
        use crate::summary::groups::Groups;
        use crate::summary::rule_graph::RuleGraph;
        let run = run(&named(12, |number| format!("o/{number}"), Some("cp")));
        let groups = Groups::of(&run);
        let [group] = &groups.list[..] else { panic!("{:?}", groups.list) };
        assert_eq!(group.label(), "o/*");
        assert_eq!(group.origin(), "cp (Rakefile:0 and 11 more places)");
        assert_eq!(group.location.as_deref(), Some("Rakefile:0"));
        let graph = RuleGraph::of(&run);
        let [node] = &graph.nodes[..] else { panic!("{:?}", graph.nodes) };
        assert_eq!((node.tasks, node.rule), (12, Some(0)));
        assert_eq!(node.location.as_deref(), Some("Rakefile:0 and 11 more places"));
    }

    #[test]
    fn places_that_have_not_begun_count_when_a_hub_tells_of_them() {
        let run = run(&named(3, |number| format!("o/{number}"), Some("cp")));
        let awaited = |place: usize, total, pattern: &str| Awaited {
            place: format!("Rakefile:{place}"),
            total,
            pattern: Some(pattern.to_owned()),
        };
        let mut told: Vec<Awaited> =
            (0..PLACES_MIN).map(|place| awaited(place, 1, &format!("o/{place}"))).collect();
        let alike = Alike::of(&run, &told);
        assert_eq!(alike.rule_of("Rakefile:0"), Some("o/*"));
        assert_eq!(alike.rule_of("Rakefile:9"), Some("o/*"));
        told[0].total = 2;
        assert_eq!(Alike::of(&run, &told).rule_of("Rakefile:1"), None, "one of them has two tasks");
    }
}
